//! Filters the output shown on a person's own terminal. Only text, colors, cursor movement, erasing, and the modes that
//! full-screen programs need are allowed. Everything else is dropped: titles, clipboard access, strings, queries, and
//! unknown sequences.
//!
//! The allowlist applies to whole sequences, so the output is well-formed for any input.

use super::sequences::{SequenceKind, StreamToken};

#[derive(Debug, Default)]
pub(super) struct OutputFilter {
    /// First bytes of an incomplete UTF-8 character.
    cut: Vec<u8>,
}

/// Final bytes of allowed CSI sequences without intermediates or private markers.
const CSI: &[u8] = b"mABCDEFGHIJKLMPSTXZ@`abdefgrsu";
/// Allowed modes of `CSI ? … h` and `l`: cursor keys, reverse video, origin, wrap, blinking, cursor, mouse, alternate
/// screens, bracketed paste, synchronized output.
const PRIVATE_MODES: [u16; 17] =
    [1, 5, 6, 7, 12, 25, 45, 47, 1000, 1002, 1003, 1006, 1047, 1048, 1049, 2004, 2026];
/// Allowed modes of `CSI … h` and `l`: insert, newline.
const MODES: [u16; 2] = [4, 20];
/// Allowed escape sequences without parameters.
const ESCAPES: [&[u8]; 14] = [
    b"\x1b7", b"\x1b8", b"\x1bD", b"\x1bE", b"\x1bH", b"\x1bM", b"\x1b=", b"\x1b>", b"\x1b(B", b"\x1b(0",
    b"\x1b(A", b"\x1b)B", b"\x1b)0", b"\x1b#8",
];
/// Replaces a full terminal reset, which would also clear the person's scrollback.
const SOFT_RESET: &[u8] = b"\x1b[?1049l\x1b[!p\x1b[H\x1b[2J";

impl OutputFilter {
    pub(super) fn push(&mut self, token: &StreamToken<'_>, out: &mut Vec<u8>) {
        match token {
            StreamToken::Text(text) => self.text(text, out),
            StreamToken::Control(byte) => match byte {
                0x08 | 0x0e | 0x0f => out.push(*byte),
                0x0b | 0x0c => out.push(b'\n'),
                _ => {}
            },
            StreamToken::Sequence(SequenceKind::Escape, b"\x1bc") => out.extend_from_slice(SOFT_RESET),
            StreamToken::Sequence(SequenceKind::Escape, bytes) if ESCAPES.contains(bytes) => {
                out.extend_from_slice(bytes)
            }
            StreamToken::Sequence(SequenceKind::Csi, bytes) => csi(bytes, out),
            StreamToken::Sequence(..) => {}
        }
    }

    /// Returns true if the text passes unchanged.
    pub(super) fn passes(&self, text: &[u8]) -> bool {
        self.cut.is_empty() && text.is_ascii()
    }

    fn text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if self.passes(text) {
            out.extend_from_slice(text);
            return;
        }
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(text);
        let whole = bytes.len() - crate::output::head_tail::unfinished(&bytes);
        for chunk in bytes[..whole].utf8_chunks() {
            for letter in chunk.valid().chars() {
                // U+0080 to U+009F are 8-bit control characters, which some terminals obey.
                if !('\u{80}'..='\u{9f}').contains(&letter) {
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{FFFD}".as_bytes());
            }
        }
        self.cut = bytes.split_off(whole);
    }
}

fn csi(bytes: &[u8], out: &mut Vec<u8>) {
    let Some((last, parameters)) = bytes.get(2..).and_then(<[u8]>::split_last) else { return };
    let plain = |parameters: &[u8]| parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    match (parameters, last) {
        (b"!", b'p') => out.extend_from_slice(bytes),
        (_, b'q') if parameters.strip_suffix(b" ").is_some_and(plain) => out.extend_from_slice(bytes),
        (_, b'h' | b'l') => match parameters.strip_prefix(b"?") {
            Some(modes) => modes_of(modes, &PRIVATE_MODES, b"?", *last, out),
            None => modes_of(parameters, &MODES, b"", *last, out),
        },
        // Parameter 3 would erase the scrollback.
        (_, b'J') if parameters.contains(&b'3') => {}
        (_, last) if CSI.contains(last) && plain(parameters) => out.extend_from_slice(bytes),
        _ => {}
    }
}

/// Appends a sequence that sets or resets only the allowed modes of `list`, or nothing if none of them is allowed.
fn modes_of(list: &[u8], allowed: &[u16], mark: &[u8], last: u8, out: &mut Vec<u8>) {
    let Ok(list) = std::str::from_utf8(list) else { return };
    let kept: Vec<&str> =
        list.split(';').filter(|mode| mode.parse().is_ok_and(|mode| allowed.contains(&mode))).collect();
    if !kept.is_empty() {
        out.extend_from_slice(b"\x1b[");
        out.extend_from_slice(mark);
        out.extend_from_slice(kept.join(";").as_bytes());
        out.push(last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::OutputFilter;
    use crate::terminal::sequences::SequenceParser;

    fn shown(chunks: &[&[u8]]) -> Vec<u8> {
        let (mut sequences, mut view, mut out) =
            (SequenceParser::default(), OutputFilter::default(), Vec::new());
        for chunk in chunks {
            sequences.push(chunk, |token| view.push(&token, &mut out));
        }
        out
    }

    fn text(output: &str) -> String {
        String::from_utf8(shown(&[output.as_bytes()])).expect("text")
    }

    #[test]
    fn drawing_sequences_pass() {
        for output in [
            "a\tb\r\n",
            "\x1b[1;38;5;20mx\x1b[0m",
            "\x1b[2J\x1b[H\x1b[3;4H\x1b[K\x1b[2;10r",
            "\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b(0\x0eq\x0f\x1b(B",
            "\x1b7\x1b8\x1bM\x1b[4h\x1b[2 q",
        ] {
            assert_eq!(text(output), output);
        }
    }

    #[test]
    fn other_sequences_are_dropped() {
        for output in [
            "\x1b]0;title\x07", "\x1b]52;c;aGk=\x07", "\x1b]8;;http://x\x1b\\", "\x1bP+q544e\x1b\\",
            "\x1b_Gx\x1b\\", "\x1b^x\x1b\\", "\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b[?6n", "\x1b[5i",
            "\x1b[21t", "\x1b[>4;2m", "\x1b[?1$p", "\x1b[3J", "\x1b[?1004h", "\x1b[?9999h", "\x1bZ",
            "\x1b[=5u", "\x07\x05\x11\x13\x7f\0", "\u{9b}31m\u{85}",
        ] {
            let left = text(output);
            assert!(!left.contains(['\x1b', '\x07', '\u{9b}']), "{output:?} leaves {left:?}");
        }
        assert_eq!(text("\x1b[?25;1004;1l"), "\x1b[?25;1l");
        assert_eq!(shown(&[b"\x9b31mx\xff"]), "\u{FFFD}31mx\u{FFFD}".as_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn only_allowed_sequences_pass_for_any_input(
            bytes in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::strategy::Just(0x1b_u8), proptest::num::u8::ANY, 0x20_u8..0x7f, proptest::strategy::Just(b'['),
                ],
                0..80,
            ),
            size in 1_usize..8,
        ) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            let out = shown(&chunks);
            prop_assert!(std::str::from_utf8(&out).is_ok());
            // Filtering again changes nothing: the remaining pieces form no new sequence.
            prop_assert_eq!(shown(&[&out]), out);
        }
    }
}
