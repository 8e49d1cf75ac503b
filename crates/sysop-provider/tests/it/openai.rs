//! The Chat Completions API: one test per quirk.

use serde_json::{Value, json};
use sysop_core::message::{Arguments, FailureKind, FinishReason, Message, Reply, ToolProtocol};
use sysop_mock_llm::{MockServer, Scenarios};
use sysop_provider::Endpoint;

use crate::server::{Answer, Server};
use crate::world::{CallResult, ask, bash, called, openai, openai_at, request, results, user};

/// Builds a stream of deltas with a finish reason and the end marker.
fn stream(deltas: &[Value], finish: &str) -> String {
    let mut body: String = deltas
        .iter()
        .map(|delta| {
            format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
        })
        .collect();
    body.push_str(&format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    ));
    body
}

async fn replay_answer(body: &str) -> CallResult {
    replay_answers(vec![Answer::events(body)]).await.0
}

async fn replay_answers(answers: Vec<Answer>) -> (CallResult, Vec<Value>) {
    let server = Server::start(answers).await;
    let heard = ask(&openai_at(&server.url), request("openai/m", vec![user("hi")])).await;
    (heard, server.seen().into_iter().map(|seen| seen.body).collect())
}

async fn reply(body: &str) -> Reply {
    replay_answer(body).await.reply()
}

async fn calls_of(deltas: &[Value]) -> Vec<(String, String, String)> {
    calls(
        &reply(&stream(&deltas.iter().map(|calls| json!({"tool_calls": calls})).collect::<Vec<_>>(), "stop"))
            .await,
    )
}

fn calls(reply: &Reply) -> Vec<(String, String, String)> {
    let parts = |call: &sysop_core::message::ToolCall| {
        (call.id.to_string(), call.name.clone(), call.arguments.to_value().to_string())
    };
    reply.calls.iter().map(parts).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[tokio::test]
async fn text_and_usage_are_read_and_requests_are_well_formed() {
    let body = "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n\
        data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n\
        : keep alive\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"a\\nb\"}}],\"usage\":{\"prompt_tokens\":1}}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":null},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5.0,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n\
        data: [DONE]\n\n";
    let (heard, sent) = replay_answers(vec![Answer::events(body)]).await;
    assert_eq!(heard.text, "a\nb");
    let reply = heard.reply();
    assert_eq!(
        (reply.text.as_str(), reply.finish, reply.protocol),
        ("a\nb", FinishReason::Stop, ToolProtocol::Native)
    );
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens), (9, 5, 4));
    assert_eq!(reply.raw, None);
    assert_eq!(
        sent[0],
        json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "system", "content": "You are sysop."}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "bash", "description": "Runs a command.",
                "parameters": bash().parameters}}]})
    );
}

#[tokio::test]
async fn a_stream_may_end_without_done() {
    let body = stream(&[json!({"content": "a"})], "stop").replace("data: [DONE]\n\n", "");
    assert_eq!(reply(&body).await.text, "a");
}

#[tokio::test]
async fn an_unstreamed_answer_is_accepted() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[
        {"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
        "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    for answer in [Answer::json(200, body), Answer::events(body)] {
        let reply = replay_answers(vec![answer]).await.0.reply();
        assert_eq!(calls(&reply), [call("c", "bash", r#"{"command":"ls"}"#)]);
        assert_eq!(reply.usage.input_tokens, 3);
    }
    let stream = Answer::json(200, &stream(&[json!({"content": "a"})], "stop"));
    assert_eq!(replay_answers(vec![stream]).await.0.reply().text, "a");
}

#[tokio::test]
async fn the_pieces_of_a_call_are_joined() {
    let found = calls_of(&[
        json!([{"index": 0, "id": "call_a", "type": "function", "function": {"name": "run", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"cmd\""}}]),
        json!([{"index": 0, "function": {"arguments": ":\"ls\"}"}}]),
        json!([{"index": 1, "id": "call_b", "function": {"name": "run", "arguments": null}}]),
    ])
    .await;
    assert_eq!(found, [call("call_a", "run", r#"{"cmd":"ls"}"#), call("call_b", "run", "{}")]);
}

#[tokio::test]
async fn an_index_may_be_missing() {
    let found = calls_of(&[
        json!([{"id": "a", "function": {"name": "run", "arguments": "{\"x\""}}]),
        json!([{"function": {"arguments": ":1}"}}]),
        json!([{"id": "b", "index": null, "function": {"name": "run", "arguments": "{\"x\":"}}]),
        json!([{"id": "b", "function": {"arguments": "2}"}}]),
    ])
    .await;
    assert_eq!(found, [call("a", "run", r#"{"x":1}"#), call("b", "run", r#"{"x":2}"#)]);
}

#[tokio::test]
async fn every_call_may_have_the_index_zero() {
    let found = calls_of(&[
        json!([{"index": 0, "id": "a", "function": {"name": "run", "arguments": "{\"x\":1}"}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "run", "arguments": "{\"x\""}}]),
        json!([{"index": 0, "id": "b", "function": {"arguments": ":2}"}}]),
    ])
    .await;
    assert_eq!(found, [call("a", "run", r#"{"x":1}"#), call("b", "run", r#"{"x":2}"#)]);
}

#[tokio::test]
async fn empty_and_repeated_ids_and_names_change_nothing() {
    let found = calls_of(&[
        json!([{"index": 0, "id": "a", "function": {"name": "run", "arguments": "{\"x\""}}]),
        json!([{"index": 0, "id": "", "function": {"name": "run", "arguments": ":"}}]),
        json!([{"index": 0, "id": null, "function": {"name": null, "arguments": "1"}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "run", "arguments": "}"}}]),
        json!([{"index": 0, "function": {"name": "run", "arguments": ""}}]),
    ])
    .await;
    assert_eq!(found, [call("a", "run", r#"{"x":1}"#)]);
}

#[tokio::test]
async fn an_id_that_never_comes_stays_empty() {
    let found = calls_of(&[
        json!([{"index": 0, "function": {"name": "run", "arguments": "{\"x\":1}"}}]),
        json!([{"index": 0, "function": {"name": "run", "arguments": "{\"x\":2}"}}]),
        json!([{"function": {"name": "see", "arguments": "{}"}}]),
    ])
    .await;
    assert_eq!(found, [call("", "run", r#"{"x":1}"#), call("", "run", r#"{"x":2}"#), call("", "see", "{}")]);
}

#[tokio::test]
async fn arguments_may_be_an_object_or_run_together() {
    let found = calls_of(&[json!([
        {"index": 0, "id": "a", "function": {"name": "run", "arguments": {"x": 1}}},
        {"index": 1, "id": "b", "function": {"name": "run", "arguments": "{}{\"x\":2}"}},
        {"index": 2, "id": "c", "function": {"name": "run", "arguments": "{\"x\":3} and so on"}},
        {"index": 3, "id": "d", "function": {"name": "run", "arguments": ""}},
    ])])
    .await;
    let arguments: Vec<&str> = found.iter().map(|(_, _, arguments)| arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#, r#"{"x":3}"#, "{}"]);
}

#[tokio::test]
async fn invalid_arguments_are_kept_for_the_model() {
    let body = stream(
        &[json!({"tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": "ls -l"}}]})],
        "tool_calls",
    );
    assert_eq!(reply(&body).await.calls[0].arguments, Arguments::Invalid("ls -l".to_owned()));
}

#[tokio::test]
async fn arguments_may_come_with_the_finish() {
    let body = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"run\",\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n\
        data: [DONE]\n\n";
    assert_eq!(calls(&reply(body).await), [call("a", "run", r#"{"x":1}"#)]);
}

#[tokio::test]
async fn text_and_calls_may_interleave() {
    let tool = |index: u32, arguments: &str| json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": {"name": "run", "arguments": arguments}}]});
    let body =
        stream(&[json!({"content": "a"}), tool(0, "{}"), json!({"content": "b"}), tool(1, "{}")], "stop");
    let reply = reply(&body).await;
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("ab", 2));
}

#[tokio::test]
async fn a_truncated_reply_keeps_complete_calls_only() {
    let deltas = [json!({"content": "x", "tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "run", "arguments": "{\"x\":1}"}},
        {"index": 1, "id": "b", "function": {"name": "run", "arguments": "{\"x\":"}}]})];
    let reply = reply(&stream(&deltas, "length")).await;
    assert_eq!((reply.finish, calls(&reply)), (FinishReason::Length, vec![call("a", "run", r#"{"x":1}"#)]));
}

#[tokio::test]
async fn a_refusal_is_shown() {
    let heard = replay_answer(&stream(
        &[json!({"content": null, "refusal": "I can"}), json!({"refusal": "not."})],
        "stop",
    ))
    .await;
    assert_eq!(heard.text, "I cannot.");
    let reply = heard.reply();
    assert_eq!((reply.text.as_str(), reply.finish), ("I cannot.", FinishReason::Refused));
    let filtered = reply_of_finish("content_filter").await;
    assert_eq!(filtered.finish, FinishReason::Refused);
}

async fn reply_of_finish(finish: &str) -> Reply {
    reply(&stream(&[json!({"content": "a"})], finish)).await
}

#[tokio::test]
async fn unknown_finish_reasons_mean_stop() {
    for finish in ["eos_token", "function_call", "whatever"] {
        assert_eq!(reply_of_finish(finish).await.finish, FinishReason::Stop);
    }
}

#[tokio::test]
async fn a_failing_finish_reason_is_retried() {
    for finish in ["error", "network_error", "insufficient_system_resource"] {
        let answers = vec![
            Answer::events(&stream(&[json!({"content": "a"})], finish)),
            Answer::events(&stream(&[json!({"content": "b"})], "stop")),
        ];
        let (heard, _) = replay_answers(answers).await;
        assert_eq!((heard.restarts, heard.reply().text.as_str()), (1, "b"), "{finish}");
    }
}

#[tokio::test]
async fn an_error_may_come_inside_the_stream() {
    for (data, kind) in [
        ("data: {\"error\":{\"message\":\"no such thing\",\"code\":400}}\n\n", FailureKind::BadRequest),
        ("data: {\"error\":\"no such thing\"}\n\n", FailureKind::BadRequest),
        ("event: error\ndata: {\"message\":\"no such thing\"}\n\n", FailureKind::BadRequest),
        ("event: error\ndata: no such thing\n\n", FailureKind::BadRequest),
        ("data: {\"error\":{\"message\":\"no such thing\",\"code\":\"401\"}}\n\n", FailureKind::Auth),
    ] {
        let failure = replay_answer(data).await.failure();
        assert_eq!(failure.kind, kind, "{data}");
        assert!(failure.message.contains("failed in its reply: no such thing;"), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_transient_error_inside_the_stream_is_retried() {
    for error in [
        r#"{"error":{"message":"Overloaded","code":502}}"#,
        r#"{"error":{"message":"rate limit","code":429}}"#,
        r#"{"error":{"type":"server_error","message":"x"}}"#,
    ] {
        let broken =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\ndata: {error}\n\n");
        let (heard, _) = replay_answers(vec![
            Answer::events(&broken),
            Answer::events(&stream(&[json!({"content": "b"})], "stop")),
        ])
        .await;
        assert_eq!((heard.restarts, heard.reply().text.as_str()), (1, "b"), "{error}");
    }
}

#[tokio::test]
async fn reasoning_is_shown_and_echoed_under_its_field_name() {
    for name in ["reasoning_content", "reasoning"] {
        let tool =
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}]});
        let body = stream(&[json!({name: "h"}), json!({name: "m"}), tool], "tool_calls");
        let (sent, heard) = echo("openai/m", &body).await;
        assert_eq!(heard.reasoning, "hm");
        assert_eq!(sent["messages"][2][name], "hm");
        assert_eq!(sent["messages"][3], json!({"role": "tool", "tool_call_id": "c", "content": "out"}));
        let (sent, _) = echo("openai/other", &body).await;
        assert_eq!(sent["messages"][2].get(name), None);
    }
}

/// Receives `body` from the model `m`, sends the reply back to `model`, and returns the request.
async fn echo(model: &str, body: &str) -> (Value, CallResult) {
    let server = Server::start(vec![Answer::events(body)]).await;
    let providers = openai_at(&server.url);
    let heard = ask(&providers, request("openai/m", vec![user("hi")])).await;
    let reply = heard.clone().reply();
    let results = results(&reply.calls, "out");
    ask(&providers, request(model, vec![user("hi"), Message::Assistant { reply }, results])).await;
    (server.seen()[1].body.clone(), heard)
}

#[tokio::test]
async fn empty_reasoning_is_echoed() {
    let tool = json!({"content": null, "reasoning_content": "", "tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}]});
    let (sent, _) = echo("openai/m", &stream(&[tool], "tool_calls")).await;
    assert_eq!(sent["messages"][2]["reasoning_content"], "");
}

#[tokio::test]
async fn missing_reasoning_is_filled_in_where_required() {
    let refusal = r#"{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API."}}"#;
    let server = Server::start(vec![
        Answer::json(400, refusal),
        Answer::events(&stream(&[json!({"content": "a"})], "stop")),
    ])
    .await;
    let calls = vec![called("c", r#"{"command":"ls"}"#)];
    let reply = Reply { calls: calls.clone(), ..Reply::default() };
    let messages = vec![user("hi"), Message::Assistant { reply }, results(&calls, "out")];
    assert_eq!(ask(&openai_at(&server.url), request("openai/m", messages)).await.reply().text, "a");
    let sent: Vec<Value> =
        server.seen().into_iter().map(|seen| seen.body["messages"][2]["reasoning_content"].clone()).collect();
    assert_eq!(sent, [Value::Null, Value::from("")]);
}

#[tokio::test]
async fn signed_reasoning_is_echoed_joined_and_unchanged() {
    let detail = |text: &str, signature: Value| json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text, "signature": signature}]});
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "extra_content": {"google": {"thought_signature": "sig"}}, "function": {"name": "bash", "arguments": "{}"}}]});
    let blocks = json!({"thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": "s2"}]});
    let sealed = json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "abc"}]});
    let body = stream(
        &[detail("a", Value::Null), detail("b", Value::Null), detail("", json!("s1")), sealed, blocks, call],
        "tool_calls",
    );
    let (sent, _) = echo("openai/m", &body).await;
    let message = &sent["messages"][2];
    assert_eq!(
        message["reasoning_details"],
        json!([{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s1"}, {"type": "reasoning.encrypted", "index": 1, "data": "abc"}])
    );
    assert_eq!(message["thinking_blocks"], json!([{"type": "thinking", "thinking": "x", "signature": "s2"}]));
    assert_eq!(message["tool_calls"][0]["extra_content"], json!({"google": {"thought_signature": "sig"}}));
}

#[tokio::test]
async fn think_tags_are_removed_from_the_text() {
    let heard = replay_answer(&stream(
        &[json!({"content": "<thi"}), json!({"content": "nk>hm</th"}), json!({"content": "ink>yes"})],
        "stop",
    ))
    .await;
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("yes", "hm"));
    assert_eq!(heard.reply().text, "yes");
    let parts = json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]});
    let reply = reply(&stream(&[parts], "stop")).await;
    assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("yes", "hm"));
}

/// Answers with `refusal` while `refuses` returns true for the request.
async fn adapting(refusal: Answer, refuses: fn(&Value) -> bool) -> (CallResult, CallResult, Vec<Value>) {
    let done = Answer::events(&stream(&[json!({"content": "ok"})], "stop"));
    let server =
        Server::with_routes(move |seen, _| if refuses(&seen.body) { refusal.clone() } else { done.clone() })
            .await;
    let providers = openai_at(&server.url);
    let mut request = request("openai/m", vec![user("hi")]);
    request.max_output_tokens = Some(100);
    request.temperature = Some(0.5);
    let first = ask(&providers, request.clone()).await;
    let second = ask(&providers, request).await;
    (first, second, server.seen().into_iter().map(|seen| seen.body).collect())
}

#[tokio::test]
async fn a_refused_parameter_is_omitted_at_once_and_later() {
    type Case = (&'static str, fn(&Value) -> bool);
    let cases: [Case; 6] = [
        (
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
            |body| body.get("max_tokens").is_some(),
        ),
        (
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.","param":"temperature","code":"unsupported_value"}}"#,
            |body| body.get("temperature").is_some(),
        ),
        (r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#, |body| {
            body.get("stream_options").is_some()
        }),
        (
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
            |body| body.get("stream_options").is_some(),
        ),
        (
            r#"{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.","param":"reasoning_effort","code":null}}"#,
            |body| body["reasoning_effort"] != "none",
        ),
        (r#"{"error":{"message":"neither max_tokens nor max_completion_tokens"}}"#, |body| {
            body.get("max_tokens").is_some() || body.get("max_completion_tokens").is_some()
        }),
    ];
    for (refusal, refuses) in cases {
        let (first, second, sent) = adapting(Answer::json(400, refusal), refuses).await;
        assert!(first.notices.is_empty(), "{refusal}");
        assert_eq!((first.reply().text.as_str(), second.reply().text.as_str()), ("ok", "ok"), "{refusal}");
        assert!(refuses(&sent[0]) && !refuses(&sent[sent.len() - 1]), "{refusal}");
        let again = sent.iter().filter(|body| refuses(body)).count();
        assert!(again <= 3 && sent.len() == again + 2, "{refusal}: {}", sent.len());
    }
}

#[tokio::test]
async fn a_server_that_refuses_everything_fails() {
    let refusal = r#"{"error":{"message":"bad: stream_options response_format reasoning_effort temperature max_tokens max_completion_tokens does not support tools"}}"#;
    let (first, _, sent) = adapting(Answer::json(400, refusal), |_| true).await;
    assert_eq!(first.failure().kind, FailureKind::BadRequest);
    assert!(sent.len() <= 20, "{}", sent.len());
}

#[tokio::test]
async fn the_switch_to_max_completion_tokens_keeps_the_limit() {
    let refusal = r#"{"error":{"message":"no","param":"max_tokens"}}"#;
    let (_, _, sent) = adapting(Answer::json(400, refusal), |body| body.get("max_tokens").is_some()).await;
    assert_eq!(
        (sent[0]["max_tokens"].clone(), sent[1]["max_completion_tokens"].clone()),
        (json!(100), json!(100))
    );
}

#[tokio::test]
async fn a_model_without_tools_gets_the_text_protocol() {
    for (status, refusal) in [
        (
            400,
            r#"{"error":{"message":"registry.ollama.ai/library/phi3:latest does not support tools","type":"api_error"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        ),
        (404, r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#),
        (
            400,
            r#"{"error":{"message":"litellm.UnsupportedParamsError: m does not support parameters: ['tools'], for model=m","code":"400"}}"#,
        ),
    ] {
        let (heard, second, sent) =
            adapting(Answer::json(status, refusal), |body| body.get("tools").is_some()).await;
        assert_eq!(heard.reply().protocol, ToolProtocol::Text, "{refusal}");
        assert_eq!(second.reply().protocol, ToolProtocol::Text, "{refusal}");
        assert_eq!(sent.len(), 3, "{refusal}");
        let body = &sent[1];
        assert!(
            body["messages"][0]["content"].as_str().unwrap().contains("Reply with exactly one JSON object")
        );
        assert_eq!(body["response_format"]["type"], "json_schema");
    }
}

#[tokio::test]
async fn a_refusal_inside_the_stream_is_a_refusal() {
    let refusal =
        Answer::events("event: error\ndata: {\"error\":{\"message\":\"m does not support tools\"}}\n\n");
    let (heard, _, sent) = adapting(refusal, |body| body.get("tools").is_some()).await;
    assert_eq!((heard.reply().protocol, sent.len()), (ToolProtocol::Text, 3));
}

#[tokio::test]
async fn a_refused_response_format_is_omitted() {
    let tools = Answer::json(400, r#"{"error":{"message":"m does not support tools"}}"#);
    let format = Answer::json(400, r#"{"error":{"message":"'response_format.type' must be 'text'"}}"#);
    let done = Answer::events(&stream(&[json!({"content": "ok"})], "stop"));
    let (heard, sent) = replay_answers(vec![tools, format, done]).await;
    assert_eq!(heard.reply().text, "ok");
    assert!(sent[1].get("response_format").is_some() && sent[2].get("response_format").is_none());
    assert!(sent[2].get("tools").is_none());
}

#[tokio::test]
async fn history_in_the_text_protocol_is_text() {
    let tools = Answer::json(400, r#"{"error":{"message":"m does not support tools"}}"#);
    let server =
        Server::start(vec![tools, Answer::events(&stream(&[json!({"content": "ok"})], "stop"))]).await;
    let calls = vec![called("c", r#"{"command":"ls","reason":"look"}"#)];
    let reply = Reply { text: "I look.".to_owned(), calls: calls.clone(), ..Reply::default() };
    let answer = Reply { text: "Done.".to_owned(), ..Reply::default() };
    let messages = vec![
        user("hi"),
        Message::Assistant { reply },
        results(&calls, "a.txt"),
        Message::Assistant { reply: answer },
        user("more"),
    ];
    ask(&openai_at(&server.url), request("openai/m", messages)).await.reply();
    let sent = server.seen()[1].body["messages"].clone();
    let content = |index: usize| sent[index]["content"].as_str().unwrap().to_owned();
    assert_eq!(content(2), "I look.\n{\"type\":\"shell\",\"command\":\"ls\",\"reason\":\"look\"}");
    assert!(content(3).starts_with("Observation: a.txt"));
    assert_eq!(content(4), r#"{"type":"answer","text":"Done."}"#);
    assert_eq!(sent[3]["role"], "user");
}

#[tokio::test]
async fn an_overflow_is_distinguished_from_other_errors() {
    for (status, body) in [
        (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        ),
        (
            400,
            r#"{"message":"This model's maximum context length is 4096 tokens. However, you requested 9000 tokens. Please reduce max_tokens."}"#,
        ),
        (413, "{}"),
    ] {
        let (heard, sent) = replay_answers(vec![Answer::json(status, body)]).await;
        assert_eq!((heard.failure().kind, sent.len()), (FailureKind::ContextOverflow, 1), "{body}");
    }
    let stream = "event: error\ndata: {\"error\":{\"message\":\"Trying to keep the first 9000 tokens when context overflows\"}}\n\n";
    assert_eq!(replay_answer(stream).await.failure().kind, FailureKind::ContextOverflow);
}

#[tokio::test]
async fn an_exhausted_account_is_not_retried() {
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let (heard, sent) = replay_answers(vec![Answer::json(429, body)]).await;
    let failure = heard.failure();
    assert_eq!((failure.kind, sent.len()), (FailureKind::RateLimited, 1));
    assert!(failure.message.contains("billing"), "{}", failure.message);
}

#[tokio::test]
async fn a_retry_delay_may_be_in_the_message() {
    let limited = r#"{"error":{"message":"Rate limit reached. Please try again in 120ms.","code":"rate_limit_exceeded"}}"#;
    let answers =
        vec![Answer::json(429, limited), Answer::events(&stream(&[json!({"content": "a"})], "stop"))];
    let notices = replay_answers(answers).await.0.notices;
    assert!(notices[0].starts_with("retrying in 0.1 s, attempt 2 of 5: "), "{notices:?}");
    let large = r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 90000.","code":"rate_limit_exceeded"}}"#;
    let (heard, sent) = replay_answers(vec![Answer::json(429, large)]).await;
    assert_eq!((heard.failure().kind, sent.len()), (FailureKind::ContextOverflow, 1));
}

#[tokio::test]
async fn a_missing_model_and_a_filtered_prompt_are_reported() {
    let missing = r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#;
    assert_eq!(
        replay_answers(vec![Answer::json(404, missing)]).await.0.failure().kind,
        FailureKind::UnknownModel
    );
    let filtered =
        r#"{"error":{"message":"The response was filtered","code":"content_filter","innererror":{}}}"#;
    let failure = replay_answers(vec![Answer::json(400, filtered)]).await.0.failure();
    assert!(
        failure.kind == FailureKind::BadRequest && failure.message.contains("content filter"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn without_a_key_no_request_is_sent_to_openai() {
    let failure =
        ask(&openai(Endpoint::default()), request("openai/gpt-5.5", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("OPENAI_API_KEY"), "{}", failure.message);
}

#[tokio::test]
async fn invalid_names_and_arguments_are_sent_in_an_accepted_form() {
    let server = Server::start(vec![Answer::events(&stream(&[json!({"content": "ok"})], "stop"))]).await;
    let mut call = called("c", "");
    call.name = "run now!".to_owned();
    call.arguments = Arguments::Invalid("ls".to_owned());
    let reply = Reply { calls: vec![call.clone()], ..Reply::default() };
    ask(
        &openai_at(&server.url),
        request("openai/m", vec![user("hi"), Message::Assistant { reply }, results(&[call], "no")]),
    )
    .await;
    let function = server.seen()[0].body["messages"][2]["tool_calls"][0]["function"].clone();
    assert_eq!(function, json!({"name": "run_now_", "arguments": "{\"unreadable\":\"ls\"}"}));
}

#[tokio::test]
async fn a_turn_with_the_mock_server_completes() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    for base in [format!("{}/v1", mock.url()), mock.url()] {
        let providers = openai_at(&base);
        let mut messages = vec![user("please write hello world")];
        for name in ["write_file", "bash"] {
            let reply = ask(&providers, request("openai/mock-model", messages.clone())).await.reply();
            assert_eq!(reply.calls[0].name, name);
            assert!(reply.usage.input_tokens > 0);
            let results = results(&reply.calls, "ok");
            messages.extend([Message::Assistant { reply }, results]);
        }
        let reply = ask(&providers, request("openai/mock-model", messages)).await.reply();
        assert!(reply.text.starts_with("Done!") && reply.calls.is_empty(), "{reply:?}");
    }
}

#[tokio::test]
async fn probing_lists_models_or_reports_the_problem() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let probe = openai_at(&format!("{}/v1", mock.url())).probe("openai").await;
    assert!(probe.reachable && probe.problem.is_none(), "{probe:?}");
    assert!(probe.models.contains(&"mock-model".to_owned()), "{probe:?}");
    let probe = openai(Endpoint::default()).probe("openai").await;
    assert!(!probe.reachable && probe.problem.unwrap().message.contains("OPENAI_API_KEY"));
    let refusal = r#"{"error":{"message":"bad sk-canary"}}"#;
    let server = Server::with_models(|_, _| Answer::json(401, refusal)).await;
    let endpoint = Endpoint {
        base_url: Some(server.url.clone()),
        api_key: Some("sk-canary".into()),
        ..Endpoint::default()
    };
    let problem = openai(endpoint).probe("openai").await.problem.unwrap();
    assert_eq!(problem.kind, FailureKind::Auth);
    assert_eq!(
        problem.message,
        "openai returned 401: bad [key]; check the key (OPENAI_API_KEY or LLM_AUTH_TOKEN)"
    );
    assert!(server.seen()[0].line.starts_with("GET /models "));
}

#[tokio::test]
async fn an_api_below_v1_is_proposed_where_the_root_has_none() {
    let server = Server::with_models(|_, _| Answer::json(404, r#"{"error":"not found"}"#)).await;
    let hint = format!("did you mean `{}/v1`?", server.url);
    let problem = openai_at(&server.url).probe("openai").await.problem.unwrap();
    assert_eq!(problem.kind, FailureKind::Protocol);
    assert!(problem.message.ends_with(&hint), "{}", problem.message);
    let failure = ask(&openai_at(&server.url), request("openai/m", vec![user("hi")])).await.failure();
    assert!(failure.message.ends_with(&hint), "{}", failure.message);
    let failure =
        ask(&openai_at(&format!("{}/v1", server.url)), request("openai/m", vec![user("hi")])).await.failure();
    assert!(!failure.message.contains("did you mean"), "{}", failure.message);
}
