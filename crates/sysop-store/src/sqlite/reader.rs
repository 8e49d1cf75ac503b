//! Reads event logs over read-only connections.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{SearchHit, SessionSummary, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::database_file::DatabaseFile;
use super::error::{OpenDatabaseError, store_error};
use super::writer::SqliteWriter;
use super::{run_blocking, schema};
use crate::row_codec::{
    FILE_REFERENCE_MARKERS, LogDecoder, SearchHits, SummaryRow, like_pattern, referenced_files_in, summary,
    to_integer, to_seq,
};

/// Maximum number of words that SQLite searches for, to limit expression depth. Other words are checked later.
const PATTERNS_MAX: usize = 32;
/// Maximum concurrent reads; further reads wait. Each read uses its own connection, which has its own cache.
const READS_MAX: usize = 4;

const SELECT_LAST_SEQ: &str = "SELECT last_seq FROM sessions WHERE id = ?";
const LOAD: &str =
    "SELECT seq, at, body FROM events WHERE session = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root, pinned FROM sessions \
                    ORDER BY changed DESC, id DESC LIMIT ?";
const SELECT_REFERENCING_BODIES: &str =
    "SELECT body FROM events WHERE instr(body, ?) > 0 OR instr(body, ?) > 0 OR instr(body, ?) > 0";

/// Reads one database. Connections are opened on demand and then reused.
#[derive(Debug)]
pub(super) struct SqliteReader {
    file: Arc<DatabaseFile>,
    writer: Arc<SqliteWriter>,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl SqliteReader {
    /// Creates the reader; does not connect. `writer` creates missing tables.
    pub(super) fn new(file: Arc<DatabaseFile>, writer: Arc<SqliteWriter>) -> Self {
        Self { file, writer, idle: Mutex::default(), permits: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// See `Store::load`. Returns `NotFound` if the session does not exist.
    pub(super) async fn load(
        self: &Arc<Self>,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let (file, id) = (Arc::clone(&self.file), id.clone());
        self.with_connection(move |connection| load(connection, file.path(), &id, after, limit)).await?
    }

    pub(super) async fn list(self: &Arc<Self>, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.with_connection(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            let rows = list.query_map([to_integer(limit as u64)], |row| SummaryRow::try_from(row))?;
            rows.map(|row| row.map(summary)).collect()
        })
        .await
    }

    pub(super) async fn search(
        self: &Arc<Self>,
        words: &[String],
        limit: usize,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let words = words.to_vec();
        self.with_connection(move |connection| search(connection, &words, limit)).await
    }

    pub(super) async fn referenced_files(
        self: &Arc<Self>,
        files: &HashSet<String>,
    ) -> Result<HashSet<String>, StoreError> {
        if files.is_empty() {
            return Ok(HashSet::new());
        }
        let files = files.clone();
        self.with_connection(move |connection| {
            let mut named = HashSet::new();
            let mut bodies = connection.prepare(SELECT_REFERENCING_BODIES)?;
            let mut rows = bodies.query(FILE_REFERENCE_MARKERS)?;
            while let Some(row) = rows.next()? {
                named.extend(referenced_files_in(row.get_ref(0)?.as_str().unwrap_or_default(), &files));
            }
            Ok(named)
        })
        .await
    }

    /// Closes all connections; the next use opens new ones.
    pub(super) async fn close(self: &Arc<Self>) {
        let reader = Arc::clone(self);
        let closed = run_blocking(move || {
            let idle = std::mem::take(&mut *reader.idle.lock());
            for connection in idle {
                if let Err((_, error)) = connection.close() {
                    tracing::warn!(%error, "the database did not close cleanly");
                }
            }
            Ok(())
        });
        closed.await.ok(); // fails if the runtime is shutting down, which also closes them
    }

    /// Runs a query on a blocking thread.
    pub(super) async fn with_connection<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = Arc::clone(self);
        let permits = self.permits().await;
        run_blocking(move || {
            let _permit = permits;
            let connection = reader.take()?;
            let answer = read(&connection).map_err(|error| reader.fault(&error))?;
            reader.return_connection(connection);
            Ok(answer)
        })
        .await
    }

    async fn permits(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Takes an idle connection or opens one, for exclusive use. A connection that failed is never reused.
    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        match self.try_connect() {
            Ok(Some(connection)) => Ok(connection),
            Err(fault) if !fault.is_read_only() => Err(fault.into_store_error(self.file.path())),
            Ok(None) | Err(_) => {
                self.writer.ensure_open()?;
                self.file.connect_read_only().map_err(|error| self.fault(&error))
            }
        }
    }

    fn return_connection(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < READS_MAX {
            idle.push(connection);
        }
    }

    /// Opens a connection. Returns `None` if the tables are not up to date, so that a writer must migrate them first.
    /// If a crash left a journal, returns an error for which `OpenDatabaseError::is_read_only` is true.
    fn try_connect(&self) -> Result<Option<Connection>, OpenDatabaseError> {
        let connection = self.file.connect_read_only()?;
        let current = schema::is_current(&connection, self.file.path())?;
        Ok(current.then_some(connection))
    }

    fn fault(&self, error: &rusqlite::Error) -> StoreError {
        store_error(self.file.path(), error)
    }
}

/// Loads a page of a log in one transaction, so that a session deleted in the meantime does not look damaged.
fn load(
    connection: &Connection,
    path: &Path,
    id: &SessionId,
    after: Seq,
    limit: usize,
) -> rusqlite::Result<Result<Vec<Logged>, StoreError>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut last = snapshot.prepare_cached(SELECT_LAST_SEQ)?;
    let Some(last) = last.query_row([id.as_str()], |row| row.get(0)).optional()?.map(to_seq) else {
        return Ok(Err(StoreError::NotFound(id.clone())));
    };
    let end = last.0.min(after.0.saturating_add(limit as u64));
    let mut page = snapshot.prepare_cached(LOAD)?;
    let mut rows = page.query(params![id.as_str(), to_integer(after.0), to_integer(end)])?;
    let mut decoder = LogDecoder::new(path.display(), id, after);
    let mut events = Vec::new();
    for _ in after.0..end {
        match decoder.decode(rows.next()?.map(read_row).transpose()?) {
            Ok(event) => events.push(event),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(events))
}

/// Searches one session after another, so that each session is read no further than to its newest match.
fn search(connection: &Connection, words: &[String], limit: usize) -> rusqlite::Result<Vec<SearchHit>> {
    let patterns: Vec<_> = words.iter().take(PATTERNS_MAX).map(|word| like_pattern(word, '!')).collect();
    let all = " AND body LIKE ? ESCAPE '!'".repeat(patterns.len());
    let mut bodies =
        connection.prepare(&format!("SELECT body FROM events WHERE session = ?{all} ORDER BY seq DESC"))?;
    let mut sessions = connection.prepare_cached("SELECT id FROM sessions ORDER BY changed DESC, id DESC")?;
    let mut ids = sessions.query([])?;
    let mut hits = SearchHits::new(words, limit);
    while !hits.is_full()
        && let Some(id) = ids.next()?
    {
        let id = id.get_ref(0)?.as_str().unwrap_or_default();
        let mut rows =
            bodies.query(params_from_iter(std::iter::once(id).chain(patterns.iter().map(String::as_str))))?;
        while let Some(row) = rows.next()?
            && !hits.take(id, row.get_ref(0)?.as_str().unwrap_or_default())
        {}
    }
    Ok(hits.into_hits())
}

/// Reads seq, time and body of a row.
fn read_row<'r>(row: &'r Row<'_>) -> rusqlite::Result<(Seq, Timestamp, &'r str)> {
    // A body that is not text becomes empty, which is not a valid event.
    Ok((to_seq(row.get(0)?), Timestamp(row.get(1)?), row.get_ref(2)?.as_str().unwrap_or_default()))
}
