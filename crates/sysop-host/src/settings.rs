//! How a host is opened, and why it cannot be.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use secrecy::SecretString;
use sysop_core::catalog::Profile;
use sysop_core::policy::SandboxMode;

use crate::machine::FILE_BYTES_MAX;
use crate::output::OutputLimits;
use crate::sandbox::SandboxSupport;
use crate::ssh::SshConnection;

/// The most bytes kept of the whole output of one call, where the settings do not say otherwise.
pub const ARTIFACT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How this machine is offered to a session.
#[derive(Debug)]
pub struct LocalSettings {
    /// The folder that file tools never leave, and in which commands start.
    pub root: PathBuf,
    /// Which tools are offered.
    pub profile: Profile,
    /// How much of an output the model is told.
    pub limits: OutputLimits,
    /// Folder for whole outputs and for the earlier bytes of changed files; created when it is needed.
    pub artifacts: PathBuf,
    /// The most bytes kept of the whole output of one call.
    pub artifact_bytes_max: u64,
    /// Names of environment variables that commands do not get; beyond those that are known to hold keys.
    pub scrub_env: Vec<String>,
    /// Texts that are replaced by `[redacted]` in all output, where they have at least four bytes.
    pub secrets: Vec<SecretString>,
    /// Whether there is a tool that deletes files.
    pub allow_delete: bool,
    /// The most bytes of a file that file tools write.
    pub file_bytes_max: u64,
    /// The shell of the session's terminal; `$SHELL` where it is not said.
    pub shell: Option<PathBuf>,
    /// When the session began: a script that was changed since is judged by its text.
    pub session_start: SystemTime,
    /// What the kernel offers for fences; without it a call that has to be fenced does not run.
    pub sandbox: SandboxSupport,
    /// When calls are fenced. Decides nothing here but whether a model is offered to run a command outside.
    pub sandbox_mode: SandboxMode,
}

impl LocalSettings {
    /// The contract's settings for a root.
    pub fn new(root: impl Into<PathBuf>, artifacts: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            profile: Profile::default(),
            limits: OutputLimits::default(),
            artifacts: artifacts.into(),
            artifact_bytes_max: ARTIFACT_BYTES_MAX,
            scrub_env: Vec::new(),
            secrets: Vec::new(),
            allow_delete: false,
            file_bytes_max: FILE_BYTES_MAX,
            shell: None,
            session_start: SystemTime::now(),
            sandbox: SandboxSupport::NONE,
            sandbox_mode: SandboxMode::Off,
        }
    }
}

/// How another machine is offered to a session.
#[derive(Debug)]
pub struct RemoteSettings {
    /// How it is reached.
    pub connection: SshConnection,
    /// The folder there that file tools never leave, and in which commands start; the home without one.
    pub root: Option<String>,
    /// Which tools are offered.
    pub profile: Profile,
    /// How much of an output the model is told.
    pub limits: OutputLimits,
    /// Folder on this machine for whole outputs and for the earlier bytes of changed files; created when it is
    /// needed.
    pub artifacts: PathBuf,
    /// The most bytes kept of the whole output of one call.
    pub artifact_bytes_max: u64,
    /// Texts that are replaced by `[redacted]` in all output, where they have at least four bytes.
    pub secrets: Vec<SecretString>,
    /// Whether there is a tool that deletes files.
    pub allow_delete: bool,
    /// When the session began: a script that was changed since is judged by its text.
    pub session_start: SystemTime,
}

impl RemoteSettings {
    /// The contract's settings for a machine.
    pub fn new(connection: SshConnection, root: Option<String>, artifacts: impl Into<PathBuf>) -> Self {
        Self {
            connection,
            root,
            profile: Profile::default(),
            limits: OutputLimits::default(),
            artifacts: artifacts.into(),
            artifact_bytes_max: ARTIFACT_BYTES_MAX,
            secrets: Vec::new(),
            allow_delete: false,
            session_start: SystemTime::now(),
        }
    }
}

/// Why a host cannot be opened. `Display` is one sentence that says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The root is not there, no folder, or not to be opened.
    #[error("the root {} cannot be opened ({source}); name a folder with --root", root.display())]
    Root {
        /// As it was given.
        root: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What `ssh` cannot be given safely.
    #[error("{0:?} is no destination for ssh; name an alias, a host, user@host or ssh://user@host:port")]
    Destination(String),
}
