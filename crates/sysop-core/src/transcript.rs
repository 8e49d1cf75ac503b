//! The readable form of a session: folds [`Update`]s into items in reading order, a phase, and totals.
//!
//! # Problem
//!
//! A terminal, a full screen, a web page and an export show the same session. Each may connect late, miss deltas, or
//! read a log of a hundred thousand events. If each interpreted events itself, they would disagree.
//!
//! # Design
//!
//! One fold serves all of them. An [`Item`] has a stable [`ItemId`], a position and a revision, so that a front end
//! redraws only what changed. Logged events decide the content; deltas only fill the time until their event arrives,
//! and the event replaces the streamed text. Memory is bounded: live-only items and streamed text have limits, and old
//! text is truncated; a [`Backfill`] reads it again from the log.
//!
//! # Rejected
//!
//! - Rendering in the core: widths, colors and wrapping differ by front end.
//! - Keeping all text: a long session would fill the memory of a front end in which no one scrolls back.
//! - Trusting streamed text: after a retry or a lost delta it differs from the reply in the log.
//!
//! # Invariants
//!
//! - Once a turn has ended, a live transcript and a replay hold the same items, except those marked `live_only`.
//! - An event applied twice changes nothing the second time.
//! - Ids are unique, and items never disappear except live-only ones, oldest first.
//! - Nothing is decided here: a front end draws the items and sends `Input`s.
//! - Text is untrusted and stored verbatim; front ends neutralize it before display.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::catalog::TASK_LIST_TOOL;
use crate::event::{Decision, Delta, Event, Logged, Origin, PauseReason, StopReason, Update};
use crate::id::{CallId, Seq, StepId, TurnId};
use crate::image::prompt_for_display;
use crate::message::{Reply, ToolCall, Usage};
use crate::missed_hosts::MissedHosts;
use crate::outcome::{Outcome, Status};
use crate::policy::refusal_for_people;
use crate::question::Question;
use crate::spec::SessionSpec;

mod approval;
mod backfill;
mod bounded_text;
mod changes;
mod item;
mod known_policy;
mod live_notice;
mod notice;
mod output_readers;
mod participants;
mod pending;
mod preparation;
mod proposed_steps;
mod resources;
mod sentence;
mod session_info;
#[cfg(test)]
mod tests;

use bounded_text::{push_head, push_tail};
use known_policy::KnownPolicy;

pub use backfill::{Backfill, TEXTS_BYTES_MAX};
pub use item::{
    ApprovalScope, Decider, Item, ItemBody, ItemId, NO_RULES_HERE, Notice, Proposal, ProposalState,
    Retention, Severity, StreamedText, TextState, ToolOutput, TurnEnd, UserPrompt,
};
pub use notice::event_notice;
pub use output_readers::OutputReaders;
pub use participants::{LOCAL_FRONT_ENDS, Participants};
pub use pending::PauseDelay;
pub use preparation::CallPreparation;
use resources::Resources;
pub use resources::is_host_work;
pub use sentence::{
    call_lines, call_summary, change_sentence, client_tools_sentence, proposal_summary, rules_sentence,
    terminal_input_sentence,
};
pub use session_info::{SessionInfo, approval_label};

/// Maximum number of live-only items; the oldest are dropped first.
pub const LIVE_ITEMS_MAX: usize = 200;
/// Maximum bytes of streaming text. Further text appears only with the logged reply.
pub const LIVE_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum bytes of a running tool's output; the newest bytes are kept.
pub const LIVE_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The items, the phase and the totals of one session, built from its updates.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    items: VecDeque<Item>,
    facts: Option<SessionInfo>,
    policy: KnownPolicy,
    phase: SessionPhase,
    turn: CurrentTurn,
    open_calls: Vec<ToolCall>,
    usage: Usage,
    seq: Seq,
    live_notices: u64,
    /// Hashes of all item ids, current and past.
    known: HashSet<u64>,
    /// Upper bound on the number of live-only items.
    live_items: usize,
    /// Index of the first item of the current or last turn.
    turn_from: usize,
    /// Notice of the last change of the configuration, if it changed the approval mode, and the position of that
    /// change.
    mode_notice: Option<(ItemId, Seq)>,
    /// Index of the notice that the history was cleared; 0 if it was not.
    visible_from: usize,
    /// Upper bound on the bytes of text that can be truncated.
    text_bytes: usize,
    /// Number of items counted in `text_bytes`.
    counted: usize,
    questions: Vec<Question>,
    holder: Option<String>,
    readers: OutputReaders,
    participants: Participants,
    resources: Resources,
    tool_calls: u32,
    /// Queued prompts, each with the position of its event; the oldest comes first.
    queued: VecDeque<(Seq, String)>,
}

/// State of the current or last turn.
#[derive(Debug, Clone, Default)]
struct CurrentTurn {
    id: TurnId,
    step: StepId,
    usage: Usage,
    failure: Option<String>,
    /// The reason for the pause, if the next step waits for a user.
    paused: Option<PauseReason>,
    /// Position of the notice of a requested pause that is not over.
    pause_notice: Option<Seq>,
    /// True if the newest call ended because the process that ran it stopped.
    interrupts_call: bool,
    origin: Origin,
    /// The user who sent the turn's prompt or call to a server.
    asked_by: Option<String>,
    missed_hosts: MissedHosts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionPhase {
    /// No turn is in progress; the session waits for a prompt.
    #[default]
    Idle,
    /// A model request is in flight or imminent; the step is 0 before the first request.
    Thinking {
        step: StepId,
    },
    /// A call is waiting for approval.
    AwaitingApproval {
        call: CallId,
    },
    Running {
        call: CallId,
    },
    /// The turn is waiting for `Resume`.
    Paused {
        reason: PauseReason,
    },
    /// A cancel was requested and is in progress.
    Stopping,
}

impl Transcript {
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one update. An event that was applied before is ignored.
    pub fn apply(&mut self, update: &Update) {
        match update {
            Update::Logged(logged) => self.apply_logged(logged),
            Update::Delta(delta) => self.apply_delta(delta),
        }
        self.bound();
    }

    /// Applies one event of the log. Ignores an event that is not newer than all events applied before.
    pub fn apply_logged(&mut self, logged: &Logged) {
        if logged.seq <= self.seq {
            return;
        }
        self.seq = logged.seq;
        self.resources.apply(logged);
        self.event(&logged.event);
        self.refresh_pause_notice();
    }

    /// Changes the phase to `Stopping`, unless the session is idle. A front end calls this when it sends `Cancel`, to
    /// show the change at once.
    pub fn stopping(&mut self) {
        if self.phase != SessionPhase::Idle {
            self.phase = SessionPhase::Stopping;
        }
    }

    /// Returns all items in reading order.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator {
        self.items.iter()
    }

    /// Returns the item at index `place` in reading order.
    pub fn at(&self, place: usize) -> Option<&Item> {
        self.items.get(place)
    }

    /// Returns the index of the first item to show: the notice of the last `/clear` or `/retry`, or 0 if there was
    /// none. Items before it stay in the transcript and are not shown.
    pub fn visible_from(&self) -> usize {
        self.visible_from
    }

    pub fn item(&self, id: &ItemId) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.id == *id)
    }

    pub fn plan(&self, call: &CallId) -> Option<&Proposal> {
        match &self.item(&ItemId::Proposal(call.clone()))?.body {
            ItemBody::Proposal(plan) => Some(&**plan),
            ItemBody::Prompt(_)
            | ItemBody::Reasoning(_)
            | ItemBody::Answer(_)
            | ItemBody::ToolOutput(_)
            | ItemBody::Notice(_)
            | ItemBody::End(_) => None,
        }
    }

    /// Returns the proposal that is awaiting approval.
    pub fn waiting(&self) -> Option<&Proposal> {
        match &self.phase {
            SessionPhase::AwaitingApproval { call } => self.plan(call),
            SessionPhase::Idle
            | SessionPhase::Thinking { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Paused { .. }
            | SessionPhase::Stopping => None,
        }
    }

    /// Returns an empty transcript for a session whose log is still empty. The configuration comes from `spec`.
    pub fn of(spec: &SessionSpec) -> Self {
        let mut transcript = Self::new();
        transcript.opened(spec);
        transcript
    }

    /// Returns the configuration of the session; `None` before its first event, unless the transcript was created from
    /// a spec.
    pub fn session_info(&self) -> Option<&SessionInfo> {
        self.facts.as_ref()
    }

    pub fn phase(&self) -> &SessionPhase {
        &self.phase
    }

    /// Returns the open questions of programs, oldest first.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Returns the user who controls the terminal while the agent waits, if any.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Returns the tokens of all model calls whose replies are in the log.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the current turn, or the last one; 0 before the first turn.
    pub fn turn(&self) -> TurnId {
        self.turn.id
    }

    /// Returns the number of model calls in the current turn, or in the last one.
    pub fn iteration(&self) -> u32 {
        self.turn.step.step
    }

    /// Returns the position of the last applied event.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the models that received output of the session's tools.
    pub fn output_readers(&self) -> &OutputReaders {
        &self.readers
    }

    fn opened(&mut self, spec: &SessionSpec) {
        self.facts = Some(SessionInfo::of(spec));
        self.policy = KnownPolicy::of(spec);
    }

    fn event(&mut self, event: &Event) {
        self.readers.apply(event);
        self.note_participants(event);
        match event {
            Event::SessionOpened { spec, .. } => self.opened(spec),
            Event::Configured { change, .. } => self.configured(event, change),
            Event::PromptQueued { text, images, by } => {
                self.prompt_queued(&prompt_for_display(text, images), by.as_deref());
            }
            Event::PromptWithdrawn { text, .. } => self.prompt_withdrawn(text),
            Event::TurnStarted { turn, prompt, origin, images, by } => {
                self.turn_started(*turn, &prompt_for_display(prompt, images), *origin, by.as_deref());
            }
            Event::StepStarted { step } => {
                self.turn.step = *step;
                self.phase = SessionPhase::Thinking { step: *step };
            }
            Event::Replied { step, reply } => self.replied(*step, reply),
            Event::ModelFailed { step, failure } => {
                self.break_stream(*step);
                self.turn.failure = Some(failure.message.clone());
            }
            Event::ApprovalAsked { .. } => self.approval_asked(event),
            Event::Decided { call, decision, by } => self.decided(call, decision, by),
            Event::ToolStarted { call, origin } => self.tool_started(call, *origin),
            Event::ToolFinished { call, outcome } => {
                self.turn.missed_hosts.note_outcome(outcome);
                self.facts.iter_mut().for_each(|facts| facts.missed_hosts.note_outcome(outcome));
                self.tool_finished(call, outcome);
                self.note_changes(call, outcome);
            }
            Event::CancelAsked { .. } => {
                self.stop_pause_notice();
                self.drop_queued();
                self.stopping();
            }
            Event::Paused { reason, detail, .. } => self.paused(*reason, detail.as_deref()),
            Event::Resumed => {
                self.end_pause_notice();
                (self.turn.paused, self.turn.interrupts_call) = (None, false);
                match self.still_running() {
                    Some(call) => self.phase = SessionPhase::Running { call },
                    None if matches!(self.phase, SessionPhase::AwaitingApproval { .. }) => {}
                    None => self.resume_phase(),
                }
            }
            Event::TerminalInput { by, typed } => {
                self.notice(Severity::Note, terminal_input_sentence(self.subject(by), typed));
            }
            Event::Compacted { keep } => {
                let text = format!("context trimmed: sending only the last {keep} messages");
                self.notice(Severity::Note, text);
            }
            Event::ContextCompacted { .. }
            | Event::InstructionsLoaded { .. }
            | Event::PromptExpanded { .. }
            | Event::TodoChanged { .. }
            | Event::JobFinished { .. }
            | Event::GuardArmed { .. }
            | Event::GuardEnded { .. }
            | Event::ApprovalGiven { .. }
            | Event::Undone { .. } => self.event_notice(event),
            Event::JobStarted { .. } => {} // the output of its call names the job
            Event::ApprovalPreviewed { call, command, risk, preview } => {
                let edited =
                    command.as_ref().map(|command| (command.clone(), risk.clone().unwrap_or_default()));
                self.approval_previewed(call, edited, preview);
            }
            Event::HistoryCleared => self.history_cleared(),
            Event::TurnEnded { turn, reason, error, .. } => self.turn_ended(*turn, *reason, error.as_ref()),
        }
    }

    fn history_cleared(&mut self) {
        self.visible_from = self.items.len();
        self.notice(Severity::Note, "History cleared; earlier messages stay in the log".to_owned());
    }

    fn event_notice(&mut self, event: &Event) {
        if let Event::ApprovalGiven { call, by, .. } = event {
            self.change_plan(call, |plan| plan.given.push(by.clone()));
        }
        let mut event = Cow::Borrowed(event);
        if let Event::Undone { by, .. } = &*event
            && self.participants.is_local_user(by)
            && let Event::Undone { by, .. } = event.to_mut()
        {
            "You".clone_into(by);
        }
        if let Some(notice) = event_notice(&event) {
            self.notice(notice.weight, notice.text);
        }
    }

    /// Returns the position of a call among the calls in the model's last reply, counted from 1, and the
    /// number of those calls. Returns `None` if the reply contains only one call.
    pub fn call_number(&self, call: &CallId) -> Option<(usize, usize)> {
        let at = self.open_calls.iter().position(|open| open.id == *call)?;
        (self.open_calls.len() > 1).then(|| (at + 1, self.open_calls.len()))
    }

    /// Returns the running call, even if the phase already shows a pause.
    pub fn still_running(&self) -> Option<CallId> {
        let newest = self.items.iter().rev().find_map(|item| item.body.tool_output())?;
        (newest.outcome.is_none() && self.phase != SessionPhase::Idle).then(|| newest.call.clone())
    }

    fn turn_started(&mut self, turn: TurnId, prompt: &str, origin: Origin, by: Option<&str>) {
        let step = StepId { turn, step: 0 };
        let asked_by = by.map(str::to_owned);
        self.turn = CurrentTurn { id: turn, step, origin, asked_by, ..CurrentTurn::default() };
        self.open_calls.clear();
        self.prompt_started(prompt);
        self.turn_from = self.items.len();
        self.phase = SessionPhase::Thinking { step };
        if !prompt.is_empty() {
            let is_named = self.participants.are_several();
            let prompt = UserPrompt { text: prompt.to_owned(), by: by.map(str::to_owned), is_named };
            self.put(ItemId::Prompt(turn), ItemBody::Prompt(prompt));
        }
    }

    fn replied(&mut self, step: StepId, reply: &Reply) {
        self.turn.step = step;
        self.turn.usage += reply.usage;
        self.usage += reply.usage;
        self.facts.iter_mut().for_each(|facts| facts.auto.count_usage(reply.usage));
        if let Some(facts) = &self.facts {
            self.resources.note_window(&facts.model, reply.context_window);
        }
        // Streamed text moves to its final position, the same as in a replay.
        self.put_text(ItemId::Reasoning(step), &reply.reasoning, ItemBody::Reasoning);
        self.put_text(ItemId::Answer(step), &reply.text, ItemBody::Answer);
        self.open_calls.clone_from(&reply.calls);
        self.resume_phase();
    }

    fn put_text(&mut self, id: ItemId, text: &str, body: fn(StreamedText) -> ItemBody) {
        let revision = self.remove(&id).map_or(0, |old| old.revision + 1);
        if !text.is_empty() {
            let body = body(StreamedText { text: text.to_owned(), state: TextState::Whole });
            self.push(Item {
                id,
                revision,
                live_only: false,
                seq: self.seq,
                retention: Retention::Whole,
                body,
            });
        }
    }

    fn decided(&mut self, call: &CallId, decision: &Decision, by: &str) {
        let by = Decider::Person(by.to_owned());
        let (state, edited) = match decision {
            Decision::Allow { command } => {
                (ProposalState::Allowed { by, scope: ApprovalScope::Once }, command.clone())
            }
            Decision::AllowSession { command } => {
                (ProposalState::Allowed { by, scope: ApprovalScope::Session }, command.clone())
            }
            Decision::Reject { reason } => (ProposalState::Rejected { by, reason: reason.clone() }, None),
        };
        self.change_plan(call, |plan| {
            plan.state = state;
            if let Some(edited) = edited.filter(|edited| *edited != plan.command) {
                plan.edited_from = Some(std::mem::replace(&mut plan.command, edited));
            }
        });
        self.resume_phase();
    }

    fn tool_started(&mut self, call: &ToolCall, origin: Origin) {
        self.turn.missed_hosts.note_start();
        self.facts.iter_mut().for_each(|facts| facts.auto.count_call(origin));
        if self.completes(&call.name) {
            self.phase = SessionPhase::Running { call: call.id.clone() };
            self.remember(call);
            return;
        }
        let asked = self.change_plan(&call.id, |plan| {
            plan.call = call.clone();
            plan.origin = origin;
        });
        if !asked {
            let state = ProposalState::Allowed { by: Decider::Policy, scope: ApprovalScope::Once };
            let plan = self.plan_of(call, origin, state);
            self.put(ItemId::Proposal(call.id.clone()), ItemBody::Proposal(Box::new(plan)));
        }
        let output = ToolOutput {
            call: call.id.clone(),
            number: 0,
            tool: call.name.clone(),
            tail: String::new(),
            skipped_bytes: 0,
            outcome: None,
            never_ran: false,
        };
        self.put_output(output);
        self.phase = SessionPhase::Running { call: call.id.clone() };
    }

    fn tool_finished(&mut self, id: &CallId, outcome: &Outcome) {
        let call = self.open_calls.iter().find(|call| call.id == *id).cloned();
        self.resume_phase();
        if let Some(call) = &call
            && self.completes(&call.name)
            && outcome.status == Status::Ok
        {
            let text = call.text_argument("summary").unwrap_or(&outcome.output).to_owned();
            let body = ItemBody::Answer(StreamedText { text, state: TextState::Whole });
            self.put(ItemId::Summary(id.clone()), body);
            return;
        }
        // The list itself was shown as a notice.
        if call.as_ref().is_some_and(|call| call.name == TASK_LIST_TOOL) && outcome.status == Status::Ok {
            return;
        }
        self.change_plan(id, |plan| {
            if plan.state == ProposalState::Waiting || plan.is_denied(outcome.status) {
                plan.state = ProposalState::of_unstarted(outcome.status);
            }
        });
        if let Some(call) = &call
            && self.plan(id).is_none()
        {
            let state = ProposalState::of_unstarted(outcome.status);
            let plan = self.plan_of(call, Origin::Model, state);
            self.put(ItemId::Proposal(id.clone()), ItemBody::Proposal(Box::new(plan)));
        }
        let never_ran = self.plan(id).is_some_and(|plan| plan.state == ProposalState::NotRun);
        let tool = match self.plan(id) {
            Some(plan) => plan.call.name.clone(),
            None => call.map(|call| call.name).unwrap_or_default(),
        };
        self.turn.interrupts_call = outcome.status == Status::Interrupted && !never_ran;
        let mut outcome = outcome.clone();
        if outcome.status == Status::Rejected {
            outcome.output = refusal_for_people(&outcome.output).to_owned();
        }
        let output = ToolOutput {
            call: id.clone(),
            number: self.tool_calls.saturating_add(1),
            tool,
            tail: String::new(),
            skipped_bytes: 0,
            outcome: Some(outcome),
            never_ran,
        };
        self.put_output(output);
    }

    fn turn_ended(&mut self, turn: TurnId, reason: StopReason, error: Option<&String>) {
        self.break_stream(self.turn.step);
        self.open_calls.clear();
        if matches!(reason, StopReason::Cancelled | StopReason::Paused) {
            self.drop_queued();
            self.stop_pause_notice();
        } else {
            self.remove_pause_notice();
        }
        self.phase = SessionPhase::Idle;
        let failure = self.turn.failure.take();
        let error = error.cloned().or_else(|| failure.filter(|_| reason == StopReason::Failed));
        let (usage, iterations) = (self.turn.usage, self.turn.step.step);
        let is_told_by_call = reason == StopReason::Failed && self.is_failed_call();
        let end = TurnEnd { turn, reason, error, is_told_by_call, usage, iterations };
        self.note_steps();
        self.put(ItemId::End(turn), ItemBody::End(end));
    }

    fn apply_delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text { step, text } => self.stream(*step, ItemId::Answer(*step), text, ItemBody::Answer),
            Delta::Reasoning { step, text } => {
                self.stream(*step, ItemId::Reasoning(*step), text, ItemBody::Reasoning);
            }
            Delta::Output { call, text } => {
                self.resources.end_host_work();
                self.stream_output(call, text);
            }
            Delta::Progress { progress, .. } => self.resources.note_progress(Some(*progress)),
            Delta::Restarted { step } => {
                self.resources.note_progress(None);
                self.remove_streaming(&ItemId::Reasoning(*step));
                self.remove_streaming(&ItemId::Answer(*step));
            }
            Delta::Notice { text } if self.resources.note_host_work(text) => {}
            Delta::Notice { text } => self.live_notice(text.clone()),
            Delta::Question { question } => {
                self.questions.retain(|open| open.id != question.id);
                self.questions.push(question.clone());
            }
            Delta::QuestionClosed { id, .. } => self.questions.retain(|open| open.id != *id),
            Delta::Control { holder } => {
                // Users need no notice of what they do themselves; the log says it afterwards.
                let user = holder.as_ref().or(self.holder.as_ref());
                if !user.is_some_and(|user| self.participants.is_local_user(user)) {
                    self.live_notice(crate::ui_text::control(holder.as_deref()));
                }
                self.holder.clone_from(holder);
            }
        }
    }

    fn push_live(&mut self, id: ItemId, body: ItemBody) {
        self.live_items += 1;
        self.push(Item {
            id,
            revision: 0,
            live_only: true,
            seq: self.seq,
            retention: Retention::Whole,
            body,
        });
    }

    fn push(&mut self, item: Item) {
        self.known.insert(hash(&item.id));
        self.items.push_back(item);
    }

    fn stream(&mut self, step: StepId, id: ItemId, piece: &str, body: fn(StreamedText) -> ItemBody) {
        // Late chunk, or a step whose start was not seen here: the log has the full text, or will have it.
        if !self.is_answering(step) {
            return;
        }
        if let Some(item) = self.find(&id) {
            let (ItemBody::Reasoning(text) | ItemBody::Answer(text)) = &mut item.body else { return };
            if text.state == TextState::Streaming {
                push_head(&mut text.text, piece, LIVE_TEXT_BYTES_MAX);
                item.revision += 1;
            }
            return;
        }
        let mut text = StreamedText { text: String::new(), state: TextState::Streaming };
        push_head(&mut text.text, piece, LIVE_TEXT_BYTES_MAX);
        self.push_live(id, body(text));
    }

    /// Returns true if the model call of the step is in flight. A requested pause begins after its reply.
    fn is_answering(&self, step: StepId) -> bool {
        let is_pausing = matches!(self.phase, SessionPhase::Paused { .. });
        self.phase == SessionPhase::Thinking { step }
            || is_pausing && self.calls_model() && self.turn.step == step
    }

    fn stream_output(&mut self, call: &CallId, piece: &str) {
        let id = ItemId::ToolOutput(call.clone());
        let Some(item) = self.find(&id) else { return };
        let ItemBody::ToolOutput(output) = &mut item.body else { return };
        if output.outcome.is_none() {
            output.skipped_bytes += push_tail(&mut output.tail, piece, LIVE_OUTPUT_BYTES_MAX);
            item.revision += 1;
        }
    }

    fn break_stream(&mut self, step: StepId) {
        self.drop_retry_notice();
        for id in [ItemId::Reasoning(step), ItemId::Answer(step)] {
            let Some(item) = self.find(&id) else { continue };
            let (ItemBody::Reasoning(text) | ItemBody::Answer(text)) = &mut item.body else { continue };
            if text.state == TextState::Streaming {
                text.state = TextState::Broken;
                item.revision += 1;
            }
        }
    }

    /// Sets the phase back to thinking or paused, unless a cancel is in progress or no turn runs.
    fn resume_phase(&mut self) {
        if !matches!(self.phase, SessionPhase::Stopping | SessionPhase::Idle) {
            self.phase = match self.turn.paused {
                Some(reason) => SessionPhase::Paused { reason },
                None => SessionPhase::Thinking { step: self.turn.step },
            };
        }
    }

    fn completes(&self, tool: &str) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.completes(tool))
    }

    fn remember(&mut self, call: &ToolCall) {
        if self.open_calls.iter().all(|open| open.id != call.id) {
            self.open_calls.push(call.clone());
        }
    }

    fn change_plan(&mut self, call: &CallId, change: impl FnOnce(&mut Proposal)) -> bool {
        let id = ItemId::Proposal(call.clone());
        let seq = self.seq;
        let Some(item) = self.find(&id) else { return false };
        let ItemBody::Proposal(plan) = &mut item.body else { return false };
        change(plan);
        item.revision += 1;
        item.seq = seq;
        true
    }

    fn notice(&mut self, weight: Severity, text: String) {
        self.put(ItemId::Notice(self.seq), ItemBody::Notice(Notice { text, weight }));
    }

    /// Replaces the item with this id in place, or appends it.
    fn put(&mut self, id: ItemId, body: ItemBody) {
        let seq = self.seq;
        if let Some(item) = self.find(&id) {
            item.body = body;
            item.live_only = false;
            item.revision += 1;
            (item.seq, item.retention) = (seq, Retention::Whole);
        } else {
            self.push(Item { id, revision: 0, live_only: false, seq, retention: Retention::Whole, body });
        }
    }

    /// Replaces the output of a call, or puts it right after the call, before notices that came in between.
    fn put_output(&mut self, output: ToolOutput) {
        let (id, plan) = (ItemId::ToolOutput(output.call.clone()), ItemId::Proposal(output.call.clone()));
        let is_known = self.find(&id).is_some();
        self.put(id, ItemBody::ToolOutput(Box::new(output)));
        let newest = self.items.len() - 1;
        // Items that only the live view has must not change the order of the others.
        let is_passed = |item: &Item| item.live_only || matches!(item.body, ItemBody::Notice(_));
        let plan = self.items.iter().rposition(|item| item.id == plan).filter(|_| !is_known);
        if let Some(at) = plan.map(|plan| plan + 1)
            && at < newest
            && self.items.range(at..newest).all(is_passed)
            && let Some(item) = self.items.pop_back()
        {
            self.items.insert(at, item);
            self.turn_from += usize::from(at < self.turn_from);
            self.visible_from += usize::from(at < self.visible_from);
            self.counted = self.counted.min(at);
        }
    }

    /// Returns the item with this id, if any. Checks the hashes first, because most ids are new. Then searches from the
    /// end, because most known ids belong to recent items.
    fn find(&mut self, id: &ItemId) -> Option<&mut Item> {
        let known = self.known.contains(&hash(id));
        known.then(|| self.items.iter_mut().rev().find(|item| item.id == *id)).flatten()
    }

    fn remove(&mut self, id: &ItemId) -> Option<Item> {
        if !self.known.contains(&hash(id)) {
            return None;
        }
        let at = self.items.iter().rposition(|item| item.id == *id)?;
        self.turn_from -= usize::from(at < self.turn_from);
        self.visible_from -= usize::from(at < self.visible_from);
        self.counted = self.counted.min(at);
        self.items.remove(at)
    }

    fn remove_streaming(&mut self, id: &ItemId) {
        if self.item(id).is_some_and(|item| item.live_only) {
            self.remove(id);
        }
    }

    /// Drops the oldest live-only items and truncates old text. Logged items stay.
    fn bound(&mut self) {
        if self.live_items > LIVE_ITEMS_MAX {
            let live = self.items.iter().filter(|item| item.live_only).count();
            let mut surplus = live.saturating_sub(LIVE_ITEMS_MAX);
            self.live_items = live - surplus;
            if surplus > 0 {
                let (mut at, mut before_turn, mut before_visible) = (0, 0, 0);
                let (turn_from, visible_from) = (self.turn_from, self.visible_from);
                self.items.retain(|item| {
                    let goes = item.live_only && surplus > 0;
                    surplus -= usize::from(goes);
                    before_turn += usize::from(goes && at < turn_from);
                    before_visible += usize::from(goes && at < visible_from);
                    at += 1;
                    !goes
                });
                self.turn_from -= before_turn;
                self.visible_from -= before_visible;
                self.counted = 0;
            }
        }
        self.bound_texts();
    }
}

fn hash(id: &ItemId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
