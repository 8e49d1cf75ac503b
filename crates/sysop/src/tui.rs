//! `sysop` without a command: the full screen. Says at once where there is no terminal for it; draws before anything
//! is opened.

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use sysop_driver::face::Desk;
use sysop_tui::app::Left;
use sysop_tui::screen::Kind;
use sysop_tui::view::theme::ThemeName;
use sysop_tui::{Ended, Leaving, OpenError, Programs, TuiContext};

use crate::cli::GlobalFlags;
use crate::config::{chosen_file, keep_theme, shown};
use crate::exit::{Exit, Failure};
use crate::settings::{Settings, Verbosity};
use crate::wiring::Parts;

/// The folder of what is being edited, in the data folder.
const DRAFTS: &str = "drafts";
/// Where it does not work, this does.
const NO_SCREEN: &str =
    "the full screen needs a terminal that can move its cursor; `sysop chat` talks line by line";

/// Opens the full screen, with a task to begin with.
pub(crate) fn run(flags: &GlobalFlags, task: Option<String>) -> Result<Exit> {
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let settings = Settings::load(flags)?;
    let term = settings.environment.value("TERM").unwrap_or_default();
    if !terminal || matches!(term, "" | "dumb") {
        return Err(Failure::usage(NO_SCREEN).into());
    }
    let settings = match settings.untrusted() {
        Some(untrusted) if !untrusted.refused => crate::load_after_asking(flags)?,
        Some(_) | None => settings,
    };
    settings.require_runnable()?;
    crate::runtime()?.block_on(show(settings, task))
}

async fn show(settings: Settings, task: Option<String>) -> Result<Exit> {
    let opened: Arc<Mutex<Option<Parts>>> = Arc::default();
    let kept = Arc::clone(&opened);
    let context = context(&settings, task);
    let open = Box::pin(async move {
        let parts = open(settings).await.map_err(from_anyhow)?;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(parts.clone());
        let session = parts.open().await.map_err(from_anyhow)?;
        Ok((Arc::new(parts) as Arc<dyn Desk>, session))
    });
    let ended = sysop_tui::run(TuiContext { open, ..context }).await;
    let parts = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(parts) = parts {
        parts.close().await;
    }
    leave(ended, "sysop --resume=")
}

/// All that the face needs but a session.
pub(crate) fn context(settings: &Settings, task: Option<String>) -> TuiContext {
    let environment = &settings.environment;
    let program = |names: &[&'static str]| environment.first(names).map(|(_, value)| value.into());
    let notice = (settings.verbosity != Verbosity::Quiet).then(|| settings.warnings().first()).flatten();
    TuiContext {
        task,
        history: Some(settings.folders.data.join(crate::commands::HISTORY)),
        notice: notice.map(|warning| format!("config: {warning}")),
        theme: settings.theme,
        keep_theme: Arc::new(keeper(settings)),
        prices: settings.prices.clone(),
        programs: Programs { editor: program(&["VISUAL", "EDITOR"]), pager: program(&["PAGER"]) },
        drafts: settings.folders.data.join(DRAFTS),
        kind: Kind::of(environment.value("TERM").unwrap_or_default()),
        leaving: Leaving::Stops,
        open: Box::pin(async { Err("nothing was opened".into()) }),
    }
}

/// Keeps colours that were picked, and says so; or says why they will not stay.
fn keeper(settings: &Settings) -> impl Fn(ThemeName) -> String + Send + Sync + use<> {
    let (folders, decided_by) = (settings.folders.clone(), settings.theme_decided_by.clone());
    move |theme| {
        let home = shown(&folders.home);
        // There is room for one line.
        let brief = |path: &str| path.strip_prefix(&home).map_or(path.to_owned(), |rest| format!("~{rest}"));
        if let Some(origin) = &decided_by {
            return format!("these colours are for now: at the next start {} decides", brief(origin));
        }
        let path = brief(&shown(&chosen_file(&folders.data)));
        match keep_theme(&folders.data, theme.as_str()) {
            Ok(()) => format!("these colours stay: kept in {path}"),
            Err(error) => format!("these colours are for now: {path} cannot be written ({error})"),
        }
    }
}

/// Says how to go on, and how it ended; `again` is the command that goes on, up to the session's id.
pub(crate) fn leave(ended: Result<Ended, OpenError>, again: &str) -> Result<Exit> {
    let ended = ended.map_err(into_anyhow)?;
    if let Some(session) = ended.to_resume {
        crate::tell(&format!("`{again}{session}` goes on from here"));
    }
    match ended.left {
        Left::Done => Ok(Exit::Done),
        Left::Interrupted => Ok(Exit::Interrupted),
        Left::Terminated => Ok(Exit::Terminated),
        Left::HungUp => Ok(Exit::HungUp),
        Left::Failed(why) => Err(Failure::failed(why).into()),
    }
}

async fn open(settings: Settings) -> Result<Parts> {
    // Whoever looks for models may have to wait for a server.
    let picked = tokio::task::spawn_blocking(move || crate::with_model(settings));
    let (settings, pick) = picked.await.context("the search for a model broke off")??;
    Parts::new(settings, pick.model)
}

pub(crate) fn from_anyhow(error: anyhow::Error) -> OpenError {
    match error.downcast::<Failure>() {
        Ok(failure) => Box::new(failure),
        Err(error) => error.into(),
    }
}

/// The binary's own errors come back as they went in, so that their exit code is known.
fn into_anyhow(error: OpenError) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => (*failure).into(),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}
