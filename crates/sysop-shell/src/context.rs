//! The circumstances in which a command would run, as reported by the host.

use serde::{Deserialize, Serialize};

/// Language of the shell that parses a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Bash,
    /// A POSIX shell: dash, busybox, ksh, or bash as `sh`.
    Sh,
    /// Z shell.
    Zsh,
    /// The fish shell; its commands are never analyzed.
    Fish,
    /// csh or tcsh; its commands are never analyzed.
    Csh,
    /// Unknown language; its commands are never analyzed.
    #[default]
    Unknown,
}

impl Dialect {
    /// Returns true if commands in this dialect are analyzed; commands in any other dialect are opaque.
    pub fn is_analyzed(self) -> bool {
        matches!(self, Self::Bash | Self::Sh | Self::Zsh)
    }
}

/// Location and user of a command. A value of `None` is unknown, and whatever depends on it is assessed as opaque.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandContext {
    pub dialect: Dialect,
    /// True if the command runs in a shell started for it alone. False if the shell goes on afterwards, like that of
    /// the shared terminal, or if this is unknown.
    pub own_shell: bool,
    /// Working directory, as an absolute path without symbolic links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Root of the workspace, as an absolute path without symbolic links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Numeric id of the user who runs the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Host as the user names it; `None` means this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl CommandContext {
    /// Returns a context with bash as the shell and everything else unknown.
    pub fn bash() -> Self {
        Self { dialect: Dialect::Bash, ..Self::default() }
    }
}

/// Way in which a command uses a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the file or directory.
    Read,
    /// Creates, changes or removes the file or directory.
    Write,
    /// Runs the file as a shell script.
    Run,
    /// Runs git in this directory. Git obeys the configuration of the repository there.
    Repository,
}

/// A path that a command uses, as written in the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The word after quote removal. Globs are kept as written, and a leading `~` stands for a home directory.
    pub word: String,
    /// True if the word contains a glob that the shell expands.
    pub glob: bool,
    /// Directory that a relative path starts from; `None` if unknown.
    pub folder: Option<String>,
    pub access: Access,
}

/// Files that the host found for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedTarget {
    pub target: Target,
    /// Files that the target leads to when symbolic links are followed. The path of a missing file is its
    /// parent's real path joined with its name.
    pub files: Vec<ResolvedFile>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedFile {
    /// Absolute path without symbolic links.
    pub path: String,
    /// True if the host knows that there is no file with the name of the target, not even a link that leads nowhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// True if the file has been changed since the session began; set only for files to run.
    #[serde(default)]
    pub changed_in_session: bool,
    /// For a file to run: its text, if it is short and UTF-8. For a repository: the names of the settings in its own
    /// configuration, one per line, except for settings of branches and URLs of remotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// Foreground of the session's terminal: a shell prompt or a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalFocus {
    /// The foreground cannot be determined.
    #[default]
    Unknown,
    Prompt {
        /// Text that has been typed at the prompt so far.
        line: String,
        /// True if the cursor is after the last character of the line.
        at_end: bool,
    },
    FullScreen,
    /// A program that reads lines.
    Program {
        name: String,
    },
}

/// Machine that determines which files the targets of a call lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Resolution failed. A target that needs to be resolved is opaque.
    #[default]
    Failed,
    /// The host. A target that is missing from the survey is opaque.
    Host,
    /// Another machine, which assesses the call again before running it. Until then, targets are assessed as written.
    Elsewhere,
}

/// Answer of the host to a request for a guard, for a call that may lock people out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardOffer {
    #[default]
    NotNeeded,
    Offered {
        /// Seconds from arming to the rollback.
        seconds: u32,
    },
    /// The call cannot be guarded.
    Refused {
        /// Reason as a clause: `the command shuts down or restarts the machine`.
        why: String,
    },
}

/// Answer of the host to a request to undo an earlier call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoOffer {
    #[default]
    NotNeeded,
    Offered {
        /// Steps in their order, then the caveats; each element is one line.
        lines: Vec<String>,
    },
    /// Nothing can be undone.
    Refused {
        /// Reason as a sentence without a period.
        why: String,
    },
}

/// Facts about a call, reported by the host right before the call is assessed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    pub context: CommandContext,
    /// Machine that resolves the targets.
    pub resolution: Resolution,
    pub targets: Vec<ResolvedTarget>,
    /// Reason why the host cannot be reached, or a line with the reason of each host. If set, the call fails with this
    /// reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// Hosts of several that cannot be reached, while others can: a line with the names and the reason for each reason.
    /// The call does not run there. The other facts are those of the hosts that were reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
    /// Reason why facts are missing, as a clause: `web2 did not answer within 9.5 s`. What depends on them is opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Text with which the call would fail if it ran now, on every host. Nobody need be asked about such a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certain_failure: Option<String>,
    /// State of the session's terminal; set only for calls that type keys.
    pub terminal: TerminalFocus,
    /// Guard under which the call can run.
    pub guard: GuardOffer,
    pub undo: UndoOffer,
}

impl Survey {
    /// Returns the survey of a call that another machine assesses again before the call runs.
    pub fn elsewhere(context: CommandContext) -> Self {
        Self { context, resolution: Resolution::Elsewhere, ..Self::default() }
    }

    /// Returns the survey of a host that gave no answer, for the reason `why`, a clause.
    pub fn without_facts(why: impl Into<String>) -> Self {
        Self { incomplete: Some(why.into()), ..Self::default() }
    }

    /// Returns the files found for a target, or `None` if the target was not resolved.
    pub fn resolved(&self, target: &Target) -> Option<&[ResolvedFile]> {
        let found = self.targets.iter().find(|resolved| resolved.target == *target)?;
        Some(&found.files)
    }
}
