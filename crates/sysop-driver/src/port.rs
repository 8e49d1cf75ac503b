//! Ports of the driver. Each trait is implemented by an adapter crate.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sysop_core::event::Logged;
use sysop_core::guard::GuardTimeout;
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::instructions::FoundInstructions;
use sysop_core::message::{ModelFailure, ModelRequest, Reply, ToolCall};
use sysop_core::model_progress::ModelProgress;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Fence, Survey};
use sysop_core::preview::{PreviewPlan, ProbeResult};
use sysop_core::redact::shapes::redact_cut_shapes;
use sysop_core::text::split_styles;
use sysop_core::tool::ToolSpec;
pub use tokio_util::sync::CancellationToken;

use crate::prompter::{Prompter, Terminal};
use crate::search;

pub trait Provider: Send + Sync {
    /// Starts one model call. The stream ends with exactly one `Done` or `Failed`. No request is sent before the stream
    /// is first polled. Dropping the stream ends the request at once.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent>;

    /// Called while a turn is active, with the time elapsed since the last call or since the turn started.
    fn time_spent(&self, time: Duration) {
        let _ = time;
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    Text(String),
    /// The next chunk of visible reasoning.
    Reasoning(String),
    /// Information for the user who waits: `retrying in 3 s, attempt 2 of 5: 429`.
    Notice(String),
    /// Progress of the call; a newer one replaces it.
    Progress(ModelProgress),
    /// The text and reasoning so far are void: the request is being retried.
    Restarted,
    /// The complete reply; the last event.
    Done(Box<Reply>),
    /// The call failed without a reply; the last event.
    Failed(ModelFailure),
}

/// Runs tools on one or more machines.
#[async_trait]
pub trait Host: Send + Sync {
    fn tools(&self) -> &[ToolSpec];

    /// Returns the host that this one wraps, if any. The wrapped host handles every method that this one does not
    /// implement.
    fn wrapped(&self) -> Option<&dyn Host> {
        None
    }

    /// Reports the facts about a call that the policy needs, and resolves the paths that the call uses.
    /// Called right before the policy assesses the call, and again after a user has allowed it. Facts that
    /// cannot be determined are left out; the survey itself never fails.
    async fn survey(&self, call: &ToolCall) -> Survey;

    /// Like `survey`, but for a call whose commands run in a private shell behind the fence `shell`.
    async fn survey_fenced(&self, call: &ToolCall, shell: &Fence) -> Survey {
        match self.wrapped() {
            Some(host) => host.survey_fenced(call, shell).await,
            None => self.survey(call).await,
        }
    }

    /// Runs the probe of an effect preview, and returns its output for each machine of this host. The probe only reads;
    /// a host that can fence programs fences the probe. It is stopped at the plan's time limit, or by `cancel`.
    async fn probe(&self, plan: &PreviewPlan, cancel: CancellationToken) -> Vec<ProbeResult> {
        match self.wrapped() {
            Some(host) => host.probe(plan, cancel).await,
            None => Vec::new(),
        }
    }

    /// Runs one call until it ends. A failure is also reported as an outcome. If `cancel` is triggered, kills
    /// the call with all its child processes and returns the output captured so far.
    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome;

    /// Like `run`, but the kernel restricts the call to what the fence allows. Runs nothing if there can be no fence.
    async fn run_fenced(
        &self,
        call: ToolCall,
        fence: Fence,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        match self.wrapped() {
            Some(host) => host.run_fenced(call, fence, sink, cancel).await,
            None => {
                Outcome::failed(format!("`{}` cannot run in a sandbox on this host; nothing ran", call.name))
            }
        }
    }

    /// Like `run`, but the host rolls the call back by itself after `guard`, unless fresh logins work after the call.
    /// Reports the guard to the prompter. Runs nothing if the guard cannot be armed.
    async fn run_guarded(
        &self,
        call: ToolCall,
        guard: GuardTimeout,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        match self.wrapped() {
            Some(host) => host.run_guarded(call, guard, sink, cancel).await,
            None => Outcome::failed(format!("`{}` cannot be guarded on this host; nothing ran", call.name)),
        }
    }

    /// Like `run`, but on the client that provides the tool. The log decides whether a call belongs to a
    /// client, not the set of clients that are connected now.
    async fn run_client_tool(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        match self.wrapped() {
            Some(host) => host.run_client_tool(call, sink, cancel).await,
            None => Outcome::failed(format!("no connected client offers `{}`; not run", call.name)),
        }
    }

    /// Lifts the time limit of a running call to `bash`. Ignored for calls that do not run here.
    fn lift_time_limit(&self, call: &CallId) {
        if let Some(host) = self.wrapped() {
            host.lift_time_limit(call);
        }
    }

    /// Removes control sequences and secrets from a chunk of live output, so that it may be shown to the
    /// model and logged. The chunk may end in the middle of a secret.
    fn redact(&self, output: &str) -> String {
        match self.wrapped() {
            Some(host) => host.redact(output),
            None => redact_cut_shapes(&split_styles(output).0).into_owned(),
        }
    }

    /// Sets the prompter, through which the host reaches the users. Called once, before the first tool call. The
    /// session behind the prompter may end before the host does.
    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        if let Some(host) = self.wrapped() {
            host.set_prompter(people);
        }
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.wrapped()?.terminal()
    }
}

/// Reads the files with instructions for the model that apply to one session.
#[async_trait]
pub trait InstructionReader: Send + Sync {
    /// Reads the current content of the files. A file that cannot be read is left out.
    async fn read(&self) -> FoundInstructions;
}

/// Receives a running tool's output for live display. Cheap to clone.
#[derive(Clone)]
pub struct DeltaSink(Arc<dyn Fn(&str) + Send + Sync>);

impl DeltaSink {
    /// Creates a sink that calls `take` with each chunk.
    pub fn new(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub fn none() -> Self {
        Self::new(|_| {})
    }

    /// Passes a chunk to the display. Never blocks.
    pub fn output(&self, text: &str) {
        (self.0)(text);
    }
}

impl std::fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeltaSink")
    }
}

/// The claim of a process on a session that it works on. Dropping it releases the session.
pub struct SessionClaim {
    _guard: Box<dyn Send + Sync>,
}

impl SessionClaim {
    /// `guard` releases the session when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for SessionClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionClaim")
    }
}

#[async_trait]
pub trait Store: Send + Sync {
    /// Appends `events` if the log ends at `after`, and returns the position of the last appended event. The `seq` of
    /// the events must continue `after` without a gap. On success all events are durable, on error none is.
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError>;

    /// Loads at most `limit` events after `after`, oldest first. Returns fewer only at the end of the log.
    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError>;

    /// Lists sessions, the most recently changed first.
    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError>;

    /// Claims a session for the work of this process, until all claims on it are dropped or the process ends. Returns
    /// `InUse` if another process has a claim, and `None` if this store has no claims.
    async fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        let _ = id;
        Ok(None)
    }

    /// Deletes a session and its log. Returns `NotFound` if the session does not exist.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Renames or pins a session. Its log and the time of its last change stay as they are. Returns `NotFound` if the
    /// session does not exist.
    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        let _ = annotation;
        Err(StoreError::Unavailable(format!("session {id} cannot be renamed or pinned in this store")))
    }

    /// Finds the sessions in which one event contains all `words`, the most recently changed first, and at most `limit`
    /// of them. The words are lowercase.
    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        let mut hits = Vec::new();
        'sessions: for session in self.list(usize::MAX).await? {
            if hits.len() == limit {
                break;
            }
            let mut after = Seq(0);
            loop {
                let page = match self.load(&session.id, after, crate::LOAD_EVENTS_MAX).await {
                    Err(StoreError::NotFound(_)) => continue 'sessions, // deleted in the meantime
                    page => page?,
                };
                let Some(last) = page.last() else { break };
                after = last.seq;
                if let Some(excerpt) = page.iter().find_map(|logged| search::excerpt(&logged.event, words)) {
                    hits.push(SearchHit { id: session.id, excerpt });
                    break;
                }
            }
        }
        Ok(hits)
    }

    /// Returns the names in `files` that any log refers to. Reads all logs, so it should be called rarely.
    async fn referenced_files(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        let mut named = HashSet::new();
        for session in self.list(usize::MAX).await? {
            let mut after = Seq(0);
            loop {
                let page = match self.load(&session.id, after, crate::LOAD_EVENTS_MAX).await {
                    Err(StoreError::NotFound(_)) => break, // deleted in the meantime
                    page => page?,
                };
                let Some(last) = page.last() else { break };
                after = last.seq;
                let kept = page.iter().flat_map(|logged| logged.event.artifact_names());
                named.extend(kept.filter(|name| files.contains(*name)).map(str::to_owned));
            }
        }
        Ok(named)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    pub id: SessionId,
    /// Name that a user gave, or else the beginning of the first prompt or typed command; empty if there was none.
    pub title: String,
    pub created: Timestamp,
    /// Time of the last append.
    pub changed: Timestamp,
    pub last_seq: Seq,
    pub host: String,
    pub root: String,
    /// True if the session was pinned to the top of lists.
    pub pinned: bool,
}

/// Changes to the title and the pin of a session; a value of `None` leaves the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotation {
    pub title: Option<String>,
    pub pinned: Option<bool>,
}

/// A session in which a search found all words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    pub id: SessionId,
    /// Text around the first word, on one line and safe to display.
    pub excerpt: String,
}

/// Failure of a store. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another writer appended first.
    #[error(
        "session {id} was changed by another process (its log ends at {found}, not {expected}); reopen it"
    )]
    Conflict {
        id: SessionId,
        /// Position at which the writer expected the log to end.
        expected: Seq,
        /// Position at which the log in the store ends.
        found: Seq,
    },
    /// Another process on this machine is working on the session.
    #[error(
        "session {id} is running in another process{}; continue it there, or end its turn and its background jobs first",
        process.map(|process| format!(" ({process})")).unwrap_or_default()
    )]
    InUse {
        id: SessionId,
        /// Process id, if known.
        process: Option<u32>,
    },
    /// Another node owns the session now. Work that this node is doing for the session is void.
    #[error("session {id} {}; reopen it", taken(by))]
    LeaseLost {
        id: SessionId,
        /// Name of the other node; empty if unknown.
        by: String,
    },
    #[error("no session {0}; run `sysop sessions list` to see the sessions")]
    NotFound(SessionId),
    /// The log contains an event that this version does not know.
    #[error(
        "event {seq} of session {id} has the unknown kind `{kind}`, written by a newer version of sysop; update \
         sysop to open it"
    )]
    NewerLog {
        id: SessionId,
        seq: Seq,
        /// `type` of the event, shortened and without control characters.
        kind: String,
    },
    /// The disk is full or read-only, or the database is unreachable.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Corrupt(String),
}

fn taken(by: &str) -> String {
    if by.is_empty() {
        "is no longer owned by this node".to_owned()
    } else {
        format!("is now owned by node {by}")
    }
}

#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    async fn sleep(&self, duration: Duration);
}
