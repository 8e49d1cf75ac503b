//! Decodes server messages into updates: the reverse of [`Encoder`](crate::Encoder), for remote front ends.
//!
//! A `Transcript` gets the same items, phase, totals and questions from the decoded updates as from the log
//! itself. The updates are not equal to the log, because messages omit data that only the server needs. The
//! following values are empty or defaults:
//! - the system prompt, descriptions and schemas of tools, limits on tokens and messages, rules;
//! - the provider's raw form of a reply, its call ids, tool protocol and finish reason;
//! - the follow-up of a cancel, and timestamps.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each function decodes a few messages; a test covers all"
)]

use std::mem::discriminant;

use sysop_core::approval::ApprovalTerms;
use sysop_core::compaction::Compaction;
use sysop_core::event::{CancelFollowUp, ConfigChange, Delta, Event, Logged, Origin, Update};
use sysop_core::id::{Seq, StepId, Timestamp};
use sysop_core::instructions::Instructions;
use sysop_core::message::{ModelFailure, Reply, ToolCall};
use sysop_core::model_progress::ModelProgress;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Grant, PolicyOptions, Risk};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ClientTools, ToolSpec};

use crate::server_message::{
    ClientToolSet, LogPosition, OfferedTool, ServerMessage, State, StateEvent, arguments_of,
};

/// Decodes the messages of one session.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// Messages received so far of an incomplete event. Servers send at most one message of each kind per event.
    parts: Vec<ServerMessage>,
    /// Number of the last complete event.
    last: Seq,
    /// The current or last step. Deltas do not name their step, so they are assigned to this one.
    step: StepId,
}

impl Decoder {
    /// Creates a decoder that has not received any message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of the last complete event, which is the value for `resumeFrom` in `hello`.
    pub fn seq(&self) -> Seq {
        self.last
    }

    /// Decodes one message. The update of an event is returned with the event's last message. Messages of events that
    /// were decoded before are ignored. An event that a broken connection cut off may be received again in full.
    ///
    /// Also returns `None` for messages that concern only the connection: the answer to `hello`, an `error` that
    /// answers a message, `tool.cancel`, `terminal.output`, `heartbeat`. Callers that need these messages must inspect
    /// them first.
    pub fn take(&mut self, message: ServerMessage) -> Option<Update> {
        let Some(LogPosition { seq, more }) = message.position() else {
            return self.delta(message).map(Update::Delta);
        };
        if seq <= self.last {
            return None;
        }
        // Drops parts of events that never became complete, and parts that are received again.
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
            ServerMessage::AssistantProgress {
                prompt_done, prompt_total, received, receiving_ms, ..
            } => {
                let prompt = prompt_done.zip(prompt_total);
                Delta::Progress { step, progress: ModelProgress { prompt, received, receiving_ms } }
            }
            ServerMessage::Notice { content, .. } => Delta::Notice { text: content },
            ServerMessage::Question { question, .. } => Delta::Question { question },
            ServerMessage::QuestionClosed { id, by, .. } => Delta::QuestionClosed { id, by },
            ServerMessage::TerminalControl { holder, .. } => Delta::Control { holder },
            _ => return None,
        })
    }

    /// Builds the event from all messages with its `seq`. `None` if a server of another version sent something unknown.
    fn event(&mut self, parts: Vec<ServerMessage>) -> Option<Event> {
        let mut group = MessageGroup::default();
        for part in parts {
            match part {
                ServerMessage::State { now, event, origin, by, .. } => {
                    self.step = StepId { turn: now.turn, step: now.iteration };
                    group.event = event;
                    group.direct = (origin, by);
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
            None => state_event(group.event?, &group.now?, group.direct),
        }
    }

    fn main_event(&self, main: ServerMessage, group: MessageGroup) -> Option<Event> {
        let turn = self.step.turn;
        Some(match main {
            ServerMessage::UserMessage { content, images, by, .. } => {
                let turn = group.now.map_or(turn, |now| now.turn);
                let images = images.into_iter().map(Into::into).collect();
                Event::TurnStarted { turn, prompt: content, origin: Origin::Model, images, by }
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
            ServerMessage::AssistantDone { metadata, .. } => Event::TurnEnded {
                turn: metadata.turn,
                reason: metadata.stop_reason,
                error: group.error,
                active_ms: 0,
            },
            ServerMessage::PromptQueued { content, images, by, .. } => {
                let images = images.into_iter().map(Into::into).collect();
                Event::PromptQueued { text: content, images, by }
            }
            ServerMessage::PromptWithdrawn { content, by, .. } => {
                Event::PromptWithdrawn { text: content, by }
            }
            created @ ServerMessage::SessionCreated { .. } => session_opened(created)?,
            configured @ ServerMessage::Configured { .. } => {
                let reached = match &configured {
                    ServerMessage::Configured { reached, .. } => reached.clone(),
                    _ => None,
                };
                Event::Configured { change: change(configured)?, reached }
            }
            other => call_event(other)?,
        })
    }
}

/// Messages with the same `seq`, by role.
#[derive(Debug, Default)]
struct MessageGroup {
    main: Option<ServerMessage>,
    reply: Reply,
    error: Option<String>,
    now: Option<State>,
    event: Option<StateEvent>,
    /// Origin and sender of the call of a turn without a prompt.
    direct: (Option<Origin>, Option<String>),
}

fn state_event(
    event: StateEvent,
    now: &State,
    (origin, by): (Option<Origin>, Option<String>),
) -> Option<Event> {
    let step = StepId { turn: now.turn, step: now.iteration };
    Some(match event {
        StateEvent::TurnStarted => {
            let (prompt, images) = (String::new(), Vec::new());
            let origin = origin.unwrap_or(Origin::User); // a server of an older version
            Event::TurnStarted { turn: now.turn, prompt, origin, images, by }
        }
        StateEvent::StepStarted => Event::StepStarted { step },
        StateEvent::CancelAsked => Event::CancelAsked { then: CancelFollowUp::Nothing },
        StateEvent::Paused => {
            Event::Paused { reason: now.pause_reason?, detail: now.pause_detail.clone(), active_ms: 0 }
        }
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
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        host,
        root,
        profile,
    };
    Some(Event::SessionOpened { spec: spec.into(), opened_by })
}

fn change(configured: ServerMessage) -> Option<ConfigChange> {
    let ServerMessage::Configured {
        model, approve, bounds, mode, effort, budget, lent, rules, revoked, ..
    } = configured
    else {
        return None;
    };
    let revoked = (!revoked.is_empty()).then_some(ConfigChange::Revoke(revoked));
    let rules = rules.then(|| ConfigChange::Rules {
        dangerous: Vec::new(),
        deny: Vec::new(),
        options: None,
        rules: Vec::new(),
    });
    let lent = lent.map(|ClientToolSet { tools, root }| {
        ConfigChange::ClientTools(ClientTools { tools: tools.into_iter().map(tool).collect(), root })
    });
    let mode = mode.map(ConfigChange::Mode).or(effort.map(ConfigChange::Effort));
    let mode = mode.or(budget.map(ConfigChange::Budget));
    let approve = bounds.map(ConfigChange::Auto).or(approve.map(ConfigChange::Approve));
    model.map(ConfigChange::Model).or(approve).or(mode).or(lent).or(rules).or(revoked)
}

fn tool(offered: OfferedTool) -> ToolSpec {
    let parameters = serde_json::Value::Object(serde_json::Map::new());
    ToolSpec {
        name: offered.name,
        description: "".into(),
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
            expires_at,
            approvals,
            ..
        } => {
            let call = call_of(tool_call_id, name, arguments);
            let risk = Risk { class: risk, findings };
            let terms = ApprovalTerms { expires: expires_at, people: approvals.unwrap_or(1) };
            // Never offered: the call can be allowed only once.
            let covers = covers.unwrap_or_else(|| Grant::Exact { command: command.clone() });
            Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, scope: None, terms }
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
            images,
            unreachable,
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
                images: images.into_iter().map(Into::into).collect(),
                unreachable,
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
            replaced_messages,
            reason,
            usage,
            ..
        } => {
            let compaction = Compaction {
                tokens_before: before,
                tokens_after: after,
                elided,
                images_elided: false,
                ledger,
                summary,
                focus,
                keep: kept_messages,
                replaced: replaced_messages,
                reason,
                usage: usage.map(Into::into).unwrap_or_default(),
            };
            Event::ContextCompacted { compaction }
        }
        ServerMessage::Instructions { files, untrusted, skills, .. } => {
            Event::InstructionsLoaded { instructions: Instructions { files, untrusted, skills } }
        }
        ServerMessage::PromptExpanded { text, commands, .. } => Event::PromptExpanded { text, commands },
        ServerMessage::Todo { items, .. } => Event::TodoChanged { items },
        ServerMessage::JobStarted { job_id, tool_call_id, command, host, .. } => {
            Event::JobStarted { job: job_id, call: tool_call_id, command, host }
        }
        ServerMessage::JobFinished { job_id, status, exit_code, output, .. } => {
            Event::JobFinished { job: job_id, status, exit_code, output }
        }
        ServerMessage::GuardArmed { tool_call_id, host, seconds, .. } => {
            Event::GuardArmed { call: tool_call_id, host, seconds }
        }
        ServerMessage::GuardEnded { tool_call_id, host, how, .. } => {
            Event::GuardEnded { call: tool_call_id, host, how }
        }
        ServerMessage::ApprovalPreview { tool_call_id, command, risk, findings, preview, .. } => {
            let risk = risk.map(|class| Risk { class, findings });
            Event::ApprovalPreviewed { call: tool_call_id, command, risk, preview }
        }
        ServerMessage::ApprovalGiven { tool_call_id, by, needed, .. } => {
            Event::ApprovalGiven { call: tool_call_id, by, needed, person: None }
        }
        ServerMessage::Undone { tool_call_id, step, by, how, .. } => {
            Event::Undone { call: tool_call_id, step, by, how }
        }
        _ => return None,
    })
}
