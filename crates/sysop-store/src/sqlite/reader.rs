//! Reads event logs over a connection that cannot write.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions, Connection, Row};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{SessionSummary, StoreError};
use tokio::sync::{Mutex, MutexGuard};

use super::fault::{OpenFault, is_too_big, store_error};
use super::file::DatabaseFile;
use super::schema;
use super::writer::Writer;
use crate::row::{NAMES_FILES, SummaryRow, decode, named_in, summary, to_integer, to_seq};

/// Events that SQLite hands over in one row, and that are decoded in one go. A row for each event costs more than
/// reading it: with rows of its own a log of 100,000 events takes twice as long.
const CHUNK_EVENTS: i64 = 512;
/// The same, where a chunk would be longer than the 10^9 bytes that SQLite lets a value have; this many events of
/// `EVENT_BYTES_MAX` are not.
const SMALL_CHUNK_EVENTS: i64 = 32;
/// Threads that decode one log. SQLite reads on one thread, at about twice the speed of one that decodes.
const DECODERS_MAX: usize = 4;

/// One row for each run of `?4` seqs, a line `SEQ AT BODY` for each event, and the seq where the run ends;
/// JSON has no raw line feed.
/// The log has no gaps, so the runs are counted off rather than searched for.
const LOAD: &str = "
    WITH RECURSIVE
        last (seq) AS (SELECT CASE WHEN last_seq - ?2 > ?3 THEN ?2 + ?3 ELSE last_seq END
                       FROM sessions WHERE id = ?1),
        chunk (first) AS (SELECT ?2 + 1 FROM last WHERE ?2 < last.seq
                          UNION ALL
                          SELECT first + ?4 FROM chunk, last WHERE first + ?4 <= last.seq)
    SELECT (SELECT group_concat(seq || ' ' || at || ' ' || body, char(10))
            FROM (SELECT seq, at, body FROM events
                  WHERE session = ?1 AND seq >= first AND seq < first + ?4 AND seq <= (SELECT seq FROM last)
                  ORDER BY seq)),
           min(first + ?4 - 1, (SELECT seq FROM last))
    FROM chunk";
const LIST: &str = "SELECT id, title, created, changed, last_seq, host, root FROM sessions \
                    ORDER BY changed DESC, id DESC LIMIT ?";

const NAMED: &str = "SELECT body FROM events WHERE instr(body, ?) > 0 OR instr(body, ?) > 0";

/// Reads one database; its connection is made at the first use and then kept.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<DatabaseFile>,
    writer: Arc<Writer>,
    connection: Mutex<Option<SqliteConnection>>,
}

impl Reader {
    /// Connects to nothing yet; `writer` creates the tables where there are none.
    pub(super) fn new(file: Arc<DatabaseFile>, writer: Arc<Writer>) -> Self {
        Self { file, writer, connection: Mutex::new(None) }
    }

    /// See `Store::load`; a session that is not there is `NotFound`.
    pub(super) async fn load(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let mut slot = self.connected().await?;
        let connection = slot.as_mut().expect("connected() fills it");
        let mut events = self.read(connection, id, after, limit, CHUNK_EVENTS).await;
        if matches!(&events, Err(ReadFault::Sqlite(error)) if is_too_big(error)) {
            events = self.read(connection, id, after, limit, SMALL_CHUNK_EVENTS).await;
        }
        let events = events.map_err(|fault| match fault {
            ReadFault::Sqlite(error) => self.fault(&error),
            ReadFault::Event(error) => error,
        })?;
        if events.is_empty() && !self.exists(connection, id).await? {
            return Err(StoreError::NotFound(id.clone()));
        }
        Ok(events)
    }

    async fn read(
        &self,
        connection: &mut SqliteConnection,
        id: &SessionId,
        after: Seq,
        limit: usize,
        chunk_events: i64,
    ) -> Result<Vec<Logged>, ReadFault> {
        let rows = sqlx::query(LOAD)
            .bind(id.as_str())
            .bind(to_integer(after.0))
            .bind(to_integer(limit as u64))
            .bind(chunk_events)
            .fetch(connection);
        let mut last = after;
        let chunks = rows.map(|row| {
            let (id, file) = (id.clone(), Arc::clone(&self.file));
            let chunk = Chunk::new(row?, last, id, file)?;
            last = chunk.end;
            Ok(chunk.decode_aside())
        });
        chunks.try_buffered(decoders()).try_concat().await
    }

    /// See `Store::list`.
    pub(super) async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        let mut slot = self.connected().await?;
        let connection = slot.as_mut().expect("connected() fills it");
        let list = sqlx::query_as::<_, SummaryRow>(LIST).bind(to_integer(limit as u64));
        let rows = list.fetch_all(connection).await.map_err(|error| self.fault(&error))?;
        Ok(rows.into_iter().map(summary).collect())
    }

    /// See `Store::named`. On a connection of its own: others read meanwhile.
    pub(super) async fn named(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        let mut named = HashSet::new();
        if files.is_empty() {
            return Ok(named);
        }
        drop(self.connected().await?); // it sees to the tables
        let mut connection = self.file.for_reading().connect().await.map_err(|error| self.fault(&error))?;
        {
            let mut bodies = sqlx::query_scalar::<_, String>(NAMED)
                .bind(NAMES_FILES[0])
                .bind(NAMES_FILES[1])
                .fetch(&mut connection);
            while let Some(body) = bodies.try_next().await.map_err(|error| self.fault(&error))? {
                named.extend(named_in(&body, files));
            }
        }
        connection.close().await.map_err(|error| self.fault(&error))?;
        Ok(named)
    }

    /// Closes its connection; the next use makes another.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database did not close well");
        }
    }

    pub(super) async fn connected(&self) -> Result<MutexGuard<'_, Option<SqliteConnection>>, StoreError> {
        let mut slot = self.connection.lock().await;
        if slot.is_none() {
            match self.connect().await {
                Ok(Some(connection)) => *slot = Some(connection),
                Ok(None) => {
                    self.writer.ensure_open().await?;
                    *slot =
                        Some(self.file.for_reading().connect().await.map_err(|error| self.fault(&error))?);
                }
                Err(fault) => return Err(fault.into_store_error(self.file.path())),
            }
        }
        Ok(slot)
    }

    /// None where a writer has to put the file in order first: its tables are not those of today, or a crash left
    /// something half done.
    async fn connect(&self) -> Result<Option<SqliteConnection>, OpenFault> {
        match self.try_connect().await {
            Err(fault) if fault.is_read_only() => Ok(None),
            result => result,
        }
    }

    async fn try_connect(&self) -> Result<Option<SqliteConnection>, OpenFault> {
        let mut connection = self.file.for_reading().connect().await?;
        let current = schema::is_current(&mut connection, self.file.path()).await?;
        Ok(current.then_some(connection))
    }

    async fn exists(&self, connection: &mut SqliteConnection, id: &SessionId) -> Result<bool, StoreError> {
        let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM sessions WHERE id = ?")
            .bind(id.as_str())
            .fetch_optional(connection)
            .await
            .map_err(|error| self.fault(&error))?;
        Ok(found.is_some())
    }

    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        store_error(self.file.path(), error)
    }
}

/// Why a log cannot be read.
enum ReadFault {
    Sqlite(sqlx::Error),
    Event(StoreError),
}

impl From<sqlx::Error> for ReadFault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Events without gaps, as SQLite handed them over.
struct Chunk {
    row: SqliteRow,
    /// The event before its first.
    after: Seq,
    /// Its last event.
    end: Seq,
    id: SessionId,
    file: Arc<DatabaseFile>,
}

impl Chunk {
    fn new(row: SqliteRow, after: Seq, id: SessionId, file: Arc<DatabaseFile>) -> Result<Self, sqlx::Error> {
        Ok(Self { after, end: to_seq(row.try_get(1)?), row, id, file })
    }

    /// Decodes a whole chunk on a thread of its own, for a long log takes longer to decode than to read. A short
    /// log, or the end of one, is not worth the thread.
    async fn decode_aside(self) -> Result<Vec<Logged>, ReadFault> {
        if self.end.0.saturating_sub(self.after.0) < SMALL_CHUNK_EVENTS.unsigned_abs() {
            return self.decode();
        }
        match tokio::task::spawn_blocking(move || self.decode()).await {
            Ok(decoded) => decoded,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(ReadFault::Event(StoreError::Unavailable(
                "sysop was stopped while it read the log of a session".to_owned(),
            ))),
        }
    }

    fn decode(self) -> Result<Vec<Logged>, ReadFault> {
        // None where all of it is missing.
        let text: Option<&str> = self.row.try_get(0)?;
        let mut lines = text.unwrap_or_default().split('\n');
        let place = self.file.path().display();
        let events = (self.after.0 + 1..=self.end.0)
            .map(Seq)
            .map(|seq| decode(&place, &self.id, seq, split(lines.next().unwrap_or_default(), seq)));
        events.collect::<Result<_, _>>().map_err(ReadFault::Event)
    }
}

/// How many chunks are decoded at once.
fn decoders() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(DECODERS_MAX)
}

/// Time and body of a line of a chunk; none where it is not that of `expected`.
fn split(line: &str, expected: Seq) -> Option<(Timestamp, &str)> {
    let (seq, rest) = line.split_once(' ')?;
    let (at, body) = rest.split_once(' ')?;
    if seq.parse() != Ok(expected.0) {
        return None;
    }
    Some((Timestamp(at.parse().ok()?), body))
}
