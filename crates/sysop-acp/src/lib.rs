//! The front end for editors: sessions over the Agent Client Protocol (ACP) on two streams.
//!
//! # Problem
//!
//! An editor starts sysop as a child and speaks JSON-RPC, one message per line. It has several conversations at once,
//! answers questions while a turn runs, and may cancel at any time. Standard output must carry nothing but messages.
//!
//! # Design
//!
//! `agent` reads the messages in order. Each open session has a task of its own (`session`), which owns everything about
//! that session: it folds the session's updates into a transcript, writes them as `session/update`, asks for
//! permissions, and answers the prompts when their turns end. Requests that may take long run beside the reader, so a
//! cancel is never stuck behind them. Messages leave through one bounded queue; when an editor does not read, the
//! sessions' updates are merged by the driver, as for every slow front end.
//!
//! The protocol is version 1. The messages are written by hand: the agent's side is a dozen methods, and the library for
//! it is larger than this crate and had three incompatible releases in five weeks.
//!
//! # Invariants
//!
//! - A permission request names the exact command in its title and in its content. Any answer other than a known option
//!   is a rejection.
//! - Texts of models, programs and files are neutralized before they are sent.
//! - Commands run on the session's host, never through the editor's terminals or file system.

mod agent;
mod client;
mod commands;
mod elicitation;
mod options;
mod permission;
mod prompt;
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

/// Everything that the front end needs from its caller.
pub struct AcpContext {
    /// Messages of the editor, one per line.
    pub input: Box<dyn BufRead + Send>,
    /// Messages to the editor, one per line.
    pub output: Box<dyn Write + Send>,
    pub backend: Arc<dyn AcpBackend>,
    /// Version of the program, for editors.
    pub version: String,
}

/// A session together with the service that completes it.
#[derive(Clone)]
pub struct OpenedSession {
    pub attached: AttachedSession,
    pub service: Arc<dyn SessionService>,
    pub modes: Vec<ApprovalMode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendError {
    /// No model can be used with the current config.
    NoModel(String),
    /// There is no such session.
    NotFound(String),
    Failed(String),
}

/// Opens and finds sessions in any directory.
#[async_trait]
pub trait AcpBackend: Send + Sync {
    /// Creates a session that works in `folder`, an absolute path. It is saved with its first prompt.
    async fn create(&self, folder: &Path) -> Result<OpenedSession, BackendError>;

    /// Opens an earlier session, which keeps its own directory and host.
    async fn open(&self, id: &SessionId) -> Result<OpenedSession, BackendError>;

    /// Lists sessions, the most recently changed first.
    async fn list(&self) -> Result<Vec<SessionSummary>, BackendError>;

    /// Deletes a session. A session that does not exist counts as deleted.
    async fn delete(&self, id: &SessionId) -> Result<(), BackendError>;

    /// Formats a time as in RFC 3339.
    fn format_time(&self, time: Timestamp) -> String;

    async fn check_model(&self) -> Result<(), BackendError>;
}
