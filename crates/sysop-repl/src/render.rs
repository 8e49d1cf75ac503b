//! Rows of the REPL: panels, proposals and their styles.
//!
//! Rows, wrapping and Markdown come from `sysop-term`. The code that writes a row to the terminal decides
//! whether to use the terminal palette's colors or plain text.

pub(crate) mod excerpt;
pub(crate) mod panel;
pub(crate) mod plan;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use sysop_core::text::{neutralize, neutralize_prose};
use sysop_term::cells;
use sysop_term::{Span, StyleRole, TextRow, Theme, ThemeName};

/// Minimum width of the terminal, in columns, for panels to have sides.
pub(crate) const BOX_COLUMNS_MIN: usize = 40;
/// Maximum width of a panel in columns, so that lines stay readable.
pub(crate) const PANEL_COLUMNS_MAX: usize = 120;
/// The terminal's own palette, which matches its background.
pub(crate) const THEME: Theme = Theme { name: ThemeName::Terminal };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    pub width: usize,
    pub color: bool,
}

pub(crate) fn span(text: &str, role: StyleRole) -> Span {
    Span::new(text, THEME.style(role))
}

pub(crate) fn row(text: &str, role: StyleRole) -> TextRow {
    TextRow::of(text, THEME.style(role))
}

/// Wraps a row at word boundaries and indents continuation rows.
pub(crate) fn wrap(row: &TextRow, columns: usize, indent: usize) -> Vec<TextRow> {
    cells::wrap_hanging(&row.spans, columns, indent)
}

/// Truncates a row to `columns`. A truncated row ends in an ellipsis.
pub(crate) fn truncate(row: &TextRow, columns: usize) -> TextRow {
    cells::truncate(&row.spans, columns, THEME.style(StyleRole::Dim))
}

/// Pads a row with spaces to `columns`.
pub(crate) fn pad(mut row: TextRow, columns: usize) -> TextRow {
    let missing = columns.saturating_sub(row.width());
    row.push(span(&" ".repeat(missing), StyleRole::Text));
    row
}

/// Sanitizes untrusted text but keeps line breaks and tabs.
pub(crate) fn safe(text: &str) -> String {
    neutralize(text).into_owned()
}

/// Like [`safe`], but for prose: a model's answer, a prompt.
pub(crate) fn safe_prose(text: &str) -> String {
    neutralize_prose(text).into_owned()
}

pub(crate) fn terminal_size() -> (usize, usize) {
    usable(crossterm::terminal::size().unwrap_or_default())
}

pub fn terminal_width() -> usize {
    terminal_size().0
}

/// Returns the reported size of a terminal. A reported zero is replaced with the size of an 80×24 terminal.
fn usable((columns, rows): (u16, u16)) -> (usize, usize) {
    let or = |said: u16, usual: usize| if said == 0 { usual } else { usize::from(said) };
    (or(columns, 80), or(rows, 24))
}
