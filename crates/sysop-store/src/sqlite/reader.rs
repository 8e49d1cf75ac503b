//! Reads event logs over read-only connections.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rusqlite::{Connection, OptionalExtension, Row, params};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{EventVisitor, SessionSummary, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::database_file::DatabaseFile;
use super::error::{OpenDatabaseError, store_error};
use super::reorder_buffer::{BatchSink, ReorderBuffer};
use super::writer::SqliteWriter;
use super::{run_blocking, schema};
use crate::row_codec::{
    FILE_REFERENCE_MARKERS, LogDecoder, SummaryRow, referenced_files_in, summary, to_integer, to_seq,
};

/// Events read per part of a log.
const PART_EVENTS: u64 = 128;
/// Maximum threads that read one log.
const THREADS_MAX: usize = 4;
/// Maximum concurrent reads; later ones wait. Each connection has a cache of its own.
const READS_MAX: usize = 4;

const SELECT_LAST_SEQ: &str = "SELECT last_seq FROM sessions WHERE id = ?";
const LOAD: &str =
    "SELECT seq, at, body FROM events WHERE session = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root FROM sessions \
                    ORDER BY changed DESC, id DESC LIMIT ?";
const SELECT_REFERENCING_BODIES: &str =
    "SELECT body FROM events WHERE instr(body, ?) > 0 OR instr(body, ?) > 0";

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

    /// See `Store::load`. `NotFound` if the session does not exist.
    pub(super) async fn load(
        self: &Arc<Self>,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let (reader, id) = (Arc::clone(self), id.clone());
        let permits = self.permits().await;
        run_blocking(move || {
            let _permit = permits;
            let mut events = Vec::new();
            reader.deliver(&id, after, limit, &mut |mut more| {
                if events.is_empty() {
                    events = more
                } else {
                    events.append(&mut more)
                }
                ControlFlow::Continue(())
            })?;
            Ok(events)
        })
        .await
    }

    /// See `Store::read`. `NotFound` if the session does not exist.
    pub(super) async fn read(
        self: &Arc<Self>,
        id: &SessionId,
        mut take: EventVisitor,
    ) -> Result<(), StoreError> {
        let (reader, id) = (Arc::clone(self), id.clone());
        let permits = self.permits().await;
        run_blocking(move || {
            let _permit = permits;
            reader.deliver(&id, Seq(0), usize::MAX, &mut take)
        })
        .await
    }

    /// Passes events on in order. Several threads, with a connection each, read parts of the log concurrently and take
    /// the next part when done: most of the work is parsing. The reader of a part passes it on, if it is its turn,
    /// while the part is in cache.
    fn deliver(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
        take: BatchSink<'_>,
    ) -> Result<(), StoreError> {
        let connection = self.take()?;
        let last = self.last(&connection, id)?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let end = Seq(last.0.min(after.0.saturating_add(limit as u64)));
        let parts = PartRanges::of(after, end);
        let order = ReorderBuffer::new(take);
        let helpers = parts.count().min(threads_max()).saturating_sub(1);
        let faults = thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers)
                .map(|_| {
                    scope.spawn(|| {
                        // If this thread cannot connect, the others do its work.
                        let Ok(connection) = self.take() else { return None };
                        let fault = self.deliver_parts(&connection, id, &parts, &order).err();
                        if fault.is_none() {
                            self.return_connection(connection);
                        }
                        fault
                    })
                })
                .collect();
            let own = self.deliver_parts(&connection, id, &parts, &order).err();
            let others =
                helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            own.into_iter().chain(others.flatten()).collect::<Vec<_>>()
        });
        // Parts are handed out in order, so all parts before a failed one were read.
        let Some((_, fault)) = faults.into_iter().min_by_key(|(part, _)| *part) else {
            self.return_connection(connection);
            return Ok(());
        };
        if self.last(&connection, id) == Ok(None) {
            return Err(StoreError::NotFound(id.clone())); // deleted in the meantime
        }
        Err(fault)
    }

    /// Reads parts as long as there are any and passes them on. An error is returned with the number of its part.
    fn deliver_parts(
        &self,
        connection: &Connection,
        id: &SessionId,
        parts: &PartRanges,
        order: &ReorderBuffer<'_>,
    ) -> Result<(), (u64, StoreError)> {
        let _end = order.end_on_panic();
        while let Some((part, after, end)) = parts.next() {
            let events = self.read_part(connection, id, after, end).map_err(|error| {
                order.end();
                (part, error)
            })?;
            if order.deliver(part, events).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the last seq of a session; `None` if it does not exist.
    fn last(&self, connection: &Connection, id: &SessionId) -> Result<Option<Seq>, StoreError> {
        let last = || {
            connection.prepare_cached(SELECT_LAST_SEQ)?.query_row([id.as_str()], |row| row.get(0)).optional()
        };
        last().map(|last| last.map(to_seq)).map_err(|error| self.fault(&error))
    }

    fn read_part(
        &self,
        connection: &Connection,
        id: &SessionId,
        after: Seq,
        end: Seq,
    ) -> Result<Vec<Logged>, StoreError> {
        let sqlite = |error: rusqlite::Error| self.fault(&error);
        let mut statement = connection.prepare_cached(LOAD).map_err(sqlite)?;
        let range = params![id.as_str(), to_integer(after.0), to_integer(end.0)];
        let mut rows = statement.query(range).map_err(sqlite)?;
        let expected = usize::try_from(end.0 - after.0).unwrap_or_default();
        let mut reading = LogDecoder::new(self.file.path().display(), id, after, expected);
        for _ in after.0..end.0 {
            let row = rows.next().map_err(sqlite)?;
            reading.push(row.map(read_row).transpose().map_err(sqlite)?)?;
        }
        reading.finish()
    }

    /// See `Store::list`.
    pub(super) async fn list(self: &Arc<Self>, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.with_connection(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            let rows = list.query_map([to_integer(limit as u64)], |row| SummaryRow::try_from(row))?;
            rows.map(|row| row.map(summary)).collect()
        })
        .await
    }

    /// See `Store::referenced_files`.
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
            let idle = std::mem::take(&mut *reader.idle());
            for connection in idle {
                if let Err((_, error)) = connection.close() {
                    tracing::warn!(%error, "the database did not close well");
                }
            }
            Ok(())
        });
        closed.await.ok(); // fails if the runtime shuts down, which closes them, too
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

    /// Returns a connection for exclusive use. One that failed is not returned to the pool.
    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle().pop();
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
        let mut idle = self.idle();
        if idle.len() < THREADS_MAX {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection. `None` if the tables are not current, so that a writer must migrate them first. A crash that
    /// left a journal is an error instead: `OpenDatabaseError::is_read_only`.
    fn try_connect(&self) -> Result<Option<Connection>, OpenDatabaseError> {
        let connection = self.file.connect_read_only()?;
        let current = schema::is_current(&connection, self.file.path())?;
        Ok(current.then_some(connection))
    }

    fn fault(&self, error: &rusqlite::Error) -> StoreError {
        store_error(self.file.path(), error)
    }
}

/// Reads seq, time and body of a row.
fn read_row<'r>(row: &'r Row<'_>) -> rusqlite::Result<(Seq, Timestamp, &'r str)> {
    // A body that is not text becomes empty, which is not a valid event.
    Ok((to_seq(row.get(0)?), Timestamp(row.get(1)?), row.get_ref(2)?.as_str().unwrap_or_default()))
}

/// Range of a log, split into parts that are handed out once each.
struct PartRanges {
    after: Seq,
    end: Seq,
    given: AtomicU64,
}

impl PartRanges {
    fn of(after: Seq, end: Seq) -> Self {
        Self { after, end: end.max(after), given: AtomicU64::new(0) }
    }

    fn count(&self) -> u64 {
        (self.end.0 - self.after.0).div_ceil(PART_EVENTS)
    }

    /// Returns the next part: its number, and the seqs that it is after and up to.
    fn next(&self) -> Option<(u64, Seq, Seq)> {
        let part = self.given.fetch_add(1, Ordering::Relaxed);
        (part < self.count()).then(|| {
            let after = self.after.0 + part * PART_EVENTS;
            (part, Seq(after), Seq(self.end.0.min(after + PART_EVENTS)))
        })
    }
}

fn threads_max() -> u64 {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX) as u64
}
