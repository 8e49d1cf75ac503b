//! Rebuilds sessions from their logs.

use sysop_core::id::{Seq, SessionId};
use sysop_core::session::Session;

use crate::DriverError;
use crate::port::{Store, StoreError};

/// Maximum events of a log held in memory at a time. Few enough that no other task has to wait long.
const PAGE_EVENTS_MAX: usize = 1024;

/// Rebuilds a session from its log, page by page. Returns the session and the position of its last event.
/// Fails if the store fails, or if the log does not contain a session.
pub async fn replay(store: &dyn Store, id: &SessionId) -> Result<(Session, Seq), DriverError> {
    replay_until(store, id, Seq(u64::MAX)).await
}

/// As [`replay`], but without the events after `end`.
pub(crate) async fn replay_until(
    store: &dyn Store,
    id: &SessionId,
    end: Seq,
) -> Result<(Session, Seq), DriverError> {
    let mut page = store.load(id, Seq(0), PAGE_EVENTS_MAX).await?;
    page.retain(|logged| logged.seq <= end);
    let mut more = page.len() == PAGE_EVENTS_MAX;
    let mut last = page.last().ok_or_else(|| StoreError::NotFound(id.clone()))?.seq;
    let mut session = Session::replay(page.into_iter().map(|logged| logged.event))
        .map_err(|error| DriverError::BadLog(id.clone(), error.to_string()))?;
    while more {
        let mut page = store.load(id, last, PAGE_EVENTS_MAX).await?;
        page.retain(|logged| logged.seq <= end);
        more = page.len() == PAGE_EVENTS_MAX;
        last = page.last().map_or(last, |logged| logged.seq);
        session.replay_on(page.into_iter().map(|logged| logged.event));
    }
    Ok((session, last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use parking_lot::Mutex;
    use sysop_core::event::{Event, Logged};
    use sysop_core::id::Timestamp;

    use super::*;
    use crate::port::SessionSummary;

    /// A session's log that records the length of each page read.
    struct PagedLog {
        events: Vec<Event>,
        pages: Mutex<Vec<usize>>,
    }

    impl PagedLog {
        /// Creates a log of `SessionOpened` and as many further events.
        fn with_further_events(count: usize) -> Self {
            let spec = serde_json::json!({"model": "mock/mock", "system": "", "tools": [], "approve": "auto",
                "dangerous_patterns": [], "max_iterations": 5, "max_history_messages": 5, "host": "local",
                "root": "/", "profile": "coder"});
            let spec = serde_json::from_value(spec).unwrap();
            let further = (0..count).map(|number| Event::PromptQueued {
                text: number.to_string(),
                images: Vec::new(),
                by: None,
            });
            let opened = Event::SessionOpened { spec, opened_by: None };
            let events = std::iter::once(opened).chain(further).collect();
            Self { events, pages: Mutex::default() }
        }
    }

    #[async_trait]
    impl Store for PagedLog {
        async fn append(&self, _: &SessionId, _: Seq, _: &[Arc<Logged>]) -> Result<Seq, StoreError> {
            Err(StoreError::Unavailable("read-only".to_owned()))
        }

        async fn load(&self, _: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
            let logged = |(seq, event): (u64, &Event)| Logged {
                seq: Seq(seq),
                at: Timestamp(0),
                event: event.clone(),
            };
            let after = usize::try_from(after.0).unwrap();
            let page: Vec<_> = (1..).zip(&self.events).skip(after).take(limit).map(logged).collect();
            self.pages.lock().push(page.len());
            Ok(page)
        }

        async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, StoreError> {
            Ok(Vec::new())
        }

        async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
            Err(StoreError::NotFound(id.clone()))
        }
    }

    #[tokio::test]
    async fn a_log_is_replayed_page_by_page() {
        let id = SessionId::new("s");
        for (further, pages) in [
            (0, &[1][..]),
            (PAGE_EVENTS_MAX - 2, &[PAGE_EVENTS_MAX - 1]),
            (PAGE_EVENTS_MAX - 1, &[PAGE_EVENTS_MAX, 0]),
            (2 * PAGE_EVENTS_MAX, &[PAGE_EVENTS_MAX, PAGE_EVENTS_MAX, 1]),
        ] {
            let log = PagedLog::with_further_events(further);
            let whole = Session::replay(&log.events).unwrap();
            assert!(replay(&log, &id).await.unwrap() == (whole, Seq(further as u64 + 1)), "{further} events");
            assert_eq!(*log.pages.lock(), pages);
        }
    }

    #[tokio::test]
    async fn a_log_without_its_first_event_is_rejected() {
        let id = SessionId::new("s");
        let mut log = PagedLog::with_further_events(1);
        log.events.remove(0);
        assert!(matches!(replay(&log, &id).await, Err(DriverError::BadLog(..))));
        log.events.clear();
        let none = replay(&log, &id).await;
        assert!(matches!(none, Err(DriverError::Store(StoreError::NotFound(_)))));
    }
}
