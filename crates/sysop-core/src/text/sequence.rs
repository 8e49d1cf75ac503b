//! Reader of terminal sequences in text.

use super::is_invisible;

/// Maximum length of a control sequence (CSI, or ESC with intermediates) that is removed whole, in bytes after its
/// introducer.
pub const SEQUENCE_BYTES_MAX: usize = 64;

/// Maximum length of a control string (OSC, DCS, APC, PM, SOS, title) to remove whole, in bytes after its introducer.
pub const STRING_BYTES_MAX: usize = 8 * 1024;

/// Separates sequences from text, one character at a time.
///
/// Recognizes the 7-bit and 8-bit forms of ECMA-48. A control string ends with ST; an OSC may also end with BEL. A
/// control string counts as text if a newline, another sequence or the end of the text comes before its terminator, or
/// if it exceeds [`STRING_BYTES_MAX`]. Its printable characters then become text again, so that a stray introducer
/// swallows nothing. An unfinished CSI loses the parameters read so far, which are digits and punctuation only.
#[derive(Debug, Clone, Default)]
pub struct SequenceReader {
    state: State,
    /// Parameters of an open CSI, or printable characters of an open control string.
    held: String,
}

/// A part of the text. For sequences other than CSI, only the beginning is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPart<'a> {
    /// A character outside of sequences, perhaps a control character.
    Sign(char),
    /// A sequence begins.
    Introducer,
    /// A complete CSI: parameters with intermediates, and the final character.
    Csi(&'a str, char),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC and this many intermediate bytes.
    Escape(usize),
    /// Inside a CSI.
    Sequence,
    /// Inside a control string, this many bytes after its introducer.
    String(StringKind, usize),
    /// Inside a control string, after an ESC that may begin its terminator.
    StringEscape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringKind {
    /// Ended by ST or BEL.
    Command,
    /// Ended by ST only.
    Other,
}

impl SequenceReader {
    /// Returns true if the reader is not inside a sequence.
    pub fn is_in_text(&self) -> bool {
        self.state == State::Ground
    }

    /// Takes the next character. Calls `take` with the parts that later characters can no longer change.
    pub fn push(&mut self, sign: char, mut take: impl FnMut(TextPart<'_>)) {
        match self.state {
            State::Ground => self.ground(sign, &mut take),
            State::Escape(count) => self.escape(sign, count, &mut take),
            State::Sequence => match sign {
                ' '..='?' if self.held.len() < SEQUENCE_BYTES_MAX => self.held.push(sign),
                '@'..='~' => {
                    self.state = State::Ground;
                    take(TextPart::Csi(&self.held, sign));
                }
                _ => self.ground(sign, &mut take),
            },
            State::String(kind, count) => self.string(sign, kind, count, &mut take),
            State::StringEscape if sign == '\\' => self.state = State::Ground,
            State::StringEscape => {
                self.flush(&mut take);
                self.escape(sign, 0, &mut take);
            }
        }
    }

    /// Ends the text. Calls `take` with the characters of an unfinished control string.
    pub fn finish(&mut self, mut take: impl FnMut(TextPart<'_>)) {
        if matches!(std::mem::take(&mut self.state), State::String(..) | State::StringEscape) {
            self.flush(&mut take);
        }
    }

    fn ground(&mut self, sign: char, take: &mut impl FnMut(TextPart<'_>)) {
        self.state = match sign {
            '\u{1b}' => State::Escape(0),
            '\u{9b}' => State::Sequence,
            '\u{9d}' => State::String(StringKind::Command, 0),
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => State::String(StringKind::Other, 0),
            _ => {
                self.state = State::Ground;
                return take(TextPart::Sign(sign));
            }
        };
        self.held.clear();
        take(TextPart::Introducer);
    }

    fn escape(&mut self, sign: char, count: usize, take: &mut impl FnMut(TextPart<'_>)) {
        self.held.clear();
        self.state = match sign {
            '[' if count == 0 => State::Sequence,
            ']' if count == 0 => State::String(StringKind::Command, 0),
            // `k` begins a title in screen and tmux.
            'P' | 'X' | '^' | '_' | 'k' if count == 0 => State::String(StringKind::Other, 0),
            ' '..='/' if count < SEQUENCE_BYTES_MAX => State::Escape(count + 1),
            '0'..='~' => State::Ground,
            _ => return self.ground(sign, take),
        };
    }

    fn string(&mut self, sign: char, kind: StringKind, count: usize, take: &mut impl FnMut(TextPart<'_>)) {
        let ends = sign == '\u{9c}' || (sign == '\u{7}' && kind == StringKind::Command);
        let breaks = matches!(sign, '\n' | '\r' | '\u{18}' | '\u{1a}' | '\u{80}'..='\u{9f}');
        if ends {
            self.state = State::Ground;
        } else if sign == '\u{1b}' {
            self.state = State::StringEscape;
        } else if breaks || count + sign.len_utf8() > STRING_BYTES_MAX {
            self.flush(take);
            self.ground(sign, take);
        } else {
            if prints(sign) {
                self.held.push(sign);
            }
            self.state = State::String(kind, count + sign.len_utf8());
        }
    }

    fn flush(&mut self, take: &mut impl FnMut(TextPart<'_>)) {
        self.held.drain(..).for_each(|sign| take(TextPart::Sign(sign)));
    }
}

pub(super) fn prints(sign: char) -> bool {
    matches!(sign, '\n' | '\t') || !(sign.is_control() || is_invisible(sign))
}
