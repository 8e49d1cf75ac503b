//! Several nodes that share a store. Each session has one owner; the other nodes follow it.
//!
//! Problem: any node behind a balancer may get a request for any session, a node may die or stall at any moment, and no
//! effect may happen twice. Design: a node owns a session by a lease with a fencing token that the store compares in the same
//! statement as the append, so an owner that stalled can no longer write. Nothing depends on the clocks of nodes. Inputs that
//! users give elsewhere are enqueued in the store and drained by the owner (`queue.rs`); other nodes read the log when an
//! event tells them to (`follow.rs`); a front end holds a `ClusterHandle` that moves with the session and takes it over when
//! its node is gone (`session.rs`). Rejected: sticky routing, because a dead node would lose its sessions, and consensus among
//! nodes, because the database already is the one place that decides. See `docs/adr/0011`.
//!
//! Invariants: events of the cluster are hints, so losing one loses nothing. A node that may have lost a lease stops all
//! work under it.
//! A session at work knows of all this only through `SessionLease`, in `lease.rs` of the crate.
//!
//! This file has the port that a store's adapter implements; the files beside it use it.

pub(crate) mod follow;
pub(crate) mod lease;
pub(crate) mod member;
pub(crate) mod queue;
pub(crate) mod session;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sysop_core::event::{Delta, Input, Logged};
use sysop_core::id::{Seq, SessionId};
use tokio_util::task::TaskTracker;

pub use self::session::RuntimeFactory;
use crate::port::StoreError;

/// Pause after a failure of the store.
pub(crate) const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// Queued inputs read at a time.
pub const QUEUE_BATCH_MAX: usize = 64;

/// The nodes that share a store, as one of them sees them.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// A session that no log has yet. It becomes this node's with its first append.
    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease>;

    /// Takes a session for this node, unless another that lives has it. A lease that this node had before ends.
    async fn acquire(&self, id: &SessionId) -> Result<AcquireOutcome, StoreError>;

    /// Puts an input where the session's owner finds it; durable on return. Enqueuing the same `id` twice has no further effect.
    async fn enqueue(&self, id: &SessionId, input: &ForwardedInput) -> Result<(), StoreError>;

    /// Words about the session reach this node from now on, until `unwatch` was called as often as this.
    async fn watch(&self, id: &SessionId) -> Result<WatchSnapshot, StoreError>;

    /// Takes one `watch` back.
    async fn unwatch(&self, id: &SessionId);

    /// The next word; one task waits for it.
    async fn next_event(&self) -> ClusterEvent;

    /// Gives all sessions back at once, and takes no other.
    async fn leave(&self) -> Result<(), StoreError>;
}

/// What came of the wish for a session.
pub enum AcquireOutcome {
    /// It is this node's.
    Owned(Arc<dyn Lease>),
    /// That node, which lives, has it.
    OwnedBy(String),
}

/// What is known of a session when one begins to watch it: all that comes later is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSnapshot {
    /// The last event of its log.
    pub last: Seq,
    /// The node that has it; none where nobody has, or one that is dead.
    pub owner: Option<String>,
}

/// The right of this node to work on one session.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Whether it is certain that no other node has the session; asked before anything is done, and never wrong,
    /// however slow the answers of the store are.
    fn is_valid(&self) -> bool;

    /// As `Store::append`, if the lease is the session's newest; in the same step the queued inputs count as taken, for
    /// ever. Without events only the queued inputs do. May wait for as long as the store is away, so that what came of it is
    /// known when it returns.
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        queued_inputs: &[QueuePosition],
    ) -> Result<Seq, StoreError>;

    /// The queued inputs that wait, in the order in which they were posted, at most `QUEUE_BATCH_MAX`.
    async fn queued_inputs(&self) -> Result<Vec<QueuedInput>, StoreError>;

    /// Tells those who follow something for the moment, as well as may be; what came before it in the log is `after`.
    /// Says whether anybody follows.
    async fn publish_deltas(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError>;

    /// Gives the session back, if the lease is its newest: whoever wants it may have it at once.
    async fn release(&self) -> Result<(), StoreError>;

    /// Why an append has to wait, in one sentence, where it has to.
    fn stall_reason(&self) -> Option<String> {
        None
    }
}

/// A place in a session's queued inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePosition(pub u64);

/// An input on its way to the owner of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardedInput {
    /// Chosen by who posts it.
    pub id: String,
    /// What it says.
    pub input: Input,
}

/// A queued input that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedInput {
    /// Its place.
    pub number: QueuePosition,
    /// What it says.
    pub input: Input,
}

/// What a node has to know, as it happens. Only what is worth a look is told: the log and the queued inputs count.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterEvent {
    /// The log of a session that is watched here goes on, at least to there.
    Appended {
        /// The session.
        id: SessionId,
        /// An event that is durable.
        seq: Seq,
    },
    /// Something for the moment, of a session that is watched here.
    Deltas {
        /// The session.
        id: SessionId,
        /// The last event before it.
        after: Seq,
        /// What is told.
        deltas: Vec<Delta>,
    },
    /// A session that is watched here has no owner, or a dead one. Told again and again while that is so.
    Orphaned {
        /// The session.
        id: SessionId,
    },
    /// A session of this node has a queued input.
    InputQueued {
        /// The session.
        id: SessionId,
    },
    /// Somebody began to follow a session of this node.
    FollowerJoined {
        /// The session.
        id: SessionId,
    },
    /// Any word may have been missed.
    Lagged,
    /// This node counts as dead for the others: none of its leases holds any more.
    LeasesLost,
}

/// The cluster, and the tasks that a leaving node waits for.
#[derive(Clone)]
pub(crate) struct ClusterContext {
    pub(crate) cluster: Arc<dyn Cluster>,
    /// Sessions at work, and inputs on their way to other nodes.
    pub(crate) background_tasks: TaskTracker,
}
