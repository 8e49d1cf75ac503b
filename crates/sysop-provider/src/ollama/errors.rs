//! What Ollama's error texts mean; it has nothing else to tell them apart by.
//!
//! Facts: ollama v0.33.0-rc2, `server/routes.go`, `server/prompt.go`, `llm/server.go`, and older versions' texts.

use sysop_core::message::FailureKind;

/// The prompt is too long.
const OVERFLOW: [&str; 4] = [
    "input length exceeds",
    "longer than the context length",
    "exceeds the available context size",
    "exceeds maximum context length",
];
/// The machine is too small.
const MEMORY: [&str; 3] = ["more system memory", "out of memory", "cudamalloc failed"];

/// Whether the prompt did not fit.
pub(crate) fn is_overflow(lower: &str) -> bool {
    OVERFLOW.iter().any(|words| lower.contains(words))
}

/// Whether the model did not fit the machine.
pub(crate) fn is_out_of_memory(lower: &str) -> bool {
    MEMORY.iter().any(|words| lower.contains(words))
}

/// The kind of an error inside a stream, and whether it may be gone the next time.
pub(crate) fn classify_message(message: &str) -> (FailureKind, bool) {
    let lower = message.to_ascii_lowercase();
    if is_overflow(&lower) {
        (FailureKind::ContextOverflow, false)
    } else if lower.contains("does not support") || is_out_of_memory(&lower) {
        (FailureKind::BadRequest, false)
    } else if lower.contains("not found") {
        (FailureKind::UnknownModel, false)
    } else {
        // A runner that crashed is started again; a call that its parser could not read is written anew.
        (FailureKind::Unreachable, true)
    }
}
