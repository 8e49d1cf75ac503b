//! Stores event logs in one SQLite file.
//!
//! The store opens no connection before its first use. All writes share one connection and are grouped
//! (`writer`). Reads run on the runtime's blocking threads, with their own read-only connections (`reader`).
//! A file that cannot be read is reported and left unchanged, never repaired, moved or deleted.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::port::{Annotation, SearchHit, SessionClaim, SessionSummary, Store, StoreError};

use self::claim::Claims;
use self::database_file::DatabaseFile;
use self::reader::SqliteReader;
use self::writer::SqliteWriter;

mod backup;
mod claim;
mod database_file;
mod error;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod tokens;
mod writer;

/// A store in a SQLite file. Cheap to clone; several processes may use one file.
///
/// Its methods must be called within a tokio runtime.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: Arc<SqliteWriter>,
    reader: Arc<SqliteReader>,
    claims: Arc<Claims>,
}

impl SqliteStore {
    /// Opens a store. If the file does not exist, creates it and its directory, accessible only to their owner.
    ///
    /// The file is not read until its first use, when errors in its content are reported.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = Arc::new(DatabaseFile::prepare(path)?);
        let claims = Arc::new(Claims::beside(file.path()));
        let writer = Arc::new(SqliteWriter::new(Arc::clone(&file)));
        let reader = Arc::new(SqliteReader::new(file, Arc::clone(&writer)));
        Ok(Self { writer, reader, claims })
    }

    /// Closes the file once pending work is done. If this is not called, nothing is lost, but the next start
    /// has to recover a write-ahead log.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        self.writer.append(id, after, events).await
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.reader.load(id, after, limit).await
    }

    async fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        let (claims, id) = (Arc::clone(&self.claims), id.clone());
        run_blocking(move || claims.claim(&id)).await
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        self.reader.list(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.writer.delete(id).await
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), StoreError> {
        self.writer.annotate(id, annotation).await
    }

    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.reader.search(words, limit).await
    }

    async fn referenced_files(&self, files: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        self.reader.referenced_files(files).await
    }
}

/// Runs blocking work on a blocking thread. Once started, the work completes even if the caller is dropped.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Unavailable("sysop was stopped while it used its database".to_owned())),
    }
}
