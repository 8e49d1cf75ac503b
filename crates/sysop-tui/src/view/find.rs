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

/// Position of a match among all matches in the transcript, counted from 1 in reading order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchPosition {
    pub number: usize,
    pub count: usize,
}

/// A match on the screen: its screen row, and the number of matches before it in that row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisibleMatch {
    pub(super) y: u16,
    pub(super) number: usize,
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
}

impl HistoryView {
    /// Goes to the next match of `typed` in a direction, wrapping around at the end. Focuses the item and
    /// unfolds it. Returns the position of the match, or `None` if there is no match.
    pub fn find(
        &mut self,
        transcript: &Transcript,
        typed: &str,
        direction: SearchDirection,
    ) -> Option<MatchPosition> {
        let pattern = Pattern::new(typed);
        let in_item = |(index, item): (usize, &Item)| match index < transcript.visible_from() {
            true => 0,
            false => pattern.places(neutralize(&item_text(&item.body)).chars()).len(),
        };
        let counts: Vec<usize> = transcript.items().enumerate().map(in_item).collect();
        let count: usize = counts.iter().sum();
        let current = self.found_at(typed).and_then(|found| {
            let index = transcript.items().position(|item| item.id == found.id)?;
            let before: usize = counts[..index].iter().sum();
            (counts[index] > 0).then(|| before + found.place.min(counts[index] - 1))
        });
        let last = count.checked_sub(1)?;
        let next = match (direction, current) {
            (_, None) => last,
            (SearchDirection::Older, Some(at)) => at.checked_sub(1).unwrap_or(last),
            (SearchDirection::Newer, Some(at)) => (at + 1) % count,
        };
        let mut place = next;
        for (item, in_item) in transcript.items().zip(counts) {
            if place < in_item {
                self.show_match(FoundMatch { id: item.id.clone(), typed: typed.to_owned(), place });
                break;
            }
            place -= in_item;
        }
        Some(MatchPosition { number: next + 1, count })
    }

    /// Returns the row of the layout that contains the match, and the number of matches before it in that row. A match
    /// that the layout does not show, because it hides or wraps the text, gives the last shown match, or the first row.
    pub(super) fn row_of(rows: impl Iterator<Item = String>, found: &FoundMatch) -> (usize, usize) {
        let pattern = Pattern::new(&found.typed);
        let (mut before, mut last) = (0, (0, 0));
        for (row, text) in rows.enumerate() {
            let matches = pattern.places(text.chars()).len();
            if found.place < before + matches {
                return (row, found.place - before);
            }
            if matches > 0 {
                last = (row, matches - 1);
            }
            before += matches;
        }
        last
    }
}

/// Styles of the match that the search went to and of all others.
#[derive(Debug, Clone, Copy)]
pub struct MatchStyles {
    pub current: Style,
    pub other: Style,
}

/// Marks the matches of the text in the cells of an area. `current` is the match that the search went to.
pub fn mark_matches(
    typed: &str,
    current: Option<VisibleMatch>,
    styles: MatchStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
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
        for (number, place) in pattern.places(letters.into_iter()).into_iter().enumerate() {
            let style = match current == Some(VisibleMatch { y, number }) {
                true => styles.current,
                false => styles.other,
            };
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
    /// Number of matches before it in the item's text.
    pub(super) place: usize,
}
