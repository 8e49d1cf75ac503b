//! This process as one node of several, for all its drivers: one life, one place in the database, and every word to
//! each of them.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sysop_core::id::SessionId;
use sysop_driver::cluster::{Acquired, Cluster, Lease, Letter, Watched, Word};
use sysop_driver::port::StoreError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::task::AbortOnDropHandle;

/// A node with several drivers.
pub(crate) struct Branches {
    node: Arc<dyn Cluster>,
    ears: Arc<Mutex<Vec<UnboundedSender<Word>>>>,
    _listening: AbortOnDropHandle<()>,
}

impl Branches {
    /// Listens for all that will come. Must be called within a tokio runtime.
    pub(crate) fn new(node: Arc<dyn Cluster>) -> Self {
        let ears: Arc<Mutex<Vec<UnboundedSender<Word>>>> = Arc::default();
        let (listens, hear) = (Arc::clone(&node), Arc::clone(&ears));
        let listening = tokio::spawn(async move {
            loop {
                let word = listens.word().await;
                let mut ears = hear.lock().unwrap_or_else(PoisonError::into_inner);
                // A driver does what a word says without waiting, so few ever wait for it.
                ears.retain(|ear| ear.send(word.clone()).is_ok());
            }
        });
        Self { node, ears, _listening: AbortOnDropHandle::new(listening) }
    }

    /// The node as one more driver sees it.
    pub(crate) fn branch(&self) -> Arc<dyn Cluster> {
        let (ear, words) = unbounded_channel();
        self.ears.lock().unwrap_or_else(PoisonError::into_inner).push(ear);
        Arc::new(Branch { node: Arc::clone(&self.node), words: tokio::sync::Mutex::new(words) })
    }
}

struct Branch {
    node: Arc<dyn Cluster>,
    words: tokio::sync::Mutex<UnboundedReceiver<Word>>,
}

#[async_trait]
impl Cluster for Branch {
    fn found(&self, id: &SessionId) -> Arc<dyn Lease> {
        self.node.found(id)
    }

    async fn acquire(&self, id: &SessionId) -> Result<Acquired, StoreError> {
        self.node.acquire(id).await
    }

    async fn post(&self, id: &SessionId, letter: &Letter) -> Result<(), StoreError> {
        self.node.post(id, letter).await
    }

    async fn watch(&self, id: &SessionId) -> Result<Watched, StoreError> {
        self.node.watch(id).await
    }

    async fn unwatch(&self, id: &SessionId) {
        self.node.unwatch(id).await;
    }

    async fn word(&self) -> Word {
        match self.words.lock().await.recv().await {
            Some(word) => word,
            None => std::future::pending().await, // the node has ended
        }
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.node.leave().await
    }
}
