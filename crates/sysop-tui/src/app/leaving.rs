//! Leaving the front end: the warning before running work is stopped, and stopping it.

use std::time::Duration;

use sysop_core::event::{Input, StopReason};
use sysop_core::transcript::{Item, ItemBody, Proposal, SessionPhase, TextState, proposal_summary};

use super::keys::LEAVE;
use super::{Action, App, ExitReason, Flash};
use crate::RunningTurnPolicy;

impl App {
    /// Handles Ctrl+D in an empty input. Exits at once, unless that would stop running work: then the key must be
    /// pressed twice.
    pub(super) fn end_of_input(&mut self, now: Duration) -> Vec<Action> {
        let is_confirmed = self.quit_asked.take().is_some_and(|until| until > now);
        let Some(text) = self.running_work("Ctrl+D").filter(|_| !is_confirmed) else {
            return self.leave(ExitReason::Quit);
        };
        self.quit_asked = Some(now + LEAVE);
        self.flash = Some(Flash { text, since: now, until: now + LEAVE });
        Vec::new()
    }

    /// Returns a sentence about the running work that would end with this process, and the key that ends both. `None`
    /// if there is none.
    pub(super) fn running_work(&self, key: &str) -> Option<String> {
        if self.leaving != RunningTurnPolicy::Cancel || self.is_replaying() {
            return None;
        }
        let runs_command = self.transcript.still_running().is_some()
            || matches!(self.transcript.phase(), SessionPhase::Running { .. });
        let (what, them) = match (runs_command, self.transcript.jobs().len()) {
            (true, _) => ("a command is running".to_owned(), "it"),
            (false, 0) => return None,
            (false, 1) => ("1 background job is running".to_owned(), "it"),
            (false, count) => (format!("{count} background jobs are running"), "them"),
        };
        Some(format!("{what}; press {key} again to stop {them} and quit"))
    }

    /// Saves drafts to the prompt history and exits. Stops a running turn first if it would end with this process.
    /// Background jobs are left to the process, which lists those that it stops.
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
                if let SessionPhase::AwaitingApproval { call } = self.transcript.phase() {
                    self.stopped_call = self.transcript.plan(call).map(proposal_line);
                }
                self.transcript.stopping();
                actions.push(Action::Send(Input::Cancel));
            }
        }
        actions.push(Action::Quit(left));
        actions
    }

    /// Returns the complete answer with which the last turn ended. `None` if it ended in another way, or runs.
    pub fn last_answer(&self) -> Option<&str> {
        let is_end = |item: &&Item| matches!(item.body, ItemBody::End(_));
        let mut items = self.transcript.items().rev().skip_while(|item| !is_end(item));
        let ItemBody::End(end) = &items.next()?.body else { return None };
        if end.turn != self.transcript.turn() || end.reason != StopReason::EndTurn {
            return None;
        }
        let mut items = items.take_while(|item| !is_end(item)).map(|item| &item.body);
        let ItemBody::Answer(answer) = items.find(|body| matches!(body, ItemBody::Answer(_)))? else {
            return None;
        };
        (answer.state == TextState::Whole).then_some(answer.text.as_str())
    }

    /// Returns the call under review that leaving stopped.
    pub fn stopped_call(&self) -> Option<&str> {
        self.stopped_call.as_deref()
    }

    /// Returns true while a turn that was stopped has not ended.
    pub fn is_stopping(&self) -> bool {
        *self.transcript.phase() == SessionPhase::Stopping
    }
}

fn proposal_line(plan: &Proposal) -> String {
    match plan.call.text_argument("command") {
        Some(_) => plan.command.clone(),
        None => proposal_summary(plan),
    }
}
