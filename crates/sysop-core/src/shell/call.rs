//! One simple command: its assignments, its redirections, and the program with its arguments.

use super::lexer::{Redirect, RedirectOperator, Word};
use super::options;
use super::path;
use super::script::{self, Place, Script};
use super::state::{Span, State};
use super::{builtin, danger, interpreter, read_only, wrapper};
use crate::policy::Class;

/// What a command finds on its standard input, as far as can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Whatever the whole command has.
    Inherited,
    /// A pipe or a file.
    Unseen,
    /// Text that stands in the command.
    Text { text: String, span: Span },
}

/// Where arguments come from that are not written in the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// Words read from input (`xargs`).
    Input,
    /// Files found (`find -exec`).
    Found,
}

/// A program and its arguments.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) script: &'a Script<'a>,
    pub(super) words: &'a [Word],
    pub(super) span: Span,
    pub(super) input: &'a Input,
    pub(super) feed: Option<Feed>,
}

/// A simple command as it stands in the script.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(Redirect, Word)>,
    /// Text of a here-document, where it has one that is not expanded.
    pub(super) document: Option<Input>,
}

impl Simple {
    /// Judges assignments, redirections and the command.
    pub(super) fn judge(&self, state: &mut State, script: &Script<'_>, input: &Input) {
        for word in &self.words {
            remark(state, script, word);
        }
        let assignments = self.words.iter().take_while(|word| word.value_at.is_some()).count();
        for word in self.words.iter().take(assignments) {
            builtin::assignment(state, script, word);
        }
        let mut fed = self.document.clone().unwrap_or_else(|| input.clone());
        for (redirect, target) in &self.redirects {
            remark(state, script, target);
            if let Some(input) = redirected(state, script, redirect, target) {
                fed = input;
            }
        }
        let words = self.words.get(assignments..).unwrap_or(&[]);
        if let (Some(first), Some(last)) = (words.first(), words.last()) {
            let call =
                Call { script, words, span: script.span(first.start, last.end), input: &fed, feed: None };
            state.deeper(call.span, |state| call.judge(state));
        }
    }
}

/// What a word shows by its form alone.
fn remark(state: &mut State, script: &Script<'_>, word: &Word) {
    let span = script.span(word.start, word.end);
    if word.expands || word.brace || word.ansi {
        state.raise(Class::Changes);
    }
    if word.odd {
        state.note(span, Class::Opaque, "hides control characters in an escape");
    }
    if word.history {
        state.note(span, Class::Opaque, "an interactive shell puts an older command here");
    }
    if word.brace && word.text().starts_with(['{', '-']) {
        state.note(span, Class::Opaque, "braces that build words");
    }
}

/// Judges one redirection; tells what standard input becomes.
fn redirected(state: &mut State, script: &Script<'_>, redirect: &Redirect, target: &Word) -> Option<Input> {
    let span = script.span(redirect.start, target.end);
    match redirect.operator {
        RedirectOperator::Read => {
            if is_network(target.text()) {
                state.note(span, Class::Opaque, "opens a network connection");
            } else if target.literal().is_none() || target.ansi {
                state.raise(Class::Changes);
            }
            Some(Input::Unseen)
        }
        RedirectOperator::Duplicate if is_descriptor(target) => None,
        RedirectOperator::Write | RedirectOperator::ReadWrite | RedirectOperator::Duplicate => {
            write_target(state, target.text(), span);
            None
        }
        RedirectOperator::Document { .. } => {
            state.raise(Class::Changes);
            None
        }
        RedirectOperator::Text => {
            state.raise(Class::Changes);
            let text = target.literal().map(str::to_owned);
            Some(text.map_or(Input::Unseen, |text| Input::Text { text, span }))
        }
    }
}

fn is_descriptor(word: &Word) -> bool {
    let text = word.literal().unwrap_or("");
    let number = text.strip_suffix('-').unwrap_or(text);
    !text.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn is_network(target: &str) -> bool {
    target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")
}

/// Judges a path that is written to.
pub(super) fn write_target(state: &mut State, target: &str, span: Span) {
    if is_network(target) {
        state.note(span, Class::Opaque, "opens a network connection");
        return;
    }
    let resolved = path::resolve(state.folder.as_deref(), target);
    if path::is_block_device(&resolved) {
        state.note(span, Class::Dangerous, "writes to a block device");
    } else if let Some(what) = path::protected(&resolved) {
        state.note(span, Class::Dangerous, &format!("changes {what}"));
    } else if resolved.starts_with(super::lexer::UNKNOWN) {
        state.note(span, Class::Opaque, "writes to a place that is not written out");
    } else if !resolved.starts_with("/dev/") || path::is_shared_memory(&resolved) {
        state.note(span, Class::Changes, "writes to a file");
    }
}

impl<'a> Call<'a> {
    pub(super) fn arguments(&self) -> &'a [Word] {
        self.words.get(1..).unwrap_or(&[])
    }

    pub(super) fn span_of(&self, word: &Word) -> Span {
        self.script.span(word.start, word.end)
    }

    pub(super) fn span_of_program(&self) -> Span {
        self.words.first().map_or(self.span, |word| self.span_of(word))
    }

    /// The same command line, for the program that this one starts.
    pub(super) fn with(&self, words: &'a [Word], feed: Option<Feed>) -> Call<'a> {
        let span = match (words.first(), words.last()) {
            (Some(first), Some(last)) => self.script.span(first.start, last.end),
            (None, _) | (_, None) => self.span,
        };
        Call { script: self.script, words, span, input: self.input, feed }
    }

    /// Analyses words, joined by spaces, as a script of their own.
    pub(super) fn run_joined(&self, state: &mut State, words: &[Word], input: Input) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let span = self.script.span(first.start, last.end);
        if words.iter().any(|word| word.expands || word.brace) {
            state.note(span, Class::Opaque, "a command that is not written out");
            return;
        }
        let text: Vec<&str> = words.iter().map(Word::text).collect();
        self.run_text(state, &text.join(" "), span, input);
    }

    /// Analyses text as a script of its own.
    pub(super) fn run_text(&self, state: &mut State, text: &str, span: Span, input: Input) {
        state.deeper(span, |state| script::run(state, text, Place::Within(span), &input));
    }

    /// Judges the program and all that it runs.
    pub(super) fn judge(&self, state: &mut State) {
        let Some(program) = self.words.first() else { return };
        if !state.step(self.span, self.words) {
            return;
        }
        let span = self.span_of(program);
        let Some(text) = program.literal() else {
            state.note(span, Class::Opaque, "the program is not written out");
            return;
        };
        let raw = self.script.source.get(program.start..program.end).unwrap_or(text);
        if raw == text && builtin::RESERVED.contains(&text) {
            state.note(span, Class::Dangerous, "cannot be parsed");
            return;
        }
        if is_disguised(raw, text) {
            state.note(span, Class::Opaque, "the program's name is disguised by quoting");
        }
        if text.contains(['=', '^', '$', '`', '\n']) || text.is_empty() {
            state.note(span, Class::Opaque, "the program's name is no plain word");
            if let Some(rest @ [_, ..]) = self.words.get(1..) {
                state.deeper(span, |state| self.with(rest, self.feed).judge(state));
            }
            return;
        }
        let name = text.rsplit('/').next().unwrap_or(text).to_lowercase();
        if wrapper::judge(state, self, &name) {
            return;
        }
        if interpreter::judge(state, self, &name) || builtin::judge(state, self, &name) {
            if self.feed.is_some() {
                state.note(self.span, Class::Opaque, "runs with arguments that are not written here");
            }
            return;
        }
        self.judge_program(state, &name, raw == text);
    }

    fn judge_program(&self, state: &mut State, name: &str, plain: bool) {
        let found = state.class_of(|state| danger::check(state, self, name));
        self.judge_feed(state, name);
        let moved = state.folder.as_deref() != Some("");
        let looks = plain && found == Class::ReadOnly && is_system_program(self.words, name);
        let looks = looks && read_only::is_read_only(name, self.words, moved);
        if looks && self.feed.is_none() {
            if name == "cd" {
                self.change_folder(state);
            }
        } else if matches!(name, "cd" | "pushd" | "popd" | "chdir") {
            state.raise(Class::Changes);
            self.change_folder(state);
        } else if found <= Class::Changes {
            state.note(self.span, Class::Changes, "not known to be read-only");
        }
    }

    /// Arguments that come from elsewhere may be options, or name anything.
    fn judge_feed(&self, state: &mut State, name: &str) {
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
        let Some(feed) = self.feed else { return };
        let looks = read_only::is_read_only(name, self.words, false);
        let harmless = match feed {
            Feed::Input => looks && HARMLESS.contains(&name),
            Feed::Found => looks,
        };
        if !harmless {
            state.note(self.span, Class::Opaque, "runs with arguments that are not written here");
        }
    }

    fn change_folder(&self, state: &mut State) {
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
