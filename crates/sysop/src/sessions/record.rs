//! Record of a session, folded from its log: prompts, calls with their outcomes, changes and undos.

use std::collections::HashMap;
use std::sync::Arc;

use sysop_core::event::{ConfigChange, Decision, Event, Logged, Origin, StopReason};
use sysop_core::guard::GuardEnd;
use sysop_core::id::{CallId, SessionId, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Reversibility, Status};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::ToolEffect;
use sysop_core::transcript::{OutputReaders, Participants};
use sysop_core::undo::{UNDO_TOOL, undo_summary};
use sysop_driver::port::Store;

use super::{SessionsError, each_event};

/// Fact about an undo whose turn ended at its approval.
pub(super) const UNANSWERED: &str = "canceled before an answer";

/// Returns true if a call that has not started is an undo whose turn ended at its approval.
pub(super) fn is_unanswered_undo(tool: &str, status: Option<Status>) -> bool {
    tool == UNDO_TOOL && status == Some(Status::Cancelled)
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SessionRecord {
    pub(crate) spec: Option<Arc<SessionSpec>>,
    pub(crate) opened_by: Option<String>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) turns: Vec<RecordedTurn>,
    /// Calls in the order in which they started or, if they never started, in which they were rejected.
    pub(crate) calls: Vec<RecordedCall>,
    pub(crate) undos: Vec<RecordedUndo>,
    pub(crate) guards: Vec<RecordedGuard>,
    /// Users who sent prompts to a server, answered approvals, typed input or undid something, without duplicates.
    pub(crate) people: Vec<String>,
    pub(crate) readers: OutputReaders,
    /// Models that were configured, without duplicates.
    pub(crate) models: Vec<String>,
    /// True if a model was asked.
    pub(crate) asks_models: bool,
    pub(crate) participants: Participants,
    proposed: HashMap<CallId, (ToolCall, Origin)>,
    decisions: HashMap<CallId, RecordedDecision>,
    /// Users who have allowed a call that needs further approvals.
    consents: HashMap<CallId, Vec<String>>,
    /// Origin of the current turn.
    origin: Origin,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedTurn {
    pub(crate) at: Timestamp,
    /// The prompt; empty for a call made without a model.
    pub(crate) prompt: String,
    /// The user who sent the prompt to a server.
    pub(crate) by: Option<String>,
    /// The model's last text.
    pub(crate) answer: String,
    pub(crate) end: Option<StopReason>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedCall {
    /// Number of the call in the session, from 1.
    pub(crate) number: usize,
    /// The call exactly as it ran.
    pub(crate) call: ToolCall,
    /// Time of the call's start, or of its end if it never started.
    pub(crate) at: Timestamp,
    pub(crate) origin: Origin,
    /// The user who sent the call to a server; `None` for a call of a model.
    pub(crate) asked_by: Option<String>,
    pub(crate) decision: Option<RecordedDecision>,
    /// False if the call never ran.
    pub(crate) has_started: bool,
    /// `None` if the log ends before the call does.
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedDecision {
    /// The users who decided, in order. The last one closed the approval.
    pub(crate) by: Vec<String>,
    pub(crate) is_rejection: bool,
    /// The reason for a rejection; may be empty.
    pub(crate) reason: String,
    /// True if the user changed the command.
    pub(crate) is_edit: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedUndo {
    /// Number of the call whose changes were undone; `None` if unknown.
    pub(crate) call: Option<usize>,
    /// The users who allowed the undo, in order.
    pub(crate) by: Vec<String>,
    pub(crate) how: Reversibility,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedGuard {
    pub(crate) call: Option<usize>,
    pub(crate) host: String,
    /// `None` if the log does not contain the guard's end.
    pub(crate) end: Option<GuardEnd>,
}

impl RecordedCall {
    /// Returns the call as text: its command, or the tool with its path.
    pub(crate) fn text(&self) -> String {
        let command = self.call.text_argument("command").map(str::to_owned);
        if let Some(text) = command.or_else(|| undo_summary(&self.call)) {
            return text;
        }
        match self.call.text_argument("path").or_else(|| self.call.text_argument("keys")) {
            Some(text) => format!("{} {text}", self.call.name),
            None => match &self.call.arguments {
                Arguments::Object(map) if map.is_empty() => self.call.name.clone(),
                Arguments::Object(_) => format!("{} {}", self.call.name, self.call.arguments.to_value()),
                Arguments::Invalid(text) => format!("{} {text}", self.call.name),
            },
        }
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.outcome.as_ref().map(|outcome| outcome.status)
    }
}

impl SessionRecord {
    pub(crate) fn apply(&mut self, logged: &Logged) {
        self.started.get_or_insert(logged.at);
        self.ended = Some(logged.at);
        self.readers.apply(&logged.event);
        self.participants.apply(&logged.event);
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events do not describe what was done")]
        match &logged.event {
            Event::SessionOpened { spec, opened_by } => {
                self.models.push(spec.model.to_string());
                self.opened_by.clone_from(opened_by);
                self.spec = Some(Arc::clone(spec));
            }
            Event::Configured { change: ConfigChange::Model(model), .. } => {
                let model = model.to_string();
                if !self.models.contains(&model) {
                    self.models.push(model);
                }
            }
            Event::TurnStarted { prompt, origin, by, .. } => {
                self.origin = *origin;
                by.iter().for_each(|by| self.add_person(by));
                let (prompt, by, answer) = (prompt.clone(), by.clone(), String::new());
                self.turns.push(RecordedTurn { at: logged.at, prompt, by, answer, end: None, error: None });
            }
            Event::TurnEnded { reason, error, .. } => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.end = Some(*reason);
                    turn.error.clone_from(error);
                }
            }
            Event::Replied { reply, .. } => {
                let proposed =
                    reply.calls.iter().map(|call| (call.id.clone(), (call.clone(), Origin::Model)));
                self.proposed.extend(proposed);
                self.asks_models = true;
                self.answer(&reply.text);
            }
            Event::ModelFailed { .. } => self.asks_models = true,
            Event::ApprovalAsked { call, .. } => {
                let origin = self.proposed.get(&call.id).map_or(self.origin, |(_, origin)| *origin);
                self.proposed.insert(call.id.clone(), (call.clone(), origin));
            }
            Event::ApprovalGiven { call, by, .. } => {
                self.add_person(by);
                self.consents.entry(call.clone()).or_default().push(by.clone());
            }
            Event::Decided { call, decision, by } => self.decided(call, decision, by),
            Event::ToolStarted { call, origin } => {
                self.call_started(call.clone(), *origin, logged.at, true);
            }
            Event::ToolFinished { call, outcome } => self.call_ended(call, logged.at, outcome),
            Event::TerminalInput { by, .. } => self.add_person(by),
            Event::GuardArmed { call, host, .. } => {
                let call = self.number_of(call);
                self.guards.push(RecordedGuard { call, host: host.clone(), end: None });
            }
            Event::GuardEnded { call, host, how } => {
                let call = self.number_of(call);
                let open =
                    self.guards.iter_mut().rev().find(|guard| guard.call == call && guard.host == *host);
                if let Some(guard) = open {
                    guard.end = Some(*how);
                }
            }
            Event::Undone { call, by, how, .. } => {
                self.undone(call, by, *how);
            }
            _ => {}
        }
    }

    fn undone(&mut self, call: &CallId, by: &str, how: Reversibility) {
        self.add_person(by);
        let call = self.number_of(call);
        let undo = self.calls.iter().rfind(|recorded| recorded.call.name == UNDO_TOOL);
        let people = undo.and_then(|undo| undo.decision.as_ref()).map(|decision| decision.by.clone());
        self.undos.push(RecordedUndo { call, by: people.unwrap_or_else(|| vec![by.to_owned()]), how });
    }

    fn decided(&mut self, call: &CallId, decision: &Decision, by: &str) {
        self.add_person(by);
        let (is_rejection, is_edit, reason) = match decision {
            Decision::Allow { command } | Decision::AllowSession { command } => {
                (false, command.is_some(), "")
            }
            Decision::Reject { reason } => (true, false, reason.as_str()),
        };
        let mut people = self.consents.remove(call).unwrap_or_default();
        if is_rejection {
            people.clear();
        }
        people.push(by.to_owned());
        let decision = RecordedDecision { by: people, is_rejection, is_edit, reason: reason.to_owned() };
        self.decisions.insert(call.clone(), decision);
    }

    fn answer(&mut self, text: &str) {
        if let Some(turn) = self.turns.last_mut().filter(|_| !text.trim().is_empty()) {
            text.trim().clone_into(&mut turn.answer);
        }
    }

    fn call_started(&mut self, call: ToolCall, origin: Origin, at: Timestamp, has_started: bool) {
        self.proposed.remove(&call.id);
        let decision = self.decisions.remove(&call.id);
        let number = self.calls.len() + 1;
        let sender = self.turns.last().and_then(|turn| turn.by.clone());
        let asked_by = sender.filter(|_| origin != Origin::Model);
        let outcome = None;
        self.calls.push(RecordedCall { number, call, at, origin, asked_by, decision, has_started, outcome });
    }

    fn call_ended(&mut self, id: &CallId, at: Timestamp, outcome: &Outcome) {
        if let Some((call, origin)) = self.proposed.get(id).cloned() {
            let completes = self.spec.as_ref().is_some_and(|spec| {
                let named = spec.tools.iter().find(|tool| tool.name == call.name);
                named.is_some_and(|tool| tool.effect == ToolEffect::Completes)
            });
            if completes && outcome.status == Status::Ok {
                self.answer(&outcome.output);
            }
            self.call_started(call, origin, at, false);
        }
        let open = self.calls.iter_mut().rev().find(|recorded| recorded.call.id == *id);
        if let Some(recorded) = open {
            // The log names a call that was denied by its start, but it never ran.
            recorded.has_started &= outcome.status != Status::Rejected;
            recorded.outcome = Some(outcome.clone());
        }
    }

    fn add_person(&mut self, by: &str) {
        // sysop itself closes approvals that nobody can answer any more.
        if by != "sysop" && !self.people.iter().any(|person| person == by) {
            self.people.push(by.to_owned());
        }
    }

    fn number_of(&self, call: &CallId) -> Option<usize> {
        self.calls.iter().rev().find(|recorded| recorded.call.id == *call).map(|recorded| recorded.number)
    }
}

pub(crate) async fn read_record(store: &dyn Store, id: &SessionId) -> Result<SessionRecord, SessionsError> {
    let mut record = SessionRecord::default();
    each_event(store, id, |logged| {
        record.apply(logged);
        Ok(())
    })
    .await?;
    Ok(record)
}
