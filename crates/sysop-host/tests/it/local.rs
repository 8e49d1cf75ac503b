//! Tests of this machine only: opening a host, and the end of its commands with the process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;
use sysop_driver::port::{CancellationToken, DeltaSink};
use sysop_host::{HostError, LocalHost, LocalSettings};

use crate::world::{Factory, Local, pids, wait_until_gone};

#[test]
fn opening_a_host_leaves_no_trace() {
    let home = tempfile::tempdir().unwrap();
    let host = LocalHost::open(LocalSettings::new(home.path(), home.path().join("artefacts"))).unwrap();
    assert_eq!(format!("{host:?}"), "LocalHost { tools: 12 }");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_host_that_cannot_be_opened_gives_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for root in [&file, &home.path().join("none")] {
        let error = LocalHost::open(LocalSettings::new(root, home.path())).unwrap_err();
        assert!(matches!(error, HostError::Root { .. }), "{error}");
        assert!(error.to_string().contains("--root"), "{error}");
    }
}

/// Set in the environment of the process that the test below kills.
const VICTIM: &str = "SYSOP_TEST_VICTIM";

/// Not a test: the next test runs it as a process, and kills that process.
#[tokio::test]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let world = Local.full();
    // The watchdog covers only commands that run longer than `WATCHDOG_DELAY`.
    let command =
        "sleep 1000 & echo pid $!; (sleep 1000; echo more) & echo pid $!; sleep 0.5; echo pid $$; wait";
    let sink = DeltaSink::new(|text| println!("{text}"));
    world
        .host
        .run(world.tool_call("bash", json!({ "command": command })), sink, CancellationToken::new())
        .await;
}

#[test]
fn commands_do_not_outlive_a_killed_process() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "local::victim"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(victim.stdout.take().unwrap()).lines() {
        said.push_str(&line.unwrap());
        said.push('\n');
        if pids(&said).len() == 3 {
            break;
        }
    }
    let pids = pids(&said);
    assert_eq!(pids.len(), 3, "{said}");
    victim.kill().unwrap();
    victim.wait().unwrap();
    for pid in pids {
        wait_until_gone(pid);
    }
}
