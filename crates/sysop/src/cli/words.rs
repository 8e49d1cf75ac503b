//! Words on the command line that clap does not know: mistyped commands, config keys as flags, and `--resume` with its
//! id.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config::{KeyPath, is_key, nearest_word};

pub(super) const COMMANDS: &[&str] = &[
    "chat", "exec", "run", "runbook", "serve", "connect", "attach", "approve", "desktop", "sessions",
    "token", "guard", "undo", "audit", "model", "models", "init", "mock-llm", "doctor", "policy", "skills",
    "mcp", "config", "acp", "shell-init", "completions", "man", "help",
];

/// Returns the error for a task that is probably a mistyped command, or `None` for any other task. Only a
/// single word, or a word followed by a quoted argument, is treated as a mistyped command.
pub(super) fn mistyped_command(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let is_quoted = |word: &String| word.contains(char::is_whitespace);
    if is_quoted(first) || !(rest.is_empty() || rest.iter().any(is_quoted)) {
        return None;
    }
    let escape = "to pass it as a task, use `sysop -- TASK`";
    if first.len() < 4 {
        return None;
    }
    let meant = nearest_word(first, COMMANDS.iter().copied())?;
    Some(format!(
        "unrecognized command `{first}`\n\n  tip: a similar command exists: `{meant}`\n  tip: {escape}"
    ))
}

/// Replaces clap's guess at an unknown flag by a tip if a config key has that name.
pub(super) fn with_config_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = flag.trim_start_matches('-').replace('-', "_");
    if error.kind() == ErrorKind::UnknownArgument && is_key(&KeyPath::from(name.as_str())) {
        let tip = format!("`{name}` is a config key: sysop config set {name} VALUE");
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Joins `--resume ID` into `--resume=ID`, so that a command or task after a bare `--resume` is not parsed as
/// an id. The next argument counts as an id if it is a single word and neither a flag nor a command.
pub(super) fn join_resume(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut joined = Vec::with_capacity(arguments.len());
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            joined.push(argument);
            joined.extend(rest);
            return joined;
        }
        let is_id = |next: &OsString| {
            next.to_str().is_some_and(|word| {
                !word.is_empty()
                    && !word.starts_with('-')
                    && !word.contains(char::is_whitespace)
                    && !COMMANDS.contains(&word)
            })
        };
        match rest.peek() {
            Some(next) if argument == "--resume" && is_id(next) => {
                let mut both = OsString::from("--resume=");
                both.push(rest.next().unwrap_or_default());
                joined.push(both);
            }
            Some(_) | None => joined.push(argument),
        }
    }
    joined
}
