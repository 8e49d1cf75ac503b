//! Words for events and risk classes. Most of them are shared with the other front ends.

use sysop_core::policy::RiskClass;
use sysop_core::ui_text::class as class_word;
pub(crate) use sysop_core::ui_text::{
    control, covers, decision_summary, duration, host_lines, host_status_parts, host_summary, is_fleet,
    is_local_host, is_new_holder, mode_help, other_readers, outcome_summary, place, tool_line,
    turn_end_summary, typed, usage, waiting_for,
};
use sysop_term::StyleRole;

pub(crate) fn class(class: RiskClass) -> (&'static str, StyleRole) {
    let role = match class {
        RiskClass::ReadOnly => StyleRole::Good,
        RiskClass::ReadsRemote | RiskClass::Changes => StyleRole::Text,
        RiskClass::Opaque => StyleRole::Warn,
        RiskClass::ReadsSecret | RiskClass::Dangerous | RiskClass::Lockout => StyleRole::Bad,
    };
    (class_word(class), role)
}
