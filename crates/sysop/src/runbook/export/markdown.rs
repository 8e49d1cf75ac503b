//! A routine as a document, for reading and reviewing.

use std::fmt::Write;

use sysop_core::text::{neutralize, neutralize_line};

use crate::config::{ABSENT, EditContent, FailureAction, FileEdit, Routine, RunbookStep, StepAction};
use crate::markdown::{escape, fence_for};

pub(super) fn write(name: &str, routine: &Routine, notes: &[String]) -> String {
    let mut text = format!("# {}\n", neutralize_line(name));
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a string cannot fail");
    if !routine.description.is_empty() {
        line(&format!("\n{}", escaped(&routine.description)));
    }
    if let Some(source) = &routine.made_from {
        line(&format!("\nMade from session `{}` on {}.", neutralize_line(&source.session), source.date));
    }
    if !routine.vars.is_empty() {
        line("\n| value | meaning | must match | default |\n| --- | --- | --- | --- |");
        for (name, variable) in &routine.vars {
            let pattern = variable.pattern.as_deref().unwrap_or_default();
            let default = variable.default.as_deref().unwrap_or_default();
            let cells = [&variable.description, pattern, default].map(escaped);
            line(&format!("| `{{{{{name}}}}}` | {} |", cells.join(" | ")));
        }
    }
    for (number, step) in (1..).zip(&routine.steps) {
        line(&format!("{}## {number}. {}\n", if number == 1 { "\n" } else { "" }, escaped(&step.name)));
        write_step(step, &mut line);
    }
    if !notes.is_empty() {
        line("## Notes\n");
        notes.iter().for_each(|note| line(&format!("- {}", escaped(note))));
    }
    text
}

fn write_step(step: &RunbookStep, line: &mut impl FnMut(&str)) {
    for (label, probe) in [("Not needed if this succeeds", &step.unless), ("Before", &step.check)] {
        if let Some(probe) = probe {
            line(&format!("{label}:\n"));
            fenced(probe, line);
        }
    }
    if let Some(ask) = &step.ask {
        line(&format!("{}\n", escaped(ask)));
    }
    match &step.action {
        StepAction::Manual => {}
        StepAction::Command(command) => fenced(command, line),
        StepAction::Edit(edit) => write_edit(edit, line),
    }
    let (cwd, env) = (step.cwd.iter().map(|cwd| format!("In the directory {cwd}.")), &step.env);
    let env = env.iter().map(|(name, value)| format!("With {name}={value}."));
    cwd.chain(env).for_each(|fact| line(&escaped(&fact)));
    if step.expect.exit != [0] {
        let codes: Vec<String> = step.expect.exit.iter().map(i32::to_string).collect();
        line(&format!("Expected exit code: {}.", codes.join(" or ")));
    }
    for (label, pattern) in [("", &step.expect.pattern), ("no ", &step.expect.not_pattern)] {
        if let Some(pattern) = pattern {
            line(&format!("Expected: {label}output that matches {}.", escaped(pattern)));
        }
    }
    for (label, command) in [("Then check", &step.verify), ("To undo", &step.undo)] {
        if let Some(command) = command {
            line(&format!("{label}:\n"));
            fenced(command, line);
        }
    }
    match step.on_fail {
        FailureAction::Stop => {}
        FailureAction::Undo => line("If it fails, undo the steps so far, the last one first."),
        FailureAction::Continue => line("If it fails, continue."),
    }
}

fn write_edit(edit: &FileEdit, line: &mut impl FnMut(&str)) {
    match &edit.content {
        EditContent::Whole(content) => {
            line(&format!("Write the file {}:\n", escaped(&edit.file)));
            fenced(content.strip_suffix('\n').unwrap_or(content), line);
        }
        EditContent::Replace { old, new } => {
            line(&format!("In the file {}, replace\n", escaped(&edit.file)));
            fenced(old, line);
            line("with\n");
            fenced(new, line);
        }
    }
    if let Some(hash) = &edit.sha256 {
        line(&match hash.as_str() {
            ABSENT => "The file must not exist before.\n".to_owned(),
            hash => format!("Before, the file must have the SHA-256 {hash}.\n"),
        });
    }
}

/// Writes text as a code block, with a fence that the text cannot close.
fn fenced(text: &str, line: &mut impl FnMut(&str)) {
    let fence = fence_for(text);
    line(&format!("{fence}sh\n{}\n{fence}\n", neutralize(text)));
}

fn escaped(text: &str) -> String {
    escape(&neutralize_line(text))
}
