//! The nodes of a simulation: one database, one time, and words that get lost.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sysop_core::event::{Delta, Input, Logged};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::tool::ToolSpec;
use sysop_driver::cluster::{
    Acquired, Cluster, LETTERS_MAX, Lease, Letter, LetterNumber, Waiting, Watched, Word,
};
use sysop_driver::people::People;
use sysop_driver::port::{CancellationToken, Clock, DeltaSink, Host, SessionSummary, Store, StoreError};

use super::{NODES, session_id};
use crate::world::World;

const LEASE_MS: i64 = 6000;
const BEAT_MS: i64 = 2000;
const MARGIN_MS: i64 = 500;

/// What the nodes share: a database, and the time.
pub(super) struct Shared {
    pub(super) world: Arc<World>,
    pub(super) now: AtomicI64,
    next: AtomicU64,
    pub(super) tables: Mutex<Tables>,
}

#[derive(Default)]
pub(super) struct Tables {
    pub(super) logs: BTreeMap<SessionId, Row>,
    /// When each node counts as dead; those that are buried are gone.
    nodes: HashMap<u64, i64>,
    pub(super) letters: Vec<PostedLetter>,
    /// Calls that began on a node that had no right to.
    pub(super) trespassers: Vec<CallId>,
    pub(super) taken_twice: usize,
    /// How often a session went from one node to another.
    pub(super) takeovers: usize,
    /// Words on their way to each node's ear.
    words: HashMap<usize, VecDeque<Word>>,
}

#[derive(Default)]
pub(super) struct Row {
    pub(super) log: Vec<Logged>,
    pub(super) owner: Option<u64>,
    token: u64,
    watchers: HashSet<usize>,
}

pub(super) struct PostedLetter {
    id: String,
    session: SessionId,
    pub(super) input: Input,
    pub(super) taken: bool,
}

impl Shared {
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
        work(&mut self.tables.lock().expect("no test panics with it"))
    }
}

impl Tables {
    /// One word in five is lost; the ear is told that some may be, later.
    fn say(&mut self, shared: &Shared, to: usize, word: Word) {
        let words = self.words.entry(to).or_default();
        if shared.world.below(5) == 0 {
            words.push_back(Word::Missed);
        } else {
            words.push_back(word);
        }
    }

    fn say_to_watchers(&mut self, shared: &Shared, id: &SessionId, word: &Word) {
        let watchers: Vec<_> = self.logs.get(id).into_iter().flat_map(|row| row.watchers.clone()).collect();
        for watcher in watchers {
            self.say(shared, watcher, word.clone());
        }
    }

    fn append(
        &mut self,
        shared: &Shared,
        id: &SessionId,
        claim: (u64, u64),
        after: Seq,
        events: &[Arc<Logged>],
    ) -> Result<Seq, StoreError> {
        let (owner, token) = claim;
        if !self.logs.contains_key(id) && after == Seq(0) {
            self.logs.insert(id.clone(), Row { owner: Some(owner), token, ..Row::default() });
        }
        let row = self.logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let found = row.log.last().map_or(Seq(0), |last| last.seq);
        if row.token != token {
            return Err(StoreError::Taken { id: id.clone(), by: String::new() });
        }
        if found != after {
            return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
        }
        row.log.extend(events.iter().map(|logged| Logged::clone(logged)));
        let seq = row.log.last().map_or(after, |last| last.seq);
        self.say_to_watchers(shared, id, &Word::Appended { id: id.clone(), seq });
        Ok(seq)
    }
}

/// The store as it is read.
pub(super) struct Reader(pub(super) Arc<Shared>);

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

pub(super) struct VirtualClock(pub(super) Arc<Shared>);

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

/// A node's life: from its row to the end of its lease.
pub(super) struct Life {
    id: u64,
    until: AtomicI64,
    over: AtomicBool,
    /// The node is to stand still here.
    pub(super) freeze: AtomicBool,
    pub(super) shared: Arc<Shared>,
}

impl Life {
    fn begin(shared: &Arc<Shared>) -> Arc<Self> {
        let (id, now) = (shared.fresh(), shared.now());
        shared.with(|tables| tables.nodes.insert(id, now + LEASE_MS));
        let until = AtomicI64::new(now + LEASE_MS - MARGIN_MS);
        let (over, freeze) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { id, until, over, freeze, shared: Arc::clone(shared) })
    }

    fn holds(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && self.shared.now() < self.until.load(Ordering::SeqCst)
    }
}

/// A node as its driver knows it.
pub(super) struct MemoryNode {
    ear: usize,
    pub(super) shared: Arc<Shared>,
    life: Mutex<Arc<Life>>,
    next_beat: AtomicI64,
    watched: Mutex<HashMap<SessionId, usize>>,
}

impl MemoryNode {
    pub(super) fn new(ear: usize, shared: &Arc<Shared>) -> Arc<Self> {
        shared.with(|tables| tables.words.remove(&ear));
        Arc::new(Self {
            ear,
            shared: Arc::clone(shared),
            life: Mutex::new(Life::begin(shared)),
            next_beat: AtomicI64::new(shared.now() + BEAT_MS),
            watched: Mutex::default(),
        })
    }

    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life.lock().expect("unpoisoned"))
    }

    /// Says that it lives; none where nothing is to be told.
    async fn beat(&self) -> Option<Word> {
        let (life, begun) = (self.life(), self.shared.now());
        self.next_beat.store(begun + BEAT_MS, Ordering::SeqCst);
        self.shared.world.pause().await;
        let now = self.shared.now();
        let alive = self.shared.with(|tables| {
            let row = tables.nodes.get_mut(&life.id).filter(|until| **until > now);
            row.map(|until| *until = now + LEASE_MS).is_some()
        });
        self.shared.world.pause().await;
        if !alive || !life.holds() {
            life.over.store(true, Ordering::SeqCst);
            *self.life.lock().expect("unpoisoned") = Life::begin(&self.shared);
            return Some(Word::Lost);
        }
        life.until.store(begun + LEASE_MS - MARGIN_MS, Ordering::SeqCst);
        let watched: Vec<_> = self.watched.lock().expect("unpoisoned").keys().cloned().collect();
        self.shared.with(|tables| {
            for id in watched {
                let owner = tables.logs.get(&id).and_then(|row| row.owner);
                let dead = |owner| tables.nodes.get(&owner).is_none_or(|until| *until <= now);
                if owner.is_none_or(dead) {
                    tables.words.entry(self.ear).or_default().push_back(Word::Free { id });
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
    fn found(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.lease(id, self.shared.fresh())
    }

    async fn acquire(&self, id: &SessionId) -> Result<Acquired, StoreError> {
        self.shared.world.pause().await;
        let (life, token, now) = (self.life(), self.shared.fresh(), self.shared.now());
        if !life.holds() {
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
            Some(owner) => Acquired::HeldBy(owner.to_string()),
            None => Acquired::Owned(Arc::new(MemoryLease { id: id.clone(), life, token })),
        })
    }

    async fn post(&self, id: &SessionId, letter: &Letter) -> Result<(), StoreError> {
        self.shared.world.pause().await;
        self.shared.with(|tables| {
            if !tables.letters.iter().any(|posted| posted.id == letter.id) {
                let (id, input) = (letter.id.clone(), letter.input.clone());
                tables.letters.push(PostedLetter { id, session: session_id(), input, taken: false });
            }
            // Everyone is told: who does not own it has nothing to do.
            for ear in 0..NODES {
                tables.say(&self.shared, ear, Word::Posted { id: id.clone() });
            }
        });
        self.shared.world.pause().await;
        if self.shared.world.below(4) == 0 {
            return Err(StoreError::Unavailable("the answer was lost".to_owned()));
        }
        Ok(())
    }

    async fn watch(&self, id: &SessionId) -> Result<Watched, StoreError> {
        self.shared.world.pause().await;
        let now = self.shared.now();
        let watched = self.shared.with(|tables| {
            let row = tables.logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
            row.watchers.insert(self.ear);
            let last = row.log.last().map_or(Seq(0), |last| last.seq);
            let owner = row.owner.filter(|owner| tables.nodes.get(owner).is_some_and(|until| *until > now));
            for ear in 0..NODES {
                tables.say(&self.shared, ear, Word::Followed { id: id.clone() });
            }
            Ok::<_, StoreError>(Watched { last, owner: owner.map(|owner| owner.to_string()) })
        })?;
        *self.watched.lock().expect("unpoisoned").entry(id.clone()).or_default() += 1;
        self.shared.world.pause().await;
        Ok(watched)
    }

    async fn unwatch(&self, id: &SessionId) {
        let mut watched = self.watched.lock().expect("unpoisoned");
        let count = watched.get_mut(id).expect("it is watched");
        *count -= 1;
        if *count == 0 {
            watched.remove(id);
            self.shared.with(|tables| {
                if let Some(row) = tables.logs.get_mut(id) {
                    row.watchers.remove(&self.ear);
                }
            });
        }
    }

    async fn word(&self) -> Word {
        loop {
            if self.shared.now() >= self.next_beat.load(Ordering::SeqCst)
                && let Some(word) = self.beat().await
            {
                return word;
            }
            let word = self.shared.with(|tables| tables.words.get_mut(&self.ear)?.pop_front());
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
                tables.say_to_watchers(&self.shared, &id, &Word::Free { id: id.clone() });
            }
        });
        Ok(())
    }
}

pub(super) struct MemoryLease {
    id: SessionId,
    life: Arc<Life>,
    token: u64,
}

#[async_trait]
impl Lease for MemoryLease {
    fn holds(&self) -> bool {
        self.life.holds()
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        letters: &[LetterNumber],
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
        // The worst place to fall asleep: what was decided is durable, and not done.
        if shared.world.below(6) == 0 {
            self.life.freeze.store(true, Ordering::SeqCst);
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        }
        shared.world.pause().await;
        Ok(seq)
    }

    async fn letters(&self) -> Result<Vec<Waiting>, StoreError> {
        let shared = &self.life.shared;
        shared.world.pause().await;
        let letters = shared.with(|tables| {
            let letters = tables.letters.iter().enumerate();
            let waiting = letters.filter(|(_, letter)| !letter.taken && letter.session == self.id);
            let waiting = waiting.map(|(number, letter)| Waiting {
                number: LetterNumber(number as u64),
                input: letter.input.clone(),
            });
            waiting.take(LETTERS_MAX).collect()
        });
        shared.world.pause().await;
        Ok(letters)
    }

    async fn tell(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError> {
        let shared = &self.life.shared;
        shared.world.pause().await;
        Ok(shared.with(|tables| {
            let word = Word::Told { id: self.id.clone(), after, deltas: deltas.to_vec() };
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
                tables.say_to_watchers(&self.life.shared, &self.id, &Word::Free { id: self.id.clone() });
            }
        });
        Ok(())
    }
}

/// A host of one node: it must not be told to run anything once the node may be dead for the others.
pub(super) struct NodeHost {
    pub(super) host: Arc<dyn Host>,
    pub(super) node: Arc<MemoryNode>,
}

#[async_trait]
impl Host for NodeHost {
    fn tools(&self) -> &[ToolSpec] {
        self.host.tools()
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (now, life) = (self.node.shared.now(), self.node.life());
        let owner = self.node.shared.with(|tables| tables.logs[&session_id()].owner);
        if owner != Some(life.id) || now >= life.until.load(Ordering::SeqCst) {
            // The driver survives a panic here.
            self.node.shared.with(|tables| tables.trespassers.push(call.id.clone()));
        }
        self.host.run(call, sink, cancel).await
    }

    fn attend(&self, people: Arc<dyn People>) {
        self.host.attend(people);
    }
}
