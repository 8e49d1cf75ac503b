//! Hosts that a task's calls did not reach. The task was not done there, so it has not succeeded, whatever the model
//! answers.

use std::collections::BTreeMap;

use crate::host_names::fold_names;
use crate::outcome::{Outcome, Status};
use crate::ui_text;

/// Hosts on which a task's calls did not run, each with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissedHosts {
    /// Of the calls on several hosts.
    of_several: BTreeMap<String, String>,
    /// Error of the latest call on one host, if the call did not reach it.
    error: Option<String>,
    /// True between the start of a call and its outcome.
    has_started: bool,
}

impl MissedHosts {
    /// Notes the start of a call. Its host was reached unless its outcome says otherwise.
    pub fn note_start(&mut self) {
        self.has_started = true;
    }

    /// Adds the hosts that a call did not reach, and removes those on which the call ran.
    pub fn note_outcome(&mut self, outcome: &Outcome) {
        let has_started = std::mem::take(&mut self.has_started);
        if outcome.unreachable {
            self.error = Some(outcome.output.clone());
        } else if has_started && outcome.status != Status::Rejected {
            self.error = None;
        }
        for host in &outcome.hosts {
            match &host.unreachable {
                Some(why) => {
                    self.of_several.insert(host.host.clone(), why.clone());
                }
                None if host.status == Status::Rejected => {}
                None => {
                    self.of_several.remove(&host.host);
                }
            }
        }
    }

    /// Returns the error of a task that was not done on every host.
    pub fn error(&self) -> Option<String> {
        if self.error.is_some() {
            return self.error.clone();
        }
        let (names, why) = (self.names(), self.of_several.values().next()?);
        Some(match names.as_slice() {
            [name] => format!("not done on {name}: {}", reason_without_host(why, name)),
            names => {
                let count = ui_text::counted(names.len() as u64, "host");
                let reasons = self.of_several.iter().map(|(name, why)| (name.as_str(), why.as_str()));
                let reasons = reasons_by_host(&reasons.collect::<Vec<_>>());
                let hint = match ui_text::split_hint(&reasons).1 {
                    Some(_) => "",
                    None => "; run the task again once they can be reached",
                };
                format!("not done on {count}:\n{reasons}{hint}")
            }
        })
    }

    /// Names the hosts on which a task of a session at `place` was not done: `not done on web1`. Returns `None` if all
    /// were reached.
    pub fn summary(&self, place: &str) -> Option<String> {
        let names = self.names().join(", ");
        let missed = if self.error.is_some() { place } else { &names };
        (self.error.is_some() || !names.is_empty()).then(|| format!("not done {}", ui_text::on_place(missed)))
    }

    /// Returns a line for each of these hosts, or for hosts with the same reason, that says why the last call on
    /// several hosts did not reach them.
    pub fn reasons_on(&self, hosts: &[&str]) -> Vec<String> {
        let missed = self.of_several.iter().filter(|(name, _)| hosts.contains(&name.as_str()));
        let failures = missed.map(|(name, why)| (name.as_str(), ui_text::split_hint(why).0));
        let failures: Vec<_> = failures.collect();
        reasons_by_host(&failures).lines().map(str::to_owned).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.of_several.keys().map(String::as_str).collect()
    }
}

/// Returns a line for each host, or for hosts with the same reason, that names them. A hint that all share stands once,
/// at the end.
pub fn reasons_by_host(reasons: &[(&str, &str)]) -> String {
    let hint = reasons.first().and_then(|(_, why)| ui_text::split_hint(why).1);
    let hint = hint.filter(|hint| reasons.iter().all(|(_, why)| ui_text::split_hint(why).1 == Some(*hint)));
    let mut groups: Vec<(String, Vec<&str>, bool)> = Vec::new();
    for (name, why) in reasons {
        let rest = reason_without_host(why, name);
        let is_labeled = rest.len() < why.len();
        let why = match ui_text::split_hint(rest) {
            (failure, Some(own)) if hint.is_none() => match failure.strip_suffix(')') {
                Some(failure) => format!("{failure}; {own})"),
                None => format!("{failure} ({own})"),
            },
            (failure, _) => failure.to_owned(),
        };
        match groups.iter_mut().find(|(other, ..)| *other == why) {
            Some((_, names, _)) => names.push(name),
            None => groups.push((why, vec![name], is_labeled)),
        }
    }
    let is_word = |why: &str, name: &str| why.split([' ', ',', ':', '`']).any(|word| word == name);
    let lines = groups.iter().map(|(why, names, is_labeled)| match names.as_slice() {
        // A word behind a label is not the host, even if it is spelled alike.
        [name] if !is_labeled && is_word(why, name) => why.clone(),
        names => format!("{}: {why}", fold_names(names)),
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    hint.map_or_else(|| lines.clone(), |hint| format!("{lines}; {hint}"))
}

/// Returns the reason why a call did not reach a host without the host's name, if that stands before it as a label.
pub fn reason_without_host<'a>(why: &'a str, host: &str) -> &'a str {
    why.strip_prefix(host).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::HostOutcome;

    fn host(host: &str, status: Status, unreachable: Option<&str>) -> HostOutcome {
        let unreachable = unreachable.map(str::to_owned);
        HostOutcome { host: host.into(), status, exit_code: None, duration_ms: 0, group: 1, unreachable }
    }

    fn on(hosts: Vec<HostOutcome>) -> Outcome {
        Outcome { hosts, ..Outcome::ok("") }
    }

    #[test]
    fn a_host_is_missed_until_a_call_runs_there() {
        let mut missed = MissedHosts::default();
        missed.note_outcome(&on(vec![host("web1", Status::Ok, None)]));
        assert_eq!((missed.error(), missed.summary("web1, web2")), (None, None));
        let refused = "web2 refused the connection; check the port";
        missed.note_outcome(&on(vec![
            host("web1", Status::Ok, None),
            host("web2", Status::Failed, Some(refused)),
            host("web3", Status::Failed, Some("web3 did not answer")),
        ]));
        let both = "not done on 2 hosts:\nweb2 refused the connection (check the port)\nweb3 did not answer; run the \
                    task again once they can be reached";
        assert_eq!(missed.error().as_deref(), Some(both));
        assert_eq!(missed.summary("web1, web2, web3").as_deref(), Some("not done on 2 hosts: web2, web3"));
        missed.note_outcome(&on(vec![
            host("web2", Status::Rejected, None),
            host("web3", Status::Failed, None),
        ]));
        assert_eq!(missed.error(), Some(format!("not done on web2: {refused}")));
    }

    #[test]
    fn hosts_that_were_missed_for_the_same_reason_share_a_line() {
        let away = |name: &str, why: &str| host(name, Status::Failed, Some(&format!("{name}: {why}")));
        let refused = "connection refused; check the port";
        let mut missed = MissedHosts::default();
        missed.note_outcome(&on(vec![away("web1", refused), away("web2", refused), away("web3", refused)]));
        let error = "not done on 3 hosts:\nweb[1-3]: connection refused; check the port";
        assert_eq!(missed.error().as_deref(), Some(error));
        missed.note_outcome(&on(vec![
            host("web1", Status::Ok, None),
            away("web2", "no response in time; check that the host is up"),
            host("web3", Status::Ok, None),
        ]));
        let error = "not done on web2: no response in time; check that the host is up";
        assert_eq!(missed.error().as_deref(), Some(error));
        assert_eq!(missed.reasons_on(&["web1", "web2"]), ["web2: no response in time"]);
        assert_eq!(missed.reasons_on(&["web1"]), Vec::<String>::new());
    }

    #[test]
    fn a_hint_of_one_host_shares_the_parentheses_of_its_reason() {
        let reasons = [
            ("web1", "web1: could not connect (Connection reset); try again"),
            ("web2", "web2: connection refused; check the port"),
        ];
        let lines = "web1: could not connect (Connection reset; try again)\n\
                     web2: connection refused (check the port)";
        assert_eq!(reasons_by_host(&reasons), lines);
    }

    #[test]
    fn a_host_with_the_name_of_an_ordinary_word_is_named() {
        let reasons = [("time", "time: no response in time"), ("web1", "`web1` refused the connection")];
        let lines = "time: no response in time\n`web1` refused the connection";
        assert_eq!(reasons_by_host(&reasons), lines);
    }

    #[test]
    fn a_single_host_is_missed_until_a_call_starts_there() {
        let mut missed = MissedHosts::default();
        missed.note_outcome(&Outcome::unreachable("cannot reach db1: no route"));
        assert_eq!(missed.error().as_deref(), Some("cannot reach db1: no route"));
        assert_eq!(missed.summary("root@db1").as_deref(), Some("not done on db1 as root"));
        missed.note_start();
        missed.note_outcome(&Outcome::new(Status::Rejected, "denied"));
        assert!(missed.error().is_some(), "a denied call reaches no host");
        missed.note_start();
        missed.note_outcome(&Outcome::failed("exit code 1"));
        assert_eq!((missed.error(), missed.summary("db1")), (None, None));
    }
}
