//! What destroys, or locks out, or hands control to something unread: rules by program. A deny-list, and so only
//! for warnings; what may run unasked is decided by the allow-list in [`super::read_only`].

mod files;
mod git;
mod services;
mod system;
mod tools;

use super::lexer::{UNKNOWN, Word};
use super::path;
use super::program_call::ProgramCall;
use super::state::{Span, State};
use crate::risk::RiskClass;

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

/// Judges a path that is written to.
pub(super) fn write_target(state: &mut State, target: &str, span: Span) {
    if path::is_network(target) {
        state.note(span, RiskClass::Opaque, "opens a network connection");
        return;
    }
    let resolved = path::resolve(state.folder.as_deref(), target);
    if path::is_block_device(&resolved) {
        state.note(span, RiskClass::Dangerous, "writes to a block device");
    } else if let Some(what) = path::protected(&resolved) {
        state.note(span, RiskClass::Dangerous, &format!("changes {what}"));
    } else if resolved.starts_with(UNKNOWN) {
        state.note(span, RiskClass::Opaque, "writes to a place that is not written out");
    } else if !resolved.starts_with("/dev/") || path::is_shared_memory(&resolved) {
        state.note(span, RiskClass::Changes, "writes to a file");
    }
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
