//! What tools need of a machine. Tools are written once, over [`Machine`]; they never ask which machine it is.
//!
//! Every path is resolved on the machine, beneath its root, at the moment of the access.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use globset::GlobMatcher;
use sysop_core::policy::{CommandContext, Fence, ResolvedTarget, Target};
use sysop_driver::port::CancellationToken;

use crate::output::capture::Capture;
use crate::path::RootPath;
use crate::sandbox::SandboxSupport;
use crate::ssh::SshError;
use crate::terminal::shells::ShellKind;

/// A file tool reads, edits and replaces files up to this many bytes.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most entries of one folder that are listed.
pub const LIST_ENTRIES_MAX: usize = 10_000;
/// The most files that one search finds.
pub const FIND_FILES_MAX: usize = 1_000;

/// The most files that one target with a glob may lead to.
/// The most repositories whose configuration is read for one call: the one it works in and those inside it.
pub(crate) const REPOSITORIES_MAX: usize = 16;
pub(crate) const RESOLVED_FILES_MAX: usize = 1_000;
/// The longest text of a script that is judged when it is run.
pub(crate) const SCRIPT_TEXT_BYTES_MAX: usize = 64 * 1024;

/// A place with files beneath a root, and a shell.
#[async_trait]
pub(crate) trait Machine: Send + Sync {
    /// Reads what a tool's argument says into a path beneath the root.
    async fn path(&self, text: &str) -> Result<RootPath, MachineError>;

    /// Runs a program in the root to its end and takes its output, held to what `fence` allows or not at all. It is
    /// stopped, with all that it started, by `cancel` and when its time is up.
    async fn exec(
        &self,
        program: Program,
        fence: &Fence,
        timeout: Duration,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ExecResult, MachineError>;

    /// The bytes of a file, at most `FILE_BYTES_MAX`.
    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError>;

    /// Puts bytes in the place of a file, all at once; creates its parents. Keeps the mode of a file that is
    /// there; writes through a link. Fails with `Changed` if the file is not what `before` says.
    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Precondition) -> Result<(), MachineError>;

    /// Removes a file. Fails with `Changed` if the file is not what `before` says.
    async fn remove(&self, path: &RootPath, before: Precondition) -> Result<(), MachineError>;

    /// Creates a folder and its parents; that it is there already is no error. Cancelled before it has begun, it
    /// is not done.
    async fn make_folder(&self, path: &RootPath, cancel: &CancellationToken) -> Result<(), MachineError>;

    /// What there is at a path; a link is not followed.
    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<FileStat, MachineError>;

    /// The entries of a folder by name, at most `LIST_ENTRIES_MAX`.
    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError>;

    /// The files below a folder that match, by name, at most `FIND_FILES_MAX`; ignored ones are left out.
    async fn find(
        &self,
        search: FileSearch,
        cancel: &CancellationToken,
    ) -> Result<FileSearchResult, MachineError>;

    /// Where commands run and as whom, in the root. Found out once; fails where the machine cannot be reached.
    async fn context(&self) -> Result<CommandContext, MachineError>;

    /// What targets lead to, in at most one round trip; none where nobody can tell. A target that is left out
    /// could not be resolved. `home` is what `~` stands for.
    async fn resolve(&self, targets: Vec<Target>, home: Option<&str>) -> Option<Vec<ResolvedTarget>>;

    /// How many times targets may be resolved for one call: those of the call itself, then those of the scripts that
    /// it runs.
    fn resolutions_max(&self) -> usize;

    /// What is in the foreground of a terminal of the machine (`/dev/pts/3`) in which this shell runs, asked beside the
    /// terminal's own connection; none where nobody can tell.
    async fn foreground(&self, tty: &str, shell: u32) -> Option<Foreground>;

    /// How to start a shell for people and model on it, in a terminal of this machine.
    async fn terminal(&self) -> Result<TerminalStart, MachineError>;

    /// Whether what is typed into a terminal of the machine (`/dev/pts/3`) is shown, asked beside the terminal's
    /// own connection; none where nobody can tell.
    async fn echo(&self, tty: &str) -> Option<Echo>;
}

/// How to start the shell of a terminal.
#[derive(Debug, Clone)]
pub(crate) struct TerminalStart {
    /// Absolute path of the program: the shell, or what connects to it.
    pub(crate) program: PathBuf,
    /// Without the program's name.
    pub(crate) arguments: Vec<OsString>,
    /// All variables that it gets.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub(crate) folder: PathBuf,
    /// The name of the remote machine on which the shell runs; none where it runs on this one.
    pub(crate) remote_host: Option<String>,
    /// Which shell it is, where that is known; else the shell is asked.
    pub(crate) shell: Option<ShellKind>,
    /// The program that runs the model's commands where the shell is of another language: bash, else `sh`.
    pub(crate) runner: String,
    /// What the shell is held to.
    pub(crate) fence: Fence,
    /// By what it can be held.
    pub(crate) sandbox: SandboxSupport,
}

/// What a terminal does with what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// It is shown, or a program takes each key by itself.
    On,
    /// Lines are read and not shown: as for a password.
    Off,
}

/// What is in the foreground of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreground {
    /// Whether it is the shell itself.
    pub(crate) is_shell: bool,
    /// Whether keys are taken one by one, as line editors do.
    pub(crate) is_raw: bool,
    /// The name of the program; empty where it is not known.
    pub(crate) program: String,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// A command for the machine's shell, and variables for it beside those that all commands get.
    Shell { command: String, variables: &'static [(&'static str, &'static str)] },
    /// Git, away from all that configures it from outside.
    Git {
        /// After `git`.
        arguments: Vec<String>,
        /// Settings that beat those of the repository: key and value.
        settings: Vec<(String, String)>,
    },
    /// A script for `sh` that runs git in the same way, and its arguments.
    GitScript { text: &'static str, arguments: Vec<String>, settings: Vec<(String, String)> },
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecResult {
    pub(crate) end: ExitReason,
    /// Whether something that it started still holds its output.
    pub(crate) left_running: bool,
}

/// Why a program is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Exited(i32),
    Killed {
        signal: i32,
    },
    TimedOut,
    Cancelled,
    /// The machine was lost while it ran; nobody knows how it ended, or whether it has.
    Unknown {
        why: String,
    },
}

/// What a file has to be for a change to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// Not there.
    Absent,
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// A file of any content, or none.
    Any,
}

impl Precondition {
    /// What a file with these bytes is; `None` stands for no file.
    pub(crate) fn of(bytes: Option<Arc<Vec<u8>>>) -> Self {
        bytes.map_or(Self::Absent, Self::Bytes)
    }
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    pub(crate) bytes: u64,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Numbers of owner and group.
    pub(crate) owner: (u32, u32),
    /// Seconds since 1970.
    pub(crate) modified_s: i64,
}

/// Kinds of things with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Folder,
    Link { target: String },
    Special,
}

/// The entries of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<(String, FileKind)>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// A search for files.
#[derive(Debug, Clone)]
pub(crate) struct FileSearch {
    pub(crate) folder: RootPath,
    pub(crate) glob: GlobMatcher,
    /// Whether the glob is meant for the name alone, not for the path below the folder.
    pub(crate) by_name: bool,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSearchResult {
    /// Paths below the root, sorted.
    pub(crate) paths: Vec<String>,
    /// Why there may be more.
    pub(crate) incomplete: Option<&'static str>,
}

/// Why a machine did not do it; told to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("{0} does not exist")]
    NotFound(String),
    #[error("{0} leads outside the root; file tools stay inside it")]
    OutsideRoot(String),
    #[error("{0} is a folder")]
    IsFolder(String),
    #[error("a part of {0} is a file, not a folder")]
    NotAFolder(String),
    #[error("{0} is neither a file nor a folder")]
    Special(String),
    #[error("{0} is a link to nothing; file tools do not create what a link points to")]
    DanglingLink(String),
    #[error("{path} has {bytes} bytes; file tools take at most {most}")]
    TooLarge { path: String, bytes: u64, most: u64 },
    #[error("{0} was changed by someone else in the meantime; read it again")]
    Changed(String),
    #[error("{0}")]
    Refused(String),
    /// The machine cannot be reached; nothing was done.
    #[error("{0}")]
    Unreachable(SshError),
    /// The machine was lost while it was done.
    #[error("it is not known whether this was done: {0}")]
    Unknown(SshError),
    #[error("stopped")]
    Cancelled,
}
