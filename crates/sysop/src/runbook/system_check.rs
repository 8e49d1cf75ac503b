//! Check of the hosts before the first step: the programs required by the steps, and the runbook's system.

use std::collections::BTreeSet;

use sysop_core::outcome::Outcome;
use sysop_core::policy::{CommandContext, Survey};

use super::judge::sections;
use crate::config::{RoutineSource, RunbookStep, StepAction, with_sample_values};

const PROGRAMS_MAX: usize = 100;
/// Prefix of the line about a missing program.
const MISSING: &str = "missing: ";

/// Programs that may install other programs. Programs used by later steps are not checked.
const INSTALLERS: [&str; 17] = [
    "apt", "apt-get", "dpkg", "dnf", "yum", "rpm", "zypper", "apk", "pacman", "snap", "pip", "pip3", "npm",
    "cargo", "make", "go", "install",
];

/// Commands that are built into every shell.
const BUILTINS: [&str; 30] = [
    "alias", "cd", "command", "echo", "eval", "exec", "exit", "export", "false", "getopts", "hash", "kill",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "source", "test", "times", "trap", "true",
    "type", "ulimit", "umask", "unalias", "unset", "wait",
];

/// Returns the names of the programs that must exist on the host before the first of these steps. Programs run through
/// sudo are left out, because sudo searches other directories.
pub(super) fn programs<'a>(steps: impl Iterator<Item = &'a RunbookStep>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for step in steps {
        let mut names = Vec::new();
        if step.env.contains_key("PATH") {
            continue;
        }
        for (_, template, _) in step.templates().into_iter().filter(|(_, _, is_command)| *is_command) {
            names.extend(programs_of(&with_sample_values(template)));
        }
        let installs = names.iter().any(|name| INSTALLERS.contains(&name.as_str()));
        found.extend(names);
        if installs || matches!(step.action, StepAction::Manual) || found.len() >= PROGRAMS_MAX {
            break;
        }
    }
    found
}

fn programs_of(command: &str) -> Vec<String> {
    let analysis = sysop_shell::analyze(command, &Survey::elsewhere(CommandContext::bash()));
    let words = analysis.invocations.iter().filter_map(|invocation| invocation.words.first()?.as_deref());
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
    };
    let mut names: Vec<String> = words.filter(is_name).map(str::to_owned).collect();
    if let Some(at) = names.iter().position(|name| name == "sudo" || name == "doas") {
        names.truncate(at + 1);
    }
    names.retain(|name| !BUILTINS.contains(&name.as_str()));
    // A function defined in the command is not a program.
    names.retain(|name| !command.contains(&format!("{name}()")) && !command.contains(&format!("{name} ()")));
    names
}

/// Returns the command that checks a host, or `None` if there is nothing to check. The command is read-only.
pub(super) fn system_command(programs: &BTreeSet<String>, source: Option<&RoutineSource>) -> Option<String> {
    let mut parts = Vec::new();
    if source.is_some_and(|source| source.arch.is_some()) {
        parts.push("uname -sm".to_owned());
    }
    if source.is_some_and(|source| source.os.is_some()) {
        parts.push("cat /etc/os-release".to_owned());
    }
    parts.extend(programs.iter().map(|name| {
        let missing = shell_words::quote(name);
        format!("command -v {missing} >/dev/null 2>&1 || echo '{MISSING}'{missing}")
    }));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Difference between a host and the system that a runbook needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SystemDifference {
    MissingPrograms(Vec<String>),
    /// The system or architecture differs from the system on which the runbook was created.
    OtherSystem {
        made: String,
        found: String,
    },
}

/// Parses the output of [`system_command`].
pub(super) fn system_difference(
    outcome: &Outcome,
    source: Option<&RoutineSource>,
) -> Option<SystemDifference> {
    let missing: BTreeSet<String> =
        outcome.output.lines().filter_map(|line| line.strip_prefix(MISSING)).map(str::to_owned).collect();
    if !missing.is_empty() {
        return Some(SystemDifference::MissingPrograms(missing.into_iter().collect()));
    }
    let source = source?;
    for section in sections(outcome) {
        let (os, arch) = (os_of(section), arch_of(section));
        for (made, found) in [(&source.os, os), (&source.arch, arch)] {
            if let (Some(made), Some(found)) = (made, found)
                && *made != found
            {
                return Some(SystemDifference::OtherSystem { made: made.clone(), found });
            }
        }
    }
    None
}

/// Returns a system's name and version from its `/etc/os-release`.
pub(super) fn os_of(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let id = value("ID")?;
    Some(value("VERSION_ID").map_or_else(|| id.clone(), |version| format!("{id} {version}")))
}

/// Returns the machine hardware name from the output of `uname -sm`.
fn arch_of(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (system, arch) = line.trim().split_once(' ')?;
        ["Linux", "Darwin", "FreeBSD", "OpenBSD", "NetBSD"].contains(&system).then(|| arch.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use sysop_core::outcome::Outcome;

    use super::{SystemDifference, programs, system_command, system_difference};
    use crate::config::{RoutineSource, RunbookStep, StepAction};

    fn steps(commands: &[&str]) -> Vec<RunbookStep> {
        let step = |command: &&str| RunbookStep {
            action: StepAction::Command((*command).to_owned()),
            ..RunbookStep::default()
        };
        commands.iter().map(step).collect()
    }

    #[test]
    fn programs_after_an_installation_or_behind_sudo_are_not_checked() {
        let all =
            steps(&["ls | wc -l", "sudo nginx -t", "./run; f() { ls; }; f", "apt-get install x", "x --help"]);
        let names: Vec<String> = programs(all.iter()).into_iter().collect();
        assert!(
            ["ls", "wc", "sudo", "apt-get"].iter().all(|name| names.iter().any(|it| it == name)),
            "{names:?}"
        );
        assert!(!["nginx", "f", "x"].iter().any(|name| names.iter().any(|it| it == name)), "{names:?}");
    }

    #[test]
    fn another_system_and_missing_programs_are_named() {
        let source = RoutineSource {
            os: Some("debian 12".to_owned()),
            arch: Some("x86_64".to_owned()),
            ..RoutineSource::default()
        };
        let found = |output: &str| system_difference(&Outcome::ok(output), Some(&source));
        assert_eq!(found("Linux x86_64\nID=debian\nVERSION_ID=\"12\"\n"), None);
        assert_eq!(
            found("Linux x86_64\nID=alpine\nVERSION_ID=3.20\n"),
            Some(SystemDifference::OtherSystem {
                made: "debian 12".to_owned(),
                found: "alpine 3.20".to_owned()
            })
        );
        let missing = SystemDifference::MissingPrograms(vec!["nginx".to_owned()]);
        assert_eq!(found("Linux x86_64\nmissing: nginx\n"), Some(missing));
        let command = system_command(&["ls".to_owned()].into(), Some(&source)).unwrap();
        assert_eq!(
            command,
            "uname -sm; cat /etc/os-release; command -v ls >/dev/null 2>&1 || echo 'missing: 'ls"
        );
        assert_eq!(system_command(&[].into(), None), None);
    }
}
