//! Clipboard, notifications, theme detection, and small requests to the session service.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::Input;
use sysop_core::id::SessionId;
use sysop_core::image;
use sysop_core::message::ModelRef;
use sysop_core::ui_text;
use sysop_driver::frontend::{SessionService, prompt_with_images};
use sysop_driver::port::SessionSummary;
use sysop_term::theme::{ThemeChoice, ThemeName};

use super::{FetchResult, RunLoop, next_update};
use crate::RunningTurnPolicy;
use crate::app::{ExitReason, RecentSession, StartScreen};
use crate::clipboard_image;
use crate::screen::CopyResult;

/// Minimum duration of a turn for its end to be worth a notification.
const LONG_TURN: Duration = Duration::from_secs(10);
/// Maximum time to wait at exit for the terminal's reply about its background color.
const ANSWER_WAIT_MAX: Duration = Duration::from_millis(200);
/// Maximum time to wait at exit for the end of the work that was stopped.
const STOP_WAIT_MAX: Duration = Duration::from_secs(3);
/// Time after which a terminal that has not replied is assumed never to reply.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Occasion of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    NeedsUser,
    TurnEnded,
}

impl RunLoop {
    /// Copies text to the user's clipboard. `part` says which part of the whole text it is, if it is one.
    pub(super) fn copy(&mut self, text: &str, part: Option<&str>) {
        let told = match self.screen.copy(text) {
            CopyResult::Sent => copied_message(text, part),
            CopyResult::TooLong => {
                format!(
                    "too long to copy through the terminal ({}); open it with o",
                    ui_text::file_size(text.len() as u64)
                )
            }
        };
        let now = self.now();
        self.app.show_flash(told, now);
        self.dirty = true;
    }

    /// Sends a notification if the terminal reports that it does not have the focus.
    pub(super) fn notify(&mut self, occasion: Occasion) {
        if self.looks {
            return;
        }
        let now = self.now();
        let host = self.app.transcript().session_info().map(|info| info.place());
        let host = host.filter(|host| !ui_text::is_local_host(host)).map(ui_text::host_summary);
        let place = host.map(|host| format!(" on {host}")).unwrap_or_default();
        match occasion {
            Occasion::NeedsUser => {
                self.screen.ring_bell();
                self.screen.notify(&format!("sysop needs you{place}"));
            }
            Occasion::TurnEnded if self.app.turn_time(now).is_some_and(|time| time >= LONG_TURN) => {
                self.screen.notify(&format!("sysop is done{place}"));
            }
            Occasion::TurnEnded => {}
        }
    }

    /// Shows the state of the connection to the session's server. Each change comes with an update.
    pub(super) fn follow_connection(&mut self) {
        let Some(session) = &self.session else { return };
        self.dirty |= self.app.set_connection(session.connection(), self.began.elapsed());
    }

    /// Takes back prompts that wait for the connection to the server. One that is being sent stays.
    pub(super) fn take_back(&mut self, mut prompts: Vec<String>) {
        let Some(session) = &self.session else { return };
        prompts.retain(|prompt| session.take_back(prompt));
        self.app.taken_back(prompts);
    }

    /// Saves the choice of the theme. For a theme that fits the terminal, asks the terminal for its background.
    pub(super) fn keep_theme(&mut self, choice: ThemeChoice) {
        if choice == ThemeChoice::Auto {
            self.screen.ask_background();
            self.asked_background = Some(self.now());
        }
        let (keep, result_sender) = (Arc::clone(&self.keep_theme), self.result_sender.clone());
        tokio::task::spawn_blocking(move || {
            // Fails if the user has already exited.
            let _ = result_sender.send(FetchResult::ThemeSaved(keep(choice)));
        });
    }

    /// Chooses the theme that matches the terminal's background.
    pub(super) fn note_background(&mut self, is_light: bool) {
        if self.asked_background.take().is_some() {
            self.app.set_theme(if is_light { ThemeName::Light } else { ThemeName::Dark });
        }
    }

    /// Waits briefly until the work that was stopped at exit has ended, so that the log has its outcome. A user who
    /// pressed Ctrl+C twice has waited already.
    pub(super) async fn await_stop(&mut self, left: &ExitReason) -> io::Result<()> {
        if self.leaving != RunningTurnPolicy::Cancel || *left == ExitReason::Interrupted {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + STOP_WAIT_MAX;
        while self.app.is_stopping() {
            self.draw()?;
            let Ok(Some(update)) = tokio::time::timeout_at(until, next_update(&mut self.updates)).await
            else {
                break;
            };
            let now = self.now();
            self.app.update(&update, now);
        }
        Ok(())
    }

    /// Waits briefly for a reply from the terminal that would otherwise end up as input in the user's shell.
    pub(super) async fn await_background(&mut self) {
        let Some(asked) = self.asked_background else { return };
        if self.now().saturating_sub(asked) > ANSWER_MAX {
            return;
        }
        let events = &mut self.events;
        let answered = async {
            while !matches!(
                events.next().await,
                crate::screen::TerminalEvent::Background { .. } | crate::screen::TerminalEvent::Lost
            ) {}
        };
        // The terminal may never reply.
        let _ = tokio::time::timeout(ANSWER_WAIT_MAX, answered).await;
    }

    pub(super) fn search_sessions(&mut self, text: String) {
        self.fetch(move |service| async move {
            let hits = service.search(&text).await.unwrap_or_default();
            FetchResult::SessionHits(text, hits)
        });
    }

    pub(super) fn export(&mut self, file: Option<String>) {
        let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else { return };
        self.fetch(move |service| async move {
            let told = service.export(&id, file.as_deref()).await;
            FetchResult::Failed(told.unwrap_or_else(|why| why))
        });
    }

    pub(super) fn fetch_branch(&mut self) {
        let (Some(id), true) =
            (self.session.as_ref().map(|session| session.id().clone()), self.service.is_some())
        else {
            return;
        };
        self.fetch(move |service| async move {
            let branch = service.git_branch(&id).await;
            FetchResult::Branch(id, branch)
        });
    }

    pub(super) fn fetch_model_status(&mut self) {
        let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else { return };
        let Some(model) = self.app.transcript().session_info().map(|info| info.model.clone()) else { return };
        self.fetch(move |service| async move {
            FetchResult::ModelStatus(service.model_status(&id, &model).await)
        });
    }

    pub(super) fn check_model(&mut self, model: ModelRef) {
        let Some(id) = self.session.as_ref().map(|session| session.id().clone()) else { return };
        self.fetch(move |service| async move {
            FetchResult::ModelProblem(service.model_problem(&id, &model).await)
        });
    }

    pub(super) fn fetch_recent_sessions(&mut self) {
        self.fetch(
            |service| async move { FetchResult::RecentSessions(service.list().await.unwrap_or_default()) },
        );
    }

    pub(super) fn set_recent_sessions(&mut self, sessions: Vec<SessionSummary>) {
        let today = sysop_driver::system_clock().now();
        let recent = sessions.into_iter().take(2 * StartScreen::RECENT_MAX).map(|it| RecentSession {
            age: ago(today.0.saturating_sub(it.changed.0)),
            id: it.id,
            title: it.title,
            host: it.host,
        });
        self.app.set_recent_sessions(recent.collect());
    }

    /// Reads an image from the clipboard in the background.
    pub(super) fn paste_image(&mut self) {
        let (access, folder) = (self.clipboard, self.drafts.clone());
        let result_sender = self.result_sender.clone();
        tokio::spawn(async move {
            let image = clipboard_image::read(access, &folder).await;
            // Fails if the user has already exited.
            let _ = result_sender.send(FetchResult::PastedImage(image));
        });
    }

    pub(super) async fn pasted_image(&mut self, image: Result<PathBuf, String>) -> io::Result<()> {
        let now = self.now();
        match image {
            Ok(path) => {
                let path = path.to_string_lossy();
                let actions = self.app.paste_file(&path, &(image::mention_of(&path) + " "), now);
                Box::pin(self.perform_actions(actions)).await
            }
            Err(why) => {
                self.app.show_flash(why, now);
                Ok(())
            }
        }
    }
}

/// Adds the images that a prompt mentions as `@PATH`. Returns other inputs unchanged.
pub(super) async fn with_images(
    service: Option<&dyn SessionService>,
    session: &SessionId,
    input: Input,
) -> Result<Input, String> {
    match (input, service) {
        (Input::Prompt { text, .. }, Some(service)) => prompt_with_images(service, session, text).await,
        (input, _) => Ok(input),
    }
}

/// Formats an age, given in milliseconds.
pub(super) fn ago(milliseconds: i64) -> String {
    match milliseconds / 1_000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

/// Says how much was copied: `Copied 2 lines`, or `Copied 40 lines of 4,519`.
pub(super) fn copied_message(text: &str, part: Option<&str>) -> String {
    let part = part.map(|part| format!(" {part}")).unwrap_or_default();
    match text.lines().count() {
        1 => format!("Copied 1 line{part}"),
        lines => format!("Copied {lines} lines{part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::copied_message;

    #[test]
    fn a_copy_of_a_truncated_output_says_so() {
        assert_eq!(copied_message("a\n", None), "Copied 1 line");
        assert_eq!(copied_message("a\nb", Some("of 4,519")), "Copied 2 lines of 4,519");
    }
}
