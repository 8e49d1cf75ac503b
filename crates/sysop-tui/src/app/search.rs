//! Search in the transcript: `/` on a focused card, then `n` and `N`.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::text::neutralize_line;
use sysop_term::session_text::has_longer_output;

use super::{Action, App, Focus};
use crate::view::{MatchPosition, SearchDirection};

/// Maximum length of search text, in characters.
const PATTERN_CHARS_MAX: usize = 200;

/// A search in the transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptSearch {
    pattern: String,
    /// True while the user is typing the pattern.
    is_typing: bool,
    /// Position of the match that the search went to; `None` before the first one.
    position: Option<MatchPosition>,
}

impl TranscriptSearch {
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Returns the position of the current match, as in `3 of 12`. Returns `None` if there is no match.
    pub fn position(&self) -> Option<String> {
        self.position.map(|at| format!("{} of {}", at.number, at.count))
    }
}

impl App {
    /// Returns the search in the transcript, if there is one.
    pub fn search(&self) -> Option<&TranscriptSearch> {
        self.search.as_ref()
    }

    /// Starts reading the search text.
    pub(super) fn begin_search(&mut self) {
        self.history.end_search();
        self.search = Some(TranscriptSearch { is_typing: true, ..TranscriptSearch::default() });
    }

    pub(super) fn end_search(&mut self) {
        self.search = None;
        self.history.end_search();
    }

    /// Handles a key for the search. Returns `None` if the key is meant for something else.
    pub(super) fn key_in_search(&mut self, key: KeyEvent, now: Duration) -> Option<Vec<Action>> {
        let search = self.search.as_mut()?;
        if !search.is_typing {
            match key.code {
                KeyCode::Char('n') if key.modifiers.is_empty() => self.find(SearchDirection::Older, now),
                KeyCode::Char('N') => self.find(SearchDirection::Newer, now),
                KeyCode::Esc => self.end_search(),
                _ => return None,
            }
            return Some(Vec::new());
        }
        match key.code {
            KeyCode::Enter if search.pattern.is_empty() => self.search = None,
            KeyCode::Enter => {
                search.is_typing = false;
                self.find(SearchDirection::Older, now);
            }
            KeyCode::Esc => self.end_search(),
            KeyCode::Backspace if search.pattern.pop().is_none() => self.search = None,
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => search.pattern.clear(),
            KeyCode::Char(letter)
                if (key.modifiers - KeyModifiers::SHIFT).is_empty()
                    && search.pattern.chars().count() < PATTERN_CHARS_MAX =>
            {
                search.pattern.push(letter);
            }
            _ => {}
        }
        Some(Vec::new())
    }

    /// Pastes into the search text. Returns false if none is being typed.
    pub(super) fn paste_in_search(&mut self, text: &str) -> bool {
        let Some(search) = self.search.as_mut().filter(|search| search.is_typing) else { return false };
        let room = PATTERN_CHARS_MAX.saturating_sub(search.pattern.chars().count());
        search.pattern.extend(neutralize_line(text).chars().take(room));
        true
    }

    fn find(&mut self, direction: SearchDirection, now: Duration) {
        let Some(search) = &mut self.search else { return };
        search.position = self.history.find(&self.transcript, &search.pattern, direction);
        if search.position.is_none() {
            let more = match has_longer_output(&self.transcript) {
                true => "; not in the shown part: o on a truncated output opens all of it",
                false => "",
            };
            let text = format!("not found: {}{more}", search.pattern);
            return self.show_flash(text, now);
        }
        self.focus = Focus::Cards;
    }
}
