//! Leaving the front end: the warning before running work is stopped, and stopping it.

use std::time::Duration;

use sysop_core::event::Input;
use sysop_core::transcript::SessionPhase;

use super::keys::LEAVE;
use super::{Action, App, ExitReason, Flash};
use crate::RunningTurnPolicy;

impl App {
    /// Handles Ctrl+D in an empty input. Exits at once, unless that would stop running work: then the key must be
    /// pressed twice.
    pub(super) fn end_of_input(&mut self, now: Duration) -> Vec<Action> {
        let is_confirmed = self.quit_asked.take().is_some_and(|until| until > now);
        let Some(text) = self.running_work().filter(|_| !is_confirmed) else {
            return self.leave(ExitReason::Quit);
        };
        self.quit_asked = Some(now + LEAVE);
        self.flash = Some(Flash { text, since: now, until: now + LEAVE });
        Vec::new()
    }

    /// Returns a sentence about the running work that would end with this process. `None` if there is none.
    fn running_work(&self) -> Option<String> {
        if self.leaving != RunningTurnPolicy::Cancel || self.is_replaying() {
            return None;
        }
        let runs_command = self.transcript.still_running().is_some()
            || matches!(self.transcript.phase(), SessionPhase::Running { .. });
        let (what, them) = match (runs_command, self.transcript.jobs().len()) {
            (true, _) => ("a command is running".to_owned(), "it"),
            (false, 0) => return None,
            (false, 1) => ("a background job is running".to_owned(), "it"),
            (false, count) => (format!("{count} background jobs are running"), "them"),
        };
        Some(format!("{what}; press Ctrl+D again to stop {them} and quit"))
    }

    /// Saves drafts to the prompt history and exits. Stops running work first if it would end with this process.
    pub fn leave(&mut self, left: ExitReason) -> Vec<Action> {
        let mut actions = Vec::new();
        for text in [self.input.take(), self.next.take()] {
            actions.extend(self.remember(&text));
        }
        if self.leaving == RunningTurnPolicy::Cancel {
            let runs = match self.transcript.phase() {
                SessionPhase::Idle | SessionPhase::Stopping => false,
                SessionPhase::Paused { .. } => self.transcript.still_running().is_some(),
                SessionPhase::Thinking { .. }
                | SessionPhase::AwaitingApproval { .. }
                | SessionPhase::Running { .. } => true,
            };
            if runs {
                self.transcript.stopping();
                actions.push(Action::Send(Input::Cancel));
            }
            let jobs = self.transcript.jobs().iter();
            actions.extend(jobs.map(|(job, _)| Action::Send(Input::StopJob { job })));
        }
        actions.push(Action::Quit(left));
        actions
    }

    /// Returns true while work that was stopped has not ended.
    pub fn is_stopping(&self) -> bool {
        *self.transcript.phase() == SessionPhase::Stopping || !self.transcript.jobs().is_empty()
    }
}
