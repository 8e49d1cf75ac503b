//! Comparison of outcomes with steps' expectations.

use std::collections::BTreeMap;

use regex::Regex;
use sysop_core::missed_hosts::reason_without_host;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::neutralize_line;

use crate::config::{StepExpectation, output_pattern};

const QUOTE_CHARS_MAX: usize = 120;

/// Result of a yes-or-no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeResult {
    Yes,
    /// Nonzero exit codes on all hosts.
    No(String),
    /// Different results on several hosts, or no result.
    Unclear(String),
}

/// Returns the result of a command that answers with its exit code.
pub(super) fn probe_result(outcome: &Outcome) -> ProbeResult {
    if !outcome.hosts.is_empty() {
        let with = |status: Status| {
            let hosts = outcome.hosts.iter().filter(|host| host.status == status);
            hosts.map(|host| host.host.as_str()).collect::<Vec<_>>()
        };
        let (yes, no) = (with(Status::Ok), with(Status::Failed));
        return match (yes.len(), no.len(), outcome.hosts.len()) {
            (yes, _, all) if yes == all => ProbeResult::Yes,
            (_, no, all) if no == all => ProbeResult::No(difference(outcome, &[0]).unwrap_or_default()),
            _ if yes.is_empty() || no.is_empty() => {
                ProbeResult::Unclear(difference(outcome, &[0]).unwrap_or_default())
            }
            _ => ProbeResult::Unclear(format!("true on {}, but not on {}", yes.join(", "), no.join(", "))),
        };
    }
    match (outcome.status, outcome.exit_code) {
        (Status::Ok, _) => ProbeResult::Yes,
        (Status::Failed, Some(code)) => ProbeResult::No(format!("exit code {code}, expected 0")),
        _ => ProbeResult::Unclear(difference(outcome, &[0]).unwrap_or_default()),
    }
}

/// Compares an outcome with the expectation. Returns the values of the named groups. The error is the difference.
pub(super) fn judge(expect: &StepExpectation, outcome: &Outcome) -> Result<BTreeMap<String, String>, String> {
    if let Some(difference) = difference(outcome, &expect.exit) {
        return Err(difference);
    }
    let sections = sections(outcome);
    if let Some(pattern) = &expect.not_pattern
        && let Some(found) = compiled(pattern)?.find(&outcome.output)
    {
        return Err(format!("the output matches /{pattern}/: {}", quote(found.as_str())));
    }
    let Some(pattern) = &expect.pattern else { return Ok(BTreeMap::new()) };
    let expression = compiled(pattern)?;
    let mut values: Option<BTreeMap<String, String>> = None;
    for section in sections {
        let Some(found) = expression.captures(section) else {
            let cut = if outcome.truncated { " (the output was truncated)" } else { "" };
            let first = section.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!(
                "the output does not match /{pattern}/{cut}; it begins with {}",
                quote(first)
            ));
        };
        let groups = expression.capture_names().flatten();
        let groups = groups.filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned())));
        let groups: BTreeMap<_, _> = groups.collect();
        match &values {
            Some(values) if *values != groups => {
                return Err("the hosts gave different values for the groups of `match`".to_owned());
            }
            Some(_) | None => values = Some(groups),
        }
    }
    Ok(values.unwrap_or_default())
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    output_pattern(pattern).map_err(|_| format!("/{pattern}/ is not a valid regular expression"))
}

fn quote(text: &str) -> String {
    let line = neutralize_line(text);
    let mut cut: String = line.chars().take(QUOTE_CHARS_MAX).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}

/// Returns the difference between the end of a call and the allowed exit codes, if any.
fn difference(outcome: &Outcome, allowed: &[i32]) -> Option<String> {
    let expected: Vec<String> = allowed.iter().map(i32::to_string).collect();
    let expected = expected.join(" or ");
    let of = |status: Status, code: Option<i32>, output: &str| match (status, code) {
        (Status::Ok, None) => None,
        (Status::Ok | Status::Failed, Some(code)) if allowed.contains(&code) => None,
        (Status::Ok | Status::Failed, Some(code)) => Some(format!("exit code {code}, expected {expected}")),
        (Status::Failed, None) => {
            let mut lines = output.lines();
            // The end of a guard says more than what the command printed.
            let guard = lines.clone().find(|line| line.starts_with("[guard: "));
            let line = guard.or_else(|| lines.next()).unwrap_or("the call failed");
            Some(quote(line).trim_matches('"').to_owned())
        }
        (Status::Timeout, _) => Some("the command reached its time limit".to_owned()),
        (Status::Rejected, _) => Some("not run".to_owned()),
        (Status::Cancelled | Status::Interrupted | Status::Unknown, _) => {
            Some(format!("the command ended as `{}`", status.as_str()))
        }
    };
    if outcome.hosts.is_empty() {
        return of(outcome.status, outcome.exit_code, &outcome.output);
    }
    // The groups of hosts count from 1.
    let outputs = sections(outcome);
    let output_of = |group: u32| group.checked_sub(1).and_then(|at| outputs.get(at as usize)).copied();
    let mut by_difference: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for host in &outcome.hosts {
        let difference = match &host.unreachable {
            Some(why) => Some(neutralize_line(reason_without_host(why, &host.host)).into_owned()),
            None => of(host.status, host.exit_code, output_of(host.group).unwrap_or_default()),
        };
        if let Some(difference) = difference {
            by_difference.entry(difference).or_default().push(&host.host);
        }
    }
    let parts: Vec<String> = by_difference
        .iter()
        .map(|(difference, hosts)| format!("{difference} on {}", hosts.join(", ")))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the output of each group of hosts, or the complete output of a single host.
pub(super) fn sections(outcome: &Outcome) -> Vec<&str> {
    let output = outcome.output.as_str();
    if outcome.hosts.is_empty() {
        return vec![output];
    }
    let (mut found, mut start) = (Vec::new(), None);
    let mut at = 0;
    for line in output.split_inclusive('\n') {
        let text = line.trim_end();
        if text.starts_with("== ") && text.ends_with(" ==") && text.contains(" of ") {
            found.extend(start.map(|start| &output[start..at]));
            start = Some(at + line.len());
        }
        at += line.len();
    }
    found.extend(start.map(|start| &output[start..]));
    if found.is_empty() { vec![output] } else { found }
}

#[cfg(test)]
mod tests {
    use sysop_core::outcome::{HostOutcome, Outcome, Status};

    use super::{ProbeResult, judge, probe_result, sections};
    use crate::config::StepExpectation;

    fn ended(code: i32, output: &str) -> Outcome {
        let status = if code == 0 { Status::Ok } else { Status::Failed };
        Outcome { exit_code: Some(code), ..Outcome::new(status, output) }
    }

    fn fleet(hosts: &[(&str, i32, &str)]) -> Outcome {
        let mut output = String::new();
        for (number, (host, code, text)) in (1..).zip(hosts) {
            output
                .push_str(&format!("== {host} ({number} of {}): exit code {code} ==\n{text}\n", hosts.len()));
        }
        let outcome = |(host, code, _): &(&str, i32, &str)| HostOutcome {
            host: (*host).to_owned(),
            status: if *code == 0 { Status::Ok } else { Status::Failed },
            exit_code: Some(*code),
            duration_ms: 1,
            group: 1,
            unreachable: None,
        };
        let all_ok = hosts.iter().all(|(_, code, _)| *code == 0);
        let status = if all_ok { Status::Ok } else { Status::Failed };
        Outcome { hosts: hosts.iter().map(outcome).collect(), ..Outcome::new(status, output) }
    }

    fn expect(exit: &[i32], pattern: Option<&str>, not_pattern: Option<&str>) -> StepExpectation {
        StepExpectation {
            exit: exit.to_vec(),
            pattern: pattern.map(str::to_owned),
            not_pattern: not_pattern.map(str::to_owned),
        }
    }

    #[test]
    fn a_difference_is_named() {
        let cases = [
            (expect(&[0], None, None), ended(1, ""), "exit code 1, expected 0"),
            (expect(&[0, 2], None, None), ended(1, ""), "exit code 1, expected 0 or 2"),
            (
                expect(&[0], Some("^active$"), None),
                ended(0, "failed\n"),
                "the output does not match /^active$/; it begins with \"failed\"",
            ),
            (
                expect(&[0], None, Some("err.*")),
                ended(0, "an error\n"),
                "the output matches /err.*/: \"error\"",
            ),
            (
                expect(&[0], None, None),
                Outcome::new(Status::Timeout, ""),
                "the command reached its time limit",
            ),
            (
                expect(&[0], None, None),
                fleet(&[("a", 0, ""), ("b", 3, ""), ("c", 3, "")]),
                "exit code 3, expected 0 on b, c",
            ),
            (
                expect(&[0], Some("new"), None),
                fleet(&[("a", 0, "new"), ("b", 0, "old")]),
                "the output does not match /new/; it begins with \"old\"",
            ),
        ];
        for (expect, outcome, difference) in cases {
            assert_eq!(judge(&expect, &outcome).unwrap_err(), difference);
        }
        assert!(judge(&expect(&[1], None, None), &ended(1, "")).is_ok());
    }

    #[test]
    fn a_host_that_failed_without_an_exit_code_is_named_with_its_own_reason() {
        let mut outcome = fleet(&[("web1", 0, "ok"), ("web2", 1, "no such tool"), ("web3", 1, "")]);
        for (at, host) in outcome.hosts.iter_mut().enumerate().skip(1) {
            (host.exit_code, host.group) = (None, u32::try_from(at).unwrap() + 1);
        }
        outcome.hosts[2].unreachable = Some("web3: connection refused (port 22993)".into());
        let difference = judge(&expect(&[0], None, None), &outcome).unwrap_err();
        assert_eq!(difference, "connection refused (port 22993) on web3, no such tool on web2");
    }

    #[test]
    fn named_groups_become_values_if_all_hosts_agree() {
        let until = expect(&[0], Some("until=(?<until>.+)"), None);
        let values = judge(&until, &ended(0, "x\nuntil=May 1\n")).unwrap();
        assert_eq!(values["until"], "May 1");
        assert!(judge(&until, &fleet(&[("a", 0, "until=1"), ("b", 0, "until=1")])).is_ok());
        assert!(judge(&until, &fleet(&[("a", 0, "until=1"), ("b", 0, "until=2")])).is_err());
    }

    #[test]
    fn a_probe_needs_the_same_answer_of_all_hosts() {
        assert_eq!(probe_result(&ended(0, "")), ProbeResult::Yes);
        assert!(matches!(probe_result(&ended(1, "")), ProbeResult::No(_)));
        assert!(matches!(probe_result(&Outcome::new(Status::Unknown, "")), ProbeResult::Unclear(_)));
        assert_eq!(probe_result(&fleet(&[("a", 0, ""), ("b", 0, "")])), ProbeResult::Yes);
        assert!(matches!(probe_result(&fleet(&[("a", 1, ""), ("b", 2, "")])), ProbeResult::No(_)));
        let mixed = ProbeResult::Unclear("true on a, but not on b".to_owned());
        assert_eq!(probe_result(&fleet(&[("a", 0, ""), ("b", 1, "")])), mixed);
        assert_eq!(sections(&fleet(&[("a", 0, "x"), ("b", 1, "y")])), ["x\n", "y\n"]);
    }
}
