//! The part of `state` that tells what a session does now.

use serde::{Deserialize, Serialize};
use sysop_core::event::PauseReason;
use sysop_core::id::TurnId;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;

/// Events that only `state` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateEvent {
    /// A turn without a prompt started: a direct call.
    TurnStarted,
    /// A model call runs.
    StepStarted,
    /// A user asked to stop the turn.
    CancelAsked,
    /// The turn is paused.
    Paused,
    /// The turn continues.
    Resumed,
    /// Older messages are no longer sent to the model.
    Compacted,
    /// The history was cleared.
    HistoryCleared,
}

/// What a session does now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The state.
    pub state: SessionState,
    /// The current or last turn; 0 before the first.
    pub turn: TurnId,
    /// Model calls in that turn so far.
    pub iteration: u32,
    /// Maximum number of model calls per turn.
    pub max_iterations: u32,
    /// Model of the next step. Absent if the encoder did not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Approval mode.
    pub approve: ApprovalMode,
    /// Number of queued prompts.
    pub queued: u32,
    /// Reason of a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<PauseReason>,
    /// Number of newest messages that the model receives, if older ones are omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_messages: Option<usize>,
    /// Set if the history was just cleared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history_cleared: bool,
}

/// State of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No turn runs.
    #[default]
    Idle,
    /// A model call runs.
    Thinking,
    /// A tool runs.
    Running,
    /// An approval is open.
    Waiting,
    /// The turn waits for `resume`.
    Paused,
    /// A user stopped the turn, and a tool is still running.
    Stopping,
}
