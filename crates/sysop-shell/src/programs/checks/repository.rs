//! Git subcommands whose arguments the table language cannot describe.

use crate::Invocation;
use crate::lexer::Word;
use crate::options::{Reading, is_listed};
use crate::program_call::ProgramCall;
use crate::risk::RiskClass;
use crate::state::State;
use crate::targets;

/// Assesses `git checkout`, which switches branches or discards changes of files, depending on what its arguments name.
pub(super) fn checkout(
    state: &mut State,
    call: &ProgramCall<'_>,
    arguments: &[Word],
    reading: &Reading<'_, '_>,
) {
    let creates = ["b", "B", "orphan", "t", "track"].iter().any(|name| reading.has(name));
    let restores =
        arguments.iter().any(|word| matches!(word.text(), "--" | "." | "./")) || reading.operands.len() > 1;
    if restores && !creates {
        return state.note(call.span, RiskClass::Dangerous, "discards uncommitted changes");
    }
    let is_branch = |name: &str| {
        let is_version =
            name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let is_hash = (7..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_hexdigit());
        let kinds = ["feature/", "fix/", "hotfix/", "bugfix/", "release/", "origin/", "topic/", "HEAD"];
        is_listed("main master develop dev trunk staging production next -", name)
            || is_version
            || is_hash
            || kinds.iter().any(|kind| name.starts_with(kind))
    };
    // A path is relative to the directory of the repository if `-C` or another option of git itself comes first.
    let is_plain = matches!(call.arguments(), [verb, _] if verb.literal() == Some("checkout"))
        && state.invocations().iter().all(creates_no_file);
    let no_file = |state: &mut State, word: &Word| {
        is_plain && word.literal().is_some_and(is_branch_name) && targets::is_missing(state, word)
    };
    let mut switches = |word: &Word| word.literal().is_some_and(is_branch) || no_file(state, word);
    if !creates && !reading.operands.iter().all(|word| switches(word)) {
        state.note(
            call.span,
            RiskClass::Opaque,
            "discards changes if the argument is a file; use `git switch` for branches",
        );
    }
}

/// Returns true for commands that put no new content into a file. A file that is missing now may be there, with changes
/// that are not committed, after any other command.
fn creates_no_file(invocation: &Invocation) -> bool {
    let words: Vec<&str> = invocation.words.iter().map(|word| word.as_deref().unwrap_or("")).collect();
    matches!(
        words.as_slice(),
        ["cd", _] | ["git", "branch" | "checkout" | "fetch" | "init" | "log" | "status" | "switch", ..]
    )
}

/// Returns true for text that git can only take as the name of a branch or of the file with exactly this name.
fn is_branch_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && !text.ends_with('/')
        && !text.contains("..")
        && text.chars().all(is_plain)
}

/// Assesses `git reset`. With paths, it unstages changes; with a commit other than HEAD, it moves the branch.
pub(super) fn reset(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let dashes = call.arguments().iter().any(|word| word.text() == "--");
    let is_here = |word: &&Word| matches!(word.literal(), Some("HEAD" | "@"));
    let stays = match reading.operands.as_slice() {
        [] => true,
        [only] => dashes || is_here(only),
        [first, ..] => dashes || is_here(first),
    };
    if !stays && !reading.has("soft") && !reading.has("mixed") {
        state.note(call.span, RiskClass::Dangerous, "moves the branch");
    }
}

/// Git settings that make git run no program.
const PLAIN_SETTINGS: &str = "user.name user.email init.defaultbranch pull.rebase pull.ff push.default push.autosetupremote \
    fetch.prune rebase.autostash merge.conflictstyle core.autocrlf core.eol core.filemode core.ignorecase core.quotepath \
    color.ui advice.detachedhead commit.verbose diff.algorithm rerere.enabled";

/// Assesses `git config`. A name alone shows a setting, and a name with a value sets it.
pub(super) fn config(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let shows = ["get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool", "l", "list"];
    if shows.iter().any(|name| reading.has(name)) {
        return;
    }
    match reading.operands.as_slice() {
        [name] if name.literal().is_some_and(|name| name.contains('.')) => {}
        [name, value]
            if name.literal().is_some_and(|name| is_listed(PLAIN_SETTINGS, &name.to_lowercase()))
                && value.literal().is_some() =>
        {
            state.note(call.span, RiskClass::Changes, "changes configuration");
        }
        _ => {
            let why = "changes configuration that may run programs";
            state.note(call.span, RiskClass::Opaque, why);
        }
    }
}
