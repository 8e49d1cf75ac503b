//! Shell completions: the scripts that shells load, and the candidates that the scripts request from this program.
//!
//! A script runs `sysop` with the variable [`VARIABLE`] at each Tab. Candidates are names: of hosts, models, routines
//! and sessions. They are read from the config and the store, and from model servers that answer within 1.5 seconds. A
//! host is never contacted. Names that a shell would have to quote are left out, because they may come from a server or
//! a file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use sysop_core::model_provider::{DEMO, LOCAL as LOCAL_MODELS};
use sysop_core::text::neutralize_line;

use crate::app::{Machines, Storage, database};
use crate::cli::Arguments;
use crate::config::routines_in;
use crate::global_flags::GlobalFlags;
use crate::local_model::LocalModels;
use crate::model_lists::offered_within;
use crate::settings::Settings;

/// Environment variable that tells this program to print candidates instead of running a command.
const VARIABLE: &str = "_SYSOP_COMPLETE";
/// Time for model servers to list their models, and for a database to list its sessions.
const WAIT_MAX: Duration = Duration::from_millis(1500);
const SESSIONS_MAX: usize = 50;
const TITLE_CHARS_MAX: usize = 60;

/// bash splits words at `:`, `=` and `@`, which are parts of names here. This joins the parts again, and returns only
/// the part of a candidate that bash replaces. A word with `@` gets no candidates.
const BASH_WORDS: &str = include_str!("completions/words.bash");

/// Returns the script for a shell.
///
/// # Errors
/// Never in practice, because the script is written to memory.
pub(crate) fn script(shell: clap_complete::Shell) -> io::Result<Vec<u8>> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer =
        shells.completer(&name).ok_or_else(|| io::Error::other(format!("no script for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "sysop", "sysop", "sysop", &mut script)?;
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    let script = if shell == clap_complete::Shell::Bash {
        format!("{}{BASH_WORDS}", script.replace("-F _clap_complete_sysop", "-F _sysop"))
    } else if shell == clap_complete::Shell::Zsh {
        // In a directory of `fpath`, the first Tab runs the whole file as the function `_sysop`.
        format!("{script}if [[ $funcstack[1] = _sysop ]]; then _clap_dynamic_completer_sysop \"$@\"; fi\n")
    } else {
        script
    };
    Ok(script.into_bytes())
}

/// Prints the candidates if a completion script started this process. Returns true if it did.
pub(crate) fn complete(arguments: &[OsString]) -> clap::error::Result<bool> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let line = TypedFlags::of(arguments);
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(|| command(&line))
        .var(VARIABLE)
        .try_complete(arguments.iter().cloned(), here.as_deref())
}

/// Flags on the typed line that determine the files from which names are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TypedFlags {
    config: Option<PathBuf>,
    /// File with routines, of `sysop run --file`.
    file: Option<PathBuf>,
}

impl TypedFlags {
    fn of(line: &[OsString]) -> Self {
        let value = |flag: &str| {
            let at = line.iter().position(|word| word == flag);
            let apart = at.and_then(|at| line.get(at + 1)).map(PathBuf::from);
            let joined = || {
                let words = line.iter().filter_map(|word| word.to_str());
                words.filter_map(|word| word.strip_prefix(flag)?.strip_prefix('=')).map(PathBuf::from).next()
            };
            apart.or_else(joined)
        };
        Self { config: value("--config"), file: value("--file") }
    }

    /// Returns the settings, or `None` if the config cannot be used.
    fn settings(&self) -> Option<Settings> {
        let flags = GlobalFlags { config: self.config.clone(), ..GlobalFlags::default() };
        Settings::load(&flags).ok()
    }
}

/// Changes an argument; positional arguments keep their order, which `mut_arg` does not preserve.
fn completed(command: Command, name: &str, complete: impl Fn(Arg) -> Arg) -> Command {
    debug_assert!(command.get_arguments().any(|arg| arg.get_id() == name), "there is no argument {name}");
    command.mut_args(|arg| if arg.get_id() == name { complete(arg) } else { arg })
}

/// Returns the command line with a completer at each argument that takes a name.
fn command(line: &TypedFlags) -> Command {
    let with = |candidates: fn(&TypedFlags) -> Vec<CompletionCandidate>| {
        let line = line.clone();
        move |arg: Arg| {
            let line = line.clone();
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| matching(typed, candidates(&line))))
        }
    };
    let several_hosts = {
        let line = line.clone();
        ArgValueCompleter::new(move |typed: &OsStr| hosts_after_comma(typed, host_candidates(&line)))
    };
    let mut command = Arguments::command()
        .mut_arg("host", |arg| arg.add(several_hosts))
        .mut_arg("model", with(model_candidates))
        .mut_arg("resume", with(session_candidates))
        .mut_subcommand("run", |run| completed(run, "routine", with(routine_candidates)))
        .mut_subcommand("models", |models| completed(models, "provider", with(provider_candidates)));
    for (name, argument) in [("undo", "session"), ("desktop", "session")] {
        command = command.mut_subcommand(name, |sub| completed(sub, argument, with(session_candidates)));
    }
    for name in ["show", "export", "report", "delete"] {
        command = command.mut_subcommand("sessions", |sessions| {
            sessions.mut_subcommand(name, |sub| completed(sub, "id", with(session_candidates)))
        });
    }
    command = command.mut_subcommand("runbook", |runbook| {
        runbook.mut_subcommand("export", |export| completed(export, "session", with(session_candidates)))
    });
    for name in ["status", "confirm", "fire"] {
        command = command.mut_subcommand("guard", |guard| {
            guard.mut_subcommand(name, |sub| completed(sub, "host", with(host_candidates)))
        });
    }
    command
}

/// Returns the candidates that begin with the typed text and need no quotes.
fn matching(typed: &OsStr, candidates: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let fits = |name: &str| name.starts_with(typed) && is_plain(name);
    candidates.into_iter().filter(|candidate| candidate.get_value().to_str().is_some_and(fits)).collect()
}

/// Returns completed lists of hosts. The hosts before the last comma are kept and are not proposed again.
fn hosts_after_comma(typed: &OsStr, hosts: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let (before, last) = typed.rsplit_once(',').map_or(("", typed), |(before, last)| (before, last));
    let taken: BTreeSet<&str> = before.split(',').collect();
    let prefix = &typed[..typed.len() - last.len()];
    let is_new = |host: &CompletionCandidate| {
        let name = host.get_value().to_str().unwrap_or_default();
        !taken.contains(name) && (name != "local" || prefix.is_empty())
    };
    let rest = hosts.into_iter().filter(is_new).collect();
    matching(OsStr::new(last), rest).into_iter().map(|host| host.add_prefix(prefix)).collect()
}

/// Returns true if no shell gives a character of the name a meaning.
fn is_plain(name: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-+:/@,=".contains(character);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

fn candidate(name: impl Into<OsString>, help: &str) -> CompletionCandidate {
    let help: String = neutralize_line(help).chars().take(TITLE_CHARS_MAX).collect();
    CompletionCandidate::new(name).help((!help.trim().is_empty()).then(|| help.into()))
}

fn host_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let tags: BTreeSet<&String> = settings.hosts.known.iter().flat_map(|known| &known.tags).collect();
    let hosts = settings.host_names().into_iter().map(|(name, description)| candidate(name, &description));
    let tags = tags.into_iter().map(|tag| {
        let count = settings.hosts.known.iter().filter(|known| known.tags.contains(tag)).count();
        candidate(format!("@{tag}"), &format!("{count} {}", if count == 1 { "host" } else { "hosts" }))
    });
    hosts.chain(tags).collect()
}

fn model_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let mut names: BTreeSet<String> = settings.models.keys().cloned().collect();
    names.extend(settings.model.as_ref().map(|model| model.value.to_string()));
    names.insert(DEMO.to_owned());
    let installed = LocalModels::new(&settings);
    names.extend(installed.installed().map(|model| format!("{}/{}", LOCAL_MODELS.name, model.name)));
    let offered = block_on(async move {
        let settings = std::sync::Arc::new(settings);
        let machines = Machines::new(std::sync::Arc::clone(&settings));
        let offered = offered_within(WAIT_MAX, &settings, &machines).await;
        machines.close().await;
        offered
    });
    names.extend(offered.unwrap_or_default().into_iter().map(|model| model.to_string()));
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn provider_candidates(_: &TypedFlags) -> Vec<CompletionCandidate> {
    crate::config::PROVIDERS.iter().map(CompletionCandidate::new).collect()
}

fn routine_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let of_file = |path: &Path| routines_in(path).map(|file| file.routines).ok();
    let routines = match &line.file {
        Some(path) => of_file(path),
        None => line.settings().map(|settings| settings.routines),
    };
    let routines = routines.unwrap_or_default().into_iter();
    routines.map(|(name, routine)| candidate(name, &routine.description)).collect()
}

fn session_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    // Without a database yet, a Tab does not make one.
    if settings.database.is_none() && !database(&settings.folders.data).exists() {
        return Vec::new();
    }
    let listed = block_on(async move {
        tokio::time::timeout(WAIT_MAX, async {
            let storage = Storage::open(&settings).await.ok()?;
            let sessions = storage.store().list(SESSIONS_MAX).await.ok();
            storage.close().await;
            sessions
        })
        .await
    });
    let sessions = listed.and_then(Result::ok).flatten().unwrap_or_default().into_iter();
    sessions.map(|session| candidate(session.id.as_str().to_owned(), &session.title)).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    crate::runtime().ok().map(|runtime| runtime.block_on(future))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{TypedFlags, candidate, command, hosts_after_comma, is_plain, matching, script};

    fn names(of: Vec<clap_complete::engine::CompletionCandidate>) -> Vec<String> {
        of.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn hosts_complete_after_the_last_comma_and_none_twice() {
        let hosts = || ["local", "web1", "web2", "@web"].map(|name| candidate(name, "")).into();
        let complete = |typed: &str| names(hosts_after_comma(OsStr::new(typed), hosts()));
        assert_eq!(complete(""), ["local", "web1", "web2", "@web"]);
        assert_eq!(complete("web1,w"), ["web1,web2"]);
        assert_eq!(complete("web1,web2,"), ["web1,web2,@web"]);
        assert_eq!(complete("x"), [""; 0]);
    }

    #[test]
    fn names_that_a_shell_would_read_otherwise_are_left_out() {
        assert!(is_plain("docker:web") && is_plain("ollama/phi3:3.8b") && is_plain("me@web1,@db"));
        for name in ["", "-x", "a b", "$(id)", "a;b", "*", "a\u{1b}[1m", "'"] {
            assert!(!is_plain(name), "{name}");
        }
        let found = matching(OsStr::new("a"), ["ab", "a b", "b"].map(|name| candidate(name, "")).into());
        assert_eq!(names(found), ["ab"]);
    }

    #[test]
    fn flags_of_the_line_decide_where_names_come_from() {
        let line = ["sysop", "run", "--file", "book.toml", "--config=c.toml"].map(Into::into);
        let expected = TypedFlags { config: Some("c.toml".into()), file: Some("book.toml".into()) };
        assert_eq!(TypedFlags::of(&line), expected);
    }

    #[test]
    fn every_completer_has_its_argument() {
        command(&TypedFlags::default()).debug_assert();
    }

    #[test]
    fn the_script_for_bash_joins_words() {
        let script = String::from_utf8(script(clap_complete::Shell::Bash).unwrap()).unwrap();
        assert!(script.contains("-F _sysop sysop") && script.contains("\n_sysop() {"), "{script}");
    }
}
