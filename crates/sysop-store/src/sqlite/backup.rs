//! Backup of the database before it is migrated.
//!
//! The copy is written under a temporary name and then linked to its final name, so a copy under the final
//! name is always complete. If two migrations run concurrently, the first copy is kept, because the second
//! one may already contain the migrated database.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};
use sysop_core::id::SessionId;
use sysop_driver::port::StoreError;

use super::database_file::BUSY_TIMEOUT;
use super::error::{OpenDatabaseError, is_busy_error};
use super::schema;

/// Counter in the temporary names of copies; distinguishes copies that one process writes concurrently.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// Ensures that a backup of the database with the schema version `version` exists next to it.
pub(super) fn ensure(connection: &Connection, path: &Path, version: i64) -> Result<(), OpenDatabaseError> {
    let backup = with_suffix(path, &format!(".v{version}.bak"));
    if backup.exists() {
        return Ok(());
    }
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = UnfinishedCopy(with_suffix(&backup, &format!(".{}-{number}.tmp", std::process::id())));
    let failed = |reason: String| OpenDatabaseError::Rejected(cannot_back_up(path, &backup, &reason));
    create_private(&copy.0).map_err(|error| failed(error.to_string()))?;
    let target = copy.0.to_str().ok_or_else(|| failed("the backup path is not UTF-8".to_owned()))?;
    match connection.execute("VACUUM INTO ?1", [target]) {
        Ok(_) => {}
        Err(error) if is_busy_error(&error) => return Err(error.into()),
        Err(error) => return Err(failed(error.to_string())),
    }
    publish(&copy.0, &backup).map_err(|error| failed(error.to_string()))?;
    tracing::info!(backup = %backup.display(), "backed up the database before its migration");
    Ok(())
}

/// Returns the existing backups next to a database. There are backups if the database was migrated.
pub(super) fn all(path: &Path) -> Vec<PathBuf> {
    let backups = schema::backup_versions().map(|version| with_suffix(path, &format!(".v{version}.bak")));
    backups.filter(|backup| backup.exists()).collect()
}

/// Removes a session from the backups next to a database.
pub(super) fn erase(path: &Path, id: &SessionId) -> Result<(), StoreError> {
    for backup in all(path) {
        erase_from(&backup, id).map_err(|error| {
            StoreError::Unavailable(format!(
                "session {id} is deleted, but its text stays in the backup {} ({error}); remove that file",
                backup.display()
            ))
        })?;
    }
    Ok(())
}

fn erase_from(backup: &Path, id: &SessionId) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(backup, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A journal on disk would contain the deleted text again.
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE",
    )?;
    connection.execute("DELETE FROM sessions WHERE id = ?", [id.as_str()])?;
    connection.execute_batch("COMMIT")
}

/// A copy under its temporary name, which is removed on drop.
struct UnfinishedCopy(PathBuf);

impl Drop for UnfinishedCopy {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove a temporary copy of the database");
        }
    }
}

/// Creates an empty file that only its owner can read. SQLite treats an empty file like a missing one.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Gives a complete copy its final name, unless a backup with that name exists.
fn publish(copy: &Path, backup: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(copy).and_then(|file: File| file.sync_all())?;
    match std::fs::hard_link(copy, backup) {
        Ok(()) => Ok(()),
        Err(_) if backup.exists() => Ok(()),
        Err(_) => std::fs::rename(copy, backup), // the file system has no hard links
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn cannot_back_up(path: &Path, backup: &Path, reason: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "database {} is from an older version of sysop and was not migrated, because its backup {} cannot be written \
         ({reason}); free some space, make the directory writable, or copy the database to that path yourself, and try \
         again",
        path.display(),
        backup.display()
    ))
}
