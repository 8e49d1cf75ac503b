//! Report of a session for a ticket: what was asked, done, changed and undone, by whom and where.
//!
//! The text comes from models, files and commands. Secrets in known formats are redacted, and everything is
//! neutralized; the writers escape it for their format.

mod html;
mod markdown;
#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::tz::TimeZone;
use sysop_core::event::{Origin, StopReason};
use sysop_core::guard::GuardEnd;
use sysop_core::host_names::fold_names;
use sysop_core::id::{SessionId, Timestamp};
use sysop_core::outcome::{ChangeKind, Outcome, Reversibility, Status};
use sysop_core::redact::shapes::{redact_command_shapes, redact_shapes};
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::transcript::LOCAL_FRONT_ENDS;
use sysop_core::ui_text::{duration, host_groups, origin_phrase, place};
use sysop_core::undo::{ChangeGroup, grouped};
use sysop_server::auth::START_TOKEN;

use super::record::{
    RecordedCall, RecordedDecision, RecordedGuard, RecordedTurn, SessionRecord, UNANSWERED,
    is_unanswered_undo,
};

/// Format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportFormat {
    /// Markdown
    #[default]
    #[value(alias = "markdown")]
    Md,
    /// One self-contained HTML file
    Html,
}

/// Content of a report. All text has been neutralized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SessionReport {
    title: String,
    facts: Vec<(&'static str, String)>,
    prompts: Vec<String>,
    /// The model's last text of each turn.
    answers: Vec<String>,
    done: Vec<ReportedCall>,
    not_run: Vec<ReportedCall>,
    /// Changes, each with the number of its call.
    changes: Vec<String>,
    undone: Vec<String>,
    /// File names of the recordings of the session's terminal.
    recordings: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ReportedCall {
    number: usize,
    /// The command; may have several lines.
    text: String,
    /// Facts about the call, on one line.
    facts: String,
    /// The reason, and outcomes on several hosts with one line per group.
    notes: Vec<String>,
    /// True if the call succeeded.
    is_ok: bool,
}

/// Returns a session's report. `artifacts` is the directory with terminal recordings.
pub(crate) fn report(
    id: &SessionId,
    record: &SessionRecord,
    artifacts: &Path,
    zone: &TimeZone,
    format: ReportFormat,
) -> String {
    let report = SessionReport::new(id, record, artifacts, zone);
    match format {
        ReportFormat::Md => markdown::write(&report),
        ReportFormat::Html => html::write(&report),
    }
}

impl SessionReport {
    fn new(id: &SessionId, record: &SessionRecord, artifacts: &Path, zone: &TimeZone) -> Self {
        let asked: Vec<&RecordedTurn> =
            record.turns.iter().filter(|turn| !turn.prompt.trim().is_empty()).collect();
        // A single request needs no time to be told from others.
        let time_of = |turn: &RecordedTurn| match asked.len() {
            ..=1 => String::new(),
            _ => format!("{}\n", clock_time(turn.at, zone)),
        };
        let prompts: Vec<String> = asked
            .iter()
            .map(|turn| {
                let end = match (&turn.error, turn.end) {
                    (Some(error), _) => format!("\n({error})"),
                    (None, Some(StopReason::EndTurn) | None) => String::new(),
                    (None, Some(StopReason::Cancelled)) => "\n(canceled)".to_owned(),
                    (None, Some(reason)) => format!("\n({})", reason.as_str().replace('_', " ")),
                };
                let by = turn.by.as_ref().filter(|_| record.participants.are_several());
                let by = by.map_or_else(String::new, |by| format!("{}:\n", line(by)));
                prose(&format!("{}{by}{}{end}", time_of(turn), turn.prompt.trim()))
            })
            .collect();
        let answered = record.turns.iter().filter(|turn| !turn.answer.is_empty());
        let answers = answered.map(|turn| prose(&format!("{}{}", time_of(turn), turn.answer)));
        let title = match asked.first().and_then(|turn| turn.prompt.trim().lines().next()) {
            Some(prompt) => prose(prompt),
            None => title_without_prompt(record),
        };
        let mut report = Self {
            title: title.chars().take(120).collect(),
            facts: facts(id, record, zone),
            recordings: recordings(id, artifacts),
            answers: answers.collect(),
            ..Self::default()
        };
        for call in &record.calls {
            let undone = record.undos.iter().find(|undo| undo.call == Some(call.number)).map(|undo| undo.how);
            let mut reported = ReportedCall::new(call, undone, record.opened_by.is_none(), zone);
            if record.guards.iter().any(|guard| guard.call == Some(call.number)) {
                reported.notes.extend(rollback(call));
            }
            if call.has_started {
                report.done.push(reported);
            } else if !is_answered_by_session(call) {
                report.not_run.push(reported);
            }
            let root = record.spec.as_ref().map(|spec| spec.root.as_str());
            let changes = call.outcome.iter().flat_map(|outcome| changes(call.number, outcome, root));
            report.changes.extend(changes);
        }
        report.changes.extend(guards(record));
        report.undone = record
            .undos
            .iter()
            .map(|undo| {
                let how = match undo.how {
                    Reversibility::Exact => "exactly",
                    Reversibility::Partly => "partly",
                    Reversibility::None => "not possible",
                };
                let by = people(&undo.by, record.opened_by.is_none()).join(" and ");
                line(&format!("{}undone {how}, by {by}", of_call(undo.call)))
            })
            .collect();
        report.prompts = prompts;
        report
    }
}

/// Returns a line for the guards of each call that ended alike.
fn guards(record: &SessionRecord) -> Vec<String> {
    let mut groups: Vec<(&RecordedGuard, Vec<&str>)> = Vec::new();
    for guard in &record.guards {
        match groups.iter_mut().find(|(first, _)| first.call == guard.call && first.end == guard.end) {
            Some((_, hosts)) => hosts.push(&guard.host),
            None => groups.push((guard, vec![&guard.host])),
        }
    }
    let text = |(guard, mut hosts): (&RecordedGuard, Vec<&str>)| {
        hosts.sort_unstable();
        let is_one = hosts.len() == 1;
        let end = match guard.end {
            Some(GuardEnd::Confirmed) => "confirmed, so the change stays",
            Some(GuardEnd::Fired) => "fired, so the change was rolled back",
            Some(GuardEnd::Unknown) => "its end is unknown",
            None => "its end is not in the log",
        };
        let guards = if is_one { "lockout guard" } else { "lockout guards" };
        line(&format!("{}{guards} on {}: {end}", of_call(guard.call), on_hosts(&hosts)))
    };
    groups.into_iter().map(text).collect()
}

/// Returns the name of the host, or the number and the names of several.
fn on_hosts(hosts: &[&str]) -> String {
    match hosts {
        [host] => (*host).to_owned(),
        hosts => format!("{} hosts ({})", hosts.len(), fold_names(hosts)),
    }
}

/// Returns true if the session itself answered the call: nothing had to run.
fn is_answered_by_session(call: &RecordedCall) -> bool {
    !call.has_started && call.status() == Some(Status::Ok)
}

fn title_without_prompt(record: &SessionRecord) -> String {
    let host = record.spec.as_ref().map_or_else(String::new, |spec| format!(" on {}", line(&spec.host)));
    let has_calls_of = |origin| record.calls.iter().any(|call| call.origin == origin);
    let kind = match has_calls_of(Origin::Routine) {
        true => "Routine",
        false if has_calls_of(Origin::McpClient) => "MCP client",
        false => "Session",
    };
    format!("{kind}{host}")
}

fn of_call(number: Option<usize>) -> String {
    number.map_or_else(String::new, |number| format!("call {number}: "))
}

fn facts(id: &SessionId, record: &SessionRecord, zone: &TimeZone) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Session", line(id.as_str()))];
    if let Some(spec) = &record.spec {
        facts.push(("Hosts", line(&place(&spec.host))));
        facts.push(("Directory", line(&spec.root)));
    }
    if let Some(by) = &record.opened_by {
        facts.push(("Opened by", line(&person(by, false))));
    }
    if !record.people.is_empty() {
        let people = people(&record.people, record.opened_by.is_none());
        facts.push(("Users who acted", line(&people.join(", "))));
    }
    if let (Some(started), Some(ended)) = (record.started, record.ended) {
        let length = u64::try_from(ended.0.saturating_sub(started.0)).unwrap_or_default();
        facts.push((
            "Time",
            format!("{} to {} ({})", time(started, zone), time(ended, zone), duration(length)),
        ));
    }
    let models = if record.asks_models { record.models.join(", ") } else { "none was used".to_owned() };
    facts.push(("Models", line(&models)));
    let readers: Vec<String> = record.readers.models().iter().map(ToString::to_string).collect();
    let readers = if readers.is_empty() { "none".to_owned() } else { readers.join(", ") };
    facts.push(("Models that received output", line(&readers)));
    let running: u64 =
        record.calls.iter().filter_map(|call| call.outcome.as_ref()).map(|outcome| outcome.duration_ms).sum();
    let ran = record.calls.iter().filter(|call| call.has_started).count();
    let not_run = record.calls.iter().filter(|call| !call.has_started && !is_answered_by_session(call));
    facts.push(("Calls", format!("{ran} ran ({}), {} did not", duration(running), not_run.count())));
    facts
}

fn time(at: Timestamp, zone: &TimeZone) -> String {
    formatted(at, zone, "%Y-%m-%d %H:%M:%S %Z")
}

fn clock_time(at: Timestamp, zone: &TimeZone) -> String {
    formatted(at, zone, "%H:%M:%S")
}

fn formatted(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => time.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => "an unknown time".to_owned(),
    }
}

impl ReportedCall {
    /// `undone` is the extent to which the call was undone later.
    fn new(call: &RecordedCall, undone: Option<Reversibility>, is_local: bool, zone: &TimeZone) -> Self {
        let origin = origin_phrase(call.origin, &call.call.name, call.asked_by.as_deref());
        let mut facts = vec![origin.unwrap_or_else(|| "proposed by the model".to_owned())];
        match (&call.outcome, &call.decision) {
            _ if !call.has_started && is_unanswered_undo(&call.call.name, call.status()) => {
                facts.push(UNANSWERED.to_owned());
            }
            (outcome, decision) => {
                facts.extend(decision.as_ref().map(|decision| decision_words(decision, is_local)));
                match outcome {
                    Some(outcome) if call.has_started => facts.extend(outcome_facts(outcome, undone)),
                    Some(outcome) if decision.is_none() => {
                        facts.extend(outcome_facts(outcome, undone));
                        facts.extend(outcome.output.lines().next().map(str::to_owned));
                    }
                    Some(_) => {}
                    None => facts.push("its end is not in the log".to_owned()),
                }
            }
        }
        facts.insert(0, clock_time(call.at, zone));
        let reason = Some(call.call.reason()).filter(|reason| !reason.trim().is_empty());
        let reason = reason.map(|reason| line(&format!("reason: {reason}")));
        let hosts = call.outcome.iter().flat_map(|outcome| host_groups(&outcome.hosts));
        Self {
            number: call.number,
            text: neutralize(&redact_command_shapes(&call.text())).into_owned(),
            facts: line(&facts.join(", ")),
            notes: reason.into_iter().chain(hosts.map(|(text, _)| line(&text))).collect(),
            is_ok: call.status() == Some(Status::Ok),
        }
    }
}

/// Returns the host's sentence about a rollback, without its log.
fn rollback(call: &RecordedCall) -> Option<String> {
    let is_one_host = |outcome: &&Outcome| outcome.status != Status::Ok && outcome.hosts.is_empty();
    let outcome = call.outcome.as_ref().filter(is_one_host)?;
    let text = outcome.output.lines().rfind(|line| line.starts_with("[guard: "))?;
    let text = text.trim_start_matches("[guard: ").trim_end_matches(']');
    Some(line(&format!("guard: {}", text.split(" Log: ").next().unwrap_or(text))))
}

fn decision_words(decision: &RecordedDecision, is_local: bool) -> String {
    let words = match (decision.is_rejection, decision.is_edit) {
        (true, _) => "rejected",
        (false, true) => "edited and allowed",
        (false, false) => "allowed",
    };
    let why = match decision.reason.trim() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    format!("{words} by {}{why}", people(&decision.by, is_local).join(" and "))
}

fn people(by: &[String], is_local: bool) -> Vec<String> {
    by.iter().map(|by| person(by, is_local)).collect()
}

/// Returns the name of a user. In a session that no server opened, the log has the name of a front end.
fn person(by: &str, is_local: bool) -> String {
    match by {
        by if is_local && LOCAL_FRONT_ENDS.contains(&by) => format!("the local user ({by})"),
        START_TOKEN if !is_local => "the server's start token".to_owned(),
        by => by.to_owned(),
    }
}

fn outcome_facts(outcome: &Outcome, undone: Option<Reversibility>) -> Vec<String> {
    let mut facts = vec![match (outcome.status, outcome.exit_code) {
        (Status::Ok | Status::Failed, Some(code)) => format!("exit code {code}"),
        (Status::Cancelled, _) => "canceled".to_owned(),
        (status, _) => status.as_str().to_owned(),
    }];
    if outcome.duration_ms > 0 {
        facts.push(duration(outcome.duration_ms));
    }
    match outcome.undo {
        _ if matches!(undone, Some(Reversibility::Exact | Reversibility::Partly)) => {
            facts.push("undone later".to_owned());
        }
        Some(Reversibility::Exact) => facts.push("can be undone".to_owned()),
        Some(Reversibility::Partly) => facts.push("can be undone partly".to_owned()),
        Some(Reversibility::None) => facts.push("cannot be undone".to_owned()),
        None => {}
    }
    facts
}

/// Returns the changes of a call, each once. `root` is the directory of relative paths.
fn changes(number: usize, outcome: &Outcome, root: Option<&str>) -> Vec<String> {
    let is_named = |path: &str| {
        outcome.changed.iter().any(|change| change.kind == ChangeKind::File && change.name == path)
    };
    let files = outcome.changes.iter().filter(|change| !is_named(&change.path)).map(|change| {
        let how = if change.before.is_some() { "edited" } else { "created" };
        (ChangeKind::File, change.path.as_str(), how)
    });
    let system =
        outcome.changed.iter().map(|change| (change.kind, change.name.as_str(), change.how.as_str()));
    let groups = grouped(outcome, files.chain(system));
    let text = |ChangeGroup { kind, name, how, mut hosts }: ChangeGroup<'_>| {
        let (kind, name) = match (kind, root) {
            (ChangeKind::File, Some(root)) if !name.starts_with('/') => {
                ("file", format!("{}/{name}", root.trim_end_matches('/')))
            }
            (kind, _) => (kind_word(kind), name.to_owned()),
        };
        hosts.sort_unstable();
        let place = if hosts.is_empty() { String::new() } else { format!(" on {}", on_hosts(&hosts)) };
        line(&format!("call {number}: {kind} {name} {how}{place}"))
    };
    groups.into_iter().map(text).collect()
}

fn kind_word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::File => "file",
        ChangeKind::Unit => "unit",
        ChangeKind::Package => "package",
        ChangeKind::User => "user",
        ChangeKind::Cron => "crontab",
        ChangeKind::Firewall => "firewall",
        ChangeKind::Sysctl => "sysctl",
    }
}

/// Returns the names of the session's recordings, sorted.
fn recordings(id: &SessionId, artifacts: &Path) -> Vec<String> {
    let prefix = format!("terminal-{}-", id.as_str());
    let entries = std::fs::read_dir(artifacts).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(&prefix) && name.ends_with(".cast")).collect();
    names.sort();
    names.iter().map(|name| line(&artifacts.join(name).to_string_lossy())).collect()
}

fn line(text: &str) -> String {
    neutralize_line(&redact_shapes(text)).into_owned()
}

fn prose(text: &str) -> String {
    neutralize(&redact_shapes(text)).into_owned()
}
