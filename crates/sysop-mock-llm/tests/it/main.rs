//! The server over real sockets, with a client written here from the vendors' documentation.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod client;
mod conversation;
mod delivery;
mod validate_anthropic;
mod validate_gemini;
mod validate_ollama;
mod validate_openai;
mod validate_responses;
