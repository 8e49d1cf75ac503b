//! A connection lost in the middle of a call: the result is unknown, nothing runs twice, and the work goes on.

use std::fs;

use super::{RemoteMachineRig, outcomes, results};
use crate::support::{bash, call, say};

/// Reports its start and never ends by itself.
fn endless(far_file: &str) -> String {
    format!("echo run >> {far_file}; echo so far; touch begun; exec sleep 3600")
}

#[test]
fn a_command_on_a_lost_connection_is_unknown_and_not_repeated() {
    let far = RemoteMachineRig::with(&[(
        "long",
        vec![bash(&endless("runs")), bash("wc -l < runs"), say("It was cut off.")],
    )]);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "the long one"]);
    far.wait_for("begun");
    far.sshd.kill_connections();
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (Some(0), "It was cut off.\n"), "{run:?}");
    assert!(run.err.contains("outcome unknown: the connection or the output was lost"), "{run:?}");
    let told = results(&far.mock.last_body());
    assert!(told[0].contains("so far\n[result unknown: lost the connection to far"), "{told:?}");
    assert_eq!(told[1], "1\n[exit code 0]", "the next call connects again, and it ran once");
    let log = far.log();
    let ends: Vec<_> = outcomes(&log).iter().map(|it| it["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ends, ["unknown", "ok"]);
}

#[test]
fn a_routine_on_a_lost_connection_fails() {
    let mut far = RemoteMachineRig::with(&[]);
    let path = ".config/sysop/config.toml";
    let config = fs::read_to_string(far.world.home().join(path)).unwrap();
    far.world = far.world.file(path, &format!("{config}[routines.long]\ncmd = '{}'\n", endless("runs")));
    let running = far.world.start(&["run", "--host", "far", "--approve", "auto", "long"]);
    far.wait_for("begun");
    far.sshd.kill_connections();
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (Some(1), "so far\n"), "{run:?}");
    assert_eq!(run.err.lines().last(), Some("error: the outcome of the command is unknown"), "{run:?}");
    assert_eq!(far.read_there("runs"), "run\n");
}

#[test]
fn a_terminal_on_a_lost_connection_is_unknown_and_reopened() {
    let run_command =
        |command: &str| call("run_command", serde_json::json!({ "command": command, "reasoning": "" }));
    let long = format!("sh -c '{}'", endless("runs"));
    let far = RemoteMachineRig::with(&[(
        "long",
        vec![run_command(&long), run_command("cat runs"), say("It was cut off.")],
    )]);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "the long one"]);
    far.wait_for("begun");
    far.sshd.kill_connections();
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (Some(0), "It was cut off.\n"), "{run:?}");
    let told = results(&far.mock.last_body());
    assert!(told[0].contains("so far"), "{told:?}");
    assert!(told[1].contains("run\n") && told[1].contains("[exit code 0]"), "{told:?}");
    let log = far.log();
    assert_eq!(outcomes(&log)[0]["status"], "unknown", "{told:?}");
    assert_eq!(far.read_there("runs"), "run\n");
}

/// Resumes after a kill, as after a power failure: the session continues on the same host.
#[test]
fn a_session_resumes_on_its_own_host() {
    let far = RemoteMachineRig::with(&[
        ("long", vec![bash(&endless("runs")), say("never said")]),
        ("go on", vec![bash("cat runs"), say("It had run once.")]),
    ]);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "the long one"]);
    far.wait_for("begun");
    running.kill();
    far.nothing_runs();
    // No `--host`: the session knows its host.
    let run = far.world.finish(&["exec", "--resume", "--approve", "auto", "go on"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "It had run once.\n"), "{run:?}");
    let told = results(&far.mock.last_body());
    assert_eq!(told.last().map(String::as_str), Some("run\n[exit code 0]"), "{told:?}");
    let log = far.log();
    let ends: Vec<_> = outcomes(&log).iter().map(|it| it["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ends, ["interrupted", "ok"]);
    far.nothing_is_left();
}
