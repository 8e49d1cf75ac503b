//! States shown to the user, derived from the transcript and the user's last action.

use sysop_core::event::Decision;
use sysop_core::transcript::{ItemBody, SessionPhase, Transcript};

/// State of the session as shown to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waiting for a prompt.
    Input,
    Thinking,
    /// Waiting for a decision on a proposal.
    ReviewAction,
    Executing,
    /// Waiting for the model to read a tool's result.
    Finalizing,
    /// Task finished; the next key returns to `Input`.
    Done,
}

impl State {
    /// Returns true if a prompt sent now would be queued.
    pub fn is_busy(self) -> bool {
        match self {
            Self::Thinking | Self::ReviewAction | Self::Executing | Self::Finalizing => true,
            Self::Input | Self::Done => false,
        }
    }

    pub fn of(transcript: &Transcript) -> Self {
        match transcript.phase() {
            SessionPhase::Idle | SessionPhase::Paused { .. } | SessionPhase::Stopping => Self::Input,
            SessionPhase::Thinking { .. } if has_new_outcome(transcript) => Self::Finalizing,
            SessionPhase::Thinking { .. } => Self::Thinking,
            SessionPhase::AwaitingApproval { .. } => Self::ReviewAction,
            SessionPhase::Running { .. } => Self::Executing,
        }
    }

    /// Returns the state to show after a decision until the log confirms it.
    pub(super) fn after(decision: &Decision) -> Self {
        match decision {
            Decision::Allow { .. } | Decision::AllowSession { .. } => Self::Executing,
            Decision::Reject { .. } => Self::Thinking,
        }
    }
}

/// Returns true if the newest item, not counting notices, is a finished tool output that has no reply yet.
fn has_new_outcome(transcript: &Transcript) -> bool {
    let newest = transcript.items().rev().find(|item| !matches!(item.body, ItemBody::Notice(_)));
    newest.is_some_and(|item| matches!(&item.body, ItemBody::ToolOutput(output) if output.outcome.is_some()))
}
