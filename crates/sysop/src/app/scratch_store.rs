//! A store that reads another one and keeps what is appended in the memory of this process. A session on it shows what
//! it would do, and leaves no trace.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{SessionClaim, SessionSummary, Store, StoreError};

pub(super) struct ScratchStore {
    store: Arc<dyn Store>,
    /// Events that were appended to each session here.
    appended: Mutex<HashMap<SessionId, Vec<Arc<Logged>>>>,
}

impl ScratchStore {
    pub(super) fn over(store: Arc<dyn Store>) -> Self {
        Self { store, appended: Mutex::default() }
    }
}

#[async_trait]
impl Store for ScratchStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        let mut appended = self.appended.lock();
        let own = appended.entry(id.clone()).or_default();
        if let Some(found) = own.last().map(|last| last.seq).filter(|found| *found != after) {
            return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
        }
        own.extend_from_slice(events);
        Ok(own.last().map_or(after, |last| last.seq))
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        let mut page = self.store.load(id, after, limit).await?;
        if let Some(own) = self.appended.lock().get(id) {
            // The log may have grown since; what was appended here continues its earlier end.
            page.retain(|logged| own.first().is_none_or(|first| logged.seq < first.seq));
            let rest = own.iter().filter(|logged| logged.seq > after).take(limit - page.len());
            page.extend(rest.map(|logged| Logged::clone(logged)));
        }
        Ok(page)
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.store.list(limit).await
    }

    async fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        self.store.claim(id).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::Unavailable(format!("session {id} cannot be deleted from here")))
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::event::Event;
    use sysop_core::id::Timestamp;
    use sysop_store::MemoryStore;

    use super::*;

    fn events(numbers: std::ops::RangeInclusive<u64>) -> Vec<Arc<Logged>> {
        let event = |seq| Logged { seq: Seq(seq), at: Timestamp(0), event: Event::Resumed };
        numbers.map(|seq| Arc::new(event(seq))).collect()
    }

    #[tokio::test]
    async fn what_is_appended_can_be_read_and_is_not_stored() {
        let (below, id) = (Arc::new(MemoryStore::new()), SessionId::new("s"));
        below.append(&id, Seq(0), &events(1..=3)).await.unwrap();
        let scratch = ScratchStore::over(Arc::clone(&below) as Arc<dyn Store>);
        assert_eq!(scratch.append(&id, Seq(3), &events(4..=5)).await, Ok(Seq(5)));
        assert!(matches!(
            scratch.append(&id, Seq(3), &events(4..=4)).await,
            Err(StoreError::Conflict { found: Seq(5), .. })
        ));
        below.append(&id, Seq(3), &events(4..=9)).await.unwrap();
        for (after, limit, wanted) in
            [(0, 9, &[1, 2, 3, 4, 5][..]), (2, 2, &[3, 4]), (4, 9, &[5]), (5, 9, &[])]
        {
            let page = scratch.load(&id, Seq(after), limit).await.unwrap();
            assert_eq!(page.iter().map(|logged| logged.seq.0).collect::<Vec<_>>(), wanted, "after {after}");
        }
        assert_eq!(below.list(1).await.unwrap()[0].last_seq, Seq(9));
    }
}
