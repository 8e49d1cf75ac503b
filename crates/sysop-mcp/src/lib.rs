//! Tools of MCP servers (Model Context Protocol), as a host around another host.
//!
//! An MCP server is a program of this machine, or an address, that offers tools. Everything that it says is untrusted: the
//! names, descriptions and schemas of its tools, its annotations, its questions, and its results. Four rules follow.
//!
//! - A server starts only if the user agreed to exactly its command line or address ([`record`]). The binary asks.
//! - A session offers the definitions that the user saw. Opening a session starts no server; the first call does. If the
//!   server then states another definition of the called tool, nothing is called.
//! - Each call passes the policy of the session like a call of any other tool, as a call whose effect only the server
//!   knows. Annotations lower that only for servers that the user believes.
//! - Results pass the output limits, and lose control sequences and secrets, before anyone sees them.
//!
//! A server on this machine gets only the environment that the config states, no terminal, and no rights over sysop. It
//! runs with all other rights of the user. Each session has its own connections, because servers keep state, and because
//! the questions of a server belong to the session whose call it runs.
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

use std::sync::Arc;

pub use self::connection::{Connection, ConnectionError};
pub use self::host::{
    ExternalTool, McpHost, McpHostSettings, RecordChange, ServerState, ServerStatus, offered_tools,
};

/// Starts or reaches a server outside a session, to see its tools. The server cannot ask questions. Fails if the server
/// does not start or fails.
pub async fn probe(settings: &settings::ServerSettings) -> Result<Connection, ConnectionError> {
    let handler = client_handler::ClientHandler::new(settings.name.clone(), Arc::default());
    Connection::open(settings, handler).await
}
