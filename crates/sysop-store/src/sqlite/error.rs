//! Maps SQLite errors to store errors.
//!
//! An error repeats SQLite's message only if that message cannot contain stored text.

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

/// Reason why a database was not opened.
#[derive(Debug)]
pub(super) enum OpenDatabaseError {
    Sql(rusqlite::Error),
    /// The file must not be used.
    Rejected(StoreError),
}

impl From<rusqlite::Error> for OpenDatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl OpenDatabaseError {
    /// Returns true if another process was holding a lock.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Sql(error) => is_busy_error(error),
            Self::Rejected(_) => false,
        }
    }

    /// Returns true if a read-only connection cannot continue, because a journal must be rolled back first.
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            Self::Sql(error) => primary_code(error) == Some(READONLY),
            Self::Rejected(_) => false,
        }
    }

    /// Converts the error to a store error that names the database at `path`.
    pub(super) fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => store_error(path, &error),
            Self::Rejected(error) => error,
        }
    }
}

/// Describes an error of the database at `path`, and the remedy.
pub(super) fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    let unavailable = StoreError::Unavailable;
    match primary_code(error) {
        Some(FULL) => unavailable(format!(
            "the disk of database {path} is full, and nothing was stored; free some space, or use another disk, such as \
             memory: XDG_DATA_HOME=/dev/shm/sysop"
        )),
        Some(READONLY) => unavailable(format!(
            "cannot write to database {path}; make the file and its directory writable or choose another directory with \
             XDG_DATA_HOME"
        )),
        Some(BUSY | LOCKED) => unavailable(format!(
            "database {path} was locked by another process for {} s; try again later",
            BUSY_TIMEOUT.as_secs()
        )),
        Some(CANTOPEN) => unavailable(format!(
            "cannot open database {path}; check that the file exists and its directory is writable"
        )),
        Some(IOERR) => unavailable(format!(
            "disk error in database {path} ({}); check the disk and its free space, and try again",
            message(error)
        )),
        Some(TOOBIG) => unavailable(format!("this event is too large for database {path}")),
        Some(CORRUPT | NOTADB) => StoreError::Corrupt(format!(
            "database {path} is damaged or not a database ({}); move it away, together with its `-wal` and `-shm` files, \
             to start with an empty one",
            message(error)
        )),
        Some(code) => {
            unavailable(format!("an operation failed in database {path} (SQLite {code}: {})", message(error)))
        }
        None => unavailable(format!("lost the connection to database {path}; try again")),
    }
}

/// Returns true if another process was holding a lock.
pub(super) fn is_busy_error(error: &rusqlite::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | LOCKED))
}

/// Returns the primary result code; `None` if the error is not from SQLite.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FULL, store_error};

    #[test]
    fn a_full_disk_has_a_way_out() {
        let full = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(FULL), None);
        let text = store_error(Path::new("/home/ada/sysop.db"), &full).to_string();
        assert!(text.contains("the disk of database /home/ada/sysop.db is full"), "{text}");
        assert!(text.contains("XDG_DATA_HOME=/dev/shm/sysop"), "{text}");
    }
}
