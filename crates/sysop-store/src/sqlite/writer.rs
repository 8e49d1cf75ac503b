//! Writes event logs: one connection, one transaction at a time, many appends per transaction.
//!
//! Appends that arrive while a transaction is in progress wait and share the next one, so that many sessions
//! share one fsync. No append is acknowledged before it is durable. A dedicated thread writes, so that no
//! other blocking work delays the writes. The thread exits after a while without work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension, params};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{Annotation, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::database_file::DatabaseFile;
use super::error::store_error;
use super::{backup, run_blocking, schema};
use crate::batch::{BatchSummary, check_seq_order};
use crate::row_codec::{EncodedBatch, EventRow, to_integer, to_seq};

/// Maximum queued writes. If the queue is full, callers wait for space in it.
pub(super) const JOBS_WAITING_MAX: usize = 1024;
const GROUP_JOBS_MAX: usize = 256;
/// Number of event bytes after which a transaction takes no further writes.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Time that the writer thread waits for more work before it exits.
const IDLE_MAX: Duration = Duration::from_secs(10);

const BEGIN_SESSION: &str = "INSERT INTO sessions (id, title, created, changed, last_seq, host, root) \
                             VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
const CONTINUE_SESSION: &str = "UPDATE sessions SET last_seq = ?1, changed = ?2, \
                                title = CASE title WHEN '' THEN ?3 ELSE title END \
                                WHERE id = ?4 AND last_seq = ?5";
const ANNOTATE: &str =
    "UPDATE sessions SET title = coalesce(?1, title), pinned = coalesce(?2, pinned) WHERE id = ?3";
const INSERT: &str = "INSERT INTO events (session, seq, at, body) VALUES (?, ?, ?, ?)";

#[derive(Debug)]
pub(super) struct SqliteWriter {
    file: Arc<DatabaseFile>,
    pub(super) permits: Arc<Semaphore>,
    /// No code that can panic runs under this lock.
    queue: Mutex<WriteQueue>,
    /// Notified when there is more to write.
    work_available: Condvar,
    /// Locked only by threads that are allowed to block.
    pub(super) connection: tokio::sync::Mutex<Option<Connection>>,
}

#[derive(Debug, Default)]
struct WriteQueue {
    jobs: VecDeque<WriteJob>,
    /// True if a thread is working on the queue.
    has_worker: bool,
}

/// One write, with the caller that is waiting for it.
#[derive(Debug)]
struct WriteJob {
    id: SessionId,
    work: WriteOp,
    answer: oneshot::Sender<Result<Seq, StoreError>>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum WriteOp {
    Append { after: Seq, last: Seq, rows: Option<EncodedBatch> },
    Delete,
}

impl SqliteWriter {
    /// Creates the writer; does not connect.
    pub(super) fn new(file: Arc<DatabaseFile>) -> Self {
        Self {
            file,
            permits: Arc::new(Semaphore::new(JOBS_WAITING_MAX)),
            queue: Mutex::default(),
            work_available: Condvar::new(),
            connection: tokio::sync::Mutex::new(None),
        }
    }

    /// See `Store::append`. Once queued, the append completes even if the caller is dropped.
    pub(super) async fn append(
        self: &Arc<Self>,
        id: &SessionId,
        after: Seq,
        events: &[Arc<Logged>],
    ) -> Result<Seq, StoreError> {
        let last = check_seq_order(id, after, events)?;
        let rows = EncodedBatch::of(events)?;
        self.submit(id, WriteOp::Append { after, last, rows }).await
    }

    /// See `Store::delete`. After success, no file of the database contains the session's text.
    pub(super) async fn delete(self: &Arc<Self>, id: &SessionId) -> Result<(), StoreError> {
        self.submit(id, WriteOp::Delete).await?;
        // Versions before 3 left the text of deleted sessions in free pages.
        let migrated = !backup::all(self.file.path()).is_empty();
        let emptied = self
            .with_connection(move |connection| {
                if migrated {
                    connection.execute_batch("VACUUM")?;
                }
                // The pragma returns one row: a busy flag and two page counts.
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
            })
            .await;
        let (path, deleted) = (self.file.path().to_owned(), id.clone());
        let erased = run_blocking(move || backup::erase(&path, &deleted)).await;
        match emptied {
            Ok(0) => erased,
            Ok(_) | Err(_) => Err(StoreError::Unavailable(format!(
                "session {id} is deleted, but its text stays in {}-wal until all processes that read the database have \
                 exited",
                self.file.path().display()
            ))),
        }
    }

    pub(super) async fn annotate(
        self: &Arc<Self>,
        id: &SessionId,
        Annotation { title, pinned }: &Annotation,
    ) -> Result<(), StoreError> {
        let (of, title, pinned) = (id.clone(), title.clone(), *pinned);
        let changed = self
            .with_connection(move |connection| {
                connection.prepare_cached(ANNOTATE)?.execute(params![title, pinned, of.as_str()])
            })
            .await?;
        if changed == 0 { Err(StoreError::NotFound(id.clone())) } else { Ok(()) }
    }

    /// Connects if there is no connection yet, and creates or migrates the tables. Blocks the calling thread.
    pub(super) fn ensure_open(&self) -> Result<(), StoreError> {
        let mut slot = self.connection.blocking_lock();
        if slot.is_none() {
            *slot = Some(schema::open(&self.file)?);
        }
        Ok(())
    }

    /// Closes the connection between two transactions; the next use opens another.
    pub(super) async fn close(self: &Arc<Self>) {
        let writer = Arc::clone(self);
        let closed = run_blocking(move || {
            if let Some(connection) = writer.connection.blocking_lock().take() {
                close(connection);
            }
            Ok(())
        });
        closed.await.ok(); // fails if the runtime is shutting down, which also closes the connection
    }

    /// Runs work on the connection between two transactions.
    pub(super) async fn with_connection<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let writer = Arc::clone(self);
        run_blocking(move || {
            let mut slot = writer.connection.blocking_lock();
            if slot.is_none() {
                *slot = Some(schema::open(&writer.file)?);
            }
            work(slot.as_ref().expect("the connection was just opened")).map_err(|error| writer.fault(&error))
        })
        .await
    }

    async fn submit(self: &Arc<Self>, id: &SessionId, work: WriteOp) -> Result<Seq, StoreError> {
        let permits = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let (answer, answered) = oneshot::channel();
        let job = WriteJob { id: id.clone(), work, answer, _permit: permits };
        let start = {
            let mut queue = self.queue.lock();
            queue.jobs.push_back(job);
            !std::mem::replace(&mut queue.has_worker, true)
        };
        if start {
            self.start()?;
        } else {
            self.work_available.notify_one();
        }
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!(
                "sysop was stopped while it wrote to database {}; restart it to see what was stored",
                self.file.path().display()
            )))
        })
    }

    /// Starts the writer thread. If the system cannot create a thread, the queued writes fail.
    fn start(self: &Arc<Self>) -> Result<(), StoreError> {
        let worker = WriterThread { writer: Arc::clone(self) };
        let started = thread::Builder::new().name("sysop-sqlite".to_owned()).spawn(move || worker.run());
        started.map(|_| ()).map_err(|error| {
            let mut queue = self.queue.lock();
            queue.has_worker = false;
            queue.jobs.clear(); // their callers get an error
            StoreError::Unavailable(format!("cannot create a thread to write the database: {error}"))
        })
    }

    /// Writes a group and replies to each of its jobs.
    fn write(&self, group: Vec<WriteJob>) {
        match self.run_transaction(&group) {
            Ok(answers) => {
                for (job, answer) in group.into_iter().zip(answers) {
                    job.reply(answer);
                }
            }
            Err(error) if group.len() == 1 => {
                for job in group {
                    job.reply(Err(error.clone()));
                }
            }
            // One job may have caused the error; the others must not fail because of it.
            Err(_) => {
                for job in group {
                    let answer = self.run_transaction(std::slice::from_ref(&job));
                    job.reply(answer.and_then(|mut answers| answers.pop().expect("each job has an answer")));
                }
            }
        }
    }

    /// Runs a group of jobs in one transaction. If this fails, nothing was stored.
    fn run_transaction(&self, group: &[WriteJob]) -> Result<Vec<Result<Seq, StoreError>>, StoreError> {
        let mut slot = self.connection.blocking_lock();
        // Taken out during the transaction: if SQLite fails, dropping the connection rolls it back.
        let connection = match slot.take() {
            Some(connection) => connection,
            None => schema::open(&self.file)?,
        };
        match transaction(&connection, group) {
            Ok(answers) => {
                *slot = Some(connection);
                Ok(answers)
            }
            Err(error) => {
                close(connection);
                Err(self.fault(&error))
            }
        }
    }

    fn fault(&self, error: &rusqlite::Error) -> StoreError {
        store_error(self.file.path(), error)
    }
}

/// The writer thread. If it panics, the next write starts another.
struct WriterThread {
    writer: Arc<SqliteWriter>,
}

impl WriterThread {
    fn run(self) {
        while let Some(group) = self.next_group() {
            self.writer.write(group);
        }
    }

    /// Waits for work and returns the next group of jobs. Returns `None` after a while without work.
    fn next_group(&self) -> Option<Vec<WriteJob>> {
        let mut queue = self.writer.queue.lock();
        self.writer.work_available.wait_while_for(&mut queue, |queue| queue.jobs.is_empty(), IDLE_MAX);
        let group = queue.take_group();
        if group.is_empty() {
            queue.has_worker = false; // under the lock, so that a later write starts another thread
            return None;
        }
        Some(group)
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if thread::panicking() {
            self.writer.queue.lock().has_worker = false;
        }
    }
}

impl WriteQueue {
    fn take_group(&mut self) -> Vec<WriteJob> {
        let mut bytes = 0;
        let mut count = 0;
        for job in self.jobs.iter().take(GROUP_JOBS_MAX) {
            if bytes >= GROUP_BYTES_MAX {
                break;
            }
            bytes += job.bytes();
            count += 1;
        }
        self.jobs.drain(..count).collect()
    }
}

impl WriteJob {
    fn bytes(&self) -> usize {
        match &self.work {
            WriteOp::Append { rows: Some(rows), .. } => rows.events.iter().map(|row| row.body.len()).sum(),
            WriteOp::Append { rows: None, .. } | WriteOp::Delete => 0,
        }
    }

    fn reply(self, answer: Result<Seq, StoreError>) {
        // The receiver is gone if the caller was dropped; the write still counts.
        self.answer.send(answer).ok();
    }
}

fn transaction(
    connection: &Connection,
    group: &[WriteJob],
) -> rusqlite::Result<Vec<Result<Seq, StoreError>>> {
    let mut answers = Vec::with_capacity(group.len());
    run(connection, "BEGIN IMMEDIATE")?;
    for job in group {
        let answer = match &job.work {
            WriteOp::Append { after, last, rows: Some(rows) } => {
                if advance_last_seq(connection, &job.id, *after, *last, &rows.batch_summary)? {
                    insert(connection, &job.id, &rows.events)?;
                    Ok(*last)
                } else {
                    check_last_seq(connection, job, *after)?
                }
            }
            WriteOp::Append { after, rows: None, .. } => check_last_seq(connection, job, *after)?,
            WriteOp::Delete => delete(connection, job)?,
        };
        answers.push(answer);
    }
    run(connection, "COMMIT")?;
    Ok(answers)
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// Advances the last seq from `after` to `last`. If it is not `after`, changes nothing and returns false.
fn advance_last_seq(
    connection: &Connection,
    id: &SessionId,
    after: Seq,
    last: Seq,
    batch_summary: &BatchSummary,
) -> rusqlite::Result<bool> {
    let changed = if after == Seq(0) {
        connection.prepare_cached(BEGIN_SESSION)?.execute(params![
            id.as_str(),
            batch_summary.title,
            batch_summary.first_at.0,
            batch_summary.last_at.0,
            to_integer(last.0),
            batch_summary.host,
            batch_summary.root,
        ])
    } else {
        connection.prepare_cached(CONTINUE_SESSION)?.execute(params![
            to_integer(last.0),
            batch_summary.last_at.0,
            batch_summary.title,
            id.as_str(),
            to_integer(after.0),
        ])
    };
    Ok(changed? == 1)
}

/// Returns `after` if the log ends there, and the error `Conflict` otherwise. Does not change the database.
fn check_last_seq(
    connection: &Connection,
    job: &WriteJob,
    after: Seq,
) -> rusqlite::Result<Result<Seq, StoreError>> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT last_seq FROM sessions WHERE id = ?")?
        .query_row([job.id.as_str()], |row| row.get(0))
        .optional()?;
    let found = to_seq(found.unwrap_or(0));
    if found == after {
        return Ok(Ok(after));
    }
    Ok(Err(StoreError::Conflict { id: job.id.clone(), expected: after, found }))
}

fn delete(connection: &Connection, job: &WriteJob) -> rusqlite::Result<Result<Seq, StoreError>> {
    let deleted =
        connection.prepare_cached("DELETE FROM sessions WHERE id = ?")?.execute([job.id.as_str()])?;
    Ok(if deleted == 0 { Err(StoreError::NotFound(job.id.clone())) } else { Ok(Seq(0)) })
}

fn insert(connection: &Connection, id: &SessionId, rows: &[EventRow]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(INSERT)?;
    for row in rows {
        insert.execute(params![id.as_str(), row.seq, row.at, &*row.body])?;
    }
    Ok(())
}

fn close(connection: Connection) {
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database did not close cleanly");
    }
}
