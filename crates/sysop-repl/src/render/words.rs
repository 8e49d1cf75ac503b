//! The words for what happened, with their inks.

use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::RiskClass;
use sysop_core::ui_text::{class as class_word, status_sign};
pub(crate) use sysop_core::ui_text::{
    confusables, control, covers, decision_summary, duration, host_groups, host_lines, host_status_parts,
    host_summary, is_fleet, is_local_host, is_new_holder, mode_help, outcome_summary, place, tool_line,
    turn_end_summary, typed, usage, waiting_for,
};

use super::{Ink, TextRow, TextSpan};

/// How a call ended, in one row: status, exit code, duration, what was left out.
pub(crate) fn outcome_row(outcome: &Outcome) -> TextRow {
    let text = format!("{} {}", status_sign(outcome.status), outcome_summary(outcome));
    vec![TextSpan::new(&text, status_ink(outcome.status))]
}

/// How an end is colored.
pub(crate) fn status_ink(status: Status) -> Ink {
    match status {
        Status::Ok => Ink::Good,
        Status::Failed | Status::Timeout => Ink::Bad,
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => Ink::Warn,
    }
}

/// The word for a class of risk.
pub(crate) fn class(class: RiskClass) -> (&'static str, Ink) {
    let ink = match class {
        RiskClass::ReadOnly => Ink::Good,
        RiskClass::Changes => Ink::Plain,
        RiskClass::Opaque => Ink::Warn,
        RiskClass::Dangerous => Ink::Bad,
    };
    (class_word(class), ink)
}
