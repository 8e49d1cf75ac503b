//! A routine as a document, for reading and reviewing.

use sysop_core::text::{neutralize, neutralize_line};

use crate::config::{ABSENT, EditContent, FailureAction, FileEdit, Routine, RunbookStep, StepAction};
use crate::markdown::{escape, fence_for};

/// Language of code blocks with commands.
const SHELL: &str = "sh";

pub(super) fn write(name: &str, routine: &Routine, notes: &[String]) -> String {
    let mut blocks = vec![format!("# {}", neutralize_line(name))];
    if !routine.description.is_empty() {
        blocks.push(escaped(&routine.description));
    }
    if let Some(source) = &routine.made_from {
        blocks.push(format!("Made from session `{}` on {}.", neutralize_line(&source.session), source.date));
    }
    if !routine.vars.is_empty() {
        let mut table = "| value | meaning | must match | default |\n| --- | --- | --- | --- |".to_owned();
        for (name, variable) in &routine.vars {
            let pattern = variable.pattern.as_deref().unwrap_or_default();
            let default = variable.default.as_deref().unwrap_or_default();
            let cells = [&variable.description, pattern, default].map(escaped);
            table.push_str(&format!("\n| `{{{{{name}}}}}` | {} |", cells.join(" | ")));
        }
        blocks.push(table);
    }
    for (number, step) in (1..).zip(&routine.steps) {
        blocks.push(format!("## {number}. {}", escaped(&step.name)));
        push_step(step, &mut blocks);
    }
    if !notes.is_empty() {
        blocks.push("## Notes".to_owned());
        let notes: Vec<String> = notes.iter().map(|note| format!("- {}", escaped(note))).collect();
        blocks.push(notes.join("\n"));
    }
    blocks.join("\n\n") + "\n"
}

fn push_step(step: &RunbookStep, blocks: &mut Vec<String>) {
    for (label, probe) in [("Not needed if this succeeds:", &step.unless), ("Before:", &step.check)] {
        if let Some(probe) = probe {
            blocks.extend([label.to_owned(), fenced(SHELL, probe)]);
        }
    }
    blocks.extend(step.ask.as_deref().map(escaped));
    match &step.action {
        StepAction::Manual => {}
        StepAction::Command(command) => blocks.push(fenced(SHELL, command)),
        StepAction::Edit(edit) => push_edit(edit, blocks),
    }
    let facts = facts(step);
    if !facts.is_empty() {
        blocks.push(facts.join(" "));
    }
    for (label, command) in [("Then check:", &step.verify), ("To undo:", &step.undo)] {
        if let Some(command) = command {
            blocks.extend([label.to_owned(), fenced(SHELL, command)]);
        }
    }
    match step.on_fail {
        FailureAction::Stop => {}
        FailureAction::Undo => {
            blocks.push("If it fails, undo the steps so far, the last one first.".to_owned())
        }
        FailureAction::Continue => blocks.push("If it fails, continue.".to_owned()),
    }
}

/// Returns sentences about the place of a step and its expected outcome.
fn facts(step: &RunbookStep) -> Vec<String> {
    let cwd = step.cwd.iter().map(|cwd| format!("In the directory {cwd}."));
    let env = step.env.iter().map(|(name, value)| format!("With {name}={value}."));
    let mut facts: Vec<String> = cwd.chain(env).map(|fact| escaped(&fact)).collect();
    if step.expect.exit != [0] {
        let codes: Vec<String> = step.expect.exit.iter().map(i32::to_string).collect();
        facts.push(format!("Expected exit code: {}.", codes.join(" or ")));
    }
    for (label, pattern) in [("", &step.expect.pattern), ("no ", &step.expect.not_pattern)] {
        if let Some(pattern) = pattern {
            facts.push(format!("Expected: {label}output that matches {}.", escaped(pattern)));
        }
    }
    facts
}

fn push_edit(edit: &FileEdit, blocks: &mut Vec<String>) {
    let file = escaped(&edit.file);
    match &edit.content {
        EditContent::Whole(content) => {
            blocks.extend([format!("Write the file {file}:"), fenced("", content)])
        }
        EditContent::Replace { old, new } => {
            let (old, new) = (fenced("", old), fenced("", new));
            blocks.extend([format!("In the file {file}, replace"), old, "with".to_owned(), new]);
        }
    }
    if let Some(hash) = &edit.sha256 {
        blocks.push(match hash.as_str() {
            ABSENT => "The file must not exist before.".to_owned(),
            hash => format!("Before, the file must have the SHA-256 {hash}."),
        });
    }
}

/// Returns text as a code block, with a fence that the text cannot close.
fn fenced(language: &str, text: &str) -> String {
    let fence = fence_for(text);
    format!("{fence}{language}\n{}\n{fence}", neutralize(text.strip_suffix('\n').unwrap_or(text)))
}

fn escaped(text: &str) -> String {
    escape(&neutralize_line(text))
}
