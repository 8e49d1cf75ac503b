//! Notices about the changes that calls made, and call counts.

use sysop_shell::full_screen_program;

use super::{ItemId, Severity, ToolOutput, Transcript};
use crate::catalog::BASH_TOOL;
use crate::event::Origin;
use crate::id::CallId;
use crate::outcome::{Outcome, Status};
use crate::undo::changed_line;

/// Exit code of a shell that cannot run a program. 127 means that the program is missing.
const NOT_EXECUTABLE: i32 = 126;

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

    /// Returns a line about a command of a user that did not succeed because its program needs a terminal.
    pub fn terminal_hint(&self, call: &CallId, outcome: &Outcome) -> Option<String> {
        let is_likely = match outcome.status {
            Status::Timeout | Status::Cancelled => true,
            Status::Failed => outcome.exit_code.is_some_and(|code| code < NOT_EXECUTABLE),
            Status::Ok | Status::Interrupted | Status::Unknown | Status::Rejected => false,
        };
        let plan = self.plan(call).filter(|plan| is_likely && plan.origin == Origin::User)?;
        let runs_without_terminal = plan.call.name == BASH_TOOL;
        // A session on several hosts has no terminal that could be opened.
        let has_shell = outcome.hosts.is_empty();
        let program = full_screen_program(&plan.command).filter(|_| runs_without_terminal && has_shell)?;
        Some(format!("{program} needs a terminal; open it with /shell"))
    }

    /// Counts a call that ended, and adds a notice about what it changed. The item of a file tool names its file.
    pub(super) fn note_changes(&mut self, call: &CallId, outcome: &Outcome) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        let by_file_tool = outcome.records.is_empty() && !outcome.changes.is_empty();
        if let Some(line) = changed_line(outcome, self.tool_calls).filter(|_| !by_file_tool) {
            self.notice(Severity::Note, line);
        } else if let Some(hint) = self.terminal_hint(call, outcome) {
            self.notice(Severity::Note, hint);
        }
    }
}
