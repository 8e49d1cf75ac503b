//! Questions one by one, each with a line for its answer: the variables of a routine.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};
use sysop_core::text::neutralize_line;

use super::PickerStyle;
use super::text_field::TextField;

/// What a value is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormVariable {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: String,
}

/// The questions, as far as they were answered.
#[derive(Debug, Clone)]
pub struct VariableForm {
    title: String,
    variables: Vec<FormVariable>,
    answers: Vec<String>,
    field: TextField,
    /// Why the last answer was not taken.
    wrong: Option<String>,
}

/// What a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableFormEvent {
    /// It was for the line.
    Pending,
    /// An answer was given, and is the value of the variable with this number, unless [`VariableForm::refuse`] follows.
    Answered(usize),
    /// Escape: nothing is to be done.
    Cancelled,
}

impl VariableForm {
    /// Asks for all of these; for none, [`VariableForm::values`] are there at once.
    pub fn new(title: &str, variables: Vec<FormVariable>) -> Self {
        Self {
            title: title.to_owned(),
            variables,
            answers: Vec::new(),
            field: TextField::default(),
            wrong: None,
        }
    }

    /// All names with their values; none until the last was answered.
    pub fn values(&self) -> Option<Vec<(String, String)>> {
        let names = self.variables.iter().map(|variable| variable.name.clone());
        (self.answers.len() == self.variables.len())
            .then(|| names.zip(self.answers.iter().cloned()).collect())
    }

    /// The answer that was given last cannot be; it is asked for again.
    pub fn refuse(&mut self, why: &str) {
        if let Some(answer) = self.answers.pop() {
            self.field = TextField::new(&answer);
            self.wrong = Some(why.to_owned());
        }
    }

    /// Takes a paste.
    pub fn paste(&mut self, text: &str) {
        self.field.insert(text);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> VariableFormEvent {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code.as_char(), key.code) {
            (_, KeyCode::Esc) => return VariableFormEvent::Cancelled,
            (Some('c' | 'g'), _) if control => return VariableFormEvent::Cancelled,
            (_, KeyCode::Enter) if self.answers.len() < self.variables.len() => {
                self.answers.push(std::mem::take(&mut self.field).text().to_owned());
                self.wrong = None;
                return VariableFormEvent::Answered(self.answers.len() - 1);
            }
            // Back to the answer before.
            (_, KeyCode::Up | KeyCode::BackTab) => {
                if let Some(answer) = self.answers.pop() {
                    self.field = TextField::new(&answer);
                    self.wrong = None;
                }
            }
            // Any other key is for the line, or for nothing.
            _ => {
                self.field.key(key);
            }
        }
        VariableFormEvent::Pending
    }

    /// Where it is well placed over this screen.
    pub fn popup_area(&self, screen: Rect) -> Rect {
        let width = screen.width.min(72);
        let rows = u16::try_from(self.answers.len()).unwrap_or(u16::MAX).saturating_add(5);
        let height = rows.min(screen.height);
        Rect {
            x: screen.x + (screen.width - width) / 2,
            y: screen.y + (screen.height - height) / 2,
            width,
            height,
        }
    }

    /// Draws it over what is there; gives where the cursor belongs, if it is seen.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer, picker_style: &PickerStyle) -> Option<Position> {
        let area = area.intersection(buffer.area);
        Clear.render(area, buffer);
        buffer.set_style(area, picker_style.text);
        let block = Block::bordered()
            .border_style(picker_style.border)
            .title(Line::styled(format!(" {} ", neutralize_line(&self.title)), picker_style.title));
        let inner = block.inner(area);
        block.render(area, buffer);
        if inner.is_empty() {
            return None;
        }
        // Of many answers, the last ones.
        let mut rows: Vec<(String, _)> = Vec::new();
        for (variable, answer) in self.variables.iter().zip(&self.answers) {
            rows.push((
                format!("{}: {}", neutralize_line(&variable.name), neutralize_line(answer)),
                picker_style.dim,
            ));
        }
        let current = self.variables.get(self.answers.len())?;
        rows.push((neutralize_line(&current.description).into_owned(), picker_style.text));
        let line = rows.len();
        rows.push((format!("{} › ", neutralize_line(&current.name)), picker_style.title));
        rows.push((
            self.wrong.as_deref().map(neutralize_line).unwrap_or_default().into_owned(),
            picker_style.matched,
        ));
        let first = (line + 1).saturating_sub(inner.height.into());
        let mut cursor = None;
        for (y, (number, (text, style))) in
            (inner.y..inner.bottom()).zip(rows.into_iter().enumerate().skip(first))
        {
            let (x, _) = buffer.set_stringn(inner.x, y, &text, inner.width.into(), style);
            if number == line {
                let room = inner.right().saturating_sub(x);
                let (seen, column) = self.field.view(room.into());
                buffer.set_stringn(x, y, &seen, room.into(), picker_style.text);
                let column = u16::try_from(column).unwrap_or(0);
                cursor = Some(Position { x: (x + column).min(inner.right().saturating_sub(1)), y });
            }
        }
        cursor
    }
}
