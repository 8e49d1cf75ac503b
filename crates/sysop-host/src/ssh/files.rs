//! Files on the remote machine, by scripts for POSIX `sh` and the usual tools beside it.
//!
//! A script goes to the root, walks to the folder of a path name by name, and then works with the bare name in the
//! folder that it stands in. A link on the way is read and walked like the rest of the path, so that `..`,
//! absolute links and links that lead out are refused where they are met. After each step the system is asked
//! where the script stands, and that has to be beneath the root; so a folder that is exchanged for a link while
//! it is entered is noticed, and one that is exchanged later does not matter. What was opened for reading is
//! checked by its descriptor where there is `/proc`.
//!
//! What `sh` cannot close: a file that is exchanged for a link between the last look and its opening is read
//! where there is no `/proc`, and where `mv` knows no `-T` a name that becomes a folder in that moment receives
//! the new file inside. A whole folder that is moved out of the root while a script stands in it takes the
//! script along.

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

/// How long a file may be on its way.
const FILE_MAX: Duration = Duration::from_secs(300);
/// The most bytes that a list of names may have.
const LIST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes of names that a search looks at.
pub(super) const TREE_BYTES_MAX: usize = 32 * 1024 * 1024;

const PRELUDE: &str = include_str!("files.sh");
const READ: &str = include_str!("read.sh");
const WRITE: &str = include_str!("write.sh");
const REMOVE: &str = include_str!("remove.sh");
const STAT: &str = include_str!("stat.sh");
const LIST: &str = include_str!("list.sh");
const FIND: &str = include_str!("find.sh");

/// Files beneath a root that was resolved once.
#[derive(Debug)]
pub(super) struct RemoteFiles<'a> {
    pub(super) inner: &'a Arc<ConnectionInner>,
    /// The root's place, without links.
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

    /// What there is below a folder: files of rules, each name with its content, an empty field, the files.
    pub(super) async fn tree(&self, path: &RootPath) -> Result<Vec<u8>, MachineError> {
        let max = TREE_BYTES_MAX.to_string();
        self.run_read_only(FIND, &[path.as_str(), &max], LIST_BYTES_MAX, &path.to_string()).await
    }

    /// Runs a script that changes nothing.
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

    /// Runs a script that changes something.
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

    /// Statuses 40 and 41 are the scripts' own: a word of theirs, and a text of the system's.
    fn checked_output(&self, ran: ScriptOutput, told: &str) -> Result<Vec<u8>, MachineError> {
        match ran.status {
            0 => Ok(ran.output),
            40 => Err(self.refused(&ran.errors, told)),
            _ => Err(MachineError::Refused(format!("{told}: {}", system_said(&ran.errors)))),
        }
    }

    fn refused(&self, word: &str, told: &str) -> MachineError {
        let told = told.to_owned();
        // A tool may have said something before.
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

/// What has to be there, as the scripts take it.
fn expected(before: &Precondition) -> (&'static str, &[u8]) {
    match before {
        Precondition::Any => ("any", &[]),
        Precondition::Absent => ("absent", &[]),
        Precondition::Bytes(bytes) => ("these", bytes),
    }
}

/// What a tool said about its failure, in the words that this machine uses.
fn system_said(errors: &str) -> String {
    let known = [
        ("No space left", "the disk is full"),
        ("quota exceeded", "the disk is full"),
        (
            "the file exceeds the file size limit of the remote host",
            "the file is larger than the limits there allow",
        ),
        ("Read-only file system", "the disk is read-only"),
        ("ermission denied", "no permission"),
        ("not permitted", "no permission"),
        ("file name too long", "a name in it is too long"),
        ("File exists", "it exists but is not a directory"),
    ];
    let said = known.iter().find(|(text, _)| errors.contains(text));
    let last = || shown(errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed"));
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

/// Reads `kind size mode user group time`, and below it what a link points to.
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
