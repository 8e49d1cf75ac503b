//! The database file on disk: its path, permissions and connections.
//!
//! This module never opens an existing database file itself, because closing any descriptor of the file would drop the
//! locks that SQLite holds on it in this process (<https://www.sqlite.org/howtocorrupt.html>, section 2.2).

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use sysop_driver::port::StoreError;

/// Maximum time that a connection waits while another process is writing.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Held while a file is being created, so that no other store in this process connects to the file before the
/// descriptor that created it is closed.
static CREATING: Mutex<()> = Mutex::new(());

#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
}

impl DatabaseFile {
    /// Finds or creates the file and its directory.
    pub(super) fn prepare(path: &Path) -> Result<Self, StoreError> {
        // SQLite treats a name that begins with `file:` as a URI; an absolute path never does.
        let path = std::path::absolute(path).map_err(|error| cannot_create(path, &error))?;
        if path.to_str().is_none() {
            return Err(StoreError::Unavailable(format!(
                "the database path {} must be UTF-8; choose another directory with XDG_DATA_HOME",
                path.display()
            )));
        }
        let _creating = CREATING.lock();
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(StoreError::Unavailable(format!(
                    "{} is a directory, but sysop stores its database in a file of that name; move the directory away or \
                     choose another location with XDG_DATA_HOME",
                    path.display()
                )));
            }
            Ok(found) => restrict_permissions(&path, &found),
            Err(error) if error.kind() == ErrorKind::NotFound => create(&path)?,
            Err(error) => return Err(cannot_create(&path, &error)),
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the writer's connection. The writer sets the journal mode once it knows that the file belongs to sysop.
    pub(super) fn connect_read_write(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON",
        )?;
        Ok(connection)
    }

    pub(super) fn connect_read_only(&self) -> rusqlite::Result<Connection> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    /// Opens a connection without SQLite's mutexes, because only one thread at a time uses the connection.
    fn connect(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(connection)
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| cannot_create(path, &error))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot_create(path, &error)),
    }
}

/// Removes access for other users, which the file may have because of an older umask or a copy.
#[cfg(unix)]
fn restrict_permissions(path: &Path, found: &std::fs::Metadata) {
    use std::os::unix::fs::PermissionsExt;
    if found.permissions().mode() & 0o077 != 0
        && let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
    {
        tracing::warn!(path = %path.display(), %error, "other users can read the database");
    }
}

#[cfg(not(unix))]
fn restrict_permissions(_path: &Path, _found: &std::fs::Metadata) {}

fn cannot_create(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!(
        "cannot create database {}: {error}; make its directory writable or choose another with XDG_DATA_HOME",
        path.display()
    ))
}
