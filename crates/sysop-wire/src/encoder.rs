//! Puts what happened into messages.

use std::collections::HashMap;

use sysop_core::event::{Change, Decision, Delta, Event, Logged, StopReason};
use sysop_core::id::{CallId, SessionId};
use sysop_core::message::{ToolCall, Usage};
use sysop_core::outcome::Outcome;
use sysop_core::session::SessionSpec;

use crate::client::DecisionWord;
use crate::server::{Done, Place, ServerMessage, SessionState, State, Tokens};

/// Puts one session's log into messages. It must see the log from its start, or what it says of the model, the
/// turn and its tokens is zero until the events come that tell.
#[derive(Debug, Clone)]
pub struct Encoder {
    session: SessionId,
    now: State,
    usage: Usage,
    /// What the turn does, paused or not: a pause lets what is under way come to its end.
    active: SessionState,
    /// The tools of the calls of the last reply or direct call.
    names: HashMap<CallId, String>,
}

impl Encoder {
    /// Begins before the first event of a session.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            now: State::default(),
            usage: Usage::default(),
            active: SessionState::Idle,
            names: HashMap::new(),
        }
    }

    /// The messages of an event, in order. All carry its `seq`; some events say nothing to a client.
    ///
    /// Whatever changes what `state` says is followed by a `state`, except that the last message of a turn is
    /// its `assistant.done`.
    pub fn logged(&mut self, logged: &Logged) -> Vec<ServerMessage> {
        let place = Place { seq: logged.seq, more: false };
        let before = self.now.clone();
        self.fold(&logged.event);
        let mut messages = self.own_messages(place, &logged.event);
        if self.now != before {
            let state =
                ServerMessage::State { session_id: self.session.clone(), place, now: self.now.clone() };
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

    /// The message of a delta.
    pub fn delta(&self, delta: &Delta) -> ServerMessage {
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

    /// Follows what the session does.
    fn fold(&mut self, event: &Event) {
        let now = &mut self.now;
        match event {
            Event::SessionOpened { spec } => {
                now.model = Some(spec.model.clone());
                now.approve = spec.approve;
                now.max_iterations = spec.max_iterations;
            }
            Event::Configured { change: Change::Model(model) } => now.model = Some(model.clone()),
            Event::Configured { change: Change::Approve(approve) } => now.approve = *approve,
            Event::Configured { change: Change::Rules { .. } } => {}
            Event::PromptQueued { .. } => now.queued += 1,
            Event::TurnStarted { turn, prompt, .. } => {
                let direct = prompt.is_empty();
                self.active = if direct { SessionState::Running } else { SessionState::Thinking };
                now.state = self.active;
                now.turn = *turn;
                now.iteration = 0;
                now.queued = now.queued.saturating_sub(u32::from(!direct));
                self.usage = Usage::default();
            }
            Event::StepStarted { step } => {
                (self.active, now.state) = (SessionState::Thinking, SessionState::Thinking);
                now.iteration = step.step;
            }
            Event::Replied { reply, .. } => {
                self.usage += reply.usage;
                self.names = reply.calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
            }
            Event::ApprovalAsked { call, .. } => {
                (self.active, now.state) = (SessionState::Waiting, SessionState::Waiting);
                self.names.insert(call.id.clone(), call.name.clone());
            }
            Event::ToolStarted { call, .. } => {
                (self.active, now.state) = (SessionState::Running, SessionState::Running);
                self.names.insert(call.id.clone(), call.name.clone());
            }
            Event::CancelAsked { .. } => {
                now.state = SessionState::Stopping;
                now.queued = 0;
            }
            Event::Paused { reason } => {
                now.state = SessionState::Paused;
                now.pause_reason = Some(*reason);
            }
            Event::Resumed => {
                now.state = self.active;
                now.pause_reason = None;
            }
            Event::Compacted { keep } => now.kept_messages = Some(*keep),
            Event::HistoryCleared => {
                now.kept_messages = None;
                now.history_cleared = true;
            }
            Event::TurnEnded { reason, .. } => {
                now.state = SessionState::Idle;
                now.pause_reason = None;
                if matches!(reason, StopReason::Cancelled | StopReason::Paused) {
                    now.queued = 0;
                }
                self.names.clear();
            }
            Event::ModelFailed { .. } | Event::ToolFinished { .. } => {
                self.active = SessionState::Thinking;
                if now.pause_reason.is_some() && now.state != SessionState::Stopping {
                    now.state = SessionState::Paused;
                }
            }
            Event::Decided { .. } | Event::TerminalInput { .. } => {}
        }
    }

    /// What an event says by itself, beside `state`.
    fn own_messages(&self, place: Place, event: &Event) -> Vec<ServerMessage> {
        let session_id = self.session.clone();
        match event {
            Event::SessionOpened { spec } => vec![session_created(session_id, place, spec)],
            Event::TurnStarted { prompt, .. } if !prompt.is_empty() => {
                vec![ServerMessage::UserMessage { session_id, place, content: prompt.clone() }]
            }
            Event::Replied { reply, .. } if !(reply.text.is_empty() && reply.reasoning.is_empty()) => {
                let (content, reasoning) = (reply.text.clone(), reply.reasoning.clone());
                vec![ServerMessage::AssistantMessage { session_id, place, content, reasoning }]
            }
            Event::ApprovalAsked { call, command, reason, risk, covers } => {
                vec![ServerMessage::ApprovalRequest {
                    session_id,
                    place,
                    tool_call_id: call.id.clone(),
                    name: call.name.clone(),
                    command: command.clone(),
                    arguments: call.arguments.to_value(),
                    reason: reason.clone(),
                    risk: risk.class,
                    findings: risk.findings.clone(),
                    covers: covers.clone(),
                }]
            }
            Event::Decided { call, decision, by } => {
                vec![approval_closed(session_id, place, call.clone(), decision.clone(), by.clone())]
            }
            Event::ToolStarted { call, origin } => {
                let ToolCall { id, name, arguments, .. } = call.clone();
                let (tool_call_id, arguments, origin) = (id, arguments.to_value(), *origin);
                vec![ServerMessage::ToolCall { session_id, place, tool_call_id, name, arguments, origin }]
            }
            Event::ToolFinished { call, outcome } => {
                vec![self.tool_finished(place, call.clone(), outcome.clone())]
            }
            Event::TerminalInput { by, typed } => {
                vec![ServerMessage::TerminalTyped { session_id, place, by: by.clone(), typed: typed.clone() }]
            }
            Event::TurnEnded { turn, reason, error } => {
                let metadata = Done {
                    stop_reason: *reason,
                    turn: *turn,
                    usage: tokens(self.usage),
                    iterations: self.now.iteration,
                };
                let error = error.clone().map(|message| ServerMessage::Error {
                    session_id: session_id.clone(),
                    place: Some(place),
                    message,
                });
                let done = ServerMessage::AssistantDone { session_id, place, metadata };
                error.into_iter().chain([done]).collect()
            }
            // The turn's end tells of a failure once more, or the step is made again and nobody need know.
            Event::ModelFailed { .. }
            | Event::TurnStarted { .. }
            | Event::Replied { .. }
            | Event::Configured { .. }
            | Event::PromptQueued { .. }
            | Event::StepStarted { .. }
            | Event::CancelAsked { .. }
            | Event::Paused { .. }
            | Event::Resumed
            | Event::Compacted { .. }
            | Event::HistoryCleared => Vec::new(),
        }
    }

    fn tool_finished(&self, place: Place, call: CallId, outcome: Outcome) -> ServerMessage {
        ServerMessage::ToolFinished {
            session_id: self.session.clone(),
            place,
            name: self.names.get(&call).cloned(),
            tool_call_id: call,
            status: outcome.status,
            exit_code: outcome.exit_code,
            truncated: outcome.truncated,
            output: outcome.output,
            duration_ms: outcome.duration_ms,
            artefact: outcome.artefact,
            hosts: outcome.hosts,
        }
    }
}

fn session_created(session_id: SessionId, place: Place, spec: &SessionSpec) -> ServerMessage {
    ServerMessage::SessionCreated {
        session_id,
        place,
        model: spec.model.clone(),
        approve: spec.approve,
        host: spec.host.clone(),
        root: spec.root.clone(),
        profile: spec.profile.clone(),
    }
}

fn approval_closed(
    session_id: SessionId,
    place: Place,
    tool_call_id: CallId,
    decision: Decision,
    by: String,
) -> ServerMessage {
    let (decision, command, reason) = match decision {
        Decision::Allow { command } => (DecisionWord::Allow, command, String::new()),
        Decision::AllowSession { command } => (DecisionWord::AllowSession, command, String::new()),
        Decision::Reject { reason } => (DecisionWord::Reject, None, reason),
    };
    ServerMessage::ApprovalClosed { session_id, place, tool_call_id, decision, by, command, reason }
}

fn tokens(usage: Usage) -> Tokens {
    Tokens {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_tokens,
    }
}

#[cfg(test)]
mod tests;
