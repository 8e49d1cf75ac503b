//! `sysop` without a command: the TUI. It first checks for a terminal, and draws before opening a session.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use sysop_core::text::neutralize_line;
use sysop_driver::frontend::SessionService;
use sysop_term::markdown::MarkdownStream;
use sysop_term::{Theme, ThemeChoice, ThemeName, paint};
use sysop_tui::app::ExitReason;
use sysop_tui::screen::TerminalKind;
use sysop_tui::{
    ClipboardAccess, ExternalPrograms, OpenError, RunningTurnPolicy, StatusPart, TuiContext, TuiExit,
};

use crate::app::Services;
use crate::config::{Environment, display_path, forget_theme, keep_theme, ui_state_file};
use crate::exit::{CommandError, Exit};
use crate::global_flags::{GlobalFlags, Verbosity};
use crate::select_model::OllamaServer;
use crate::settings::Settings;

/// Name of the directory, in the data directory, for drafts that are open in an editor.
const DRAFTS: &str = "drafts";
/// Maximum number of rows of the last answer that are printed when the TUI ends.
const ANSWER_ROWS_MAX: usize = 12;
/// Error message if there is no interactive terminal.
const NO_SCREEN: &str = "the TUI needs an interactive terminal; use `sysop chat` or `sysop exec`";

/// Returns the reason why the TUI cannot be shown, or `None` if it can.
fn no_screen(terminal: bool, term: &str) -> Option<String> {
    let term = match term {
        _ if !terminal => return Some(NO_SCREEN.to_owned()),
        "" => "TERM is not set".to_owned(),
        "dumb" => "TERM is `dumb`".to_owned(),
        _ => return None,
    };
    let next = "set TERM to the type of your terminal, such as xterm-256color, or use `sysop chat`";
    Some(format!("the TUI cannot draw on this terminal, because {term}; {next}"))
}

/// Opens the TUI, with an optional first task.
pub(crate) fn run(flags: &GlobalFlags, task: Option<String>) -> Result<Exit> {
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let settings = Settings::load(flags)?;
    let term = settings.environment.value("TERM").unwrap_or_default();
    if let Some(why) = no_screen(terminal, term) {
        return Err(CommandError::usage(why).into());
    }
    let settings = match settings.untrusted() {
        Some(untrusted) if !untrusted.refused => crate::load_with_trust_prompt(flags)?,
        Some(_) | None => settings,
    };
    let ollama = OllamaServer::new(&settings);
    let settings = crate::first_run::settings(settings, flags, &ollama)?;
    settings.require_runnable()?;
    crate::process_guard::wipe_variables(&settings.secret_variables);
    crate::wait_for(crate::mcp::ask_before_session(&settings))?;
    crate::runtime()?.block_on(show(settings, ollama, task))
}

async fn show(settings: Settings, ollama: OllamaServer, task: Option<String>) -> Result<Exit> {
    let opened: Arc<Mutex<Option<Services>>> = Arc::default();
    let kept = Arc::clone(&opened);
    let context = context(&settings, task);
    let open = Box::pin(async move {
        let services = open(settings, ollama).await.map_err(from_anyhow)?;
        *kept.lock() = Some(services.clone());
        let session = services.open().await.map_err(from_anyhow)?;
        Ok((Arc::new(services) as Arc<dyn SessionService>, session))
    });
    let ended = sysop_tui::run(TuiContext { open, ..context }).await;
    let services = opened.lock().take();
    if let Some(services) = services {
        services.close().await;
    }
    leave(ended, "sysop --resume ")
}

/// Returns the context of the TUI. Its `open` always fails and must be replaced by the caller.
pub(crate) fn context(settings: &Settings, task: Option<String>) -> TuiContext {
    let environment = &settings.environment;
    let program = |names: &[&'static str]| environment.first(names).map(|(_, value)| value.into());
    let warning = settings.warnings().first().map(|warning| format!("config: {warning}"));
    let warning = warning.or_else(|| unknown_status_part(settings));
    let warning = warning.filter(|_| settings.verbosity != Verbosity::Quiet);
    let notice = settings.config.denials.first().map(|error| format!("config: {error}")).or(warning);
    TuiContext {
        task,
        history: Some(settings.folders.data.join(crate::commands::HISTORY)),
        notice,
        theme: settings.theme,
        keep_theme: Arc::new(theme_saver(settings)),
        prices: settings.prices.clone(),
        programs: ExternalPrograms { editor: program(&["VISUAL", "EDITOR"]), pager: program(&["PAGER"]) },
        drafts: settings.folders.data.join(DRAFTS),
        kind: TerminalKind::of(environment.value("TERM").unwrap_or_default()).with_mouse(settings.mouse),
        leaving: RunningTurnPolicy::Cancel,
        detects_theme: settings.detects_theme,
        status_line: settings.status_line.iter().filter_map(|name| StatusPart::of(name)).collect(),
        home: settings.folders.home.to_str().map(str::to_owned),
        clipboard: clipboard(environment),
        open: Box::pin(async { Err("no session to open".into()) }),
    }
}

/// Returns a sentence about the first unknown name in `status_line`, if any.
fn unknown_status_part(settings: &Settings) -> Option<String> {
    let unknown = settings.status_line.iter().find(|name| StatusPart::of(name).is_none())?;
    let known = StatusPart::ALL.map(|(_, name)| name).join(", ");
    Some(format!("config: unknown part `{unknown}` in status_line; use one of {known}"))
}

/// Returns the protocol for the desktop's clipboard. Over ssh, the desktop is on another machine.
fn clipboard(environment: &Environment) -> ClipboardAccess {
    let has = |name: &str| environment.value(name).is_some();
    match () {
        () if has("SSH_CONNECTION") || has("SSH_TTY") => ClipboardAccess::Remote,
        () if has("WAYLAND_DISPLAY") => ClipboardAccess::Wayland,
        () if has("DISPLAY") => ClipboardAccess::X11,
        () => ClipboardAccess::None,
    }
}

/// Returns a function that saves a chosen theme and returns a message. The message names the file, or the
/// reason that the theme applies only to this run.
fn theme_saver(settings: &Settings) -> impl Fn(ThemeChoice) -> String + Send + Sync + use<> {
    let (folders, decided_by) = (settings.folders.clone(), settings.theme_decided_by.clone());
    move |choice| {
        let home = display_path(&folders.home);
        // The message must fit on one line.
        let brief = |path: &str| path.strip_prefix(&home).map_or(path.to_owned(), |rest| format!("~{rest}"));
        if let Some(origin) = &decided_by {
            return format!("Theme set for this run ({} overrides it)", brief(origin));
        }
        let path = brief(&display_path(&ui_state_file(&folders.data)));
        let saved = match choice {
            ThemeChoice::Named(theme) => keep_theme(&folders.data, theme.as_str()),
            ThemeChoice::Auto => forget_theme(&folders.data),
        };
        match saved {
            Ok(()) if choice == ThemeChoice::Auto => "Theme follows the terminal".to_owned(),
            Ok(()) => format!("Theme saved to {path}"),
            Err(error) => format!("Theme set for this run: cannot write {path} ({error})"),
        }
    }
}

/// Prints the command that resumes the session, if it can be resumed, and returns the exit code. `again` is
/// that command without the session id.
pub(crate) fn leave(ended: Result<TuiExit, OpenError>, again: &str) -> Result<Exit> {
    let ended = ended.map_err(into_anyhow)?;
    // The alternate screen leaves nothing behind.
    if let Some(answer) = &ended.last_answer {
        tell_answer(answer);
    }
    if let Some(call) = &ended.stopped_call {
        crate::tell(&stopped_line(call));
    }
    if let Some(session) = ended.to_resume {
        crate::tell(&format!("To resume this session: {again}{}", session.short()));
    }
    match ended.left {
        ExitReason::Quit => Ok(Exit::Done),
        ExitReason::Interrupted => Ok(Exit::Interrupted),
        ExitReason::Terminated => Ok(Exit::Terminated),
        ExitReason::HungUp => Ok(Exit::HungUp),
        ExitReason::Failed(why) => Err(CommandError::failed(why).into()),
    }
}

fn stopped_line(call: &str) -> String {
    format!("stopped; not run: {}", neutralize_line(call))
}

/// Prints the start of the last answer.
fn tell_answer(answer: &str) {
    let columns = sysop_repl::terminal_width().saturating_sub(1);
    let rows = MarkdownStream::rows(answer.trim(), columns, Theme { name: ThemeName::None });
    let more = rows.len() > ANSWER_ROWS_MAX;
    let shown = rows.iter().take(if more { ANSWER_ROWS_MAX - 1 } else { ANSWER_ROWS_MAX });
    let mut text: Vec<String> = shown.map(|row| paint::row(row, false)).collect();
    text.extend(more.then(|| "…".to_owned()));
    if !text.is_empty() {
        crate::tell(&format!("{}\n", text.join("\n")));
    }
}

async fn open(settings: Settings, ollama: OllamaServer) -> Result<Services> {
    if settings.resume.is_none() {
        crate::known_host::check(&settings).await?; // a resumed session has its own host
    }
    // Selecting a model may wait for a server.
    let picked = tokio::task::spawn_blocking(move || crate::with_model_of(settings, &ollama));
    let (settings, pick) = picked.await.context("model selection failed")??;
    Services::new(settings, pick.model)
}

pub(crate) fn from_anyhow(error: anyhow::Error) -> OpenError {
    match error.downcast::<CommandError>() {
        Ok(failure) => Box::new(failure),
        Err(error) => error.into(),
    }
}

/// Converts an error, recovering a contained [`CommandError`] so that its exit code is kept.
fn into_anyhow(error: OpenError) -> anyhow::Error {
    match error.downcast::<CommandError>() {
        Ok(failure) => (*failure).into(),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{no_screen, stopped_line};

    #[test]
    fn a_call_that_leaving_stopped_is_named_on_one_line() {
        assert_eq!(stopped_line("touch a\ntouch b"), r"stopped; not run: touch a\ntouch b");
    }

    #[test]
    fn a_terminal_without_a_screen_is_told_why() {
        for (terminal, term, why) in
            [(true, "dumb", "TERM is `dumb`"), (true, "", "TERM is not set"), (false, "xterm", "interactive")]
        {
            assert!(no_screen(terminal, term).unwrap().contains(why), "{term}");
        }
        assert_eq!(no_screen(true, "xterm-256color"), None);
    }
}
