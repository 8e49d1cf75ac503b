//! A node whose leases audit what is appended under them, as the store in front of which it stands does.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::{Delta, Logged};
use sysop_core::id::{Seq, SessionId};
use sysop_driver::cluster::{Acquired, Cluster, Lease, Letter, LetterNumber, Waiting, Watched, Word};
use sysop_driver::port::StoreError;

use super::AuditedStore;

/// See the module.
pub struct AuditedCluster {
    inner: Arc<dyn Cluster>,
    store: Arc<AuditedStore>,
}

impl AuditedCluster {
    /// Audits what is appended under the leases of a node, with the audit of that store.
    pub fn new(inner: Arc<dyn Cluster>, store: Arc<AuditedStore>) -> Self {
        Self { inner, store }
    }

    fn lease(&self, id: &SessionId, inner: Arc<dyn Lease>) -> Arc<dyn Lease> {
        Arc::new(AuditedLease { id: id.clone(), inner, store: Arc::clone(&self.store) })
    }
}

#[async_trait]
impl Cluster for AuditedCluster {
    fn found(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.lease(id, self.inner.found(id))
    }

    async fn acquire(&self, id: &SessionId) -> Result<Acquired, StoreError> {
        match self.inner.acquire(id).await? {
            Acquired::Owned(lease) => Ok(Acquired::Owned(self.lease(id, lease))),
            Acquired::HeldBy(node) => Ok(Acquired::HeldBy(node)),
        }
    }

    async fn post(&self, id: &SessionId, letter: &Letter) -> Result<(), StoreError> {
        self.inner.post(id, letter).await
    }

    async fn watch(&self, id: &SessionId) -> Result<Watched, StoreError> {
        self.inner.watch(id).await
    }

    async fn unwatch(&self, id: &SessionId) {
        self.inner.unwatch(id).await;
    }

    async fn word(&self) -> Word {
        self.inner.word().await
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
    fn holds(&self) -> bool {
        self.inner.holds()
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        letters: &[LetterNumber],
    ) -> Result<Seq, StoreError> {
        let append = self.inner.append(after, events, letters);
        self.store.audited(&self.id, after, events, append).await
    }

    async fn letters(&self) -> Result<Vec<Waiting>, StoreError> {
        self.inner.letters().await
    }

    async fn tell(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError> {
        self.inner.tell(after, deltas).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.inner.release().await
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }
}
