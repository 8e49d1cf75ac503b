//! Classifies Ollama's errors by their text, because the API has no error codes.
//!
//! Sources: ollama v0.33.0-rc2, `server/routes.go`, `server/prompt.go`, `llm/server.go`, and older error messages.

use sysop_core::message::FailureKind;

/// Lowercase phrases in errors about a prompt that is too long.
const OVERFLOW: [&str; 4] = [
    "input length exceeds",
    "longer than the context length",
    "exceeds the available context size",
    "exceeds maximum context length",
];
/// Lowercase phrases in errors about too little memory for the model.
const MEMORY: [&str; 3] = ["more system memory", "out of memory", "cudamalloc failed"];

/// Returns true if a lowercase error message says that the prompt did not fit into the context window.
pub(crate) fn is_overflow(lower: &str) -> bool {
    OVERFLOW.iter().any(|words| lower.contains(words))
}

/// Returns true if a lowercase error message says that the model did not fit into memory.
pub(crate) fn is_out_of_memory(lower: &str) -> bool {
    MEMORY.iter().any(|words| lower.contains(words))
}

/// Returns the kind of failure that an error inside a stream reports, and true if a retry may succeed.
pub(crate) fn classify_message(message: &str) -> (FailureKind, bool) {
    let lower = message.to_ascii_lowercase();
    if is_overflow(&lower) {
        (FailureKind::ContextOverflow, false)
    } else if lower.contains("does not support") || is_out_of_memory(&lower) {
        (FailureKind::BadRequest, false)
    } else if lower.contains("not found") {
        (FailureKind::UnknownModel, false)
    } else {
        // Ollama restarts a crashed runner; a call that its parser rejected is generated again.
        (FailureKind::Unreachable, true)
    }
}
