//! Encoding of keys as terminal input, and names of typed keys.
//!
//! This module is pure. Keys are encoded as in xterm. The names of keys are those that `send_keys` accepts.

pub(crate) use sysop_core::key_stroke::{KeyStroke, Modifiers, SpecialKey, parse};

/// Keyboard modes set by the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeyMode {
    /// DECCKM: arrows, Home and End are sent as `ESC O`.
    pub(crate) application_cursor: bool,
}

/// Returns the bytes that a terminal sends for one keystroke.
pub(crate) fn encode(stroke: &KeyStroke, mode: KeyMode) -> Vec<u8> {
    match stroke {
        KeyStroke::Text(text) => typed(text),
        KeyStroke::Control(byte) => vec![*byte],
        KeyStroke::Alt(text) => [b"\x1b".as_slice(), text.as_bytes()].concat(),
        KeyStroke::Key(special, modifiers) => special_bytes(*special, *modifiers, mode),
    }
}

/// Returns the bytes that a keyboard sends for text: line ends become Enter.
fn typed(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
}

fn special_bytes(special: SpecialKey, modifiers: Modifiers, mode: KeyMode) -> Vec<u8> {
    let alone = modifiers == Modifiers::default();
    let parameter = modifiers.parameter();
    let letter = |last: char| match (alone, mode.application_cursor) {
        (true, true) => format!("\x1bO{last}"),
        (true, false) => format!("\x1b[{last}"),
        (false, _) => format!("\x1b[1;{parameter}{last}"),
    };
    let number = |number: u8| {
        if alone { format!("\x1b[{number}~") } else { format!("\x1b[{number};{parameter}~") }
    };
    let plain = |text: &str| if modifiers.alt { format!("\x1b{text}") } else { text.to_owned() };
    let text = match special {
        SpecialKey::Enter => plain("\r"),
        SpecialKey::Tab => plain("\t"),
        SpecialKey::Escape => plain("\x1b"),
        SpecialKey::Backspace => plain(if modifiers.control { "\x08" } else { "\x7f" }),
        SpecialKey::BackTab => "\x1b[Z".to_owned(),
        SpecialKey::Insert => number(2),
        SpecialKey::Delete => number(3),
        SpecialKey::PageUp => number(5),
        SpecialKey::PageDown => number(6),
        SpecialKey::Home => letter('H'),
        SpecialKey::End => letter('F'),
        SpecialKey::Up => letter('A'),
        SpecialKey::Down => letter('B'),
        SpecialKey::Right => letter('C'),
        SpecialKey::Left => letter('D'),
        SpecialKey::Function(index @ 1..=4) => {
            let last = char::from(b'P' + index - 1);
            if alone { format!("\x1bO{last}") } else { format!("\x1b[1;{parameter}{last}") }
        }
        SpecialKey::Function(index) => number(FUNCTION_NUMBERS[usize::from(index.clamp(5, 12) - 5)]),
    };
    text.into_bytes()
}

/// Parameters of the escape sequences of F5 to F12. The numbers 16 and 22 are missing, as on the VT220.
const FUNCTION_NUMBERS: [u8; 8] = [15, 17, 18, 19, 20, 21, 23, 24];

/// Escape sequences with the names of their keys, used to name typed input.
const ESCAPES: [(&str, &str); 31] = [
    ("\x1b[A", "Up"),
    ("\x1b[B", "Down"),
    ("\x1b[C", "Right"),
    ("\x1b[D", "Left"),
    ("\x1bOA", "Up"),
    ("\x1bOB", "Down"),
    ("\x1bOC", "Right"),
    ("\x1bOD", "Left"),
    ("\x1b[H", "Home"),
    ("\x1b[F", "End"),
    ("\x1bOH", "Home"),
    ("\x1bOF", "End"),
    ("\x1b[1~", "Home"),
    ("\x1b[4~", "End"),
    ("\x1b[2~", "Insert"),
    ("\x1b[3~", "Delete"),
    ("\x1b[5~", "PageUp"),
    ("\x1b[6~", "PageDown"),
    ("\x1b[Z", "BackTab"),
    ("\x1bOP", "F1"),
    ("\x1bOQ", "F2"),
    ("\x1bOR", "F3"),
    ("\x1bOS", "F4"),
    ("\x1b[15~", "F5"),
    ("\x1b[17~", "F6"),
    ("\x1b[18~", "F7"),
    ("\x1b[19~", "F8"),
    ("\x1b[20~", "F9"),
    ("\x1b[21~", "F10"),
    ("\x1b[23~", "F11"),
    ("\x1b[24~", "F12"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypedKey {
    Char(char),
    AltKey(String),
    Key(String),
}

impl TypedKey {
    pub(super) fn letter(&self) -> Option<char> {
        match self {
            Self::Char(letter) => Some(*letter),
            Self::AltKey(_) | Self::Key(_) => None,
        }
    }
}

/// Splits typed bytes into keys. Drops control sequences of unknown keys.
pub(super) fn typed_keys(bytes: &[u8]) -> Vec<TypedKey> {
    let text = String::from_utf8_lossy(bytes);
    let mut pieces = Vec::new();
    let mut rest = text.as_ref();
    while let Some(letter) = rest.chars().next() {
        let name = if letter == '\x1b' {
            let (name, length) = escape_name(rest);
            rest = &rest[length..];
            name
        } else {
            rest = &rest[letter.len_utf8()..];
            control_name(letter)
        };
        match name {
            None if letter.is_control() => {}
            None => pieces.push(TypedKey::Char(letter)),
            Some(name) if name.starts_with("Alt+") => pieces.push(TypedKey::AltKey(name)),
            Some(name) => pieces.push(TypedKey::Key(name)),
        }
    }
    pieces
}

/// Names typed bytes for the log and the model: text verbatim, keys by name, separated by spaces.
pub(crate) fn key_names(bytes: &[u8]) -> String {
    let mut told = String::new();
    let mut in_text = false;
    for piece in typed_keys(bytes) {
        let is_letter = piece.letter().is_some();
        let follows = in_text && is_letter;
        if !follows && !told.is_empty() {
            told.push(' ');
        }
        match piece {
            TypedKey::Char(letter) => told.push(letter),
            TypedKey::AltKey(name) | TypedKey::Key(name) => told.push_str(&name),
        }
        in_text = is_letter;
    }
    told
}

fn escape_name(text: &str) -> (Option<String>, usize) {
    if let Some((sequence, name)) = ESCAPES.iter().find(|(sequence, _)| text.starts_with(sequence)) {
        return (Some((*name).to_owned()), sequence.len());
    }
    let bytes = text.as_bytes();
    if bytes.get(1) == Some(&b'[') {
        let end = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte));
        return (None, end.map_or(bytes.len(), |end| end + 3));
    }
    match text[1..].chars().next() {
        Some(letter) if !letter.is_control() => (Some(format!("Alt+{letter}")), 1 + letter.len_utf8()),
        _ => (Some("Escape".to_owned()), 1),
    }
}

fn control_name(letter: char) -> Option<String> {
    Some(match letter {
        '\r' | '\n' => "Enter".to_owned(),
        '\t' => "Tab".to_owned(),
        '\x7f' | '\x08' => "Backspace".to_owned(),
        '\0' => "Ctrl+Space".to_owned(),
        '\x01'..='\x1a' => format!("Ctrl+{}", char::from(b'A' - 1 + u8::try_from(letter).ok()?)),
        '\x1c'..='\x1f' => format!("Ctrl+{}", char::from(b'@' + u8::try_from(letter).ok()?)),
        _ => return None,
    })
}

pub(super) fn is_enter(stroke: &KeyStroke) -> bool {
    encode(stroke, KeyMode::default()).ends_with(b"\r")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::{KeyMode, encode, key_names, parse};

    fn bytes(keys: &str) -> String {
        in_mode(keys, KeyMode::default())
    }

    fn in_mode(keys: &str, mode: KeyMode) -> String {
        let all: Vec<u8> = parse(keys).iter().flat_map(|stroke| encode(stroke, mode)).collect();
        String::from_utf8(all).expect("text")
    }

    #[test]
    fn documented_keys_send_their_bytes() {
        let table = [
            ("Enter", "\r"),
            ("Return", "\r"),
            ("Tab", "\t"),
            ("Escape", "\x1b"),
            ("Esc", "\x1b"),
            ("Backspace", "\x7f"),
            ("Delete", "\x1b[3~"),
            ("Up", "\x1b[A"),
            ("Down", "\x1b[B"),
            ("Left", "\x1b[D"),
            ("Right", "\x1b[C"),
            ("Home", "\x1b[H"),
            ("End", "\x1b[F"),
            ("PageUp", "\x1b[5~"),
            ("PageDown", "\x1b[6~"),
            ("Space", " "),
            ("Ctrl+C", "\x03"),
            ("Ctrl+D", "\x04"),
            ("Ctrl+Z", "\x1a"),
            ("Ctrl+L", "\x0c"),
            ("Ctrl+A", "\x01"),
            ("Ctrl+E", "\x05"),
            ("Ctrl+K", "\x0b"),
            ("Ctrl+U", "\x15"),
            ("Ctrl+W", "\x17"),
            ("Ctrl+R", "\x12"),
            ("ctrl+c", "\x03"),
            ("C-c", "\x03"),
            ("^C", "\x03"),
            ("Ctrl+Space", "\0"),
            ("Ctrl+[", "\x1b"),
            ("Ctrl+\\", "\x1c"),
            ("Ctrl+/", "\x1f"),
            ("F1", "\x1bOP"),
            ("F4", "\x1bOS"),
            ("F5", "\x1b[15~"),
            ("F11", "\x1b[23~"),
            ("F12", "\x1b[24~"),
            ("Alt+x", "\x1bx"),
            ("Alt+Enter", "\x1b\r"),
            ("Shift+Tab", "\x1b[Z"),
            ("Ctrl+Right", "\x1b[1;5C"),
            ("Shift+F5", "\x1b[15;2~"),
            ("Ctrl+Alt+x", "\x1b\x18"),
        ];
        for (name, expected) in table {
            assert_eq!(bytes(name), expected, "{name}");
        }
    }

    #[test]
    fn application_cursor_mode_changes_the_arrow_keys() {
        let mode = KeyMode { application_cursor: true };
        assert_eq!(in_mode("Up End PageUp Ctrl+Up", mode), "\x1bOA\x1bOF\x1b[5~\x1b[1;5A");
    }

    #[test]
    fn spaces_separate_keys_and_are_typed_only_by_name() {
        assert_eq!(bytes("y Enter"), "y\r");
        assert_eq!(bytes("ls -la Enter"), "ls-la\r");
        assert_eq!(bytes("ls Space -la Enter"), "ls -la\r");
        assert_eq!(bytes("\"ls -la\" Enter"), "ls -la\r");
        assert_eq!(bytes("\"Enter\" Enter"), "Enter\r");
        assert_eq!(bytes("\"\" \" \""), " ");
    }

    #[test]
    fn words_that_are_not_key_names_are_typed() {
        for text in [
            "F13", "F0", "F01", "Ctrl+", "Ctrl+ü", "ctrl", "+", "a+b", "x-y", "c-x", "\"open", ":wq", "^",
            "^ab",
        ] {
            assert_eq!(bytes(text), text, "{text}");
        }
        assert_eq!(bytes("G o :wq Enter"), "Go:wq\r");
    }

    #[test]
    fn typed_bytes_have_names() {
        assert_eq!(key_names(b"ls -la\r"), "ls -la Enter");
        assert_eq!(key_names(b"a\x03b\x1b[A\x1bOB\x1bx\x1b"), "a Ctrl+C b Up Down Alt+x Escape");
        assert_eq!(key_names("grün\t\x7f\x1b[200~x\x1b[201~".as_bytes()), "grün Tab Backspace x");
        assert_eq!(key_names(b"\x1b[38;5;1mx\x1b["), "x");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn quoted_text_is_typed_unchanged(text in "[^\"\r\n]{0,40}") {
            prop_assert_eq!(bytes(&format!("\"{text}\"")), text);
        }

        #[test]
        fn any_word_that_is_not_a_key_is_typed_verbatim(words in proptest::collection::vec("[g-z]{4,9}|[0-9/.,:;]{1,6}", 0..8)) {
            let known = ["home", "insert", "pgup", "pgdn", "pgdown", "right"];
            let words: Vec<_> = words.into_iter().filter(|word| !known.contains(&word.as_str())).collect();
            prop_assert_eq!(bytes(&words.join(" ")), words.concat());
        }

        #[test]
        fn no_input_fails_or_is_typed_twice(keys in ".{0,60}") {
            let spaces = keys.chars().filter(|letter| *letter == ' ').count();
            let longest = keys.len() + 8 * (spaces + 1);
            prop_assert!(bytes(&keys).len() <= longest);
        }

        #[test]
        fn key_names_are_one_clean_line(typed in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            prop_assert!(!key_names(&typed).chars().any(char::is_control));
        }
    }
}
