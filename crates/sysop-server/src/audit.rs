//! Who did what, where, and what came of it: one line for every approval and every tool call, chained by hashes.
//!
//! The lines come from the events of sessions on their way to the store ([`AuditedStore`]), so that no front end and no client can
//! do something beside the audit: a call whose line is not on the disk does not run. A line has no output, no file's content
//! and no secret; arguments are there as a hash, and of shell commands the command after redaction.
//!
//! A chain shows that a line was changed, left out or put in between; not that its end was cut off, nor that somebody made
//! all of it anew. Who wants to see that keeps what `sysop audit verify` says of its end somewhere else.

mod cluster;
mod entry;
mod file;
mod redact;
mod store;
#[cfg(test)]
mod tests;
mod tracker;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

pub use self::cluster::AuditedCluster;
pub use self::entry::{AuditEntry, Kind};
use self::file::AuditFile;
pub use self::redact::CommandRedactor;
pub use self::store::{AppendListener, AuditFailurePolicy, AuditedStore};
pub use self::tracker::Actor;
pub use self::verify::{ChainError, ChainSummary, each_line, files, verify};

/// The name of the audit in its folder; earlier files stand beside it with a number.
pub const FILE: &str = "audit.jsonl";
/// Lines that may wait for the disk; who comes later is refused.
const WAITING_MAX: usize = 65_536;

/// Why a line was not written. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The disk did not take it.
    #[error(
        "the audit {path} cannot be written ({why}), and what is not audited does not run; see that its disk has room and can be written"
    )]
    Disk {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
    /// Its end cannot be read, so nothing can be chained to it.
    #[error(
        "the last line of the audit {0} is damaged; `sysop audit verify` says more; move the file away to begin another"
    )]
    Damaged(String),
    /// More waits than the disk takes.
    #[error("the audit {0} is slower than what is to be audited; try again")]
    Behind(String),
}

/// Writes the audit. Lines that arrive while others are on their way to the disk share the next write.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    inner: Arc<Mutex<Queue>>,
    file: Arc<Mutex<AuditFile>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<QueuedEntries>,
    lines: usize,
    draining: bool,
}

/// Lines, and who waits for them to be written.
type QueuedEntries = (Vec<AuditEntry>, oneshot::Sender<Result<(), AuditError>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Audit {
    /// An audit in a folder, which is made, private to its owner, with the first line.
    pub fn in_folder(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let file = Arc::new(Mutex::new(AuditFile::new(path.clone())));
        Self { path, inner: Arc::default(), file }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sees now whether the audit can be written, rather than with the first call.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn check(&self) -> Result<(), AuditError> {
        self.write(Vec::new()).await
    }

    /// Writes lines; they are on the disk on return.
    ///
    /// # Errors
    /// When they are not.
    pub async fn write(&self, entries: Vec<AuditEntry>) -> Result<(), AuditError> {
        let (answer, answered) = oneshot::channel();
        let start = {
            let mut queue = lock(&self.inner);
            if queue.lines + entries.len() > WAITING_MAX {
                return Err(AuditError::Behind(self.path.display().to_string()));
            }
            queue.lines += entries.len();
            queue.waiting.push((entries, answer));
            !std::mem::replace(&mut queue.draining, true)
        };
        if start {
            let (queue, file) = (Arc::clone(&self.inner), Arc::clone(&self.file));
            tokio::task::spawn_blocking(move || drain(&queue, &file));
        }
        answered.await.unwrap_or_else(|_| {
            Err(AuditError::Disk {
                path: self.path.display().to_string(),
                why: "sysop is shutting down".to_owned(),
            })
        })
    }
}

/// Writes until nothing waits.
fn drain(queue: &Mutex<Queue>, file: &Mutex<AuditFile>) {
    loop {
        let group = {
            let mut queue = lock(queue);
            queue.lines = 0;
            queue.draining = !queue.waiting.is_empty();
            std::mem::take(&mut queue.waiting)
        };
        if group.is_empty() {
            return;
        }
        let written = lock(file).append(group.iter().flat_map(|(entries, _)| entries));
        for (_, answer) in group {
            // Nobody listens where the caller was dropped; the line stands.
            let _ = answer.send(written.clone());
        }
    }
}
