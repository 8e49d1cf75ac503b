//! Markdown for a terminal to which rows are only appended. A row is emitted as soon as later text cannot change it.

use ratatui::style::Style;

use super::{MarkdownDocument, MarkdownStyle, OpenBlock, line};
use crate::cells::TextRow;
use crate::theme::Theme;

/// Text that could close open emphasis. An open row is settled if appending any of these does not change it.
const CLOSERS: [&str; 13] = ["*", "x*", "**", "x**", "***", "x***", "_", "x_", "__", "x__", "~", "~~", "x~~"];

/// Takes text in chunks and emits rows. The rows do not depend on how the text was split, with one exception:
/// if a table's header does not begin with a bar and is longer than a row, some of its rows may be emitted
/// before its first bar arrives. These rows are then emitted again as part of the table.
#[derive(Debug)]
pub struct MarkdownStream {
    document: MarkdownDocument,
    text: String,
    /// Number of rows emitted so far.
    given: usize,
    /// Rows that were emitted while their chunk was still open, with their indices.
    early: Vec<(usize, TextRow)>,
}

impl MarkdownStream {
    /// Creates a stream of rows of at most `columns` cells. Link targets are written out.
    pub fn new(columns: usize, theme: Theme) -> Self {
        let style = MarkdownStyle { columns: columns.max(1), theme, base: Style::new(), write_targets: true };
        Self {
            document: MarkdownDocument::with_style(style),
            text: String::new(),
            given: 0,
            early: Vec::new(),
        }
    }

    /// Lays out complete text.
    pub fn rows(text: &str, columns: usize, theme: Theme) -> Vec<TextRow> {
        let mut stream = Self::new(columns, theme);
        let mut rows = stream.push(text);
        rows.extend(stream.finish());
        rows
    }

    /// Adds a chunk. Returns the rows that are now settled.
    pub fn push(&mut self, piece: &str) -> Vec<TextRow> {
        self.text.push_str(piece);
        self.document.update(&self.text);
        self.take_back();
        self.give(self.document.rows.len() + self.settled_open_rows())
    }

    /// Returns the last row as it looks so far, or `None` if every row has been emitted.
    pub fn tail(&self) -> Option<&TextRow> {
        let last = self.document.len().checked_sub(1)?;
        if last < self.given { None } else { self.document.row(last) }
    }

    /// Ends the text. Returns the remaining rows.
    pub fn finish(&mut self) -> Vec<TextRow> {
        self.give(self.document.len())
    }

    fn give(&mut self, until: usize) -> Vec<TextRow> {
        let rows: Vec<TextRow> =
            (self.given..until).filter_map(|at| self.document.row(at).cloned()).collect();
        let places = (self.given..until).zip(&rows);
        let open = places.filter(|(at, _)| *at >= self.document.rows.len());
        self.early.extend(open.map(|(at, row)| (at, row.clone())));
        self.given = self.given.max(until);
        rows
    }

    /// Detects early emitted rows that changed since, so that these and all later rows are emitted again.
    fn take_back(&mut self) {
        let changed =
            |(at, row): &(usize, TextRow)| self.document.row(*at).is_none_or(|now| now.text() != row.text());
        if let Some(first) = self.early.iter().position(changed) {
            self.given = self.early[first].0;
            self.early.truncate(first);
        }
        let settled = self.document.rows.len();
        self.early.retain(|(at, _)| *at >= settled);
    }

    /// Returns the number of settled rows in the open paragraph or item. The last row may grow.
    fn settled_open_rows(&self) -> usize {
        let tail = &self.document.tail;
        let start = match &self.document.parser.open {
            OpenBlock::Nothing => self.document.read.len(),
            OpenBlock::Chunk(chunk) => chunk.start,
            OpenBlock::Code(..) => return 0,
        };
        if tail.len() < 2 || may_begin_block(&self.text[start..]) {
            return 0;
        }
        let same = |text: &str| {
            let other = self.document.open_layout(text);
            let same = tail.iter().zip(&other).take_while(|(a, b)| a.text() == b.text()).count();
            (same, other.len())
        };
        // The last row may always grow.
        let mut settled = tail.len() - 1;
        if let Some(at) = unfinished(&self.text[start..]) {
            let until = start + at;
            if until < self.document.read.len() {
                return 0;
            }
            let (same, all) = same(&self.text[..until]);
            settled = settled.min(same).min(all.saturating_sub(1));
        }
        for closer in CLOSERS {
            settled = settled.min(same(&format!("{}{closer}", self.text)).0);
        }
        settled
    }
}

/// Returns true if the last line may still start another block, or if the mark at its end may become longer.
/// A line of dashes turns the text before it into a heading, unless more text follows that makes it part of a
/// paragraph. A fence of backticks stays a fence only until another backtick arrives.
fn may_begin_block(text: &str) -> bool {
    let last = text.rsplit('\n').next().unwrap_or_default();
    let underlines = |line: &str| {
        let line = line.trim();
        !line.is_empty() && line.bytes().all(|b| matches!(b, b'-' | b'='))
    };
    let fence = line::fence(last).is_some();
    fence
        || !last.contains(char::is_alphabetic)
        || text.ends_with(['*', '_', '~'])
        || text.lines().any(underlines)
}

/// Returns the first offset in an open paragraph at which a construct begins that later text may shorten: a
/// code span, a link, a tag, an entity or an escape. Returns 0 if the paragraph contains a bar, because it
/// may become a table.
fn unfinished(text: &str) -> Option<usize> {
    if text.contains('|') {
        return Some(0);
    }
    let mut at = 0;
    while let Some(found) = text[at..].find(['`', '[', '<', '&', '\\']) {
        at += found;
        let rest = &text[at..];
        let length = match rest.as_bytes()[0] {
            b'`' => code_span(rest),
            b'[' => link(rest),
            b'&' => rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '#').map(|end| 1 + end),
            b'\\' => rest[1..].chars().next().map(|c| 1 + c.len_utf8()),
            _ => None,
        };
        match length {
            Some(length) => at += length,
            None => return Some(at),
        }
    }
    None
}

/// Returns the length of the code span at the start of the text, if the span is closed.
fn code_span(text: &str) -> Option<usize> {
    let run = |text: &str| text.bytes().take_while(|b| *b == b'`').count();
    let length = run(text);
    let mut at = length;
    while let Some(found) = text[at..].find('`') {
        at += found;
        let closes = run(&text[at..]);
        at += closes;
        if closes == length && at < text.len() {
            return Some(at);
        }
    }
    None
}

/// Returns the length of the plain link at the start of the text, if the link is complete.
fn link(text: &str) -> Option<usize> {
    let end = 1 + text[1..].find(['[', ']', '`', '<', '\\'])?;
    let target = text[end..].strip_prefix("](")?;
    let close = target.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '<' | '`' | '\\'))?;
    target[close..].starts_with(')').then_some(end + 2 + close + 1)
}
