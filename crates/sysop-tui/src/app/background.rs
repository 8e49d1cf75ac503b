//! Sessions that the user left while they were running.

use std::time::Duration;

use sysop_core::id::SessionId;
use sysop_core::transcript::{SessionPhase, Transcript};

use super::App;

/// Status of a session that the user left while it was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundStatus {
    Running,
    AwaitingUser,
}

impl BackgroundStatus {
    /// Returns the status for a transcript, or `None` if nothing is running.
    pub fn of(transcript: &Transcript) -> Option<Self> {
        match transcript.phase() {
            SessionPhase::Idle => None,
            SessionPhase::AwaitingApproval { .. } | SessionPhase::Paused { .. } => Some(Self::AwaitingUser),
            SessionPhase::Thinking { .. } | SessionPhase::Running { .. } | SessionPhase::Stopping => {
                Some(if transcript.questions().is_empty() { Self::Running } else { Self::AwaitingUser })
            }
        }
    }
}

impl App {
    /// Sets the status of a background session; `None` if it is no longer running.
    pub fn set_background_status(
        &mut self,
        id: &SessionId,
        standing: Option<BackgroundStatus>,
        now: Duration,
    ) {
        if self.session.as_ref() == Some(id) {
            return;
        }
        let known = self.background_sessions.iter().position(|(other, _)| other == id);
        match (known, standing) {
            (Some(at), Some(standing)) => self.background_sessions[at].1 = standing,
            (Some(at), None) => {
                self.background_sessions.remove(at);
            }
            (None, Some(standing)) => self.background_sessions.push((id.clone(), standing)),
            (None, None) => return,
        }
        let text = match standing {
            Some(BackgroundStatus::Running) if known.is_some() => return,
            Some(BackgroundStatus::Running) => "the other session is still running; see /sessions",
            Some(BackgroundStatus::AwaitingUser) => "another session needs approval; see /sessions",
            None => "another session is done; see /sessions",
        };
        self.show_flash(text, now);
    }
}
