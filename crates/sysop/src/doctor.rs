//! `sysop doctor`: reports which setup is in use and why, and what is missing, with a hint for each problem.
//!
//! Changes nothing except for creating the data directory. Checks that need other crates are passed in as a
//! [`DoctorProbe`].

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::OLLAMA;
use sysop_core::text::neutralize;
use sysop_core::ui_text::{counted, split_hint};
use sysop_host::SandboxSupport;
use sysop_provider::NO_REMOTE_MACHINE;

use crate::config::{DEMO, PROVIDERS, display_path, trust_file};
use crate::exit::{CommandError, Exit};
use crate::fit_lines::fit_lines;
use crate::local_model::LocalModels;
use crate::select_model::{ModelChoice, NoModelFound, is_unnamed};
use crate::settings::{ColorMode, HostChoice, ProviderSettings, SINGLE_REMOTE_MACHINE, Settings, SshTarget};
use crate::tool_calling_file::ToolCallingFile;

mod hosts;
mod sandbox;

/// Checks that need other crates.
#[async_trait]
pub(crate) trait DoctorProbe: Send + Sync {
    /// Opens the database in the data directory and summarizes its content.
    async fn database(&self, data: &Path) -> Result<String, String>;

    async fn models(&self, provider: &str, settings: &ProviderSettings) -> Result<Vec<String>, String>;

    /// Connects to a machine as a task would, and describes it.
    async fn host(&self, target: &SshTarget) -> Result<String, String>;
}

const PROVIDER_TIME_MAX: Duration = Duration::from_secs(5);

/// Timeout for `ssh -V`.
const VERSION_TIME_MAX: Duration = Duration::from_secs(2);

const MODELS_SHOWN_MAX: usize = 5;

/// Column of a line's text, after its status and its subject.
const TEXT_COLUMN: usize = 16;
/// Column of a hint's text, after its arrow.
const HINT_COLUMN: usize = TEXT_COLUMN + 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckStatus {
    Good,
    /// The subject of the check is not required, or works but could be improved.
    Note,
    /// The problem prevents tasks from running.
    Bad,
}

#[derive(Debug, Default)]
struct DoctorReport {
    /// Lines about problems, which come first.
    problems: String,
    text: String,
    bad: usize,
    /// Number of mistakes in the config that prevent no task.
    config_notes: usize,
    /// True if the server cannot run the selected model.
    lacks_model: bool,
    /// True if nothing says the name of the model, which the server may need.
    lacks_name: bool,
}

impl DoctorReport {
    fn line(&mut self, state: CheckStatus, what: &str, text: &str, hint: Option<&str>) {
        let word = match state {
            CheckStatus::Good => "ok  ",
            CheckStatus::Note => "note",
            CheckStatus::Bad => "FAIL",
        };
        self.bad += usize::from(state == CheckStatus::Bad);
        let lines = if state == CheckStatus::Bad { &mut self.problems } else { &mut self.text };
        let text = neutralize(text);
        writeln!(lines, "{word}  {what:<9} {text}").expect("writing to a string cannot fail");
        if let Some(hint) = hint {
            let hint = neutralize(hint);
            writeln!(lines, "{:TEXT_COLUMN$}-> {hint}", "").expect("writing to a string cannot fail");
        }
    }

    fn good(&mut self, what: &str, text: &str) {
        self.line(CheckStatus::Good, what, text, None);
    }

    /// Adds a good line about the selected model at an offset, unless its server lacks it or nothing says its name.
    fn add_model(&mut self, at: usize, text: &str) {
        if !self.lacks_model && !self.lacks_name {
            let rest = self.text.split_off(at);
            self.good("model", text);
            self.text.push_str(&rest);
        }
    }
}

/// Runs all checks. Returns the report for standard output, and the exit code.
pub(crate) async fn examine(
    settings: &Settings,
    pick: Result<ModelChoice, NoModelFound>,
    probe: &dyn DoctorProbe,
) -> (String, Exit) {
    let mut report = DoctorReport::default();
    report.good("sysop", concat!("version ", env!("CARGO_PKG_VERSION")));
    config(settings, &mut report);
    data(settings, probe, &mut report).await;
    let mut selected = None;
    let model = match &pick {
        Ok(pick) => {
            selected = Some((report.text.len(), format!("{} ({})", pick.model, pick.reason)));
            Some(&pick.model)
        }
        Err(none) => {
            let text = none.to_string();
            let (first, hint) = split_hint(&text);
            report.line(CheckStatus::Bad, "model", first, hint);
            None
        }
    };
    remembered(settings, model, &mut report);
    providers(settings, model, probe, &mut report).await;
    if let Some((at, text)) = selected {
        report.add_model(at, &text);
    }
    programs(settings, &mut report).await;
    surroundings(settings, &mut report);
    sandbox::sandbox(settings, SandboxSupport::of_kernel(), &mut report);
    hosts::hosts(settings, probe, &mut report).await;
    finish(report)
}

/// Returns the report for settings that fail to load.
pub(crate) fn unusable(failure: &CommandError) -> (String, Exit) {
    let mut report = DoctorReport::default();
    let (text, hint) = split_hint(&failure.message);
    report.line(CheckStatus::Bad, "config", text, hint);
    finish(report)
}

fn finish(report: DoctorReport) -> (String, Exit) {
    let notes = match report.config_notes {
        0 => String::new(),
        notes => format!(" {} about the config above.", counted(notes as u64, "note")),
    };
    let (summary, exit) = match report.bad {
        0 if report.lacks_name => {
            let text = "Tasks can run if the server needs no model name. See the note about the model above.";
            (format!("{text}{notes}"), Exit::Done)
        }
        0 if report.config_notes > 0 => (format!("Tasks can run.{notes}"), Exit::Done),
        0 => ("No problems found.".to_owned(), Exit::Done),
        1 => ("1 problem found. Fix it and run `sysop doctor` again.".to_owned(), Exit::Failed),
        many => (format!("{many} problems found. Fix them and run `sysop doctor` again."), Exit::Failed),
    };
    (format!("{}{}{summary}\n", report.problems, report.text), exit)
}

/// Fits a report to a terminal. A continued line stands below its text.
pub(crate) fn fit(report: &str, columns: usize) -> String {
    let indent = |line: &str| match line {
        hint if hint.starts_with("  ") => HINT_COLUMN,
        line if ["ok ", "note ", "FAIL "].iter().any(|word| line.starts_with(word)) => TEXT_COLUMN,
        _ => 0,
    };
    format!("{}\n", fit_lines(report, columns, indent))
}

fn config(settings: &Settings, report: &mut DoctorReport) {
    if settings.config.files.is_empty() {
        let text = format!("not found (expected at {})", display_path(&settings.config.own_file));
        report.line(CheckStatus::Note, "config", &text, None);
    }
    for file in &settings.config.files {
        report.good("config", &display_path(file));
    }
    for error in &settings.config.denials {
        report.line(CheckStatus::Bad, "config", &error.to_string(), None);
    }
    for warning in settings.warnings() {
        report.config_notes += 1;
        report.line(CheckStatus::Note, "config", &warning.to_string(), None);
    }
    if let Some(untrusted) = settings.untrusted() {
        let text =
            format!("{} is not trusted; it can only make settings stricter", display_path(&untrusted.path));
        let hint = if untrusted.refused {
            let answers = display_path(&trust_file(&settings.folders.data));
            format!("you declined to trust this file; to be asked again, remove its entry from {answers}")
        } else {
            "run `sysop chat` in this directory to trust it".to_owned()
        };
        report.line(CheckStatus::Note, "config", &text, Some(&hint));
    }
    for problem in &settings.problems {
        let (text, hint) = split_hint(&problem.message);
        report.line(CheckStatus::Bad, "config", text, hint);
    }
}

async fn data(settings: &Settings, probe: &dyn DoctorProbe, report: &mut DoctorReport) {
    let folder = &settings.folders.data;
    match crate::config::check_private_folder(folder) {
        Ok(()) => report.good("data", &format!("{} is writable", display_path(folder))),
        Err(error) => {
            let text = format!("cannot write to {}: {error}", display_path(folder));
            return report.line(CheckStatus::Bad, "data", &text, Some(data_hint(error.kind())));
        }
    }
    match probe.database(folder).await {
        Ok(what) => report.good("database", &what),
        Err(why) => {
            let damaged = format!("move the damaged files out of {} and try again", display_path(folder));
            let (text, hint) = split_hint(&why);
            report.line(CheckStatus::Bad, "database", text, Some(hint.unwrap_or(&damaged)));
        }
    }
}

fn data_hint(error: ErrorKind) -> &'static str {
    if matches!(error, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        "free some space, or use another disk, such as memory: XDG_DATA_HOME=/dev/shm/sysop"
    } else {
        "make it writable, or set XDG_DATA_HOME to a writable directory"
    }
}

/// Reports how the selected model calls tools, if that was found out and saved earlier.
fn remembered(settings: &Settings, selected: Option<&ModelRef>, report: &mut DoctorReport) {
    let Some(model) = selected else { return };
    let name = model.to_string();
    for (key, of_model) in ToolCallingFile::new(&settings.folders.data).reports() {
        if key.split(' ').next() == Some(name.as_str()) {
            report.good("tools", &format!("{key}: {of_model}; {}", of_model.server));
        }
    }
}

/// Returns a hint if a setting that the provider needs is missing, or `None` if nothing is missing.
pub(crate) fn missing(
    provider: &str,
    settings: &ProviderSettings,
    host: &HostChoice,
) -> Option<&'static str> {
    let has_key = settings.api_key.is_some();
    match provider {
        "openai" if !has_key && settings.base_url.is_none() => Some("set OPENAI_API_KEY or LLM_BASE_URL"),
        "gemini" if !has_key => Some("set GEMINI_API_KEY"),
        "anthropic" if !has_key => Some("set ANTHROPIC_API_KEY"),
        "vertex" if settings.project.is_none() => Some("set `project` in [providers.vertex]"),
        "ollama+ssh" => match host {
            HostChoice::Local => Some(NO_REMOTE_MACHINE),
            HostChoice::Fleet(_) => Some(SINGLE_REMOTE_MACHINE),
            HostChoice::Ssh(_) => None,
        },
        _ => None,
    }
}

/// Returns true for an Ollama that nobody configured. It is asked because it may run, so it is no problem if it does
/// not.
pub(crate) fn may_run_unconfigured(provider: &str, settings: &ProviderSettings) -> bool {
    provider == OLLAMA.name && settings.base_url.is_none()
}

async fn providers(
    settings: &Settings,
    selected: Option<&ModelRef>,
    probe: &dyn DoctorProbe,
    report: &mut DoctorReport,
) {
    if selected.is_some_and(|model| model.provider == DEMO) {
        report.good("provider", "demo: scripted, built in");
    }
    let asked = PROVIDERS.iter().map(|provider| async move {
        let of_provider = settings.providers.get(*provider).cloned().unwrap_or_default();
        let answer = match missing(provider, &of_provider, &settings.host) {
            Some(missing) => Err((missing.to_owned(), ProviderAnswer::NotAsked)),
            None => match tokio::time::timeout(PROVIDER_TIME_MAX, probe.models(provider, &of_provider)).await
            {
                Ok(Ok(models)) => Ok(models),
                Ok(Err(why)) => Err((why, ProviderAnswer::Bad)),
                Err(_) => {
                    Err((format!("timed out after {} s", PROVIDER_TIME_MAX.as_secs()), ProviderAnswer::Bad))
                }
            },
        };
        (*provider, of_provider, answer)
    });
    let mut unused = Vec::new();
    for (provider, of_provider, answer) in join_all(asked).await {
        let needed = selected.is_some_and(|model| model.provider == provider);
        let state = if needed { CheckStatus::Bad } else { CheckStatus::Note };
        let key =
            of_provider.api_key_origin.as_ref().map(|origin| format!(" (key: {origin})")).unwrap_or_default();
        match answer {
            Err((_, ProviderAnswer::NotAsked)) if !needed && key.is_empty() => unused.push(provider),
            Err(_) if !needed && may_run_unconfigured(provider, &of_provider) => unused.push(provider),
            Ok(models) => {
                let text = format!("{provider}: reachable{key}; {}", named(&models));
                report.good("provider", &text);
                if let Some(model) = selected.filter(|model| needed && !offers(&models, &model.name)) {
                    if is_unnamed(settings, model) {
                        unnamed_model(model, &models, report);
                    } else {
                        missing_model(model, &models, report);
                    }
                }
            }
            Err((missing, ProviderAnswer::NotAsked)) => {
                let text = format!("{provider}: not configured{key}");
                report.line(state, "provider", &text, Some(missing.as_str()));
            }
            Err((why, ProviderAnswer::Bad)) => {
                // Most problems end with what to do.
                let (what, next) = split_hint(&why);
                let usual = hint_for(provider, of_provider.base_url.as_deref());
                let hint = next.unwrap_or(&usual);
                report.line(
                    state,
                    "provider",
                    &format!("{}{key}", with_provider(provider, what)),
                    Some(hint),
                );
            }
        }
    }
    if !unused.is_empty() {
        let hint = selected.is_none().then_some("run `sysop init` to set one up");
        report.line(CheckStatus::Note, "provider", &format!("not configured: {}", unused.join(", ")), hint);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProviderAnswer {
    NotAsked,
    Bad,
}

fn hint_for(provider: &str, base_url: Option<&str>) -> String {
    match (provider, base_url) {
        ("ollama+ssh", None) => "check the host, and that Ollama is running on it".to_owned(),
        ("ollama", None) => "start it with `ollama serve`, or set OLLAMA_HOST".to_owned(),
        (_, Some(_)) => {
            format!("check `base_url` and the API key in [providers.{provider}]; see `sysop config show`")
        }
        (_, None) => "check the API key and the network".to_owned(),
    }
}

/// Returns true if the server's list has a model of this name, with or without a tag.
pub(crate) fn offers(models: &[String], name: &str) -> bool {
    models.iter().any(|model| model == name || model.split(':').next() == Some(name))
}

/// Reports that a server does not list the model. An Ollama cannot run such a model. Other servers may know more names
/// than they list, and a server with a single model may accept any name, so a task can run.
fn missing_model(model: &ModelRef, models: &[String], report: &mut DoctorReport) {
    let text = format!("{} does not list the model {}", model.provider, model.name);
    let (state, hint) = match (model.provider.as_str(), models.first()) {
        ("ollama", _) => (CheckStatus::Bad, format!("ollama pull {}", model.name)),
        (provider, Some(first)) => {
            (CheckStatus::Note, format!("if it does not answer: sysop config set model {provider}/{first}"))
        }
        (_, None) => return,
    };
    report.lacks_model = state == CheckStatus::Bad;
    report.line(state, "model", &text, Some(&hint));
}

/// Reports that the user named no model. A server with a single model usually accepts any name, so a task can run.
fn unnamed_model(model: &ModelRef, models: &[String], report: &mut DoctorReport) {
    let text = "no model name: vLLM, and servers with several models, need one";
    let hint = match models {
        [] => "set LLM_DEFAULT_MODEL, or run `sysop init`".to_owned(),
        [only] => format!("sysop config set model {}/{only}", model.provider),
        [first, ..] => {
            format!("sysop config set model {}/{first}, or another of `sysop models`", model.provider)
        }
    };
    report.lacks_name = true;
    report.line(CheckStatus::Note, "model", text, Some(&hint));
}

/// Puts the provider in front of a problem that does not name it.
pub(crate) fn with_provider(provider: &str, problem: &str) -> String {
    let is_named = problem.split(' ').any(|word| word == provider);
    if is_named { problem.to_owned() } else { format!("{provider}: {problem}") }
}

/// Names the first models of a list.
pub(crate) fn named(models: &[String]) -> String {
    let display_path: Vec<&str> = models.iter().take(MODELS_SHOWN_MAX).map(String::as_str).collect();
    let more = match models.len().saturating_sub(MODELS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match display_path.as_slice() {
        [] => "no models".to_owned(),
        display_path => format!("{}{more}", display_path.join(", ")),
    }
}

async fn programs(settings: &Settings, report: &mut DoctorReport) {
    let find = |name: &str| find_program(settings, name);
    match find("bash") {
        Some(found) => report.good("bash", &display_path(&found)),
        None => {
            let hint = "install bash or add it to PATH";
            report.line(CheckStatus::Bad, "bash", "not found (needed to run commands)", Some(hint));
        }
    }
    local_models(settings, report);
    match find("git") {
        Some(found) => report.good("git", &display_path(&found)),
        None => report.line(CheckStatus::Note, "git", "not found (needed only for git tools)", None),
    }
    if let Some(found) = find("ollama") {
        report.good("ollama", &display_path(&found));
    }
    match find("ssh") {
        Some(found) => {
            let version = ssh_version(&found).await.unwrap_or_else(|| "version unknown".to_owned());
            report.good("ssh", &format!("{} ({version})", display_path(&found)));
        }
        None => report.line(CheckStatus::Note, "ssh", "not found (needed only for remote hosts)", None),
    }
}

fn local_models(settings: &Settings, report: &mut DoctorReport) {
    let models = LocalModels::new(settings);
    for error in &models.errors {
        report.line(CheckStatus::Note, "local", &error.to_string(), None);
    }
    let names: Vec<&str> = models.installed().map(|model| model.name.as_str()).collect();
    match (names.as_slice(), models.server()) {
        ([], _) => {
            report.line(CheckStatus::Note, "local", "no model downloaded", Some("run `sysop model get`"));
        }
        (names, Some(server)) => {
            report.good("local", &format!("{}; run by {}", names.join(", "), display_path(&server.program)));
        }
        (names, None) => {
            let text = format!("{}; llama-server is not installed", names.join(", "));
            report.line(CheckStatus::Note, "local", &text, Some("run `sysop model get llama-server`"));
        }
    }
}

/// Finds a program on the PATH. Ignores relative entries, because a workspace must not choose what runs.
fn find_program(settings: &Settings, name: &str) -> Option<PathBuf> {
    let path = settings.environment.value("PATH")?;
    let entries: Vec<PathBuf> = std::env::split_paths(path).filter(|entry| entry.is_absolute()).collect();
    entries.iter().find_map(|entry| which::which_in(name, Some(entry), &settings.root).ok())
}

async fn ssh_version(program: &Path) -> Option<String> {
    let output = tokio::process::Command::new(program)
        .arg("-V")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(VERSION_TIME_MAX, output).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().next().map(|line| line.chars().take(80).collect())
}

fn surroundings(settings: &Settings, report: &mut DoctorReport) {
    use std::io::IsTerminal;
    let terminal = if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        settings.environment.value("TERM").unwrap_or("unknown type")
    } else {
        "not a terminal; sysop cannot ask for approval"
    };
    let color = match settings.color {
        ColorMode::On => "colors",
        ColorMode::Off => "no colors",
    };
    report.good("terminal", &format!("{terminal}; {color}"));
}

#[cfg(test)]
mod tests;
