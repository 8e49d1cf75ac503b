//! Rows of the REPL: panels, proposals, and the styles that they are drawn in.
//!
//! Rows, wrapping and Markdown come from `sysop-term`. A row is written with the colors of the terminal's own palette, or
//! as plain text; both are the business of whoever writes it.

pub(crate) mod panel;
pub(crate) mod plan;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use sysop_core::text::neutralize;
use sysop_term::cells;
use sysop_term::{Span, StyleRole, TextRow, Theme, ThemeName};

/// Below this many columns a panel has no sides.
pub(crate) const BOX_COLUMNS_MIN: usize = 40;
/// A panel is not drawn wider than this, so that lines stay readable.
pub(crate) const PANEL_COLUMNS_MAX: usize = 120;
/// The colors: those of the terminal's own palette, which suit its ground.
pub(crate) const THEME: Theme = Theme { name: ThemeName::Terminal };

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether colors are wanted.
    pub color: bool,
}

/// A piece of a row.
pub(crate) fn span(text: &str, role: StyleRole) -> Span {
    Span::new(text, THEME.style(role))
}

/// A row of one piece.
pub(crate) fn row(text: &str, role: StyleRole) -> TextRow {
    TextRow::of(text, THEME.style(role))
}

/// Wraps a row between words; the rows after the first are indented.
pub(crate) fn wrap(row: &TextRow, columns: usize, indent: usize) -> Vec<TextRow> {
    cells::wrap_hanging(&row.spans, columns, indent)
}

/// The row in at most `columns`, with an ellipsis where it was cut.
pub(crate) fn truncate(row: &TextRow, columns: usize) -> TextRow {
    cells::truncate(&row.spans, columns, THEME.style(StyleRole::Dim))
}

/// The row with spaces up to `columns`.
pub(crate) fn pad(mut row: TextRow, columns: usize) -> TextRow {
    let missing = columns.saturating_sub(row.width());
    row.push(span(&" ".repeat(missing), StyleRole::Text));
    row
}

/// Untrusted text as safe text in which line breaks and tabs still are what they were.
pub(crate) fn safe(text: &str) -> String {
    neutralize(text).into_owned()
}

/// The columns and rows of this terminal.
pub(crate) fn terminal_size() -> (usize, usize) {
    usable(crossterm::terminal::size().unwrap_or_default())
}

/// The columns of this terminal.
pub fn terminal_width() -> usize {
    terminal_size().0
}

/// What a terminal says of its size, or 80×24 where there is none; some say that they have no columns at all.
fn usable((columns, rows): (u16, u16)) -> (usize, usize) {
    let or = |said: u16, usual: usize| if said == 0 { usual } else { usize::from(said) };
    (or(columns, 80), or(rows, 24))
}
