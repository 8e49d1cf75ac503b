//! Writes event logs: one connection, one statement at a time, many appends per statement.
//!
//! Appends that arrive while a statement is in flight wait and share the next one, so that many sessions
//! share one commit. No append is acknowledged before it is durable. If a connection breaks, it is unknown
//! whether its statement was executed. The statement is sent again, and the idempotency key of each append
//! shows if that append has already been stored.
//!
//! If a node owns the session, its appends wait for as long as the database is unavailable or read-only. When
//! the database is back, the session continues by itself, and no work has to be repeated because of an
//! unknown result. All other appends fail after a while.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::database::{BACKOFF_MAX, Backoff, Database, with_statement_timeout};
use super::error::{is_recoverable, is_transient};
use crate::row_codec::{EncodedBatch, to_integer, to_seq};

/// Maximum queued writes. If the queue is full, callers wait for space in it.
const JOBS_WAITING_MAX: usize = 1024;
const GROUP_JOBS_MAX: usize = 256;
/// Number of event bytes after which a statement takes no further writes.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// Idle time after which a connection is pinged before its next use, because it may be silently dead.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Timeout of the ping that checks an idle connection.
const PING_TIME_MAX: Duration = Duration::from_secs(2);

const APPEND: &str = include_str!("append.sql");

#[derive(Debug)]
pub(super) struct AppendRequest {
    pub(super) id: SessionId,
    pub(super) after: Seq,
    pub(super) last: Seq,
    pub(super) rows: EncodedBatch,
    pub(super) claim: OwnerClaim,
    pub(super) queued_inputs: Vec<i64>,
}

/// The ownership of a session that an append relies on.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnerClaim {
    /// Id of the owning node; empty if there is no owner.
    pub(super) owner: Arc<str>,
    /// Fencing token; 0 if there is no owner.
    pub(super) token: i64,
}

/// Handle to a writer task, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct PostgresWriter {
    jobs: mpsc::Sender<AppendJob>,
    database: Arc<Database>,
    stall_reason: StallReason,
}

/// Reason why appends are waiting now, in one sentence; `None` if they are not waiting.
type StallReason = Arc<Mutex<Option<String>>>;

#[derive(Debug)]
struct AppendJob {
    append: AppendRequest,
    /// Random number by which the database recognizes an append that is sent twice.
    idempotency_key: i64,
    answer: oneshot::Sender<Result<Seq, StoreError>>,
}

impl AppendJob {
    /// Returns true if the append waits until an outage is over, because its session continues afterwards.
    /// The first append of a session does not wait, because nobody is using that session yet.
    fn waits_out_outage(&self) -> bool {
        self.append.claim.token != 0 && self.append.after > Seq(0)
    }
}

impl PostgresWriter {
    /// Creates the writer; does not connect.
    pub(super) fn new(database: Arc<Database>) -> Self {
        let (jobs, waiting) = mpsc::channel(JOBS_WAITING_MAX);
        let stall_reason = StallReason::default();
        let work = WriterTask {
            database: Arc::clone(&database),
            connection: None,
            waiting: VecDeque::new(),
            stall_reason: Arc::clone(&stall_reason),
        };
        tokio::spawn(work.run(waiting));
        Self { jobs, database, stall_reason }
    }

    /// Returns the reason why appends are waiting now, or `None` if they are not waiting.
    pub(super) fn stall_reason(&self) -> Option<String> {
        self.stall_reason.lock().clone()
    }

    /// See `Store::append`. Once queued, the append completes even if the caller is dropped.
    pub(super) async fn append(&self, append: AppendRequest) -> Result<Seq, StoreError> {
        let stopped = || {
            StoreError::Unavailable(format!(
                "sysop was stopped while it wrote to database {}; restart it to see what was stored",
                self.database.place
            ))
        };
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(AppendJob { append, idempotency_key: random_nonzero(), answer })
            .await
            .map_err(|_| stopped())?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// Returns a random number other than 0.
pub(super) fn random_nonzero() -> i64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low).cast_signed() | 1
}

struct WriterTask {
    database: Arc<Database>,
    /// The connection, with the time of its last use.
    connection: Option<(PgConnection, Instant)>,
    waiting: VecDeque<AppendJob>,
    stall_reason: StallReason,
}

type AppendResults = HashMap<SessionId, Result<Seq, StoreError>>;

impl WriterTask {
    async fn run(mut self, mut jobs: mpsc::Receiver<AppendJob>) {
        loop {
            if self.waiting.is_empty() {
                match jobs.recv().await {
                    Some(job) => self.waiting.push_back(job),
                    None => break,
                }
            }
            self.drain_channel(&mut jobs);
            let group = take_group(&mut self.waiting);
            self.write(group, &mut jobs).await;
        }
        if let Some((connection, _)) = self.connection {
            connection.close().await.ok(); // closing it loses nothing
        }
    }

    fn drain_channel(&mut self, jobs: &mut mpsc::Receiver<AppendJob>) {
        while self.waiting.len() < JOBS_WAITING_MAX
            && let Ok(job) = jobs.try_recv()
        {
            self.waiting.push_back(job);
        }
    }

    /// Writes a group, over a new connection whenever the old one breaks, and replies to each of its jobs.
    async fn write(&mut self, mut group: Vec<AppendJob>, jobs: &mut mpsc::Receiver<AppendJob>) {
        let mut backoff = Backoff::new();
        let mut again = false;
        loop {
            let error = match with_statement_timeout(self.try_store(&group, again)).await {
                Ok(answers) => {
                    self.set_stall_reason(None);
                    return send_results(group, &answers);
                }
                Err(error) => error,
            };
            self.connection = None;
            if !is_recoverable(&error) {
                return self.write_one_by_one(group, &error).await;
            }
            again = true;
            tracing::warn!(database = self.database.place, %error, "an append failed");
            if is_transient(&error) && backoff.pause().await {
                continue;
            }
            let fault = self.database.fault(&error);
            self.set_stall_reason(Some(fault.to_string()));
            self.drain_channel(jobs);
            for job in group.extract_if(.., |job| !job.waits_out_outage()) {
                job.answer.send(Err(fault.clone())).ok();
            }
            let waiting = std::mem::take(&mut self.waiting);
            for job in waiting {
                if job.waits_out_outage() {
                    self.waiting.push_back(job);
                } else {
                    job.answer.send(Err(fault.clone())).ok();
                }
            }
            if group.is_empty() {
                return self.set_stall_reason(None); // every caller has a reply
            }
            tokio::time::sleep(BACKOFF_MAX).await;
        }
    }

    /// Writes the jobs of a group one by one, because only one of them may have caused `error`.
    async fn write_one_by_one(&mut self, group: Vec<AppendJob>, error: &sqlx::Error) {
        if let [job] = &*group {
            tracing::debug!(session = %job.append.id, "an append was rejected");
            let fault = self.database.fault(error);
            return group.into_iter().for_each(|job| drop(job.answer.send(Err(fault.clone()))));
        }
        for job in group {
            let alone = [job];
            let answers = with_statement_timeout(self.try_store(&alone, true)).await;
            let [job] = alone;
            let answer = match answers {
                Ok(mut answers) => answers.remove(&job.append.id).expect("each append has an answer"),
                Err(error) => Err(self.database.fault(&error)),
            };
            job.answer.send(answer).ok();
        }
    }

    fn set_stall_reason(&self, stall_reason: Option<String>) {
        *self.stall_reason.lock() = stall_reason;
    }

    async fn try_store(&mut self, group: &[AppendJob], again: bool) -> Result<AppendResults, sqlx::Error> {
        // Taken out while a statement runs: if the statement is abandoned, the connection is dropped, too.
        let mut connection = match self.connection.take() {
            Some((connection, used)) if used.elapsed() < IDLE_MAX => connection,
            Some((mut connection, _)) => match timeout(PING_TIME_MAX, connection.ping()).await {
                Ok(Ok(())) => connection,
                Ok(Err(_)) | Err(_) => self.database.connect().await?,
            },
            None => self.database.connect().await?,
        };
        let stored = append(&mut connection, group).await?;
        let stored: HashSet<&str> = stored.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let mut answers = AppendResults::new();
        let mut rejected = Vec::new();
        for job in group {
            if stored.contains(job.append.id.as_str()) {
                answers.insert(job.append.id.clone(), Ok(job.append.last));
            } else {
                rejected.push(job);
            }
        }
        if !rejected.is_empty() {
            resolve_rejected(&mut connection, &rejected, &mut answers).await?;
            if again {
                confirm_stored(&mut connection, &rejected, &mut answers).await?;
            }
        }
        self.connection = Some((connection, Instant::now()));
        Ok(answers)
    }
}

/// Takes as many jobs as fit into one statement, at most one per session.
fn take_group(waiting: &mut VecDeque<AppendJob>) -> Vec<AppendJob> {
    let (mut group, mut left) = (Vec::new(), VecDeque::new());
    let mut sessions = HashSet::new();
    let mut bytes = 0;
    while let Some(job) = waiting.pop_front() {
        let full = group.len() == GROUP_JOBS_MAX || bytes >= GROUP_BYTES_MAX;
        if full || !sessions.insert(job.append.id.clone()) {
            left.push_back(job);
            continue;
        }
        bytes += job.append.rows.events.iter().map(|row| row.body.len()).sum::<usize>();
        group.push(job);
    }
    *waiting = left;
    group
}

fn send_results(group: Vec<AppendJob>, answers: &AppendResults) {
    for job in group {
        let answer = answers.get(&job.append.id).expect("each append has an answer");
        // The receiver is gone if the caller was dropped; the write still counts.
        job.answer.send(answer.clone()).ok();
    }
}

async fn append(connection: &mut PgConnection, group: &[AppendJob]) -> Result<Vec<PgRow>, sqlx::Error> {
    fn each<T>(group: &[AppendJob], of: impl Fn(&AppendJob) -> T) -> Vec<T> {
        group.iter().map(of).collect()
    }
    let (mut sessions, mut seqs, mut times, mut bodies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut receivers, mut queued_inputs) = (Vec::new(), Vec::new());
    for AppendJob { append, .. } in group {
        for row in &append.rows.events {
            sessions.push(append.id.as_str());
            seqs.push(row.seq);
            times.push(row.at);
            bodies.push(&*row.body);
        }
        for letter in &append.queued_inputs {
            receivers.push(append.id.as_str());
            queued_inputs.push(*letter);
        }
    }
    sqlx::query(APPEND)
        .bind(each(group, |job| job.append.id.as_str().to_owned()))
        .bind(each(group, |job| job.append.claim.token))
        .bind(each(group, |job| to_integer(job.append.after.0)))
        .bind(each(group, |job| to_integer(job.append.last.0)))
        .bind(each(group, |job| job.idempotency_key))
        .bind(each(group, |job| without_nul(&job.append.rows.batch_summary.title)))
        .bind(each(group, |job| job.append.rows.batch_summary.first_at.0))
        .bind(each(group, |job| job.append.rows.batch_summary.last_at.0))
        .bind(each(group, |job| without_nul(&job.append.rows.batch_summary.host)))
        .bind(each(group, |job| without_nul(&job.append.rows.batch_summary.root)))
        .bind(each(group, |job| job.append.claim.owner.to_string()))
        .bind(sessions)
        .bind(seqs)
        .bind(times)
        .bind(bodies)
        .bind(receivers)
        .bind(queued_inputs)
        .fetch_all(connection)
        .await
}

/// Replaces NUL, which PostgreSQL text cannot contain. Events do not need this, because JSON escapes NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Determines why each append was rejected, or finds that the append had already been stored.
async fn resolve_rejected(
    connection: &mut PgConnection,
    rejected: &[&AppendJob],
    answers: &mut AppendResults,
) -> Result<(), sqlx::Error> {
    let ids: Vec<_> = rejected.iter().map(|job| job.append.id.as_str()).collect();
    let rows = sqlx::query(
        "SELECT session.id, last_seq, mark, token, node.name \
         FROM sysop_sessions AS session LEFT JOIN sysop_nodes AS node ON node.id = session.owner \
         WHERE session.id = ANY ($1)",
    )
    .bind(ids)
    .fetch_all(connection)
    .await?;
    let mut found: HashMap<String, PgRow> = HashMap::new();
    for row in rows {
        found.insert(row.try_get(0)?, row);
    }
    for AppendJob { append, idempotency_key, .. } in rejected {
        let id = append.id.clone();
        let answer = match found.get(id.as_str()) {
            None => Err(StoreError::Conflict { id, expected: append.after, found: Seq(0) }),
            Some(row) => {
                let last = to_seq(row.try_get(1)?);
                if row.try_get::<i64, _>(2)? == *idempotency_key {
                    Ok(append.last)
                } else if row.try_get::<i64, _>(3)? == append.claim.token || append.after == Seq(0) {
                    Err(StoreError::Conflict { id, expected: append.after, found: last })
                } else {
                    Err(StoreError::LeaseLost {
                        id,
                        by: row.try_get::<Option<String>, _>(4)?.unwrap_or_default(),
                    })
                }
            }
        };
        answers.insert(append.id.clone(), answer);
    }
    Ok(())
}

/// Finds appends that were sent more than once and have been stored, but whose idempotency key is no longer
/// in the session's row, because a new owner has appended since.
async fn confirm_stored(
    connection: &mut PgConnection,
    rejected: &[&AppendJob],
    answers: &mut AppendResults,
) -> Result<(), sqlx::Error> {
    for AppendJob { append, .. } in rejected.iter().filter(|job| job.append.claim.token != 0) {
        let Some(row) = append.rows.events.last() else { continue };
        let stored: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM sysop_events WHERE session = $1 AND seq = $2 AND at = $3 AND body = $4)",
        )
        .bind(append.id.as_str())
        .bind(row.seq)
        .bind(row.at)
        .bind(&*row.body)
        .fetch_one(&mut *connection)
        .await?;
        if stored {
            answers.insert(append.id.clone(), Ok(append.last));
        }
    }
    Ok(())
}
