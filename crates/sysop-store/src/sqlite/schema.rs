//! The tables, and the migrations from older versions.
//!
//! A released migration is never changed; new ones are appended.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sysop_driver::port::StoreError;

use super::backup;
use super::database_file::{BUSY_TIMEOUT, DatabaseFile};
use super::error::OpenDatabaseError;

/// Pause before opening a busy database again. SQLite itself does not wait when the journal mode of a new
/// file is changed.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The entry at index N migrates the schema from version N to version N + 1.
///
/// `events` keeps its rowid. With 32 sessions appending concurrently, such a table accepts 1.7 times as many
/// appends per second as a table clustered by session, and reading a log costs the same.
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
    // The tables do not change. From here on logs may contain kinds of events that 0.1.0 cannot read; it must
    // reject the database as a whole instead of failing on individual sessions.
    "",
    // Before this version, `operate` included `decide`.
    "
    ALTER TABLE tokens ADD COLUMN owner      TEXT    NOT NULL DEFAULT '';
    ALTER TABLE tokens ADD COLUMN unattended INTEGER NOT NULL DEFAULT 0;
    UPDATE tokens SET scope = 'operate,decide' WHERE scope = 'operate';
",
    "ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
];

/// Returns the schema versions for which a backup may exist next to the database.
pub(super) fn backup_versions() -> impl Iterator<Item = usize> {
    1..MIGRATIONS.len()
}

pub(super) fn open(file: &DatabaseFile) -> Result<Connection, StoreError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match try_open(file) {
            Ok(connection) => return Ok(connection),
            Err(fault) if fault.is_busy() && Instant::now() < deadline => {
                thread::sleep(BUSY_RETRY_INTERVAL);
            }
            Err(fault) => return Err(fault.into_store_error(file.path())),
        }
    }
}

/// Returns true if the tables are current, and an error if they are newer than this program.
pub(super) fn is_current(connection: &Connection, path: &Path) -> Result<bool, OpenDatabaseError> {
    Ok(supported_version(connection, path)? == newest_version())
}

fn newest_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("the number of migrations fits in 32 bits")
}

/// Returns the version of the tables, or an error if they are newer than this program.
fn supported_version(connection: &Connection, path: &Path) -> Result<i64, OpenDatabaseError> {
    let (version, known) = (version(connection)?, newest_version());
    if version > known {
        return Err(OpenDatabaseError::Rejected(StoreError::Unavailable(format!(
            "database {} was written by a newer version of sysop (schema {version}; this version supports {known}); use \
             that version or choose another directory with XDG_DATA_HOME",
            path.display()
        ))));
    }
    Ok(version)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn try_open(file: &DatabaseFile) -> Result<Connection, OpenDatabaseError> {
    let connection = file.connect_read_write()?;
    // Read once: another process may migrate the tables, and a backup is named after the old version.
    let version = supported_version(&connection, file.path())?;
    let current = version == newest_version();
    if !current {
        reject_foreign_database(&connection, file.path())?;
        if version > 0 {
            backup::ensure(&connection, file.path(), version)?;
        }
    }
    // The pragma returns one row: the new mode.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    if !current {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        migrate(&connection)?;
        connection.execute_batch("COMMIT")?;
    }
    Ok(connection)
}

/// Rejects a file that has tables but no sysop schema version, because it belongs to another program.
fn reject_foreign_database(connection: &Connection, path: &Path) -> Result<(), OpenDatabaseError> {
    let foreign: bool = connection.query_row(
        "SELECT user_version = 0 AND EXISTS (SELECT 1 FROM sqlite_schema) FROM pragma_user_version",
        [],
        |row| row.get(0),
    )?;
    if foreign {
        return Err(OpenDatabaseError::Rejected(StoreError::Unavailable(format!(
            "{} belongs to another program; choose another directory with XDG_DATA_HOME",
            path.display()
        ))));
    }
    Ok(())
}

/// Runs the missing migrations. Must be called inside a transaction. Reads the version again, because another
/// process may have migrated the tables in the meantime.
fn migrate(connection: &Connection) -> Result<(), OpenDatabaseError> {
    let done = usize::try_from(version(connection)?).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(done) {
        connection.execute_batch(migration)?;
    }
    connection.execute_batch(&format!("PRAGMA user_version = {}", MIGRATIONS.len().max(done)))?;
    Ok(())
}
