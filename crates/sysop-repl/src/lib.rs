//! Line-based front ends: the REPL (`sysop chat`) and single tasks without a screen (`sysop exec`).
//!
//! Both take a session and plain values and return an [`Exit`]. The binary handles flags, config and environment and fills
//! in [`chat::ReplContext`] and [`exec::ExecContext`].

pub mod chat;
pub mod exec;
mod exit;
mod render;

pub use exit::Exit;
pub use render::{RenderOptions, terminal_width};
