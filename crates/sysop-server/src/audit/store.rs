//! A store that audits events before storing them.
//!
//! The order is: audit line, event, effects of the event. Everything in the log is therefore also in the audit, and an
//! action that cannot be audited is not logged and does not happen. If the store refuses an event after its line was
//! written, a `void` line follows.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{Annotation, Clock, SearchHit, SessionClaim, SessionSummary, Store, StoreError};

use super::entry::{AuditEntry, Kind};
use super::tracker::{Actor, AuditTracker, is_audited};
use super::{Audit, CommandRedactor};
use crate::spans::SpanRecorder;

/// Number of events per page when reading a log.
const PAGE_EVENTS: usize = 4096;

/// Behavior when a line cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFailurePolicy {
    /// The call does not run, and its session closes with an error that says why.
    Stop,
    /// The call runs, and the failure is logged.
    Continue,
}

/// Called with events after they were appended. Must not block: the session waits for it.
pub type AppendListener = Arc<dyn Fn(&SessionId, &[Arc<Logged>]) + Send + Sync>;

/// Wraps a store and writes each event to the audit before storing it.
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

    /// Adds a recorder that derives tracing spans from appended events, if `spans` is set.
    #[must_use]
    pub fn with_spans(self, spans: Option<Arc<SpanRecorder>>) -> Self {
        Self { spans, ..self }
    }

    #[must_use]
    pub fn with_listener(self, listener: AppendListener) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// Records that `actor` asks for a turn of the session, for the lines of that turn. `is_retry` is true if the turn
    /// is to repeat the last one.
    pub fn attribute_to(&self, id: &SessionId, actor: Actor, is_retry: bool) {
        self.watch.lock().attribute_to(id, actor, is_retry, self.clock.now());
    }

    /// Forgets what `attribute_to` recorded, because the session did not accept the request of the caller.
    pub fn forget_request(&self, id: &SessionId, caller: &str, is_retry: bool) {
        self.watch.lock().forget_request(id, caller, is_retry);
    }

    /// Audits a refused decision. A failure is only logged, because nothing runs in either case.
    pub async fn audit_refusal(&self, id: &SessionId, who: &str, what: &str) {
        let entry = AuditEntry {
            session: id.as_str().to_owned(),
            who: Some(who.to_owned()),
            what: Some(what.to_owned()),
            ..AuditEntry::new(Kind::Refused, self.clock.now())
        };
        if let Err(error) = self.audit.write(vec![entry]).await {
            tracing::error!(%error, "cannot write a rejected decision to the audit log");
        }
    }

    /// Forgets the state of session `s1`, as a new process would.
    #[cfg(test)]
    pub(super) fn watch_forgets(&self) {
        self.watch.lock().forget(&SessionId::new("s1"));
    }

    /// Returns true if events after `after` can be audited without reading the log.
    #[cfg(test)]
    pub(super) fn knows(&self, id: &SessionId, after: Seq) -> bool {
        self.watch.lock().knows(id, after)
    }

    /// Reads the log up to `after` into the tracker, unless the tracker is already exactly there.
    async fn learn(&self, id: &SessionId, after: Seq) -> Result<(), StoreError> {
        if self.watch.lock().knows(id, after) {
            return Ok(());
        }
        self.watch.lock().forget(id);
        let mut seen = Seq(0);
        while seen < after {
            let page = self.inner.load(id, seen, PAGE_EVENTS).await?;
            let Some(last) = page.last() else { break };
            seen = last.seq;
            self.watch.lock().follow(id, page.iter().take_while(|logged| logged.seq <= after));
        }
        Ok(())
    }

    async fn write(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        match (self.audit.write(entries).await, self.failure_policy) {
            (Ok(()), _) => Ok(()),
            (Err(error), AuditFailurePolicy::Stop) => Err(StoreError::Unavailable(error.to_string())),
            (Err(error), AuditFailurePolicy::Continue) => {
                tracing::error!(%error, "cannot write an event to the audit log");
                Ok(())
            }
        }
    }

    /// Writes `void` lines for entries whose events were not stored.
    async fn void_entries(&self, entries: Vec<AuditEntry>) {
        let now = self.clock.now();
        let void = entries.into_iter().map(|entry| AuditEntry {
            session: entry.session,
            seq: entry.seq,
            call: entry.call,
            ..AuditEntry::new(Kind::Void, now)
        });
        if let Err(error) = self.audit.write(void.collect()).await {
            tracing::error!(%error, "the audit log contains an event that was not stored");
        }
    }
}

impl AuditedStore {
    /// Audits events, appends them by awaiting `append`, and notifies spans and listener.
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
            self.watch.lock().follow(id, events.iter().map(AsRef::as_ref));
            return Ok(last);
        }
        self.learn(id, after).await?;
        let entries = self.watch.lock().entries(id, events);
        if let Err(error) = self.write(entries.clone()).await {
            self.watch.lock().forget(id);
            return Err(error);
        }
        let appended = append.await;
        if appended.is_err() {
            self.watch.lock().forget(id);
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
        self.watch.lock().follow(id, &events);
        Ok(events)
    }

    async fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        self.inner.claim(id).await
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
        self.watch.lock().forget(id);
        if deleted.is_err() {
            self.void_entries(vec![line]).await;
        }
        deleted
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        self.inner.annotate(id, annotation).await
    }

    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        self.inner.search(words, limit).await
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
