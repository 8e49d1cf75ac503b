//! Creates, opens, finds and forks sessions.
//!
//! # Problem
//!
//! Front ends name sessions by id. A session may be live in this process, only in the store, or owned by another node.
//! Two front ends that open the same id at the same moment must get the same session, and a session must never be live
//! twice, or its effects would run twice.
//!
//! # Design
//!
//! The driver holds a map from id to [`Handle`] for the sessions that are live in this process. Adding to the map is
//! the only decision under its lock (`insert`): the first to add a session wins, everyone else gets the existing
//! handle. Replaying a log happens outside of the lock, so opening a long session does not delay any other
//! one; if two callers replay the same log, the loser's copy is dropped. A live session is an `Arc` and an
//! inbox (`live.rs`), without a task of its own while idle; `eviction.rs` removes idle sessions from the map,
//! because the log contains all of their state.
//! With a cluster, a session may be on another node. Everything specific to that is in `cluster/`: the driver asks its
//! `Membership` for the location of a session and returns a handle that follows the session when it moves.
//!
//! # Rejected
//!
//! - An actor task per session: thousands of idle sessions would each keep a task and a channel.
//! - Two drivers in one process, or one driver per host: everything that belongs to a host is in the
//!   session's [`Runtime`].
//!
//! # Invariants
//!
//! - At most one live session per id and process; across processes, the store's compare-and-append or the lease
//!   decides.
//! - Work that must not stay half done (creating, opening in a cluster) runs on a separate task and completes even if
//!   the caller is dropped.
//! - A session created lazily leaves no trace in the store until its first input.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::event::{Event, Input, Logged};
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::job::Job;
use sysop_core::question::QuestionId;
use sysop_core::session::Session;
use sysop_core::spec::SessionSpec;
use tokio_util::task::TaskTracker;

use crate::cluster::lease::ClusterLease;
use crate::cluster::member::Membership;
use crate::cluster::session::{ClusterHandle, ClusterSession, Location};
use crate::cluster::{Cluster, RuntimeFactory};
use crate::frontend::SessionHandle;
use crate::hub::Updates;
use crate::lease::{SessionLease, StoreLease};
use crate::live::{LiveSession, SessionStart};
use crate::port::{SessionClaim, StoreError};
use crate::prompter::{PromptReply, Terminal};
use crate::replay::replay;
use crate::{DriverError, LOAD_EVENTS_MAX, Ports, Runtime};

/// Error message for users if the task that opens a session panics.
pub(crate) const OPEN_BUG: &str = "internal error while opening this session; the log is intact; reopen it";
/// Error message for users if the task that creates a session panics.
const CREATE_BUG: &str = "internal error while creating this session; create another one";

/// Interval at which `stop_jobs` checks if all jobs have ended.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Maximum number of these checks. After that, `stop_jobs` returns even if a job is still running.
const STOP_POLLS_MAX: usize = 150;

/// Runs sessions. Cheap to clone; clones share the sessions.
#[derive(Clone)]
pub struct Driver {
    pub(crate) inner: Arc<DriverInner>,
}

/// Returns the inputs that a session opened from a log receives first.
type InitialInputs = Arc<dyn Fn(&SessionSpec) -> Vec<Input> + Send + Sync>;

pub(crate) struct DriverInner {
    pub(crate) ports: Ports,
    pub(crate) membership: Option<Membership>,
    pub(crate) sessions: Mutex<HashMap<SessionId, Handle>>,
    /// Sessions opened from logs, in the order in which they will be checked for eviction.
    pub(crate) from_logs: Mutex<VecDeque<Weak<LiveSession>>>,
    /// Inputs that each session receives first when it is opened from a log.
    initial_inputs: Mutex<Option<InitialInputs>>,
    /// Tasks that process inputs.
    workers: TaskTracker,
}

/// Result of adding a session to the map.
enum Insertion {
    New(Handle),
    Existing(Handle),
}

impl Driver {
    /// Creates a driver without sessions, on a store that is not shared with other nodes.
    pub fn new(ports: Ports) -> Self {
        let inner = DriverInner::new(ports, TaskTracker::new(), None);
        Self { inner: Arc::new(inner) }
    }

    /// Creates a driver without sessions, on a store shared with other nodes. Must be called within a tokio runtime.
    pub fn clustered(ports: Ports, cluster: Arc<dyn Cluster>) -> Self {
        let workers = TaskTracker::new();
        let membership = Membership::new(cluster, workers.clone());
        let inner = Arc::new(DriverInner::new(ports, workers, Some(membership)));
        if let Some(membership) = &inner.membership {
            membership.receive_events(Arc::downgrade(&inner));
        }
        Self { inner }
    }

    /// Sets the inputs that every session receives first when this process opens it from a log. They depend
    /// on the session's spec, and apply this process's settings to it. A later call replaces them.
    pub fn set_initial_inputs(&self, inputs: impl Fn(&SessionSpec) -> Vec<Input> + Send + Sync + 'static) {
        *self.inner.initial_inputs.lock() = Some(Arc::new(inputs));
    }

    /// Creates a session, which is durable on return. The returned handle stays usable if this node loses the session's
    /// lease. Fails if the store fails or already has a session with this id.
    pub async fn create(
        &self,
        id: SessionId,
        spec: SessionSpec,
        runtime_factory: RuntimeFactory,
    ) -> Result<Arc<dyn SessionHandle>, DriverError> {
        self.create_for(id, spec, None, runtime_factory).await
    }

    /// Like `create`, on behalf of a user.
    pub async fn create_for(
        &self,
        id: SessionId,
        spec: SessionSpec,
        opened_by: Option<String>,
        runtime_factory: RuntimeFactory,
    ) -> Result<Arc<dyn SessionHandle>, DriverError> {
        let handle = match self.inner.insert(self.new_session(id, spec, opened_by, runtime_factory()), None) {
            Insertion::New(handle) => handle,
            Insertion::Existing(handle) => {
                let (id, found) = (handle.id().clone(), handle.last_seq());
                return Err(StoreError::Conflict { id, expected: Seq(0), found }.into());
            }
        };
        let live = Arc::clone(&handle.live);
        // A separate task finishes even if the caller is dropped: a session stored without its opening would be
        // unusable.
        let flushed = tokio::spawn(async move { live.flush().await });
        flushed.await.unwrap_or_else(|_| Err(DriverError::Closed(CREATE_BUG.to_owned())))?;
        match &self.inner.membership {
            None => Ok(Arc::new(handle)),
            Some(membership) => {
                let id = handle.id().clone();
                let session = membership.insert(&self.inner, &id, runtime_factory, Location::Local(handle));
                Ok(Arc::new(ClusterHandle(session)))
            }
        }
    }

    /// Creates a session that becomes durable with its first input, so that an unused session leaves no trace.
    pub fn create_lazy(&self, id: SessionId, spec: SessionSpec, runtime: Runtime) -> Handle {
        match self.inner.insert(self.new_session(id, spec, None, runtime), None) {
            Insertion::New(handle) | Insertion::Existing(handle) => handle,
        }
    }

    fn new_session(
        &self,
        id: SessionId,
        spec: SessionSpec,
        opened_by: Option<String>,
        runtime: Runtime,
    ) -> Handle {
        let (session, out) = match opened_by {
            Some(person) => Session::open_for(spec, person),
            None => Session::open(spec),
        };
        let start = SessionStart { session, seq: Seq(0), pending: out.events };
        let lease = self.inner.membership.as_ref().map(|membership| membership.new_lease(&self.inner, &id));
        self.inner.new_live(&id, lease, None, runtime, start)
    }

    /// Opens a session from its log. The session runs in this process if no other live node owns it. Otherwise this
    /// process follows the owner, and takes the session over if the owner is gone. Front ends that open the same
    /// session share it. Fails if the session does not exist or its log cannot be read.
    pub async fn open(
        &self,
        id: &SessionId,
        runtime_factory: RuntimeFactory,
    ) -> Result<Arc<dyn SessionHandle>, DriverError> {
        match &self.inner.membership {
            None => Ok(Arc::new(self.inner.open_local(id, || runtime_factory()).await?)),
            Some(membership) => membership.open(&self.inner, id, runtime_factory).await,
        }
    }

    /// Opens a session from its log in this process. Calls that were running when the session's previous process ended
    /// are marked as interrupted. A session that is already live is returned unchanged. Fails if the session does not
    /// exist, its log cannot be read, or another node owns the session.
    pub async fn resume(&self, id: &SessionId, runtime: Runtime) -> Result<Handle, DriverError> {
        self.inner.open_local(id, || runtime).await
    }

    /// Returns a session that is already open, no matter where it runs.
    pub fn get(&self, id: &SessionId) -> Option<Arc<dyn SessionHandle>> {
        match &self.inner.membership {
            None => self.inner.running(id).map(|handle| Arc::new(handle) as Arc<dyn SessionHandle>),
            Some(membership) => {
                let session = membership.get(id)?;
                Some(Arc::new(ClusterHandle(session)))
            }
        }
    }

    /// Returns the position of an open session's last event, as far as this node knows; `None` if it is not open here.
    pub fn last_seq(&self, id: &SessionId) -> Option<Seq> {
        match self.inner.cluster_session(id).map(|session| session.location()) {
            Some(Location::Local(handle)) => Some(handle.last_seq()),
            Some(Location::Remote(follower)) => Some(follower.last_seq()),
            Some(Location::Closed(_)) => None,
            None => self.inner.running(id).map(|handle| handle.last_seq()),
        }
    }

    /// Returns the number of subscriptions to a session that runs on this node.
    pub fn subscriber_count(&self, id: &SessionId) -> usize {
        self.inner.running(id).map_or(0, |handle| handle.live.hub.subscriber_count())
    }

    /// Copies the log of a session into a new session, up to but excluding the prompt of the turn `before`. Fails if
    /// the session or turn does not exist, or the store fails.
    pub async fn fork(
        &self,
        from: &SessionId,
        before: TurnId,
        id: &SessionId,
        person: Option<&str>,
    ) -> Result<(), DriverError> {
        let store = &self.inner.ports.store;
        let mut copied: Vec<Arc<Logged>> = Vec::new();
        loop {
            let seen = copied.last().map_or(Seq(0), |last| last.seq);
            let page = store.load(from, seen, LOAD_EVENTS_MAX).await?;
            if page.is_empty() {
                return Err(DriverError::NoTurn(from.clone(), before));
            }
            for mut logged in page {
                if let (Event::SessionOpened { opened_by, .. }, Some(person)) = (&mut logged.event, person) {
                    *opened_by = Some(person.to_owned());
                }
                if matches!(&logged.event, Event::TurnStarted { turn, .. } if *turn == before) {
                    store.append(id, Seq(0), &copied).await?;
                    // The artifacts of a session deleted in the meantime may be gone.
                    if let Err(error) = store.load(from, Seq(0), 1).await {
                        store.delete(id).await?;
                        return Err(error.into());
                    }
                    return Ok(());
                }
                copied.push(Arc::new(logged));
            }
        }
    }

    /// Ends a session for good, even during a turn: nothing is published or logged after that.
    pub fn end(&self, id: &SessionId, why: &str) {
        let handle = self.inner.sessions.lock().remove(id);
        if let Some(handle) = handle {
            handle.live.end(why);
        }
    }

    pub fn live_sessions(&self) -> usize {
        self.inner.sessions.lock().len()
    }

    /// Stops the background jobs of all sessions and waits up to a few seconds until their ends are logged.
    /// Returns the jobs that were requested to stop.
    pub async fn stop_jobs(&self) -> Vec<Job> {
        let mut stopped = Vec::new();
        for handle in self.inner.live_handles() {
            for (job, started) in handle.live.running_jobs().iter() {
                // Fails only if the session has ended and taken its jobs with it.
                let _ = handle.send(Input::StopJob { job });
                stopped.push(started.clone());
            }
        }
        let is_over = || self.inner.live_handles().iter().all(|handle| handle.live.running_jobs().is_empty());
        for _ in 0..STOP_POLLS_MAX {
            if is_over() {
                break;
            }
            self.inner.ports.clock.sleep(STOP_POLL).await;
        }
        stopped
    }

    /// Releases all sessions to the other nodes at once, and stops all work here. Fails if the other nodes
    /// could not be notified; they then take over when this node's lease expires.
    pub async fn leave(&self) -> Result<(), DriverError> {
        match &self.inner.membership {
            None => Ok(()),
            Some(membership) => membership.leave(&self.inner).await,
        }
    }
}

impl DriverInner {
    fn new(ports: Ports, workers: TaskTracker, membership: Option<Membership>) -> Self {
        Self {
            ports,
            membership,
            sessions: Mutex::default(),
            from_logs: Mutex::default(),
            initial_inputs: Mutex::default(),
            workers,
        }
    }

    pub(crate) async fn open_local(
        &self,
        id: &SessionId,
        runtime: impl FnOnce() -> Runtime,
    ) -> Result<Handle, DriverError> {
        let _open_guard = match &self.membership {
            Some(membership) => Some(membership.open_lock(id).lock().await),
            None => None,
        };
        if let Some(handle) = self.running(id) {
            return Ok(handle);
        }
        let lease = match &self.membership {
            Some(membership) => Some(membership.acquire(self, id).await?),
            None => None,
        };
        // Before the log is read: its work ended with its process only if no process claims the session.
        let claim = match &lease {
            Some(_) => None,
            None => self.ports.store.claim(id).await?,
        };
        let (session, seq) = replay(self.ports.store.as_ref(), id).await?;
        let claim = claim.filter(|_| session.has_work());
        let initial_inputs = self.initial_inputs.lock().clone();
        let initial_inputs = initial_inputs.map_or_else(Vec::new, |inputs| inputs(session.spec()));
        let start = SessionStart { session, seq, pending: Vec::new() };
        let handle = self.new_live(id, lease, claim, runtime(), start);
        match self.insert(handle, Some(Input::Recovered)) {
            Insertion::New(handle) => {
                self.enforce_idle_limit(&handle.live);
                for input in initial_inputs {
                    handle.live.send(input)?;
                }
                if let Some(lease) = &handle.lease {
                    lease.drain_queue(&handle.live);
                    lease.start_relay(&handle.live);
                }
                Ok(handle)
            }
            // Another caller opened the session in the meantime; its running calls are not interrupted.
            Insertion::Existing(handle) => Ok(handle),
        }
    }

    fn new_live(
        &self,
        id: &SessionId,
        cluster_lease: Option<Arc<ClusterLease>>,
        claim: Option<SessionClaim>,
        runtime: Runtime,
        start: SessionStart,
    ) -> Handle {
        let lease: Arc<dyn SessionLease> = match &cluster_lease {
            Some(lease) => Arc::clone(lease) as Arc<dyn SessionLease>,
            None => Arc::new(StoreLease::new(id.clone(), Arc::clone(&self.ports.store), claim)),
        };
        let workers = self.workers.clone();
        let live = LiveSession::new(id.clone(), self.ports.clone(), workers, lease, runtime, start);
        Handle { live, lease: cluster_lease }
    }

    pub(crate) fn running(&self, id: &SessionId) -> Option<Handle> {
        let mut sessions = self.sessions.lock();
        if sessions.get(id).is_some_and(|handle| handle.last_error().is_some()) {
            sessions.remove(id);
        }
        sessions.get(id).cloned()
    }

    /// Adds a session to the map, unless a session with the same id is live. `first` is an input that the new session
    /// gets before every other input.
    fn insert(&self, handle: Handle, first: Option<Input>) -> Insertion {
        let mut sessions = self.sessions.lock();
        match sessions.get(handle.id()) {
            Some(running) if running.last_error().is_none() => Insertion::Existing(running.clone()),
            Some(_) | None => {
                if let Some(first) = first {
                    handle.live.send(first).expect("a new session is open");
                }
                sessions.insert(handle.id().clone(), handle.clone());
                Insertion::New(handle)
            }
        }
    }

    pub(crate) fn lose_all_leases(&self) {
        let handles: Vec<_> = self.sessions.lock().drain().map(|(_, handle)| handle).collect();
        for handle in handles {
            handle.live.lose_lease();
        }
    }

    pub(crate) fn live_handles(&self) -> Vec<Handle> {
        self.sessions.lock().values().cloned().collect()
    }

    pub(crate) fn live_handle(&self, id: &SessionId) -> Option<Handle> {
        self.sessions.lock().get(id).cloned()
    }

    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    pub(crate) fn cluster_session(&self, id: &SessionId) -> Option<Arc<ClusterSession>> {
        self.membership.as_ref().and_then(|membership| membership.get(id))
    }
}

/// Handle to a session that is live in this process. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) live: Arc<LiveSession>,
    /// The session's lease; `None` outside of a cluster.
    pub(crate) lease: Option<Arc<ClusterLease>>,
}

impl Handle {
    pub fn id(&self) -> &SessionId {
        self.live.id()
    }

    /// Adds an input. Never blocks; results arrive as updates. Fails if the session has ended for good, or if
    /// too many inputs are queued.
    pub fn send(&self, input: Input) -> Result<(), DriverError> {
        self.live.send(input)
    }

    /// Subscribes to every event after `after`, each once and in order, followed by live updates. No deltas.
    pub fn subscribe(&self, after: Seq) -> Updates {
        self.live.subscribe(after)
    }

    /// Answers a question. Returns true if the question was still open. A secret goes only to the program
    /// that asked for it: the log records merely that a secret was given.
    pub fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.live.answer_question(id, answer)
    }

    /// Returns the session's terminal, if its host has one.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.live.terminal()
    }

    /// Returns the position of the last durable event.
    pub fn last_seq(&self) -> Seq {
        self.live.last_seq()
    }

    /// Waits until the inputs sent so far have been handled and their events are durable, or the session has ended.
    pub async fn settle(&self) {
        self.live.settle().await;
    }

    /// Returns true if another process appended the event at this position, and the session was then reloaded.
    pub fn is_by_another_process(&self, event: Seq) -> bool {
        self.live.is_by_another_process(event)
    }

    /// Returns the reason why the session ended for good, if it did.
    pub fn last_error(&self) -> Option<String> {
        self.live.last_error()
    }
}
