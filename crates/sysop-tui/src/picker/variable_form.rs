//! A form that asks for the variables of a routine, one at a time.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};
use sysop_core::text::neutralize_line;

use super::PickerStyle;
use super::text_field::TextField;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormVariable {
    pub name: String,
    pub description: String,
}

#[derive(Debug, Clone)]
pub struct VariableForm {
    title: String,
    variables: Vec<FormVariable>,
    answers: Vec<String>,
    field: TextField,
    /// Reason why the last answer was rejected; `None` if it was not.
    wrong: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableFormEvent {
    Pending,
    /// The variable with this index was answered; [`VariableForm::refuse`] can reject the answer.
    Answered(usize),
    /// The user canceled with Escape.
    Cancelled,
}

impl VariableForm {
    /// Creates a form. If there are no variables, [`VariableForm::values`] is complete at once.
    pub fn new(title: &str, variables: Vec<FormVariable>) -> Self {
        Self {
            title: title.to_owned(),
            variables,
            answers: Vec::new(),
            field: TextField::default(),
            wrong: None,
        }
    }

    /// Returns the names and values of all variables, or `None` until the last one is answered.
    pub fn values(&self) -> Option<Vec<(String, String)>> {
        let names = self.variables.iter().map(|variable| variable.name.clone());
        (self.answers.len() == self.variables.len())
            .then(|| names.zip(self.answers.iter().cloned()).collect())
    }

    /// Rejects the last answer and asks for it again.
    pub fn refuse(&mut self, why: &str) {
        if let Some(answer) = self.answers.pop() {
            self.field = TextField::new(&answer);
            self.wrong = Some(why.to_owned());
        }
    }

    pub fn paste(&mut self, text: &str) {
        self.field.insert(text);
    }

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
            // Go back to the previous answer.
            (_, KeyCode::Up | KeyCode::BackTab) => {
                if let Some(answer) = self.answers.pop() {
                    self.field = TextField::new(&answer);
                    self.wrong = None;
                }
            }
            // All other keys edit the line.
            _ => {
                self.field.key(key);
            }
        }
        VariableFormEvent::Pending
    }

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

    /// Draws the form over the existing content and returns the cursor position if the cursor is visible.
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
        // If not all answers fit, the last ones are shown.
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
