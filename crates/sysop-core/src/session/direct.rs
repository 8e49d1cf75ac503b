//! Direct calls: calls that a user typed, routines, and undo. They run without a model.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::state::QueuedPrompt;
use super::{Activity, Session};
use crate::event::{CancelFollowUp, Effect, Origin, Output, StopReason};
use crate::message::{Arguments, ToolCall};
use crate::ui_text;
use crate::undo::UNDO_TOOL;

/// A call to run without a model; the fields of `Input::Direct`.
pub(super) struct DirectCall {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) origin: Origin,
    pub(super) by: Option<String>,
}

impl Session {
    /// Runs one call without a model. A paused turn is abandoned first, unless the call is an undo that is impossible.
    /// While a turn runs, a notice says that the call does not run.
    pub(super) fn on_direct(&mut self, out: &mut Output, direct: DirectCall) {
        let waiting = match self.activity() {
            Activity::Idle => VecDeque::new(),
            Activity::Paused => {
                if direct.tool == UNDO_TOOL
                    && let Err(why) = self.undo_arguments(&direct.arguments)
                {
                    return refuse(out, &why);
                }
                let waiting = self.state.queue.clone();
                self.stop_with_reason(out, StopReason::Paused, CancelFollowUp::Nothing);
                waiting
            }
            Activity::AwaitingApproval => return refuse(out, ui_text::PROPOSAL_WAITS),
            Activity::Thinking | Activity::Running => return refuse(out, ui_text::TURN_RUNS),
        };
        self.call_directly(out, direct);
        for prompt in waiting {
            self.emit(out, prompt.into());
        }
    }

    fn call_directly(&mut self, out: &mut Output, direct: DirectCall) {
        let DirectCall { tool, arguments, origin, by } = direct;
        self.start_turn(out, QueuedPrompt { by, ..QueuedPrompt::default() }, origin);
        let arguments = if tool == UNDO_TOOL {
            match self.undo_arguments(&arguments) {
                Ok(arguments) => arguments,
                Err(error) => return self.end_turn(out, StopReason::Failed, Some(error)),
            }
        } else {
            arguments
        };
        let id = self.state.unique_id(&format!("direct_{}", self.state.turn));
        let call = ToolCall { id, wire_id: None, name: tool, arguments: Arguments::Object(arguments) };
        self.review_call(out, call, origin);
    }
}

fn refuse(out: &mut Output, why: &str) {
    out.effects.push(Effect::Notify { text: format!("{}{why}", ui_text::NOT_RUN) });
}
