//! State of the lines of one host: what is shown of a line, and what it says about the next one.

use std::borrow::Cow;

use super::super::shapes::{
    KEY_MASK, KeyBorder, VALUE_MASK, declares_variable, has_mixed_characters, key_borders, open_quote,
    opens_quote, quote_end,
};
use super::is_line_end;

/// Minimum bytes of base64 in a line that may belong to a private key whose beginning is missing.
const KEY_LINE_BYTES_MIN: usize = 60;
/// Beginnings of the lines before the base64 text of a private key.
const KEY_HEADERS: [&str; 4] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"];
/// Maximum lines dropped after missing output as the rest of a value in quotes.
pub(super) const QUOTE_LINES_MAX: usize = 100;

/// Meaning of the next line of a host. A later variant hides more.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    #[default]
    Text,
    /// Output is missing before the line, perhaps with the beginning of a private key.
    AfterGap,
    /// It may be the rest of a private key of which output is missing.
    RestOfKey,
    /// It may be the rest of a value in quotes of which output is missing. The number is the maximum of further lines.
    RestOfQuote(usize),
    /// It continues the value of a variable in quotes.
    Quote,
    /// It is part of a private key. The quote may have been open before the key, and is open again after it.
    Key(OuterQuote),
}

/// Quote around a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OuterQuote {
    None,
    /// There may be one, because output is missing.
    Perhaps,
    /// The key is in the value of a variable in quotes.
    Open,
}

impl OuterQuote {
    /// Returns the quote after more text of the key.
    fn after(self, key: &str) -> Self {
        if quote_end(key).is_some() { Self::None } else { self }
    }

    /// Returns the state after the end of the key.
    fn state(self) -> State {
        match self {
            Self::None => State::Text,
            Self::Perhaps => State::RestOfQuote(QUOTE_LINES_MAX),
            Self::Open => State::Quote,
        }
    }

    /// Returns the quote at the end of a text before a key, if the beginning of the text or of the quote is missing.
    fn guess(before: &str, is_open: bool) -> Self {
        let rest = match quote_end(before) {
            Some(end) if is_open => &before[end..],
            None if is_open => return Self::Perhaps,
            Some(_) | None => before,
        };
        if opens_quote(rest) { Self::Perhaps } else { Self::None }
    }
}

impl State {
    /// Returns the state after missing output.
    pub(super) fn across_gap(self) -> Self {
        match self {
            Self::Text | Self::AfterGap => Self::AfterGap,
            Self::Key(OuterQuote::None) | Self::RestOfKey => Self::RestOfKey,
            Self::Key(OuterQuote::Perhaps | OuterQuote::Open) | Self::Quote => {
                Self::RestOfQuote(QUOTE_LINES_MAX)
            }
            Self::RestOfQuote(left) => Self::RestOfQuote(left), // many gaps must not hide the output forever
        }
    }

    /// Returns the state after a line that is dropped because its beginning is missing.
    pub(super) fn skip_rest(self, line: &str) -> Self {
        match key_borders(line).last() {
            Some(KeyBorder::Begin(start)) => {
                Self::Key(OuterQuote::guess(&line[..*start], matches!(self, Self::RestOfQuote(_))))
            }
            Some(KeyBorder::End(_)) if !matches!(self, Self::RestOfQuote(_)) => Self::Text,
            Some(KeyBorder::End(_)) | None if opens_quote(line) => Self::RestOfQuote(QUOTE_LINES_MAX),
            Some(KeyBorder::End(_)) | None => self,
        }
    }

    /// Returns the state after a line, and what is shown of it. The line's text begins at `offset`.
    pub(super) fn redact_line(self, line: &str, offset: usize) -> (Self, Cow<'_, str>) {
        let text = line[offset..].trim();
        match self {
            Self::Text => redact_text(line),
            Self::AfterGap | Self::RestOfKey => match key_borders(line).first() {
                Some(KeyBorder::End(_)) => redact_borders(Self::Key(OuterQuote::None), line),
                Some(KeyBorder::Begin(_)) => redact_text(line),
                None if has_key_line(text) => (Self::RestOfKey, "".into()),
                None if self == Self::RestOfKey && is_part_of_key(text) => (self, "".into()),
                None if self == Self::AfterGap && is_before_key_lines(text) => (self, line.into()),
                None => redact_text(line),
            },
            // The end of the quote may be missing. Then the next variable, the next quote or the bound ends it.
            Self::RestOfQuote(_) if declares_variable(line) => redact_text(line),
            Self::RestOfQuote(left) => match key_borders(line).last() {
                Some(KeyBorder::Begin(start)) => {
                    (Self::Key(OuterQuote::guess(&line[..*start], true)), "".into())
                }
                Some(KeyBorder::End(_)) | None if left == 0 || quote_end(line).is_some() => {
                    (Self::Text, line_end(line).into())
                }
                Some(KeyBorder::End(_)) | None => (Self::RestOfQuote(left - 1), "".into()),
            },
            Self::Quote | Self::Key(_) => redact_borders(self, line),
        }
    }
}

/// Like [`State::redact_line`], for a line outside of secrets.
fn redact_text(line: &str) -> (State, Cow<'_, str>) {
    if key_borders(line).iter().any(|border| matches!(border, KeyBorder::Begin(_))) {
        return redact_borders(State::Text, line);
    }
    match open_quote(line) {
        Some(start) => (State::Quote, format!("{}{VALUE_MASK}", &line[..start]).into()),
        None => (State::Text, line.into()),
    }
}

/// Like [`State::redact_line`], for a line with borders of private keys, or one that begins in a key or in quotes.
fn redact_borders(mut state: State, line: &str) -> (State, Cow<'_, str>) {
    let (mut shown, mut from) = (String::new(), 0);
    for border in key_borders(line) {
        let (KeyBorder::Begin(at) | KeyBorder::End(at)) = border;
        let mut text = &line[from..at];
        if matches!(state, State::Quote | State::RestOfQuote(_))
            && let Some(end) = quote_end(text)
        {
            (state, text) = (State::Text, &text[end..]);
        }
        state = match (state, border) {
            (State::Text, KeyBorder::Begin(_)) => State::Key(show_before_key(text, &mut shown)),
            (State::RestOfQuote(_), KeyBorder::Begin(_)) => State::Key(OuterQuote::Perhaps),
            (State::Key(quote), KeyBorder::Begin(_)) => State::Key(quote.after(text)),
            (State::Key(quote), KeyBorder::End(_)) => quote.after(text).state(),
            (state, KeyBorder::Begin(_) | KeyBorder::End(_)) => state,
        };
        from = at;
    }
    let mut rest = &line[from..];
    match state {
        State::Key(quote) => return (State::Key(quote.after(rest)), shown.into()),
        State::Quote | State::RestOfQuote(_) => match quote_end(rest) {
            Some(end) => rest = &rest[end..],
            None => return (state, shown.into()),
        },
        State::Text | State::AfterGap | State::RestOfKey => {}
    }
    let (state, end) = redact_text(rest);
    (state, (shown + &end).into())
}

/// Adds what is shown of the text before a key to `shown`, and the mask of the key. Returns the quote that is open.
fn show_before_key(text: &str, shown: &mut String) -> OuterQuote {
    let (quote, text, mask) = match open_quote(text) {
        Some(start) => (OuterQuote::Open, &text[..start], VALUE_MASK),
        None => (OuterQuote::None, text, KEY_MASK),
    };
    shown.push_str(text);
    shown.push_str(mask);
    quote
}

/// Returns true for a whole line of base64, perhaps behind the number or time that a program writes before each line. A
/// checksum is none.
fn has_key_line(text: &str) -> bool {
    text.split(|char: char| !is_base64(char))
        .any(|run| run.len() >= KEY_LINE_BYTES_MIN && !run.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns true for a line that may be the last one of base64 in a private key, or one before them.
fn is_part_of_key(text: &str) -> bool {
    let word = last_word(text);
    let is_end = word.len() == text.len() || word.ends_with('=') || has_mixed_characters(word);
    is_before_key_lines(text) || is_end && word.chars().all(is_base64)
}

/// Returns true for a header or the empty line between the headers and the base64 text of a private key.
fn is_before_key_lines(text: &str) -> bool {
    last_word(text).is_empty() || KEY_HEADERS.iter().any(|header| text.contains(header))
}

fn last_word(text: &str) -> &str {
    text.rsplit([' ', '\t', ':', '-', '|']).next().unwrap_or_default()
}

fn line_end(line: &str) -> &str {
    &line[line.trim_end_matches(is_line_end).len()..]
}

fn is_base64(char: char) -> bool {
    char.is_ascii_alphanumeric() || "+/=".contains(char)
}
