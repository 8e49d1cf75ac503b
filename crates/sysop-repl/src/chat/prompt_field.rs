//! Input line for a program: a hidden secret or a visible short answer.
//!
//! Accepts the bytes of a terminal in raw mode, including pastes. The text is kept in one buffer that never grows, so
//! that no copy is left behind, and that is zeroed on drop. The text is neither printed nor logged.

use std::fmt;

use secrecy::SecretString;
use secrecy::zeroize::{Zeroize, Zeroizing};

/// Maximum length of an answer, in bytes; also the limit for a line in a terminal's canonical mode.
pub(super) const ANSWER_BYTES_MAX: usize = 4095;

/// State of the field after a byte.
#[derive(Debug)]
pub(super) enum FieldInput {
    Incomplete,
    Submitted(SecretString),
    /// Esc, or Ctrl+D on an empty line.
    Refused,
    /// Ctrl+C.
    Interrupted,
    /// Enter after invalid UTF-8, which was discarded.
    InvalidUtf8,
}

/// Position within a key's escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    None,
    /// After an Esc, which is a key by itself if nothing follows.
    Escape,
    /// After `ESC O`; one more byte ends the sequence.
    Ss3,
    /// After `ESC [`; a byte from `@` to `~` ends the sequence.
    Csi,
}

pub(super) struct PromptField {
    bytes: Zeroizing<Vec<u8>>,
    sequence: EscapeState,
}

impl fmt::Debug for PromptField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Field")
    }
}

impl PromptField {
    pub(super) fn new() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(ANSWER_BYTES_MAX)), sequence: EscapeState::None }
    }

    pub(super) fn push(&mut self, byte: u8) -> FieldInput {
        match (self.sequence, byte) {
            // Sequences for keys without a character are not part of an answer.
            (EscapeState::Escape, b'[') => self.sequence = EscapeState::Csi,
            (EscapeState::Escape, b'O') => self.sequence = EscapeState::Ss3,
            (EscapeState::Escape, 0x1b) => return FieldInput::Refused,
            (EscapeState::Escape | EscapeState::Ss3, _) | (EscapeState::Csi, b'@'..=b'~') => {
                self.sequence = EscapeState::None;
            }
            (EscapeState::Csi, _) => {}
            (EscapeState::None, byte) => return self.key(byte),
        }
        FieldInput::Incomplete
    }

    /// Returns true if the last byte may have been a lone Esc.
    pub(super) fn is_in_escape(&self) -> bool {
        self.sequence == EscapeState::Escape
    }

    /// Returns the text so far, for a visible line.
    pub(super) fn echo_text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn key(&mut self, byte: u8) -> FieldInput {
        match byte {
            b'\r' | b'\n' => return self.enter(),
            0x03 => return FieldInput::Interrupted,
            0x04 if self.bytes.is_empty() => return FieldInput::Refused,
            0x1b => self.sequence = EscapeState::Escape,
            0x7f | 0x08 => self.erase_character(),
            // Ctrl+U and Ctrl+W both clear the whole line, because a hidden line has no visible words.
            0x15 | 0x17 => self.clear(),
            0x00..=0x1f => {}
            byte if self.bytes.len() < ANSWER_BYTES_MAX => self.bytes.push(byte),
            _ => {}
        }
        FieldInput::Incomplete
    }

    fn enter(&mut self) -> FieldInput {
        let typed = match std::str::from_utf8(&self.bytes) {
            // An exact-size box: shrinking a larger buffer would leave a copy in freed memory.
            Ok(text) => FieldInput::Submitted(SecretString::new(text.into())),
            Err(_) => FieldInput::InvalidUtf8,
        };
        self.clear();
        typed
    }

    fn erase_character(&mut self) {
        while self.bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
    }

    fn clear(&mut self) {
        self.bytes.as_mut_slice().zeroize();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn typed(bytes: &[u8]) -> String {
        let mut field = PromptField::new();
        for byte in bytes {
            match field.push(*byte) {
                FieldInput::Incomplete => {}
                FieldInput::Submitted(text) => return format!("sent {}", text.expose_secret()),
                FieldInput::Refused => return "refused".to_owned(),
                FieldInput::Interrupted => return "interrupted".to_owned(),
                FieldInput::InvalidUtf8 => return "no text".to_owned(),
            }
        }
        format!("more {}", field.echo_text())
    }

    #[test]
    fn keys_edit_the_line() {
        assert_eq!(typed(b"geheim\rrest"), "sent geheim");
        assert_eq!(typed("grün\u{7f}\u{7f}t\n".as_bytes()), "sent grt");
        assert_eq!(typed(b"all of it\x15new\r"), "sent new");
        assert_eq!(typed(b"a\x1b[Db\x1bOPc\x1b[200~d\x1bxe\r"), "sent abcde");
        assert_eq!(typed(b"\r"), "sent ");
        assert_eq!(typed(b"a\x03"), "interrupted");
        assert_eq!(typed(b"\x04"), "refused");
        assert_eq!(typed(b"a\x04b\tc"), "more abc");
        assert_eq!(typed(b"\x1b\x1b"), "refused");
        assert_eq!(typed(b"\xff\r"), "no text");
    }

    #[test]
    fn the_buffer_is_never_reallocated_and_is_cleared() {
        let mut field = PromptField::new();
        let place = field.bytes.as_ptr();
        for _ in 0..2 * ANSWER_BYTES_MAX {
            assert!(matches!(field.push(b'x'), FieldInput::Incomplete));
        }
        assert_eq!((field.bytes.len(), field.bytes.as_ptr()), (ANSWER_BYTES_MAX, place));
        let FieldInput::Submitted(text) = field.push(b'\r') else { panic!("the answer is not complete") };
        assert_eq!(text.expose_secret().len(), ANSWER_BYTES_MAX);
        assert!(field.bytes.is_empty() && field.bytes.as_ptr() == place);
        assert_eq!(format!("{field:?}"), "Field");
    }
}
