//! Downloads one pinned file: resumable, verified, atomic.
//!
//! The bytes go to `FILE.part`, which survives every interruption. The next attempt hashes the existing bytes
//! and requests the rest. Only a file with the pinned hash is renamed to `FILE`; a part with a different hash
//! is removed. A lock prevents concurrent downloads of one file.
//!
//! Hugging Face redirects a download to a signed URL that expires. Therefore, an interrupted transfer
//! always starts again at the original URL. The first response reports the hash and size of the file, and a
//! changed file is refused before anything is transferred.

mod part;
mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use crate::catalog::Pin;
use part::PartFile;
use source::{Answer, Source, SourceError};

pub(crate) use part::free_bytes;

/// Maximum consecutive attempts that fail without a new byte.
const FRUITLESS_ATTEMPTS_MAX: u32 = 5;
/// Maximum wait before an attempt, whatever the server asks for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Bytes to leave free on the disk.
const DISK_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 1024 * 1024;

/// The user's network settings.
#[derive(Debug, Clone)]
pub struct DownloadOptions {
    /// Mirror that replaces `https://huggingface.co` (`HF_ENDPOINT`).
    pub hf_endpoint: Option<Url>,
    /// Token for Hugging Face or its mirror (`HF_TOKEN`). It is sent to no other server.
    pub hf_token: Option<SecretString>,
    /// Wait before the second attempt; it doubles with each further one.
    pub first_wait: Duration,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self { hf_endpoint: None, hf_token: None, first_wait: Duration::from_millis(500) }
    }
}

impl DownloadOptions {
    /// Returns the address from which a file is downloaded: the mirror's, if `url` is on Hugging Face and there is one.
    pub fn source(&self, url: &Url) -> Url {
        source::mirrored(url, self.hf_endpoint.as_ref())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An earlier download is resumed.
    Resumed { done: u64, total: Option<u64> },
    /// `done` bytes of the file are on disk.
    Bytes { done: u64, total: Option<u64> },
    /// The transfer was interrupted and will be retried.
    Retry { why: String, wait: Duration },
    /// The download could not be resumed; the file is transferred from its beginning.
    Restarted { why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downloaded {
    /// The file was transferred.
    Fetched,
    /// The file already existed, with the pinned hash.
    Present,
}

#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("the SHA-256 of this file is unknown")]
    NoHash,
    /// Another process is downloading the same file.
    #[error("another process is downloading this file")]
    Busy,
    /// The disk has less space than the file needs.
    #[error("not enough space in {}: {needed} bytes needed, {free} available", folder.display())]
    NoSpace { folder: PathBuf, needed: u64, free: u64 },
    /// Writing failed because the disk is full. The part is kept.
    #[error("the disk is full; the {done} bytes so far are kept")]
    DiskFull { done: u64 },
    /// The file on the server is not the pinned one.
    #[error("the file at {origin} is not the pinned one ({what}: expected {expected}, found {found})")]
    WrongFile { origin: String, what: &'static str, expected: String, found: String },
    #[error("{origin} refused the download: {why}")]
    Refused { origin: String, why: String },
    /// The transfer failed too many times in a row. The part is kept.
    #[error("the download was interrupted: {why}; {done} bytes are kept")]
    Interrupted { why: String, done: u64 },
    #[error("cannot write {}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    /// The source is not a usable file or URL.
    #[error("cannot read {source_name}: {why}")]
    Unreadable { source_name: String, why: String },
}

pub(crate) fn part_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Downloads the file that `pin` describes to `target`, whose directory must exist. On error, the file at `target` is
/// missing or unchanged. Transferred bytes are kept in the part if they may belong to the pinned file.
pub async fn download(
    pin: &Pin,
    target: &Path,
    options: &DownloadOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Downloaded, DownloadError> {
    let sha256 = pin.sha256.as_deref().ok_or(DownloadError::NoHash)?;
    let mut part = PartFile::lock(target)?;
    if part::has_hash(target, sha256) {
        part.discard();
        return Ok(Downloaded::Present);
    }
    part.read(pin.size)?;
    check_space(part.folder(), pin.size.unwrap_or_default().saturating_sub(part.length()))?;
    if part.length() > 0 {
        progress(Progress::Resumed { done: part.length(), total: pin.size });
    }
    let source = Source::new(pin, options)?;
    let mut download = Download { pin, sha256, source, options, part, progress };
    if download.part.length() > 0 && !download.fetch_and_check().await? {
        // The bytes of an earlier run may be damaged. Retry once from the beginning.
        let why = "the earlier part was damaged".to_owned();
        (download.progress)(Progress::Restarted { why });
        download.part.truncate()?;
    }
    if download.part.is_renamed() || download.fetch_and_check().await? {
        return Ok(Downloaded::Fetched);
    }
    Err(download.wrong_hash())
}

struct Download<'a> {
    pin: &'a Pin,
    sha256: &'a str,
    source: Source,
    options: &'a DownloadOptions,
    part: PartFile,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

impl Download<'_> {
    /// Transfers the missing bytes. Returns false if the complete file in the part has a different hash.
    async fn fetch_and_check(&mut self) -> Result<bool, DownloadError> {
        self.fetch().await?;
        if self.part.hash() != self.sha256 {
            return Ok(false);
        }
        self.part.finish()?;
        Ok(true)
    }

    fn wrong_hash(mut self) -> DownloadError {
        let found = self.part.hash();
        self.part.discard();
        self.wrong_file("sha256", self.sha256.to_owned(), found)
    }

    fn wrong_file(&self, what: &'static str, expected: String, found: String) -> DownloadError {
        DownloadError::WrongFile { origin: self.source.origin(), what, expected, found }
    }

    async fn fetch(&mut self) -> Result<(), DownloadError> {
        let mut fruitless = 0;
        loop {
            let before = self.part.length();
            let Err(failure) = self.attempt().await else { return Ok(()) };
            let (why, asked) = match failure {
                AttemptError::Fatal(error) => return Err(error),
                AttemptError::Again { why, wait } => (why, wait),
            };
            fruitless = if self.part.length() > before { 1 } else { fruitless + 1 };
            if fruitless >= FRUITLESS_ATTEMPTS_MAX {
                self.part.sync();
                return Err(DownloadError::Interrupted { why, done: self.part.length() });
            }
            let wait = asked.unwrap_or(self.options.first_wait * 2_u32.pow(fruitless - 1)).min(WAIT_MAX);
            (self.progress)(Progress::Retry { why, wait });
            tokio::time::sleep(wait).await;
        }
    }

    /// Requests the missing bytes once, and writes them.
    async fn attempt(&mut self) -> Result<(), AttemptError> {
        let offset = self.part.length();
        if offset > 0 && self.pin.size == Some(offset) {
            return Ok(());
        }
        let answer = self.source.open(offset).await.map_err(|error| self.classify(error))?;
        let Answer { mut body, start, total } = answer;
        if let (Some(total), Some(size)) = (total, self.pin.size)
            && total != size
        {
            return Err(self.wrong_file("size", size.to_string(), total.to_string()).into());
        }
        if start != offset {
            let why = "the server sent the file from its beginning".to_owned();
            (self.progress)(Progress::Restarted { why });
            self.part.truncate()?;
        }
        if let Some(total) = total {
            check_space(self.part.folder(), total.saturating_sub(self.part.length()))?;
        }
        let most = self.pin.size.or(total);
        let mut reported = self.part.length();
        while let Some(bytes) = body.next().await.map_err(|error| self.classify(error))? {
            self.part.write(&bytes)?;
            let done = self.part.length();
            if let Some(most) = most.filter(|most| done > *most) {
                self.part.discard();
                return Err(self.wrong_file("size", most.to_string(), format!("more than {most}")).into());
            }
            if done - reported >= PROGRESS_BYTES {
                reported = done;
                (self.progress)(Progress::Bytes { done, total: most });
            }
        }
        let done = self.part.length();
        (self.progress)(Progress::Bytes { done, total: most });
        match most {
            Some(most) if done < most => Err(AttemptError::again("the connection was interrupted")),
            Some(_) | None => Ok(()),
        }
    }

    fn classify(&mut self, error: SourceError) -> AttemptError {
        match error {
            SourceError::Again { why, wait } => AttemptError::Again { why, wait },
            SourceError::Refused(why) => DownloadError::Refused { origin: self.source.origin(), why }.into(),
            SourceError::Unreadable(why) => {
                DownloadError::Unreadable { source_name: self.source.origin(), why }.into()
            }
            SourceError::Changed { what, expected, found } => self.wrong_file(what, expected, found).into(),
            SourceError::TooShort => match self.part.truncate() {
                Ok(()) => AttemptError::again("the part is longer than the file on the server"),
                Err(error) => error.into(),
            },
        }
    }
}

enum AttemptError {
    Fatal(DownloadError),
    /// Another attempt may succeed, after this wait if the server requested one.
    Again {
        why: String,
        wait: Option<Duration>,
    },
}

impl AttemptError {
    fn again(why: &str) -> Self {
        Self::Again { why: why.to_owned(), wait: None }
    }
}

impl From<DownloadError> for AttemptError {
    fn from(error: DownloadError) -> Self {
        Self::Fatal(error)
    }
}

/// Checks that the disk that holds `folder` has space for `bytes` more.
fn check_space(folder: &Path, bytes: u64) -> Result<(), DownloadError> {
    let free = free_bytes(folder)
        .map_err(|error| DownloadError::Io { path: folder.to_owned(), error })?
        .saturating_sub(DISK_RESERVE_BYTES);
    if bytes > free {
        return Err(DownloadError::NoSpace { folder: folder.to_owned(), needed: bytes, free });
    }
    Ok(())
}
