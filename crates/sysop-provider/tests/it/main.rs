//! Each API against recorded streams, hostile servers and the scripted model server; no network, no key.

#![allow(clippy::unwrap_used, reason = "what the tests share panics as the tests do")]

mod frames;
mod images;
mod ollama;
mod openai;
#[cfg(unix)]
mod remote;
#[cfg(unix)]
mod remote_machine;
mod responses;
mod server;
mod tool_calling;
mod transport;
mod windows;
mod world;
