//! Words for events and risk classes, most of them shared with the other front ends.

use sysop_core::event::{Origin, StopReason};
use sysop_core::id::Timestamp;
use sysop_core::outcome::{Outcome, RunningProgram};
use sysop_core::policy::RiskClass;
use sysop_core::transcript::{
    Decider, NO_RULES_HERE, Proposal, ProposalState, SessionPhase, Transcript, TurnEnd,
};
use sysop_core::ui_text::{class as class_word, covers};
pub(crate) use sysop_core::ui_text::{
    control, decision_summary, duration, full_output, host_lines, host_status_parts, host_summary, is_fleet,
    is_local_host, is_new_holder, mode_help, not_run_text, omitted_output, origin_summary, other_readers,
    outcome_summary, pausing, place, preparing_call, tool_line, turn_end_summary, typed, usage, waiting_for,
};
use sysop_term::StyleRole;

use super::safe;

/// Describes what the answer "allow for this session" covers. Empty if the call can be allowed only once.
pub(crate) fn session_scope(plan: &Proposal) -> String {
    plan.session_grant().map(covers).unwrap_or_default()
}

/// Names the hosts on which the turn was not done although it has ended by itself: `✗ not done on web1`.
pub(crate) fn missed_hosts(end: &TurnEnd, transcript: &Transcript) -> Option<String> {
    let missed = transcript.missed_hosts().filter(|_| end.reason == StopReason::EndTurn)?;
    Some(format!("✗ {}", safe(&missed)))
}

/// Says that a grant of the session allowed a call which ran without a question. `None` for other calls.
pub(crate) fn granted(plan: &Proposal) -> Option<String> {
    let by_policy = matches!(plan.state, ProposalState::Allowed { by: Decider::Policy, .. });
    decision_summary(plan, "").filter(|_| by_policy)
}

/// Maximum length of the running command in the words for a wait, in characters.
const WAIT_COMMAND_CHARS_MAX: usize = 40;

/// Returns words for what the session waits for, on one line.
pub(crate) fn wait(transcript: &Transcript) -> Option<String> {
    let model = transcript.session_info().map(|facts| facts.model.to_string()).unwrap_or_default();
    preparing_call(transcript)
        .or_else(|| waiting_for(transcript.phase(), &safe(&model), &running_words(transcript)))
}

fn running_words(transcript: &Transcript) -> String {
    let SessionPhase::Running { call } = transcript.phase() else {
        return String::new();
    };
    let command = transcript.plan(call).map_or("", |plan| &plan.command);
    let line = command.lines().next().unwrap_or_default();
    let short: String = line.chars().take(WAIT_COMMAND_CHARS_MAX).collect();
    let dots = if short.len() < command.len() { "…" } else { "" };
    safe(&format!("{short}{dots}"))
}

/// Returns the lines that tell the effect of a call after its question was drawn.
pub(crate) fn late_effect(preview: &[String]) -> Vec<String> {
    let summary = sysop_core::preview::summary(preview);
    let known: Vec<_> = summary.iter().map(|line| format!("→ {}", safe(line))).collect();
    if known.is_empty() { vec!["→ effect: nothing found".to_owned()] } else { known }
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

/// Maximum length of a queued message in a sentence, in characters.
const QUEUED_CHARS_MAX: usize = 60;

/// Names the messages that are queued behind the current turn: `queued: count the files (and 1 more)`. `None` if there
/// are none.
pub(crate) fn queued_messages(transcript: &Transcript) -> Option<String> {
    let mut prompts = transcript.queued_prompts();
    let line = safe(prompts.next()?.lines().next().unwrap_or_default());
    let short: String = line.chars().take(QUEUED_CHARS_MAX).collect();
    let dots = if short.len() < line.len() { "…" } else { "" };
    let more = match prompts.len() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("queued: {short}{dots}{more}"))
}

/// Returns true if the start of the call, which the log has even if the call cannot run, is shown with its command.
pub(crate) fn is_named_at_start(plan: &Proposal) -> bool {
    matches!(plan.origin, Origin::Routine | Origin::Plan | Origin::McpClient)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sysop_core::event::{Event, Logged, Update};
    use sysop_core::id::Seq;

    use super::*;

    #[test]
    fn queued_messages_are_named_in_one_line() {
        let mut transcript = Transcript::new();
        assert_eq!(queued_messages(&transcript), None);
        for (seq, text) in (1..).zip(["count the files\nof all hosts", "then stop"]) {
            let event = Event::PromptQueued { text: text.into(), images: Vec::new(), by: None };
            transcript.apply(&Update::Logged(Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event })));
        }
        assert_eq!(queued_messages(&transcript).as_deref(), Some("queued: count the files (and 1 more)"));
    }
}
