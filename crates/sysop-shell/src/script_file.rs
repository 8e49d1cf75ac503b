//! Assesses script files that a command runs. A script changed in this session is analyzed like the command.

use super::dialect;
use super::lexer::Word;
use super::program_call::{ProgramCall, ScriptOrigin, Stdin};
use super::state::{Span, State};
use super::targets;
use crate::context::{Dialect, ResolvedFile};
use crate::risk::RiskClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The script is run by a named shell, which determines the dialect (`sh x`, `. x`).
    Shell,
    /// The script is run by the program in its own first line (`./x`).
    FirstLine,
}

/// Assesses a script that the command runs. Returns true if the script contains a construct that explains its risk.
pub(super) fn run(state: &mut State, call: &ProgramCall<'_>, file: &Word, start: Start) -> bool {
    let span = call.span_of(file);
    for found in targets::script_files(state, file).unwrap_or_default() {
        if found.changed_in_session {
            changed(state, span, &found, start);
        }
    }
    state.attribute_to_script(span)
}

fn changed(state: &mut State, span: Span, found: &ResolvedFile, start: Start) {
    let Some(text) = found.script.as_deref() else {
        return state.note(span, RiskClass::Opaque, "runs a file changed in this session");
    };
    let dialect = match (start, first_line(text)) {
        (Start::Shell, _) => state.dialect,
        (Start::FirstLine, Some(shell)) => dialect::of_program(shell),
        (Start::FirstLine, None) => Dialect::Sh,
    };
    if !dialect.is_analyzed() {
        return state.note(span, RiskClass::Opaque, "runs a program changed in this session");
    }
    let text = if text.starts_with("#!") { text.split_once('\n').map_or("", |(_, rest)| rest) } else { text };
    let outer = std::mem::replace(&mut state.dialect, dialect);
    let folders = state.folders.clone();
    let run = |state: &mut State| state.run_script(text, ScriptOrigin::Embedded(span), &Stdin::Unknown);
    state.with_depth(span, |state| match start {
        Start::Shell => run(state),
        Start::FirstLine => state.in_own_shell(run),
    });
    state.dialect = outer;
    state.folders = folders;
}

/// Returns the program in a first line such as `#!/bin/sh` or `#!/usr/bin/env bash`, or `unknown` if the line names no
/// program or passes an argument that is not a known option. Returns `None` if the text does not begin with `#!`.
fn first_line(text: &str) -> Option<&str> {
    let line = text.strip_prefix("#!")?.lines().next().unwrap_or("");
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let name = match words.next() {
        Some("env") => words.next(),
        first => first,
    };
    match (name, words.next()) {
        (Some(name), None | Some("-e" | "-u" | "-eu" | "-x" | "-ex")) => Some(name),
        (Some(_) | None, _) => Some("unknown"),
    }
}
