//! Output of a tool call in the history: its first and last lines, and its status.

use ratatui::style::Style;
use sysop_core::outcome::{Outcome, SCREEN_FOLLOWS, Status};
use sysop_core::session::REJECTED_BY_USER;
use sysop_core::transcript::ToolOutput;
use sysop_core::ui_text;
use sysop_term::ansi;
use sysop_term::cells::{Span, TextRow, hang, linked, truncate, wrap, wrap_exact};
use sysop_term::code::{Highlighter, Language};
use sysop_term::output::{
    LINE_ROWS_MAX, end_rows, host_rows, is_typing_note, lines_told_by_hosts, live_rows, output_and_undo_note,
    status_role,
};
use sysop_term::theme::{StyleRole, Theme};

use super::item::fold;

/// Maximum number of rows of an output; a longer one is folded to its first `FIRST_ROWS` and its last rows.
const ROWS_MAX: usize = 12;
const FIRST_ROWS: usize = 5;
/// Maximum number of rows to show of a running tool's output.
const LIVE_ROWS: usize = 10;
/// Minimum number of successive updates of a progress line that a folded output shows as one.
const UPDATES_MIN: usize = 3;

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
    out.extend(host_rows(&ui_text::host_groups(&outcome.hosts), columns, theme));
    let terminal = outcome.running_program().map(|_| "Ctrl+T opens the terminal".to_owned());
    let full_output = outcome.artifact.as_ref().map(|_| format!("/output {} shows all", output.number));
    let undo_note = output_and_undo_note(outcome).1;
    let notes: Vec<String> = terminal.into_iter().chain(undo_note).chain(full_output).collect();
    let notes = (!notes.is_empty()).then(|| notes.join(" · "));
    out.extend(end_rows(outcome, notes.as_deref(), columns, theme));
    out
}

/// Returns the rows of a call that never started: the reason. What is wrong with the arguments of a model takes one row
/// unless `open` is true, because only the model can mend it.
fn not_run_rows(outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let style = theme.style(status_role(outcome.status));
    let room = columns.saturating_sub(2).max(1);
    let text = ui_text::not_run_text(outcome);
    if outcome.has_invalid_arguments() && !open {
        let sign = format!("{} ", ui_text::status_sign(outcome.status));
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        return vec![truncate(&[Span::new(&format!("{sign}{line}"), style)], columns, style)];
    }
    let rows: Vec<TextRow> = text.lines().flat_map(|line| wrap(&[Span::new(line, style)], room)).collect();
    let limit = if open { usize::MAX } else { ROWS_MAX };
    let sign = Span::new(&format!("{} ", ui_text::status_sign(outcome.status)), style);
    hang(fold(rows, limit, FIRST_ROWS, theme.style(StyleRole::Dim)), &sign, &Span::new("  ", style))
}

fn text_rows(tool: &str, outcome: &Outcome, columns: usize, theme: Theme, open: bool) -> Vec<TextRow> {
    let dim = theme.style(StyleRole::Dim);
    let (text, _) = output_and_undo_note(outcome);
    if text.is_empty() {
        return Vec::new();
    }
    let mut lines = if matches!(tool, "git_diff" | "git_show") {
        let mut highlighter = Highlighter::new(Language::named("diff"));
        text.split('\n').map(|line| TextRow::from(highlighter.line(line, theme, Style::new()))).collect()
    } else {
        ansi::styled_lines(text, &outcome.styles, theme, Style::new())
    };
    let mut is_told = lines_told_by_hosts(text, &outcome.hosts).into_iter();
    lines.retain(|line| !is_told.next().unwrap_or_default() && !is_typing_note(&line.text()));
    if let Some(heading) = lines.iter().position(|line| line.text() == SCREEN_FOLLOWS).filter(|_| !open) {
        // Rows of a screen are not read to their end, and make no sense in two rows.
        lines.iter_mut().skip(heading + 1).for_each(|row| *row = truncate(&row.spans, columns, dim));
    }
    let wrapped = |line: &TextRow| {
        let spans = linked(line.spans.clone(), theme);
        let rows = match is_fleet_line(outcome, &line.text()) {
            true => wrap(&spans, columns),
            false => wrap_exact(&spans, columns),
        };
        if open { rows } else { fold(rows, LINE_ROWS_MAX, 2, dim) }
    };
    if open || lines.len() <= ROWS_MAX {
        return lines.iter().flat_map(wrapped).collect();
    }
    let mut out = Vec::new();
    for part in folded_lines(&lines) {
        match part {
            FoldedLine::Shown(line) => out.extend(wrapped(line)),
            FoldedLine::Hidden(hidden) => {
                let count = omitted_lines(hidden, outcome.truncated).map(|count| format!("{count} "));
                out.push(TextRow::of(&format!("… {}more lines", count.unwrap_or_default()), dim));
            }
        }
    }
    out
}

/// Returns true for a line that sysop itself adds to the output of a call on several hosts: a heading, which no host
/// can print, or a reason why hosts did not run the call.
fn is_fleet_line(outcome: &Outcome, line: &str) -> bool {
    !outcome.hosts.is_empty() && (line.starts_with("== ") || line.starts_with("not run: "))
}

/// A part of a folded output.
#[derive(Debug, PartialEq)]
enum FoldedLine<'a> {
    Shown(&'a TextRow),
    Hidden(&'a [TextRow]),
}

/// Folds lines to their first and last ones. The updates of a progress line, which a program writes over each other on
/// a terminal, count as one line: the last of them.
fn folded_lines(lines: &[TextRow]) -> Vec<FoldedLine<'_>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let updates = updates_of_one_line(&lines[at..]);
        if updates >= UPDATES_MIN {
            parts.push(at..at + updates - 1);
            at += updates - 1;
        }
        parts.push(at..at + 1);
        at += 1;
    }
    if parts.len() > ROWS_MAX {
        let last = parts.len() - (ROWS_MAX - FIRST_ROWS - 1);
        let hidden = parts[FIRST_ROWS].start..parts[last].start;
        parts.splice(FIRST_ROWS..last, [hidden]);
    }
    let part = |part: std::ops::Range<usize>| match &lines[part] {
        [line] => FoldedLine::Shown(line),
        hidden => FoldedLine::Hidden(hidden),
    };
    parts.into_iter().map(part).collect()
}

/// Returns the number of lines at the beginning that are updates of one line: the text before the percentage is the
/// same, and the percentage does not fall.
fn updates_of_one_line(lines: &[TextRow]) -> usize {
    let mut last: Option<(String, f64)> = None;
    let is_update = |line: &&TextRow| {
        let Some((text, percent)) = progress(line) else { return false };
        let follows = last.as_ref().is_none_or(|(before, least)| *before == text && *least <= percent);
        last = Some((text, percent));
        follows
    };
    lines.iter().take_while(is_update).count()
}

/// Returns the letters and digits before the percentage of a line, and the percentage; `None` for any other line. A bar
/// that grows before the percentage has neither.
fn progress(line: &TextRow) -> Option<(String, f64)> {
    let text = line.text();
    let (before, _) = text.split_once('%')?;
    let before = before.trim_end();
    let label = before.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    let percent = before.get(label.len()..)?.parse().ok()?;
    Some((label.chars().filter(|sign| sign.is_alphanumeric()).collect(), percent))
}

/// Returns the text of an output to copy: what the card shows of it when it is unfolded, without the lines about what
/// the host omitted. The second value names the part of the whole output, if something was omitted, and the key that
/// opens all of it, if it was kept.
pub(crate) fn text_to_copy(output: &ToolOutput, theme: Theme) -> (String, Option<String>) {
    let Some(outcome) = &output.outcome else {
        let lines = ansi::lines(&output.tail, theme, Style::new());
        return (lines.iter().map(TextRow::text).collect::<Vec<_>>().join("\n"), None);
    };
    let (text, _) = output_and_undo_note(outcome);
    let mut is_told = lines_told_by_hosts(text, &outcome.hosts).into_iter();
    let is_kept = |line: &&str| {
        let is_omission = outcome.truncated && omission_notice(line).is_some();
        !is_told.next().unwrap_or_default() && !is_typing_note(line) && !is_omission
    };
    let kept: Vec<&str> = text.split('\n').filter(is_kept).collect();
    let lines: Vec<TextRow> = text.split('\n').map(|line| TextRow::of(line, Style::new())).collect();
    let part = outcome.truncated.then(|| {
        let part = match omitted_lines(&lines, true) {
            Some(all) => format!("of {}", ui_text::grouped(all)),
            None => "of a truncated output".to_owned(),
        };
        if outcome.artifact.is_some() { format!("{part}; o opens all of it") } else { part }
    });
    (kept.join("\n"), part)
}

/// Returns the number of lines for which these lines of an output stand, with those that the host omitted. `None` if
/// the host does not say how many it omitted.
fn omitted_lines(lines: &[TextRow], truncated: bool) -> Option<u64> {
    let count = |line: &TextRow| match truncated {
        true => omission_notice(&line.text()).unwrap_or(Some(1)),
        false => Some(1),
    };
    lines.iter().map(count).sum()
}

/// Reads `… [310 lines, 1,240 bytes omitted; …] …` and `… [lines 7 to 90 omitted (…); …] …`. Returns `Some(None)` if
/// such a line does not say how many lines were omitted, and `None` for any other line.
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
