//! The circumstances in which a command would run, as the host reports them.

use serde::{Deserialize, Serialize};

/// Language of the shell that reads a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Bash,
    /// A POSIX shell: dash, busybox, ksh, or bash as `sh`.
    Sh,
    /// Z shell.
    Zsh,
    /// Friendly interactive shell; never analyzed.
    Fish,
    /// csh or tcsh; never analyzed.
    Csh,
    /// Unknown language; never analyzed.
    #[default]
    Unknown,
}

impl Dialect {
    /// Parses a name as accepted by `--dialect`; `None` for any other name.
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

    /// Returns true if commands in this dialect are analyzed; commands in any other dialect are opaque.
    pub fn is_analyzed(self) -> bool {
        matches!(self, Self::Bash | Self::Sh | Self::Zsh)
    }
}

/// Place and user of a command. `None` means unknown; a judgment that depends on an unknown value is opaque.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandContext {
    /// Language of the shell.
    pub dialect: Dialect,
    /// Working folder: absolute, without symbolic links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Root of the workspace: absolute, without symbolic links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Home folder of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// User id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Host as the user names it; `None` is this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl CommandContext {
    /// Returns a context with bash as the shell and everything else unknown.
    pub fn bash() -> Self {
        Self { dialect: Dialect::Bash, ..Self::default() }
    }
}

/// Use of a path by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the file or folder.
    Read,
    /// Creates, changes or removes the file or folder.
    Write,
    /// Runs the file as a shell script.
    Run,
    /// Runs git in this folder, which obeys the configuration of the repository there.
    Repository,
}

/// A path that a command uses, as written in the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The word after quote removal. Globs are kept as written; a leading `~` stands for a home folder.
    pub word: String,
    /// The shell expands a glob in the word.
    pub glob: bool,
    /// Folder that a relative word starts from; `None` if unknown.
    pub folder: Option<String>,
    pub access: Access,
}

/// Files that the host found for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedTarget {
    pub target: Target,
    /// Files that the target leads to, with links followed; a missing file is named by its parent's real path.
    pub files: Vec<ResolvedFile>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedFile {
    /// Absolute path without symbolic links.
    pub path: String,
    /// The file was changed since the session began; set only for files to run.
    #[serde(default)]
    pub changed_in_session: bool,
    /// Text of a file to run, if short and UTF-8. For a repository: the names of the settings in its own configuration,
    /// one per line, except those of branches and the URLs of remotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// Foreground of the session's terminal: a prompt, or a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalFocus {
    /// Cannot be determined.
    #[default]
    Unknown,
    Prompt {
        /// Text typed at the prompt so far.
        line: String,
        /// The cursor is after the last character.
        at_end: bool,
    },
    FullScreen,
    /// A program that reads lines.
    Program {
        name: String,
    },
}

/// Resolver of a call's targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Resolution failed; a target that needs resolving is opaque.
    #[default]
    Failed,
    /// The host; a target missing from the survey is opaque.
    Host,
    /// Another machine, which judges the call again before it runs. Here targets are judged as written.
    Elsewhere,
}

/// Facts about a call, reported by the host right before the call is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// Circumstances of the call.
    pub context: CommandContext,
    /// Resolver of targets.
    pub resolution: Resolution,
    pub targets: Vec<ResolvedTarget>,
    /// Reason why the host is unreachable, in one sentence; the call then fails with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// State of the session's terminal; set only for calls that type keys.
    pub terminal: TerminalFocus,
}

impl Survey {
    /// Returns the survey of a call that another machine judges again before it runs.
    pub fn elsewhere(context: CommandContext) -> Self {
        Self { context, resolution: Resolution::Elsewhere, ..Self::default() }
    }

    /// Returns the files found for a target, or `None` if the target was not resolved.
    pub fn resolved(&self, target: &Target) -> Option<&[ResolvedFile]> {
        let found = self.targets.iter().find(|resolved| resolved.target == *target)?;
        Some(&found.files)
    }
}
