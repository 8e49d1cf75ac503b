//! Operations that tools need from a machine. Tools are written for any [`Machine`], never for one kind.
//!
//! Every path is resolved on the machine, beneath its root, at the time of access.

use std::any::Any;
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

/// Maximum bytes of a file that file tools read, edit or replace.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
pub const LIST_ENTRIES_MAX: usize = 10_000;
pub const FIND_FILES_MAX: usize = 1_000;

/// Maximum repositories whose configuration is read for one call: the call's own and those inside it.
pub(crate) const REPOSITORIES_MAX: usize = 16;
/// Maximum files that one target with a glob may expand to.
pub(crate) const RESOLVED_FILES_MAX: usize = 1_000;
/// Maximum bytes of a script whose text is analyzed when a command runs it.
pub(crate) const SCRIPT_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Machine with files beneath a root, and a shell.
#[async_trait]
pub(crate) trait Machine: Send + Sync {
    /// Parses the path argument of a tool into a path beneath the root.
    async fn path(&self, text: &str) -> Result<RootPath, MachineError>;

    /// Runs a program in the root to completion and captures its output. The program runs inside `fence` or not at all.
    /// On `cancel` and at the timeout, the program is stopped together with all processes that it started.
    async fn exec(
        &self,
        program: Program,
        fence: &Fence,
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ExecResult, MachineError>;

    fn uses_sudo(&self) -> bool;

    /// Reads a file of at most `FILE_BYTES_MAX` bytes.
    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError>;

    /// Replaces or creates a file atomically, and creates missing parent directories. Keeps the mode of an existing
    /// file and writes through links. Fails with `Changed` if the file does not match `before`.
    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Precondition) -> Result<(), MachineError>;

    /// Removes a file. Fails with `Changed` if the file does not match `before`.
    async fn remove(&self, path: &RootPath, before: Precondition) -> Result<(), MachineError>;

    /// Creates a directory and its parents. Succeeds if the directory exists. Creates nothing if canceled early.
    async fn make_folder(&self, path: &RootPath, cancel: &CancellationToken) -> Result<(), MachineError>;

    /// Returns the type and the metadata of a path. If the path itself is a link, the link is not followed.
    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<FileStat, MachineError>;

    /// Lists the entries of a directory, sorted by name, at most `LIST_ENTRIES_MAX` of them.
    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError>;

    /// Finds matching files below a directory, sorted by name, at most `FIND_FILES_MAX` of them. Skips ignored files.
    async fn find(
        &self,
        search: FileSearch,
        cancel: &CancellationToken,
    ) -> Result<FileSearchResult, MachineError>;

    /// Returns the context for commands in the root, such as directory, user and shell. The context is determined once.
    /// Fails if the machine cannot be reached.
    async fn context(&self) -> Result<CommandContext, MachineError>;

    /// Resolves targets to files in at most one round trip. Returns `None` if the machine gives no answer. A target
    /// that could not be resolved is missing from the result. `home` replaces `~`.
    async fn resolve(&self, targets: Vec<Target>, home: Option<&str>) -> Option<Vec<ResolvedTarget>>;

    /// Returns the maximum number of rounds of resolution per call. The first round resolves the call's own targets;
    /// further rounds resolve the targets of the scripts that the call runs.
    fn resolutions_max(&self) -> usize;

    /// Returns the foreground program of a terminal on the machine (such as `/dev/pts/3`) in which the shell
    /// with the process id `shell` runs. The query uses a connection other than the terminal's. Returns
    /// `None` if the program is unknown.
    async fn foreground(&self, tty: &str, shell: u32) -> Option<Foreground>;

    /// Returns the command that starts a shell on the machine for the user and the model. The command runs in
    /// a terminal on the computer that runs sysop.
    async fn terminal(&self) -> Result<TerminalStart, MachineError>;

    /// Returns the echo mode of a terminal on the machine (such as `/dev/pts/3`). The query uses a connection
    /// other than the terminal's. Returns `None` if the mode is unknown.
    async fn echo(&self, tty: &str) -> Option<Echo>;
}

/// Time limit for a program, which may be lifted while the program is running.
#[derive(Debug, Clone)]
pub(crate) struct TimeLimit {
    pub(crate) time: Duration,
    /// Canceled once the limit is lifted.
    pub(crate) lifted: CancellationToken,
}

impl TimeLimit {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, lifted: CancellationToken::new() }
    }

    /// Returns once the time is up; never returns if the limit is lifted first.
    pub(crate) async fn reached(&self) {
        tokio::select! {
            biased;
            () = self.lifted.cancelled() => std::future::pending().await,
            () = tokio::time::sleep(self.time) => {}
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TerminalStart {
    /// Absolute path of the program: the shell, or the program that connects to it.
    pub(crate) program: PathBuf,
    /// Arguments without the program's name.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) folder: PathBuf,
    /// Name of the remote machine on which the shell runs; `None` for this machine.
    pub(crate) remote_host: Option<String>,
    /// Kind of shell; if `None`, the shell is asked to identify itself.
    pub(crate) shell: Option<ShellKind>,
    /// Program that runs the model's commands if the user's shell cannot be analyzed: bash if available, else `sh`.
    pub(crate) runner: String,
    pub(crate) fence: Fence,
    /// Sandbox features of the kernel, for `fence`.
    pub(crate) sandbox: SandboxSupport,
    /// Guard that, when dropped, kills whatever the program has left running on the machine.
    pub(crate) guard: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Input is echoed, or a program reads single keys.
    On,
    /// Lines are read without echo, as for a password.
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreground {
    pub(crate) is_shell: bool,
    /// True if the program reads keys one by one, as a line editor does.
    pub(crate) is_raw: bool,
    /// Name of the program; empty if unknown.
    pub(crate) program: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// Command for the machine's shell, with variables to set in addition to the variables of every command.
    Shell { command: String, variables: &'static [(&'static str, &'static str)] },
    /// Command for the machine's shell, in a process group that the guard in the directory `guard` can kill.
    GuardedShell { command: String, guard: String },
    /// Git, isolated from outside configuration.
    Git {
        /// Arguments after `git`.
        arguments: Vec<String>,
        /// Config settings, each as key and value, that override the settings of the repository.
        settings: Vec<(String, String)>,
    },
    /// Script of a probe, for the shell that runs the commands.
    Probe { text: String },
    /// Script for `sh`, with its arguments. The script runs git, isolated as in `Git`.
    GitScript { text: &'static str, arguments: Vec<String>, settings: Vec<(String, String)> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecResult {
    pub(crate) end: ExitReason,
    /// True if a process that the program started still holds the output pipe open.
    pub(crate) left_running: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Exited(i32),
    Killed {
        signal: i32,
    },
    TimedOut,
    Cancelled,
    /// The machine became unreachable during the run, so it is unknown whether and how the program ended.
    Unknown {
        why: String,
    },
}

impl ExitReason {
    /// Checks that the program exited by itself within the limit; its exit code does not matter. The error is a phrase.
    pub(crate) fn require_exit(self, limit: &TimeLimit) -> Result<(), String> {
        match self {
            Self::Exited(_) => Ok(()),
            Self::TimedOut => Err(format!("timed out after {} s", limit.time.as_secs())),
            Self::Cancelled => Err("stopped".to_owned()),
            Self::Killed { signal } => Err(format!("killed by signal {signal}")),
            Self::Unknown { why } => Err(why),
        }
    }
}

/// Required state of a file before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// The file does not exist.
    Absent,
    /// The file has exactly these bytes.
    Bytes(Arc<Vec<u8>>),
    Any,
}

impl Precondition {
    /// Returns the precondition that a file has these bytes or, if `bytes` is `None`, that it does not exist.
    pub(crate) fn of(bytes: Option<Arc<Vec<u8>>>) -> Self {
        bytes.map_or(Self::Absent, Self::Bytes)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    pub(crate) bytes: u64,
    pub(crate) mode: u32,
    /// User id and group id.
    pub(crate) owner: (u32, u32),
    /// Seconds since the Unix epoch.
    pub(crate) modified_s: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Folder,
    Link { target: String },
    Special,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<(String, FileKind)>,
    pub(crate) more: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct FileSearch {
    pub(crate) folder: RootPath,
    pub(crate) glob: GlobMatcher,
    /// If set, the glob applies to the file name, otherwise to the path below the directory.
    pub(crate) by_name: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSearchResult {
    /// Paths below the root, sorted.
    pub(crate) paths: Vec<String>,
    /// Reason why files may be missing from the result; `None` if it is complete.
    pub(crate) incomplete: Option<&'static str>,
}

/// Reason why an operation failed. The model sees the text of its `Display`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("{0} does not exist")]
    NotFound(String),
    #[error("{0} is outside the root; file tools work only below the root")]
    OutsideRoot(String),
    #[error("{0} is a directory")]
    IsFolder(String),
    #[error("a parent of {0} is a file, not a directory")]
    NotAFolder(String),
    #[error("{0} is neither a regular file nor a directory")]
    Special(String),
    #[error("{0} is a broken symbolic link; file tools do not create link targets")]
    DanglingLink(String),
    #[error("{path} is {bytes} bytes; the limit for file tools is {most}")]
    TooLarge { path: String, bytes: u64, most: u64 },
    #[error("{0} was changed by another program in the meantime; read it again")]
    Changed(String),
    #[error("{0}")]
    Refused(String),
    /// The machine cannot be reached; nothing was done.
    #[error("{0}")]
    Unreachable(SshError),
    /// The connection was lost during the operation, which may or may not have taken effect.
    #[error("the result is unknown: {0}")]
    Unknown(SshError),
    #[error("stopped")]
    Cancelled,
}
