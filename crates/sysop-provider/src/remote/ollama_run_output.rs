//! Removes terminal control from the output of `ollama run`, and undoes its line breaks.
//!
//! `ollama run` toggles the cursor, draws a spinner, redraws lines, and (without `--nowordwrap`) breaks lines at the
//! terminal's width: it moves back over the last word, erases to the end of the line, and writes a newline and the word
//! again. Read as plain text, that doubles words and breaks JSON, so the current word is buffered and those few
//! movements are applied. All other control sequences are removed.
//!
//! Sources: ollama v0.33.0-rc2, `cmd/` (`displayResponse`), `progress/`; recordings in ollama issue 14571.

use sysop_core::text::Stripper;

/// Maximum parameter bytes of an applied control sequence; a longer one is removed.
const PARAMETERS_MAX: usize = 16;
/// Maximum characters buffered of a line; the cursor cannot move back over a longer word.
const PENDING_CHARS_MAX: usize = 512;

/// Cleans a complete output.
pub(super) fn clean(printed: &[u8]) -> String {
    let mut noise = RunOutputFilter::default();
    let text = noise.push(printed);
    text + &noise.finish()
}

/// Incremental filter; chunk boundaries do not matter.
#[derive(Debug, Default)]
pub(super) struct RunOutputFilter {
    /// Bytes of an incomplete character.
    bytes: Vec<u8>,
    state: State,
    /// End of the current line, which a cursor movement may still change.
    pending: Vec<char>,
    /// Index in `pending` of the next character.
    cursor: usize,
    /// The line was just erased to its end: a newline now is Ollama's own.
    erased: bool,
    /// Removes sequences that are not applied here.
    stripper: Stripper,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    CarriageReturn,
    /// After ESC.
    Escape,
    /// Inside a control sequence, with its parameters.
    Sequence(String),
}

impl RunOutputFilter {
    /// Filters a chunk; returns text that can no longer change.
    pub(super) fn push(&mut self, piece: &[u8]) -> String {
        self.bytes.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.bytes);
        let mut out = String::new();
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text(text, &mut out);
                    return out;
                }
                Err(error) => {
                    let (good, behind) = rest.split_at(error.valid_up_to());
                    self.text(std::str::from_utf8(good).expect("it was found to be valid"), &mut out);
                    let Some(bad) = error.error_len() else {
                        self.bytes = behind.to_vec();
                        return out;
                    };
                    self.text("\u{fffd}", &mut out);
                    rest = &behind[bad..];
                }
            }
        }
    }

    /// Ends the output; returns the buffered rest.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !std::mem::take(&mut self.bytes).is_empty() {
            self.text("\u{fffd}", &mut out);
        }
        self.flush(self.pending.len(), &mut out);
        out.push_str(&self.stripper.finish());
        out
    }

    fn text(&mut self, text: &str, out: &mut String) {
        for sign in text.chars() {
            self.push_char(sign, out);
        }
    }

    fn push_char(&mut self, sign: char, out: &mut String) {
        match std::mem::take(&mut self.state) {
            State::Ground => self.ground(sign, out),
            State::CarriageReturn => match sign {
                '\r' => self.state = State::CarriageReturn,
                '\n' => self.ground(sign, out),
                _ => {
                    self.cursor = 0;
                    self.ground(sign, out);
                }
            },
            State::Escape if sign == '[' => self.state = State::Sequence(String::new()),
            State::Escape => {
                self.write('\u{1b}', out);
                self.ground(sign, out);
            }
            State::Sequence(mut parameters) => match sign {
                '\u{20}'..='\u{3f}' => {
                    if parameters.len() <= PARAMETERS_MAX {
                        parameters.push(sign);
                    }
                    self.state = State::Sequence(parameters);
                }
                '\u{40}'..='\u{7e}' => self.apply_control(sign, &parameters),
                _ => self.ground(sign, out),
            },
        }
    }

    fn ground(&mut self, sign: char, out: &mut String) {
        match sign {
            '\u{1b}' => self.state = State::Escape,
            '\r' => self.state = State::CarriageReturn,
            '\n' if std::mem::take(&mut self.erased) => {}
            '\n' => {
                self.cursor = self.pending.len();
                self.write('\n', out);
                self.flush(self.pending.len(), out);
            }
            _ => self.write(sign, out),
        }
    }

    /// Writes a character at the cursor, and flushes text that no movement can reach.
    fn write(&mut self, sign: char, out: &mut String) {
        self.erased = false;
        if self.cursor < self.pending.len() {
            self.pending[self.cursor] = sign;
        } else {
            self.pending.push(sign);
        }
        self.cursor += 1;
        let at_end = self.cursor == self.pending.len();
        // The spinner is drawn at the beginning of a line and wiped from there; words are moved over one at a time.
        let is_word_end = matches!(sign, ' ' | '\t') && !self.pending.iter().all(|&sign| is_spinner(sign));
        if at_end && (is_word_end || self.pending.len() >= PENDING_CHARS_MAX) {
            self.flush(self.pending.len(), out);
        }
    }

    fn apply_control(&mut self, action: char, parameters: &str) {
        self.erased = false;
        let count = if parameters.is_empty() { Some(1) } else { parameters.parse::<usize>().ok() };
        match (action, count) {
            ('D', Some(columns)) => self.cursor_back(columns),
            ('G', Some(1)) => self.cursor = 0,
            ('K', _) if matches!(parameters, "" | "0") => {
                self.pending.truncate(self.cursor);
                self.erased = true;
            }
            ('K', _) if parameters == "2" => {
                self.pending.clear();
                self.cursor = 0;
            }
            _ => {}
        }
    }

    /// Moves the cursor back by `columns`, at most to the beginning of the buffer.
    fn cursor_back(&mut self, columns: usize) {
        let mut left = columns;
        while left > 0 && self.cursor > 0 {
            self.cursor -= 1;
            left = left.saturating_sub(width(self.pending[self.cursor]));
        }
    }

    fn flush(&mut self, count: usize, out: &mut String) {
        let text: String = self.pending.drain(..count).collect();
        self.cursor = self.cursor.saturating_sub(count);
        out.push_str(&self.stripper.push(&text));
    }
}

/// Returns the columns of a character; covers the wide characters of words that Ollama moves over.
fn width(sign: char) -> usize {
    let wide = matches!(u32::from(sign), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3
        | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    if wide { 2 } else { 1 }
}

/// Returns true for the characters of Ollama's spinner and the blank after it.
fn is_spinner(sign: char) -> bool {
    matches!(sign, '\u{2800}'..='\u{28ff}' | ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(printed: &[u8], piece: usize) -> String {
        let mut noise = RunOutputFilter::default();
        let mut text = String::new();
        for piece in printed.chunks(piece.max(1)) {
            text.push_str(&noise.push(piece));
        }
        text + &noise.finish()
    }

    /// Wraps lines like Ollama on a terminal of `columns` (narrow characters only).
    fn wrapped(text: &str, columns: usize) -> String {
        let (mut out, mut line, mut word) = (String::new(), 0, String::new());
        for sign in text.chars() {
            if line + 1 > columns - 5 {
                if !word.is_empty() {
                    out.push_str(&format!("\u{1b}[{}D", word.len()));
                }
                out.push_str("\u{1b}[K\n");
                out.push_str(&word);
                out.push(sign);
                line = word.len() + 1;
                continue;
            }
            out.push(sign);
            line += 1;
            match sign {
                ' ' | '\t' => word.clear(),
                '\n' => {
                    line = 0;
                    word.clear();
                }
                _ => word.push(sign),
            }
        }
        out
    }

    proptest! {
        #[test]
        fn broken_lines_become_whole_again(
            words in prop::collection::vec("[a-z\"{}:,.]{1,12}", 0..60),
            ends in prop::collection::vec(prop::sample::select(vec![" ", "  ", "\n", "\n\n"]), 60),
            columns in 40_usize..90,
            piece in 1_usize..50,
        ) {
            let text: String = words.iter().zip(&ends).flat_map(|(word, end)| [word.as_str(), end]).collect();
            prop_assert_eq!(cleaned(wrapped(&text, columns).as_bytes(), piece), text);
        }

        #[test]
        fn nothing_that_a_terminal_obeys_comes_through(printed in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..20) {
            let text = cleaned(&printed, piece);
            prop_assert!(text.chars().all(|sign| sign == '\n' || sign == '\t' || !sign.is_control()), "{:?}", text);
            prop_assert_eq!(text, cleaned(&printed, printed.len()));
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~éß漢字🦀\n\t]{0,200}", piece in 1_usize..20) {
            prop_assert_eq!(cleaned(text.as_bytes(), piece), text);
        }
    }

    #[test]
    fn the_wheel_and_the_cursor_leave_no_trace() {
        let wheel =
            |sign: &str| format!("\u{1b}[?2026h\u{1b}[?25l\u{1b}[1G{sign} \u{1b}[K\u{1b}[?25h\u{1b}[?2026l");
        let cleared = "\u{1b}[?25l\u{1b}[?2026h\u{1b}[?25l\u{1b}[1G\u{1b}[K\u{1b}[?25h\u{1b}[?2026l\u{1b}[2K\u{1b}[1G\u{1b}[?25h";
        let printed = format!(
            "{}{}{cleared}\n{{\u{1b}[?25l\u{1b}[?25h\"a\": \u{1b}[?25l\u{1b}[?25h1}}\n\n\u{1b}[?25l\u{1b}[?25h",
            wheel("⠋"),
            wheel("⠙")
        );
        for piece in 1..40 {
            assert_eq!(cleaned(printed.as_bytes(), piece), "\n{\"a\": 1}\n\n", "{piece}");
        }
    }

    #[test]
    fn a_line_that_is_drawn_again_is_read_once() {
        for (printed, text) in [
            ("⠋ \r⠙ \r\u{1b}[KHello\n", "Hello\n"),
            ("⠋\r⠙\rHello", "Hello"),
            ("a\r\nb\r\r\n", "a\nb\n"),
            ("\u{1b}[90mThinking\u{1b}[0m", "Thinking"),
            ("界界\u{1b}[2D\u{1b}[K\n界x", "界界x"),
            ("\u{1b}]0;title\u{7}x\u{1b}", "x"),
            ("half \u{1b}[12", "half "),
        ] {
            assert_eq!(cleaned(printed.as_bytes(), 1), text, "{printed:?}");
        }
        assert_eq!(cleaned(b"a\xffb\xc3", 1), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_word_is_given_as_soon_as_it_ends_and_none_is_kept_for_ever() {
        let mut noise = RunOutputFilter::default();
        assert_eq!(noise.push(b"two wor"), "two ");
        assert_eq!(noise.push(b"ds\n"), "words\n");
        let given = noise.push("x".repeat(PENDING_CHARS_MAX * 3).as_bytes());
        assert!(given.len() >= PENDING_CHARS_MAX * 2, "{}", given.len());
    }
}
