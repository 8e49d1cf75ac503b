//! Copying text selected with the mouse, and copying the text of a card.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use sysop_core::text::neutralize;
use sysop_core::transcript::ItemBody;
use sysop_term::cells::width;
use sysop_term::session_text::item_text;
use sysop_term::theme::Theme;

use super::{Action, App};
use crate::view::text_to_copy;

/// A text selection on the screen. As in terminals, it runs row by row from one cell to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection {
    from: Position,
    to: Position,
    /// True once the button is released, so that the next frame stores the selected text.
    is_complete: bool,
}

impl Selection {
    pub(super) fn at(from: Position) -> Self {
        Self { from, to: from, is_complete: false }
    }

    /// Returns true if the selection begins and ends in the same cell, so that it counts as a click.
    pub(super) fn is_click(&self) -> bool {
        self.from == self.to
    }

    pub(super) fn extend(&mut self, to: Position) {
        self.to = to;
    }

    pub(super) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns the first and the last cell, in reading order.
    fn range(&self) -> (Position, Position) {
        let (a, b) = (self.from, self.to);
        if (a.y, a.x) <= (b.y, b.x) { (a, b) } else { (b, a) }
    }
}

impl App {
    /// Highlights the selected cells. Once the selection is complete, stores its text for `take_selected_text` and
    /// clears the selection.
    pub fn draw_selection(&mut self, style: Style, buffer: &mut Buffer) {
        let Some(selection) = self.selection.filter(|selection| !selection.is_click()) else { return };
        let area = buffer.area;
        let (first, last) = selection.range();
        let mut lines = Vec::new();
        for y in first.y..=last.y.min(area.bottom().saturating_sub(1)) {
            let left = if y == first.y { first.x } else { area.left() };
            let right = if y == last.y { last.x.saturating_add(1) } else { area.right() };
            let row = Rect { x: left, y, width: right.min(area.right()).saturating_sub(left), height: 1 };
            lines.push(row_text(buffer, row).trim_end().to_owned());
            buffer.set_style(row, style);
        }
        if selection.is_complete {
            self.selection = None;
            self.selected_text = Some(lines.join("\n")).filter(|text| !text.trim().is_empty());
        }
    }

    /// Returns the text selected since the last call.
    pub fn take_selected_text(&mut self) -> Option<String> {
        self.selected_text.take()
    }

    /// Copies the text of the focused card.
    pub(super) fn copy_card(&mut self, now: Duration) -> Vec<Action> {
        let item = self.history.focused().and_then(|id| self.transcript.item(id));
        let (text, part) = match item.map(|item| &item.body) {
            Some(ItemBody::ToolOutput(output)) => text_to_copy(output, Theme::new(self.theme)),
            Some(body) => (item_text(body).into_owned(), None),
            None => (String::new(), None),
        };
        match neutralize(&text).trim_end() {
            text if !text.is_empty() => vec![Action::Copy { text: text.to_owned(), part }],
            _ => {
                self.show_flash("nothing to copy", now);
                Vec::new()
            }
        }
    }
}

/// Returns the text of a row of cells. A wide character also covers the cell after it.
fn row_text(buffer: &Buffer, row: Rect) -> String {
    let (mut text, mut skip) = (String::new(), 0);
    for x in row.left()..row.right() {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let symbol = buffer[(x, row.y)].symbol();
        text.push_str(symbol);
        skip = width(symbol).saturating_sub(1);
    }
    text
}
