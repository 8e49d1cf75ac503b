//! Words for events and risk classes, most of them shared with the other front ends.

use sysop_core::event::{Decision, Origin, StopReason};
use sysop_core::id::{CallId, Timestamp};
use sysop_core::outcome::{Outcome, RunningProgram};
use sysop_core::policy::RiskClass;
use sysop_core::transcript::{
    Decider, ItemBody, NO_RULES_HERE, Proposal, ProposalState, SessionPhase, Transcript, TurnEnd,
};
use sysop_core::ui_text::{class as class_word, covers, turn_end_summary};
pub(crate) use sysop_core::ui_text::{
    control, decision_summary, duration, full_output, host_lines, host_status_parts, host_summary, is_fleet,
    is_local_host, is_new_holder, mode_help, not_run_text, omitted_output, on_place, origin_summary,
    other_readers, outcome_summary, pausing, preparing_call, tool_line, tool_lines, typed, usage,
    waiting_for,
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

/// Describes the end of a turn, unless the turn was one call, and its user has rejected it and saw that.
pub(crate) fn end_summary(end: &TurnEnd, transcript: &Transcript) -> Option<String> {
    let proposals = transcript.items().rev().filter_map(|item| {
        let ItemBody::Proposal(plan) = &item.body else { return None };
        Some(plan)
    });
    let is_rejected = |plan: &Proposal| match &plan.state {
        ProposalState::Rejected { by: Decider::Person(by), .. } => by != Decision::BY_SYSOP,
        ProposalState::Rejected { by: Decider::Policy, .. }
        | ProposalState::Waiting
        | ProposalState::Allowed { .. }
        | ProposalState::NotRun => false,
    };
    let is_direct = end.iterations == 0 && end.reason == StopReason::Cancelled;
    let is_told = is_direct && proposals.take(1).any(|plan| is_rejected(plan));
    turn_end_summary(end).filter(|_| !is_told)
}

/// Says why a call is asked about again after a user allowed it, when its risk was `before`: it was checked again, with
/// what its host told meanwhile.
pub(crate) fn asked_again(before: RiskClass, plan: &Proposal) -> String {
    let (was, is) = (class_word(before), class_word(plan.risk.class));
    if was == is {
        return "the call was checked again after your answer; please answer once more".to_owned();
    }
    format!("the risk changed since you answered: {is} (it was: {was}); please answer once more")
}

/// Returns true for the call that the turn waits for, also while a pause or a stop waits for its end. Output of other
/// calls comes from background jobs.
pub(crate) fn is_running(call: &CallId, transcript: &Transcript) -> bool {
    transcript.still_running().as_ref() == Some(call)
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

/// Says how to answer the program that a call left waiting in the terminal, with the last line of its output. `None` if
/// no program waits.
pub(crate) fn program_hint(outcome: &Outcome) -> Option<String> {
    let (output, program) = outcome.split_program_note()?;
    if program != RunningProgram::WaitsForInput {
        return None;
    }
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
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
    named_prompts("queued", transcript.queued_prompts())
}

/// Names the first of some messages, and counts the others: `queued: count the files (and 1 more)`. `None` if there are
/// none.
pub(crate) fn named_prompts<'a>(
    what: &str,
    mut prompts: impl ExactSizeIterator<Item = &'a str>,
) -> Option<String> {
    let first = beginning(prompts.next()?);
    let more = match prompts.len() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("{what}: {first}{more}"))
}

/// Says that a message waits for the connection to the server: `not delivered yet: count the files`.
pub(crate) fn undelivered(prompt: &str) -> String {
    format!("not delivered yet: {}", beginning(prompt))
}

/// Returns the beginning of the first line of a message, at most `QUEUED_CHARS_MAX` characters of it.
fn beginning(prompt: &str) -> String {
    let line = safe(prompt.lines().next().unwrap_or_default());
    let short: String = line.chars().take(QUEUED_CHARS_MAX).collect();
    let dots = if short.len() < line.len() { "…" } else { "" };
    format!("{short}{dots}")
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
    use sysop_core::id::{CallId, Seq, TurnId};
    use sysop_core::message::{Arguments, ToolCall};
    use sysop_core::outcome::{Status, WAITS_FOR_ANSWER};
    use sysop_core::policy::Grant;
    use sysop_core::transcript::ItemId;

    use super::*;

    #[test]
    fn a_program_that_waits_is_named_by_its_last_line() {
        let output = format!("Name? \n[{WAITS_FOR_ANSWER}]\n[no undo: timed out after 15 s]");
        let expected = "a program waits for input: `Name?`; answer it, e.g. with /keys y Enter";
        assert_eq!(program_hint(&Outcome::new(Status::Unknown, output)).as_deref(), Some(expected));
    }

    #[test]
    fn a_rejected_call_of_the_user_is_not_called_stopped_too() {
        let (turn, id) = (TurnId(1), CallId::new("c"));
        let arguments = Arguments::Object(serde_json::Map::new());
        let call = ToolCall { id: id.clone(), wire_id: None, name: "undo".into(), arguments };
        let command = "undo call 1".to_owned();
        let began =
            |origin| Event::TurnStarted { turn, prompt: String::new(), origin, images: Vec::new(), by: None };
        let asked = Event::ApprovalAsked {
            call,
            command: command.clone(),
            reason: String::new(),
            risk: Default::default(),
            covers: Grant::Exact { command },
            preview: Vec::new(),
            guarded: None,
            scope: None,
            terms: Default::default(),
        };
        let rejected = |by: &str| {
            let (call, decision) = (id.clone(), Decision::Reject { reason: String::new() });
            [
                Event::Decided { call, decision, by: by.to_owned() },
                Event::ToolFinished { call: id.clone(), outcome: Outcome::new(Status::Rejected, "") },
            ]
        };
        let ended = Event::TurnEnded { turn, reason: StopReason::Cancelled, error: None, active_ms: 0 };
        let summary = |events: Vec<Event>| {
            let mut transcript = Transcript::new();
            for (seq, event) in (1..).zip(events) {
                let logged = Logged { seq: Seq(seq), at: Timestamp(0), event };
                transcript.apply(&Update::Logged(Arc::new(logged)));
            }
            let Some(ItemBody::End(end)) = transcript.item(&ItemId::End(turn)).map(|item| &item.body) else {
                panic!("the turn has ended")
            };
            end_summary(end, &transcript)
        };
        let whole = |by| {
            let begin = [began(Origin::User), asked.clone()].into_iter();
            summary(begin.chain(rejected(by)).chain([ended.clone()]).collect())
        };
        assert_eq!(whole("chat"), None);
        assert_eq!(whole(Decision::BY_SYSOP).as_deref(), Some("stopped"), "nobody has rejected it");
        assert_eq!(summary(vec![began(Origin::User), ended]).as_deref(), Some("stopped"));
    }

    #[test]
    fn a_message_that_waits_for_the_connection_is_cut() {
        assert_eq!(undelivered("count\nthe files"), "not delivered yet: count");
        let cut = format!("not delivered yet: {}…", "x".repeat(QUEUED_CHARS_MAX));
        assert_eq!(undelivered(&"x".repeat(10_000)), cut);
    }

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
