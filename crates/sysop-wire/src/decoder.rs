//! Puts messages back into what happened: the reverse of the [`Encoder`](crate::Encoder), for a front end on a server's
//! session.
//!
//! What comes out leads a `Transcript` to the same items, phase, totals and questions as the log itself. It is not the
//! log: the wire leaves out what only the server needs, and here it is empty or a default. That is
//! - the system prompt, the descriptions and schemas of tools, the limits on tokens and messages, the rules;
//! - of a reply the provider's own form, its ids of calls, its tool protocol and why it stopped;
//! - what follows a turn that is being stopped, and when things happened.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each function is about few messages; a test decodes all"
)]

use std::mem::discriminant;

use sysop_core::compaction::Compaction;
use sysop_core::event::{CancelFollowUp, ConfigChange, Delta, Event, Logged, Origin, Update};
use sysop_core::id::{Seq, StepId, Timestamp};
use sysop_core::message::{ModelFailure, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{PolicyOptions, Risk};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ClientTools, ToolSpec};

use crate::server_message::{
    ClientToolSet, LogPosition, OfferedTool, ServerMessage, State, StateEvent, arguments_of,
};

/// Puts one session's messages back into updates.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// The messages of an event of which more are to come; one of each kind, as a server sends them.
    parts: Vec<ServerMessage>,
    /// The last event that is whole.
    last: Seq,
    /// The step that runs, or ran last: deltas do not say whose they are.
    step: StepId,
}

impl Decoder {
    /// Begins before the first event of a session.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last event that came whole: what `hello` says as `resumeFrom`.
    pub fn seq(&self) -> Seq {
        self.last
    }

    /// What a message tells of the session, once it is whole. An event that came before tells nothing; one of which
    /// a part came before the connection broke may come again, whole.
    ///
    /// Messages of the connection tell nothing either: the answer to `hello`, an `error` that answers a message,
    /// `tool.cancel`, `terminal.output`, `heartbeat`. Who needs them looks at them first.
    pub fn take(&mut self, message: ServerMessage) -> Option<Update> {
        let Some(LogPosition { seq, more }) = message.position() else {
            return self.delta(message).map(Update::Delta);
        };
        if seq <= self.last {
            return None;
        }
        // What never became whole goes, and so does what came before the connection broke and comes again.
        self.parts.retain(|part| {
            let of_this = part.position().is_some_and(|position| position.seq == seq);
            of_this && discriminant(part) != discriminant(&message)
        });
        self.parts.push(message);
        if more {
            return None;
        }
        let parts = std::mem::take(&mut self.parts);
        self.last = seq;
        let event = self.event(parts)?;
        Some(Update::Logged(Logged { seq, at: Timestamp(0), event }.into()))
    }

    fn delta(&self, message: ServerMessage) -> Option<Delta> {
        let step = self.step;
        Some(match message {
            ServerMessage::AssistantDelta { content: text, .. } => Delta::Text { step, text },
            ServerMessage::AssistantReasoning { content: text, .. } => Delta::Reasoning { step, text },
            ServerMessage::AssistantRestarted { .. } => Delta::Restarted { step },
            ServerMessage::ToolOutput { tool_call_id, content, .. } => {
                Delta::Output { call: tool_call_id, text: content }
            }
            ServerMessage::Notice { content, .. } => Delta::Notice { text: content },
            ServerMessage::Question { question, .. } => Delta::Question { question },
            ServerMessage::QuestionClosed { id, by, .. } => Delta::QuestionClosed { id, by },
            ServerMessage::TerminalControl { holder, .. } => Delta::Control { holder },
            _ => return None,
        })
    }

    /// The event of all messages of one seq; none where a server of another version tells what is not known here.
    fn event(&mut self, parts: Vec<ServerMessage>) -> Option<Event> {
        let mut group = MessageGroup::default();
        for part in parts {
            match part {
                ServerMessage::State { now, event, .. } => {
                    self.step = StepId { turn: now.turn, step: now.iteration };
                    group.event = event;
                    group.now = Some(now);
                }
                ServerMessage::Error { message, .. } => group.error = Some(message),
                ServerMessage::AssistantMessage { content, reasoning, .. } => {
                    (group.reply.text, group.reply.reasoning) = (content, reasoning);
                }
                other => group.main = Some(other),
            }
        }
        match group.main.take() {
            Some(main) => self.main_event(main, group),
            None => state_event(group.event?, &group.now?),
        }
    }

    fn main_event(&self, main: ServerMessage, group: MessageGroup) -> Option<Event> {
        let turn = self.step.turn;
        Some(match main {
            ServerMessage::UserMessage { content, .. } => {
                let turn = group.now.map_or(turn, |now| now.turn);
                Event::TurnStarted { turn, prompt: content, origin: Origin::Model }
            }
            ServerMessage::StepFinished { iteration, usage, tool_calls, .. } => {
                let calls = tool_calls.into_iter().map(ToolCall::from).collect();
                let reply = Reply { calls, usage: usage.into(), ..group.reply };
                Event::Replied { step: StepId { turn, step: iteration }, reply }
            }
            ServerMessage::StepFailed { iteration, kind, message, .. } => Event::ModelFailed {
                step: StepId { turn, step: iteration },
                failure: ModelFailure { kind, message },
            },
            ServerMessage::AssistantDone { metadata, .. } => {
                Event::TurnEnded { turn: metadata.turn, reason: metadata.stop_reason, error: group.error }
            }
            ServerMessage::PromptQueued { content, .. } => Event::PromptQueued { text: content },
            created @ ServerMessage::SessionCreated { .. } => session_opened(created)?,
            configured @ ServerMessage::Configured { .. } => {
                Event::Configured { change: change(configured)? }
            }
            other => call_event(other)?,
        })
    }
}

/// All messages of one seq, by what they tell.
#[derive(Debug, Default)]
struct MessageGroup {
    main: Option<ServerMessage>,
    reply: Reply,
    error: Option<String>,
    now: Option<State>,
    event: Option<StateEvent>,
}

fn state_event(event: StateEvent, now: &State) -> Option<Event> {
    let step = StepId { turn: now.turn, step: now.iteration };
    Some(match event {
        StateEvent::TurnStarted => {
            Event::TurnStarted { turn: now.turn, prompt: String::new(), origin: Origin::User }
        }
        StateEvent::StepStarted => Event::StepStarted { step },
        StateEvent::CancelAsked => Event::CancelAsked { then: CancelFollowUp::Nothing },
        StateEvent::Paused => Event::Paused { reason: now.pause_reason? },
        StateEvent::Resumed => Event::Resumed,
        StateEvent::Compacted => Event::Compacted { keep: now.kept_messages? },
        StateEvent::HistoryCleared => Event::HistoryCleared,
    })
}

fn session_opened(created: ServerMessage) -> Option<Event> {
    let ServerMessage::SessionCreated {
        model,
        approve,
        host,
        root,
        profile,
        max_iterations,
        tools,
        opened_by,
        ..
    } = created
    else {
        return None;
    };
    let spec = SessionSpec {
        model,
        system: String::new(),
        tools: tools.into_iter().map(tool).collect(),
        approve,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: PolicyOptions::default(),
        max_iterations,
        max_history_messages: 0,
        max_output_tokens: None,
        temperature: None,
        host,
        root,
        profile,
    };
    Some(Event::SessionOpened { spec, opened_by })
}

fn change(configured: ServerMessage) -> Option<ConfigChange> {
    let ServerMessage::Configured { model, approve, mode, lent, rules, .. } = configured else { return None };
    let rules = rules.then(|| ConfigChange::Rules {
        dangerous: Vec::new(),
        deny: Vec::new(),
        options: None,
        rules: Vec::new(),
    });
    let lent = lent.map(|ClientToolSet { tools, root }| {
        ConfigChange::ClientTools(ClientTools { tools: tools.into_iter().map(tool).collect(), root })
    });
    let mode = mode.map(ConfigChange::Mode);
    model.map(ConfigChange::Model).or(approve.map(ConfigChange::Approve)).or(mode).or(lent).or(rules)
}

fn tool(offered: OfferedTool) -> ToolSpec {
    let parameters = serde_json::Value::Object(serde_json::Map::new());
    ToolSpec {
        name: offered.name,
        description: String::new(),
        parameters: parameters.into(),
        effect: offered.effect,
    }
}

fn call_event(message: ServerMessage) -> Option<Event> {
    let call_of =
        |id, name, arguments| ToolCall { id, wire_id: None, name, arguments: arguments_of(arguments) };
    Some(match message {
        ServerMessage::ApprovalRequest {
            tool_call_id,
            name,
            command,
            arguments,
            reason,
            risk,
            findings,
            covers,
            preview,
            guarded,
            ..
        } => {
            let call = call_of(tool_call_id, name, arguments);
            let risk = Risk { class: risk, findings };
            Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, scope: None }
        }
        ServerMessage::ApprovalClosed { tool_call_id, decision, by, command, reason, .. } => {
            Event::Decided { call: tool_call_id, decision: decision.into_decision(command, reason), by }
        }
        ServerMessage::ToolCall { tool_call_id, name, arguments, origin, .. } => {
            Event::ToolStarted { call: call_of(tool_call_id, name, arguments), origin }
        }
        ServerMessage::ToolFinished {
            tool_call_id,
            status,
            exit_code,
            truncated,
            output,
            styles,
            duration_ms,
            artifact,
            changes,
            hosts,
            changed,
            undo,
            ..
        } => {
            let changes = changes.into_iter().map(Into::into).collect();
            let outcome = Outcome {
                styles,
                exit_code,
                truncated,
                artifact,
                duration_ms,
                changes,
                hosts,
                changed,
                undo,
                ..Outcome::new(status, output)
            };
            Event::ToolFinished { call: tool_call_id, outcome }
        }
        other => return notice_event(other),
    })
}

fn notice_event(message: ServerMessage) -> Option<Event> {
    Some(match message {
        ServerMessage::TerminalTyped { by, typed, .. } => Event::TerminalInput { by, typed },
        ServerMessage::ContextCompacted {
            before,
            after,
            elided,
            ledger,
            summary,
            focus,
            kept_messages,
            ..
        } => {
            let (tokens_before, tokens_after, keep) = (before, after, kept_messages);
            let compaction = Compaction { tokens_before, tokens_after, elided, ledger, summary, focus, keep };
            Event::ContextCompacted { compaction }
        }
        ServerMessage::Todo { items, .. } => Event::TodoChanged { items },
        ServerMessage::JobStarted { job_id, tool_call_id, command, host, .. } => {
            Event::JobStarted { job: job_id, call: tool_call_id, command, host }
        }
        ServerMessage::JobFinished { job_id, status, exit_code, .. } => {
            Event::JobFinished { job: job_id, status, exit_code }
        }
        ServerMessage::GuardArmed { tool_call_id, host, seconds, .. } => {
            Event::GuardArmed { call: tool_call_id, host, seconds }
        }
        ServerMessage::GuardEnded { tool_call_id, host, how, .. } => {
            Event::GuardEnded { call: tool_call_id, host, how }
        }
        ServerMessage::ApprovalGiven { tool_call_id, by, needed, .. } => {
            Event::ApprovalGiven { call: tool_call_id, by, needed }
        }
        ServerMessage::Undone { tool_call_id, by, how, .. } => Event::Undone { call: tool_call_id, by, how },
        _ => return None,
    })
}
