//! The `SessionBackend` trait: opens sessions and calls models. The binary implements it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sysop_core::event::{ConfigChange, Logged};
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::image::{ImageHeader, ImageRef};
use sysop_core::message::{ModelRef, ModelRequest};
use sysop_core::policy::{ApprovalMode, Rule};
use sysop_core::skill::Skill;
use sysop_driver::frontend::{NamedItem, SessionHandle};
use sysop_driver::port::{Annotation, Host, ModelEvent, SearchHit, SessionSummary};

/// Properties of a new session. The server's settings apply where a field is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreateSession {
    /// Name of the host on which the session's tools run; `none` leaves only the tools that clients offer.
    pub host: Option<String>,
    pub model: Option<ModelRef>,
    pub approve: Option<ApprovalMode>,
    pub profile: Option<String>,
    /// Root of the session's file tools. On this machine, it must be below the server's own root.
    pub root: Option<PathBuf>,
    pub opened_by: Option<String>,
}

/// Facts about the server, for display: its machine, and the properties of a session for which nothing is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFacts {
    /// Name of the machine that the server runs on.
    pub machine: String,
    /// Host of a new session; `local` is the server's machine.
    pub host: String,
    /// Root of a new session.
    pub root: String,
    pub model: ModelRef,
    pub approve: ApprovalMode,
}

/// Wraps the host of a session each time the session is loaded into memory.
pub type HostDecorator = Arc<dyn Fn(Arc<dyn Host>) -> Arc<dyn Host> + Send + Sync>;

/// A session loaded in memory.
#[derive(Clone)]
pub struct OpenedSession {
    /// Handle for inputs and updates.
    pub session: Arc<dyn SessionHandle>,
    /// Number of the last event in the session's log when the session was found.
    pub last: Seq,
}

/// A call's stored output; streamed, because it may be too large for memory.
pub struct Artifact {
    /// Total size in bytes.
    pub bytes: u64,
    pub pieces: BoxStream<'static, std::io::Result<bytes::Bytes>>,
}

/// Opens and finds sessions, and calls models.
#[async_trait]
pub trait SessionBackend: Send + Sync {
    /// Creates a session with this id; it is durable on return.
    async fn create(
        &self,
        id: SessionId,
        request: CreateSession,
        decorate: HostDecorator,
    ) -> Result<OpenedSession, BackendError>;

    /// Opens an existing session. If it is already in memory, `decorate` is ignored.
    async fn open(&self, id: &SessionId, decorate: HostDecorator) -> Result<OpenedSession, BackendError>;

    /// Returns the session if it is already in memory. Never loads a session.
    fn find_open(&self, id: &SessionId) -> Option<OpenedSession> {
        let _ = id;
        None
    }

    /// Lists sessions, most recently changed first.
    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, BackendError>;

    /// Finds sessions in which one event contains all `words`, the most recently changed first. `words` must be
    /// lowercase.
    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, BackendError> {
        let _ = (words, limit);
        Ok(Vec::new())
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), BackendError> {
        let _ = annotation;
        Err(BackendError::Invalid(format!("session {id} cannot be renamed or pinned on this server")))
    }

    /// Returns the logged events of a session after `after`, oldest first; an empty list if they cannot be read.
    async fn events(&self, id: &SessionId, after: Seq) -> Vec<Logged> {
        let _ = (id, after);
        Vec::new()
    }

    /// Returns true if the session's log in the store contains event `seq`, or if that cannot be determined.
    async fn is_logged(&self, id: &SessionId, seq: Seq) -> bool {
        let _ = (id, seq);
        false // without a shared store, there are no events but those known here
    }

    /// Stops a session and deletes its log and artifacts.
    async fn delete(&self, id: &SessionId) -> Result<(), BackendError>;

    async fn artifact(&self, id: &SessionId, name: &str) -> Result<Artifact, BackendError>;

    /// Checks an image and stores it for a prompt. `name` is the file name, for display.
    async fn store_image(
        &self,
        id: &SessionId,
        image: bytes::Bytes,
        name: String,
    ) -> Result<ImageRef, BackendError> {
        let _ = (id, image, name);
        Err(BackendError::Invalid("this server does not accept images".to_owned()))
    }

    /// Returns the format and the size of a stored image, read from its bytes.
    async fn image_header(&self, artifact: &str) -> Result<ImageHeader, BackendError> {
        Err(BackendError::Invalid(format!(
            "the image {artifact} is not stored on this server; send it again"
        )))
    }

    /// Creates session `id` for `person`. Its log is the log of `from` up to just before the prompt of turn `before`.
    async fn fork(
        &self,
        from: &SessionId,
        before: TurnId,
        id: &SessionId,
        person: &str,
    ) -> Result<(), BackendError> {
        let _ = (before, id, person);
        Err(BackendError::Invalid(format!("session {from} cannot be forked on this server")))
    }

    /// Returns paths below the root of the session's file tools that contain `word`; empty if they cannot be listed
    /// quickly.
    async fn paths(&self, id: &SessionId, word: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let _ = (id, word, limit);
        Ok(Vec::new())
    }

    /// Returns the skills and custom commands that users of the session can invoke, without their text. Reads files.
    async fn skills(&self, id: &SessionId) -> Result<Vec<Skill>, BackendError> {
        let _ = id;
        Ok(Vec::new())
    }

    /// Returns facts about the server, or `None` if it tells none.
    fn facts(&self) -> Option<ServerFacts> {
        None
    }

    fn hosts(&self) -> Vec<NamedItem> {
        Vec::new()
    }

    /// Returns the approval mode of a session on this host for which no mode is chosen, if it is known.
    fn default_approval(&self, host: &str) -> Option<ApprovalMode> {
        let _ = host;
        None
    }

    /// Models that can be used, the configured default first.
    async fn models(&self) -> Vec<ModelRef> {
        vec![self.model(None)]
    }

    /// Checks whether clients may make this configuration change. The error is one sentence.
    fn check_change(&self, change: &ConfigChange) -> Result<(), String>;

    /// Path of the user's rules file, for display; `None` if rules cannot be written.
    fn rules_file(&self) -> Option<String> {
        None
    }

    /// Adds `rule`, which the server built, to the user's rules file, so that it applies to new sessions. Returns the
    /// rule with its location in the file. The error is one sentence.
    async fn save_rule(&self, rule: Rule) -> Result<Rule, String> {
        let _ = rule;
        Err("this server cannot save rules; the command still needs approval".to_owned())
    }

    /// Records for the audit that `who` asks for a turn of the session.
    fn attribute_to(&self, id: &SessionId, who: &str, trace: Option<&str>, is_retry: bool);

    /// Forgets what `attribute_to` recorded, because the session did not accept the request.
    fn forget_request(&self, id: &SessionId, who: &str, is_retry: bool);

    /// Audits a decision refused because one of the session's commands may have created the caller's token.
    async fn audit_refusal(&self, id: &SessionId, who: &str, what: &str) {
        let _ = (id, who, what);
    }

    /// Returns the model with this name, or the configured default.
    fn model(&self, wanted: Option<&str>) -> ModelRef;

    /// Calls a model once, outside any session.
    fn ask(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent>;

    /// Returns the reason why sessions cannot be opened now, in one sentence, or `None` if the server is ready.
    async fn readiness_error(&self) -> Option<String>;

    /// Removes the paths of the server's own directories from an error meant for clients; file names remain.
    fn without_folders(&self, error: String) -> String {
        error
    }

    fn live_session_count(&self) -> usize;

    /// Evicts from memory the sessions that are not in use and have been idle for at least `idle`.
    fn evict_idle(&self, idle: Duration);

    /// Stops all sessions and hands them to other servers that share the store, if any. Called at shutdown, possibly
    /// twice.
    async fn leave(&self);
}

/// Error when opening or finding a session. `Display` is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    #[error("session {0} not found")]
    NotFound(SessionId),
    /// The request is invalid, or this server does not support it.
    #[error("{0}")]
    Invalid(String),
    /// Another process uses the session.
    #[error("{0}")]
    InUse(String),
    /// The store or another component failed.
    #[error("{0}")]
    Failed(String),
}
