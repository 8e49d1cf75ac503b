//! `sysop audit`: the calls that a server ran, and proof that nothing runs without an audit entry.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use super::{ServeProcess, eventually};
use crate::World;
use crate::support::{Mock, bash, say};

fn file(world: &World) -> PathBuf {
    world.data().join("audit/audit.jsonl")
}

fn shown(world: &World) -> String {
    let run = world.finish(&["audit", "show"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.out
}

#[test]
fn approvals_and_calls_are_audited_with_user_host_and_result() {
    let mock = Mock::start(&[(
        "deploy",
        vec![bash("echo content-of-a-file --password hunter22 sk-canary-0123456789 >said"), say("done")],
    )]);
    let world = World::with_openai(&mock.url()).variable("OPENAI_API_KEY", "sk-canary-0123456789");
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    served.call("POST", &format!("{session}/messages"), &json!({ "content": "deploy" }));
    let events = served.follow(&session, "approval.request");
    let call = events.split("\"toolCallId\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    served.call("POST", &format!("{session}/decisions"), &json!({ "toolCallId": call, "decision": "allow" }));
    served.follow(&session, "assistant.done");

    let shown = shown(&world);
    let id = session.rsplit('/').next().unwrap();
    let work = world.work().canonicalize().unwrap().display().to_string();
    let what = format!("on local:{work} bash: echo content-of-a-file --password [redacted] [redacted] >said");
    let unknown = world.finish(&["audit", "show", "--session", "zzz"]);
    let why =
        "error: no session with id `zzz` in the audit log\nhint: run `sysop audit show` to see its entries\n";
    assert_eq!((unknown.code, unknown.err.as_str()), (Some(2), why), "{unknown:?}");
    for line in [
        format!("decided  allowed by `start` for `start` {what} in session {id}\n"),
        format!("started  by `start` for `start` {what} in session {id}\n"),
        format!("finished ok for `start` {what} exit 0 in session {id}\n"),
        "Z log opened\n".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}\nis not in\n{shown}");
    }
    let said = served.running.kill();
    let audit = std::fs::read_to_string(file(&world)).unwrap();
    for secret in ["hunter22", "sk-canary"] {
        assert!(!audit.contains(secret) && !said.err.contains(secret), "{secret}");
    }
    let run = world.finish(&["audit", "verify"]);
    assert!(run.code == Some(0) && run.out.starts_with("Verified 4 lines in 1 file."), "{run:?}");
}

#[test]
fn a_changed_line_is_detected() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    served.call("POST", &format!("{session}/direct"), &json!({ "command": "echo one", "origin": "typed" }));
    served.follow(&session, "assistant.done");
    served.running.kill();
    // An incomplete line, as after a power failure: repaired and reported at the next start.
    let mut bytes = std::fs::read(file(&world)).unwrap();
    bytes.extend_from_slice(b"{\"n\":4,");
    std::fs::write(file(&world), &bytes).unwrap();
    let served = ServeProcess::start(&world, &[]);
    served.running.signal(Signal::TERM);
    assert_eq!(served.running.finish().code, Some(0));
    let run = world.finish(&["audit", "verify"]);
    assert!(run.code == Some(0) && run.out.starts_with("Verified 4 lines"), "{run:?}");

    let text = std::fs::read_to_string(file(&world)).unwrap();
    std::fs::write(file(&world), text.replace("echo one", "echo two")).unwrap();
    let run = world.finish(&["audit", "verify"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("audit.jsonl:2: this line or the one before it was changed"), "{run:?}");
}

#[test]
fn a_call_that_cannot_be_audited_does_not_run() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    std::fs::remove_file(file(&world)).unwrap();
    std::fs::create_dir(file(&world)).unwrap();
    served.call("POST", &format!("{session}/direct"), &json!({ "command": "touch ran", "origin": "typed" }));
    served.running.err.wait_for_text("calls do not run without an audit entry");
    assert!(!world.work().join("ran").exists());
    served.running.kill();

    let run = world.finish(&["serve", "--port", "0"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("--audit best-effort"), "{run:?}");
    let served = ServeProcess::start(&world, &["--audit", "best-effort"]);
    let session = served.session();
    served.call("POST", &format!("{session}/direct"), &json!({ "command": "touch ran", "origin": "typed" }));
    eventually("it runs where that was asked for", || world.work().join("ran").exists());
}
