//! `sysop mcp serve`, with the test as the client.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use sysop_driver::tokens::TokenStore;
use sysop_store::SqliteStore;

use crate::World;
use crate::support::{DEADLINE, Mock, Running, bash, say};

/// A client that speaks JSON-RPC line by line.
struct Client {
    server: Running,
    last: u64,
}

impl Client {
    fn start(world: &World, options: &[&str], capabilities: Value) -> Self {
        let mut arguments = vec!["mcp", "serve"];
        arguments.extend(options);
        let mut client = Self { server: world.start_with_input(&arguments), last: 0 };
        let info = json!({"name": "test-agent", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let opened = client.request("initialize", params);
        assert_eq!(opened["result"]["serverInfo"]["name"], "sysop", "{opened}");
        client.send(json!({"method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.server.type_text(&format!("{message}\n"));
    }

    /// Waits for the message that fits.
    fn wait_for(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let parse = |text: &str| -> Option<Value> {
            let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            messages.into_iter().find(|message| fits(message))
        };
        let text = self.server.out.wait_for(what, |text| parse(text).is_some());
        parse(&text).unwrap()
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.send(json!({"id": self.last, "method": method, "params": params}));
        self.last
    }

    fn answer(&self, id: u64) -> Value {
        self.wait_for("an answer", |message| message["id"] == id && message.get("method").is_none())
    }

    /// Calls a tool; returns its text and `isError`.
    fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        outcome(&answer)
    }
}

fn outcome(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (text, result["isError"] == true)
}

fn run(command: &str) -> Value {
    json!({"command": command, "reason": "to see"})
}

#[test]
fn by_default_another_agent_can_only_read() {
    let world = World::new();
    std::fs::write(world.work().join("notes"), "one\ntwo\n").unwrap();
    let mut client = Client::start(&world, &[], json!({"elicitation": {}}));
    let listed = client.request("tools/list", json!({}));
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        names,
        ["hosts", "run", "read_file", "write_file", "edit_file", "list", "terminal_run", "terminal_send"],
        "without a model there is no `ask`"
    );
    assert_eq!(client.call("run", run("cat notes")), ("one\ntwo\n[exit code 0]".to_owned(), false));
    let (text, is_error) = client.call("read_file", json!({"path": "notes"}));
    assert!(text.contains("one") && !is_error, "{text}");
    for (tool, arguments) in [
        ("run", run("touch made")),
        ("write_file", json!({"path": "made", "content": "x"})),
        ("edit_file", json!({"path": "notes", "old_string": "one", "new_string": "1"})),
    ] {
        let (text, is_error) = client.call(tool, arguments);
        assert!(is_error && text.starts_with("not run: this server is read-only."), "{tool}: {text}");
        assert!(text.contains("`--approve ask`"), "{tool}: {text}");
    }
    assert!(!world.work().join("made").exists());
    let (text, is_error) = client.call("nothing", json!({}));
    assert!(is_error && text.contains("unknown tool"), "{text}");
    let listed = world.finish(&["sessions", "list"]);
    assert!(listed.out.contains("(MCP client)"), "{listed:?}");
    let shown = world.finish(&["sessions", "show", &world.only_session()]).out;
    assert!(shown.contains("from an MCP client") && !shown.contains("routine"), "{shown}");
    let report = world.finish(&["sessions", "report", &world.only_session()]).out;
    assert!(report.contains("from an MCP client") && !report.to_lowercase().contains("routine"), "{report}");
}

#[test]
fn a_call_that_nobody_can_approve_is_rejected_with_the_way_out() {
    let world = World::new();
    let mut client = Client::start(&world, &["--approve", "ask"], json!({}));
    let (text, is_error) = client.call("run", run("touch made"));
    assert!(is_error && text.starts_with("not run: the call needs approval."), "{text}");
    assert!(!world.work().join("made").exists());
    assert!(!client.call("run", run("pwd")).1, "a read-only call needs no approval");
}

#[test]
fn the_people_behind_the_client_see_the_exact_command_and_decide() {
    let world = World::new();
    let mut client = Client::start(&world, &["--approve", "ask"], json!({"elicitation": {"form": {}}}));
    for (number, (answer, made)) in [
        (json!({"action": "decline"}), false),
        (json!({"action": "accept", "content": {"approve": false}}), false),
        (json!({"action": "accept", "content": {"approve": "yes"}}), false),
        (json!({"action": "accept", "content": {"approve": true}}), true),
    ]
    .into_iter()
    .enumerate()
    {
        let command = format!("touch made-{number}");
        let id = client.begin("tools/call", json!({"name": "run", "arguments": run(&command)}));
        let asked = client.wait_for("a question", |message| {
            message["method"] == "elicitation/create"
                && message["params"]["message"].as_str().is_some_and(|text| text.contains(&command))
        });
        assert!(asked["params"]["message"].as_str().unwrap().contains("Reason: to see"), "{asked}");
        client.send(json!({"id": asked["id"], "result": answer}));
        let (text, is_error) = outcome(&client.answer(id));
        assert_eq!(!is_error, made, "{text}");
        assert_eq!(world.work().join(format!("made-{number}")).exists(), made, "{text}");
    }
}

#[test]
fn a_task_for_sysops_own_model_is_answered_and_logged() {
    let server = Mock::start(&[("disk", vec![bash("echo 42 percent"), say("It is 42 percent full.")])]);
    let world = World::with_openai(&server.url());
    let mut client = Client::start(&world, &[], json!({}));
    let (text, is_error) = client.call("ask", json!({"task": "how full is the disk?"}));
    assert_eq!((text.as_str(), is_error), ("It is 42 percent full.", false));
    client.server.end_input();
    assert_eq!(client.server.finish().code, Some(0));
    let run = world.finish(&["sessions", "list"]);
    assert!(run.out.contains("how full is the disk?"), "{run:?}");
}

/// Returns the URL and the token for `sysop attach`.
fn attach_access(world: &World, client: &Client) -> (String, String) {
    let line = client.server.err.wait_for("the address", |text| text.contains("sysop attach http"));
    let between = |start: &str, end: &str| {
        let rest = &line[line.find(start).unwrap() + start.len()..];
        rest[..rest.find(end).unwrap()].to_owned()
    };
    let token_file = between("SYSOP_TOKEN=$(cat ", ")").replacen('~', &world.home().display().to_string(), 1);
    (between("sysop attach ", "\n"), std::fs::read_to_string(token_file).unwrap().trim().to_owned())
}

#[test]
fn whoever_is_attached_reads_that_the_server_ended() {
    for by_signal in [false, true] {
        let world = World::new();
        let mut client = Client::start(&world, &["--attachable"], json!({}));
        let (url, token) = attach_access(&world, &client);
        assert!(!client.call("run", run("pwd")).1);
        let world = world.variable("SYSOP_TOKEN", &token);
        let attached = world.start_with_input(&["attach", &url, "--plain"]);
        attached.out.wait_for_text("You:");
        match by_signal {
            true => client.server.signal(Signal::TERM),
            false => client.server.end_input(),
        }
        client.server.finish();
        let run = attached.finish();
        let said = format!("{}{}", run.out, run.err);
        assert_eq!(run.code, Some(1), "{said}");
        assert!(said.contains("`sysop mcp serve` ended") && !said.contains("expired"), "{said}");
        assert_eq!(stored_tokens(&world), 0);
    }
}

#[test]
fn a_call_waits_for_whoever_is_attached() {
    let world = World::new();
    let mut client = Client::start(&world, &["--approve", "ask", "--attachable"], json!({"elicitation": {}}));
    let (url, token) = attach_access(&world, &client);
    assert!(!client.call("run", run("pwd")).1);
    let world = world.variable("SYSOP_TOKEN", &token);
    let mut attached = world.start_with_input(&["attach", &url, "--plain"]);
    attached.out.wait_for_text("You:");
    let id = client.begin("tools/call", json!({"name": "run", "arguments": run("touch made")}));
    // Without a terminal, the approval is shown when the line that is being read has ended.
    let until = Instant::now() + DEADLINE;
    let is_asked = (2..).take_while(|_| Instant::now() < until).any(|prompts: usize| {
        attached.type_text("\n");
        let said = attached.out.wait_for("a prompt", |said| {
            said.contains("Run it?") || said.matches("You: ").count() >= prompts
        });
        said.contains("Run it?")
    });
    assert!(is_asked);
    attached.type_text("y\n");
    let (text, is_error) = outcome(&client.answer(id));
    assert!(!is_error && world.work().join("made").exists(), "{text}");
    let asked = client.server.out.wait_for("output", |_| true);
    assert!(!asked.contains("elicitation/create"), "{asked}");
    attached.end_input();
    attached.finish();
    client.server.end_input();
    assert_eq!(client.server.finish().code, Some(0));
    assert_eq!(stored_tokens(&world), 0);
}

/// Number of tokens in the store.
fn stored_tokens(world: &World) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&world.data().join("sysop.db")).unwrap();
        let count = store.tokens().await.unwrap().len();
        store.close().await;
        count
    })
}

#[test]
fn a_server_that_is_terminated_takes_its_token_along() {
    let world = World::new();
    let client = Client::start(&world, &["--attachable"], json!({}));
    assert_eq!(stored_tokens(&world), 1);
    client.server.signal(Signal::TERM);
    let run = client.server.finish();
    assert_eq!(run.code, Some(143), "{run:?}");
    assert_eq!(stored_tokens(&world), 0);
    let left = std::fs::read_dir(world.data()).unwrap().flatten();
    assert!(!left.into_iter().any(|file| file.path().extension().is_some_and(|end| end == "token")));
}
