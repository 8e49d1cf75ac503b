//! Formats rows as text, for terminals to which lines are written.
//!
//! The only control sequences in the output are SGR sequences made from styles. A span's text contains none.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use crate::ansi::ANSI_COLORS;
use crate::cells::{TextRow, width};
use crate::link;

/// SGR parameter of each modifier.
const MODIFIERS: [(Modifier, u8); 6] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::REVERSED, 7),
    (Modifier::CROSSED_OUT, 9),
];

/// Formats a row without a line end. Returns plain text unless `color` is set.
pub fn row(row: &TextRow, color: bool) -> String {
    let mut out = String::new();
    for span in &row.spans {
        let parameters = if color { sgr(span.style) } else { String::new() };
        push(&mut out, span.text(), &parameters);
    }
    out
}

/// Formats a line of a buffer, without trailing blanks and links.
pub fn buffer_line(buffer: &Buffer, y: u16) -> String {
    let mut pieces: Vec<(String, String)> = Vec::new();
    let mut x = buffer.area.left();
    while x < buffer.area.right() {
        let cell = &buffer[(x, y)];
        let (symbol, _) = link::shown(cell.symbol());
        let parameters = sgr(cell.style());
        match pieces.last_mut() {
            Some((same, text)) if *same == parameters => text.push_str(symbol),
            Some(_) | None => pieces.push((parameters, symbol.to_owned())),
        }
        x += u16::try_from(width(symbol).max(1)).unwrap_or(1);
    }
    if let Some((_, text)) = pieces.last_mut().filter(|(parameters, _)| parameters.is_empty()) {
        text.truncate(text.trim_end_matches(' ').len());
    }
    let mut out = String::new();
    for (parameters, text) in &pieces {
        push(&mut out, text, parameters);
    }
    out
}

fn push(out: &mut String, text: &str, parameters: &str) {
    if text.is_empty() || parameters.is_empty() {
        out.push_str(text);
    } else {
        let _ = write!(out, "\u{1b}[{parameters}m{text}\u{1b}[0m");
    }
}

/// Returns the SGR parameters that select a style after a reset; empty for plain text.
fn sgr(style: Style) -> String {
    let mut out = String::new();
    for (modifier, number) in MODIFIERS {
        if style.add_modifier.contains(modifier) {
            add(&mut out, format_args!("{number}"));
        }
    }
    for (color, base) in [(style.fg, 30), (style.bg, 40)] {
        match color {
            None | Some(Color::Reset) => {}
            Some(Color::Indexed(index)) => add(&mut out, format_args!("{};5;{index}", base + 8)),
            Some(Color::Rgb(red, green, blue)) => {
                add(&mut out, format_args!("{};2;{red};{green};{blue}", base + 8));
            }
            Some(named) => match ANSI_COLORS.iter().position(|color| *color == named) {
                Some(at @ 0..8) => add(&mut out, format_args!("{}", base + at)),
                Some(at) => add(&mut out, format_args!("{}", base + 60 + at - 8)),
                None => {}
            },
        }
    }
    out
}

fn add(out: &mut String, parameter: std::fmt::Arguments<'_>) {
    let border = if out.is_empty() { "" } else { ";" };
    let _ = write!(out, "{border}{parameter}");
}
