//! Tables. Columns have their natural width if they fit; otherwise their cells are wrapped. If even that
//! leaves too little room, each row becomes a list of its values.

use pulldown_cmark::Alignment;

use super::MarkdownStyle;
use crate::cells::{Span, TextRow, width, wrap};
use crate::theme::StyleRole;

const COLUMN_MIN: usize = 4;
const BORDER: &str = " │ ";

pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span>>>,
    row: Vec<Vec<Span>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn cell(&mut self, spans: Vec<Span>) {
        self.row.push(spans);
    }

    /// Ends the current row. The first row is the header.
    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn rows(&self, markdown_style: &MarkdownStyle) -> Vec<TextRow> {
        match self.widths(markdown_style.columns) {
            Some(widths) => self.grid(&widths, markdown_style),
            None => self.records(markdown_style),
        }
    }

    /// Returns the width of each column, or `None` if the columns do not fit side by side.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let borders = count.saturating_sub(1) * BORDER.chars().count();
        let room = columns.checked_sub(borders).filter(|room| *room >= count * COLUMN_MIN)?;
        let natural: Vec<usize> = (0..count)
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| spans_width(cell)).max().unwrap_or(0).max(1)
            })
            .collect();
        // Narrow columns get their natural width; the wide ones share the rest.
        let mut widths = natural.clone();
        let mut wide: Vec<usize> = (0..count).collect();
        let mut left = room;
        while !wide.is_empty() {
            let share = left / wide.len();
            let (small, large): (Vec<_>, Vec<_>) = wide.iter().partition(|&&at| natural[at] <= share);
            if small.is_empty() {
                for (number, at) in large.iter().enumerate() {
                    widths[*at] = share + usize::from(number < left % large.len());
                }
                break;
            }
            left -= small.iter().map(|at| natural[*at]).sum::<usize>();
            wide = large;
        }
        Some(widths)
    }

    fn grid(&self, widths: &[usize], markdown_style: &MarkdownStyle) -> Vec<TextRow> {
        let dim = markdown_style.style(StyleRole::Dim);
        let laid: Vec<Vec<Vec<TextRow>>> = self
            .rows
            .iter()
            .map(|row| {
                let empty = Vec::new();
                let cells =
                    widths.iter().enumerate().map(|(at, &width)| wrap(row.get(at).unwrap_or(&empty), width));
                cells.collect()
            })
            .collect();
        let wrapped = laid.iter().flatten().any(|cell| cell.len() > 1);
        let line: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        let line = TextRow::of(&line.join("─┼─"), dim);
        let mut out = Vec::new();
        for (number, row) in laid.iter().enumerate() {
            if number == 1 || (wrapped && number > 1) {
                out.push(line.clone());
            }
            let height = row.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut drawn = TextRow::default();
                for (column, cell) in row.iter().enumerate() {
                    if column > 0 {
                        drawn.push(Span::new(BORDER, dim));
                    }
                    let part = cell.get(at).cloned().unwrap_or_default();
                    self.aligned(part, column, widths[column], markdown_style, &mut drawn);
                }
                out.push(drawn);
            }
        }
        out
    }

    fn aligned(
        &self,
        part: TextRow,
        column: usize,
        columns: usize,
        markdown_style: &MarkdownStyle,
        out: &mut TextRow,
    ) {
        let missing = columns.saturating_sub(part.width());
        let before = match self.alignments.get(column) {
            Some(Alignment::Right) => missing,
            Some(Alignment::Center) => missing / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        };
        let last = column + 1 == self.alignments.len();
        out.push(Span::new(&" ".repeat(before), markdown_style.base));
        out.spans.extend(part.spans);
        if !last {
            out.push(Span::new(&" ".repeat(missing - before), markdown_style.base));
        }
    }

    fn records(&self, markdown_style: &MarkdownStyle) -> Vec<TextRow> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut out = Vec::new();
        for row in rows {
            if !out.is_empty() {
                out.push(TextRow::default());
            }
            for (at, cell) in row.iter().enumerate() {
                let mut spans = head.get(at).cloned().unwrap_or_default();
                spans.push(Span::new(": ", markdown_style.style(StyleRole::Dim)));
                spans.extend(cell.iter().cloned());
                out.extend(wrap(&spans, markdown_style.columns));
            }
        }
        if rows.is_empty() {
            for cell in head {
                out.extend(wrap(cell, markdown_style.columns));
            }
        }
        out
    }
}

fn spans_width(spans: &[Span]) -> usize {
    spans.iter().map(|span| width(span.text())).sum()
}
