//! Notices about the changes that calls made, and call counts.

use super::{ItemId, Severity, ToolOutput, Transcript};
use crate::id::CallId;
use crate::outcome::Outcome;
use crate::undo::changed_line;

impl Transcript {
    pub fn tool_calls(&self) -> u32 {
        self.tool_calls
    }

    /// Returns the output of a call, if the transcript has it.
    pub fn output_of(&self, call: &CallId) -> Option<&ToolOutput> {
        self.item(&ItemId::ToolOutput(call.clone()))?.body.tool_output()
    }

    /// Returns the output of the call with this number, or the newest output if `number` is `None`.
    pub fn ended_output(&self, number: Option<u32>) -> Option<&ToolOutput> {
        let mut outputs = self.items().rev().filter_map(|item| item.body.tool_output());
        outputs.find(|output| number.map_or(output.outcome.is_some(), |number| output.number == number))
    }

    /// Counts a call that ended, and adds a notice about what it changed. The item of a file tool names its file.
    pub(super) fn note_changes(&mut self, outcome: &Outcome) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        let by_file_tool = outcome.records.is_empty() && !outcome.changes.is_empty();
        if let Some(line) = changed_line(outcome, self.tool_calls).filter(|_| !by_file_tool) {
            self.notice(Severity::Note, line);
        }
    }
}
