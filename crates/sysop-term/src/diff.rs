//! Shows file edits as removed and added lines.
//!
//! The text that an edit replaces is in its call. A write has the new text only; the preview of its proposal has the
//! change of the present file, unless the file or the change is large.

use ratatui::style::Style;
use similar::{ChangeTag, TextDiff};
use sysop_core::message::ToolCall;
use sysop_core::text::neutralize_line;

use crate::cells::{Span, TextRow, exact, hang, wrap_exact};
use crate::theme::{StyleRole, Theme};

/// Maximum number of lines to compare. Beyond it, all old lines are shown as removed and new ones as added.
const LINES_MAX: usize = 2_000;
/// Number of unchanged lines to show around a change.
const CONTEXT_LINES: usize = 2;
/// Sign of a row that continues the line of the row before it.
const CONTINUED: &str = "↪ ";
/// Minimum width for showing line numbers, in columns.
const NUMBERED_COLUMNS_MIN: usize = 30;

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

    /// Returns the numbers of added and removed lines, as in `+2 −1`. A write whose effect is unknown has no number of
    /// removed lines.
    pub fn counts(&self, preview: &[String]) -> String {
        let (added, removed) = match self.old {
            None => match told_counts(preview) {
                Some(counts) => counts,
                None => return format!("+{}", lines(self.new).len()),
            },
            Some(old) if is_long(old, self.new) => (lines(self.new).len(), lines(old).len()),
            Some(old) => {
                let diff = TextDiff::from_slices(&lines(old), &lines(self.new));
                let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
                (count(ChangeTag::Insert), count(ChangeTag::Delete))
            }
        };
        format!("+{added} −{removed}")
    }

    /// Returns true if `rows` show the change of the present file that the preview has.
    pub fn shows_preview(&self, preview: &[String]) -> bool {
        self.old.is_none() && present_changes(&lines(self.new), preview).is_some()
    }

    /// Returns the removed and added lines, wrapped. The new text is shown exactly, byte for byte. A write shows the
    /// change of the present file if `preview` has all of it, else the whole new text.
    pub fn rows(&self, preview: &[String], columns: usize, theme: Theme) -> Vec<TextRow> {
        let painter = DiffPainter { columns, theme, digits: 0 };
        let mut out = Vec::new();
        let new = lines(self.new);
        if self.old.is_none() && leaves_file(preview) {
            new.iter().for_each(|line| painter.line(line, DiffSide::Unchanged, None, None, &mut out));
            return out;
        }
        let Some(old) = self.old else {
            match present_changes(&new, preview) {
                Some(changes) => painter.numbered(&new, &changes).changes(&new, &changes, &mut out),
                None => {
                    // A part of the change is shown elsewhere.
                    if preview.iter().any(|line| line.starts_with("@@ ")) {
                        out.push(TextRow::of("the whole new text:", theme.style(StyleRole::Dim)));
                    }
                    painter.replaced(&[], &new, (0, 0), &mut out);
                }
            }
            return out;
        };
        if is_long(old, self.new) {
            for line in lines(old) {
                painter.line(line, DiffSide::Removed, None, None, &mut out);
            }
            painter.replaced(&[], &new, (0, 0), &mut out);
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
                        ChangeTag::Equal => {
                            painter.line(change.value(), DiffSide::Unchanged, None, None, &mut out);
                        }
                        ChangeTag::Delete => removed.push(change.value()),
                        ChangeTag::Insert => added.push(change.value()),
                    }
                }
                painter.replaced(&removed, &added, (0, 0), &mut out);
            }
        }
        out.extend(last_end(old, self.new, theme));
        if out.is_empty() {
            out.push(TextRow::of("no changes", theme.style(StyleRole::Dim)));
        }
        out
    }
}

fn is_long(old: &str, new: &str) -> bool {
    old.lines().count().max(new.lines().count()) > LINES_MAX
}

/// Lines of the present file that a write replaces.
struct PresentChange {
    /// Index of the first changed line in the present file and in the new text.
    at: (usize, usize),
    removed: Vec<String>,
    added: usize,
}

/// Returns true if the preview of a write says that the present file already has the new text.
fn leaves_file(preview: &[String]) -> bool {
    matches!(preview, [line] if line.starts_with("rewrites ") && line.ends_with(" with the same content"))
}

/// Returns the numbers of added and removed lines that the summary of a write tells.
fn told_counts(preview: &[String]) -> Option<(usize, usize)> {
    if leaves_file(preview) {
        return Some((0, 0));
    }
    let summary = preview.iter().take_while(|line| !line.starts_with("@@ ")).last()?;
    let (_, counts) = summary.strip_suffix(" lines")?.rsplit_once(": +")?;
    let (added, removed) = counts.split_once(" −")?;
    added.parse().ok().zip(removed.parse().ok())
}

/// Returns the number of lines that a shortened preview omits at its end, from its last line.
fn omitted_lines(line: &str) -> Option<usize> {
    let (count, noun) = line.strip_prefix("… ")?.split_once(' ')?;
    count.replace(',', "").parse().ok().filter(|_| matches!(noun, "more line" | "more lines"))
}

/// Reads the change of the present file from a preview. Returns `None` unless the preview has all of it and fits the
/// new text: a preview is shortened, and redacts secrets. Added lines that it omits at its end are in the new text.
fn present_changes(new: &[&str], preview: &[String]) -> Option<Vec<PresentChange>> {
    let told = told_counts(preview)?;
    let mut changes: Vec<PresentChange> = Vec::new();
    let (mut old_at, mut new_at, mut follows_header) = (0, 0, false);
    let mut lines: Vec<&str> =
        preview.iter().map(String::as_str).skip_while(|line| !line.starts_with("@@ ")).collect();
    let omitted = lines.pop_if(|line| omitted_lines(line).is_some()).and_then(omitted_lines);
    for line in lines {
        if let Some(places) = line.strip_prefix("@@ -").and_then(|line| line.strip_suffix(" @@")) {
            // The header names the first changed line. Its line of context, if any, comes before that.
            let (old, new) = places.split_once(" +")?;
            let (old, new): (usize, usize) = (old.parse().ok()?, new.parse().ok()?);
            (old_at, new_at, follows_header) = (old.checked_sub(1)?, new.checked_sub(1)?, true);
            continue;
        }
        let (sign, text) = line.split_at_checked(1)?;
        let at = if sign == " " && follows_header { new_at.checked_sub(1)? } else { new_at };
        if sign != "-" && neutralize_line(new.get(at)?) != text {
            return None;
        }
        let is_after = changes.last().is_some_and(|change| {
            change.at.0 + change.removed.len() == old_at && change.at.1 + change.added == new_at
        });
        if sign != " " && !is_after {
            changes.push(PresentChange { at: (old_at, new_at), removed: Vec::new(), added: 0 });
        }
        match (sign, changes.last_mut()) {
            (" ", _) if follows_header => {}
            (" ", _) => (old_at, new_at) = (old_at + 1, new_at + 1),
            ("-", Some(change)) => {
                change.removed.push(with_tabs(text));
                old_at += 1;
            }
            ("+", Some(change)) => {
                change.added += 1;
                new_at += 1;
            }
            _ => return None,
        }
        follows_header = false;
    }
    let added: usize = changes.iter().map(|change| change.added).sum();
    let removed = changes.iter().map(|change| change.removed.len()).sum();
    if let Some(omitted) = omitted {
        // They are added lines and no others, which follow each other, only if their number is all that is missing.
        let goes_on = changes.last_mut().filter(|change| change.at.1 + change.added == new_at);
        goes_on.filter(|_| added + omitted == told.0 && new_at + omitted <= new.len())?.added += omitted;
        return (removed == told.1).then_some(changes);
    }
    (!changes.is_empty() && told == (added, removed)).then_some(changes)
}

/// Returns a line of a preview with the tabs that indent it, which the preview escapes.
fn with_tabs(text: &str) -> String {
    let rest = text.trim_start_matches("\\t");
    format!("{}{rest}", "\t".repeat((text.len() - rest.len()) / 2))
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
    /// Number of digits of a line number; 0 if lines have none.
    digits: usize,
}

impl DiffPainter {
    /// Returns a painter with room for the line numbers of these changes.
    fn numbered(&self, new: &[&str], changes: &[PresentChange]) -> Self {
        let last_old = changes.last().map_or(0, |change| change.at.0 + change.removed.len());
        let digits = last_old.max(new.len()).to_string().len();
        let digits = if self.columns < NUMBERED_COLUMNS_MIN { 0 } else { digits };
        Self { columns: self.columns, theme: self.theme, digits }
    }

    /// Draws changes of a file, with the unchanged lines around them.
    fn changes(&self, new: &[&str], changes: &[PresentChange], out: &mut Vec<TextRow>) {
        let mut shown = 0;
        for (number, change) in changes.iter().enumerate() {
            let (old_at, new_at) = change.at;
            let new_at = new_at.min(new.len()); // a preview of another text
            let end = (new_at + change.added).min(new.len());
            let from = new_at.saturating_sub(CONTEXT_LINES).max(shown);
            if from > shown && number > 0 {
                out.push(TextRow::of("⋮", self.theme.style(StyleRole::Dim)));
            }
            let next = changes.get(number + 1).map_or(new.len(), |next| next.at.1);
            let until = (end + CONTEXT_LINES).min(next);
            let unchanged = |lines: std::ops::Range<usize>, out: &mut Vec<TextRow>| {
                for at in lines {
                    self.line(new[at], DiffSide::Unchanged, None, Some(at + 1), out);
                }
            };
            unchanged(from..new_at, out);
            let removed: Vec<&str> = change.removed.iter().map(String::as_str).collect();
            self.replaced(&removed, &new[new_at..end], (old_at + 1, new_at + 1), out);
            unchanged(end..until, out);
            shown = until;
        }
    }

    /// Draws removed and added lines, of which the first ones have the numbers `first`.
    fn replaced(&self, removed: &[&str], added: &[&str], first: (usize, usize), out: &mut Vec<TextRow>) {
        let alike = removed.len() == added.len();
        let part = |at: usize| alike.then(|| changed(removed[at], added[at]));
        let end = |line: &str, (start, from_end): (usize, usize)| (start, line.len() - from_end);
        for (at, line) in removed.iter().enumerate() {
            let part = part(at).map(|part| end(line, part));
            self.line(line, DiffSide::Removed, part, Some(first.0 + at), out);
        }
        for (at, line) in added.iter().enumerate() {
            let part = part(at).map(|part| end(line, part));
            self.line(line, DiffSide::Added, part, Some(first.1 + at), out);
        }
    }

    /// Draws a line with its number, if lines have numbers, and its sign before it. Only the first row of a line that
    /// is wrapped has them. If `part` is set, highlights the part between these two byte offsets.
    fn line(
        &self,
        line: &str,
        side: DiffSide,
        part: Option<(usize, usize)>,
        number: Option<usize>,
        out: &mut Vec<TextRow>,
    ) {
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
        let digits = self.digits;
        let gutter = if digits > 0 { digits + 1 } else { 0 };
        let dim = self.theme.style(StyleRole::Dim);
        let rows = wrap_exact(&spans, self.columns.saturating_sub(2 + gutter).max(1));
        let rows = hang(rows, &Span::new(sign, style), &Span::new(CONTINUED, dim));
        if gutter == 0 {
            return out.extend(rows);
        }
        let number = number.map_or_else(String::new, |number| number.to_string());
        let (first, rest) = (format!("{number:>digits$} "), " ".repeat(gutter));
        out.extend(hang(rows, &Span::new(&first, dim), &Span::new(&rest, dim)));
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
