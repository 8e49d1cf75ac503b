//! Splits terminal output into text, control characters and escape sequences (ECMA-48), even if a sequence arrives in
//! parts. One pass feeds all consumers: marks, screen, watchers, capture.
//!
//! Buffers at most one sequence; sequences that are too long are dropped as a whole.

/// Maximum bytes of an escape sequence; no sequence used here is longer.
const SEQUENCE_BYTES_MAX: usize = 256;
/// Maximum bytes of a string sequence (OSC, DCS, SOS, PM, APC).
const STRING_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamToken<'a> {
    /// Text including tabs, carriage returns and newlines. A character may be split at either end.
    Text(&'a [u8]),
    Control(u8),
    /// A complete sequence from its `ESC` to its end.
    Sequence(SequenceKind, &'a [u8]),
}

impl StreamToken<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) | Self::Sequence(_, bytes) => bytes,
            Self::Control(byte) => std::slice::from_ref(byte),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceKind {
    /// `ESC` followed by optional intermediates and a final byte.
    Escape,
    /// `ESC [` …
    Csi,
    /// `ESC ]` …
    Osc,
    /// DCS, SOS, PM, APC.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Ground,
    Escape,
    Csi,
    String(SequenceKind),
    /// An `ESC` was read inside a string.
    StringEscape(SequenceKind),
}

#[derive(Debug)]
pub(super) struct SequenceParser {
    state: ParserState,
    pending: Vec<u8>,
    /// True if the sequence is too long. It is then read to its end and dropped.
    dropped: bool,
}

impl Default for SequenceParser {
    fn default() -> Self {
        Self { state: ParserState::Ground, pending: Vec::new(), dropped: false }
    }
}

impl SequenceParser {
    /// Parses the next bytes and passes completed tokens to `take`.
    pub(super) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(StreamToken<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.state == ParserState::Ground {
                let run = text_run(rest);
                if run > 0 {
                    take(StreamToken::Text(&rest[..run]));
                    rest = &rest[run..];
                    continue;
                }
            }
            self.step(rest[0], &mut take);
            rest = &rest[1..];
        }
    }

    /// Returns true if `bytes` would become a single text token.
    pub(super) fn is_text(&self, bytes: &[u8]) -> bool {
        self.state == ParserState::Ground && text_run(bytes) == bytes.len()
    }

    fn step(&mut self, byte: u8, take: &mut impl FnMut(StreamToken<'_>)) {
        match (self.state, byte) {
            (ParserState::Ground, 0x1b) => self.begin(),
            (ParserState::Ground, _) => take(StreamToken::Control(byte)),
            // CAN and SUB abort any sequence.
            (_, 0x18 | 0x1a) => self.state = ParserState::Ground,
            (ParserState::Escape | ParserState::Csi, 0x1b) => self.begin(),
            (ParserState::Escape | ParserState::Csi, 0x00..=0x1f) => take(control_token(&[byte])),
            (ParserState::Escape, _) => self.escape(byte, take),
            (ParserState::Csi, 0x20..=0x3f) => self.push_pending(byte, SEQUENCE_BYTES_MAX),
            (ParserState::Csi, 0x40..=0x7e) => self.end(SequenceKind::Csi, byte, take),
            (ParserState::Csi, 0x7f) => {}
            (ParserState::Csi, _) => self.state = ParserState::Ground,
            (ParserState::String(SequenceKind::Osc), 0x07) => self.end(SequenceKind::Osc, byte, take),
            (ParserState::String(kind), 0x1b) => self.state = ParserState::StringEscape(kind),
            (ParserState::String(_), _) => self.push_pending(byte, STRING_BYTES_MAX),
            (ParserState::StringEscape(kind), b'\\') => {
                self.push_pending(0x1b, STRING_BYTES_MAX);
                self.end(kind, byte, take);
            }
            (ParserState::StringEscape(_), _) => {
                // The string was not terminated; a new sequence begins.
                self.begin();
                self.step(byte, take);
            }
        }
    }

    fn escape(&mut self, byte: u8, take: &mut impl FnMut(StreamToken<'_>)) {
        let first = self.pending.len() == 1;
        let next = match byte {
            b'[' if first => Some(ParserState::Csi),
            b']' if first => Some(ParserState::String(SequenceKind::Osc)),
            b'P' | b'X' | b'^' | b'_' if first => Some(ParserState::String(SequenceKind::Other)),
            _ => None,
        };
        match (next, byte) {
            (Some(state), _) => {
                self.push_pending(byte, SEQUENCE_BYTES_MAX);
                self.state = state;
            }
            (None, 0x20..=0x2f) => self.push_pending(byte, SEQUENCE_BYTES_MAX),
            (None, 0x30..=0x7e) => self.end(SequenceKind::Escape, byte, take),
            (None, _) => self.state = ParserState::Ground,
        }
    }

    fn begin(&mut self) {
        self.pending.clear();
        self.pending.push(0x1b);
        self.dropped = false;
        self.state = ParserState::Escape;
    }

    fn push_pending(&mut self, byte: u8, bytes_max: usize) {
        if self.pending.len() < bytes_max {
            self.pending.push(byte);
        } else {
            self.dropped = true;
        }
    }

    fn end(&mut self, kind: SequenceKind, byte: u8, take: &mut impl FnMut(StreamToken<'_>)) {
        self.state = ParserState::Ground;
        if !self.dropped {
            self.pending.push(byte);
            take(StreamToken::Sequence(kind, &self.pending));
        }
    }
}

/// Returns true if the byte ends a run of text.
fn is_control(byte: u8) -> bool {
    // Branch-free, so that the compiler can vectorize it.
    (byte == 0x7f) | ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r'))
}

/// Returns the length of the leading text in bytes. Scans in blocks, which the compiler vectorizes.
fn text_run(bytes: &[u8]) -> usize {
    const STEP: usize = 64;
    let mut run = 0;
    for step in bytes.chunks(STEP) {
        if step.iter().fold(false, |any, byte| any | is_control(*byte)) {
            return run + step.iter().position(|byte| is_control(*byte)).unwrap_or(step.len());
        }
        run += step.len();
    }
    run
}

fn control_token(byte: &[u8; 1]) -> StreamToken<'_> {
    if is_control(byte[0]) { StreamToken::Control(byte[0]) } else { StreamToken::Text(byte) }
}

/// Returns the part of a string sequence between introducer and terminator.
pub(super) fn string_body(bytes: &[u8]) -> &[u8] {
    let body = bytes.get(2..).unwrap_or_default();
    body.strip_suffix(b"\x1b\\").or_else(|| body.strip_suffix(b"\x07")).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::{STRING_BYTES_MAX, SequenceParser, StreamToken};

    fn told(chunks: &[&[u8]]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut sequences = SequenceParser::default();
        for chunk in chunks {
            sequences.push(chunk, |token| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
                match token {
                    StreamToken::Text(bytes) => match all.last_mut() {
                        Some(last) if last.starts_with("text ") => last.push_str(&text(bytes)),
                        _ => all.push(format!("text {}", text(bytes))),
                    },
                    StreamToken::Control(byte) => all.push(format!("control {byte:#04x}")),
                    StreamToken::Sequence(kind, bytes) => all.push(format!("{kind:?} {}", text(bytes))),
                }
            });
        }
        all
    }

    #[test]
    fn a_stream_is_split_into_text_and_sequences() {
        let all = told(&[b"a\tb\r\n\x1b[1;31mred\x08\x1b]0;title\x07\x1b(B\x1b7\x1bPq#\x1b\\\x1b[3\x18x"]);
        assert_eq!(
            all,
            [
                "text a\\tb\\r\\n",
                "Csi \\u{1b}[1;31m",
                "text red",
                "control 0x08",
                "Osc \\u{1b}]0;title\\u{7}",
                "Escape \\u{1b}(B",
                "Escape \\u{1b}7",
                "Other \\u{1b}Pq#\\u{1b}\\\\",
                "text x",
            ]
        );
    }

    #[test]
    fn controls_inside_a_sequence_act_and_unterminated_strings_are_dropped() {
        assert_eq!(told(&[b"\x1b[3\n1mx"]), ["text \\n", "Csi \\u{1b}[31m", "text x"]);
        assert_eq!(told(&[b"\x1b]0;a\x1b[1mx"]), ["Csi \\u{1b}[1m", "text x"]);
    }

    #[test]
    fn an_overlong_sequence_is_dropped_whole() {
        let long = format!("a\x1b]52;c;{}\x07b\x1b[{}mc", "x".repeat(STRING_BYTES_MAX), "1;".repeat(300));
        assert_eq!(told(&[long.as_bytes()]), ["text abc"]);
    }

    /// A mark with a directory whose name has such characters must not become the mark of another directory.
    #[test]
    fn the_content_of_a_string_is_passed_on_byte_by_byte() {
        let parameters = format!("\x1b]7717;K;P;/srv/{}\x01x\x07", "a;".repeat(20));
        assert_eq!(
            told(&[parameters.as_bytes()]),
            [format!(
                "Osc {}",
                parameters.replace('\x1b', "\\u{1b}").replace('\x01', "\\u{1}").replace('\x07', "\\u{7}")
            )]
        );
        // The last byte of this character, 0x9c, is not a terminator.
        assert_eq!(told(&["\x1bPq\u{671c}\x1b\\x".as_bytes()]), ["Other \\u{1b}Pq朜\\u{1b}\\\\", "text x"]);
        assert_eq!(
            told(&["\x1b_G\u{9c}\x1b\\x".as_bytes()]),
            ["Other \\u{1b}_G\\u{9c}\\u{1b}\\\\", "text x"]
        );
        assert_eq!(told(&[b"\x9b31m\xff"]), ["text \u{fffd}31m\u{fffd}"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn tokens_do_not_depend_on_chunk_boundaries(
            pieces in proptest::collection::vec("[a-c\r\n]{0,4}|\x1b\\[[0-9;]{0,4}[mHK]?|\x1b[\\]P][ab;]{0,3}(\x07|\x1b\\\\)?|[\x01\x18\x7f]", 0..20),
            size in 1_usize..6,
        ) {
            let whole = pieces.concat();
            let chunks: Vec<&[u8]> = whole.as_bytes().chunks(size).collect();
            prop_assert_eq!(told(&chunks), told(&[whole.as_bytes()]));
        }
    }
}
