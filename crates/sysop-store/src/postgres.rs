//! Keeps event logs in PostgreSQL, for several nodes at once.
//!
//! Appends go over one connection and are grouped (`writer`); all else shares a few (`database`). Where a connection
//! breaks or the server restarts, what was asked is asked again for a while; an append is never stored twice.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{SessionSummary, Store, StoreError};

use self::database::{Database, Patience, within};
use self::fault::schema_error;
pub use self::node::PostgresNode;
use self::schema::SchemaFault;
use self::writer::{Append, Claim, Writer};
use crate::log::check_order;
use crate::row::Rows;

mod database;
mod fault;
mod node;
mod reader;
mod schema;
mod tokens;
mod writer;

/// A store in a PostgreSQL database. Cheap to clone.
///
/// What it appends as a `Store` it appends for nobody: to sessions that no node owns.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    database: Arc<Database>,
    writer: Arc<Writer>,
}

impl PostgresStore {
    /// Connects to the database of a `postgres://` URL and brings its tables up to date.
    ///
    /// # Errors
    /// One sentence that never holds the URL's password.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let database = Arc::new(Database::at(url)?);
        let mut patience = Patience::new();
        loop {
            let migrated = async {
                let mut connection = database.connect().await?;
                schema::migrate(&mut connection).await
            };
            match migrated.await {
                Ok(()) => break,
                Err(SchemaFault::Sql(error)) if fault::is_passing(&error) && patience.pause().await => {}
                Err(error) => return Err(schema_error(&database.place, &error)),
            }
        }
        Ok(Self { writer: Arc::new(Writer::new(Arc::clone(&database))), database })
    }

    /// Whether it can keep sessions now.
    ///
    /// # Errors
    /// One sentence of what is missing.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let look = async {
            let mut connection = self.database.pool.acquire().await?;
            let current = schema::is_current(&mut connection).await?;
            let read_only: bool = sqlx::query_scalar("SELECT current_setting('transaction_read_only')::bool")
                .fetch_one(&mut *connection)
                .await?;
            Ok::<_, SchemaFault>((current, read_only))
        };
        let place = &self.database.place;
        if let Some(why) = self.writer.trouble() {
            return Err(StoreError::Unavailable(why));
        }
        let missing = match within(async { Ok(look.await) }).await.map_err(SchemaFault::Sql).flatten() {
            Ok((true, false)) => return Ok(()),
            Ok((_, true)) => {
                format!("the database {place} is read-only or a standby; point sysop to the primary")
            }
            Ok((false, false)) => format!("the tables of the database {place} are gone; start sysop again"),
            Err(fault) => return Err(schema_error(place, &fault)),
        };
        Err(StoreError::Unavailable(missing))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        let last = check_order(id, after, events)?;
        match Rows::of(events)? {
            Some(rows) => {
                let claim = Claim::default();
                let append = Append { id: id.clone(), after, last, rows, claim, letters: Vec::new() };
                self.writer.append(append).await
            }
            None => self.database.compare(id, after).await,
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

    async fn named(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        self.database.named(files).await
    }
}
