//! Boxes with a title, drawn as a whole or, while text is streaming, row by row.

use sysop_term::cells::width;
use sysop_term::{StyleRole, TextRow};

use super::{BOX_COLUMNS_MIN, PANEL_COLUMNS_MAX, RenderOptions, pad, row, span, truncate};

/// Box with a fixed width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panel {
    columns: usize,
    sides: bool,
}

impl Panel {
    /// Creates a box that fits the terminal. On a narrow terminal, the box has no sides.
    pub(crate) fn new(look: RenderOptions) -> Self {
        // The last column stays free, because some terminals wrap after writing it.
        let columns = look.width.saturating_sub(1).clamp(1, PANEL_COLUMNS_MAX);
        Self { columns, sides: look.width >= BOX_COLUMNS_MIN }
    }

    /// Returns the number of columns available for text.
    pub(crate) fn inner(&self) -> usize {
        if self.sides { self.columns - 4 } else { self.columns }
    }

    pub(crate) fn top(&self, title: &str) -> TextRow {
        let title = truncate(&row(title, StyleRole::Title), self.columns.saturating_sub(6));
        let taken = title.width();
        let (left, right) = if self.sides { ("╭─ ", "╮") } else { ("── ", "") };
        let rest = self.columns.saturating_sub(taken + 4 + width(right));
        let mut top = row(left, StyleRole::Dim);
        top.append(title);
        top.push(span(&format!(" {}{right}", "─".repeat(rest)), StyleRole::Dim));
        top
    }

    /// Returns a row of the box that contains `text`, which must fit.
    pub(crate) fn row(&self, text: TextRow) -> TextRow {
        if !self.sides {
            return text;
        }
        let mut framed = row("│ ", StyleRole::Dim);
        framed.append(pad(text, self.inner()));
        framed.push(span(" │", StyleRole::Dim));
        framed
    }

    /// Returns a row on the frame of the box, with a message that is not content: the content cannot imitate it.
    pub(crate) fn message(&self, text: TextRow) -> TextRow {
        if !self.sides {
            return text;
        }
        let mut framed = row("├ ", StyleRole::Dim);
        framed.append(pad(text, self.inner()));
        framed.push(span(" ┤", StyleRole::Dim));
        framed
    }

    /// Returns the last row of the box, or `None` if the box has no sides.
    pub(crate) fn bottom(&self) -> Option<TextRow> {
        self.sides.then(|| row(&format!("╰{}╯", "─".repeat(self.columns - 2)), StyleRole::Dim))
    }

    /// Returns a whole box around `rows`, which must fit.
    pub(crate) fn around(&self, title: &str, rows: Vec<TextRow>) -> Vec<TextRow> {
        let mut out = vec![self.top(title)];
        out.extend(rows.into_iter().map(|text| self.row(text)));
        out.extend(self.bottom());
        out
    }
}
