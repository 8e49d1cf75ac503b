//! A list with a search, to pick one thing from: a session, a model, a host, a line of the history.
//!
//! A pure state ([`Picker`]) and a widget that draws the rows which are seen, however many there are. What the rows
//! say comes from logs and files: it is made harmless here.

mod draw;
mod fuzzy;
mod text_field;
mod variable_form;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub use self::draw::PickerStyle;
pub use self::variable_form::{FormVariable, VariableForm, VariableFormEvent};

use self::fuzzy::FuzzyPattern;
use self::text_field::TextField;

/// How many rows a page has until it was drawn once.
const PAGE_DEFAULT: usize = 10;

/// One thing that can be picked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerItem {
    /// What the row says, and what is searched.
    pub label: String,
    /// What stands at the end of the row, where there is room: a host, a time. Searched too.
    pub detail: String,
    /// More of it, in a line of its own while it is selected.
    pub preview: String,
}

impl PickerItem {
    /// With this in its row.
    pub fn new(label: &str, detail: &str) -> Self {
        Self { label: label.to_owned(), detail: detail.to_owned(), preview: String::new() }
    }

    /// With this in a line of its own.
    pub fn with_preview(self, preview: &str) -> Self {
        Self { preview: preview.to_owned(), ..self }
    }
}

/// A list that is picked from.
#[derive(Debug, Clone)]
pub struct Picker {
    title: String,
    entries: Vec<PickerItem>,
    /// What is searched for.
    field: TextField,
    /// What was searched for last.
    typed: String,
    /// The entries that fit, by their number, the best first.
    found: Vec<usize>,
    /// Which of those is selected.
    selected: usize,
    /// Which of those is on top.
    top: usize,
    page: usize,
}

/// What a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickerEvent {
    /// Nothing is picked yet.
    Pending,
    /// Enter: the entry with this number.
    Chosen(usize),
    /// Escape: none of them.
    Cancelled,
}

impl Picker {
    /// A list with a line to type what is searched.
    pub fn new(title: &str, entries: Vec<PickerItem>) -> Self {
        let found = (0..entries.len()).collect();
        Self {
            title: title.to_owned(),
            entries,
            field: TextField::default(),
            typed: String::new(),
            found,
            selected: 0,
            top: 0,
            page: PAGE_DEFAULT,
        }
    }

    /// Puts in what is there now, under another title; what was typed meanwhile is searched for.
    pub fn fill(&mut self, title: &str, entries: Vec<PickerItem>) {
        title.clone_into(&mut self.title);
        self.found = (0..entries.len()).collect();
        self.entries = entries;
        self.typed.clear();
        (self.selected, self.top) = (0, 0);
        self.search();
    }

    /// How many fit, and of how many.
    fn count(&self) -> (usize, usize) {
        (self.found.len(), self.entries.len())
    }

    /// The number of the entry that is selected; none where nothing fits.
    pub fn selected(&self) -> Option<usize> {
        self.found.get(self.selected).copied()
    }

    /// Takes a paste.
    pub fn paste(&mut self, text: &str) {
        self.field.insert(text);
        self.search();
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> PickerEvent {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.found.len().saturating_sub(1);
        match (key.code.as_char(), key.code) {
            (_, KeyCode::Esc) => return PickerEvent::Cancelled,
            (Some('c' | 'g'), _) if control => return PickerEvent::Cancelled,
            (_, KeyCode::Enter) => return self.selected().map_or(PickerEvent::Pending, PickerEvent::Chosen),
            (_, KeyCode::Up) => self.step_back(),
            (Some('p'), _) if control => self.step_back(),
            (_, KeyCode::Down) => self.step(),
            // Pressed again, Ctrl+R goes on, as it does in a shell.
            (Some('n' | 'j' | 'r'), _) if control => self.step(),
            (_, KeyCode::PageUp) => self.select(self.selected.saturating_sub(self.page)),
            (_, KeyCode::PageDown) => self.select(self.selected + self.page),
            (_, KeyCode::Home) => self.select(0),
            (_, KeyCode::End) => self.select(last),
            _ => {
                if self.field.key(key) {
                    self.search();
                }
            }
        }
        PickerEvent::Pending
    }

    /// Selects what is further on by so many rows, as a wheel does; back where it is less than 0.
    pub fn scroll(&mut self, rows: isize) {
        self.select(self.selected.saturating_add_signed(rows));
    }

    /// The next one; after the last one the first.
    fn step(&mut self) {
        let next = self.selected + 1;
        self.select(if next < self.found.len() { next } else { 0 });
    }

    fn step_back(&mut self) {
        let last = self.found.len().saturating_sub(1);
        self.select(self.selected.checked_sub(1).unwrap_or(last));
    }

    fn select(&mut self, wanted: usize) {
        self.selected = wanted.min(self.found.len().saturating_sub(1));
    }

    /// Finds what fits to what is typed now.
    fn search(&mut self) {
        if self.field.text() == self.typed {
            return;
        }
        // What did not fit before does not fit now, if more was typed.
        let narrower = self.field.text().starts_with(&self.typed);
        self.typed = self.field.text().to_owned();
        let before = std::mem::take(&mut self.found);
        let among = if narrower { before } else { (0..self.entries.len()).collect() };
        let pattern = FuzzyPattern::new(&self.typed);
        let mut letters = Vec::new();
        let mut scored: Vec<(i32, usize)> = among
            .into_iter()
            .filter_map(|number| Some((self.score(number, &pattern, &mut letters)?, number)))
            .collect();
        // Those that fit as well stay in their order.
        scored.sort_unstable_by_key(|&(score, number)| (std::cmp::Reverse(score), number));
        self.found = scored.into_iter().map(|(_, number)| number).collect();
        self.selected = 0;
        self.top = 0;
    }

    fn score(&self, number: usize, pattern: &FuzzyPattern, letters: &mut Vec<char>) -> Option<i32> {
        let entry = &self.entries[number];
        let label = pattern.score(&entry.label, letters);
        if label.is_some() || entry.detail.is_empty() {
            return label;
        }
        // What a row says at its end counts less than any label.
        let both = format!("{} {}", entry.label, entry.detail);
        pattern.score(&both, letters).map(|score| score - 1_000_000)
    }
}

#[cfg(test)]
mod tests;
