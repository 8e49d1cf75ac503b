//! Removal of terminal sequences from a stream of text.
//!
//! Text of any origin keeps all its characters. In the output of a program, text after a carriage return overwrites the
//! line, so that of a progress display only the last state stays. Other movements of the cursor have no effect.

use super::sequence::{SequenceReader, TextPart, prints};
use crate::style::{StyleRuns, TextStyle};

/// Maximum length of a line that can be overwritten, in characters. A longer line is output in parts.
const LINE_CELLS_MAX: usize = 16 * 1024;

/// Removes the sequences from program output that arrives in chunks, like [`split_styles`](super::split_styles). The split
/// does not matter. Holds back the current line, because a carriage return may still overwrite it.
#[derive(Debug, Clone)]
pub struct Stripper {
    reader: SequenceReader,
    text: PlainText,
}

#[derive(Debug, Clone)]
struct PlainText {
    returns: Returns,
    painting: Option<StyleCollector>,
}

/// Treatment of carriage returns without a newline.
#[derive(Debug, Clone)]
enum Returns {
    /// Each run of them is a line break, so that no text is lost.
    Break {
        /// True after one or more carriage returns whose newline is still pending.
        pending: bool,
    },
    /// The text after them overwrites the line, as on a terminal.
    Overwrite(Line),
}

/// Line that is not complete yet, as cells of one character each.
#[derive(Debug, Clone, Default)]
struct Line {
    cells: Vec<(char, TextStyle)>,
    /// Index at which the next character is written.
    cursor: usize,
    /// True after a carriage return. The cursor moves when text follows, because a newline may follow instead.
    returned: bool,
    /// True if the line was erased. The text stays unless other text takes its place.
    erased: bool,
}

/// The style at the current position, and the style runs of the current chunk.
#[derive(Debug, Clone, Default)]
struct StyleCollector {
    look: TextStyle,
    changes: StyleRuns,
}

impl Default for Stripper {
    fn default() -> Self {
        Self::new()
    }
}

impl Stripper {
    pub fn new() -> Self {
        Self::of(Returns::Overwrite(Line::default()), None)
    }

    /// Creates a stripper that also collects the styles of the text.
    pub fn with_styles() -> Self {
        Self::of(Returns::Overwrite(Line::default()), Some(StyleCollector::default()))
    }

    /// Creates a stripper that keeps every character, for [`strip_controls`](super::strip_controls).
    pub(super) fn keeping_all() -> Self {
        Self::of(Returns::Break { pending: false }, None)
    }

    fn of(returns: Returns, painting: Option<StyleCollector>) -> Self {
        Self { reader: SequenceReader::default(), text: PlainText { returns, painting } }
    }

    /// Takes the next chunk. Returns the output that later chunks can no longer change.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        self.push_onto(piece, &mut out);
        out
    }

    /// Ends the text. Returns the pending output.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.finish_onto(&mut out);
        out
    }

    /// Returns the present state of the line that is held back.
    pub fn unfinished_line(&self) -> String {
        match &self.text.returns {
            Returns::Break { .. } => String::new(),
            Returns::Overwrite(line) => line.cells.iter().map(|(sign, _)| sign).collect(),
        }
    }

    /// Takes the next chunk. Returns the output of `push` with its styles.
    pub fn push_styled(&mut self, piece: &str) -> (String, StyleRuns) {
        let text = self.push(piece);
        (text, self.take_styles())
    }

    /// Ends the text. Returns the output of `finish` with its styles.
    pub fn finish_styled(&mut self) -> (String, StyleRuns) {
        let text = self.finish();
        (text, self.take_styles())
    }

    pub(super) fn take_styles(&mut self) -> StyleRuns {
        self.text.painting.as_mut().map(|painting| std::mem::take(&mut painting.changes)).unwrap_or_default()
    }

    pub(super) fn push_onto(&mut self, piece: &str, out: &mut String) {
        let Self { reader, text } = self;
        for sign in piece.chars() {
            reader.push(sign, |part| text.push(part, out));
        }
    }

    pub(super) fn finish_onto(&mut self, out: &mut String) {
        let Self { reader, text } = self;
        reader.finish(|part| text.push(part, out));
        text.settle(out);
        text.flush(out);
    }
}

impl PlainText {
    fn push(&mut self, part: TextPart<'_>, out: &mut String) {
        match part {
            TextPart::Sign('\r') => match &mut self.returns {
                Returns::Break { pending } => *pending = true,
                Returns::Overwrite(line) => line.returned = true,
            },
            TextPart::Sign('\n') if matches!(self.returns, Returns::Break { pending: true }) => {
                self.settle(out)
            }
            TextPart::Sign(sign) => {
                self.settle(out);
                match sign {
                    '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => self.newline(out),
                    _ if prints(sign) => self.print(sign, out),
                    _ => {}
                }
            }
            TextPart::Introducer => self.settle(out),
            TextPart::Csi(parameters, 'm') => self.select(parameters),
            TextPart::Csi(parameters, 'K') => {
                if let Returns::Overwrite(line) = &mut self.returns {
                    line.erase(parameters);
                }
            }
            TextPart::Csi(..) => {}
        }
    }

    /// Ends the line if its newline is pending.
    fn settle(&mut self, out: &mut String) {
        if let Returns::Break { pending } = &mut self.returns
            && std::mem::take(pending)
        {
            out.push('\n');
        }
    }

    fn print(&mut self, sign: char, out: &mut String) {
        let look = self.painting.as_ref().map(|painting| painting.look).unwrap_or_default();
        let is_full = match &mut self.returns {
            Returns::Break { .. } => {
                out.push(sign);
                false
            }
            Returns::Overwrite(line) => {
                line.print(sign, look);
                line.cells.len() >= LINE_CELLS_MAX
            }
        };
        if is_full {
            self.flush(out);
        }
    }

    fn newline(&mut self, out: &mut String) {
        self.flush(out);
        if let Some(painting) = &mut self.painting {
            painting.changes.begin(out.len(), painting.look);
        }
        out.push('\n');
    }

    /// Appends the line that is held back.
    fn flush(&mut self, out: &mut String) {
        let Returns::Overwrite(line) = &mut self.returns else { return };
        for (sign, look) in line.cells.drain(..) {
            if let Some(painting) = &mut self.painting {
                painting.changes.begin(out.len(), look);
            }
            out.push(sign);
        }
        *line = Line { cells: std::mem::take(&mut line.cells), ..Line::default() };
    }

    /// Applies a complete SGR sequence. Ignores sequences with private parameters such as `>`.
    fn select(&mut self, parameters: &str) {
        if let Some(painting) = &mut self.painting
            && parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        {
            painting.look.select(parameters);
        }
    }
}

impl Line {
    fn print(&mut self, sign: char, look: TextStyle) {
        if std::mem::take(&mut self.returned) {
            self.cursor = 0;
            if self.erased {
                self.cells.clear();
            }
        }
        self.erased = false;
        match self.cells.get_mut(self.cursor) {
            Some(cell) => *cell = (sign, look),
            None => self.cells.push((sign, look)),
        }
        self.cursor += 1;
    }

    /// Applies the sequence EL (erase in line). A line of which nothing would be left stays until other text replaces it.
    fn erase(&mut self, parameters: &str) {
        match parameters {
            "" | "0" if !self.returned => self.cells.truncate(self.cursor),
            "" | "0" | "2" => self.erased = true,
            _ => {}
        }
    }
}
