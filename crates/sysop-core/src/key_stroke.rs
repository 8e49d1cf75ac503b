//! Key names: the notation in which a model writes keys for a terminal.
//!
//! The policy and the host both use this parser, so the policy assesses exactly the keys that the host types. Names
//! follow xterm's function keys and the usual names of `tmux send-keys`.

/// One keystroke, or a run of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyStroke {
    /// Text, typed verbatim.
    Text(String),
    Key(SpecialKey, Modifiers),
    Control(u8),
    /// Escape followed by the text, in one write.
    Alt(String),
}

/// Keys that do not type a character of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialKey {
    Enter,
    Tab,
    BackTab,
    Escape,
    Backspace,
    Insert,
    Delete,
    Home,
    End,
    PageUp,
    PageDown,
    Up,
    Down,
    Left,
    Right,
    /// F1 to F12.
    Function(u8),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    pub shift: bool,
    /// Alt or Meta.
    pub alt: bool,
    pub control: bool,
}

impl Modifiers {
    /// Returns xterm's modifier parameter: 1 plus one bit per modifier.
    pub fn parameter(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.control)
    }
}

/// Parses keys as a model writes them. Tokens are separated by spaces. A literal space is written as `Space`, or inside
/// a token in double quotes. A token that is not a key name is typed verbatim. Never fails.
///
/// ```
/// use sysop_core::key_stroke::{KeyStroke, Modifiers, SpecialKey, parse};
///
/// let keys = parse("ls Enter Ctrl+C");
/// assert_eq!(keys[0], KeyStroke::Text("ls".to_owned()));
/// assert_eq!(keys[1], KeyStroke::Key(SpecialKey::Enter, Modifiers::default()));
/// assert_eq!(keys[2], KeyStroke::Control(3));
/// ```
pub fn parse(keys: &str) -> Vec<KeyStroke> {
    let mut strokes = Vec::new();
    let mut rest = keys.trim_start_matches(' ');
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (token, after) = quoted.or_else(|| rest.split_once(' ')).unwrap_or((rest, ""));
        let stroke = match quoted {
            Some(_) => KeyStroke::Text(token.to_owned()),
            None => named(token).unwrap_or_else(|| KeyStroke::Text(token.to_owned())),
        };
        match (strokes.last_mut(), stroke) {
            (_, KeyStroke::Text(text)) if text.is_empty() => {}
            (Some(KeyStroke::Text(before)), KeyStroke::Text(text)) => before.push_str(&text),
            (_, stroke) => strokes.push(stroke),
        }
        rest = after.trim_start_matches(' ');
    }
    strokes
}

fn named(token: &str) -> Option<KeyStroke> {
    if let Some(special) = special(token) {
        return Some(KeyStroke::Key(special, Modifiers::default()));
    }
    if token.eq_ignore_ascii_case("space") {
        return Some(KeyStroke::Text(" ".to_owned()));
    }
    let (modifiers, key) = parse_modifiers(token)?;
    combined(modifiers, key)
}

/// Parses the modifiers at the front of a token (`Ctrl+`, `Alt-`, `C-`, `^`). Returns them with the remaining key, or
/// `None` if there are no modifiers.
fn parse_modifiers(token: &str) -> Option<(Modifiers, &str)> {
    let mut modifiers = Modifiers::default();
    let mut rest = token;
    if let Some(key) = rest.strip_prefix('^').filter(|key| key.chars().count() == 1) {
        modifiers.control = true;
        return Some((modifiers, key));
    }
    while let Some(at) = rest.find(['+', '-']).filter(|&at| at > 0 && at + 1 < rest.len()) {
        let name = rest[..at].to_ascii_lowercase();
        // `C-x` is an established key name; `C+x` and `c-x` are more likely to be text.
        let short = name == "c" && !rest.starts_with("C-");
        match name.as_str() {
            "ctrl" | "control" => modifiers.control = true,
            "c" if !short => modifiers.control = true,
            "alt" | "meta" | "option" => modifiers.alt = true,
            "shift" => modifiers.shift = true,
            _ => break,
        }
        rest = &rest[at + 1..];
    }
    (modifiers != Modifiers::default()).then_some((modifiers, rest))
}

fn combined(modifiers: Modifiers, key: &str) -> Option<KeyStroke> {
    if let Some(special) = special(key) {
        return Some(match (special, modifiers) {
            (SpecialKey::Tab, Modifiers { shift: true, alt: false, control: false }) => {
                KeyStroke::Key(SpecialKey::BackTab, Modifiers::default())
            }
            _ => KeyStroke::Key(special, modifiers),
        });
    }
    let key = if key.eq_ignore_ascii_case("space") { " " } else { key };
    let mut letters = key.chars();
    let (letter, None) = (letters.next()?, letters.next()) else { return None };
    if !modifiers.control {
        let text = if modifiers.shift { letter.to_uppercase().collect() } else { letter.to_string() };
        return Some(if modifiers.alt { KeyStroke::Alt(text) } else { KeyStroke::Text(text) });
    }
    let byte = control(letter)?;
    Some(if modifiers.alt { KeyStroke::Alt(char::from(byte).to_string()) } else { KeyStroke::Control(byte) })
}

/// Returns the control character of a key; `None` if it has none.
pub fn control(letter: char) -> Option<u8> {
    Some(match letter.to_ascii_lowercase() {
        letter @ 'a'..='z' => u8::try_from(letter).ok()? & 0x1f,
        ' ' | '@' | '2' => 0x00,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '6' => 0x1e,
        '_' | '/' | '-' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

fn special(token: &str) -> Option<SpecialKey> {
    let name = token.to_ascii_lowercase();
    Some(match name.as_str() {
        "enter" | "return" => SpecialKey::Enter,
        "tab" => SpecialKey::Tab,
        "backtab" | "btab" => SpecialKey::BackTab,
        "escape" | "esc" => SpecialKey::Escape,
        "backspace" | "bspace" => SpecialKey::Backspace,
        "insert" | "ins" => SpecialKey::Insert,
        "delete" | "del" => SpecialKey::Delete,
        "home" => SpecialKey::Home,
        "end" => SpecialKey::End,
        "pageup" | "pgup" => SpecialKey::PageUp,
        "pagedown" | "pgdn" | "pgdown" => SpecialKey::PageDown,
        "up" => SpecialKey::Up,
        "down" => SpecialKey::Down,
        "left" => SpecialKey::Left,
        "right" => SpecialKey::Right,
        _ => {
            let number: u8 = name.strip_prefix('f')?.parse().ok()?;
            let plain = name.len() == 1 + if number < 10 { 1 } else { 2 };
            return ((1..=12).contains(&number) && plain).then_some(SpecialKey::Function(number));
        }
    })
}
