//! Letters that answer a proposal, held for a moment because they may also be the first letter of a message.
//!
//! A held letter takes effect only if no other key follows within [`LETTER_PAUSE`]. If another letter follows, both are
//! the beginning of a message. So typing never answers a proposal, at any usual speed. A key that moves or scrolls does
//! not continue a message, so the letter takes effect before it, except for `Y`, which would run the call.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};

use super::review::is_plain;
use super::{Action, App, Focus};

/// Time for which a letter is held; people type at 100 to 300 ms per key.
pub(crate) const LETTER_PAUSE: Duration = Duration::from_millis(400);

/// Letter that runs the call.
const RUN_KEY: char = 'Y';

const NOT_TAKEN: &str = "Y did not count, because another key followed at once; press it again to run";

impl App {
    /// Returns the letter that takes effect unless another key follows soon.
    pub fn pending_key(&self) -> Option<char> {
        self.review.as_ref()?.held().map(|(letter, _)| letter)
    }

    /// Carries out the held letter if no key has followed in time.
    pub fn release_letter(&mut self, now: Duration) -> Vec<Action> {
        let held = self.review.as_ref().and_then(|review| review.held());
        if held.is_none_or(|(_, due)| due > now) {
            return Vec::new();
        }
        match self.take_letter() {
            Some(letter) => self.answer_with(letter, now),
            None => Vec::new(),
        }
    }

    /// Handles the first key after a held letter. Returns `None` if no letter was held, or if the key has its usual
    /// meaning; the letter is then dropped.
    pub(super) fn key_after_letter(&mut self, key: KeyEvent, now: Duration) -> Option<Vec<Action>> {
        let letter = self.take_letter()?;
        match key.code {
            KeyCode::Char(_) if is_plain(key) => {
                self.next.key(KeyEvent::from(KeyCode::Char(letter)));
                Some(self.key_in_box(key, now))
            }
            KeyCode::Enter if is_plain(key) => Some(self.answer_with(letter, now)),
            KeyCode::Esc | KeyCode::Backspace => Some(Vec::new()),
            KeyCode::Up
            | KeyCode::Down
            | KeyCode::Left
            | KeyCode::Right
            | KeyCode::Home
            | KeyCode::End
            | KeyCode::PageUp
            | KeyCode::PageDown => {
                let mut actions = self.letter_before_move(letter, now);
                actions.extend(self.route_key(key, now));
                Some(actions)
            }
            _ => None,
        }
    }

    /// Carries out a letter that a key follows which moves or scrolls.
    fn letter_before_move(&mut self, letter: char, now: Duration) -> Vec<Action> {
        if letter != RUN_KEY {
            return self.answer_with(letter, now);
        }
        self.show_flash(NOT_TAKEN, now);
        Vec::new()
    }

    /// Moves the held letter to the draft, because more text follows.
    pub(super) fn draft_letter(&mut self) {
        if let Some(letter) = self.take_letter() {
            self.next.key(KeyEvent::from(KeyCode::Char(letter)));
        }
    }

    /// Removes the held letter. Returns `None` if something else is in front of the proposal by now.
    fn take_letter(&mut self) -> Option<char> {
        let letter = self.review.as_mut()?.take_held()?;
        let is_in_front =
            self.overlay.is_none() && self.question_prompt.is_none() && self.focus == Focus::Box;
        Some(letter).filter(|_| is_in_front && self.next.is_empty())
    }

    fn answer_with(&mut self, letter: char, now: Duration) -> Vec<Action> {
        self.assess_review();
        let Some(review) = &mut self.review else { return Vec::new() };
        let event = review.decision_key(KeyEvent::from(KeyCode::Char(letter)));
        self.review_event(event, now)
    }
}
