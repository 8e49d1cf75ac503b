//! The circumstances in which a command would run, as its host reports them.

use serde::{Deserialize, Serialize};

/// The language of the shell that reads a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// bash.
    Bash,
    /// A POSIX shell: dash, busybox, ksh, or bash as `sh`.
    Sh,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// csh or tcsh.
    Csh,
    /// Not known.
    #[default]
    Unknown,
}

impl Dialect {
    /// The dialect of this name, as `--dialect` takes it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "sh" => Some(Self::Sh),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            "csh" => Some(Self::Csh),
            _ => None,
        }
    }

    /// Whether commands in it are analyzed; those in any other are opaque.
    pub fn is_analyzed(self) -> bool {
        matches!(self, Self::Bash | Self::Sh | Self::Zsh)
    }
}

/// Where and as whom a command would run. `None` means not known; what depends on it is then opaque.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandContext {
    /// The language of the shell.
    pub dialect: Dialect,
    /// The working folder: absolute, without links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The root of the workspace: absolute, without links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The home folder of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The host as the user names it; `None` is this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl CommandContext {
    /// A place of which nothing is known but that its shell is bash.
    pub fn bash() -> Self {
        Self { dialect: Dialect::Bash, ..Self::default() }
    }
}

/// How a command uses a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It reads what is there.
    Read,
    /// It creates, changes or removes what is there.
    Write,
    /// It runs it as a script of a shell.
    Run,
    /// It runs git in this folder, which obeys the configuration of the repository there.
    Repository,
}

/// A path that a command uses, as the command writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The word after quote removal. Globs are as written; a leading `~` stands for a home folder.
    pub word: String,
    /// Whether the shell expands a glob in it.
    pub glob: bool,
    /// The folder that a relative word starts from; `None` where it is not known.
    pub folder: Option<String>,
    /// How it is used.
    pub access: Access,
}

/// What a host found at a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedTarget {
    /// The target.
    pub target: Target,
    /// The files that it leads to, links followed; one that does not exist is named by its parent's real path.
    pub files: Vec<ResolvedFile>,
}

/// One file that a target leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedFile {
    /// Absolute, without links.
    pub path: String,
    /// Whether it was changed since the session began; of files to run only.
    #[serde(default)]
    pub changed_in_session: bool,
    /// Its text; of files to run only, if it is short UTF-8. Of a repository, the names of what its own configuration
    /// sets, a line each; those of branches and the addresses of remotes are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// What is at the cursor of the session's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalFocus {
    /// Nobody can tell.
    #[default]
    Unknown,
    /// A shell at its prompt.
    Prompt {
        /// What is typed there so far.
        line: String,
        /// Whether the cursor is behind its last character.
        at_end: bool,
    },
    /// A program that uses the whole screen.
    FullScreen,
    /// A program that reads lines.
    Program {
        /// Its name.
        name: String,
    },
}

/// Who resolves the targets of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Nobody could; a target that has to be resolved is opaque.
    #[default]
    Failed,
    /// The host; a target that is missing is opaque.
    Host,
    /// Another machine, which judges the call again before it runs. Targets are judged as they are written.
    Elsewhere,
}

/// What a host tells of a call right before it is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// The circumstances of the call.
    pub context: CommandContext,
    /// Who resolves targets.
    pub resolution: Resolution,
    /// The targets that the host has resolved.
    pub targets: Vec<ResolvedTarget>,
    /// Why the host cannot be reached, in one sentence; the call then fails with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// What the session's terminal does; of calls that type keys only.
    pub terminal: TerminalFocus,
}

impl Survey {
    /// The survey of a call that another machine judges again before it runs.
    pub fn elsewhere(context: CommandContext) -> Self {
        Self { context, resolution: Resolution::Elsewhere, ..Self::default() }
    }

    /// What was found at a target, if it could be resolved.
    pub fn resolved(&self, target: &Target) -> Option<&[ResolvedFile]> {
        let found = self.targets.iter().find(|resolved| resolved.target == *target)?;
        Some(&found.files)
    }
}
