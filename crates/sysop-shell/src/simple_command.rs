//! One simple command: assignments, redirections, and the program with its arguments.

use super::folders::Folders;
use super::lexer::{Redirect, RedirectOperator, UNKNOWN, Word};
use super::operands;
use super::options;
use super::path;
use super::program_call::{ProgramCall, Script, Stdin};
use super::script_file::{self, Start};
use super::state::{RUN_TIME_WORD, State};
use super::write_effect::WriteEffect;
use super::{builtin, dialect, interpreter, programs, targets, wrapper};
use crate::context::{Access, Dialect};
use crate::risk::RiskClass;

/// Builtins that change the shell's directory, or that run other commands that may change it.
const MOVES_SHELL: &[&str] = &["cd", "pushd", "popd", "chdir", "eval", "source", ".", "command", "builtin"];

#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(Redirect, Word)>,
    /// Text of the here-document, if there is one and the shell does not expand it.
    pub(super) document: Option<Stdin>,
}

impl SimpleCommand {
    /// Assesses assignments, redirections and the program.
    pub(super) fn judge(&self, state: &mut State, script: &Script<'_>, input: &Stdin) {
        let assignments = self.words.iter().take_while(|word| word.value_at.is_some()).count();
        let takes_any_text = assignments == 0
            && (programs::takes_any_text(&self.words) || builtin::is_plain_jump(&self.words));
        for word in &self.words {
            note_expansions(state, script, word);
            if is_open(word) && !takes_any_text {
                note_open(state, script, word);
            }
        }
        for word in self.words.iter().take(assignments) {
            builtin::assignment(state, script, word);
            let value = word.text().split_once('=').map_or("", |(_, value)| value);
            let value = Word { shape: value.to_owned(), ..word.clone() };
            if targets::names_secret(state, &value, false) {
                state.secret_name.get_or_insert(script.span(word.start, word.end));
            }
        }
        let mut stdin = self.document.clone().unwrap_or_else(|| input.clone());
        for (redirect, target) in &self.redirects {
            note_expansions(state, script, target);
            if is_open(target) {
                note_open(state, script, target);
            }
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

/// Returns true if a word contains an expansion whose value is unknown or that may become several words.
fn is_open(word: &Word) -> bool {
    word.splits || word.expands && word.text().contains(UNKNOWN)
}

/// Notes a word whose value is unknown. A substitution has a reason of its own.
fn note_open(state: &mut State, script: &Script<'_>, word: &Word) {
    let source = script.source.get(word.start..word.end).unwrap_or("");
    if ["$(", "`", "<(", ">("].iter().any(|opening| source.contains(opening)) {
        state.raise(RiskClass::Changes);
    } else {
        state.note(script.span(word.start, word.end), RiskClass::Changes, RUN_TIME_WORD);
    }
}

/// Assesses a word by the braces, escapes and history references that it contains.
fn note_expansions(state: &mut State, script: &Script<'_>, word: &Word) {
    let span = script.span(word.start, word.end);
    if word.brace || word.ansi {
        let why = if word.brace { "braces that become several words" } else { "text with escapes" };
        state.note(span, RiskClass::Changes, why);
    }
    if word.odd {
        state.note(span, RiskClass::Opaque, "hides control characters in an escape sequence");
    }
    if word.history {
        state.note(span, RiskClass::Opaque, "an interactive shell would insert text from its history here");
    }
    if word.brace && builds_option(word.text()) {
        state.note(span, RiskClass::Opaque, "brace expansion");
    }
}

/// Returns true if braces may turn a word into an option. Only a single pair of braces is understood. A word that
/// begins with anything more complex is assumed to become an option.
fn builds_option(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner)
    else {
        return text.starts_with(['{', '-']);
    };
    let plain = |piece: &str| piece.starts_with(|c: char| c.is_ascii_alphanumeric() || "_./".contains(c));
    !text.matches('{').count().eq(&1) || !inner.split(',').all(plain)
}

/// Assesses one redirection. Returns the new standard input, if the redirection changes it.
fn redirected(state: &mut State, script: &Script<'_>, redirect: &Redirect, target: &Word) -> Option<Stdin> {
    let span = script.span(redirect.start, target.end);
    match redirect.operator {
        RedirectOperator::Read => {
            if path::is_network(target.text()) {
                state.note(span, RiskClass::Opaque, "opens a network connection");
            } else {
                targets::use_path(state, span, target, Access::Read);
                if target.literal().is_none() || target.ansi {
                    state.note(span, RiskClass::Changes, "reads a file that is known only at run time");
                }
            }
            Some(Stdin::Unknown)
        }
        RedirectOperator::Duplicate if is_descriptor(target) => None,
        RedirectOperator::Write | RedirectOperator::ReadWrite | RedirectOperator::Duplicate => {
            targets::use_path(state, span, target, Access::Write);
            None
        }
        RedirectOperator::Document { .. } => {
            state.note(span, RiskClass::Changes, "uses a here-document");
            None
        }
        RedirectOperator::Text => {
            state.note(span, RiskClass::Changes, "uses a here-string");
            if targets::names_secret(state, target, false) {
                state.secret_name.get_or_insert(span);
            }
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
    /// Assesses the program and everything that it runs. Only a builtin that runs in the shell itself is certain to
    /// change the shell's directory; after any other program, the previous directories remain possible.
    pub(super) fn judge(&self, state: &mut State) {
        let before = state.folders.clone();
        self.judge_each(state);
        let name = self.words.first().and_then(Word::literal).unwrap_or("");
        if !MOVES_SHELL.contains(&name) {
            state.folders = before.or(&state.folders);
        }
    }

    fn judge_each(&self, state: &mut State) {
        let Some(program) = self.words.first() else { return };
        if !state.count_command(self.span, self.words) {
            return;
        }
        let span = self.span_of(program);
        let Some(text) = program.literal() else {
            state.note(span, RiskClass::Opaque, "the program is not known before the command runs");
            return;
        };
        if let Some(why) = dialect::evaluates(state.dialect, self.words) {
            state.note(self.span, RiskClass::Opaque, why);
        }
        let raw = self.script.source.get(program.start..program.end).unwrap_or(text);
        if raw == text && builtin::RESERVED.contains(&text) {
            state.note_unread(span, "cannot be parsed");
            return;
        }
        if is_disguised(raw, text) {
            state.note(span, RiskClass::Opaque, "quoting hides the program name");
        }
        if text.contains(['=', '^', '$', '`', '\n']) || text.is_empty() {
            state.note(span, RiskClass::Opaque, "the program name is not a plain word");
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
            if dialect::of_program(&name) == Dialect::Unknown {
                operands::check(state, self, &name);
            }
            if self.argument_source.is_some() {
                state.note(self.span, RiskClass::Opaque, "runs with arguments that are computed at run time");
            }
            return;
        }
        self.judge_program(state, &name, raw == text);
        if text.contains('/') && !is_system_program(self.words, &name) {
            script_file::run(state, self, program, Start::FirstLine);
        }
        if state.dialect == Dialect::Zsh && (text.contains('/') || text == "..") {
            state.folders = Folders::default(); // zsh changes to a directory whose bare name is typed
        }
    }

    /// Returns true if this is a plain call of the system's program with this name.
    pub(super) fn is_usual_program(&self, name: &str) -> bool {
        let Some(word) = self.words.first() else { return false };
        let raw = self.script.source.get(word.start..word.end);
        raw.is_some() && raw == word.literal() && is_system_program(self.words, name)
    }

    fn judge_program(&self, state: &mut State, name: &str, plain: bool) {
        let trusted = plain && is_system_program(self.words, name);
        let before = std::mem::replace(&mut state.write_effect, WriteEffect::of(name));
        let found = state.class_of(|state| {
            programs::judge(state, self, name, trusted);
            operands::check(state, self, name);
        });
        state.write_effect = before;
        if matches!(name, "cd" | "pushd" | "popd" | "chdir") {
            if found != RiskClass::ReadOnly || self.argument_source.is_some() {
                state.raise(RiskClass::Changes);
            }
            self.change_directory(state);
        }
    }

    fn change_directory(&self, state: &mut State) {
        let arguments = self.arguments();
        let mut operands = options::operands_of(arguments);
        let known = |folder: &String| !folder.contains(UNKNOWN);
        state.folders = match (operands.next(), operands.next()) {
            (None, _)
                if arguments.is_empty() && self.words.first().is_some_and(|word| word.text() == "cd") =>
            {
                Folders::of(Some(targets::place_in(state, None, "~")))
            }
            (Some(target), None)
                if !(target.glob
                    || target.brace
                    || target.text() == "-"
                    || target.text().starts_with('+')) =>
            {
                let go = |folder: Option<&str>| {
                    Some(targets::place_in(state, folder, target.text())).filter(known)
                };
                state.folders.go(go)
            }
            (Some(_) | None, _) => Folders::default(),
        };
    }
}

/// Returns true if quotes disguise a program's name. Quotes around the whole name or one leading backslash do not.
fn is_disguised(raw: &str, text: &str) -> bool {
    let whole = |quote: char| raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) == Some(text);
    raw != text && !whole('\'') && !whole('"') && raw.strip_prefix('\\') != Some(text)
}

/// Returns true if the program is given by a bare name or by a path in the system's program directories.
fn is_system_program(words: &[Word], name: &str) -> bool {
    let text = words.first().map_or("", Word::text);
    match text.rsplit_once('/') {
        None => text == name,
        Some((folder, base)) => base == name && matches!(folder, "/bin" | "/usr/bin" | "/sbin" | "/usr/sbin"),
    }
}
