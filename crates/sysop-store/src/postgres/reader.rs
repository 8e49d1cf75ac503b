//! Reads event logs.

use std::collections::HashSet;

use futures::TryStreamExt;
use sqlx::Row;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{Annotation, SearchHit, SessionSummary, StoreError};

use super::database::Database;
use crate::row_codec::{
    FILE_REFERENCE_MARKERS, LogDecoder, SearchHits, SummaryRow, like_pattern, referenced_files_in, summary,
    to_integer, to_seq,
};

/// Selects a page of a log: at most `$3` events after the seq `$2`, in order.
const LOAD: &str =
    "SELECT seq, at, body FROM sysop_events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root, pinned FROM sysop_sessions \
                    ORDER BY changed DESC, id DESC LIMIT $1";

const ANNOTATE: &str =
    "UPDATE sysop_sessions SET title = coalesce($1, title), pinned = coalesce($2, pinned) WHERE id = $3";
/// Selects the events that match all patterns of `$1`; rows of one session follow one another.
const SEARCH: &str = "SELECT session, body FROM sysop_events JOIN sysop_sessions ON id = session \
                      WHERE body ILIKE ALL ($1) ORDER BY changed DESC, session DESC, seq DESC";

const SELECT_REFERENCING_BODIES: &str = "SELECT body FROM sysop_events \
     WHERE strpos(body, $1) > 0 OR strpos(body, $2) > 0 OR strpos(body, $3) > 0";

impl Database {
    /// See `Store::load`. Returns `NotFound` if the session does not exist.
    pub(super) async fn load(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let read = || async {
            let query =
                sqlx::query(LOAD).bind(id.as_str()).bind(to_integer(after.0)).bind(to_integer(limit as u64));
            let mut rows = query.fetch(&self.pool);
            let mut decoder = LogDecoder::new(&self.place, id, after);
            let mut events = Vec::new();
            while let Some(row) = rows.try_next().await? {
                let stored = (to_seq(row.try_get(0)?), Timestamp(row.try_get(1)?), row.try_get(2)?);
                match decoder.decode(Some(stored)) {
                    Ok(event) => events.push(event),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(events))
        };
        let events = self.retry(read).await??;
        if events.is_empty() && !self.exists(id).await? {
            return Err(StoreError::NotFound(id.clone()));
        }
        Ok(events)
    }

    pub(super) async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        let read =
            || sqlx::query_as::<_, SummaryRow>(LIST).bind(to_integer(limit as u64)).fetch_all(&self.pool);
        Ok(self.retry(read).await?.into_iter().map(summary).collect())
    }

    /// Returns `after` if the log ends there, and the error `Conflict` otherwise.
    pub(super) async fn check_last_seq(&self, id: &SessionId, after: Seq) -> Result<Seq, StoreError> {
        let read = || {
            sqlx::query_scalar("SELECT last_seq FROM sysop_sessions WHERE id = $1")
                .bind(id.as_str())
                .fetch_optional(&self.pool)
        };
        let found = to_seq(self.retry(read).await?.unwrap_or(0));
        if found == after {
            return Ok(after);
        }
        Err(StoreError::Conflict { id: id.clone(), expected: after, found })
    }

    /// See `Store::delete`. If the reply to the first attempt is lost, a retry may return `NotFound`.
    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let delete = || async {
            let done = sqlx::query("DELETE FROM sysop_sessions WHERE id = $1").bind(id.as_str());
            Ok(done.execute(&self.pool).await?.rows_affected())
        };
        match self.retry(delete).await? {
            0 => Err(StoreError::NotFound(id.clone())),
            _ => Ok(()),
        }
    }

    pub(super) async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        let annotate = || async {
            let done = sqlx::query(ANNOTATE)
                .bind(annotation.title.as_deref())
                .bind(annotation.pinned)
                .bind(id.as_str());
            Ok(done.execute(&self.pool).await?.rows_affected())
        };
        match self.retry(annotate).await? {
            0 => Err(StoreError::NotFound(id.clone())),
            _ => Ok(()),
        }
    }

    pub(super) async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        let patterns: Vec<_> = words.iter().map(|word| like_pattern(word, '\\')).collect();
        let query = sqlx::query_as::<_, (String, String)>(SEARCH).bind(patterns);
        let mut rows = query.fetch(&self.pool);
        let mut hits = SearchHits::new(words, limit);
        while !hits.is_full()
            && let Some((session, body)) = rows.try_next().await.map_err(|error| self.fault(&error))?
        {
            hits.take(&session, &body);
        }
        Ok(hits.into_hits())
    }

    pub(super) async fn referenced_files(
        &self,
        files: &HashSet<String>,
    ) -> Result<HashSet<String>, StoreError> {
        let mut named = HashSet::new();
        if files.is_empty() {
            return Ok(named);
        }
        let query = sqlx::query_scalar::<_, String>(SELECT_REFERENCING_BODIES)
            .bind(FILE_REFERENCE_MARKERS[0])
            .bind(FILE_REFERENCE_MARKERS[1])
            .bind(FILE_REFERENCE_MARKERS[2]);
        let mut bodies = query.fetch(&self.pool);
        while let Some(body) = bodies.try_next().await.map_err(|error| self.fault(&error))? {
            named.extend(referenced_files_in(&body, files));
        }
        Ok(named)
    }

    async fn exists(&self, id: &SessionId) -> Result<bool, StoreError> {
        let read = || {
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sysop_sessions WHERE id = $1)")
                .bind(id.as_str())
                .fetch_one(&self.pool)
        };
        self.retry(read).await
    }
}
