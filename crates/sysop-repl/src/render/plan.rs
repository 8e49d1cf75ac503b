//! A proposal in a front end without a full screen. Everything important is also said in words, because styles may be
//! missing.

use sysop_core::policy::RiskClass;
use sysop_core::transcript::Proposal;
use sysop_term::TextRow;
use sysop_term::plan::{effect_rows, guard_rows, preview_rows, reason_rows};

use super::{StyleRole, THEME, row, span, words, wrap};

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProposalLocation<'a> {
    pub(crate) host: &'a str,
    pub(crate) root: &'a str,
}

/// Returns everything that the user must know before answering: the reason, location, command, risk and the scope of
/// the session grant.
pub(crate) fn rows(plan: &Proposal, place: ProposalLocation<'_>, columns: usize) -> Vec<TextRow> {
    let mut out = reason_rows(plan, columns, THEME);
    let several = words::is_fleet(place.host);
    let text = format!("on {} in {}", words::place(place.host), place.root);
    // An answer that starts a command on many hosts must stand out.
    let role = if several { StyleRole::Strong } else { StyleRole::Dim };
    out.extend(wrap(&row(&text, role), columns, 2));
    out.push(TextRow::default());
    out.extend(preview_rows(plan, &plan.command, &plan.risk.findings, THEME, columns));
    out.push(TextRow::default());
    out.extend(effect_rows(&plan.preview, columns, THEME));
    out.extend(risk_rows(plan, columns));
    out.extend(guard_rows(plan, columns, THEME));
    if let Some(grant) = plan.session_grant() {
        let text = format!("allow for session: {}", words::covers(grant));
        out.extend(wrap(&row(&text, StyleRole::Dim), columns, 2));
    }
    out
}

/// Returns the risk class, and each finding with the part of the command that caused it.
fn risk_rows(plan: &Proposal, columns: usize) -> Vec<TextRow> {
    let (word, role) = words::class(plan.risk.class);
    let mut out = wrap(&row(&format!("risk: {word}"), role), columns, 2);
    for finding in plan.risk.findings.iter().filter(|finding| finding.class >= RiskClass::Opaque) {
        let start = plan.command.floor_char_boundary(finding.start.min(plan.command.len()));
        let end = plan.command.floor_char_boundary(finding.end.clamp(start, plan.command.len()));
        let mut text = row("! ", role);
        text.push(span(&plan.command[start..end], StyleRole::Marked));
        // A finding about the whole call marks no part of it.
        let separator = if start == end { "" } else { " — " };
        text.push(span(&format!("{separator}{}", finding.why), role));
        out.extend(wrap(&text, columns, 2));
    }
    out
}
