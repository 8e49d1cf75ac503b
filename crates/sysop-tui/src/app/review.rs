//! A proposal that waits for the person: to be run as it is, changed in place, or refused with a word.
#![expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than mean something here")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::TextArea;
use sysop_core::event::Decision;
use sysop_core::id::CallId;
use sysop_core::transcript::Plan;

use super::edit;
use super::guard::Guard;

/// What the keys do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewMode {
    /// They answer.
    Looking,
    /// They change the command.
    Editing,
    /// They write the word to the model.
    Rejecting,
}

/// The proposal on the screen.
pub struct Review {
    call: CallId,
    proposed: String,
    /// Whether there is a command to change.
    editable: bool,
    mode: ReviewMode,
    area: TextArea<'static>,
    word: TextArea<'static>,
    pub(super) guard: Guard,
    /// The first row of it that is shown.
    scroll: u16,
    /// How many of its rows are below what is shown, and how many are shown; known once it was drawn.
    below: u16,
    page: u16,
}

/// What came of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Nothing that others need to know.
    Nothing,
    /// A decision.
    Decided(Decision),
    /// The turn is to end here.
    Cancelled,
    /// The person wants the command in their editor.
    Editor,
    /// Something to tell them.
    Said(&'static str),
}

const NOT_EDITABLE: &str = "only a command can be edited; r says in words what should be different";

impl Review {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            call: plan.call.id.clone(),
            proposed: plan.command.clone(),
            editable: plan.call.text_argument("command").is_some(),
            mode: ReviewMode::Looking,
            area: edit::area(&plan.command),
            word: edit::area(""),
            guard: Guard::default(),
            scroll: 0,
            below: 0,
            page: 1,
        }
    }

    /// Which call.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// What the keys do.
    pub fn mode(&self) -> ReviewMode {
        self.mode
    }

    /// Whether there is a command that can be changed.
    pub fn is_editable(&self) -> bool {
        self.editable
    }

    /// The command as it would run now.
    pub fn command(&self) -> String {
        edit::text(&self.area)
    }

    /// Whether the person changed it.
    pub fn is_edited(&self) -> bool {
        self.editable && self.command() != self.proposed
    }

    /// The box with the command.
    pub fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// The same, to be given its styles.
    pub fn area_mut(&mut self) -> &mut TextArea<'static> {
        &mut self.area
    }

    /// The box with the word to the model.
    pub fn word_mut(&mut self) -> &mut TextArea<'static> {
        &mut self.word
    }

    /// The first row that is shown.
    pub fn scroll(&self) -> u16 {
        self.scroll
    }

    /// Whether all of it was shown.
    pub fn is_read(&self) -> bool {
        self.below == 0
    }

    /// Takes note of how much of it was drawn; gives the first row to draw.
    pub fn shown(&mut self, rows: u16, page: u16) -> u16 {
        self.scroll = self.scroll.min(rows.saturating_sub(page));
        self.page = page.max(1);
        self.below = rows.saturating_sub(self.scroll + page);
        self.scroll
    }

    /// Puts what the person's editor left in the place of the command.
    pub(super) fn edited(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        edit::replace(&mut self.area, &edit::harmless(text));
    }

    pub(super) fn paste(&mut self, text: &str) {
        let text = edit::harmless(text);
        match self.mode {
            // A paste is no answer.
            ReviewMode::Looking => {}
            ReviewMode::Editing => {
                self.area.insert_str(text);
            }
            ReviewMode::Rejecting => {
                self.word.insert_str(text.replace('\n', " "));
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) -> Came {
        // Whoever changes the command or writes a word has seen the proposal.
        if self.mode == ReviewMode::Looking && !self.guard.takes(now) {
            return Came::Nothing;
        }
        match self.mode {
            ReviewMode::Looking => self.look(key),
            ReviewMode::Editing => self.edit(key),
            ReviewMode::Rejecting => self.reject(key),
        }
    }

    fn look(&mut self, key: KeyEvent) -> Came {
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return Came::Nothing;
        }
        match key.code {
            KeyCode::Enter | KeyCode::Char('a' | 'A' | ' ') if !self.is_read() => self.down(self.page),
            KeyCode::Enter => self.allow(|command| Decision::Allow { command }),
            KeyCode::Char('a' | 'A') => self.allow(|command| Decision::AllowSession { command }),
            KeyCode::Char('r' | 'R') => {
                self.mode = ReviewMode::Rejecting;
                Came::Nothing
            }
            KeyCode::Char('i' | 'I') | KeyCode::Tab => self.begin_edit(),
            KeyCode::Char('e' | 'E') if self.editable => Came::Editor,
            KeyCode::Char('e' | 'E') => Came::Said(NOT_EDITABLE),
            KeyCode::Esc => Came::Cancelled,
            KeyCode::Down | KeyCode::Char('j') => self.down(1),
            KeyCode::Up | KeyCode::Char('k') => {
                self.scroll = self.scroll.saturating_sub(1);
                Came::Nothing
            }
            _ => Came::Nothing,
        }
    }

    fn down(&mut self, rows: u16) -> Came {
        self.scroll = self.scroll.saturating_add(rows.min(self.below));
        Came::Nothing
    }

    fn begin_edit(&mut self) -> Came {
        if !self.editable {
            return Came::Said(NOT_EDITABLE);
        }
        self.mode = ReviewMode::Editing;
        let command = self.command();
        let clean = edit::harmless(&command);
        if clean == command {
            return Came::Nothing;
        }
        // A box would hide them, and what is in the box is what runs.
        edit::replace(&mut self.area, &clean);
        Came::Said("control characters were taken out of the command that you edit")
    }

    fn edit(&mut self, key: KeyEvent) -> Came {
        match key.code {
            KeyCode::Enter if !edit::is_newline(key) => self.allow(|command| Decision::Allow { command }),
            KeyCode::Esc => {
                self.mode = ReviewMode::Looking;
                Came::Nothing
            }
            _ => {
                edit::key(&mut self.area, key);
                Came::Nothing
            }
        }
    }

    fn reject(&mut self, key: KeyEvent) -> Came {
        match key.code {
            KeyCode::Enter => {
                let reason = edit::text(&self.word).trim().to_owned();
                Came::Decided(Decision::Reject { reason })
            }
            KeyCode::Esc => {
                self.mode = ReviewMode::Looking;
                Came::Nothing
            }
            _ if edit::is_newline(key) => Came::Nothing,
            _ => {
                edit::key(&mut self.word, key);
                Came::Nothing
            }
        }
    }

    fn allow(&self, decision: impl FnOnce(Option<String>) -> Decision) -> Came {
        let command = self.command();
        if self.editable && command.trim().is_empty() {
            return Came::Said("an empty command is not run; Esc Esc cancels it");
        }
        Came::Decided(decision(self.is_edited().then_some(command)))
    }
}
