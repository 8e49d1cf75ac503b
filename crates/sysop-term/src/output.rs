//! Outcome of a tool call: the newest lines of its output, its summary, and a summary per host.

use ratatui::style::Style;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::transcript::ToolOutput;
use sysop_core::ui_text;

use crate::ansi;
use crate::cells::{Span, TextRow, hang, wrap, wrap_exact};
use crate::theme::{StyleRole, Theme};

/// Maximum number of rows per line; a longer line is folded.
pub const LINE_ROWS_MAX: usize = 3;
/// Maximum number of bytes to render of a running tool's output.
const LIVE_BYTES_MAX: usize = 16 * 1024;

pub fn status_role(status: Status) -> StyleRole {
    match status {
        Status::Ok => StyleRole::Good,
        Status::Failed | Status::Timeout => StyleRole::Bad,
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => StyleRole::Warn,
    }
}

/// Returns the newest rows of a running tool's output, at most `rows`.
pub fn live_rows(output: &ToolOutput, columns: usize, rows: usize, theme: Theme) -> Vec<TextRow> {
    let tail = &output.tail;
    let from = tail.ceil_char_boundary(tail.len().saturating_sub(LIVE_BYTES_MAX));
    // Start at a whole line, so that a truncated sequence is not shown as text.
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

/// Returns the outcomes on several hosts, one entry per group of equal outcomes. Outliers come first.
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

/// Returns the summary of an outcome. `full_output` says how to see the full output, if it was kept.
pub fn end_rows(outcome: &Outcome, full_output: Option<&str>, columns: usize, theme: Theme) -> Vec<TextRow> {
    let style = theme.style(status_role(outcome.status));
    let sign = Span::new(&format!("{} ", ui_text::status_sign(outcome.status)), style);
    let mut text = vec![Span::new(&ui_text::finished_summary(outcome), style)];
    text.extend(full_output.map(|place| Span::new(&format!(" · {place}"), theme.style(StyleRole::Dim))));
    hang(wrap(&text, columns.saturating_sub(2).max(1)), &sign, &Span::new("  ", style))
}

/// Returns the output without what the summary states: the exit code line that tools add for the model, and that the
/// call did not run because its turn was stopped.
pub fn shown_text(outcome: &Outcome) -> &str {
    if outcome.is_not_run() {
        return "";
    }
    let text = outcome.output.trim_end_matches('\n');
    let Some(code) = outcome.exit_code else { return text };
    let text = text.strip_suffix(&format!("[exit code {code}]")).unwrap_or(text);
    text.trim_end_matches('\n')
}
