//! A searchable list for choosing a session, model, host or earlier prompt.
//!
//! [`Picker`] is pure state, and drawing touches only the visible rows. Labels come from logs and files, so control
//! characters in them are neutralized here.

mod draw;
mod fuzzy;
mod text_field;
mod variable_form;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub use self::draw::PickerStyle;
pub use self::variable_form::{FormVariable, VariableForm, VariableFormEvent};

use self::fuzzy::FuzzyPattern;
use self::text_field::TextField;

/// Page size in rows, used until the list is drawn.
const PAGE_DEFAULT: usize = 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerItem {
    /// Text of the row; searched.
    pub label: String,
    /// Text at the right end of the row, such as a host or a time, or a description; searched, and shown only if it
    /// fits.
    pub detail: String,
    /// Additional text, shown on a separate line while the entry is selected.
    pub preview: String,
    /// True if `detail` is excluded from the search.
    pub only_label: bool,
}

impl PickerItem {
    /// Creates an entry without a preview.
    pub fn new(label: &str, detail: &str) -> Self {
        Self { label: label.to_owned(), detail: detail.to_owned(), preview: String::new(), only_label: false }
    }

    /// Creates an entry that is matched only by its label.
    pub fn titled(label: &str, detail: &str) -> Self {
        Self { only_label: true, ..Self::new(label, detail) }
    }

    pub fn with_preview(self, preview: &str) -> Self {
        Self { preview: preview.to_owned(), ..self }
    }
}

#[derive(Debug, Clone)]
pub struct Picker {
    title: String,
    entries: Vec<PickerItem>,
    field: TextField,
    /// Search text for which `found` was computed.
    typed: String,
    /// Indexes of the matching entries, best match first.
    found: Vec<usize>,
    /// Position of the selected entry in `found`.
    selected: usize,
    /// Position of the first visible entry in `found`.
    top: usize,
    page: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickerEvent {
    /// No entry has been chosen yet.
    Pending,
    /// The user pressed Enter to choose the entry with this index.
    Chosen(usize),
    /// The user canceled with Escape.
    Cancelled,
}

impl Picker {
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

    /// Replaces the title and the entries, and applies the current search text to the new entries.
    pub fn fill(&mut self, title: &str, entries: Vec<PickerItem>) {
        title.clone_into(&mut self.title);
        self.found = (0..entries.len()).collect();
        self.entries = entries;
        self.typed.clear();
        (self.selected, self.top) = (0, 0);
        self.search();
    }

    /// Returns the search text.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// Inserts text into the search field, as if the user had typed it.
    pub fn type_text(&mut self, text: &str) {
        self.field.insert(text);
        self.search();
    }

    /// Adds entries found by other means, by index and with a new preview. They follow the other matches.
    pub fn add_found(&mut self, entries: Vec<(usize, String)>) {
        for (at, preview) in entries {
            let Some(entry) = self.entries.get_mut(at) else { continue };
            entry.preview = preview;
            if !self.found.contains(&at) {
                self.found.push(at);
            }
        }
    }

    fn count(&self) -> (usize, usize) {
        (self.found.len(), self.entries.len())
    }

    /// Returns the index of the selected entry, or `None` if no entry matches.
    pub fn selected(&self) -> Option<usize> {
        self.found.get(self.selected).copied()
    }

    /// Inserts a paste into the search field.
    pub fn paste(&mut self, text: &str) {
        self.field.insert(text);
        self.search();
    }

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
            // Repeated Ctrl+R selects the next match, as in a shell.
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

    /// Moves the selection by `rows`, as a mouse wheel does. A negative number moves it up.
    pub fn scroll(&mut self, rows: isize) {
        self.select(self.selected.saturating_add_signed(rows));
    }

    /// Selects the next entry, or the first one after the last.
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

    fn search(&mut self) {
        if self.field.text() == self.typed {
            return;
        }
        // A longer search text can only match a subset of the previous matches.
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
        // Equal scores keep the original order.
        scored.sort_unstable_by_key(|&(score, number)| (std::cmp::Reverse(score), number));
        self.found = scored.into_iter().map(|(_, number)| number).collect();
        self.selected = 0;
        self.top = 0;
    }

    fn score(&self, number: usize, pattern: &FuzzyPattern, letters: &mut Vec<char>) -> Option<i32> {
        let entry = &self.entries[number];
        let label = pattern.score(&entry.label, letters);
        if label.is_some() || entry.detail.is_empty() || entry.only_label {
            return label;
        }
        // A match that needs the detail ranks below any match of the label alone.
        let both = format!("{} {}", entry.label, entry.detail);
        pattern.score(&both, letters).map(|score| score - 1_000_000)
    }
}

#[cfg(test)]
mod tests;
