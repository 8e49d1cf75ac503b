//! One session as a state machine: what the world tells it comes in as `Input`, what is to be done goes out.
//!
//! It must never do IO, read a clock or draw randomness. State changes in `apply` only, so that a replay of the
//! log and the live session are the same machine; `handle` decides, `apply` remembers.

mod apply;
mod chat;
mod decide;
mod state;
mod step;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};

use self::state::{CurrentCall, Phase, State};
use crate::compaction::Compaction;
use crate::event::{
    CancelFollowUp, ConfigChange, Decision, Effect, Event, Input, Origin, Output, PauseReason, StopReason,
    ToolLocation,
};
use crate::guard::ArmedGuard;
use crate::id::{CallId, StepId, TurnId};
use crate::job::RunningJobs;
use crate::message::{Arguments, FailureKind, ModelFailure, Reply, ToolCall};
use crate::mode::Mode;
use crate::outcome::{Outcome, Status};
use crate::policy::{CommandContext, Fence, GrantScope, Policy, Risk, Survey, Verdict};
use crate::spec::SessionSpec;
use crate::todo::TodoItem;
use crate::tool::{ClientTools, ToolEffect};

/// How long a tool may take to stop before its call is given up as `unknown`.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How many prompts may wait for the end of a turn; one more is not taken.
pub const QUEUED_PROMPTS_MAX: usize = 32;
/// The tool that puts back what file tools changed; a host knows it, models are not offered it.
pub const UNDO_TOOL: &str = "undo";
/// Who is named where nobody could answer an approval any more.
const BY_SYSOP: &str = "sysop";

/// A log does not begin with `SessionOpened`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log does not begin with the opening of a session")]
pub struct MissingSessionOpened;

/// One session.
#[derive(Debug, Clone)]
pub struct Session {
    state: State,
    /// Derived from the spec, compiled when first needed; not part of the state that is compared.
    policy: Arc<OnceLock<Policy>>,
    /// As the policy: many a session rests for long, and its tools are not needed for that.
    tools: OnceLock<Arc<step::OfferedTools>>,
    /// The call whose circumstances the host is asked about. Not part of the state: after a replay it is asked again.
    survey: Option<PendingSurvey>,
    /// How many surveys there were.
    surveys: u32,
}

/// A call that waits for what its host tells of it.
#[derive(Debug, Clone)]
struct PendingSurvey {
    call: ToolCall,
    origin: Origin,
    attempt: u32,
    place: ToolLocation,
    /// The fence of the shell that `run_command` would use.
    shell: Fence,
    /// What a user saw and allowed; `None` if nobody was asked yet.
    allowed: Option<Consent>,
}

/// What a user saw of a call that they allowed.
#[derive(Debug, Clone)]
struct Consent {
    risk: Risk,
    /// Where it would run.
    scope: Option<GrantScope>,
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

/// What a session is doing, for front ends and drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Nothing; a prompt starts a turn.
    Idle,
    /// A model call runs.
    Thinking,
    /// A person is asked.
    AwaitingApproval,
    /// A tool runs.
    Running,
    /// It waits for `Resume`.
    Paused,
}

impl Session {
    /// Opens a new session; the output holds its first event.
    pub fn open(spec: SessionSpec) -> (Self, Output) {
        let mut session = Self::blank(spec.clone());
        let mut out = Output::default();
        session.emit(&mut out, Event::SessionOpened { spec, opened_by: None });
        (session, out)
    }

    /// Opens a new session for a person; the output holds its first event.
    pub fn open_for(spec: SessionSpec, opened_by: String) -> (Self, Output) {
        let mut session = Self::blank(spec.clone());
        let mut out = Output::default();
        session.emit(&mut out, Event::SessionOpened { spec, opened_by: Some(opened_by) });
        (session, out)
    }

    /// Rebuilds a session from its log; performs nothing.
    ///
    /// # Errors
    /// When the log does not begin with `SessionOpened`.
    pub fn replay<E: Into<Event>>(log: impl IntoIterator<Item = E>) -> Result<Self, MissingSessionOpened> {
        let mut log = log.into_iter();
        let Some(Event::SessionOpened { spec, opened_by }) = log.next().map(Into::into) else {
            return Err(MissingSessionOpened);
        };
        let mut session = Self::blank(spec.clone());
        session.apply(Event::SessionOpened { spec, opened_by });
        session.replay_on(log);
        Ok(session)
    }

    /// Replays the next part of a log that is too long to hold at once; performs nothing.
    pub fn replay_on<E: Into<Event>>(&mut self, log: impl IntoIterator<Item = E>) {
        for event in log {
            self.apply(event.into());
        }
    }

    fn blank(spec: SessionSpec) -> Self {
        Self {
            state: State::new(spec),
            policy: Arc::default(),
            tools: OnceLock::new(),
            survey: None,
            surveys: 0,
        }
    }

    /// How the session works now.
    pub fn spec(&self) -> &SessionSpec {
        &self.state.spec
    }

    /// The tools that run on a client.
    pub fn client_tools(&self) -> &ClientTools {
        &self.state.client_tools
    }

    /// With tools (`agent`) or without (`chat`), from the next turn on.
    pub fn mode(&self) -> Mode {
        self.state.mode
    }

    /// What it is doing.
    pub fn activity(&self) -> Activity {
        if self.survey.is_some() {
            return Activity::Running;
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

    /// The person who opened it; `None` in logs of 0.1.0.
    pub fn opened_by(&self) -> Option<&str> {
        self.state.opened_by.as_deref()
    }

    /// The last compaction of this history.
    pub fn compaction(&self) -> Option<&Compaction> {
        self.state.compaction.as_ref()
    }

    /// The todo list.
    pub fn todo(&self) -> &[TodoItem] {
        &self.state.todo
    }

    /// The background jobs that run.
    pub fn jobs(&self) -> &RunningJobs {
        &self.state.jobs
    }

    /// The guards that have not ended, the oldest first.
    pub fn guards(&self) -> &[ArmedGuard] {
        &self.state.guards
    }

    /// The different people who allowed the call that waits.
    pub fn approvers(&self) -> &[String] {
        &self.state.approvers
    }

    /// How many prompts wait for the end of the turn.
    pub fn queued(&self) -> usize {
        self.state.queue.len()
    }

    /// The messages of the history, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &crate::message::Message> {
        self.state.history.messages()
    }

    /// Takes one input to the events and effects that it leads to.
    pub fn handle(&mut self, input: Input) -> Output {
        let mut out = Output::default();
        match input {
            Input::Prompt { text } => self.on_prompt(&mut out, text),
            Input::Direct { tool, arguments, origin } => self.on_direct(&mut out, tool, arguments, origin),
            Input::Decision { call, decision, by } => self.on_decision(&mut out, call, decision, by),
            Input::Cancel => self.stop(&mut out, CancelFollowUp::Nothing),
            Input::Pause => self.on_pause(&mut out),
            Input::Resume => self.on_resume(&mut out),
            Input::Retry => self.on_retry(&mut out),
            Input::Clear => self.on_clear(&mut out),
            Input::Configure { change } => self.on_configure(&mut out, change),
            Input::Reply { step, result } => self.on_reply(&mut out, step, result),
            Input::Surveyed { call, attempt, survey } => self.on_surveyed(&mut out, call, attempt, &survey),
            Input::Outcome { call, outcome } => self.on_outcome(&mut out, call, outcome),
            Input::Timer { call } => self.on_timer(&mut out, call),
            Input::TerminalInput { by, typed } => self.emit(&mut out, Event::TerminalInput { by, typed }),
            Input::Recovered => self.on_recovered(&mut out),
        }
        self.advance(&mut out);
        out
    }

    /// Applies an event and puts it into the output: the one way in which a live session changes.
    fn emit(&mut self, out: &mut Output, event: Event) {
        self.apply(event.clone());
        out.events.push(event);
    }

    /// Whether the turn is one without tools.
    fn is_chat(&self) -> bool {
        self.state.turn_mode == Mode::Chat
    }

    fn offered_tools(&self) -> &Arc<step::OfferedTools> {
        self.tools
            .get_or_init(|| Arc::new(step::OfferedTools::new(&self.state.spec, &self.state.client_tools)))
    }

    fn policy(&self) -> &Policy {
        let spec = &self.state.spec;
        self.policy.get_or_init(|| {
            Policy::new(&spec.dangerous_patterns, &spec.deny).with_options(spec.policy.clone())
        })
    }

    fn on_prompt(&mut self, out: &mut Output, text: String) {
        if text.trim().is_empty() {
            return;
        }
        match self.activity() {
            Activity::Idle => {}
            Activity::Paused => {
                let waiting = self.state.queue.clone();
                self.stop_with_reason(out, StopReason::Paused, CancelFollowUp::Nothing);
                for text in waiting.into_iter().chain([text]) {
                    self.emit(out, Event::PromptQueued { text });
                }
                return;
            }
            Activity::Thinking | Activity::AwaitingApproval | Activity::Running => {
                if self.state.queue.len() < QUEUED_PROMPTS_MAX {
                    self.emit(out, Event::PromptQueued { text });
                }
                return;
            }
        }
        self.start_turn(out, text, Origin::Model);
    }

    fn start_turn(&mut self, out: &mut Output, prompt: String, origin: Origin) {
        let turn = self.state.turn.next();
        self.emit(out, Event::TurnStarted { turn, prompt, origin });
    }

    /// One call without a model. A paused turn is given up for it; while a turn runs it is not taken.
    fn on_direct(&mut self, out: &mut Output, tool: String, arguments: Map<String, Value>, origin: Origin) {
        let waiting = match self.activity() {
            Activity::Idle => VecDeque::new(),
            Activity::Paused => {
                let waiting = self.state.queue.clone();
                self.stop_with_reason(out, StopReason::Paused, CancelFollowUp::Nothing);
                waiting
            }
            Activity::Thinking | Activity::AwaitingApproval | Activity::Running => return,
        };
        self.call_directly(out, tool, arguments, origin);
        for text in waiting {
            self.emit(out, Event::PromptQueued { text });
        }
    }

    fn call_directly(
        &mut self,
        out: &mut Output,
        tool: String,
        arguments: Map<String, Value>,
        origin: Origin,
    ) {
        self.start_turn(out, String::new(), origin);
        let arguments = if tool == UNDO_TOOL {
            let Some(changes) = self.state.changes.last() else {
                let error = "no file change to undo in this session".to_owned();
                return self.end_turn(out, StopReason::Failed, Some(error));
            };
            let changes = serde_json::to_value(&changes.files).expect("file changes are plain data");
            Map::from_iter([("changes".to_owned(), changes)])
        } else {
            arguments
        };
        let id = self.state.unique_id(&format!("direct_{}", self.state.turn));
        let call = ToolCall { id, wire_id: None, name: tool, arguments: Arguments::Object(arguments) };
        self.review_call(out, call, origin);
    }

    fn on_decision(&mut self, out: &mut Output, id: CallId, decision: Decision, by: String) {
        if self.survey.is_some() {
            return; // it was answered already
        }
        let Some((call, asked, origin)) = self.state.waiting_call(&id) else { return };
        let (call, risk, scope) = (call.clone(), asked.risk.clone(), asked.scope.clone());
        let edited = match &decision {
            Decision::Allow { command } | Decision::AllowSession { command } => command.clone(),
            Decision::Reject { .. } => None,
        };
        let is_command =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Command);
        if edited.is_some() && !is_command {
            return; // only commands can be edited; running the call as it was is not what the person saw
        }
        // An edited command was not judged yet; what the person wrote, they saw.
        let risk = match &edited {
            Some(command) => self.risk_as_written(command),
            None => risk,
        };
        if matches!(&decision, Decision::AllowSession { .. }) && risk.class.always_asks() {
            return; // nothing covers such a call for longer than once: it still waits
        }
        let stops =
            matches!(&decision, Decision::Reject { reason } if reason.trim().eq_ignore_ascii_case("stop"));
        let refused = match &decision {
            Decision::Reject { reason } if reason.trim().is_empty() => {
                Some("the person refused this; nothing ran".to_owned())
            }
            Decision::Reject { reason } => {
                Some(format!("the person refused this; nothing ran. They say: {reason}"))
            }
            Decision::Allow { .. } | Decision::AllowSession { .. } => None,
        };
        self.emit(out, Event::Decided { call: id.clone(), decision, by });
        if let Some(reason) = refused {
            self.emit(out, Event::ToolFinished { call: id, outcome: Outcome::new(Status::Rejected, reason) });
            if stops || self.state.direct {
                self.stop(out, CancelFollowUp::Nothing);
            }
            return;
        }
        let call = match edited {
            Some(command) => decide::with_command(call, command),
            None => call,
        };
        self.start_survey(out, call, origin, Some(Consent { risk, scope }));
    }

    fn on_pause(&mut self, out: &mut Output) {
        if self.state.phase != Phase::Idle && self.state.paused.is_none() {
            self.emit(out, Event::Paused { reason: PauseReason::Asked });
        }
    }

    fn on_resume(&mut self, out: &mut Output) {
        if self.state.paused.is_some() {
            self.emit(out, Event::Resumed);
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
            ConfigChange::Approve(mode) => *mode == spec.approve,
            ConfigChange::Mode(mode) => *mode == self.state.mode,
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
            | ConfigChange::Mode(_)
            | ConfigChange::Rules { .. } => None,
        };
        self.emit(out, Event::Configured { change });
        if let Some(call) = elsewhere {
            self.withdraw_approval(out, call);
        }
    }

    /// The call that a person is asked about, if it would run elsewhere or otherwise with these tools.
    fn relocated_approval(&self, client_tools: &ClientTools) -> Option<CallId> {
        let Phase::Acting { work: CurrentCall::AwaitingApproval { call, .. }, .. } = &self.state.phase else {
            return None;
        };
        let (before, after) = (self.state.client_tools.named(&call.name), client_tools.named(&call.name));
        let same = before == after && (after.is_none() || self.state.client_tools.root == client_tools.root);
        (!same).then(|| call.id.clone())
    }

    /// Takes back what a person is asked about: what they saw is not what would happen.
    fn withdraw_approval(&mut self, out: &mut Output, call: CallId) {
        self.survey = None;
        let why = "this tool runs elsewhere now";
        let decision = Decision::Reject { reason: why.to_owned() };
        self.emit(out, Event::Decided { call: call.clone(), decision, by: BY_SYSOP.to_owned() });
        let outcome =
            Outcome::new(Status::Rejected, format!("not run: {why}; call it again if it is still wanted"));
        self.finish(out, call, outcome);
    }

    fn on_reply(&mut self, out: &mut Output, step: StepId, result: Result<Reply, ModelFailure>) {
        if self.state.phase != (Phase::Thinking { step }) {
            return; // a stale answer: that step was cancelled or given up
        }
        match result {
            Ok(reply) => {
                let reply = self.normalize(reply);
                self.accept_reply(out, step, reply);
            }
            Err(failure) => self.fail_step(out, step, failure),
        }
    }

    /// A reply that can be used: logs it; a turn that it ends, ends.
    fn accept_reply(&mut self, out: &mut Output, step: StepId, reply: Reply) {
        let ending = self.ending(&reply);
        self.emit(out, Event::Replied { step, reply });
        if let Some((reason, error)) = ending {
            self.end_turn(out, reason, error);
        }
    }

    /// A model call that failed: too long a prompt is shortened, anything else ends the turn.
    fn fail_step(&mut self, out: &mut Output, step: StepId, failure: ModelFailure) {
        let overflow = failure.kind == FailureKind::ContextOverflow;
        let message = failure.message.clone();
        self.emit(out, Event::ModelFailed { step, failure });
        let sent = self.state.history.window(self.state.keep).messages.len();
        let keep = sent / 2;
        if overflow && keep >= crate::history::WINDOW_MESSAGES_MIN {
            self.emit(out, Event::Compacted { keep });
        } else {
            self.end_turn(out, StopReason::Failed, Some(message));
        }
    }

    fn on_outcome(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        if self.state.running_call().is_none_or(|running| running.id != call) {
            return; // a stale answer: the call was given up after its grace
        }
        self.finish_and_requeue(out, call, outcome);
    }

    /// The running call ended while this process watched: prompts that came after the wish to stop are kept.
    fn finish_and_requeue(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        let later = match self.state.cancel_requested {
            Some(_) => self.state.queue.clone(),
            None => VecDeque::new(),
        };
        self.finish(out, call, outcome);
        for text in later {
            self.emit(out, Event::PromptQueued { text });
        }
    }

    /// The running call ended: a direct turn and a turn that is being stopped end with it.
    fn finish(&mut self, out: &mut Output, call: CallId, outcome: Outcome) {
        let error = (outcome.status != Status::Ok).then(|| decide::failure_sentence(&outcome));
        self.emit(out, Event::ToolFinished { call, outcome });
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
            let text = format!("it did not stop within {} s; outcome unknown", STOP_GRACE.as_secs());
            self.finish_and_requeue(out, call, Outcome::new(Status::Unknown, text));
        }
    }

    /// After a replay: what was running is interrupted, and the turn waits for a person.
    fn on_recovered(&mut self, out: &mut Output) {
        match self.activity() {
            Activity::Idle | Activity::AwaitingApproval => return,
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
                let call = self.state.running_call().expect("a call runs").id.clone();
                let text = "sysop exited while this was running; outcome unknown, not retried";
                self.finish(out, call, Outcome::new(Status::Interrupted, text));
            }
        }
        if self.state.phase != Phase::Idle {
            self.emit(out, Event::Paused { reason: PauseReason::Interrupted });
        }
    }

    /// Stops whatever goes on. A running tool is given time to stop; the turn ends when it has.
    fn stop(&mut self, out: &mut Output, then: CancelFollowUp) {
        let reason = match self.state.paused {
            Some(PauseReason::Loop | PauseReason::Interrupted | PauseReason::Budget)
                if self.activity() == Activity::Paused =>
            {
                StopReason::Paused
            }
            Some(_) | None => StopReason::Cancelled,
        };
        match &self.state.phase {
            Phase::Idle => {}
            Phase::Acting { work: CurrentCall::Running { call, .. }, .. } => {
                let (call, before) = (call.id.clone(), self.state.cancel_requested);
                if before != Some(then) || !self.state.queue.is_empty() {
                    self.emit(out, Event::CancelAsked { then }); // the newest wish counts
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

    /// Ends a turn in which nothing runs: each open call gets its end first.
    fn stop_with_reason(&mut self, out: &mut Output, reason: StopReason, then: CancelFollowUp) {
        self.survey = None;
        for (call, asked) in self.state.open_calls() {
            if asked {
                let decision = Decision::Reject { reason: "the turn was stopped".to_owned() };
                self.emit(out, Event::Decided { call: call.clone(), decision, by: BY_SYSOP.to_owned() });
            }
            let outcome = Outcome::new(Status::Cancelled, "not run: the turn was stopped");
            self.emit(out, Event::ToolFinished { call, outcome });
        }
        self.end_turn(out, reason, None);
        self.after_stop(out, then);
    }

    fn after_stop(&mut self, out: &mut Output, then: CancelFollowUp) {
        match then {
            CancelFollowUp::Nothing => {}
            CancelFollowUp::Clear => self.emit(out, Event::HistoryCleared),
            CancelFollowUp::Retry => {
                let Some(prompt) = self.state.last_prompt.clone() else { return };
                self.emit(out, Event::HistoryCleared);
                self.start_turn(out, prompt, Origin::Model);
            }
        }
    }

    fn end_turn(&mut self, out: &mut Output, reason: StopReason, error: Option<String>) {
        let turn: TurnId = self.state.turn;
        self.emit(out, Event::TurnEnded { turn, reason, error });
    }

    /// Starts a call that may run. A client fences what runs on it by its own config.
    fn run(&mut self, out: &mut Output, call: ToolCall, origin: Origin, fence: Fence) {
        self.emit(out, Event::ToolStarted { call: call.clone(), origin });
        let place = self.location(&call);
        let fence = if place == ToolLocation::Host { fence } else { Fence::Off };
        out.effects.push(Effect::RunTool { call, place, fence });
    }

    fn location(&self, call: &ToolCall) -> ToolLocation {
        match self.state.client_tools.named(&call.name) {
            Some(_) => ToolLocation::Client,
            None => ToolLocation::Host,
        }
    }

    /// Begins the review of a call: it gets its end at once, or its host is asked about its circumstances.
    fn review_call(&mut self, out: &mut Output, call: ToolCall, origin: Origin) {
        if self.is_chat() && !self.state.direct {
            return self.finish(out, call.id, Outcome::failed(chat::NO_TOOLS));
        }
        let tools = Arc::clone(self.offered_tools());
        match tools.check(&call) {
            Ok(spec) if spec.effect == ToolEffect::Completes => {
                if let Some(unseen) = self.unseen_results(&call) {
                    let why = format!("you have not seen {unseen}; call it again when you have");
                    return self.finish(out, call.id, Outcome::new(Status::Rejected, why));
                }
                let summary = call.text_argument("summary").unwrap_or_default().to_owned();
                self.finish(out, call.id, Outcome::ok(summary));
            }
            Ok(_) => self.start_survey(out, call, origin, None),
            Err(_) if origin == Origin::User => self.start_survey(out, call, origin, None),
            Err(error) => self.finish(out, call.id, Outcome::failed(error)),
        }
    }

    fn start_survey(&mut self, out: &mut Output, call: ToolCall, origin: Origin, allowed: Option<Consent>) {
        self.surveys = self.surveys.wrapping_add(1);
        let (attempt, place) = (self.surveys, self.location(&call));
        let shell = self.shell_fence(origin);
        out.effects.push(Effect::Survey { call: call.clone(), place, shell: shell.clone(), attempt });
        self.survey = Some(PendingSurvey { call, origin, attempt, place, shell, allowed });
    }

    /// The fence of the shell that `run_command` would use.
    fn shell_fence(&self, origin: Origin) -> Fence {
        match origin {
            Origin::User => Fence::Off,
            Origin::Model | Origin::Routine => self.policy().shell_fence(self.state.spec.approve),
        }
    }

    fn on_surveyed(&mut self, out: &mut Output, id: CallId, attempt: u32, survey: &Survey) {
        let Some(pending) =
            self.survey.take_if(|pending| pending.attempt == attempt && pending.call.id == id)
        else {
            return; // a stale answer: that call was given up, or is surveyed again
        };
        let PendingSurvey { call, origin, place, shell, allowed, .. } = pending;
        if place != self.location(&call) || shell != self.shell_fence(origin) {
            return self.start_survey(out, call, origin, allowed); // its tool or its shell is another one meanwhile
        }
        if let Some(why) = self
            .denial_reason(&call, survey)
            .filter(|_| origin == Origin::User || (allowed.is_some() && survey.unreachable.is_none()))
        {
            return self.finish(out, id, Outcome::new(Status::Rejected, why));
        }
        if let Some(why) = &survey.unreachable {
            if origin != Origin::Model {
                // No reply of a model holds it: the log tells by its start what failed.
                self.emit(out, Event::ToolStarted { call, origin });
            }
            return self.finish(out, id, Outcome::failed(why.clone()));
        }
        if origin == Origin::User {
            return self.run(out, call, origin, Fence::Off);
        }
        let tools = Arc::clone(self.offered_tools());
        let review = match tools.check(&call) {
            Ok(spec) => decide::CallReview::new(self, spec, &call, survey),
            Err(error) => return self.finish(out, id, Outcome::failed(error)),
        };
        let decide::CallReview { assessment, command, reason, fence } = review;
        let scope = tools.named(&call.name).and_then(|spec| GrantScope::of(spec, survey));
        let allowed = allowed
            .is_some_and(|seen| seen.scope == scope && decide::is_no_worse(&assessment.risk, &seen.risk));
        match assessment.verdict {
            Verdict::Allow => self.run(out, call, origin, fence),
            Verdict::Ask if allowed => self.run(out, call, origin, fence),
            Verdict::Ask => {
                let (risk, covers) = (assessment.risk, assessment.covers);
                let (preview, guarded) = (Vec::new(), None);
                self.emit(
                    out,
                    Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, scope },
                );
            }
            Verdict::Deny => {
                let outcome = Outcome::new(Status::Rejected, assessment.refusal);
                self.finish(out, id, outcome);
            }
        }
    }

    /// What can be said of a command without its host.
    fn risk_as_written(&self, command: &str) -> Risk {
        self.policy().risk(command, &Survey::elsewhere(CommandContext::bash()))
    }
}
