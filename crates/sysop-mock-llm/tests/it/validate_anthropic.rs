//! Requests refused by Anthropic's API.

use serde_json::{Value, json};

use crate::client::{builtin, http, post, refused};

const PATH: &str = "/v1/messages";

fn user() -> Value {
    json!({"role": "user", "content": "hello world"})
}

fn uses(ids: &[&str]) -> Value {
    let blocks: Vec<Value> =
        ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})).collect();
    json!({"role": "assistant", "content": blocks})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "OK"})
}

fn text() -> Value {
    json!({"type": "text", "text": "go on"})
}

fn body(messages: &Value) -> Value {
    let tools = json!([{"name": "bash", "input_schema": {"type": "object"}}]);
    json!({"model": "claude-sonnet-5-5", "max_tokens": 9, "tools": tools, "messages": messages})
}

async fn complaint(body: Value) -> String {
    let server = builtin().await;
    let (status, answer) = refused(&server, PATH, &body).await;
    assert_eq!((status, &answer["type"]), (400, &json!("error")), "{answer}");
    assert_eq!(answer["error"]["type"], "invalid_request_error");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_tool_use_needs_its_result_in_the_next_message() {
    let answers = |blocks: Value| json!({"role": "user", "content": blocks});
    let missing = |index: usize, ids: &str| {
        format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}"
        )
    };
    for (messages, what) in [
        (json!([user(), uses(&["a"])]), missing(1, "a")),
        (json!([user(), uses(&["a"]), user()]), missing(1, "a")),
        (json!([user(), uses(&["a", "b"]), answers(json!([result("a")]))]), missing(1, "b")),
        (json!([user(), uses(&["a"]), answers(json!([text(), result("a")]))]), missing(1, "a")),
        (
            json!([user(), uses(&["a", "b"]), answers(json!([result("a")])), answers(json!([result("b")]))]),
            missing(1, "b"),
        ),
        (json!([user(), uses(&["a"]), {"role": "assistant", "content": "x"}, user()]), missing(1, "a")),
        (
            json!([user(), uses(&["a"]), answers(json!([result("a"), result("x")]))]),
            "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: x".to_owned(),
        ),
        (
            json!([user(), uses(&["a"]), answers(json!([result("a"), result("a")]))]),
            "each tool_use must have a single result".to_owned(),
        ),
        (
            json!([
                user(),
                uses(&["a"]),
                answers(json!([result("a")])),
                uses(&["a"]),
                answers(json!([result("a")]))
            ]),
            "`tool_use` ids must be unique".to_owned(),
        ),
        (json!([answers(json!([result("a")]))]), "unexpected `tool_use_id`".to_owned()),
    ] {
        let found = complaint(body(&messages)).await;
        assert!(found.starts_with(&what) || found.contains(&what), "{messages}: {found}");
    }
    let good = json!([
        user(),
        uses(&["a", "b"]),
        answers(json!([result("b"), result("a"), text()])),
        text_message()
    ]);
    let server = builtin().await;
    assert_eq!(post(&server, PATH, &body(&good)).await.status(), 200);
}

fn text_message() -> Value {
    json!({"role": "user", "content": [text()]})
}

#[tokio::test]
async fn malformed_messages_are_rejected() {
    let bad_input = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "bash", "input": "{}"}]});
    for (messages, what) in [
        (json!([]), "at least one message"),
        (json!([{"role": "assistant", "content": "x"}, user()]), "first message must use the \"user\" role"),
        (
            json!([user(), {"role": "assistant", "content": "x"}]),
            "does not support assistant message prefill",
        ),
        (json!([{"role": "tool", "content": "x"}]), "Input should be 'user' or 'assistant'"),
        (json!([{"role": "user", "content": ""}]), "non-empty content"),
        (json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]), "must be non-empty"),
        (json!([user(), bad_input, user()]), "Input should be a valid dictionary"),
        (json!([user(), uses(&["a b"]), user()]), "String should match pattern"),
    ] {
        let found = complaint(body(&messages)).await;
        assert!(found.contains(what), "{messages}: {found}");
    }
}

#[tokio::test]
async fn missing_and_unsupported_options_are_rejected() {
    let without = |name: &str| {
        let mut body = body(&json!([user()]));
        body.as_object_mut().unwrap().remove(name);
        body
    };
    assert_eq!(complaint(without("max_tokens")).await, "max_tokens: Field required");
    assert_eq!(complaint(without("model")).await, "model: Field required");
    let answered = json!([user(), uses(&["a"]), {"role": "user", "content": [result("a")]}]);
    let mut no_tools = body(&answered);
    no_tools["tools"] = json!([]);
    assert!(complaint(no_tools).await.contains("must define tools"));
    let mut bad_tool = body(&json!([user()]));
    bad_tool["tools"][0]["name"] = json!("run it");
    assert!(complaint(bad_tool).await.starts_with("tools.0.custom.name"));
}

#[tokio::test]
async fn the_version_header_is_required_and_selects_the_rules() {
    let server = builtin().await;
    let url = format!("{}{PATH}", server.url());
    let mut warm = body(&json!([user()]));
    warm["temperature"] = json!(1);
    let send = async |version: Option<&str>, body: &Value| {
        let request = http().post(&url).json(body);
        let request =
            version.iter().fold(request, |request, version| request.header("anthropic-version", *version));
        let response = request.send().await.unwrap();
        assert!(response.headers()["request-id"].to_str().unwrap().starts_with("req_011C"));
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, text) = send(None, &warm).await;
    assert!(status == 400 && text.contains("anthropic-version: header is required"), "{text}");
    let (status, text) = send(Some("2020-01-01"), &warm).await;
    assert!(status == 400 && text.contains("is not a valid version"), "{text}");
    let (status, text) = send(Some("2026-10-21"), &warm).await;
    assert!(status == 400 && text.contains("temperature"), "{text}");
    assert_eq!(send(Some("2023-06-01"), &warm).await.0, 200);
}

#[tokio::test]
async fn a_missing_model_and_broken_json_are_rejected() {
    let server = builtin().await;
    let mut missing = body(&json!([user()]));
    missing["model"] = json!("missing-1");
    let (status, answer) = refused(&server, PATH, &missing).await;
    assert_eq!((status, &answer["error"]["type"]), (404, &json!("not_found_error")));
    let answer = http().post(format!("{}{PATH}", server.url())).body("[]").send().await.unwrap();
    let id = answer.headers()["request-id"].to_str().unwrap().to_owned();
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["error"]["type"], "invalid_request_error");
    assert_eq!(answer["request_id"], json!(id));
}
