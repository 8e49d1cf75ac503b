//! Stores event logs only in the memory of this process: for tests, demos and sessions that need not be kept.
//!
//! Never use this store for a log that must outlive the process. Its memory is not bounded.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{Annotation, SessionSummary, Store, StoreError};
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord, TokenStore};

use crate::batch::{BatchSummary, check_seq_order};
use crate::tokens::{duplicate_token_error, too_many_tokens_error};

/// A store whose contents are lost when the process exits.
#[derive(Debug, Default)]
pub struct MemoryStore {
    // Every change is made after the last fallible step, so a panic leaves the map consistent.
    sessions: Mutex<HashMap<SessionId, StoredSession>>,
    tokens: Mutex<Vec<TokenRecord>>,
}

#[derive(Debug)]
struct StoredSession {
    summary: SessionSummary,
    events: Vec<Arc<Logged>>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        let last = check_seq_order(id, after, events)?;
        let mut sessions = self.sessions.lock();
        let found = sessions.get(id).map_or(Seq(0), |stored| stored.summary.last_seq);
        if found != after {
            return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
        }
        let Some(batch_summary) = BatchSummary::of(events) else { return Ok(last) };
        match sessions.get_mut(id) {
            Some(stored) => {
                stored.summary.changed = batch_summary.last_at;
                stored.summary.last_seq = last;
                if stored.summary.title.is_empty() {
                    stored.summary.title = batch_summary.title;
                }
                stored.events.extend_from_slice(events);
            }
            None => {
                let summary = batch_summary.into_summary(id.clone(), last);
                sessions.insert(id.clone(), StoredSession { summary, events: events.to_vec() });
            }
        }
        Ok(last)
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        let sessions = self.sessions.lock();
        let stored = sessions.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(stored.events.iter().skip(skip).take(limit).map(|logged| Logged::clone(logged)).collect())
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        let mut summaries: Vec<_> =
            self.sessions.lock().values().map(|stored| stored.summary.clone()).collect();
        summaries.sort_by(|a, b| (b.changed, &b.id).cmp(&(a.changed, &a.id)));
        summaries.truncate(limit);
        Ok(summaries)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        match self.sessions.lock().remove(id) {
            Some(_) => Ok(()),
            None => Err(StoreError::NotFound(id.clone())),
        }
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        let mut sessions = self.sessions.lock();
        let stored = sessions.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let summary = &mut stored.summary;
        summary.title = annotation.title.clone().unwrap_or_else(|| std::mem::take(&mut summary.title));
        summary.pinned = annotation.pinned.unwrap_or(summary.pinned);
        Ok(())
    }
}

#[async_trait]
impl TokenStore for MemoryStore {
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let mut tokens = self.tokens.lock();
        if tokens.len() >= TOKENS_MAX {
            return Err(too_many_tokens_error());
        }
        if tokens.iter().any(|stored| stored.id == token.id) {
            return Err(duplicate_token_error(&token.id));
        }
        let at = tokens.partition_point(|stored| (stored.created, &stored.id) < (token.created, &token.id));
        tokens.insert(at, token.clone());
        Ok(())
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        Ok(self.tokens.lock().clone())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let mut tokens = self.tokens.lock();
        let before = tokens.len();
        tokens.retain(|stored| stored.id != *id);
        let was_there = tokens.len() < before;
        let mut gone = vec![id.clone()];
        while let Some(parent) = gone.pop() {
            let children = tokens.extract_if(.., |stored| stored.parent.as_ref() == Some(&parent));
            gone.extend(children.map(|child| child.id));
        }
        Ok(was_there)
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        let mut tokens = self.tokens.lock();
        let stored = tokens.iter_mut().find(|stored| stored.id == *id);
        Ok(stored.is_some_and(|stored| !std::mem::replace(&mut stored.visited, true)))
    }

    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        let mut tokens = self.tokens.lock();
        for (id, at) in uses {
            if let Some(stored) = tokens.iter_mut().find(|stored| stored.id == *id) {
                stored.last_used = stored.last_used.max(Some(*at));
            }
        }
        Ok(())
    }
}
