//! Lease of a session that this node owns in a cluster, with its input queue and the relay to other nodes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::{Input, Logged};
use sysop_core::id::{Seq, SessionId};

use super::follow::{self, RelayState};
use super::queue::{InputQueue, enqueue_all};
use super::{ClusterContext, Lease, QueuePosition};
use crate::lease::{OnStall, SessionLease};
use crate::live::LiveSession;
use crate::port::{Clock, StoreError};

/// Time after which users are told why an append is waiting.
const SLOW_APPEND: Duration = Duration::from_secs(3);

/// Accepts the inputs that a lost session left behind, or returns them if no front end here has the session open.
pub(crate) type InputForwarder = Box<dyn Fn(Vec<Input>) -> Result<(), Vec<Input>> + Send + Sync>;

pub(crate) struct ClusterLease {
    id: SessionId,
    lease: Arc<dyn Lease>,
    context: ClusterContext,
    clock: Arc<dyn Clock>,
    queue: InputQueue,
    relay: Arc<RelayState>,
    /// Takes the unhandled inputs if the session continues on another node.
    successor: Mutex<Option<InputForwarder>>,
    executor: tokio::runtime::Handle,
}

impl ClusterLease {
    pub(crate) fn new(
        id: SessionId,
        lease: Arc<dyn Lease>,
        context: ClusterContext,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            lease,
            context,
            clock,
            queue: InputQueue::default(),
            relay: Arc::default(),
            successor: Mutex::default(),
            executor: tokio::runtime::Handle::current(),
        })
    }

    /// Passes queued inputs to the session, in a separate task.
    pub(crate) fn drain_queue(self: &Arc<Self>, live: &Arc<LiveSession>) {
        if live.closed().is_some() || !self.queue.request_drain() {
            return;
        }
        let (this, live) = (Arc::clone(self), Arc::clone(live));
        self.executor.spawn(async move { this.queue.drain(this.lease.as_ref(), &live).await });
    }

    /// Publishes deltas to the nodes that follow the session, until no node follows it.
    pub(crate) fn start_relay(&self, live: &Arc<LiveSession>) {
        follow::start_relay(&self.relay, live, &self.lease, &self.clock);
    }

    /// Returns the number of subscribers of the session that are relays to other nodes, not front ends: 0 or 1.
    pub(crate) fn relays(&self) -> usize {
        usize::from(self.relay.is_running())
    }

    pub(crate) fn set_successor(&self, successor: InputForwarder) {
        *self.successor.lock() = Some(successor);
    }

    /// Releases the session, so that any node can acquire it. The release runs in a separate task.
    pub(crate) fn release(&self) {
        let lease = Arc::clone(&self.lease);
        self.executor.spawn(async move {
            if let Err(error) = lease.release().await {
                tracing::debug!(%error, "cannot release an idle session; this node owns it until it stops");
            }
        });
    }
}

#[async_trait]
impl SessionLease for ClusterLease {
    /// Waits while the database is unavailable. Reports the reason after a few seconds, and again if it changes.
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        consumed: &[QueuePosition],
        on_stall: OnStall<'_>,
    ) -> Result<Seq, StoreError> {
        let mut append = self.lease.append(after, events, consumed);
        let mut reported = None;
        let seq = loop {
            tokio::select! {
                biased;
                done = &mut append => break done?,
                () = self.clock.sleep(SLOW_APPEND) => {}
            }
            let why = self.lease.stall_reason().filter(|why| reported.as_ref() != Some(why));
            if let Some(why) = why {
                on_stall(&why);
                reported = Some(why);
            }
        };
        self.queue.mark_consumed(consumed);
        Ok(seq)
    }

    /// Does nothing, because the lease itself keeps the other nodes from the session.
    async fn claim(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn excludes_other_writers(&self) -> bool {
        true
    }

    fn end_claim(&self) {}

    fn is_valid(&self) -> bool {
        self.lease.is_valid()
    }

    fn forward(&self, inputs: Vec<Input>) {
        let successor = self.successor.lock();
        let left = match successor.as_ref() {
            Some(successor) => successor(inputs),
            None => Err(inputs),
        };
        drop(successor);
        let Err(inputs) = left else { return };
        let (context, id, clock) = (self.context.clone(), self.id.clone(), Arc::clone(&self.clock));
        let cluster = Arc::clone(&context.cluster);
        let enqueue = async move { enqueue_all(cluster.as_ref(), &id, clock.as_ref(), inputs).await };
        context.background_tasks.spawn_on(enqueue, &self.executor);
    }
}
