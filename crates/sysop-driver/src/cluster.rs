//! Several nodes that share a store. Each session has one owner; the other nodes follow it.
//!
//! # Problem
//!
//! Behind a load balancer any node may receive a request for any session. A node may die or stall at any moment, and a
//! stalled node does not know that the others have given up on it. No effect may run twice, and no accepted input may
//! be lost.
//!
//! # Design
//!
//! A node owns a session by a lease with a fencing token. The store compares the token in the same statement as the
//! append, so an owner that has stalled can no longer write. The clocks of nodes need not agree: leases expire by the
//! database's clock, and a node ends its own leases by its monotonic clock, half a second before the database would.
//!
//! Inputs that users give on other nodes are enqueued in the store and drained by the owner (`queue.rs`); an
//! input is marked as consumed in the same step that appends its events. Other nodes read the log when a
//! cluster event tells them to (`follow.rs`). A front end holds a `ClusterHandle`, which moves with the
//! session and takes it over when its owner is gone (`session.rs`). A live session knows nothing of this
//! except the trait `SessionLease` (the crate's `lease.rs`).
//!
//! # Rejected
//!
//! - Sticky routing: sessions of a dead node would be unreachable.
//! - Consensus among nodes, or a broker: the database is already the single place that decides.
//! - A lock with a time limit alone: a node that stalls past the limit wakes up and continues to write.
//! - A heartbeat per session: renewals would grow with the number of sessions.
//!
//! See `docs/adr/0011`.
//!
//! # Invariants
//!
//! - Only the holder of the newest lease appends. A node that may have lost a lease stops all work under it.
//! - Cluster events are hints. Losing one delays an update but loses nothing, because the log and the queue are the
//!   truth.
//! - An input is handled once, whichever node owns the session by then.
//! - Questions stay on the owning node: a secret never passes through the store.
//!
//! This file declares the port, which the adapter of a store implements. The files in `cluster/` use the port.

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

/// Pause before an operation is retried after a store failure.
pub(crate) const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of queued inputs that one read of the queue returns.
pub const QUEUE_BATCH_MAX: usize = 64;

/// The nodes that share a store, as seen by one of them.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Returns the lease of a session that has no log yet. The first append acquires the session.
    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease>;

    /// Acquires a session unless another live node owns it. Ends an earlier lease that this node holds on the session.
    async fn acquire(&self, id: &SessionId) -> Result<AcquireOutcome, StoreError>;

    /// Enqueues an input for the session's owner. The input is durable on return. A repeated `id` has no effect.
    async fn enqueue(&self, id: &SessionId, input: &ForwardedInput) -> Result<(), StoreError>;

    /// Subscribes this node to events of the session, until `unwatch` has been called as often as `watch`.
    async fn watch(&self, id: &SessionId) -> Result<WatchSnapshot, StoreError>;

    /// Reverts one `watch`.
    async fn unwatch(&self, id: &SessionId);

    /// Waits for the next event. Only one task may wait.
    async fn next_event(&self) -> ClusterEvent;

    /// Releases all leases of this node at once. After that, the node acquires no more leases.
    async fn leave(&self) -> Result<(), StoreError>;
}

pub enum AcquireOutcome {
    /// This node owns the session.
    Owned(Arc<dyn Lease>),
    /// The named node owns the session and is alive.
    OwnedBy(String),
}

/// State of a session at the start of a watch; all later changes arrive as events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSnapshot {
    /// Last event of the log.
    pub last: Seq,
    /// Node that owns the session; `None` if no live node does.
    pub owner: Option<String>,
}

/// The exclusive right of this node to work on one session.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Returns true only if this node certainly owns the session, however slow the store is. Check before every effect.
    fn is_valid(&self) -> bool;

    /// Appends like `Store::append` if this is the session's newest lease, and marks the queued inputs as consumed in
    /// the same step. If there are no events, only marks the inputs. May wait for as long as the store is unavailable,
    /// so that the outcome is known on return.
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        queued_inputs: &[QueuePosition],
    ) -> Result<Seq, StoreError>;

    /// Returns pending inputs in the order in which they were enqueued, at most `QUEUE_BATCH_MAX`.
    async fn queued_inputs(&self) -> Result<Vec<QueuedInput>, StoreError>;

    /// Publishes deltas to the nodes that follow the session; delivery is not guaranteed. `after` is the last event
    /// before the deltas. Returns true if any node follows the session.
    async fn publish_deltas(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError>;

    /// Releases the session if this is its newest lease, so that any node may acquire the session at once.
    async fn release(&self) -> Result<(), StoreError>;

    /// Returns one sentence that explains why an append is waiting, or `None` if no append is waiting.
    fn stall_reason(&self) -> Option<String> {
        None
    }
}

/// Position in a session's queue of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePosition(pub u64);

/// An input on its way to the owner of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardedInput {
    /// Unique id, chosen by the sender; the key for deduplication.
    pub id: String,
    pub input: Input,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QueuedInput {
    pub number: QueuePosition,
    pub input: Input,
}

/// Event for a node. All events are hints; only the log and the queue are authoritative.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterEvent {
    /// The log of a watched session has grown to at least this event.
    Appended { id: SessionId, seq: Seq },
    Deltas {
        id: SessionId,
        /// Last event before the deltas.
        after: Seq,
        deltas: Vec<Delta>,
    },
    /// A watched session has no live owner. The event is repeated for as long as that is the case.
    Orphaned { id: SessionId },
    /// A session that this node owns has a queued input.
    InputQueued { id: SessionId },
    /// Another node has begun to follow a session that this node owns.
    FollowerJoined { id: SessionId },
    /// This node may have missed events.
    Lagged,
    /// The other nodes consider this node dead: none of its leases is valid.
    LeasesLost,
}

/// The cluster, and the tasks that a leaving node waits for.
#[derive(Clone)]
pub(crate) struct ClusterContext {
    pub(crate) cluster: Arc<dyn Cluster>,
    /// Tasks of live sessions, and tasks that deliver inputs to other nodes.
    pub(crate) background_tasks: TaskTracker,
}
