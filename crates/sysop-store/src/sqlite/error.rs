//! Puts what SQLite says into the words of a store.
//!
//! SQLite's own message is repeated only where it cannot hold stored text.

use std::path::Path;

use sysop_driver::port::StoreError;

use super::database_file::BUSY_TIMEOUT;

// Result codes: <https://www.sqlite.org/rescode.html>
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const TOOBIG: i32 = 18;
const NOTADB: i32 = 26;

/// Why a database was not opened.
#[derive(Debug)]
pub(super) enum OpenDatabaseError {
    /// SQLite did not do it.
    Sql(rusqlite::Error),
    /// It is not ours to use.
    Rejected(StoreError),
}

impl From<rusqlite::Error> for OpenDatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl OpenDatabaseError {
    /// Whether another process was only in the way.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Sql(error) => is_busy_error(error),
            Self::Rejected(_) => false,
        }
    }

    /// Whether a connection that may not write cannot go on: a crash left a journal that must be rolled back first.
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            Self::Sql(error) => primary_code(error) == Some(READONLY),
            Self::Rejected(_) => false,
        }
    }

    /// In the words of a store.
    pub(super) fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => store_error(path, &error),
            Self::Rejected(error) => error,
        }
    }
}

/// Says what happened to the database at `path` and what to do about it.
pub(super) fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    let unavailable = StoreError::Unavailable;
    match primary_code(error) {
        Some(FULL) => unavailable(format!(
            "there is no room left for the database {path}, and nothing was stored; free some space on its disk and \
             try again"
        )),
        Some(READONLY) => unavailable(format!(
            "the database {path} cannot be written; make the file and its folder writable or choose another folder \
             with XDG_DATA_HOME"
        )),
        Some(BUSY | LOCKED) => unavailable(format!(
            "another process kept the database {path} busy for {} s; try again when it is done",
            BUSY_TIMEOUT.as_secs()
        )),
        Some(CANTOPEN) => unavailable(format!(
            "cannot open the database {path}; see that the file is there and that its folder is writable"
        )),
        Some(IOERR) => unavailable(format!(
            "the disk failed under the database {path} ({}); see that it has room and works, and try again",
            message(error)
        )),
        Some(TOOBIG) => unavailable(format!("the database {path} cannot hold an event of this size")),
        Some(CORRUPT | NOTADB) => StoreError::Corrupt(format!(
            "the database {path} is damaged or is no database ({}); move it away, together with its `-wal` and \
             `-shm` files, to start with an empty one",
            message(error)
        )),
        Some(code) => {
            unavailable(format!("the database {path} did not obey (SQLite {code}: {})", message(error)))
        }
        None => unavailable(format!("the connection to the database {path} broke; try again")),
    }
}

/// Whether another process was only in the way.
pub(super) fn is_busy_error(error: &rusqlite::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | LOCKED))
}

/// The result code without its extension; none for what did not come from SQLite.
fn primary_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code & 0xff)
}

fn message(error: &rusqlite::Error) -> &str {
    if let rusqlite::Error::SqliteFailure(_, Some(message)) = error {
        message
    } else if let rusqlite::Error::SqlInputError { msg, .. } = error {
        msg
    } else {
        "no message"
    }
}
