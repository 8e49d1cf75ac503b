//! What came of a tool call: the first and last lines of its output, its end in words, each host's own.

use ratatui::style::Style;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::transcript::Output;
use sysop_core::words;

use super::ansi;
use super::cells::{Row, Span, hang, linked, wrap, wrap_exact};
use super::code::{Highlighter, Language};
use super::item::fold;
use super::theme::{Ink, Theme};

/// Rows of an output before it is folded, and how many of them are its first.
const ROWS_MAX: usize = 12;
const FIRST_ROWS: usize = 5;
/// Rows of one line before that is folded.
const LINE_ROWS_MAX: usize = 3;
/// Rows of what a running tool says, in the history.
const LIVE_ROWS: usize = 10;
/// Bytes of a running tool's output that are looked at, at most.
const LIVE_BYTES_MAX: usize = 16 * 1024;

/// How an end looks.
pub fn status_ink(status: Status) -> Ink {
    match status {
        Status::Ok => Ink::Good,
        Status::Failed | Status::Timeout => Ink::Bad,
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => Ink::Warn,
    }
}

/// The newest rows of a running tool's output, at most `rows` of them.
pub fn live_rows(output: &Output, columns: usize, rows: usize, theme: Theme) -> Vec<Row> {
    let tail = &output.tail;
    let from = tail.ceil_char_boundary(tail.len().saturating_sub(LIVE_BYTES_MAX));
    // A whole line to begin with, so that no cut sequence is shown as text.
    let from = match from {
        0 => 0,
        _ => tail[from..].find('\n').map_or(from, |at| from + at + 1),
    };
    let lines = ansi::lines(&tail[from..], theme, Style::new());
    let mut out = Vec::new();
    for line in lines.iter().rev() {
        let wrapped = wrap_exact(&line.spans, columns);
        let skipped = wrapped.len().saturating_sub(LINE_ROWS_MAX);
        out.extend(wrapped.into_iter().skip(skipped).rev());
        if out.len() >= rows {
            break;
        }
    }
    out.truncate(rows);
    out.reverse();
    out
}

/// An output as the history tells it.
pub(super) fn history_rows(output: &Output, columns: usize, theme: Theme, open: bool) -> Vec<Row> {
    let bar = Span::new("│ ", theme.style(Ink::Dim));
    let room = columns.saturating_sub(2).max(1);
    let Some(outcome) = &output.outcome else {
        let mut out: Vec<Row> = live_rows(output, room, LIVE_ROWS, theme)
            .into_iter()
            .map(|row| row.behind(bar.clone()))
            .collect();
        out.push(Row::of("▸ running", theme.style(Ink::Sign)));
        return out;
    };
    let mut out: Vec<Row> = text_rows(&output.tool, outcome, room, theme, open)
        .into_iter()
        .map(|row| row.behind(bar.clone()))
        .collect();
    out.extend(host_rows(outcome, columns, theme));
    out.extend(end_rows(outcome, columns, theme));
    out
}

fn text_rows(tool: &str, outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<Row> {
    let dim = theme.style(Ink::Dim);
    let text = outcome.output.trim_end_matches('\n');
    if text.is_empty() {
        return Vec::new();
    }
    let lines = if matches!(tool, "git_diff" | "git_show") {
        let mut highlighter = Highlighter::new(Language::named("diff"));
        text.split('\n').map(|line| Row::from(highlighter.line(line, theme, Style::new()))).collect()
    } else {
        ansi::painted_lines(text, &outcome.looks, theme, Style::new())
    };
    let wrapped = |line: &Row| {
        let rows = wrap_exact(&linked(line.spans.clone(), theme), columns);
        if open { rows } else { fold(rows, LINE_ROWS_MAX, 2, dim) }
    };
    if open || lines.len() <= ROWS_MAX {
        return lines.iter().flat_map(wrapped).collect();
    }
    let last = ROWS_MAX - FIRST_ROWS - 1;
    let rest = lines.len() - FIRST_ROWS - last;
    let mut out: Vec<Row> = lines[..FIRST_ROWS].iter().flat_map(wrapped).collect();
    out.push(Row::of(&format!("… {rest} lines more"), dim));
    out.extend(lines[lines.len() - last..].iter().flat_map(wrapped));
    out
}

/// How it ended on each of several hosts: one row for those where it was the same, the odd ones first.
pub fn host_rows(outcome: &Outcome, columns: usize, theme: Theme) -> Vec<Row> {
    let mut out = Vec::new();
    for (text, status) in words::host_groups(&outcome.hosts) {
        let style = theme.style(status_ink(status));
        let sign = Span::new(&format!("{} ", words::status_sign(status)), style);
        let rows = wrap(&[Span::new(&text, style)], columns.saturating_sub(2).max(1));
        out.extend(hang(rows, &sign, &Span::new("  ", style)));
    }
    out
}

/// How it ended, in words.
pub fn end_rows(outcome: &Outcome, columns: usize, theme: Theme) -> Vec<Row> {
    let style = theme.style(status_ink(outcome.status));
    let sign = Span::new(&format!("{} ", words::status_sign(outcome.status)), style);
    let text = Span::new(&words::outcome_words(outcome), style);
    hang(wrap(&[text], columns.saturating_sub(2).max(1)), &sign, &Span::new("  ", style))
}
