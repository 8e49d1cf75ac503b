//! The exclusive right to work on a session: the only seam between a live session and the nodes of a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::{Input, Logged};
use sysop_core::id::{Seq, SessionId};

use crate::cluster::QueuePosition;
use crate::port::{SessionClaim, Store, StoreError};

/// Called with a sentence that explains why an append is waiting.
pub(crate) type OnStall<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The exclusive right of this process to work on one session.
#[async_trait]
pub(crate) trait SessionLease: Send + Sync {
    /// Appends events to the log, as `Store::append` does, and marks queued inputs as consumed in the same step.
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        consumed: &[QueuePosition],
        on_stall: OnStall<'_>,
    ) -> Result<Seq, StoreError>;

    /// Keeps other processes on this machine from resuming the session, until `end_claim`. Fails if another process
    /// works on it.
    async fn claim(&self) -> Result<(), StoreError>;

    /// Returns true if no other process can append while this lease is valid, even if the session waits for a prompt.
    fn excludes_other_writers(&self) -> bool;

    /// Ends the claim, if there is one. Called when the session waits for nothing but a prompt.
    fn end_claim(&self);

    /// Returns true only if this process certainly owns the session, however slow the store is. Must be checked before
    /// every effect.
    fn is_valid(&self) -> bool;

    /// Takes over user inputs that were accepted here but were not durable yet when the session was lost.
    fn forward(&self, inputs: Vec<Input>);
}

/// The lease of a process that does not share its store. It is always valid.
pub(crate) struct StoreLease {
    id: SessionId,
    store: Arc<dyn Store>,
    claim: Mutex<Option<SessionClaim>>,
}

impl StoreLease {
    pub(crate) fn new(id: SessionId, store: Arc<dyn Store>, claim: Option<SessionClaim>) -> Self {
        Self { id, store, claim: Mutex::new(claim) }
    }
}

#[async_trait]
impl SessionLease for StoreLease {
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        _: &[QueuePosition],
        _: OnStall<'_>,
    ) -> Result<Seq, StoreError> {
        self.store.append(&self.id, after, events).await
    }

    async fn claim(&self) -> Result<(), StoreError> {
        if self.claim.lock().is_none() {
            let claim = self.store.claim(&self.id).await?;
            *self.claim.lock() = claim;
        }
        Ok(())
    }

    fn excludes_other_writers(&self) -> bool {
        false
    }

    fn end_claim(&self) {
        self.claim.lock().take();
    }

    fn is_valid(&self) -> bool {
        true
    }

    /// Drops the inputs, because no other node could continue the session.
    fn forward(&self, _: Vec<Input>) {}
}
