//! Encodes events and deltas as messages.

use std::collections::HashMap;

use sysop_core::auto_meter::AutoMeter;
use sysop_core::event::{ConfigChange, Decision, Delta, Event, Logged, Origin, PauseReason, StopReason};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::job::{Job, RunningJobs};
use sysop_core::message::{Reply, ToolCall, Usage};
use sysop_core::mode::Mode;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{ApprovalMode, is_grantable};
use sysop_core::spec::SessionSpec;

use crate::client_message::DecisionKind;
use crate::server_message::{
    ClientToolSet, LogPosition, OfferedTool, PromptImage, ServerMessage, SessionState, State, StateEvent,
    ToolCallRequest, TurnSummary,
};

/// Encodes the log of one session. The encoder must be given the log from its start; otherwise model, turn
/// and tokens are unset or zero until events set them.
///
/// ```
/// use sysop_core::event::Delta;
/// use sysop_core::id::SessionId;
/// use sysop_wire::{Encoder, to_json_line};
///
/// let encoder = Encoder::new(SessionId::new("s"));
/// let message = encoder.encode_delta(&Delta::Notice { text: "loading".to_owned() });
/// assert_eq!(to_json_line(&message), r#"{"type":"notice","sessionId":"s","content":"loading"}"#);
/// ```
#[derive(Debug, Clone)]
pub struct Encoder {
    session: SessionId,
    now: State,
    usage: Usage,
    /// Activity of the turn as if it were not paused, because running work finishes during a pause.
    active: SessionState,
    /// Tool names of the calls in the last reply or direct call.
    names: HashMap<CallId, String>,
    jobs: RunningJobs,
    setup: Option<SessionSetup>,
    mode: Mode,
    lent: Option<ClientToolSet>,
    auto: AutoMeter,
    last: Seq,
}

/// Data from the session's opening that `state` does not contain.
#[derive(Debug, Clone)]
struct SessionSetup {
    host: String,
    root: String,
    profile: String,
    tools: Vec<OfferedTool>,
    opened_by: Option<String>,
}

impl Encoder {
    /// Creates an encoder that has not been given any event of the session.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            now: State::default(),
            usage: Usage::default(),
            active: SessionState::Idle,
            names: HashMap::new(),
            jobs: RunningJobs::default(),
            setup: None,
            mode: Mode::default(),
            lent: None,
            auto: AutoMeter::default(),
            last: Seq::default(),
        }
    }

    /// Returns the reply to `hello` with the current configuration; `None` if the encoder was not given the opening.
    pub fn hello_reply(&self) -> Option<ServerMessage> {
        let setup = self.setup.clone()?;
        Some(ServerMessage::SessionCreated {
            session_id: self.session.clone(),
            position: None,
            model: self.now.model.clone()?,
            approve: self.now.approve,
            mode: self.mode,
            host: setup.host,
            root: setup.root,
            profile: setup.profile,
            max_iterations: self.now.max_iterations,
            tools: setup.tools,
            lent: self.lent.clone(),
            last_seq: Some(self.last),
            opened_by: setup.opened_by,
        })
    }

    /// Returns the current state of the session, which is not part of the log, for a newly connected client.
    pub fn now(&self) -> &State {
        &self.now
    }

    /// Encodes an event as one or more messages, in order. All of them have its `seq`.
    ///
    /// If the event changes the state, or if no other message reports it, a `state` message is added at the end. Only
    /// `assistant.done`, which is always the last message of a turn, comes after it.
    pub fn encode_event(&mut self, logged: &Logged) -> Vec<ServerMessage> {
        let position = LogPosition { seq: logged.seq, more: false };
        let before = self.now.clone();
        self.fold(&logged.event);
        self.now.auto = self.auto.left();
        self.last = logged.seq;
        let mut messages = self.own_messages(position, &logged.event);
        for message in &mut messages {
            if let ServerMessage::AssistantDone { metadata, .. } = message {
                metadata.reason = pause_reason(metadata.stop_reason, &before);
            }
        }
        if let Event::JobFinished { job, .. } = &logged.event {
            self.jobs.finish(*job);
        }
        let event = if messages.is_empty() { state_event(&logged.event) } else { None };
        if self.now != before || event.is_some() {
            let (session_id, now) = (self.session.clone(), self.now.clone());
            let (origin, by) = direct_call(&logged.event).filter(|_| event.is_some()).unzip();
            let by = by.flatten();
            let state = ServerMessage::State { session_id, position, now, event, origin, by };
            let end =
                messages.iter().position(|message| matches!(message, ServerMessage::AssistantDone { .. }));
            messages.insert(end.unwrap_or(messages.len()), state);
        }
        self.now.history_cleared = false;
        if let Some((_last, others)) = messages.split_last_mut() {
            others.iter_mut().for_each(ServerMessage::set_more);
        }
        messages
    }

    pub fn encode_delta(&self, delta: &Delta) -> ServerMessage {
        let session_id = self.session.clone();
        match delta {
            Delta::Text { text, .. } => ServerMessage::AssistantDelta { session_id, content: text.clone() },
            Delta::Reasoning { text, .. } => {
                ServerMessage::AssistantReasoning { session_id, content: text.clone() }
            }
            Delta::Output { call, text } => {
                ServerMessage::ToolOutput { session_id, tool_call_id: call.clone(), content: text.clone() }
            }
            Delta::Restarted { .. } => ServerMessage::AssistantRestarted { session_id },
            Delta::Progress { progress, .. } => ServerMessage::AssistantProgress {
                session_id,
                prompt_done: progress.prompt.map(|(done, _)| done),
                prompt_total: progress.prompt.map(|(_, total)| total),
                received: progress.received,
                receiving_ms: progress.receiving_ms,
            },
            Delta::Notice { text } => ServerMessage::Notice { session_id, content: text.clone() },
            Delta::Question { question } => {
                ServerMessage::Question { session_id, question: question.clone() }
            }
            Delta::QuestionClosed { id, by } => {
                ServerMessage::QuestionClosed { session_id, id: *id, by: by.clone() }
            }
            Delta::Control { holder } => {
                ServerMessage::TerminalControl { session_id, holder: holder.clone() }
            }
        }
    }

    fn fold(&mut self, event: &Event) {
        let now = &mut self.now;
        match event {
            Event::SessionOpened { spec, opened_by } => self.fold_opened(spec, opened_by.as_ref()),
            Event::Configured { change, .. } => self.fold_change(change),
            Event::PromptQueued { .. } => now.queued += 1,
            Event::PromptWithdrawn { .. } => now.queued = now.queued.saturating_sub(1),
            Event::TurnStarted { turn, prompt, .. } => self.fold_turn_started(*turn, prompt.is_empty()),
            Event::StepStarted { step } => {
                (self.active, now.state) = (SessionState::Thinking, SessionState::Thinking);
                now.iteration = step.step;
            }
            Event::Replied { reply, .. } => {
                self.usage += reply.usage;
                self.auto.count_usage(reply.usage);
                self.names = reply.calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
            }
            Event::ApprovalAsked { call, .. } => {
                (self.active, now.state) = (SessionState::Waiting, SessionState::Waiting);
                self.names.insert(call.id.clone(), call.name.clone());
            }
            Event::ToolStarted { call, origin } => {
                self.auto.count_call(*origin);
                (self.active, now.state) = (SessionState::Running, SessionState::Running);
                self.names.insert(call.id.clone(), call.name.clone());
            }
            Event::CancelAsked { .. } => {
                now.state = SessionState::Stopping;
                now.queued = 0;
            }
            Event::Paused { reason, detail, .. } => {
                now.state = SessionState::Paused;
                now.pause_reason = Some(*reason);
                now.pause_detail.clone_from(detail);
            }
            Event::Resumed => {
                now.state = self.active;
                (now.pause_reason, now.pause_detail) = (None, None);
            }
            Event::Compacted { keep } => now.kept_messages = Some(*keep),
            Event::HistoryCleared => {
                now.kept_messages = None;
                now.history_cleared = true;
            }
            Event::TurnEnded { reason, .. } => self.fold_turn_ended(*reason),
            Event::ModelFailed { .. } | Event::ToolFinished { .. } => {
                self.active = SessionState::Thinking;
                if now.pause_reason.is_some() && now.state != SessionState::Stopping {
                    now.state = SessionState::Paused;
                }
            }
            Event::JobStarted { job, call, command, host } => {
                let (call, command, host) = (call.clone(), command.clone(), host.clone());
                self.jobs.start(*job, Job { call, command, host });
            }
            Event::Decided { .. }
            | Event::ApprovalGiven { .. }
            | Event::ApprovalPreviewed { .. }
            | Event::TerminalInput { .. }
            | Event::ContextCompacted { .. }
            | Event::InstructionsLoaded { .. }
            | Event::PromptExpanded { .. }
            | Event::TodoChanged { .. }
            | Event::JobFinished { .. }
            | Event::GuardArmed { .. }
            | Event::GuardEnded { .. }
            | Event::Undone { .. } => {}
        }
    }

    fn fold_turn_started(&mut self, turn: TurnId, direct: bool) {
        self.active = if direct { SessionState::Running } else { SessionState::Thinking };
        self.now.state = self.active;
        self.now.turn = turn;
        self.now.iteration = 0;
        self.now.queued = self.now.queued.saturating_sub(u32::from(!direct));
        self.usage = Usage::default();
    }

    fn fold_turn_ended(&mut self, reason: StopReason) {
        self.now.state = SessionState::Idle;
        (self.now.pause_reason, self.now.pause_detail) = (None, None);
        if matches!(reason, StopReason::Cancelled | StopReason::Paused) {
            self.now.queued = 0;
        }
        self.names.clear();
    }

    fn fold_opened(&mut self, spec: &SessionSpec, opened_by: Option<&String>) {
        self.auto.open(spec);
        self.now.model = Some(spec.model.clone());
        self.now.approve = spec.approve;
        self.now.max_iterations = spec.max_iterations;
        self.setup = Some(SessionSetup {
            host: spec.host.clone(),
            root: spec.root.clone(),
            profile: spec.profile.clone(),
            tools: spec.tools.iter().map(OfferedTool::from).collect(),
            opened_by: opened_by.cloned(),
        });
    }

    fn fold_change(&mut self, change: &ConfigChange) {
        self.auto.configure(change);
        match change {
            ConfigChange::Model(model) => self.now.model = Some(model.clone()),
            ConfigChange::Approve(approve) => self.now.approve = *approve,
            ConfigChange::Auto(_) => self.now.approve = ApprovalMode::Auto,
            ConfigChange::Mode(mode) => self.mode = *mode,
            ConfigChange::ClientTools(lent) => {
                self.lent = (!lent.tools.is_empty()).then(|| ClientToolSet::from(lent));
            }
            ConfigChange::Effort(_)
            | ConfigChange::Budget(_)
            | ConfigChange::Revoke(_)
            | ConfigChange::Rules { .. } => {}
        }
    }

    /// Returns the messages of an event, except `state`.
    fn own_messages(&self, position: LogPosition, event: &Event) -> Vec<ServerMessage> {
        let session_id = self.session.clone();
        match event {
            Event::SessionOpened { spec, opened_by } => {
                vec![session_created(session_id, position, spec, opened_by.clone())]
            }
            Event::TurnStarted { prompt, images, by, .. } if !prompt.is_empty() => {
                let (content, images) = (prompt.clone(), images.iter().map(PromptImage::from).collect());
                vec![ServerMessage::UserMessage { session_id, position, content, images, by: by.clone() }]
            }
            Event::Replied { step, reply } => replied(session_id, position, step.step, reply),
            Event::ModelFailed { step, failure } => {
                let (iteration, kind, message) = (step.step, failure.kind, failure.message.clone());
                vec![ServerMessage::StepFailed { session_id, position, iteration, kind, message }]
            }
            Event::PromptQueued { text, images, by } => {
                let (content, images) = (text.clone(), images.iter().map(PromptImage::from).collect());
                vec![ServerMessage::PromptQueued { session_id, position, content, images, by: by.clone() }]
            }
            Event::PromptWithdrawn { text, by } => {
                let (content, by) = (text.clone(), by.clone());
                vec![ServerMessage::PromptWithdrawn { session_id, position, content, by }]
            }
            Event::Configured { change, reached } => {
                vec![configured(session_id, position, change, reached.clone())]
            }
            Event::ApprovalAsked { .. } => {
                approval_request(session_id, position, event).into_iter().collect()
            }
            Event::Decided { call, decision, by } => {
                vec![approval_closed(session_id, position, call, decision, by)]
            }
            Event::ToolStarted { call, origin } => vec![tool_call(session_id, position, call, *origin)],
            Event::ToolFinished { call, outcome } => {
                vec![self.tool_finished(position, call.clone(), outcome.clone())]
            }
            Event::TerminalInput { .. }
            | Event::ContextCompacted { .. }
            | Event::InstructionsLoaded { .. }
            | Event::PromptExpanded { .. }
            | Event::TodoChanged { .. }
            | Event::JobStarted { .. }
            | Event::JobFinished { .. }
            | Event::GuardArmed { .. }
            | Event::GuardEnded { .. }
            | Event::ApprovalGiven { .. }
            | Event::ApprovalPreviewed { .. }
            | Event::Undone { .. } => {
                notice::message(session_id, position, event, &self.jobs).into_iter().collect()
            }
            Event::TurnEnded { turn, reason, error, .. } => {
                self.ended(position, *turn, *reason, error.clone())
            }
            // Reported by `state`.
            Event::TurnStarted { .. }
            | Event::StepStarted { .. }
            | Event::CancelAsked { .. }
            | Event::Paused { .. }
            | Event::Resumed
            | Event::Compacted { .. }
            | Event::HistoryCleared => Vec::new(),
        }
    }

    /// Returns the messages at the end of a turn: the error, if there is one, and `assistant.done`.
    fn ended(
        &self,
        position: LogPosition,
        turn: TurnId,
        reason: StopReason,
        error: Option<String>,
    ) -> Vec<ServerMessage> {
        let session_id = self.session.clone();
        let (usage, iterations) = (self.usage.into(), self.now.iteration);
        let metadata = TurnSummary { stop_reason: reason, turn, usage, iterations, reason: None };
        let error = error.map(|message| ServerMessage::Error {
            session_id: session_id.clone(),
            position: Some(position),
            message,
            code: None,
            reply_to: None,
        });
        let done = ServerMessage::AssistantDone { session_id, position, metadata };
        error.into_iter().chain([done]).collect()
    }

    fn tool_finished(&self, position: LogPosition, call: CallId, outcome: Outcome) -> ServerMessage {
        ServerMessage::ToolFinished {
            session_id: self.session.clone(),
            position,
            name: self.names.get(&call).cloned(),
            tool_call_id: call,
            status: outcome.status,
            exit_code: outcome.exit_code,
            truncated: outcome.truncated,
            output: outcome.output,
            styles: outcome.styles,
            duration_ms: outcome.duration_ms,
            artifact: outcome.artifact,
            changes: outcome.changes.into_iter().map(Into::into).collect(),
            hosts: outcome.hosts,
            changed: outcome.changed,
            undo: outcome.undo,
            images: outcome.images.iter().map(PromptImage::from).collect(),
            unreachable: outcome.unreachable,
        }
    }
}

/// Returns the value for an event that is only reported by a `state` message, or `None` for any other event.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events have messages of their own")]
fn state_event(event: &Event) -> Option<StateEvent> {
    Some(match event {
        Event::TurnStarted { .. } => StateEvent::TurnStarted,
        Event::StepStarted { .. } => StateEvent::StepStarted,
        Event::CancelAsked { .. } => StateEvent::CancelAsked,
        Event::Paused { .. } => StateEvent::Paused,
        Event::Resumed => StateEvent::Resumed,
        Event::Compacted { .. } => StateEvent::Compacted,
        Event::HistoryCleared => StateEvent::HistoryCleared,
        _ => return None,
    })
}

/// Returns the origin and the sender of the call that a turn runs without a model; `None` for any other event.
fn direct_call(event: &Event) -> Option<(Origin, Option<String>)> {
    let Event::TurnStarted { prompt, origin, by, .. } = event else { return None };
    prompt.is_empty().then(|| (*origin, by.clone()))
}

/// Returns the reason for the pause, if the turn ended while it was paused.
fn pause_reason(stop: StopReason, before: &State) -> Option<PauseReason> {
    before.pause_reason.filter(|_| stop == StopReason::Paused)
}

fn approval_request(session_id: SessionId, position: LogPosition, event: &Event) -> Option<ServerMessage> {
    let Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, terms, .. } = event
    else {
        return None;
    };
    Some(ServerMessage::ApprovalRequest {
        session_id,
        position,
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        command: command.clone(),
        arguments: call.arguments.to_value(),
        reason: reason.clone(),
        risk: risk.class,
        findings: risk.findings.clone(),
        covers: is_grantable(&call.name, risk.class, terms.people).then(|| covers.clone()),
        preview: preview.clone(),
        guarded: *guarded,
        expires_at: terms.expires,
        approvals: Some(terms.people).filter(|people| *people > 1),
        // The encoder does not know the rules file; the server fills in these fields.
        always: None,
        rules_file: None,
    })
}

fn session_created(
    session_id: SessionId,
    position: LogPosition,
    spec: &SessionSpec,
    opened_by: Option<String>,
) -> ServerMessage {
    ServerMessage::SessionCreated {
        session_id,
        position: Some(position),
        model: spec.model.clone(),
        approve: spec.approve,
        mode: Mode::default(),
        host: spec.host.clone(),
        root: spec.root.clone(),
        profile: spec.profile.clone(),
        max_iterations: spec.max_iterations,
        tools: spec.tools.iter().map(OfferedTool::from).collect(),
        lent: None,
        last_seq: None,
        opened_by,
    }
}

fn tool_call(session_id: SessionId, position: LogPosition, call: &ToolCall, origin: Origin) -> ServerMessage {
    ServerMessage::ToolCall {
        session_id,
        position,
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.to_value(),
        origin,
        run: false,
        traceparent: None,
    }
}

fn approval_closed(
    session_id: SessionId,
    position: LogPosition,
    call: &CallId,
    decision: &Decision,
    by: &str,
) -> ServerMessage {
    let (decision, command, reason) = DecisionKind::from_decision(decision.clone());
    let (tool_call_id, by, reason) = (call.clone(), by.to_owned(), reason.unwrap_or_default());
    ServerMessage::ApprovalClosed { session_id, position, tool_call_id, decision, by, command, reason }
}

fn configured(
    session_id: SessionId,
    position: LogPosition,
    change: &ConfigChange,
    reached: Option<String>,
) -> ServerMessage {
    let (mut model, mut approve, mut bounds, mut mode, mut effort, mut lent, mut rules) =
        (None, None, None, None, None, None, false);
    let (mut budget, mut revoked) = (None, Vec::new());
    match change {
        ConfigChange::Model(new) => model = Some(new.clone()),
        ConfigChange::Approve(new) => approve = Some(*new),
        ConfigChange::Auto(new) => (approve, bounds) = (Some(ApprovalMode::Auto), Some(new.clone())),
        ConfigChange::Mode(new) => mode = Some(*new),
        ConfigChange::Effort(new) => effort = Some(*new),
        ConfigChange::Budget(new) => budget = Some(*new),
        ConfigChange::ClientTools(new) => lent = Some(ClientToolSet::from(new)),
        ConfigChange::Rules { .. } => rules = true,
        ConfigChange::Revoke(grants) => revoked.clone_from(grants),
    }
    ServerMessage::Configured {
        session_id,
        position,
        model,
        approve,
        bounds,
        mode,
        effort,
        budget,
        lent,
        rules,
        revoked,
        reached,
    }
}

/// Returns the messages for a reply: `assistant.message`, if there is any text or reasoning, and `step.finished`.
fn replied(
    session_id: SessionId,
    position: LogPosition,
    iteration: u32,
    reply: &Reply,
) -> Vec<ServerMessage> {
    let (content, reasoning) = (reply.text.clone(), reply.reasoning.clone());
    let speaks = !(content.is_empty() && reasoning.is_empty());
    let message = speaks.then(|| ServerMessage::AssistantMessage {
        session_id: session_id.clone(),
        position,
        content,
        reasoning,
    });
    let (usage, tool_calls) = (reply.usage.into(), reply.calls.iter().map(ToolCallRequest::from).collect());
    let step = ServerMessage::StepFinished { session_id, position, iteration, usage, tool_calls };
    message.into_iter().chain([step]).collect()
}

mod notice;
#[cfg(test)]
mod tests;
