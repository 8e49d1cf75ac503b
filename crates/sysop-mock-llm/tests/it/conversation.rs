//! The design's example, the matching rules, and the demo, on every API.

use serde_json::{Value, json};
use sysop_mock_llm::{Engine, Scenarios};

use crate::client::{APIS, Api, MODES, Mode, Reply, builtin, http, post, start};

/// Converses until no tool is called; returns all replies.
async fn converse(
    api: Api,
    mode: Mode,
    server: &sysop_mock_llm::MockServer,
    history: &mut Vec<Value>,
) -> Vec<Reply> {
    let mut replies = Vec::new();
    loop {
        let reply = api.ask(server, history, mode).await;
        history.push(reply.message.clone());
        history.extend(if reply.calls.is_empty() { Vec::new() } else { api.results(&reply.calls, "OK") });
        let done = reply.calls.is_empty();
        replies.push(reply);
        if done {
            return replies;
        }
        assert!(replies.len() < 10, "{api:?} never ends");
    }
}

#[tokio::test]
async fn the_example_conversation_works_on_every_api() {
    let server = builtin().await;
    for api in APIS {
        for mode in MODES {
            let mut history = vec![api.prompt("Write a hello world script")];
            let replies = converse(api, mode, &server, &mut history).await;
            let texts: Vec<&str> = replies.iter().map(|reply| reply.text.as_str()).collect();
            assert_eq!(
                texts,
                [
                    "I'll create a hello world Python script for you.",
                    "I've created hello.py. Let me run it to verify it works.",
                    "Done! The script works correctly and outputs 'Hello, World!'",
                ],
                "{api:?} {mode:?}"
            );
            let calls: Vec<(&str, Value)> = replies
                .iter()
                .flat_map(|reply| reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())))
                .collect();
            let expected = [
                ("write_file", json!({"path": "hello.py", "content": "print('Hello, World!')"})),
                ("bash", json!({"command": "python hello.py"})),
            ];
            assert_eq!(calls, expected, "{api:?} {mode:?}");
            let finishes: Vec<&str> = replies.iter().map(|reply| reply.finish.as_str()).collect();
            let (call, end) = match api {
                Api::OpenAi => ("tool_calls", "stop"),
                Api::Anthropic => ("tool_use", "end_turn"),
                Api::Ollama => ("stop", "stop"),
                Api::Gemini | Api::Vertex | Api::GeminiArray => ("STOP", "STOP"),
            };
            assert_eq!(finishes, [call, call, end], "{api:?} {mode:?}");
            assert!(replies.iter().all(|reply| reply.tokens.0 > 0 && reply.tokens.1 > 0));

            history.push(api.prompt("how are you"));
            let next = api.ask(&server, &history, mode).await;
            assert_eq!(next.text, "I'm doing well, thank you for asking!", "{api:?} {mode:?}");
            history.extend([next.message, api.prompt("hello world again")]);
            let again = converse(api, mode, &server, &mut history).await;
            assert_eq!(again[0].text, texts[0], "a second prompt starts at its first step");
            assert_eq!(again.len(), 3);
        }
    }
}

#[tokio::test]
async fn generated_ids_look_real_and_scripted_ids_are_kept() {
    let server = builtin().await;
    let mut seen = std::collections::HashSet::new();
    for api in APIS {
        for mode in MODES {
            let reply = api.ask(&server, &[api.prompt("hello world")], mode).await;
            let id = reply.calls[0].id.clone();
            match api {
                Api::OpenAi => assert_eq!(id, "call_001"),
                Api::Anthropic => assert!(id.starts_with("toolu_01") && id.len() == 30, "{id}"),
                Api::Ollama => assert!(id.starts_with("call_") && id.len() == 13, "{id}"),
                Api::Gemini | Api::Vertex | Api::GeminiArray => assert_eq!(id.len(), 8, "{id}"),
            }
            assert!(api == Api::OpenAi || seen.insert(id), "ids are new each time");
        }
    }
}

#[tokio::test]
async fn the_simple_endpoint_needs_only_messages() {
    let server = builtin().await;
    let body = json!({"messages": [{"role": "user", "content": "something else"}]});
    let reply: Value = post(&server, "/chat/completions", &body).await.json().await.unwrap();
    assert_eq!(reply["model"], "mock-model");
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["content"], "I'm a mock server. I only understand specific test scenarios.");
    assert!(message.get("tool_calls").is_none());
    assert_eq!(reply["choices"][0]["index"], 0);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn several_calls_in_one_reply_are_answered_by_observations() {
    let file = r#"{"scenarios": [{"name": "two", "trigger": "two", "steps": [
        {"response": {"tool_calls": [
            {"type": "function", "function": {"name": "ls", "arguments": "{}"}},
            {"type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"pwd\"}"}}]}},
        {"response": {"content": "one result"}},
        {"response": {"content": "two results"}}]}],
        "default_response": {"content": "no"}}"#;
    let server = start(file).await;
    for api in APIS {
        for mode in MODES {
            let mut history = vec![api.prompt("two")];
            let replies = converse(api, mode, &server, &mut history).await;
            let names: Vec<&str> = replies[0].calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["ls", "bash"], "{api:?} {mode:?}");
            assert_eq!(replies[0].calls[0].arguments, json!({}));
            assert_ne!(replies[0].calls[0].id, replies[0].calls[1].id);
            assert_eq!((replies[0].text.as_str(), replies[1].text.as_str()), ("", "two results"), "{api:?}");

            let observed = [api.prompt("two"), api.prompt("Observation: exit code 0")];
            assert_eq!(api.ask(&server, &observed, mode).await.text, "one result", "{api:?}");
        }
    }
}

#[tokio::test]
async fn models_are_listed_in_the_format_of_each_api() {
    let server = builtin().await;
    let read = async |path: &str, header: &'static str| {
        let request = http().get(format!("{}{path}", server.url())).header(header, "x");
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    for path in ["/models", "/v1/models"] {
        assert_eq!(read(path, "x-none").await["data"][0]["object"], "model");
    }
    assert_eq!(read("/v1/models", "anthropic-version").await["data"][0]["type"], "model");
    assert_eq!(read("/v1/models", "x-goog-api-key").await["models"][0]["name"], "models/mock-model");
    assert_eq!(read("/v1beta/models", "x-none").await["models"][0]["name"], "models/mock-model");
    assert_eq!(read("/api/version", "x-none").await["version"], "0.33.0");
    assert_eq!(read("/api/ps", "x-none").await["models"][0]["context_length"], 32_768);
    let tags = read("/api/tags", "x-none").await;
    assert_eq!(tags["models"][0]["capabilities"], json!(["completion", "tools"]));
    assert_eq!(tags["models"][1]["capabilities"], json!(["completion"]));
    let root = http().get(server.url()).send().await.unwrap().text().await.unwrap();
    assert_eq!(root, "Ollama is running");
}

/// Runs the demo's calls in an empty directory, with tools as described in the design.
#[test]
fn the_demo_scenario_uses_any_offered_shell_tool() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(Scenarios::builtin());
    let mut outputs = Vec::new();
    let mut said = Vec::new();
    for step in 0..20 {
        let response = engine.reply("show me a demo", step);
        said.push(response.text());
        let Some(call) = response.tool_calls.first() else { break };
        let argument = |name: &str| call.arguments[name].as_str().unwrap();
        match call.name.as_str() {
            "write_file" => {
                std::fs::write(folder.path().join(argument("path")), argument("content")).unwrap()
            }
            "read_file" => assert!(folder.path().join(argument("path")).exists()),
            "edit_file" => {
                let path = folder.path().join(argument("path"));
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(text.matches(argument("old_string")).count(), 1);
                std::fs::write(path, text.replace(argument("old_string"), argument("new_string"))).unwrap();
            }
            "bash" => {
                let mut shell = std::process::Command::new("sh");
                let ran =
                    shell.args(["-c", argument("command")]).current_dir(folder.path()).output().unwrap();
                assert!(ran.status.success(), "{ran:?}");
                outputs.push(String::from_utf8(ran.stdout).unwrap());
            }
            other => panic!("the demo calls {other}"),
        }
    }
    assert_eq!(outputs.len(), 2);
    assert!(outputs[0].starts_with("Hello from "), "{outputs:?}");
    assert!(outputs[1].starts_with("Files here: 1\nHello from "), "{outputs:?}");
    assert_eq!(said.iter().filter(|text| text.contains("scripted")).count(), 1);
    assert!(said[0].contains("scripted") && said.last().unwrap().starts_with("Done."));
}
