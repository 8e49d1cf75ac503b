//! One PostgreSQL database: its connections, and the retries of its statements.

use std::future::Future;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sysop_driver::port::StoreError;
use tokio::time::{Instant, timeout};

use super::error::{is_transient, store_error};

/// Maximum time to wait for a restarting database or a failing network.
pub(super) const RETRY_TIME_MAX: Duration = Duration::from_secs(4);
/// Timeout of a statement, after which its connection counts as lost.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(10);
/// Pause before the first retry. It doubles with each further retry.
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
/// Maximum pause before a retry.
pub(super) const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// Maximum number of connections for everything except appends.
const CONNECTIONS_MAX: u32 = 8;

#[derive(Debug)]
pub(super) struct Database {
    options: PgConnectOptions,
    pub(super) pool: PgPool,
    /// Host and name of the database for error messages, without user and password.
    pub(super) place: String,
    /// Lock held while a token is inserted.
    pub(super) token_insert_lock: tokio::sync::Mutex<()>,
}

impl Database {
    /// Parses the URL; does not connect.
    pub(super) fn from_url(url: &str) -> Result<Self, StoreError> {
        // An invalid URL is not repeated: it may contain a password.
        let options: PgConnectOptions = url.parse().map_err(|_| {
            StoreError::Unavailable(
                "invalid database URL; use postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned(),
            )
        })?;
        let options = options.application_name("sysop").disable_statement_logging();
        let host = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let name = options.get_database().unwrap_or_else(|| options.get_username());
        let place = format!("{host}:{}/{name}", options.get_port());
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(RETRY_TIME_MAX)
            .connect_lazy_with(options.clone());
        Ok(Self { options, pool, place, token_insert_lock: tokio::sync::Mutex::default() })
    }

    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        with_statement_timeout(self.options.connect()).await
    }

    /// Runs `attempt`, and retries it while it fails with a transient error and time is left. `attempt` must be
    /// idempotent.
    pub(super) async fn retry<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let mut backoff = Backoff::new();
        loop {
            match with_statement_timeout(attempt()).await {
                Ok(done) => return Ok(done),
                Err(error) if is_transient(&error) && backoff.pause().await => {}
                Err(error) => return Err(self.fault(&error)),
            }
        }
    }

    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        store_error(&self.place, error)
    }
}

/// Applies `STATEMENT_TIME_MAX` to `work`. After a timeout, it is unknown whether the server executed the statement.
pub(super) async fn with_statement_timeout<T>(
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match timeout(STATEMENT_TIME_MAX, work).await {
        Ok(done) => done,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Pauses between retries, up to `RETRY_TIME_MAX` in total.
pub(super) struct Backoff {
    until: Instant,
    pause: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + RETRY_TIME_MAX, pause: BACKOFF_FIRST }
    }

    /// Waits before the next attempt. Returns false without waiting if the total time would be exceeded.
    pub(super) async fn pause(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(BACKOFF_MAX);
        true
    }
}
