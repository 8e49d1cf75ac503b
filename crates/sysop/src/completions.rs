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
use sysop_core::catalog::Profile;
use sysop_core::model_provider::{DEMO, LOCAL as LOCAL_MODELS};
use sysop_core::text::neutralize_line;

use crate::app::{Machines, Storage, database};
use crate::cli::{Arguments, without_inapplicable};
use crate::config::{ConfigOrigin, KEYS, KeyPath, TextKind, ValueKind, find_key, parse_key, routines_in};
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
/// Name of the program that runs downloaded models, among their names.
const SERVER_NAME: &str = "llama-server";

/// bash splits words at `:`, `=` and `@`, which are parts of names here. This joins the parts again, and returns only
/// the part of a candidate that bash replaces.
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
    /// Key whose value is typed, of `sysop config set`.
    key: Option<KeyPath>,
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
        let at = line.windows(2).position(|words| words[0] == "config" && words[1] == "set");
        let key = at.and_then(|at| line.get(at + 2)?.to_str());
        let key = key.and_then(|key| parse_key(key).ok());
        Self { config: value("--config"), file: value("--file"), key }
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

type Candidates = fn(&TypedFlags) -> Vec<CompletionCandidate>;

/// Returns the command line with a completer at each argument that takes a name.
fn command(line: &TypedFlags) -> Command {
    let with = |candidates: Candidates| {
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
    let of_config: [(&str, Candidates); 3] =
        [("get", effective_key_candidates), ("set", key_candidates), ("unset", own_key_candidates)];
    for (name, candidates) in of_config {
        command = command.mut_subcommand("config", |config| {
            config.mut_subcommand(name, |sub| completed(sub, "key", with(candidates)))
        });
    }
    command = command.mut_subcommand("config", |config| {
        config.mut_subcommand("set", |set| completed(set, "value", with(value_candidates)))
    });
    let of_model: [(&str, Candidates); 3] =
        [("get", download_candidates), ("remove", downloaded_candidates), ("serve", downloaded_candidates)];
    for (name, candidates) in of_model {
        command = command.mut_subcommand("model", |model| {
            model.mut_subcommand(name, |sub| completed(sub, "name", with(candidates)))
        });
    }
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
    without_inapplicable(command)
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

/// Returns a candidate with a description, unless that is empty or only repeats the name.
fn candidate(name: impl Into<OsString>, help: &str) -> CompletionCandidate {
    let name = name.into();
    let help: String = neutralize_line(help).chars().take(TITLE_CHARS_MAX).collect();
    let says_more = !help.trim().is_empty() && name != help.as_str();
    CompletionCandidate::new(name).help(says_more.then(|| help.into()))
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

/// Returns the keys of the config whose names are fixed, and those that are set.
fn key_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let fixed = KEYS.iter().filter(|key| !key.pattern.contains(&"*"));
    let mut keys: BTreeSet<String> = fixed.map(|key| key.pattern.join(".")).collect();
    keys.insert("model".to_owned());
    let settings = line.settings();
    keys.extend(settings.iter().flat_map(|settings| settings.config.entries.keys().map(KeyPath::to_string)));
    keys.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the keys that have a value.
fn effective_key_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let mut keys: BTreeSet<String> = settings.config.entries.keys().map(KeyPath::to_string).collect();
    keys.extend(settings.model.is_some().then(|| "model".to_owned()));
    keys.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the keys that the user's config file sets.
fn own_key_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let file = settings.config.own_file.as_path();
    let is_own = |origin: &ConfigOrigin| matches!(origin, ConfigOrigin::File { path, .. } if **path == *file);
    let own = settings.config.entries.iter().filter(|(_, entry)| entry.origins.iter().any(is_own));
    let mut keys: BTreeSet<String> = own.map(|(key, _)| key.to_string()).collect();
    if keys.iter().any(|key| key.starts_with("model.")) {
        keys.insert("model".to_owned());
    }
    keys.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the values of the key on the line, if they are words of a list, hosts or models.
fn value_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(key) = &line.key else { return Vec::new() };
    match key.to_string().as_str() {
        "model" => return model_candidates(line),
        "connection.host" => return host_candidates(line),
        "profile" => return Profile::ALL.iter().map(|profile| candidate(profile.as_str(), "")).collect(),
        _ => {}
    }
    let words: &[&str] = match find_key(key).map(|key| key.kind) {
        Some(ValueKind::Text(TextKind::Word { words, .. })) => words,
        Some(ValueKind::Switch) => &["true", "false"],
        Some(
            ValueKind::Text(_) | ValueKind::Integer { .. } | ValueKind::Number { .. } | ValueKind::List(_),
        )
        | None => &[],
    };
    words.iter().map(CompletionCandidate::new).collect()
}

/// Returns the models that can be downloaded, and the program that runs them.
fn download_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let models = LocalModels::new(&settings);
    let models = models.catalog.models().iter().map(|model| model.name.as_str());
    models.chain([SERVER_NAME]).map(|name| candidate(name, "")).collect()
}

/// Returns the models that are downloaded.
fn downloaded_candidates(line: &TypedFlags) -> Vec<CompletionCandidate> {
    let Some(settings) = line.settings() else { return Vec::new() };
    let models = LocalModels::new(&settings);
    models.installed().map(|model| candidate(model.name.as_str(), "")).collect()
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

    use super::{
        TypedFlags, candidate, command, hosts_after_comma, is_plain, matching, script, value_candidates,
    };

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
    fn a_description_that_repeats_the_name_is_left_out() {
        assert!(candidate("web1", "web1").get_help().is_none());
        assert!(candidate("web1", "10.0.0.1").get_help().is_some());
        let line = ["sysop", "policy", "check", "--dialect", ""].map(Into::into).to_vec();
        let last = line.len() - 1;
        let mut command = command(&TypedFlags::default());
        let dialects = clap_complete::engine::complete(&mut command, line, last, None).unwrap();
        let described = dialects.into_iter().filter(|dialect| dialect.get_help().is_some());
        assert_eq!(names(described.collect()), ["sh", "csh"]);
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
        let expected =
            TypedFlags { config: Some("c.toml".into()), file: Some("book.toml".into()), key: None };
        assert_eq!(TypedFlags::of(&line), expected);
        let line = ["sysop", "config", "set", "hosts.web1.approve", ""].map(Into::into);
        assert_eq!(TypedFlags::of(&line).key, Some("hosts.web1.approve".into()));
    }

    #[test]
    fn values_of_a_key_are_the_words_that_it_takes() {
        let values = |key: &str| {
            names(value_candidates(&TypedFlags { key: Some(key.into()), ..TypedFlags::default() }))
        };
        assert_eq!(values("approve"), ["auto", "ask", "each", "never"]);
        assert_eq!(values("hosts.web1.approve"), ["auto", "ask", "each", "never"]);
        assert_eq!(values("mouse"), ["true", "false"]);
        assert_eq!(values("max_iterations"), [""; 0]);
        assert!(values("profile").contains(&"full".to_owned()));
    }

    #[test]
    fn every_completer_has_its_argument() {
        command(&TypedFlags::default()).debug_assert();
    }

    #[test]
    fn only_flags_that_apply_are_completed() {
        let complete = |line: &[&str]| {
            let arguments: Vec<_> = ["sysop"].iter().chain(line).map(Into::into).collect();
            let last = arguments.len() - 1;
            let mut command = command(&TypedFlags::default());
            names(clap_complete::engine::complete(&mut command, arguments, last, None).unwrap())
        };
        assert_eq!(complete(&["exec", "--ho"]), ["--host"]);
        assert_eq!(complete(&["--ho"]), ["--host"]);
        assert_eq!(complete(&["sessions", "list", "--ho"]), ["--host"]);
        assert_eq!(complete(&["mcp", "serve", "--ho"]), ["--host"]);
        for line in [&["sessions", "show", "--ho"][..], &["approve", "--ho"], &["man", "--conf"]] {
            assert_eq!(complete(line), [""; 0], "{line:?}");
        }
        assert_eq!(complete(&["sessions", "show", "--conf"]), ["--config"]);
    }

    #[test]
    fn the_script_for_bash_joins_words() {
        let script = String::from_utf8(script(clap_complete::Shell::Bash).unwrap()).unwrap();
        assert!(script.contains("-F _sysop sysop") && script.contains("\n_sysop() {"), "{script}");
    }
}
