//! Tools of MCP servers (Model Context Protocol), as a host that wraps another host.
//!
//! An MCP server is a program on this machine, or an address, that offers tools. All its data is untrusted:
//! the tools' names, descriptions, schemas and annotations, questions, and results. Four rules follow.
//!
//! - A server starts only if the user agreed to exactly its command line or address ([`record`]). The binary asks.
//! - A session offers the definitions that the user has seen. Opening a session starts no server; the first
//!   call does. If the server then sends a different definition of the called tool, the call is not made.
//! - Each call is checked against the session's policy like a call to any other tool, as a call with unknown
//!   effects. Annotations relax that only for servers that the user trusts.
//! - Results are truncated to the output limits, without control sequences and secrets, before anyone sees them.
//!
//! A server on this machine gets only the environment set in the config, no terminal, and no permissions in sysop.
//! Otherwise, the server runs with all privileges of the user. Each session has its own connections, because servers
//! keep state, and because a server's questions belong to the session whose call it is running.
//!
//! This crate opens no session, asks for no approval, and knows no model.

mod activity;
mod client_handler;
mod connection;
mod content;
pub mod definition;
mod elicitation;
mod host;
pub mod record;
pub mod settings;
mod transport;

use std::sync::Arc;

pub use self::connection::{Connection, ConnectionError};
pub use self::host::{
    ExternalTool, McpHost, McpHostSettings, RecordChange, ServerState, ServerStatus, offered_tools,
};

/// Starts a server or connects to it outside a session, to see its tools. The server cannot ask questions.
/// Fails if the server cannot be started or returns an error.
pub async fn probe(settings: &settings::ServerSettings) -> Result<Connection, ConnectionError> {
    let handler = client_handler::ClientHandler::new(settings.name.clone(), Arc::default());
    Connection::open(settings, handler).await
}
