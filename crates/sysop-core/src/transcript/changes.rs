//! Notices about the changes that calls made, and call counts.

use super::{ItemBody, ItemId, Severity, ToolOutput, Transcript};
use crate::id::CallId;
use crate::outcome::Outcome;
use crate::undo::changed_line;

impl Transcript {
    pub fn tool_calls(&self) -> u32 {
        self.tool_calls
    }

    /// Returns the output of a call, if the transcript has it.
    pub fn output_of(&self, call: &CallId) -> Option<&ToolOutput> {
        match &self.item(&ItemId::ToolOutput(call.clone()))?.body {
            ItemBody::ToolOutput(output) => Some(output),
            ItemBody::Prompt(_)
            | ItemBody::Answer(_)
            | ItemBody::Reasoning(_)
            | ItemBody::Proposal(_)
            | ItemBody::Notice(_)
            | ItemBody::End(_) => None,
        }
    }

    /// Returns the output of the call with this number, or the newest output if `number` is `None`.
    pub fn ended_output(&self, number: Option<u32>) -> Option<&ToolOutput> {
        self.items().rev().find_map(|item| match &item.body {
            ItemBody::ToolOutput(output) => {
                let is_wanted = number.map_or(output.outcome.is_some(), |number| output.number == number);
                is_wanted.then_some(&**output)
            }
            ItemBody::Prompt(_)
            | ItemBody::Answer(_)
            | ItemBody::Reasoning(_)
            | ItemBody::Proposal(_)
            | ItemBody::Notice(_)
            | ItemBody::End(_) => None,
        })
    }

    /// Counts a call that ended, and adds a notice about what it changed.
    pub(super) fn note_changes(&mut self, outcome: &Outcome) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        if let Some(line) = changed_line(outcome, self.tool_calls) {
            self.notice(Severity::Note, line);
        }
    }
}
