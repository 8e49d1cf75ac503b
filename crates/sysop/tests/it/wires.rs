//! `sysop exec` and `sysop run` from end to end, over each provider protocol, against a scripted model that checks
//! requests.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    EVENTS_HEAD, Mock, RawServer, bash, call, calls, event, hang, lines_of_json, say, streamed,
    wait_until_gone, wait_until_there,
};
use crate::{Run, World};

const JOB: &str = "write a script that says hello";
const ANSWER: &str = "Done: hello.sh says hello to you.";

/// Maximum time to stop a task.
const STOP_MAX: Duration = Duration::from_secs(5);

fn the_job() -> Mock {
    let steps = vec![
        calls(
            "I write it first.",
            &[(
                "call_1",
                "write_file",
                json!({ "path": "hello.sh", "content": "#!/bin/sh\necho 'Hello, World!'\n" }),
            )],
        ),
        bash("chmod +x hello.sh && ./hello.sh"),
        call("read_file", json!({ "path": "hello.sh" })),
        call("edit_file", json!({ "path": "hello.sh", "old_string": "World", "new_string": "you" })),
        bash("./hello.sh"),
        say(ANSWER),
    ];
    Mock::start(&[("says hello", steps)])
}

#[test]
fn a_model_at_a_plain_address_needs_no_certificates() {
    let mock = Mock::start(&[("hi", vec![say("Hello.")])]);
    // This machine, but not by an address that is known to be.
    let port = mock.url().rsplit(':').next().unwrap().to_owned();
    let none = "/nonexistent";
    let world = World::with_openai(&format!("http://0.0.0.0:{port}"))
        .variable("SSL_CERT_FILE", none)
        .variable("SSL_CERT_DIR", none);
    let run = world.finish(&["exec", "hi"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Hello.\n"), "{run:?}");

    let world = World::with_openai("https://0.0.0.0:1")
        .variable("SSL_CERT_FILE", none)
        .variable("SSL_CERT_DIR", none);
    let run = world.finish(&["exec", "hi"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("certificates"), "{run:?}");
}

/// Lets a model do the job, checks all its effects, and does the job again with `--json`.
fn does_the_job(world: &World) {
    let run = world.finish(&["exec", "--approve", "auto", JOB]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), &*format!("{ANSWER}\n")), "{run:?}");
    assert!(run.err.contains("[Tool: "), "progress is shown: {run:?}");
    assert_eq!(world.read("hello.sh"), "#!/bin/sh\necho 'Hello, you!'\n");
    let mode = world.work().join("hello.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the edit keeps the mode");

    let id = world.only_session();
    let listed = world.finish(&["sessions", "list"]).out;
    assert!(listed.contains(JOB), "{listed}");
    let shown = world.finish(&["sessions", "show", &id]).out;
    for text in [JOB, "chmod +x hello.sh", "Hello, World!", "Hello, you!", ANSWER] {
        assert!(shown.contains(text), "{text} is missing:\n{shown}");
    }
    let events = world.exported(&id);
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let outputs: Vec<&Value> =
        events.iter().map(|event| &event["event"]).filter(|event| event["type"] == "tool_finished").collect();
    assert_eq!(outputs.len(), 5, "{outputs:?}");
    assert!(outputs.iter().all(|event| event["outcome"]["status"] == "ok"), "{outputs:?}");

    let run = world.finish(&["exec", "--json", "--approve", "auto", JOB]);
    assert_eq!(run.code, Some(0), "{run:?}");
    check_messages(&run);
}

/// Checks the messages of one complete task and returns them in order.
fn check_messages(run: &Run) -> Vec<Value> {
    let messages = lines_of_json(&run.out);
    let of = |kind: &str| messages.iter().filter(|message| message["type"] == kind).collect::<Vec<_>>();
    assert_eq!(messages[0]["type"], "session.created", "{messages:?}");
    let seqs: Vec<u64> = messages.iter().filter_map(|message| message["seq"].as_u64()).collect();
    assert!(seqs.is_sorted() && seqs.first() == Some(&1), "{seqs:?}");
    let events: BTreeSet<u64> = seqs.iter().copied().collect();
    assert!(events.len() > 10, "{seqs:?}");
    let sessions: BTreeSet<&str> =
        messages.iter().map(|message| message["sessionId"].as_str().unwrap()).collect();
    assert_eq!(sessions.len(), 1);
    assert_eq!(of("user.message")[0]["content"], JOB);
    assert_eq!(of("assistant.message").last().unwrap()["content"], ANSWER);
    let deltas: String =
        of("assistant.delta").iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert!(deltas.ends_with(ANSWER) || deltas.contains("answer"), "{deltas}");
    let called: Vec<&str> = of("tool.call").iter().map(|message| message["name"].as_str().unwrap()).collect();
    assert_eq!(called, ["write_file", "bash", "read_file", "edit_file", "bash"]);
    let finished = of("tool.finished");
    assert!(finished.iter().all(|message| message["status"] == "ok"), "{finished:?}");
    assert_eq!((&finished[1]["exitCode"], &finished[1]["truncated"]), (&json!(0), &json!(false)));
    assert!(finished[1]["output"].as_str().unwrap().contains("Hello, World!"), "{finished:?}");
    let last = messages.last().unwrap();
    assert_eq!(last["type"], "assistant.done");
    assert_eq!(last["metadata"]["stopReason"], "end_turn", "{last}");
    messages
}

#[test]
fn openai_completes_a_task() {
    let mock = the_job();
    does_the_job(&World::with_openai(&mock.url()).variable("OPENAI_API_KEY", "sk-test-key"));
    let requests = mock.requests();
    assert!(requests.iter().all(|request| request.path == "/v1/chat/completions"), "{requests:?}");
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer sk-test-key")));
}

#[test]
fn openai_responses_completes_a_task() {
    let mock = the_job();
    let world = World::with_openai(&mock.url())
        .variable("SYSOP_MODEL", "openai/gpt-6.1-terra")
        .file(".config/sysop/config.toml", "[providers.openai]\napi = 'responses'\neffort = 'low'\n");
    does_the_job(&world);
    let requests = mock.requests();
    assert!(requests.iter().all(|request| request.path.ends_with("/v1/responses")), "{requests:?}");
    let body = mock.last_body();
    assert_eq!((&body["reasoning"]["effort"], &body["store"]), (&json!("low"), &json!(false)));
    let kinds = body["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning");
    assert!(kinds.count() > 0, "the reasoning is sent back: {body}");
}

#[test]
fn llm_base_url_from_the_environment_completes_a_task() {
    let mock = the_job();
    let world = World::new()
        .variable("LLM_BASE_URL", &mock.url())
        .variable("LLM_AUTH_TOKEN", "token-of-the-proxy")
        .variable("LLM_DEFAULT_MODEL", "some-model");
    does_the_job(&world);
    let request = &mock.requests()[0];
    assert_eq!(request.path, "/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer token-of-the-proxy"));
    assert_eq!(request.body["model"], "some-model");
}

#[test]
fn gemini_completes_a_task() {
    let mock = the_job();
    let world = World::new()
        .variable("SYSOP_MODEL", "gemini/gemini-test")
        .variable("SYSOP_PROVIDERS__GEMINI__BASE_URL", &mock.url())
        .variable("GEMINI_API_KEY", "key-of-gemini");
    does_the_job(&world);
    let request = &mock.requests()[0];
    assert_eq!(request.path, "/v1beta/models/gemini-test:streamGenerateContent");
    assert_eq!((request.header("x-goog-api-key"), &*request.query), (Some("key-of-gemini"), "alt=sse"));
}

#[test]
fn vertex_with_a_key_completes_a_task() {
    let mock = the_job();
    let world = World::new()
        .variable("SYSOP_MODEL", "vertex/gemini-test")
        .variable("SYSOP_PROVIDERS__VERTEX__BASE_URL", &mock.url())
        .variable("SYSOP_PROVIDERS__VERTEX__API_KEY", "key-of-vertex")
        .variable("NO_GCE_CHECK", "true");
    does_the_job(&world);
    let request = &mock.requests()[0];
    assert_eq!(request.path, "/v1/publishers/google/models/gemini-test:streamGenerateContent");
    assert_eq!(request.header("x-goog-api-key"), Some("key-of-vertex"));
}

#[test]
fn ollama_completes_a_task() {
    let mock = the_job();
    let world = World::new().variable("OLLAMA_HOST", &mock.address()).variable("SYSOP_MODEL", "ollama/qwen3");
    does_the_job(&world);
    let chats: Vec<_> = mock.requests().into_iter().filter(|request| request.path == "/api/chat").collect();
    assert!(chats.iter().all(|request| request.body["tools"].is_array()), "{chats:?}");
}

#[test]
fn a_model_without_tools_completes_a_task_by_the_text_protocol() {
    let mock = the_job();
    let world = World::new().variable("OLLAMA_HOST", &mock.address()).variable("SYSOP_MODEL", "ollama/phi3");
    does_the_job(&world);
    let chats: Vec<_> = mock.requests().into_iter().filter(|request| request.path == "/api/chat").collect();
    let last = chats.last().unwrap();
    assert!(last.body.get("tools").is_none_or(|tools| tools == &json!([])), "{last:?}");
    assert!(last.body["messages"].to_string().contains("Hello, World!"), "{last:?}");
    let system = last.body["messages"][0]["content"].as_str().unwrap_or_default();
    assert!(system.contains("use relative paths"), "small models miscopy the root: {system}");
    assert!(!system.contains("Workspace root") && !system.contains("edit_file"), "{system}");
}

#[test]
fn anthropic_completes_a_task() {
    let mock = the_job();
    let world = World::new()
        .variable("SYSOP_MODEL", "anthropic/claude-test")
        .variable("SYSOP_PROVIDERS__ANTHROPIC__BASE_URL", &mock.url())
        .variable("ANTHROPIC_API_KEY", "key-of-anthropic");
    does_the_job(&world);
    let request = &mock.requests()[0];
    assert_eq!((&*request.path, request.header("x-api-key")), ("/v1/messages", Some("key-of-anthropic")));
}

/// Text of each message with this role in an OpenAI request.
fn texts(body: &Value, role: &str) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == role)
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_resumed_session_sends_its_history() {
    let mock = Mock::start(&[
        ("the first", vec![bash("echo from-the-first"), say("First done.")]),
        ("the second", vec![say("Second done.")]),
        ("the third", vec![say("Third done.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let first = world.finish(&["exec", "--approve", "auto", "--json", "the first"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let id = lines_of_json(&first.out)[0]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(world.finish(&["exec", "another one"]).out, "No scenario fits.\n");
    let second = world.finish(&["exec", &format!("--resume={id}"), "--json", "the second"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let messages = lines_of_json(&second.out);
    assert!(messages.iter().all(|message| message["sessionId"] == *id), "{messages:?}");
    assert!(
        messages
            .iter()
            .filter(|message| message["type"] == "state")
            .all(|message| message["model"] != Value::Null),
        "the history of a resumed session begins with a prompt: {messages:?}"
    );
    // The most recently changed session is now that one.
    let third = world.finish(&["exec", "the third", "--resume"]);
    assert_eq!((third.code, third.out.as_str()), (Some(0), "Third done.\n"), "{third:?}");
    let body = &mock.last_body();
    assert_eq!(texts(body, "user"), ["the first", "the second", "the third"]);
    let said: Vec<String> = texts(body, "assistant").into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(said, ["First done.", "Second done."]);
    assert!(texts(body, "tool")[0].contains("from-the-first"), "{body}");
    assert_eq!(world.session_ids().len(), 2);
    let prefix = world.finish(&["exec", "--resume=nothing-begins-so", "x"]);
    assert_eq!((prefix.code, prefix.err.lines().count()), (Some(2), 2), "{prefix:?}");
}

#[test]
fn each_call_of_a_reply_runs_once_in_order_and_gets_its_result() {
    let three = calls(
        "Three at once.",
        &[
            ("call_a", "bash", json!({ "command": "echo one >> order" })),
            ("call_b", "bash", json!({ "command": "echo two >> order; false" })),
            ("call_c", "bash", json!({ "command": "echo three >> order; cat order" })),
        ],
    );
    let never = || say("out of step");
    let mock = Mock::start(&[("several", vec![three, never(), never(), say("All three ran.")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "auto", "several"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "All three ran.\n"), "{run:?}");
    assert_eq!(world.read("order"), "one\ntwo\nthree\n");
    let body = &mock.last_body();
    let answered: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    assert_eq!(answered, ["call_a", "call_b", "call_c"]);
    let results = texts(body, "tool");
    assert!(
        results[1].contains("code") && results[1].contains('1'),
        "the model learns of the failure: {results:?}"
    );
    assert!(results[2].contains("one\ntwo\nthree"), "{results:?}");
}

#[test]
fn an_invalid_call_is_reported_to_the_model_and_the_turn_continues() {
    let mock = Mock::start(&[(
        "go",
        vec![
            call("launch_rocket", json!({ "where": "moon" })),
            call("bash", json!({ "cmd": "touch wrong-argument" })),
            calls(
                "",
                &[
                    ("same", "bash", json!({ "command": "echo first >> once" })),
                    ("same", "bash", json!({ "command": "echo second >> once" })),
                ],
            ),
            say("out of step"),
            say("I give up."),
        ],
    )]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "I give up.\n"), "{run:?}");
    assert_eq!(world.read("once"), "first\n");
    assert!(!world.has("wrong-argument"));
    let results = texts(&mock.last_body(), "tool");
    assert!(
        results[0].contains("unknown tool `launch_rocket`") && results[0].contains("bash"),
        "{results:?}"
    );
    assert!(results[1].contains("command") && results[1].contains("nothing ran"), "{results:?}");
    assert!(results[3].contains("same id"), "{results:?}");
}

#[test]
fn invalid_json_arguments_are_reported_to_the_model() {
    let broken = json!({ "role": "assistant", "tool_calls": [{
        "index": 0, "id": "call_1", "type": "function",
        "function": { "name": "bash", "arguments": "{\"command\": \"touch made" },
    }] });
    let first = format!(
        "{EVENTS_HEAD}{}{}data: [DONE]\n\n",
        event(&broken, None),
        event(&json!({}), Some("tool_calls"))
    );
    let server = RawServer::replies(vec![first.into_bytes(), streamed("Sorry.")]);
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Sorry.\n"), "{run:?}");
    assert!(!world.has("made"));
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(texts(&bodies[1], "tool")[0].contains("not a JSON object"), "{}", bodies[1]);
    let sent = &bodies[1]["messages"].as_array().unwrap()[2]["tool_calls"][0]["function"]["arguments"];
    let sent = sent.as_str().expect("arguments are sent back as text");
    assert!(serde_json::from_str::<Value>(sent).is_ok(), "the history sent to the server is JSON: {sent}");
}

#[test]
fn without_a_terminal_the_first_approval_exits_3_and_runs_nothing() {
    let mock = Mock::start(&[("go", vec![bash("touch made"), say("never said")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "go"]);
    assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (Some(3), "", 2), "{run:?}");
    assert!(run.err.contains("`touch made`") && run.err.contains("--approve auto"), "{run:?}");
    assert!(!world.has("made"));
    assert_eq!(mock.requests().len(), 1);
    // Dangerous commands ask in `auto` mode too.
    let mock = Mock::start(&[("go", vec![bash("rm -rf /tmp/x/../../etc"), say("never said")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "auto", "--json", "go"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    let messages = lines_of_json(&run.out);
    assert!(messages.iter().any(|message| message["type"] == "approval.request"), "{messages:?}");
    assert_eq!(messages.last().unwrap()["metadata"]["stopReason"], "cancelled", "{messages:?}");
    assert!(!messages.iter().any(|message| message["type"] == "tool.call"), "{messages:?}");
}

#[test]
fn never_mode_runs_reads_and_rejects_changes() {
    let mock = Mock::start(&[(
        "go",
        vec![
            bash("touch made"),
            call("write_file", json!({ "path": "made", "content": "x" })),
            bash("cat here.txt"),
            say("I could only look."),
        ],
    )]);
    let world = World::with_openai(&mock.url()).file("work/here.txt", "what is here\n");
    let run = world.finish(&["exec", "--approve", "never", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "I could only look.\n"), "{run:?}");
    assert!(!world.has("made"));
    let results = texts(&mock.last_body(), "tool");
    assert!(results[2].contains("what is here"), "{results:?}");
    let events = world.exported(&world.only_session());
    let ends: Vec<&Value> = events
        .iter()
        .filter(|logged| logged["event"]["type"] == "tool_finished")
        .map(|logged| &logged["event"]["outcome"]["status"])
        .collect();
    assert_eq!(ends, ["rejected", "rejected", "ok"]);
}

#[test]
fn the_model_call_limit_exits_1() {
    let steps = (0..9).map(|number| bash(&format!("echo {number}"))).collect();
    let mock = Mock::start(&[("go", steps)]);
    let world = World::with_openai(&mock.url()).variable("SYSOP_MAX_ITERATIONS", "3");
    let run = world.finish(&["exec", "--approve", "auto", "--json", "go"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("max_iterations"), "{run:?}");
    assert_eq!(mock.requests().len(), 3);
    let done = lines_of_json(&run.out).pop().unwrap();
    assert_eq!(done["metadata"]["stopReason"], "max_iterations", "{done}");
}

#[test]
fn a_repeating_model_exits_1() {
    let mock = Mock::start(&[("go", vec![bash("echo same"); 9])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("repeated the same call 3 times"), "{run:?}");
    assert_eq!(mock.requests().len(), 3);
}

#[test]
fn a_routine_runs_with_its_variables_and_prints_its_output() {
    let world = World::new().file(
        ".config/sysop/config.toml",
        "[routines.greet]\ncmd = 'printf \"%s\\n\" hello {{name}} >> said; cat said'\nvars = { name = { default = 'you' } }\n\
         [routines.fail]\ncmd = 'echo before; exit 7'\n",
    );
    let run = world.finish(&["run", "greet", "name=a b; touch made", "--approve", "auto"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "hello\na b; touch made\n"), "{run:?}");
    let mut rest = run.err.lines().filter(|line| !line.starts_with("[Tool: "));
    assert!(rest.next().is_some_and(|line| line.starts_with("  changed: ")), "{run:?}");
    assert_eq!(rest.next(), None, "{run:?}");
    assert!(!world.has("made"), "a value is one word of the command");
    let again = world.finish(&["run", "greet", "--approve", "auto"]);
    assert_eq!(again.out, "hello\na b; touch made\nhello\nyou\n", "{again:?}");
    let failed = world.finish(&["run", "fail", "--approve", "auto"]);
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), "before\n"), "{failed:?}");
    assert!(failed.err.contains('7'), "{failed:?}");
    let asked = world.finish(&["run", "greet"]);
    assert_eq!((asked.code, asked.out.as_str()), (Some(3), ""), "{asked:?}");
    assert_eq!(world.read("said").lines().count(), 4, "nothing ran without an approval");
    assert_eq!(world.finish(&["run", "greeet"]).code, Some(2));
}

/// Returns a command with children that runs until it is stopped. `mark` makes its arguments unique.
fn long_command(mark: u32) -> String {
    format!("sleep 3{mark}.1 & (sleep 3{mark}.2; true) & echo ready; sleep 3{mark}.3")
}

fn mark() -> u32 {
    std::process::id() * 1000 + u32::try_from(rand_below(1000)).unwrap()
}

/// A number that is unique within one test run.
fn rand_below(limit: usize) -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % limit
}

#[test]
fn a_signal_stops_the_command_and_its_children() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mark = mark();
        let mock = Mock::start(&[("go", vec![bash(&long_command(mark)), say("never said")])]);
        let world = World::with_openai(&mock.url());
        let running = world.start(&["exec", "--approve", "auto", "--json", "go"]);
        running.out.wait_for_text("\"content\":\"ready");
        let name = format!("sleep 3{mark}.");
        wait_until_there(&name, Duration::from_secs(5));
        running.signal(signal);
        let run = running.finish_within(STOP_MAX);
        assert_eq!(run.code, Some(code), "{run:?}");
        wait_until_gone(&name, STOP_MAX);
        let messages = lines_of_json(&run.out);
        let finished = messages.iter().find(|message| message["type"] == "tool.finished").unwrap();
        assert_eq!(finished["status"], "cancelled", "{finished}");
        assert!(
            finished["output"].as_str().unwrap().contains("ready"),
            "the output so far is stored: {finished}"
        );
        assert_eq!(messages.last().unwrap()["metadata"]["stopReason"], "cancelled");
        assert_eq!(mock.requests().len(), 1);
        // The session can be resumed.
        let on = world.finish(&["exec", "--resume", "what now"]);
        assert_eq!((on.code, on.out.as_str()), (Some(0), "No scenario fits.\n"), "{on:?}");
    }
}

#[test]
fn a_signal_stops_a_silent_model_call() {
    let server = RawServer::start(|_, _, stream| hang(stream));
    let world = World::with_openai(&server.url());
    let running = world.start(&["exec", "go", "--json"]);
    running.out.wait_for_text("\"state\":\"thinking\"");
    running.signal(Signal::INT);
    let run = running.finish_within(STOP_MAX);
    assert_eq!(run.code, Some(130), "{run:?}");
    assert!(run.err.starts_with("stopped; resume with `sysop exec --resume "), "{run:?}");
    assert_eq!(lines_of_json(&run.out).last().unwrap()["metadata"]["stopReason"], "cancelled");
}

#[test]
fn a_prompt_argument_does_not_read_standard_input() {
    let mock = Mock::start(&[("go", vec![bash("cat"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    let mut running = world.start_with_input(&["exec", "--approve", "auto", "go"]);
    assert!(running.ends_within(Duration::from_secs(20)), "the program waits for an endless input");
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{run:?}");
}

#[test]
fn a_dash_reads_the_prompt_from_standard_input() {
    let mock = Mock::start(&[("from the input", vec![say("Read.")])]);
    let world = World::with_openai(&mock.url());
    let mut running = world.start_with_input(&["exec", "-"]);
    running.type_text("from the input\nwith two lines\n");
    running.end_input();
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Read.\n"), "{run:?}");
    assert!(texts(&mock.requests()[0].body, "user")[0].contains("with two lines"));
    let mut running = world.start_with_input(&["exec", "-"]);
    running.end_input();
    let run = running.finish();
    assert_eq!((run.code, run.err.lines().count()), (Some(2), 2), "{run:?}");
}

#[test]
fn exec_names_the_file_with_the_full_output() {
    let mock = Mock::start(&[("count far", vec![bash("seq 20000"), say("That was long.")])]);
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["exec", "count far"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "That was long.\n"), "{run:?}");
    let file = run.err.lines().find_map(|line| line.trim().strip_prefix("full output: ")).expect(&run.err);
    assert!(std::fs::read_to_string(file).unwrap().ends_with("\n20000\n"), "{file}");
}
