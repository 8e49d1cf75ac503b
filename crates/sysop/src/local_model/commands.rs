//! `sysop model list|remove|serve`, and the supervisor.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use secrecy::ExposeSecret as _;
use sysop_core::text::neutralize;
use sysop_local::{IDLE_MAX, SERVER_NAME, Supervisor, SupervisorError};

use super::get::human_bytes;
use super::{GetConsent, LocalModels, absolute_path, download_model, runtime_folder, servers};
use crate::cli::ModelCommand;
use crate::config::{create_private_folder, display_path, replace_private_file};
use crate::exit::{CommandError, Exit};
use crate::fit_lines::fit_lines;
use crate::settings::Settings;

/// Indentation of a continued line.
const WRAP_INDENT: usize = 2;
/// Minimum width of the last column of a table in which its text continues.
const LAST_COLUMN_MIN: usize = 24;

/// Runs a subcommand of `sysop model`.
pub(crate) async fn run(settings: &Settings, command: ModelCommand) -> Result<Exit> {
    match command {
        ModelCommand::List => {
            let columns = io::stdout().is_terminal().then(sysop_repl::terminal_width);
            crate::emit(list(settings, columns).as_bytes())
        }
        ModelCommand::Get { name, yes } => {
            let consent = if yes { GetConsent::Given } else { GetConsent::Ask };
            download_model(settings, name.as_deref(), consent).await
        }
        ModelCommand::Remove { name } => remove(settings, &name),
        ModelCommand::Serve { name } => serve(settings, name).await,
        ModelCommand::Supervise => supervise(settings).await,
    }
}

/// Lists the models, with one row each. If a width is given, the text fits it.
fn list(settings: &Settings, columns: Option<usize>) -> String {
    let models = LocalModels::new(settings);
    let mut rows = vec![["NAME", "SIZE", "LICENSE", "CONTEXT", "STATE", "ABOUT"].map(str::to_owned)];
    for model in models.catalog.models() {
        let size = model.pin.size.map_or("?".to_owned(), human_bytes);
        let license = if model.license.is_empty() { "unknown" } else { &model.license };
        let part = models.folder.part_bytes(model);
        let state = match (models.folder.installed(model), &model.pin.sha256, model.pin.size) {
            (Some(_), ..) => "downloaded".to_owned(),
            (None, None, _) => "sha256 unknown".to_owned(),
            (None, Some(_), Some(size)) if part > 0 && size > 0 => {
                format!("{}% downloaded", part * 100 / size)
            }
            (None, Some(_), _) => "-".to_owned(),
        };
        let window = model.context_window.map_or("?".to_owned(), |window| window.to_string());
        rows.push([model.name.clone(), size, license.to_owned(), window, state, model.about.clone()]);
    }
    let mut text = table(&rows, columns);
    let server = match models.server() {
        Some(server) => display_path(&server.program),
        None => format!("not installed; run `sysop model get {SERVER_NAME}`"),
    };
    let mut notes = format!("\n{SERVER_NAME}: {server}\n");
    for error in &models.errors {
        writeln!(notes, "warning: {error}").expect("writing to a string cannot fail");
    }
    text.push_str(&fit(&neutralize(&notes), columns, WRAP_INDENT));
    text
}

/// Aligns the columns of a table. Text of the last column continues below its beginning if there is room, and otherwise
/// in rows of its own.
fn table(rows: &[[String; 6]], columns: Option<usize>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
            write!(text, "{cell:width$}  ").expect("writing to a string cannot fail");
        }
        writeln!(text, "{}", row[5]).expect("writing to a string cannot fail");
    }
    let last = widths.iter().sum::<usize>() + 2 * widths.len();
    let has_room = columns.is_some_and(|columns| last + LAST_COLUMN_MIN <= columns);
    fit(&neutralize(&text), columns, if has_room { last } else { WRAP_INDENT })
}

fn fit(text: &str, columns: Option<usize>, indent: usize) -> String {
    match columns {
        Some(columns) => format!("{}\n", fit_lines(text, columns, |_| indent)),
        None => text.to_owned(),
    }
}

fn remove(settings: &Settings, name: &str) -> Result<Exit> {
    let models = LocalModels::new(settings);
    let name = name.strip_prefix("local/").unwrap_or(name);
    let freed = models.folder.remove(name).map_err(|error| CommandError::failed(error.to_string()))?;
    if freed == 0 {
        let why = format!("{name:?} is not downloaded; run `sysop model list`");
        return Err(CommandError::usage(why).into());
    }
    crate::tell(&format!("removed {name} ({})", human_bytes(freed)));
    Ok(Exit::Done)
}

async fn serve(settings: &Settings, name: Option<String>) -> Result<Exit> {
    let models = LocalModels::new(settings);
    let first = || models.installed().next().map(|model| model.name.clone());
    let name = name.map(|name| name.strip_prefix("local/").unwrap_or(&name).to_owned()).or_else(first);
    let name = name.ok_or_else(|| CommandError::usage("no model is downloaded; run `sysop model get`"))?;
    let servers = servers(settings);
    let mut stops = stop_signals()?;
    let lease = tokio::select! {
        lease = servers.lease(&name) => lease.map_err(CommandError::failed)?,
        exit = stops.wait() => return Ok(exit),
    };
    let key = lease.key.expose_secret();
    let (address, context) = (&lease.base_url, lease.context);
    let file = KeyFile::write(&runtime_folder(settings).join("model.key"), key)?;
    let mut lines =
        format!("Serving {name} at {address} (context {context} tokens). Press Ctrl+C to stop.\n");
    if io::stdout().is_terminal() {
        lines.push_str(&format!(
            "export OPENAI_BASE_URL={address} OPENAI_API_KEY={key} OPENAI_MODEL={name}\n"
        ));
    } else {
        lines.push_str(&format!("key file {}\n", display_path(file.0.as_path())));
    }
    crate::emit(lines.as_bytes())?;
    Ok(stops.wait().await)
}

/// A file that contains the server's key, removed on drop.
struct KeyFile(std::path::PathBuf);

impl KeyFile {
    fn write(path: &Path, key: &str) -> Result<Self> {
        replace_private_file(path, format!("{key}\n").as_bytes())
            .with_context(|| format!("cannot write {}", display_path(path)))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // the key is useless without the server
    }
}

async fn supervise(settings: &Settings) -> Result<Exit> {
    // Neither Ctrl+C nor closing the first client's terminal may stop the server, because others use it.
    rustix::process::setsid().context("this command is for internal use")?;
    let runtime_folder = runtime_folder(settings);
    create_private_folder(&runtime_folder)
        .with_context(|| format!("cannot create {}", display_path(&runtime_folder)))?;
    let models = LocalModels::new(settings);
    let supervisor = Supervisor {
        runtime_folder,
        catalog: models.catalog,
        folder: models.folder,
        path: absolute_path(settings.environment.value("PATH")),
        launcher: std::env::current_exe().ok(),
        idle: IDLE_MAX,
    };
    let mut stops = stop_signals()?;
    let stopped = async {
        stops.wait().await;
    };
    match supervisor.run(stopped).await {
        Ok(()) | Err(SupervisorError::Running) => Ok(Exit::Done),
        Err(error) => Err(CommandError::failed(error.to_string()).into()),
    }
}

struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    async fn wait(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

fn stop_signals() -> Result<StopSignals> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).context("cannot listen for signals");
    Ok(StopSignals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
    })
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_table_breaks_between_words_and_below_its_last_column_if_there_is_room() {
        let row = |cells: [&str; 6]| cells.map(str::to_owned);
        let rows = [
            row(["NAME", "SIZE", "LICENSE", "CONTEXT", "STATE", "ABOUT"]),
            row(["tiny", "1 GB", "MIT", "4096", "-", "answers short questions about files"]),
        ];
        let narrow = table(&rows, Some(48));
        assert!(
            narrow.ends_with("tiny  1 GB  MIT      4096     -      answers\n  short questions about files\n"),
            "{narrow}"
        );
        let wide = table(&rows, Some(66));
        let last = wide.lines().last().unwrap();
        assert_eq!(last.find(|c: char| c != ' '), wide.find("ABOUT"), "{wide}");
        assert_eq!(table(&rows, None).lines().count(), 2);
    }
}
