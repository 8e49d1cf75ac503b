//! The words for what happened: one place, so that every line-oriented face says the same.

use sysop_core::event::{PauseReason, StopReason};
use sysop_core::message::{ToolCall, Usage};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{Class, Grant};
use sysop_core::transcript::{Phase, TurnEnd, short_form};

use super::{Ink, Row, Span, safe};

/// A call in the plain form: `[Tool: read_file("src/main.py")]`.
pub(crate) fn tool_line(call: &ToolCall) -> String {
    safe(&format!("[Tool: {}]", short_form(call)))
}

/// A duration as a person says it.
pub(crate) fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds % 60_000 / 1_000),
    }
}

/// A number of tokens in few characters.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{} k", count / 1_000),
        _ => format!("{}.{} M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// A turn's tokens; nothing where the server counted none.
pub(crate) fn usage(usage: Usage) -> Option<String> {
    (usage.input_tokens + usage.output_tokens > 0)
        .then(|| format!("{} in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)))
}

/// How a call ended, in one row: status, exit code, duration, what was left out.
pub(crate) fn outcome_row(outcome: &Outcome) -> Row {
    let (sign, ink) = match outcome.status {
        Status::Ok => ("✓", Ink::Good),
        Status::Failed | Status::Timeout => ("✗", Ink::Bad),
        Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => ("■", Ink::Warn),
    };
    vec![Span::new(&format!("{sign} {}", outcome_words(outcome)), ink)]
}

/// How a call ended, in words.
pub(crate) fn outcome_words(outcome: &Outcome) -> String {
    let mut words = match outcome.status {
        Status::Timeout => "timed out and was stopped".to_owned(),
        Status::Unknown => "unknown how it ended".to_owned(),
        status @ (Status::Ok
        | Status::Failed
        | Status::Cancelled
        | Status::Interrupted
        | Status::Rejected) => status.as_str().to_owned(),
    };
    if let Some(code) = outcome.exit_code {
        words.push_str(&format!(", exit code {code}"));
    }
    if outcome.status != Status::Rejected {
        words.push_str(&format!(", {}", duration(outcome.duration_ms)));
    }
    if outcome.truncated {
        words.push_str(", shortened for the model");
    }
    if let Some(artefact) = &outcome.artefact {
        words.push_str(&format!(", whole output kept as {}", safe(artefact)));
    }
    words
}

/// Why a turn ended, where there is something to say about it.
pub(crate) fn end_words(end: &TurnEnd) -> Option<String> {
    let error = end.error.as_deref().map(safe);
    match end.reason {
        StopReason::EndTurn => error,
        StopReason::MaxIterations => Some(error.unwrap_or_else(|| {
            format!("stopped after {} model calls; say `go on`, or raise max_iterations", end.iterations)
        })),
        StopReason::Cancelled => Some("stopped".to_owned()),
        StopReason::Failed => Some(error.unwrap_or_else(|| "it failed".to_owned())),
        StopReason::Paused => Some("given up while it was paused".to_owned()),
    }
}

/// What the session waits for, for a status line; none when it waits for a prompt.
pub(crate) fn waiting_for(phase: &Phase, model: &str, what: &str) -> Option<String> {
    match phase {
        Phase::Idle => None,
        Phase::Thinking { .. } => Some(format!("waiting for {model}")),
        Phase::Running { .. } => Some(format!("running {what}")),
        Phase::Waiting { .. } => Some("waiting for an answer about the plan".to_owned()),
        Phase::Stopping => Some("stopping".to_owned()),
        Phase::Paused { reason } => Some(
            match reason {
                PauseReason::Asked => "paused",
                PauseReason::Loop => "paused by the loop guard",
                PauseReason::Interrupted => "interrupted",
            }
            .to_owned(),
        ),
    }
}

/// What a grant covers, in words.
pub(crate) fn covers(grant: &Grant) -> String {
    match grant {
        Grant::Exact { .. } => "exactly this command".to_owned(),
        Grant::Program { program, subcommand: Some(subcommand) } => {
            safe(&format!("any plain `{program} {subcommand} …`"))
        }
        Grant::Program { program, subcommand: None } => safe(&format!("any plain `{program} …`")),
        Grant::Tool { name } => safe(&format!("any call of {name}")),
    }
}

/// The word for a class of risk.
pub(crate) fn class(class: Class) -> (&'static str, Ink) {
    match class {
        Class::ReadOnly => ("looks only", Ink::Good),
        Class::Changes => ("changes something", Ink::Plain),
        Class::Opaque => ("what it does cannot be read off it", Ink::Warn),
        Class::Dangerous => ("dangerous", Ink::Bad),
    }
}
