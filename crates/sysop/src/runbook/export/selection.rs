//! Selection of the calls that become steps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use sha2::{Digest, Sha256};
use sysop_core::catalog::BASH_TOOL;
use sysop_core::event::Origin;
use sysop_core::outcome::{FileChange, Outcome, Reversibility, Status};
use sysop_core::policy::{CommandContext, Policy, RiskClass, Survey};
use sysop_core::redact::shapes::{redact_command_shapes, redact_shapes};
use sysop_core::text::neutralize_line;
use sysop_core::undo::UNDO_TOOL;

use super::ExportOptions;
use super::output_line::stable_line;
use super::undo::derived_undo;
use crate::config::{
    ABSENT, EditContent, FileEdit, RunbookStep, STEP_TIMEOUT_S_DEFAULT, STEPS_MAX, StepAction,
};
use crate::sessions::{RecordedCall, SessionRecord};

/// Maximum length of a step's name, in characters.
const NAME_CHARS_MAX: usize = 60;
const NOTE_CHARS_MAX: usize = 80;
/// Minimum length of a word, in characters. If a later change contains such a word of an output, the output was
/// probably used for it.
const LITERAL_CHARS_MIN: usize = 4;
/// Maximum size of a file's previous content that is hashed, in bytes.
const BEFORE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Read-only tools. Their calls are left out without a note.
const READING: [&str; 15] = [
    "read_file", "find_files", "ls", "cat", "stat", "git_status", "git_diff", "git_log", "git_show", "todo",
    "jobs", "skill", "read_output", "task_complete", "remember",
];

/// A call to turn into a step.
#[derive(Debug, Clone)]
pub(super) struct SelectedStep {
    /// The step, with its text as it ran.
    pub(super) step: RunbookStep,
    /// An output line that another run will probably print again.
    pub(super) stable_line: Option<String>,
    /// True if the command was read-only.
    reads: bool,
    output: String,
}

/// The steps, and notes about what was left out.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) steps: Vec<SelectedStep>,
    pub(super) notes: Vec<String>,
}

/// Directory and variables in the session's terminal.
#[derive(Debug, Clone, Default)]
struct TerminalState {
    cwd: Option<String>,
    env: BTreeMap<String, String>,
}

impl Selection {
    pub(super) fn new(record: &SessionRecord, options: &ExportOptions) -> Self {
        let mut selection = Self::default();
        let mut terminal = TerminalState::default();
        let undone = UndoneCalls::new(record);
        for call in &record.calls {
            selection.add(call, &undone, &mut terminal, options);
        }
        if !options.keeps_reads {
            selection.drop_reads();
        }
        if selection.steps.len() > STEPS_MAX {
            let left_out = selection.steps.len() - STEPS_MAX;
            selection
                .notes
                .push(format!("left out the last {left_out} steps: a routine has at most {STEPS_MAX}"));
            selection.steps.truncate(STEPS_MAX);
        }
        selection
    }

    fn leave_out(&mut self, call: &RecordedCall, why: &str) {
        self.notes.push(format!("left out {}: it {why}", named(call)));
    }

    fn add(
        &mut self,
        call: &RecordedCall,
        undone: &UndoneCalls,
        terminal: &mut TerminalState,
        options: &ExportOptions,
    ) {
        let name = call.call.name.as_str();
        if READING.contains(&name) {
            return;
        }
        let Some(outcome) = call.outcome.as_ref() else {
            return self.leave_out(call, "has no result in the log");
        };
        if !call.has_started || outcome.status == Status::Rejected {
            return self.leave_out(call, "was rejected");
        }
        let keeps = options.keeps_failures && name != UNDO_TOOL;
        let exit = match (outcome.status, outcome.exit_code) {
            (Status::Ok, code) => code.unwrap_or(0),
            (Status::Failed, Some(code)) if keeps && outcome.hosts.is_empty() => code,
            (Status::Failed, Some(code)) => return self.leave_out(call, &format!("exited with {code}")),
            (status, _) => return self.leave_out(call, &format!("ended as {}", status.as_str())),
        };
        if name == UNDO_TOOL {
            if undone.unknown.contains(&call.number) {
                let note = "undid a call that the log does not name, so that call may still be a step; check the steps";
                self.notes.push(format!("{} {note}", named(call)));
            }
            return;
        }
        if let Some(undo) = undone.by.get(&call.number) {
            let rest = match undone.in_part.contains(&call.number) {
                true => ", but only in part; add it if its other effects are needed",
                false => "",
            };
            return self.leave_out(call, &format!("was undone by call {undo}{rest}"));
        }
        let Some(mut step) = self.step_of(call, outcome, terminal, options) else { return };
        step.expect.exit = vec![exit];
        step.name = step_name(call, &step);
        let timeout_s = 3 * outcome.duration_ms.div_ceil(1000);
        step.timeout_s = timeout_s.max(given_timeout(call)).clamp(STEP_TIMEOUT_S_DEFAULT, 3600);
        let reads = match &step.action {
            StepAction::Command(command) => is_reading(command),
            StepAction::Manual | StepAction::Edit(_) => false,
        };
        let output = outcome.output.clone();
        let line = if redact_shapes(&output) == output { stable_line(&output) } else { None };
        self.steps.push(SelectedStep { step, stable_line: line, reads, output });
    }

    fn step_of(
        &mut self,
        call: &RecordedCall,
        outcome: &Outcome,
        terminal: &mut TerminalState,
        options: &ExportOptions,
    ) -> Option<RunbookStep> {
        let text = |name: &str| call.call.text_argument(name).map(str::to_owned);
        match call.call.name.as_str() {
            tool @ (BASH_TOOL | "run_command") => {
                let command = text("command").filter(|command| !command.trim().is_empty())?;
                let in_terminal = tool == "run_command";
                if in_terminal && terminal.takes(&command) {
                    return None;
                }
                if is_background(call) {
                    self.leave_out(call, "ran in the background");
                    return None;
                }
                if in_terminal
                    && command.split_whitespace().any(|word| ["cd", "pushd", "popd"].contains(&word))
                {
                    let number = call.number;
                    self.notes.push(format!(
                        "call {number} may have changed the terminal's working directory; check `cwd` of the steps \
                         that follow"
                    ));
                }
                let mut step = self.command_step(call, &command, outcome);
                if in_terminal && step.action != StepAction::Manual {
                    step.cwd.clone_from(&terminal.cwd);
                    step.env.clone_from(&terminal.env);
                }
                Some(step)
            }
            "write_file" => {
                let (file, content) = (text("path")?, text("content")?);
                let sha256 = hash_before(outcome, &options.artifacts);
                let edit = FileEdit { file, content: EditContent::Whole(content), sha256 };
                Some(self.edit_step(call, edit))
            }
            "edit_file" => {
                let (file, old, new) = (text("path")?, text("old_string")?, text("new_string")?);
                let edit = FileEdit { file, content: EditContent::Replace { old, new }, sha256: None };
                Some(self.edit_step(call, edit))
            }
            "mkdir" => {
                let command = format!("mkdir -p -- {}", shell_words::quote(&text("path")?));
                Some(self.command_step(call, &command, outcome))
            }
            "delete_file" => {
                let command = format!("rm -- {}", shell_words::quote(&text("path")?));
                Some(self.command_step(call, &command, outcome))
            }
            "send_keys" => {
                let keys = redact_command_shapes(&text("keys")?);
                let ask = format!("Press these keys in a terminal: {}", neutralize_line(&keys));
                Some(RunbookStep { ask: Some(ask), ..RunbookStep::default() })
            }
            _ => {
                self.leave_out(call, "uses a tool that runbooks do not support");
                None
            }
        }
    }

    fn command_step(&mut self, call: &RecordedCall, command: &str, outcome: &Outcome) -> RunbookStep {
        let redacted = redact_command_shapes(command);
        if redacted != command || command.contains('\0') {
            return self.secret_step(call, &redacted.replace('\0', ""));
        }
        RunbookStep {
            action: StepAction::Command(command.to_owned()),
            undo: derived_undo(command, outcome),
            ..RunbookStep::default()
        }
    }

    fn edit_step(&mut self, call: &RecordedCall, edit: FileEdit) -> RunbookStep {
        let texts: Vec<&String> = match &edit.content {
            EditContent::Whole(content) => vec![&edit.file, content],
            EditContent::Replace { old, new } => vec![&edit.file, old, new],
        };
        let is_secret = |text: &String| redact_command_shapes(text) != *text || text.contains('\0');
        if texts.into_iter().any(is_secret) {
            let file = redact_command_shapes(&edit.file).replace('\0', "");
            return self.secret_step(call, &format!("edit {file}"));
        }
        RunbookStep { action: StepAction::Edit(edit), ..RunbookStep::default() }
    }

    fn secret_step(&mut self, call: &RecordedCall, redacted: &str) -> RunbookStep {
        self.notes.push(format!("call {} may contain a secret; its step asks a person instead", call.number));
        let ask = format!("This step contained a secret. Do it by hand: {redacted}");
        RunbookStep { ask: Some(ask), ..RunbookStep::default() }
    }

    /// Drops read-only steps, except those whose output a later change used. Without changes, keeps all.
    fn drop_reads(&mut self) {
        if self.steps.iter().all(|step| step.reads) {
            return;
        }
        let commands: Vec<BTreeSet<String>> = self
            .steps
            .iter()
            .map(|step| step.step.templates().iter().flat_map(|(_, text, _)| literals(text)).collect())
            .collect();
        let is_used = |at: usize, step: &SelectedStep| {
            literals(&step.output).iter().any(|literal| {
                let later = commands.iter().zip(&self.steps).skip(at + 1);
                !commands[..=at].iter().any(|known| known.contains(literal))
                    && later.filter(|(_, step)| !step.reads).any(|(command, _)| command.contains(literal))
            })
        };
        let kept: Vec<bool> =
            self.steps.iter().enumerate().map(|(at, step)| !step.reads || is_used(at, step)).collect();
        let dropped = kept.iter().filter(|kept| !**kept).count();
        let mut kept = kept.into_iter();
        self.steps.retain(|_| kept.next().unwrap_or(true));
        if dropped > 0 {
            let noun = if dropped == 1 { "command" } else { "commands" };
            self.notes.push(format!("left out {dropped} read-only {noun} (--all keeps them)"));
        }
    }
}

impl TerminalState {
    /// Applies a command that only changes the directory or variables. Returns false for any other command.
    fn takes(&mut self, command: &str) -> bool {
        let mut state = self.clone();
        let is_taken = command.split("&&").all(|part| state.takes_one(part));
        if is_taken {
            *self = state;
        }
        is_taken
    }

    fn takes_one(&mut self, command: &str) -> bool {
        if command.contains(|c: char| "$`;&|<>(){}*?~\n\\".contains(c)) {
            return false;
        }
        let Ok(words) = shell_words::split(command) else { return false };
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["cd", folder] if *folder != "-" && !folder.is_empty() => {
                let folder = Path::new(self.cwd.as_deref().unwrap_or_default()).join(folder);
                self.cwd = Some(folder.to_string_lossy().into_owned());
                true
            }
            ["export", assignments @ ..] if !assignments.is_empty() => {
                let pairs: Option<Vec<_>> = assignments.iter().map(|word| word.split_once('=')).collect();
                let Some(pairs) = pairs.filter(|_| redact_command_shapes(command) == command) else {
                    return false;
                };
                self.env.extend(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
                true
            }
            _ => false,
        }
    }
}

/// Calls that were undone and not redone.
#[derive(Debug, Default)]
struct UndoneCalls {
    /// Number of the undo for each undone call, which may be an undo itself.
    by: HashMap<usize, usize>,
    /// Calls whose newest undo did not restore everything.
    in_part: BTreeSet<usize>,
    /// Undos whose calls the log does not name.
    unknown: BTreeSet<usize>,
}

impl UndoneCalls {
    /// Finds the calls that were undone. An undo that was itself undone has no effect.
    fn new(record: &SessionRecord) -> Self {
        let mut undone = Self::default();
        for undo in &record.undos {
            if let Some(call) = undo.call {
                match undo.how {
                    Reversibility::Exact => undone.in_part.remove(&call),
                    Reversibility::Partly | Reversibility::None => undone.in_part.insert(call),
                };
            }
        }
        for (at, undo) in record.calls.iter().enumerate().rev() {
            let is_done = undo.has_started && undo.status() == Some(Status::Ok);
            if undo.call.name != UNDO_TOOL || !is_done || undone.by.contains_key(&undo.number) {
                continue;
            }
            let targets = undo_targets(undo, &record.calls[..at]);
            if targets.is_empty() {
                undone.unknown.insert(undo.number);
            }
            for target in targets {
                undone.by.entry(target).or_insert(undo.number);
            }
        }
        undone
    }
}

/// Returns the numbers of the earlier calls whose changes an undo took back. An undo of file edits names only the
/// files.
fn undo_targets(undo: &RecordedCall, earlier: &[RecordedCall]) -> Vec<usize> {
    if let Some(id) = undo.call.text_argument("call") {
        let target = earlier.iter().rfind(|call| call.call.id.as_str() == id);
        return target.map(|call| call.number).into_iter().collect();
    }
    let files = undo.call.arguments.to_value().get("changes").cloned().unwrap_or_default();
    let mut files: Vec<FileChange> = serde_json::from_value(files).unwrap_or_default();
    let mut targets = Vec::new();
    // The newest first: an earlier call may have made the same change.
    for call in earlier.iter().rev() {
        let changes: Vec<&FileChange> = call.outcome.iter().flat_map(|outcome| &outcome.changes).collect();
        if !changes.is_empty() && changes.iter().all(|change| files.contains(change)) {
            files.retain(|file| !changes.contains(&file));
            targets.push(call.number);
        }
    }
    targets.reverse();
    targets
}

/// Returns a call's number and the beginning of its text.
fn named(call: &RecordedCall) -> String {
    let text = neutralize_line(&redact_command_shapes(&call.text())).into_owned();
    let mut cut: String = text.chars().take(NOTE_CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("call {} (`{cut}`)", call.number)
}

fn is_background(call: &RecordedCall) -> bool {
    let arguments = call.call.arguments.to_value();
    arguments.get("background").and_then(serde_json::Value::as_bool).unwrap_or(false)
}

fn given_timeout(call: &RecordedCall) -> u64 {
    let arguments = call.call.arguments.to_value();
    arguments.get("timeout_s").and_then(serde_json::Value::as_u64).unwrap_or(0)
}

fn is_reading(command: &str) -> bool {
    let survey = Survey::elsewhere(CommandContext::bash());
    Policy::new(&[], &[]).risk(command, &survey).class <= RiskClass::ReadsRemote
}

/// Returns the words that are long enough for a match to suggest that one text was derived from the other.
fn literals(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_alphanumeric() || "._-@:".contains(c)))
        .map(|word| word.trim_matches(['.', ':', '-']))
        .filter(|word| word.chars().count() >= LITERAL_CHARS_MIN)
        .map(str::to_owned)
        .collect()
}

fn step_name(call: &RecordedCall, step: &RunbookStep) -> String {
    let reason = if call.origin == Origin::Model { call.call.reason() } else { "" };
    let reason = neutralize_line(&redact_command_shapes(reason)).into_owned();
    let text = match (&step.action, reason.trim()) {
        (StepAction::Manual, "") => "by hand".to_owned(),
        (StepAction::Command(command), "") => {
            let line = command.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            neutralize_line(line.trim()).into_owned()
        }
        (StepAction::Edit(edit), "") => {
            let verb = if edit.sha256.as_deref() == Some(ABSENT) { "create" } else { "edit" };
            format!("{verb} {}", neutralize_line(&edit.file))
        }
        (_, reason) => reason.to_owned(),
    };
    let mut name: String = text.chars().take(NAME_CHARS_MAX).collect();
    if name.len() < text.len() {
        name.push('…');
    }
    name
}

/// Returns the file's hash before its only change: `absent` if there was no file, `None` if unknown.
fn hash_before(outcome: &Outcome, artifacts: &Path) -> Option<String> {
    let [change] = outcome.changes.as_slice() else { return None };
    let Some(name) = &change.before else {
        return outcome.hosts.is_empty().then(|| ABSENT.to_owned());
    };
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if !is_plain || name.starts_with('.') {
        return None;
    }
    let path = artifacts.join(name);
    let size = std::fs::metadata(&path).ok()?.len();
    let bytes = if size <= BEFORE_BYTES_MAX { std::fs::read(&path).ok()? } else { return None };
    Some(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
