//! What destroys, or locks out, or hands control to something unread: rules by program. A deny-list, and so only
//! for warnings; what may run unasked is decided by the allow-list in [`super::read_only`].

mod files;
mod git;
mod services;
mod system;
mod tools;

use super::lexer::Word;
use super::path;
use super::simple_command::{ProgramCall, write_target};
use super::state::{Span, State};
use crate::policy::RiskClass;

/// Notes what is dangerous or opaque about a call of a program.
pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    files::check(state, call, name);
    system::check(state, call, name);
    services::check(state, call, name);
    tools::check(state, call, name);
    if name == "git" {
        git::check(state, call);
    }
}

/// Judges a file that a program is told to write.
pub(super) fn writes_to(state: &mut State, _call: &ProgramCall<'_>, target: &str, span: Span) {
    write_target(state, target, span);
}

/// A word as a path, relative to where the shell is.
fn resolved(state: &State, word: &Word) -> String {
    path::resolve(state.folder.as_deref(), word.text())
}

/// Notes that a call is dangerous.
fn danger(state: &mut State, call: &ProgramCall<'_>, why: &str) {
    state.note(call.span, RiskClass::Dangerous, why);
}

/// Notes that it cannot be read off a call what it does.
fn opaque(state: &mut State, call: &ProgramCall<'_>, why: &str) {
    state.note(call.span, RiskClass::Opaque, why);
}

/// Whether any word is exactly one of these.
fn any_word(words: &[Word], texts: &[&str]) -> bool {
    words.iter().any(|word| texts.contains(&word.text()))
}

/// The nth word that is no option.
fn nth(words: &[Word], index: usize) -> &str {
    super::options::operands_of(words).nth(index).map_or("", Word::text)
}
