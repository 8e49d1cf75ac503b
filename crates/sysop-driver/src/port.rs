//! What the driver needs of the world. Each trait is implemented by an adapter crate.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::message::{ModelFailure, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Fence, Survey};
use sysop_core::tool::ToolSpec;
pub use tokio_util::sync::CancellationToken;

use crate::prompter::{Prompter, Terminal};

/// Asks models.
pub trait Provider: Send + Sync {
    /// Starts one model call. The stream ends with exactly one `Done` or `Failed`; nothing is sent before the
    /// first poll, and dropping it ends the request at once.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent>;
}

/// What a model call yields.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More of the text.
    Text(String),
    /// More of the visible reasoning.
    Reasoning(String),
    /// Something for the person to know while they wait: `429, trying again in 3 s (2 of 5)`.
    Notice(String),
    /// What was streamed so far is void: the request is made again.
    Restarted,
    /// The whole reply; the last event.
    Done(Box<Reply>),
    /// No reply; the last event.
    Failed(ModelFailure),
}

/// Runs tools on a machine.
#[async_trait]
pub trait Host: Send + Sync {
    /// The tools that it offers.
    fn tools(&self) -> &[ToolSpec];

    /// Tells the circumstances of a call right before it is judged, and what its targets lead to. Asked again after a
    /// person allowed the call. What cannot be found out is left out; it is never an error.
    async fn survey(&self, call: &ToolCall) -> Survey;

    /// Does what `survey` does where commands for the terminal run in a shell of their own behind this fence.
    async fn survey_fenced(&self, call: &ToolCall, shell: &Fence) -> Survey {
        let _ = shell;
        self.survey(call).await
    }

    /// Runs one call to its end. Failures are outcomes. After `cancel` it stops what runs, with all its
    /// children, and returns what was captured.
    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome;

    /// Runs one call like `run`, held by the kernel to what the fence allows. Where that cannot be had, nothing runs.
    async fn run_fenced(
        &self,
        call: ToolCall,
        fence: Fence,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        drop((fence, sink, cancel));
        Outcome::failed(format!("`{}` cannot run in a sandbox on this host; nothing ran", call.name))
    }

    /// Runs one call on the client that lends its tool, like `run`. A call comes here and not to `run` by what the log
    /// says of lent tools, whoever is connected now.
    async fn run_client_tool(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        drop((sink, cancel));
        Outcome::failed(format!("no connected client offers `{}`; not run", call.name))
    }

    /// Told once, before the first call: who is there to be asked. The session may end before the host does.
    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        drop(people);
    }

    /// The session's terminal, where this host has one.
    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        None
    }
}

/// Takes a running tool's output for live display. Cheap to clone.
#[derive(Clone)]
pub struct DeltaSink(Arc<dyn Fn(&str) + Send + Sync>);

impl DeltaSink {
    /// Calls `take` with each piece.
    pub fn new(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Forgets all.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    /// Passes a piece on. Never blocks.
    pub fn output(&self, text: &str) {
        (self.0)(text);
    }
}

impl std::fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeltaSink")
    }
}

/// Takes events of a log, in their order, until it wants no more.
pub type EventVisitor = Box<dyn FnMut(Vec<Logged>) -> ControlFlow<()> + Send>;

/// Keeps event logs.
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends `events` (their `seq` continue `after` without a gap) if the log's last seq is `after`.
    /// On return they are durable, all or none.
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError>;

    /// The events after `after`, oldest first, at most `limit`; fewer only where the log ends.
    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError>;

    /// Passes a whole log on in its order, some events at a time, until `take` wants no more. `take` is called on any
    /// thread, and never twice at once. A session that is not there is `NotFound`, or has no events.
    ///
    /// A store that reads on several threads can let `take` see events while they are at hand.
    async fn read(&self, id: &SessionId, mut take: EventVisitor) -> Result<(), StoreError> {
        let mut page = self.load(id, Seq(0), crate::LOAD_EVENTS_MAX).await?;
        while let (crate::LOAD_EVENTS_MAX, Some(last)) = (page.len(), page.last()) {
            let after = last.seq;
            let taking = tokio::task::spawn_blocking(move || {
                let flow = take(page);
                (take, flow)
            });
            let (taken, next) = tokio::join!(taking, self.load(id, after, crate::LOAD_EVENTS_MAX));
            let (taker, flow) = match taken {
                Ok(taken) => taken,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return Err(StoreError::Unavailable("sysop was stopped while reading".to_owned())),
            };
            if flow.is_break() {
                return Ok(());
            }
            take = taker;
            page = next?;
        }
        let _ = take(page);
        Ok(())
    }

    /// Sessions, the most recently changed first.
    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError>;

    /// Removes a session and its log. Removing what is not there is `NotFound`.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Which of these kept files the logs name. Reads all of them; for seldom use.
    async fn referenced_files(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        let mut named = HashSet::new();
        for session in self.list(usize::MAX).await? {
            let mut after = Seq(0);
            loop {
                let page = match self.load(&session.id, after, crate::LOAD_EVENTS_MAX).await {
                    Err(StoreError::NotFound(_)) => break, // it was deleted meanwhile
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

/// One row of a session list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Which session.
    pub id: SessionId,
    /// The first words of its first prompt; empty where there was none.
    pub title: String,
    /// When it began.
    pub created: Timestamp,
    /// When its last event was appended.
    pub changed: Timestamp,
    /// Its last event.
    pub last_seq: Seq,
    /// Host of its tools.
    pub host: String,
    /// Root of its file tools.
    pub root: String,
}

/// Why a store did not do it. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another writer appended first.
    #[error(
        "session {id} was changed by another process (its log ends at {found}, not {expected}); reopen it"
    )]
    Conflict {
        /// The session.
        id: SessionId,
        /// What the writer believed.
        expected: Seq,
        /// What is there.
        found: Seq,
    },
    /// Another node works on the session now; what this one does there counts no more.
    #[error("session {id} {}; reopen it", taken(by))]
    LeaseLost {
        /// The session.
        id: SessionId,
        /// The other node's name; empty where it is not known.
        by: String,
    },
    /// No such session.
    #[error("no session {0}; run `sysop sessions list` to see the sessions")]
    NotFound(SessionId),
    /// The log holds an event that this version does not know.
    #[error(
        "event {seq} of session {id} has the unknown kind `{kind}`, written by a newer version of sysop; update \
         sysop to open it"
    )]
    NewerLog {
        /// The session.
        id: SessionId,
        /// The event.
        seq: Seq,
        /// Its `type`, shortened and without control characters.
        kind: String,
    },
    /// Disk full, read-only, gone.
    #[error("{0}")]
    Unavailable(String),
    /// The data does not read back.
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

/// Tells the time.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Returns after a while.
    async fn sleep(&self, duration: Duration);
}
