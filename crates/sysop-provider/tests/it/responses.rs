//! The Responses API: the choice of the API, requests, and the echo of a reply's items.

use serde_json::{Value, json};
use sysop_core::effort::Effort;
use sysop_core::message::{FailureKind, Message, ModelRequest, Reply};
use sysop_mock_llm::{MockServer, Scenarios};
use sysop_provider::{Endpoint, OpenAiApi, Providers, ProvidersSettings};

use crate::server::{Answer, Server};
use crate::world::{QUICK, ask, bash, called, openai_at, request, results, user};

fn providers(base_url: &str, api: OpenAiApi) -> Providers {
    let endpoint = Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() };
    let settings = ProvidersSettings { openai: endpoint, openai_api: api, ..ProvidersSettings::default() };
    Providers::new(settings).with_retries(QUICK)
}

/// Returns a complete stream of these items.
fn stream(items: &[Value]) -> Answer {
    let mut body = String::new();
    let mut push = |event: Value| {
        body.push_str(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    };
    for item in items {
        push(json!({"type": "response.output_item.done", "item": item}));
    }
    push(
        json!({"type": "response.completed", "response": {"output": items, "usage": {"input_tokens": 3, "output_tokens": 2}}}),
    );
    Answer::events(&body)
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "encrypted_content": format!("{id}=="), "summary": []})
}

fn function_call(id: &str, command: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "bash", "status": "completed",
        "arguments": format!("{{\"command\": \"{command}\"}}")})
}

async fn sent(request: ModelRequest) -> Value {
    let server = Server::start(vec![stream(&[message("ok")])]).await;
    ask(&providers(&server.url, OpenAiApi::Responses), request).await.reply();
    let seen = server.seen();
    assert_eq!(seen[0].path(), "/responses");
    seen[0].body.clone()
}

#[tokio::test]
async fn requests_are_stateless_with_flat_tools() {
    let mut asked = request("openai/gpt-6.1-terra", vec![user("hi")]);
    (asked.max_output_tokens, asked.effort) = (Some(500), Some(Effort::Low));
    let mut body = sent(asked).await;
    let tools = body["tools"].take();
    assert_eq!(tools[0]["name"], "bash");
    assert_eq!((&tools[0]["type"], &tools[0]["strict"]), (&json!("function"), &json!(false)));
    assert_eq!(tools[0]["parameters"], *bash().parameters);
    assert_eq!(
        body,
        json!({
            "model": "gpt-6.1-terra", "instructions": "You are sysop.", "tools": null, "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
            "max_output_tokens": 500,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        })
    );
    let mut plain = request("openai/gpt-4o", vec![user("hi")]);
    plain.temperature = Some(0.7);
    let body = sent(plain).await;
    assert_eq!(
        (body.get("include"), body.get("reasoning"), &body["temperature"]),
        (None, None, &json!(0.7)),
        "models that do not reason refuse both"
    );
}

#[tokio::test]
async fn effort_is_sent_to_chat_completions_too() {
    let done = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = Server::start(vec![Answer::events(done)]).await;
    let mut asked = request("openai/gpt-oss", vec![user("hi")]);
    asked.effort = Some(Effort::High);
    ask(&openai_at(&server.url), asked).await.reply();
    assert_eq!(server.seen()[0].body["reasoning_effort"], "high");
}

/// Sends a reply back and returns the items of the next request after the prompt.
async fn echoed(model: &str, items: &[Value]) -> (Reply, Vec<Value>) {
    let server = Server::start(vec![stream(items), stream(&[message("ok")])]).await;
    let providers = providers(&server.url, OpenAiApi::Responses);
    let reply = ask(&providers, request("openai/gpt-6.1-terra", vec![user("hi")])).await.reply();
    let mut messages = vec![user("hi"), Message::Assistant { reply: reply.clone() }];
    if !reply.calls.is_empty() {
        messages.push(results(&reply.calls, "fine"));
    }
    messages.push(user("go on"));
    ask(&providers, request(model, messages)).await.reply();
    let mut input = server.seen()[1].body["input"].as_array().unwrap().clone();
    input.remove(0);
    input.pop();
    (reply, input)
}

#[tokio::test]
async fn the_items_of_a_reply_are_sent_back_unchanged_and_in_order() {
    let items =
        [reasoning("rs_1"), message("I look."), function_call("call_1", "df"), function_call("call_2", "du")];
    let (reply, mut input) = echoed("openai/gpt-6.1-terra", &items).await;
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.calls[1].wire_id()), ("I look.", 2, "call_2"));
    let outputs = input.split_off(4);
    assert_eq!(input, items);
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "fine"});
    assert_eq!(outputs, [output("call_1"), output("call_2")]);
}

#[tokio::test]
async fn another_model_gets_text_and_calls_without_reasoning() {
    let items = [reasoning("rs_1"), message("I look."), function_call("call_1", "df")];
    let (_, input) = echoed("openai/gpt-6-luna", &items).await;
    assert_eq!(
        input,
        [
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
            json!({"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{\"command\":\"df\"}"}),
            json!({"type": "function_call_output", "call_id": "call_1", "output": "fine"}),
        ]
    );
}

#[tokio::test]
async fn reasoning_that_led_to_nothing_is_not_sent_back() {
    let (_, input) = echoed("openai/gpt-6.1-terra", &[message("Done."), reasoning("rs_9")]).await;
    assert_eq!(input, [message("Done.")]);
}

#[tokio::test]
async fn the_next_request_begins_with_the_items_of_this_one() {
    let first = sent(request("openai/gpt-6.1-terra", vec![user("hi")])).await.to_string();
    let calls = vec![called("call_1", r#"{"command":"df"}"#)];
    let reply = Reply { calls: calls.clone(), ..Reply::default() };
    let messages = vec![user("hi"), Message::Assistant { reply }, results(&calls, "fine")];
    let server = Server::start(vec![stream(&[message("ok")])]).await;
    ask(&providers(&server.url, OpenAiApi::Responses), request("openai/gpt-6.1-terra", messages))
        .await
        .reply();
    let second = server.seen()[0].body.to_string();
    let items = |body: &str| body[body.find("\"input\":[").unwrap()..].trim_end_matches("}").to_owned();
    assert!(
        second.contains(first[first.find("\"input\":[").unwrap()..].split("]}]").next().unwrap()),
        "{second}"
    );
    assert!(items(&second).len() > items(&first).len());
}

#[tokio::test]
async fn auto_uses_responses_for_models_that_need_it() {
    let only = "/responses";
    for (model, api, path) in [
        ("openai/gpt-5-codex", OpenAiApi::Auto, only),
        ("openai/o3-pro", OpenAiApi::Auto, only),
        ("openai/gpt-5", OpenAiApi::Auto, "/chat/completions"),
        ("openai/o3-pro", OpenAiApi::Chat, "/chat/completions"),
        ("openai/qwen", OpenAiApi::Responses, only),
    ] {
        let server = Server::with_routes(|seen, _| match seen.path() {
            "/responses" => stream(&[message("ok")]),
            _ => Answer::events(
                "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n",
            ),
        })
        .await;
        let heard = ask(&providers(&server.url, api), request(model, vec![user("hi")])).await;
        assert_eq!(heard.reply().text, "ok");
        assert_eq!(server.seen()[0].path(), path, "{model} {api:?}");
    }
}

#[tokio::test]
async fn a_model_that_refuses_tools_in_chat_completions_is_asked_through_responses() {
    let refusal = r#"{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. Please use /v1/responses instead.","param":"reasoning_effort"}}"#;
    let server = Server::with_routes(move |seen, _| match seen.path() {
        "/responses" => stream(&[message("ok")]),
        _ => Answer::json(400, refusal),
    })
    .await;
    let providers = providers(&server.url, OpenAiApi::Auto);
    for _ in 0..2 {
        assert_eq!(
            ask(&providers, request("openai/gpt-5.6-terra", vec![user("hi")])).await.reply().text,
            "ok"
        );
    }
    let seen: Vec<_> = server.seen().iter().map(|seen| seen.path().to_owned()).collect();
    assert_eq!(seen, ["/chat/completions", "/responses", "/responses"], "the quirk is remembered");
}

#[tokio::test]
async fn a_server_without_responses_is_asked_through_chat_completions() {
    let done = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n";
    let server = Server::with_routes(move |seen, _| match seen.path() {
        "/responses" => Answer::json(404, r#"{"error":{"message":"Not Found"}}"#),
        _ => Answer::events(done),
    })
    .await;
    let providers = providers(&server.url, OpenAiApi::Auto);
    for _ in 0..2 {
        assert_eq!(ask(&providers, request("openai/o3-pro", vec![user("hi")])).await.reply().text, "ok");
    }
    let seen: Vec<_> = server.seen().iter().map(|seen| seen.path().to_owned()).collect();
    assert_eq!(seen, ["/responses", "/chat/completions", "/chat/completions"]);
}

#[tokio::test]
async fn refused_parameters_and_items_are_left_out() {
    type Case = (&'static str, fn(&Value) -> bool);
    let cases: [Case; 4] = [
        (
            r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary","code":"unsupported_value"}}"#,
            |body| body["reasoning"].get("summary").is_some(),
        ),
        (
            r#"{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","param":"reasoning.effort"}}"#,
            |body| body.get("reasoning").is_some(),
        ),
        (
            r#"{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}"#,
            |body| body.get("include").is_some(),
        ),
        (
            r#"{"error":{"message":"The encrypted content gAAA could not be verified.","code":"invalid_encrypted_content"}}"#,
            |body| body["input"].to_string().contains("encrypted_content"),
        ),
    ];
    for (refusal, refuses) in cases {
        let server = Server::with_routes(move |seen, _| {
            if refuses(&seen.body) { Answer::json(400, refusal) } else { stream(&[message("ok")]) }
        })
        .await;
        let raw = json!({"model": "openai/gpt-6.1-terra", "value": {"responses": [reasoning("rs_1"), message("so")]}});
        let reply =
            Reply { text: "so".to_owned(), raw: serde_json::from_value(raw).unwrap(), ..Reply::default() };
        let messages = vec![user("hi"), Message::Assistant { reply }, user("go on")];
        let mut asked = request("openai/gpt-6.1-terra", messages);
        asked.effort = Some(Effort::Low);
        let heard = ask(&providers(&server.url, OpenAiApi::Responses), asked).await;
        assert_eq!(heard.reply().text, "ok", "{refusal}");
        assert_eq!(server.seen().len(), 2, "{refusal}");
    }
}

#[tokio::test]
async fn an_overflow_and_a_missing_model_are_distinguished() {
    for (status, body, kind) in [
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window","code":"context_length_exceeded"}}"#,
            FailureKind::ContextOverflow,
        ),
        (
            404,
            r#"{"error":{"message":"The requested model 'o9' does not exist.","code":"model_not_found"}}"#,
            FailureKind::UnknownModel,
        ),
    ] {
        let server = Server::start(vec![Answer::json(status, body)]).await;
        let heard =
            ask(&providers(&server.url, OpenAiApi::Auto), request("openai/o3-pro", vec![user("hi")])).await;
        assert_eq!(heard.failure().kind, kind, "{body}");
        assert_eq!(server.seen().len(), 1, "{body}");
    }
}

#[tokio::test]
async fn a_turn_with_the_mock_server_completes() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let providers = providers(&format!("{}/v1", mock.url()), OpenAiApi::Responses);
    let mut messages = vec![user("please write hello world")];
    for name in ["write_file", "bash"] {
        let reply = ask(&providers, request("openai/gpt-6.1-terra", messages.clone())).await.reply();
        assert_eq!((reply.calls[0].name.as_str(), reply.reasoning.as_str()), (name, "Looking at the task."));
        assert!(reply.usage.input_tokens > 0);
        let results = results(&reply.calls, "ok");
        messages.extend([Message::Assistant { reply }, results]);
    }
    let reply = ask(&providers, request("openai/gpt-6.1-terra", messages)).await.reply();
    assert!(reply.text.starts_with("Done!") && reply.calls.is_empty(), "{reply:?}");
}
