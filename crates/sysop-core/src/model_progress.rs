//! Progress of a model call, for live display.

use serde::{Deserialize, Serialize};

/// Minimum time since the first token, in milliseconds, before a rate is reported.
const RATE_MS_MIN: u64 = 500;

/// Progress of a model call: of reading the prompt, if the server reports that, and of receiving the reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProgress {
    /// Prompt tokens that the server has processed so far, and their total; `None` if the server does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<(u64, u64)>,
    /// Tokens of the reply received so far, including its tool calls; estimated from the text.
    pub received: u64,
    /// Time since the first token of the reply, in milliseconds.
    pub receiving_ms: u64,
}

impl ModelProgress {
    /// Returns the reply's tokens per second, or `None` if it is too early to tell.
    pub fn tokens_per_second(&self) -> Option<u64> {
        (self.receiving_ms >= RATE_MS_MIN).then(|| self.received * 1000 / self.receiving_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelProgress;

    #[test]
    fn the_summary_names_the_prompt_first_and_then_the_reply() {
        let silent = ModelProgress::default();
        assert_eq!(silent.summary(), None);
        let reading = ModelProgress { prompt: Some((512, 2_048)), ..silent };
        assert_eq!(reading.summary().as_deref(), Some("reading the prompt: 512 of 2048 tokens (25%)"));
        let first = ModelProgress { received: 1, ..reading };
        assert_eq!(first.summary().as_deref(), Some("1 token received"));
        let later = ModelProgress { received: 43, receiving_ms: 3_500, ..reading };
        assert_eq!(later.summary().as_deref(), Some("43 tokens received, 12 per second"));
    }

    #[test]
    fn numbers_of_a_faulty_server_are_bounded() {
        let odd = ModelProgress { prompt: Some((900, 0)), ..ModelProgress::default() };
        assert_eq!(odd.summary(), None);
        let odd = ModelProgress { prompt: Some((u64::MAX, u64::MAX - 1)), ..odd };
        assert!(odd.summary().is_some_and(|text| text.contains("%)")));
    }
}
