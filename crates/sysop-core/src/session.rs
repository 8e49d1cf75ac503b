//! One session as a pure state machine: `handle` turns an [`Input`] into events and effects, `apply` changes the state.
//!
//! # Problem
//!
//! A session outlives its process. It must survive a crash between any two steps, show every front end the same
//! history, and never run a command twice or without consent. Models stall, users cancel, hosts disappear, and answers
//! arrive late or not at all. All of that must be testable without a model, a host or a clock.
//!
//! # Design
//!
//! The log is the session. [`Session::handle`] decides: from the state and one input it derives events, which say what
//! happened, and effects, which ask the driver for work. `apply` is the only function that changes the state, one event
//! at a time, so that replaying a log and living through it give the same state. The driver appends the events,
//! publishes them, then performs the effects; each effect that asks something is answered by exactly one later input
//! (`Reply`, `Surveyed`, `Outcome`, `Timer` and others).
//!
//! A turn alternates between steps and calls: `Thinking` while a model answers, `Acting` while the calls of its reply
//! are worked through one after the other, `BetweenSteps` in between. Before a call is decided, its host is surveyed
//! for facts that the policy needs (symlinks, mounts, the shell). A pending survey is deliberately not part of the
//! state: it has no effect on the world, so after a replay the host is asked again.
//!
//! ```
//! use sysop_core::event::{Effect, Input};
//! use sysop_core::session::Session;
//! use sysop_core::spec::SessionSpec;
//!
//! # let spec = serde_json::json!({
//! #     "model": "ollama/phi3", "system": "", "tools": [], "approve": "auto", "dangerous_patterns": [],
//! #     "max_iterations": 20, "max_history_messages": 40, "host": "local", "root": "/", "profile": "full"
//! # });
//! # let spec: SessionSpec = serde_json::from_value(spec).unwrap();
//! let (mut session, _opened) = Session::open(spec);
//! let output = session.handle(Input::prompt("is the disk full?"));
//! assert!(matches!(output.effects[..], [Effect::CallModel { .. }]));
//! ```
//!
//! # Rejected
//!
//! - An async function per turn, with the state in its locals: it reads well, but cannot be stored, replayed or moved
//!   to another node, and each await point is a state without a name.
//! - A transcript or snapshot in addition to the log: two records of one session diverge. Everything else is derived.
//! - Calls in parallel: the order of outputs, approvals and the shared terminal would depend on timing.
//!
//! # Invariants
//!
//! - `apply` depends on the state and the event only. `handle_at` is given the time; it reads no clock, does
//!   no I/O and draws no randomness.
//! - No call starts without `Verdict::Allow`, a logged allow for exactly that command and place, or a user who typed
//!   it.
//! - Each call of a reply gets exactly one `ToolFinished`, also on cancel, failure and crash. A call that was running
//!   at a crash becomes `interrupted` and is never run again.
//! - An answer whose step, call or attempt is no longer current changes nothing.
//! - From every reachable state some input leads to `Idle`.

mod apply;
mod auto;
mod budget;
mod chat;
mod compact;
mod decide;
mod decision;
mod direct;
mod hints;
mod instructions;
mod jobs;
mod numbers;
mod own_tools;
mod preview;
mod prompt_hooks;
mod settings;
mod state;
mod step;
mod undo;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::direct::DirectCall;
pub(crate) use self::prompt_hooks::WITHHELD_PROMPT;
use self::state::{CurrentCall, Phase, QueuedPrompt, State};
use crate::compaction::{Compaction, CompactionReason};
use crate::event::{
    CancelFollowUp, ConfigChange, Decision, Effect, Event, Input, Origin, Output, PauseReason, StopReason,
    ToolLocation,
};
use crate::guard::{ArmedGuard, GuardReport, GuardTimeout};
use crate::id::{CallId, StepId, Timestamp};
use crate::image::{ImageRef, PROMPT_IMAGES_MAX};
use crate::job::RunningJobs;
use crate::message::{FailureKind, ModelFailure, Reply, ToolCall};
use crate::mode::Mode;
use crate::model_table::ListedModel;
use crate::outcome::{Outcome, Status, TURN_STOPPED};
use crate::policy::{Fence, GrantScope, Policy, Risk, Survey};
use crate::spec::SessionSpec;
use crate::todo::TodoItem;
use crate::tool::ClientTools;

/// Grace period for a canceled tool to stop. After that, its call ends as `unknown`.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Maximum number of prompts queued behind a turn; further prompts are dropped.
pub const QUEUED_PROMPTS_MAX: usize = 32;
/// Start of the outcome of a call that a user rejected. The reason follows, if there is one.
pub const REJECTED_BY_USER: &str = "the user rejected this call; nothing ran";
/// Text that the model gets with a prompt that consists of images only.
const IMAGES_ONLY: &str = "Look at this.";

/// Error for a log that does not begin with `SessionOpened`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log does not start with a session_opened event")]
pub struct MissingSessionOpened;

/// A session: its state, and values derived from the state. Only the state is compared.
#[derive(Debug, Clone)]
pub struct Session {
    state: State,
    /// Derived from the spec and compiled on first use; excluded from comparison.
    policy: Arc<OnceLock<Policy>>,
    /// Derived on first use like `policy`, because idle sessions need no tools.
    tools: OnceLock<Arc<step::OfferedTools>>,
    /// The model's row in the built-in table; derived like `tools`.
    listed: OnceLock<Option<ListedModel>>,
    /// The call whose host is being surveyed. Not part of the state: after a replay the survey is requested again.
    survey: Option<PendingSurvey>,
    /// Number of surveys started; the source of `PendingSurvey::attempt`.
    surveys: u32,
    /// Progress of effect previews. Not part of the state, like `survey`.
    previews: preview::Previews,
    /// A compaction that is waiting for a summary. Not part of the state, like `survey`.
    summary: Option<compact::PendingSummary>,
    /// Number of summaries requested so far; used to match an answer to its request.
    summaries: u32,
    /// Progress of reading the instructions. Not part of the state: a later process reads them again.
    reading: instructions::Reading,
    /// Progress of the hooks that examine the turn's prompt.
    prompt_check: prompt_hooks::PromptCheck,
    /// A compaction to make before the next step.
    compact_next: Option<(CompactionReason, Option<String>)>,
    /// The user who made the last decision; logged if the decision was about an undo. Not part of the state.
    undo_by: Option<String>,
    /// The newest call that was started in this process, and when. Not part of the state: no call survives the process.
    running_since: Option<(CallId, Timestamp)>,
    /// Time of the newest input.
    now: Timestamp,
    /// Time at which the turn became active in this process. Not part of the state, because events record the active
    /// time.
    active_since: Option<Timestamp>,
}

/// A call that is waiting for its host's survey.
#[derive(Debug, Clone)]
struct PendingSurvey {
    call: ToolCall,
    origin: Origin,
    attempt: u32,
    place: ToolLocation,
    /// Fence of the shell that `run_command` would use.
    shell: Fence,
    /// The survey, while the hooks are being asked about the call.
    surveyed: Option<Box<Survey>>,
    /// The risk that a user saw and allowed; `None` if no approval has been requested yet.
    allowed: Option<Consent>,
}

/// Properties of a call that a user saw when allowing it. If a later survey finds a worse risk or another scope, or if
/// the guard is lost, the user is asked again.
#[derive(Debug, Clone)]
struct Consent {
    risk: Risk,
    /// Scope in which the call would run; `None` if unknown.
    scope: Option<GrantScope>,
    /// Guard that the user saw.
    guarded: Option<GuardTimeout>,
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

/// Current activity of a session, for front ends and drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No turn; a prompt starts one.
    Idle,
    /// A model request is in flight (a step, or the summary of a compaction), or is being prepared.
    Thinking,
    /// A call is waiting for a user's decision.
    AwaitingApproval,
    /// A tool is running, or a call is being reviewed: its host is surveyed, or its effect is previewed.
    Running,
    /// The turn is waiting for `Resume`.
    Paused,
}

impl Session {
    /// Opens a new session. The output holds `SessionOpened`.
    pub fn open(spec: SessionSpec) -> (Self, Output) {
        let spec = Arc::new(spec);
        let mut session = Self::blank(Arc::clone(&spec));
        let mut out = Output::default();
        session.emit(&mut out, Event::SessionOpened { spec, opened_by: None });
        (session, out)
    }

    /// Opens a new session on behalf of a user. The output holds `SessionOpened`.
    pub fn open_for(spec: SessionSpec, opened_by: String) -> (Self, Output) {
        let spec = Arc::new(spec);
        let mut session = Self::blank(Arc::clone(&spec));
        let mut out = Output::default();
        session.emit(&mut out, Event::SessionOpened { spec, opened_by: Some(opened_by) });
        (session, out)
    }

    /// Rebuilds a session from its log; performs no effects. Fails with `MissingSessionOpened` if the log does not
    /// begin with `SessionOpened`.
    pub fn replay<E: Into<Event>>(log: impl IntoIterator<Item = E>) -> Result<Self, MissingSessionOpened> {
        let mut log = log.into_iter();
        let Some(Event::SessionOpened { spec, opened_by }) = log.next().map(Into::into) else {
            return Err(MissingSessionOpened);
        };
        let mut session = Self::blank(Arc::clone(&spec));
        session.apply(Event::SessionOpened { spec, opened_by });
        session.replay_on(log);
        Ok(session)
    }

    /// Replays the next batch of a log that is too long to hold at once; performs no effects.
    pub fn replay_on<E: Into<Event>>(&mut self, log: impl IntoIterator<Item = E>) {
        for event in log {
            self.apply(event.into());
        }
    }

    fn blank(spec: Arc<SessionSpec>) -> Self {
        Self {
            state: State::new(spec),
            policy: Arc::default(),
            tools: OnceLock::new(),
            listed: OnceLock::new(),
            survey: None,
            surveys: 0,
            previews: preview::Previews::default(),
            summary: None,
            summaries: 0,
            reading: instructions::Reading::default(),
            prompt_check: prompt_hooks::PromptCheck::default(),
            compact_next: None,
            undo_by: None,
            running_since: None,
            now: Timestamp::default(),
            active_since: None,
        }
    }

    /// Returns the current settings of the session, such as its model, limits and policy.
    pub fn spec(&self) -> &SessionSpec {
        &self.state.spec
    }

    pub fn client_tools(&self) -> &ClientTools {
        &self.state.client_tools
    }

    /// Returns the mode of the next turn. The current turn keeps the mode that it began with.
    pub fn mode(&self) -> Mode {
        self.state.mode
    }

    /// Returns true if the session waits for more than a prompt: a turn goes on, or a background job runs.
    pub fn has_work(&self) -> bool {
        self.activity() != Activity::Idle || !self.jobs().is_empty()
    }

    /// Returns the current activity. A pending survey counts as `Running`, and so does a preview that delays an
    /// approval. A pending summary counts as `Thinking`, and so do instructions that are being read and prompt hooks
    /// that are being asked.
    pub fn activity(&self) -> Activity {
        if self.survey.is_some() || self.previews.delays_approval() {
            return Activity::Running;
        }
        if self.summary.is_some() || self.is_reading_instructions() || self.is_checking_prompt() {
            return Activity::Thinking;
        }
        match &self.state.phase {
            Phase::Idle => Activity::Idle,
            Phase::BetweenSteps => Activity::Paused,
            Phase::Thinking { .. } => Activity::Thinking,
            Phase::Acting { work: CurrentCall::AwaitingApproval { .. }, .. } => Activity::AwaitingApproval,
            Phase::Acting { work: CurrentCall::Running { .. }, .. } => Activity::Running,
            Phase::Acting { work: CurrentCall::Idle, .. } => Activity::Paused,
        }
    }

    /// Returns the user who opened the session; `None` in logs written by 0.1.0.
    pub fn opened_by(&self) -> Option<&str> {
        self.state.opened_by.as_deref()
    }

    pub fn compaction(&self) -> Option<&Compaction> {
        self.state.compaction.as_ref()
    }

    /// Returns the todo list, at most `LIST_ITEMS_MAX` items.
    pub fn todo(&self) -> &[TodoItem] {
        &self.state.todo
    }

    pub fn jobs(&self) -> &RunningJobs {
        &self.state.jobs
    }

    /// Returns the guards that have not ended, oldest first.
    pub fn guards(&self) -> &[ArmedGuard] {
        &self.state.guards
    }

    /// Returns the distinct users who have allowed the pending call so far.
    pub fn approvers(&self) -> &[String] {
        &self.state.approvers
    }

    /// Returns the number of prompts queued behind the current turn.
    pub fn queued(&self) -> usize {
        self.state.queue.len()
    }

    /// Returns the messages of the history, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &crate::message::Message> {
        self.state.history.messages()
    }

    /// Handles an input as of the time of the previous one; see [`handle_at`](Self::handle_at).
    pub fn handle(&mut self, input: Input) -> Output {
        self.handle_at(self.now, input)
    }

    /// Handles an input that arrives at `now`. Returns the events to append, then the effects to perform.
    ///
    /// An input that does not fit the state, such as a stale answer, returns an empty output.
    pub fn handle_at(&mut self, now: Timestamp, input: Input) -> Output {
        let nearly_spent = self.nearly_spent();
        self.now = now;
        let mut out = Output::default();
        self.end_auto_if_reached(&mut out);
        match input {
            Input::Prompt { text, images, by } => self.on_prompt(&mut out, text, images, by),
            Input::WithdrawPrompt { text, by } => self.on_withdraw_prompt(&mut out, text, by),
            Input::Direct { tool, arguments, origin, by } => {
                self.on_direct(&mut out, DirectCall { tool, arguments, origin, by });
            }
            Input::Decision { call, decision, by, person } => {
                self.on_decision(&mut out, call, decision, by, person);
            }
            Input::ApprovalTimer { call } => self.on_approval_timer(&mut out, call),
            Input::HooksAnswered { call, attempt, answer } => {
                self.on_hooks_answered(&mut out, &call, attempt, answer);
            }
            Input::PromptHooksAnswered { turn, answer } => {
                self.on_prompt_hooks_answered(&mut out, turn, answer);
            }
            Input::Cancel => self.stop(&mut out, CancelFollowUp::Nothing),
            Input::Pause => self.on_pause(&mut out),
            Input::Resume => self.on_resume(&mut out),
            Input::Retry => self.on_retry(&mut out),
            Input::Clear => self.on_clear(&mut out),
            Input::Compact { focus } => self.on_compact(&mut out, focus),
            Input::Configure { change } => self.on_configure(&mut out, change),
            Input::Reply { step, result } => self.on_reply(&mut out, step, result),
            Input::Surveyed { call, attempt, survey } => self.on_surveyed(&mut out, call, attempt, &survey),
            Input::Summarized { attempt, result } => self.on_summarized(&mut out, attempt, result),
            Input::InstructionsRead { attempt, instructions } => {
                self.on_instructions_read(&mut out, attempt, instructions);
            }
            Input::ReloadInstructions => self.on_reload_instructions(),
            Input::Previewed { attempt, lines } => self.on_previewed(&mut out, attempt, lines),
            Input::PreviewLate { attempt } => self.on_preview_late(&mut out, attempt),
            Input::PreviewCommand { call, command } => self.on_preview_command(&mut out, &call, command),
            Input::Outcome { call, outcome } => self.on_outcome(&mut out, call, outcome),
            Input::Background => self.on_background(&mut out),
            Input::BackgroundTimer { call, output } => self.on_background_timer(&mut out, &call, &output),
            Input::StopJob { job } => self.on_stop_job(&mut out, job),
            Input::JobRead { call, output } => self.on_job_read(&mut out, call, &output),
            Input::Timer { call } => self.on_timer(&mut out, call),
            Input::TurnTimer { turn } => self.on_turn_timer(&mut out, turn),
            Input::TerminalInput { by, typed } => self.emit(&mut out, Event::TerminalInput { by, typed }),
            Input::Guard { call, host, report } => self.on_guard(&mut out, call, host, report),
            Input::Recovered => self.on_recovered(&mut out),
        }
        self.advance(&mut out);
        self.end_auto_if_reached(&mut out);
        self.set_approval_timers(&mut out);
        self.warn_of_budgets(nearly_spent, &mut out);
        out
    }

    /// Applies an event and adds it to the output. The state of a live session changes in no other way.
    fn emit(&mut self, out: &mut Output, event: Event) {
        self.apply(event.clone());
        self.measure_time();
        out.events.push(event);
    }

    /// Returns true if the mode of the current turn is chat, which has no tools.
    fn is_chat(&self) -> bool {
        self.state.turn_mode == Mode::Chat
    }

    fn offered_tools(&self) -> &Arc<step::OfferedTools> {
        self.tools.get_or_init(|| {
            let own = self.own_tools();
            let vision = self.vision() == Some(true);
            Arc::new(step::OfferedTools::new(&self.state.spec, &self.state.client_tools, &own, vision))
        })
    }

    fn policy(&self) -> &Policy {
        let spec = &self.state.spec;
        self.policy.get_or_init(|| {
            Policy::new(&spec.dangerous_patterns, &spec.deny).with_options(spec.policy.clone())
        })
    }

    fn on_prompt(&mut self, out: &mut Output, text: String, mut images: Vec<ImageRef>, by: Option<String>) {
        images.truncate(PROMPT_IMAGES_MAX);
        let text = match text.trim() {
            "" if images.is_empty() => return,
            "" => IMAGES_ONLY.to_owned(),
            _ => text,
        };
        let prompt = QueuedPrompt { text, images, by };
        match self.activity() {
            Activity::Idle => {}
            Activity::Paused => {
                let waiting = self.state.queue.clone();
                self.stop_with_reason(out, StopReason::Paused, CancelFollowUp::Nothing);
                for prompt in waiting.into_iter().chain([prompt]) {
                    self.emit(out, prompt.into());
                }
                return;
            }
            Activity::Thinking | Activity::AwaitingApproval | Activity::Running => {
                if self.state.queue.len() < QUEUED_PROMPTS_MAX {
                    self.emit(out, prompt.into());
                }
                return;
            }
        }
        self.start_turn(out, prompt, Origin::Model);
    }

    fn on_withdraw_prompt(&mut self, out: &mut Output, text: String, by: Option<String>) {
        if self.state.queued_at(&text, by.as_deref()).is_some() {
            self.emit(out, Event::PromptWithdrawn { text, by });
        }
    }

    fn start_turn(&mut self, out: &mut Output, prompt: QueuedPrompt, origin: Origin) {
        let turn = self.state.turn.next();
        let QueuedPrompt { text, images, by } = prompt;
        self.emit(out, Event::TurnStarted { turn, prompt: text, origin, images, by });
        self.set_turn_timer(out);
    }

    fn on_pause(&mut self, out: &mut Output) {
        if self.state.phase != Phase::Idle && self.state.paused.is_none() {
            self.pause(out, PauseReason::Asked, None);
        }
    }

    fn on_resume(&mut self, out: &mut Output) {
        if self.state.paused.is_some() {
            self.emit(out, Event::Resumed);
            self.set_turn_timer(out);
        }
    }

    fn on_retry(&mut self, out: &mut Output) {
        if self.state.last_prompt.is_none() {
            return;
        }
        match self.activity() {
            Activity::Idle => self.after_stop(out, CancelFollowUp::Retry),
            Activity::Thinking | Activity::AwaitingApproval | Activity::Running | Activity::Paused => {
                self.stop(out, CancelFollowUp::Retry);
            }
        }
    }

    fn on_clear(&mut self, out: &mut Output) {
        match self.activity() {
            Activity::Idle => self.after_stop(out, CancelFollowUp::Clear),
            Activity::Thinking | Activity::AwaitingApproval | Activity::Running | Activity::Paused => {
                self.stop(out, CancelFollowUp::Clear);
            }
        }
    }

    fn on_configure(&mut self, out: &mut Output, change: ConfigChange) {
        let spec = &self.state.spec;
        let same = match &change {
            ConfigChange::Model(model) => *model == spec.model,
            ConfigChange::Approve(mode) => *mode == spec.approve && self.state.auto.is_none(),
            ConfigChange::Auto(bounds) => return self.on_auto(out, bounds.clone()),
            ConfigChange::Mode(mode) => *mode == self.state.mode,
            ConfigChange::Effort(effort) => spec.effort == Some(*effort),
            ConfigChange::Budget(limits) => spec.budget.updated(*limits) == spec.budget,
            ConfigChange::Revoke(grants) => {
                !self.state.grants.iter().any(|granted| grants.contains(&granted.grant))
            }
            ConfigChange::ClientTools(client_tools) => *client_tools == self.state.client_tools,
            ConfigChange::Rules { dangerous, deny, options, rules } => {
                options.as_ref().is_none_or(|options| *options == spec.policy)
                    && rules.iter().all(|rule| spec.policy.rules.contains(rule))
                    && dangerous.iter().all(|rule| spec.dangerous_patterns.contains(rule))
                    && deny.iter().all(|rule| spec.deny.contains(rule))
            }
        };
        if same {
            return;
        }
        let elsewhere = match &change {
            ConfigChange::ClientTools(client_tools) => self.relocated_approval(client_tools),
            ConfigChange::Model(_)
            | ConfigChange::Approve(_)
            | ConfigChange::Auto(_)
            | ConfigChange::Mode(_)
            | ConfigChange::Effort(_)
            | ConfigChange::Budget(_)
            | ConfigChange::Revoke(_)
            | ConfigChange::Rules { .. } => None,
        };
        let limits_time = matches!(change, ConfigChange::Budget(_)) && self.state.phase != Phase::Idle;
        self.emit(out, Event::configured(change));
        if limits_time {
            self.set_turn_timer(out);
        }
        self.review_again(out);
        if let Some(call) = elsewhere {
            // The call that the user saw is not the one that would run.
            self.withdraw_approval(out, call, "this tool now runs at another location");
        }
    }

    /// Returns the call that awaits approval if these client tools would change where or how that call runs.
    fn relocated_approval(&self, client_tools: &ClientTools) -> Option<CallId> {
        let Phase::Acting { work: CurrentCall::AwaitingApproval { call, .. }, .. } = &self.state.phase else {
            return None;
        };
        let (before, after) = (self.state.client_tools.named(&call.name), client_tools.named(&call.name));
        let same = before == after && (after.is_none() || self.state.client_tools.root == client_tools.root);
        (!same).then(|| call.id.clone())
    }

    fn on_reply(&mut self, out: &mut Output, step: StepId, result: Result<Reply, ModelFailure>) {
        if self.state.phase != (Phase::Thinking { step }) {
            return; // stale answer: the step was canceled or abandoned
        }
        match result {
            Ok(reply) => {
                let reply = self.normalize(reply);
                self.accept_reply(out, step, reply);
            }
            Err(failure) => self.fail_step(out, step, failure),
        }
    }

    /// Logs a usable reply, and ends the turn if the reply is final.
    fn accept_reply(&mut self, out: &mut Output, step: StepId, reply: Reply) {
        let ending = self.ending(&reply);
        self.emit(out, Event::Replied { step, reply });
        if let Some((reason, error)) = ending {
            self.end_turn(out, reason, error);
        }
    }

    /// Handles a failed model call. If the budget of the day is spent, the turn pauses. After a context overflow, the
    /// turn continues with a compacted context or with half of the messages, if that can help. Otherwise the turn ends.
    fn fail_step(&mut self, out: &mut Output, step: StepId, failure: ModelFailure) {
        if failure.kind == FailureKind::Budget {
            let detail = Some(failure.message.clone());
            self.emit(out, Event::ModelFailed { step, failure });
            return self.pause(out, PauseReason::Budget, detail);
        }
        let overflow = failure.kind == FailureKind::ContextOverflow;
        let mut message = failure.message.clone();
        let first_overflow = self.state.window_cap.is_none();
        self.emit(out, Event::ModelFailed { step, failure });
        if !overflow {
            return self.end_turn(out, StopReason::Failed, Some(message));
        }
        if self.can_compact_after_overflow() || (first_overflow && self.state.spec.max_history_messages == 0)
        {
            return; // the next request is shorter, or allows a shorter reply
        }
        let sent = self.state.history.window(self.state.keep).messages.len();
        let keep = sent / 2;
        if keep >= crate::history::WINDOW_MESSAGES_MIN {
            return self.emit(out, Event::Compacted { keep });
        }
        if self.state.spec.max_history_messages == 0
            && let Some(advice) = self.overflow_advice()
        {
            message = format!("{message}; {advice}");
        }
        self.end_turn(out, StopReason::Failed, Some(message));
    }

    fn on_outcome(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        if self.end_job(out, &call, &outcome) {
            return;
        }
        if self.state.running_call().is_none_or(|running| running.id != call) {
            return; // stale answer: the call was abandoned after its grace period
        }
        self.finish_and_requeue(out, call, outcome);
    }

    /// Ends the running call and requeues the prompts that arrived after the cancel request.
    fn finish_and_requeue(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        let later = match self.state.cancel_requested {
            Some(_) => self.state.queue.clone(),
            None => VecDeque::new(),
        };
        self.finish(out, call, outcome);
        for prompt in later {
            self.emit(out, prompt.into());
        }
    }

    /// Ends the running call. Also ends a direct turn, or a turn that is being canceled.
    fn finish(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        let error = (outcome.status != Status::Ok).then(|| decide::failure_sentence(&outcome));
        let undone = self.undone_by(&call, &outcome);
        self.emit(out, Event::ToolFinished { call, outcome });
        if let Some(undone) = undone {
            self.emit(out, undone);
        }
        if let Some(then) = self.state.cancel_requested {
            self.stop_with_reason(out, StopReason::Cancelled, then);
        } else if self.state.direct {
            let reason = if error.is_none() { StopReason::EndTurn } else { StopReason::Failed };
            self.end_turn(out, reason, error);
        }
    }

    fn on_timer(&mut self, out: &mut Output, call: CallId) {
        let given_up = self.state.cancel_requested.is_some()
            && self.state.running_call().is_some_and(|running| running.id == call);
        if given_up {
            let text = format!("the call did not stop within {} s; outcome unknown", STOP_GRACE.as_secs());
            self.finish_and_requeue(out, call, Outcome::new(Status::Unknown, text));
        }
    }

    /// Handles a replay after a crash. A running call becomes `interrupted`, a model call fails, jobs end as `unknown`,
    /// and the turn waits for a user.
    fn on_recovered(&mut self, out: &mut Output) {
        self.lose_jobs(out);
        self.set_auto_timer(out);
        match self.activity() {
            Activity::Idle => return,
            Activity::AwaitingApproval => return self.resume_approval(out),
            Activity::Paused if self.state.paused.is_some() => return,
            Activity::Paused => {}
            Activity::Thinking => {
                let step = self.state.step;
                let failure = ModelFailure {
                    kind: FailureKind::Unreachable,
                    message: "sysop exited while the model was answering".to_owned(),
                };
                self.emit(out, Event::ModelFailed { step, failure });
            }
            Activity::Running => {
                let call = self.state.running_call().expect("a call is running").id.clone();
                let text = "sysop exited while this was running; outcome unknown, not retried";
                self.finish(out, call, Outcome::new(Status::Interrupted, text));
            }
        }
        if self.state.phase != Phase::Idle {
            self.pause(out, PauseReason::Interrupted, None);
        }
    }

    /// Stops all work. A running tool has `STOP_GRACE` to stop, and the turn ends once it has stopped.
    fn stop(&mut self, out: &mut Output, then: CancelFollowUp) {
        let reason = match self.state.paused {
            Some(PauseReason::Loop | PauseReason::Interrupted | PauseReason::Budget)
                if self.activity() == Activity::Paused =>
            {
                StopReason::Paused
            }
            Some(_) | None => StopReason::Cancelled,
        };
        self.cancel_instructions();
        self.cancel_prompt_check();
        let waited = self.cancel_summary(out);
        match &self.state.phase {
            Phase::Idle if waited => self.after_stop(out, then),
            Phase::Idle => {}
            Phase::Acting { work: CurrentCall::Running { call, .. }, .. } => {
                let (call, before) = (call.id.clone(), self.state.cancel_requested);
                if before != Some(then) || !self.state.queue.is_empty() {
                    self.emit(out, Event::CancelAsked { then }); // the latest follow-up wins
                }
                if before.is_none() {
                    out.effects.push(Effect::CancelTool { call: call.clone() });
                    out.effects.push(Effect::SetTimer { call, after: STOP_GRACE });
                }
            }
            Phase::Thinking { step } => {
                out.effects.push(Effect::CancelModel { step: *step });
                self.stop_with_reason(out, reason, then);
            }
            Phase::BetweenSteps | Phase::Acting { .. } => self.stop_with_reason(out, reason, then),
        }
    }

    /// Ends a turn in which nothing runs. Every open call gets its `ToolFinished` first.
    fn stop_with_reason(&mut self, out: &mut Output, reason: StopReason, then: CancelFollowUp) {
        self.survey = None;
        self.cancel_preview(out);
        for (call, asked) in self.state.open_calls() {
            if asked {
                let decision = Decision::Reject { reason: TURN_STOPPED.to_owned() };
                self.emit(
                    out,
                    Event::Decided { call: call.clone(), decision, by: Decision::BY_SYSOP.to_owned() },
                );
            }
            self.emit(out, Event::ToolFinished { call, outcome: Outcome::not_run() });
        }
        self.end_turn(out, reason, None);
        self.after_stop(out, then);
    }

    fn after_stop(&mut self, out: &mut Output, then: CancelFollowUp) {
        match then {
            CancelFollowUp::Nothing => {}
            CancelFollowUp::Clear => self.emit(out, Event::HistoryCleared),
            CancelFollowUp::Retry => {
                let Some(text) = self.state.last_prompt.clone() else { return };
                let (images, by) = (self.state.last_images.clone(), self.state.last_sender.clone());
                let prompt = QueuedPrompt { text, images, by };
                self.emit(out, Event::HistoryCleared);
                self.start_turn(out, prompt, Origin::Model);
            }
        }
    }

    /// Starts a call that may run. Client tools get no fence here, because the client applies its own config.
    fn run(
        &mut self,
        out: &mut Output,
        call: ToolCall,
        origin: Origin,
        fence: Fence,
        guard: Option<GuardTimeout>,
    ) {
        self.emit(out, Event::ToolStarted { call: call.clone(), origin });
        self.running_since = Some((call.id.clone(), self.now));
        let place = self.location(&call);
        let fence = if place == ToolLocation::Host { fence } else { Fence::Off };
        let call = self.with_default_limits(call);
        self.set_background_timer(out, &call);
        let guard = guard.filter(|_| place == ToolLocation::Host);
        out.effects.push(Effect::RunTool { call, place, fence, guard });
    }

    /// Logs a host's report about the guard of a call.
    fn on_guard(&mut self, out: &mut Output, call: CallId, host: String, report: GuardReport) {
        match report {
            GuardReport::Armed { seconds } => self.emit(out, Event::GuardArmed { call, host, seconds }),
            GuardReport::Ended { how } => {
                let open = self.state.guards.iter().any(|guard| guard.call == call && guard.host == host);
                if open {
                    self.emit(out, Event::GuardEnded { call, host, how });
                }
            }
        }
    }

    fn location(&self, call: &ToolCall) -> ToolLocation {
        match self.state.client_tools.named(&call.name) {
            Some(_) => ToolLocation::Client,
            None => ToolLocation::Host,
        }
    }
}
