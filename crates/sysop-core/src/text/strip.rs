//! Removal of terminal sequences from a stream of text.

use super::sequence::{SequenceReader, TextPart, prints};
use crate::style::{StyleRuns, TextStyle};

/// Applies [`strip_controls`](super::strip_controls) to text that arrives in chunks. The split does not matter.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    reader: SequenceReader,
    text: PlainText,
}

#[derive(Debug, Clone, Default)]
struct PlainText {
    /// True after one or more carriage returns whose newline is still pending.
    carriage_return: bool,
    painting: Option<StyleCollector>,
}

/// The style at the current position, and the style runs of the current chunk.
#[derive(Debug, Clone, Default)]
struct StyleCollector {
    look: TextStyle,
    changes: StyleRuns,
}

impl Stripper {
    pub fn new() -> Self {
        Self::default()
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

    /// Creates a stripper that also collects the styles of the text.
    pub fn with_styles() -> Self {
        let text = PlainText { carriage_return: false, painting: Some(StyleCollector::default()) };
        Self { reader: SequenceReader::default(), text }
    }

    /// Takes the next chunk. Returns the output of `push` with its styles.
    pub fn push_styled(&mut self, piece: &str) -> (String, StyleRuns) {
        if let Some(painting) = &mut self.text.painting {
            painting.changes = StyleRuns::default();
            painting.changes.begin(0, painting.look);
        }
        let text = self.push(piece);
        let styles = self.text.painting.as_mut().map(|painting| std::mem::take(&mut painting.changes));
        (text, styles.unwrap_or_default())
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
        text.end_line(out);
    }
}

impl PlainText {
    fn push(&mut self, part: TextPart<'_>, out: &mut String) {
        match part {
            TextPart::Sign('\r') => self.carriage_return = true,
            TextPart::Sign('\n') if self.carriage_return => self.end_line(out),
            TextPart::Sign(sign) => {
                self.end_line(out);
                match sign {
                    '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
                    _ if prints(sign) => out.push(sign),
                    _ => {}
                }
            }
            TextPart::Introducer => self.end_line(out),
            TextPart::Csi(parameters, 'm') => self.select(parameters, out.len()),
            TextPart::Csi(..) => {}
        }
    }

    /// Ends the line if its newline is pending.
    fn end_line(&mut self, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) {
            out.push('\n');
        }
    }

    /// Applies a complete SGR sequence from byte offset `at` on. Ignores sequences with private parameters such as `>`.
    fn select(&mut self, parameters: &str, at: usize) {
        if let Some(painting) = &mut self.painting
            && parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        {
            painting.look.select(parameters);
            painting.changes.begin(at, painting.look);
        }
    }
}
