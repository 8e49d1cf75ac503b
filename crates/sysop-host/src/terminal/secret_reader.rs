//! Identifies the program that reads a secret typed at a prompt, from data of the operating system.
//!
//! Text on the screen proves nothing: any command can print `[sudo] password for joe:`. On this machine, the processes
//! in the terminal's foreground group are inspected, because only they can read the input. A program cannot fake the
//! path of its executable, nor that the file belongs to root and is set-user-ID.

use std::path::PathBuf;

use sysop_core::text::neutralize_line;

use super::SharedTerminal;
use super::live_shell::LiveShell;
use crate::platform::{self, ProcessEntry};

/// Maximum characters of a command line shown to people.
const COMMAND_CHARS_MAX: usize = 200;
/// Maximum names of other programs shown to people.
const NAMES_MAX: usize = 8;

/// Description of the program that asks for a secret, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretReader {
    /// Program and machine, for example `sudo on this machine`.
    pub(super) name: String,
    /// Facts about the program, one sentence each.
    pub(super) details: Vec<String>,
}

#[derive(Debug)]
struct ReaderProcess {
    pid: i32,
    parent: i32,
    name: String,
    /// Path of the executable; `None` if the system hides it, as for programs with more privileges.
    executable: Option<PathBuf>,
    /// True if the executable belongs to root and is set-user-ID.
    is_setuid_root: bool,
    command_line: String,
}

impl SharedTerminal {
    pub(super) async fn secret_reader(&self, live: &LiveShell) -> SecretReader {
        let (command, shell) = {
            let inner = live.state();
            (inner.model_command.clone(), inner.shell_process())
        };
        let Some(host) = &live.remote_host else { return local_reader(live, command.as_deref()) };
        let found = match shell {
            Some((tty, shell)) => self.machine.foreground(&tty, shell).await,
            None => None,
        };
        let name = match found {
            Some(found) if !found.program.is_empty() => {
                let shell = if found.is_shell { " (the shell of this terminal)" } else { "" };
                format!("{}{shell} on {host}", neutralize_line(&found.program))
            }
            Some(_) | None => format!("a program on {host}"),
        };
        SecretReader { name, details: started_by(command.as_deref(), false) }
    }
}

/// Describes the program that would read a secret from a local terminal.
fn local_reader(live: &LiveShell, command: Option<&str>) -> SecretReader {
    let group = live.foreground().map(|group| group.as_raw_nonzero().get());
    let processes = group.map(foreground_processes).unwrap_or_default();
    let Some(reader) = likely_reader(&processes) else {
        return SecretReader {
            name: "a program on this machine".to_owned(),
            details: started_by(command, false),
        };
    };
    let is_shell = live.pid().is_some_and(|shell| shell.as_raw_nonzero().get() == reader.pid);
    let role = if is_shell { "(the shell of this terminal)" } else { "on this machine" };
    let mut details = vec![described(reader)];
    let others = other_names(&processes, reader);
    if !others.is_empty() {
        details.push(format!("These programs can also read your input: {}.", others.join(", ")));
    }
    details.extend(started_by(command, reader.is_setuid_root && others.is_empty()));
    SecretReader { name: format!("{} {role}", neutralize_line(&reader.name)), details }
}

/// Describes the program and its command line in one sentence.
fn described(reader: &ReaderProcess) -> String {
    let rights = if reader.is_setuid_root { ", which runs as root (set-user-ID)" } else { "" };
    let program = match &reader.executable {
        Some(path) => neutralize_line(&path.to_string_lossy()).into_owned(),
        None => format!(
            "{} (the system does not reveal the path of its executable)",
            neutralize_line(&reader.name)
        ),
    };
    format!("Program: {program}{rights}. Its command line: `{}`.", reader.command_line)
}

/// Returns sentences that name the model's running command, with a warning unless the reader is trusted. Returns no
/// sentence if the model runs no command.
fn started_by(command: Option<&str>, is_trusted: bool) -> Vec<String> {
    let Some(command) = command else { return Vec::new() };
    let mut told = vec![format!("Started by the model: `{}`.", bounded(command))];
    if !is_trusted {
        told.push("Warning: the command started by the model can read your input.".to_owned());
    }
    told
}

/// Guesses the process that reads input: a set-user-ID root process if there is one, otherwise the innermost process.
fn likely_reader(processes: &[ReaderProcess]) -> Option<&ReaderProcess> {
    let has_child = |process: &ReaderProcess| processes.iter().any(|other| other.parent == process.pid);
    let trusted =
        processes.iter().filter(|process| process.is_setuid_root).find(|process| !has_child(process));
    trusted.or_else(|| processes.iter().find(|process| !has_child(process)))
}

/// Returns the names of the processes other than `reader` that are not set-user-ID root, sorted and without duplicates;
/// at most `NAMES_MAX` of them.
fn other_names(processes: &[ReaderProcess], reader: &ReaderProcess) -> Vec<String> {
    let mut names: Vec<String> = processes
        .iter()
        .filter(|process| process.pid != reader.pid && !process.is_setuid_root)
        .map(|process| neutralize_line(&process.name).into_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(NAMES_MAX);
    names
}

/// Returns the processes in a group, sorted by process id.
fn foreground_processes(group: i32) -> Vec<ReaderProcess> {
    let all = platform::processes().unwrap_or_default().into_iter();
    let members = all.filter(|(_, process)| process.group == group);
    let mut processes: Vec<ReaderProcess> =
        members.map(|(pid, process)| ReaderProcess::of(pid, process)).collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

impl ReaderProcess {
    fn of(pid: i32, process: ProcessEntry) -> Self {
        let executable = platform::executable(pid);
        let name = executable.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        let name = name.map_or(process.name, std::borrow::Cow::into_owned);
        let command_line = platform::arguments(pid).unwrap_or_default().join(" ");
        Self {
            pid,
            parent: process.parent,
            name,
            executable,
            is_setuid_root: platform::is_setuid_root(pid),
            command_line: bounded(&command_line),
        }
    }
}

fn bounded(text: &str) -> String {
    let line = neutralize_line(text);
    match line.char_indices().nth(COMMAND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ReaderProcess, likely_reader, other_names, started_by};

    fn process(pid: i32, parent: i32, name: &str, is_setuid_root: bool) -> ReaderProcess {
        let (executable, command_line) = (Some(format!("/usr/bin/{name}").into()), name.to_owned());
        ReaderProcess { pid, parent, name: name.to_owned(), executable, is_setuid_root, command_line }
    }

    #[test]
    fn a_root_program_is_the_reader_and_others_in_its_group_are_named() {
        let group = [process(1, 0, "sh", false), process(2, 1, "cat", false), process(3, 1, "sudo", true)];
        let reader = likely_reader(&group).unwrap();
        assert_eq!(reader.name, "sudo");
        assert_eq!(other_names(&group, reader), ["cat", "sh"]);
    }

    #[test]
    fn without_a_root_program_the_innermost_one_is_the_reader() {
        let group = [process(1, 0, "sh", false), process(2, 1, "python3", false)];
        assert_eq!(likely_reader(&group).unwrap().name, "python3");
        assert!(likely_reader(&[]).is_none());
    }

    #[test]
    fn only_a_root_program_gets_no_warning() {
        assert_eq!(started_by(Some("sudo id"), true), ["Started by the model: `sudo id`."]);
        assert!(started_by(Some("read -rs x"), false)[1].starts_with("Warning: "));
        assert!(started_by(None, false).is_empty());
    }
}
