//! The tasks: their names, arguments and help. A task starts only if its arguments are known ones.

use std::fmt::Write as _;

/// A task of this repository.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: &'static str,
    /// One line, in the imperative.
    summary: &'static str,
    /// Arguments, as in `[--all] [-- ARGS...]`.
    arguments: &'static str,
    flags: &'static [Flag],
    /// Maximum number of words that are not flags.
    words_max: usize,
    /// Purpose of words and of arguments after `--`; empty if the task takes none.
    more: &'static str,
}

#[derive(Debug)]
struct Flag {
    name: &'static str,
    /// Name of the flag's value, which is the next word; `None` if it has no value.
    value: Option<&'static str>,
    help: &'static str,
}

/// A flag without a value.
const fn flag(name: &'static str, help: &'static str) -> Flag {
    Flag { name, value: None, help }
}

impl Flag {
    fn with_value(&self) -> String {
        self.value.map_or_else(|| self.name.to_owned(), |value| format!("{} {value}", self.name))
    }
}

/// Result of checking the arguments of a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Run,
    Help,
}

pub(crate) const TASKS: [Task; 13] = [
    Task {
        name: "demo",
        summary: "Build sysop and run a real task on this machine, without a key",
        arguments: "[--model [--yes]] [--program SYSOP] [TASK...] [-- ARGS...]",
        flags: &[
            flag("--model", "Run a task with a model that is downloaded first (1.1 GB)"),
            flag("--yes", "Download without asking"),
            Flag { name: "--program", value: Some("SYSOP"), help: "Use this sysop instead of building one" },
        ],
        words_max: usize::MAX,
        more: "TASK is given to `sysop exec`, and so are the arguments after `--`.",
    },
    Task {
        name: "test",
        summary: "Check format and lints, and run all tests",
        arguments: "[--all | --booted] [-- ARGS...]",
        flags: &[
            flag("--all", "Also run slow checks: long random tests, a booted system, fresh installs"),
            flag("--booted", "Test only guards, previews and undo on a booted system (as root)"),
        ],
        words_max: 0,
        more: "The arguments after `--` are given to `cargo test`; not with --all or --booted.",
    },
    Task {
        name: "bench",
        summary: "Measure whole processes against baselines from the same run",
        arguments: "[--check] [--program SYSOP] [NAME...]",
        flags: &[
            flag("--check", "Fail if a target is missed"),
            Flag {
                name: "--program",
                value: Some("SYSOP"),
                help: "Measure this sysop instead of building one",
            },
        ],
        words_max: usize::MAX,
        more: "NAME is a measurement; by default, all of them run.\n\
               store, policy, sandbox, ssh, guard, terminal, history and the calls of mcp always measure \
               this tree.",
    },
    Task {
        name: "eval",
        summary: "Count the tasks that a model solves with sysop and with a plain loop",
        arguments: "[--help]",
        flags: &[],
        words_max: usize::MAX,
        more: "",
    },
    Task {
        name: "wire",
        summary: "Generate schemas, TypeScript types and docs/protocol.md from the message types",
        arguments: "",
        flags: &[],
        words_max: 0,
        more: "",
    },
    Task {
        name: "pictures",
        summary: "Take the pictures in docs/pictures from real runs",
        arguments: "[--screen | --tour] [SYSOP]",
        flags: &[
            flag("--screen", "Take only the pictures of the TUI"),
            flag("--tour", "Only build the animated tour from existing pictures"),
        ],
        words_max: 1,
        more: "SYSOP is a program that is already built.",
    },
    Task {
        name: "prices",
        summary: "Generate the table of hosted models from LiteLLM's list",
        arguments: "FILE",
        flags: &[],
        words_max: 1,
        more: "FILE is model_prices_and_context_window.json of LiteLLM.",
    },
    Task {
        name: "layout",
        summary: "Record what common runs call, for the order of the released program's code",
        arguments: "[SYSOP]",
        flags: &[],
        words_max: 1,
        more: "SYSOP is a release build with symbols and SYSOP_NO_LAYOUT=1; by default, one is built.",
    },
    Task {
        name: "docs",
        summary: "Write the reference pages and build the guide into docs/guide/book",
        arguments: "[--build]",
        flags: &[flag("--build", "Keep the reference pages as they are")],
        words_max: 0,
        more: "",
    },
    Task {
        name: "web",
        summary: "Build the page into web/dist",
        arguments: "[--test [FILE...] [-- ARGS...]]",
        flags: &[flag("--test", "Test the page in a browser as well")],
        words_max: usize::MAX,
        more: "FILE is a part of a test file's name. The arguments after `--` are given to Playwright.",
    },
    Task {
        name: "dist",
        summary: "Build binaries for old systems, an archive and Debian packages in target/packages",
        arguments: "[--static] [--try] [--with DIR]",
        flags: &[
            flag("--static", "Build a static binary as well"),
            flag("--try", "Install the packages in fresh systems"),
            Flag {
                name: "--with",
                value: Some("DIR"),
                help: "Pack the programs in DIR, which are already built",
            },
        ],
        words_max: 0,
        more: "",
    },
    Task {
        name: "check-macos",
        summary: "Type-check sysop for macOS",
        arguments: "",
        flags: &[],
        words_max: 0,
        more: "",
    },
    Task {
        name: "setup",
        summary: "Install the Debian packages that the tests need",
        arguments: "",
        flags: &[],
        words_max: 0,
        more: "",
    },
];

/// Returns the help of all tasks.
pub(crate) fn overview() -> String {
    let mut help = "Usage: cargo xtask TASK [ARGUMENTS]\n\n".to_owned();
    for Task { name, summary, .. } in &TASKS {
        let _ = writeln!(help, "  {name:11} {summary}");
    }
    help + "\n`cargo xtask TASK --help` lists the arguments of a task."
}

impl Task {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        TASKS.iter().find(|task| task.name == name)
    }

    pub(crate) fn help(&self) -> String {
        let mut help = format!("{}\n\nUsage: cargo xtask {} {}", self.summary, self.name, self.arguments);
        help.truncate(help.trim_end().len());
        help.push('\n');
        if !self.flags.is_empty() {
            help.push('\n');
        }
        let names: Vec<_> = self.flags.iter().map(Flag::with_value).collect();
        let width = names.iter().map(String::len).max().unwrap_or_default();
        for (name, flag) in names.iter().zip(self.flags) {
            let _ = writeln!(help, "  {name:width$}  {}", flag.help);
        }
        if !self.more.is_empty() {
            let _ = writeln!(help, "\n{}", self.more);
        }
        help.trim_end().to_owned()
    }

    /// Checks arguments before anything is installed, built or run.
    ///
    /// # Errors
    /// An argument is unknown; the text says which.
    pub(crate) fn check(&self, arguments: &[String]) -> Result<Checked, String> {
        let mut words = 0;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--" if self.arguments.contains("[-- ARGS...]") => break,
                "--help" | "-h" => return Ok(Checked::Help),
                word if !word.starts_with('-') => words += 1,
                word => {
                    let known = self.flags.iter().find(|flag| flag.name == word);
                    let flag = known.ok_or_else(|| format!("unknown argument `{word}`"))?;
                    if flag.value.is_some() && rest.next().is_none() {
                        return Err(format!("`{word}` needs a value"));
                    }
                }
            }
        }
        if words > self.words_max { Err("too many arguments".to_owned()) } else { Ok(Checked::Run) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Checked, TASKS, Task};

    fn check(line: &str) -> Result<Checked, String> {
        let mut words = line.split(' ').map(str::to_owned);
        let task = Task::named(&words.next().expect("a task")).expect("the task exists");
        task.check(&words.collect::<Vec<_>>())
    }

    #[test]
    fn help_and_unknown_flags_start_nothing() {
        for Task { name, .. } in TASKS.iter().filter(|task| task.name != "eval") {
            assert_eq!(check(&format!("{name} --help")), Ok(Checked::Help));
            assert_eq!(check(&format!("{name} -h")), Ok(Checked::Help));
            assert_eq!(check(&format!("{name} --hlep")), Err("unknown argument `--hlep`".to_owned()));
        }
        assert!(
            check("test everything").is_err()
                && check("dist --with").is_err()
                && check("prices a b").is_err()
        );
    }

    #[test]
    fn known_arguments_are_accepted_and_those_after_two_dashes_pass() {
        for line in [
            "bench start --check --program target/old/sysop",
            "dist --static --with target/release",
            "test -- --package sysop",
            "web --test frame.spec.ts -- --grep danger",
            "demo --model --yes",
            "demo write a file -- --approve ask",
        ] {
            assert_eq!(check(line), Ok(Checked::Run), "{line}");
        }
    }

    #[test]
    fn each_flag_is_in_the_help_and_in_the_usage() {
        for task in &TASKS {
            for flag in task.flags {
                let usage = flag.with_value();
                assert!(task.arguments.contains(&usage) && task.help().contains(flag.help), "{task:?}");
            }
        }
    }
}
