//! Conversion of terminal output to plain text. Each line is emitted in its final form when the cursor leaves it, so
//! progress that rewrites a line becomes one line. Escape sequences are removed, except SGR sequences of our own for
//! colors and weights.
//!
//! Buffers at most one line; a line that is too long is emitted in parts.

use memchr::memchr2;
use sysop_core::style::TextStyle;

use super::sequences::{SequenceKind, StreamToken};

/// Maximum length of the buffered line, in bytes or cells.
const LINE_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct PlainText {
    /// The current line, as long as nothing in it was overwritten.
    line: Vec<u8>,
    /// The current line as cells, once the cursor has moved within it.
    cells: Option<LineCells>,
    /// True if the last character was a carriage return.
    returned: bool,
    look: TextStyle,
    /// Style at the end of the emitted text. `line_look` is the style at the end of `line`.
    passed_on: TextStyle,
    line_look: TextStyle,
}

const BLANK: (char, TextStyle) = (' ', TextStyle::PLAIN);

#[derive(Debug)]
struct LineCells {
    line: Vec<(char, TextStyle)>,
    cursor: usize,
    look: TextStyle,
    /// First bytes of an incomplete UTF-8 character.
    cut: Vec<u8>,
}

impl PlainText {
    /// Takes the next token and appends finished text to `out`.
    pub(super) fn push(&mut self, token: &StreamToken<'_>, out: &mut Vec<u8>) {
        match token {
            StreamToken::Text(text) => self.text(text, out),
            StreamToken::Control(0x08) => self.cells().cursor = self.cells().cursor.saturating_sub(1),
            StreamToken::Control(0x0b | 0x0c) => self.newline(out),
            StreamToken::Control(_) => {}
            StreamToken::Sequence(SequenceKind::Csi, bytes) => self.csi(bytes, out),
            StreamToken::Sequence(SequenceKind::Escape, b"\x1bD" | b"\x1bE" | b"\x1bM") => self.leave(out),
            StreamToken::Sequence(..) => {}
        }
    }

    /// Emits the last, unfinished line.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.returned = false;
        match self.cells.take() {
            Some(cells) => {
                self.line_look = self.passed_on;
                cells.write_onto(&mut self.line_look, out);
            }
            None => out.append(&mut self.line),
        }
        self.passed_on = self.line_look;
    }

    /// Adds a note of ours at the end of the current line, or on a line of its own if the current line is empty.
    pub(super) fn note(&mut self, note: &str, out: &mut Vec<u8>) {
        let begun = !self.line.is_empty() || self.cells.is_some();
        let look = std::mem::take(&mut self.look);
        self.text(note.as_bytes(), out);
        self.look = look;
        if !begun {
            self.newline(out);
        }
    }

    fn text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(first) = rest.first() {
            if self.returned {
                self.returned = false;
                match first {
                    b'\n' => {
                        self.newline(out);
                        rest = &rest[1..];
                        continue;
                    }
                    b'\r' => {}
                    _ => self.cells().cursor = 0,
                }
            }
            let run = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            if self.line.is_empty() && self.cells.is_none() {
                // A complete line is emitted directly.
                let ended = match rest[run..] {
                    [b'\r', b'\n', ..] => 2,
                    [b'\n', ..] => 1,
                    _ => 0,
                };
                if ended > 0 {
                    if run > 0 {
                        select(self.look, &mut self.line_look, out);
                        self.passed_on = self.line_look;
                    }
                    out.extend_from_slice(&rest[..run]);
                    out.push(b'\n');
                    rest = &rest[run + ended..];
                    continue;
                }
            }
            self.letters(&rest[..run], out);
            match rest.get(run) {
                Some(b'\n') => self.newline(out),
                Some(_) => self.returned = true,
                None => {}
            }
            rest = rest.get(run + 1..).unwrap_or_default();
        }
    }

    fn letters(&mut self, text: &[u8], out: &mut Vec<u8>) {
        match &mut self.cells {
            Some(cells) => {
                cells.look = self.look;
                cells.write(text);
            }
            None if text.is_empty() => {}
            None => {
                select(self.look, &mut self.line_look, &mut self.line);
                self.line.extend_from_slice(text);
                if self.line.len() > LINE_MAX {
                    out.append(&mut self.line);
                    self.passed_on = self.line_look;
                }
            }
        }
    }

    fn newline(&mut self, out: &mut Vec<u8>) {
        self.finish(out);
        out.push(b'\n');
    }

    /// Ends the current line because the cursor moves to another one.
    fn leave(&mut self, out: &mut Vec<u8>) {
        if !self.line.is_empty() || self.cells.is_some() {
            self.newline(out);
        }
    }

    fn csi(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (Some(last), Some(parameters)) = (bytes.last(), bytes.get(2..bytes.len().saturating_sub(1)))
        else {
            return;
        };
        let number = || std::str::from_utf8(parameters).ok()?.split(';').next()?.parse::<usize>().ok();
        let count = || number().unwrap_or(1).clamp(1, LINE_MAX);
        match last {
            b'K' => {
                self.settle_return();
                self.cells().erase(number().unwrap_or(0));
            }
            b'G' | b'`' => self.move_to(|_| count() - 1),
            b'C' | b'a' => self.move_to(|cursor| cursor + count()),
            b'D' => self.move_to(|cursor| cursor.saturating_sub(count())),
            b'P' => self.cells().delete(count()),
            b'X' => self.cells().blank(count()),
            b'@' => self.cells().insert(count()),
            b'm' => {
                // Sequences with private parameters such as `>` are not SGR.
                if let Ok(parameters) = std::str::from_utf8(parameters)
                    && parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
                {
                    self.look.select(parameters);
                }
            }
            b'A' | b'B' | b'E' | b'F' | b'H' | b'd' | b'e' | b'f' => self.leave(out),
            _ => {}
        }
    }

    /// Moves the cursor to the start of the line if a carriage return is pending. A carriage return stays pending at
    /// first, because it is part of the line ending if a line feed follows it.
    fn settle_return(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.cells().cursor = 0;
        }
    }

    fn move_to(&mut self, place: impl FnOnce(usize) -> usize) {
        self.settle_return();
        let cells = self.cells();
        cells.cursor = place(cells.cursor).min(LINE_MAX);
    }

    fn cells(&mut self) -> &mut LineCells {
        let (line, begins) = (&mut self.line, self.passed_on);
        let cells = self.cells.get_or_insert_with(|| LineCells::of(&std::mem::take(line), begins));
        cells.look = self.look;
        cells
    }
}

/// Appends the SGR sequence that changes `current` to `look`, if they differ.
fn select(look: TextStyle, current: &mut TextStyle, out: &mut Vec<u8>) {
    if look != *current {
        let parameters = look.to_sgr();
        let border = if parameters.is_empty() { "" } else { ";" };
        out.extend_from_slice(format!("\x1b[0{border}{parameters}m").as_bytes());
        *current = look;
    }
}

impl LineCells {
    /// Parses a line that contains only SGR sequences of our own.
    fn of(line: &[u8], begins: TextStyle) -> Self {
        let (mut cells, mut look) = (Vec::new(), begins);
        let line = String::from_utf8_lossy(line);
        let mut rest = line.as_ref();
        while let Some((before, sequence)) = rest.split_once("\x1b[0") {
            cells.extend(before.chars().map(|letter| (letter, look)));
            let (parameters, after) = sequence.split_once('m').unwrap_or((sequence, ""));
            look = TextStyle::of(parameters);
            rest = after;
        }
        cells.extend(rest.chars().map(|letter| (letter, look)));
        Self { cursor: cells.len(), line: cells, look, cut: Vec::new() }
    }

    fn write(&mut self, text: &[u8]) {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(text);
        let whole = bytes.len() - crate::output::head_tail::unfinished(&bytes);
        for letter in String::from_utf8_lossy(&bytes[..whole]).chars() {
            self.put(letter);
        }
        self.cut = bytes.split_off(whole);
    }

    fn put(&mut self, letter: char) {
        if self.cursor >= LINE_MAX {
            return;
        }
        self.pad(self.cursor);
        match self.line.get_mut(self.cursor) {
            Some(cell) => *cell = (letter, self.look),
            None => self.line.push((letter, self.look)),
        }
        self.cursor += 1;
    }

    fn pad(&mut self, length: usize) {
        if self.line.len() < length {
            self.line.resize(length, BLANK);
        }
    }

    fn erase(&mut self, what: usize) {
        match what {
            0 => self.line.truncate(self.cursor),
            1 => self.blank_range(0, self.cursor + 1),
            2 => self.line.clear(),
            _ => {}
        }
    }

    fn blank(&mut self, count: usize) {
        self.blank_range(self.cursor, self.cursor.saturating_add(count));
    }

    fn blank_range(&mut self, from: usize, to: usize) {
        let to = to.min(self.line.len());
        if let Some(cells) = self.line.get_mut(from..to) {
            cells.fill(BLANK);
        }
    }

    fn delete(&mut self, count: usize) {
        let to = self.cursor.saturating_add(count).min(self.line.len());
        if self.cursor < to {
            self.line.drain(self.cursor..to);
        }
    }

    fn insert(&mut self, count: usize) {
        if self.cursor < self.line.len() {
            let room = LINE_MAX.saturating_sub(self.line.len()).min(count);
            self.line.splice(self.cursor..self.cursor, std::iter::repeat_n(BLANK, room));
        }
    }

    /// Appends the line without trailing spaces. `current` is the style at the end of the previous output, and is
    /// updated to the style at the end of the line.
    fn write_onto(&self, current: &mut TextStyle, out: &mut Vec<u8>) {
        let blanks = self.line.iter().rev().take_while(|(letter, _)| *letter == ' ').count();
        for (letter, look) in &self.line[..self.line.len() - blanks] {
            select(*look, current, out);
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.extend_from_slice(String::from_utf8_lossy(&self.cut).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use sysop_core::text::split_styles;

    use super::PlainText;
    use crate::terminal::sequences::SequenceParser;

    fn colored(chunks: &[&[u8]]) -> String {
        let (mut sequences, mut plain, mut out) =
            (SequenceParser::default(), PlainText::default(), Vec::new());
        for chunk in chunks {
            sequences.push(chunk, |token| plain.push(&token, &mut out));
        }
        plain.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn plain(chunks: &[&[u8]]) -> String {
        split_styles(&colored(chunks)).0.into_owned()
    }

    #[test]
    fn colors_stay_with_their_text() {
        let shown = |text: &str| colored(&[text.as_bytes()]).replace('\x1b', "^");
        for (sent, kept) in [
            ("\x1b[1;31mred\x1b[0m x\r\n", "^[0;1;31mred^[0m x\n"),
            ("\x1b[32ma\r\nb\x1b[m\r\n", "^[0;32ma\nb\n"),
            // A shell prompt that sets and resets a style without effect.
            ("\x1b[1m\x1b[0mx\r\n", "x\n"),
            ("\x1b[31mold\r\x1b[32mne\r\n", "^[0;32mne^[0;31md\n"),
            ("\x1b[31mold\x1b[0m\r\x1b[Kok\r\n", "ok\n"),
            ("\x1b[31mab\x1b[D\x1b[Xc\x1b[0m", "^[0;31mac"),
            ("a\x1b[41m  \x1b[K\r\nb", "a\n^[0;41mb"),
            ("\x1b[>4;1m\x1b[?25lx\x1b[38;5;208my", "x^[0;38;5;208my"),
        ] {
            assert_eq!(shown(sent), kept, "{sent:?}");
        }
        let long = format!("\x1b[31m{}\x1b[0m\r\n", "x".repeat(100_000));
        assert_eq!(plain(&[long.as_bytes()]).len(), 100_001);
    }

    #[test]
    fn a_progress_bar_becomes_one_line() {
        assert_eq!(plain(&[b"10%\r20%\r100%\r\ndone\r\n"]), "100%\ndone\n");
        assert_eq!(plain(&[b"downloading\r\x1b[Kok\r\n"]), "ok\n");
        assert_eq!(plain(&[b"long text\rab\r\n"]), "abng text\n");
        assert_eq!(plain(&[b"abc\x08\x08X\n"]), "aXc\n");
        assert_eq!(plain(&["äö\rü".as_bytes()]), "üö");
        assert_eq!(plain(&[b"ab\x1b[5Gx\x1b[2Dy\n"]), "ab yx\n");
        assert_eq!(plain(&[b"abcdef\x1b[3D\x1b[P\x1b[1Pz\n"]), "abcz\n");
    }

    #[test]
    fn control_sequences_are_removed() {
        assert_eq!(
            plain(&[b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b]52;c;x\x1b\\x\x07\x1bPq\x1b\\y\r\n"]),
            "red xy\n"
        );
        assert_eq!(plain(&[b"a\x1b[H\x1b[2Jb\x1b[3;1Hc"]), "a\nb\nc");
    }

    #[test]
    fn line_endings_become_newlines() {
        assert_eq!(plain(&[b"a\r", b"\nb\r\r\nc\n\nd\r"]), "a\nb\nc\n\nd");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn plain_text_does_not_depend_on_chunk_boundaries(
            pieces in proptest::collection::vec("[a-cä\r\n\x08]{0,5}|\x1b\\[[0-9]{0,2}[KGCDPXm@]", 0..20),
            size in 1_usize..6,
        ) {
            let whole = pieces.concat();
            let chunks: Vec<&[u8]> = whole.as_bytes().chunks(size).collect();
            prop_assert_eq!(plain(&chunks), plain(&[whole.as_bytes()]));
            let seen = |chunks: &[&[u8]]| {
                let whole = colored(chunks);
                let (text, styles) = split_styles(&whole);
                styles.runs(&text).flat_map(|(piece, look)| piece.chars().map(move |sign| (sign, look))).collect::<Vec<_>>()
            };
            prop_assert_eq!(seen(&chunks), seen(&[whole.as_bytes()]));
        }

        #[test]
        fn colors_do_not_change_the_text(
            pieces in proptest::collection::vec("[a-cä \r\n\x08]{0,5}|\x1b\\[[0-9]{0,2}[KGCDPX@]|\x1b\\[(3[0-7]|4[0-7]|0|1|7)m", 0..20),
        ) {
            let without: String = pieces.iter().filter(|piece| !piece.ends_with('m')).cloned().collect();
            prop_assert_eq!(plain(&[pieces.concat().as_bytes()]), plain(&[without.as_bytes()]));
        }

        #[test]
        fn plain_lines_are_unchanged(lines in proptest::collection::vec("[ -~äöü€]{0,40}", 0..10)) {
            let sent: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let told: String = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(plain(&[sent.as_bytes()]), told);
        }
    }
}
