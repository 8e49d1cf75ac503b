//! Removal of terminal sequences from a stream of text.

use super::is_invisible;
use crate::style::{StyleRuns, TextStyle};

/// Maximum bytes of a control sequence (CSI, or ESC with intermediates) after its introducer that is removed whole.
pub const SEQUENCE_BYTES_MAX: usize = 64;

/// Maximum bytes of a control string (OSC, DCS, APC, PM, SOS, title) after its introducer that is removed whole.
pub const STRING_BYTES_MAX: usize = 8 * 1024;

/// [`strip_controls`](super::strip_controls) for text in chunks: every split gives the same result.
///
/// Recognizes the 7-bit and 8-bit forms of ECMA-48. A control string ends with ST, an OSC also with BEL. A string that
/// does not end (at a newline, at another sequence, after [`STRING_BYTES_MAX`], at the end of the text) is not one: its
/// characters become text again, so that a stray introducer swallows nothing. An unfinished CSI loses the parameters
/// read so far, which are digits and punctuation only.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    state: State,
    /// Printable characters of an open control string.
    held: String,
    /// Collects styles, if requested.
    painting: Option<StyleCollector>,
}

/// Style at the current position.
#[derive(Debug, Clone, Default)]
struct StyleCollector {
    /// Parameters of the open sequence; `None` if it is not SGR.
    parameters: Option<String>,
    look: TextStyle,
    /// Runs of the current chunk.
    changes: StyleRuns,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After one or more carriage returns whose newline is pending.
    CarriageReturn,
    /// After ESC and this many intermediate bytes.
    Escape(usize),
    /// Inside a CSI, this many bytes after its introducer.
    Sequence(usize),
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

impl Stripper {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk. Returns the output that has become certain.
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

    /// Starts a text whose styles are collected too.
    pub fn with_styles() -> Self {
        Self { painting: Some(StyleCollector::default()), ..Self::default() }
    }

    /// Takes the next chunk. Returns the output of `push` with its styles.
    pub fn push_styled(&mut self, piece: &str) -> (String, StyleRuns) {
        if let Some(painting) = &mut self.painting {
            painting.changes = StyleRuns::default();
            painting.changes.begin(0, painting.look);
        }
        let text = self.push(piece);
        let styles = self.painting.as_mut().map(|painting| std::mem::take(&mut painting.changes));
        (text, styles.unwrap_or_default())
    }

    pub(super) fn push_onto(&mut self, piece: &str, out: &mut String) {
        for sign in piece.chars() {
            self.sign(sign, out);
        }
    }

    pub(super) fn finish_onto(&mut self, out: &mut String) {
        match std::mem::take(&mut self.state) {
            State::CarriageReturn => out.push('\n'),
            State::String(..) | State::StringEscape => self.flush_pending(out),
            State::Ground | State::Escape(_) | State::Sequence(_) => {}
        }
    }

    fn sign(&mut self, sign: char, out: &mut String) {
        match self.state {
            State::Ground => self.ground(sign, out),
            State::CarriageReturn => {
                if sign == '\r' {
                    return;
                }
                self.state = State::Ground;
                out.push('\n');
                if sign != '\n' {
                    self.ground(sign, out);
                }
            }
            State::Escape(count) => self.escape(sign, count, out),
            State::Sequence(count) => match sign {
                '\u{20}'..='\u{3f}' if count < SEQUENCE_BYTES_MAX => {
                    self.state = State::Sequence(count + 1);
                    self.parameter(sign);
                }
                '\u{40}'..='\u{7e}' => {
                    self.state = State::Ground;
                    if sign == 'm' {
                        self.select(out.len());
                    }
                }
                _ => self.ground(sign, out),
            },
            State::String(kind, count) => self.string(sign, kind, count, out),
            State::StringEscape => {
                if sign == '\\' {
                    self.held.clear();
                    self.state = State::Ground;
                } else {
                    self.flush_pending(out);
                    self.escape(sign, 0, out);
                }
            }
        }
    }

    fn ground(&mut self, sign: char, out: &mut String) {
        self.state = State::Ground;
        match sign {
            '\r' => self.state = State::CarriageReturn,
            '\u{1b}' => self.state = State::Escape(0),
            '\u{9b}' => self.open_sequence(),
            '\u{9d}' => self.state = State::String(StringKind::Command, 0),
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => self.state = State::String(StringKind::Other, 0),
            '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            _ if prints(sign) => out.push(sign),
            _ => {}
        }
    }

    fn open_sequence(&mut self) {
        self.state = State::Sequence(0);
        if let Some(painting) = &mut self.painting {
            painting.parameters = Some(String::new());
        }
    }

    fn parameter(&mut self, sign: char) {
        let Some(painting) = &mut self.painting else { return };
        if matches!(sign, '0'..='9' | ';' | ':') {
            if let Some(parameters) = &mut painting.parameters {
                parameters.push(sign);
            }
        } else {
            painting.parameters = None;
        }
    }

    /// Applies a complete SGR sequence from this byte on.
    fn select(&mut self, at: usize) {
        if let Some(painting) = &mut self.painting
            && let Some(parameters) = painting.parameters.take()
        {
            painting.look.select(&parameters);
            painting.changes.begin(at, painting.look);
        }
    }

    fn escape(&mut self, sign: char, count: usize, out: &mut String) {
        self.state = match sign {
            '[' if count == 0 => return self.open_sequence(),
            ']' if count == 0 => State::String(StringKind::Command, 0),
            // `k` begins a title in screen and tmux.
            'P' | 'X' | '^' | '_' | 'k' if count == 0 => State::String(StringKind::Other, 0),
            '\u{20}'..='\u{2f}' if count < SEQUENCE_BYTES_MAX => State::Escape(count + 1),
            '\u{30}'..='\u{7e}' => State::Ground,
            _ => return self.ground(sign, out),
        };
    }

    fn string(&mut self, sign: char, kind: StringKind, count: usize, out: &mut String) {
        let ends = sign == '\u{9c}' || (sign == '\u{7}' && kind == StringKind::Command);
        let breaks = matches!(sign, '\n' | '\r' | '\u{18}' | '\u{1a}' | '\u{80}'..='\u{9f}');
        if ends {
            self.held.clear();
            self.state = State::Ground;
        } else if sign == '\u{1b}' {
            self.state = State::StringEscape;
        } else if breaks || count + sign.len_utf8() > STRING_BYTES_MAX {
            self.flush_pending(out);
            self.ground(sign, out);
        } else {
            if prints(sign) {
                self.held.push(sign);
            }
            self.state = State::String(kind, count + sign.len_utf8());
        }
    }

    fn flush_pending(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }
}

fn prints(sign: char) -> bool {
    matches!(sign, '\n' | '\t') || !(sign.is_control() || is_invisible(sign))
}
