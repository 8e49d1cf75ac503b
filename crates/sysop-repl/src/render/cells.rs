//! Measures, wraps and cuts rows by terminal cells. Never splits a grapheme, never loses one but a space at a break.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::{Ink, TextRow, TextSpan};

/// A grapheme with its place.
struct GraphemeCell<'a> {
    text: &'a str,
    ink: Ink,
    width: usize,
}

/// Cells that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(grapheme_width).sum()
}

/// Cells that a row takes.
pub(crate) fn row_width(row: &[TextSpan]) -> usize {
    row.iter().map(|span| width(span.text())).sum()
}

// Terminals draw one grapheme in at most two cells, also where its parts alone would take more.
fn grapheme_width(grapheme: &str) -> usize {
    grapheme.width().min(2)
}

fn cells(row: &[TextSpan]) -> Vec<GraphemeCell<'_>> {
    row.iter()
        .flat_map(|span| {
            span.text().graphemes(true).map(|text| GraphemeCell {
                text,
                ink: span.ink(),
                width: grapheme_width(text),
            })
        })
        .collect()
}

fn join(cells: &[GraphemeCell<'_>]) -> TextRow {
    let mut row: TextRow = Vec::new();
    for cell in cells {
        match row.last_mut() {
            Some(span) if span.ink == cell.ink => span.text.push_str(cell.text),
            Some(_) | None => row.push(TextSpan { text: cell.text.to_owned(), ink: cell.ink }),
        }
    }
    row
}

/// Wraps between words; the rows after the first are indented by `hang` cells.
pub(crate) fn wrap(row: &[TextSpan], columns: usize, hang: usize) -> Vec<TextRow> {
    let cells = cells(row);
    let hang = if hang < columns { hang } else { 0 };
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let room = if rows.is_empty() { columns } else { columns - hang }.max(1);
        let end = fitting(&cells[start..], room) + start;
        if end == cells.len() {
            rows.push(hanging_indent(join(&cells[start..]), rows.len(), hang));
            return rows;
        }
        let cut = break_before(&cells, start, end).unwrap_or(end);
        let mut shown = cut;
        while shown > start && cells[shown - 1].text == " " {
            shown -= 1;
        }
        rows.push(hanging_indent(join(&cells[start..shown]), rows.len(), hang));
        start = cut;
        while start < cells.len() && cells[start].text == " " {
            start += 1;
        }
        if start == cells.len() {
            return rows;
        }
    }
}

fn hanging_indent(mut row: TextRow, at: usize, hang: usize) -> TextRow {
    if at > 0 && hang > 0 {
        row.insert(0, TextSpan { text: " ".repeat(hang), ink: Ink::Plain });
    }
    row
}

/// Wraps wherever the row is full; nothing is lost.
pub(crate) fn wrap_exact(row: &[TextSpan], columns: usize) -> Vec<TextRow> {
    let cells = cells(row);
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let end = fitting(&cells[start..], columns.max(1)) + start;
        rows.push(join(&cells[start..end]));
        if end == cells.len() {
            return rows;
        }
        start = end;
    }
}

/// How many cells fit; at least one, so that a wide character in one column does not stop everything.
fn fitting(cells: &[GraphemeCell<'_>], columns: usize) -> usize {
    let mut used = 0;
    for (at, cell) in cells.iter().enumerate() {
        used += cell.width;
        if used > columns {
            return at.max(1);
        }
    }
    cells.len()
}

/// The last place at or before `end` where a row may be broken.
fn break_before(cells: &[GraphemeCell<'_>], start: usize, end: usize) -> Option<usize> {
    let first_word = (start..end).find(|&at| cells[at].text != " ")?;
    (first_word + 1..=end).rev().find(|&at| {
        let (before, after) = (&cells[at - 1], &cells[at]);
        after.text == " " || before.text == " " || before.width == 2 || after.width == 2
    })
}

/// The row in at most `columns`, with an ellipsis where it was cut.
pub(crate) fn truncate(row: &[TextSpan], columns: usize) -> TextRow {
    if row_width(row) <= columns {
        return row.to_vec();
    }
    let cells = cells(row);
    let mut used = 0;
    let fits = cells
        .iter()
        .take_while(|cell| {
            used += cell.width;
            used < columns
        })
        .count();
    let mut cut = join(&cells[..fits]);
    if columns > 0 {
        cut.push(TextSpan { text: "…".to_owned(), ink: Ink::Dim });
    }
    cut
}

/// The row with spaces up to `columns`.
pub(crate) fn pad(mut row: TextRow, columns: usize) -> TextRow {
    let missing = columns.saturating_sub(row_width(&row));
    row.push(TextSpan { text: " ".repeat(missing), ink: Ink::Plain });
    row
}
