//! Live terminal of a session on a server, in the TUI of a remote client; and a session without a host.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use alacritty_terminal::vte::ansi::Color;
use serde_json::{Value, json};

use super::{RelayedServer, client, connect, leaves, results};
use crate::person::at_a_terminal;
use crate::support::{Mock, bash, call, files_below, say};
use crate::viewer::Viewer;

/// Creates a session on the server. Returns the status and the response.
fn new_session(server: &RelayedServer, wish: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(server.link.address).unwrap();
    let (address, token, body) = (server.link.address, &server.token, wish.to_string());
    let head = format!(
        "POST /api/agent/sessions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn a_server_terminal_takes_input_and_resizes_and_survives_a_reconnect() {
    let mock = Mock::start(&[("hello", vec![say("Hello.")])]);
    let mut server = RelayedServer::new(&mock);
    server.world = server.world.variable("SHELL", "/bin/bash");
    server.again();
    let id = new_session(&server, &json!({})).1["sessionId"].as_str().unwrap().to_owned();
    // A local shell could not start.
    let here = client().variable("SHELL", "/bin/false");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&here, &["attach", &server.url(), &id]);
        // Only the server knows this model, so the session runs there.
        viewer.sees("openai/test-model").await;
        viewer.types("\x14").await;
        viewer.sees("Ctrl+] to return").await;
        let prompt = |screen: &str| {
            screen.lines().next().is_some_and(|line| line.trim_end().ends_with(['$', '#', '%', '>']))
        };
        viewer.sees_that("a prompt", prompt).await;
        viewer.types("echo $((20 + 22)) > typed; cat typed\r").await;
        viewer.sees_that("the output", |screen| screen.lines().any(|line| line.trim() == "42")).await;
        assert_eq!(server.world.read("typed").trim(), "42");
        assert!(!here.has("typed"), "it ran there and not here");

        // A command on the server sees the terminal's new size.
        viewer.types("until stty size | grep -q ' 90$'; do sleep 0.05; done; echo now wide\r").await;
        viewer.sees("now wide").await;
        viewer.resizes(90, 20);
        viewer.sees_that("the new size", |screen| screen.lines().any(|line| line.trim() == "now wide")).await;

        server.link.cut();
        viewer.types("\x1d").await;
        viewer.sees("reconnected to the server").await;
        viewer.types("\x14").await;
        // The same shell with its screen.
        viewer.sees_that("the picture", |screen| screen.lines().any(|line| line.trim() == "42")).await;
        viewer.types("echo $((6 * 111)) after\r").await;
        viewer.sees("666 after").await;
        viewer.types("\x1d").await;
        viewer.sees("Describe a task").await;
        viewer.types("\x03\x03").await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_new_session_on_a_server_keeps_place_model_and_mode() {
    let mock = Mock::start(&[("hello", vec![say("Hello.")])]);
    let server = RelayedServer::start(&mock);
    let root = server.world.work().join("deep");
    std::fs::create_dir(&root).unwrap();
    let id = new_session(&server, &json!({ "root": root })).1["sessionId"].as_str().unwrap().to_owned();
    let here = client();
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&here, &["attach", &server.url(), &id]);
        viewer.sees("openai/test-model").await;
        viewer.types("hello\r").await;
        viewer.sees("Hello.").await;
        viewer.types("/model openai/other\r").await;
        viewer.sees("openai/other").await;
        viewer.types("/approve never\r").await;
        viewer.sees("never").await;
        viewer.types("/new\r").await;
        let is_new = |screen: &str| screen.contains("Describe a task") && !screen.contains("Hello.");
        let is_same = |screen: &str| screen.contains("openai/other") && screen.contains("never");
        viewer.sees_that("a new session", |screen| is_new(screen) && is_same(screen)).await;
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
    let ids = server.world.session_ids();
    let newest = ids.iter().find(|other| !id.starts_with(*other)).expect("a second session");
    let log = server.world.exported(newest);
    let spec = &log[0]["event"]["spec"];
    assert_eq!((&spec["root"], &spec["model"]), (&json!(root), &json!("openai/other")));
}

#[test]
fn server_output_keeps_colors_and_no_other_sequences() {
    let print = "printf 'x \\033[31mscarlet\\033[0m \\033]0;owned\\007\\033[2Jend\\n'";
    let mock = Mock::start(&[("go", vec![bash(print), say("Done.")])]);
    let server = RelayedServer::start(&mock);
    let id = new_session(&server, &json!({ "approve": "auto" })).1["sessionId"].as_str().unwrap().to_owned();
    let here = client();
    let red = Some(Color::Indexed(1));
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&here, &["attach", &server.url(), &id]);
        viewer.sees("openai/test-model").await;
        viewer.types("go\r").await;
        // A running command has its own stream; after its end, the output comes from the result.
        viewer.sees("Done.").await;
        assert_eq!(viewer.color_of("scarlet end"), red, "{}", viewer.screen());
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
        let mut viewer = Viewer::sits_down(&here, &["attach", &server.url(), &id]);
        viewer.sees("Done.").await;
        assert_eq!(viewer.color_of("scarlet end"), red, "{}", viewer.screen());
        assert_ne!(viewer.color_of("end"), red);
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
    assert!(!mock.last_body().to_string().contains("\\u001b"), "the model is told the text alone");
}

#[test]
fn a_session_on_an_unknown_host_is_refused() {
    let mock = Mock::start(&[]);
    let server = RelayedServer::start(&mock);
    for hosts in ["nosuchhost.invalid", "127.0.0.1,nosuchhost.invalid"] {
        let (status, refused) = new_session(&server, &json!({ "host": hosts }));
        let sentence = "unknown host nosuchhost.invalid; check the spelling, use an IP address, or add";
        assert!(status == 422 && refused.to_string().contains(sentence), "{status}: {refused}");
    }
    // A request that is invalid anyway does not look the host up.
    let (status, refused) =
        new_session(&server, &json!({ "host": "nosuchhost.invalid", "profile": "bogus" }));
    assert!(status == 422 && refused.to_string().contains("unknown profile"), "{status}: {refused}");
    let wish = json!({ "host": "nosuchhost.invalid", "model": "bogus/x" });
    let (status, refused) = new_session(&server, &wish);
    assert!(status == 422 && refused.to_string().contains("unknown provider"), "{status}: {refused}");
    let listed = server.world.finish(&["sessions", "list"]);
    assert!(!listed.out.contains("nosuchhost"), "{listed:?}");
}

#[test]
fn a_session_without_a_host_needs_no_server_files() {
    let mock = Mock::start(&[(
        "write it down",
        vec![
            call("write_file", json!({ "path": "note.md", "content": "noted\n" })),
            call("read_file", json!({ "path": "note.md" })),
            say("It is written down."),
        ],
    )]);
    let (server, here) = (RelayedServer::start(&mock), client());
    // The working directory of the server's own tools is gone.
    std::fs::remove_dir(server.world.work()).unwrap();
    let (status, refused) = new_session(&server, &json!({}));
    assert!(status >= 400, "one that has a machine cannot be made: {refused}");
    let (status, made) = new_session(&server, &json!({ "host": "none" }));
    assert_eq!(status, 201, "{made}");

    let files = || files_below(server.world.home()).into_iter().collect::<BTreeSet<PathBuf>>();
    let before = files();
    let mut talk = connect(&here, &server, &["--profile", "coder", "--approve", "auto"]);
    talk.out.wait_for_text("You: ");
    talk.type_text("write it down\n");
    talk.out.wait_for_text("It is written down.");
    leaves(talk);
    assert_eq!(here.read("note.md"), "noted\n");
    let results = results(&mock);
    assert!(results[1].contains("noted"), "{results:?}");
    let kept = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with("sysop.db") && !name.starts_with("audit.")
    };
    let after = files();
    let new: Vec<_> = after.difference(&before).filter(kept).collect();
    assert!(new.is_empty() && !server.world.work().exists(), "{new:?}");
}
