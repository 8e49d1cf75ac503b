//! Display of tool calls' output.

use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_core::text::{Stripper, strip_controls};

use crate::render::safe;

/// Number of lines to show from the start of an output, and also from its end.
const EXCERPT_LINES: usize = 20;
/// Number of lines to show from the end of a failed command's output.
const FAILURE_LINES: usize = 3;
/// Number of groups of hosts whose failure is explained.
const FAILED_GROUPS: usize = 3;
pub(super) const LINE_CHARS_MAX: usize = 400;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallOutput {
    /// No output; only how each call ended is shown.
    #[default]
    Hidden,
    /// The first and last lines.
    Excerpt,
    /// Everything that the model receives.
    Whole,
}

pub(super) fn call_output_lines(output: &str, shown: CallOutput) -> Vec<String> {
    let output = safe(output);
    let lines: Vec<&str> = output.lines().collect();
    match shown {
        CallOutput::Hidden => Vec::new(),
        CallOutput::Whole => lines.into_iter().map(str::to_owned).collect(),
        CallOutput::Excerpt => {
            let gap = lines.len().saturating_sub(2 * EXCERPT_LINES);
            if gap == 0 {
                return lines.iter().map(short).collect();
            }
            let (head, tail) = (&lines[..EXCERPT_LINES], &lines[EXCERPT_LINES + gap..]);
            let between = format!("… {gap} lines omitted; use -vv to show them …");
            head.iter().map(short).chain([between]).chain(tail.iter().map(short)).collect()
        }
    }
}

/// Returns the last lines of a failed command's output, which usually say why it failed, without sysop's line about its
/// exit code.
pub(super) fn failure_lines(output: &str) -> Vec<String> {
    let output = safe(output);
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with("[exit code ");
    let mut lines: Vec<String> =
        output.lines().rev().filter(is_said).take(FAILURE_LINES).map(|line| short(&line)).collect();
    lines.reverse();
    lines
}

/// Returns why a call failed on some of several hosts: for each group of hosts that failed, the lines that usually say
/// why, after the hosts' names. A host that could not be reached has its reason in the group's own line.
pub(super) fn fleet_failure_lines(outcome: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    let failed = sections(&outcome.output).into_iter().filter_map(|(names, body)| {
        let first = names.split([',', ' ']).next().unwrap_or(names);
        let host = outcome.hosts.iter().find(|host| host.host == first)?;
        Some((names, reason_lines(host, &body))).filter(|(_, reason)| !reason.is_empty())
    });
    for (names, reason) in failed.take(FAILED_GROUPS) {
        out.extend(reason.iter().map(|line| short(&safe(&format!("{names}: {line}")).as_str())));
    }
    out
}

fn reason_lines(host: &HostOutcome, output: &str) -> Vec<String> {
    match (host.status, host.exit_code) {
        (Status::Failed, Some(_)) => failure_lines(output),
        (Status::Failed, None) if host.unreachable.is_none() => {
            output.lines().next().map(|line| short(&line)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Splits the output of a call on several hosts at the headings `== web1, web2 (2 of 3): exit code 1 ==`, which no host
/// can imitate. Returns the names and the output of each group.
fn sections(output: &str) -> Vec<(&str, String)> {
    let mut out: Vec<(&str, String)> = Vec::new();
    for line in output.lines() {
        let heading = line.strip_prefix("== ").and_then(|rest| rest.strip_suffix(" =="));
        match (heading.and_then(|heading| heading.split_once(" (")), out.last_mut()) {
            (Some((names, _)), _) => out.push((names, String::new())),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    out
}

fn short(line: &&str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    }
}

/// Returns the part of an output that was not streamed: its end, or the whole output of a call on several
/// hosts. Empty if a call on a single host streamed nothing, as its outcome then has only sysop's text.
pub(super) fn unprinted_output(stripped: Option<Stripper>, outcome: &Outcome) -> String {
    match stripped {
        Some(mut stripped) => stripped.finish(),
        None if outcome.hosts.is_empty() => String::new(),
        None => strip_controls(&outcome.output).into_owned(),
    }
}
