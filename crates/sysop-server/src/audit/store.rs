//! A store whose events are audited on their way in.
//!
//! First the line, then the event, then what the event leads to: whatever the log has, the audit has too, and what could
//! not be audited is not logged, so it does not happen. A line whose event the store then refused is followed by one that
//! says so.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{Clock, EventVisitor, SessionSummary, Store, StoreError};

use super::entry::{AuditEntry, Kind};
use super::tracker::{Actor, AuditTracker, is_audited};
use super::{Audit, CommandRedactor};
use crate::spans::SpanRecorder;

/// Events that are read at a time.
const PAGE_EVENTS: usize = 4096;

/// What happens when a line cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFailurePolicy {
    /// The call does not run, and its session closes with a sentence that says why.
    Stop,
    /// It goes on, with a word in the log.
    Continue,
}

/// Hears of events that are in the log now. It must not wait: the session does.
pub type AppendListener = Arc<dyn Fn(&SessionId, &[Arc<Logged>]) + Send + Sync>;

/// See the module.
pub struct AuditedStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    audit: Arc<Audit>,
    failure_policy: AuditFailurePolicy,
    watch: Arc<Mutex<AuditTracker>>,
    spans: Option<Arc<SpanRecorder>>,
    listener: Option<AppendListener>,
}

impl AuditedStore {
    /// Audits what goes into a store.
    pub fn new(
        inner: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        audit: Arc<Audit>,
        redaction: CommandRedactor,
        failure_policy: AuditFailurePolicy,
    ) -> Self {
        let watch = Arc::new(Mutex::new(AuditTracker::new(redaction)));
        Self { inner, clock, audit, failure_policy, watch, spans: None, listener: None }
    }

    /// The same, with spans of what goes into the store.
    #[must_use]
    pub fn with_spans(self, spans: Option<Arc<SpanRecorder>>) -> Self {
        Self { spans, ..self }
    }

    /// Tells of every event that was appended.
    #[must_use]
    pub fn with_listener(self, listener: AppendListener) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// From now on it is their wish what the session does.
    pub fn attribute_to(&self, id: &SessionId, actor: Actor) {
        self.watch().attribute_to(id, actor);
    }

    /// Writes down that somebody was not let decide. If that fails, the log says so: nothing happens either way.
    pub async fn audit_refusal(&self, id: &SessionId, who: &str, what: &str) {
        let entry = AuditEntry {
            session: id.as_str().to_owned(),
            who: Some(who.to_owned()),
            what: Some(what.to_owned()),
            ..AuditEntry::new(Kind::Refused, self.clock.now())
        };
        if let Err(error) = self.audit.write(vec![entry]).await {
            tracing::error!(%error, "a refused decision is not audited");
        }
    }

    /// Forgets what it knows of all sessions, as a new process would.
    #[cfg(test)]
    pub(super) fn watch_forgets(&self) {
        self.watch().forget(&SessionId::new("s1"));
    }

    fn watch(&self) -> MutexGuard<'_, AuditTracker> {
        lock(&self.watch)
    }

    /// Whether it can audit what comes after `after` without reading what came before.
    #[cfg(test)]
    pub(super) fn knows(&self, id: &SessionId, after: Seq) -> bool {
        self.watch().knows(id, after)
    }

    /// Reads a session of which it knows nothing, or not enough.
    async fn learn(&self, id: &SessionId, after: Seq) -> Result<(), StoreError> {
        if self.watch().knows(id, after) {
            return Ok(());
        }
        self.watch().forget(id);
        let mut seen = Seq(0);
        while seen < after {
            let page = self.inner.load(id, seen, PAGE_EVENTS).await?;
            let Some(last) = page.last() else { break };
            seen = last.seq;
            self.watch().follow(id, page.iter().take_while(|logged| logged.seq <= after));
        }
        Ok(())
    }

    async fn write(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        match (self.audit.write(entries).await, self.failure_policy) {
            (Ok(()), _) => Ok(()),
            (Err(error), AuditFailurePolicy::Stop) => Err(StoreError::Unavailable(error.to_string())),
            (Err(error), AuditFailurePolicy::Continue) => {
                tracing::error!(%error, "something is not audited");
                Ok(())
            }
        }
    }

    /// Says that what some lines tell of did not happen.
    async fn void_entries(&self, entries: Vec<AuditEntry>) {
        let now = self.clock.now();
        let void = entries.into_iter().map(|entry| AuditEntry {
            session: entry.session,
            seq: entry.seq,
            call: entry.call,
            ..AuditEntry::new(Kind::Void, now)
        });
        if let Err(error) = self.audit.write(void.collect()).await {
            tracing::error!(%error, "the audit tells of something that did not happen");
        }
    }
}

impl AuditedStore {
    /// Audits events, then does `append`, which appends them, and tells of them.
    pub(super) async fn audited(
        &self,
        id: &SessionId,
        after: Seq,
        events: &[Arc<Logged>],
        append: impl Future<Output = Result<Seq, StoreError>> + Send,
    ) -> Result<Seq, StoreError> {
        let last = self.audited_first(id, after, events, append).await?;
        if let Some(spans) = &self.spans {
            spans.logged(id, events);
        }
        if let Some(listener) = &self.listener {
            listener(id, events);
        }
        Ok(last)
    }

    async fn audited_first(
        &self,
        id: &SessionId,
        after: Seq,
        events: &[Arc<Logged>],
        append: impl Future<Output = Result<Seq, StoreError>> + Send,
    ) -> Result<Seq, StoreError> {
        if !events.iter().any(|logged| is_audited(&logged.event)) {
            let last = append.await?;
            self.watch().follow(id, events.iter().map(AsRef::as_ref));
            return Ok(last);
        }
        self.learn(id, after).await?;
        let entries = self.watch().entries(id, events);
        if let Err(error) = self.write(entries.clone()).await {
            self.watch().forget(id);
            return Err(error);
        }
        let appended = append.await;
        if appended.is_err() {
            self.watch().forget(id);
            self.void_entries(entries).await;
        }
        appended
    }
}

#[async_trait]
impl Store for AuditedStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        self.audited(id, after, events, self.inner.append(id, after, events)).await
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        let events = self.inner.load(id, after, limit).await?;
        self.watch().follow(id, &events);
        Ok(events)
    }

    async fn read(&self, id: &SessionId, mut take: EventVisitor) -> Result<(), StoreError> {
        let (watch, read) = (Arc::clone(&self.watch), id.clone());
        let take = move |events: Vec<Logged>| {
            lock(&watch).follow(&read, &events);
            take(events)
        };
        self.inner.read(id, Box::new(take)).await
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.inner.list(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let line = AuditEntry {
            session: id.as_str().to_owned(),
            ..AuditEntry::new(Kind::Deleted, self.clock.now())
        };
        self.write(vec![line.clone()]).await?;
        let deleted = self.inner.delete(id).await;
        self.watch().forget(id);
        if deleted.is_err() {
            self.void_entries(vec![line]).await;
        }
        deleted
    }

    async fn referenced_files(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        self.inner.referenced_files(files).await
    }
}

impl std::fmt::Debug for AuditedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditedStore").field("audit", &self.audit).finish_non_exhaustive()
    }
}

fn lock(watch: &Mutex<AuditTracker>) -> MutexGuard<'_, AuditTracker> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}
