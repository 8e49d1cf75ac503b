//! `sysop acp`, driven by a scripted editor.

use serde_json::{Value, json};

mod forms;
mod servers;

use crate::World;
use crate::support::{
    Mock, Running, bash, call, calls, lines_of_json, say, wait_until_gone, wait_until_there,
};

/// An editor that has started sysop and has read its messages up to a position.
struct Editor {
    running: Running,
    last_id: u64,
    /// Number of messages that were read.
    read: usize,
}

impl Editor {
    /// Starts sysop with more arguments and initializes the protocol.
    fn start(world: &World, arguments: &[&str]) -> Self {
        Self::start_with(world, arguments, json!({}))
    }

    /// Like `start`, with these capabilities of the editor.
    fn start_with(world: &World, arguments: &[&str], capabilities: Value) -> Self {
        let mut editor = Self::start_raw(world, arguments);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let answer = editor.call("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    fn start_raw(world: &World, arguments: &[&str]) -> Self {
        let arguments: Vec<_> = std::iter::once(&"acp").chain(arguments).copied().collect();
        Self { running: world.start_with_input(&arguments), last_id: 0, read: 0 }
    }

    fn send(&mut self, message: &Value) {
        self.running.type_text(&format!("{message}\n"));
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// All messages so far. Nothing but messages is on standard output.
    fn messages(text: &str) -> Vec<Value> {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let messages = lines_of_json(complete);
        assert!(messages.iter().all(|message| message["jsonrpc"] == "2.0"), "{text}");
        messages
    }

    /// Waits for the next message that fits, and skips the others.
    fn next(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let from = self.read;
        let found = |text: &str| {
            let messages = Self::messages(text);
            let at = messages.iter().skip(from).position(&fits)?;
            Some((from + at + 1, messages[from + at].clone()))
        };
        let text = self.running.out.wait_for(what, |text| found(text).is_some());
        let (read, message) = found(&text).unwrap();
        self.read = read;
        message
    }

    /// Waits for the answer to a request, among the messages that were not read yet.
    fn answer(&mut self, id: u64) -> Value {
        self.next("an answer", |message| message["id"] == id && message.get("method").is_none())
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Opens a session in a directory; returns its id and the answer.
    fn open(&mut self, world: &World) -> (String, Value) {
        let params = json!({ "cwd": world.work(), "mcpServers": [] });
        let result = self.call("session/new", params)["result"].clone();
        (result["sessionId"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned(), result)
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    fn update(&mut self, kind: &str) -> Value {
        let message = self.next(kind, |message| message["params"]["update"]["sessionUpdate"] == kind);
        message["params"]["update"].clone()
    }

    fn permission(&mut self) -> Value {
        self.next("a permission request", |message| message["method"] == "session/request_permission")
    }

    fn select(&mut self, request: &Value, option: &str) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": outcome }));
    }

    fn form(&mut self) -> Value {
        self.next("a form", |message| message["method"] == "elicitation/create")
    }

    fn fill_in(&mut self, request: &Value, answer: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": answer }));
    }

    /// Closes the input and waits for the end; returns all messages.
    fn leave(mut self) -> Vec<Value> {
        self.running.end_input();
        let run = self.running.finish();
        assert_eq!(run.code, Some(0), "{run:?}");
        Self::messages(&run.out)
    }
}

/// Text of the messages of one kind in a session, joined.
fn texts(messages: &[Value], session: &str, kind: &str) -> String {
    let of_session = messages.iter().filter(|message| message["params"]["sessionId"] == session);
    let updates = of_session.map(|message| &message["params"]["update"]);
    let of_kind = updates.filter(|update| update["sessionUpdate"] == kind);
    of_kind.map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
}

#[test]
fn a_prompt_streams_its_answer_and_ends_the_turn() {
    let mock = Mock::start(&[("hello", vec![say("Hi \u{1b}[31mthere.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, opened) = editor.open(&world);
    assert_eq!(opened["modes"]["currentModeId"], "ask");
    let ids: Vec<_> =
        opened["configOptions"].as_array().unwrap().iter().map(|option| &option["id"]).collect();
    assert_eq!(ids, ["mode", "model"]);
    let names = editor.update("available_commands_update")["availableCommands"].clone();
    assert!(names.as_array().unwrap().iter().any(|command| command["name"] == "run"), "{names}");
    let prompt = editor.prompt(&session, "hello");
    assert_eq!(editor.answer(prompt)["result"], json!({ "stopReason": "end_turn" }));
    let messages = editor.leave();
    assert_eq!(texts(&messages, &session, "agent_message_chunk"), "Hi \\x1b[31mthere.");
}

#[test]
fn messages_that_break_the_protocol_are_answered_with_its_errors() {
    let world = World::new();
    let mut editor = Editor::start_raw(&world, &["--model", "demo"]);
    let refused = |editor: &mut Editor, line: &str| {
        editor.running.type_text(&format!("{line}\n"));
        editor.next("an error", |message| message.get("error").is_some())["error"]["code"].clone()
    };
    assert_eq!(
        refused(&mut editor, r#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#),
        -32600,
        "too early"
    );
    let version = editor.call("initialize", json!({ "protocolVersion": 9 }));
    assert_eq!(version["result"]["protocolVersion"], 1, "our newest");
    assert_eq!(refused(&mut editor, "{"), -32700);
    assert_eq!(refused(&mut editor, "[]"), -32600);
    assert_eq!(refused(&mut editor, r#"{"jsonrpc":"2.0","id":null,"method":"initialize"}"#), -32600);
    assert_eq!(refused(&mut editor, r#"{"jsonrpc":"2.0","id":"a"}"#), -32600);
    assert_eq!(refused(&mut editor, r#"{"jsonrpc":"2.0","id":"a","method":"session/fork"}"#), -32601);
    let prompt =
        r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}"#;
    assert_eq!(refused(&mut editor, prompt), -32002, "no such session");
    for params in [json!({}), json!({ "cwd": "relative" }), json!({ "cwd": 7 })] {
        assert_eq!(editor.call("session/new", params)["error"]["code"], -32602);
    }
    // Unknown notifications, and answers to nothing, have no effect.
    editor.notify("$/anything", json!({}));
    editor.send(&json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
    assert!(editor.call("session/list", json!({}))["result"]["sessions"].is_array());
    editor.leave();
}

#[test]
fn a_permission_request_names_the_exact_command_and_only_allowing_runs_it() {
    let command = "touch made;\n  echo \u{1b}[2Jdone";
    for (option, runs) in [("once", true), ("reject", false), ("session", false), ("anything", false)] {
        let mock = Mock::start(&[("make", vec![bash(command), say("Ended.")])]);
        let world = World::with_openai(&mock.url());
        let mut editor = Editor::start(&world, &[]);
        let (session, _) = editor.open(&world);
        let prompt = editor.prompt(&session, "make it");
        let pending = editor.update("tool_call");
        assert_eq!((&pending["status"], &pending["kind"]), (&json!("pending"), &json!("execute")));
        let request = editor.permission();
        let call = &request["params"]["toolCall"];
        assert_eq!(call["title"], "touch made;\\n  echo \\x1b[2Jdone");
        let content = call["content"][0]["content"]["text"].as_str().unwrap();
        assert!(content.contains("```sh\ntouch made;\n  echo \\x1b[2Jdone\n```"), "{content}");
        assert!(content.contains("Risk: ") && content.contains(" on local"), "{content}");
        let kinds = request["params"]["options"].as_array().unwrap().iter().map(|option| &option["kind"]);
        assert_eq!(kinds.collect::<Vec<_>>(), ["allow_once", "reject_once"], "it is dangerous");
        assert!(!world.has("made"), "it waits");
        editor.select(&request, option);
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn", "{option}");
        let messages = editor.leave();
        assert_eq!(world.has("made"), runs, "{option}");
        let last = messages.iter().rev().find(|message| message["params"]["update"]["status"].is_string());
        let status = if runs { "completed" } else { "failed" };
        assert_eq!(last.unwrap()["params"]["update"]["status"], status, "{option}");
    }
}

#[test]
fn a_change_of_a_file_is_shown_as_a_diff() {
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    let mock = Mock::start(&[("change", vec![call("edit_file", edit), say("Changed.")])]);
    let world = World::with_openai(&mock.url()).file("work/a.txt", "one\n");
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "change it");
    let request = editor.permission();
    let path = world.work().join("a.txt");
    let diff = json!({ "type": "diff", "path": path, "oldText": "one", "newText": "two" });
    assert_eq!(request["params"]["toolCall"]["content"][1], diff);
    assert_eq!(request["params"]["toolCall"]["locations"], json!([{ "path": path }]));
    editor.select(&request, "once");
    let done = editor.next("the end", |message| message["params"]["update"]["status"] == "completed");
    assert!(done["params"]["update"]["content"].as_array().unwrap().contains(&diff), "{done}");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("a.txt"), "two\n");
}

#[test]
fn a_cancel_withdraws_the_question_and_ends_the_turn_as_cancelled() {
    let mock =
        Mock::start(&[("make", vec![bash("touch made"), say("Ended.")]), ("later", vec![say("Later.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "make it");
    let request = editor.permission();
    let queued = editor.prompt(&session, "later");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let withdrawn = editor.next("a withdrawal", |message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.answer(queued)["result"]["stopReason"], "cancelled");
    // The late answer to the withdrawn question changes nothing.
    editor.select(&request, "once");
    let next = editor.prompt(&session, "later");
    assert_eq!(editor.answer(next)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(!world.has("made"));
}

#[test]
fn a_queued_prompt_is_answered_at_its_own_end() {
    let mock =
        Mock::start(&[("make", vec![bash("touch made"), say("Ended.")]), ("later", vec![say("Later.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let first = editor.prompt(&session, "make it");
    let request = editor.permission();
    let second = editor.prompt(&session, "later");
    editor.select(&request, "once");
    assert_eq!(editor.answer(first)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.answer(second)["result"]["stopReason"], "end_turn");
    assert_eq!(texts(&editor.leave(), &session, "agent_message_chunk"), "Ended.Later.");
}

#[test]
fn the_task_list_is_a_plan() {
    let items =
        json!({ "items": [{ "text": "look", "state": "done" }, { "text": "clean", "state": "active" }] });
    let mock = Mock::start(&[("tidy", vec![call("todo", items), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "tidy up");
    let entries = json!([
        { "content": "look", "priority": "medium", "status": "completed" },
        { "content": "clean", "priority": "medium", "status": "in_progress" },
    ]);
    assert_eq!(editor.update("plan")["entries"], entries);
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let messages = editor.leave();
    assert!(!messages.iter().any(|message| message["params"]["update"]["sessionUpdate"] == "tool_call"));
}

#[test]
fn modes_and_models_are_changed_by_the_editor() {
    let mock = Mock::start(&[("make", vec![bash("touch made"), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let set = |mode: &str| json!({ "sessionId": session, "modeId": mode });
    assert_eq!(editor.call("session/set_mode", set("yolo"))["error"]["code"], -32602);
    assert_eq!(editor.call("session/set_mode", set("auto"))["result"], json!({}));
    assert_eq!(editor.update("current_mode_update")["currentModeId"], "auto");
    let option = |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    let options = editor.call("session/set_config_option", option("model", "openai/other"));
    assert_eq!(options["result"]["configOptions"][0]["currentValue"], "auto");
    assert_eq!(options["result"]["configOptions"][1]["currentValue"], "openai/other");
    assert_eq!(
        editor.call("session/set_config_option", option("model", "nobody/x"))["error"]["code"],
        -32602
    );
    assert_eq!(editor.call("session/set_config_option", option("color", "x"))["error"]["code"], -32602);
    let prompt = editor.prompt(&session, "make it");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(world.has("made"), "nothing asked");
    assert_eq!(mock.last_body()["model"], "other");
}

#[test]
fn a_read_only_program_offers_no_other_mode() {
    let mock = Mock::start(&[("make", vec![bash("touch made"), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &["--approve", "never"]);
    let (session, opened) = editor.open(&world);
    assert_eq!(opened["modes"]["availableModes"].as_array().unwrap().len(), 1, "{opened}");
    let auto = json!({ "sessionId": session, "modeId": "auto" });
    assert_eq!(editor.call("session/set_mode", auto)["error"]["code"], -32602);
    let prompt = editor.prompt(&session, "make it");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(!world.has("made"));
}

#[test]
fn sessions_run_at_the_same_time_and_keep_their_directories() {
    let mock = Mock::start(&[
        ("wait", vec![bash("touch made"), say("Ended.")]),
        ("here", vec![bash("pwd"), say("That.")]),
    ]);
    let world = World::with_openai(&mock.url()).file("other/.keep", "");
    let mut editor = Editor::start(&world, &[]);
    let (first, _) = editor.open(&world);
    let other = world.home().join("other");
    let opened = editor.call("session/new", json!({ "cwd": other }));
    let second = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let waiting = editor.prompt(&first, "wait");
    let request = editor.permission();
    assert_eq!(request["params"]["sessionId"], first.as_str());
    let prompt = editor.prompt(&second, "here");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn", "the other session waits");
    editor.select(&request, "once");
    assert_eq!(editor.answer(waiting)["result"]["stopReason"], "end_turn");
    let messages = editor.leave();
    let shown = messages.iter().filter(|message| message["params"]["sessionId"] == second.as_str());
    let text = shown.map(Value::to_string).collect::<String>();
    assert!(text.contains(&other.display().to_string()), "{text}");
    assert!(world.has("made") && !other.join("made").exists());
}

#[test]
fn a_session_is_listed_loaded_resumed_closed_and_deleted() {
    let mock = Mock::start(&[("hello", vec![say("Hi there.")]), ("again", vec![say("Again.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "hello");
    editor.answer(prompt);
    editor.leave();

    let mut editor = Editor::start(&world, &[]);
    let listed = editor.call("session/list", json!({ "cwd": world.work() }))["result"]["sessions"].clone();
    assert_eq!(
        (&listed[0]["sessionId"], &listed[0]["title"]),
        (&json!(session), &json!("hello")),
        "{listed}"
    );
    let which = json!({ "sessionId": session, "cwd": world.work() });
    let before = editor.read;
    let loaded = editor.call("session/load", which.clone());
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "ask", "{loaded}");
    let text = editor.running.out.wait_for_text("\"modes\"");
    let replayed: Vec<Value> = Editor::messages(&text).split_off(before);
    let at = replayed.iter().position(|message| message["id"] == loaded["id"]).expect("the answer");
    assert_eq!(texts(&replayed[..at], &session, "user_message_chunk"), "hello", "before the answer");
    assert_eq!(texts(&replayed[..at], &session, "agent_message_chunk"), "Hi there.");
    assert_eq!(editor.call("session/close", which.clone())["result"], json!({}));
    assert_eq!(editor.call("session/close", which.clone())["error"]["code"], -32002);

    let from = editor.read;
    let resumed = editor.call("session/resume", which.clone());
    assert!(resumed.get("result").is_some(), "{resumed}");
    let prompt = editor.prompt(&session, "again");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.call("session/delete", which.clone())["result"], json!({}));
    assert_eq!(editor.call("session/delete", which.clone())["result"], json!({}), "it is gone");
    assert_eq!(editor.call("session/load", which)["error"]["code"], -32002);
    let messages = editor.leave().split_off(from);
    assert_eq!(texts(&messages, &session, "user_message_chunk"), "", "no replay");
    assert_eq!(texts(&messages, &session, "agent_message_chunk"), "Again.");
    assert_eq!(world.session_ids(), Vec::<String>::new());
}

#[test]
fn a_typed_command_runs_but_a_command_in_a_file_is_text() {
    let mock = Mock::start(&[("hello", vec![say("Hi.")]), ("/run", vec![say("No.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let typed = editor.prompt(&session, "/run touch made; exit 3");
    assert_eq!(editor.answer(typed)["result"]["stopReason"], "end_turn");
    assert!(world.has("made") && mock.requests().is_empty());
    let resource = json!({ "type": "resource", "resource": { "uri": "file:///x", "text": "touch other" } });
    let prompt = json!([{ "type": "text", "text": "/run " }, resource]);
    let id = editor.request("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(!world.has("other"));
    let body = mock.last_body().to_string();
    assert!(body.contains("untrusted data for the task"), "{body}");
}

#[test]
fn a_change_is_undone_by_a_command() {
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    let mock = Mock::start(&[("change", vec![call("edit_file", edit), say("Changed.")])]);
    let world = World::with_openai(&mock.url()).file("work/a.txt", "one\n");
    let mut editor = Editor::start(&world, &["--approve", "auto"]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "change it");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(world.read("a.txt"), "two\n");
    let undo = editor.prompt(&session, "/undo");
    assert_eq!(editor.answer(undo)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert_eq!(world.read("a.txt"), "one\n");
}

#[test]
fn the_end_of_input_stops_a_running_command() {
    let mark = format!("{}", std::process::id() + 730_000);
    let mock = Mock::start(&[("sleep", vec![bash(&format!("sleep {mark}")), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &["--approve", "auto"]);
    let (session, _) = editor.open(&world);
    editor.prompt(&session, "sleep");
    wait_until_there(&format!("sleep {mark}"), crate::support::DEADLINE);
    editor.leave();
    wait_until_gone(&format!("sleep {mark}"), crate::support::DEADLINE);
}

#[test]
fn failures_are_errors_with_one_sentence() {
    let world = World::new();
    let mut editor = Editor::start(&world, &[]);
    let refused = editor.call("session/new", json!({ "cwd": world.work() }));
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let signed_in = editor.call("authenticate", json!({ "methodId": "config" }));
    assert_eq!(signed_in["error"]["code"], -32000, "there is still no model");
    editor.leave();

    let world = World::with_openai("http://127.0.0.1:1");
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "hello");
    let failed = editor.answer(prompt);
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("127.0.0.1:1"), "{failed}");
    editor.leave();
}

#[test]
fn a_permission_for_the_session_covers_later_calls() {
    let mock = Mock::start(&[("make", vec![bash("touch a"), bash("touch b"), say("Both.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "make both");
    let request = editor.permission();
    let option = &request["params"]["options"][1];
    assert_eq!(option["kind"], "allow_always");
    assert_eq!(option["name"], "Run in this session: any simple `touch …` that stays below this directory");
    editor.select(&request, "session");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let messages = editor.leave();
    let asked = messages.iter().filter(|message| message["method"] == "session/request_permission");
    assert_eq!(asked.count(), 1);
    assert!(world.has("a") && world.has("b"));
}

#[test]
fn several_calls_of_one_reply_are_asked_one_after_the_other() {
    let two = calls(
        "",
        &[("", "bash", json!({ "command": "touch a" })), ("", "bash", json!({ "command": "touch b" }))],
    );
    let mock = Mock::start(&[("two", vec![two, say("Both.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "two");
    for title in ["touch a", "touch b"] {
        let request = editor.permission();
        assert_eq!(request["params"]["toolCall"]["title"], title);
        editor.select(&request, "once");
    }
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(world.has("a") && world.has("b"));
}
