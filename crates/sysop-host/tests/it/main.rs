//! What a host promises, as one suite: every function of it takes a `Factory`, so that each machine that
//! tools can run on goes through the same tests. What only this machine can show is in `local`.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of the test")]

mod bash;
mod files;
mod fleet;
mod git;
mod limits;
mod local;
mod network;
mod paths;
mod properties;
mod proxy;
mod sandbox;
mod ssh;
mod sshd;
mod survey;
mod terminal;
mod undo;
mod workspace;
mod world;
