//! Nodes of a simulation: one database, one clock, and events that get lost.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::{Delta, Input, Logged};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::policy::Survey;
use sysop_core::tool::ToolSpec;
use sysop_driver::cluster::{
    AcquireOutcome, Cluster, ClusterEvent, ForwardedInput, Lease, QUEUE_BATCH_MAX, QueuePosition,
    QueuedInput, WatchSnapshot,
};
use sysop_driver::port::{CancellationToken, Clock, DeltaSink, Host, SessionSummary, Store, StoreError};
use sysop_driver::prompter::Prompter;

use super::{NODES, session_id};
use crate::world::World;

const LEASE_MS: i64 = 6000;
const BEAT_MS: i64 = 2000;
const MARGIN_MS: i64 = 500;

/// State shared by the nodes: a database, and the time.
pub(super) struct SharedDatabase {
    pub(super) world: Arc<World>,
    pub(super) now: AtomicI64,
    next: AtomicU64,
    pub(super) tables: Mutex<Tables>,
}

#[derive(Default)]
pub(super) struct Tables {
    pub(super) logs: BTreeMap<SessionId, SessionRow>,
    /// Time at which each node counts as dead; nodes removed by others are absent.
    nodes: HashMap<u64, i64>,
    pub(super) letters: Vec<PostedInput>,
    /// Calls that began on a node without a valid lease.
    pub(super) trespassers: Vec<CallId>,
    pub(super) taken_twice: usize,
    /// Number of takeovers.
    pub(super) takeovers: usize,
    /// Events in transit to each node.
    words: HashMap<usize, VecDeque<ClusterEvent>>,
}

#[derive(Default)]
pub(super) struct SessionRow {
    pub(super) log: Vec<Logged>,
    pub(super) owner: Option<u64>,
    token: u64,
    watchers: HashSet<usize>,
}

pub(super) struct PostedInput {
    id: String,
    session: SessionId,
    pub(super) input: Input,
    pub(super) taken: bool,
}

impl SharedDatabase {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            world: World::new(seed),
            now: AtomicI64::new(0),
            next: AtomicU64::new(1),
            tables: Mutex::default(),
        })
    }

    pub(super) fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    fn fresh(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        work(&mut self.tables.lock())
    }
}

impl Tables {
    /// Sends an event. One in five is lost and replaced with `Lagged`.
    fn say(&mut self, shared: &SharedDatabase, to: usize, word: ClusterEvent) {
        let words = self.words.entry(to).or_default();
        if shared.world.below(5) == 0 {
            words.push_back(ClusterEvent::Lagged);
        } else {
            words.push_back(word);
        }
    }

    fn say_to_watchers(&mut self, shared: &SharedDatabase, id: &SessionId, word: &ClusterEvent) {
        let watchers: Vec<_> = self.logs.get(id).into_iter().flat_map(|row| row.watchers.clone()).collect();
        for watcher in watchers {
            self.say(shared, watcher, word.clone());
        }
    }

    fn append(
        &mut self,
        shared: &SharedDatabase,
        id: &SessionId,
        claim: (u64, u64),
        after: Seq,
        events: &[Arc<Logged>],
    ) -> Result<Seq, StoreError> {
        let (owner, token) = claim;
        if !self.logs.contains_key(id) && after == Seq(0) {
            self.logs.insert(id.clone(), SessionRow { owner: Some(owner), token, ..SessionRow::default() });
        }
        let row = self.logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let found = row.log.last().map_or(Seq(0), |last| last.seq);
        if row.token != token {
            return Err(StoreError::LeaseLost { id: id.clone(), by: String::new() });
        }
        if found != after {
            return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
        }
        row.log.extend(events.iter().map(|logged| Logged::clone(logged)));
        let seq = row.log.last().map_or(after, |last| last.seq);
        self.say_to_watchers(shared, id, &ClusterEvent::Appended { id: id.clone(), seq });
        Ok(seq)
    }
}

/// The read side of the store.
pub(super) struct Reader(pub(super) Arc<SharedDatabase>);

#[async_trait]
impl Store for Reader {
    async fn append(&self, id: &SessionId, _: Seq, _: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        panic!("nothing is appended to {id} without a lease");
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.0.world.pause().await;
        let page = self.0.with(|tables| {
            let row = tables.logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
            Ok(row.log.iter().filter(|logged| logged.seq > after).take(limit).cloned().collect())
        });
        self.0.world.pause().await;
        page
    }

    async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(Vec::new())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::NotFound(id.clone()))
    }
}

pub(super) struct VirtualClock(pub(super) Arc<SharedDatabase>);

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.now())
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.0.now() + i64::try_from(duration.as_millis()).expect("a short while");
        while self.0.now() < until {
            tokio::task::yield_now().await;
        }
    }
}

/// Lifetime of a node: from its row to the end of its lease.
pub(super) struct NodeLifetime {
    id: u64,
    until: AtomicI64,
    over: AtomicBool,
    /// Set to make the node stand still at this point.
    pub(super) freeze: AtomicBool,
    pub(super) shared: Arc<SharedDatabase>,
}

impl NodeLifetime {
    fn begin(shared: &Arc<SharedDatabase>) -> Arc<Self> {
        let (id, now) = (shared.fresh(), shared.now());
        shared.with(|tables| tables.nodes.insert(id, now + LEASE_MS));
        let until = AtomicI64::new(now + LEASE_MS - MARGIN_MS);
        let (over, freeze) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { id, until, over, freeze, shared: Arc::clone(shared) })
    }

    fn is_valid(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && self.shared.now() < self.until.load(Ordering::SeqCst)
    }
}

/// A node as seen by its driver.
pub(super) struct MemoryNode {
    node_index: usize,
    pub(super) shared: Arc<SharedDatabase>,
    life: Mutex<Arc<NodeLifetime>>,
    next_beat: AtomicI64,
    watched: Mutex<HashMap<SessionId, usize>>,
}

impl MemoryNode {
    pub(super) fn new(node_index: usize, shared: &Arc<SharedDatabase>) -> Arc<Self> {
        shared.with(|tables| tables.words.remove(&node_index));
        Arc::new(Self {
            node_index,
            shared: Arc::clone(shared),
            life: Mutex::new(NodeLifetime::begin(shared)),
            next_beat: AtomicI64::new(shared.now() + BEAT_MS),
            watched: Mutex::default(),
        })
    }

    pub(super) fn life(&self) -> Arc<NodeLifetime> {
        Arc::clone(&self.life.lock())
    }

    /// Renews the lease. Returns `LeasesLost` if it was lost.
    async fn beat(&self) -> Option<ClusterEvent> {
        let (life, begun) = (self.life(), self.shared.now());
        self.next_beat.store(begun + BEAT_MS, Ordering::SeqCst);
        self.shared.world.pause().await;
        let now = self.shared.now();
        let alive = self.shared.with(|tables| {
            let row = tables.nodes.get_mut(&life.id).filter(|until| **until > now);
            row.map(|until| *until = now + LEASE_MS).is_some()
        });
        self.shared.world.pause().await;
        if !alive || !life.is_valid() {
            life.over.store(true, Ordering::SeqCst);
            *self.life.lock() = NodeLifetime::begin(&self.shared);
            return Some(ClusterEvent::LeasesLost);
        }
        life.until.store(begun + LEASE_MS - MARGIN_MS, Ordering::SeqCst);
        let watched: Vec<_> = self.watched.lock().keys().cloned().collect();
        self.shared.with(|tables| {
            for id in watched {
                let owner = tables.logs.get(&id).and_then(|row| row.owner);
                let dead = |owner| tables.nodes.get(&owner).is_none_or(|until| *until <= now);
                if owner.is_none_or(dead) {
                    tables.words.entry(self.node_index).or_default().push_back(ClusterEvent::Orphaned { id });
                }
            }
        });
        None
    }

    fn lease(&self, id: &SessionId, token: u64) -> Arc<dyn Lease> {
        Arc::new(MemoryLease { id: id.clone(), life: self.life(), token })
    }
}

#[async_trait]
impl Cluster for MemoryNode {
    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.lease(id, self.shared.fresh())
    }

    async fn acquire(&self, id: &SessionId) -> Result<AcquireOutcome, StoreError> {
        self.shared.world.pause().await;
        let (life, token, now) = (self.life(), self.shared.fresh(), self.shared.now());
        if !life.is_valid() {
            return Err(StoreError::Unavailable("not now".to_owned()));
        }
        let holder = self.shared.with(|tables| {
            let row = tables.logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
            if let Some(owner) = row.owner.filter(|owner| *owner != life.id) {
                if tables.nodes.get(&owner).is_some_and(|until| *until > now) {
                    return Ok(Some(owner));
                }
                tables.nodes.remove(&owner);
            }
            tables.takeovers += usize::from(row.owner != Some(life.id));
            (row.owner, row.token) = (Some(life.id), token);
            Ok(None)
        })?;
        self.shared.world.pause().await;
        Ok(match holder {
            Some(owner) => AcquireOutcome::OwnedBy(owner.to_string()),
            None => AcquireOutcome::Owned(Arc::new(MemoryLease { id: id.clone(), life, token })),
        })
    }

    async fn enqueue(&self, id: &SessionId, letter: &ForwardedInput) -> Result<(), StoreError> {
        self.shared.world.pause().await;
        self.shared.with(|tables| {
            if !tables.letters.iter().any(|posted| posted.id == letter.id) {
                let (id, input) = (letter.id.clone(), letter.input.clone());
                tables.letters.push(PostedInput { id, session: session_id(), input, taken: false });
            }
            // Every node is notified: only the owner reacts.
            for node_index in 0..NODES {
                tables.say(&self.shared, node_index, ClusterEvent::InputQueued { id: id.clone() });
            }
        });
        self.shared.world.pause().await;
        if self.shared.world.below(4) == 0 {
            return Err(StoreError::Unavailable("the answer was lost".to_owned()));
        }
        Ok(())
    }

    async fn watch(&self, id: &SessionId) -> Result<WatchSnapshot, StoreError> {
        self.shared.world.pause().await;
        let now = self.shared.now();
        let watched = self.shared.with(|tables| {
            let row = tables.logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
            row.watchers.insert(self.node_index);
            let last = row.log.last().map_or(Seq(0), |last| last.seq);
            let owner = row.owner.filter(|owner| tables.nodes.get(owner).is_some_and(|until| *until > now));
            for node_index in 0..NODES {
                tables.say(&self.shared, node_index, ClusterEvent::FollowerJoined { id: id.clone() });
            }
            Ok::<_, StoreError>(WatchSnapshot { last, owner: owner.map(|owner| owner.to_string()) })
        })?;
        *self.watched.lock().entry(id.clone()).or_default() += 1;
        self.shared.world.pause().await;
        Ok(watched)
    }

    async fn unwatch(&self, id: &SessionId) {
        let mut watched = self.watched.lock();
        let count = watched.get_mut(id).expect("it is watched");
        *count -= 1;
        if *count == 0 {
            watched.remove(id);
            self.shared.with(|tables| {
                if let Some(row) = tables.logs.get_mut(id) {
                    row.watchers.remove(&self.node_index);
                }
            });
        }
    }

    async fn next_event(&self) -> ClusterEvent {
        loop {
            if self.shared.now() >= self.next_beat.load(Ordering::SeqCst)
                && let Some(word) = self.beat().await
            {
                return word;
            }
            let word = self.shared.with(|tables| tables.words.get_mut(&self.node_index)?.pop_front());
            match word {
                Some(word) => return word,
                None => tokio::task::yield_now().await,
            }
        }
    }

    async fn leave(&self) -> Result<(), StoreError> {
        let life = self.life();
        life.over.store(true, Ordering::SeqCst);
        self.shared.world.pause().await;
        self.shared.with(|tables| {
            tables.nodes.remove(&life.id);
            let mut free = Vec::new();
            for (id, row) in &mut tables.logs {
                if row.owner == Some(life.id) {
                    (row.owner, row.token) = (None, 0);
                    free.push(id.clone());
                }
            }
            for id in free {
                tables.say_to_watchers(&self.shared, &id, &ClusterEvent::Orphaned { id: id.clone() });
            }
        });
        Ok(())
    }
}

pub(super) struct MemoryLease {
    id: SessionId,
    life: Arc<NodeLifetime>,
    token: u64,
}

#[async_trait]
impl Lease for MemoryLease {
    fn is_valid(&self) -> bool {
        self.life.is_valid()
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        letters: &[QueuePosition],
    ) -> Result<Seq, StoreError> {
        let shared = &self.life.shared;
        shared.world.pause().await;
        let seq = shared.with(|tables| {
            let seq = tables.append(shared, &self.id, (self.life.id, self.token), after, events)?;
            for number in letters {
                let letter = &mut tables.letters[usize::try_from(number.0).expect("small")];
                tables.taken_twice += usize::from(letter.taken);
                letter.taken = true;
            }
            Ok::<_, StoreError>(seq)
        })?;
        // The worst moment to stall: events are durable, their effects not performed.
        if shared.world.below(6) == 0 {
            self.life.freeze.store(true, Ordering::SeqCst);
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        }
        shared.world.pause().await;
        Ok(seq)
    }

    async fn queued_inputs(&self) -> Result<Vec<QueuedInput>, StoreError> {
        let shared = &self.life.shared;
        shared.world.pause().await;
        let letters = shared.with(|tables| {
            let letters = tables.letters.iter().enumerate();
            let waiting = letters.filter(|(_, letter)| !letter.taken && letter.session == self.id);
            let waiting = waiting.map(|(number, letter)| QueuedInput {
                number: QueuePosition(number as u64),
                input: letter.input.clone(),
            });
            waiting.take(QUEUE_BATCH_MAX).collect()
        });
        shared.world.pause().await;
        Ok(letters)
    }

    async fn publish_deltas(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError> {
        let shared = &self.life.shared;
        shared.world.pause().await;
        Ok(shared.with(|tables| {
            let word = ClusterEvent::Deltas { id: self.id.clone(), after, deltas: deltas.to_vec() };
            tables.say_to_watchers(shared, &self.id, &word);
            tables.logs.get(&self.id).is_some_and(|row| !row.watchers.is_empty())
        }))
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.life.shared.world.pause().await;
        self.life.shared.with(|tables| {
            if let Some(row) = tables.logs.get_mut(&self.id)
                && (row.owner, row.token) == (Some(self.life.id), self.token)
            {
                (row.owner, row.token) = (None, 0);
                tables.say_to_watchers(
                    &self.life.shared,
                    &self.id,
                    &ClusterEvent::Orphaned { id: self.id.clone() },
                );
            }
        });
        Ok(())
    }
}

/// Host of one node: records calls that start after the node may count as dead.
pub(super) struct NodeHost {
    pub(super) host: Arc<dyn Host>,
    pub(super) node: Arc<MemoryNode>,
}

#[async_trait]
impl Host for NodeHost {
    fn tools(&self) -> &[ToolSpec] {
        self.host.tools()
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        self.host.survey(call).await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (now, life) = (self.node.shared.now(), self.node.life());
        let owner = self.node.shared.with(|tables| tables.logs[&session_id()].owner);
        if owner != Some(life.id) || now >= life.until.load(Ordering::SeqCst) {
            // A panic here would be caught by the driver.
            self.node.shared.with(|tables| tables.trespassers.push(call.id.clone()));
        }
        self.host.run(call, sink, cancel).await
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        self.host.set_prompter(people);
    }
}
