//! Conformance suite of hosts. Most tests take a `Factory`, so that every kind of machine passes the same tests; tests
//! of this machine only are in `local`.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of the test")]

mod bash;
mod booted;
mod files;
mod fleet;
mod forward;
mod git;
mod guard;
mod guard_script;
mod instructions;
mod limits;
mod local;
mod network;
mod paths;
mod preview;
mod properties;
mod proxy;
mod sandbox;
mod ssh;
mod sshd;
mod survey;
mod terminal;
mod undo;
mod undo_booted;
mod undo_commands;
mod undo_script;
mod workspace;
mod world;
