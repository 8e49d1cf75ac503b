//! Markdown as it streams. A row is given out as soon as nothing that may follow can change it; rows are the same
//! however the text was cut into pieces. Covers what models write: headings, emphasis, code, lists, quotes, rules,
//! links; tables and HTML stay as they are.

use super::cells::{truncate, wrap, wrap_exact};
use super::{Ink, TextRow, TextSpan, row};

/// A line longer than this many bytes is broken here, so that a stream without line ends stays cheap.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Takes text in pieces, gives rows.
#[derive(Debug)]
pub(crate) struct MarkdownRenderer {
    columns: usize,
    line: String,
    given: usize,
    fence: Option<CodeFence>,
}

/// An open code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodeFence {
    mark: char,
    length: usize,
}

/// A line laid out, and how many of its rows can no longer change.
struct LineLayout {
    rows: Vec<TextRow>,
    settled: usize,
}

impl MarkdownRenderer {
    /// For rows of at most `columns` cells.
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns: columns.max(1), line: String::new(), given: 0, fence: None }
    }

    /// Takes a piece; returns the rows that are certain now.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<TextRow> {
        let mut out = Vec::new();
        for part in piece.split_inclusive('\n') {
            let (text, ends) = match part.strip_suffix('\n') {
                Some(text) => (text, true),
                None => (part, false),
            };
            out.extend(self.extend_line(text));
            if ends {
                out.extend(self.end_line());
            }
        }
        if !self.line.is_empty() {
            let laid = self.layout(false);
            let settled = laid.settled.min(laid.rows.len().saturating_sub(1));
            if settled > self.given {
                out.extend(laid.rows.into_iter().take(settled).skip(self.given));
                self.given = settled;
            }
        }
        out
    }

    /// The last row as it looks so far; none where a line has just ended.
    pub(crate) fn tail(&self) -> Option<TextRow> {
        if self.line.is_empty() {
            return None;
        }
        self.layout(false).rows.pop()
    }

    /// Ends the text; returns what was not certain yet.
    pub(crate) fn finish(&mut self) -> Vec<TextRow> {
        let rows = if self.line.is_empty() { Vec::new() } else { self.end_line() };
        self.fence = None;
        rows
    }

    fn extend_line(&mut self, mut text: &str) -> Vec<TextRow> {
        let mut out = Vec::new();
        while self.line.len() + text.len() > LINE_BYTES_MAX {
            let room = LINE_BYTES_MAX - self.line.len();
            let (head, rest) = text.split_at(text.floor_char_boundary(room));
            self.line.push_str(head);
            out.extend(self.end_line());
            text = rest;
        }
        self.line.push_str(text);
        out
    }

    fn end_line(&mut self) -> Vec<TextRow> {
        let rows = self.layout(true).rows.into_iter().skip(self.given).collect();
        let line = std::mem::take(&mut self.line);
        self.given = 0;
        self.fence = match self.fence {
            Some(fence) if closes(fence, &line) => None,
            Some(fence) => Some(fence),
            None => opens(&line).map(|(fence, _)| fence),
        };
        rows
    }

    fn layout(&self, ended: bool) -> LineLayout {
        let line = self.line.strip_suffix('\r').unwrap_or(&self.line);
        match self.fence {
            Some(fence) => self.layout_code(fence, line),
            None => self.layout_text(line, ended),
        }
    }

    fn layout_code(&self, fence: CodeFence, line: &str) -> LineLayout {
        if closes(fence, line) {
            return LineLayout { rows: Vec::new(), settled: 0 };
        }
        let columns = self.columns.saturating_sub(2);
        let rows: Vec<TextRow> = wrap_exact(&row(line, Ink::Code), columns)
            .into_iter()
            .map(|text| {
                let mut gutter = row("▏ ", Ink::Dim);
                gutter.extend(text);
                gutter
            })
            .collect();
        // As long as there are only marks it may still be the end of the block.
        let undecided = line.trim().chars().all(|c| c == fence.mark);
        let settled = if undecided { 0 } else { rows.len().saturating_sub(1) };
        LineLayout { rows, settled }
    }

    fn layout_text(&self, line: &str, ended: bool) -> LineLayout {
        let trimmed = line.trim_start();
        if let Some((_, language)) = opens(line) {
            let rows = if language.is_empty() {
                Vec::new()
            } else {
                vec![truncate(&row(&format!("▏ {language}"), Ink::Dim), self.columns)]
            };
            return LineLayout { rows, settled: 0 };
        }
        if is_rule(trimmed) {
            let rows = vec![row(&"─".repeat(self.columns.min(40)), Ink::Dim)];
            return LineLayout { rows, settled: 0 };
        }
        if trimmed.starts_with('|') {
            let rows = wrap_exact(&row(line, Ink::Plain), self.columns);
            let settled = rows.len().saturating_sub(1);
            return LineLayout { rows, settled };
        }
        let (prefix, hang, base, text) = block(line, self.columns / 2);
        let (spans, certain) = inline(text, base, ended);
        let mut whole = vec![prefix];
        whole.extend(spans);
        let rows = wrap(&whole, self.columns, hang);
        let settled = if ended { rows.len() } else { settled_rows(&whole, certain + 1, self.columns, hang) };
        LineLayout { rows, settled }
    }
}

/// How many whole rows the first `certain` spans alone fill.
fn settled_rows(whole: &[TextSpan], certain: usize, columns: usize, hang: usize) -> usize {
    let mut known = whole[..certain.min(whole.len())].to_vec();
    // The last word, and the last grapheme, may still grow.
    if certain >= whole.len()
        && let Some(last) = known.last_mut()
    {
        let keep = last.text.rfind(' ').map_or(0, |at| at + 1);
        last.text.truncate(keep);
    }
    wrap(&known, columns, hang).len().saturating_sub(1)
}

fn opens(line: &str) -> Option<(CodeFence, &str)> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    let language = text[length..].trim();
    (length >= 3 && !language.contains('`')).then_some((CodeFence { mark, length }, language))
}

fn closes(fence: CodeFence, line: &str) -> bool {
    let text = line.trim();
    text.len() >= fence.length && text.chars().all(|c| c == fence.mark)
}

fn is_rule(text: &str) -> bool {
    let mut marks = text.chars().filter(|c| *c != ' ');
    let Some(mark) = marks.next().filter(|c| matches!(c, '-' | '*' | '_')) else { return false };
    let mut count = 1;
    for c in marks {
        if c != mark {
            return false;
        }
        count += 1;
    }
    count >= 3
}

/// What a line begins with: its mark, how far later rows hang, the ink of its text, and the text.
fn block(line: &str, indent_max: usize) -> (TextSpan, usize, Ink, &str) {
    let text = line.trim_start();
    let indent = (line.len() - text.len()).min(indent_max.saturating_sub(4));
    let hashes = text.bytes().take_while(|b| *b == b'#').count();
    if (1..=6).contains(&hashes) && text[hashes..].starts_with(' ') {
        return (TextSpan::new("", Ink::Plain), 0, Ink::Bold, text[hashes..].trim());
    }
    if let Some(rest) = text.strip_prefix('>') {
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        return (TextSpan::new("▎ ", Ink::Dim), 2, Ink::Italic, rest);
    }
    let spaces = " ".repeat(indent);
    for bullet in ["- ", "* ", "+ "] {
        if let Some(rest) = text.strip_prefix(bullet) {
            return (TextSpan::new(&format!("{spaces}• "), Ink::Plain), indent + 2, Ink::Plain, rest);
        }
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=9).contains(&digits) && (text[digits..].starts_with(". ") || text[digits..].starts_with(") ")) {
        let (mark, rest) = text.split_at(digits + 2);
        return (
            TextSpan::new(&format!("{spaces}{mark}"), Ink::Plain),
            indent + digits + 2,
            Ink::Plain,
            rest,
        );
    }
    (TextSpan::new(&spaces, Ink::Plain), indent, Ink::Plain, text)
}

/// The inline marks of a line. The second value counts the first spans that no later text can change.
fn inline(text: &str, base: Ink, ended: bool) -> (Vec<TextSpan>, usize) {
    let mut spans = Vec::new();
    let mut certain = None;
    let mut plain = String::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        match mark(rest, text[..at].chars().next_back()) {
            InlineMark::None(length) => {
                plain.push_str(&rest[..length]);
                at += length;
            }
            InlineMark::Literal(c, length) => {
                plain.push(c);
                at += length;
            }
            InlineMark::Open(length) => {
                if !ended && certain.is_none() {
                    flush(&mut spans, &mut plain, base);
                    certain = Some(spans.len());
                }
                plain.push_str(&rest[..length]);
                at += length;
            }
            InlineMark::Whole { inner, ink, length } => {
                flush(&mut spans, &mut plain, base);
                // At the very end, what follows may still make it a longer run.
                if at + length == text.len() && !ended && certain.is_none() {
                    certain = Some(spans.len());
                }
                spans.push(TextSpan::new(inner, ink));
                at += length;
            }
            InlineMark::Link { label, target, length } => {
                flush(&mut spans, &mut plain, base);
                spans.push(TextSpan::new(label, base));
                spans.push(TextSpan::new(&format!(" ({target})"), Ink::Dim));
                at += length;
            }
        }
    }
    flush(&mut spans, &mut plain, base);
    let certain = certain.unwrap_or(spans.len());
    (spans, certain)
}

fn flush(spans: &mut Vec<TextSpan>, plain: &mut String, ink: Ink) {
    if !plain.is_empty() {
        spans.push(TextSpan::new(plain, ink));
        plain.clear();
    }
}

/// What stands at one place of a line.
enum InlineMark<'a> {
    /// Text of this many bytes.
    None(usize),
    /// An escaped character.
    Literal(char, usize),
    /// A mark that nothing closes yet; text of this many bytes if nothing does.
    Open(usize),
    /// Marked text.
    Whole { inner: &'a str, ink: Ink, length: usize },
    /// A link; its target is always shown.
    Link { label: &'a str, target: &'a str, length: usize },
}

fn mark(rest: &str, before: Option<char>) -> InlineMark<'_> {
    let Some(first) = rest.chars().next() else { return InlineMark::None(0) };
    match first {
        '\\' => match rest[1..].chars().next() {
            Some(c) if c.is_ascii_punctuation() => InlineMark::Literal(c, 1 + c.len_utf8()),
            Some(_) => InlineMark::None(1),
            None => InlineMark::Open(1),
        },
        '`' => {
            let length = rest.bytes().take_while(|b| *b == b'`').count();
            match rest[length..].find(&rest[..length]) {
                Some(end) => InlineMark::Whole {
                    inner: &rest[length..length + end],
                    ink: Ink::Code,
                    length: end + 2 * length,
                },
                None => InlineMark::Open(length),
            }
        }
        '*' | '_' => emphasis(rest, first, before),
        '[' => link(rest),
        c => InlineMark::None(c.len_utf8()),
    }
}

fn emphasis(rest: &str, mark: char, before: Option<char>) -> InlineMark<'_> {
    let run = rest.chars().take_while(|c| *c == mark).count();
    let after = rest[run..].chars().next();
    if after.is_none() {
        return InlineMark::Open(run);
    }
    let opens = run <= 2
        && after.is_some_and(|c| !c.is_whitespace())
        && !(mark == '_' && before.is_some_and(char::is_alphanumeric));
    if !opens {
        return InlineMark::None(run);
    }
    let (fence, ink) = if run == 2 { (&rest[..2], Ink::Bold) } else { (&rest[..1], Ink::Italic) };
    let body = &rest[run..];
    let mut from = 0;
    while let Some(found) = body[from..].find(fence) {
        let end = from + found;
        let next = body[end + run..].chars().next();
        let closes = end > 0
            && !body[..end].ends_with([' ', mark])
            && next != Some(mark)
            && !(mark == '_' && next.is_some_and(char::is_alphanumeric));
        if closes {
            return InlineMark::Whole { inner: &body[..end], ink, length: end + 2 * run };
        }
        from = end + run + body[end + run..].chars().take_while(|c| *c == mark).count();
        if from >= body.len() {
            break;
        }
    }
    InlineMark::Open(run)
}

fn link(rest: &str) -> InlineMark<'_> {
    let Some(close) = rest.find(']') else { return InlineMark::Open(1) };
    let after = &rest[close + 1..];
    if after.is_empty() {
        return InlineMark::Open(1);
    }
    let Some(target) = after.strip_prefix('(') else { return InlineMark::None(1) };
    match target.find(')') {
        Some(end) => {
            InlineMark::Link { label: &rest[1..close], target: &target[..end], length: close + 3 + end }
        }
        None => InlineMark::Open(1),
    }
}
