//! Undo of earlier calls: which call a user means, and what the host needs to undo it.
//!
//! A command is undone from the records that hosts keep; the host plans the undo, a user allows the plan, and the call
//! `undo` runs it. Changes made by file tools are undone at once, unless the call asks for an approval of its plan:
//! those of the step that the user names, or else those of the last turn that changed files.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::decide::guard_of;
use super::state::UndoStep;
use super::{Consent, Session};
use crate::event::{Event, Origin, Output};
use crate::guard::GuardTimeout;
use crate::id::CallId;
use crate::message::{Arguments, ToolCall};
use crate::outcome::{FileChange, Outcome, Reversibility, Status};
use crate::policy::{Finding, Grant, Risk, RiskClass, Survey, UndoOffer};
use crate::text::neutralize_line;
use crate::ui_text::counted;
use crate::undo::{ASKS, NOT_EXACT, UNDO_OF_FILE_EDITS, UNDO_TOOL, UNDOES, split_undo_note, undone_command};

/// Maximum number of files that the plan of an undo names.
const FILE_LINES_MAX: usize = 50;
/// Maximum number of characters that are remembered of the reason why a call has no undo.
const REASON_CHARS_MAX: usize = 300;

impl Session {
    /// Returns true if an undo that names no step has something to undo.
    pub fn has_undo(&self) -> bool {
        self.undo_refusal(None).is_none()
    }

    /// Says why an undo is impossible, of a call by its number in the session or of the last one that can be undone.
    /// `None` if the session knows no reason.
    pub fn undo_refusal(&self, step: Option<u64>) -> Option<String> {
        let step = step.map(|step| ("step".to_owned(), json!(step)));
        self.undo_arguments(&Map::from_iter(step)).err()
    }

    /// Returns the arguments of a call to `undo`. `arguments` names the step to undo by its number (`step`) or by its
    /// call (`call`). If it names no step, the last undoable one is undone. With [`ASKS`], the call asks for approval.
    /// Fails with a sentence that says why nothing can be undone.
    pub(super) fn undo_arguments(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let steps = &self.state.undo_steps;
        let wanted = arguments.get("step").or_else(|| arguments.get("call"));
        let step = match wanted {
            Some(Value::Number(number)) => {
                let found = steps.iter().find(|step| number.as_u64() == Some(u64::from(step.number)));
                Some(found.ok_or_else(|| self.not_undoable(number.as_u64()))?)
            }
            Some(Value::String(id)) => {
                let found = steps.iter().find(|step| step.call.as_str() == id);
                Some(found.ok_or_else(|| "this call cannot be undone: nothing was saved for it".to_owned())?)
            }
            Some(_) => return Err("`step` must be a number, counted from 1".to_owned()),
            None => steps.iter().rev().find(|step| !step.is_undone && !step.is_undo),
        };
        match step {
            Some(step) if !step.records.is_empty() => Ok(object(json!({
                "step": step.number, "call": step.call, "records": step.records, UNDOES: step.command,
            }))),
            Some(step) if wanted.is_some() => {
                let files = json!({ "step": step.number, "call": step.call, "changes": step.files });
                Ok(file_undo(files, arguments))
            }
            Some(_) | None => match self.state.changes.last() {
                Some(changes) => Ok(file_undo(json!({ "changes": changes.files }), arguments)),
                None => Err(self.nothing_to_undo()),
            },
        }
    }

    fn nothing_to_undo(&self) -> String {
        let has_jobs = !self.state.jobs.is_empty() || !self.state.ended_jobs.is_empty();
        let why = match &self.state.unsaved_change {
            Some((call, why)) => format!("; call {call} has no undo: {}", neutralize_line(why)),
            None if has_jobs => "; commands in the background have no undo".to_owned(),
            None => String::new(),
        };
        format!("nothing to undo in this session{why}")
    }

    fn not_undoable(&self, number: Option<u64>) -> String {
        let steps = self.state.tool_calls;
        match number {
            Some(number) if (1..=u64::from(steps)).contains(&number) => {
                format!("call {number} cannot be undone: it changed nothing, or nothing was saved for it")
            }
            Some(number) => {
                let steps = counted(u64::from(steps), "tool call");
                format!("there is no call {number}; this session has {steps}")
            }
            None => "`step` must be a number, counted from 1".to_owned(),
        }
    }

    /// Decides on an undo after its host has been surveyed. Like the change that it undoes, an undo can lock people
    /// out: it then runs under a guard, or the approval says that it does not. Returns true if the call is to run now.
    pub(super) fn review_undo(
        &mut self,
        out: &mut Output,
        call: &ToolCall,
        survey: &Survey,
        allowed: Option<&Consent>,
    ) -> bool {
        let (guarded, unguarded) = guard_of(&survey.guard, 0);
        let seen_guard = allowed.is_some_and(|seen| seen.guarded.is_none() || guarded.is_some());
        match &survey.undo {
            UndoOffer::NotNeeded if allowed.is_none() && asks_for_approval(call) => {
                self.ask_for_undo(out, call, file_lines(call), (guarded, unguarded));
                false
            }
            // The host did not tell what it would undo.
            UndoOffer::NotNeeded if let Some(why) = &survey.incomplete => self.refuse_undo(out, call, why),
            UndoOffer::NotNeeded => true,
            UndoOffer::Refused { why } => self.refuse_undo(out, call, why),
            UndoOffer::Offered { .. } if seen_guard => true,
            UndoOffer::Offered { lines } => {
                self.ask_for_undo(out, call, lines.clone(), (guarded, unguarded));
                false
            }
        }
    }

    /// Ends an undo that cannot run. Returns false.
    fn refuse_undo(&mut self, out: &mut Output, call: &ToolCall, why: &str) -> bool {
        self.emit(out, Event::ToolStarted { call: call.clone(), origin: Origin::User });
        self.finish(out, call.id.clone(), Outcome::failed(why));
        false
    }

    /// Asks for the approval of an undo whose plan has these lines.
    fn ask_for_undo(
        &mut self,
        out: &mut Output,
        call: &ToolCall,
        lines: Vec<String>,
        (guarded, unguarded): (Option<GuardTimeout>, Option<Finding>),
    ) {
        let step = argument(call, "step").and_then(Value::as_u64);
        let command = match step {
            Some(step) => format!("undo call {step}"),
            None => UNDO_OF_FILE_EDITS.to_owned(),
        };
        let covers = Grant::Exact { command: command.clone() };
        let locks_out = guarded.is_some() || unguarded.is_some();
        let class = if locks_out { RiskClass::Lockout } else { RiskClass::Changes };
        let risk = Risk { class, findings: unguarded.into_iter().collect() };
        let preview = self.with_caveat(step.unwrap_or_default(), lines);
        let terms = self.approval_terms();
        let (call, reason) = (call.clone(), String::new());
        let asked = Event::ApprovalAsked {
            call,
            command,
            reason,
            risk,
            covers,
            preview,
            guarded,
            scope: None,
            terms,
        };
        self.emit(out, asked);
    }

    /// Says that an undo is not exact, unless the host has said why.
    fn with_caveat(&self, number: u64, mut lines: Vec<String>) -> Vec<String> {
        let step = self.state.undo_steps.iter().find(|step| u64::from(step.number) == number);
        let is_exact = step.is_none_or(|step| step.how == Reversibility::Exact);
        if !is_exact && !lines.iter().any(|line| line.starts_with(NOT_EXACT)) {
            lines.push(format!("{NOT_EXACT}other effects of the command, such as on processes, remain"));
        }
        lines
    }

    /// Logs that the running call, which is about to end with `outcome`, undid an earlier call.
    pub(super) fn undone_by(&self, call: &CallId, outcome: &Outcome) -> Option<Event> {
        let running = self.state.running_call().filter(|running| running.id == *call)?;
        let undone = undone_call(running).filter(|_| outcome.status == Status::Ok)?;
        let step = self.state.undo_steps.iter().find(|step| step.call == undone)?;
        let by = self.state.asked_by.as_ref().or(self.undo_by.as_ref());
        let by = by.filter(|_| !step.records.is_empty())?.clone();
        Some(Event::Undone { call: undone, step: Some(step.number), by, how: step.how })
    }

    pub(super) fn remember_undo_step(&mut self, call: &ToolCall, outcome: &Outcome) {
        let state = &mut self.state;
        state.tool_calls = state.tool_calls.saturating_add(1);
        let is_undo = call.name == UNDO_TOOL;
        if is_undo && outcome.status == Status::Ok {
            match undone_call(call) {
                Some(id) => {
                    // Undoing an undo redoes the step.
                    let redone = state.undo_steps.iter().find(|step| step.call == id);
                    if let Some(redone) = redone.and_then(|step| step.undid.clone()) {
                        let again = state.undo_steps.iter_mut().filter(|step| step.call == redone);
                        again.for_each(|step| step.is_undone = false);
                    }
                    for step in state.undo_steps.iter_mut().filter(|step| step.call == id) {
                        step.is_undone = true;
                        let files = &step.files;
                        state
                            .changes
                            .iter_mut()
                            .for_each(|turn| turn.files.retain(|file| !files.contains(file)));
                    }
                    state.changes.retain(|turn| !turn.files.is_empty());
                }
                None => {
                    let turn = state.changes.last().map(|changes| changes.turn);
                    let of_turn = state.undo_steps.iter_mut().filter(|step| Some(step.turn) == turn);
                    of_turn.filter(|step| !step.files.is_empty()).for_each(|step| step.is_undone = true);
                }
            }
        }
        if let Some(undo) = outcome.undo {
            let reason = (undo == Reversibility::None).then(|| unsaved_reason(outcome)).flatten();
            state.unsaved_change = reason.map(|why| (state.tool_calls, why));
        }
        if outcome.records.is_empty() && outcome.changes.is_empty() {
            return;
        }
        state.undo_steps.push(UndoStep {
            number: state.tool_calls,
            turn: state.turn,
            call: call.id.clone(),
            command: undone_command(call).unwrap_or_default().to_owned(),
            records: outcome.records.clone(),
            files: outcome.changes.clone(),
            how: outcome.undo.unwrap_or(Reversibility::Exact),
            is_undo,
            undid: undone_call(call),
            is_undone: false,
        });
        if state.undo_steps.len() > crate::undo::UNDO_STEPS_MAX {
            state.undo_steps.remove(0);
        }
    }
}

/// Returns why a call has no undo, if its host says so at the end of the output.
fn unsaved_reason(outcome: &Outcome) -> Option<String> {
    let mut notes = split_undo_note(outcome.output.trim_end_matches('\n'))?;
    while let Some(earlier) = split_undo_note(notes.0) {
        notes = earlier;
    }
    Some(notes.1.chars().take(REASON_CHARS_MAX).collect())
}

fn undone_call(call: &ToolCall) -> Option<CallId> {
    let id = argument(call, "call").and_then(Value::as_str).filter(|_| call.name == UNDO_TOOL)?;
    Some(CallId::new(id))
}

fn argument<'a>(call: &'a ToolCall, name: &str) -> Option<&'a Value> {
    match &call.arguments {
        Arguments::Object(arguments) => arguments.get(name),
        Arguments::Invalid(_) => None,
    }
}

/// Returns the arguments of an undo of file changes. It asks for approval if its caller set [`ASKS`].
fn file_undo(files: Value, arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut undo = object(files);
    if arguments.get(ASKS).is_some_and(|asks| *asks != Value::Bool(false)) {
        undo.insert(ASKS.to_owned(), Value::Bool(true));
    }
    undo
}

/// Returns the plan of an undo of file changes, a line for each file.
fn file_lines(call: &ToolCall) -> Vec<String> {
    let changes = argument(call, "changes").cloned().unwrap_or_default();
    let changes: Vec<FileChange> = serde_json::from_value(changes).unwrap_or_default();
    let mut paths = HashSet::new();
    // The first change of a file knows its state before all of them.
    let first = changes.iter().filter(|change| paths.insert(change.path.as_str()));
    let lines: Vec<String> = first
        .map(|change| match change.before {
            Some(_) => format!("restore {}", neutralize_line(&change.path)),
            None => format!("remove {}", neutralize_line(&change.path)),
        })
        .collect();
    let more = lines.len().saturating_sub(FILE_LINES_MAX);
    let note = (more > 0).then(|| format!("and {}", counted(more as u64, "more file")));
    lines.into_iter().take(FILE_LINES_MAX).chain(note).collect()
}

/// Returns true for an undo of file changes whose caller wants its plan to be approved.
pub(super) fn asks_for_approval(call: &ToolCall) -> bool {
    call.name == UNDO_TOOL && argument(call, ASKS).is_some()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}
