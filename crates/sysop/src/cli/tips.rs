//! Tips in clap's errors: config keys that were typed as flags, and tasks whose first word is a command.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::words::COMMANDS;
use crate::config::{KeyPath, is_key, nearest_word};

/// Commands whose words are a task anyway.
const TASK_COMMANDS: [&str; 2] = ["exec", "chat"];

/// Replaces clap's guesses by better ones, and the usage by that of the command that was typed. `whole` is the
/// definition with which the command line was parsed.
pub(super) fn with_tips(
    error: clap::Error,
    whole: &mut clap::Command,
    arguments: &[OsString],
) -> clap::Error {
    let mut error = with_config_tip(error);
    let is_flag = text_of(&error, ContextKind::InvalidArg).is_some_and(|name| name.starts_with('-'));
    let tip = |at: Option<usize>| task_tip(arguments, at?).filter(|_| !is_flag);
    let at = command_position(whole, arguments);
    let kind = error.kind();
    if kind == ErrorKind::InvalidSubcommand {
        let topics = help_topics(whole, arguments, at);
        let parent = typed_command(whole, arguments, at);
        return unknown_command(&error, &topics, tip(at), parent);
    }
    if kind == ErrorKind::UnknownArgument {
        let typed = typed_command(whole, arguments, at);
        drop_far_flag(&mut error, takes_words(typed));
        let usage = typed.render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    if kind == ErrorKind::UnknownArgument && text_of(&error, ContextKind::InvalidArg) == Some("-r") {
        let tip = "to resume a session, use --continue or --resume ID";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let is_value = matches!(kind, ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    if let Some(tip) = tip(at).filter(|_| is_value || kind == ErrorKind::UnknownArgument) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Replaces clap's guess at an unknown flag by a tip if a config key has that name.
fn with_config_tip(mut error: clap::Error) -> clap::Error {
    let Some(flag) = text_of(&error, ContextKind::InvalidArg) else { return error };
    let name = flag.trim_start_matches('-').replace('-', "_");
    if error.kind() == ErrorKind::UnknownArgument && is_key(&KeyPath::from(name.as_str())) {
        let tip = format!("`{name}` is a config key: sysop config set {name} VALUE");
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns true if a command takes any number of words, so that a word may look like a flag.
fn takes_words(command: &clap::Command) -> bool {
    let is_list = |arg: &clap::Arg| arg.get_num_args().is_some_and(|count| count.max_values() > 1);
    command.get_positionals().any(is_list)
}

/// Removes the tip that a command has a flag, if the name of the flag is not similar to the one that was typed, and the
/// tip to pass the flag as a value, unless `takes_words`.
fn drop_far_flag(error: &mut clap::Error, takes_words: bool) {
    let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) else { return };
    let typed = text_of(error, ContextKind::InvalidArg).unwrap_or_default().trim_start_matches('-');
    let is_near = |tip: &str| {
        if tip.contains("' as a value, use '-- ") {
            return takes_words;
        }
        let flag = tip.strip_suffix("' exists").and_then(|tip| tip.rsplit_once("--"));
        flag.is_none_or(|(_, flag)| nearest_word(typed, [flag]).is_some())
    };
    let near: Vec<_> = tips.iter().filter(|tip| is_near(&tip.to_string())).cloned().collect();
    if near.is_empty() {
        error.remove(ContextKind::Suggested); // an empty list would leave a blank line
    } else {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(near));
    }
}

/// Returns the position of the command's name among the arguments.
fn command_position(whole: &clap::Command, arguments: &[OsString]) -> Option<usize> {
    let is_name = |word: &OsString| word.to_str().is_some_and(|word| COMMANDS.contains(&word));
    (1..arguments.len())
        .find(|&at| is_name(&arguments[at]) && whole.clone().try_get_matches_from(&arguments[..at]).is_ok())
}

/// Returns the innermost command whose name was typed.
fn typed_command<'a>(
    whole: &'a mut clap::Command,
    arguments: &[OsString],
    at: Option<usize>,
) -> &'a mut clap::Command {
    whole.build();
    let mut named = whole;
    for word in &arguments[at.unwrap_or(arguments.len())..] {
        if named.find_subcommand(word).is_none() {
            break;
        }
        named = named.find_subcommand_mut(word).expect("it was just found");
    }
    named
}

/// Returns the commands that `help` describes at the place of the unknown one; empty if no `help` was typed.
fn help_topics(whole: &mut clap::Command, arguments: &[OsString], at: Option<usize>) -> Vec<String> {
    whole.build();
    let (mut named, mut is_help) = (&*whole, false);
    for word in &arguments[at.unwrap_or(arguments.len())..] {
        match named.find_subcommand(word) {
            _ if word == "help" => is_help = true,
            Some(found) => named = found,
            None => break,
        }
    }
    let topics = named.get_subcommands().filter(|_| is_help);
    topics.map(|topic| topic.get_name().to_owned()).collect()
}

/// Returns the error for a word that is no command of `parent`, nor one of `topics`.
fn unknown_command(
    error: &clap::Error,
    topics: &[String],
    task: Option<String>,
    parent: &mut clap::Command,
) -> clap::Error {
    let typed = text_of(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    let guesses = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let is_near = |name: &&String| *name != "help" || nearest_word(typed, ["help"]).is_some();
    let guess = guesses.iter().find(is_near).map(String::as_str);
    let guess = guess.or_else(|| nearest_word(typed, topics.iter().map(String::as_str)));
    let guess = guess.map(|name| format!("a similar command exists: `{name}`"));
    let tip = guess.or(task).map(|tip| format!("\n\n  tip: {tip}")).unwrap_or_default();
    parent.error(ErrorKind::InvalidSubcommand, format!("unrecognized command `{typed}`{tip}"))
}

/// Returns the tip for a task whose first word is a command: at least two words follow it, and the first of them is not
/// one of its commands.
fn task_tip(arguments: &[OsString], at: usize) -> Option<String> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    let (flags, task) = words.split_at_checked(at.checked_sub(1)?)?;
    let (command, rest) = task.split_first()?;
    let plain = rest.iter().take_while(|word| !word.starts_with('-')).count();
    if plain < 2
        || TASK_COMMANDS.contains(command)
        || super::words::subcommands(command).iter().any(|name| name == rest[0])
        || rest[0] == "help"
        || (*command == "help" && COMMANDS.contains(&rest[0]))
    {
        return None;
    }
    let line = if plain < rest.len() {
        "sysop -- TASK".to_owned()
    } else {
        shell_words::join(["sysop"].iter().chain(flags).chain(&["--"]).chain(task))
    };
    let values = if *command == "run" { "a value of a routine is NAME=VALUE; " } else { "" };
    Some(format!("{values}to pass it as a task, use `{line}`"))
}
