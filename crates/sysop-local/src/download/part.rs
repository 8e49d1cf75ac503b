//! The unfinished file of a download, with its lock and the hash of its bytes so far.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use super::{DownloadError, part_path};

/// Bytes read at a time to hash a file.
const CHUNK_BYTES: usize = 1024 * 1024;

pub(super) struct PartFile {
    target: PathBuf,
    part: PathBuf,
    /// The part, locked until it is closed.
    file: File,
    hash: Sha256,
    length: u64,
    renamed: bool,
}

impl PartFile {
    /// Opens and locks the part of `target`.
    pub(super) fn lock(target: &Path) -> Result<Self, DownloadError> {
        let part = part_path(target);
        let failed = |error| DownloadError::Io { path: part.clone(), error };
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = loop {
            let file = options.open(&part).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(DownloadError::Busy),
                Err(error) => return Err(failed(error.into())),
            }
            // Another process may have renamed or removed the file before this one got the lock.
            if is_at(&file, &part) {
                break file;
            }
        };
        let hash = Sha256::new();
        Ok(Self { target: target.to_owned(), file, hash, length: 0, renamed: false, part })
    }

    /// Hashes the bytes in the part. A part that is longer than the file is emptied.
    pub(super) fn read(&mut self, size: Option<u64>) -> Result<(), DownloadError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = self.file.read(&mut chunk).map_err(|error| self.failed(error))?;
            if count == 0 {
                break;
            }
            self.hash.update(&chunk[..count]);
            self.length += count as u64;
        }
        if size.is_some_and(|size| self.length > size) {
            self.truncate()?;
        }
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn is_renamed(&self) -> bool {
        self.renamed
    }

    pub(super) fn folder(&self) -> &Path {
        self.target.parent().unwrap_or(Path::new("."))
    }

    /// Returns the hash of the bytes so far, in hexadecimal digits.
    pub(super) fn hash(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), DownloadError> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.hash.update(&bytes[..count]);
                    self.length += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => return Err(DownloadError::DiskFull { done: self.length }),
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Result<(), DownloadError> {
        self.file.set_len(0).map_err(|error| self.failed(error))?;
        (self.hash, self.length) = (Sha256::new(), 0);
        Ok(())
    }

    /// Flushes the bytes to the disk. An error is ignored.
    pub(super) fn sync(&self) {
        let _ = self.file.sync_data(); // the hash reveals a lost byte
    }

    /// Moves the complete and checked file to its final path.
    pub(super) fn finish(&mut self) -> Result<(), DownloadError> {
        self.file.sync_all().map_err(|error| self.failed(error))?;
        fs::rename(&self.part, &self.target).map_err(|error| self.failed(error))?;
        self.renamed = true;
        if let Ok(folder) = File::open(self.folder()) {
            let _ = folder.sync_all(); // the rename itself is atomic either way
        }
        Ok(())
    }

    pub(super) fn discard(&mut self) {
        let _ = fs::remove_file(&self.part); // leaves at most a part with a wrong hash
    }

    fn failed(&self, error: io::Error) -> DownloadError {
        if is_full(&error) {
            return DownloadError::DiskFull { done: self.length };
        }
        DownloadError::Io { path: self.part.clone(), error }
    }
}

/// A part without bytes, left by a server that could not be reached, is removed while it is still locked.
impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.renamed && self.length == 0 && is_at(&self.file, &self.part) && is_empty(&self.file) {
            self.discard();
        }
    }
}

fn is_empty(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() == 0)
}

/// Returns true if the open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, there) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((open, there), (Ok(open), Ok(there)) if open == there)
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Returns true if the file exists and has this hash. Does not touch a file with another hash.
pub(super) fn has_hash(path: &Path, sha256: &str) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return hex(&hash.finalize()) == sha256,
            Ok(count) => hash.update(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Returns the bytes that this user may still write on the disk that holds `folder`.
pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_from_other_errors() {
        let dir = tempfile::tempdir().unwrap();
        let mut part = PartFile::lock(&dir.path().join("model.gguf")).unwrap();
        part.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(matches!(part.write(b"bytes"), Err(DownloadError::DiskFull { done: 0 })));
        assert!(!dir.path().join("model.gguf").exists());
    }

    #[test]
    fn one_file_is_downloaded_by_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model.gguf");
        let first = PartFile::lock(&target).unwrap();
        assert!(matches!(PartFile::lock(&target), Err(DownloadError::Busy)));
        drop(first);
        assert!(PartFile::lock(&target).is_ok());
    }

    #[test]
    fn only_an_empty_part_is_removed_when_a_download_ends() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model.gguf");
        drop(PartFile::lock(&target).unwrap());
        assert!(!part_path(&target).exists());
        PartFile::lock(&target).unwrap().write(b"bytes").unwrap();
        drop(PartFile::lock(&target).unwrap()); // its bytes were not read yet
        assert_eq!(fs::read(part_path(&target)).unwrap(), b"bytes");
    }

    #[test]
    fn hashes_are_written_in_lowercase_digits() {
        assert_eq!(
            hex(&Sha256::digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
