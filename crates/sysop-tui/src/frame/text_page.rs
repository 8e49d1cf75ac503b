//! A page of labels and values, such as the session's status.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::text::neutralize_line;
use sysop_term::cells::{hang, width, wrap};
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow};

/// Number of columns to the left of the text.
const INDENT: usize = 2;

/// Draws the page at the bottom of `area`, from row `first` or from an earlier row to fill the last page.
/// Returns the first row drawn.
pub(super) fn draw(
    theme: Theme,
    area: Rect,
    (title, lines): (&str, &[(String, String)]),
    first: usize,
    buffer: &mut Buffer,
) -> usize {
    let rows = rows(theme, lines, usize::from(area.width));
    // The title, an empty row before it and after the lines, and the hint.
    let page = usize::from(area.height).saturating_sub(4).max(1).min(rows.len());
    let first = first.min(rows.len() - page);
    let height = u16::try_from(page + 4).unwrap_or(u16::MAX).min(area.height);
    let hint = if first + page < rows.len() {
        "  ↓ more · any other key to close"
    } else {
        "  Press any key to close"
    };
    let shown = std::iter::once(rule(title, theme, area.width))
        .chain([TextRow::default()])
        .chain(rows.into_iter().skip(first).take(page))
        .chain([TextRow::default(), TextRow::of(hint, theme.style(StyleRole::Dim))]);
    for (row, y) in shown.zip(area.bottom() - height..area.bottom()) {
        row.draw(buffer, area.x, y, area.width);
    }
    first
}

fn rule(title: &str, theme: Theme, columns: u16) -> TextRow {
    let line = theme.style(StyleRole::Dim);
    let mut row = TextRow::of("─ ", line);
    row.push(Span::new(title, theme.style(StyleRole::Title)));
    let rest = usize::from(columns).saturating_sub(row.width() + 1);
    row.push(Span::new(&format!(" {}", "─".repeat(rest)), line));
    row
}

fn rows(theme: Theme, lines: &[(String, String)], columns: usize) -> Vec<TextRow> {
    let labels = lines.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let gap = if labels > 0 { 2 } else { 0 };
    let left = INDENT + labels + gap;
    let room = columns.saturating_sub(left).max(1);
    let mut rows = Vec::new();
    for (label, value) in lines {
        let pad = " ".repeat(labels - width(label) + gap);
        let head = Span::new(&format!("{}{label}{pad}", " ".repeat(INDENT)), theme.style(StyleRole::Dim));
        let value = neutralize_line(value);
        let wrapped = wrap(&[Span::new(&value, theme.style(StyleRole::Text))], room);
        rows.extend(hang(wrapped, &head, &Span::new(&" ".repeat(left), Style::new())));
    }
    rows
}
