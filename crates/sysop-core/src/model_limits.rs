//! Limits of a model: context window and reply length. The prompt is kept within them.

use serde::{Deserialize, Serialize};

use crate::model_table::ModelPrice;

/// Context window, in tokens, assumed if the config, the server and the built-in table all lack one.
pub const CONTEXT_WINDOW_DEFAULT: u32 = 32_768;
/// Context windows up to this size, in tokens, are compacted without a summary from the model.
pub const LEDGER_ONLY_WINDOW_MAX: u32 = 8_192;
/// Smallest context window that a session assumes, in tokens, even after an overflow suggests less.
pub const CONTEXT_WINDOW_MIN: u32 = 1_024;
/// Minimum tokens reserved for a reply.
const RESERVE_MIN: u64 = 1_024;

/// Limits of one model from the config. They take precedence over the limits that the model's server reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// Maximum tokens of the prompt and the reply together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// True if the model accepts images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    /// Price from `[prices]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

/// Returns the prompt size, in tokens, above which the context is compacted: 80% of the window, or the window
/// minus the tokens reserved for a reply, whichever is less.
///
/// ```
/// use sysop_core::model_limits::compaction_threshold;
///
/// assert_eq!(compaction_threshold(200_000, None), 160_000);
/// assert_eq!(compaction_threshold(32_768, Some(16_000)), 16_768);
/// ```
pub fn compaction_threshold(window: u32, max_output_tokens: Option<u32>) -> u64 {
    let window = u64::from(window);
    let reserve = (window / 8).max(max_output_tokens.map_or(0, u64::from)).max(RESERVE_MIN).min(window / 2);
    (window * 4 / 5).min(window - reserve)
}

#[cfg(test)]
mod tests {
    use super::compaction_threshold;

    #[test]
    fn a_large_reply_limit_leaves_half_of_the_window_to_the_prompt() {
        assert_eq!(compaction_threshold(8_192, Some(100_000)), 4_096);
    }

    #[test]
    fn a_tiny_window_keeps_room_for_a_reply() {
        assert_eq!(compaction_threshold(2_048, None), 1_024);
        assert_eq!(compaction_threshold(4_096, None), 3_072);
    }
}
