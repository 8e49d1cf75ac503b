//! The binary.
#[cfg_attr(not(test), expect(dead_code, reason = "the subcommands are not connected yet"))]
mod chat;
#[cfg_attr(not(test), expect(dead_code, reason = "the subcommands are not connected yet"))]
mod exec;
mod render;

fn main() {}
