//! A tool call in the history, folded to a few rows.

use sysop_core::message::Arguments;
use sysop_core::transcript::{Proposal, ProposalState, proposal_summary};
use sysop_core::ui_text;
use sysop_core::undo::hosts_of_call;
use sysop_term::cells::{Span, TextRow, hang, wrap, wrap_exact};
use sysop_term::diff::FileEdit;
use sysop_term::plan::{call_rows, command_rows};
use sysop_term::theme::{StyleRole, Theme};

use super::item::{ToolLocation, fold};

/// Maximum number of rows of a command; a longer command is folded.
const COMMAND_ROWS_MAX: usize = 8;
/// Maximum number of rows of an edit; a longer edit is folded.
const EDIT_ROWS_MAX: usize = 16;

/// Returns the rows of a call. A long command or edit is folded unless `open` is true.
pub(super) fn history_rows(
    plan: &Proposal,
    place: ToolLocation<'_>,
    columns: usize,
    theme: Theme,
    open: bool,
) -> Vec<TextRow> {
    let dim = theme.style(StyleRole::Dim);
    let mut out = Vec::new();
    let limit = if open { usize::MAX } else { COMMAND_ROWS_MAX };
    if plan.call.text_argument("command").is_some() {
        let rows = command_rows(&plan.command, &plan.risk.findings, columns, theme);
        out.extend(fold(rows, limit, limit / 2, dim));
    } else if FileEdit::of(&plan.call).is_some() {
        let limit = if open { usize::MAX } else { EDIT_ROWS_MAX };
        let rows = call_rows(plan, columns.saturating_sub(2).max(1), theme);
        out.extend(hang(fold(rows, limit, limit / 2, dim), &Span::new("→ ", dim), &Span::new("  ", dim)));
    } else if open {
        let rows = call_rows(plan, columns.saturating_sub(2).max(1), theme);
        out.extend(hang(rows, &Span::new("→ ", dim), &Span::new("  ", dim)));
    } else {
        let spans = [Span::new(&proposal_summary(plan), theme.style(StyleRole::Code))];
        let rows = wrap_exact(&spans, columns.saturating_sub(2).max(1));
        out.extend(hang(fold(rows, 3, 2, dim), &Span::new("→ ", dim), &Span::new("  ", dim)));
    }
    let room = columns.saturating_sub(2).max(1);
    let mut signed = |sign: Span, text: &str, role: StyleRole| {
        let rows = wrap(&[Span::new(text, theme.style(role))], room);
        out.extend(hang(fold(rows, limit, 2, dim), &sign, &Span::new("  ", dim)));
    };
    let mut note = |text: &str, role: StyleRole| signed(Span::new("· ", dim), text, role);
    if let Some(proposed) = &plan.edited_from {
        // As in the command's rows.
        note(&format!("proposed as: {}", proposed.replace('\t', "\\t")), StyleRole::Dim);
    }
    // A call whose arguments do not parse is nowhere.
    let has_arguments = matches!(plan.call.arguments, Arguments::Object(_)) || open;
    if has_arguments && !ui_text::is_local_host(place.host) && !place.host.is_empty() {
        let host = hosts_of_call(&plan.call, place.host);
        note(&ui_text::on_place(&host), StyleRole::Dim);
    }
    if let Some(text) = ui_text::origin_summary(plan) {
        note(&text, StyleRole::Dim);
    }
    if !plan.reason.trim().is_empty() {
        note(&plan.reason.trim().replace('\n', " "), StyleRole::Dim);
    }
    match &plan.state {
        ProposalState::NotRun => {}
        ProposalState::Waiting => note("approval required", StyleRole::Warn),
        ProposalState::Allowed { .. } => {
            // The outcome follows, so it goes without saying that the user allowed the call.
            let text = ui_text::decision_summary(plan, crate::BY).filter(|text| text != "allowed");
            if let Some(text) = text {
                note(&text, StyleRole::Dim);
            }
        }
        ProposalState::Rejected { .. } => {
            if let Some(text) = ui_text::decision_summary(plan, crate::BY) {
                signed(Span::new("■ ", theme.style(StyleRole::Warn)), &text, StyleRole::Warn);
            }
        }
    }
    out
}
