//! Label of the prompt.

use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::transcript::SessionPhase;

use super::{ActiveRead, Repl};
use crate::render::{safe, words};

impl Repl {
    /// Draws the label of the line that is being edited again if it has changed, for example because time has passed.
    pub(super) fn refresh_label(&mut self) {
        let label = self.label_text();
        if self.active_read == ActiveRead::Line && *self.label.read() != label {
            *self.label.write() = label;
            self.console.repaint();
        }
    }

    pub(super) fn label_text(&self) -> String {
        let mut left = String::new();
        if let Some(facts) = self.transcript.session_info() {
            left = format!("{} {} ", words::host_summary(facts.place()), facts.model);
            if facts.approve != ApprovalMode::Ask {
                left.push_str(&format!("{} ", facts.approval_status(Some(words::now()))));
            }
            left.extend(facts.fence_label().map(|word| format!("{word} ")));
            if facts.mode == Mode::Chat {
                left.push_str("chat ");
            }
        }
        if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) {
            left.push_str("paused ");
        }
        safe(&left)
    }
}
