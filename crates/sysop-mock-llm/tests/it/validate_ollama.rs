//! Requests refused by Ollama's API, and replies of models without tools.

use serde_json::{Value, json};
use sysop_mock_llm::MockServer;

use crate::client::{Api, builtin, http, post, refused, start};

const PATH: &str = "/api/chat";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

async fn phi3(server: &MockServer, messages: Value, stream: bool) -> String {
    let body = json!({"model": "phi3:mini", "messages": messages, "stream": stream});
    let text = post(server, PATH, &body).await.text().await.unwrap();
    Api::Ollama.read_stream(&text).text
}

#[tokio::test]
async fn phi3_rejects_tools() {
    let server = builtin().await;
    let shown: Value = post(&server, "/api/show", &json!({"model": "phi3"})).await.json().await.unwrap();
    assert_eq!(shown["capabilities"], json!(["completion"]));
    let shown: Value = post(&server, "/api/show", &json!({"model": "qwen3"})).await.json().await.unwrap();
    assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
    assert_eq!(shown["model_info"]["mock.context_length"], 32_768);
    let tools = json!([{"type": "function", "function": {"name": "bash"}}]);
    let body = json!({"model": "phi3", "messages": [user("x")], "tools": tools});
    let (status, answer) = refused(&server, PATH, &body).await;
    assert_eq!(status, 400);
    assert_eq!(answer, json!({"error": "registry.ollama.ai/library/phi3:latest does not support tools"}));
    let thinking = json!({"model": "phi3", "messages": [user("x")], "think": true});
    let (_, answer) = refused(&server, PATH, &thinking).await;
    assert_eq!(answer, json!({"error": "\"phi3\" does not support thinking"}));
    let not_thinking = json!({"model": "phi3", "messages": [user("x")], "think": false});
    assert_eq!(post(&server, PATH, &not_thinking).await.status(), 200);
}

#[tokio::test]
async fn phi3_writes_calls_and_answers_as_json() {
    let server = builtin().await;
    for stream in [true, false] {
        let mut messages = vec![user("hello world")];
        let mut replies: Vec<Value> = Vec::new();
        for _ in 0..3 {
            let text = phi3(&server, json!(messages), stream).await;
            messages.extend([json!({"role": "assistant", "content": text}), user("Observation: OK")]);
            replies.push(serde_json::from_str(&text).unwrap());
        }
        let expected = [
            json!({"name": "write_file", "arguments": {"path": "hello.py", "content": "print('Hello, World!')"}}),
            json!({"type": "shell", "command": "python hello.py",
                "reason": "I've created hello.py. Let me run it to verify it works."}),
            json!({"type": "answer", "text": "Done! The script works correctly and outputs 'Hello, World!'"}),
        ];
        assert_eq!(replies, expected);
    }
    let file = r#"{"scenarios": [], "default_response": {"tool_calls": [
        {"type": "function", "function": {"name": "run_command", "arguments": "{\"command\": \"ls\"}"}}]}}"#;
    let text = phi3(&start(file).await, json!([user("x")]), true).await;
    assert_eq!(text, r#"{"type":"shell","command":"ls","reason":""}"#);
}

#[tokio::test]
async fn malformed_messages_are_rejected() {
    let server = builtin().await;
    let text_arguments = json!({"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "bash", "arguments": "{}"}}]});
    for (body, what) in [
        (json!({"messages": [user("x")]}), "model is required"),
        (json!({"model": "m", "messages": [{"role": "robot", "content": "x"}]}), "role must be one of"),
        (json!({"model": "m", "messages": [{"role": "user", "content": [1]}]}), "cannot unmarshal"),
        (json!({"model": "m", "messages": [user("x"), text_arguments]}), "arguments of type"),
    ] {
        let (status, answer) = refused(&server, PATH, &body).await;
        assert_eq!(status, 400);
        assert!(answer["error"].as_str().unwrap().contains(what), "{body}: {answer}");
    }
}

#[tokio::test]
async fn loading_works_and_a_missing_model_and_broken_json_are_rejected() {
    let server = builtin().await;
    for stream in [true, false] {
        let body = json!({"model": "qwen3", "stream": stream});
        let loaded: Value = post(&server, PATH, &body).await.json().await.unwrap();
        assert_eq!((&loaded["done"], &loaded["done_reason"]), (&json!(true), &json!("load")));
    }
    for path in [PATH, "/api/show"] {
        let (status, answer) = refused(&server, path, &json!({"model": "missing-1"})).await;
        assert_eq!((status, answer), (404, json!({"error": "model 'missing-1' not found"})));
        let answer = http().post(format!("{}{path}", server.url())).body("{").send().await.unwrap();
        assert_eq!(answer.status(), 400);
        assert!(answer.json::<Value>().await.unwrap()["error"].is_string());
    }
    let default = json!({"model": "qwen3", "messages": [user("hello world")]});
    let streamed = post(&server, PATH, &default).await.text().await.unwrap();
    assert!(streamed.lines().count() > 2, "streams unless told otherwise");
}
