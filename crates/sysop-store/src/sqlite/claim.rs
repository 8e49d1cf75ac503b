//! Claims of processes on sessions: one locked file for each session at work, in a directory beside the database.
//!
//! The kernel ends a lock with its process, however that ends, so a claim never outlives the work. Where files cannot
//! be locked, nothing is claimed; the log itself still refuses a second writer.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sysop_core::id::SessionId;
use sysop_driver::port::{SessionClaim, StoreError};

/// Maximum attempts to lock a file that another process removes at the same time.
const ATTEMPTS_MAX: u32 = 8;

/// Maximum length of the process id in a file, in bytes.
const PROCESS_BYTES_MAX: u64 = 20;

/// A locked file. Dropping it removes the file, and then ends the lock.
#[derive(Debug)]
struct ClaimFile {
    path: PathBuf,
    _locked: File,
}

impl Drop for ClaimFile {
    fn drop(&mut self) {
        // A file left behind is reused by the next claim.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The claims of this process on the sessions of one database.
#[derive(Debug)]
pub(super) struct Claims {
    directory: PathBuf,
    /// Claimed sessions. Several claims of this process share one lock.
    files: Mutex<HashMap<SessionId, Weak<ClaimFile>>>,
}

impl Claims {
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-claims");
        Self { directory: path.into(), files: Mutex::default() }
    }

    /// Claims a session, as [`sysop_driver::port::Store::claim`] does.
    pub(super) fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        let mut files = self.files.lock();
        files.retain(|_, file| file.strong_count() > 0);
        if let Some(file) = files.get(id).and_then(Weak::upgrade) {
            return Ok(Some(SessionClaim::new(file)));
        }
        let Some(file) = lock(&self.directory, id)?.map(Arc::new) else { return Ok(None) };
        files.insert(id.clone(), Arc::downgrade(&file));
        Ok(Some(SessionClaim::new(file)))
    }
}

/// Locks the file of a session. Returns `None` if files cannot be locked there.
fn lock(directory: &Path, id: &SessionId) -> Result<Option<ClaimFile>, StoreError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !id.as_str().bytes().all(is_plain)
        || DirBuilder::new().recursive(true).mode(0o700).create(directory).is_err()
    {
        return Ok(None);
    }
    let path = directory.join(id.as_str());
    for _ in 0..ATTEMPTS_MAX {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let Ok(mut file) = options.open(&path) else { return Ok(None) };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => match process_in(&mut file) {
                // A claim of this process is being released.
                Some(process) if process == std::process::id() => {
                    std::thread::yield_now();
                    continue;
                }
                process => return Err(StoreError::InUse { id: id.clone(), process }),
            },
            Err(TryLockError::Error(_)) => return Ok(None),
        }
        if !is_at(&file, &path) {
            continue; // its last owner removed it between the two calls
        }
        // The id is only for the error message of another process.
        let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
        return Ok(Some(ClaimFile { path, _locked: file }));
    }
    Err(StoreError::InUse { id: id.clone(), process: None })
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn process_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PROCESS_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_session_is_free_once_all_claims_of_its_process_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::beside(&folder.path().join("sysop.db"));
        let is_locked = |id: &str| {
            let path = claims.directory.join(id);
            File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
        };
        let id = SessionId::new("a1");
        let first = claims.claim(&id).unwrap().expect("files can be locked here");
        let second = claims.claim(&id).unwrap().expect("the same process");
        assert!(is_locked("a1"));
        drop(first);
        assert!(is_locked("a1"));
        drop(second);
        assert_eq!(std::fs::read_dir(&claims.directory).unwrap().count(), 0, "no file stays");
        assert!(claims.claim(&id).unwrap().is_some());
    }

    #[test]
    fn the_process_of_a_claim_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::beside(&folder.path().join("sysop.db"));
        std::fs::create_dir(&claims.directory).unwrap();
        let file = File::create(claims.directory.join("a1")).unwrap();
        file.lock().unwrap();
        (&file).write_all(b"4194305").unwrap();
        let error = claims.claim(&SessionId::new("a1")).unwrap_err();
        assert!(error.to_string().contains("is running in another process (4194305)"), "{error}");
        assert!(claims.claim(&SessionId::new("a2")).unwrap().is_some());
    }

    #[test]
    fn an_id_that_leads_out_of_the_directory_is_not_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::beside(&folder.path().join("sysop.db"));
        assert!(claims.claim(&SessionId::new("../a1")).unwrap().is_none());
        assert!(!claims.directory.exists());
    }
}
