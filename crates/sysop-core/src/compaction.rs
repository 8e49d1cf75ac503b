//! A compaction of the context: older messages are replaced by a ledger and, where a model wrote one, a summary.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// One compaction, as the log keeps it. The log itself stays whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Tokens of the prompt before, estimated.
    pub tokens_before: u64,
    /// Tokens of the prompt after, estimated.
    pub tokens_after: u64,
    /// Calls whose outputs are left out of the prompt; they can be read again from their artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elided: Vec<CallId>,
    /// Facts that the code took from the log: goal, rules, commands, changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ledger: String,
    /// The model's summary; `None` for a ledger alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Focus that a user asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Number of newest messages that stay unchanged.
    #[serde(default)]
    pub keep: usize,
}
