//! Reads audit files and verifies their chain; never changes them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::entry::{AuditEntry, AuditLine, ChainLink, LINE_BYTES_MAX, hex};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSummary {
    pub files: usize,
    /// Number of verified lines across all files.
    pub lines: u64,
    /// Hash of the last line. If a copy is stored in another place, it reveals later that the end was cut off or that
    /// everything was rewritten.
    pub end: String,
}

/// Break in a chain. `Display` names the first bad line.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// A line was changed, removed or moved.
    #[error("{path}:{line}: {why}")]
    BadLine {
        path: String,
        /// Line number, from 1.
        line: u64,
        /// Kind of damage.
        why: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable { path: String, error: io::Error },
}

/// Lists the files of an audit, oldest first.
pub fn files(current: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = rotated(current)?.into_iter().map(|(_, path)| path).collect();
    if current.exists() {
        files.push(current.to_owned());
    }
    Ok(files)
}

pub(super) fn rotated(current: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let (Some(folder), Some(stem)) = (current.parent(), current.file_stem().and_then(|stem| stem.to_str()))
    else {
        return Ok(Vec::new());
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".jsonl"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Verifies every line of consecutive files. The error is the first line that breaks the chain.
pub fn verify(files: &[PathBuf]) -> Result<ChainSummary, ChainError> {
    let mut end: Option<ChainLink> = None;
    let mut lines = 0;
    for path in files {
        read(path, |number, text| {
            let broken = |why| ChainError::BadLine { path: path.display().to_string(), line: number, why };
            let line = text.and_then(AuditLine::parse).ok_or_else(|| broken("not an audit log line"))?;
            let before = match end {
                Some(end) => end,
                // Older files may have been deleted, so the first file's stated predecessor is trusted.
                None => first(&line).ok_or_else(|| broken("the start of the file is missing"))?,
            };
            if line.n != before.n + 1 {
                return Err(broken("lines before this one are missing, or it is out of order"));
            }
            if line.hash != before.hash_of(&line.body) {
                return Err(broken("this line or the one before it was changed"));
            }
            end = Some(line.link());
            lines += 1;
            Ok(())
        })?;
    }
    let end = end.map_or_else(|| hex(&ChainLink::START.hash), |link| hex(&link.hash));
    Ok(ChainSummary { files: files.len(), lines, end })
}

/// Returns the end of the previous file's chain, as stated by the first line of a file.
fn first(line: &AuditLine) -> Option<ChainLink> {
    let hash = *blake3::Hash::from_hex(line.entry.previous.as_ref()?).ok()?.as_bytes();
    Some(ChainLink { n: line.n.checked_sub(1)?, hash })
}

/// Passes every line to `take` without verifying it. A malformed line is passed as `None`.
pub fn each_line(files: &[PathBuf], mut take: impl FnMut(Option<AuditEntry>)) -> Result<(), ChainError> {
    for path in files {
        read(path, |_, text| {
            take(text.and_then(AuditLine::parse).map(|line| line.entry));
            Ok(())
        })?;
    }
    Ok(())
}

/// Passes each line with its number to `take`. A line that is not UTF-8, too long or incomplete is passed as `None`.
fn read(
    path: &Path,
    mut take: impl FnMut(u64, Option<&str>) -> Result<(), ChainError>,
) -> Result<(), ChainError> {
    let unread = |error| ChainError::Unreadable { path: path.display().to_string(), error };
    let mut file = BufReader::new(File::open(path).map_err(unread)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let most = LINE_BYTES_MAX as u64;
        if file.by_ref().take(most).read_until(b'\n', &mut line).map_err(unread)? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        take(number, text)?;
    }
    Ok(())
}
