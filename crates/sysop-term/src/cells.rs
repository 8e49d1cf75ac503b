//! Rows of cells. Makes text safe, measures it as a terminal does, and wraps, truncates and draws it.
//!
//! Terminals disagree on the width of some clusters: a joined emoji, one with a selector or skin tone, a half-width
//! sound mark. Such clusters are rewritten in a form that all terminals agree on, so that the width computed
//! here is the width on screen.

use std::borrow::Cow;
use std::num::NonZeroU16;
use std::sync::Arc;

use ratatui::buffer::{Buffer, CellDiffOption};
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::text::{neutralize, neutralize_line};
use unicode_width::UnicodeWidthChar;

use crate::link;
use crate::theme::{StyleRole, Theme};

/// Maximum number of combining marks per character; further marks are not drawn.
const MARKS_MAX: usize = 6;
/// Number of columns between tab stops, in code and in text.
const TAB_COLUMNS: usize = 4;

/// Part of a row with a single style, safe to display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    text: String,
    pub style: Style,
    /// Link target. Must be a value returned by [`link::target`].
    pub link: Option<Arc<str>>,
}

impl Span {
    /// Creates a span and makes its text safe: line breaks become visible, and tabs become spaces.
    ///
    /// ```
    /// use ratatui::style::Style;
    /// use sysop_term::Span;
    ///
    /// assert_eq!(Span::new("a\tb", Style::new()).text(), "a    b");
    /// ```
    pub fn new(text: &str, style: Style) -> Self {
        Self { text: sanitize_row(text), style, link: None }
    }

    /// Like `new`, with a link.
    pub fn linked(text: &str, style: Style, link: Option<Arc<str>>) -> Self {
        Self { text: sanitize_row(text), style, link }
    }

    /// Returns the text, which is safe to display.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn part(&self, text: &str) -> Self {
        Self { text: text.to_owned(), style: self.style, link: self.link.clone() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextRow {
    /// Spans from left to right.
    pub spans: Vec<Span>,
    /// Style of the cells to the right of the spans.
    pub ground: Style,
}

impl TextRow {
    pub fn of(text: &str, style: Style) -> Self {
        Self::from(vec![Span::new(text, style)])
    }

    pub fn text(&self) -> String {
        self.spans.iter().map(Span::text).collect()
    }

    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Inserts a span at the start.
    #[must_use]
    pub fn with_prefix(mut self, prefix: Span) -> Self {
        if !prefix.text.is_empty() {
            self.spans.insert(0, prefix);
        }
        self
    }

    pub fn push(&mut self, span: Span) {
        if !span.text.is_empty() {
            self.spans.push(span);
        }
    }

    pub fn append(&mut self, row: Self) {
        self.spans.extend(row.spans);
    }

    /// Draws the row at (`x`, `y`) in the buffer and fills all `columns`.
    pub fn draw(&self, buffer: &mut Buffer, x: u16, y: u16, columns: u16) {
        let area = Rect::new(x, y, columns, 1).intersection(buffer.area);
        let (mut at, end) = (area.left(), area.right());
        if area.is_empty() {
            return;
        }
        for span in &self.spans {
            for cluster in clusters(&span.text) {
                let wide = u16::try_from(width(cluster)).unwrap_or(u16::MAX);
                if wide == 0 || at.saturating_add(wide) > end {
                    break;
                }
                for behind in at + 1..at + wide {
                    let cell = &mut buffer[(behind, y)];
                    cell.reset();
                    cell.set_style(span.style);
                }
                let cell = &mut buffer[(at, y)];
                cell.reset();
                cell.set_style(span.style);
                match (&span.link, NonZeroU16::new(wide)) {
                    (Some(target), Some(wide)) => {
                        cell.set_symbol(&link::osc8_cell(cluster, target));
                        cell.set_diff_option(CellDiffOption::ForcedWidth(wide));
                    }
                    (Some(_) | None, _) => {
                        cell.set_symbol(cluster);
                    }
                }
                at += wide;
            }
        }
        for rest in at..end {
            let cell = &mut buffer[(rest, y)];
            cell.reset();
            cell.set_style(self.ground);
        }
    }
}

impl From<Vec<Span>> for TextRow {
    fn from(spans: Vec<Span>) -> Self {
        Self { spans, ground: Style::new() }
    }
}

/// Returns the width of safe text in cells.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char_width).sum() }
}

/// Number of columns between the tab stops of a terminal.
const TAB_STOP: usize = 8;

/// Replaces the tabs of a part of a line by spaces up to the tab stops of a terminal. `column` is the width of the line
/// before this part, and is advanced to the width after it.
pub fn expand_tabs<'a>(text: &'a str, column: &mut usize) -> Cow<'a, str> {
    let mut parts = text.split('\t');
    let first = parts.next().unwrap_or_default();
    *column += width(first);
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut expanded = first.to_owned();
    for part in parts {
        let gap = TAB_STOP - *column % TAB_STOP;
        expanded.extend(std::iter::repeat_n(' ', gap));
        expanded.push_str(part);
        *column += gap + width(part);
    }
    Cow::Owned(expanded)
}

fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Splits safe text into clusters. A cluster is a character that occupies cells, together with its combining
/// marks. As in a terminal, each character that occupies cells is a separate cluster, even within a grapheme
/// of several characters (a flag consists of two letters).
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match rest.as_bytes().get(1) {
            Some(next) if first.is_ascii() && next.is_ascii() => 1,
            _ => {
                let marks = &rest[first.len_utf8()..];
                first.len_utf8() + marks.find(|c| char_width(c) > 0).unwrap_or(marks.len())
            }
        };
        let (cluster, after) = rest.split_at(end);
        rest = after;
        Some(cluster)
    })
}

fn sanitize_row(text: &str) -> String {
    let safe = neutralize(text);
    let safe = if safe.contains(['\n', '\t']) {
        Cow::Owned(safe.replace('\n', "␊").replace('\t', &" ".repeat(TAB_COLUMNS)))
    } else {
        safe
    };
    if safe.is_ascii() { safe.into_owned() } else { normalize_widths(&safe) }
}

/// Rewrites text so that it contains only characters whose width is the same in all terminals.
fn normalize_widths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = None;
    for c in text.chars().filter(|c| !is_dropped(*c)) {
        match (c, char_width(c), marks) {
            ('\u{ff9e}', ..) => out.push('\u{309b}'),
            ('\u{ff9f}', ..) => out.push('\u{309c}'),
            (_, 0, None) => out.extend(['◌', c]),
            (_, 0, Some(MARKS_MAX..)) => {}
            _ => out.push(c),
        }
        marks = if char_width(c) > 0 || is_sound_mark(c) { Some(0) } else { Some(marks.unwrap_or(0) + 1) };
    }
    out
}

/// Returns true for half-width sound marks, which occupy a cell in some terminals and none in others.
fn is_sound_mark(c: char) -> bool {
    matches!(c, '\u{ff9e}' | '\u{ff9f}')
}

/// Returns true for characters that only modify an emoji. They are dropped, because not every terminal supports them.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{200d}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Converts text to spans that show each of its characters exactly. Characters that would be hidden, have an
/// effect or be drawn differently are shown by name in the style `odd`, so that they cannot be confused with
/// the same name in the text.
pub fn exact(text: &str, style: Style, odd: Style) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut marks = None;
    for c in text.chars() {
        let mut bytes = [0; 4];
        let letter = &*c.encode_utf8(&mut bytes);
        marks = if char_width(c) > 0 { Some(0) } else { marks.map(|marks| marks + 1) };
        let hides = marks.is_none_or(|marks| marks > MARKS_MAX);
        let mut shown = neutralize_line(letter);
        if matches!(shown, Cow::Borrowed(_)) && (is_dropped(c) || hides || is_sound_mark(c)) {
            shown = Cow::Owned(format!("\\u{{{:x}}}", u32::from(c)));
        }
        match shown {
            Cow::Borrowed(same) => plain.push_str(same),
            Cow::Owned(name) => {
                if !plain.is_empty() {
                    spans.push(Span::new(&plain, style));
                    plain.clear();
                }
                spans.push(Span::new(&name, odd));
            }
        }
    }
    if !plain.is_empty() {
        spans.push(Span::new(&plain, style));
    }
    spans
}

/// A cluster, with the index of the span that contains it and its width in columns.
#[derive(Clone, Copy)]
struct GraphemeCell<'a> {
    text: &'a str,
    span: usize,
    width: usize,
}

fn cells<'s>(spans: &'s [Span]) -> Vec<GraphemeCell<'s>> {
    let each = |(span, of): (usize, &'s Span)| {
        clusters(&of.text).map(move |text| GraphemeCell { text, span, width: width(text) })
    };
    spans.iter().enumerate().flat_map(each).collect()
}

fn join(cells: &[GraphemeCell<'_>], spans: &[Span]) -> Vec<Span> {
    let mut row: Vec<Span> = Vec::new();
    let mut last = usize::MAX;
    for cell in cells {
        match row.last_mut() {
            Some(span) if last == cell.span => span.text.push_str(cell.text),
            Some(_) | None => row.push(spans[cell.span].part(cell.text)),
        }
        last = cell.span;
    }
    row
}

pub fn wrap(spans: &[Span], columns: usize) -> Vec<TextRow> {
    wrap_hanging(spans, columns, 0)
}

/// Wraps spans into rows between words. Indents all rows but the first, unless no room would be left.
pub fn wrap_hanging(spans: &[Span], columns: usize, indent: usize) -> Vec<TextRow> {
    let columns = columns.max(1);
    // The widest character occupies two columns.
    let indent = if indent + 2 <= columns { indent } else { 0 };
    let space = Span::new(&" ".repeat(indent), Style::new());
    let cells = cells(spans);
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let (room, prefix) = if rows.is_empty() {
            (columns, Span::new("", Style::new()))
        } else {
            (columns - indent, space.clone())
        };
        let row =
            |range: std::ops::Range<usize>| TextRow::from(join(&cells[range], spans)).with_prefix(prefix);
        let end = fitting(&cells[start..], room) + start;
        if end == cells.len() {
            rows.push(row(start..end));
            return rows;
        }
        let cut = break_before(&cells, start, end).unwrap_or(end);
        let mut shown = cut;
        while shown > start && cells[shown - 1].text == " " {
            shown -= 1;
        }
        rows.push(row(start..shown));
        start = cut;
        while start < cells.len() && cells[start].text == " " {
            start += 1;
        }
        if start == cells.len() {
            return rows;
        }
    }
}

/// Wraps spans wherever a row is full. Nothing is omitted, not even spaces.
pub fn wrap_exact(spans: &[Span], columns: usize) -> Vec<TextRow> {
    let cells = cells(spans);
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let end = fitting(&cells[start..], columns.max(1)) + start;
        rows.push(TextRow::from(join(&cells[start..end], spans)));
        if end == cells.len() {
            return rows;
        }
        start = end;
    }
}

/// Operators that join commands.
const JOINTS: [&str; 6] = ["&&", "||", "|", "|&", ";", "&"];

/// Wraps a command into rows that end before an argument or, if that is near, before an operator. Only a word that is
/// wider than a row is broken. Nothing is omitted: spaces stay where they are.
pub fn wrap_command(spans: &[Span], columns: usize) -> Vec<TextRow> {
    let cells = cells(spans);
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let full = fitting(&cells[start..], columns.max(1)) + start;
        let end = if full == cells.len() { full } else { command_break(&cells, start, full).unwrap_or(full) };
        rows.push(TextRow::from(join(&cells[start..end], spans)));
        if end == cells.len() {
            return rows;
        }
        start = end;
    }
}

/// Returns the position at which a row of a command ends that starts at `start` and is full at `full`. `None` if one
/// word fills the row.
fn command_break(cells: &[GraphemeCell<'_>], start: usize, full: usize) -> Option<usize> {
    let is_space = |at: usize| cells[at].text == " ";
    let first_word = (start..full).find(|&at| !is_space(at))?;
    let last_word =
        |before: usize| (first_word + 1..=before).rev().find(|&at| is_space(at - 1) && !is_space(at));
    let end = if is_space(full) { full } else { last_word(full)? };
    let before = last_word(end - 1);
    let joint = before.filter(|&at| {
        let word: String = cells[at..end].iter().map(|cell| cell.text).collect();
        JOINTS.contains(&word.trim_end())
    });
    Some(joint.unwrap_or(end))
}

/// Returns the number of clusters that fit into `columns`. Returns at least 1 if there are any clusters, so that
/// wrapping makes progress even if a wide character does not fit into a single column.
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

/// Returns the last position, at or before `end`, at which a row may be broken.
fn break_before(cells: &[GraphemeCell<'_>], start: usize, end: usize) -> Option<usize> {
    let first_word = (start..end).find(|&at| cells[at].text != " ")?;
    (first_word + 1..=end).rev().find(|&at| {
        let (before, after) = (&cells[at - 1], &cells[at]);
        after.text == " " || before.text == " " || before.width == 2 || after.width == 2
    })
}

/// Truncates a row to `columns`. A truncated row ends in an ellipsis.
pub fn truncate(spans: &[Span], columns: usize, ellipsis: Style) -> TextRow {
    let cells = cells(spans);
    if cells.iter().map(|cell| cell.width).sum::<usize>() <= columns {
        return TextRow::from(spans.to_vec());
    }
    let mut used = 0;
    let fits = cells
        .iter()
        .take_while(|cell| {
            used += cell.width;
            used < columns
        })
        .count();
    let mut row = TextRow::from(join(&cells[..fits], spans));
    if columns > 0 {
        row.push(Span::new("…", ellipsis));
    }
    row
}

/// Prefixes rows with a gutter: `first` before the first row, `rest` before the others.
pub fn hang(rows: Vec<TextRow>, first: &Span, rest: &Span) -> Vec<TextRow> {
    rows.into_iter()
        .enumerate()
        .map(|(at, row)| row.with_prefix(if at == 0 { first.clone() } else { rest.clone() }))
        .collect()
}

/// Turns the URLs in a line into hyperlinks. Existing links are kept.
pub fn linked(line: Vec<Span>, theme: Theme) -> Vec<Span> {
    if !line.iter().any(|span| span.link.is_none() && span.text().contains("http")) {
        return line;
    }
    let mut out = Vec::with_capacity(line.len() + 2);
    for span in line {
        if span.link.is_some() {
            out.push(span);
            continue;
        }
        let mut rest = span.text();
        while let Some((start, end)) = link::find(rest) {
            if start > 0 {
                out.push(Span::new(&rest[..start], span.style));
            }
            let style = span.style.patch(theme.style(StyleRole::Link));
            out.push(Span::linked(&rest[start..end], style, link::target(&rest[start..end])));
            rest = &rest[end..];
        }
        if !rest.is_empty() {
            out.push(Span::new(rest, span.style));
        }
    }
    out
}
