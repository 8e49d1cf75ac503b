//! What came of a tool call: the first and last lines of its output, its end in words, each host's own.

use ratatui::style::Style;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::transcript::ToolOutput;
use sysop_core::ui_text;

use super::ansi;
use super::cells::{Span, TextRow, hang, linked, wrap, wrap_exact};
use super::code::{Highlighter, Language};
use super::item::fold;
use super::theme::{StyleRole, Theme};

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
pub fn status_role(status: Status) -> StyleRole {
    match status {
        Status::Ok => StyleRole::Good,
        Status::Failed | Status::Timeout => StyleRole::Bad,
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => StyleRole::Warn,
    }
}

/// The newest rows of a running tool's output, at most `rows` of them.
pub fn live_rows(output: &ToolOutput, columns: usize, rows: usize, theme: Theme) -> Vec<TextRow> {
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
pub(super) fn history_rows(output: &ToolOutput, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let bar = Span::new("│ ", theme.style(StyleRole::Dim));
    let room = columns.saturating_sub(2).max(1);
    let Some(outcome) = &output.outcome else {
        let mut out: Vec<TextRow> = live_rows(output, room, LIVE_ROWS, theme)
            .into_iter()
            .map(|row| row.with_prefix(bar.clone()))
            .collect();
        out.push(TextRow::of("▸ running", theme.style(StyleRole::Sign)));
        return out;
    };
    let mut out: Vec<TextRow> = text_rows(&output.tool, outcome, room, theme, open)
        .into_iter()
        .map(|row| row.with_prefix(bar.clone()))
        .collect();
    out.extend(host_rows(outcome, columns, theme));
    out.extend(end_rows(outcome, columns, theme));
    out
}

fn text_rows(tool: &str, outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let dim = theme.style(StyleRole::Dim);
    let text = outcome.output.trim_end_matches('\n');
    if text.is_empty() {
        return Vec::new();
    }
    let lines = if matches!(tool, "git_diff" | "git_show") {
        let mut highlighter = Highlighter::new(Language::named("diff"));
        text.split('\n').map(|line| TextRow::from(highlighter.line(line, theme, Style::new()))).collect()
    } else {
        ansi::styled_lines(text, &outcome.styles, theme, Style::new())
    };
    let wrapped = |line: &TextRow| {
        let rows = wrap_exact(&linked(line.spans.clone(), theme), columns);
        if open { rows } else { fold(rows, LINE_ROWS_MAX, 2, dim) }
    };
    if open || lines.len() <= ROWS_MAX {
        return lines.iter().flat_map(wrapped).collect();
    }
    let last = ROWS_MAX - FIRST_ROWS - 1;
    let rest = lines.len() - FIRST_ROWS - last;
    let mut out: Vec<TextRow> = lines[..FIRST_ROWS].iter().flat_map(wrapped).collect();
    out.push(TextRow::of(&format!("… {rest} lines more"), dim));
    out.extend(lines[lines.len() - last..].iter().flat_map(wrapped));
    out
}

/// How it ended on each of several hosts: one row for those where it was the same, the odd ones first.
pub fn host_rows(outcome: &Outcome, columns: usize, theme: Theme) -> Vec<TextRow> {
    let mut out = Vec::new();
    for (text, status) in ui_text::host_groups(&outcome.hosts) {
        let style = theme.style(status_role(status));
        let sign = Span::new(&format!("{} ", ui_text::status_sign(status)), style);
        let rows = wrap(&[Span::new(&text, style)], columns.saturating_sub(2).max(1));
        out.extend(hang(rows, &sign, &Span::new("  ", style)));
    }
    out
}

/// How it ended, in words.
pub fn end_rows(outcome: &Outcome, columns: usize, theme: Theme) -> Vec<TextRow> {
    let style = theme.style(status_role(outcome.status));
    let sign = Span::new(&format!("{} ", ui_text::status_sign(outcome.status)), style);
    let text = Span::new(&ui_text::outcome_summary(outcome), style);
    hang(wrap(&[text], columns.saturating_sub(2).max(1)), &sign, &Span::new("  ", style))
}
