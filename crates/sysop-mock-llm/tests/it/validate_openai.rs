//! Requests refused by OpenAI's API.

use serde_json::{Value, json};

use crate::client::{builtin, post, refused};

const PATH: &str = "/v1/chat/completions";

fn user() -> Value {
    json!({"role": "user", "content": "hello world"})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn tool(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "OK"})
}

async fn complaint(body: Value) -> String {
    let server = builtin().await;
    let (status, answer) = refused(&server, PATH, &body).await;
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("invalid_request_error")), "{answer}");
    assert!(answer["error"].as_object().unwrap().contains_key("param"));
    answer["error"]["message"].as_str().unwrap().to_owned()
}

async fn complaint_about(messages: Value) -> String {
    complaint(json!({"model": "m", "messages": messages})).await
}

#[tokio::test]
async fn every_call_needs_exactly_one_result() {
    let unanswered = "did not have response messages: ";
    for (messages, what) in [
        (json!([user(), calls(&["a"])]), "did not have response messages: a"),
        (json!([user(), calls(&["a", "b"]), tool("b")]), "did not have response messages: a"),
        (json!([user(), calls(&["a", "b"]), tool("a"), user()]), "did not have response messages: b"),
        (json!([user(), calls(&["a"]), user(), tool("a")]), unanswered),
        (json!([user(), calls(&["a"]), tool("a"), tool("a")]), "must be a response to a preceeding message"),
        (json!([user(), calls(&["a"]), tool("x")]), "must be a response to a preceeding message"),
        (json!([user(), tool("a")]), "must be a response to a preceeding message"),
        (json!([user(), calls(&["a"]), {"role": "tool", "content": "OK"}]), "tool_call_id"),
    ] {
        let found = complaint_about(messages.clone()).await;
        assert!(found.contains(what), "{messages}: {found}");
    }
    let good =
        json!({"messages": [user(), calls(&["a", "b"]), tool("b"), tool("a"), calls(&["a"]), tool("a")]});
    let server = builtin().await;
    assert_eq!(post(&server, PATH, &good).await.status(), 200);
}

#[tokio::test]
async fn malformed_messages_are_rejected() {
    let object_arguments = json!({"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": {}}}]});
    let empty_arguments = json!({"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": ""}}]});
    for (messages, what) in [
        (json!([]), "empty array"),
        (json!([{"role": "robot", "content": "x"}]), "Invalid value: 'robot'"),
        (json!([{"role": "user"}]), "Invalid value for 'content'"),
        (json!([user(), {"role": "assistant", "content": null}]), "Invalid value for 'content'"),
        (json!([user(), {"role": "assistant", "content": "x", "tool_calls": []}]), "empty array"),
        (json!([user(), object_arguments, tool("a")]), "expected JSON in a string"),
        (json!([user(), empty_arguments, tool("a")]), "expected JSON in a string"),
    ] {
        let found = complaint_about(messages.clone()).await;
        assert!(found.contains(what), "{messages}: {found}");
    }
}

#[tokio::test]
async fn mutually_exclusive_options_are_rejected() {
    let with = |name: &str, value: Value| {
        let mut body = json!({"model": "m", "messages": [user()]});
        body[name] = value;
        body
    };
    let named = |name: &str| json!([{"type": "function", "function": {"name": name}}]);
    assert!(
        complaint(with("stream_options", json!({"include_usage": true}))).await.contains("stream_options")
    );
    let mut both = with("max_tokens", json!(1));
    both["max_completion_tokens"] = json!(1);
    assert!(complaint(both).await.contains("max_completion_tokens"));
    assert!(complaint(with("tools", named("run it"))).await.contains("tools[0].function.name"));
    assert!(complaint(with("tools", json!([{"type": "custom"}]))).await.contains("tools[0].type"));
    let twice = json!([named("a")[0], named("a")[0]]);
    assert!(complaint(with("tools", twice)).await.contains("defined twice"));
    assert!(complaint(json!({"model": "m"})).await.contains("Missing required parameter: 'messages'"));
}

#[tokio::test]
async fn without_include_usage_no_chunk_has_usage() {
    let server = builtin().await;
    let body = json!({"model": "m", "messages": [user()], "stream": true});
    let text = post(&server, PATH, &body).await.text().await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("usage"), "{text}");
}

#[tokio::test]
async fn a_missing_model_and_broken_json_are_rejected() {
    let server = builtin().await;
    let (status, body) = refused(&server, PATH, &json!({"model": "missing-1", "messages": [user()]})).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("model_not_found")));
    let request = crate::client::http().post(format!("{}{PATH}", server.url())).body("{\"model\": ");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(response.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
    let body: Value = response.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("could not parse the JSON"), "{body}");
}
