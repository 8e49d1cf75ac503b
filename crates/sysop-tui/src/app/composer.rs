//! The multi-line text field in which the user writes prompts. Large pastes are shown as placeholders.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui_textarea::{CursorMove, DataCursor, TextArea};

use super::text_area::{self, EditResult};

/// Minimum number of lines of a paste that is shown as a placeholder.
const FOLDED_LINES_MIN: usize = 10;
/// Minimum number of characters of a paste that is shown as a placeholder.
const FOLDED_CHARS_MIN: usize = 1_000;
const PASTE_BYTES_MAX: usize = 1024 * 1024;

pub struct Composer {
    area: TextArea<'static>,
    pastes: Vec<(String, String)>,
    pasted: usize,
    /// True if the text was removed and the key for undo brings it back.
    is_cleared: bool,
}

impl Default for Composer {
    fn default() -> Self {
        Self { area: text_area::area(""), pastes: Vec::new(), pasted: 0, is_cleared: false }
    }
}

impl Composer {
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Returns the full text, with placeholders expanded to the pasted text.
    pub fn text(&self) -> String {
        self.pastes
            .iter()
            .fold(text_area::text(&self.area), |text, (sign, paste)| text.replacen(sign, paste, 1))
    }

    /// Returns the text as displayed, with placeholders for large pastes.
    pub fn display_text(&self) -> String {
        text_area::text(&self.area)
    }

    /// Returns the underlying text area, for drawing.
    pub fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// Returns the underlying text area, for setting styles.
    pub fn area_mut(&mut self) -> &mut TextArea<'static> {
        &mut self.area
    }

    /// Returns the number of rows that the text needs at a width of `columns`.
    pub fn rows(&self, columns: u16) -> u16 {
        text_area::rows(&self.area, columns)
    }

    /// Replaces the text. The user can undo this.
    pub fn set(&mut self, text: &str) {
        text_area::replace(&mut self.area, &text_area::strip_control(text));
    }

    /// Removes the text. The user can undo this.
    pub(super) fn clear(&mut self) {
        self.set("");
        self.is_cleared = true;
    }

    /// Returns true if there is nothing to lose: no text, and none that the key for undo brings back.
    pub(super) fn is_unused(&self) -> bool {
        self.is_empty() && !self.is_cleared
    }

    pub fn take(&mut self) -> String {
        let text = self.text();
        *self = Self::default();
        text
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> EditResult {
        if key.code == KeyCode::Backspace && self.remove_paste() {
            return EditResult::Changed;
        }
        text_area::key(&mut self.area, key)
    }

    /// Inserts pasted text; a large one is shown as a placeholder.
    pub fn paste(&mut self, text: &str) {
        let cut = text.floor_char_boundary(text.len().min(PASTE_BYTES_MAX));
        let text = text_area::strip_control(&text[..cut]);
        let (lines, chars) = (text.lines().count(), text.chars().count());
        if lines < FOLDED_LINES_MIN && chars < FOLDED_CHARS_MIN {
            self.area.insert_str(&text);
            return;
        }
        self.pasted += 1;
        let size = if lines > 1 { format!("{lines} lines") } else { format!("{chars} characters") };
        let sign = format!("[paste {}: {size}]", self.pasted);
        self.area.insert_str(&sign);
        self.pastes.push((sign, text));
    }

    /// Returns true if the cursor is in the first line.
    pub fn at_top(&self) -> bool {
        self.area.cursor().0 == 0
    }

    /// Returns true if the cursor is in the last line.
    pub fn at_bottom(&self) -> bool {
        self.area.cursor().0 + 1 == self.area.lines().len()
    }

    pub fn word(&self) -> &str {
        let before = self.before_cursor();
        before.rsplit([' ', '\t']).next().unwrap_or_default()
    }

    /// Returns the current line up to the cursor.
    pub fn before_cursor(&self) -> &str {
        let DataCursor(row, column) = self.area.cursor();
        let line = self.area.lines().get(row).map_or("", String::as_str);
        let end = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        &line[..end]
    }

    /// Replaces the word before the cursor.
    pub fn replace_word(&mut self, with: &str) {
        for _ in 0..self.word().chars().count() {
            self.area.delete_char();
        }
        self.area.insert_str(with);
    }

    pub fn to_end(&mut self) {
        self.area.move_cursor(CursorMove::Bottom);
        self.area.move_cursor(CursorMove::End);
    }

    /// Deletes the whole placeholder that ends at the cursor. Returns false if there is none.
    fn remove_paste(&mut self) -> bool {
        let before = self.before_cursor();
        let Some(at) = self.pastes.iter().position(|(sign, _)| before.ends_with(sign.as_str())) else {
            return false;
        };
        let chars = self.pastes[at].0.chars().count();
        for _ in 0..chars {
            self.area.delete_char();
        }
        // Keep the paste, because the deletion can be undone.
        true
    }
}
