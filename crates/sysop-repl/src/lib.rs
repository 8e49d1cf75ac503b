//! The front ends that work line by line: the REPL (`sysop chat`) and one task without a screen (`sysop exec`).
//!
//! Both take a session and plain values, and both return an [`Exit`]. Flags, the config file and the environment
//! belong to the binary, which fills in [`chat::ReplContext`] and [`exec::ExecContext`].
#![warn(missing_docs)]

pub mod chat;
pub mod exec;
mod exit;
mod render;

pub use exit::Exit;
pub use render::{RenderOptions, terminal_width};
