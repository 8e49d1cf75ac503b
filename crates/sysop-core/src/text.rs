//! Makes untrusted text safe to display for users, and plain to read for a model.
//!
//! There are two views of the same text. For users, [`neutralize`] makes characters visible that a terminal would obey
//! or hide. For models, [`strip_controls`] removes the sequences that a terminal obeys, and keeps every character that
//! the terminal would print. It never erases or overwrites text, so a file with carriage returns keeps all its lines.
//!
//! The output of programs that a host runs goes through [`split_styles`] instead, which keeps only the last state of a
//! progress display. Users and models get the same result.
//!
//! This module obeys no other sequence: it moves no cursor and sends no reply. [`StyleRuns`] can keep the colors.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::style::{StyleRuns, TextStyle};

mod sequence;
mod strip;
#[cfg(test)]
mod tests;

pub use sequence::{SEQUENCE_BYTES_MAX, STRING_BYTES_MAX, SequenceReader, TextPart};
pub use strip::Stripper;

/// Zero-width joiner, which makes one emoji of several.
const JOINER: char = '\u{200d}';
/// Zero-width non-joiner, which keeps letters of some scripts apart.
const NON_JOINER: char = '\u{200c}';
/// Selects the form of the character before it that is an emoji.
const EMOJI_SELECTOR: char = '\u{fe0f}';

/// Makes the text safe for a terminal. Control characters (C0, DEL and C1), bidirectional and invisible characters are
/// replaced with visible escapes, so the terminal obeys no control sequence. Newline and tab stay.
///
/// An escape reads `\x1b` (below U+0100), `\r` (a carriage return) or `\u{202e}`. The carriage return of `\r\n` is
/// dropped. The emoji selectors U+FE0E and U+FE0F stay, and so does a joiner (U+200D) between two emoji, which hides
/// nothing there. Backslashes in the text are not doubled: the result is for display and cannot be reversed.
///
/// ```
/// use sysop_core::text::neutralize;
///
/// assert_eq!(neutralize("a\u{1b}[2Kb\r\n"), "a\\x1b[2Kb\n");
/// ```
pub fn neutralize(text: &str) -> Cow<'_, str> {
    Neutralizer::new().whole(text)
}

/// Like [`neutralize`], but for prose: omits zero-width characters instead of escaping them, because writers of some
/// scripts use them between letters.
///
/// The result may read like another text, so it is only for reading. Front ends that do not parse Markdown also show
/// code blocks and `<cmd>` of an answer in this form. A command that a user can allow is shown by [`neutralize_line`],
/// or with each character visible.
///
/// ```
/// use sysop_core::text::neutralize_prose;
///
/// assert_eq!(neutralize_prose("zero\u{200b}width\u{202e}"), "zerowidth\\u{202e}");
/// ```
pub fn neutralize_prose(text: &str) -> Cow<'_, str> {
    Neutralizer::for_prose().whole(text)
}

/// Like [`neutralize`], but for a single line where each byte counts, such as a command to approve. Also escapes
/// newline and tab as `\n` and `\t`, every carriage return, emoji selectors, and blanks other than the space.
pub fn neutralize_line(text: &str) -> Cow<'_, str> {
    let Some(first) = first_match(text, is_odd) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for sign in text[first..].chars() {
        if is_odd(sign) { show(sign, &mut out) } else { out.push(sign) }
    }
    Cow::Owned(out)
}

/// Removes every character that [`neutralize_line`] would escape, except newlines and tabs. The rest is visible.
pub fn visible_text(text: &str) -> String {
    text.chars().filter(|sign| matches!(sign, '\n' | '\t') || !is_odd(*sign)).collect()
}

/// Returns true for characters that must be escaped in a single line where each byte counts.
fn is_odd(sign: char) -> bool {
    is_shown(sign) || matches!(sign, '\n' | '\t' | '\u{fe0e}' | '\u{fe0f}') || is_odd_blank(sign)
}

/// Applies [`neutralize`] or [`neutralize_prose`] to text that arrives in chunks. The chunks may be split anywhere.
#[derive(Debug, Clone, Default)]
pub struct Neutralizer {
    /// True if zero-width characters are omitted.
    is_prose: bool,
    /// True if the last chunk ended in a carriage return that may belong to a newline.
    carriage_return: bool,
    /// True if the text so far ends in an emoji.
    emoji: bool,
    /// True if the last chunk ended in an emoji and a joiner, which stays if another emoji follows.
    joiner: bool,
}

impl Neutralizer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a neutralizer that applies [`neutralize_prose`].
    pub fn for_prose() -> Self {
        Self { is_prose: true, ..Self::default() }
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

    fn whole(mut self, text: &str) -> Cow<'_, str> {
        let Some(first) = first_match(text, is_shown) else { return Cow::Borrowed(text) };
        let mut out = String::with_capacity(text.len() + 16);
        // Text before a joiner decides if the joiner stays.
        let from = if text[first..].starts_with(JOINER) { 0 } else { first };
        out.push_str(&text[..from]);
        self.push_onto(&text[from..], &mut out);
        self.finish_onto(&mut out);
        if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
    }

    fn push_onto(&mut self, piece: &str, out: &mut String) {
        for sign in piece.chars() {
            if std::mem::take(&mut self.carriage_return) && sign != '\n' {
                show('\r', out);
            }
            if std::mem::take(&mut self.joiner) {
                if is_emoji(sign) { out.push(JOINER) } else { self.replace(JOINER, out) }
            }
            match sign {
                '\r' => self.carriage_return = true,
                JOINER if self.emoji => self.joiner = true,
                _ if is_shown(sign) => self.replace(sign, out),
                _ => out.push(sign),
            }
            self.emoji = is_emoji(sign) || self.emoji && sign == EMOJI_SELECTOR;
        }
    }

    fn replace(&self, sign: char, out: &mut String) {
        if !(self.is_prose && is_zero_width(sign)) {
            show(sign, out);
        }
    }

    fn finish_onto(&mut self, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) {
            show('\r', out);
        }
        if std::mem::take(&mut self.joiner) {
            self.replace(JOINER, out);
        }
        self.emoji = false;
    }
}

/// Removes escape sequences and control characters, which are useless to a model; newline and tab stay.
///
/// Whole sequences are removed first, then every other control and invisible character. [`SequenceReader`] defines the
/// sequences and the treatment of unfinished ones. A run of carriage returns, together with a newline that may follow
/// it, becomes one newline. Each of the other line breaks (VT, FF, NEL, U+2028, U+2029) becomes a newline, too.
pub fn strip_controls(text: &str) -> Cow<'_, str> {
    let Some(first) = first_match(text, is_shown) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut stripper = Stripper::keeping_all();
    stripper.push_onto(&text[first..], &mut out);
    stripper.finish_onto(&mut out);
    Cow::Owned(out)
}

/// Like [`strip_controls`], but for prose that a user keeps: a joiner or non-joiner between two characters outside
/// ASCII stays, because emoji and some scripts need it.
///
/// ```
/// use sysop_core::text::strip_prose;
///
/// assert_eq!(strip_prose("a\u{200d}b\u{202e} می\u{200c}خواهم\u{1b}[2K"), "ab می\u{200c}خواهم");
/// ```
pub fn strip_prose(text: &str) -> Cow<'_, str> {
    if first_match(text, is_shown).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut stripper = Stripper::for_prose();
    stripper.push_onto(text, &mut out);
    stripper.finish_onto(&mut out);
    Cow::Owned(out)
}

/// Removes escape sequences and control characters from the output of a program, and returns the rest with its colors
/// and attributes.
///
/// As in [`strip_controls`], a carriage return ends a line. But a line that ends so is left out if the next one differs
/// only in its numbers, the marks of a bar and a spinner, as the states of a progress display do.
///
/// ```
/// use sysop_core::text::split_styles;
///
/// assert_eq!(split_styles("copied 8%\rcopied 95%\r\x1b[Kdone\r\n").0, "copied 95%\ndone\n");
/// ```
pub fn split_styles(text: &str) -> (Cow<'_, str>, StyleRuns) {
    if first_match(text, is_shown).is_none() {
        return (Cow::Borrowed(text), StyleRuns::default());
    }
    let mut stripper = Stripper::with_styles();
    let mut plain = String::with_capacity(text.len());
    stripper.push_onto(text, &mut plain);
    stripper.finish_onto(&mut plain);
    let mut styles = stripper.take_styles();
    styles.begin(plain.len(), TextStyle::default());
    (Cow::Owned(plain), styles)
}

/// Returns true for control and invisible characters, which never reach a terminal or a model unchanged.
fn is_shown(sign: char) -> bool {
    match sign {
        '\n' | '\t' | ' '..='~' => false,
        _ => sign.is_control() || is_invisible(sign),
    }
}

/// Returns true for characters outside C0, DEL and C1 that print nothing or reorder other characters.
fn is_invisible(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' // soft hyphen
        | '\u{34f}' // grapheme joiner
        | '\u{61c}' // Arabic letter mark
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
        | '\u{17b4}' | '\u{17b5}' // Khmer inherent vowels
        | '\u{180b}'..='\u{180f}' // Mongolian selectors
        | '\u{200b}'..='\u{200f}' // zero width, direction marks
        | '\u{2028}'..='\u{202e}' // line and paragraph separator, embeddings, overrides
        | '\u{2060}'..='\u{206f}' // word joiner, invisible operators, isolates
        | '\u{fe00}'..='\u{fe0d}' // selectors but those of emoji
        | '\u{feff}' // byte order mark
        | '\u{fff0}'..='\u{fffb}' // specials
        | '\u{1d173}'..='\u{1d17a}' // musical controls
        | '\u{e0000}'..='\u{e0fff}' // tags, selectors
    )
}

/// Returns true for characters of no width that reorder nothing: soft hyphen, spaces, joiners.
fn is_zero_width(sign: char) -> bool {
    matches!(sign, '\u{ad}' | '\u{200b}'..=JOINER | '\u{2060}' | '\u{feff}')
}

/// Returns true for characters in the blocks that contain the parts of joined emoji, including the skin tones.
fn is_emoji(sign: char) -> bool {
    matches!(sign, '\u{2190}'..='\u{21ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns true for blanks that look like the space.
fn is_odd_blank(sign: char) -> bool {
    matches!(
        sign,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
    )
}

fn show(sign: char, out: &mut String) {
    let written = match sign {
        '\r' => out.write_str("\\r"),
        '\n' => out.write_str("\\n"),
        '\t' => out.write_str("\\t"),
        '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(sign)),
        _ => write!(out, "\\u{{{:x}}}", u32::from(sign)),
    };
    written.expect("writing to a string cannot fail");
}

/// Returns the byte offset of the first matching character; skips ASCII without decoding.
fn first_match(text: &str, matches: impl Fn(char) -> bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let plain = bytes.iter().position(|&byte| !byte.is_ascii() || matches(char::from(byte)))?;
    text[plain..].char_indices().find(|&(_, sign)| matches(sign)).map(|(at, _)| plain + at)
}
