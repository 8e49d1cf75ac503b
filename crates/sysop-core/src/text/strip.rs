//! Removal of terminal sequences from a stream of text.
//!
//! A carriage return without a newline ends a line, so that no text is lost: a file could otherwise hide a line from
//! users and models. In the output of a program, such a line is left out if the next one differs only in its numbers
//! and the marks of a progress bar; so of a progress display only the last state stays. Movements of the cursor have no
//! effect.

use super::sequence::{SequenceReader, TextPart, prints};
use super::{JOINER, NON_JOINER};
use crate::style::{StyleRuns, TextStyle};

/// Maximum length of a line that is held back, in characters. A longer line is output in parts.
const LINE_CHARACTERS_MAX: usize = 16 * 1024;

/// Characters of progress bars, apart from block elements and braille patterns.
const BAR_MARKS: [char; 5] = ['#', '=', '-', '>', '%'];

/// Characters that a spinner shows in turn.
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// Removes the sequences from program output that arrives in chunks, like [`split_styles`](super::split_styles). The
/// split does not matter. Holds back the current line, because the next one may take its place.
#[derive(Debug, Clone)]
pub struct Stripper {
    reader: SequenceReader,
    text: PlainText,
}

#[derive(Debug, Clone)]
struct PlainText {
    returns: Returns,
    painting: Option<StyleCollector>,
    /// Set if joiners of prose stay.
    joiners: Option<ProseJoiners>,
}

/// Joiners between two characters outside ASCII, where emoji and some scripts need them.
#[derive(Debug, Clone, Copy, Default)]
struct ProseJoiners {
    /// True if the last character can be joined.
    follows: bool,
    /// Joiner after that character.
    pending: Option<char>,
}

/// Treatment of carriage returns without a newline.
#[derive(Debug, Clone)]
enum Returns {
    /// Each run of them is a line break.
    Break {
        /// True after one or more carriage returns whose newline is still pending.
        pending: bool,
    },
    /// The same, but of several states of a progress display only the last one stays.
    Fold(PendingLines),
}

/// Lines that end with a carriage return, and may be states of a progress display.
#[derive(Debug, Clone, Default)]
struct PendingLines {
    /// Line that ended with a carriage return, unless it was output.
    ended: StyledLine,
    /// Line that has not ended.
    current: StyledLine,
    /// True if `current` continues a long line whose start was output.
    continues: bool,
    /// True if the first state of each line is output at once, and the later ones follow on lines of their own.
    is_live: bool,
    /// True if `ended` was output, and `current`.
    shown: (bool, bool),
    /// True after a carriage return that follows `current`. A newline may follow it.
    returned: bool,
}

type StyledLine = Vec<(char, TextStyle)>;

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
        Self::of(Returns::Fold(PendingLines::default()), None)
    }

    /// Creates a stripper that also collects the styles of the text.
    pub fn with_styles() -> Self {
        Self::of(Returns::Fold(PendingLines::default()), Some(StyleCollector::default()))
    }

    /// Creates a stripper for output that a user watches: of a line that is not complete yet, it outputs the first
    /// state at once, because a program may wait for an answer there. So of a progress display two states stay.
    pub fn live() -> Self {
        Self::of(Returns::Fold(PendingLines { is_live: true, ..PendingLines::default() }), None)
    }

    /// Creates a stripper that keeps every character, for [`strip_controls`](super::strip_controls).
    pub(super) fn keeping_all() -> Self {
        Self::of(Returns::Break { pending: false }, None)
    }

    /// Creates a stripper for [`strip_prose`](super::strip_prose).
    pub(super) fn for_prose() -> Self {
        let mut stripper = Self::keeping_all();
        stripper.text.joiners = Some(ProseJoiners::default());
        stripper
    }

    fn of(returns: Returns, painting: Option<StyleCollector>) -> Self {
        Self { reader: SequenceReader::default(), text: PlainText { returns, painting, joiners: None } }
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
            Returns::Fold(held) => held.newest().iter().map(|(sign, _)| sign).collect(),
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
                Returns::Fold(held) => held.returned = true,
            },
            TextPart::Sign('\n') if matches!(self.returns, Returns::Break { pending: true }) => {
                self.settle(out)
            }
            TextPart::Sign(sign) => {
                self.settle(out);
                match sign {
                    '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => self.newline(out),
                    _ if prints(sign) => {
                        self.join(sign, out);
                        self.print(sign, out);
                    }
                    NON_JOINER | JOINER => {
                        if let Some(joiners) = self.joiners.as_mut().filter(|joiners| joiners.follows) {
                            joiners.pending = Some(sign);
                        }
                    }
                    _ => {}
                }
            }
            TextPart::Introducer => self.settle(out),
            TextPart::Csi(parameters, 'm') => self.select(parameters),
            TextPart::Csi(..) => {}
        }
    }

    /// Appends the joiner before `sign`, if it stays.
    fn join(&mut self, sign: char, out: &mut String) {
        let Some(joiners) = &mut self.joiners else { return };
        let joiner = joiners.pending.take();
        joiners.follows = !sign.is_ascii();
        out.extend(joiner.filter(|_| joiners.follows));
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
        let Returns::Fold(held) = &mut self.returns else { return out.push(sign) };
        let returned = std::mem::take(&mut held.returned);
        if returned && std::mem::take(&mut held.continues) {
            if !held.shown.1 {
                append(&mut self.painting, &held.current, out);
            }
            out.push('\n');
            held.current.clear();
            held.shown.1 = false;
        } else if returned && !held.current.is_empty() {
            if held.shown.1 {
                out.push('\n');
            }
            let current = std::mem::take(&mut held.current);
            let before = std::mem::replace(&mut held.ended, current);
            let was_shown = held.shown.0;
            held.shown = (held.shown.1, false);
            if !was_shown && !same_display(&before, &held.ended) {
                append(&mut self.painting, &before, out);
                out.push('\n');
            }
        }
        held.current.push((sign, look));
        if held.is_live && held.ended.is_empty() {
            held.shown.1 = true;
            append(&mut self.painting, &[(sign, look)], out);
        }
        if held.current.len() >= LINE_CHARACTERS_MAX {
            self.flush(out);
            if let Returns::Fold(held) = &mut self.returns {
                held.continues = true;
            }
        }
    }

    fn newline(&mut self, out: &mut String) {
        self.flush(out);
        self.joiners = self.joiners.map(|_| ProseJoiners::default());
        if let Some(painting) = &mut self.painting {
            painting.changes.begin(out.len(), painting.look);
        }
        out.push('\n');
    }

    /// Appends the lines that are held back.
    fn flush(&mut self, out: &mut String) {
        let Returns::Fold(held) = &mut self.returns else { return };
        held.returned = false;
        held.continues = false;
        if held.current.is_empty() {
            std::mem::swap(&mut held.current, &mut held.ended);
            held.shown = (held.shown.1, held.shown.0);
        }
        if !held.shown.0 && !same_display(&held.ended, &held.current) {
            append(&mut self.painting, &held.ended, out);
            out.push('\n');
        }
        if !held.shown.1 {
            append(&mut self.painting, &held.current, out);
        }
        held.shown = (false, false);
        held.ended.clear();
        held.current.clear();
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

impl PendingLines {
    fn newest(&self) -> &[(char, TextStyle)] {
        if self.current.is_empty() { &self.ended } else { &self.current }
    }
}

fn append(painting: &mut Option<StyleCollector>, line: &[(char, TextStyle)], out: &mut String) {
    for (sign, look) in line {
        if let Some(painting) = painting {
            painting.changes.begin(out.len(), *look);
        }
        out.push(*sign);
    }
}

/// Returns true if a line is an earlier state of the progress display that the next line shows, or is empty. Two lines
/// of a display have the same words and signs, apart from numbers and the marks of a bar, so the later one tells all.
fn same_display(line: &[(char, TextStyle)], next: &[(char, TextStyle)]) -> bool {
    line.is_empty() || fixed_signs(line).eq(fixed_signs(next))
}

/// Returns the characters of a line that do not change between the states of a progress display.
fn fixed_signs(line: &[(char, TextStyle)]) -> impl Iterator<Item = char> {
    let sign = |at: usize| line.get(at).map(|(sign, _)| *sign);
    let is_digit = move |at: usize| sign(at).is_some_and(|sign| sign.is_ascii_digit());
    // A spinner stands alone at the start or the end.
    let is_spinner = move |at: usize| {
        let alone = at == 0 && sign(1).is_none_or(char::is_whitespace)
            || at + 1 == line.len() && at.checked_sub(1).and_then(sign).is_none_or(char::is_whitespace);
        alone && sign(at).is_some_and(|sign| SPINNER.contains(&sign))
    };
    line.iter().enumerate().filter_map(move |(at, (sign, _))| {
        let separates = matches!(sign, '.' | ',' | ':') && is_digit(at + 1) && at > 0 && is_digit(at - 1);
        let is_bar =
            BAR_MARKS.contains(sign) || matches!(sign, '\u{2580}'..='\u{259f}' | '\u{2800}'..='\u{28ff}');
        let changes = is_digit(at) || separates || is_bar || sign.is_whitespace() || is_spinner(at);
        (!changes).then_some(*sign)
    })
}
