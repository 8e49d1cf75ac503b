//! `sysop runbook export`: creates a routine from the calls in a session.
//!
//! Successful calls are kept as they ran, in their original order. Everything left out is mentioned in a
//! note. Secrets in known formats never reach the runbook: a call with one becomes a question to a person.

mod markdown;
mod output_line;
mod script;
mod selection;
mod toml_text;
mod undo;
mod variables;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use sysop_core::id::SessionId;
use sysop_core::redact::shapes::redact_shapes;
use sysop_core::text::neutralize_line;

use crate::cli::RunbookFormat;
use crate::config::{EditContent, Routine, RoutineSource, RunbookStep, StepAction, Variable, template_of};
use crate::sessions::SessionRecord;
use selection::{SelectedStep, Selection};
use variables::{VariableProposal, parametrize, parametrize_text, propose};

/// Maximum length of a routine's description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 100;
const NAME_WORDS_MAX: usize = 4;
/// Default name for a routine.
const NAME_DEFAULT: &str = "runbook";

/// Options chosen by the user.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags of the command line")]
pub(super) struct ExportOptions {
    pub(super) name: Option<String>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) finds_variables: bool,
    pub(super) keeps_reads: bool,
    pub(super) keeps_failures: bool,
    pub(super) matches_output: bool,
    pub(super) date: String,
    /// Number of policy rules.
    pub(super) policy: i64,
    /// Directory with the previous contents of changed files.
    pub(super) artifacts: PathBuf,
}

#[derive(Debug, Clone)]
pub(super) struct RunbookDraft {
    pub(super) name: String,
    /// The routine with the variables and expressions chosen so far.
    pub(super) routine: Routine,
    /// Steps as recorded, without placeholders.
    steps: Vec<SelectedStep>,
    variables: Vec<VariableProposal>,
    /// For each step, true if the step will expect its stable line of output.
    matched: Vec<bool>,
    notes: Vec<String>,
}

impl RunbookDraft {
    /// Creates a routine from a session. Fails if nothing in the session can run again.
    pub(super) fn new(
        id: &SessionId,
        record: &SessionRecord,
        options: &ExportOptions,
    ) -> Result<Self, String> {
        let Selection { steps, mut notes } = Selection::new(record, options);
        if steps.is_empty() {
            return Err("this session has no calls that can be exported".to_owned());
        }
        let prompt = record.turns.iter().map(|turn| turn.prompt.trim()).find(|prompt| !prompt.is_empty());
        let prompt = redact_shapes(prompt.unwrap_or_default()).into_owned();
        let first_line = neutralize_line(prompt.lines().next().unwrap_or_default()).into_owned();
        let source = RoutineSource {
            session: id.as_str().to_owned(),
            date: options.date.clone(),
            policy: Some(options.policy),
            ..system_of(record)
        };
        let routine = Routine {
            description: first_line.chars().take(DESCRIPTION_CHARS_MAX).collect(),
            made_from: Some(source),
            ..Routine::default()
        };
        let mut variables: Vec<VariableProposal> = options
            .variables
            .iter()
            .map(|(name, value)| VariableProposal::given(name.clone(), value.clone()))
            .collect();
        if options.finds_variables {
            let found = propose(&steps, &variables);
            variables.extend(found);
        }
        let matched = vec![options.matches_output; steps.len()];
        let name = options.name.clone().unwrap_or_else(|| name_of(&prompt));
        for variable in &options.variables {
            let needle = shell_words::quote(&variable.1).into_owned();
            if !steps
                .iter()
                .any(|step| step.step.templates().iter().any(|(_, text, _)| text.contains(&needle)))
            {
                notes.push(format!("no step contains the value of the variable `{}`", variable.0));
            }
        }
        let mut draft = Self { name, routine, steps, variables, matched, notes };
        draft.build();
        Ok(draft)
    }

    /// Returns what was left out or could not be preserved, one line each.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|note| neutralize_line(note).into_owned()).collect()
    }

    /// Asks about each variable and each expected line of output.
    pub(super) fn confirm(&mut self, input: &mut impl BufRead, out: &mut impl Write) -> Result<()> {
        let mut kept = Vec::new();
        for mut variable in std::mem::take(&mut self.variables) {
            let value = neutralize_line(&variable.value).into_owned();
            write!(
                out,
                "variable {} = {value} ({} times): Enter to keep, NAME to rename, - to drop: ",
                variable.name, variable.count
            )?;
            match read_answer(input, out)?.as_str() {
                "-" => continue,
                "" => {}
                name if is_variable_name(name) => variable.name = name.to_owned(),
                other => writeln!(out, "{other:?} is not a name; keeping {}", variable.name)?,
            }
            kept.push(variable);
        }
        self.variables = kept;
        for (step, matched) in self.steps.iter().zip(&mut self.matched) {
            let Some(line) = &step.stable_line else { continue };
            let (name, line) = (neutralize_line(&step.step.name), neutralize_line(line));
            write!(out, "{name}: expect the output to have the line {line:?}? [y/N] ")?;
            *matched = matches!(read_answer(input, out)?.as_str(), "y" | "Y" | "yes");
        }
        self.build();
        Ok(())
    }

    /// Builds the routine from the steps and the choices.
    fn build(&mut self) {
        self.routine.vars = self
            .variables
            .iter()
            .map(|variable| {
                let known = Variable {
                    description: variable.description.clone(),
                    pattern: variable.pattern.clone(),
                    default: Some(variable.value.clone()),
                };
                (variable.name.clone(), known)
            })
            .collect();
        let of = |(selected, matched): (&SelectedStep, &bool)| {
            let mut step = with_templates(&selected.step, &self.variables);
            let line = selected.stable_line.as_ref().filter(|_| *matched);
            step.expect.pattern = line.map(|line| format!("^{}$", regex::escape(line)));
            step
        };
        self.routine.steps = self.steps.iter().zip(&self.matched).map(of).collect();
    }

    pub(super) fn write(&self, format: RunbookFormat) -> String {
        match format {
            RunbookFormat::Toml => toml_text::write(&self.name, &self.routine, &self.notes()),
            RunbookFormat::Sh => script::write(&self.name, &self.routine, &self.notes()),
            RunbookFormat::Md => markdown::write(&self.name, &self.routine, &self.notes()),
        }
    }
}

fn read_answer(input: &mut impl BufRead, out: &mut impl Write) -> Result<String> {
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim().to_owned())
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Replaces the values of variables in a step with placeholders, and escapes everything that looks like one.
fn with_templates(step: &RunbookStep, variables: &[VariableProposal]) -> RunbookStep {
    let command = |text: &String| parametrize(text, variables);
    let action = match &step.action {
        StepAction::Manual => StepAction::Manual,
        StepAction::Command(text) => StepAction::Command(command(text)),
        StepAction::Edit(edit) => {
            let mut edit = edit.clone();
            let text = |text: &str| parametrize_text(text, variables);
            edit.file = text(&edit.file);
            edit.content = match edit.content {
                EditContent::Whole(content) => EditContent::Whole(text(&content)),
                EditContent::Replace { old, new } => {
                    EditContent::Replace { old: text(&old), new: text(&new) }
                }
            };
            StepAction::Edit(edit)
        }
    };
    RunbookStep {
        action,
        ask: step.ask.as_deref().map(template_of),
        cwd: step.cwd.as_deref().map(|cwd| parametrize_text(cwd, variables)),
        env: step.env.iter().map(|(name, value)| (name.clone(), template_of(value))).collect(),
        check: step.check.as_ref().map(command),
        unless: step.unless.as_ref().map(command),
        verify: step.verify.as_ref().map(command),
        undo: step.undo.as_ref().map(|undo| command(&undo_of_template(step, undo, variables))),
        ..step.clone()
    }
}

/// Returns the undo of a command with placeholders. Parents of a folder are left out: another value has others.
fn undo_of_template(step: &RunbookStep, undo: &str, variables: &[VariableProposal]) -> String {
    let StepAction::Command(text) = &step.action else { return undo.to_owned() };
    let words = shell_words::split(undo).unwrap_or_default();
    if !words.iter().any(|word| word == "rmdir") || parametrize(text, variables) == template_of(text) {
        return undo.to_owned();
    }
    let used = shell_words::split(text).unwrap_or_default();
    let is_kept = |word: &&String| matches!(word.as_str(), "rmdir" | "--") || used.contains(word);
    shell_words::join(words.iter().filter(is_kept))
}

/// Returns this machine's system, if the session ran here.
fn system_of(record: &SessionRecord) -> RoutineSource {
    if record.spec.as_ref().is_none_or(|spec| spec.host != "local") {
        return RoutineSource::default();
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    RoutineSource {
        os: super::system_check::os_of(&release),
        arch: Some(std::env::consts::ARCH.to_owned()),
        ..RoutineSource::default()
    }
}

/// Returns a name for a routine based on the first words of a prompt.
fn name_of(prompt: &str) -> String {
    let words = prompt
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(NAME_WORDS_MAX)
        .map(str::to_ascii_lowercase);
    let name = words.collect::<Vec<_>>().join("_");
    if name.is_empty() { NAME_DEFAULT.to_owned() } else { name }
}
