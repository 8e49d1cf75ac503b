//! File edits as what goes and what comes.

use ratatui::style::Style;
use similar::{ChangeTag, TextDiff};
use sysop_core::message::ToolCall;

use super::cells::{Row, Span, exact, wrap_exact};
use super::theme::{Ink, Theme};

/// Longer texts, in lines, are shown one after the other and not compared.
const LINES_MAX: usize = 2_000;
/// Lines around a change that are shown.
const CONTEXT_LINES: usize = 3;

/// What a file tool is asked to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The file.
    pub path: &'a str,
    /// What goes; nothing where the whole file is written anew.
    pub old: Option<&'a str>,
    /// What comes.
    pub new: &'a str,
}

impl<'a> Edit<'a> {
    /// The edit that a call makes, if it makes one and says nothing else.
    pub fn of(call: &'a ToolCall) -> Option<Self> {
        let text = |name| call.text_argument(name);
        match call.name.as_str() {
            "edit_file" => {
                Some(Self { path: text("path")?, old: Some(text("old_string")?), new: text("new_string")? })
            }
            "write_file" | "write_file_chunk" => {
                Some(Self { path: text("path")?, old: None, new: text("content")? })
            }
            _ => None,
        }
    }

    /// The names of its arguments; a call may have others, which must be shown too.
    pub fn shows(argument: &str) -> bool {
        matches!(argument, "path" | "old_string" | "new_string" | "content")
    }

    /// The lines that go and come, wrapped; exact to the last byte.
    pub fn rows(&self, columns: usize, theme: Theme) -> Vec<Row> {
        let painter = Painter { columns, theme };
        let mut out = Vec::new();
        let Some(old) = self.old else {
            for line in lines(self.new) {
                painter.line(line, Side::Comes, None, &mut out);
            }
            return out;
        };
        if old.lines().count().max(self.new.lines().count()) > LINES_MAX {
            for line in lines(old) {
                painter.line(line, Side::Goes, None, &mut out);
            }
            for line in lines(self.new) {
                painter.line(line, Side::Comes, None, &mut out);
            }
            out.extend(last_end(old, self.new, theme));
            return out;
        }
        let diff = TextDiff::from_slices(&lines(old), &lines(self.new));
        for (number, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
            if number > 0 {
                out.push(Row::of("⋮", theme.style(Ink::Dim)));
            }
            for operation in group {
                let (mut goes, mut comes) = (Vec::new(), Vec::new());
                for change in diff.iter_changes(operation) {
                    match change.tag() {
                        ChangeTag::Equal => painter.line(change.value(), Side::Stays, None, &mut out),
                        ChangeTag::Delete => goes.push(change.value()),
                        ChangeTag::Insert => comes.push(change.value()),
                    }
                }
                painter.replaced(&goes, &comes, &mut out);
            }
        }
        out.extend(last_end(old, self.new, theme));
        if out.is_empty() {
            out.push(Row::of("nothing changes", theme.style(Ink::Dim)));
        }
        out
    }
}

/// What happens to the end of the last line, which is no line of its own.
fn last_end(old: &str, new: &str, theme: Theme) -> Option<Row> {
    let (text, ink) = match (old.ends_with('\n'), new.ends_with('\n')) {
        (true, false) => ("- the line end behind the last line", Ink::Removed),
        (false, true) => ("+ a line end behind the last line", Ink::Added),
        (true, true) | (false, false) => return None,
    };
    Some(Row::of(text, theme.style(ink)))
}

/// The lines of a text without their ends; a last empty one is none.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) && lines.len() > 1 {
        lines.pop();
    }
    lines
}

#[derive(Clone, Copy)]
enum Side {
    Stays,
    Goes,
    Comes,
}

struct Painter {
    columns: usize,
    theme: Theme,
}

impl Painter {
    fn replaced(&self, goes: &[&str], comes: &[&str], out: &mut Vec<Row>) {
        let alike = goes.len() == comes.len();
        let part = |at: usize| alike.then(|| changed(goes[at], comes[at]));
        for (at, line) in goes.iter().enumerate() {
            self.line(
                line,
                Side::Goes,
                part(at).map(|(start, from_end)| (start, line.len() - from_end)),
                out,
            );
        }
        for (at, line) in comes.iter().enumerate() {
            self.line(
                line,
                Side::Comes,
                part(at).map(|(start, from_end)| (start, line.len() - from_end)),
                out,
            );
        }
    }

    /// A line behind its sign, the part between two bytes set off.
    fn line(&self, line: &str, side: Side, part: Option<(usize, usize)>, out: &mut Vec<Row>) {
        let (sign, ink, part_ink) = match side {
            Side::Stays => ("  ", Ink::Text, Ink::Text),
            Side::Goes => ("- ", Ink::Removed, Ink::RemovedPart),
            Side::Comes => ("+ ", Ink::Added, Ink::AddedPart),
        };
        let style = self.theme.style(ink);
        let (start, end) = part.filter(|(start, end)| start < end).unwrap_or((line.len(), line.len()));
        let mut spans = self.exact(&line[..start], style);
        spans.extend(self.exact(&line[start..end], self.theme.style(part_ink)));
        spans.extend(self.exact(&line[end..], style));
        let sign = Span::new(sign, style);
        let rows = wrap_exact(&spans, self.columns.saturating_sub(2).max(1));
        out.extend(rows.into_iter().map(|row| row.behind(sign.clone())));
    }

    /// Tabs and carriage returns matter in a file; they are shown, tabs as an arrow.
    fn exact(&self, text: &str, style: Style) -> Vec<Span> {
        let mut spans = Vec::new();
        for (at, piece) in text.split('\t').enumerate() {
            if at > 0 {
                spans.push(Span::new("→   ", self.theme.style(Ink::Dim)));
            }
            spans.extend(exact(piece, style, self.theme.style(Ink::Warn)));
        }
        spans
    }
}

/// Where two lines begin to differ, and how many bytes from their ends on they are the same again.
fn changed(old: &str, new: &str) -> (usize, usize) {
    let start = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old, new) = (&old[start..], &new[start..]);
    let same = old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b);
    (start, same.map(|(a, _)| a.len_utf8()).sum())
}
