//! The words for what happened, with their inks.

use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::Class;
use sysop_core::words::{class as class_word, status_sign};
pub(crate) use sysop_core::words::{
    control, covers, decision_words, duration, end_words, host_groups, host_lines, is_fleet, is_here,
    is_news, look_alikes, mode_now, outcome_words, place, place_parts, short_place, tool_line, typed, usage,
    waiting_for,
};

use super::{Ink, Row, Span};

/// How a call ended, in one row: status, exit code, duration, what was left out.
pub(crate) fn outcome_row(outcome: &Outcome) -> Row {
    let text = format!("{} {}", status_sign(outcome.status), outcome_words(outcome));
    vec![Span::new(&text, status_ink(outcome.status))]
}

/// How an end is coloured.
pub(crate) fn status_ink(status: Status) -> Ink {
    match status {
        Status::Ok => Ink::Good,
        Status::Failed | Status::Timeout => Ink::Bad,
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => Ink::Warn,
    }
}

/// The word for a class of risk.
pub(crate) fn class(class: Class) -> (&'static str, Ink) {
    let ink = match class {
        Class::ReadOnly => Ink::Good,
        Class::Changes => Ink::Plain,
        Class::Opaque => Ink::Warn,
        Class::Dangerous => Ink::Bad,
    };
    (class_word(class), ink)
}
