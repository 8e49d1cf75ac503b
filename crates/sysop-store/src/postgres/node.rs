//! One of several nodes that share a database: its lifetime, its sessions, and its messages to the other nodes.
//!
//! A node is alive as long as its row in `sysop_nodes` has not expired by the database's clock. The node renews the row
//! with one statement for all its sessions. If it cannot renew the row in time, it stops by its own clock before the
//! database would consider it dead. Any node may delete an expired row, for example to take over one of that node's
//! sessions. Once a node has lost its row, its lifetime is over for good, and it begins a new lifetime under another
//! id. Each owner of a session has its own fencing token, and only the newest owner can append.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sysop_core::event::{Delta, Input, Logged};
use sysop_core::id::{Seq, SessionId};
use sysop_driver::cluster::{
    AcquireOutcome, Cluster, ClusterEvent, ForwardedInput, Lease, QUEUE_BATCH_MAX, QueuePosition,
    QueuedInput, WatchSnapshot,
};
use sysop_driver::port::StoreError;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::PostgresStore;
use super::database::Database;
use super::writer::{AppendRequest, OwnerClaim, PostgresWriter, random_nonzero};
use crate::batch::check_seq_order;
use crate::row_codec::{EncodedBatch, to_integer, to_seq};

mod heartbeat;
mod listener;

/// Lifetime of a node after its last renewal, by the database's clock.
const LEASE_DURATION: Duration = Duration::from_secs(6);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A node stops this long before its lease ends, as measured by the node's clock.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// Maximum attempts to acquire a session whose owner keeps changing.
const ACQUIRE_ATTEMPTS_MAX: usize = 8;
/// Maximum bytes of a notification's payload; PostgreSQL's limit is below 8000.
const PAYLOAD_BYTES_MAX: usize = 7900;
/// Maximum bytes of text in one chunk of a delta. JSON escapes may make the text six times as long.
const DELTA_TEXT_BYTES_MAX: usize = 1200;
/// Maximum queued events. Further events are dropped and replaced with one `ClusterEvent::Lagged`.
const EVENTS_QUEUED_MAX: usize = 4096;

/// A node. It is cheap to clone; the node ends when the last clone is dropped.
#[derive(Clone)]
pub struct PostgresNode {
    inner: Arc<NodeInner>,
}

struct NodeInner {
    name: String,
    /// Notification channel on which the node listens, the same in all its lifetimes.
    channel: String,
    database: Arc<Database>,
    writer: Arc<PostgresWriter>,
    incarnation: Mutex<Arc<NodeIncarnation>>,
    leaving: AtomicBool,
    /// Set once the other nodes have been notified that this node is leaving.
    left: tokio::sync::OnceCell<()>,
    events: EventQueue,
    watched: Mutex<HashMap<SessionId, usize>>,
    /// Lock held while watches are written to the database.
    watching: tokio::sync::Mutex<()>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// One lifetime of a node, from the insertion of its row in `sysop_nodes` to the end of its lease.
#[derive(Debug)]
struct NodeIncarnation {
    id: Arc<str>,
    /// Time by this machine's clock until which no other node can take over this node's sessions.
    until: Mutex<Instant>,
    over: AtomicBool,
}

impl NodeIncarnation {
    fn is_valid(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && Instant::now() < self.until()
    }

    fn until(&self) -> Instant {
        *self.until.lock()
    }
}

/// Events on their way to the driver.
struct EventQueue {
    sender: mpsc::Sender<ClusterEvent>,
    receiver: tokio::sync::Mutex<mpsc::Receiver<ClusterEvent>>,
    missed: AtomicBool,
    lost: AtomicBool,
    urgent: tokio::sync::Notify,
}

impl EventQueue {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel(EVENTS_QUEUED_MAX);
        Self {
            sender,
            receiver: tokio::sync::Mutex::new(receiver),
            missed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            urgent: tokio::sync::Notify::new(),
        }
    }

    fn push(&self, word: ClusterEvent) {
        if word == ClusterEvent::LeasesLost {
            self.lost.store(true, Ordering::SeqCst);
        } else if word == ClusterEvent::Lagged || self.sender.try_send(word).is_err() {
            self.missed.store(true, Ordering::SeqCst);
        } else {
            return;
        }
        self.urgent.notify_one();
    }

    async fn next(&self) -> ClusterEvent {
        let mut receiver = self.receiver.lock().await;
        loop {
            if self.lost.swap(false, Ordering::SeqCst) {
                return ClusterEvent::LeasesLost;
            }
            if self.missed.swap(false, Ordering::SeqCst) {
                return ClusterEvent::Lagged;
            }
            tokio::select! {
                biased;
                () = self.urgent.notified() => {}
                Some(word) = receiver.recv() => return word,
            }
        }
    }
}

/// Message between nodes, as the payload of a notification. `append.sql` writes the payload of `Appended`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum NodeMessage {
    Appended {
        appended: SessionId,
        seq: i64,
    },
    Published {
        #[serde(rename = "told")]
        published: SessionId,
        after: u64,
        deltas: Vec<Delta>,
    },
    Released {
        free: SessionId,
    },
    Enqueued {
        posted: SessionId,
    },
    Followed {
        followed: SessionId,
    },
    /// Message of a node to itself, to verify that it receives notifications.
    Heartbeat {
        beat: u64,
    },
}

impl NodeMessage {
    fn into_event(self) -> Option<ClusterEvent> {
        Some(match self {
            Self::Appended { appended: id, seq } => ClusterEvent::Appended { id, seq: to_seq(seq) },
            Self::Published { published: id, after, deltas } => {
                ClusterEvent::Deltas { id, after: Seq(after), deltas }
            }
            Self::Released { free: id } => ClusterEvent::Orphaned { id },
            Self::Enqueued { posted: id } => ClusterEvent::InputQueued { id },
            Self::Followed { followed: id } => ClusterEvent::FollowerJoined { id },
            Self::Heartbeat { .. } => return None,
        })
    }
}

impl PostgresNode {
    /// Registers a new node in the database of `store`, named `name`. Fails if the database is unavailable.
    pub async fn join(store: &PostgresStore, name: &str) -> Result<Self, StoreError> {
        let database = Arc::clone(&store.database);
        let channel = format!("sysop_{}", Uuid::new_v4().simple());
        let incarnation = heartbeat::register_node(&database, name, &channel).await?;
        let inner = Arc::new(NodeInner {
            name: name.to_owned(),
            channel,
            database,
            writer: Arc::clone(&store.writer),
            incarnation: Mutex::new(Arc::new(incarnation)),
            leaving: AtomicBool::new(false),
            left: tokio::sync::OnceCell::new(),
            events: EventQueue::new(),
            watched: Mutex::default(),
            watching: tokio::sync::Mutex::default(),
            tasks: Mutex::default(),
        });
        let listening = listener::start(&inner).await?;
        let keeping = tokio::spawn(heartbeat::run(Arc::downgrade(&inner)));
        inner.tasks.lock().extend([listening, keeping.abort_handle()]);
        Ok(Self { inner })
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Checks that the node may own sessions now. The error is a sentence that says what is missing.
    pub fn ready(&self) -> Result<(), StoreError> {
        if self.inner.leaving.load(Ordering::SeqCst) {
            return Err(leaving());
        }
        if !self.inner.incarnation().is_valid() {
            return Err(StoreError::Unavailable(format!(
                "this node cannot renew its lease in database {}; waiting until it can",
                self.inner.database.place
            )));
        }
        Ok(())
    }
}

fn leaving() -> StoreError {
    StoreError::Unavailable("this node is shutting down; use another one".to_owned())
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        for task in self.tasks.get_mut() {
            task.abort();
        }
    }
}

impl NodeInner {
    fn incarnation(&self) -> Arc<NodeIncarnation> {
        Arc::clone(&self.incarnation.lock())
    }

    fn lease(&self, id: &SessionId, incarnation: Arc<NodeIncarnation>, token: i64) -> Arc<dyn Lease> {
        let claim = OwnerClaim { owner: Arc::clone(&incarnation.id), token };
        let (database, writer) = (Arc::clone(&self.database), Arc::clone(&self.writer));
        let released = AtomicBool::new(false);
        Arc::new(PostgresLease { id: id.clone(), incarnation, claim, database, writer, released })
    }

    /// Attempts to acquire a session. Returns `None` if its owner changed during the attempt.
    async fn try_acquire(&self, id: &SessionId) -> Result<Option<AcquireOutcome>, StoreError> {
        let incarnation = self.incarnation();
        let database = &self.database;
        let dead = || {
            StoreError::Unavailable(format!(
                "this node cannot renew its lease in database {}; try again",
                database.place
            ))
        };
        if !incarnation.is_valid() {
            return Err(dead());
        }
        let select_owner = || {
            sqlx::query(
                "SELECT owner, token, node.name, node.id IS NOT NULL, COALESCE(node.until > clock_timestamp(), false) \
                 FROM sysop_sessions AS session LEFT JOIN sysop_nodes AS node ON node.id = owner \
                 WHERE session.id = $1",
            )
            .bind(id.as_str())
            .fetch_optional(&database.pool)
        };
        let row = database.retry(select_owner).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let found = (|| {
            let owner: Option<String> = row.try_get(0)?;
            let token: i64 = row.try_get(1)?;
            let name: Option<String> = row.try_get(2)?;
            Ok((owner, token, name, row.try_get::<bool, _>(3)?, row.try_get::<bool, _>(4)?))
        })();
        let (owner, token, name, has_row, alive) = found.map_err(|error| database.fault(&error))?;
        let mine = owner.as_deref() == Some(&*incarnation.id);
        if alive && !mine {
            return Ok(Some(AcquireOutcome::OwnedBy(name.unwrap_or_default())));
        }
        if has_row && !mine {
            // Deletes the row that the renewal updates: one of the two runs first, the other sees the result.
            let delete_expired_owner = || {
                sqlx::query("DELETE FROM sysop_nodes WHERE id = $1 AND until <= clock_timestamp()")
                    .bind(owner.as_deref())
                    .execute(&database.pool)
            };
            database.retry(delete_expired_owner).await?;
        }
        let fresh = random_nonzero();
        let take = || {
            sqlx::query(
                "UPDATE sysop_sessions SET owner = $2, token = $3 \
                 WHERE id = $1 AND (token = $3 OR token = $4 AND owner IS NOT DISTINCT FROM $5 \
                     AND (owner = $2 OR NOT EXISTS (SELECT 1 FROM sysop_nodes WHERE id = owner)))",
            )
            .bind(id.as_str())
            .bind(&*incarnation.id)
            .bind(fresh)
            .bind(token)
            .bind(owner.as_deref())
            .execute(&database.pool)
        };
        let taken = database.retry(take).await?.rows_affected() == 1;
        if taken && !incarnation.is_valid() {
            return Err(dead());
        }
        Ok(taken.then(|| AcquireOutcome::Owned(self.lease(id, incarnation, fresh))))
    }

    /// Adds this node to the watchers of a session, or removes it.
    async fn set_watching(&self, id: &SessionId, watching: bool) -> Result<WatchSnapshot, StoreError> {
        let database = &self.database;
        let set = || {
            sqlx::query(
                // The row is locked, so that each append is either in `last_seq` or sees the watcher. Dead
                // watchers are removed as well.
                "WITH session AS (
                     UPDATE sysop_sessions SET watchers = ARRAY(
                         SELECT watcher.channel FROM unnest(watchers) AS watcher (channel)
                         WHERE watcher.channel <> $2
                             AND EXISTS (SELECT 1 FROM sysop_nodes AS node WHERE node.channel = watcher.channel)
                     ) || CASE WHEN $3 THEN ARRAY[$2] ELSE '{}' END
                     WHERE id = $1 RETURNING id, last_seq, owner
                 )
                 SELECT last_seq, node.name,
                        CASE WHEN $3 AND node.id IS NOT NULL
                             THEN pg_notify(node.channel, json_build_object('followed', session.id)::text)::text END
                 FROM session LEFT JOIN sysop_nodes AS node ON node.id = owner AND node.until > clock_timestamp()",
            )
            .bind(id.as_str())
            .bind(&self.channel)
            .bind(watching)
            .fetch_optional(&database.pool)
        };
        let row = database.retry(set).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let watched = (|| Ok(WatchSnapshot { last: to_seq(row.try_get(0)?), owner: row.try_get(1)? }))();
        watched.map_err(|error| database.fault(&error))
    }
}

#[async_trait]
impl Cluster for PostgresNode {
    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.inner.lease(id, self.inner.incarnation(), random_nonzero())
    }

    async fn acquire(&self, id: &SessionId) -> Result<AcquireOutcome, StoreError> {
        for _ in 0..ACQUIRE_ATTEMPTS_MAX {
            if self.inner.leaving.load(Ordering::SeqCst) {
                return Err(leaving());
            }
            if let Some(acquired) = self.inner.try_acquire(id).await? {
                return Ok(acquired);
            }
        }
        Err(StoreError::Unavailable(format!("session {id} keeps moving between nodes; try again")))
    }

    async fn enqueue(&self, id: &SessionId, letter: &ForwardedInput) -> Result<(), StoreError> {
        let database = &self.inner.database;
        let body = serde_json::to_string(&letter.input).map_err(|error| {
            StoreError::Corrupt(format!(
                "cannot encode an input as JSON ({error}); this is a bug in sysop, please report it"
            ))
        })?;
        let post = || {
            sqlx::query(
                "WITH posted AS (
                     INSERT INTO sysop_letters (id, session, body) SELECT $2, id, $3 FROM sysop_sessions WHERE id = $1
                     ON CONFLICT (id) DO NOTHING
                 )
                 SELECT CASE WHEN node.id IS NOT NULL
                     THEN pg_notify(node.channel, json_build_object('posted', session.id)::text)::text END
                 FROM sysop_sessions AS session LEFT JOIN sysop_nodes AS node ON node.id = owner
                 WHERE session.id = $1",
            )
            .bind(id.as_str())
            .bind(&letter.id)
            .bind(&body)
            .fetch_optional(&database.pool)
        };
        match database.retry(post).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::NotFound(id.clone())),
        }
    }

    async fn watch(&self, id: &SessionId) -> Result<WatchSnapshot, StoreError> {
        let _one = self.inner.watching.lock().await;
        let found = self.inner.set_watching(id, true).await?;
        *self.inner.watched.lock().entry(id.clone()).or_default() += 1;
        Ok(found)
    }

    async fn unwatch(&self, id: &SessionId) {
        let _one = self.inner.watching.lock().await;
        {
            let mut watched = self.inner.watched.lock();
            let Some(count) = watched.get_mut(id) else { return };
            *count -= 1;
            if *count > 0 {
                return;
            }
            watched.remove(id);
        }
        if let Err(error) = self.inner.set_watching(id, false).await {
            tracing::debug!(session = %id, %error, "notifications about this session still arrive");
        }
    }

    async fn next_event(&self) -> ClusterEvent {
        self.inner.events.next().await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.inner.leaving.store(true, Ordering::SeqCst);
        let incarnation = self.inner.incarnation();
        incarnation.over.store(true, Ordering::SeqCst);
        let database = &self.inner.database;
        let leave = || {
            sqlx::query(
                "WITH gone AS (DELETE FROM sysop_nodes WHERE id = $1),
                 free AS (UPDATE sysop_sessions SET owner = NULL, token = 0 WHERE owner = $1 RETURNING id, watchers)
                 SELECT count(pg_notify(channel, json_build_object('free', id)::text))
                 FROM free, unnest(watchers) AS channel",
            )
            .bind(&*incarnation.id)
            .execute(&database.pool)
        };
        self.inner.left.get_or_try_init(|| async { database.retry(leave).await.map(|_| ()) }).await.copied()
    }
}

/// The exclusive right of a node to append to one session.
#[derive(Debug)]
struct PostgresLease {
    id: SessionId,
    incarnation: Arc<NodeIncarnation>,
    claim: OwnerClaim,
    database: Arc<Database>,
    writer: Arc<PostgresWriter>,
    released: AtomicBool,
}

#[async_trait]
impl Lease for PostgresLease {
    fn is_valid(&self) -> bool {
        self.incarnation.is_valid()
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        queued_inputs: &[QueuePosition],
    ) -> Result<Seq, StoreError> {
        if !self.is_valid() {
            return Err(StoreError::LeaseLost { id: self.id.clone(), by: String::new() });
        }
        let last = check_seq_order(&self.id, after, events)?;
        let queued_inputs = queued_inputs.iter().map(|letter| to_integer(letter.0)).collect();
        match EncodedBatch::of(events)? {
            Some(rows) => {
                let (id, claim) = (self.id.clone(), self.claim.clone());
                self.writer.append(AppendRequest { id, after, last, rows, claim, queued_inputs }).await
            }
            None => {
                self.take(queued_inputs).await?;
                Ok(after)
            }
        }
    }

    async fn queued_inputs(&self) -> Result<Vec<QueuedInput>, StoreError> {
        let database = &self.database;
        let read = || {
            sqlx::query_as::<_, (i64, String)>(
                "SELECT number, body FROM sysop_letters WHERE session = $1 AND taken IS NULL ORDER BY number LIMIT $2",
            )
            .bind(self.id.as_str())
            .bind(to_integer(QUEUE_BATCH_MAX as u64))
            .fetch_all(&database.pool)
        };
        let (mut waiting, mut unreadable) = (Vec::new(), Vec::new());
        for (number, body) in database.retry(read).await? {
            match serde_json::from_str::<Input>(&body) {
                Ok(input) => {
                    let number = QueuePosition(u64::try_from(number).unwrap_or(0));
                    waiting.push(QueuedInput { number, input });
                }
                Err(_) => unreadable.push(number),
            }
        }
        if !unreadable.is_empty() {
            tracing::warn!(session = %self.id, ?unreadable, "ignoring queued inputs of a newer version of sysop");
            self.take(unreadable).await?;
        }
        Ok(waiting)
    }

    async fn publish_deltas(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError> {
        let payloads = payloads(&self.id, after, deltas);
        let database = &self.database;
        let tell = || {
            sqlx::query_scalar::<_, i64>(
                // Deltas are never logged, so the commit does not wait for a disk write.
                "WITH fast AS (SELECT set_config('synchronous_commit', 'off', true)),
                 watcher AS (SELECT unnest(watchers) AS channel FROM sysop_sessions WHERE id = $1)
                 SELECT count(pg_notify(channel, payload))
                 FROM fast, watcher, unnest($2::text[]) WITH ORDINALITY AS piece (payload, place)
                 WHERE EXISTS (SELECT 1 FROM sysop_nodes WHERE sysop_nodes.channel = watcher.channel)",
            )
            .bind(self.id.as_str())
            .bind(&payloads)
            .fetch_one(&database.pool)
        };
        Ok(database.retry(tell).await? > 0)
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.released.store(true, Ordering::SeqCst);
        release_session(&self.database, &self.id, &self.claim).await
    }

    fn stall_reason(&self) -> Option<String> {
        self.writer.stall_reason()
    }
}

/// Releases the session in the background, unless it has already been released or the node's lifetime is
/// over. A session that no worker of this node uses must not appear to be owned.
impl Drop for PostgresLease {
    fn drop(&mut self) {
        if *self.released.get_mut() || !self.incarnation.is_valid() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (database, id, claim) = (Arc::clone(&self.database), self.id.clone(), self.claim.clone());
        runtime.spawn(async move {
            if let Err(error) = release_session(&database, &id, &claim).await {
                tracing::debug!(session = %id, %error, "cannot release an unused session");
            }
        });
    }
}

/// Releases a session if `claim` is its newest claim.
async fn release_session(database: &Database, id: &SessionId, claim: &OwnerClaim) -> Result<(), StoreError> {
    let release = || {
        sqlx::query(
            "WITH free AS (
                 UPDATE sysop_sessions SET owner = NULL, token = 0 WHERE id = $1 AND owner = $2 AND token = $3
                 RETURNING id, watchers
             )
             SELECT count(pg_notify(channel, json_build_object('free', id)::text))
             FROM free, unnest(watchers) AS channel",
        )
        .bind(id.as_str())
        .bind(&*claim.owner)
        .bind(claim.token)
        .execute(&database.pool)
    };
    database.retry(release).await.map(|_| ())
}

impl PostgresLease {
    /// Marks queued inputs that led to no event as consumed.
    async fn take(&self, queued_inputs: Vec<i64>) -> Result<(), StoreError> {
        let database = &self.database;
        let take = || {
            sqlx::query(
                "WITH mine AS (SELECT id FROM sysop_sessions WHERE id = $1 AND token = $2 FOR SHARE)
                 UPDATE sysop_letters SET taken = clock_timestamp()
                 FROM mine WHERE session = mine.id AND number = ANY ($3)",
            )
            .bind(self.id.as_str())
            .bind(self.claim.token)
            .bind(&queued_inputs)
            .execute(&database.pool)
        };
        match database.retry(take).await?.rows_affected() {
            0 if !queued_inputs.is_empty() => {
                Err(StoreError::LeaseLost { id: self.id.clone(), by: String::new() })
            }
            _ => Ok(()),
        }
    }
}

/// Encodes deltas, in order, as payloads within PostgreSQL's limit. Drops long deltas that cannot be split.
fn payloads(id: &SessionId, after: Seq, deltas: &[Delta]) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut waiting: Vec<Delta> = Vec::new();
    let mut bytes = 0;
    let write = |deltas: Vec<Delta>| {
        let payload = NodeMessage::Published { published: id.clone(), after: after.0, deltas };
        serde_json::to_string(&payload).expect("deltas are plain data")
    };
    for delta in deltas.iter().flat_map(pieces) {
        let length = serde_json::to_string(&delta).expect("deltas are plain data").len() + 1;
        if bytes + length > PAYLOAD_BYTES_MAX - 300 && !waiting.is_empty() {
            payloads.push(write(std::mem::take(&mut waiting)));
            bytes = 0;
        }
        bytes += length;
        waiting.push(delta);
    }
    if !waiting.is_empty() {
        payloads.push(write(waiting));
    }
    payloads.retain(|payload| payload.len() <= PAYLOAD_BYTES_MAX);
    payloads
}

/// Splits a delta into chunks that fit into a payload.
fn pieces(delta: &Delta) -> Vec<Delta> {
    let split = |text: &str, make: &dyn Fn(String) -> Delta| {
        let (mut pieces, mut left) = (Vec::new(), text);
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.floor_char_boundary(DELTA_TEXT_BYTES_MAX));
            pieces.push(make(piece.to_owned()));
            left = rest;
        }
        pieces
    };
    match delta {
        Delta::Text { step, text } => split(text, &|text| Delta::Text { step: *step, text }),
        Delta::Reasoning { step, text } => split(text, &|text| Delta::Reasoning { step: *step, text }),
        Delta::Output { call, text } => split(text, &|text| Delta::Output { call: call.clone(), text }),
        Delta::Restarted { .. }
        | Delta::Progress { .. }
        | Delta::Notice { .. }
        | Delta::Question { .. }
        | Delta::QuestionClosed { .. }
        | Delta::Control { .. } => vec![delta.clone()],
    }
}

#[cfg(test)]
mod tests;
