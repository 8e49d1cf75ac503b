//! A proposal in a front end without a full screen. Everything important is stated as text, because the terminal may
//! not show styles.

use sysop_core::policy::RiskClass;
use sysop_core::transcript::{Proposal, SessionInfo, Transcript};
use sysop_core::undo::hosts_of_call;
use sysop_term::TextRow;
use sysop_term::plan::{
    canary_rows, effect_rows, guard_rows, missed_host_rows, origin_rows, preview_rows, reason_rows,
    terms_rows, unshown_preview,
};

use super::{StyleRole, THEME, row, span, words, wrap};

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProposalLocation<'a> {
    pub(crate) host: &'a str,
    pub(crate) folder: &'a str,
}

/// Returns the title of a proposal, with its number among the calls of the reply if there are several.
pub(crate) fn title(plan: &Proposal, transcript: &Transcript) -> String {
    match transcript.call_number(&plan.call.id) {
        Some((number, count)) if count > 1 => format!("PLAN {number} of {count}"),
        Some(_) | None => "PLAN".to_owned(),
    }
}

/// Returns everything that the user must know before answering: the reason, location, command, risk and the
/// scope of the session grant.
pub(crate) fn rows(
    plan: &Proposal,
    place: ProposalLocation<'_>,
    info: Option<&SessionInfo>,
    columns: usize,
) -> Vec<TextRow> {
    let mut out = origin_rows(plan, columns, THEME);
    out.extend(reason_rows(plan, columns, THEME));
    let host = hosts_of_call(&plan.call, place.host);
    let several = words::is_fleet(&host);
    let text = format!("{} in {}", words::on_place(&host), place.folder);
    // An answer that starts a command on several hosts must stand out.
    let role = if several { StyleRole::Strong } else { StyleRole::Dim };
    out.extend(wrap(&row(&text, role), columns, 2));
    if let Some(info) = info {
        if several {
            out.extend(missed_host_rows(plan, info, columns, THEME));
        }
        out.extend(canary_rows(plan, info, columns, THEME));
    }
    if is_edited(plan) {
        out.push(row("edited command:", StyleRole::Strong));
    }
    out.push(TextRow::default());
    out.extend(preview_rows(plan, &plan.command, &plan.risk.findings, THEME, columns));
    out.push(TextRow::default());
    out.extend(effect_rows(unshown_preview(plan), columns, THEME));
    out.extend(risk_rows(plan, columns));
    out.extend(guard_rows(plan, columns, THEME));
    out.extend(terms_rows(plan, Some(words::now()), columns, THEME));
    let scope = words::session_scope(plan);
    if !scope.is_empty() {
        let text = format!("allow for session: {scope}");
        out.extend(wrap(&row(&text, StyleRole::Dim), columns, 2));
    }
    out
}

/// Returns true if a user has edited the command that the proposal shows.
fn is_edited(plan: &Proposal) -> bool {
    plan.previewed_edit.as_ref().is_some_and(|(edited, _)| *edited == plan.command)
}

/// Maximum number of rows of a file edit that is shown as it runs.
const EDIT_ROWS_MAX: usize = 20;

/// Folds the rows of a file edit. `number` is the number of its call.
pub(crate) fn fold_edit(mut rows: Vec<TextRow>, number: u32, columns: usize) -> Vec<TextRow> {
    let omitted = rows.len().saturating_sub(EDIT_ROWS_MAX);
    // One row is not omitted: the note would take as much.
    if omitted > 1 {
        rows.truncate(EDIT_ROWS_MAX);
        let note = format!("… {omitted} more rows (/output {number})");
        rows.extend(wrap(&row(&note, StyleRole::Warn), columns, 2));
    }
    rows
}

/// Returns the risk class, and each finding with the part of the command that caused it. Equal findings share a row.
fn risk_rows(plan: &Proposal, columns: usize) -> Vec<TextRow> {
    let (word, role) = words::class(plan.risk.class);
    let mut out = wrap(&row(&format!("risk: {word}"), role), columns, 2);
    let mut counted: Vec<(&str, &str, usize)> = Vec::new();
    for finding in plan.risk.findings.iter().filter(|finding| finding.class >= RiskClass::Opaque) {
        let (start, end) = whole_words(&plan.command, finding.start, finding.end);
        // A host's silence is not about a part of the command.
        let part = if finding.lacks_answer() { "" } else { &plan.command[start..end] };
        let why = finding.why.as_ref();
        match counted.iter_mut().find(|(other, reason, _)| (*other, *reason) == (part, why)) {
            Some((_, _, count)) => *count += 1,
            None => counted.push((part, why, 1)),
        }
    }
    for (part, why, count) in counted {
        let mut text = row("! ", role);
        text.push(span(part, StyleRole::Marked));
        // A finding about the whole call marks no part of the command.
        let separator = if part.is_empty() { "" } else { " — " };
        let times = if count > 1 && !part.is_empty() { format!(" ×{count}") } else { String::new() };
        text.push(span(&format!("{separator}{why}{times}"), role));
        out.extend(wrap(&text, columns, 2));
    }
    out
}

/// Extends a range of a command to whole words, so that `rm -rf /` is not quoted from `rm -rf /opt/app`. An empty range
/// stays empty.
fn whole_words(command: &str, start: usize, end: usize) -> (usize, usize) {
    let start = command.floor_char_boundary(start.min(command.len()));
    let end = command.floor_char_boundary(end.clamp(start, command.len()));
    if start == end {
        return (start, end);
    }
    let before = command[..start]
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + command[at..].chars().next().map_or(0, char::len_utf8));
    let after = command[end..].find(char::is_whitespace).map_or(command.len(), |at| end + at);
    // A range that ends in white space already ends at a word boundary.
    let after = if command[..end].ends_with(char::is_whitespace) { end } else { after };
    (before, after)
}
