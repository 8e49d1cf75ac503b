//! What came of a tool call.

use serde::{Deserialize, Serialize};

use crate::style::StyleRuns;

/// What came of a tool call, as a host reports it and the log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What the model is told; within the output limits, control sequences removed.
    pub output: String,
    /// How `output` looked to a person; the model is not told.
    #[serde(default, rename = "looks", skip_serializing_if = "StyleRuns::is_empty")]
    pub styles: StyleRuns,
    /// Exit code of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether `output` leaves out a part of the whole.
    #[serde(default)]
    pub truncated: bool,
    /// Name of the artifact that holds the whole output, where it was kept.
    #[serde(default, rename = "artefact", skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The files that it changed through file tools, for undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Outcome per host, for several hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostOutcome>,
    /// Recognized changes to the system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<SystemChange>,
    /// How much of it can be undone; `None` if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Reversibility>,
}

/// A change to a system, as it can be told to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemChange {
    /// The kind of thing that changed.
    pub kind: ChangeKind,
    /// Name of the thing: a path, a unit, a package.
    pub name: String,
    /// The change in a word or two: `edited`, `restarted`, `removed`.
    pub how: String,
}

/// Kinds of things that a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A file or folder.
    File,
    /// A unit of the service manager.
    Unit,
    /// A package.
    Package,
    /// A user or group.
    User,
    /// A crontab.
    Cron,
    /// Rules of the firewall.
    Firewall,
    /// A kernel parameter.
    Sysctl,
}

/// The degree to which a change can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reversibility {
    /// Everything.
    Exact,
    /// A part.
    Partly,
    /// Nothing.
    None,
}

/// What came of a call on one of several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOutcome {
    /// The host, as the person named it.
    pub host: String,
    /// How it ended there.
    pub status: Status,
    /// Exit code of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took there, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// Hosts with the same number said and did exactly the same.
    #[serde(default)]
    pub group: u32,
}

impl Outcome {
    /// A good end with a text.
    pub fn ok(output: impl Into<String>) -> Self {
        Self::new(Status::Ok, output)
    }

    /// A failure of the call itself, told to the model.
    pub fn failed(output: impl Into<String>) -> Self {
        Self::new(Status::Failed, output)
    }

    /// The names of the files that are kept of it beside the log.
    pub fn artifact_names(&self) -> impl Iterator<Item = &str> {
        let before = self.changes.iter().filter_map(|change| change.before.as_deref());
        self.artifact.as_deref().into_iter().chain(before)
    }

    /// An end with a text and nothing else.
    pub fn new(status: Status, output: impl Into<String>) -> Self {
        Self {
            status,
            output: output.into(),
            styles: StyleRuns::default(),
            exit_code: None,
            truncated: false,
            artifact: None,
            duration_ms: 0,
            changes: Vec::new(),
            hosts: Vec::new(),
            changed: Vec::new(),
            undo: None,
        }
    }
}

/// How a tool call ended. The log and the messages use these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Success; a command exited with 0.
    Ok,
    /// Failure; a command exited with another code.
    Failed,
    /// It took too long and was stopped, or, in a terminal, left running.
    Timeout,
    /// It was stopped.
    Cancelled,
    /// The process that ran it died; its progress is unknown.
    Interrupted,
    /// The connection or the capture broke; its outcome is unknown.
    Unknown,
    /// A user or the policy refused it; nothing ran.
    Rejected,
}

impl Status {
    /// The word for the log, messages and people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
            Self::Rejected => "rejected",
        }
    }
}

/// One file that a file tool changed: enough to put it back, and to see that it changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path relative to the root.
    pub path: String,
    /// The artifact with the bytes before; none where the file did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// BLAKE3 of the bytes after, in hex.
    pub after_hash: String,
}
