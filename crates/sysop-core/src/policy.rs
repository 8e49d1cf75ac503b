//! Who may run what: modes, verdicts, risks, grants. Deny beats allow; what is not understood asks.

use serde::{Deserialize, Serialize};

/// How much runs without a person (`--approve`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Every change is asked about.
    #[default]
    Ask,
    /// Runs by itself; what is dangerous or opaque still asks.
    Auto,
    /// Only what is known to be read-only runs.
    Never,
}

/// What the policy says of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

/// How much a command can do, from least to most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Known to look only.
    ReadOnly,
    /// Changes something, in a way that can be read off it.
    #[default]
    Changes,
    /// Does what cannot be read off it: `eval`, a sourced file, a program given to an interpreter.
    Opaque,
    /// Matches a dangerous pattern, or destroys, or cannot be parsed.
    Dangerous,
}

/// What is known of a call's risk, to be shown with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// The worst of it.
    pub class: Class,
    /// Each thing found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// One part of a command and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// First byte in the command.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// How bad it is.
    pub class: Class,
    /// Why, in a few words: `recursive delete`, `writes to a block device`.
    pub why: String,
}

/// What "for this session" allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Exactly this command.
    Exact {
        /// The command, byte for byte.
        command: String,
    },
    /// Any plain command of this program and subcommand.
    Program {
        /// As in `git`.
        program: String,
        /// As in `status`; none where the program has no subcommands.
        subcommand: Option<String>,
    },
    /// Any call of this tool (file tools).
    Tool {
        /// The tool's name.
        name: String,
    },
}
