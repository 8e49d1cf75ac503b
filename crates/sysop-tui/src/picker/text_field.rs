//! A single-line text field, used for searching a list and for entering values in a form. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::text::neutralize_line;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};
use unicode_width::UnicodeWidthStr as _;

const LINE_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TextField {
    text: String,
    /// Byte offset of the cursor in `text`, on a character boundary.
    cursor: usize,
}

impl TextField {
    /// Creates a field that contains `text`, with the cursor at its end.
    pub(super) fn new(text: &str) -> Self {
        let mut field = Self::default();
        field.insert(text);
        field
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Inserts text at the cursor. Newlines and tabs become spaces; other control characters are dropped.
    pub(super) fn insert(&mut self, text: &str) {
        let text: String = text
            .chars()
            .map(|letter| if matches!(letter, '\n' | '\r' | '\t') { ' ' } else { letter })
            .filter(|letter| {
                matches!(neutralize_line(letter.encode_utf8(&mut [0; 4])), std::borrow::Cow::Borrowed(_))
            })
            .collect();
        if self.text.len() + text.len() <= LINE_BYTES_MAX {
            self.text.insert_str(self.cursor, &text);
            self.cursor += text.len();
        }
    }

    /// Handles a key. Returns false if the key has no meaning here.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match (key.code.as_char(), key.code) {
            (Some('a'), _) if control => self.cursor = 0,
            (Some('e'), _) if control => self.cursor = self.text.len(),
            (Some('b'), _) if control => self.cursor = self.before(),
            (Some('f'), _) if control => self.cursor = self.after(),
            (Some('b'), _) if alt => self.cursor = self.word_before(),
            (Some('f'), _) if alt => self.cursor = self.word_after(),
            (Some('u'), _) if control => self.delete(0, self.cursor),
            (Some('k'), _) if control => self.delete(self.cursor, self.text.len()),
            (Some('w'), _) if control => self.delete(self.word_before(), self.cursor),
            (Some('h'), _) if control => self.delete(self.before(), self.cursor),
            (Some(_), _) if control || alt => return false,
            (Some(letter), _) => self.insert(letter.encode_utf8(&mut [0; 4])),
            (_, KeyCode::Backspace) if alt || control => self.delete(self.word_before(), self.cursor),
            (_, KeyCode::Backspace) => self.delete(self.before(), self.cursor),
            (_, KeyCode::Delete) => self.delete(self.cursor, self.after()),
            (_, KeyCode::Left) if alt || control => self.cursor = self.word_before(),
            (_, KeyCode::Right) if alt || control => self.cursor = self.word_after(),
            (_, KeyCode::Left) => self.cursor = self.before(),
            (_, KeyCode::Right) => self.cursor = self.after(),
            (_, KeyCode::Home) => self.cursor = 0,
            (_, KeyCode::End) => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    /// Returns the part of the text that is visible at a width of `columns`, and the cursor's column in that part.
    pub(super) fn view(&self, columns: usize) -> (String, usize) {
        let room = columns.saturating_sub(1);
        let mut start = self.cursor;
        let mut before = 0;
        for (at, letter) in self.text[..self.cursor].grapheme_indices(true).rev() {
            if before + letter.width() > room {
                break;
            }
            before += letter.width();
            start = at;
        }
        let mut seen = String::new();
        let mut width = 0;
        for letter in self.text[start..].graphemes(true) {
            width += letter.width();
            if width > columns {
                break;
            }
            seen.push_str(letter);
        }
        (seen, before)
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn after(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len())
    }

    fn word_before(&self) -> usize {
        let word = self.text[..self.cursor].unicode_word_indices().next_back();
        word.map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let word = self.text[self.cursor..].unicode_word_indices().next();
        word.map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(field: &mut TextField, keys: &str) {
        for key in keys.split(' ') {
            let (code, held) = match key {
                "Left" => (KeyCode::Left, KeyModifiers::NONE),
                "Backspace" => (KeyCode::Backspace, KeyModifiers::NONE),
                "Home" => (KeyCode::Home, KeyModifiers::NONE),
                "Delete" => (KeyCode::Delete, KeyModifiers::NONE),
                _ => match key.strip_prefix("C-") {
                    Some(letter) => (KeyCode::Char(letter.chars().next().unwrap()), KeyModifiers::CONTROL),
                    None => (KeyCode::Char(key.chars().next().unwrap()), KeyModifiers::NONE),
                },
            };
            assert!(field.key(KeyEvent::new(code, held)), "{key}");
        }
    }

    #[test]
    fn editing_moves_by_grapheme() {
        let mut field = TextField::new("ein 日本");
        press(&mut field, "Left Backspace x");
        assert_eq!(field.text(), "ein x本");
        press(&mut field, "C-w Home Delete C-e !");
        assert_eq!(field.text(), "in 本!");
        press(&mut field, "Left C-u");
        assert_eq!(field.text(), "!");
    }

    #[test]
    fn control_characters_are_not_inserted() {
        let field = TextField::new("a\nb\tc\u{1b}[31m\u{202e}d");
        assert_eq!(field.text(), "a b c[31md");
    }

    #[test]
    fn the_cursor_stays_visible() {
        let mut field = TextField::new("0123456789");
        assert_eq!(field.view(5), ("6789".to_owned(), 4));
        press(&mut field, "Home");
        assert_eq!(field.view(5), ("01234".to_owned(), 0));
        assert_eq!(TextField::new("日本語").view(4), ("語".to_owned(), 2));
        assert_eq!(field.view(0), (String::new(), 0));
    }
}
