//! Each wire against recorded streams, hostile servers and the scripted model server; no network, no key.

#![allow(clippy::unwrap_used, reason = "what the tests share panics as the tests do")]

#[cfg(unix)]
mod far;
#[cfg(unix)]
mod far_machine;
mod frames;
mod ollama;
mod openai;
mod server;
mod transport;
mod world;
