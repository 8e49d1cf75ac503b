//! Estimates of token counts from text sizes, for prompts that no server has counted yet.
//!
//! Tool output is dense in digits, paths and punctuation, so it takes more tokens per byte than prose. The figures are
//! averages over the tokenizers of current models. Once a server has counted a prompt, its count replaces the estimate.

use crate::image::ImageRef;
use crate::message::{Arguments, Message, Reply};
use crate::tool::ToolSpec;

/// Tokens that a message takes besides its text.
const MESSAGE_TOKENS: u64 = 8;
/// Tokens that a call or its result takes besides its text: ids, names of fields.
const CALL_TOKENS: u64 = 16;

/// Returns the estimated tokens of prose, at 3.5 bytes per token.
pub fn prose(text: &str) -> u64 {
    bytes(text) * 2 / 7
}

/// Returns the estimated tokens of tool output, at 2.2 bytes per token.
pub fn tool_output(text: &str) -> u64 {
    bytes(text) * 5 / 11
}

/// Returns the number of bytes of tool output that fit into `tokens`.
pub fn tool_output_bytes(tokens: u64) -> usize {
    usize::try_from(tokens * 11 / 5).unwrap_or(usize::MAX)
}

/// Returns the number of bytes of prose that fit into `tokens`.
pub fn prose_bytes(tokens: u64) -> usize {
    usize::try_from(tokens * 7 / 2).unwrap_or(usize::MAX)
}

pub fn message(message: &Message) -> u64 {
    MESSAGE_TOKENS
        + images(message)
        + match message {
            Message::User { text, .. } => prose(text),
            Message::Assistant { reply } => reply_tokens(reply),
            Message::ToolResults { results } => {
                results.iter().map(|result| CALL_TOKENS + tool_output(&result.output)).sum()
            }
        }
}

pub fn images(message: &Message) -> u64 {
    message.images().map(ImageRef::tokens).sum()
}

pub fn tools(specs: &[ToolSpec]) -> u64 {
    let of = |spec: &ToolSpec| {
        MESSAGE_TOKENS + prose(&spec.name) + prose(&spec.description) + prose(&spec.parameters.to_string())
    };
    specs.iter().map(of).sum()
}

fn reply_tokens(reply: &Reply) -> u64 {
    let calls = reply.calls.iter().map(|call| {
        let arguments = match &call.arguments {
            Arguments::Object(map) => map.iter().map(|(name, value)| prose(name) + json(value)).sum(),
            Arguments::Invalid(text) => prose(text),
        };
        CALL_TOKENS + prose(&call.name) + arguments
    });
    prose(&reply.text) + calls.sum::<u64>()
}

fn json(value: &serde_json::Value) -> u64 {
    value.as_str().map_or_else(|| prose(&value.to_string()), prose)
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{prose, prose_bytes, tool_output, tool_output_bytes};

    #[test]
    fn tool_output_takes_more_tokens_than_prose() {
        let text = "x".repeat(2200);
        assert_eq!((prose(&text), tool_output(&text)), (628, 1000));
        assert_eq!((prose_bytes(100), tool_output_bytes(1000)), (350, 2200));
    }
}
