//! One PostgreSQL database: how it is connected to, and how long it is tried again.

use std::future::Future;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sysop_driver::port::StoreError;
use tokio::time::{Instant, timeout};

use super::error::{is_transient, store_error};

/// How long a database that restarts, or a network that fails, is waited for.
pub(super) const RETRY_TIME_MAX: Duration = Duration::from_secs(4);
/// The longest that one statement may take before its connection counts as lost.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(10);
/// The first pause before the next try; it doubles.
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
/// The longest pause before the next try.
pub(super) const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// Connections for all that is not an append.
const CONNECTIONS_MAX: u32 = 8;

/// A database.
#[derive(Debug)]
pub(super) struct Database {
    options: PgConnectOptions,
    pub(super) pool: PgPool,
    /// What people may know of where it is: no user, no password.
    pub(super) place: String,
    /// Held by who adds a token.
    pub(super) token_insert_lock: tokio::sync::Mutex<()>,
}

impl Database {
    /// Connects to nothing yet.
    pub(super) fn from_url(url: &str) -> Result<Self, StoreError> {
        // What cannot be parsed is not repeated: it may hold a password.
        let options: PgConnectOptions = url.parse().map_err(|_| {
            StoreError::Unavailable(
                "the URL of the database cannot be read; its form is postgres://USER:PASSWORD@HOST:PORT/DATABASE"
                    .to_owned(),
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

    /// A connection of its own.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        with_statement_timeout(self.options.connect()).await
    }

    /// Does it again while what fails is passing. What is done must be the same done twice.
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

/// Gives a statement up that takes too long; whether the server did it is not known then.
pub(super) async fn with_statement_timeout<T>(
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match timeout(STATEMENT_TIME_MAX, work).await {
        Ok(done) => done,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// How long something is still tried again.
pub(super) struct Backoff {
    until: Instant,
    pause: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + RETRY_TIME_MAX, pause: BACKOFF_FIRST }
    }

    /// Waits before the next try; false where it is at its end.
    pub(super) async fn pause(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(BACKOFF_MAX);
        true
    }
}
