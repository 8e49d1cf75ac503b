//! Audit files: appends lines to the chain, to which several processes may write, and rotates the files.
//!
//! All functions block. Written lines are never changed. Only an incomplete line left by a crash is removed; the
//! attempt to write that line was never reported as successful.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::AuditError;
use super::entry::{AuditEntry, AuditLine, ChainLink, Kind, LINE_BYTES_MAX, hex};
use sysop_core::id::Timestamp;

const FILE_BYTES_MAX: u64 = 64 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_STEP: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    most: u64,
    open: Option<OpenAuditFile>,
}

#[derive(Debug)]
struct OpenAuditFile {
    file: File,
    lock: File,
    len: u64,
    end: ChainLink,
}

enum Fault {
    Io(io::Error),
    Damaged,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl AuditFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, most: FILE_BYTES_MAX, open: None }
    }

    #[cfg(test)]
    pub(super) fn with_most(path: PathBuf, most: u64) -> Self {
        Self { path, most, open: None }
    }

    /// Appends lines. On success, all of them are durable. On error, none of them counts.
    pub(super) fn append<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a AuditEntry>,
    ) -> Result<(), AuditError> {
        let done = self.try_append(entries);
        done.map_err(|fault| {
            self.open = None; // forces reading the file's end again before the next write
            let path = self.path.display().to_string();
            match fault {
                Fault::Io(error) => AuditError::Disk { path, why: error.to_string() },
                Fault::Damaged => AuditError::Damaged(path),
            }
        })
    }

    fn try_append<'a>(&mut self, entries: impl Iterator<Item = &'a AuditEntry>) -> Result<(), Fault> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open_lock()?,
        };
        lock_within(&open.lock, LOCK_WAIT)?;
        let result = self.append_locked(&mut open, entries);
        let unlocked = open.lock.unlock();
        result?;
        unlocked?;
        self.open = Some(open);
        Ok(())
    }

    fn append_locked<'a>(
        &self,
        open: &mut OpenAuditFile,
        entries: impl Iterator<Item = &'a AuditEntry>,
    ) -> Result<(), Fault> {
        let mut lines = String::new();
        if !is_current(open, &self.path) {
            *open = OpenAuditFile { lock: open.lock.try_clone()?, ..self.open_end(&mut lines)? };
        } else if open.len >= self.most {
            self.rotate(open, &mut lines)?;
        }
        let mut end = open.end;
        for entry in entries {
            lines.push_str(&end.add(entry));
        }
        if lines.is_empty() {
            return Ok(());
        }
        if let Err(error) = open.file.write_all(lines.as_bytes()).and_then(|()| open.file.sync_data()) {
            // Removes a partial line. If that fails too, the next writer repairs the file.
            let _ = open.file.set_len(open.len);
            return Err(error.into());
        }
        open.len += lines.len() as u64;
        open.end = end;
        Ok(())
    }

    fn open_lock(&self) -> io::Result<OpenAuditFile> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        create_private_folder(folder)?;
        let lock = private().read(true).append(true).open(self.path.with_extension("lock"))?;
        // Only the lock file is opened here; the audit file is opened while the lock is held.
        Ok(OpenAuditFile { file: lock.try_clone()?, lock, len: u64::MAX, end: ChainLink::START })
    }

    /// Opens the file and reads its end. Adds the lines that must come first (file start, repair) to `lines`.
    fn open_end(&self, lines: &mut String) -> Result<OpenAuditFile, Fault> {
        let mut file = private().read(true).append(true).open(&self.path)?;
        let len = file.metadata()?.len();
        let lock = file.try_clone()?;
        if len == 0 {
            let end = match super::verify::rotated(&self.path)?.pop() {
                Some((_, last)) => end_of(&mut File::open(last)?)?.0.ok_or(Fault::Damaged)?,
                None => ChainLink::START,
            };
            sync_folder(&self.path)?;
            let mut open = OpenAuditFile { file, lock, len, end };
            lines.push_str(&open.end.add(&opened(end)));
            return Ok(open);
        }
        let (end, whole) = end_of(&mut file)?;
        let mut open = match end {
            Some(end) => OpenAuditFile { file, lock, len: whole, end },
            // A crash interrupted even the first line.
            None if whole == 0 => {
                file.set_len(0)?;
                return self.open_end(lines);
            }
            None => return Err(Fault::Damaged),
        };
        if whole < len {
            open.file.set_len(whole)?;
            let what = Some(format!("{} bytes of an incomplete line", len - whole));
            lines.push_str(&open.end.add(&AuditEntry { what, ..AuditEntry::new(Kind::Repaired, now()) }));
        }
        Ok(open)
    }

    fn rotate(&self, open: &mut OpenAuditFile, lines: &mut String) -> Result<(), Fault> {
        let number = super::verify::rotated(&self.path)?.last().map_or(1, |(number, _)| number + 1);
        std::fs::rename(&self.path, self.path.with_extension(format!("{number:06}.jsonl")))?;
        let file = private().read(true).append(true).create_new(true).open(&self.path)?;
        sync_folder(&self.path)?;
        open.file = file;
        open.len = 0;
        let before = open.end;
        lines.push_str(&open.end.add(&opened(before)));
        Ok(())
    }
}

fn opened(before: ChainLink) -> AuditEntry {
    AuditEntry { previous: Some(hex(&before.hash)), ..AuditEntry::new(Kind::Opened, now()) }
}

fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// Returns true if the open file is still the current one and no other process has written to it.
fn is_current(open: &OpenAuditFile, path: &Path) -> bool {
    let (Ok(ours), Ok(named)) = (open.file.metadata(), std::fs::metadata(path)) else { return false };
    same_file(&ours, &named) && named.len() == open.len
}

#[cfg(unix)]
fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    a.created().ok() == b.created().ok()
}

/// Returns the last complete line and the offset of its end. The line is `None` if there is none or it is malformed.
fn end_of(file: &mut File) -> io::Result<(Option<ChainLink>, u64)> {
    let len = file.metadata()?.len();
    // Enough for the last complete line and an incomplete one after it.
    let from = len.saturating_sub(2 * LINE_BYTES_MAX as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(2 * LINE_BYTES_MAX as u64).read_to_end(&mut tail)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { return Ok((None, from)) };
    let start = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = std::str::from_utf8(&tail[start..end]).ok().and_then(AuditLine::parse);
    Ok((line.map(|line| line.link()), from + end as u64 + 1))
}

fn lock_within(file: &File, wait: Duration) -> io::Result<()> {
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_STEP)
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let why = format!("another process has held the lock for {} s", wait.as_secs());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
