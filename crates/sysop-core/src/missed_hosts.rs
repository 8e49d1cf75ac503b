//! Hosts that a task's calls did not reach. The task was not done there, so it has not succeeded, whatever the model
//! answers.

use std::collections::BTreeMap;

use crate::outcome::{Outcome, Status};
use crate::ui_text;

/// Hosts on which a task's calls did not run, each with the reason.
#[derive(Debug, Clone, Default)]
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
            [name] => format!("not done on {name}: {why}"),
            names => format!(
                "not done on {}; run the task again once they can be reached",
                ui_text::place(&names.join(", "))
            ),
        })
    }

    /// Names the hosts on which a task of a session at `place` was not done: `not done on web1`. Returns `None` if all
    /// were reached.
    pub fn summary(&self, place: &str) -> Option<String> {
        let names = self.names().join(", ");
        let missed = if self.error.is_some() { place } else { &names };
        (self.error.is_some() || !names.is_empty()).then(|| format!("not done on {}", ui_text::place(missed)))
    }

    fn names(&self) -> Vec<&str> {
        self.of_several.keys().map(String::as_str).collect()
    }
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
        let both = "not done on 2 hosts: web2, web3; run the task again once they can be reached";
        assert_eq!(missed.error().as_deref(), Some(both));
        assert_eq!(missed.summary("web1, web2, web3").as_deref(), Some("not done on 2 hosts: web2, web3"));
        missed.note_outcome(&on(vec![
            host("web2", Status::Rejected, None),
            host("web3", Status::Failed, None),
        ]));
        assert_eq!(missed.error(), Some(format!("not done on web2: {refused}")));
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
