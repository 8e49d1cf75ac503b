//! Classifies Ollama's errors by their text, because the API has no error codes.
//!
//! Sources: ollama v0.33.0-rc2, `server/routes.go`, `server/prompt.go`, `llm/server.go`, and error texts of older
//! versions.

use sysop_core::message::FailureKind;

/// The prompt is too long.
const OVERFLOW: [&str; 4] = [
    "input length exceeds",
    "longer than the context length",
    "exceeds the available context size",
    "exceeds maximum context length",
];
/// The machine lacks memory for the model.
const MEMORY: [&str; 3] = ["more system memory", "out of memory", "cudamalloc failed"];

/// Returns true if the prompt did not fit the window.
pub(crate) fn is_overflow(lower: &str) -> bool {
    OVERFLOW.iter().any(|words| lower.contains(words))
}

/// Returns true if the model did not fit into memory.
pub(crate) fn is_out_of_memory(lower: &str) -> bool {
    MEMORY.iter().any(|words| lower.contains(words))
}

/// Returns the kind of an error inside a stream, and true if a retry may succeed.
pub(crate) fn classify_message(message: &str) -> (FailureKind, bool) {
    let lower = message.to_ascii_lowercase();
    if is_overflow(&lower) {
        (FailureKind::ContextOverflow, false)
    } else if lower.contains("does not support") || is_out_of_memory(&lower) {
        (FailureKind::BadRequest, false)
    } else if lower.contains("not found") {
        (FailureKind::UnknownModel, false)
    } else {
        // Ollama restarts a crashed runner; a call that its parser rejected is generated anew.
        (FailureKind::Unreachable, true)
    }
}
