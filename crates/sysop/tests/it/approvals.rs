//! Approvals that are answered elsewhere, by the binary: `sysop approve`, `[notify]`, expiry, and bounds of the mode
//! `auto`.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::{ServeProcess, serve};
use crate::support::{DEADLINE, Mock, bash, say, served};
use crate::{Run, World};

const TASK: &str = "change the file";

fn one_change() -> Mock {
    Mock::start(&[(TASK, vec![bash("touch made"), say("That is it.")])])
}

/// Starts a task on a server and waits until its call waits for an answer. Returns the session.
pub(crate) fn asked(server: &ServeProcess, wish: &Value) -> String {
    let made = server.post("/api/agent/sessions", wish);
    let id = made["sessionId"].as_str().unwrap().to_owned();
    let mut events = server.events(&id, 0);
    server.post(&format!("/api/agent/sessions/{id}/messages"), &json!({ "content": TASK }));
    events.until("approval.request");
    id
}

/// The first word of a list with one approval.
pub(crate) fn only_id(list: &Run) -> String {
    assert_eq!(list.code, Some(0), "{list:?}");
    assert_eq!(list.out.lines().filter(|line| !line.starts_with(' ')).count(), 1, "{list:?}");
    list.out.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn an_approval_is_listed_allowed_once_and_gone() {
    let mock = one_change();
    let world = World::with_openai(&mock.url());
    let server = serve(&world, &[]);
    let empty = world.finish(&["approve"]);
    assert_eq!((empty.code, empty.out.as_str()), (Some(0), "No pending approvals.\n"), "{empty:?}");
    let session = asked(&server, &json!({}));
    let list = world.finish(&["approve"]);
    assert!(list.out.contains("touch made") && list.out.contains("expires in 1h"), "{list:?}");
    let unread = world.run_unread(&["approve"]);
    assert_eq!((unread.code, unread.err.as_str()), (Some(0), ""), "as for `sysop approve | head -1`");
    let id = only_id(&list);
    let wrong = world.finish(&["approve", "ffffff-1"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("no pending approval `ffffff-1`"), "{wrong:?}");
    assert!(!world.has("made"));
    let mut events = server.events(&session, 0);
    let allowed = world.finish(&["approve", &id]);
    assert_eq!((allowed.code, allowed.out.as_str()), (Some(0), "Allowed: touch made\n"), "{allowed:?}");
    events.until("assistant.done");
    assert!(world.has("made"));
    assert_eq!(world.finish(&["approve", &id]).code, Some(2), "an id is used once");
}

#[test]
fn a_rejection_reaches_the_model_with_its_reason() {
    let mock = one_change();
    let world = World::with_openai(&mock.url());
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    let id = only_id(&world.finish(&["approve"]));
    let mut events = server.events(&session, 0);
    let rejected = world.finish(&["approve", &id, "--reject", "not during the freeze"]);
    assert_eq!((rejected.code, rejected.out.as_str()), (Some(0), "Rejected: touch made\n"), "{rejected:?}");
    events.until("assistant.done");
    assert!(!world.has("made"));
    assert!(mock.last_body().to_string().contains("not during the freeze"));
}

#[test]
fn a_local_server_with_tls_is_recognized_by_its_certificate() {
    let mock = one_change();
    let pair = || rcgen::generate_simple_self_signed(["ops.example.org".to_owned()]).unwrap();
    let (made, other) = (pair(), pair());
    let world = World::with_openai(&mock.url())
        .file("cert.pem", &made.cert.pem())
        .file("other.pem", &other.cert.pem())
        .file("key.pem", &made.signing_key.serialize_pem());
    let path = |name: &str| world.home().join(name).display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let running = world.start(&["serve", "--port", "0", "--tls-cert", &cert, "--tls-key", &key]);
    let said = running.out.wait_for("the address", |said| said.contains('\n'));
    let (page, _) = served(&said);
    assert!(page.starts_with("https://127.0.0.1:"), "{page}");
    let empty = world.finish(&["approve"]);
    assert_eq!((empty.code, empty.out.as_str()), (Some(0), "No pending approvals.\n"), "{empty:?}");

    let (_, token_file) = said.trim_end().split_once(", token file ").unwrap();
    let link = std::path::Path::new(token_file).with_extension("cert");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(path("other.pem"), &link).unwrap();
    let refused = world.finish(&["approve", "ffffff-1"]);
    assert!(refused.code == Some(2) && refused.err.contains("no pending approval `ffffff-1`"), "{refused:?}");
    let (_, token) = served(&said);
    let stranger = World::new().variable("SYSOP_URL", &page).variable("SYSOP_TOKEN", &token);
    let refused = stranger.finish(&["approve"]);
    assert!(refused.code == Some(1) && refused.err.contains("certificate"), "{refused:?}");
}

#[test]
fn the_notifier_gets_the_approval_without_a_token() {
    let mock = one_change();
    let told = "#!/bin/sh\ncat >\"$HOME/told.new\" && env >\"$HOME/told.env\" && mv \"$HOME/told.new\" \"$HOME/told\"\n";
    let world = World::with_openai(&mock.url()).file("notify.sh", told);
    let program = world.home().join("notify.sh").display().to_string();
    let config = format!("[notify]\ncommand = ['/bin/sh', '{program}']\nurl = 'https://ops.example.org'\n");
    let world = world.file(".config/sysop/config.toml", &config);
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    let until = Instant::now() + DEADLINE;
    while !world.home().join("told").exists() {
        assert!(Instant::now() < until, "the notifier ran");
        std::thread::yield_now();
    }
    let text = fs::read_to_string(world.home().join("told")).unwrap();
    let event: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&event["event"], &event["command"]), (&json!("approval"), &json!("touch made")), "{event}");
    assert_eq!(event["url"], format!("https://ops.example.org/#/s/{session}"));
    assert_eq!(event["id"], only_id(&world.finish(&["approve"])));
    let environment = fs::read_to_string(world.home().join("told.env")).unwrap();
    for told in [&text, &environment] {
        assert!(!told.contains(&server.token) && !told.contains("SYSOP_PROVIDERS"), "{told}");
    }
}

#[test]
fn an_approval_that_expired_while_the_server_was_down_is_never_allowed() {
    let mock = one_change();
    let config = "approval_expires_s = 1\n";
    let world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", config);
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    let asked_at = Instant::now();
    server.kill();
    let log = world.exported(&session);
    let call = log.iter().find(|logged| logged["event"]["type"] == "approval_asked").unwrap();
    let call = call["event"]["call"]["id"].as_str().unwrap().to_owned();
    while asked_at.elapsed() < Duration::from_millis(1100) {
        std::thread::yield_now();
    }
    let again = serve(&world, &[]);
    let list = world.finish(&["approve"]);
    assert_eq!(list.out, "No pending approvals.\n", "{list:?}");
    let answer = json!({ "toolCallId": call, "decision": "allow" });
    let path = format!("/api/agent/sessions/{session}/decisions");
    again.post_as(&again.token, &path, &answer);
    again.events(&session, 0).until("assistant.done");
    assert!(!world.has("made"));
    let rejected = world.exported(&session).iter().any(|logged| logged["event"]["by"] == "sysop");
    assert!(rejected, "the expiry is in the log");
}

#[test]
fn bounds_of_exec_end_in_asking() {
    let mock = Mock::start(&[(TASK, vec![bash("touch one"), bash("touch two"), say("Both.")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--bounds", "1 command, 30m", TASK]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.err.contains("auto ended after 1 command; the mode is `ask` again"), "{run:?}");
    let (result, end) = (run.err.find("  ok, exit code 0"), run.err.find("auto ended"));
    assert!(result.is_some() && result < end, "{run:?}");
    assert!(world.has("one") && !world.has("two"));
    let refused = world.finish(&["exec", "--bounds", "20 parsecs", TASK]);
    assert!(refused.code == Some(2) && refused.err.contains("'20 parsecs'"), "{refused:?}");
    let elsewhere = world.finish(&["exec", "--bounds", "5 commands, @lab", TASK]);
    assert_ne!(elsewhere.code, Some(0), "{elsewhere:?}");
}
