//! Line-based front ends: the REPL (`sysop chat`) and single tasks without a screen (`sysop exec`).
//!
//! Both take a session and plain values and return an [`Exit`]. The binary reads flags, config and environment, and
//! builds [`chat::ReplContext`] and [`exec::ExecContext`] from them.

pub mod chat;
pub mod exec;
mod exit;
mod platform;
#[cfg(test)]
mod recorded_output;
mod render;

pub use chat::keyboard::has_keyboard;
pub use exit::Exit;
pub use render::{RenderOptions, terminal_width};
