//! Text search in the history.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::text::neutralize;
use sysop_core::transcript::{Item, ItemId, Transcript};
use sysop_term::cells::width;
use sysop_term::session_text::item_text;

use super::history::HistoryView;

/// Direction of a search. The first search looks for the newest match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchDirection {
    Older,
    Newer,
}

/// Text to search for, in lowercase unless the user typed an uppercase letter.
#[derive(Debug, Clone)]
struct Pattern {
    letters: Vec<char>,
    exact_case: bool,
}

impl Pattern {
    fn new(typed: &str) -> Self {
        Self { letters: typed.chars().collect(), exact_case: typed.chars().any(char::is_uppercase) }
    }

    /// Returns the positions of the matches, in characters; matches do not overlap.
    fn places(&self, text: impl Iterator<Item = char>) -> Vec<usize> {
        let lower = |letter: char| letter.to_lowercase().next().unwrap_or(letter);
        let text: Vec<char> = if self.exact_case { text.collect() } else { text.map(lower).collect() };
        let (mut places, mut at) = (Vec::new(), 0);
        while !self.letters.is_empty() && at + self.letters.len() <= text.len() {
            if text[at..].starts_with(&self.letters) {
                places.push(at);
                at += self.letters.len();
            } else {
                at += 1;
            }
        }
        places
    }

    fn is_in(&self, text: &str) -> bool {
        !self.places(text.chars()).is_empty()
    }
}

impl HistoryView {
    /// Goes to the next match of `typed` in a direction, wrapping around at the end. Focuses the item and
    /// unfolds it. Returns false if there is no match.
    pub fn find(&mut self, transcript: &Transcript, typed: &str, direction: SearchDirection) -> bool {
        let pattern = Pattern::new(typed);
        let count = transcript.items().len();
        let current = self.found_at(typed).and_then(|id| transcript.items().position(|item| item.id == *id));
        let order: Vec<usize> = match (direction, current) {
            (_, None) => (0..count).rev().collect(),
            (SearchDirection::Older, Some(at)) => (0..at).rev().chain((at..count).rev()).collect(),
            (SearchDirection::Newer, Some(at)) => (at + 1..count).chain(0..=at).collect(),
        };
        let is_match = |item: &Item| pattern.is_in(&neutralize(&item_text(&item.body)));
        let found = order.into_iter().filter_map(|index| transcript.at(index)).find(|item| is_match(item));
        let id = found.map(|item| item.id.clone());
        let is_found = id.is_some();
        if let Some(id) = id {
            self.show_match(id, typed);
        }
        is_found
    }

    /// Returns the layout row that contains the text, or the first row if wrapping splits the text.
    pub(super) fn row_of(rows: impl Iterator<Item = String>, typed: &str) -> usize {
        let pattern = Pattern::new(typed);
        let mut rows = rows;
        rows.position(|row| pattern.is_in(&row)).unwrap_or(0)
    }
}

/// Marks the matches of the text in the cells of an area.
pub fn mark_matches(typed: &str, style: Style, area: Rect, buffer: &mut Buffer) {
    let pattern = Pattern::new(typed);
    for y in area.top()..area.bottom() {
        let (mut letters, mut columns, mut skip) = (Vec::new(), Vec::new(), 0);
        for x in area.left()..area.right() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            // A hyperlink precedes its cell's text.
            let symbol = sysop_term::link::shown(symbol).0;
            skip = width(symbol).saturating_sub(1);
            for letter in symbol.chars() {
                letters.push(letter);
                columns.push((x, u16::try_from(skip + 1).unwrap_or(1)));
            }
        }
        for place in pattern.places(letters.into_iter()) {
            for (x, wide) in &columns[place..place + pattern.letters.len()] {
                buffer.set_style(Rect::new(*x, y, *wide, 1), style);
            }
        }
    }
}

/// The match that the last search went to.
#[derive(Debug, Clone)]
pub(super) struct FoundMatch {
    pub(super) id: ItemId,
    pub(super) typed: String,
}
