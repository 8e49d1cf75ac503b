//! A list with a search, to pick one thing from: a session, a model, a host, a completion, a line of the history.
//!
//! A pure state ([`Picker`]) and a widget that draws the rows which are seen, however many there are. What the rows
//! say comes from logs and files: it is made harmless here.

mod ask;
mod draw;
mod field;
mod fuzzy;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub use self::ask::{Ask, Asked, Variable};
pub use self::draw::Looks;
pub use self::field::Field;

use self::fuzzy::Pattern;

/// How many rows a page has until it was drawn once.
const PAGE_DEFAULT: usize = 10;

/// One thing that can be picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<T> {
    /// What it is.
    pub value: T,
    /// What the row says, and what is searched.
    pub label: String,
    /// What stands at the end of the row, where there is room: a host, a time. Searched too.
    pub detail: String,
    /// More of it, in a line of its own while it is selected.
    pub preview: String,
}

/// A list that is picked from.
#[derive(Debug, Clone)]
pub struct Picker<T> {
    title: String,
    choices: Vec<Choice<T>>,
    /// What is typed into the picker itself; none where its search comes from elsewhere.
    field: Option<Field>,
    typed: String,
    /// The choices that fit, by their number, the best first.
    found: Vec<usize>,
    /// Which of those is selected.
    selected: usize,
    /// Which of those is on top.
    top: usize,
    page: usize,
}

/// What a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picked {
    /// It was for the list.
    Nothing,
    /// Enter: this is it ([`Picker::selected`]).
    This,
    /// Escape: none of them.
    Left,
    /// It was not for the list.
    NotMine,
}

impl<T> Picker<T> {
    /// A list with a line to type what is searched.
    pub fn new(title: &str, choices: Vec<Choice<T>>) -> Self {
        let found = (0..choices.len()).collect();
        Self {
            title: title.to_owned(),
            choices,
            field: Some(Field::default()),
            typed: String::new(),
            found,
            selected: 0,
            top: 0,
            page: PAGE_DEFAULT,
        }
    }

    /// A list without one: what is searched is typed somewhere else ([`Picker::search`]), as completions are.
    pub fn menu(choices: Vec<Choice<T>>) -> Self {
        Self { field: None, ..Self::new("", choices) }
    }

    /// Other things to pick from, while the search stays; the same row stays selected where it can.
    pub fn replace(&mut self, choices: Vec<Choice<T>>) {
        self.choices = choices;
        let selected = self.selected;
        self.find(None);
        self.select(selected);
    }

    /// Searches for this.
    pub fn search(&mut self, typed: &str) {
        if typed == self.typed {
            return;
        }
        // What did not fit before does not fit now, if more was typed.
        let narrower = typed.strip_prefix(self.typed.as_str()).is_some();
        let before = std::mem::take(&mut self.found);
        self.typed = typed.to_owned();
        self.find(narrower.then_some(before));
    }

    /// What is searched for.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// How many fit, and of how many.
    pub fn count(&self) -> (usize, usize) {
        (self.found.len(), self.choices.len())
    }

    /// What is selected; none where nothing fits.
    pub fn selected(&self) -> Option<&Choice<T>> {
        self.found.get(self.selected).map(|&number| &self.choices[number])
    }

    /// Takes a paste.
    pub fn paste(&mut self, text: &str) {
        if let Some(field) = &mut self.field {
            field.insert(text);
            let typed = field.text().to_owned();
            self.search(&typed);
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Picked {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.found.len().saturating_sub(1);
        match (key.code.as_char(), key.code) {
            (_, KeyCode::Esc) => return Picked::Left,
            (Some('c' | 'g'), _) if control => return Picked::Left,
            (_, KeyCode::Enter) if self.found.is_empty() => return Picked::Nothing,
            (_, KeyCode::Enter) => return Picked::This,
            (_, KeyCode::Tab) if self.field.is_none() && !self.found.is_empty() => return Picked::This,
            (_, KeyCode::Up) => self.step_back(),
            (Some('p'), _) if control => self.step_back(),
            (_, KeyCode::Down) => self.step(),
            (Some('n' | 'j'), _) if control => self.step(),
            (_, KeyCode::PageUp) => self.select(self.selected.saturating_sub(self.page)),
            (_, KeyCode::PageDown) => self.select(self.selected + self.page),
            (_, KeyCode::Home) if self.field.is_some() => self.select(0),
            (_, KeyCode::End) if self.field.is_some() => self.select(last),
            _ => {
                let Some(field) = &mut self.field else { return Picked::NotMine };
                if !field.key(key) {
                    return Picked::NotMine;
                }
                let typed = field.text().to_owned();
                self.search(&typed);
            }
        }
        Picked::Nothing
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

    /// Finds what fits, among these or among all.
    fn find(&mut self, among: Option<Vec<usize>>) {
        let among = among.unwrap_or_else(|| (0..self.choices.len()).collect());
        let pattern = Pattern::new(&self.typed);
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

    fn score(&self, number: usize, pattern: &Pattern, letters: &mut Vec<char>) -> Option<i32> {
        let choice = &self.choices[number];
        let label = pattern.score(&choice.label, letters);
        if label.is_some() || choice.detail.is_empty() {
            return label;
        }
        // What a row says at its end counts less than any label.
        let both = format!("{} {}", choice.label, choice.detail);
        pattern.score(&both, letters).map(|score| score - 1_000_000)
    }
}

#[cfg(test)]
mod tests;
