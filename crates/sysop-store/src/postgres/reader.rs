//! Reads event logs.

use futures::TryStreamExt;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sysop_core::event::{Event, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{SessionSummary, StoreError};

use super::database::Database;
use crate::row::{kind, to_integer, to_seq};

/// The log has no gaps, so a page ends where its last seq is: no sorting, no counting.
const LOAD: &str =
    "SELECT seq, at, body FROM sysop_events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root FROM sysop_sessions \
                    ORDER BY changed DESC, id DESC LIMIT $1";

impl Database {
    /// See `Store::load`; a session that is not there is `NotFound`.
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
            let (mut events, mut last) = (Vec::new(), after);
            while let Some(row) = rows.try_next().await? {
                let (seq, at, body) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                match self.logged(id, last.next(), (to_seq(seq), Timestamp(at), body)) {
                    Ok(logged) => events.push(logged),
                    Err(error) => return Ok(Err(error)),
                }
                last = last.next();
            }
            Ok(Ok(events))
        };
        let events = self.retried(read).await??;
        if events.is_empty() && !self.exists(id).await? {
            return Err(StoreError::NotFound(id.clone()));
        }
        Ok(events)
    }

    /// See `Store::list`.
    pub(super) async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        let read = || sqlx::query(LIST).bind(to_integer(limit as u64)).fetch_all(&self.pool);
        let rows = self.retried(read).await?;
        rows.iter().map(|row| summary(row).map_err(|error| self.fault(&error))).collect()
    }

    /// `after` where the log ends there.
    pub(super) async fn compare(&self, id: &SessionId, after: Seq) -> Result<Seq, StoreError> {
        let read = || {
            sqlx::query_scalar("SELECT last_seq FROM sysop_sessions WHERE id = $1")
                .bind(id.as_str())
                .fetch_optional(&self.pool)
        };
        let found = to_seq(self.retried(read).await?.unwrap_or(0));
        if found == after {
            return Ok(after);
        }
        Err(StoreError::Conflict { id: id.clone(), expected: after, found })
    }

    /// See `Store::delete`. Of two tries whose first had no answer, the second may find nothing.
    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let delete = || async {
            let done = sqlx::query("DELETE FROM sysop_sessions WHERE id = $1").bind(id.as_str());
            Ok(done.execute(&self.pool).await?.rows_affected())
        };
        match self.retried(delete).await? {
            0 => Err(StoreError::NotFound(id.clone())),
            _ => Ok(()),
        }
    }

    async fn exists(&self, id: &SessionId) -> Result<bool, StoreError> {
        let read = || {
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sysop_sessions WHERE id = $1)")
                .bind(id.as_str())
                .fetch_one(&self.pool)
        };
        self.retried(read).await
    }

    fn logged(
        &self,
        id: &SessionId,
        expected: Seq,
        (seq, at, body): (Seq, Timestamp, &str),
    ) -> Result<Logged, StoreError> {
        if seq != expected {
            return Err(StoreError::Corrupt(format!(
                "event {expected} of session {id} is missing from the database {}; delete the session with \
                 `sysop sessions delete {id}` or restore the database",
                self.place
            )));
        }
        match serde_json::from_str::<Event>(body) {
            Ok(event) => Ok(Logged { seq, at, event }),
            Err(_) => Err(StoreError::Corrupt(format!(
                "event {expected} ({}) of session {id} in the database {} cannot be read; it was written by a newer \
                 sysop or is damaged: use that version, or delete the session with `sysop sessions delete {id}`",
                kind(body),
                self.place
            ))),
        }
    }
}

fn summary(row: &PgRow) -> Result<SessionSummary, sqlx::Error> {
    Ok(SessionSummary {
        id: SessionId::new(row.try_get::<String, _>(0)?),
        title: row.try_get(1)?,
        created: Timestamp(row.try_get(2)?),
        changed: Timestamp(row.try_get(3)?),
        last_seq: to_seq(row.try_get(4)?),
        host: row.try_get(5)?,
        root: row.try_get(6)?,
    })
}
