//! The server over real sockets, with scripted models, in-memory logs and port 0.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod always;
mod client;
mod client_tools;
mod http;
mod scopes;
mod socket;
mod world;
