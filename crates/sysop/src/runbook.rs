//! Runbooks: routines with steps. They can be run without a model, created from sessions, and checked.
//!
//! A step is subject to the policy in effect when it runs. A recorded approval is never replayed.

mod call;
mod check;
mod export;
mod judge;
mod observe;
mod plan;
mod run;
mod system_check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use sysop_core::id::SessionId;
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::ui_text::{counted, is_local_host};

use crate::app::{Storage, artifacts};
use crate::cli::{RunArguments, RunbookExportArguments};
use crate::commands;
use crate::config::{Routine, display_path};
use crate::exit::{CommandError, Exit};
use crate::sessions::{SessionRecord, most_recent, read_record, resolve_id};
use crate::settings::{HostChoice, Settings};
use export::{ExportOptions, RunbookDraft};
use plan::RunbookPlan;
use run::{RunRange, RunbookRun};

pub(crate) use check::check;

/// A routine with the values for one run.
#[derive(Debug, Clone)]
pub(crate) struct Runbook {
    pub(crate) name: String,
    pub(crate) routine: Routine,
    pub(crate) values: BTreeMap<String, String>,
    /// The run's command line without its flags, for quoting in hints.
    pub(crate) invocation: String,
}

/// Runs a routine, or prints its plan.
pub(crate) fn run(mut settings: Settings, arguments: &RunArguments) -> Result<Exit> {
    settings.require_runnable()?;
    if let Some(file) = &arguments.file {
        settings.routines = check::routines_of(file)?;
    }
    let Some(name) = arguments.routine.as_deref() else { return Err(no_name(&settings).into()) };
    let routine = settings.routine(name)?.clone();
    let place = arguments.file.clone().unwrap_or_else(|| settings.config.own_file.clone());
    refuse_faults(name, &routine, &place)?;
    let usage = |error: &dyn std::fmt::Display| CommandError::usage(error.to_string());
    if routine.steps.is_empty() && !arguments.plan {
        if arguments.from.is_some() || arguments.undo {
            return Err(
                CommandError::usage("this routine is one command; --from and --undo need steps").into()
            );
        }
        let command = routine.render(&arguments.values).map_err(|error| usage(&error))?;
        return crate::wait_for(commands::routine(settings, name, command));
    }
    let (values, missing) = routine.known_values(&arguments.values).map_err(|error| usage(&error))?;
    let flags = flags(&settings, arguments.file.as_deref());
    let book = Runbook {
        name: name.to_owned(),
        routine,
        values,
        invocation: invocation(&flags, name, &arguments.values),
    };
    let last = book.routine.steps.len().max(1);
    if let Some(from) = arguments.from.filter(|from| *from > last) {
        let why = format!("there is no step {from}; the last step is {last}");
        return Err(CommandError::usage(why).into());
    }
    if arguments.plan {
        let mut plan = RunbookPlan::new(&settings, &book, &missing, arguments.from, arguments.undo)?;
        crate::wait_for(observe::observe(settings, &mut plan))?;
        return crate::emit(plan.to_text().as_bytes());
    }
    if let Some(error) = missing.first() {
        return Err(usage(error).into());
    }
    let range = match (arguments.undo, arguments.from) {
        (true, from) => RunRange::Undo { from: from.unwrap_or(last) },
        (false, from) => RunRange::Steps { from: from.unwrap_or(1) },
    };
    let hosts = run::step_hosts(&book.routine.steps, &settings)?;
    let own = settings.host.to_string();
    let others = hosts.into_iter().filter(|host| host.to_string() != own).collect();
    let sequence = RunbookRun::new(book, range, &settings)?;
    crate::wait_for(commands::runbook(settings, name, Box::new(sequence), others))
}

/// Lists the routines on standard error. Returns the error about a run without the name of one.
fn no_name(settings: &Settings) -> CommandError {
    if settings.routines.is_empty() {
        let file = display_path(&settings.config.own_file);
        return CommandError::usage(format!("there are no routines; add one to {file}"));
    }
    let width = settings.routines.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    for (name, routine) in &settings.routines {
        let line = format!("{name:width$}  {}", routine.description);
        crate::tell(&neutralize_line(line.trim_end()));
    }
    CommandError::usage("no routine given; name one of the above, as in `sysop run NAME`")
}

/// Returns the flags of a run that another run needs to go on with it, each with a space behind it.
pub(crate) fn flags(settings: &Settings, file: Option<&Path>) -> String {
    let file = file.map(|file| format!("--file {} ", shell_words::quote(&file.to_string_lossy())));
    let host = match &settings.host {
        HostChoice::Local => String::new(),
        host @ (HostChoice::Ssh(_) | HostChoice::Fleet(_)) => host_flag(settings, &host.to_string()),
    };
    format!("{}{host}{}", file.unwrap_or_default(), commands::approve_flag(settings))
}

/// Returns the flag that runs a command on the hosts of a session, with a space behind it. Empty if the command runs
/// there without the flag, or if the hosts are not known.
pub(crate) fn host_flag(settings: &Settings, hosts: &str) -> String {
    if hosts.is_empty() || (is_local_host(hosts) && settings.config.entry("connection.host").is_none()) {
        return String::new();
    }
    format!("--host {} ", shell_words::quote(&hosts.replace(", ", ",")))
}

/// Returns the command line of a run. `flags` are quoted and end with a space, unless empty.
pub(crate) fn invocation(flags: &str, routine: &str, values: &[(String, String)]) -> String {
    let values = values.iter().map(|(name, value)| format!(" {name}={}", shell_words::quote(value)));
    format!("sysop run {flags}{}{}", shell_words::quote(routine), values.collect::<String>())
}

fn refuse_faults(name: &str, routine: &Routine, place: &Path) -> Result<(), CommandError> {
    let Some(fault) = routine.faults.first() else { return Ok(()) };
    let more = match routine.faults.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let file = display_path(place);
    Err(CommandError::usage(format!(
        "the routine {name:?} cannot run: {file}:{}: {}{more}; run `sysop runbook check {file}` to see all errors",
        fault.line, fault.message
    )))
}

/// Creates a runbook from a session and prints it, or writes it to a file.
pub(crate) async fn export(settings: Settings, arguments: RunbookExportArguments) -> Result<Exit> {
    let storage = Storage::open(&settings).await?;
    let record = read(&storage, arguments.session.as_deref()).await;
    storage.close().await;
    let (id, record) = record?;
    let options = ExportOptions {
        name: arguments.name.clone(),
        variables: arguments.variables.clone(),
        finds_variables: !arguments.no_variables,
        keeps_reads: arguments.all,
        keeps_failures: arguments.failed,
        matches_output: arguments.match_output,
        date: jiff::Timestamp::from_millisecond(sysop_driver::system_clock().now().0)
            .map(|now| now.strftime("%Y-%m-%d").to_string())
            .unwrap_or_default(),
        policy: i64::try_from(settings.config.rules.len()).unwrap_or(0),
        artifacts: artifacts(&settings.folders.data),
    };
    let mut draft = RunbookDraft::new(&id, &record, &options)
        .map_err(|why| CommandError::failed(format!("{why}; see `sysop sessions show {}`", id.as_str())))?;
    let asks = !arguments.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    if asks {
        draft.confirm(&mut io::stdin().lock(), &mut io::stderr().lock())?;
    }
    let text = draft.write(arguments.format);
    if tells_notes(arguments.output.is_some(), io::stdout().is_terminal()) {
        for note in draft.notes() {
            crate::tell(&format!("note: {note}"));
        }
    }
    match &arguments.output {
        Some(path) => {
            write_new(path, text.as_bytes())?;
            let steps = counted(draft.routine.steps.len() as u64, "step");
            crate::tell(&format!("wrote {} ({steps})", display_path(path)));
            Ok(Exit::Done)
        }
        None => crate::emit(text.as_bytes()),
    }
}

/// Returns true if notes are printed besides the runbook, which has them as comments.
fn tells_notes(is_in_file: bool, is_on_terminal: bool) -> bool {
    is_in_file || !is_on_terminal
}

async fn read(storage: &Storage, session: Option<&str>) -> Result<(SessionId, SessionRecord), CommandError> {
    let store = storage.store();
    let of = |error: crate::sessions::SessionsError| match error.exit_code() {
        2 => CommandError::usage(error.to_string()),
        _ => CommandError::failed(error.to_string()),
    };
    let id = match session {
        Some(session) => resolve_id(store.as_ref(), session).await,
        None => most_recent(store.as_ref()).await,
    };
    let id = id.map_err(of)?;
    let record = read_record(store.as_ref(), &id).await.map_err(of)?;
    Ok((id, record))
}

/// Creates a file. Fails if the file already exists.
fn write_new(path: &PathBuf, bytes: &[u8]) -> Result<()> {
    let failed = |error: io::Error| {
        let why = if error.kind() == io::ErrorKind::AlreadyExists {
            "the file exists; remove it or choose another one".to_owned()
        } else {
            error.to_string()
        };
        CommandError::failed(format!("cannot write {}: {why}", display_path(path)))
    };
    let mut file = std::fs::File::options().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    Ok(())
}

/// Formats text for users, on one line.
fn shown(text: &str) -> String {
    neutralize(text).into_owned()
}
