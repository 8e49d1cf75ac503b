//! Body of the `state` message.

use serde::{Deserialize, Serialize};
use sysop_core::auto_meter::AutoLeft;
use sysop_core::event::PauseReason;
use sysop_core::id::TurnId;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;

/// Event reported by `state` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateEvent {
    /// A turn without a prompt began: a direct call.
    TurnStarted,
    /// A model request is in flight.
    StepStarted,
    /// A user canceled the turn.
    CancelAsked,
    /// The turn was paused.
    Paused,
    /// The turn continues.
    Resumed,
    /// Older messages are no longer sent to the model.
    Compacted,
    /// The history was dropped.
    HistoryCleared,
}

/// Current state of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Summary in one word.
    pub state: SessionState,
    /// The current or last turn; 0 before the first.
    pub turn: TurnId,
    /// Number of model calls in that turn so far.
    pub iteration: u32,
    /// Maximum model calls per turn.
    pub max_iterations: u32,
    /// Model of the next step; omitted if the server does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Approval mode.
    pub approve: ApprovalMode,
    /// Remaining bounds of the mode `auto`; omitted if there are no bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoLeft>,
    /// Number of prompts queued behind the turn.
    pub queued: u32,
    /// Reason for the pause, if the session is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<PauseReason>,
    /// The spent budget with its numbers, if one caused the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_detail: Option<String>,
    /// Number of newest messages sent to the model, if older ones had to be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_messages: Option<usize>,
    /// True if the history was dropped by this event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history_cleared: bool,
}

/// Current state of a session, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No turn is active.
    #[default]
    Idle,
    /// A model request is in flight.
    Thinking,
    /// A tool runs.
    Running,
    /// A call is waiting for approval.
    Waiting,
    /// The turn waits for `resume`.
    Paused,
    /// A user canceled the turn, and the running tool has not ended yet.
    Stopping,
}
