//! One task on a remote host: every tool, the log, and cleanup.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{RemoteMachineRig, outcomes, results};
use crate::support::{bash, call, lines_of_json, processes_with, say};

fn run_command(command: &str) -> Value {
    call("run_command", json!({ "command": command, "reasoning": "" }))
}

/// Task that uses each tool once or twice.
fn the_task() -> Vec<Value> {
    vec![
        bash("mkdir sub; pwd; exit 3"),
        call("write_file", json!({ "path": "notes.txt", "content": "one\ntwo\n" })),
        call("edit_file", json!({ "path": "notes.txt", "old_string": "two", "new_string": "three" })),
        call("read_file", json!({ "path": "notes.txt" })),
        run_command("cd sub && export COLOR=blue"),
        run_command("echo \"$COLOR in ${PWD##*/}\"; (exit 4)"),
        say("All done."),
    ]
}

#[test]
fn every_tool_works_remotely_and_is_logged() {
    let far = RemoteMachineRig::with(&[("do it", the_task())]);
    let (home, world) = (super::text(&far.there("")), &far.world);
    let line = ["exec", "--host", "root@far", "--root", &home, "--approve", "auto", "do it"];
    let run = world.finish(&line);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "All done.\n"), "{run:?}");
    far.nothing_is_left();
    assert_eq!(far.read_there("notes.txt"), "one\nthree\n");
    assert!(!far.world.has("notes.txt"), "nothing is done here");

    let told = results(&far.mock.last_body());
    assert!(told[0].contains(home.trim_end_matches('/')) && told[0].contains("[exit code 3]"), "{told:?}");
    assert!(told[3].contains("one\nthree"), "{told:?}");
    assert!(told[5].contains("blue in sub\n") && told[5].contains("[exit code 4]"), "{told:?}");

    let log = far.log();
    assert_eq!(log[0]["event"]["spec"]["host"], "root@far");
    assert_eq!(log[0]["event"]["spec"]["root"], home);
    let ends: Vec<(&str, Option<i64>)> = outcomes(&log)
        .iter()
        .map(|outcome| (outcome["status"].as_str().unwrap(), outcome["exit_code"].as_i64()))
        .collect();
    let file = ("ok", None);
    assert_eq!(ends, [("failed", Some(3)), file, file, file, ("ok", Some(0)), ("failed", Some(4))]);
}

#[test]
fn json_output_contains_host_and_result() {
    let far = RemoteMachineRig::with(&[("do it", the_task())]);
    let run = far.world.finish(&["exec", "--json", "--host", "far", "--approve", "auto", "do it"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let messages = lines_of_json(&run.out);
    let created = messages.iter().find(|message| message["type"] == "session.created").unwrap();
    assert_eq!(created["host"], "far", "{created}");
    let finished: Vec<&Value> = messages.iter().filter(|it| it["type"] == "tool.finished").collect();
    assert_eq!(finished.len(), 6, "{finished:?}");
    assert_eq!((&finished[0]["status"], &finished[0]["exitCode"]), (&json!("failed"), &json!(3)));
    assert_eq!((&finished[5]["name"], &finished[5]["exitCode"]), (&json!("run_command"), &json!(4)));
    assert!(finished[5]["output"].as_str().unwrap().contains("blue in sub"), "{:?}", finished[5]);
}

/// The connection, a command in its own session, and the terminal all end with sysop's process.
#[test]
fn a_killed_program_leaves_no_connection_behind() {
    let far = RemoteMachineRig::with(&[(
        "wait",
        vec![run_command("echo first"), bash("touch begun; exec sleep 3600"), say("never said")],
    )]);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "wait"]);
    far.wait_for("begun");
    assert!(!processes_with(&far.mark()).is_empty() && !far.sshd.connections().is_empty());
    running.kill();
    far.nothing_runs();
    // The next process removes files that a killed process has left.
    assert!(!far.sockets().is_empty());
    assert_eq!(far.world.finish(&["doctor", "--host", "far"]).code, Some(0));
    far.nothing_is_left();
}

#[test]
fn stopping_leaves_no_remote_process() {
    let name = format!("sleep 37{}", std::process::id());
    let far = RemoteMachineRig::with(&[(
        "wait",
        vec![bash(&format!("touch begun; {name}; touch ended")), say("never said")],
    )]);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "wait"]);
    far.wait_for("begun");
    running.signal(Signal::INT);
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{run:?}");
    far.nothing_is_left();
    crate::support::wait_until_gone(&name, super::GONE_MAX);
    assert!(!far.there("ended").exists());
    assert_eq!(outcomes(&far.log())[0]["status"], "cancelled");
}

#[test]
fn the_doctor_checks_the_remote_host() {
    let far = RemoteMachineRig::with(&[]);
    let run = far.world.finish(&["doctor", "--host", "far"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.lines().any(|line| line.starts_with("ok") && line.contains(" far")), "{}", run.out);
    far.nothing_is_left();
}
