//! Requests refused by OpenAI's Responses API.

use serde_json::{Value, json};

use crate::client::{builtin, post, refused};

const PATH: &str = "/v1/responses";

fn user() -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello world"}]})
}

fn answer() -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]})
}

fn reasoning(id: &str, sealed: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed})
}

fn function_call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "OK"})
}

fn request(input: &Value) -> Value {
    json!({"model": "m", "store": false, "input": input})
}

#[tokio::test]
async fn items_must_belong_together() {
    let server = builtin().await;
    let mut plain = answer();
    plain["content"][0]["type"] = json!("input_text");
    for (input, what) in [
        (json!([]), "Missing required parameter: 'input'"),
        (json!([user(), function_call("a")]), "No tool output found for function call a."),
        (json!([user(), output("a")]), "No tool call found for function call output with call_id a."),
        (json!([user(), function_call("a"), output("a"), output("a")]), "No tool call found"),
        (json!([user(), reasoning("rs_1", "sealed:rs_1")]), "without its required following item"),
        (json!([user(), reasoning("rs_1", "sealed:rs_1"), user()]), "without its required following item"),
        (json!([user(), reasoning("rs_1", "sealed:rs_2"), answer()]), "could not be verified"),
        (json!([user(), plain]), "supported values are: 'output_text'"),
        (json!([user(), {"type": "tool"}]), "Invalid value: 'tool'"),
        (json!([{"type": "message", "role": "tool", "content": "x"}]), "Invalid value: 'tool'"),
    ] {
        let (status, body) = refused(&server, PATH, &request(&input)).await;
        let found = body["error"]["message"].as_str().unwrap();
        assert!(status == 400 && found.contains(what), "{input}: {body}");
    }
    let unsealed = json!([user(), {"type": "reasoning", "id": "rs_1", "summary": []}, answer()]);
    let (status, body) = refused(&server, PATH, &request(&unsealed)).await;
    assert!(status == 404 && body.to_string().contains("not persisted"), "{body}");
    let sealed = reasoning("rs_1", "sealed:rs_1");
    let good = json!([
        user(),
        sealed,
        function_call("a"),
        function_call("b"),
        output("b"),
        output("a"),
        answer(),
        user()
    ]);
    assert_eq!(post(&server, PATH, &request(&good)).await.status(), 200);
    assert_eq!(post(&server, PATH, &json!({"model": "m", "input": "hello world"})).await.status(), 200);
}

#[tokio::test]
async fn tools_are_flat_and_parameters_of_chat_completions_are_refused() {
    let server = builtin().await;
    let tool = |fields: Value| json!({"model": "m", "input": "x", "tools": [fields]});
    for (body, param) in [
        (tool(json!({"type": "function", "function": {"name": "bash"}})), "tools[0].name"),
        (tool(json!({"type": "function", "name": "no space"})), "tools[0].name"),
        (tool(json!({"type": "shell", "name": "bash"})), "tools[0].type"),
        (json!({"model": "m", "input": "x", "messages": []}), "messages"),
        (json!({"model": "m", "input": "x", "max_tokens": 5}), "max_tokens"),
        (json!({"input": "x"}), "model"),
    ] {
        let (status, answer) = refused(&server, PATH, &body).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{answer}");
    }
}

#[tokio::test]
async fn a_stream_has_numbered_events_and_complete_items() {
    let server = builtin().await;
    let body = json!({"model": "m", "stream": true, "store": false, "reasoning": {"summary": "auto"},
        "include": ["reasoning.encrypted_content"], "input": "hello world"});
    let text = post(&server, PATH, &body).await.text().await.unwrap();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<&Value> = done.map(|event| &event["item"]).collect();
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    let id = items[0]["id"].as_str().unwrap();
    assert_eq!(items[0]["encrypted_content"], format!("sealed:{id}"));
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.completed"), &json!("completed"))
    );
}
