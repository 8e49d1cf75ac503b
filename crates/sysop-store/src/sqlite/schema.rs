//! The tables, and how an older file becomes one of today.
//!
//! A migration is never changed once it was released; a new one is added at the end.

use std::path::Path;

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use sysop_driver::port::StoreError;

use super::fault::OpenFault;
use super::file::{BUSY_WAIT, DatabaseFile};

/// How long to wait before a busy database is opened again; SQLite itself does not wait where the journal mode
/// of a new file is changed.
const BUSY_STEP: std::time::Duration = std::time::Duration::from_millis(5);

/// Each brings the schema from the version of its index to the next.
///
/// `events` keeps its rowid: with 32 sessions that append at once it takes 1.7 times as many appends a second as
/// a table clustered by session, and reading a log costs the same.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE sessions (
        id       TEXT    NOT NULL PRIMARY KEY,
        title    TEXT    NOT NULL,
        created  INTEGER NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        changed  INTEGER NOT NULL, -- as created
        last_seq INTEGER NOT NULL,
        host     TEXT    NOT NULL,
        root     TEXT    NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
        session TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq     INTEGER NOT NULL,
        at      INTEGER NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        body    TEXT    NOT NULL, -- the event as JSON
        PRIMARY KEY (session, seq)
    ) STRICT;
",
    "
    CREATE TABLE tokens (
        id        TEXT    NOT NULL PRIMARY KEY,
        kind      TEXT    NOT NULL,
        name      TEXT    NOT NULL,
        scope     TEXT    NOT NULL,
        hash      BLOB    NOT NULL, -- of the token, which is never stored
        created   INTEGER NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        expires   INTEGER,          -- as created
        last_used INTEGER,          -- as created
        parent    TEXT REFERENCES tokens (id) ON DELETE CASCADE,
        visited   INTEGER NOT NULL
    ) STRICT;
",
];

/// Connects for writing and brings the tables up to date.
pub(super) async fn open(file: &DatabaseFile) -> Result<SqliteConnection, StoreError> {
    let deadline = tokio::time::Instant::now() + BUSY_WAIT;
    loop {
        match try_open(file).await {
            Ok(connection) => return Ok(connection),
            Err(fault) if fault.is_busy() && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(BUSY_STEP).await;
            }
            Err(fault) => return Err(fault.into_store_error(file.path())),
        }
    }
}

/// Whether the tables are those of today; an error where they are of a later day.
pub(super) async fn is_current(connection: &mut SqliteConnection, path: &Path) -> Result<bool, OpenFault> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await?;
    let known = i64::try_from(MIGRATIONS.len()).expect("there are few migrations");
    if version > known {
        return Err(OpenFault::Refused(StoreError::Unavailable(format!(
            "the database {} was written by a newer sysop (schema {version}; this one knows {known}); use that \
             version or choose another folder with XDG_DATA_HOME",
            path.display()
        ))));
    }
    Ok(version == known)
}

async fn try_open(file: &DatabaseFile) -> Result<SqliteConnection, OpenFault> {
    let mut connection = file.for_writing().connect().await?;
    let current = is_current(&mut connection, file.path()).await?;
    if !current {
        refuse_other_programs(&mut connection, file.path()).await?;
    }
    connection.execute("PRAGMA journal_mode = WAL").await?;
    if !current {
        connection.execute("BEGIN IMMEDIATE").await?;
        migrate(&mut connection).await?;
        connection.execute("COMMIT").await?;
    }
    Ok(connection)
}

/// A file without our version that has tables is not ours to change.
async fn refuse_other_programs(connection: &mut SqliteConnection, path: &Path) -> Result<(), OpenFault> {
    let foreign: bool = sqlx::query_scalar(
        "SELECT user_version = 0 AND EXISTS (SELECT 1 FROM sqlite_schema) FROM pragma_user_version",
    )
    .fetch_one(connection)
    .await?;
    if foreign {
        return Err(OpenFault::Refused(StoreError::Unavailable(format!(
            "{} is the database of another program; choose another folder with XDG_DATA_HOME",
            path.display()
        ))));
    }
    Ok(())
}

/// Runs inside a transaction; reads the version again, for another process may have migrated in the meantime.
async fn migrate(connection: &mut SqliteConnection) -> Result<(), OpenFault> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    let done = usize::try_from(version).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(done) {
        connection.execute(*migration).await?;
    }
    let set_version = format!("PRAGMA user_version = {}", MIGRATIONS.len().max(done));
    connection.execute(AssertSqlSafe(set_version)).await?;
    Ok(())
}
