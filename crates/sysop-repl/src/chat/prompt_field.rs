//! One line that a person types for a program: a secret that nobody sees, or a short answer that they do.
//!
//! It takes the bytes of a terminal in raw mode, pasted ones too. What was typed lives in one buffer that never
//! grows, so that no copy of it is left behind, and that is wiped when it goes; it is neither printed nor logged.

use std::fmt;

use secrecy::SecretString;
use secrecy::zeroize::{Zeroize, Zeroizing};

/// The longest answer, in bytes; a terminal's own lines end at 4095.
pub(super) const ANSWER_BYTES_MAX: usize = 4095;

/// What became of the line.
#[derive(Debug)]
pub(super) enum FieldInput {
    /// The person is still typing.
    Incomplete,
    /// Enter.
    Submitted(SecretString),
    /// Esc, or Ctrl+D on an empty line.
    Refused,
    /// Ctrl+C.
    Interrupted,
    /// Enter, but what was typed is no text; it was thrown away.
    InvalidUtf8,
}

/// Where in a key's sequence the last byte was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    None,
    /// After Esc, which is a key of its own if nothing follows.
    Escape,
    /// After `ESC O`, which one more byte ends.
    Ss3,
    /// After `ESC [`, until a byte of `@` to `~`.
    Csi,
}

/// The line.
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
    /// An empty line.
    pub(super) fn new() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(ANSWER_BYTES_MAX)), sequence: EscapeState::None }
    }

    /// Takes the next byte.
    pub(super) fn push(&mut self, byte: u8) -> FieldInput {
        match (self.sequence, byte) {
            // What a key without a character sends is no part of an answer.
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

    /// Whether a lone Esc may have been the last byte.
    pub(super) fn is_in_escape(&self) -> bool {
        self.sequence == EscapeState::Escape
    }

    /// What is there so far; for a line that may be seen.
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
            // Ctrl+U and Ctrl+W: of a line that is not seen, all goes.
            0x15 | 0x17 => self.clear(),
            0x00..=0x1f => {}
            byte if self.bytes.len() < ANSWER_BYTES_MAX => self.bytes.push(byte),
            _ => {}
        }
        FieldInput::Incomplete
    }

    fn enter(&mut self) -> FieldInput {
        let typed = match std::str::from_utf8(&self.bytes) {
            // A box of exactly this size: making one of a longer buffer would leave a copy in freed memory.
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
    fn keys_make_a_line() {
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
    fn the_buffer_stays_where_it_is_and_is_emptied() {
        let mut field = PromptField::new();
        let place = field.bytes.as_ptr();
        for _ in 0..2 * ANSWER_BYTES_MAX {
            assert!(matches!(field.push(b'x'), FieldInput::Incomplete));
        }
        assert_eq!((field.bytes.len(), field.bytes.as_ptr()), (ANSWER_BYTES_MAX, place));
        let FieldInput::Submitted(text) = field.push(b'\r') else { panic!("it was not sent") };
        assert_eq!(text.expose_secret().len(), ANSWER_BYTES_MAX);
        assert!(field.bytes.is_empty() && field.bytes.as_ptr() == place);
        assert_eq!(format!("{field:?}"), "Field");
    }
}
