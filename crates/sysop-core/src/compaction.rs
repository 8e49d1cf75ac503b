//! Context compaction: older messages are replaced with a ledger and, if a model wrote one, a summary.

use serde::{Deserialize, Serialize};

use crate::id::CallId;
use crate::message::Usage;

/// A compaction, as recorded in the log. It shortens only the prompt; nothing is removed from the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Estimated prompt tokens before the compaction.
    pub tokens_before: u64,
    /// Estimated prompt tokens after the compaction.
    pub tokens_after: u64,
    /// Calls whose outputs are omitted from the prompt; their artifacts hold the full text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elided: Vec<CallId>,
    /// True if the images of older messages are omitted from the prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub images_elided: bool,
    /// Facts that code extracted from the log: the goal, the user's words, refusals, commands and changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ledger: String,
    /// The model's summary; `None` if there is only a ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Number of newest messages kept verbatim.
    #[serde(default)]
    pub keep: usize,
    /// Number of messages that the ledger and the summary replace; 0 if only outputs are omitted.
    #[serde(default)]
    pub replaced: usize,
    #[serde(default)]
    pub reason: CompactionReason,
    /// Tokens of the model call that wrote the summary.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

/// Reason for a compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// The prompt exceeded the threshold.
    #[default]
    Threshold,
    /// The model's server rejected the prompt as too long.
    Overflow,
    /// Requested by a user.
    Asked,
}
