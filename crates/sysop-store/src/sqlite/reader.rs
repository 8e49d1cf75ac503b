//! Reads event logs over connections that cannot write.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rusqlite::{Connection, OptionalExtension, Row, params};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{SessionSummary, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::{OpenFault, store_error};
use super::file::DatabaseFile;
use super::writer::Writer;
use super::{blocking, schema};
use crate::row::{NAMES_FILES, SummaryRow, decode, named_in, summary, to_integer, to_seq};

/// Events that a thread reads in one go.
const PART_EVENTS: u64 = 512;
/// Threads that read one log.
const THREADS_MAX: usize = 4;
/// Reads at once; later ones wait. Each connection has a cache of its own.
const READS_MAX: usize = 4;

const LAST: &str = "SELECT last_seq FROM sessions WHERE id = ?";
const LOAD: &str =
    "SELECT seq, at, body FROM events WHERE session = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root FROM sessions \
                    ORDER BY changed DESC, id DESC LIMIT ?";
const NAMED: &str = "SELECT body FROM events WHERE instr(body, ?) > 0 OR instr(body, ?) > 0";

/// Reads one database; its connections are made when they are first needed and then kept.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<DatabaseFile>,
    writer: Arc<Writer>,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
}

impl Reader {
    /// Connects to nothing yet; `writer` creates the tables where there are none.
    pub(super) fn new(file: Arc<DatabaseFile>, writer: Arc<Writer>) -> Self {
        Self { file, writer, idle: Mutex::default(), room: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// See `Store::load`; a session that is not there is `NotFound`.
    pub(super) async fn load(
        self: &Arc<Self>,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let (reader, id) = (Arc::clone(self), id.clone());
        let room = self.room().await;
        blocking(move || {
            let _room = room;
            let connection = reader.take()?;
            let last = reader.last(&connection, &id)?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
            let end = Seq(last.0.min(after.0.saturating_add(limit as u64)));
            match reader.read(&connection, &id, after, end) {
                Ok(events) => {
                    reader.give_back(connection);
                    Ok(events)
                }
                Err(error) => Err(reader.first_fault(&connection, id, after, end, error)),
            }
        })
        .await
    }

    /// What is wrong with a log that could not be read: of several faults, the one that comes first in it.
    fn first_fault(
        &self,
        connection: &Connection,
        id: SessionId,
        after: Seq,
        end: Seq,
        fault: StoreError,
    ) -> StoreError {
        if self.last(connection, &id) == Ok(None) {
            return StoreError::NotFound(id); // it was deleted meanwhile
        }
        self.read_parts(connection, &id, &Parts::of(after, end)).err().unwrap_or(fault)
    }

    /// The last event of a session; none where there is no such session.
    fn last(&self, connection: &Connection, id: &SessionId) -> Result<Option<Seq>, StoreError> {
        let last = || connection.prepare_cached(LAST)?.query_row([id.as_str()], |row| row.get(0)).optional();
        last().map(|last| last.map(to_seq)).map_err(|error| self.fault(&error))
    }

    /// Reads events in parts side by side, on threads that have a connection each and take the next part when they are
    /// done with one: most of the work is to make events of what SQLite hands over.
    fn read(
        &self,
        connection: &Connection,
        id: &SessionId,
        after: Seq,
        end: Seq,
    ) -> Result<Vec<Logged>, StoreError> {
        let parts = Parts::of(after, end);
        let helpers = parts.count().min(threads_max()).saturating_sub(1);
        let read = thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers)
                .map(|_| {
                    scope.spawn(|| {
                        let connection = self.take()?;
                        let read = self.read_parts(&connection, id, &parts)?;
                        self.give_back(connection);
                        Ok(read)
                    })
                })
                .collect();
            let mut read = self.read_parts(connection, id, &parts)?;
            for helper in helpers {
                read.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(read)
        });
        let mut read: Vec<_> = read?;
        read.sort_unstable_by_key(|(part, _)| *part);
        let mut whole = Vec::with_capacity(read.iter().map(|(_, events)| events.len()).sum());
        read.iter_mut().for_each(|(_, events)| whole.append(events));
        Ok(whole)
    }

    /// Reads parts as long as there are some, each with its place among them.
    fn read_parts(
        &self,
        connection: &Connection,
        id: &SessionId,
        parts: &Parts,
    ) -> Result<Vec<(u64, Vec<Logged>)>, StoreError> {
        let sqlite = |error: rusqlite::Error| self.fault(&error);
        let mut statement = connection.prepare_cached(LOAD).map_err(sqlite)?;
        let place = self.file.path().display();
        let mut read = Vec::new();
        while let Some((part, after, end)) = parts.next() {
            let range = params![id.as_str(), to_integer(after.0), to_integer(end.0)];
            let mut rows = statement.query(range).map_err(sqlite)?;
            let mut events = Vec::with_capacity(usize::try_from(end.0 - after.0).unwrap_or_default());
            let mut seq = after;
            while seq < end {
                seq = seq.next();
                let row = rows.next().map_err(sqlite)?;
                let stored = row.map(|row| stored(row, seq)).transpose().map_err(sqlite)?.flatten();
                events.push(decode(&place, id, seq, stored)?);
            }
            read.push((part, events));
        }
        Ok(read)
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

    /// See `Store::named`.
    pub(super) async fn named(
        self: &Arc<Self>,
        files: &HashSet<String>,
    ) -> Result<HashSet<String>, StoreError> {
        if files.is_empty() {
            return Ok(HashSet::new());
        }
        let files = files.clone();
        self.with_connection(move |connection| {
            let mut named = HashSet::new();
            let mut bodies = connection.prepare(NAMED)?;
            let mut rows = bodies.query(NAMES_FILES)?;
            while let Some(row) = rows.next()? {
                named.extend(named_in(row.get_ref(0)?.as_str().unwrap_or_default(), &files));
            }
            Ok(named)
        })
        .await
    }

    /// Closes its connections; the next use makes another.
    pub(super) async fn close(self: &Arc<Self>) {
        let reader = Arc::clone(self);
        let closed = blocking(move || {
            let idle = std::mem::take(&mut *reader.idle());
            for connection in idle {
                if let Err((_, error)) = connection.close() {
                    tracing::warn!(%error, "the database did not close well");
                }
            }
            Ok(())
        });
        closed.await.ok(); // it fails where the runtime ends, which closes them too
    }

    /// Reads something.
    pub(super) async fn with_connection<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = Arc::clone(self);
        let room = self.room().await;
        blocking(move || {
            let _room = room;
            let connection = reader.take()?;
            let answer = read(&connection).map_err(|error| reader.fault(&error))?;
            reader.give_back(connection);
            Ok(answer)
        })
        .await
    }

    async fn room(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// A connection that nobody else uses. One that failed is not given back.
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
                self.file.for_reading().map_err(|error| self.fault(&error))
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < THREADS_MAX {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None where a writer has to put the file in order first: its tables are not those of today. So it has to where
    /// a crash left something half done, which is an error here: `OpenFault::is_read_only`.
    fn try_connect(&self) -> Result<Option<Connection>, OpenFault> {
        let connection = self.file.for_reading()?;
        let current = schema::is_current(&connection, self.file.path())?;
        Ok(current.then_some(connection))
    }

    fn fault(&self, error: &rusqlite::Error) -> StoreError {
        store_error(self.file.path(), error)
    }
}

/// Time and body of a row; none where it is not that of `expected`.
fn stored<'r>(row: &'r Row<'_>, expected: Seq) -> rusqlite::Result<Option<(Timestamp, &'r str)>> {
    if to_seq(row.get(0)?) != expected {
        return Ok(None);
    }
    // What is no text any more is no event either.
    Ok(Some((Timestamp(row.get(1)?), row.get_ref(2)?.as_str().unwrap_or_default())))
}

/// The events of a log after one and up to another, in parts that are given out once each.
struct Parts {
    after: Seq,
    end: Seq,
    given: AtomicU64,
}

impl Parts {
    fn of(after: Seq, end: Seq) -> Self {
        Self { after, end: end.max(after), given: AtomicU64::new(0) }
    }

    fn count(&self) -> u64 {
        (self.end.0 - self.after.0).div_ceil(PART_EVENTS)
    }

    /// The next one: which it is, and what it is after and up to.
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
