//! Encodes keys, pastes and mouse events for a program in an xterm-compatible terminal. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use sysop_core::key_stroke::control;
use sysop_core::text::neutralize;
use sysop_term::grid::TerminalModes;

/// Encodes a key. Returns `None` if terminals have no encoding for it.
#[expect(clippy::wildcard_enum_match_arm, reason = "most keys have no encoding")]
pub(super) fn key(key: KeyEvent, modes: TerminalModes) -> Option<Vec<u8>> {
    let held = key.modifiers;
    let alt = held.contains(KeyModifiers::ALT);
    if let Some(letter) = key.code.as_char() {
        let mut bytes = Vec::new();
        if alt {
            bytes.push(0x1b);
        }
        if held.contains(KeyModifiers::CONTROL) {
            bytes.push(control(letter)?);
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        return Some(bytes);
    }
    let plain: &[u8] = match key.code {
        KeyCode::Enter => b"\r",
        KeyCode::Tab => b"\t",
        KeyCode::BackTab => b"\x1b[Z",
        KeyCode::Esc => b"\x1b",
        KeyCode::Backspace if held.contains(KeyModifiers::CONTROL) => b"\x08",
        KeyCode::Backspace => b"\x7f",
        code => return special(code, held, modes).map(String::into_bytes),
    };
    Some(if alt { [b"\x1b", plain].concat() } else { plain.to_vec() })
}

fn special(code: KeyCode, held: KeyModifiers, modes: TerminalModes) -> Option<String> {
    let parameter = 1
        + u8::from(held.contains(KeyModifiers::SHIFT))
        + 2 * u8::from(held.contains(KeyModifiers::ALT))
        + 4 * u8::from(held.contains(KeyModifiers::CONTROL));
    let letter = |last: char, single_shift: bool| match (parameter, single_shift) {
        (1, true) => format!("\x1bO{last}"),
        (1, false) => format!("\x1b[{last}"),
        (held, _) => format!("\x1b[1;{held}{last}"),
    };
    let number = |number: u8| match parameter {
        1 => format!("\x1b[{number}~"),
        held => format!("\x1b[{number};{held}~"),
    };
    let cursor = |last| letter(last, modes.application_cursor);
    let table = [
        (KeyCode::Up, cursor('A')),
        (KeyCode::Down, cursor('B')),
        (KeyCode::Right, cursor('C')),
        (KeyCode::Left, cursor('D')),
        (KeyCode::Home, cursor('H')),
        (KeyCode::End, cursor('F')),
        (KeyCode::Insert, number(2)),
        (KeyCode::Delete, number(3)),
        (KeyCode::PageUp, number(5)),
        (KeyCode::PageDown, number(6)),
    ];
    if let Some((_, bytes)) = table.into_iter().find(|(of, _)| *of == code) {
        return Some(bytes);
    }
    let KeyCode::F(function) = code else { return None };
    Some(match function {
        1..=4 => letter(char::from(b'P' + function - 1), true),
        5 => number(15),
        6..=10 => number(function + 11),
        11..=12 => number(function + 12),
        _ => return None,
    })
}

/// Encodes a paste. Control characters are removed, so that the text can neither end the paste early nor act as keys.
pub(super) fn paste(text: &str, modes: TerminalModes) -> Vec<u8> {
    let mut typed = String::with_capacity(text.len());
    for letter in text.replace("\r\n", "\n").chars() {
        match letter {
            '\n' | '\r' => typed.push('\r'),
            '\t' => typed.push('\t'),
            letter if is_plain(letter) => typed.push(letter),
            // Dropped, because a visible replacement would be typed literally.
            _ => {}
        }
    }
    if modes.marked_paste { format!("\x1b[200~{typed}\x1b[201~").into_bytes() } else { typed.into_bytes() }
}

/// Returns true for a character that is displayed as is, and for the zero-width joiner, used in some text.
fn is_plain(letter: char) -> bool {
    let mut bytes = [0; 4];
    letter == '\u{200d}'
        || matches!(neutralize(letter.encode_utf8(&mut bytes)), std::borrow::Cow::Borrowed(_))
}

/// Encodes a mouse event at a cell, counted from 0. Returns `None` if the program did not enable such events.
pub(super) fn mouse(event: MouseEvent, (column, row): (u16, u16), modes: TerminalModes) -> Option<Vec<u8>> {
    use sysop_term::grid::Mouse;
    let button = |button: MouseButton| match button {
        MouseButton::Left => 0,
        MouseButton::Middle => 1,
        MouseButton::Right => 2,
    };
    let (mut code, needs, released) = match event.kind {
        MouseEventKind::Down(which) => (button(which), Mouse::Clicks, false),
        MouseEventKind::Up(which) => (button(which), Mouse::Clicks, true),
        MouseEventKind::Drag(which) => (32 + button(which), Mouse::Drags, false),
        MouseEventKind::Moved => (35, Mouse::Moves, false),
        MouseEventKind::ScrollUp => (64, Mouse::Clicks, false),
        MouseEventKind::ScrollDown => (65, Mouse::Clicks, false),
        MouseEventKind::ScrollLeft => (66, Mouse::Clicks, false),
        MouseEventKind::ScrollRight => (67, Mouse::Clicks, false),
    };
    if modes.mouse < needs {
        return None;
    }
    for (key, bit) in [(KeyModifiers::SHIFT, 4), (KeyModifiers::ALT, 8), (KeyModifiers::CONTROL, 16)] {
        code |= if event.modifiers.contains(key) { bit } else { 0 };
    }
    let (column, row) = (column + 1, row + 1);
    if modes.sgr_mouse {
        let last = if released { 'm' } else { 'M' };
        return Some(format!("\x1b[<{code};{column};{row}{last}").into_bytes());
    }
    // The old encoding has one byte per coordinate and the same code for every release.
    let code = if released { code | 3 } else { code };
    let byte = |number: u16| u8::try_from(number + 32).ok();
    Some(vec![0x1b, b'[', b'M', byte(code)?, byte(column)?, byte(row)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sysop_term::grid::Mouse;

    const NONE: KeyModifiers = KeyModifiers::NONE;
    const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
    const ALT: KeyModifiers = KeyModifiers::ALT;

    fn bytes(code: KeyCode, held: KeyModifiers, application_cursor: bool) -> String {
        let modes = TerminalModes { application_cursor, ..TerminalModes::default() };
        let bytes = key(KeyEvent::new(code, held), modes).unwrap_or_default();
        String::from_utf8(bytes).unwrap().replace('\x1b', "^")
    }

    #[test]
    fn keys_are_encoded_as_xterm_does() {
        for (code, held, expected) in [
            (KeyCode::Char('é'), NONE, "é"),
            (KeyCode::Char('A'), KeyModifiers::SHIFT, "A"),
            (KeyCode::Char('c'), CONTROL, "\x03"),
            (KeyCode::Char(' '), CONTROL, "\0"),
            (KeyCode::Char('\\'), CONTROL, "\x1c"),
            (KeyCode::Char('x'), ALT, "^x"),
            (KeyCode::Char('ä'), CONTROL, ""),
            (KeyCode::Enter, NONE, "\r"),
            (KeyCode::Enter, ALT, "^\r"),
            (KeyCode::Backspace, NONE, "\x7f"),
            (KeyCode::BackTab, KeyModifiers::SHIFT, "^[Z"),
            (KeyCode::Up, NONE, "^[A"),
            (KeyCode::Up, CONTROL, "^[1;5A"),
            (KeyCode::Home, NONE, "^[H"),
            (KeyCode::PageUp, NONE, "^[5~"),
            (KeyCode::Delete, CONTROL | KeyModifiers::SHIFT, "^[3;6~"),
            (KeyCode::F(1), NONE, "^OP"),
            (KeyCode::F(4), ALT, "^[1;3S"),
            (KeyCode::F(5), NONE, "^[15~"),
            (KeyCode::F(10), NONE, "^[21~"),
            (KeyCode::F(12), NONE, "^[24~"),
            (KeyCode::CapsLock, NONE, ""),
        ] {
            assert_eq!(bytes(code, held, false), expected, "{code:?} {held:?}");
        }
        assert_eq!(bytes(KeyCode::Left, NONE, true), "^OD");
        assert_eq!(bytes(KeyCode::Left, ALT, true), "^[1;3D");
    }

    #[test]
    fn a_paste_cannot_end_its_brackets() {
        let hostile = "ls\r\nrm\t-r x\x1b[201~\x03\u{202e}👩\u{200d}💻";
        let marked = TerminalModes { marked_paste: true, ..TerminalModes::default() };
        let text = "ls\rrm\t-r x[201~👩\u{200d}💻";
        assert_eq!(paste(hostile, TerminalModes::default()), text.as_bytes());
        assert_eq!(paste(hostile, marked), format!("\x1b[200~{text}\x1b[201~").into_bytes());
    }

    #[test]
    fn only_requested_mouse_events_are_sent() {
        let did = |kind, mouse, sgr_mouse| {
            let event = MouseEvent { kind, column: 0, row: 0, modifiers: CONTROL };
            let modes = TerminalModes { mouse, sgr_mouse, ..TerminalModes::default() };
            super::mouse(event, (4, 9), modes)
                .map(|bytes| String::from_utf8(bytes).unwrap().replace('\x1b', "^"))
        };
        let (up, drag) = (MouseEventKind::Up(MouseButton::Right), MouseEventKind::Drag(MouseButton::Left));
        assert_eq!(did(MouseEventKind::ScrollUp, Mouse::Clicks, true).as_deref(), Some("^[<80;5;10M"));
        assert_eq!(did(up, Mouse::Clicks, true).as_deref(), Some("^[<18;5;10m"));
        assert_eq!(did(up, Mouse::Clicks, false).as_deref(), Some("^[M3%*"));
        assert_eq!(did(drag, Mouse::Clicks, true), None);
        assert_eq!(did(drag, Mouse::Drags, true).as_deref(), Some("^[<48;5;10M"));
        assert_eq!(did(MouseEventKind::ScrollUp, Mouse::Off, true), None);
    }
}
