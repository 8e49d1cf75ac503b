//! Renders program output as rows. Keeps colors and attributes, applies overwriting within a line, removes
//! all other sequences, and shows the remaining control characters instead of obeying them.

use ratatui::style::{Color, Modifier, Style};
use sysop_core::style::{Color as CoreColor, StyleRuns, TextAttribute, TextStyle};
use sysop_core::text::{SequenceReader, TextPart};
use unicode_width::UnicodeWidthChar;

use crate::cells::{Span, TextRow};
use crate::theme::Theme;

/// Maximum number of characters in a line; further characters are not shown.
pub const LINE_CHARS_MAX: usize = 8 * 1024;
/// The named terminal colors, by palette index.
pub(crate) const ANSI_COLORS: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];
const TAB_COLUMNS: usize = 8;

/// Renders output that contains control sequences as lines, which are not wrapped.
pub fn lines(text: &str, theme: Theme, base: Style) -> Vec<TextRow> {
    let mut screen = AnsiRenderer::new(theme, base);
    screen.read(text);
    screen.finish()
}

/// Renders output whose styles are given separately as lines, which are not wrapped.
pub fn styled_lines(text: &str, styles: &StyleRuns, theme: Theme, base: Style) -> Vec<TextRow> {
    let mut screen = AnsiRenderer::new(theme, base);
    for (piece, look) in styles.runs(text) {
        screen.look(look);
        screen.read(piece);
    }
    screen.finish()
}

struct AnsiRenderer {
    base: Style,
    theme: Theme,
    look: TextStyle,
    /// The ratatui style for `look`.
    style: Style,
    /// The current line, with one cell per column; a wide character is followed by an empty cell.
    line: Vec<AnsiCell>,
    at: usize,
    lines: Vec<TextRow>,
}

/// One column of a line. The column after a wide character contains NUL.
#[derive(Clone)]
struct AnsiCell {
    sign: char,
    marks: String,
    style: Style,
}

impl AnsiCell {
    fn of(sign: char, style: Style) -> Self {
        Self { sign, marks: String::new(), style }
    }
}

impl AnsiRenderer {
    fn new(theme: Theme, base: Style) -> Self {
        Self { base, theme, look: TextStyle::PLAIN, style: base, line: Vec::new(), at: 0, lines: Vec::new() }
    }

    fn finish(mut self) -> Vec<TextRow> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.lines
    }

    fn read(&mut self, text: &str) {
        let mut reader = SequenceReader::default();
        for sign in text.chars() {
            match sign {
                // Show 8-bit introducers instead of obeying them.
                '\u{80}'..='\u{9f}' if reader.is_in_text() => self.print(sign),
                _ => reader.push(sign, |part| self.part(part)),
            }
        }
        reader.finish(|part| self.part(part));
    }

    fn part(&mut self, part: TextPart<'_>) {
        match part {
            TextPart::Sign('\n') => self.end_line(),
            TextPart::Sign('\r') => self.at = 0,
            TextPart::Sign('\u{8}') => self.at = self.at.saturating_sub(1),
            TextPart::Sign('\t') => {
                let stop = (self.at / TAB_COLUMNS + 1) * TAB_COLUMNS;
                while self.at < stop && self.put(' ') {}
            }
            TextPart::Sign('\u{7}') | TextPart::Introducer => {}
            TextPart::Sign(sign) => self.print(sign),
            TextPart::Csi(parameters, last) => self.control_sequence(parameters, last),
        }
    }

    fn end_line(&mut self) {
        let mut row: Vec<(String, Style)> = Vec::new();
        for cell in self.line.drain(..) {
            match row.last_mut() {
                Some((_, same)) if *same == cell.style => {}
                Some(_) | None => row.push((String::new(), cell.style)),
            }
            if let Some((text, _)) = row.last_mut().filter(|_| cell.sign != '\0') {
                text.push(cell.sign);
                text.push_str(&cell.marks);
            }
        }
        let spans: Vec<Span> = row.iter().map(|(text, style)| Span::new(text, *style)).collect();
        self.lines.push(TextRow::from(spans));
        self.at = 0;
    }

    fn print(&mut self, sign: char) {
        let wide = sign.width().unwrap_or(0);
        if wide == 0 && !sign.is_control() && self.at > 0 {
            // A combining mark belongs to the preceding character.
            let before = self.at.min(self.line.len());
            if let Some(cell) = self.line[..before].iter_mut().rev().find(|cell| cell.sign != '\0') {
                cell.marks.push(sign);
                return;
            }
        }
        // NUL has a special meaning in cells, so a literal NUL is shown as its symbol.
        self.put(if sign == '\0' { '␀' } else { sign });
        if wide == 2 {
            self.put('\0');
        }
    }

    fn put(&mut self, sign: char) -> bool {
        if self.at >= LINE_CHARS_MAX {
            return false;
        }
        while self.line.len() < self.at {
            self.line.push(AnsiCell::of(' ', self.base));
        }
        // Overwriting half of a wide character leaves a blank.
        if sign != '\0' && self.line.get(self.at).is_some_and(|cell| cell.sign == '\0') {
            self.line[self.at - 1].sign = ' ';
        }
        if self.line.get(self.at + 1).is_some_and(|cell| cell.sign == '\0') {
            self.line[self.at + 1].sign = ' ';
        }
        let cell = AnsiCell::of(sign, self.style);
        match self.line.get_mut(self.at) {
            Some(there) => *there = cell,
            None => self.line.push(cell),
        }
        self.at += 1;
        true
    }

    fn control_sequence(&mut self, parameters: &str, last: char) {
        match last {
            'm' if parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')) => {
                let mut look = self.look;
                look.select(parameters);
                self.look(look);
            }
            'K' => self.erase(parameters),
            'C' => self.at = (self.at + parameters.parse().unwrap_or(1).max(1)).min(LINE_CHARS_MAX),
            'D' => self.at = self.at.saturating_sub(parameters.parse().unwrap_or(1).max(1)),
            'G' => self.at = parameters.parse::<usize>().unwrap_or(1).clamp(1, LINE_CHARS_MAX) - 1,
            _ => {}
        }
    }

    fn erase(&mut self, parameters: &str) {
        match parameters {
            "" | "0" => self.line.truncate(self.at),
            "1" => {
                self.line.iter_mut().take(self.at + 1).for_each(|cell| *cell = AnsiCell::of(' ', self.base))
            }
            "2" => self.line.clear(),
            _ => {}
        }
    }

    /// Sets the style of the following text. If foreground and background have the same color, the background
    /// is dropped, because it would hide the text.
    fn look(&mut self, look: TextStyle) {
        self.look = look;
        self.style = text_style(look, self.theme, self.base);
    }
}

/// Converts a style from program output to a ratatui style on top of `base`. If foreground and background
/// have the same color, the background is dropped, because it would hide the text.
pub fn text_style(look: TextStyle, theme: Theme, base: Style) -> Style {
    let look = look.legible();
    let mut style = base;
    for (mark, modifier) in [
        (TextAttribute::Bold, Modifier::BOLD),
        (TextAttribute::Dim, Modifier::DIM),
        (TextAttribute::Italic, Modifier::ITALIC),
        (TextAttribute::Underlined, Modifier::UNDERLINED),
        (TextAttribute::Reversed, Modifier::REVERSED),
        (TextAttribute::Struck, Modifier::CROSSED_OUT),
    ] {
        if look.has(mark) {
            style = style.add_modifier(modifier);
        }
    }
    if theme.color() {
        style.fg = look.foreground.map(color).or(style.fg);
        style.bg = look.background.map(color).or(style.bg);
    }
    style
}

fn color(color: CoreColor) -> Color {
    match color {
        CoreColor::Indexed(index) => {
            ANSI_COLORS.get(usize::from(index)).copied().unwrap_or(Color::Indexed(index))
        }
        CoreColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}
