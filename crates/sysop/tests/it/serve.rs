//! `sysop serve` as its clients see it: sockets of another language, requests and events, kills and restarts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::World;
use crate::support::{DEADLINE, Mock, Running, bash, call, say, served};

/// Running server.
pub(crate) struct ServeProcess {
    running: Running,
    pub(crate) address: String,
    pub(crate) token: String,
}

pub(crate) fn serve(world: &World, arguments: &[&str]) -> ServeProcess {
    let running = world.start(&[&["serve", "--port", "0"], arguments].concat());
    let said = running.out.wait_for("address", |said| said.contains('\n'));
    let (page, token) = served(&said);
    let address = page.trim_start_matches("http://").trim_end_matches('/').to_owned();
    ServeProcess { address, token, running }
}

impl ServeProcess {
    /// Kills the server, as a power failure would.
    pub(crate) fn kill(self) {
        self.running.kill();
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> TcpStream {
        self.send_as(&self.token, method, path, more, body)
    }

    fn send_as(&self, token: &str, method: &str, path: &str, more: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (address, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream
    }

    /// Posts bytes of this media type; returns the status and the text of the response.
    pub(crate) fn upload(&self, path: &str, media_type: &str, bytes: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (address, token, length) = (&self.address, &self.token, bytes.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(bytes); // fails if the server refuses by the header alone
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        let (head, body) = text.split_once("\r\n\r\n").expect("a response");
        let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Posts with this token; returns the status and the text of the response.
    pub(crate) fn post_as(&self, token: &str, path: &str, body: &Value) -> (u16, String) {
        let mut text = String::new();
        self.send_as(token, "POST", path, "", &body.to_string()).read_to_string(&mut text).unwrap();
        let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        (status.expect("a status"), text)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let mut text = String::new();
        self.send("POST", path, "", &body.to_string()).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{text}");
        serde_json::from_str(body).unwrap()
    }

    pub(crate) fn session(&self) -> String {
        let made = self.post("/api/agent/sessions", &json!({}));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn events(&self, session: &str, after: u64) -> Events {
        let path = format!("/api/agent/sessions/{session}/events");
        let stream = self.send("GET", &path, &format!("Last-Event-ID: {after}\r\n"), "");
        Events { lines: BufReader::new(stream) }
    }
}

/// Stream of server-sent events.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// Returns the next message, or `None` if the stream ended.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).ok()? > 0 {
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
            line.clear();
        }
        None
    }

    pub(crate) fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let Some(message) = self.next() else { panic!("ended before {kind}: {all:?}") };
            let found = message["type"] == kind;
            all.push(message);
            if found {
                return all;
            }
        }
    }
}

fn last_seq(messages: &[Value]) -> u64 {
    messages.iter().filter_map(|message| message["seq"].as_u64()).max().unwrap()
}

#[test]
fn a_python_client_completes_the_whole_flow() {
    let mock = Mock::start(&[(
        "write the docs",
        vec![
            call("ls", json!({ "path": "." })),
            call("write_file", json!({ "path": "../outside.md", "content": "no" })),
            call("write_file", json!({ "path": "README.md", "content": "# Docs\n" })),
            say("The docs are written."),
        ],
    )]);
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &[]);
    let client = tempfile::tempdir().unwrap();
    std::fs::write(client.path().join("kept.md"), "x").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/serve/jolli.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(format!("http://{}", served.address)).arg(&served.token);
    let run = python.arg(client.path()).arg("write the docs").output().unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    let heard: Vec<Value> = said
        .lines()
        .filter_map(|line| line.strip_prefix("<- "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| heard.iter().filter(|message| message["type"] == kind).collect::<Vec<_>>();
    assert_eq!(heard[0]["type"], "session.created");
    assert_eq!(of("tool.call").len(), 3, "{said}");
    assert_eq!(of("approval.request").len(), 2, "changes need approval: {said}");
    let statuses: Vec<&str> = of("tool.finished").iter().map(|end| end["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["ok", "failed", "ok"], "{said}");
    let text: String = of("assistant.delta").iter().map(|delta| delta["content"].as_str().unwrap()).collect();
    assert!(text.ends_with("The docs are written."), "{said}");
    assert_eq!(of("assistant.done")[0]["metadata"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(client.path().join("README.md")).unwrap(), "# Docs\n");
    assert!(!world.has("README.md"), "the server's machine has no such file");
    let told = mock.last_body().to_string();
    assert!(told.contains("kept.md") && told.contains("outside of the workspace"), "{told}");
}

#[test]
fn a_server_killed_during_a_turn_continues_after_a_restart_without_repeats() {
    let job = "echo ran >> lines; sleep 600";
    let mock = Mock::start(&[("the long job", vec![bash(job), say("It was done.")])]);
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &["--approve", "auto"]);
    let id = served.session();
    let mut events = served.events(&id, 0);
    served.post(&format!("/api/agent/sessions/{id}/messages"), &json!({ "content": "the long job" }));
    let before = events.until("tool.call");
    let until = Instant::now() + DEADLINE;
    while !world.has("lines") {
        assert!(Instant::now() < until, "the job never began");
        std::thread::yield_now();
    }
    served.running.kill();
    // Sent events are stored; events after the last complete one are sent again.
    let had = last_seq(&before) - 1;
    let served = serve(&world, &["--approve", "auto"]);
    let mut events = served.events(&id, had);
    let after = events.until("tool.finished");
    assert_eq!(after[0]["type"], "tool.call", "{after:?}");
    assert_eq!(after[0]["seq"], had + 1);
    let end = after.last().unwrap();
    assert_eq!((end["status"].as_str(), end["seq"].as_u64()), (Some("interrupted"), Some(had + 2)));
    served.post(&format!("/api/agent/sessions/{id}/resume"), &json!({}));
    events.until("assistant.done");
    assert_eq!(world.read("lines"), "ran\n", "the command ran once");
    let log = world.exported(&id);
    let seqs: Vec<u64> = log.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_stopping_server_notifies_its_clients_and_exits_soon() {
    let mock = Mock::start(&[]);
    let world = World::with_openai(&mock.url());
    let mut served = serve(&world, &[]);
    let id = served.session();
    let mut events = served.events(&id, 0);
    events.until("session.created");
    served.running.signal(Signal::TERM);
    assert_eq!(events.until("error").last().unwrap()["code"], "draining");
    assert!(events.next().is_none());
    assert!(served.running.ends_within(Duration::from_secs(10)), "the server exits");
    let run = served.running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let log = crate::support::lines_of_json(&run.err);
    assert!(log.iter().any(|line| line["fields"]["message"] == "ended"), "{}", run.err);
}

#[test]
fn a_server_warns_of_an_unknown_host_and_starts() {
    let world = World::with_openai("http://127.0.0.1:9");
    let server = serve(&world, &["--host", "nowhere.invalid"]);
    let expected = "warning: unknown host nowhere.invalid; check the spelling";
    server.running.err.wait_for_text(expected);
    server.kill();
}

#[test]
fn deleting_a_session_removes_files_that_no_fork_needs() {
    let shown = json!({ "command": "echo shown", "reasoning": "" });
    let mock = Mock::start(&[
        (
            "much work",
            vec![
                bash("seq 100000"),
                call("write_file", json!({ "path": "file", "content": "after" })),
                call("run_command", shown),
                say("done"),
            ],
        ),
        ("more", vec![say("done again")]),
    ]);
    let world = World::with_openai(&mock.url());
    std::fs::write(world.work().join("file"), "before").unwrap();
    let served = serve(&world, &["--approve", "auto"]);
    let id = served.session();
    let mut events = served.events(&id, 0);
    let mut names = Vec::new();
    for prompt in ["much work", "more"] {
        served.post(&format!("/api/agent/sessions/{id}/messages"), &json!({ "content": prompt }));
        let told = events.until("assistant.done");
        assert_eq!(told.last().unwrap()["metadata"]["stopReason"], "end_turn", "{told:?}");
        names.extend(told.iter().filter_map(|message| message["artefact"].as_str().map(str::to_owned)));
    }
    let fork = served.post(&format!("/api/agent/sessions/{id}/fork"), &json!({ "before": 2 }));
    let fork = fork["sessionId"].as_str().unwrap().to_owned();
    let kept = || {
        let files = crate::support::files_below(&world.data().join("artefacts"));
        let names = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
        let mut kinds: Vec<String> =
            names.map(|name| name.split('-').next().unwrap().chars().take(8).collect()).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kept().len(), 3, "the output, the earlier content, the recording: {:?}", kept());

    let mut answer = String::new();
    let path = format!("/api/agent/sessions/{id}");
    served.send("DELETE", &path, "", "").read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(kept().len(), 2, "the fork still has all but the recording: {:?}", kept());
    assert!(!kept().contains(&"terminal".to_owned()), "{:?}", kept());
    let [name] = names.as_slice() else { panic!("one output is stored: {names:?}") };
    let mut whole = String::new();
    let path = format!("/api/agent/sessions/{fork}/artefacts/{name}");
    served.send("GET", &path, "", "").read_to_string(&mut whole).unwrap();
    assert!(whole.starts_with("HTTP/1.1 200") && whole.contains("\n100000\n"), "{} bytes", whole.len());
    served.running.kill();

    let run = world.finish(&["sessions", "delete", &fork]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(kept(), Vec::<String>::new());
}

#[test]
fn a_fork_on_a_server_begins_with_the_settings_of_its_session_at_that_turn() {
    let mock = Mock::start(&[("apples", vec![say("Round.")]), ("pears", vec![say("Not round.")])]);
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &["--approve", "ask"]);
    let id = served.session();
    let mut events = served.events(&id, 0);
    for (mode, prompt) in [("each", "apples"), ("never", "pears")] {
        served.post(&format!("/api/agent/sessions/{id}/configure"), &json!({ "approve": mode }));
        while events.until("configured").last().unwrap()["approve"] != mode {}
        served.post(&format!("/api/agent/sessions/{id}/messages"), &json!({ "content": prompt }));
        events.until("assistant.done");
    }
    let settings = |id: &str| {
        let mut text = String::new();
        served.send("GET", &format!("/api/agent/sessions/{id}"), "", "").read_to_string(&mut text).unwrap();
        let shown: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        ["approve", "model", "host"].map(|name| shown[name].as_str().unwrap_or_default().to_owned())
    };
    for (before, mode) in [(1, "each"), (2, "never")] {
        let fork = served.post(&format!("/api/agent/sessions/{id}/fork"), &json!({ "before": before }));
        let fork = settings(fork["sessionId"].as_str().unwrap());
        assert_eq!(fork, [mode, "openai/test-model", "local"], "before turn {before}");
    }
    served.kill();
}

#[test]
fn the_log_records_calls_without_secrets_and_contents() {
    let mock = Mock::start(&[(
        "count",
        vec![bash("echo content-of-a-file; true private-argument"), say("private-answer")],
    )]);
    let world = World::with_openai(&mock.url()).variable("OPENAI_API_KEY", "sk-private-key");
    let served = serve(&world, &["--approve", "auto", "-vv"]);
    let id = served.session();
    let mut events = served.events(&id, 0);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let body = json!({ "content": "count private-prompt", "traceparent": format!("00-{trace}-b7ad6b7169203331-01") });
    served.post(&format!("/api/agent/sessions/{id}/messages"), &body);
    events.until("assistant.done");
    let token = served.token.clone();
    let log = served.running.kill().err;
    let calls: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["fields"]["message"] == "tool call")
        .collect();
    let [call] = calls.as_slice() else { panic!("{log}") };
    let fields = &call["fields"];
    assert_eq!((fields["session"].as_str(), fields["tool"].as_str()), (Some(id.as_str()), Some("bash")));
    assert_eq!((fields["trace"].as_str(), fields["status"].as_str()), (Some(trace), Some("ok")));
    assert!(fields["duration_ms"].is_u64() && fields["output_bytes"].as_u64() > Some(0), "{call}");
    for secret in ["private-", "content-of-a-file", token.as_str()] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[test]
fn a_child_server_gives_its_token_to_the_parent_only_and_ends_with_it() {
    let mock =
        Mock::start(&[("break it", vec![bash("echo x > broken --password hunter2secret"), say("Not.")])]);
    let world = World::with_openai(&mock.url()).variable("SYSOP_LOG", "trace");
    let running = world.start_with_input(&["serve", "--port", "0", "--watched", "-vv"]);
    let said = running.out.wait_for("address", |said| said.contains('\n'));
    let first: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(first["type"], "serving");
    let (address, token) =
        first["url"].as_str().unwrap().trim_start_matches("http://").split_once("/?token=").unwrap();
    let mut served = ServeProcess { address: address.to_owned(), token: token.to_owned(), running };
    // Signs in as the window does; the page's own cookie is a secret too.
    let mut page = String::new();
    served.send("GET", &format!("/?token={token}"), "", "").read_to_string(&mut page).unwrap();
    let id = served.session();
    served.post(
        &format!("/api/agent/sessions/{id}/messages"),
        &json!({ "content": "break it, sk-0123456789abcdef" }),
    );
    let told = served.running.out.wait_for_text("approval.request");
    assert!(told.contains("break it") && told.contains("echo x > broken"), "{told}");
    served.running.end_input();
    let run = served.running.finish();
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("serving"), "{}", run.err);
    assert_eq!(run.out.matches(token).count(), 1, "{}", run.out);
    for secret in ["hunter2secret", "sk-0123456789abcdef"] {
        assert!(!run.out.contains(secret) && !run.err.contains(secret), "{}\n{}", run.out, run.err);
    }
    assert!(!run.err.contains(token), "{}", run.err);
}

#[test]
fn the_api_matches_its_description() {
    let mock = Mock::start(&[]);
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &[]);
    let target = PathBuf::from(env!("CARGO_BIN_EXE_sysop")).ancestors().nth(2).unwrap().to_owned();
    let checker = target.join("tools/schemathesis/bin/schemathesis");
    assert!(checker.exists(), "{} is missing; `cargo xtask setup` installs it", checker.display());
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                  response_schema_conformance,unsupported_method,negative_data_rejection";
    let run = Command::new(checker)
        .args(["run", &format!("http://{}/api/openapi.json", served.address)])
        .args(["-H", &format!("Authorization: Bearer {}", served.token)])
        // Sockets and endless streams.
        .args(["--exclude-path-regex", "/(stream|events|chat)$"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "3", "--seed", "1", "--no-color"])
        .args(["--checks", checks])
        .current_dir(world.work())
        .env("HOME", world.home())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
