//! Runs sessions: append, publish, perform. Knows no vendor: models, machines, stores and clocks come through ports.
//!
//! The order is the point of this crate: an event is durable before anybody sees it, and seen before anything is
//! done about it. What changes nothing may begin meanwhile, and what comes of it waits: a model is asked for a later
//! step of a turn, a call runs that is known to look only. A session with
//! nothing to do is an entry in a map; a task exists only while inputs are worked off. Nodes that share a store
//! (`cluster`) each run the sessions that they own, and follow the others.
#![warn(missing_docs)]

mod clock;
pub mod cluster;
mod cluster_session;
mod follow;
pub mod frontend;
mod hub;
mod live;
pub mod port;
pub mod prompter;
mod questions;
mod queue_limits;
mod replay;
mod stream_batch;
pub mod tokens;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use sysop_core::event::{Event, Input, Logged};
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::question::QuestionId;
use sysop_core::session::{Session, SessionSpec};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use self::clock::system_clock;
use self::cluster::{AcquireOutcome, Cluster, ClusterContext, ClusterEvent, Lease, SingleNodeLease};
pub use self::cluster_session::RuntimeFactory;
use self::cluster_session::{ClusterHandle, ClusterSession, Location};
pub use self::hub::Updates;
use self::live::{LiveSession, SessionStart};
use self::port::{Clock, Host, Provider, Store, StoreError};
use self::prompter::{PromptReply, Terminal};
pub use self::queue_limits::QUEUE_IS_FULL;
pub use self::replay::replay;

/// How many events are read from the store at a time.
const LOAD_EVENTS_MAX: usize = 8192;
/// Sessions that can be opened from their logs side by side.
const OPEN_LOCK_SHARDS: usize = 64;
/// Sessions out of their logs that stay in memory for a while after the last who held them, whoever looks at how many.
pub const IDLE_SESSIONS_MAX: usize = 64;
/// How many of those that may have to go are looked at when another one comes; somebody may hold them.
const EVICTION_CHECKS_MAX: usize = 8;
/// How long a node that leaves waits until what was said on it is on its way to the others.
const FLUSH_ON_LEAVE_TIME_MAX: Duration = Duration::from_secs(2);

/// What all sessions of a driver share.
#[derive(Clone)]
pub struct Ports {
    /// Keeps logs.
    pub store: Arc<dyn Store>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// What one session runs on: both belong to its host, since models may run there too.
#[derive(Clone)]
pub struct Runtime {
    /// Runs the session's tools.
    pub host: Arc<dyn Host>,
    /// Asks the session's models.
    pub provider: Arc<dyn Provider>,
}

/// Why the driver did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The store did not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session ended for good; the text says why.
    #[error("{0}")]
    Closed(String),
    /// The session takes no more of this for now; the text says why.
    #[error("{0}")]
    QueueFull(String),
    /// The log has no such turn.
    #[error("session {0} has no turn {1}")]
    NoTurn(SessionId, TurnId),
    /// Another node that lives has it.
    #[error("session {0} is in the hands of node {1}")]
    OwnedByOtherNode(SessionId, String),
    /// The log cannot be replayed.
    #[error("the log of session {0} cannot be read: {1}")]
    BadLog(SessionId, String),
}

/// Runs sessions. Cheap to clone; clones share the sessions.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<DriverInner>,
}

struct DriverInner {
    ports: Ports,
    nodes: Option<ClusterContext>,
    sessions: Mutex<HashMap<SessionId, Arc<LiveSession>>>,
    /// Those of them that came out of their logs, the first to go first.
    from_logs: Mutex<VecDeque<Weak<LiveSession>>>,
    /// Sessions that faces of this node have open, wherever they are.
    cluster_session: Mutex<HashMap<SessionId, Weak<ClusterSession>>>,
    /// Of several who open the same session, one at a time does.
    open_locks: [tokio::sync::Mutex<()>; OPEN_LOCK_SHARDS],
    leaving: AtomicBool,
    /// What each session is told when it comes to this node.
    first: OnceLock<Vec<Input>>,
    /// Ends the task that listens to the other nodes.
    _listening: Option<DropGuard>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Starts with no session, on a store that is its own.
    pub fn new(ports: Ports) -> Self {
        Self { inner: Arc::new(DriverInner::new(ports, None, None)) }
    }

    /// Starts with no session, on a store that other nodes share. Must be called within a tokio runtime.
    pub fn clustered(ports: Ports, cluster: Arc<dyn Cluster>) -> Self {
        let end = CancellationToken::new();
        let guard = end.clone().drop_guard();
        let nodes = ClusterContext { cluster: Arc::clone(&cluster), background_tasks: TaskTracker::new() };
        let inner = Arc::new(DriverInner::new(ports, Some(nodes), Some(guard)));
        let listening = Arc::downgrade(&inner);
        tokio::spawn(async move {
            while let Some(word) = end.run_until_cancelled(cluster.next_event()).await {
                let Some(inner) = listening.upgrade() else { return };
                inner.on_cluster_event(word);
            }
        });
        Self { inner }
    }

    /// From now on each session that comes to this node from a log is told this before anything else: what the node
    /// allows holds wherever the session was before. The first call counts.
    pub fn set_initial_inputs(&self, inputs: Vec<Input>) {
        let _ = self.inner.first.set(inputs);
    }

    /// Opens a session from its log wherever it is: here if no other node has it, else it is followed, and taken
    /// over when its node is gone. Faces that open the same session get the same one.
    ///
    /// # Errors
    /// When there is no such session, or its log cannot be read.
    pub async fn open(
        &self,
        id: &SessionId,
        runtime_factory: RuntimeFactory,
    ) -> Result<Arc<dyn frontend::SessionHandle>, DriverError> {
        let Some(nodes) = self.inner.nodes.clone() else {
            return Ok(Arc::new(self.open_local(id, || runtime_factory()).await?));
        };
        if let Some(cluster_session) = self.inner.cluster_session(id) {
            return Ok(Arc::new(ClusterHandle(cluster_session)));
        }
        let (driver, id) = (self.clone(), id.clone());
        // To its end, also where nobody waits for it any more: a session that is taken and not worked on, or watched
        // for nobody, would be one for good.
        let opening = tokio::spawn(async move {
            let place = cluster_session::locate(&driver, &nodes.cluster, &id, &runtime_factory).await?;
            Ok(Arc::new(ClusterHandle(driver.insert_cluster_session(&id, runtime_factory, place)))
                as Arc<dyn frontend::SessionHandle>)
        });
        opening.await.unwrap_or_else(|_| Err(DriverError::Closed(BUG.to_owned())))
    }

    /// A session that is open here already, wherever it runs.
    pub fn opened(&self, id: &SessionId) -> Option<Arc<dyn frontend::SessionHandle>> {
        match self.inner.cluster_session(id) {
            Some(cluster_session) => Some(Arc::new(ClusterHandle(cluster_session))),
            None if self.inner.nodes.is_some() => None,
            None => self.live(id).map(|handle| Arc::new(handle) as Arc<dyn frontend::SessionHandle>),
        }
    }

    /// The last event that is known here of a session that is open.
    pub fn last_seq(&self, id: &SessionId) -> Option<Seq> {
        match self.inner.cluster_session(id).map(|cluster_session| cluster_session.location()) {
            Some(Location::Local(handle)) => Some(handle.last_seq()),
            Some(Location::Remote(follow)) => Some(follow.last_seq()),
            Some(Location::Closed(_)) => None,
            None => self.live(id).map(|handle| handle.last_seq()),
        }
    }

    /// A new session of this node that stays open where the node loses it.
    pub fn attach(
        &self,
        handle: Handle,
        runtime_factory: RuntimeFactory,
    ) -> Arc<dyn frontend::SessionHandle> {
        if self.inner.nodes.is_none() {
            return Arc::new(handle);
        }
        let id = handle.id().clone();
        Arc::new(ClusterHandle(self.insert_cluster_session(&id, runtime_factory, Location::Local(handle))))
    }

    /// Gives all sessions back to the other nodes at once, and stops what runs here.
    ///
    /// # Errors
    /// When the others could not be told; they find out by themselves when this node has been silent for a while.
    pub async fn leave(&self) -> Result<(), DriverError> {
        let Some(ClusterContext { cluster, background_tasks }) = &self.inner.nodes else { return Ok(()) };
        self.inner.leaving.store(true, Ordering::SeqCst);
        self.inner.lose_all_leases();
        for cluster_session in self.inner.cluster_sessions() {
            if let Some(follow) = cluster_session.follow() {
                follow.close();
            }
        }
        let left = cluster.leave().await;
        // What was said here and not done yet goes to whoever has the session now.
        background_tasks.close();
        tokio::select! {
            () = background_tasks.wait() => {}
            () = self.inner.ports.clock.sleep(FLUSH_ON_LEAVE_TIME_MAX) => {
                tracing::warn!("something that was said last may not have reached the other nodes");
            }
        }
        Ok(left?)
    }

    fn insert_cluster_session(
        &self,
        id: &SessionId,
        runtime_factory: RuntimeFactory,
        place: Location,
    ) -> Arc<ClusterSession> {
        let nodes = self.inner.nodes.clone().expect("only nodes of a cluster place sessions");
        let mut open = lock(&self.inner.cluster_session);
        if let Some(cluster_session) = open.get(id).and_then(Weak::upgrade) {
            return cluster_session;
        }
        open.retain(|_, cluster_session| cluster_session.strong_count() > 0);
        let follow = matches!(place, Location::Remote(_));
        let cluster_session = ClusterSession::new(self, nodes, id.clone(), runtime_factory, place);
        open.insert(id.clone(), Arc::downgrade(&cluster_session));
        drop(open);
        if follow && let Some(follow) = cluster_session.follow() {
            follow.catch_up(); // words came too early for it
        }
        cluster_session
    }

    /// Opens a new session; it is durable on return.
    ///
    /// # Errors
    /// When the store cannot keep it, or already has one of that id.
    pub async fn create(
        &self,
        id: SessionId,
        spec: SessionSpec,
        runtime: Runtime,
    ) -> Result<Handle, DriverError> {
        match self.insert_session(self.new_live_session(id, spec, runtime), None) {
            Insertion::New(live) => {
                let handle = Handle { live: Arc::clone(&live) };
                // To its end, also where nobody waits for it any more: what was half written could do nothing later.
                let flushed = tokio::spawn(async move { live.flush().await });
                flushed.await.unwrap_or_else(|_| Err(DriverError::Closed(BUG.to_owned())))?;
                Ok(handle)
            }
            Insertion::Existing(live) => {
                let (id, found) = (live.id().clone(), live.last_seq());
                Err(StoreError::Conflict { id, expected: Seq(0), found }.into())
            }
        }
    }

    /// Opens a new session that becomes durable with its first input: one that is never used leaves no trace.
    pub fn create_lazy(&self, id: SessionId, spec: SessionSpec, runtime: Runtime) -> Handle {
        match self.insert_session(self.new_live_session(id, spec, runtime), None) {
            Insertion::New(live) | Insertion::Existing(live) => Handle { live },
        }
    }

    fn new_live_session(&self, id: SessionId, spec: SessionSpec, runtime: Runtime) -> Arc<LiveSession> {
        let (session, out) = Session::open(spec);
        let start = SessionStart { session, seq: Seq(0), pending: out.events };
        self.inner.create_lazy(&id, self.inner.new_lease(&id), runtime, start)
    }

    /// Opens a session from its log. What was running when its process ended is marked as interrupted.
    /// A session that this driver already runs is just handed out.
    ///
    /// # Errors
    /// When there is no such session, or its log cannot be read.
    pub async fn resume(&self, id: &SessionId, runtime: Runtime) -> Result<Handle, DriverError> {
        self.open_local(id, || runtime).await
    }

    async fn open_local(
        &self,
        id: &SessionId,
        runtime_factory: impl FnOnce() -> Runtime,
    ) -> Result<Handle, DriverError> {
        let _open_guard = match &self.inner.nodes {
            Some(_) => Some(self.inner.open_lock(id).lock().await),
            None => None,
        };
        if let Some(live) = self.running_session(id) {
            return Ok(Handle { live });
        }
        let lease = self.inner.acquire(id).await?;
        let (session, seq) = replay(self.inner.ports.store.as_ref(), id).await?;
        let start = SessionStart { session, seq, pending: Vec::new() };
        let live = self.inner.create_lazy(id, lease, runtime_factory(), start);
        match self.insert_session(live, Some(Input::Recovered)) {
            Insertion::New(live) => {
                self.inner.enforce_idle_limit(&live);
                for input in self.inner.first.get().into_iter().flatten() {
                    live.send(input.clone())?;
                }
                if self.inner.nodes.is_some() {
                    live.drain_queue();
                    follow::start_relay(&live);
                }
                Ok(Handle { live })
            }
            // Where somebody resumed it meanwhile, what it does now is not interrupted.
            Insertion::Existing(live) => Ok(Handle { live }),
        }
    }

    /// Gives a new session the log of another one up to the prompt of a turn, which is left out.
    ///
    /// # Errors
    /// When there is no such session or turn, or the store cannot keep the new one.
    pub async fn fork(&self, from: &SessionId, before: TurnId, id: &SessionId) -> Result<(), DriverError> {
        let store = &self.inner.ports.store;
        let mut taken: Vec<Arc<Logged>> = Vec::new();
        loop {
            let seen = taken.last().map_or(Seq(0), |last| last.seq);
            let page = store.load(from, seen, LOAD_EVENTS_MAX).await?;
            if page.is_empty() {
                return Err(DriverError::NoTurn(from.clone(), before));
            }
            for logged in page {
                if matches!(&logged.event, Event::TurnStarted { turn, .. } if *turn == before) {
                    store.append(id, Seq(0), &taken).await?;
                    // What is kept beside the log of a session that was deleted meanwhile may be gone.
                    if let Err(error) = store.load(from, Seq(0), 1).await {
                        store.delete(id).await?;
                        return Err(error.into());
                    }
                    return Ok(());
                }
                taken.push(Arc::new(logged));
            }
        }
    }

    /// Lets go of sessions that nobody holds or watches and that have had nothing to do for so long: they are opened
    /// from their logs when they are next wanted.
    ///
    /// Among nodes they are given back, and at once: they are worked on where somebody holds them.
    pub fn evict_idle(&self, idle: Duration) {
        let now = self.inner.ports.clock.now();
        let idle = if self.inner.nodes.is_some() { Duration::ZERO } else { idle };
        let idle_sessions: Vec<_> = {
            let mut sessions = lock(&self.inner.sessions);
            sessions.extract_if(|_, live| Arc::strong_count(live) == 1 && live.is_idle(now, idle)).collect()
        };
        for (_, live) in idle_sessions {
            self.inner.release_session(&live); // its host may have something to end, and needs no lock for it
        }
    }

    /// Ends a session here for good, whatever it does: nothing more is told or logged.
    pub fn end(&self, id: &SessionId, why: &str) {
        let live = lock(&self.inner.sessions).remove(id);
        if let Some(live) = live {
            live.end(why);
        }
    }

    /// A session that runs here already.
    pub fn live(&self, id: &SessionId) -> Option<Handle> {
        self.running_session(id).map(|live| Handle { live })
    }

    /// How many sessions are held in memory.
    pub fn live_sessions(&self) -> usize {
        lock(&self.inner.sessions).len()
    }

    fn running_session(&self, id: &SessionId) -> Option<Arc<LiveSession>> {
        let mut sessions = lock(&self.inner.sessions);
        if sessions.get(id).is_some_and(|live| live.last_error().is_some()) {
            sessions.remove(id);
        }
        sessions.get(id).cloned()
    }

    /// Keeps a session, unless one of its id runs already. Nobody else can tell it anything before `first`.
    fn insert_session(&self, live: Arc<LiveSession>, first: Option<Input>) -> Insertion {
        let mut sessions = lock(&self.inner.sessions);
        match sessions.get(live.id()) {
            Some(running) if running.last_error().is_none() => Insertion::Existing(Arc::clone(running)),
            Some(_) | None => {
                if let Some(first) = first {
                    live.send(first).expect("a session that nobody has seen is open");
                }
                sessions.insert(live.id().clone(), Arc::clone(&live));
                Insertion::New(live)
            }
        }
    }
}

impl DriverInner {
    fn new(ports: Ports, nodes: Option<ClusterContext>, listening: Option<DropGuard>) -> Self {
        Self {
            ports,
            nodes,
            sessions: Mutex::default(),
            from_logs: Mutex::default(),
            cluster_session: Mutex::default(),
            open_locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            leaving: AtomicBool::new(false),
            first: OnceLock::new(),
            _listening: listening,
        }
    }

    fn create_lazy(
        &self,
        id: &SessionId,
        lease: Arc<dyn Lease>,
        runtime: Runtime,
        start: SessionStart,
    ) -> Arc<LiveSession> {
        LiveSession::new(id.clone(), self.ports.clone(), self.nodes.clone(), lease, runtime, start)
    }

    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease> {
        match &self.nodes {
            Some(nodes) => nodes.cluster.new_lease(id),
            None => Arc::new(SingleNodeLease { id: id.clone(), store: Arc::clone(&self.ports.store) }),
        }
    }

    async fn acquire(&self, id: &SessionId) -> Result<Arc<dyn Lease>, DriverError> {
        let Some(nodes) = &self.nodes else { return Ok(self.new_lease(id)) };
        match nodes.cluster.acquire(id).await? {
            AcquireOutcome::Owned(lease) => Ok(lease),
            AcquireOutcome::OwnedBy(node) => Err(DriverError::OwnedByOtherNode(id.clone(), node)),
        }
    }

    fn open_lock(&self, id: &SessionId) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let index = hasher.finish() % OPEN_LOCK_SHARDS as u64;
        &self.open_locks[usize::try_from(index).expect("there are few doors")]
    }

    fn cluster_session(&self, id: &SessionId) -> Option<Arc<ClusterSession>> {
        lock(&self.cluster_session).get(id).and_then(Weak::upgrade)
    }

    fn cluster_sessions(&self) -> Vec<Arc<ClusterSession>> {
        lock(&self.cluster_session).values().filter_map(Weak::upgrade).collect()
    }

    fn live(&self, id: &SessionId) -> Option<Arc<LiveSession>> {
        lock(&self.sessions).get(id).cloned()
    }

    /// Lets go of the oldest sessions that came out of their logs and that nobody holds, where one more came.
    fn enforce_idle_limit(&self, newest: &Arc<LiveSession>) {
        let now = self.ports.clock.now();
        let mut idle_sessions = Vec::new();
        let mut from_logs = lock(&self.from_logs);
        from_logs.push_back(Arc::downgrade(newest));
        for _ in 0..EVICTION_CHECKS_MAX {
            if from_logs.len() <= IDLE_SESSIONS_MAX {
                break;
            }
            let Some(live) = from_logs.pop_front().and_then(|oldest| oldest.upgrade()) else { continue };
            let mut sessions = lock(&self.sessions);
            let known = sessions.get(live.id()).is_some_and(|known| Arc::ptr_eq(known, &live));
            // The map's and this one.
            if known && Arc::strong_count(&live) == 2 && live.is_idle(now, Duration::ZERO) {
                sessions.remove(live.id());
                idle_sessions.push(live);
            } else if known {
                from_logs.push_back(Arc::downgrade(&live));
            }
        }
        drop(from_logs);
        for live in idle_sessions {
            self.release_session(&live);
        }
    }

    /// Lets go of a session that nobody here holds any more, if it has nothing to do; says whether it is gone.
    fn evict_if_idle(&self, id: &SessionId) -> bool {
        let now = self.ports.clock.now();
        let idle_sessions = {
            let mut sessions = lock(&self.sessions);
            match sessions.get(id) {
                None => return true,
                Some(live) if Arc::strong_count(live) > 1 || !live.is_idle(now, Duration::ZERO) => {
                    return false;
                }
                Some(_) => sessions.remove(id),
            }
        };
        if let Some(live) = idle_sessions {
            self.release_session(&live);
        }
        true
    }

    /// Gives a session that rests to whoever wants it: what is said to it elsewhere would be heard by nobody here.
    fn release_session(&self, live: &LiveSession) {
        if self.nodes.is_none() || live.closed().is_some() {
            return;
        }
        live.hub.close(); // and with it the telling of others
        let lease = Arc::clone(live.lease());
        live.tasks().spawn(async move {
            if let Err(error) = lease.release().await {
                tracing::debug!(%error, "a session that rests is given back with the node only");
            }
        });
    }

    fn lose_all_leases(&self) {
        let lives: Vec<_> = lock(&self.sessions).drain().map(|(_, live)| live).collect();
        for live in lives {
            live.lose_lease();
        }
    }

    /// Does what a word from the other nodes asks for. Never waits.
    fn on_cluster_event(&self, word: ClusterEvent) {
        match word {
            ClusterEvent::Appended { id, seq } => {
                if let Some(follow) =
                    self.cluster_session(&id).and_then(|cluster_session| cluster_session.follow())
                {
                    follow.on_appended(seq);
                }
            }
            ClusterEvent::Deltas { id, after, deltas } => {
                if let Some(follow) =
                    self.cluster_session(&id).and_then(|cluster_session| cluster_session.follow())
                {
                    follow.on_deltas(after, deltas);
                }
            }
            ClusterEvent::Orphaned { id } => {
                if let Some(cluster_session) = self.cluster_session(&id) {
                    if let Some(follow) = cluster_session.follow() {
                        follow.close();
                    }
                    cluster_session.spawn_relocate();
                }
            }
            ClusterEvent::InputQueued { id } => {
                if let Some(live) = self.live(&id) {
                    live.drain_queue();
                }
            }
            ClusterEvent::FollowerJoined { id } => {
                if let Some(live) = self.live(&id) {
                    follow::start_relay(&live);
                }
            }
            ClusterEvent::Lagged => self.resync_all(),
            ClusterEvent::LeasesLost => {
                self.lose_all_leases();
                for cluster_session in self.cluster_sessions() {
                    if let Some(follow) = cluster_session.follow() {
                        follow.close(); // the watch ended with the lease
                    }
                    cluster_session.spawn_relocate();
                }
            }
        }
    }

    fn resync_all(&self) {
        for cluster_session in self.cluster_sessions() {
            if let Some(follow) = cluster_session.follow() {
                follow.catch_up();
            }
        }
        let lives: Vec<_> = lock(&self.sessions).values().cloned().collect();
        for live in lives {
            live.drain_queue();
            follow::start_relay(&live);
        }
    }
}

/// What is told where one of our own tasks panicked.
const BUG: &str = "sysop hit a bug while it opened this session; what was logged is kept, open it again";

enum Insertion {
    New(Arc<LiveSession>),
    Existing(Arc<LiveSession>),
}

/// All that a face holds of a session. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    live: Arc<LiveSession>,
}

impl Handle {
    /// Which session.
    pub fn id(&self) -> &SessionId {
        self.live.id()
    }

    /// Tells the session something. Never blocks; what came of it arrives as updates.
    ///
    /// # Errors
    /// When the session ended for good, or too much waits for it already.
    pub fn send(&self, input: Input) -> Result<(), DriverError> {
        self.live.send(input)
    }

    /// Everything logged after `after`, once and in order, then whatever comes; deltas only as they happen.
    pub fn subscribe(&self, after: Seq) -> Updates {
        self.live.subscribe(after)
    }

    /// Answers a question; says whether it was still open. A secret goes to the program that asked and nowhere
    /// else: the log has only that it was given.
    pub fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.live.answer_question(id, answer)
    }

    /// The session's terminal, where its host has one.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.live.terminal()
    }

    /// The last event that is durable.
    pub fn last_seq(&self) -> Seq {
        self.live.last_seq()
    }

    /// Why the session ended for good, if it did.
    pub fn last_error(&self) -> Option<String> {
        self.live.last_error()
    }
}
