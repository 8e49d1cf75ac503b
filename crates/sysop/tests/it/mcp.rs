//! MCP servers in the real binary: consent, approval, many tools, import.

mod reference;
mod serve;

use serde_json::{Value, json};

use crate::World;
use crate::support::{Mock, bash, call, say};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sysop-mcp/tests/it/server.py");
const SYSOP: &str = env!("CARGO_BIN_EXE_sysop");

fn add(world: &World, name: &str, mode: &str, argument: &str, options: &[&str]) {
    let mut arguments = vec!["mcp", "add", name];
    arguments.extend(options);
    arguments.extend(["--", "python3", SERVER, mode, argument]);
    let run = world.finish(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
}

fn offered(server: &Mock) -> Vec<String> {
    let body = server.last_body();
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Results of tools in the last request.
fn results(server: &Mock) -> Vec<String> {
    let body = server.last_body();
    let messages = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn echo() -> Value {
    call("mcp__test__echo", json!({"text": "hello"}))
}

#[test]
fn a_call_asks_in_every_mode_and_shows_its_arguments() {
    let server = Mock::start(&[("go", vec![echo(), say("Done.")])]);
    let world = World::with_openai(&server.url());
    add(&world, "test", "calm", "x", &[]);
    for mode in ["each", "ask", "auto"] {
        let run = world.finish(&["exec", "--approve", mode, "go"]);
        assert_eq!(run.code, Some(3), "{mode}: {run:?}");
        assert!(run.err.contains(r#"mcp__test__echo {"text":"hello"}"#), "{mode}: {run:?}");
        assert!(
            run.err.contains(r#"allow this call in `sysop chat`, or set approve = "reads" in [mcp.test]"#),
            "{run:?}"
        );
    }
    let run = world.finish(&["exec", "--approve", "never", "go"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(results(&server)[0].starts_with("denied: this session is read-only"), "{:?}", results(&server));
    let mut chat = world.start_with_input(&["chat", "--approve", "auto"]);
    chat.type_text("go\ny\n");
    chat.end_input();
    let run = chat.finish();
    assert!(run.out.contains("mcp__test__echo\ntext: hello\n"), "{run:?}");
    assert_eq!(results(&server), ["hello"]);
}

#[test]
fn read_only_calls_run_only_if_the_user_believes_the_server() {
    let act = || call("mcp__test__act", json!({"text": ""}));
    let server = Mock::start(&[("go", vec![echo(), say("Done.")]), ("act", vec![act(), say("Acted.")])]);
    let world = World::with_openai(&server.url());
    add(&world, "test", "calm", "x", &["--calls", "reads"]);
    for mode in ["each", "ask", "auto", "never"] {
        let run = world.finish(&["exec", "--approve", mode, "go"]);
        assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{mode}: {run:?}");
        assert_eq!(results(&server), ["hello"], "{mode}");
    }
    assert_eq!(world.finish(&["exec", "--approve", "auto", "act"]).code, Some(3));
}

#[test]
fn a_server_in_the_config_starts_nothing_before_the_user_agrees() {
    let server = Mock::start(&[("go", vec![say("Done.")])]);
    let mark = |world: &World| world.home().join("started");
    let entry = |command: &str| {
        format!("[mcp.test]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {command}; exit 1\"]\n")
    };
    let world = World::with_openai(&server.url());
    let text = entry(&mark(&world).display().to_string());
    let world = world.file(".config/sysop/config.toml", &text);
    for arguments in [&["exec", "go"][..], &["mcp", "list"]] {
        let run = world.finish(arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(format!("{}{}", run.out, run.err).contains("your consent"), "{run:?}");
    }
    assert!(!mark(&world).exists());
    assert!(offered(&server).iter().all(|name| !name.starts_with("mcp__")));
}

#[test]
fn a_changed_command_line_loses_the_consent() {
    let server = Mock::start(&[("go", vec![say("Done.")])]);
    let world = World::with_openai(&server.url());
    add(&world, "test", "calm", "x", &[]);
    world.finish(&["exec", "go"]);
    assert!(offered(&server).contains(&"mcp__test__echo".to_owned()));
    let file = world.home().join(".config/sysop/config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("calm", "banner")).unwrap();
    let run = world.finish(&["exec", "go"]);
    assert!(run.err.contains("MCP servers need your consent: test"), "{run:?}");
    assert!(offered(&server).iter().all(|name| !name.starts_with("mcp__")));
}

#[test]
fn a_workspace_can_only_turn_servers_off() {
    let server = Mock::start(&[("go", vec![say("Done.")])]);
    let world = World::with_openai(&server.url());
    add(&world, "test", "calm", "x", &[]);
    let own = world.work().join(".sysop.toml");
    std::fs::write(&own, "[mcp.evil]\ncommand = \"sh\"\n[mcp.test]\napprove = \"reads\"\n").unwrap();
    std::fs::write(world.work().join(".mcp.json"), r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    let run = world.finish(&["mcp", "list"]);
    assert!(run.out.contains("every call needs approval") && !run.out.contains("evil"), "{run:?}");
    assert!(run.out.contains("has 1 MCP server; to use them, run `sysop mcp import"), "{run:?}");
    std::fs::write(&own, "[mcp.test]\nenabled = false\n").unwrap();
    world.finish(&["exec", "go"]);
    assert!(offered(&server).iter().all(|name| !name.starts_with("mcp__")));
}

#[test]
fn a_call_of_a_session_cannot_add_a_server() {
    let commands = [
        format!("{SYSOP} mcp add evil -- sh"),
        format!("{SYSOP} mcp remove test"),
        format!("echo y | {SYSOP} mcp import x.json"),
    ];
    let mut steps: Vec<Value> = commands.iter().map(|command| bash(&format!("{command} 2>&1"))).collect();
    steps.push(say("Done."));
    let server = Mock::start(&[("go", steps)]);
    let world = World::with_openai(&server.url());
    std::fs::write(world.work().join("x.json"), r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    let mut chat = world.start_with_input(&["chat", "--approve", "auto"]);
    chat.type_text("go\nY\nY\nY\n");
    chat.end_input();
    chat.finish();
    let results = results(&server);
    assert_eq!(results.len(), 3, "{results:?}");
    for result in results {
        assert!(result.contains("cannot run inside a sysop session"), "{result}");
    }
    assert!(!world.home().join(".config/sysop/config.toml").exists());
}

#[test]
fn with_300_tools_a_first_request_stays_short_and_every_tool_can_be_called() {
    let name = "mcp__server-7__query_orders_11";
    let found = call("find_tools", json!({"query": "query orders 11"}));
    let wrapped = call("call_tool", json!({"name": name, "arguments": {"text": "new"}}));
    let server = Mock::start(&[("go", vec![found, wrapped, say("Done.")])]);
    let world = World::with_openai(&server.url());
    for number in 0..20 {
        let topic = if number == 7 { "orders" } else { "logs" };
        add(&world, &format!("server-{number}"), "many", topic, &[]);
    }
    let mut chat = world.start_with_input(&["chat"]);
    chat.type_text("go\ny\n");
    chat.end_input();
    let run = chat.finish();
    let first = &server.requests()[0].body;
    let bytes = first.to_string().len();
    assert!(bytes <= 8 * 1024, "{bytes} bytes");
    let shown = format!("name: {name}\narguments: {{\"text\":\"new\"}}\n");
    assert!(run.out.contains(&shown), "the approval shows the call itself: {run:?}");
    let results = results(&server);
    assert!(results[0].contains(&format!(r#"{{"name":"{name}""#)), "{results:?}");
    assert_eq!(results[1], "rows of query_orders_11");
}

#[test]
fn an_import_is_shown_and_needs_a_yes() {
    let world = World::new();
    let file = world.work().join("mcp.json");
    std::fs::write(&file, r#"{"mcpServers": {"a": {"command": "x", "args": ["y"]}}, /* trailing */ }"#)
        .unwrap();
    let config = world.home().join(".config/sysop/config.toml");
    let path = file.display().to_string();
    let run = world.finish(&["mcp", "import", &path]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(!config.exists());
    let mut import = world.start_with_input(&["mcp", "import", &path]);
    import.type_text("y\n");
    let run = import.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let entry = "[mcp.a]\ncommand = \"x\"\nargs = [\"y\"]\n";
    assert!(run.out.contains(entry) && std::fs::read_to_string(&config).unwrap() == entry, "{run:?}");
    let run = world.finish(&["mcp", "list"]);
    assert!(run.out.contains("a  needs your consent") && run.out.contains("command: x y"), "{run:?}");
    let run = world.finish(&["mcp", "remove", "a"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "");
    assert_eq!(world.finish(&["mcp", "remove", "a"]).code, Some(2));
}

#[test]
fn a_server_that_fails_is_reported_with_its_last_words() {
    let world = World::new();
    let run = world.finish(&["mcp", "add", "bad", "--", "python3", SERVER, "exits"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("usage: server TOKEN"), "{run:?}");
    let run = world.finish(&["mcp", "list"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.out.contains("bad  failed:") && run.out.contains("exited with 3"), "{run:?}");
    for arguments in
        [&["mcp", "add", "a__b", "--", "x"][..], &["mcp", "add", "BAD", "--", "x"], &["mcp", "add", "x"]]
    {
        assert_eq!(world.finish(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn images_of_a_result_reach_models_that_see_them_and_others_get_a_note() {
    let act = || call("mcp__test__act", json!({"text": ""}));
    let server = Mock::start(&[("go", vec![act(), say("Done.")])]);
    for (vision, expected) in [
        ("true", "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAAA="),
        ("false", "[image 5×4 test omitted: you cannot see images; tell the user if the image matters]"),
    ] {
        let config = format!("[models.\"openai/test-model\"]\nvision = {vision}\n");
        let world = World::with_openai(&server.url()).file(".config/sysop/config.toml", &config);
        add(&world, "test", "draws", "x", &[]);
        let mut chat = world.start_with_input(&["chat"]);
        chat.type_text("go\ny\n");
        chat.end_input();
        let run = chat.finish();
        let body = server.last_body().to_string();
        assert!(body.contains(expected) && body.contains("the load\\n[image 5×4 test]"), "{body} {run:?}");
        assert_eq!(body.contains("base64"), vision == "true", "{body}");
    }
}

#[test]
fn the_servers_of_a_session_are_shown_with_their_state_and_tools() {
    let act = || call("mcp__test__act", json!({"text": ""}));
    let server = Mock::start(&[("go", vec![act(), say("Done.")])]);
    let mut world = World::with_openai(&server.url());
    add(&world, "test", "calm", "x", &[]);
    add(&world, "frail", "dies", "x", &[]);
    let config = world.home().join(".config/sysop/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[mcp.new]\ncommand = \"x\"\n")).unwrap();
    let act = || call("mcp__frail__act", json!({"text": ""}));
    let frail = Mock::start(&[("go", vec![act(), say("Done.")])]);
    for (model, expected) in [
        (
            &server,
            ["test  running (test 1, protocol 2025-11-25)", "frail  not started; starts with its first call"],
        ),
        (&frail, ["test  not started; starts with its first call", "frail  failed: the MCP server closed"]),
    ] {
        world = world.variable("SYSOP_PROVIDERS__OPENAI__BASE_URL", &format!("{}/v1", model.url()));
        let mut chat = world.start_with_input(&["chat"]);
        chat.type_text("go\ny\n/mcp\n");
        chat.end_input();
        let run = chat.finish();
        for part in expected.into_iter().chain(["  mcp__test__echo", "new  needs your consent"]) {
            assert!(run.out.contains(part), "{part}: {run:?}");
        }
    }
}
