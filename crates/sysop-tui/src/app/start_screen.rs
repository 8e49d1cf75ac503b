//! The start screen of an empty session: name, location, examples and recent sessions.

use std::time::Duration;

use sysop_core::id::SessionId;
use sysop_core::model_provider::DEMO;
use sysop_driver::frontend::SessionSelector;

use super::{Action, App, Focus};

/// Tasks that a new user can try.
const EXAMPLES: [&str; 3] = [
    "how full is the disk?",
    "which services failed since yesterday?",
    "show me the largest files in this folder",
];
/// Task to try with the model `demo`, which only follows a script.
const DEMO_EXAMPLES: [&str; 1] = ["demo"];

/// Data for the start screen that must be fetched, and the positions of its rows.
#[derive(Debug, Default)]
pub struct StartScreen {
    recent: Vec<RecentSession>,
    /// Screen rows that can be clicked, as of the last frame.
    targets: Vec<(u16, StartTarget)>,
}

/// A past session on the start screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentSession {
    pub id: SessionId,
    pub title: String,
    pub host: String,
    /// Age, as in `5 min ago`.
    pub age: String,
}

/// Something on the start screen that can be clicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartTarget {
    Example(&'static str),
    Recent(SessionId),
}

impl StartScreen {
    /// Maximum number of recent sessions on the start screen.
    pub const RECENT_MAX: usize = 3;
}

impl App {
    /// Returns true if the session has no items, so that the start screen is shown in place of the history.
    pub fn shows_start_screen(&self) -> bool {
        !self.is_replaying()
            && !self.is_working()
            && self.pending_ack.is_none()
            && self.transcript().items().next().is_none()
    }

    /// Stores the recent sessions to offer on the start screen, newest first.
    pub fn set_recent_sessions(&mut self, mut recent: Vec<RecentSession>) {
        recent.retain(|session| !session.title.is_empty() && Some(&session.id) != self.session.as_ref());
        recent.truncate(StartScreen::RECENT_MAX);
        self.start_screen.recent = recent;
    }

    pub fn recent_sessions(&self) -> &[RecentSession] {
        &self.start_screen.recent
    }

    pub fn examples(&self) -> &'static [&'static str] {
        let is_demo = self.transcript().session_info().is_some_and(|info| info.model.provider == DEMO);
        if is_demo { &DEMO_EXAMPLES } else { &EXAMPLES }
    }

    /// Stores the rows of the start screen that can be clicked.
    pub fn set_start_targets(&mut self, targets: Vec<(u16, StartTarget)>) {
        self.start_screen.targets = targets;
    }

    /// Puts the next example into the composer. Returns false if the start screen is not shown, or the composer holds
    /// something else.
    pub(super) fn next_example(&mut self) -> bool {
        let text = self.composer().text();
        let examples = self.examples();
        let at = examples.iter().position(|example| *example == text);
        if !self.shows_start_screen() || self.review.is_some() || (at.is_none() && !text.is_empty()) {
            return false;
        }
        let next = at.map_or(0, |at| (at + 1) % examples.len());
        self.composer_mut().set(examples[next]);
        self.composer_mut().to_end();
        true
    }

    /// Handles a click on a row of the start screen. Does nothing if the row is not clickable.
    pub(super) fn click_start_screen(&mut self, row: u16, _now: Duration) -> Vec<Action> {
        if !self.shows_start_screen() || self.overlay.is_some() {
            return Vec::new();
        }
        let target = self.start_screen.targets.iter().find(|(y, _)| *y == row);
        match target.map(|(_, target)| target.clone()) {
            Some(StartTarget::Example(text)) => {
                self.focus = Focus::Box;
                self.composer_mut().set(text);
                self.composer_mut().to_end();
                Vec::new()
            }
            Some(StartTarget::Recent(id)) => {
                vec![Action::OpenSession(SessionSelector::Existing(id.as_str().to_owned()))]
            }
            None => Vec::new(),
        }
    }
}
