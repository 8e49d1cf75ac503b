//! Decodes terminal input into keys, pastes, clicks and focus changes. Pure: the caller measures time.
//!
//! Supports the keys of xterm and the Linux console, rxvt's encoding of Alt, the kitty keyboard protocol, and
//! both mouse encodings. Drops replies to queries that an earlier program sent to the terminal.

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::events::TerminalEvent;

/// Maximum time to wait for the rest of a sequence before its ESC counts as the Escape key.
const REST_OF_SEQUENCE: Duration = Duration::from_millis(30);
/// Maximum time for a sequence that no keys can produce so quickly: the reply of a terminal behind a slow connection.
const REST_OF_REPLY: Duration = Duration::from_secs(1);
/// Maximum pause within a paste. After a longer one, the paste so far is reported; the rest is another paste.
const REST_OF_PASTE: Duration = Duration::from_secs(2);
/// Maximum length of a sequence, in bytes; a longer sequence is discarded.
const SEQUENCE_BYTES_MAX: usize = 4096;
/// Maximum size of a paste, in bytes; the excess is dropped.
const PASTE_BYTES_MAX: usize = 4 * 1024 * 1024;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Decoder, which holds input that is not complete yet.
#[derive(Default)]
pub(super) struct InputDecoder {
    waiting: Vec<u8>,
    paste: Option<Vec<u8>>,
    /// True if a part of the open paste was reported because of a long pause.
    stalled: bool,
}

/// Result of decoding the start of the input.
enum DecodeStep {
    /// This many bytes were consumed. They form the event, or were dropped if it is `None`.
    Consumed(usize, Option<TerminalEvent>),
    Incomplete,
}

impl InputDecoder {
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut VecDeque<TerminalEvent>) {
        if self.stalled && bytes == b"\x03" {
            // The end of the paste may never arrive, so Ctrl+C must end it.
            self.end_stalled();
        }
        self.waiting.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.waiting.len() {
            if let Some(paste) = &mut self.paste {
                let Some(took) = take_paste(paste, &self.waiting[at..]) else { break };
                at += took;
                let whole = self.paste.take().filter(|paste| !(self.stalled && paste.is_empty()));
                self.stalled = false;
                events.extend(pasted(whole));
                continue;
            }
            match step(&self.waiting[at..]) {
                DecodeStep::Consumed(took, Some(TerminalEvent::Paste(_))) => {
                    self.paste = Some(Vec::new());
                    at += took;
                }
                DecodeStep::Consumed(took, event) => {
                    events.extend(event);
                    at += took.max(1);
                }
                DecodeStep::Incomplete => break,
            }
        }
        if let Some(paste) = &mut self.paste {
            // Take all input except a possible beginning of the end marker.
            let rest = &self.waiting[at..];
            let keep =
                (1..PASTE_END.len()).rev().find(|&count| rest.ends_with(&PASTE_END[..count])).unwrap_or(0);
            let whole = rest.len() - keep;
            paste.extend_from_slice(&rest[..whole.min(PASTE_BYTES_MAX.saturating_sub(paste.len()))]);
            at += whole;
        }
        self.waiting.drain(..at);
        if self.waiting.len() > SEQUENCE_BYTES_MAX {
            self.waiting.clear();
        }
    }

    /// Returns the time to wait for more input before calling [`Self::flush_incomplete`], or `None` if all is complete.
    pub(super) fn sequence_timeout(&self) -> Option<Duration> {
        if self.paste.as_ref().is_some_and(|paste| !(self.stalled && paste.is_empty())) {
            return Some(REST_OF_PASTE);
        }
        match self.waiting.as_slice() {
            [] => None,
            [0x1b, b'[' | b']' | b'P' | b'_', _, ..] => Some(REST_OF_REPLY),
            _ => Some(REST_OF_SEQUENCE),
        }
    }

    /// Returns true if the beginning of a terminal's reply is waiting for its rest.
    pub(super) fn is_in_reply(&self) -> bool {
        self.paste.is_none() && self.sequence_timeout() == Some(REST_OF_REPLY)
    }

    /// Reports incomplete input as events, because its end did not arrive in time.
    pub(super) fn flush_incomplete(&mut self, events: &mut VecDeque<TerminalEvent>) {
        if let Some(paste) = &mut self.paste {
            if self.stalled && paste.is_empty() && self.waiting == b"\x1b" {
                self.end_stalled();
            } else {
                let part = std::mem::take(paste);
                self.stalled = true;
                return events.extend(pasted(Some(part)));
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        match waiting.as_slice() {
            b"\x1b" => events.extend(key(KeyCode::Esc, KeyModifiers::NONE)),
            b"\x1b\x1b" => events.extend([(); 2].iter().flat_map(|()| key(KeyCode::Esc, KeyModifiers::NONE))),
            [0x1b, letter @ (b'[' | b'O' | b']' | b'P' | b'_')] => {
                events.extend(key(KeyCode::Char(char::from(*letter)), KeyModifiers::ALT));
            }
            // The rest of a reply is lost, and Escape was pressed.
            [0x1b, b']' | b'P' | b'_', _, .., 0x1b] => events.extend(key(KeyCode::Esc, KeyModifiers::NONE)),
            // Incomplete sequences and characters are dropped.
            _ => {}
        }
    }
}

impl InputDecoder {
    fn end_stalled(&mut self) {
        (self.paste, self.stalled) = (None, false);
    }
}

/// Appends the input before the end marker to a paste. Returns the bytes consumed; `None` without a marker.
fn take_paste(paste: &mut Vec<u8>, bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(PASTE_END.len()).position(|window| window == PASTE_END)?;
    paste.extend_from_slice(&bytes[..end.min(PASTE_BYTES_MAX.saturating_sub(paste.len()))]);
    Some(end + PASTE_END.len())
}

fn pasted(bytes: Option<Vec<u8>>) -> Option<TerminalEvent> {
    let text = String::from_utf8_lossy(&bytes?).replace("\r\n", "\n").replace('\r', "\n");
    Some(TerminalEvent::Paste(text))
}

fn key(code: KeyCode, held: KeyModifiers) -> Option<TerminalEvent> {
    Some(TerminalEvent::Key(KeyEvent::new(code, held)))
}

fn step(bytes: &[u8]) -> DecodeStep {
    if let [0x1b, rest @ ..] = bytes {
        return escape(bytes, rest);
    }
    let (first, control) = (bytes[0], KeyModifiers::CONTROL);
    let letter = |letter: u8| key(KeyCode::Char(char::from(letter)), control);
    let event = match first {
        b'\r' => key(KeyCode::Enter, KeyModifiers::NONE),
        b'\t' => key(KeyCode::Tab, KeyModifiers::NONE),
        0x7f => key(KeyCode::Backspace, KeyModifiers::NONE),
        0 => letter(b' '),
        1..=26 => letter(first + b'a' - 1),
        0x1c..=0x1f => letter(first + b'\\' - 0x1c),
        _ => return character(bytes),
    };
    DecodeStep::Consumed(1, event)
}

fn character(bytes: &[u8]) -> DecodeStep {
    let length = match bytes[0] {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return DecodeStep::Consumed(1, None),
    };
    let there = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(there).map(|text| text.chars().next()) {
        Ok(Some(letter)) => {
            let held = if letter.is_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE };
            DecodeStep::Consumed(length, key(KeyCode::Char(letter), held))
        }
        Err(error) if error.error_len().is_none() && there.len() < length => DecodeStep::Incomplete,
        Ok(None) | Err(_) => DecodeStep::Consumed(1, None),
    }
}

/// Decodes input that starts with ESC. `rest` is the input after the ESC.
fn escape(bytes: &[u8], rest: &[u8]) -> DecodeStep {
    match rest {
        [] | [0x1b] | [b'O' | b'[' | b'P' | b']' | b'_'] => DecodeStep::Incomplete,
        [b'[', ..] => csi(bytes),
        [b'O', last, ..] => {
            DecodeStep::Consumed(3, code_of_letter(*last).and_then(|code| key(code, KeyModifiers::NONE)))
        }
        // Alt as encoded by rxvt.
        [0x1b, b'[' | b'O', ..] => with_alt(escape(rest, &rest[1..])),
        [0x1b, ..] => DecodeStep::Consumed(1, key(KeyCode::Esc, KeyModifiers::NONE)),
        // Replies to queries from other programs; the one that begins with `_G` is about images.
        [b']', b'0'..=b'9', ..] | [b'P', b'0'..=b'9' | b'>' | b'!' | b'+' | b'$', ..] | [b'_', b'G', ..] => {
            string(bytes)
        }
        _ => with_alt(step(rest)),
    }
}

fn with_alt(step: DecodeStep) -> DecodeStep {
    match step {
        DecodeStep::Consumed(took, Some(TerminalEvent::Key(mut key))) => {
            key.modifiers |= KeyModifiers::ALT;
            DecodeStep::Consumed(took + 1, Some(TerminalEvent::Key(key)))
        }
        DecodeStep::Consumed(took, _) => DecodeStep::Consumed(took + 1, None),
        DecodeStep::Incomplete => DecodeStep::Incomplete,
    }
}

/// Consumes a control string that ends with BEL or ST. If its end is lost, Ctrl+C and Escape are the next input.
/// Another control character ends it as well and is dropped: Enter must not count without the text before it.
fn string(bytes: &[u8]) -> DecodeStep {
    let Some(at) = bytes.iter().skip(1).position(|byte| byte.is_ascii_control()).map(|at| at + 1) else {
        return DecodeStep::Incomplete;
    };
    let end = match &bytes[at..] {
        [0x07, ..] => at + 1,
        [0x1b, b'\\', ..] => at + 2,
        [0x1b] => return DecodeStep::Incomplete,
        [0x03 | 0x1b, ..] => return DecodeStep::Consumed(at, None),
        _ => return DecodeStep::Consumed(at + 1, None),
    };
    DecodeStep::Consumed(end, background(&bytes[..end]))
}

/// Returns the event for a background color reply: `ESC ] 11 ; rgb:RRRR/GGGG/BBBB`.
fn background(bytes: &[u8]) -> Option<TerminalEvent> {
    let text = std::str::from_utf8(bytes).ok()?;
    let color = text.strip_prefix("\x1b]11;")?.trim_end_matches(['\x07', '\\', '\x1b']);
    let color = color.strip_prefix("rgba:").or_else(|| color.strip_prefix("rgb:"))?;
    let mut parts = color.split('/').map(|part| {
        let most = 16_u32.checked_pow(u32::try_from(part.len()).ok()?)?.checked_sub(1)?;
        let value = u32::from_str_radix(part, 16).ok()?;
        (most > 0).then(|| value.saturating_mul(1000) / most)
    });
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    // Brightness as in ITU-R BT.601.
    let brightness = (299 * red + 587 * green + 114 * blue) / 1000;
    Some(TerminalEvent::Background { is_light: brightness > 500 })
}

fn csi(bytes: &[u8]) -> DecodeStep {
    let body = &bytes[2..];
    let Some(end) = body.iter().position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return DecodeStep::Incomplete;
    };
    let took = end + 3;
    let (parameters, last) = (&body[..end], body[end]);
    match (parameters, last) {
        // F1 to F5 on the Linux console.
        (b"", b'[') => {
            return match body.get(1) {
                Some(letter @ b'A'..=b'E') => {
                    DecodeStep::Consumed(4, key(KeyCode::F(letter - b'A' + 1), KeyModifiers::NONE))
                }
                Some(_) => DecodeStep::Consumed(3, None),
                None => DecodeStep::Incomplete,
            };
        }
        // Mouse event in the old encoding (not SGR).
        (b"", b'M') => {
            let Some(&[button, column, row]) = body.get(1..4) else { return DecodeStep::Incomplete };
            let at = |byte: u8| u16::from(byte.saturating_sub(33));
            let button = u16::from(button.saturating_sub(32));
            let released = button & 0b11 == 3 && button < 32;
            return DecodeStep::Consumed(6, mouse(button, at(column), at(row), released));
        }
        // Not part of the sequence, but the start of the next input.
        (_, 0..=0x1f | 0x7f..) => return DecodeStep::Consumed(took - 1, None),
        _ => {}
    }
    let Ok(parameters) = std::str::from_utf8(parameters) else { return DecodeStep::Consumed(took, None) };
    DecodeStep::Consumed(took, sequence(parameters, last))
}

fn sequence(parameters: &str, last: u8) -> Option<TerminalEvent> {
    if let Some(mouse) = parameters.strip_prefix('<').filter(|_| matches!(last, b'M' | b'm')) {
        let mut numbers = mouse.split(';').map(|number| number.parse::<u16>().ok());
        let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
        return self::mouse(button, column.saturating_sub(1), row.saturating_sub(1), last == b'm');
    }
    if parameters.starts_with(['<', '=', '>', '?']) {
        return None;
    }
    // A number, and optional subparameters after a colon.
    let mut fields = parameters.split(';').map(|field| {
        let (number, more) = field.split_once(':').unwrap_or((field, ""));
        (number.parse::<u32>().ok(), more)
    });
    let (first, _) = fields.next().unwrap_or_default();
    let (second, kind) = fields.next().unwrap_or_default();
    // Key release.
    if kind.starts_with('3') {
        return None;
    }
    let held = modifiers(second.unwrap_or(1));
    match last {
        b'I' => Some(TerminalEvent::Focused(true)),
        b'O' => Some(TerminalEvent::Focused(false)),
        b'Z' => key(KeyCode::BackTab, held | KeyModifiers::SHIFT),
        b'u' => key_of(first?, held),
        b'~' => match first? {
            // Start of a paste; the caller replaces this event.
            200 => Some(TerminalEvent::Paste(String::new())),
            27 => key_of(fields.next()?.0?, held),
            number => key(code_of_number(number)?, held),
        },
        // Otherwise a cursor position report.
        b'R' if first.unwrap_or(1) != 1 => None,
        last => key(code_of_letter(last)?, held),
    }
}

fn modifiers(parameter: u32) -> KeyModifiers {
    let bits = parameter.saturating_sub(1);
    let mut held = KeyModifiers::NONE;
    for (bit, key) in [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        (8, KeyModifiers::SUPER),
        (16, KeyModifiers::HYPER),
        (32, KeyModifiers::META),
    ] {
        if bits & bit != 0 {
            held |= key;
        }
    }
    held
}

/// Returns the key for the final letter of a `CSI` or `SS3` sequence.
fn code_of_letter(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        b'P'..=b'S' => KeyCode::F(letter - b'P' + 1),
        _ => return None,
    })
}

fn code_of_number(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(u8::try_from(number - 10).ok()?),
        17..=21 => KeyCode::F(u8::try_from(number - 11).ok()?),
        23 | 24 => KeyCode::F(u8::try_from(number - 12).ok()?),
        _ => return None,
    })
}

/// Returns the key for a code point of the kitty protocol or xterm's `modifyOtherKeys`.
fn key_of(code: u32, held: KeyModifiers) -> Option<TerminalEvent> {
    let code = match code {
        27 => KeyCode::Esc,
        13 | 57414 => KeyCode::Enter,
        9 if held.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        8 | 127 => KeyCode::Backspace,
        // Keypad digits.
        57399..=57408 => KeyCode::Char(char::from_digit(code - 57399, 10)?),
        57409..=57413 => KeyCode::Char(['.', '/', '*', '-', '+'][usize::try_from(code - 57409).ok()?]),
        57415 => KeyCode::Char('='),
        57417 => KeyCode::Left,
        57418 => KeyCode::Right,
        57419 => KeyCode::Up,
        57420 => KeyCode::Down,
        57421 => KeyCode::PageUp,
        57422 => KeyCode::PageDown,
        57423 => KeyCode::Home,
        57424 => KeyCode::End,
        57425 => KeyCode::Insert,
        57426 => KeyCode::Delete,
        // The other keys of the kitty protocol have no meaning here.
        57344..=63743 => return None,
        code => KeyCode::Char(char::from_u32(code).filter(|letter| !letter.is_control())?),
    };
    key(code, held)
}

fn mouse(button: u16, column: u16, row: u16, released: bool) -> Option<TerminalEvent> {
    let mut modifiers = KeyModifiers::NONE;
    for (bit, key) in [(4, KeyModifiers::SHIFT), (8, KeyModifiers::ALT), (16, KeyModifiers::CONTROL)] {
        if button & bit != 0 {
            modifiers |= key;
        }
    }
    let which = match button & 0b11 {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let moved = button & 32 != 0;
    let kind = match (button & 0b1100_0000, button & 0b11) {
        (64, 0) => MouseEventKind::ScrollUp,
        (64, 1) => MouseEventKind::ScrollDown,
        (64, 2) => MouseEventKind::ScrollLeft,
        (64, _) => MouseEventKind::ScrollRight,
        (0, _) if moved => which.map_or(MouseEventKind::Moved, MouseEventKind::Drag),
        (0, _) if released => MouseEventKind::Up(which.unwrap_or(MouseButton::Left)),
        (0, _) => MouseEventKind::Down(which?),
        _ => return None,
    };
    Some(TerminalEvent::Mouse(MouseEvent { kind, column, row, modifiers }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<TerminalEvent> {
        let (mut decoder, mut events) = (InputDecoder::default(), VecDeque::new());
        for piece in pieces {
            decoder.push(piece, &mut events);
        }
        decoder.flush_incomplete(&mut events);
        events.into()
    }

    /// Decodes input and formats the events briefly.
    fn read(bytes: &[u8]) -> String {
        words(events(&[bytes]))
    }

    /// Decodes with a long pause after each piece.
    fn slowly(pieces: &[&[u8]]) -> String {
        let (mut decoder, mut came) = (InputDecoder::default(), VecDeque::new());
        for piece in pieces {
            decoder.push(piece, &mut came);
            while decoder.sequence_timeout().is_some() {
                decoder.flush_incomplete(&mut came);
            }
        }
        words(came.into())
    }

    #[test]
    fn an_answer_about_the_background_is_an_event_and_never_typed_text() {
        assert_eq!(read(b"\x1b]11;rgb:ffff/fafa/e0e0\x07"), "Background { is_light: true }");
        assert_eq!(read(b"\x1b]11;rgb:1e/1e/2e\x1b\\"), "Background { is_light: false }");
        assert_eq!(read(b"\x1b]11;rgba:ffff/ffff/ffff/ffff\x07x"), "Background { is_light: true } x");
        for broken in [
            &b"\x1b]11;rgb:zz/00/00\x07"[..],
            b"\x1b]11;rgb:\x07",
            b"\x1b]11;red\x07",
            b"\x1b]10;rgb:ff/ff/ff\x07",
        ] {
            assert_eq!(read(broken), "");
        }
        // In pieces, as over a slow connection.
        let mut came = VecDeque::new();
        let mut decoder = InputDecoder::default();
        decoder.push(b"\x1b]11;rgb:00", &mut came);
        decoder.push(b"00/0000/0000\x1b", &mut came);
        decoder.push(b"\\", &mut came);
        assert_eq!(words(came.into()), "Background { is_light: false }");
    }

    #[test]
    fn a_reply_may_pause_and_is_still_never_typed_text() {
        for (pieces, events) in [
            ([&b"\x1b]11;rgb:dddd/"[..], b"ee03/ffff\x07"], "Background { is_light: true }"),
            ([b"\x1b]1", b"0;rgb:dddd/ee03/ffff\x1b\\"], ""),
            ([b"\x1bP>|foot(1.", b"16.2)\x1b\\x"], "x"),
            ([b"\x1b_Gi=1;O", b"K\x1b\\x"], "x"),
            ([b"\x1b[?62;", b"22cx"], "x"),
            ([b"\x1b[24;", b"80Rx"], "x"),
            // Keys end a reply whose rest is lost. Enter does not count without the text before it.
            ([b"\x1b]11;rgb:", b"no\rx"], "x"),
            ([b"\x1bP1", b"\x03"], "C-c"),
            ([b"\x1b]11;rgb:", b"\x1b[A"], "Up"),
        ] {
            let (mut decoder, mut came) = (InputDecoder::default(), VecDeque::new());
            decoder.push(pieces[0], &mut came);
            assert_eq!(decoder.sequence_timeout(), Some(REST_OF_REPLY), "{pieces:?}");
            decoder.push(pieces[1], &mut came);
            assert_eq!(words(came.into()), events, "{pieces:?}");
        }
        assert_eq!(slowly(&[b"\x1b]11;rgb:\x1b", b"x"]), "Esc x");
        // Keys with a modifier are not delayed.
        let mut decoder = InputDecoder::default();
        for key in [&b"\x1b"[..], b"\x1b]", b"\x1b[", b"\x1bP", b"\x1b_", b"\x1b\x1b"] {
            decoder.push(key, &mut VecDeque::new());
            assert_eq!(decoder.sequence_timeout(), Some(REST_OF_SEQUENCE), "{key:?}");
            decoder.flush_incomplete(&mut VecDeque::new());
        }
    }

    fn words(events: Vec<TerminalEvent>) -> String {
        let words: Vec<String> = events
            .into_iter()
            .map(|event| match event {
                TerminalEvent::Key(KeyEvent { code, modifiers, .. }) => {
                    let mut word = String::new();
                    for (key, name) in [
                        (KeyModifiers::CONTROL, "C-"),
                        (KeyModifiers::ALT, "A-"),
                        (KeyModifiers::SHIFT, "S-"),
                    ] {
                        if modifiers.contains(key) {
                            word.push_str(name);
                        }
                    }
                    word + &code.as_char().map_or(format!("{code:?}"), String::from)
                }
                TerminalEvent::Paste(text) => format!("paste {text:?}"),
                TerminalEvent::Mouse(MouseEvent { kind, column, row, .. }) => {
                    format!("{kind:?}@{column},{row}")
                }
                other @ (TerminalEvent::Focused(_)
                | TerminalEvent::Background { .. }
                | TerminalEvent::Resized
                | TerminalEvent::Signal(_)
                | TerminalEvent::Lost) => {
                    format!("{other:?}")
                }
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn keys_of_all_terminals_are_decoded() {
        for (bytes, keys) in [
            ("a\u{c4}語 \r\t\x7f", "a S-\u{c4} 語   Enter Tab Backspace"),
            ("\0\x01\x08\n\x1a\x1c\x1d\x1e\x1f", "C-  C-a C-h C-j C-z C-\\ C-] C-^ C-_"),
            (
                "\x1b[A\x1bOB\x1b[1;5C\x1b[1;3D\x1b[H\x1bOF\x1b[7~\x1b[4~",
                "Up Down C-Right A-Left Home End Home End",
            ),
            ("\x1b[2~\x1b[3~\x1b[5;5~\x1b[6~\x1b[Z", "Insert Delete C-PageUp PageDown S-BackTab"),
            (
                "\x1bOP\x1b[[C\x1b[15~\x1b[17~\x1b[21~\x1b[24;2~\x1b[1;2S",
                "F(1) F(3) F(5) F(6) F(10) S-F(12) S-F(4)",
            ),
            ("\x1bx\x1b\r\x1bX\x1b\x1b[A\x1b\x7f", "A-x A-Enter A-S-X A-Up A-Backspace"),
            ("\x1b[27u\x1b[13;2u\x1b[99;5u\x1b[9;2u\x1b[57400u\x1b[97;5:3u", "Esc S-Enter C-c S-BackTab 1"),
            ("\x1b[27;5;13~\x1b[27;6;97~", "C-Enter C-S-a"),
            ("\x1b[I\x1b[O", "Focused(true) Focused(false)"),
            (
                "\x1b[<64;3;4M\x1b[<0;1;1M\x1b[<0;1;1m\x1b[<35;9;9M",
                "ScrollUp@2,3 Down(Left)@0,0 Up(Left)@0,0 Moved@8,8",
            ),
            ("\x1b[M`!!", "ScrollUp@0,0"),
        ] {
            assert_eq!(read(bytes.as_bytes()), keys, "{bytes:?}");
        }
    }

    #[test]
    fn escape_is_recognized_by_a_pause() {
        assert_eq!(read(b"\x1b"), "Esc");
        assert_eq!(read(b"\x1b\x1b"), "Esc Esc");
        assert_eq!(read(b"\x1b["), "A-[");
        assert_eq!(read(b"\x1b_"), "A-_");
        assert_eq!(read(b"\x1b_x"), "A-_ x");
        assert_eq!(read(b"\x1b\x1bx"), "Esc A-x");
        assert_eq!(read(b"\x1b[1;"), "");
        let mut decoder = InputDecoder::default();
        let mut events = VecDeque::new();
        decoder.push(b"a\x1b", &mut events);
        assert_eq!((events.len(), decoder.sequence_timeout()), (1, Some(REST_OF_SEQUENCE)));
        decoder.push(b"[A", &mut events);
        assert_eq!((events.len(), decoder.sequence_timeout()), (2, None));
    }

    #[test]
    fn unexpected_terminal_replies_are_not_keys() {
        for answer in
            ["\x1b[24;80R", "\x1b[?62;22c", "\x1b]10;rgb:00/00/00\x07", "\x1bP>|xterm\x1b\\", "\x1b[?1u"]
        {
            assert_eq!(read(format!("{answer}x").as_bytes()), "x", "{answer:?}");
        }
    }

    #[test]
    fn a_paste_is_one_event_with_any_content() {
        assert_eq!(read(b"\x1b[200~a\r\nb\x1b[A\x03\x1b[201~c"), "paste \"a\\nb\\u{1b}[A\\u{3}\" c");
        assert_eq!(read(b"\x1b[200~never ends"), "paste \"never ends\"");
        assert_eq!(
            slowly(&[b"\x1b[200~rm x", b"\r\x1b[A", b"y", b"\x1b[201~z"]),
            "paste \"rm x\" paste \"\\n\\u{1b}[A\" paste \"y\" z"
        );
        // A paste without its end marker must not swallow keys forever.
        assert_eq!(slowly(&[b"\x1b[200~a", b"\x1b", b"b"]), "paste \"a\" Esc b");
        assert_eq!(slowly(&[b"\x1b[200~a", b"\x03b", b"\x03", b"c"]), "paste \"a\" paste \"\\u{3}b\" C-c c");
        assert_eq!(read(b"\x1b[200~\x1b[201~"), "paste \"\"");
        let large = [b"\x1b[200~".as_slice(), &vec![b'x'; PASTE_BYTES_MAX + 10], b"\x1b[201~y"].concat();
        let pieces: Vec<&[u8]> = large.chunks(4096).collect();
        let events = events(&pieces);
        assert!(matches!(&events[0], TerminalEvent::Paste(text) if text.len() == PASTE_BYTES_MAX));
        assert_eq!(events.len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn chunk_boundaries_do_not_matter(
            bytes in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::strategy::Just(0x1b_u8), any::<u8>(), 0x20_u8..0x7f,
                    proptest::sample::select(b"[O]P_G<;~Mu0129A".to_vec()),
                ],
                0..60,
            ),
            size in 1_usize..8,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(events(&pieces), events(&[&bytes]));
            prop_assert!(events(&[&bytes]).len() <= bytes.len());
        }
    }
}
