//! Runs sessions: append, publish, perform. Knows no vendor: models, machines, stores and clocks come through ports.
//!
//! The order is the point of this crate: an event is durable before anybody sees it, and seen before anything is
//! done about it. What changes nothing may begin meanwhile, and what comes of it waits: a model is asked for a later
//! step of a turn, a call runs that is known to look only. A session with
//! nothing to do is an entry in a map; a task exists only while inputs are worked off. Nodes that share a store
//! (`cluster`) each run the sessions that they own, and follow the others.
#![warn(missing_docs)]

mod bounds;
mod clock;
pub mod cluster;
pub mod face;
mod follow;
mod hub;
mod live;
pub mod people;
mod piece;
mod placed;
pub mod port;
mod questions;
mod replay;
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

pub use self::bounds::QUEUE_IS_FULL;
pub use self::clock::system_clock;
use self::cluster::{Acquired, Alone, Cluster, Lease, Nodes, Word};
pub use self::hub::Updates;
use self::live::{Live, Start};
use self::people::{Answer, Terminal};
pub use self::placed::MakeRuntime;
use self::placed::{Place, Placed, Shared};
use self::port::{Clock, Host, Provider, Store, StoreError};
pub use self::replay::replay;

/// How many events are read from the store at a time.
const LOAD_EVENTS_MAX: usize = 8192;
/// Sessions that can be opened from their logs side by side.
const DOORS: usize = 64;
/// Sessions out of their logs that stay in memory for a while after the last who held them, whoever looks at how many.
pub const RESTING_MAX: usize = 64;
/// How many of those that may have to go are looked at when another one comes; somebody may hold them.
const RESTING_LOOKS: usize = 8;
/// How long a node that leaves waits until what was said on it is on its way to the others.
const LAST_LETTERS_TIME_MAX: Duration = Duration::from_secs(2);

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
    Full(String),
    /// The log has no such turn.
    #[error("session {0} has no turn {1}")]
    NoTurn(SessionId, TurnId),
    /// Another node that lives has it.
    #[error("session {0} is in the hands of node {1}")]
    Elsewhere(SessionId, String),
    /// The log cannot be replayed.
    #[error("the log of session {0} cannot be read: {1}")]
    BadLog(SessionId, String),
}

/// Runs sessions. Cheap to clone; clones share the sessions.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    nodes: Option<Nodes>,
    sessions: Mutex<HashMap<SessionId, Arc<Live>>>,
    /// Those of them that came out of their logs, the first to go first.
    from_logs: Mutex<VecDeque<Weak<Live>>>,
    /// Sessions that faces of this node have open, wherever they are.
    placed: Mutex<HashMap<SessionId, Weak<Placed>>>,
    /// Of several who open the same session, one at a time does.
    doors: [tokio::sync::Mutex<()>; DOORS],
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
        Self { inner: Arc::new(Inner::new(ports, None, None)) }
    }

    /// Starts with no session, on a store that other nodes share. Must be called within a tokio runtime.
    pub fn among(ports: Ports, cluster: Arc<dyn Cluster>) -> Self {
        let end = CancellationToken::new();
        let guard = end.clone().drop_guard();
        let nodes = Nodes { cluster: Arc::clone(&cluster), errands: TaskTracker::new() };
        let inner = Arc::new(Inner::new(ports, Some(nodes), Some(guard)));
        let listening = Arc::downgrade(&inner);
        tokio::spawn(async move {
            while let Some(word) = end.run_until_cancelled(cluster.word()).await {
                let Some(inner) = listening.upgrade() else { return };
                inner.hear(word);
            }
        });
        Self { inner }
    }

    /// From now on each session that comes to this node from a log is told this before anything else: what the node
    /// allows holds wherever the session was before. The first call counts.
    pub fn begin_with(&self, inputs: Vec<Input>) {
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
        make_runtime: MakeRuntime,
    ) -> Result<Arc<dyn face::Session>, DriverError> {
        let Some(nodes) = self.inner.nodes.clone() else {
            return Ok(Arc::new(self.take(id, || make_runtime()).await?));
        };
        if let Some(placed) = self.inner.placed(id) {
            return Ok(Arc::new(Shared(placed)));
        }
        let (driver, id) = (self.clone(), id.clone());
        // To its end, also where nobody waits for it any more: a session that is taken and not worked on, or watched
        // for nobody, would be one for good.
        let opening = tokio::spawn(async move {
            let place = placed::find(&driver, &nodes.cluster, &id, &make_runtime).await?;
            Ok(Arc::new(Shared(driver.place(&id, make_runtime, place))) as Arc<dyn face::Session>)
        });
        opening.await.unwrap_or_else(|_| Err(DriverError::Closed(BUG.to_owned())))
    }

    /// A session that is open here already, wherever it runs.
    pub fn opened(&self, id: &SessionId) -> Option<Arc<dyn face::Session>> {
        match self.inner.placed(id) {
            Some(placed) => Some(Arc::new(Shared(placed))),
            None if self.inner.nodes.is_some() => None,
            None => self.live(id).map(|handle| Arc::new(handle) as Arc<dyn face::Session>),
        }
    }

    /// The last event that is known here of a session that is open.
    pub fn last_seq(&self, id: &SessionId) -> Option<Seq> {
        match self.inner.placed(id).map(|placed| placed.place()) {
            Some(Place::Here(handle)) => Some(handle.last_seq()),
            Some(Place::There(follow)) => Some(follow.last_seq()),
            Some(Place::Gone(_)) => None,
            None => self.live(id).map(|handle| handle.last_seq()),
        }
    }

    /// A new session of this node that stays open where the node loses it.
    pub fn share(&self, handle: Handle, make_runtime: MakeRuntime) -> Arc<dyn face::Session> {
        if self.inner.nodes.is_none() {
            return Arc::new(handle);
        }
        let id = handle.id().clone();
        Arc::new(Shared(self.place(&id, make_runtime, Place::Here(handle))))
    }

    /// Gives all sessions back to the other nodes at once, and stops what runs here.
    ///
    /// # Errors
    /// When the others could not be told; they find out by themselves when this node has been silent for a while.
    pub async fn leave(&self) -> Result<(), DriverError> {
        let Some(Nodes { cluster, errands }) = &self.inner.nodes else { return Ok(()) };
        self.inner.leaving.store(true, Ordering::SeqCst);
        self.inner.lose_all();
        for placed in self.inner.all_placed() {
            if let Some(follow) = placed.follow() {
                follow.close();
            }
        }
        let left = cluster.leave().await;
        // What was said here and not done yet goes to whoever has the session now.
        errands.close();
        tokio::select! {
            () = errands.wait() => {}
            () = self.inner.ports.clock.sleep(LAST_LETTERS_TIME_MAX) => {
                tracing::warn!("something that was said last may not have reached the other nodes");
            }
        }
        Ok(left?)
    }

    fn place(&self, id: &SessionId, make_runtime: MakeRuntime, place: Place) -> Arc<Placed> {
        let nodes = self.inner.nodes.clone().expect("only nodes of a cluster place sessions");
        let mut open = lock(&self.inner.placed);
        if let Some(placed) = open.get(id).and_then(Weak::upgrade) {
            return placed;
        }
        open.retain(|_, placed| placed.strong_count() > 0);
        let follow = matches!(place, Place::There(_));
        let placed = Placed::new(self, nodes, id.clone(), make_runtime, place);
        open.insert(id.clone(), Arc::downgrade(&placed));
        drop(open);
        if follow && let Some(follow) = placed.follow() {
            follow.read_on(); // words came too early for it
        }
        placed
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
        match self.keep(self.opening(id, spec, runtime), None) {
            Kept::New(live) => {
                let handle = Handle { live: Arc::clone(&live) };
                // To its end, also where nobody waits for it any more: what was half written could do nothing later.
                let flushed = tokio::spawn(async move { live.flush().await });
                flushed.await.unwrap_or_else(|_| Err(DriverError::Closed(BUG.to_owned())))?;
                Ok(handle)
            }
            Kept::Running(live) => {
                let (id, found) = (live.id().clone(), live.last_seq());
                Err(StoreError::Conflict { id, expected: Seq(0), found }.into())
            }
        }
    }

    /// Opens a new session that becomes durable with its first input: one that is never used leaves no trace.
    pub fn begin(&self, id: SessionId, spec: SessionSpec, runtime: Runtime) -> Handle {
        match self.keep(self.opening(id, spec, runtime), None) {
            Kept::New(live) | Kept::Running(live) => Handle { live },
        }
    }

    fn opening(&self, id: SessionId, spec: SessionSpec, runtime: Runtime) -> Arc<Live> {
        let (session, out) = Session::open(spec);
        let start = Start { session, seq: Seq(0), pending: out.events };
        self.inner.begin(&id, self.inner.found(&id), runtime, start)
    }

    /// Opens a session from its log. What was running when its process ended is marked as interrupted.
    /// A session that this driver already runs is just handed out.
    ///
    /// # Errors
    /// When there is no such session, or its log cannot be read.
    pub async fn resume(&self, id: &SessionId, runtime: Runtime) -> Result<Handle, DriverError> {
        self.take(id, || runtime).await
    }

    async fn take(
        &self,
        id: &SessionId,
        make_runtime: impl FnOnce() -> Runtime,
    ) -> Result<Handle, DriverError> {
        let _door = match &self.inner.nodes {
            Some(_) => Some(self.inner.door(id).lock().await),
            None => None,
        };
        if let Some(live) = self.running(id) {
            return Ok(Handle { live });
        }
        let lease = self.inner.acquire(id).await?;
        let (session, seq) = replay(self.inner.ports.store.as_ref(), id).await?;
        let start = Start { session, seq, pending: Vec::new() };
        let live = self.inner.begin(id, lease, make_runtime(), start);
        match self.keep(live, Some(Input::Recovered)) {
            Kept::New(live) => {
                self.inner.bound_resting(&live);
                for input in self.inner.first.get().into_iter().flatten() {
                    live.send(input.clone())?;
                }
                if self.inner.nodes.is_some() {
                    live.collect_letters();
                    follow::relay(&live);
                }
                Ok(Handle { live })
            }
            // Where somebody resumed it meanwhile, what it does now is not interrupted.
            Kept::Running(live) => Ok(Handle { live }),
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
    pub fn rest(&self, idle: Duration) {
        let now = self.inner.ports.clock.now();
        let idle = if self.inner.nodes.is_some() { Duration::ZERO } else { idle };
        let resting: Vec<_> = {
            let mut sessions = lock(&self.inner.sessions);
            sessions.extract_if(|_, live| Arc::strong_count(live) == 1 && live.rests(now, idle)).collect()
        };
        for (_, live) in resting {
            self.inner.give_back(&live); // its host may have something to end, and needs no lock for it
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
        self.running(id).map(|live| Handle { live })
    }

    /// How many sessions are held in memory.
    pub fn live_sessions(&self) -> usize {
        lock(&self.inner.sessions).len()
    }

    fn running(&self, id: &SessionId) -> Option<Arc<Live>> {
        let mut sessions = lock(&self.inner.sessions);
        if sessions.get(id).is_some_and(|live| live.last_error().is_some()) {
            sessions.remove(id);
        }
        sessions.get(id).cloned()
    }

    /// Keeps a session, unless one of its id runs already. Nobody else can tell it anything before `first`.
    fn keep(&self, live: Arc<Live>, first: Option<Input>) -> Kept {
        let mut sessions = lock(&self.inner.sessions);
        match sessions.get(live.id()) {
            Some(running) if running.last_error().is_none() => Kept::Running(Arc::clone(running)),
            Some(_) | None => {
                if let Some(first) = first {
                    live.send(first).expect("a session that nobody has seen is open");
                }
                sessions.insert(live.id().clone(), Arc::clone(&live));
                Kept::New(live)
            }
        }
    }
}

impl Inner {
    fn new(ports: Ports, nodes: Option<Nodes>, listening: Option<DropGuard>) -> Self {
        Self {
            ports,
            nodes,
            sessions: Mutex::default(),
            from_logs: Mutex::default(),
            placed: Mutex::default(),
            doors: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            leaving: AtomicBool::new(false),
            first: OnceLock::new(),
            _listening: listening,
        }
    }

    fn begin(&self, id: &SessionId, lease: Arc<dyn Lease>, runtime: Runtime, start: Start) -> Arc<Live> {
        Live::new(id.clone(), self.ports.clone(), self.nodes.clone(), lease, runtime, start)
    }

    fn found(&self, id: &SessionId) -> Arc<dyn Lease> {
        match &self.nodes {
            Some(nodes) => nodes.cluster.found(id),
            None => Arc::new(Alone { id: id.clone(), store: Arc::clone(&self.ports.store) }),
        }
    }

    async fn acquire(&self, id: &SessionId) -> Result<Arc<dyn Lease>, DriverError> {
        let Some(nodes) = &self.nodes else { return Ok(self.found(id)) };
        match nodes.cluster.acquire(id).await? {
            Acquired::Owned(lease) => Ok(lease),
            Acquired::HeldBy(node) => Err(DriverError::Elsewhere(id.clone(), node)),
        }
    }

    fn door(&self, id: &SessionId) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let index = hasher.finish() % DOORS as u64;
        &self.doors[usize::try_from(index).expect("there are few doors")]
    }

    fn placed(&self, id: &SessionId) -> Option<Arc<Placed>> {
        lock(&self.placed).get(id).and_then(Weak::upgrade)
    }

    fn all_placed(&self) -> Vec<Arc<Placed>> {
        lock(&self.placed).values().filter_map(Weak::upgrade).collect()
    }

    fn live(&self, id: &SessionId) -> Option<Arc<Live>> {
        lock(&self.sessions).get(id).cloned()
    }

    /// Lets go of the oldest sessions that came out of their logs and that nobody holds, where one more came.
    fn bound_resting(&self, newest: &Arc<Live>) {
        let now = self.ports.clock.now();
        let mut resting = Vec::new();
        let mut from_logs = lock(&self.from_logs);
        from_logs.push_back(Arc::downgrade(newest));
        for _ in 0..RESTING_LOOKS {
            if from_logs.len() <= RESTING_MAX {
                break;
            }
            let Some(live) = from_logs.pop_front().and_then(|oldest| oldest.upgrade()) else { continue };
            let mut sessions = lock(&self.sessions);
            let known = sessions.get(live.id()).is_some_and(|known| Arc::ptr_eq(known, &live));
            // The map's and this one.
            if known && Arc::strong_count(&live) == 2 && live.rests(now, Duration::ZERO) {
                sessions.remove(live.id());
                resting.push(live);
            } else if known {
                from_logs.push_back(Arc::downgrade(&live));
            }
        }
        drop(from_logs);
        for live in resting {
            self.give_back(&live);
        }
    }

    /// Lets go of a session that nobody here holds any more, if it has nothing to do; says whether it is gone.
    fn rest_one(&self, id: &SessionId) -> bool {
        let now = self.ports.clock.now();
        let resting = {
            let mut sessions = lock(&self.sessions);
            match sessions.get(id) {
                None => return true,
                Some(live) if Arc::strong_count(live) > 1 || !live.rests(now, Duration::ZERO) => {
                    return false;
                }
                Some(_) => sessions.remove(id),
            }
        };
        if let Some(live) = resting {
            self.give_back(&live);
        }
        true
    }

    /// Gives a session that rests to whoever wants it: what is said to it elsewhere would be heard by nobody here.
    fn give_back(&self, live: &Live) {
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

    fn lose_all(&self) {
        let lives: Vec<_> = lock(&self.sessions).drain().map(|(_, live)| live).collect();
        for live in lives {
            live.lose();
        }
    }

    /// Does what a word from the other nodes asks for. Never waits.
    fn hear(&self, word: Word) {
        match word {
            Word::Appended { id, seq } => {
                if let Some(follow) = self.placed(&id).and_then(|placed| placed.follow()) {
                    follow.appended(seq);
                }
            }
            Word::Told { id, after, deltas } => {
                if let Some(follow) = self.placed(&id).and_then(|placed| placed.follow()) {
                    follow.told(after, deltas);
                }
            }
            Word::Free { id } => {
                if let Some(placed) = self.placed(&id) {
                    if let Some(follow) = placed.follow() {
                        follow.close();
                    }
                    placed.settle_soon();
                }
            }
            Word::Posted { id } => {
                if let Some(live) = self.live(&id) {
                    live.collect_letters();
                }
            }
            Word::Followed { id } => {
                if let Some(live) = self.live(&id) {
                    follow::relay(&live);
                }
            }
            Word::Missed => self.look_everywhere(),
            Word::Lost => {
                self.lose_all();
                for placed in self.all_placed() {
                    if let Some(follow) = placed.follow() {
                        follow.close(); // the watch ended with the lease
                    }
                    placed.settle_soon();
                }
            }
        }
    }

    fn look_everywhere(&self) {
        for placed in self.all_placed() {
            if let Some(follow) = placed.follow() {
                follow.read_on();
            }
        }
        let lives: Vec<_> = lock(&self.sessions).values().cloned().collect();
        for live in lives {
            live.collect_letters();
            follow::relay(&live);
        }
    }
}

/// What is told where one of our own tasks panicked.
const BUG: &str = "sysop hit a bug while it opened this session; what was logged is kept, open it again";

enum Kept {
    New(Arc<Live>),
    Running(Arc<Live>),
}

/// All that a face holds of a session. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    live: Arc<Live>,
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
    pub fn answer(&self, id: QuestionId, answer: Answer) -> bool {
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
