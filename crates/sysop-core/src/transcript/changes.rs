//! Notices about the changes that calls made, and call counts.

use super::{Severity, Transcript};
use crate::outcome::Outcome;
use crate::undo::changed_line;

impl Transcript {
    pub fn tool_calls(&self) -> u32 {
        self.tool_calls
    }

    /// Counts a call that ended, and adds a notice about what it changed.
    pub(super) fn note_changes(&mut self, outcome: &Outcome) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        if let Some(line) = changed_line(outcome, self.tool_calls) {
            self.notice(Severity::Note, line);
        }
    }
}
