//! Drawing of lists.

use std::borrow::Cow;
use std::collections::HashSet;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget as _};
use sysop_core::text::neutralize_line;
use sysop_term::cells::{Span as Cell, wrap};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::fuzzy::FuzzyPattern;
use super::{Picker, PickerItem};

/// Minimum width of a row, in columns, for its detail to be shown.
const DETAIL_COLUMNS_MIN: usize = 36;
/// Number by which the row width is divided to get the maximum width of a detail.
const DETAIL_SHARE: usize = 2;
/// Maximum width of details, in columns, that stand at the right. Longer ones are descriptions, which stand below each
/// other.
const RIGHT_DETAIL_MAX: usize = 32;

/// Number of entries whose previews are measured.
const MEASURED_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct PickerStyle {
    pub text: Style,
    pub dim: Style,
    pub matched: Style,
    /// Style of the selected row, applied over the other styles.
    pub selected: Style,
    pub border: Style,
    pub title: Style,
}

impl Default for PickerStyle {
    /// Styles without colors.
    fn default() -> Self {
        Self {
            text: Style::new(),
            dim: Style::new().add_modifier(Modifier::DIM),
            matched: Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            border: Style::new(),
            title: Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

fn safe(text: &str) -> Cow<'_, str> {
    neutralize_line(text)
}

impl Picker {
    /// Returns an area of the screen in which to show the list as a popup.
    pub fn popup_area(&self, screen: Rect) -> Rect {
        let width = screen.width.min((screen.width / 8 * 7).max(72)).min(110);
        let wanted = u16::try_from(self.entries.len()).unwrap_or(u16::MAX).saturating_add(5).max(8);
        let height = wanted.min((screen.height / 4 * 3).max(12)).min(screen.height);
        Rect {
            x: screen.x + (screen.width - width) / 2,
            y: screen.y + (screen.height - height) / 2,
            width,
            height,
        }
    }

    /// Draws the list over the existing content and returns the cursor position if the cursor is visible.
    /// Stores the number of visible rows as the page size.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer, picker_style: &PickerStyle) -> Option<Position> {
        let area = area.intersection(buffer.area);
        Clear.render(area, buffer);
        buffer.set_style(area, picker_style.text);
        let (found, all) = self.count();
        let count = if found == all { format!(" {all} ") } else { format!(" {found} of {all} ") };
        let block = Block::bordered()
            .border_style(picker_style.border)
            .title(Line::styled(format!(" {} ", safe(&self.title)), picker_style.title))
            .title_bottom(Line::styled(count, picker_style.dim).right_aligned());
        let inner = block.inner(area);
        block.render(area, buffer);
        if inner.is_empty() {
            return None;
        }
        let cursor = self.typing(Rect { height: 1, ..inner }, buffer, picker_style);
        let preview = self.selected().map(|number| safe(&self.entries[number].preview).into_owned());
        let has_preview =
            inner.height > 4 && self.entries.first().is_some_and(|entry| !entry.preview.is_empty());
        let below = if has_preview { self.preview_height(inner) } else { 0 };
        let list = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1 + below), ..inner };
        self.rows(list, buffer, picker_style);
        if let Some(preview) = preview.filter(|_| has_preview) {
            let rows = wrap(&[Cell::new(&preview, picker_style.dim)], inner.width.into());
            for (row, y) in rows.iter().zip(inner.bottom() - below..inner.bottom()) {
                buffer.set_stringn(inner.x, y, row.text(), inner.width.into(), picker_style.dim);
            }
        }
        Some(cursor)
    }

    /// Returns the number of rows for the preview: two if some previews are too long for one, and there is room.
    fn preview_height(&self, inner: Rect) -> u16 {
        let is_long = |entry: &PickerItem| safe(&entry.preview).width() > usize::from(inner.width);
        let measured = self.entries.iter().take(MEASURED_MAX);
        1 + u16::from(inner.height > 6 && measured.into_iter().any(is_long))
    }

    fn typing(&self, area: Rect, buffer: &mut Buffer, picker_style: &PickerStyle) -> Position {
        buffer.set_stringn(area.x, area.y, "› ", area.width.into(), picker_style.title);
        let room = area.width.saturating_sub(2);
        let (seen, column) = self.field.view(room.into());
        buffer.set_stringn(area.x + 2.min(area.width), area.y, &seen, room.into(), picker_style.text);
        let column = u16::try_from(column).unwrap_or(0).min(room.saturating_sub(1));
        Position { x: (area.x + 2 + column).min(area.right().saturating_sub(1)), y: area.y }
    }

    fn rows(&mut self, area: Rect, buffer: &mut Buffer, picker_style: &PickerStyle) {
        let height = usize::from(area.height);
        self.page = height.max(1);
        if height == 0 || area.width == 0 {
            return;
        }
        // Keep the selected row visible.
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        if self.found.is_empty() {
            let text = if self.entries.is_empty() { "no items" } else { "no matches" };
            buffer.set_stringn(area.x, area.y, text, area.width.into(), picker_style.dim);
            return;
        }
        let pattern = FuzzyPattern::new(&self.typed);
        let column = description_column(&self.entries, area.width.into());
        let seen = self.found.iter().enumerate().skip(self.top).take(height);
        for (row, (at, &number)) in (area.y..).zip(seen) {
            let line = Rect { y: row, height: 1, ..area };
            draw_row(&self.entries[number], column, &pattern, line, buffer, picker_style);
            if at == self.selected {
                buffer.set_style(line, picker_style.selected);
            }
        }
    }
}

/// Returns the column of the details if they are descriptions, or `None` if they stand at the right.
fn description_column(entries: &[PickerItem], width: usize) -> Option<usize> {
    let widest = |text: fn(&PickerItem) -> &str| {
        entries.iter().map(|entry| safe(text(entry)).width()).max().unwrap_or(0)
    };
    if widest(|entry| &entry.detail) <= RIGHT_DETAIL_MAX || width < DETAIL_COLUMNS_MIN {
        return None;
    }
    Some((widest(|entry| &entry.label) + 2).min(width / DETAIL_SHARE))
}

fn draw_row(
    entry: &PickerItem,
    column: Option<usize>,
    pattern: &FuzzyPattern,
    area: Rect,
    buffer: &mut Buffer,
    picker_style: &PickerStyle,
) {
    let width = usize::from(area.width);
    let most = column.map_or(width / DETAIL_SHARE, |column| width - column);
    let detail = cut(&safe(&entry.detail), most);
    let detail_width = if width >= DETAIL_COLUMNS_MIN { detail.width() } else { 0 };
    let room = match column {
        Some(column) => column.saturating_sub(2),
        None => width.saturating_sub(detail_width + usize::from(detail_width > 0) * 2),
    };
    let label = safe(&entry.label);
    let shown = cut(&label, room);
    // Matches can be highlighted only if neutralizing did not change the label.
    let places: HashSet<usize> = match label {
        Cow::Borrowed(label) => pattern.places(label).into_iter().collect(),
        Cow::Owned(_) => HashSet::new(),
    };
    let mut line = Line::default();
    let mut number = 0;
    for letter in shown.graphemes(true) {
        let letters = letter.chars().count();
        let matched = (number..number + letters).any(|at| places.contains(&at));
        line.push_span(Span::styled(
            letter.to_owned(),
            if matched { picker_style.matched } else { picker_style.text },
        ));
        number += letters;
    }
    buffer.set_line(area.x, area.y, &line, area.width);
    if detail_width > 0 {
        let x = match column {
            Some(column) => area.x + u16::try_from(column).unwrap_or(0),
            None => area.right() - u16::try_from(detail_width).unwrap_or(0),
        };
        buffer.set_stringn(x, area.y, &detail, detail_width, picker_style.dim);
    }
}

/// Truncates text to the width and marks the truncation.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut out, mut width) = (String::new(), 0);
    for letter in text.graphemes(true) {
        width += letter.width();
        if width >= columns {
            break;
        }
        out.push_str(letter);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}
