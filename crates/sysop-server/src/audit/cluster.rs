//! A cluster whose leases audit the events appended through them, like [`AuditedStore`] does for a single node.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::{Delta, Logged};
use sysop_core::id::{Seq, SessionId};
use sysop_driver::cluster::{
    AcquireOutcome, Cluster, ClusterEvent, ForwardedInput, Lease, QueuePosition, QueuedInput, WatchSnapshot,
};
use sysop_driver::port::StoreError;

use super::AuditedStore;

pub struct AuditedCluster {
    inner: Arc<dyn Cluster>,
    store: Arc<AuditedStore>,
}

impl AuditedCluster {
    /// Wraps a cluster; lines go to the audit log of `store`.
    pub fn new(inner: Arc<dyn Cluster>, store: Arc<AuditedStore>) -> Self {
        Self { inner, store }
    }

    fn lease(&self, id: &SessionId, inner: Arc<dyn Lease>) -> Arc<dyn Lease> {
        Arc::new(AuditedLease { id: id.clone(), inner, store: Arc::clone(&self.store) })
    }
}

#[async_trait]
impl Cluster for AuditedCluster {
    fn new_lease(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.lease(id, self.inner.new_lease(id))
    }

    async fn acquire(&self, id: &SessionId) -> Result<AcquireOutcome, StoreError> {
        match self.inner.acquire(id).await? {
            AcquireOutcome::Owned(lease) => Ok(AcquireOutcome::Owned(self.lease(id, lease))),
            AcquireOutcome::OwnedBy(node) => Ok(AcquireOutcome::OwnedBy(node)),
        }
    }

    async fn enqueue(&self, id: &SessionId, letter: &ForwardedInput) -> Result<(), StoreError> {
        self.inner.enqueue(id, letter).await
    }

    async fn watch(&self, id: &SessionId) -> Result<WatchSnapshot, StoreError> {
        self.inner.watch(id).await
    }

    async fn unwatch(&self, id: &SessionId) {
        self.inner.unwatch(id).await;
    }

    async fn next_event(&self) -> ClusterEvent {
        self.inner.next_event().await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.inner.leave().await
    }
}

struct AuditedLease {
    id: SessionId,
    inner: Arc<dyn Lease>,
    store: Arc<AuditedStore>,
}

#[async_trait]
impl Lease for AuditedLease {
    fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        letters: &[QueuePosition],
    ) -> Result<Seq, StoreError> {
        let append = self.inner.append(after, events, letters);
        self.store.audited(&self.id, after, events, append).await
    }

    async fn queued_inputs(&self) -> Result<Vec<QueuedInput>, StoreError> {
        self.inner.queued_inputs().await
    }

    async fn publish_deltas(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError> {
        self.inner.publish_deltas(after, deltas).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.inner.release().await
    }

    fn stall_reason(&self) -> Option<String> {
        self.inner.stall_reason()
    }
}
