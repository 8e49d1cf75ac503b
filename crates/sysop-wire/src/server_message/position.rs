//! Positions of messages in the log, and the points from which a client may resume.

use sysop_core::id::Seq;

use super::{LogPosition, ServerMessage};

impl ServerMessage {
    /// Returns the position in the log; `None` for messages that are not logged.
    pub fn position(&self) -> Option<LogPosition> {
        match self {
            Self::Configured { position, .. }
            | Self::PromptQueued { position, .. }
            | Self::PromptWithdrawn { position, .. }
            | Self::UserMessage { position, .. }
            | Self::AssistantMessage { position, .. }
            | Self::StepFinished { position, .. }
            | Self::StepFailed { position, .. }
            | Self::AssistantDone { position, .. }
            | Self::ToolCall { position, .. }
            | Self::ToolFinished { position, .. }
            | Self::ApprovalRequest { position, .. }
            | Self::ApprovalClosed { position, .. }
            | Self::ApprovalGiven { position, .. }
            | Self::ApprovalPreview { position, .. }
            | Self::ContextCompacted { position, .. }
            | Self::Instructions { position, .. }
            | Self::PromptExpanded { position, .. }
            | Self::Todo { position, .. }
            | Self::JobStarted { position, .. }
            | Self::JobFinished { position, .. }
            | Self::GuardArmed { position, .. }
            | Self::GuardEnded { position, .. }
            | Self::Undone { position, .. }
            | Self::TerminalTyped { position, .. }
            | Self::State { position, .. } => Some(*position),
            Self::SessionCreated { position, .. } | Self::Error { position, .. } => *position,
            Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
            | Self::ToolCancel { .. }
            | Self::ToolOutput { .. }
            | Self::TerminalOutput { .. }
            | Self::AssistantProgress { .. }
            | Self::Notice { .. }
            | Self::Question { .. }
            | Self::QuestionClosed { .. }
            | Self::TerminalControl { .. }
            | Self::Heartbeat {} => None,
        }
    }

    /// Returns the `seq` from which a client may resume, or `None` if this is not the last message of an event.
    pub fn resume_point(&self) -> Option<Seq> {
        self.position().filter(|position| !position.more).map(|position| position.seq)
    }

    /// Marks that another message of the same event follows.
    pub(crate) fn set_more(&mut self) {
        match self {
            Self::Configured { position, .. }
            | Self::PromptQueued { position, .. }
            | Self::PromptWithdrawn { position, .. }
            | Self::UserMessage { position, .. }
            | Self::AssistantMessage { position, .. }
            | Self::StepFinished { position, .. }
            | Self::StepFailed { position, .. }
            | Self::AssistantDone { position, .. }
            | Self::ToolCall { position, .. }
            | Self::ToolFinished { position, .. }
            | Self::ApprovalRequest { position, .. }
            | Self::ApprovalClosed { position, .. }
            | Self::ApprovalGiven { position, .. }
            | Self::ApprovalPreview { position, .. }
            | Self::ContextCompacted { position, .. }
            | Self::Instructions { position, .. }
            | Self::PromptExpanded { position, .. }
            | Self::Todo { position, .. }
            | Self::JobStarted { position, .. }
            | Self::JobFinished { position, .. }
            | Self::GuardArmed { position, .. }
            | Self::GuardEnded { position, .. }
            | Self::Undone { position, .. }
            | Self::TerminalTyped { position, .. }
            | Self::State { position, .. }
            | Self::SessionCreated { position: Some(position), .. }
            | Self::Error { position: Some(position), .. } => position.more = true,
            Self::SessionCreated { position: None, .. }
            | Self::Error { position: None, .. }
            | Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
            | Self::ToolCancel { .. }
            | Self::ToolOutput { .. }
            | Self::TerminalOutput { .. }
            | Self::AssistantProgress { .. }
            | Self::Notice { .. }
            | Self::Question { .. }
            | Self::QuestionClosed { .. }
            | Self::TerminalControl { .. }
            | Self::Heartbeat {} => {}
        }
    }
}
