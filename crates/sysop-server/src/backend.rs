//! Where the server gets its sessions from: the port that the binary implements.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sysop_core::event::ConfigChange;
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::message::{ModelRef, ModelRequest};
use sysop_core::policy::{ApprovalMode, Rule};
use sysop_driver::frontend::{NamedItem, SessionHandle};
use sysop_driver::port::{Host, ModelEvent, SessionSummary};

/// What a new session is to be like; what is left out is as the server's own settings say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreateSession {
    /// Where its tools run; `none` gives it no tools but those that clients lend.
    pub host: Option<String>,
    /// The model to ask.
    pub model: Option<ModelRef>,
    /// How much runs without a person.
    pub approve: Option<ApprovalMode>,
    /// The name of its tool profile.
    pub profile: Option<String>,
    /// The root of its file tools; on this machine it lies below the server's own root.
    pub root: Option<PathBuf>,
    /// The name of the person who opens it.
    pub opened_by: Option<String>,
}

/// Puts something in front of the host of a session that is opened, each time that it comes here.
pub type HostDecorator = Arc<dyn Fn(Arc<dyn Host>) -> Arc<dyn Host> + Send + Sync>;

/// A session that is open.
#[derive(Clone)]
pub struct OpenedSession {
    /// The session.
    pub session: Arc<dyn SessionHandle>,
    /// The last event of its log when it was found.
    pub last: Seq,
}

/// What was kept of a call, which may be more than is to be held in memory.
pub struct Artifact {
    /// How long it is.
    pub bytes: u64,
    /// It, piece by piece.
    pub pieces: BoxStream<'static, std::io::Result<bytes::Bytes>>,
}

/// Opens and finds sessions, and asks models.
#[async_trait]
pub trait SessionBackend: Send + Sync {
    /// Opens a new session of this id; it is durable on return.
    async fn create(
        &self,
        id: SessionId,
        request: CreateSession,
        decorate: HostDecorator,
    ) -> Result<OpenedSession, BackendError>;

    /// Opens an earlier session. One that is live already is handed out, and `decorate` is dropped.
    async fn open(&self, id: &SessionId, decorate: HostDecorator) -> Result<OpenedSession, BackendError>;

    /// A session that is open already; nothing is opened for it.
    fn find_open(&self, id: &SessionId) -> Option<OpenedSession> {
        let _ = id;
        None
    }

    /// The sessions, the most recently changed first.
    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, BackendError>;

    /// Whether the log of a session has an event, as the store knows it by now; also where nobody can say.
    async fn is_logged(&self, id: &SessionId, seq: Seq) -> bool {
        let _ = (id, seq);
        false // what is open here is all there is
    }

    /// Removes a session and all that was kept of it; what it does is stopped.
    async fn delete(&self, id: &SessionId) -> Result<(), BackendError>;

    /// The whole output of a call, as its artifact has it.
    async fn artifact(&self, id: &SessionId, name: &str) -> Result<Artifact, BackendError>;

    /// Gives a new session of this person the log of an earlier one up to the prompt of a turn, which is left out.
    async fn fork(
        &self,
        from: &SessionId,
        before: TurnId,
        id: &SessionId,
        person: &str,
    ) -> Result<(), BackendError> {
        let _ = (before, id, person);
        Err(BackendError::Invalid(format!("session {from} cannot be forked here")))
    }

    /// Paths below the root of a session's file tools that hold `word`; nothing where they cannot be told quickly.
    async fn paths(&self, id: &SessionId, word: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let _ = (id, word, limit);
        Ok(Vec::new())
    }

    /// The hosts that are known by a name.
    fn hosts(&self) -> Vec<NamedItem> {
        Vec::new()
    }

    /// The models that are known and can be asked, the one of the settings first.
    async fn models(&self) -> Vec<ModelRef> {
        vec![self.model(None)]
    }

    /// Whether a client may change this; the error is one sentence.
    fn check_change(&self, change: &ConfigChange) -> Result<(), String>;

    /// The file that rules are written to, for people; `None` where none can be written.
    fn rules_file(&self) -> Option<String> {
        None
    }

    /// Writes a rule of the server's own making into the user's file, for sessions that begin from now on, and gives it
    /// with its place. The error is one sentence.
    async fn save_rule(&self, rule: Rule) -> Result<Rule, String> {
        let _ = rule;
        Err("this server writes no rules; nothing was decided".to_owned())
    }

    /// From now on it is their wish what the session does; for who keeps account of it.
    fn attribute_to(&self, id: &SessionId, who: &str, trace: Option<&str>);

    /// Somebody tried to decide what they may not, by a token that a command of a session may have made; for who keeps
    /// account of it.
    async fn audit_refusal(&self, id: &SessionId, who: &str, what: &str) {
        let _ = (id, who, what);
    }

    /// The model that answers to this name, or the one of the settings.
    fn model(&self, wanted: Option<&str>) -> ModelRef;

    /// Asks a model once, for no session.
    fn ask(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent>;

    /// What keeps sessions from being opened, in one sentence; nothing where all is there.
    async fn readiness_error(&self) -> Option<String>;

    /// An error for clients, without where the server's own folders are: its files are told by their names there.
    fn without_folders(&self, error: String) -> String {
        error
    }

    /// How many sessions are in memory.
    fn live_session_count(&self) -> usize;

    /// Lets go of sessions that nobody holds and that have done nothing for so long.
    fn evict_idle(&self, idle: Duration);

    /// Stops all sessions and gives them to other servers that share the store, if there are any. Called when the
    /// server ends, perhaps twice.
    async fn leave(&self);
}

/// Why there is no such session, or none could be opened. `Display` is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// There is none of that id.
    #[error("there is no session {0}")]
    NotFound(SessionId),
    /// What was asked for cannot be had.
    #[error("{0}")]
    Invalid(String),
    /// The store or another part did not do it.
    #[error("{0}")]
    Failed(String),
}
