//! The audit log. One line per approval and tool call, with user, host and outcome. The lines are chained by hashes.
//!
//! The lines are derived from the events of sessions on their way to the store ([`AuditedStore`]), so no front end and
//! no client can bypass the audit: a call does not run unless its line is on the disk. A line contains no output, no
//! file content and no secret; arguments are hashed, and shell commands are redacted.
//!
//! The chain reveals that a line was changed, removed or inserted. It does not reveal that its end was cut off or that
//! all of it was rewritten. To detect that, store the final hash that `sysop audit verify` prints in another place.

mod cluster;
mod entry;
mod file;
#[cfg(unix)]
mod journal;
mod redact;
mod store;
#[cfg(test)]
mod tests;
mod tracker;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use self::cluster::AuditedCluster;
pub use self::entry::{AuditEntry, Kind};
use self::file::AuditFile;
#[cfg(unix)]
pub use self::journal::Journal;
pub use self::redact::CommandRedactor;
pub use self::store::{AppendListener, AuditFailurePolicy, AuditedStore};
pub use self::tracker::{Actor, POLICY};
pub use self::verify::{ChainError, ChainSummary, each_line, files, verify};

/// Name of the current audit file in its directory; rotated files have a number in their name.
pub const FILE: &str = "audit.jsonl";
/// Maximum number of lines waiting for the disk; further lines are refused.
const WAITING_MAX: usize = 65_536;

/// Error when writing the audit log. `Display` is one sentence that tells the user what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    #[error(
        "cannot write the audit log {path} ({why}), and calls do not run without an audit entry; check the disk space \
         and permissions"
    )]
    Disk { path: String, why: String },
    /// The last line is malformed, so nothing can be chained to it.
    #[error(
        "the last line of the audit log {0} is damaged; run `sysop audit verify` for details, and move the file away to \
         start a new log"
    )]
    Damaged(String),
    /// Too many lines are waiting for the disk.
    #[error("the audit log {0} cannot keep up; try again")]
    Behind(String),
}

/// Writes the audit log. Lines that arrive during a write are written together by the next write.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    inner: Arc<Mutex<Queue>>,
    file: Arc<Mutex<AuditFile>>,
    #[cfg(unix)]
    journal: Option<Arc<Journal>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<QueuedEntries>,
    lines: usize,
    draining: bool,
}

/// Lines to write, and the channel on which their sender waits for the result.
type QueuedEntries = (Vec<AuditEntry>, oneshot::Sender<Result<(), AuditError>>);

impl Audit {
    /// Creates an audit log in a directory. Writing the first line creates the directory, for its owner only.
    pub fn in_folder(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let file = Arc::new(Mutex::new(AuditFile::new(path.clone())));
        Self {
            path,
            inner: Arc::default(),
            file,
            #[cfg(unix)]
            journal: None,
        }
    }

    /// Adds the journal: each line is sent there after it was written to the file.
    #[cfg(unix)]
    #[must_use]
    pub fn with_journal(self, journal: Journal) -> Self {
        Self { journal: Some(Arc::new(journal)), ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the audit can be written, before the first call needs it.
    pub async fn check(&self) -> Result<(), AuditError> {
        self.write(Vec::new()).await
    }

    /// Writes lines. They are durable when this returns.
    pub async fn write(&self, entries: Vec<AuditEntry>) -> Result<(), AuditError> {
        #[cfg(unix)]
        if let Some(journal) = &self.journal {
            self.write_to_file(entries.clone()).await?;
            for entry in &entries {
                if let Err(error) = journal.send(entry) {
                    tracing::error!(%error, "the journal did not accept an audit line; the audit file contains it");
                }
            }
            return Ok(());
        }
        self.write_to_file(entries).await
    }

    async fn write_to_file(&self, entries: Vec<AuditEntry>) -> Result<(), AuditError> {
        let (answer, answered) = oneshot::channel();
        let start = {
            let mut queue = self.inner.lock();
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

fn drain(queue: &Mutex<Queue>, file: &Mutex<AuditFile>) {
    loop {
        let group = {
            let mut queue = queue.lock();
            queue.lines = 0;
            queue.draining = !queue.waiting.is_empty();
            std::mem::take(&mut queue.waiting)
        };
        if group.is_empty() {
            return;
        }
        let written = file.lock().append(group.iter().flat_map(|(entries, _)| entries));
        for (_, answer) in group {
            // Fails if the caller was dropped; the line is written all the same.
            let _ = answer.send(written.clone());
        }
    }
}
