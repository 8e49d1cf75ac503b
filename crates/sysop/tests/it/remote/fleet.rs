//! Several hosts in one session.

use std::fs;

use serde_json::{Value, json};

use super::{outcomes, quiet, results, text, with_hosts, with_passphrase};
use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::sshd::{Login, Sshd};
use crate::support::{Mock, bash, lines_of_json, say};

/// Three hosts, each with its own sshd, one of which differs; and one that is down.
struct Fleet {
    machines: Vec<Sshd>,
    mock: Mock,
    world: World,
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

impl Fleet {
    fn with(scenarios: &[(&str, Vec<Value>)]) -> Self {
        let machines: Vec<Sshd> = NAMES.iter().map(|_| quiet(Sshd::start(Login::Own))).collect();
        let mock = Mock::start(scenarios);
        for (name, machine) in NAMES.iter().zip(&machines) {
            let kind = if *name == "beta" { "old" } else { "new" };
            fs::write(machine.path("home/kind"), format!("{kind}\n")).unwrap();
        }
        let hosts = NAMES.iter().map(|name| (*name).to_owned()).zip(&machines);
        let world = with_hosts(World::with_openai(&mock.url()), "all", hosts);
        Self { machines, mock, world }
    }

    fn log(&self) -> Vec<Value> {
        self.world.exported(&self.world.only_session())
    }
}

/// Returns host, status, exit code and group of each result.
fn by_host(hosts: &Value) -> Vec<(String, String, Value, Value)> {
    let hosts = hosts.as_array().unwrap_or_else(|| panic!("no hosts: {hosts}")).iter();
    let code = |host: &Value| host.get("exit_code").or(host.get("exitCode")).cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    hosts
        .map(|host| (word(&host["host"]), word(&host["status"]), code(host), host["group"].clone()))
        .collect()
}

fn end(host: &str, status: &str, code: Value, group: u32) -> (String, String, Value, Value) {
    (host.to_owned(), status.to_owned(), code, json!(group))
}

#[test]
fn odd_hosts_come_first_and_each_host_has_its_own_result() {
    let fleet = Fleet::with(&[("which", vec![bash("cat kind; grep -q new kind"), say("Beta is old.")])]);
    let hosts = "alpha,beta,gamma";
    let run = fleet.world.finish(&["exec", "--json", "--host", hosts, "--approve", "auto", "which"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let told = results(&fleet.mock.last_body()).pop().unwrap();
    let expected = "== beta (1 host of 3): exit code 1 ==\nold\n\
                    == alpha, gamma (2 hosts of 3): exit code 0 ==\nnew";
    assert_eq!(told, expected);
    let ends = [
        end("alpha", "ok", json!(0), 2),
        end("beta", "failed", json!(1), 1),
        end("gamma", "ok", json!(0), 2),
    ];
    let messages = lines_of_json(&run.out);
    let finished = messages.iter().find(|message| message["type"] == "tool.finished").unwrap();
    assert_eq!(by_host(&finished["hosts"]), ends, "{finished}");
    let log = fleet.log();
    assert_eq!(log[0]["event"]["spec"]["host"], "alpha, beta, gamma");
    assert_eq!(by_host(&outcomes(&log)[0]["hosts"]), ends);
}

#[test]
fn a_routine_prints_the_output_of_all_hosts() {
    let mut fleet = Fleet::with(&[]);
    let path = ".config/sysop/config.toml";
    let config = fs::read_to_string(fleet.world.home().join(path)).unwrap();
    let routine = "[routines.which]\ncmd = 'cat kind; grep -q new kind'\n";
    fleet.world = fleet.world.file(path, &format!("{config}{routine}"));
    let run = fleet.world.finish(&["run", "--host", "@all", "--approve", "auto", "which"]);
    let expected = "== beta (1 host of 3): exit code 1 ==\nold\n\
                    == alpha, gamma (2 hosts of 3): exit code 0 ==\nnew";
    assert_eq!((run.code, run.out.trim_end()), (Some(1), expected), "{run:?}");
    assert_eq!(run.err.lines().last(), Some("error: the command failed on beta"), "{run:?}");
}

#[test]
fn one_approval_names_every_host() {
    let fleet = Fleet::with(&[("make", vec![bash("touch made"), say("It is made.")])]);
    let made = |fleet: &Fleet| fleet.machines.iter().filter(|it| it.path("home/made").exists()).count();
    at_a_terminal(async {
        let mut person = Person::sits_down(&fleet.world, &["exec", "--host", "@all", "make it"]);
        person.sees("alpha, beta, gamma").await;
        person.sees("touch made").await;
        person.sees("Run it?").await;
        assert_eq!(made(&fleet), 0);
        person.types("y").await;
        person.sees("It is made.").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
        assert_eq!(seen.matches("Run it?").count(), 1, "{seen}");
    });
    assert_eq!(made(&fleet), 3);
}

#[test]
fn an_unreachable_host_does_not_affect_others_but_the_task_fails() {
    let fleet = Fleet::with(&[("make", vec![bash("touch made; echo done"), say("Down is down.")])]);
    let run = fleet.world.finish(&["exec", "--host", "alpha,down,gamma", "--approve", "auto", "make"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), "Down is down.\n"), "{run:?}");
    let reason = "\n  down: not run: connection refused (port 1); check the port";
    assert!(run.err.contains(reason), "{run:?}");
    let error = "\nerror: not done on down: connection refused (port 1)\nhint: check the port";
    assert!(run.err.contains(error), "{run:?}");
    let told = results(&fleet.mock.last_body()).pop().unwrap();
    assert!(told.starts_with("== down (1 host of 3): not run ==\n"), "{told}");
    assert!(told.contains("down: connection refused (port 1); check the port"), "{told}");
    assert!(told.ends_with("== alpha, gamma (2 hosts of 3): exit code 0 ==\ndone"), "{told}");
    let ends = [
        end("alpha", "ok", json!(0), 2),
        end("down", "failed", Value::Null, 1),
        end("gamma", "ok", json!(0), 2),
    ];
    assert_eq!(by_host(&outcomes(&fleet.log())[0]["hosts"]), ends);
    assert!(fleet.machines[0].path("home/made").exists() && fleet.machines[2].path("home/made").exists());
}

#[test]
fn a_failing_canary_stops_the_rollout() {
    let fleet = Fleet::with(&[
        ("break", vec![bash("touch tried; false"), say("It failed.")]),
        ("works", vec![bash("touch worked"), say("It worked.")]),
    ]);
    let line = ["exec", "--host", "alpha,beta,gamma", "--canary", "1", "--approve", "auto"];
    let run = fleet.world.finish(&[&line[..], &["break it"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    let has =
        |name: &str| fleet.machines.iter().map(|it| it.path("home").join(name).exists()).collect::<Vec<_>>();
    assert_eq!(has("tried"), [true, false, false]);
    let told = results(&fleet.mock.last_body()).pop().unwrap();
    assert!(told.contains("not run: alpha in the canary group ended with: exit code 1"), "{told}");
    let ends = [
        end("alpha", "failed", json!(1), 1),
        end("beta", "rejected", Value::Null, 2),
        end("gamma", "rejected", Value::Null, 2),
    ];
    assert_eq!(by_host(&outcomes(&fleet.log())[0]["hosts"]), ends);
    let run = fleet.world.finish(&[&line[..], &["what works"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(has("worked"), [true, true, true]);
}

/// Each host has its own connection, and each prompt names its host.
#[test]
fn a_passphrase_is_requested_for_each_host_that_needs_one() {
    let fleet = Fleet::with(&[("enter", vec![bash("echo inside"), say("All are in.")])]);
    let secret = format!("Sesam-fleet-{}", std::process::id());
    for machine in &fleet.machines[..2] {
        with_passphrase(machine, &secret);
    }
    let seen = at_a_terminal(async {
        let line = ["chat", "--host", "@all", "--approve", "auto", "enter"];
        let mut person = Person::sits_down(&fleet.world, &line);
        for _ in 0..2 {
            person.sees(" asks:").await;
            person.sees("Input is hidden").await;
            person.answers(&secret).await;
        }
        person.sees("All are in.").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await.1
    });
    assert!(!seen.contains(&secret), "{seen}");
    for (name, asks) in NAMES.into_iter().zip([true, true, false]) {
        assert_eq!(seen.contains(&format!("ssh {name} asks:")), asks, "{name}: {seen}");
    }
    let told = results(&fleet.mock.last_body()).pop().unwrap();
    assert_eq!(told, "== alpha, beta, gamma (3 hosts of 3): exit code 0 ==\ninside");
}

#[test]
fn a_resumed_fleet_keeps_its_root() {
    let fleet = Fleet::with(&[("where", vec![bash("pwd"), say("There.")])]);
    let root = text(&fleet.machines[0].path("home/one"));
    fs::create_dir(&root).unwrap();
    let told = |place: &[&str]| {
        let run = fleet.world.finish(&[&["exec", "--approve", "auto"], place, &["where is it?"]].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        results(&fleet.mock.last_body()).pop().unwrap()
    };
    let begun = told(&["--host", "alpha,beta", "--root", &root]);
    assert_eq!(begun, format!("== alpha, beta (2 hosts of 2): exit code 0 ==\n{root}"));
    assert_eq!(told(&[&format!("--resume={}", fleet.world.only_session())]), begun);
}

#[test]
fn a_fleet_with_moved_roots_is_not_resumed() {
    let mut fleet = Fleet::with(&[("where", vec![bash("pwd"), say("There.")])]);
    let run = fleet.world.finish(&["exec", "--host", "alpha,beta", "--approve", "auto", "where is it?"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let resume = format!("--resume={}", fleet.world.only_session());
    let path = ".config/sysop/config.toml";
    let config = fs::read_to_string(fleet.world.home().join(path)).unwrap();
    let (was, is) = (text(&fleet.machines[0].path("home")), text(&fleet.machines[2].path("home")));
    fleet.world = fleet.world.file(path, &config.replace(&was, &is));
    let asked = fleet.mock.requests().len();
    let run = fleet.world.finish(&["exec", &resume, "--approve", "auto", "where is it?"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains(&format!("this session worked in {was}, ")), "{run:?}");
    assert_eq!(fleet.mock.requests().len(), asked, "no model was called");
}

#[test]
fn a_fleet_has_no_terminal_but_each_host_has() {
    let fleet = Fleet::with(&[]);
    at_a_terminal(async {
        let mut person = Person::sits_down(&fleet.world, &["chat", "--host", "@all"]);
        person.sees("›").await;
        person.types("/shell\r").await;
        person.sees("sessions on several hosts have no terminal").await;
        person.sees("›").await;
        person.types("/host beta\r").await;
        person.sees("host beta").await;
        person.sees("›").await;
        person.types("/shell\r").await;
        person.sees("terminal on beta").await;
        person.types("cat kind\r").await;
        person.sees("old").await;
        person.types("\u{1d}").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
    });
}
