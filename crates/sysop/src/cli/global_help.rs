//! The global flags in the help of each command: those that change what the command does. The others are accepted, too.

use clap::Command;

/// Flags that apply to every command.
const EVERYWHERE: [&str; 4] = ["config", "verbose", "quiet", "no_color"];

/// Other global flags that apply to each command. A command that is not listed takes all of them.
const APPLICABLE: [(&str, &[&str]); 22] = [
    ("run", &["host", "canary", "approve", "root", "max_minutes", "trust"]),
    ("runbook", &["root", "trust"]),
    ("connect", &["model", "approve", "root", "profile", "resume_latest", "resume", "trust"]),
    ("attach", &["model", "approve", "resume"]),
    ("approve", &[]),
    ("sessions", &[]),
    ("token", &[]),
    ("guard", &[]),
    ("undo", &["approve"]),
    ("audit", &[]),
    ("model", &[]),
    ("models", &["host"]),
    ("init", &[]),
    ("mock-llm", &[]),
    ("doctor", &["host", "model", "approve", "root", "profile", "trust"]),
    ("policy", &["host", "root", "trust"]),
    ("skills", &["root", "trust"]),
    ("mcp", &["host", "canary", "approve", "root", "trust"]),
    ("config", &["host", "model", "approve", "root", "profile", "trust"]),
    ("shell-init", &["model", "root", "trust"]),
    ("completions", &[]),
    ("man", &[]),
];

/// Hides the global flags that do not apply from the help of each command.
pub(super) fn hide_inapplicable(whole: Command) -> Command {
    let flags: Vec<_> = whole.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    whole.mut_subcommands(|command| {
        let Some((_, applicable)) = APPLICABLE.iter().find(|(name, _)| *name == command.get_name()) else {
            return command;
        };
        let applies = |id: &str| EVERYWHERE.contains(&id) || applicable.contains(&id);
        // clap adds a global flag to each command that has no flag with its id.
        let others = flags.iter().filter(|flag| !applies(flag.get_id().as_str()));
        command.args(others.map(|flag| flag.clone().hide(true)))
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::{APPLICABLE, EVERYWHERE, hide_inapplicable};
    use crate::cli::{Arguments, parse};
    use crate::global_flags::ResumeTarget;

    fn help(line: &[&str]) -> String {
        let line = ["sysop"].iter().chain(line).chain(&["--help"]).map(Into::into);
        parse(line).expect_err("it is help").to_string()
    }

    #[test]
    fn the_table_has_only_commands_and_global_flags() {
        let whole = Arguments::command();
        let is_flag =
            |id: &&str| whole.get_arguments().any(|flag| flag.get_id() == *id && flag.is_global_set());
        for (name, flags) in APPLICABLE {
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
    fn hidden_flags_are_accepted() {
        for line in [
            ["sysop", "sessions", "list", "--canary", "2", "--resume=4f", "--limit", "3"],
            ["sysop", "--canary", "2", "--resume=4f", "sessions", "list", "--limit", "3"],
            ["sysop", "--resume=4f", "sessions", "--canary", "2", "list", "--limit", "3"],
        ] {
            // `parse` uses the hidden flags only for help and errors.
            let matches = hide_inapplicable(Arguments::command()).try_get_matches_from(line);
            let parsed = Arguments::from_arg_matches(&matches.expect("it is valid")).expect("it is valid");
            assert_eq!(parsed.global.canary.map(std::num::NonZero::get), Some(2), "{line:?}");
            let session = ResumeTarget::Session(sysop_core::id::SessionId::new("4f"));
            assert_eq!(parsed.global.resume, Some(session), "{line:?}");
        }
    }
}
