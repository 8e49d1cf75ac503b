//! The time between a reply of the model, or a call that a user typed, and the proposal or the run of the call.

use super::{ItemBody, SessionPhase, Transcript};
use crate::catalog::TASK_LIST_TOOL;
use crate::event::Origin;
use crate::message::ToolCall;

/// Work before a call is proposed or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPreparation<'a> {
    /// The host `host` is being connected to, or asked about the call, to assess it.
    Survey {
        host: &'a str,
        /// True if the host has been reached before.
        reached: bool,
        /// True if the call is a command.
        is_command: bool,
    },
    /// The call has been decided. Its host is being surveyed once more, or what it may change is being kept for an
    /// undo.
    Start,
}

impl Transcript {
    /// Returns the next call of the last reply that has neither been proposed nor run. `None` if there is none, or if
    /// the session does something else.
    pub fn pending_call(&self) -> Option<&ToolCall> {
        let is_pending = |call: &&ToolCall| {
            self.plan(&call.id).is_none() && !self.completes(&call.name) && call.name != TASK_LIST_TOOL
        };
        self.open_calls.iter().find(is_pending).filter(|_| self.is_between_calls() && !self.starts_call())
    }

    /// Returns the work before the next call is proposed or runs. `None` if the session does something else.
    pub fn call_preparation(&self) -> Option<CallPreparation<'_>> {
        if !self.is_between_calls() {
            return None;
        }
        if self.starts_call() {
            return Some(CallPreparation::Start);
        }
        // The log has a call that no model proposed only once it is proposed or runs.
        let is_direct = self.is_turn_without_model() && self.turn.step.step == 0;
        let call = self.pending_call();
        let info = self.session_info().filter(|_| is_direct || call.is_some())?;
        Some(CallPreparation::Survey {
            host: call.map_or(info.host.as_str(), |call| info.place_of(&call.name).0),
            reached: self.has_reached_host(),
            is_command: call.is_none_or(|call| call.text_argument("command").is_some()),
        })
    }

    /// Returns true while a call of the last reply, or of a user, is about to be proposed or to run.
    pub fn prepares_call(&self) -> bool {
        self.call_preparation().is_some()
    }

    /// Returns true if no model takes part in the turn. Its calls are of a user, a routine, a plan or an MCP client.
    pub fn is_turn_without_model(&self) -> bool {
        self.turn.origin != Origin::Model
    }

    fn is_between_calls(&self) -> bool {
        !self.calls_model() && matches!(self.phase, SessionPhase::Thinking { .. })
    }

    /// Returns true if the newest item, apart from notices, is a call that has not started.
    fn starts_call(&self) -> bool {
        let newest = self.items().rev().find(|item| !matches!(item.body, ItemBody::Notice(_)));
        newest.is_some_and(|item| matches!(item.body, ItemBody::Proposal(_)))
    }
}
