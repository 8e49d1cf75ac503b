//! Protected subcommands refuse to run under a call, however the call tries to hide; and the scopes that may decide.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::World;
use crate::exposed::{ServeProcess, read_until};
use crate::support::{Mock, bash, say};

const SYSOP: &str = env!("CARGO_BIN_EXE_sysop");

/// Events of a new session after a user has typed a command there.
fn typed(served: &ServeProcess, tool: &str, command: &str) -> String {
    let session = served.session();
    let call = json!({"tool": tool, "arguments": {"command": command}, "origin": "typed"});
    served.call("POST", &format!("{session}/direct"), &call);
    all_until(served, &session, "tool.finished")
}

/// All events of a session up to one that contains the text.
fn all_until(served: &ServeProcess, session: &str, wanted: &str) -> String {
    let mut stream = served.connect();
    let (bearer, host) = (served.bearer(), served.address);
    let path = format!("{session}/events?resumeFrom=0");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n\r\n").unwrap();
    read_until(&mut stream, wanted)
}

/// Posts with a token; returns the status.
fn post(served: &ServeProcess, token: &str, path: &str, body: &Value) -> u16 {
    let bearer = format!("authorization: Bearer {token}");
    served.ask("POST", path, &[&bearer, "content-type: application/json"], &body.to_string()).status
}

fn create(world: &World, name: &str, scope: &str) -> String {
    let run = world.finish(&["token", "create", "--name", name, "--scope", scope]);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.out.trim().to_owned()
}

#[test]
fn a_call_cannot_create_a_token_in_any_disguise() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &[]);
    let home = world.home().display();
    let make = format!("{SYSOP} token create --name evil --scope operate,decide");
    let clean = format!("env -i HOME={home} {make}");
    for (tool, command) in [
        ("bash", make.clone()),
        ("bash", clean.clone()),
        ("bash", format!("setsid -w {clean} 2>&1")),
        ("bash", format!("nohup {clean} 2>&1")),
        (
            "bash",
            format!("cp {SYSOP} other && env -i HOME={home} ./other token create --name evil --scope decide"),
        ),
        ("bash", format!("mkfifo one; sh -c '({clean} >one 2>&1) &'; cat one")),
        ("run_command", clean.clone()),
        ("run_command", format!("mkfifo two; sh -c '({clean} >two 2>&1) &'; cat two")),
        ("bash", format!("{SYSOP} sessions delete x")),
        ("bash", format!("{SYSOP} exec hello")),
    ] {
        let said = typed(&served, tool, &command);
        assert!(said.contains("cannot run inside a sysop session"), "{tool} {command}: {said}");
    }
    let looks = typed(&served, "bash", &format!("{SYSOP} sessions list; echo ended $?"));
    assert!(looks.contains("ended 0") && !looks.contains("cannot run inside"), "{looks}");
    let list = world.finish(&["token", "list"]).out;
    assert!(!list.contains("evil") && list.contains("start"), "{list}");
}

#[test]
fn an_operate_token_cannot_answer_for_another_token() {
    let mock = Mock::start(&[("tidy", vec![bash("rm -r build"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    let [operator, decider] = ["operate", "decide"].map(|scope| create(&world, scope, scope));
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    served.call("POST", &format!("{session}/messages"), &json!({"content": "tidy"}));
    let asked = all_until(&served, &session, r#""risk""#);
    let (_, after) = asked.split_once(r#""type":"approval.request""#).unwrap();
    let (_, after) = after.split_once(r#""toolCallId":""#).unwrap();
    let call = after.split('"').next().unwrap();
    let decisions = format!("{session}/decisions");
    let answer = json!({"toolCallId": call, "decision": "reject"});
    assert_eq!(post(&served, &operator, &decisions, &answer), 403);
    assert_eq!(post(&served, &decider, "/api/agent/sessions", &json!({})), 403);
    assert_eq!(post(&served, &decider, &decisions, &answer), 202);
    let closed = all_until(&served, &session, r#""by":"decide""#);
    assert!(closed.contains(r#""openedBy":"start""#), "{closed}");
    let list = world.finish(&["token", "list"]).out;
    let owner = list.lines().next().unwrap();
    assert!(owner.contains("OWNER") && list.contains("decide"), "{list}");
}

#[test]
fn the_start_token_is_in_a_file_that_is_removed_with_the_server() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &["--token-file", "my.token"]);
    let file = world.work().join("my.token");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), served.token);
    served.running.signal(rustix::process::Signal::TERM);
    let run = served.running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.out.contains("sysop_") && !run.err.contains("sysop_"), "{run:?}");
    assert!(!file.exists());
}
