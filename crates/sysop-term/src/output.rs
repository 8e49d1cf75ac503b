//! Outcome of a tool call: the newest lines of its output, its summary, and a summary per host.

use std::borrow::Cow;

use ratatui::style::Style;
use sysop_core::outcome::{HostOutcome, Outcome, Reversibility, Status};
use sysop_core::style::StyleRuns;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::ToolOutput;
use sysop_core::ui_text;
use sysop_core::undo::split_undo_note;

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
    newest_rows(&output.tail, columns, rows, theme)
}

pub(crate) fn newest_rows(tail: &str, columns: usize, rows: usize, theme: Theme) -> Vec<TextRow> {
    let from = tail.ceil_char_boundary(tail.len().saturating_sub(LIVE_BYTES_MAX));
    // Start at a whole line, so that a truncated sequence is not shown as text.
    let from = match from {
        0 => 0,
        _ => tail[from..].find('\n').map_or(from, |at| from + at + 1),
    };
    let lines = ansi::lines(newest_lines(&tail[from..], rows), theme, Style::new());
    let mut out = Vec::new();
    for line in lines.iter().rev().filter(|line| !is_typing_note(&line.text())) {
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

/// Returns the last `count` lines, or the whole text if its beginning contains an escape sequence, which may set the
/// style of the last lines. A flood of output is rendered in each frame, before a typed key is displayed.
fn newest_lines(text: &str, count: usize) -> &str {
    let newlines = text.trim_end_matches('\n').rmatch_indices('\n');
    let from = newlines.map(|(at, _)| at + 1).nth(count).unwrap_or(0);
    if text[..from].contains('\u{1b}') { text } else { &text[from..] }
}

/// Returns the rows of groups of hosts with equal outcomes, as from [`ui_text::host_groups`].
pub fn host_rows(groups: &[(String, Status)], columns: usize, theme: Theme) -> Vec<TextRow> {
    let mut out = Vec::new();
    for (text, status) in groups {
        let style = theme.style(status_role(*status));
        let sign = Span::new(&format!("{} ", ui_text::status_sign(*status)), style);
        let rows = wrap(&[Span::new(text, style)], columns.saturating_sub(2).max(1));
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

/// Returns the output without what the summary states: the exit code line that tools add for the model, what the host
/// notes for the model about a job or program that still runs, and that the call did not run because its turn was
/// stopped.
pub fn shown_text(outcome: &Outcome) -> &str {
    if has_no_output(outcome) {
        return "";
    }
    // Nothing else tells a reason for the lack of an undo that comes after the note.
    let has_reason = split_undo_note(outcome.output.trim_end_matches('\n')).is_some();
    if let Some((text, _)) = outcome.split_program_note().filter(|_| !has_reason) {
        return text;
    }
    without_exit_code(without_job_note(outcome), outcome.exit_code)
}

/// Marks the lines of an output that the summaries of the hosts repeat: the sections of hosts that were not reached.
/// Empty if there are none.
///
/// A host may print what looks like such a section, so only the heading and the reason are marked, and only if nothing
/// else is in the section.
pub fn lines_told_by_hosts(text: &str, hosts: &[HostOutcome]) -> Vec<bool> {
    let reasons: Vec<&str> = hosts.iter().filter_map(|host| host.unreachable.as_deref()).collect();
    if reasons.is_empty() {
        return Vec::new();
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let mut told = vec![false; lines.len()];
    for (at, section) in lines.windows(2).enumerate() {
        let is_reason = reasons.contains(&&*neutralize_line(section[1]));
        let next = lines.get(at + 2).filter(|next| !next.is_empty() || at + 3 < lines.len());
        let is_whole = next.is_none_or(|next| next.starts_with("== ") || next.starts_with("… ["));
        if section[0].starts_with("== ") && section[0].ends_with(": not run ==") && is_reason && is_whole {
            told[at..at + 2].fill(true);
        }
    }
    told
}

/// Returns the text of an output without the sections of hosts that were not reached, for a front end that shows the
/// summaries of the hosts.
pub fn without_missed_hosts<'a>(text: &'a str, hosts: &[HostOutcome]) -> Cow<'a, str> {
    match styled_without_missed_hosts(text, &StyleRuns::default(), hosts) {
        Some((shown, _)) => Cow::Owned(shown),
        None => Cow::Borrowed(text),
    }
}

/// Returns the output as [`shown_text`] does, with its styles, and changed as by [`without_missed_hosts`].
pub fn shown_beside_hosts(outcome: &Outcome) -> (Cow<'_, str>, Cow<'_, StyleRuns>) {
    let text = shown_text(outcome);
    match styled_without_missed_hosts(text, &outcome.styles, &outcome.hosts) {
        Some((shown, styles)) => (Cow::Owned(shown), Cow::Owned(styles)),
        None => (Cow::Borrowed(text), Cow::Borrowed(&outcome.styles)),
    }
}

/// Returns the text and styles of an output without the sections of hosts that were not reached, and without newlines
/// at the end. `None` if there is no such section.
fn styled_without_missed_hosts(
    text: &str,
    before: &StyleRuns,
    hosts: &[HostOutcome],
) -> Option<(String, StyleRuns)> {
    let told = lines_told_by_hosts(text, hosts);
    if !told.contains(&true) {
        return None;
    }
    let (mut shown, mut styles, mut line) = (String::new(), StyleRuns::default(), 0);
    for (piece, look) in before.runs(text) {
        for part in piece.split_inclusive('\n') {
            if told.get(line) == Some(&false) {
                styles.begin(shown.len(), look);
                shown.push_str(part);
            }
            line += usize::from(part.ends_with('\n'));
        }
    }
    shown.truncate(shown.trim_end_matches('\n').len());
    Some((shown, styles))
}

/// Returns the output without the line that tells the model how to read a job. The summary names the job.
pub fn without_job_note(outcome: &Outcome) -> &str {
    let text = outcome.output.trim_end_matches('\n');
    let start = text.rfind('\n').map_or(0, |newline| newline + 1);
    let is_note =
        outcome.job.is_some() && text[start..].starts_with("[still running in the background as job ");
    if is_note { text[..start].trim_end_matches('\n') } else { text }
}

/// Returns the output as [`shown_text`] does, also without the lines that say why a call cannot be undone. The second
/// value says that instead, if it is so.
pub fn output_and_undo_note(outcome: &Outcome) -> (&str, Option<String>) {
    let is_noted = matches!(outcome.undo, Some(Reversibility::None | Reversibility::Partly));
    let mut text = without_job_note(outcome);
    let mut reasons = Vec::new();
    while let Some((before, reason)) = split_undo_note(text).filter(|_| is_noted) {
        text = before;
        reasons.push(reason);
    }
    reasons.reverse();
    if let Some((before, _)) = outcome.split_program_note() {
        text = before;
    }
    let note = (!reasons.is_empty()).then(|| format!("no undo: {}", reasons.join("; ")));
    (if has_no_output(outcome) { "" } else { without_exit_code(text, outcome.exit_code) }, note)
}

/// Returns true for the line that tells the model what a person has typed into the terminal. People see that in a
/// notice.
pub fn is_typing_note(line: &str) -> bool {
    let note = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).unwrap_or_default();
    let is_activity = note.contains(" typed into the terminal for ")
        && note.ends_with("; the output is private unless they share it");
    is_activity || note.ends_with(" entered a password")
}

/// Returns true if the summary says all that the output says.
fn has_no_output(outcome: &Outcome) -> bool {
    outcome.is_not_run() || outcome.is_not_started()
}

fn without_exit_code(text: &str, exit_code: Option<i32>) -> &str {
    let Some(code) = exit_code else { return text };
    let text = text.strip_suffix(&format!("[exit code {code}]")).unwrap_or(text);
    text.trim_end_matches('\n')
}
