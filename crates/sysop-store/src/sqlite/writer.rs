//! Writes event logs: one connection, one transaction at a time, many appends in each.
//!
//! Appends that arrive while a transaction is on its way to the disk wait and share the next one, so that many
//! sessions pay for one fsync together. Nothing is answered before it is durable. No task lives while there is
//! nothing to write.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::fault::store_error;
use super::file::DatabaseFile;
use super::schema;
use crate::log::{Digest, check_order};
use crate::row::{Row, Rows, to_integer, to_seq};

/// Writes that may wait; later ones wait before they are queued.
pub(super) const JOBS_WAITING_MAX: usize = 1024;
/// Writes that share one transaction.
const GROUP_JOBS_MAX: usize = 256;
/// A transaction takes no further writes once it holds this many bytes of events.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// The most events in one INSERT; a power of two, see `insert`.
const INSERT_ROWS_MAX: usize = 32;

const BEGIN_SESSION: &str = "INSERT INTO sessions (id, title, created, changed, last_seq, host, root) \
                             VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
const CONTINUE_SESSION: &str = "UPDATE sessions SET last_seq = ?1, changed = ?2, \
                                title = CASE title WHEN '' THEN ?3 ELSE title END \
                                WHERE id = ?4 AND last_seq = ?5";

/// Writes one database.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<DatabaseFile>,
    pub(super) room: Arc<Semaphore>,
    queue: Mutex<Queue>,
    pub(super) connection: tokio::sync::Mutex<Option<SqliteConnection>>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    draining: bool,
}

/// One write and who waits for it.
#[derive(Debug)]
struct Job {
    id: Arc<str>,
    work: Work,
    answer: oneshot::Sender<Result<Seq, StoreError>>,
    _room: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Work {
    Append { after: Seq, last: Seq, rows: Option<Rows> },
    Delete,
}

impl Writer {
    /// Connects to nothing yet.
    pub(super) fn new(file: Arc<DatabaseFile>) -> Self {
        Self {
            file,
            room: Arc::new(Semaphore::new(JOBS_WAITING_MAX)),
            queue: Mutex::default(),
            connection: tokio::sync::Mutex::new(None),
        }
    }

    /// See `Store::append`. Once it is queued it happens, whether or not the caller still waits.
    pub(super) async fn append(
        self: &Arc<Self>,
        id: &SessionId,
        after: Seq,
        events: &[Arc<Logged>],
    ) -> Result<Seq, StoreError> {
        let last = check_order(id, after, events)?;
        let rows = Rows::of(events)?;
        self.submit(id, Work::Append { after, last, rows }).await
    }

    /// See `Store::delete`.
    pub(super) async fn delete(self: &Arc<Self>, id: &SessionId) -> Result<(), StoreError> {
        self.submit(id, Work::Delete).await.map(|_| ())
    }

    /// Connects, and creates the tables where there are none.
    pub(super) async fn ensure_open(&self) -> Result<(), StoreError> {
        let mut slot = self.connection.lock().await;
        if slot.is_none() {
            *slot = Some(schema::open(&self.file).await?);
        }
        Ok(())
    }

    /// Closes the connection between two transactions; the next use makes another.
    pub(super) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            close(connection).await;
        }
    }

    /// Does something on the connection between two transactions.
    pub(super) async fn with_connection<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> T,
    ) -> Result<T, StoreError> {
        self.ensure_open().await?;
        let mut slot = self.connection.lock().await;
        Ok(work(slot.as_mut().expect("it was just opened")).await)
    }

    async fn submit(self: &Arc<Self>, id: &SessionId, work: Work) -> Result<Seq, StoreError> {
        let room = Arc::clone(&self.room).acquire_owned().await.expect("the semaphore is never closed");
        let (answer, answered) = oneshot::channel();
        let job = Job { id: id.as_str().into(), work, answer, _room: room };
        let start = {
            let mut queue = self.queue();
            queue.jobs.push_back(job);
            !std::mem::replace(&mut queue.draining, true)
        };
        if start {
            tokio::spawn(Drain { writer: Arc::clone(self), finished: false }.run());
        }
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!(
                "sysop was stopped while it wrote to the database {}; start it again to see what was stored",
                self.file.path().display()
            )))
        })
    }

    /// Writes a group and answers each of its jobs.
    async fn write(&self, group: Vec<Job>) {
        match self.transact(&group).await {
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
            // One job may be the reason; the others must not suffer for it.
            Err(_) => {
                for job in group {
                    let answer = self.transact(std::slice::from_ref(&job)).await;
                    job.reply(answer.and_then(|mut answers| answers.pop().expect("each job has an answer")));
                }
            }
        }
    }

    /// One transaction. An error means that nothing of it was stored.
    async fn transact(&self, group: &[Job]) -> Result<Vec<Result<Seq, StoreError>>, StoreError> {
        let mut slot = self.connection.lock().await;
        // Taken out for the time of the transaction: where this future is dropped half-way or SQLite fails, the
        // connection goes with it, and what it had begun is rolled back.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => schema::open(&self.file).await?,
        };
        match transaction(&mut connection, group).await {
            Ok(answers) => {
                *slot = Some(connection);
                Ok(answers)
            }
            Err(error) => {
                close(connection).await;
                Err(store_error(self.file.path(), &error))
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes until nothing waits. Where the runtime drops it early, the next write starts another.
struct Drain {
    writer: Arc<Writer>,
    finished: bool,
}

impl Drain {
    async fn run(mut self) {
        while let Some(group) = self.next_group() {
            self.writer.write(group).await;
        }
    }

    fn next_group(&mut self) -> Option<Vec<Job>> {
        let mut queue = self.writer.queue();
        let group = queue.take_group();
        if group.is_empty() {
            queue.draining = false;
            self.finished = true;
            return None;
        }
        Some(group)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if !self.finished {
            self.writer.queue().draining = false;
        }
    }
}

impl Queue {
    fn take_group(&mut self) -> Vec<Job> {
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

impl Job {
    fn bytes(&self) -> usize {
        match &self.work {
            Work::Append { rows: Some(rows), .. } => rows.events.iter().map(|row| row.body.len()).sum(),
            Work::Append { rows: None, .. } | Work::Delete => 0,
        }
    }

    fn reply(self, answer: Result<Seq, StoreError>) {
        // Nobody listens where the caller was dropped; the write stands.
        self.answer.send(answer).ok();
    }

    fn session(&self) -> SessionId {
        SessionId::new(&*self.id)
    }
}

async fn transaction(
    connection: &mut SqliteConnection,
    group: &[Job],
) -> Result<Vec<Result<Seq, StoreError>>, sqlx::Error> {
    if let [job] = group
        && let Work::Append { after, last, rows: Some(rows) } = &job.work
        && *after != Seq(0)
        && rows.events.len() <= INSERT_ROWS_MAX
    {
        return Ok(vec![append_alone(connection, job, *after, *last, rows).await?]);
    }
    let mut answers = Vec::with_capacity(group.len());
    let mut rows = Vec::new();
    connection.execute("BEGIN IMMEDIATE").await?;
    for job in group {
        let answer = match &job.work {
            Work::Append { after, last, rows: Some(new) } => {
                if claim(connection, &job.id, *after, *last, &new.digest).await? {
                    rows.extend(new.events.iter().map(|row| (&job.id, row)));
                    Ok(*last)
                } else {
                    conflict(connection, job, *after).await?
                }
            }
            Work::Append { after, rows: None, .. } => conflict(connection, job, *after).await?,
            Work::Delete => {
                insert(connection, &std::mem::take(&mut rows)).await?;
                delete(connection, job).await?
            }
        };
        answers.push(answer);
    }
    insert(connection, &rows).await?;
    connection.execute("COMMIT").await?;
    Ok(answers)
}

/// One append that nothing shares a transaction with: the usual case, sent to SQLite's thread in one piece.
async fn append_alone(
    connection: &mut SqliteConnection,
    job: &Job,
    after: Seq,
    last: Seq,
    rows: &Rows,
) -> Result<Result<Seq, StoreError>, sqlx::Error> {
    let values = "(?, ?, ?, ?), ".repeat(rows.events.len());
    let values = values.trim_end_matches(", ");
    let statements = format!(
        "BEGIN IMMEDIATE; \
         UPDATE sessions SET last_seq = ?, changed = ?, title = CASE title WHEN '' THEN ? ELSE title END \
         WHERE id = ? AND last_seq = ? RETURNING last_seq; \
         INSERT INTO events (session, seq, at, body) SELECT * FROM (VALUES {values}) WHERE changes() = 1; \
         COMMIT"
    );
    let mut query = sqlx::query(AssertSqlSafe(statements))
        .bind(to_integer(last.0))
        .bind(rows.digest.last_at.0)
        .bind(rows.digest.title.as_str())
        .bind(Arc::clone(&job.id))
        .bind(to_integer(after.0));
    for row in &rows.events {
        query = query.bind(Arc::clone(&job.id)).bind(row.seq).bind(row.at).bind(Arc::clone(&row.body));
    }
    let claimed = query.fetch_all(&mut *connection).await?.len() == 1;
    if claimed { Ok(Ok(last)) } else { conflict(connection, job, after).await }
}

/// Moves the session's last seq from `after` to `last`; false, and nothing done, where it is not `after`.
async fn claim(
    connection: &mut SqliteConnection,
    id: &Arc<str>,
    after: Seq,
    last: Seq,
    digest: &Digest,
) -> Result<bool, sqlx::Error> {
    let query = if after == Seq(0) {
        sqlx::query(BEGIN_SESSION)
            .bind(Arc::clone(id))
            .bind(digest.title.as_str())
            .bind(digest.first_at.0)
            .bind(digest.last_at.0)
            .bind(to_integer(last.0))
            .bind(digest.host.as_str())
            .bind(digest.root.as_str())
    } else {
        sqlx::query(CONTINUE_SESSION)
            .bind(to_integer(last.0))
            .bind(digest.last_at.0)
            .bind(digest.title.as_str())
            .bind(Arc::clone(id))
            .bind(to_integer(after.0))
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

/// Compares only: `after` where the log ends there.
async fn conflict(
    connection: &mut SqliteConnection,
    job: &Job,
    after: Seq,
) -> Result<Result<Seq, StoreError>, sqlx::Error> {
    let found: Option<i64> = sqlx::query_scalar("SELECT last_seq FROM sessions WHERE id = ?")
        .bind(Arc::clone(&job.id))
        .fetch_optional(connection)
        .await?;
    let found = to_seq(found.unwrap_or(0));
    if found == after {
        return Ok(Ok(after));
    }
    Ok(Err(StoreError::Conflict { id: job.session(), expected: after, found }))
}

async fn delete(
    connection: &mut SqliteConnection,
    job: &Job,
) -> Result<Result<Seq, StoreError>, sqlx::Error> {
    let done = sqlx::query("DELETE FROM sessions WHERE id = ?")
        .bind(Arc::clone(&job.id))
        .execute(connection)
        .await?;
    if done.rows_affected() == 0 {
        return Ok(Err(StoreError::NotFound(job.session())));
    }
    Ok(Ok(Seq(0)))
}

/// Inserts in runs of powers of two, so that there are few statements to prepare and keep.
async fn insert(connection: &mut SqliteConnection, rows: &[(&Arc<str>, &Row)]) -> Result<(), sqlx::Error> {
    let mut left = rows;
    while !left.is_empty() {
        let fitting = left.len().min(INSERT_ROWS_MAX);
        let (run, rest) = left.split_at(1 << fitting.ilog2());
        let mut query = sqlx::query(AssertSqlSafe(insert_statement(run.len())));
        for (id, row) in run {
            query = query.bind(Arc::clone(id)).bind(row.seq).bind(row.at).bind(Arc::clone(&row.body));
        }
        query.execute(&mut *connection).await?;
        left = rest;
    }
    Ok(())
}

fn insert_statement(rows: usize) -> String {
    let mut statement = "INSERT INTO events (session, seq, at, body) VALUES (?, ?, ?, ?)".to_owned();
    statement.push_str(&", (?, ?, ?, ?)".repeat(rows - 1));
    statement
}

async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the database did not close well");
    }
}
