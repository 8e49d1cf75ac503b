//! Hosts of a task on several hosts that could not be reached. The task was not done there, so it has not succeeded.

use std::collections::BTreeMap;

use sysop_core::outcome::{HostOutcome, Status};
use sysop_core::ui_text;

/// Hosts on which the task's calls did not run, each with the reason.
#[derive(Debug, Default)]
pub(super) struct MissedHosts(BTreeMap<String, String>);

impl MissedHosts {
    /// Adds the hosts that a call did not reach, and removes those on which the call ran.
    pub(super) fn note(&mut self, hosts: &[HostOutcome]) {
        for host in hosts {
            match &host.unreachable {
                Some(why) => {
                    self.0.insert(host.host.clone(), why.clone());
                }
                None if host.status == Status::Rejected => {}
                None => {
                    self.0.remove(&host.host);
                }
            }
        }
    }

    /// Returns the error of a task that was not done on every host.
    pub(super) fn error(&self) -> Option<String> {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        match (names.as_slice(), self.0.values().next()) {
            ([name], Some(why)) => Some(format!("not done on {name}: {why}")),
            (names, Some(_)) => Some(format!(
                "not done on {}; run the task again once they can be reached",
                ui_text::place(&names.join(", "))
            )),
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(host: &str, status: Status, unreachable: Option<&str>) -> HostOutcome {
        let unreachable = unreachable.map(str::to_owned);
        HostOutcome { host: host.into(), status, exit_code: None, duration_ms: 0, group: 1, unreachable }
    }

    #[test]
    fn a_host_is_missed_until_a_call_runs_there() {
        let mut missed = MissedHosts::default();
        missed.note(&[outcome("web1", Status::Ok, None)]);
        assert_eq!(missed.error(), None);
        let refused = "web2 refused the connection; check the port";
        missed.note(&[
            outcome("web1", Status::Ok, None),
            outcome("web2", Status::Failed, Some(refused)),
            outcome("web3", Status::Failed, Some("web3 did not answer")),
        ]);
        let both = "not done on 2 hosts: web2, web3; run the task again once they can be reached";
        assert_eq!(missed.error().as_deref(), Some(both));
        missed.note(&[outcome("web2", Status::Rejected, None), outcome("web3", Status::Failed, None)]);
        assert_eq!(missed.error(), Some(format!("not done on web2: {refused}")));
    }
}
