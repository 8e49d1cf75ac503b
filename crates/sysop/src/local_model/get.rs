//! `sysop model get`: shows what would be downloaded, asks, downloads, and installs.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use sysop_core::text::neutralize_line;
use sysop_local::download::{DownloadError, DownloadOptions, Downloaded, Progress, download};
use sysop_local::{ModelEntry, Pin, SERVER_NAME, ServerBuild};
use url::Url;

use super::LocalModels;
use crate::config::display_path;
use crate::exit::{Cancellation, CommandError, Exit};
use crate::settings::Settings;
use crate::yes_no;

/// Interval between two progress lines if the last line cannot be overwritten.
const PROGRESS_LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between two redraws of the last line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GetConsent {
    Ask,
    /// The user passed `--yes`.
    Given,
}

/// One file to download.
struct Item<'a> {
    name: String,
    about: &'a str,
    pin: &'a Pin,
    license: &'a str,
    target: PathBuf,
    /// Build of `llama-server`, if the file is its archive; `None` for a model.
    build: Option<&'a ServerBuild>,
}

/// Downloads a model, and the server if none is installed. `name` may be `llama-server`. Fails if the name is
/// unknown or the download fails, and with a [`Cancellation`] if the user declines.
pub(crate) async fn download_model(
    settings: &Settings,
    name: Option<&str>,
    consent: GetConsent,
) -> Result<Exit> {
    let models = LocalModels::new(settings);
    let items = plan(&models, name)?;
    if items.is_empty() {
        crate::tell("already downloaded; nothing to do");
        return Ok(Exit::Done);
    }
    models.folder.create().map_err(|error| CommandError::failed(error.to_string()))?;
    let options = options(settings)?;
    show(&models, &items, &options);
    if consent == GetConsent::Ask && !ask()? {
        return Err(Cancellation.into());
    }
    for item in &items {
        fetch(&models, item, &options, name).await?;
    }
    let model = items.iter().find(|item| item.build.is_none());
    if let Some(model) = model {
        crate::tell(&format!("Ready. Use it with: sysop --model local/{}", model.name));
    }
    Ok(Exit::Done)
}

/// Returns the files that are missing.
fn plan<'a>(models: &'a LocalModels, name: Option<&str>) -> Result<Vec<Item<'a>>> {
    if let Some(error) = models.errors.first() {
        return Err(CommandError::usage(error.to_string()).into());
    }
    let mut items = Vec::new();
    if name != Some(SERVER_NAME) {
        let model = find(models, name)?;
        if models.folder.installed(model).is_none() {
            items.push(model_item(models, model)?);
        }
    }
    let installed = models.server();
    let needs_server = match name {
        Some(SERVER_NAME) => !installed.is_some_and(|server| server.pinned),
        Some(_) | None => installed.is_none(),
    };
    if needs_server {
        match (server_item(models), items.is_empty() || name == Some(SERVER_NAME)) {
            (Ok(item), _) => items.push(item),
            (Err(error), true) => return Err(error),
            (Err(error), false) => crate::tell(&format!("warning: {error}")),
        }
    }
    Ok(items)
}

fn find<'a>(models: &'a LocalModels, name: Option<&str>) -> Result<&'a ModelEntry> {
    let Some(name) = name else { return Ok(models.catalog.recommended(&sysop_local::Machine::examine())) };
    let name = name.strip_prefix("local/").unwrap_or(name);
    models.catalog.model(name).ok_or_else(|| {
        let known = models.catalog.models().iter().map(|model| model.name.as_str());
        let next = match crate::config::nearest_word(name, known.chain([SERVER_NAME])) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "run `sysop model list`".to_owned(),
        };
        CommandError::usage(format!("unknown model {name:?}; {next}")).into()
    })
}

fn model_item<'a>(models: &LocalModels, model: &'a ModelEntry) -> Result<Item<'a>> {
    let target = models.folder.model_file(model).ok_or_else(|| no_hash(&model.name))?;
    let (name, about, license) = (model.name.clone(), model.about.as_str(), model.license.as_str());
    Ok(Item { name, about, pin: &model.pin, license, target, build: None })
}

fn server_item(models: &LocalModels) -> Result<Item<'_>> {
    let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let build = models.catalog.server(system, architecture).ok_or_else(|| {
        CommandError::failed(format!(
            "there is no build of {SERVER_NAME} for {system} on {architecture}; install llama.cpp so that \
             {SERVER_NAME} is on PATH"
        ))
    })?;
    let target = models.folder.server_archive(build).ok_or_else(|| no_hash(SERVER_NAME))?;
    Ok(Item {
        name: format!("{SERVER_NAME} {}", build.version),
        about: "the program that runs the model",
        pin: &build.pin,
        license: &build.license,
        target,
        build: Some(build),
    })
}

fn no_hash(name: &str) -> anyhow::Error {
    CommandError::usage(format!(
        "the SHA-256 of {name} is unknown, so it is not downloaded; set sha256 in [models.\"local/{name}\"]"
    ))
    .into()
}

fn show(models: &LocalModels, items: &[Item<'_>], options: &DownloadOptions) {
    for item in items {
        let size = item.pin.size.map_or("unknown".to_owned(), human_bytes);
        let license = if item.license.is_empty() { "unknown" } else { item.license };
        crate::tell(&format!(
            "{}: {}\n  size     {size}\n  license  {}\n  source   {}\n  sha256   {}",
            item.name,
            neutralize_line(item.about),
            neutralize_line(license),
            neutralize_line(options.source(&item.pin.url).as_str()),
            item.pin.sha256.as_deref().unwrap_or_default(),
        ));
    }
    let folder = display_path(models.folder.path());
    let free = models.folder.free_bytes().map_or("unknown".to_owned(), human_bytes);
    crate::tell(&format!("to {folder} ({free} free)"));
}

fn ask() -> Result<bool> {
    if !io::stdin().is_terminal() {
        let why = "a download needs your confirmation, but there is no terminal to ask on; pass --yes";
        return Err(CommandError { exit: Exit::ApprovalNeeded, message: why.to_owned() }.into());
    }
    Ok(yes_no::ask("Download?")? == Some(true))
}

fn options(settings: &Settings) -> Result<DownloadOptions> {
    let endpoint = settings.environment.value("HF_ENDPOINT").map(|text| {
        let usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        Url::parse(text).ok().filter(usable).ok_or_else(|| {
            let why =
                "HF_ENDPOINT is not an http:// or https:// URL; unset it, or set it to the URL of a mirror";
            CommandError::usage(why)
        })
    });
    Ok(DownloadOptions {
        hf_endpoint: endpoint.transpose()?,
        hf_token: settings.environment.value("HF_TOKEN").map(Into::into),
        ..DownloadOptions::default()
    })
}

/// Downloads and installs one file. `argument` is that of the command.
async fn fetch(
    models: &LocalModels,
    item: &Item<'_>,
    options: &DownloadOptions,
    argument: Option<&str>,
) -> Result<()> {
    let mut view = ProgressView::new(&item.name);
    let done = download(item.pin, &item.target, options, &mut |step| view.show(&step)).await;
    view.end();
    let done = done.map_err(|error| failure(&item.name, argument, &error))?;
    if done == Downloaded::Fetched {
        crate::tell(&format!("{}: sha256 is correct", item.name));
    }
    if let Some(build) = item.build {
        let program =
            models.folder.unpack_server(build).map_err(|error| CommandError::failed(error.to_string()))?;
        crate::tell(&format!("installed {}", display_path(&program)));
    }
    Ok(())
}

fn failure(name: &str, argument: Option<&str>, error: &DownloadError) -> CommandError {
    let command = argument.map_or_else(
        || "`sysop model get`".to_owned(),
        |argument| format!("`sysop model get {}`", neutralize_line(argument)),
    );
    let again = format!("run {command} again; it continues where it stopped");
    let (space, network) =
        (format!("free some space and {again}"), format!("check the network, then run {command}"));
    let hint = match error {
        DownloadError::Busy => "wait for it, or stop it",
        DownloadError::NoSpace { .. } | DownloadError::DiskFull { .. } => &space,
        DownloadError::Interrupted { done: 0, .. } => &network,
        DownloadError::Interrupted { .. } => &again,
        DownloadError::WrongFile { .. } => "use another mirror (HF_ENDPOINT), or a newer sysop",
        DownloadError::NoHash => "set its sha256 in the config",
        DownloadError::Refused { .. } => "",
        DownloadError::Io { .. } => "check the permissions of the directory",
        DownloadError::Unreadable { .. } => "check the `url` in the config",
    };
    let error = match error {
        DownloadError::NoSpace { folder, needed, free } => {
            let (needed, free) = (human_bytes(*needed), human_bytes(*free));
            format!("not enough space in {}: {needed} needed, {free} available", display_path(folder))
        }
        DownloadError::Interrupted { why, done: 0 } => neutralize_line(why).into_owned(),
        DownloadError::Interrupted { why, done } => {
            format!("{}; {} are kept", neutralize_line(why), human_bytes(*done))
        }
        DownloadError::Busy
        | DownloadError::DiskFull { .. }
        | DownloadError::WrongFile { .. }
        | DownloadError::NoHash
        | DownloadError::Refused { .. }
        | DownloadError::Io { .. }
        | DownloadError::Unreadable { .. } => neutralize_line(&error.to_string()).into_owned(),
    };
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    CommandError::failed(format!("{name}: {error}{hint}"))
}

/// Progress on standard error: a single line that is overwritten on a terminal, or else occasional lines.
struct ProgressView {
    name: String,
    terminal: bool,
    start: Instant,
    /// Number of bytes already present at the start, which must not count toward the speed.
    first: Option<u64>,
    last: Option<Instant>,
}

impl ProgressView {
    fn new(name: &str) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { name: name.to_owned(), terminal, start: Instant::now(), first: None, last: None }
    }

    fn show(&mut self, step: &Progress) {
        match step {
            Progress::Bytes { done, total } => {
                let first = *self.first.get_or_insert(*done);
                let due = if self.terminal { REDRAW_INTERVAL } else { PROGRESS_LINE_INTERVAL };
                let complete = Some(*done) == *total;
                if !complete && self.last.is_some_and(|last| last.elapsed() < due) {
                    return;
                }
                self.last = Some(Instant::now());
                let line = progress_line(*done, *total, done - first, self.start.elapsed());
                self.line(&line);
            }
            Progress::Resumed { done, .. } => {
                self.note(&format!("continuing after {}", human_bytes(*done)));
            }
            Progress::Retry { why, wait } => {
                self.note(&format!("{why}; trying again in {:.0} s", wait.as_secs_f64().ceil()));
            }
            Progress::Restarted { why } => self.note(&format!("{why}; starting again")),
        }
    }

    fn line(&self, text: &str) {
        let mut err = io::stderr().lock();
        let text = format!("{}: {text}", self.name);
        // If printing fails, nothing can be reported.
        let _ = if self.terminal { write!(err, "\r\x1b[2K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
    }

    fn note(&mut self, text: &str) {
        self.end();
        crate::tell(&format!("{}: {}", self.name, neutralize_line(text)));
    }

    /// Ends the line that was being overwritten.
    fn end(&mut self) {
        if self.terminal && self.last.take().is_some() {
            let _ = writeln!(io::stderr().lock()); // nothing to report it to
        }
    }
}

fn progress_line(done: u64, total: Option<u64>, transferred: u64, elapsed: Duration) -> String {
    let speed = transferred as f64 / elapsed.as_secs_f64().max(0.001);
    let mut text = human_bytes(done);
    if let Some(total) = total.filter(|total| *total > 0) {
        text.push_str(&format!(" of {} · {}%", human_bytes(total), done * 100 / total));
        if transferred > 0 && done < total {
            let left = (total - done) as f64 / speed.max(1.0);
            text.push_str(&format!(
                " · {}/s · {}:{:02} left",
                human_bytes(speed as u64),
                left as u64 / 60,
                left as u64 % 60
            ));
        }
    }
    text
}

/// Formats a number of bytes in decimal units, as used by shops and disks.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1_000.0, "kB"),
        1_000_000..1_000_000_000 => (1_000_000.0, "MB"),
        _ => (1_000_000_000.0, "GB"),
    };
    let number = bytes as f64 / unit;
    if number < 10.0 { format!("{number:.1} {name}") } else { format!("{number:.0} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_decimal_units() {
        let shown = [999, 1_500, 491_400_064, 1_117_320_768, 12_000_000_000].map(human_bytes);
        assert_eq!(shown, ["999 B", "1.5 kB", "491 MB", "1.1 GB", "12 GB"]);
    }

    #[test]
    fn a_failed_download_says_what_is_kept_and_the_command_that_goes_on() {
        let told = |argument, done| {
            let why = "cannot connect to hub".to_owned();
            failure("llama-server b1", argument, &DownloadError::Interrupted { why, done }).message
        };
        let failed = "llama-server b1: cannot connect to hub";
        for (argument, command) in [(None, "`sysop model get`"), (Some("tiny"), "`sysop model get tiny`")] {
            assert_eq!(told(argument, 0), format!("{failed}; check the network, then run {command}"));
            assert_eq!(
                told(argument, 1_500),
                format!("{failed}; 1.5 kB are kept; run {command} again; it continues where it stopped")
            );
        }
    }

    #[test]
    fn progress_tells_speed_and_rest_of_this_run_only() {
        let line = progress_line(600_000_000, Some(1_000_000_000), 100_000_000, Duration::from_secs(10));
        assert_eq!(line, "600 MB of 1.0 GB · 60% · 10 MB/s · 0:40 left");
        assert_eq!(progress_line(5_000, None, 5_000, Duration::from_secs(1)), "5.0 kB");
    }
}
