//! Context compaction: older messages are replaced by a ledger and, if a model wrote one, a summary.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// One compaction, as logged. The log itself stays complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Estimated tokens of the prompt before.
    pub tokens_before: u64,
    /// Estimated tokens of the prompt after.
    pub tokens_after: u64,
    /// Calls whose outputs are omitted from the prompt; their artifacts hold the full text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elided: Vec<CallId>,
    /// Facts extracted from the log by code: goal, rules, commands, changes.
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
}
