//! A routine as a POSIX shell script. It needs only `sh` and `grep`, and a value never becomes part of a
//! command's text: commands refer to it as a variable.

use std::collections::BTreeMap;

use sysop_core::policy::single_quoted;
use sysop_core::text::neutralize_line;

use crate::config::{
    ABSENT, EditContent, FailureAction, FileEdit, Routine, RunbookStep, StepAction, TemplatePart,
    template_parts,
};

/// Functions used by the steps.
const PRELUDE: &str = include_str!("prelude.sh");
/// Function for edits that replace text.
const REPLACE: &str = include_str!("replace.sh");

/// Variables that have a meaning for shells or programs, or that the prelude uses.
const RESERVED: [&str; 20] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "IFS", "LANG", "LC_ALL", "TERM", "HOST",
    "HOSTNAME", "UID", "EUID", "PORT", "MAIL", "TMPDIR", "ENV", "PS1",
];

pub(super) fn write(name: &str, routine: &Routine, notes: &[String]) -> String {
    let script = ScriptWriter { names: variable_names(routine) };
    let mut lines = vec!["#!/bin/sh".to_owned()];
    let description = if routine.description.is_empty() { "" } else { ": " };
    lines.push(comment(&format!("{name}{description}{}", routine.description)));
    if let Some(source) = &routine.made_from {
        lines.push(comment(&format!("Made by sysop from session {} on {}.", source.session, source.date)));
    }
    lines.extend(notes.iter().map(|note| comment(note)));
    for (name, variable) in &routine.vars {
        let about = [Some(variable.description.as_str()), variable.default.as_deref()];
        let about: Vec<&str> = about.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        lines.push(comment(&format!("{}: {}", script.name(name), about.join(", by default "))));
    }
    lines.push(PRELUDE.trim_end().to_owned());
    let replaces = |step: &RunbookStep| {
        matches!(&step.action, StepAction::Edit(FileEdit { content: EditContent::Replace { .. }, .. }))
    };
    if routine.steps.iter().any(replaces) {
        lines.push(REPLACE.trim_end().to_owned());
    }
    lines.push(format!("\ntotal={}", routine.steps.len()));
    for (name, variable) in &routine.vars {
        let shell_name = script.name(name);
        match &variable.default {
            Some(value) => {
                lines.push(format!("[ -n \"${{{shell_name}+x}}\" ] || {shell_name}={}", single_quoted(value)))
            }
            None => lines.push(format!(": \"${{{shell_name}:?set it}}\"")),
        }
        let pattern = variable.pattern.as_deref().filter(|pattern| is_extended(pattern)).unwrap_or_default();
        lines.push(format!("value {shell_name} {}\nexport {shell_name}", single_quoted(pattern)));
    }
    for step in &routine.steps {
        lines.push(script.step(step));
    }
    lines.push("say \"done: $n steps\"".to_owned());
    lines.join("\n") + "\n"
}

struct ScriptWriter {
    /// Shell variables, by the names of the values.
    names: BTreeMap<String, String>,
}

impl ScriptWriter {
    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.names.get(name).map_or(name, String::as_str)
    }

    fn command(&self, template: &str) -> String {
        let parts = template_parts(template).map(|part| match part {
            TemplatePart::Text(text) => text.to_owned(),
            TemplatePart::Name(name) => format!("\"${{{}}}\"", self.name(name)),
        });
        parts.collect()
    }

    /// Returns a word of the script for text that is not parsed as a command.
    fn word(&self, template: &str) -> String {
        let parts = template_parts(template).map(|part| match part {
            TemplatePart::Text(text) => single_quoted(text),
            TemplatePart::Name(name) => format!("\"${{{}}}\"", self.name(name)),
        });
        let word: String = parts.collect();
        if word.is_empty() { "''".to_owned() } else { word }
    }

    /// Returns the word for a command, with the step's directory and variables.
    fn wrapped(&self, step: &RunbookStep, template: &str) -> String {
        let exports: String =
            step.env.iter().map(|(name, value)| format!("export {name}={}\n", self.word(value))).collect();
        let command = exports + &self.command(template);
        single_quoted(&match &step.cwd {
            Some(cwd) => format!("cd -- {} && {{\n{command}\n}}", self.word(cwd)),
            None => command,
        })
    }

    fn step(&self, step: &RunbookStep) -> String {
        let on_fail = match step.on_fail {
            FailureAction::Stop | FailureAction::Undo => "stop",
            FailureAction::Continue => "continue",
        };
        let begin = format!("\nbegin {} {on_fail}", single_quoted(&neutralize_line(&step.name)));
        let mut parts = Vec::new();
        parts.extend(step.ask.as_ref().map(|ask| format!("ask {}", self.word(ask))));
        parts.extend(step.check.as_ref().map(|check| format!("check {}", self.wrapped(step, check))));
        match &step.action {
            StepAction::Manual => {}
            StepAction::Command(command) => {
                let codes: Vec<String> = step.expect.exit.iter().map(i32::to_string).collect();
                parts.push(format!(
                    "run {} {}",
                    single_quoted(&codes.join(" ")),
                    self.wrapped(step, command)
                ));
            }
            StepAction::Edit(edit) => parts.extend(self.edit(edit)),
        }
        let mut unchecked = Vec::new();
        for (function, pattern) in
            [("output_has", &step.expect.pattern), ("output_lacks", &step.expect.not_pattern)]
        {
            match pattern {
                Some(pattern) if is_extended(pattern) => {
                    parts.push(format!("{function} {}", single_quoted(pattern)))
                }
                Some(pattern) => unchecked.push(comment(&format!("not checked here: {function} {pattern}"))),
                None => {}
            }
        }
        // A step whose `verify` fails has run, so its undo counts.
        parts.extend(self.undo(step).map(|undo| format!("undo_by {undo}")));
        if let Some(verify) = &step.verify {
            let (times, every_s) = (step.retry.times, step.retry.every_s);
            parts.push(format!("verify {times} {every_s} {}", self.wrapped(step, verify)));
        }
        let comments: String = unchecked.iter().map(|line| format!("{line}\n")).collect();
        if parts.is_empty() {
            parts.push(":".to_owned());
        }
        let body = format!("{{ {}; }} || failed", parts.join(" &&\n  "));
        match &step.unless {
            Some(unless) => {
                format!("{begin}\n{comments}if needed {}; then\n{body}\nfi", self.wrapped(step, unless))
            }
            None => format!("{begin}\n{comments}{body}"),
        }
    }

    /// Returns a word of the script for text that is shown in one line.
    fn shown(&self, template: &str) -> String {
        let parts = template_parts(template).map(|part| match part {
            TemplatePart::Text(text) => single_quoted(&neutralize_line(text)),
            TemplatePart::Name(name) => format!("\"${{{}}}\"", self.name(name)),
        });
        parts.collect()
    }

    /// Returns the word for the command that undoes a step. For replaced text, it is a remark.
    fn undo(&self, step: &RunbookStep) -> Option<String> {
        if let Some(undo) = &step.undo {
            return Some(self.wrapped(step, undo));
        }
        let StepAction::Edit(edit) = &step.action else { return None };
        match &edit.content {
            EditContent::Replace { old, new } => {
                let (file, old, new) = (self.shown(&edit.file), self.shown(old), self.shown(new));
                Some(format!("'# in '{file}', replace \"'{new}'\" with \"'{old}'\"'"))
            }
            EditContent::Whole(_) if edit.sha256.as_deref() == Some(ABSENT) => {
                Some(single_quoted(&format!("rm -- {}", self.word(&edit.file))))
            }
            EditContent::Whole(_) => None,
        }
    }

    fn edit(&self, edit: &FileEdit) -> Vec<String> {
        let file = self.word(&edit.file);
        let mut parts = Vec::new();
        if let Some(hash) = &edit.sha256 {
            parts.push(format!("file_is {hash} {file}"));
        }
        parts.push(match &edit.content {
            EditContent::Whole(content) => format!("printf %s {} >{file}", self.word(content)),
            EditContent::Replace { old, new } => {
                format!("replace {file} {} {}", self.word(old), self.word(new))
            }
        });
        parts
    }
}

/// Returns a shell variable per value: its name in capitals, unless that has a meaning or occurs in a step.
fn variable_names(routine: &Routine) -> BTreeMap<String, String> {
    let texts: String = routine
        .steps
        .iter()
        .flat_map(|step| step.templates())
        .map(|(_, text, _)| format!("{text}\n"))
        .collect();
    let mut names = BTreeMap::new();
    for name in routine.vars.keys() {
        let mut shell_name: String = name.to_uppercase().replace('-', "_");
        while RESERVED.contains(&shell_name.as_str())
            || texts.contains(&format!("${shell_name}"))
            || texts.contains(&format!("${{{shell_name}"))
            || texts.contains(&format!("{shell_name}="))
            || names.values().any(|known| *known == shell_name)
        {
            shell_name.push('_');
        }
        names.insert(name.clone(), shell_name);
    }
    names
}

/// Returns true if `grep -E` interprets a regular expression in the same way as the `regex` crate.
fn is_extended(pattern: &str) -> bool {
    let has_escape = pattern.contains('\\') && {
        let escapes = pattern.split('\\').skip(1);
        escapes
            .map(|rest| rest.chars().next())
            .any(|c| c.is_none_or(|c| c.is_ascii_alphanumeric() || c == '-'))
    };
    !has_escape
        && !pattern.contains("(?")
        && !pattern.contains("*?")
        && !pattern.contains("+?")
        && pattern.is_ascii()
}

fn comment(text: &str) -> String {
    format!("# {}", neutralize_line(text))
}
