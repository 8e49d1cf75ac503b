//! The front end for editors: sessions over the Agent Client Protocol (ACP) on two streams.
//!
//! # Problem
//!
//! An editor starts sysop as a child and speaks JSON-RPC, one message per line. It has several conversations
//! at once, answers questions during turns, and may cancel at any time. Standard output is only for messages.
//!
//! # Design
//!
//! `agent` reads the messages in order. Each open session has its own task (`session`), which owns everything
//! about that session: it folds the session's updates into a transcript, sends them as `session/update`,
//! requests permissions, and answers prompts when their turns end. Requests that may take long run
//! concurrently with the reader, so they never block a cancellation. Messages leave through one bounded
//! queue; if an editor does not read, the driver merges the sessions' updates, as for every slow front end.
//!
//! The protocol is version 1. The messages are built by hand: the agent side has a dozen methods, while the
//! library for it is larger than this crate and had three incompatible releases in five weeks.
//!
//! # Invariants
//!
//! - A permission request names the exact command in its title and in its content. Any answer other than a known option
//!   is a rejection.
//! - Text from models, programs and files is neutralized before it is sent.
//! - An MCP server that the editor names starts only after the user allowed it.
//! - Commands run on the session's host, never through the editor's terminals or file system.

mod agent;
mod client;
mod commands;
mod elicitation;
mod options;
mod permission;
mod prompt;
mod servers;
mod session;
mod tool_view;
mod updates;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::id::{SessionId, Timestamp};
use sysop_core::policy::ApprovalMode;
use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_driver::port::SessionSummary;

pub use agent::serve;
pub use servers::{EditorServer, EditorTransport};
pub use session::BY;

/// Everything that the front end needs from its caller.
pub struct AcpContext {
    /// Messages from the editor, one per line.
    pub input: Box<dyn BufRead + Send>,
    /// Messages to the editor, one per line.
    pub output: Box<dyn Write + Send>,
    pub backend: Arc<dyn AcpBackend>,
    /// Version of this program, reported to editors.
    pub version: String,
}

/// An open session, the service that provides its models and skills, and the modes that can be chosen.
#[derive(Clone)]
pub struct OpenedSession {
    pub attached: AttachedSession,
    pub service: Arc<dyn SessionService>,
    pub modes: Vec<ApprovalMode>,
    /// Sentences for the user about servers of the editor that are not used.
    pub notes: Vec<String>,
    /// The editor's servers that wait for the user; `None` if there are none.
    pub consents: Option<Arc<dyn ServerConsents>>,
}

/// Extent of the user's consent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentScope {
    Session,
    Always,
}

/// Question about a server that the editor named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerQuestion {
    pub server: String,
    /// The exact command line or URL, on one line.
    pub title: String,
    /// Consequences of starting the server, or the changes of its tools.
    pub text: String,
}

/// Servers of a new session that wait for the user's consent.
#[async_trait]
pub trait ServerConsents: Send + Sync {
    fn questions(&self) -> Vec<ServerQuestion>;

    /// Records the user's consent to a server, and starts it once to see its tools. Returns a summary of the tools.
    /// Fails with one sentence if the server does not start.
    async fn allow(&self, server: &str, scope: ConsentScope) -> Result<String, String>;

    /// Opens the session, which has no prompt yet, with the tools of the allowed servers and under the same id.
    async fn reopen(&self) -> Result<OpenedSession, BackendError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendError {
    /// No model can be used with the current config.
    NoModel(String),
    /// The session does not exist.
    NotFound(String),
    Failed(String),
}

/// Opens and finds sessions in any directory.
#[async_trait]
pub trait AcpBackend: Send + Sync {
    /// Creates a session that works in `folder`, an absolute path. The session is saved with its first prompt. Tools of
    /// `servers` are offered only with the user's consent.
    async fn create(&self, folder: &Path, servers: Vec<EditorServer>) -> Result<OpenedSession, BackendError>;

    /// Opens an earlier session, which keeps its own directory, host and tools. The tools of `servers` without the
    /// user's consent cannot be called.
    async fn open(&self, id: &SessionId, servers: Vec<EditorServer>) -> Result<OpenedSession, BackendError>;

    /// Lists sessions, most recently changed first.
    async fn list(&self) -> Result<Vec<SessionSummary>, BackendError>;

    /// Deletes a session. A session that does not exist counts as deleted.
    async fn delete(&self, id: &SessionId) -> Result<(), BackendError>;

    /// Formats a time as in RFC 3339.
    fn format_time(&self, time: Timestamp) -> String;

    async fn check_model(&self) -> Result<(), BackendError>;
}
