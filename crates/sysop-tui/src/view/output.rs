//! Output of a tool call in the history: its first and last lines, and its status.

use ratatui::style::Style;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::session::REJECTED_BY_USER;
use sysop_core::transcript::ToolOutput;
use sysop_core::ui_text;
use sysop_term::ansi;
use sysop_term::cells::{Span, TextRow, hang, linked, wrap, wrap_exact};
use sysop_term::code::{Highlighter, Language};
use sysop_term::output::{LINE_ROWS_MAX, end_rows, host_rows, live_rows, shown_text, status_role};
use sysop_term::theme::{StyleRole, Theme};

use super::item::fold;

/// Maximum number of rows of an output; a longer one is folded to its first `FIRST_ROWS` and its last rows.
const ROWS_MAX: usize = 12;
const FIRST_ROWS: usize = 5;
/// Maximum number of rows to show of a running tool's output.
const LIVE_ROWS: usize = 10;
const FULL_OUTPUT_KEYS: &str = "Tab, then o: full output";

/// Returns the rows of an output. A long output is folded unless `open` is true.
pub(super) fn history_rows(output: &ToolOutput, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let bar = Span::new("│ ", theme.style(StyleRole::Dim));
    let room = columns.saturating_sub(2).max(1);
    // The call says that it was rejected, by whom, and why.
    let is_rejected = |outcome: &Outcome| {
        outcome.status == Status::Rejected && outcome.output.starts_with(REJECTED_BY_USER)
    };
    if output.outcome.as_ref().is_some_and(is_rejected) {
        return Vec::new();
    }
    let Some(outcome) = &output.outcome else {
        let mut out: Vec<TextRow> = live_rows(output, room, LIVE_ROWS, theme)
            .into_iter()
            .map(|row| row.with_prefix(bar.clone()))
            .collect();
        out.push(TextRow::of("▸ running", theme.style(StyleRole::Sign)));
        return out;
    };
    if output.never_ran {
        return not_run_rows(outcome, columns, theme, open);
    }
    let mut out: Vec<TextRow> = text_rows(&output.tool, outcome, room, theme, open)
        .into_iter()
        .map(|row| row.with_prefix(bar.clone()))
        .collect();
    out.extend(host_rows(outcome, columns, theme));
    let full_output = outcome.artifact.as_ref().map(|_| FULL_OUTPUT_KEYS);
    out.extend(end_rows(outcome, full_output, columns, theme));
    out
}

/// Returns the rows of a call that never started: the reason.
fn not_run_rows(outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let style = theme.style(status_role(outcome.status));
    let room = columns.saturating_sub(2).max(1);
    let text = ui_text::not_run_text(outcome);
    let rows: Vec<TextRow> = text.lines().flat_map(|line| wrap(&[Span::new(line, style)], room)).collect();
    let limit = if open { usize::MAX } else { ROWS_MAX };
    let sign = Span::new(&format!("{} ", ui_text::status_sign(outcome.status)), style);
    hang(fold(rows, limit, FIRST_ROWS, theme.style(StyleRole::Dim)), &sign, &Span::new("  ", style))
}

fn text_rows(tool: &str, outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let dim = theme.style(StyleRole::Dim);
    let text = shown_text(outcome);
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
    let hidden = &lines[FIRST_ROWS..lines.len() - last];
    let mut out: Vec<TextRow> = lines[..FIRST_ROWS].iter().flat_map(wrapped).collect();
    let count = omitted_lines(hidden, outcome.truncated).map(|count| format!("{count} "));
    out.push(TextRow::of(&format!("… {}more lines", count.unwrap_or_default()), dim));
    out.extend(lines[lines.len() - last..].iter().flat_map(wrapped));
    out
}

/// Returns the number of lines for which these lines of an output stand, with those that the host omitted. `None` if the
/// host does not say how many it omitted.
fn omitted_lines(lines: &[TextRow], truncated: bool) -> Option<u64> {
    let count = |line: &TextRow| match truncated {
        true => omission_notice(&line.text()).unwrap_or(Some(1)),
        false => Some(1),
    };
    lines.iter().map(count).sum()
}

/// Reads `… [310 lines, 1,240 bytes omitted; …] …` and `… [lines 7 to 90 omitted (…); …] …`. Returns `Some(None)` if such a
/// line does not say how many lines were omitted, and `None` for any other line.
fn omission_notice(line: &str) -> Option<Option<u64>> {
    let text = line.strip_prefix("… [")?.strip_suffix("] …").filter(|text| text.contains(" omitted"))?;
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let counted = text.split_once(" line").and_then(|(count, _)| number(count));
    let counted = counted.filter(|count| *count > 0); // a part of a single line
    let range = || {
        let (from, rest) = text.strip_prefix("lines ")?.split_once(" to ")?;
        let (from, to) = number(from).zip(number(rest.split(' ').next()?))?;
        Some(to.saturating_sub(from) + 1)
    };
    Some(counted.or_else(range))
}
