//! Shows file edits as removed and added lines.

use ratatui::style::Style;
use similar::{ChangeTag, TextDiff};
use sysop_core::message::ToolCall;

use crate::cells::{Span, TextRow, exact, wrap_exact};
use crate::theme::{StyleRole, Theme};

/// Maximum number of lines to compare. Beyond it, all old lines are shown as removed and new ones as added.
const LINES_MAX: usize = 2_000;
/// Number of unchanged lines to show around a change.
const CONTEXT_LINES: usize = 3;

/// The change requested by a call to a file tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEdit<'a> {
    pub path: &'a str,
    /// Text to replace; `None` if the whole file is written.
    pub old: Option<&'a str>,
    pub new: &'a str,
}

impl<'a> FileEdit<'a> {
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

    /// Returns true if the edit shows this argument of the call. Other arguments must be shown separately.
    pub fn shows(argument: &str) -> bool {
        matches!(argument, "path" | "old_string" | "new_string" | "content")
    }

    /// Returns the removed and added lines, wrapped. They show the change exactly, byte for byte.
    pub fn rows(&self, columns: usize, theme: Theme) -> Vec<TextRow> {
        let painter = DiffPainter { columns, theme };
        let mut out = Vec::new();
        let Some(old) = self.old else {
            for line in lines(self.new) {
                painter.line(line, DiffSide::Added, None, &mut out);
            }
            return out;
        };
        if old.lines().count().max(self.new.lines().count()) > LINES_MAX {
            for line in lines(old) {
                painter.line(line, DiffSide::Removed, None, &mut out);
            }
            for line in lines(self.new) {
                painter.line(line, DiffSide::Added, None, &mut out);
            }
            out.extend(last_end(old, self.new, theme));
            return out;
        }
        let diff = TextDiff::from_slices(&lines(old), &lines(self.new));
        for (number, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
            if number > 0 {
                out.push(TextRow::of("⋮", theme.style(StyleRole::Dim)));
            }
            for operation in group {
                let (mut removed, mut added) = (Vec::new(), Vec::new());
                for change in diff.iter_changes(operation) {
                    match change.tag() {
                        ChangeTag::Equal => painter.line(change.value(), DiffSide::Unchanged, None, &mut out),
                        ChangeTag::Delete => removed.push(change.value()),
                        ChangeTag::Insert => added.push(change.value()),
                    }
                }
                painter.replaced(&removed, &added, &mut out);
            }
        }
        out.extend(last_end(old, self.new, theme));
        if out.is_empty() {
            out.push(TextRow::of("no changes", theme.style(StyleRole::Dim)));
        }
        out
    }
}

/// Returns a row about a change to the final newline, which has no line of its own. `None` if unchanged.
fn last_end(old: &str, new: &str, theme: Theme) -> Option<TextRow> {
    let (text, role) = match (old.ends_with('\n'), new.ends_with('\n')) {
        (true, false) => ("- newline at end of file", StyleRole::Removed),
        (false, true) => ("+ newline at end of file", StyleRole::Added),
        (true, true) | (false, false) => return None,
    };
    Some(TextRow::of(text, theme.style(role)))
}

/// Splits text into lines without their newlines. A final newline does not add an empty line.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) && lines.len() > 1 {
        lines.pop();
    }
    lines
}

#[derive(Clone, Copy)]
enum DiffSide {
    Unchanged,
    Removed,
    Added,
}

struct DiffPainter {
    columns: usize,
    theme: Theme,
}

impl DiffPainter {
    fn replaced(&self, removed: &[&str], added: &[&str], out: &mut Vec<TextRow>) {
        let alike = removed.len() == added.len();
        let part = |at: usize| alike.then(|| changed(removed[at], added[at]));
        for (at, line) in removed.iter().enumerate() {
            self.line(
                line,
                DiffSide::Removed,
                part(at).map(|(start, from_end)| (start, line.len() - from_end)),
                out,
            );
        }
        for (at, line) in added.iter().enumerate() {
            self.line(
                line,
                DiffSide::Added,
                part(at).map(|(start, from_end)| (start, line.len() - from_end)),
                out,
            );
        }
    }

    /// Draws a line with its sign before it. If `part` is set, highlights the part between these two byte offsets.
    fn line(&self, line: &str, side: DiffSide, part: Option<(usize, usize)>, out: &mut Vec<TextRow>) {
        let (sign, role, part_ink) = match side {
            DiffSide::Unchanged => ("  ", StyleRole::Text, StyleRole::Text),
            DiffSide::Removed => ("- ", StyleRole::Removed, StyleRole::RemovedPart),
            DiffSide::Added => ("+ ", StyleRole::Added, StyleRole::AddedPart),
        };
        let style = self.theme.style(role);
        let (start, end) = part.filter(|(start, end)| start < end).unwrap_or((line.len(), line.len()));
        let mut spans = self.exact(&line[..start], style);
        spans.extend(self.exact(&line[start..end], self.theme.style(part_ink)));
        spans.extend(self.exact(&line[end..], style));
        let sign = Span::new(sign, style);
        let rows = wrap_exact(&spans, self.columns.saturating_sub(2).max(1));
        out.extend(rows.into_iter().map(|row| row.with_prefix(sign.clone())));
    }

    /// Makes tabs and carriage returns visible, because they matter in a file. A tab is shown as an arrow.
    fn exact(&self, text: &str, style: Style) -> Vec<Span> {
        let mut spans = Vec::new();
        for (at, piece) in text.split('\t').enumerate() {
            if at > 0 {
                spans.push(Span::new("→   ", self.theme.style(StyleRole::Dim)));
            }
            spans.extend(exact(piece, style, self.theme.style(StyleRole::Warn)));
        }
        spans
    }
}

/// Returns the byte offset of the first difference, and the number of equal bytes at the end.
fn changed(old: &str, new: &str) -> (usize, usize) {
    let start = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old, new) = (&old[start..], &new[start..]);
    let same = old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b);
    (start, same.map(|(a, _)| a.len_utf8()).sum())
}
