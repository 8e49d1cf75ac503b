//! File tools on the remote host, as scripts for POSIX `sh` and common utilities.
//!
//! A script enters the root, walks to the parent directory of a path one name at a time, and then uses the bare name in
//! its current directory. A link on the way is read and walked like the other parts of the path, so that `..`, absolute
//! links and links that lead out are refused where they occur. After each step, the script verifies that its physical
//! directory is below the root. Therefore, it notices if a directory is replaced with a link during the step, and a
//! later replacement has no effect. A file opened for reading is verified by its descriptor if `/proc` exists.
//!
//! `sh` cannot close three gaps. If there is no `/proc`, a file that is replaced with a link between the last check and
//! its opening is read through that link. If `mv` lacks `-T`, and a name becomes a directory at that moment, the new
//! file is put into the directory. If a directory is moved out of the root during a script, the script moves with it.

use std::sync::Arc;
use std::time::Duration;

use super::connection::ConnectionInner;
use super::error::SshError;
use super::running_script::{RunError, ScriptOutput, run_script};
use super::script::{RemoteScript, ScriptInput};
use crate::machine::{
    FILE_BYTES_MAX, FileKind, FileStat, LIST_ENTRIES_MAX, Listing, MachineError, Precondition,
};
use crate::path::{RootPath, shown};

const FILE_MAX: Duration = Duration::from_secs(300);
const LIST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum bytes of file names that a search reads.
pub(super) const TREE_BYTES_MAX: usize = 32 * 1024 * 1024;

const PRELUDE: &str = include_str!("files.sh");
const READ: &str = include_str!("read.sh");
const WRITE: &str = include_str!("write.sh");
const REMOVE: &str = include_str!("remove.sh");
const STAT: &str = include_str!("stat.sh");
const LIST: &str = include_str!("list.sh");
const FIND: &str = include_str!("find.sh");

/// Files below a root that was resolved once.
#[derive(Debug)]
pub(super) struct RemoteFiles<'a> {
    pub(super) inner: &'a Arc<ConnectionInner>,
    pub(super) root: &'a str,
}

impl RemoteFiles<'_> {
    pub(super) async fn read(&self, path: &RootPath) -> Result<Vec<u8>, MachineError> {
        let told = path.to_string();
        let Some((folder, name)) = path.split() else {
            self.run_read_only("enter \"$2\" ''; no folder", &[path.as_str()], 0, &told).await?;
            return Err(MachineError::IsFolder(told));
        };
        let max = FILE_BYTES_MAX.to_string();
        let bytes =
            self.run_read_only(READ, &[folder, name, &max], FILE_BYTES_MAX as usize + 1, &told).await?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(MachineError::TooLarge {
                path: told,
                bytes: bytes.len() as u64,
                most: FILE_BYTES_MAX,
            });
        }
        Ok(bytes)
    }

    pub(super) async fn write(
        &self,
        path: &RootPath,
        bytes: &[u8],
        before: &Precondition,
    ) -> Result<(), MachineError> {
        let told = path.to_string();
        let (folder, name) = path.split().ok_or_else(|| MachineError::IsFolder(told.clone()))?;
        let fresh = format!(".sysop-{:016x}", rand::random::<u64>());
        let (kind, old) = expected(before);
        let (old_length, length) = (old.len().to_string(), bytes.len().to_string());
        let arguments = [folder, name, &fresh, kind, &old_length, &length];
        self.run_changing(WRITE, &arguments, [old, bytes].concat(), &told).await
    }

    pub(super) async fn remove(&self, path: &RootPath, before: &Precondition) -> Result<(), MachineError> {
        let told = path.to_string();
        let (folder, name) = path.split().ok_or_else(|| MachineError::IsFolder(told.clone()))?;
        let (kind, old) = expected(before);
        self.run_changing(REMOVE, &[folder, name, kind], old.to_vec(), &told).await
    }

    pub(super) async fn make_folder(&self, path: &RootPath) -> Result<(), MachineError> {
        self.run_changing("enter \"$2\" 1", &[path.as_str()], Vec::new(), &path.to_string()).await
    }

    pub(super) async fn stat(&self, path: &RootPath) -> Result<FileStat, MachineError> {
        let told = path.to_string();
        let (folder, name) = path.split().unwrap_or((path.as_str(), "."));
        let said = self.run_read_only(STAT, &[folder, name], LIST_BYTES_MAX, &told).await?;
        let said = String::from_utf8_lossy(&said).into_owned();
        read_stat(&said)
            .ok_or_else(|| MachineError::Refused(format!("{told}: cannot determine the file type")))
    }

    pub(super) async fn list(&self, path: &RootPath) -> Result<Listing, MachineError> {
        let said = self.run_read_only(LIST, &[path.as_str()], LIST_BYTES_MAX, &path.to_string()).await?;
        let mut listing = Listing::default();
        let mut fields = said.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        while let (Some(named), Some(target)) = (fields.next(), fields.next()) {
            let (Some(letter), Some(name)) = (named.get(..1), named.get(1..)) else { continue };
            if name.is_empty() {
                continue;
            }
            if listing.entries.len() == LIST_ENTRIES_MAX {
                listing.more = true;
                break;
            }
            listing.entries.push((name.to_owned(), kind(letter, &target)));
        }
        listing.entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(listing)
    }

    /// Lists a directory tree in NUL-terminated fields: the name and the content of each ignore file, then an empty
    /// field, then the names of the files.
    pub(super) async fn tree(&self, path: &RootPath) -> Result<Vec<u8>, MachineError> {
        let max = TREE_BYTES_MAX.to_string();
        self.run_read_only(FIND, &[path.as_str(), &max], LIST_BYTES_MAX, &path.to_string()).await
    }

    /// Runs a script that changes nothing, and returns its output. `told` names the path in error messages.
    async fn run_read_only(
        &self,
        text: &str,
        arguments: &[&str],
        bytes_max: usize,
        told: &str,
    ) -> Result<Vec<u8>, MachineError> {
        let ran = run_script(self.inner, self.script(text, arguments, None), bytes_max, FILE_MAX).await;
        let ran = ran.map_err(|RunError { error, .. }| MachineError::Unreachable(error))?;
        self.checked_output(ran, told)
    }

    async fn run_changing(
        &self,
        text: &str,
        arguments: &[&str],
        input: Vec<u8>,
        told: &str,
    ) -> Result<(), MachineError> {
        let script = self.script(text, arguments, Some(input));
        match run_script(self.inner, script, 64 * 1024, FILE_MAX).await {
            Ok(ran) => self.checked_output(ran, told).map(drop),
            Err(RunError { error, may_have_run: false }) => Err(MachineError::Unreachable(error)),
            Err(RunError { error, may_have_run: true }) => Err(MachineError::Unknown(error)),
        }
    }

    fn script(&self, text: &str, arguments: &[&str], input: Option<Vec<u8>>) -> RemoteScript {
        let arguments = [&[self.root], arguments].concat();
        let input = input.map(ScriptInput::Bytes);
        RemoteScript { input, ..RemoteScript::new(&format!("{PRELUDE}{text}"), &arguments) }
    }

    /// Checks the exit status of a script. With status 40, the script printed a keyword that names the error. With any
    /// other error status, it printed an error text of the system.
    fn checked_output(&self, ran: ScriptOutput, told: &str) -> Result<Vec<u8>, MachineError> {
        match ran.status {
            0 => Ok(ran.output),
            40 => Err(self.refused(&ran.errors, told)),
            _ => Err(MachineError::Refused(format!("{told}: {}", system_said(&ran.errors)))),
        }
    }

    fn refused(&self, word: &str, told: &str) -> MachineError {
        let told = told.to_owned();
        // A tool may have printed a line before it.
        let word = word.lines().last().unwrap_or_default();
        if let Some((_, bytes)) = word.split_once("large ") {
            return MachineError::TooLarge {
                path: told,
                bytes: bytes.trim().parse().unwrap_or(u64::MAX),
                most: FILE_BYTES_MAX,
            };
        }
        match word {
            "missing" => MachineError::NotFound(told),
            "outside" => MachineError::OutsideRoot(told),
            "folder" => MachineError::IsFolder(told),
            "notdir" => MachineError::NotAFolder(told),
            "special" => MachineError::Special(told),
            "dangling" => MachineError::DanglingLink(told),
            "changed" => MachineError::Changed(told),
            "link" => {
                MachineError::Refused(format!("{told} is a symbolic link; file tools do not remove links"))
            }
            "loop" => MachineError::Refused(format!("too many levels of symbolic links in {told}")),
            "permission" => MachineError::Refused(format!("{told}: permission denied")),
            "short" => {
                MachineError::Refused(format!("{told}: the transfer was incomplete; nothing was changed"))
            }
            "root" => MachineError::Unreachable(SshError::root(self.inner.name(), self.root)),
            other => MachineError::Refused(format!("{told}: {}", shown(other))),
        }
    }
}

fn expected(before: &Precondition) -> (&'static str, &[u8]) {
    match before {
        Precondition::Any => ("any", &[]),
        Precondition::Absent => ("absent", &[]),
        Precondition::Bytes(bytes) => ("these", bytes),
    }
}

/// Returns the error that a tool printed, in the wording of the local file tools.
fn system_said(errors: &str) -> String {
    let known = [
        ("No space left", "no space left on device"),
        ("quota exceeded", "no space left on device"),
        ("File too large", "the file exceeds the file size limit of the remote host"),
        ("Read-only file system", "the file system is read-only"),
        ("ermission denied", "permission denied"),
        ("not permitted", "permission denied"),
        ("name too long", "file name too long"),
        ("File exists", "it exists but is not a directory"),
    ];
    let said = known.iter().find(|(text, _)| errors.contains(text));
    let last =
        || shown(errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("the operation failed"));
    said.map_or_else(last, |(_, told)| (*told).to_owned())
}

fn kind(letter: &str, target: &str) -> FileKind {
    match letter {
        "f" => FileKind::File,
        "d" => FileKind::Folder,
        "l" => FileKind::Link { target: target.to_owned() },
        _ => FileKind::Special,
    }
}

/// Parses a line of the form `kind size mode user group time`, followed by the link target on the next line.
fn read_stat(said: &str) -> Option<FileStat> {
    let (line, target) = said.split_once('\n')?;
    let mut fields = line.split(' ');
    let kind = kind(fields.next()?, target.strip_suffix('\n').unwrap_or(target));
    Some(FileStat {
        kind,
        bytes: fields.next()?.parse().ok()?,
        mode: u32::from_str_radix(fields.next()?, 8).ok()?,
        owner: (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?),
        modified_s: fields.next()?.parse().ok()?,
    })
}
