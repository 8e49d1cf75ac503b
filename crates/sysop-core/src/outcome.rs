//! Outcomes of tool calls: status, output, and the changes that a call made.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::image::ImageRef;
use crate::style::StyleRuns;
use crate::undo::{UndoRecord, split_undo_note};

/// Reason of the rejection of calls that were waiting when their turn was stopped.
pub const TURN_STOPPED: &str = "the turn was stopped";
/// Reason why sysop itself rejects a call that needs approval in a front end that cannot ask.
pub const NO_TERMINAL: &str = "there is no terminal to ask on";
/// Output of a call that was stopped before it began.
const NOT_STARTED: &str = "not started: stopped while saving files for undo";

/// Last note of a `run_command` whose program waits for an answer.
pub const WAITS_FOR_ANSWER: &str =
    "the command is still running and seems to wait for an answer; answer with send_keys";
/// Last note of a `run_command` whose full-screen program still runs.
pub const FULL_SCREEN_RUNS: &str =
    "a full-screen program is still running; continue with send_keys, and end it before the next command";
/// Last note of a `run_command` whose pager is still open.
pub const PAGER_IS_OPEN: &str =
    "a pager is still open; use send_keys to show the next page (Space) or to quit (q)";
/// Note of a call that ended with an unknown exit code.
pub const EXIT_CODE_LOST: &str = "the command ended, but its exit code was lost";
/// Note of a call that ended the shell that ran it, which another shell had started.
pub const INNER_SHELL_ENDED: &str = "the inner shell ended; commands now go to the outer shell";
/// Beginning of the note of a call whose connection ended.
pub const CONNECTION_ENDED: &str = "the connection ended; ";

/// Line before the rows of a full-screen program's screen in the output of a `run_command`.
pub const SCREEN_FOLLOWS: &str = "[screen of the full-screen program, as of now]";

/// Beginning and end of the last note of a `run_command` that left another shell open, around the shell's name.
const NESTED_SHELL: (&str, &str) =
    ("another shell (", ") is running inside the terminal's shell and receives all commands until `exit`");

/// Returns the last note of a `run_command` that left another shell of this kind open in the terminal.
pub fn nested_shell_note(kind: &str) -> String {
    format!("{}{kind}{}", NESTED_SHELL.0, NESTED_SHELL.1)
}

/// State of the program that a call started in the session's terminal and that still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningProgram {
    /// It waits for an answer.
    WaitsForInput,
    /// A full-screen program or a pager.
    FullScreen,
    /// Another shell, at its prompt.
    NestedShell,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(milliseconds: &u64) -> bool {
    *milliseconds == 0
}

/// Outcome of a tool call, as reported by a host and logged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    /// Text for the model. It is within the output limits and contains no control sequences.
    pub output: String,
    /// Styles of `output` for display; not sent to the model.
    #[serde(default, rename = "looks", skip_serializing_if = "StyleRuns::is_empty")]
    pub styles: StyleRuns,
    /// Exit code of the command; `None` if it was killed, or if the call ran no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// True if `output` is not the complete output.
    #[serde(default)]
    pub truncated: bool,
    /// Name of the artifact with the full output, if it was kept.
    #[serde(default, rename = "artefact", skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Running time in milliseconds, as measured by the host; 0 if nothing ran.
    #[serde(default)]
    pub duration_ms: u64,
    /// Milliseconds that saving and comparing the state for undo took in addition; 0 if nothing was saved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undo_ms: u64,
    /// Background job in which the command goes on; `None` if the call is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Files changed through file tools, for undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Outcome on each host, if the call ran on several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostOutcome>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<SystemChange>,
    /// Extent to which the call can be undone; `None` if not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Reversibility>,
    /// Records, stored on the hosts, from which the call can be undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<UndoRecord>,
    /// Images for the model, if it accepts images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
    /// True if nothing ran because the host could not be reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}

/// A change to a system, in a form for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemChange {
    /// Kind of the changed object.
    pub kind: ChangeKind,
    /// Name of the object: a path, a unit, a package.
    pub name: String,
    /// The change in one or two words: `edited`, `restarted`, `removed`.
    pub how: String,
}

impl SystemChange {
    /// Word for the change of a file that was written, but has its old content. `undo.sh` in sysop-host uses it.
    const REWRITTEN: &str = "touched";
    const CREATED: &str = "created";
    /// Words for a file that has no content but blanks and newlines after the change. `undo.sh` uses them.
    pub(crate) const CREATED_EMPTY: &str = "created empty";
    const EMPTIED: &str = "emptied";

    /// Returns true if the object is new.
    pub fn is_creation(&self) -> bool {
        self.how == Self::CREATED || self.how == Self::CREATED_EMPTY
    }

    /// Returns true if a file was created or changed and has no content now, or blanks and newlines only.
    pub fn is_blank_file(&self) -> bool {
        self.kind == ChangeKind::File && (self.how == Self::CREATED_EMPTY || self.how == Self::EMPTIED)
    }

    /// Returns true if a file was written, but has its old content.
    pub fn is_rewrite(&self) -> bool {
        self.kind == ChangeKind::File && self.how == Self::REWRITTEN
    }
}

/// Kinds of objects that a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A file or directory.
    File,
    /// A unit of the service manager.
    Unit,
    /// A package.
    Package,
    /// A user or group.
    User,
    /// A crontab.
    Cron,
    /// Firewall rules.
    Firewall,
    /// A kernel parameter.
    Sysctl,
}

/// Extent to which a change can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reversibility {
    /// An undo restores everything.
    Exact,
    /// An undo restores a part.
    Partly,
    /// Nothing can be restored.
    None,
}

/// Outcome of a call on one of several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOutcome {
    /// The host as the user named it.
    pub host: String,
    /// Final status on this host.
    pub status: Status,
    /// Exit code of a command that was not killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Duration on this host in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// Hosts with the same number had identical output and outcome.
    #[serde(default)]
    pub group: u32,
    /// Reason why the host could not be reached; nothing ran there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
}

/// Beginning of the text about a call whose arguments do not fit the schema of its tool, before the tool's name.
pub(crate) const INVALID_ARGUMENTS: &str = "invalid arguments of `";
/// Beginning of the text about a call whose arguments do not parse, before the tool's name.
pub(crate) const ARGUMENTS_OF: &str = "the arguments of `";
/// Text behind the tool's name, after [`ARGUMENTS_OF`].
pub(crate) const NO_ARGUMENTS: &str = "` are not a JSON object";

/// Beginning of the line that follows the output of a call that was stopped at its time limit.
const TIMED_OUT_AFTER: &str = "\n[timed out after ";

impl Outcome {
    /// Returns the line for a call that was stopped at its time limit.
    pub fn time_limit_note(seconds: u64) -> String {
        format!("{}{seconds} s; stopped]", TIMED_OUT_AFTER.trim_start())
    }

    /// Returns the time limit in seconds at which the call was stopped, or `None` if its output does not say so.
    pub fn time_limit(&self) -> Option<u64> {
        let after = match self.output.rsplit_once(TIMED_OUT_AFTER) {
            Some((_, after)) => after,
            None => self.output.strip_prefix(TIMED_OUT_AFTER.trim_start())?,
        };
        let (seconds, _) = after.split_once(" s; stopped]").filter(|_| self.status == Status::Timeout)?;
        seconds.parse().ok()
    }

    pub fn ok(output: impl Into<String>) -> Self {
        Self::new(Status::Ok, output)
    }

    /// Returns the outcome of a call that itself failed; `output` is reported to the model.
    pub fn failed(output: impl Into<String>) -> Self {
        Self::new(Status::Failed, output)
    }

    /// Returns the outcome of a call that did not run because its host could not be reached.
    pub fn unreachable(why: impl Into<String>) -> Self {
        Self { unreachable: true, ..Self::failed(why) }
    }

    /// Returns true for the outcome of a call that did not run because its arguments do not fit its tool.
    pub fn has_invalid_arguments(&self) -> bool {
        let is_other = |rest: &str| rest.contains(NO_ARGUMENTS);
        let is_told = self.output.starts_with(INVALID_ARGUMENTS)
            || self.output.strip_prefix(ARGUMENTS_OF).is_some_and(is_other);
        self.status == Status::Failed && !self.unreachable && is_told
    }

    /// Returns the outcome of a call that was waiting when its turn was stopped.
    pub fn not_run() -> Self {
        Self::new(Status::Cancelled, format!("not run: {TURN_STOPPED}"))
    }

    /// Returns true for the outcome [`not_run`](Self::not_run).
    pub fn is_not_run(&self) -> bool {
        self.status == Status::Cancelled && self.output.strip_prefix("not run: ") == Some(TURN_STOPPED)
    }

    /// Returns the outcome of a call that was stopped while the state that it would change was being saved.
    pub fn not_started() -> Self {
        Self::new(Status::Cancelled, NOT_STARTED)
    }

    /// Returns true for the outcome [`not_started`](Self::not_started).
    pub fn is_not_started(&self) -> bool {
        self.status == Status::Cancelled && self.output == NOT_STARTED
    }

    /// Returns what the program does that still runs in the session's terminal, if the host says so in its last note.
    pub fn running_program(&self) -> Option<RunningProgram> {
        self.split_program_note().map(|(_, program)| program)
    }

    /// Splits off the host's last note if it is about a program that still runs in the session's terminal, with the
    /// lines after it that say why the call has no undo. Returns the output before the note, and what the program does.
    pub fn split_program_note(&self) -> Option<(&str, RunningProgram)> {
        let (before, note) = self.split_last_note()?;
        let is_shell = note.starts_with(NESTED_SHELL.0) && note.ends_with(NESTED_SHELL.1);
        let program = match note {
            WAITS_FOR_ANSWER => RunningProgram::WaitsForInput,
            FULL_SCREEN_RUNS | PAGER_IS_OPEN => RunningProgram::FullScreen,
            _ if is_shell => RunningProgram::NestedShell,
            _ => return None,
        };
        Some((before, program))
    }

    /// Returns what is known about a call whose outcome is unknown, if the host says so in its last note.
    pub fn loss(&self) -> Option<&'static str> {
        match self.split_last_note()?.1 {
            EXIT_CODE_LOST => Some("ended; its exit code was lost"),
            INNER_SHELL_ENDED => Some("the inner shell ended"),
            note if note.starts_with(CONNECTION_ENDED) => {
                Some("outcome unknown: the connection ended; not run again")
            }
            _ => None,
        }
    }

    /// Splits off the host's last note of a call whose outcome is unknown, with the lines after it that say why the
    /// call has no undo. Returns the output before the note, and the note.
    fn split_last_note(&self) -> Option<(&str, &str)> {
        let mut output =
            Some(self.output.trim_end_matches('\n')).filter(|_| self.status == Status::Unknown)?;
        while let Some((before, _)) = split_undo_note(output) {
            output = before;
        }
        let (before, last) = output.rsplit_once('\n').unwrap_or(("", output));
        Some((before, last.strip_prefix('[')?.strip_suffix(']')?))
    }

    pub fn artifact_names(&self) -> impl Iterator<Item = &str> {
        let before = self.changes.iter().filter_map(|change| change.before.as_deref());
        let images = self.images.iter().map(|image| image.artifact.as_str());
        self.artifact.as_deref().into_iter().chain(before).chain(images)
    }

    /// Returns an outcome with this status and output. All other fields are empty.
    pub fn new(status: Status, output: impl Into<String>) -> Self {
        Self {
            status,
            output: output.into(),
            styles: StyleRuns::default(),
            exit_code: None,
            truncated: false,
            artifact: None,
            duration_ms: 0,
            undo_ms: 0,
            job: None,
            changes: Vec::new(),
            hosts: Vec::new(),
            changed: Vec::new(),
            undo: None,
            records: Vec::new(),
            images: Vec::new(),
            unreachable: false,
        }
    }
}

/// Final status of a tool call, in the terms of the log and of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Succeeded; a command exited with 0.
    Ok,
    /// Failed; a command exited with another code.
    Failed,
    /// The time limit was reached. The command was killed, or, in a terminal, left running for the next keys.
    Timeout,
    /// Canceled.
    Cancelled,
    /// The sysop process exited while the call was running; the outcome is unknown.
    Interrupted,
    /// The connection or the output capture broke; the outcome is unknown.
    Unknown,
    /// Rejected by a user or the policy; nothing ran.
    Rejected,
}

impl Status {
    /// Returns the name used in the log, in messages and for users.
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

/// A file that a file tool changed, with the data needed to restore it and to detect later changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path relative to the root of the file tools.
    pub path: String,
    /// Name of the artifact with the previous content; `None` if the file did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// BLAKE3 hash of the new content, in hexadecimal.
    pub after_hash: String,
}
