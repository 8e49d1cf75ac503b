//! Hostile text, and checks of drawn rows, for the tests of this crate and the front ends.
#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "for tests only")]

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::cells::{TextRow, width};
use crate::{link, paint};

/// Text that confuses terminals, layouts and readers.
pub const NASTY: [&str; 22] = [
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    "\u{9b}31m",
    "\u{90}q\u{9c}",
    "a\rb",
    "\u{8}\u{8}",
    "\u{202e}desrever\u{202c}",
    "\u{2066}isolate\u{2069}",
    "zero\u{200b}width\u{feff}",
    "tab\there",
    "日本語のテキスト",
    "e\u{301}a\u{308}\u{300}",
    "👩\u{200d}👩\u{200d}👧 👍🏽 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🇩🇪",
    "שלום עולם مرحبا لا",
    "ｶﾞｷﾞ \u{ff9e}",
    "\u{301}mark first",
    "क्षि नमस्ते กำ",
    "\u{1b}[38;5;1mred\u{1b}[0m",
    "\u{0}nul",
    "ᄒ\u{1161}\u{11ab} \u{1161}",
    "&#27;[31m &lt;b&gt;",
];

/// Creates an empty buffer of this size.
pub fn buffer(columns: u16, rows: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, columns, rows))
}

/// Draws rows below one another and removes trailing blanks.
pub fn drawn(rows: &[TextRow], columns: u16) -> String {
    let mut buffer = buffer(columns, u16::try_from(rows.len()).unwrap());
    for (row, y) in rows.iter().zip(0..) {
        row.draw(&mut buffer, 0, y, columns);
    }
    screen(&buffer)
}

pub fn screen(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let (shown, _) = link::shown(buffer[(x, y)].symbol());
            line.push_str(shown);
            x += u16::try_from(width(shown).max(1)).unwrap();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns the first cell with a control character that is not part of a link sequence added here.
pub fn intruder(buffer: &Buffer) -> Option<String> {
    buffer.content.iter().map(|cell| cell.symbol()).find_map(|symbol| {
        let (shown, target) = link::shown(symbol);
        let bad = |c: char| {
            c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}')
        };
        let bad_target = target.is_some_and(|target| !target.bytes().all(|b| b.is_ascii_graphic()));
        (shown.contains(bad) || bad_target).then(|| symbol.to_owned())
    })
}

/// Everything known to affect a terminal, or to hide or reorder text.
pub const HOSTILE: &[&str] = &[
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]2;t\u{1b}\\",
    "\u{1b}]7;file://x/\u{7}",
    "\u{1b}]8;;http://evil\u{7}click\u{1b}]8;;\u{7}",
    "\u{1b}]9;note\u{7}",
    "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
    "\u{1b}]133;D;0\u{7}",
    "\u{1b}]633;E;x\u{7}",
    "\u{1b}]777;notify;a;b\u{7}",
    "\u{1b}]1337;CurrentDir=/\u{7}",
    "\u{1b}P$qm\u{1b}\\",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{1b}Pq#0;2;0;0;0\u{1b}\\",
    "\u{1b}_Gf=24\u{1b}\\",
    "\u{1b}^pm\u{1b}\\",
    "\u{9b}31m",
    "\u{9d}0;x\u{9c}",
    "\u{90}x\u{9c}",
    "\u{1b}[c\u{1b}[6n\u{1b}[21t",
    "\u{1b}[?1049h",
    "\u{1b}[?2004h",
    "\u{1b}[201~rm -rf /\r",
    "\u{1b}[31mred",
    "\u{1b}]0;unterminated",
    "safe\rrm -rf /",
    "rm\u{8}\u{8}ls",
    "a\u{0}b\u{7f}c",
    "\u{202e}txt.exe",
    "\u{2066}x\u{2069}",
    "\u{200e}\u{200f}",
    "a\u{2028}b\u{2029}c",
];

/// Returns true for characters that affect a terminal or reorder its text.
fn moves(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Returns the first part of painted output that is neither text nor style, such as a non-SGR sequence.
pub fn painted_intruder(painted: &str) -> Option<String> {
    let mut rest = painted;
    while let Some(at) = rest.find(|c: char| moves(c) && c != '\n') {
        let found = &rest[at..];
        let style = found.strip_prefix("\u{1b}[").and_then(|text| text.split_once('m'));
        match style {
            Some((parameters, after)) if parameters.bytes().all(|b| b.is_ascii_digit() || b == b';') => {
                rest = after
            }
            Some(_) | None => {
                return Some(found.chars().take(12).collect::<String>().escape_debug().to_string());
            }
        }
    }
    None
}

/// Returns the first part of a row that a terminal would obey. A row's text must not contain styles either.
pub fn row_intruder(row: &TextRow) -> Option<String> {
    let text = paint::row(row, false);
    let control = text.chars().find(|c| moves(*c)).map(|c| c.escape_debug().to_string());
    control.or_else(|| painted_intruder(&paint::row(row, true)))
}
