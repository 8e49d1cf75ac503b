//! The part of `state` that tells what a session does now.

use serde::{Deserialize, Serialize};
use sysop_core::event::PauseReason;
use sysop_core::id::TurnId;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;

/// What happened, where `state` alone tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateEvent {
    /// A turn without words of a person began: a direct call.
    TurnStarted,
    /// A model is asked.
    StepStarted,
    /// A person wants the turn to stop.
    CancelAsked,
    /// The turn waits.
    Paused,
    /// The turn goes on.
    Resumed,
    /// Older messages are no longer sent to the model.
    Compacted,
    /// The history was forgotten.
    HistoryCleared,
}

/// What a session does now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// In one word.
    pub state: SessionState,
    /// The turn that runs, or ran last; 0 before the first.
    pub turn: TurnId,
    /// Model calls in that turn so far.
    pub iteration: u32,
    /// The most model calls in one turn.
    pub max_iterations: u32,
    /// The model of the next step; left out where the encoder did not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// How much runs without a person.
    pub approve: ApprovalMode,
    /// Prompts that wait for the end of the turn.
    pub queued: u32,
    /// Why it is paused, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<PauseReason>,
    /// How many newest messages are sent to the model, where older ones had to be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_messages: Option<usize>,
    /// Whether the history was forgotten just now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history_cleared: bool,
}

/// What a session does now, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No turn runs.
    #[default]
    Idle,
    /// A model is asked.
    Thinking,
    /// A tool runs.
    Running,
    /// An approval is open.
    Waiting,
    /// The turn waits for `resume`.
    Paused,
    /// A person stopped the turn, and the running tool has yet to end.
    Stopping,
}
