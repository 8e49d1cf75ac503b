//! Settings of hosts, and the errors of opening a host.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use sysop_core::catalog::Profile;
use sysop_core::policy::SandboxMode;

use crate::machine::FILE_BYTES_MAX;
use crate::output::OutputLimits;
use crate::sandbox::SandboxSupport;
use crate::ssh::{GUARD_SECONDS_DEFAULT, GUARD_SETTLE_DEFAULT, SshConnection};
use crate::undo::UndoSettings;

/// Default maximum size, in bytes, of the full output that is stored per call.
pub const ARTIFACT_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct LocalSettings {
    /// Directory that file tools cannot leave and in which commands start.
    pub root: PathBuf,
    /// Profile, which determines the tools that are offered.
    pub profile: Profile,
    pub limits: OutputLimits,
    /// Directory for artifacts and for pre-images of changed files; created when needed.
    pub artifacts: PathBuf,
    /// Maximum bytes of the full output that is stored per call.
    pub artifact_bytes_max: u64,
    /// Names of environment variables to hide from commands, in addition to those known to hold API keys.
    pub scrub_env: Vec<String>,
    /// Secrets to replace with `[redacted]` in all output; values under four bytes are ignored.
    pub secrets: Vec<SecretString>,
    /// Offers the tool that deletes files.
    pub allow_delete: bool,
    pub file_bytes_max: u64,
    /// Shell of the session's terminal; `None` means `$SHELL`.
    pub shell: Option<PathBuf>,
    /// Start of the session. Scripts changed since then are analyzed by their text.
    pub session_start: SystemTime,
    /// Sandbox features of the kernel. Without them, a call that must be fenced does not run.
    pub sandbox: SandboxSupport,
    /// Mode that decides which calls are fenced. Used here only to let the model ask to leave the sandbox.
    pub sandbox_mode: SandboxMode,
    /// State to save before changes; none by default.
    pub undo: UndoSettings,
}

impl LocalSettings {
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
            undo: UndoSettings::default(),
        }
    }
}

/// Settings for tools on another machine.
#[derive(Debug)]
pub struct RemoteSettings {
    pub connection: SshConnection,
    /// Directory on that machine that file tools cannot leave and in which commands start; `None` means the home
    /// directory.
    pub root: Option<String>,
    /// Profile, which determines the tools that are offered.
    pub profile: Profile,
    pub limits: OutputLimits,
    /// Directory on this machine for artifacts and for pre-images of changed files; created when needed.
    pub artifacts: PathBuf,
    /// Maximum bytes of the full output that is stored per call.
    pub artifact_bytes_max: u64,
    /// Secrets to replace with `[redacted]` in all output; values under four bytes are ignored.
    pub secrets: Vec<SecretString>,
    /// Offers the tool that deletes files.
    pub allow_delete: bool,
    /// Start of the session. Scripts changed since then are analyzed by their text.
    pub session_start: SystemTime,
    /// Seconds until a change that may lock people out is rolled back unless two fresh logins work; 0 turns guards off.
    pub guard_seconds: u32,
    /// Minimum time between the two fresh logins that confirm a guarded change.
    pub guard_settle: Duration,
    /// State to save on the machine before changes; none by default.
    pub undo: UndoSettings,
}

impl RemoteSettings {
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
            guard_seconds: GUARD_SECONDS_DEFAULT,
            guard_settle: GUARD_SETTLE_DEFAULT,
            undo: UndoSettings::default(),
        }
    }
}

/// Reason why a host cannot be opened. `Display` is one sentence that says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The root does not exist, is not a directory, or cannot be opened.
    #[error("cannot open the root {} ({source}); choose a directory with --root", root.display())]
    Root {
        root: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The destination is not safe to pass to `ssh`.
    #[error("invalid ssh destination {0:?}; use an alias, a host, user@host or ssh://user@host:port")]
    Destination(String),
    /// The destination starts like a container name, but names no container.
    #[error("invalid container {destination:?}: {why}")]
    Container {
        /// Destination as the user gave it, escaped.
        destination: String,
        /// Reason, with the expected form.
        why: String,
    },
}
