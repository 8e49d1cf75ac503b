//! The six states of the agent-rs design, read off the transcript and what the person has just done.

use sysop_core::event::Decision;
use sysop_core::transcript::{ItemBody, SessionPhase, Transcript};

/// What the person sees the session do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The person writes.
    Input,
    /// A model is asked.
    Thinking,
    /// A proposal waits for the person.
    ReviewAction,
    /// A tool runs.
    Executing,
    /// The model gets to read what came of it.
    Finalizing,
    /// The task is done and summed up; the next key begins another.
    Done,
}

impl State {
    /// Whether the session works or waits for a decision: what is written now is for later.
    pub fn is_busy(self) -> bool {
        match self {
            Self::Thinking | Self::ReviewAction | Self::Executing | Self::Finalizing => true,
            Self::Input | Self::Done => false,
        }
    }

    /// What a transcript shows.
    pub fn of(transcript: &Transcript) -> Self {
        match transcript.phase() {
            SessionPhase::Idle | SessionPhase::Paused { .. } | SessionPhase::Stopping => Self::Input,
            SessionPhase::Thinking { .. } if has_new_outcome(transcript) => Self::Finalizing,
            SessionPhase::Thinking { .. } => Self::Thinking,
            SessionPhase::AwaitingApproval { .. } => Self::ReviewAction,
            SessionPhase::Running { .. } => Self::Executing,
        }
    }

    /// What a decision leads to, before the log says so.
    pub(super) fn after(decision: &Decision) -> Self {
        match decision {
            Decision::Allow { .. } | Decision::AllowSession { .. } => Self::Executing,
            Decision::Reject { .. } => Self::Thinking,
        }
    }
}

/// Whether the newest thing to read is what came of a tool: nothing of the answer to it has come yet.
fn has_new_outcome(transcript: &Transcript) -> bool {
    let newest = transcript.items().rev().find(|item| !matches!(item.body, ItemBody::Notice(_)));
    newest.is_some_and(|item| matches!(&item.body, ItemBody::ToolOutput(output) if output.outcome.is_some()))
}
