//! A rolling change on twenty hosts, as one approves it: preview by groups, canary, guards, report.

use std::fs;

use serde_json::Value;

use super::{outcomes, quiet, with_hosts};
use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::sshd::{Login, Sshd};
use crate::support::{Mock, bash, say};

const HOSTS: usize = 20;
/// Index of the host whose file differs.
const ODD: usize = 7;
/// A change of login keys, which is guarded.
const CHANGE: &str = "sed -i 's/^#old/#new/' .ssh/authorized_keys";

struct Rollout {
    machines: Vec<Sshd>,
    _mock: Mock,
    world: World,
}

fn name(host: usize) -> String {
    format!("web{host:02}")
}

impl Rollout {
    fn with(scenarios: &[(&str, Vec<Value>)]) -> Self {
        let machines: Vec<Sshd> = (0..HOSTS).map(|_| quiet(Sshd::start(Login::Own))).collect();
        let mock = Mock::start(scenarios);
        for (host, machine) in machines.iter().enumerate() {
            let home = machine.path("home");
            fs::create_dir(home.join(".ssh")).unwrap();
            let more = if host == ODD { "#old too\n" } else { "" };
            fs::write(home.join(".ssh/authorized_keys"), format!("#old\n{more}")).unwrap();
        }
        let hosts = machines.iter().enumerate().map(|(host, machine)| (name(host), machine));
        let world = with_hosts(World::with_openai(&mock.url()), "web", hosts);
        Self { machines, _mock: mock, world }
    }

    /// Number of hosts with the change.
    fn changed(&self) -> usize {
        let file = |machine: &Sshd| fs::read_to_string(machine.path("home/.ssh/authorized_keys")).unwrap();
        self.machines.iter().filter(|machine| file(machine).starts_with("#new")).count()
    }

    /// Allows the change on all hosts after as many pages of the proposal, and returns what was on the screen before
    /// the answer, and the rest.
    fn rolls_out(&self, pages: usize) -> (String, String) {
        at_a_terminal(async {
            let line = ["exec", "-v", "--host", "@web", "--canary", "2", "rotate the comment"];
            let mut person = Person::sits_down(&self.world, &line);
            if pages > 1 {
                person.sees("space next page").await;
                person.types(" ").await;
            }
            person.sees("Run it?").await;
            let proposal = person.seen.clone();
            assert_eq!(self.changed(), 0, "nothing runs before the answer");
            person.types("Y\r").await;
            let (code, seen) = person.leaves().await;
            assert_eq!(code, 0, "{seen}");
            (proposal, seen)
        })
    }
}

#[test]
fn twenty_hosts_are_changed_after_one_review_of_two_groups() {
    let rollout = Rollout::with(&[("rotate", vec![bash(CHANGE), say("All keys have the comment.")])]);
    let (proposal, seen) = rollout.rolls_out(2);
    for part in [
        "web07: ",
        "19 hosts (web[00-06], web[08-19]): ",
        "--- web07",
        "+#new too",
        "guarded: rolls back by itself",
        "canary: web00, web01 first",
    ] {
        assert!(proposal.contains(part), "{part:?} is not in\n{proposal}");
    }
    let odd_first = proposal.find("web07: ").unwrap() < proposal.find("19 hosts (").unwrap();
    assert!(odd_first, "{proposal}");
    assert_eq!(rollout.changed(), HOSTS, "{seen}");

    let session = rollout.world.only_session();
    let log = rollout.world.exported(&session);
    let of_kind = |kind: &str| log.iter().filter(|logged| logged["event"]["type"] == kind).count();
    assert_eq!((of_kind("guard_armed"), of_kind("guard_ended")), (HOSTS, HOSTS));
    let hosts_of = |kind: &str| -> Vec<&str> {
        let events = log.iter().map(|logged| &logged["event"]).filter(|event| event["type"] == kind);
        events.map(|event| event["host"].as_str().unwrap()).collect()
    };
    // The canary's guards were confirmed before the guard of any other host was armed.
    let canary = ["web00", "web01"];
    assert!(hosts_of("guard_armed")[..2].iter().all(|host| canary.contains(host)), "{log:?}");
    assert!(hosts_of("guard_ended")[..2].iter().all(|host| canary.contains(host)), "{log:?}");
    let position = |kind: &str, at: usize| {
        let all: Vec<usize> = (0..log.len()).filter(|seq| log[*seq]["event"]["type"] == kind).collect();
        all[at]
    };
    assert!(position("guard_ended", 1) < position("guard_armed", 2), "{log:?}");
    assert_eq!(outcomes(&log)[0]["hosts"].as_array().unwrap().len(), HOSTS);

    let report = rollout.world.finish(&["sessions", "report", &session]);
    for part in [
        "20 hosts",
        "allowed by ",
        "All keys have the comment.",
        "lockout guards on 20 hosts (web[00-19]): confirmed",
    ] {
        assert!(report.out.contains(part), "{part:?} is not in\n{}", report.out);
    }
    let undone = rollout.world.finish(&["undo", &session, "--yes"]);
    assert_eq!((undone.code, rollout.changed()), (Some(0), 0), "{undone:?}");
}

#[test]
fn a_canary_that_fails_keeps_the_change_from_the_other_hosts() {
    let change = format!("{CHANGE}; ! grep -q broken ~/kind");
    let rollout = Rollout::with(&[("rotate", vec![bash(&change), say("The canary failed.")])]);
    fs::write(rollout.machines[1].path("home/kind"), "broken\n").unwrap();
    for host in (0..HOSTS).filter(|host| *host != 1) {
        fs::write(rollout.machines[host].path("home/kind"), "fine\n").unwrap();
    }
    let (_, seen) = rollout.rolls_out(1);
    assert_eq!(rollout.changed(), 2, "{seen}");
    assert!(seen.contains("canary"), "{seen}");
}
