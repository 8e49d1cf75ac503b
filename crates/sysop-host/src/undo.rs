//! Undo for commands: saves the state before a change on the machine itself, and restores it.
//!
//! # Design
//!
//! [`sysop_core::undo::plan`] says what to save; the script `undo/undo.sh` saves it in a directory that only its owner
//! can enter, compares after the call, and later plans and applies the inverse. The script runs where the call runs, as
//! the login user, or as root through `sudo -n` if the command used sudo. The log gets names, never content.
//!
//! # Invariants
//!
//! - A call that only reads starts no script.
//! - A failure to save the state does not stop the call; the outcome says why there is no undo.
//! - What sysop itself writes into its data, state and cache directories while a call runs is never part of a record.
//! - Words of a command reach the script as quoted arguments.

use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{ChangeKind, Outcome, Reversibility, Status, SystemChange};
use sysop_core::policy::single_quoted;
use sysop_core::policy::{Resolution, Survey, UndoOffer};
use sysop_core::text::neutralize_line;
use sysop_core::tool::ToolEffect;
use sysop_core::undo::{
    CapturePlan, NOT_EXACT, UndoRecord, UndoRights, named_files, plan, plan_paths, script_targets,
};
use sysop_driver::port::CancellationToken;
use tokio::time::Instant;

use crate::machine::{ExitReason, Program, TimeLimit};
use crate::output::capture::Capture;
use crate::tools::{CallContext, Toolbox, UNDO, push_line};

/// Default maximum bytes of content to save per call.
pub const UNDO_BYTES_DEFAULT: u64 = 8 * 1024 * 1024;

const SCRIPT: &str = include_str!("undo/undo.sh");
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Directories of sysop in a home directory, as in the script.
const OWN_IN_HOME: [&str; 4] = [".local/share/sysop", ".local/state/sysop", ".cache/sysop", ".sysop-guard"];
/// End of the name of a change that stands for files without names.
const MORE_FILES: &str = " more files";
/// Maximum time to save or compare the state of one call.
const CAPTURE_MAX: Duration = Duration::from_secs(15);
/// Maximum time to save the state before packages change, which may download the old versions.
const PACKAGES_MAX: Duration = Duration::from_secs(60);
/// Maximum time to compare the state after a canceled call.
const CANCELLED_MAX: Duration = Duration::from_secs(4);
const APPLY_MAX: Duration = Duration::from_secs(600);
/// Time after a timeout during which nothing is saved for commands that may change files without naming them.
const PAUSE_AFTER_TIMEOUT: Duration = Duration::from_secs(300);
/// Time after which users are told that the state is still being saved, compared or restored.
const TELL_AFTER: Duration = Duration::from_secs(2);
const CHANGES_LISTED_MAX: usize = 200;

/// Settings of the undo records that a machine keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoSettings {
    /// Maximum bytes of content to save per call; 0 turns records off.
    pub bytes_max: u64,
    /// Directory of the login user's records; `None` means below the home directory, or `/var/lib/sysop-undo` for root.
    /// Records of commands that use sudo are always in root's directory.
    pub folder: Option<String>,
    /// Directories of sysop on that machine, in addition to the usual ones. What changes there is never part of a
    /// record, because sysop itself writes there while a command runs.
    pub own: Vec<String>,
}

/// Reason why the script gave no lines. `Display` is a phrase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ScriptError {
    #[error("timed out after {0} s")]
    TimedOut(u64),
    #[error("saving the state timed out a short time ago")]
    TimedOutBefore,
    #[error("{0}")]
    Failed(String),
}

/// Timeouts of the script on a machine. A slow machine would delay each command by as much, so after a timeout, nothing
/// is saved for some minutes for commands that may change files without naming them.
#[derive(Debug, Default)]
pub(crate) struct CaptureTimeouts {
    last: Mutex<Option<Instant>>,
}

impl CaptureTimeouts {
    /// Runs the script, unless it timed out a short time ago.
    async fn run_unless_slow<T>(
        &self,
        script: impl Future<Output = Result<T, ScriptError>>,
    ) -> Result<T, ScriptError> {
        let last = *self.last.lock();
        if last.is_some_and(|last| last.elapsed() < PAUSE_AFTER_TIMEOUT) {
            return Err(ScriptError::TimedOutBefore);
        }
        let result = script.await;
        self.note(&result);
        result
    }

    fn note<T>(&self, result: &Result<T, ScriptError>) {
        if matches!(result, Err(ScriptError::TimedOut(_))) {
            *self.last.lock() = Some(Instant::now());
        }
    }
}

/// An undo record whose call has not finished.
pub(crate) struct OpenRecord {
    record: UndoRecord,
    folder: String,
    is_complete: bool,
    /// True if directories are watched whose changes the command does not name.
    watches_directories: bool,
    /// Remarks from the script about what was not saved.
    notes: Vec<String>,
}

/// Result of preparing a call for undo.
pub(crate) enum Preparation {
    /// The call changes nothing, or records are off.
    NotNeeded,
    Open(OpenRecord),
    /// The call continues in the background; nothing is saved, and the outcome does not say so.
    InBackground,
    /// Nothing was saved, for this reason.
    Failed(String),
}

impl Preparation {
    /// Returns true if the state was to be saved before the call.
    pub(crate) fn saves_state(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Failed(_))
    }
}

/// A line of the script's output: `U WORD HOW NAME`, separated by tabs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ScriptLine {
    word: String,
    how: String,
    name: String,
}

impl Toolbox {
    /// Saves the state before a call that may change something.
    pub(crate) async fn prepare_undo(&self, call: &ToolCall, context: &CallContext<'_>) -> Preparation {
        if self.undo_settings.bytes_max == 0 || call.name == UNDO || context.cancel.is_cancelled() {
            return Preparation::NotNeeded;
        }
        let Some(spec) = self.specs.iter().find(|spec| spec.name == call.name) else {
            return Preparation::NotNeeded;
        };
        let path = call.text_argument("path");
        let plan = match (spec.effect, spec.name.as_str()) {
            (ToolEffect::Command, _) => {
                let mut survey = self.known_survey(call, context).await;
                let command = call.text_argument("command").unwrap_or_default();
                if survey.resolution == Resolution::Host {
                    // Without an answer, the targets count as written.
                    let of_scripts = |survey: &Survey| script_targets(command, survey);
                    let _ = self.resolve_targets(of_scripts, &mut survey).await;
                }
                match plan(command, &survey) {
                    None => return Preparation::NotNeeded,
                    Some(_) if survey.resolution != Resolution::Host => {
                        return Preparation::Failed("the command may run on another machine".to_owned());
                    }
                    Some(_) if runs_in_background(call) => return Preparation::InBackground,
                    Some(plan) => plan,
                }
            }
            // The other file tools save what they change themselves.
            (ToolEffect::Writes, "delete_file" | "mkdir") => match path {
                Some(path) => {
                    let survey = self.known_survey(call, context).await;
                    plan_paths(&[path], &survey)
                }
                None => return Preparation::NotNeeded,
            },
            _ => return Preparation::NotNeeded,
        };
        self.open_record(&plan, context.cancel).await
    }

    /// Returns the survey of this call. Surveys the call again only if the last survey was for another call.
    async fn known_survey(&self, call: &ToolCall, context: &CallContext<'_>) -> Survey {
        let known = self.last_survey.lock().take().filter(|(surveyed, _)| surveyed == call);
        match known {
            Some((_, survey)) => survey,
            None => self.survey(call, context.fence).await,
        }
    }

    async fn open_record(&self, plan: &CapturePlan, cancel: &CancellationToken) -> Preparation {
        if plan.entries.is_empty() && plan.is_complete {
            return Preparation::NotNeeded;
        }
        if plan.entries.is_empty() {
            return Preparation::Failed("it is unknown what the call changed".to_owned());
        }
        let record = UndoRecord { id: new_id(), host: String::new(), rights: plan.rights };
        let folder = self.undo_folder(plan.rights);
        let bytes = self.undo_settings.bytes_max.to_string();
        let mut words = vec!["before", &record.id, &bytes];
        words.extend(plan.entries.iter().map(String::as_str));
        let own = self.own_entries().await;
        words.extend(own.iter().map(String::as_str));
        let limit = if plan.has_packages { PACKAGES_MAX } else { CAPTURE_MAX };
        let watches_directories = plan.watches_directories();
        let saving = self.undo_script(&folder, plan.rights, &words, limit, cancel);
        let saved = match watches_directories {
            true => self.capture_timeouts.run_unless_slow(saving).await,
            false => saving.await,
        };
        let lines = match saved {
            Ok(lines) => lines,
            Err(why) => return Preparation::Failed(why.to_string()),
        };
        if let Some(none) = lines.iter().find(|line| line.word == "none") {
            return Preparation::Failed(none.how.clone());
        }
        if !lines.iter().any(|line| line.word == "ready") {
            return Preparation::Failed(match plan.rights {
                UndoRights::Root => "`sudo -n` is refused".to_owned(),
                UndoRights::Own => "the previous state could not be saved".to_owned(),
            });
        }
        let notes = notes(&lines);
        let is_complete = plan.is_complete;
        Preparation::Open(OpenRecord { record, folder, is_complete, watches_directories, notes })
    }

    /// Adds to an outcome what the call changed, and whether that can be undone.
    pub(crate) async fn finish_undo(&self, prepared: Preparation, outcome: &mut Outcome) {
        match prepared {
            Preparation::NotNeeded => note_file_changes(outcome),
            Preparation::InBackground => outcome.undo = Some(Reversibility::None),
            Preparation::Failed(why) => {
                note_file_changes(outcome);
                if outcome.undo.is_none() {
                    outcome.undo = Some(Reversibility::None);
                    push_line(&mut outcome.output, &format!("[no undo: {why}]"));
                }
            }
            Preparation::Open(open) => {
                let (words, cancel) = (["after", open.record.id.as_str()], CancellationToken::new());
                let is_cancelled = outcome.status == Status::Cancelled;
                let limit = if is_cancelled { CANCELLED_MAX } else { CAPTURE_MAX };
                let compared =
                    self.undo_script(&open.folder, open.record.rights, &words, limit, &cancel).await;
                // A canceled call waits a shorter time, which says little about the machine.
                if open.watches_directories && !is_cancelled {
                    self.capture_timeouts.note(&compared);
                }
                match compared {
                    Ok(lines) => conclude(open, &lines, outcome),
                    Err(why) => {
                        outcome.undo = Some(Reversibility::None);
                        push_line(&mut outcome.output, &format!("[no undo: {why}]"));
                    }
                }
            }
        }
    }

    /// Plans the undo of the records that the call names.
    pub(crate) async fn offer_undo(&self, call: &ToolCall) -> UndoOffer {
        let records = records_of(call);
        if records.is_empty() {
            return UndoOffer::NotNeeded;
        }
        let mut all = Vec::new();
        for record in records {
            let folder = self.undo_folder(record.rights);
            let words = ["plan", record.id.as_str()];
            let cancel = CancellationToken::new();
            let lines = match self.undo_script(&folder, record.rights, &words, CAPTURE_MAX, &cancel).await {
                Ok(lines) => lines,
                Err(why) => return UndoOffer::Refused { why: format!("the undo cannot be planned: {why}") },
            };
            let drift: Vec<&str> =
                lines.iter().filter(|line| line.word == "changed").map(|line| line.name.as_str()).collect();
            if !drift.is_empty() {
                return UndoOffer::Refused {
                    why: format!("changed since the call: {}; nothing was undone", drift.join("; ")),
                };
            }
            if !lines.iter().any(|line| line.word == "end") {
                let why = match record.rights {
                    UndoRights::Root => "`sudo -n` is refused",
                    UndoRights::Own => "the record cannot be read",
                };
                return UndoOffer::Refused { why: format!("the undo cannot be planned: {why}") };
            }
            let steps = lines.iter().filter(|line| line.word == "step").map(|line| line.name.clone());
            let caveats = lines.iter().filter(|line| line.word == "caveat");
            let before = all.len();
            all.extend(steps);
            if all.len() == before {
                return UndoOffer::Refused { why: "nothing in this call can be restored".to_owned() };
            }
            all.extend(caveats.map(|line| format!("{NOT_EXACT}{}", line.name)));
        }
        UndoOffer::Offered { lines: all }
    }

    pub(crate) async fn apply_undo(&self, call: &ToolCall, records: Vec<UndoRecord>) -> Outcome {
        let bytes = self.undo_settings.bytes_max.max(UNDO_BYTES_DEFAULT).to_string();
        let mut outcome = Outcome::ok("");
        for record in records {
            let folder = self.undo_folder(record.rights);
            let next = UndoRecord { id: new_id(), ..record.clone() };
            let words = ["apply", record.id.as_str(), next.id.as_str(), bytes.as_str()];
            // An undo is never stopped halfway.
            let cancel = CancellationToken::new();
            let lines = match self.undo_script(&folder, record.rights, &words, APPLY_MAX, &cancel).await {
                Ok(lines) => lines,
                Err(why) => {
                    return Outcome::new(
                        Status::Unknown,
                        format!("the result of the undo is unknown: {why}"),
                    );
                }
            };
            let drift: Vec<&str> =
                lines.iter().filter(|line| line.word == "changed").map(|line| line.name.as_str()).collect();
            if !drift.is_empty() {
                return Outcome::failed(format!(
                    "changed since the call: {}; nothing was undone",
                    drift.join("; ")
                ));
            }
            let open = OpenRecord {
                record: next,
                folder,
                is_complete: true,
                watches_directories: false,
                notes: notes(&lines),
            };
            conclude(open, &lines, &mut outcome);
            for failed in lines.iter().filter(|line| line.word == "failed") {
                push_line(&mut outcome.output, &format!("failed: {}", failed.name));
            }
            let is_done = lines.iter().any(|line| line.word == "end" && line.how == "done");
            if !is_done {
                outcome.status = Status::Failed;
            }
        }
        if outcome.status == Status::Ok {
            let restored =
                restored_files(&outcome.changed).map_or_else(String::new, |files| format!(": {files}"));
            outcome.output.insert_str(0, &format!("undone{restored}\n"));
            outcome.output.truncate(outcome.output.trim_end().len());
        } else {
            outcome.output.insert_str(0, "the undo partly failed\n");
        }
        tracing::debug!(call = %call.id, status = outcome.status.as_str(), "undo ran");
        outcome
    }

    /// Returns an entry for each directory of sysop that the script cannot know: the configured ones, and those in the
    /// home directory of the login user, since the script may run as root.
    async fn own_entries(&self) -> Vec<String> {
        let home = self.machine.context().await.ok().and_then(|context| context.home);
        let usual = home.iter().flat_map(|home| OWN_IN_HOME.iter().map(move |name| format!("{home}/{name}")));
        let configured = self.undo_settings.own.iter().chain(&self.undo_settings.folder).cloned();
        configured.chain(usual).filter(|path| !path.contains('\n')).map(|path| format!("x:{path}")).collect()
    }

    /// Returns the record directory, or `-` for the default directory of the user with these privileges.
    fn undo_folder(&self, rights: UndoRights) -> String {
        match (rights, &self.undo_settings.folder) {
            (UndoRights::Own, Some(folder)) => folder.clone(),
            (UndoRights::Own, None) | (UndoRights::Root, _) => "-".to_owned(),
        }
    }

    /// Runs the script with a verb and its arguments. Returns the lines of its output.
    async fn undo_script(
        &self,
        folder: &str,
        rights: UndoRights,
        words: &[&str],
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Vec<ScriptLine>, ScriptError> {
        let sudo = if rights == UndoRights::Root { "sudo -n " } else { "" };
        let mut text =
            format!("exec {sudo}sh -c {} sysop-undo {}", single_quoted(SCRIPT), single_quoted(folder));
        for word in words {
            text.push(' ');
            text.push_str(&single_quoted(word));
        }
        text.push_str(" </dev/null 2>/dev/null");
        let mut capture = Capture::for_tool(OUTPUT_BYTES_MAX);
        let limit = TimeLimit::new(limit);
        let program = Program::Probe { text };
        let fence = sysop_core::policy::Fence::Off;
        let exec = self.machine.exec(program, &fence, &limit, &mut capture, cancel);
        let exec = told_if_slow(exec, || self.tell_progress(words.first().copied())).await;
        let end = exec.map_err(|error| ScriptError::Failed(error.to_string()))?.end;
        if end == ExitReason::TimedOut {
            return Err(ScriptError::TimedOut(limit.time.as_secs()));
        }
        end.require_exit(&limit).map_err(ScriptError::Failed)?;
        let too_long = || ScriptError::Failed("the list of changes is too long".to_owned());
        let bytes = capture.into_bytes().ok_or_else(too_long)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(self.secrets.redact(&text).lines().filter_map(script_line).collect())
    }
}

impl Toolbox {
    /// Tells users that the script is still running with this verb.
    async fn tell_progress(&self, verb: Option<&str>) {
        let doing = match verb {
            Some("before") => "saving files for undo",
            Some("apply") => "restoring files",
            Some(_) | None => "comparing files",
        };
        let host = self.machine.context().await.ok().and_then(|context| context.host);
        let place = host.map_or_else(String::new, |host| format!(" on {host}"));
        self.terminal.people().notice(&format!("{doing}{place}…"));
    }
}

/// Waits for the work, and runs `tell` once if the work takes longer than `TELL_AFTER`.
async fn told_if_slow<T, F: Future<Output = ()>>(
    work: impl Future<Output = T>,
    tell: impl FnOnce() -> F,
) -> T {
    tokio::pin!(work);
    if let Ok(done) = tokio::time::timeout(TELL_AFTER, &mut work).await {
        return done;
    }
    tokio::join!(work, tell()).0
}

fn script_line(line: &str) -> Option<ScriptLine> {
    let mut fields = line.strip_prefix("U\t")?.splitn(3, '\t');
    let mut next = || neutralize_line(fields.next().unwrap_or_default()).into_owned();
    Some(ScriptLine { word: next(), how: next(), name: next() })
}

fn notes(lines: &[ScriptLine]) -> Vec<String> {
    lines.iter().filter(|line| line.word == "note").map(|line| line.how.clone()).collect()
}

/// Names the files that changed, apart from those that the script only counted.
fn restored_files(changed: &[SystemChange]) -> Option<String> {
    let files = changed.iter().filter(|change| change.kind == ChangeKind::File);
    let count = |change: &SystemChange| change.name.strip_suffix(MORE_FILES)?.parse::<usize>().ok();
    let unnamed = files.clone().filter_map(count).sum();
    named_files(files.filter(|change| count(change).is_none()).map(|change| change.name.as_str()), unnamed)
}

/// Adds the changes that the script found to an outcome.
fn conclude(open: OpenRecord, lines: &[ScriptLine], outcome: &mut Outcome) {
    let kind = |line: &ScriptLine| match line.word.as_str() {
        "file" => Some(ChangeKind::File),
        "unit" => Some(ChangeKind::Unit),
        "package" => Some(ChangeKind::Package),
        "user" => Some(ChangeKind::User),
        "cron" => Some(ChangeKind::Cron),
        "firewall" => Some(ChangeKind::Firewall),
        "sysctl" => Some(ChangeKind::Sysctl),
        _ => None,
    };
    for line in lines {
        if outcome.changed.len() >= CHANGES_LISTED_MAX {
            break;
        }
        if let Some(kind) = kind(line) {
            outcome.changed.push(SystemChange { kind, name: line.name.clone(), how: line.how.clone() });
        }
    }
    if let Some(more) = lines.iter().find(|line| line.word == "more") {
        let name = format!("{}{MORE_FILES}", more.how);
        outcome.changed.push(SystemChange { kind: ChangeKind::File, name, how: "changed".to_owned() });
    }
    let told = lines.iter().find(|line| line.word == "undo").map(|line| line.how.as_str());
    let undo = match told {
        Some("exact") if open.is_complete => Some(Reversibility::Exact),
        Some("exact" | "partly") => Some(Reversibility::Partly),
        Some("none") => Some(Reversibility::None),
        Some("nothing") if open.is_complete => None,
        _ => Some(Reversibility::None),
    };
    outcome.undo = match (outcome.undo, undo) {
        (Some(before), Some(now)) if before != now => Some(Reversibility::Partly),
        (before, now) => now.or(before),
    };
    if matches!(told, Some("exact" | "partly")) {
        outcome.records.push(open.record);
    }
    for note in open.notes.into_iter().chain(notes_after(lines)) {
        push_line(&mut outcome.output, &format!("[no undo: {note}]"));
    }
}

fn notes_after(lines: &[ScriptLine]) -> Vec<String> {
    if lines.iter().any(|line| line.word == "end") { Vec::new() } else { notes(lines) }
}

/// Names the files that a file tool changed. The tool keeps the old content itself.
fn note_file_changes(outcome: &mut Outcome) {
    if outcome.changes.is_empty() || !outcome.changed.is_empty() {
        return;
    }
    let changed = outcome.changes.iter().map(|change| {
        let how = match (&change.before, change.after_hash.as_str()) {
            (None, _) => "created",
            (Some(_), crate::tools::FILE_GONE) => "removed",
            (Some(_), _) => "edited",
        };
        SystemChange { kind: ChangeKind::File, name: change.path.clone(), how: how.to_owned() }
    });
    outcome.changed = changed.collect();
    outcome.undo = Some(Reversibility::Exact);
}

/// Returns the records that an `undo` call names.
pub(crate) fn records_of(call: &ToolCall) -> Vec<UndoRecord> {
    let Arguments::Object(arguments) = &call.arguments else { return Vec::new() };
    let records = arguments.get("records").cloned().unwrap_or_default();
    serde_json::from_value(records).unwrap_or_default()
}

fn runs_in_background(call: &ToolCall) -> bool {
    let Arguments::Object(arguments) = &call.arguments else { return false };
    let is = |name: &str, value: serde_json::Value| arguments.get(name) == Some(&value);
    is("background", true.into()) || is("on_timeout", "background".into())
}

fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_script_knows_the_same_directories_of_sysop() {
        assert!(SCRIPT.contains(&format!("for o in {}; do", OWN_IN_HOME.join(" "))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_too_slow_is_not_asked_again_at_once() {
        let timeouts = CaptureTimeouts::default();
        let asked = Cell::new(0);
        let ask = |result: Result<(), ScriptError>| {
            timeouts.run_unless_slow(async {
                asked.set(asked.get() + 1);
                result
            })
        };
        let failed = ScriptError::Failed("no space left".to_owned());
        assert_eq!(ask(Err(failed.clone())).await, Err(failed));
        let timed_out = ScriptError::TimedOut(15);
        assert_eq!(ask(Err(timed_out.clone())).await, Err(timed_out), "only a timeout costs time");
        assert_eq!(ask(Ok(())).await, Err(ScriptError::TimedOutBefore));
        assert_eq!(asked.get(), 2);
        tokio::time::advance(PAUSE_AFTER_TIMEOUT).await;
        assert_eq!(ask(Ok(())).await, Ok(()));
        timeouts.note(&Err::<(), _>(ScriptError::TimedOut(15)));
        assert_eq!(ask(Ok(())).await, Err(ScriptError::TimedOutBefore), "a slow comparison counts as well");
    }

    #[tokio::test(start_paused = true)]
    async fn users_are_told_once_of_work_that_takes_long() {
        let told = Cell::new(0);
        let tell = || async { told.set(told.get() + 1) };
        let work = |time: Duration| async move { tokio::time::sleep(time).await };
        told_if_slow(work(TELL_AFTER - Duration::from_millis(1)), tell).await;
        assert_eq!(told.get(), 0);
        told_if_slow(work(TELL_AFTER * 5), tell).await;
        assert_eq!(told.get(), 1);
    }
}
