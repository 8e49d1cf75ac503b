//! Stores event logs in PostgreSQL, for several nodes at once.
//!
//! Appends share one connection and are grouped (`writer`). Everything else uses a small pool (`database`). If a
//! connection breaks or the server restarts, requests are retried for a while. No append is ever stored twice.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{Annotation, SearchHit, SessionSummary, Store, StoreError};

use self::database::{Backoff, Database, with_statement_timeout};
use self::error::schema_error;
pub use self::node::PostgresNode;
use self::schema::SchemaError;
use self::writer::{AppendRequest, OwnerClaim, PostgresWriter};
use crate::batch::check_seq_order;
use crate::row_codec::EncodedBatch;

mod database;
mod error;
mod node;
mod reader;
mod schema;
mod tokens;
mod writer;

/// A store in a PostgreSQL database. Cheap to clone.
///
/// Its `Store` implementation appends without a lease, so it can append only to sessions that no node owns.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    database: Arc<Database>,
    writer: Arc<PostgresWriter>,
}

impl PostgresStore {
    /// Connects to the database at a `postgres://` URL and migrates its tables. Fails if the URL is invalid, or if the
    /// database cannot be reached or migrated. The error is one sentence that never contains the URL's password.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let database = Arc::new(Database::from_url(url)?);
        let mut backoff = Backoff::new();
        loop {
            let migrated = async {
                let mut connection = database.connect().await?;
                schema::migrate(&mut connection).await
            };
            match migrated.await {
                Ok(()) => break,
                Err(SchemaError::Sql(error)) if error::is_transient(&error) && backoff.pause().await => {}
                Err(error) => return Err(schema_error(&database.place, &error)),
            }
        }
        Ok(Self { writer: Arc::new(PostgresWriter::new(Arc::clone(&database))), database })
    }

    /// Checks that sessions can be stored now. The error is a sentence that says what is missing.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let look = async {
            let mut connection = self.database.pool.acquire().await?;
            let current = schema::is_current(&mut connection).await?;
            let read_only: bool = sqlx::query_scalar("SELECT current_setting('transaction_read_only')::bool")
                .fetch_one(&mut *connection)
                .await?;
            Ok::<_, SchemaError>((current, read_only))
        };
        let place = &self.database.place;
        if let Some(why) = self.writer.stall_reason() {
            return Err(StoreError::Unavailable(why));
        }
        let missing = match with_statement_timeout(async { Ok(look.await) })
            .await
            .map_err(SchemaError::Sql)
            .flatten()
        {
            Ok((true, false)) => return Ok(()),
            Ok((_, true)) => {
                format!("database {place} is read-only or a standby; use the primary")
            }
            Ok((false, false)) => format!("the tables of database {place} were dropped; restart sysop"),
            Err(fault) => return Err(schema_error(place, &fault)),
        };
        Err(StoreError::Unavailable(missing))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        let last = check_seq_order(id, after, events)?;
        match EncodedBatch::of(events)? {
            Some(rows) => {
                let claim = OwnerClaim::default();
                let append =
                    AppendRequest { id: id.clone(), after, last, rows, claim, queued_inputs: Vec::new() };
                self.writer.append(append).await
            }
            None => self.database.check_last_seq(id, after).await,
        }
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.database.load(id, after, limit).await
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.database.list(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.database.delete(id).await
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        self.database.annotate(id, annotation).await
    }

    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.database.search(words, limit).await
    }

    async fn referenced_files(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        self.database.referenced_files(files).await
    }
}
