//! Words on the command line that clap does not know: mistyped commands, and `--resume` with its id.

use std::ffi::OsString;

use clap::CommandFactory as _;

use crate::config::nearest_word;

pub(super) const COMMANDS: &[&str] = &[
    "chat", "exec", "run", "runbook", "serve", "connect", "attach", "approve", "desktop", "sessions",
    "token", "guard", "undo", "audit", "model", "models", "init", "mock-llm", "doctor", "policy", "skills",
    "mcp", "config", "trust", "acp", "shell-init", "completions", "man", "help",
];

/// Words that users of other programs try as a command, with the command that does it here.
const GUESSED_COMMANDS: [(&str, &str); 10] = [
    ("configure", "sysop init"),
    ("list", "sysop sessions list"),
    ("login", "sysop init"),
    ("resume", "sysop --continue"),
    ("server", "sysop serve"),
    ("session", "sysop sessions list"),
    ("setup", "sysop init"),
    ("status", "sysop doctor"),
    ("tui", "sysop"),
    ("version", "sysop --version"),
];

/// Minimum number of characters of a start of an id that may follow `--resume` as a word of its own.
const ID_PREFIX_CHARS_MIN: usize = 4;

/// Words with which other programs upgrade themselves.
const UPGRADE_WORDS: [&str; 2] = ["update", "upgrade"];

/// Returns the error for a task that is probably a mistyped command, or `None` for any other task. These are treated as
/// mistyped commands: a single word, a word followed by a subcommand, and, if the command takes arguments, a word
/// followed by a quoted argument, and two words of which the first has the letters of the command in another order.
///
/// Many words of three characters are similar to a command. One counts only if it stands alone and if a character is
/// missing, or if the characters are in another order.
pub(super) fn mistyped_command(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let is_quoted = |word: &String| word.contains(char::is_whitespace);
    if is_quoted(first) || first.len() < 3 {
        return None;
    }
    let tip = |what: String| {
        Some(format!(
            "unrecognized command `{first}`\n\n  tip: {what}\n  tip: to pass it as a task, use `sysop -- TASK`"
        ))
    };
    let guessed = GUESSED_COMMANDS.iter().find(|(word, _)| word == first).filter(|_| rest.is_empty());
    if let Some((_, command)) = guessed {
        return tip(format!("use `{command}`"));
    }
    if UPGRADE_WORDS.contains(&first.as_str()) && rest.is_empty() {
        return tip("sysop is upgraded as it was installed: see the page \"Install\" of the guide".to_owned());
    }
    let is_short = first.len() == 3;
    let is_typo = |meant: &&str| !is_short || meant.len() == 4 || same_letters(first, meant);
    let meant = nearest_word(first, COMMANDS.iter().copied()).filter(is_typo)?;
    let is_command = match rest {
        [] => true,
        _ if is_short => false,
        [second, ..] if subcommands(meant).contains(second) => true,
        _ if !takes_words(meant) => false,
        _ if rest.iter().any(is_quoted) => true,
        [_] => same_letters(first, meant),
        [_, ..] => false,
    };
    if is_command { tip(format!("a similar command exists: `{meant}`")) } else { None }
}

pub(super) fn subcommands(command: &str) -> Vec<String> {
    let cli = super::Arguments::command();
    let found = cli.find_subcommand(command);
    found.map(|it| it.get_subcommands().map(|sub| sub.get_name().to_owned()).collect()).unwrap_or_default()
}

/// Returns true if arguments that are no flags can follow the command's name.
fn takes_words(command: &str) -> bool {
    let cli = super::Arguments::command();
    cli.find_subcommand(command).is_some_and(|found| found.get_positionals().next().is_some())
}

fn same_letters(one: &str, other: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(one) == sorted(other)
}

/// Returns the command line with the options behind the command moved before it, or `None` if all words behind it
/// belong to it. `words` are the arguments from the command on, which end the command line.
///
/// The options of `sysop policy check` may follow the command. Behind a quoted command line, one with a blank, every
/// option is ours. Behind a single word, only the long options of `sysop policy check` are, and only if no other word
/// follows: all else are arguments of the program.
pub(super) fn policy_options_first(arguments: &[OsString], words: &[String]) -> Option<Vec<OsString>> {
    let (command, rest) = words.split_first()?;
    let is_line = command.contains(char::is_whitespace);
    let is_ours = if is_line { rest.first()?.starts_with('-') } else { are_check_options(rest) };
    if !is_ours || rest.is_empty() || arguments.iter().any(|argument| argument == "--") {
        return None;
    }
    let before = &arguments[..arguments.len().checked_sub(words.len())?];
    let options = rest.iter().map(OsString::from);
    let ends = [OsString::from("--"), OsString::from(command)];
    Some(before.iter().cloned().chain(options).chain(ends).collect())
}

/// Returns true if the words are long options of `sysop policy check`, with their values.
fn are_check_options(words: &[String]) -> bool {
    let cli = super::Arguments::command();
    let check = cli.find_subcommand("policy").and_then(|policy| policy.find_subcommand("check"));
    let own = check.into_iter().flat_map(clap::Command::get_arguments);
    let host = cli.get_arguments().filter(|flag| flag.get_id() == "host");
    let flags: Vec<_> =
        own.chain(host).filter_map(|flag| Some((flag.get_long()?, flag.get_action()))).collect();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let Some((_, action)) = flags.iter().find(|(long, _)| name.strip_prefix("--") == Some(long)) else {
            return false;
        };
        if action.takes_values() && value.is_none() && words.next().is_none() {
            return false;
        }
    }
    true
}

/// Joins `--resume ID` into `--resume=ID`, so that a command or task after a bare `--resume` is not parsed as
/// an id. The next argument counts as an id if it consists of hexadecimal digits and `-`, begins with `0`, and has at
/// least [`ID_PREFIX_CHARS_MIN`] characters: ids are UUIDs of version 7, which begin with the time in milliseconds, and
/// tasks begin with words such as `add`, `db1`, `3` or `8080`.
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
                word.starts_with('0')
                    && word.len() >= ID_PREFIX_CHARS_MIN
                    && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
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
