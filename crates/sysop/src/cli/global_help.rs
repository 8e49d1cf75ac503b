//! The global flags of each command: those that change what the command does. Its help shows no others, and the others
//! are errors after its name. Before it they are ignored, for aliases such as `alias sysop='sysop --approve each'`.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Flags that apply to every command.
const EVERYWHERE: [&str; 4] = ["config", "verbose", "quiet", "no_color"];

/// Other global flags that apply to each command. A command that is not listed takes all of them.
const APPLICABLE: [(&str, &[&str]); 23] = [
    ("run", &["host", "canary", "approve", "root", "max_minutes", "trust"]),
    ("runbook", &["root", "trust"]),
    ("connect", &["model", "approve", "root", "profile", "resume_latest", "resume", "trust"]),
    ("attach", &["model", "approve", "resume"]),
    ("approve", &[]),
    ("sessions", &[]),
    ("token", &[]),
    ("guard", &[]),
    ("undo", &["host", "approve", "root"]),
    ("audit", &[]),
    ("model", &[]),
    ("models", &["host"]),
    ("init", &[]),
    ("mock-llm", &[]),
    ("doctor", &["host", "model", "approve", "root", "profile", "trust"]),
    ("policy", &["host", "root", "trust"]),
    ("skills", &["root", "trust"]),
    ("mcp", &["root", "trust"]),
    ("config", &["host", "model", "approve", "root", "profile", "trust"]),
    ("trust", &[]),
    ("shell-init", &["model", "root", "trust"]),
    ("completions", &[]),
    ("man", &[]),
];

/// Flags of single subcommands, besides those of their command.
const OF_SUBCOMMANDS: [(&str, &str, &[&str]); 2] =
    [("sessions", "list", &["host"]), ("mcp", "serve", &["host", "canary", "approve"])];

/// Flags of [`EVERYWHERE`] that a command accepts, but that do not change what it does.
const WITHOUT_EFFECT: [(&str, &[&str]); 3] =
    [("completions", &EVERYWHERE), ("man", &EVERYWHERE), ("token", &["verbose", "no_color"])];

/// Flags that each command accepts without showing them.
const ACCEPTED: [(&str, &[&str]); 5] = [
    ("run", &["model", "profile", "resume_latest", "resume"]),
    ("connect", &["host"]), // has an error of its own
    ("attach", &["resume_latest"]),
    ("policy", &["approve"]),
    ("mcp", &["profile"]),
];

/// Flags that decide which workspace config a command reads.
const OF_WORKSPACE: [&str; 2] = ["root", "trust"];

/// Hides the global flags that do not apply from the help of each command.
pub(super) fn hide_inapplicable(whole: Command) -> Command {
    let flags: Vec<_> = whole.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    whole.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        // clap adds a global flag to each command that has no flag with its id.
        let others = flags.iter().filter(|flag| !applies_in_help(&name, flag.get_id().as_str()));
        let command = command.args(others.map(|flag| flag.clone().hide(true)));
        let inner = OF_SUBCOMMANDS.iter().filter(|(of, ..)| *of == command.get_name());
        let inner: Vec<_> = inner.collect();
        inner.into_iter().fold(command, |command, (_, name, ids)| {
            let shown = flags.iter().filter(|flag| ids.contains(&flag.get_id().as_str())).cloned();
            command.mut_subcommand(name, |inner| inner.args(shown))
        })
    })
}

/// Returns the command line without the global flags that do not apply to a command, for completions. Unlike a hidden
/// flag, such a flag is no candidate even if it is the only one that fits.
pub(crate) fn without_inapplicable(whole: Command) -> Command {
    let flags: Vec<_> = whole.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    let is_accepted = |flag: &&Arg| OF_WORKSPACE.contains(&flag.get_id().as_str());
    let accepted: Vec<_> = flags.iter().filter(is_accepted).map(|flag| flag.clone().hide(true)).collect();
    let local = whole.mut_args(|flag| if flag.is_global_set() { flag.global(false) } else { flag });
    local.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let shown = |id: &str| applies_in_help(&name, id);
        let command = with_flags(command, &flags, shown);
        let command = with_flags(command, &accepted, |_| true);
        let inner = OF_SUBCOMMANDS.iter().filter(|(of, ..)| *of == name);
        inner.fold(command, |command, (_, inner, ids)| {
            command.mut_subcommand(inner, |inner| with_flags(inner, &flags, |id| ids.contains(&id)))
        })
    })
}

/// Adds the flags that are `wanted` and that the command does not define itself.
fn with_flags(command: Command, flags: &[Arg], wanted: impl Fn(&str) -> bool) -> Command {
    let own: Vec<_> = command.get_arguments().map(|argument| argument.get_id().clone()).collect();
    let added = flags.iter().filter(|flag| wanted(flag.get_id().as_str()) && !own.contains(flag.get_id()));
    command.args(added.cloned())
}

/// Returns true if the help of a command shows the global flag.
fn applies_in_help(command: &str, flag: &str) -> bool {
    let listed = |table: &[(&str, &[&str])]| {
        table.iter().find(|(name, _)| *name == command).map(|(_, ids)| ids.contains(&flag))
    };
    match listed(&APPLICABLE) {
        None | Some(true) => true,
        Some(false) => EVERYWHERE.contains(&flag) && listed(&WITHOUT_EFFECT) != Some(true),
    }
}

/// Returns the command that the user named. Its errors have its own usage.
pub(super) fn named_command<'a>(command: &'a mut Command, matches: &ArgMatches) -> &'a mut Command {
    match matches.subcommand() {
        Some((name, inner)) if command.find_subcommand(name).is_some() => {
            let named = command.find_subcommand_mut(name).expect("it was just found");
            named_command(named, inner)
        }
        Some(_) | None => command,
    }
}

/// Returns an error if a global flag was given after the command's name that does not change what the command does.
pub(super) fn inapplicable_flag(
    whole: &Command,
    arguments: &[OsString],
    matches: &ArgMatches,
) -> Option<String> {
    find_inapplicable(whole, matches)?;
    // clap gives the flags before the name to the command, too.
    let (program, words) = arguments.split_first()?;
    let parse =
        |words: &[OsString]| whole.clone().try_get_matches_from(std::iter::once(program).chain(words)).ok();
    let name = matches.subcommand_name()?;
    let is_name = |at: &usize| words[*at] == name && parse(&words[..*at]).is_some();
    let at = (0..words.len()).find(is_name)?;
    find_inapplicable(whole, &parse(&words[at..])?)
}

fn find_inapplicable(whole: &Command, matches: &ArgMatches) -> Option<String> {
    let (name, of_command) = matches.subcommand()?;
    let (_, applicable) = APPLICABLE.iter().find(|(command, _)| *command == name)?;
    let (inner, of_inner) = of_command.subcommand().unzip();
    let command = whole.find_subcommand(name)?;
    let definitions = [Some(command), inner.and_then(|inner| command.find_subcommand(inner))];
    let is_own = |id: &str| {
        let arguments = definitions.into_iter().flatten().flat_map(Command::get_arguments);
        arguments.into_iter().any(|argument| argument.get_id() == id)
    };
    let listed = |table: &[(&str, &[&str])], id: &str| {
        table.iter().any(|(command, ids)| *command == name && ids.contains(&id))
    };
    let applies = |id: &str| {
        let of_subcommand = OF_SUBCOMMANDS.iter().filter(|(of, sub, _)| *of == name && Some(*sub) == inner);
        EVERYWHERE.contains(&id)
            || OF_WORKSPACE.contains(&id)
            || applicable.contains(&id)
            || listed(&ACCEPTED, id)
            || of_subcommand.into_iter().any(|(.., ids)| ids.contains(&id))
    };
    let is_given = |id: &str| {
        let levels = [Some(matches), Some(of_command), of_inner];
        levels.into_iter().flatten().any(|level| level.value_source(id) == Some(ValueSource::CommandLine))
    };
    let flags = whole.get_arguments().filter(|flag| flag.is_global_set());
    let flag = flags.into_iter().find(|flag| {
        let id = flag.get_id().as_str();
        !applies(id) && !is_own(id) && is_given(id)
    })?;
    let path = inner.map_or_else(|| name.to_owned(), |inner| format!("{name} {inner}"));
    Some(format!("--{} does not apply to `sysop {path}`", flag.get_long()?))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{ACCEPTED, APPLICABLE, EVERYWHERE, hide_inapplicable};
    use crate::cli::{Arguments, parse};

    fn help(line: &[&str]) -> String {
        let line = ["sysop"].iter().chain(line).chain(&["--help"]).map(Into::into);
        parse(line).expect_err("it is help").to_string()
    }

    #[test]
    fn the_table_has_only_commands_and_global_flags() {
        let whole = Arguments::command();
        let is_flag =
            |id: &&str| whole.get_arguments().any(|flag| flag.get_id() == *id && flag.is_global_set());
        for (name, flags) in APPLICABLE.into_iter().chain(ACCEPTED) {
            assert!(whole.find_subcommand(name).is_some(), "{name}");
            assert!(flags.iter().chain(&EVERYWHERE).all(&is_flag), "{name}: {flags:?}");
        }
        hide_inapplicable(whole).debug_assert();
    }

    #[test]
    fn help_shows_the_flags_that_apply_at_its_end() {
        let list = help(&["sessions", "list"]);
        assert!(!list.contains("--canary") && !list.contains("--approve"), "{list}");
        let (own, global) = list.split_once("Global options:\n").expect("it has this heading");
        assert!(own.contains("--all") && global.contains("--config") && global.contains("--quiet"), "{list}");
        for command in ["exec", "chat", "serve"] {
            let shown = help(&[command]);
            assert!(shown.contains("--canary") && shown.contains("--max-cost"), "{shown}");
        }
        assert!(help(&[]).contains("--canary"), "the help of sysop itself has all");
    }

    #[test]
    fn help_leaves_out_flags_without_effect() {
        for (command, absent) in [
            (&["mcp", "list"][..], &["--host", "--canary", "--approve"][..]),
            (&["mcp", "add"], &["--host", "--canary", "--approve"]),
            (&["completions"], &["--config", "--quiet", "--verbose", "--no-color"]),
            (&["man"], &["Global options"]),
            (&["token", "list"], &["--verbose", "--no-color"]),
        ] {
            let shown = help(command);
            assert!(absent.iter().all(|flag| !shown.contains(flag)), "{command:?}: {shown}");
        }
        assert!(!help(&["attach"]).contains("--continue"), "no flag that is shown refers to it");
        let serve = help(&["mcp", "serve"]);
        assert!(["--host", "--canary", "--approve"].iter().all(|flag| serve.contains(flag)), "{serve}");
        for line in [&["man", "-q"][..], &["--no-color", "token", "list"], &["mcp", "serve", "-H", "web1"]] {
            assert_eq!(error(line), None, "{line:?}");
        }
    }

    fn error(line: &[&str]) -> Option<String> {
        let line = ["sysop"].iter().chain(line).map(Into::into);
        parse(line).err().map(|error| error.to_string())
    }

    #[test]
    fn a_flag_that_does_not_apply_is_an_error() {
        for (line, told) in [
            (&["approve", "--canary", "3"][..], "--canary does not apply to `sysop approve`"),
            (&["sessions", "show", "-H", "web1"], "--host does not apply to `sysop sessions show`"),
            (&["init", "--model", "demo"], "--model does not apply to `sysop init`"),
            (&["sessions", "list", "-c"], "--continue does not apply to `sysop sessions list`"),
            (
                &["-H", "token", "token", "list", "--resume=4f"],
                "--resume does not apply to `sysop token list`",
            ),
            (
                &["runbook", "export", "--max-cost", "2"],
                "--max-cost does not apply to `sysop runbook export`",
            ),
        ] {
            let error = error(line).unwrap_or_else(|| panic!("{line:?} is accepted"));
            assert!(error.contains(told), "{line:?}: {error}");
            let path = told.split('`').nth(1).expect("it names the command");
            assert!(error.contains(&format!("Usage: {path} ")), "{line:?}: {error}");
        }
    }

    #[test]
    fn flags_that_apply_are_accepted_before_and_after_the_command() {
        for line in [
            &["sessions", "list", "-H", "web1"][..],
            &["-H", "web1", "sessions", "list"],
            &["--approve", "each", "sessions", "list"],
            &["--canary", "3", "-c", "approve"],
            &["--profile", "coder", "shell-init", "bash"],
            &["guard", "list", "web1"],
            &["run", "greet", "--approve", "auto", "--resume"],
            &["connect", "https://ops.example.org", "--host", "web1"],
            &["--config", "x", "-v", "--no-color", "--trust", "-C", "/srv", "approve"],
            &["-c", "--max-cost", "2", "exec", "go on"],
        ] {
            assert_eq!(error(line), None, "{line:?}");
        }
        let listed = help(&["sessions", "list"]);
        assert!(listed.contains("--host") && !help(&["sessions", "show"]).contains("--host"), "{listed}");
    }

    #[test]
    fn trust_takes_a_single_folder() {
        assert!(
            error(&["trust", "-C", "/a", "/b"]).is_some_and(|error| error.contains("cannot be used with"))
        );
        for line in [&["trust", "-C", "/a"][..], &["trust", "/b"]] {
            assert_eq!(error(line), None, "{line:?}");
        }
    }
}
