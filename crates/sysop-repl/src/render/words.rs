//! Words for events and risk classes, most of them shared with the other front ends.

use sysop_core::id::Timestamp;
use sysop_core::outcome::{Outcome, RunningProgram};
use sysop_core::policy::RiskClass;
use sysop_core::transcript::{NO_RULES_HERE, Proposal, Transcript};
use sysop_core::ui_text::{class as class_word, covers};
pub(crate) use sysop_core::ui_text::{
    control, decision_summary, duration, full_output, host_lines, host_status_parts, host_summary, is_fleet,
    is_local_host, is_new_holder, mode_help, not_run_text, omitted_output, origin_summary, other_readers,
    outcome_summary, pausing, place, tool_line, turn_end_summary, typed, usage, waiting_for,
};
use sysop_core::undo::UNDO_TOOL;
use sysop_term::StyleRole;

use super::safe;

/// Describes what the answer "allow for this session" covers. Empty if the call can be allowed only once, or is an undo:
/// each undo is about another change.
pub(crate) fn session_scope(plan: &Proposal) -> String {
    let grant = plan.session_grant().filter(|_| plan.call.name != UNDO_TOOL);
    grant.map(covers).unwrap_or_default()
}

/// Maximum length of a program's last line in a sentence, in characters.
const PROGRAM_LINE_CHARS_MAX: usize = 80;

/// Says how to answer the program that a call left waiting in the terminal, with the last line of its output. `None` if no
/// program waits.
pub(crate) fn program_hint(outcome: &Outcome) -> Option<String> {
    if outcome.running_program() != Some(RunningProgram::WaitsForInput) {
        return None;
    }
    // The newest line is the note for the model.
    let line = outcome.output.lines().rev().skip(1).find(|line| !line.trim().is_empty());
    let line = line.map(|line| {
        let line: String = safe(line.trim()).chars().take(PROGRAM_LINE_CHARS_MAX).collect();
        format!(": `{line}`")
    });
    Some(format!("a program waits for input{}; answer it, e.g. with /keys y Enter", line.unwrap_or_default()))
}

/// Says why the answer "always" is not offered for a proposal.
pub(crate) fn no_rule_reason(plan: &Proposal, transcript: &Transcript) -> &'static str {
    transcript.session_info().map_or(NO_RULES_HERE, |info| plan.no_rule_reason(info))
}

pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    Timestamp(i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn class(class: RiskClass) -> (&'static str, StyleRole) {
    let role = match class {
        RiskClass::ReadOnly => StyleRole::Good,
        RiskClass::ReadsRemote | RiskClass::Changes => StyleRole::Text,
        RiskClass::Opaque => StyleRole::Warn,
        RiskClass::ReadsSecret | RiskClass::Dangerous | RiskClass::Lockout => StyleRole::Bad,
    };
    (class_word(class), role)
}
