//! One simple command: its assignments, its redirections, and the program with its arguments.

use super::lexer::{Redirect, RedirectOperator, Word};
use super::options;
use super::path;
use super::program_call::{ArgumentSource, ProgramCall, Script, Stdin};
use super::state::State;
use super::{builtin, danger, interpreter, read_only, wrapper};
use crate::risk::RiskClass;

/// A simple command as it stands in the script.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(Redirect, Word)>,
    /// Text of a here-document, where it has one that is not expanded.
    pub(super) document: Option<Stdin>,
}

impl SimpleCommand {
    /// Judges assignments, redirections and the command.
    pub(super) fn judge(&self, state: &mut State, script: &Script<'_>, input: &Stdin) {
        for word in &self.words {
            note_expansions(state, script, word);
        }
        let assignments = self.words.iter().take_while(|word| word.value_at.is_some()).count();
        for word in self.words.iter().take(assignments) {
            builtin::assignment(state, script, word);
        }
        let mut stdin = self.document.clone().unwrap_or_else(|| input.clone());
        for (redirect, target) in &self.redirects {
            note_expansions(state, script, target);
            if let Some(input) = redirected(state, script, redirect, target) {
                stdin = input;
            }
        }
        let words = self.words.get(assignments..).unwrap_or(&[]);
        if let (Some(first), Some(last)) = (words.first(), words.last()) {
            let call = ProgramCall {
                script,
                words,
                span: script.span(first.start, last.end),
                input: &stdin,
                argument_source: None,
            };
            state.with_depth(call.span, |state| call.judge(state));
        }
    }
}

/// What a word shows by its form alone.
fn note_expansions(state: &mut State, script: &Script<'_>, word: &Word) {
    let span = script.span(word.start, word.end);
    if word.expands || word.brace || word.ansi {
        state.raise(RiskClass::Changes);
    }
    if word.odd {
        state.note(span, RiskClass::Opaque, "hides control characters in an escape");
    }
    if word.history {
        state.note(span, RiskClass::Opaque, "an interactive shell puts an older command here");
    }
    if word.brace && word.text().starts_with(['{', '-']) {
        state.note(span, RiskClass::Opaque, "braces that build words");
    }
}

/// Judges one redirection; tells what standard input becomes.
fn redirected(state: &mut State, script: &Script<'_>, redirect: &Redirect, target: &Word) -> Option<Stdin> {
    let span = script.span(redirect.start, target.end);
    match redirect.operator {
        RedirectOperator::Read => {
            if path::is_network(target.text()) {
                state.note(span, RiskClass::Opaque, "opens a network connection");
            } else if target.literal().is_none() || target.ansi {
                state.raise(RiskClass::Changes);
            }
            Some(Stdin::Unknown)
        }
        RedirectOperator::Duplicate if is_descriptor(target) => None,
        RedirectOperator::Write | RedirectOperator::ReadWrite | RedirectOperator::Duplicate => {
            danger::write_target(state, target.text(), span);
            None
        }
        RedirectOperator::Document { .. } => {
            state.raise(RiskClass::Changes);
            None
        }
        RedirectOperator::Text => {
            state.raise(RiskClass::Changes);
            let text = target.literal().map(str::to_owned);
            Some(text.map_or(Stdin::Unknown, |text| Stdin::Text { text, span }))
        }
    }
}

fn is_descriptor(word: &Word) -> bool {
    let text = word.literal().unwrap_or("");
    let number = text.strip_suffix('-').unwrap_or(text);
    !text.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

impl ProgramCall<'_> {
    /// Judges the program and all that it runs.
    pub(super) fn judge(&self, state: &mut State) {
        let Some(program) = self.words.first() else { return };
        if !state.count_command(self.span, self.words) {
            return;
        }
        let span = self.span_of(program);
        let Some(text) = program.literal() else {
            state.note(span, RiskClass::Opaque, "the program is not written out");
            return;
        };
        let raw = self.script.source.get(program.start..program.end).unwrap_or(text);
        if raw == text && builtin::RESERVED.contains(&text) {
            state.note(span, RiskClass::Dangerous, "cannot be parsed");
            return;
        }
        if is_disguised(raw, text) {
            state.note(span, RiskClass::Opaque, "the program's name is disguised by quoting");
        }
        if text.contains(['=', '^', '$', '`', '\n']) || text.is_empty() {
            state.note(span, RiskClass::Opaque, "the program's name is no plain word");
            if let Some(rest @ [_, ..]) = self.words.get(1..) {
                state.with_depth(span, |state| self.with(rest, self.argument_source).judge(state));
            }
            return;
        }
        let name = text.rsplit('/').next().unwrap_or(text).to_lowercase();
        if wrapper::judge(state, self, &name) {
            return;
        }
        if interpreter::judge(state, self, &name) || builtin::judge(state, self, &name) {
            if self.argument_source.is_some() {
                state.note(self.span, RiskClass::Opaque, "runs with arguments that are not written here");
            }
            return;
        }
        self.judge_program(state, &name, raw == text);
    }

    fn judge_program(&self, state: &mut State, name: &str, plain: bool) {
        let found = state.class_of(|state| danger::check(state, self, name));
        self.judge_argument_source(state, name);
        let moved = state.folder.as_deref() != Some("");
        let reads_only = plain && found == RiskClass::ReadOnly && is_system_program(self.words, name);
        let reads_only = reads_only && read_only::is_read_only(name, self.words, moved);
        if reads_only && self.argument_source.is_none() {
            if name == "cd" {
                self.change_directory(state);
            }
        } else if matches!(name, "cd" | "pushd" | "popd" | "chdir") {
            state.raise(RiskClass::Changes);
            self.change_directory(state);
        } else if found <= RiskClass::Changes {
            state.note(self.span, RiskClass::Changes, "not known to be read-only");
        }
    }

    /// Arguments that come from elsewhere may be options, or name anything.
    fn judge_argument_source(&self, state: &mut State, name: &str) {
        const HARMLESS: &[&str] = &[
            "cat",
            "ls",
            "wc",
            "head",
            "tail",
            "stat",
            "file",
            "du",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "grep",
            "egrep",
            "fgrep",
            "basename",
            "dirname",
            "realpath",
            "readlink",
            "echo",
        ];
        let Some(argument_source) = self.argument_source else { return };
        let reads_only = read_only::is_read_only(name, self.words, false);
        let harmless = match argument_source {
            ArgumentSource::Stdin => reads_only && HARMLESS.contains(&name),
            ArgumentSource::FoundFiles => reads_only,
        };
        if !harmless {
            state.note(self.span, RiskClass::Opaque, "runs with arguments that are not written here");
        }
    }

    fn change_directory(&self, state: &mut State) {
        let arguments = self.arguments();
        state.folder = match options::operands_of(arguments).next() {
            None => (arguments.is_empty() && self.words.first().is_some_and(|word| word.text() == "cd"))
                .then(|| "~".to_owned()),
            Some(target) if target.glob || target.text() == "-" || target.text().starts_with('+') => None,
            Some(target) => Some(path::resolve(state.folder.as_deref(), target.text()))
                .filter(|folder| !folder.starts_with(super::lexer::UNKNOWN)),
        };
    }
}

/// A name in quotes as a whole, or with one backslash before it, is not hidden.
fn is_disguised(raw: &str, text: &str) -> bool {
    let whole = |quote: char| raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) == Some(text);
    raw != text && !whole('\'') && !whole('"') && raw.strip_prefix('\\') != Some(text)
}

/// A bare name, or one in the folders where the system keeps its programs.
fn is_system_program(words: &[Word], name: &str) -> bool {
    let text = words.first().map_or("", Word::text);
    match text.rsplit_once('/') {
        None => text == name,
        Some((folder, base)) => base == name && matches!(folder, "/bin" | "/usr/bin" | "/sbin" | "/usr/sbin"),
    }
}
