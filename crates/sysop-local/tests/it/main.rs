//! Downloads from a loopback server that answers as Hugging Face does, and the supervisor with a stand-in for
//! `llama-server`.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod download;
mod hub;
mod runner;
