//! Keeps event logs in this process only: for tests, demos and sessions that are not to be kept.
//!
//! Holds everything that it was given; it must never be used where a log has to outlive its process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{SessionSummary, Store, StoreError};
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord, TokenStore};

use crate::log::{Digest, check_order};
use crate::tokens::{taken, too_many};

/// A store that forgets everything with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    sessions: Mutex<HashMap<SessionId, Kept>>,
    tokens: Mutex<Vec<TokenRecord>>,
}

#[derive(Debug)]
struct Kept {
    summary: SessionSummary,
    events: Vec<Arc<Logged>>,
}

impl MemoryStore {
    /// Begins empty.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Kept>> {
        // Every change below is made after all that can fail, so a panic elsewhere leaves the map whole.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_tokens(&self) -> MutexGuard<'_, Vec<TokenRecord>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        let last = check_order(id, after, events)?;
        let mut sessions = self.sessions();
        let found = sessions.get(id).map_or(Seq(0), |kept| kept.summary.last_seq);
        if found != after {
            return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
        }
        let Some(digest) = Digest::of(events) else { return Ok(last) };
        match sessions.get_mut(id) {
            Some(kept) => {
                kept.summary.changed = digest.last_at;
                kept.summary.last_seq = last;
                if kept.summary.title.is_empty() {
                    kept.summary.title = digest.title;
                }
                kept.events.extend_from_slice(events);
            }
            None => {
                let summary = digest.into_summary(id.clone(), last);
                sessions.insert(id.clone(), Kept { summary, events: events.to_vec() });
            }
        }
        Ok(last)
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        let sessions = self.sessions();
        let kept = sessions.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(kept.events.iter().skip(skip).take(limit).map(|logged| Logged::clone(logged)).collect())
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        let mut summaries: Vec<_> = self.sessions().values().map(|kept| kept.summary.clone()).collect();
        summaries.sort_by(|a, b| (b.changed, &b.id).cmp(&(a.changed, &a.id)));
        summaries.truncate(limit);
        Ok(summaries)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        match self.sessions().remove(id) {
            Some(_) => Ok(()),
            None => Err(StoreError::NotFound(id.clone())),
        }
    }
}

#[async_trait]
impl TokenStore for MemoryStore {
    async fn keep_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let mut tokens = self.kept_tokens();
        if tokens.len() >= TOKENS_MAX {
            return Err(too_many());
        }
        if tokens.iter().any(|kept| kept.id == token.id) {
            return Err(taken(&token.id));
        }
        let at = tokens.partition_point(|kept| (kept.created, &kept.id) < (token.created, &token.id));
        tokens.insert(at, token.clone());
        Ok(())
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        Ok(self.kept_tokens().clone())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let mut tokens = self.kept_tokens();
        let before = tokens.len();
        tokens.retain(|kept| kept.id != *id);
        let was_there = tokens.len() < before;
        tokens.retain(|kept| kept.parent.as_ref() != Some(id));
        Ok(was_there)
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        let mut tokens = self.kept_tokens();
        let kept = tokens.iter_mut().find(|kept| kept.id == *id);
        Ok(kept.is_some_and(|kept| !std::mem::replace(&mut kept.visited, true)))
    }

    async fn tokens_used(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        let mut tokens = self.kept_tokens();
        for (id, at) in uses {
            if let Some(kept) = tokens.iter_mut().find(|kept| kept.id == *id) {
                kept.last_used = kept.last_used.max(Some(*at));
            }
        }
        Ok(())
    }
}
