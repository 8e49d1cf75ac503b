//! One test for each quirk of the API, over recorded frames and written requests.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, CallEnd, FailureKind, FinishReason, HistoryMessage, Message, ModelRef, ModelRequest, RawReply,
    Reply, ToolCall, ToolProtocol, ToolResult, Usage,
};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::ModelEvent;

use super::Anthropic;
use super::encode::quirk;
use crate::api::{ErrorAction, FrameError, Framing, ModelApi as _, ModelQuirks};
use crate::settings::Endpoint;

const KEY: &str = "sk-ant-api03-canary";

fn model() -> ModelRef {
    ModelRef::new("anthropic", "claude-sonnet-5-5")
}

fn api() -> Anthropic {
    Anthropic::new(&Endpoint { api_key: Some(SecretString::from(KEY)), ..Endpoint::default() })
}

fn user(text: &str) -> Message {
    Message::user(text.to_owned())
}

fn call(id: &str) -> ToolCall {
    let arguments = Arguments::Object(json!({"command": "ls"}).as_object().unwrap().clone());
    ToolCall { id: CallId::new(id), wire_id: None, name: "bash".to_owned(), arguments }
}

fn result(id: &str) -> ToolResult {
    ToolResult {
        call: CallId::new(id),
        wire_id: None,
        name: "bash".to_owned(),
        output: "a.txt".to_owned(),
        is_error: false,
        end: CallEnd::Done,
        images: Vec::new(),
    }
}

fn said(text: &str) -> Message {
    Message::Assistant { reply: Reply { text: text.to_owned(), ..Reply::default() } }
}

fn echoed(blocks: Value, calls: Vec<ToolCall>) -> Message {
    let raw = Some(RawReply { model: model(), value: blocks });
    Message::Assistant { reply: Reply { calls, raw, ..Reply::default() } }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "runs a command".into(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}).into(),
        effect: ToolEffect::Command,
    };
    let tools = Arc::from([tool("bash"), tool("ls")]);
    ModelRequest {
        model: model(),
        system: Arc::from("Be brief."),
        messages: messages.into_iter().map(HistoryMessage::new).collect(),
        trimmed: false,
        known_tools: Arc::clone(&tools),
        tools,
        max_output_tokens: None,
        temperature: Some(0.5),
        mode: Mode::Agent,
        effort: None,
        calls_as_text: false,
        must_call: false,
        text_system: None,
        sampling_defaults: SamplingDefaults::default(),
        images: Default::default(),
    }
}

fn written(request: &ModelRequest, quirks: &ModelQuirks) -> Value {
    serde_json::from_str(&api().build(request, quirks).unwrap().body).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    written(request, &ModelQuirks::default())
}

fn unsupported_params(lessons: &[&'static str]) -> ModelQuirks {
    ModelQuirks { unsupported_params: lessons.to_vec(), ..ModelQuirks::default() }
}

fn named<'a>(model: &str, request: &'a mut ModelRequest) -> &'a ModelRequest {
    request.model.name = model.to_owned();
    request
}

fn headers(endpoint: &Endpoint, request: &ModelRequest) -> Vec<(String, String)> {
    let built = Anthropic::new(endpoint).build(request, &ModelQuirks::default()).unwrap();
    built.headers.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
}

/// Decodes frames up to the first error.
fn read(frames: &[Value]) -> (Vec<ModelEvent>, Result<Reply, FrameError>) {
    let mut decoder = api().decoder(&request(vec![user("hi")]), &ModelQuirks::default());
    let mut out = Vec::new();
    for frame in frames {
        match decoder.decode_frame(frame["type"].as_str().unwrap_or_default(), &frame.to_string(), &mut out) {
            Ok(ended) => assert_eq!(ended, frame["type"] == "message_stop"),
            Err(error) => return (out, Err(error)),
        }
    }
    (out, decoder.finish())
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn text(index: u64, text: &str) -> [Value; 3] {
    [
        start(index, json!({"type": "text", "text": ""})),
        delta(index, json!({"type": "text_delta", "text": text})),
        stop(index),
    ]
}

fn use_of(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let block = json!({"type": "tool_use", "id": id, "name": "bash", "input": {}});
    let piece = |piece: &&str| delta(index, json!({"type": "input_json_delta", "partial_json": piece}));
    let mut frames = vec![start(index, block)];
    frames.extend(pieces.iter().map(piece));
    frames.push(stop(index));
    frames
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn classify_error(status: u16, code: &str, message: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
    let body = json!({"type": "error", "error": {"type": code, "message": message}});
    api().classify_error(status, &body.to_string(), quirks)
}

fn failed(status: u16, code: &str, message: &str) -> (FailureKind, String) {
    match classify_error(status, code, message, &mut ModelQuirks::default()) {
        Some(ErrorAction::Fail(failure)) => (failure.kind, failure.message),
        other => panic!("expected a failure, got {other:?}"),
    }
}

mod request_form {
    use super::*;
    #[test]
    fn a_missing_key_is_named() {
        let failure = Anthropic::new(&Endpoint::default())
            .build(&request(vec![user("hi")]), &ModelQuirks::default())
            .err()
            .unwrap();
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains("ANTHROPIC_API_KEY"));
    }
    #[test]
    fn both_forms_of_the_key_and_the_pinned_version_are_headers() {
        let with = |key: &str| Endpoint { api_key: Some(SecretString::from(key)), ..Endpoint::default() };
        let plain = headers(&with(KEY), &request(vec![user("hi")]));
        assert!(plain.contains(&("x-api-key".to_owned(), KEY.to_owned())));
        assert!(plain.contains(&("anthropic-version".to_owned(), "2023-06-01".to_owned())));
        let login = headers(&with("sk-ant-oat01-x"), &request(vec![user("hi")]));
        assert!(login.contains(&("authorization".to_owned(), "Bearer sk-ant-oat01-x".to_owned())));
        assert!(login.iter().all(|(name, _)| name != "x-api-key"));
    }

    #[test]
    fn configured_headers_replace_the_key_and_our_headers() {
        let own = |name: &str, value: &str| (name.to_owned(), SecretString::from(value));
        let endpoint = Endpoint {
            headers: vec![own("Authorization", "Bearer gateway"), own("Anthropic-Version", "2026-10-21")],
            ..Endpoint::default()
        };
        let headers = headers(&endpoint, &request(vec![user("hi")]));
        assert_eq!(headers.len(), 2);
        assert!(headers.contains(&("Anthropic-Version".to_owned(), "2026-10-21".to_owned())));
    }

    #[test]
    fn the_address_is_the_same_with_and_without_the_version_in_the_base() {
        for base in ["http://h:1/x", "http://h:1/x/", "http://h:1/x/v1", "http://h:1/x/v1/"] {
            let endpoint = Endpoint {
                base_url: Some(base.to_owned()),
                api_key: Some(SecretString::from(KEY)),
                ..Endpoint::default()
            };
            let built =
                Anthropic::new(&endpoint).build(&request(vec![user("hi")]), &ModelQuirks::default()).unwrap();
            assert_eq!(built.url, "http://h:1/x/v1/messages");
            assert_eq!(built.framing, Framing::Sse);
        }
    }

    #[test]
    fn sampling_is_never_sent() {
        let body = body(&request(vec![user("hi")]));
        assert_eq!(body["stream"], true);
        for name in ["temperature", "top_p", "top_k"] {
            assert!(body.get(name).is_none(), "{name}");
        }
    }

    #[test]
    fn max_tokens_is_always_there() {
        let mut request = request(vec![user("hi")]);
        assert_eq!(body(&request)["max_tokens"], 16_000);
        assert_eq!(written(&request, &unsupported_params(&[quirk::LONG_ANSWERS]))["max_tokens"], 4_096);
        request.max_output_tokens = Some(100);
        assert_eq!(body(&request)["max_tokens"], 100);
        request.max_output_tokens = None;
        assert_eq!(body(named("claude-3-haiku-20240307", &mut request))["max_tokens"], 4_096);
    }

    #[test]
    fn a_chat_limits_its_answer_and_leaves_room_for_thinking() {
        for (name, limit) in [("claude-sonnet-4-5", 4_096), ("claude-sonnet-5-5", 32_768)] {
            let mut chat = request(vec![user("hi")]);
            (chat.mode, chat.sampling_defaults) = (Mode::Chat, SamplingDefaults::CHAT);
            let body = body(named(name, &mut chat));
            assert_eq!(body["max_tokens"], limit, "{name}");
            assert!(body.get("temperature").is_none(), "{name}");
        }
    }

    #[test]
    fn at_most_four_cache_marks_on_tools_system_and_the_two_newest_user_turns() {
        let mut messages = Vec::new();
        for round in 0..5 {
            let id = format!("toolu_{round}");
            messages.push(user(&format!("prompt {round}")));
            messages.push(Message::Assistant { reply: Reply { calls: vec![call(&id)], ..Reply::default() } });
            messages.push(Message::ToolResults { results: vec![result(&id)] });
            messages.push(said("done"));
        }
        messages.push(user("and now?"));
        let body = body(&request(messages));
        assert_eq!(body.to_string().matches("cache_control").count(), 4);
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert!(body["tools"][0].get("cache_control").is_none());
        assert_eq!(body["tools"][1]["cache_control"]["type"], "ephemeral");
        let turns = body["messages"].as_array().unwrap();
        let newest = &turns[turns.len() - 1]["content"][0];
        assert_eq!(newest["cache_control"]["type"], "ephemeral");
        assert_eq!(newest["text"], "and now?");
        let results = &turns[turns.len() - 3]["content"][0];
        assert_eq!(results["type"], "tool_result");
        assert_eq!(results["cache_control"]["type"], "ephemeral");
    }

    #[test]
    fn thinking_is_requested_from_models_known_to_support_it() {
        let mut request = request(vec![user("hi")]);
        let names = [
            ("claude-sonnet-5-5", true),
            ("claude-opus-4-6", true),
            ("claude-opus-4-8", true),
            ("claude-fable-5", true),
            ("claude-sonnet-5-20260301", true),
            ("claude-haiku-4-5", false),
            ("claude-opus-4-20250514", false),
            ("claude-3-7-sonnet-20250219", false),
            ("glm-5", false),
        ];
        for (name, adaptive) in names {
            let thinking = body(named(name, &mut request)).get("thinking").cloned();
            let wanted = adaptive.then(|| json!({"type": "adaptive", "display": "summarized"}));
            assert_eq!(thinking, wanted, "{name}");
        }
    }

    #[test]
    fn consecutive_user_messages_become_one() {
        let body = body(&request(vec![user("one "), user("  \n"), user("two")]));
        let turns = body["messages"].as_array().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0]["content"].as_array().unwrap().len(), 2);
        assert_eq!(turns[0]["content"][0]["text"], "one");
        assert_eq!(turns[0]["content"][1]["text"], "two");
    }

    #[test]
    fn tool_results_come_first_in_one_message() {
        let reply = Reply { calls: vec![call("a"), call("b")], ..Reply::default() };
        let mut failed = result("b");
        failed.is_error = true;
        failed.output.clear();
        let results = Message::ToolResults { results: vec![result("a"), failed] };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, results, user("go on")]));
        let turns = body["messages"].as_array().unwrap();
        assert_eq!(turns.len(), 3);
        assert_eq!(
            turns[2]["content"][0],
            json!({"type": "tool_result", "tool_use_id": "a", "content": "a.txt"})
        );
        assert_eq!(
            turns[2]["content"][1],
            json!({"type": "tool_result", "tool_use_id": "b", "is_error": true})
        );
        assert_eq!(turns[2]["content"][2]["text"], "go on");
    }

    #[test]
    fn an_empty_reply_is_omitted_from_the_history() {
        let empty = said(" \n");
        let with_empty = body(&request(vec![user("hi"), empty, user("well?")]));
        assert_eq!(with_empty["messages"].as_array().unwrap().len(), 1);
        let last = body(&request(vec![user("hi"), said("hello \n")]));
        let turns = last["messages"].as_array().unwrap();
        assert_eq!(turns[1]["content"], json!([{"type": "text", "text": "hello"}]));
        assert_eq!(turns[2]["role"], "user");
    }

    #[test]
    fn foreign_ids_and_names_are_made_to_fit_the_pattern() {
        let mut foreign = call("call:1/a");
        foreign.name = "default_api:Bash".to_owned();
        foreign.arguments = Arguments::Invalid("{nope".to_owned());
        let reply = Reply { calls: vec![foreign, call("call_1_a")], ..Reply::default() };
        let results = Message::ToolResults { results: vec![result("call:1/a"), result("call_1_a")] };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, results]));
        let made = &body["messages"][1]["content"];
        assert_eq!(made[0]["id"], "call_3a1_2fa");
        assert_eq!(made[0]["name"], "default_api_Bash");
        assert_eq!(made[0]["input"], json!({"invalid_arguments": "{nope"}));
        assert_eq!(made[1]["id"], "call_1_a");
        assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "call_3a1_2fa");
    }

    #[test]
    fn calls_of_another_model_use_the_sessions_unique_id() {
        let mut again = call("call_0_2");
        again.wire_id = Some("call_0".to_owned());
        let mut answer = result("call_0_2");
        answer.wire_id = Some("call_0".to_owned());
        let reply = Reply { calls: vec![again], ..Reply::default() };
        let results = Message::ToolResults { results: vec![answer] };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, results]));
        assert_eq!(body["messages"][1]["content"][0]["id"], "call_0_2");
        assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "call_0_2");
    }

    #[test]
    fn a_reply_of_this_model_is_echoed_byte_for_byte() {
        let blocks = json!([
            {"type": "thinking", "thinking": "", "signature": "EqQB+/=="},
            {"type": "redacted_thinking", "data": "Zm9v"},
            {"type": "text", "text": "I look. "},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"z": 1, "a": 2}},
        ]);
        let mut made = call("toolu_1_2");
        made.wire_id = Some("toolu_1".to_owned());
        let mut answer = result("toolu_1_2");
        answer.wire_id = Some("toolu_1".to_owned());
        let request = request(vec![
            user("hi"),
            echoed(blocks.clone(), vec![made]),
            Message::ToolResults { results: vec![answer] },
        ]);
        let built = api().build(&request, &ModelQuirks::default()).unwrap().body;
        assert!(built.contains(blocks.to_string().trim_matches(['[', ']'])), "{built}");
        let body: Value = serde_json::from_str(&built).unwrap();
        assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "toolu_1");
    }

    #[test]
    fn a_reply_of_another_model_is_encoded_again_despite_the_cache() {
        let blocks = json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
        ]);
        let mut request = request(vec![
            user("hi"),
            echoed(blocks, vec![call("toolu_1")]),
            Message::ToolResults { results: vec![result("toolu_1")] },
        ]);
        assert!(body(&request).to_string().contains("sig"));
        let switched = body(named("claude-opus-5-5", &mut request));
        assert!(!switched.to_string().contains("sig"));
        assert_eq!(switched["messages"][1]["content"][0]["type"], "tool_use");
        assert!(body(named("claude-sonnet-5-5", &mut request)).to_string().contains("sig"));
    }

    #[test]
    fn a_refused_parameter_is_never_sent_again() {
        let reply = Reply { text: "no".to_owned(), finish: FinishReason::Refused, ..Reply::default() };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, user("please")]));
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_message_is_encoded_once() {
        let request = request(vec![user("hi"), said("hello"), user("more")]);
        let first = api().build(&request, &ModelQuirks::default()).unwrap().body;
        for (message, form) in request.messages.iter().zip(["anthropic", "anthropic rebuilt", "anthropic"]) {
            let kept = message.encoded(form, |_| panic!("encoded again"));
            assert!(first.contains(kept.unwrap().trim_end_matches('}')));
        }
        assert_eq!(first, api().build(&request, &ModelQuirks::default()).unwrap().body);
    }

    #[test]
    fn tools_are_still_declared_where_the_history_has_calls() {
        let reply = Reply { calls: vec![call("toolu_1")], ..Reply::default() };
        let results = Message::ToolResults { results: vec![result("toolu_1")] };
        let mut request = request(vec![user("hi"), Message::Assistant { reply }, results]);
        request.tools = Arc::from([]);
        let body = body(&request);
        assert_eq!(body["tools"][0]["name"], "bash");
        assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
        assert_eq!(body["tool_choice"]["type"], "none");
    }

    #[test]
    fn a_trimmed_history_allows_the_server_to_drop_thinking() {
        let blocks = json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
        ]);
        let mut request = request(vec![
            user("hi"),
            echoed(blocks, vec![call("toolu_1")]),
            Message::ToolResults { results: vec![result("toolu_1")] },
        ]);
        request.trimmed = true;
        let endpoint = Endpoint { api_key: Some(SecretString::from(KEY)), ..Endpoint::default() };
        let beta = ("anthropic-beta".to_owned(), "thinking-binding-controls-2026-08-01".to_owned());
        let bound = body(&request);
        assert_eq!(bound["thinking"]["block_binding"]["prefix_mismatch_behavior"], "drop_block");
        assert_eq!(bound["messages"][1]["content"][0]["signature"], "sig");
        assert!(headers(&endpoint, &request).contains(&beta));
        let stripped = written(&request, &unsupported_params(&[quirk::BLOCK_BINDING]));
        assert!(stripped["thinking"].get("block_binding").is_none());
        assert_eq!(stripped["messages"][1]["content"][0]["type"], "tool_use");
        let old = body(named("claude-haiku-4-5", &mut request));
        assert!(!old.to_string().contains("thinking"));
        assert!(!headers(&endpoint, &request).contains(&beta));
    }
}

mod stream {
    use super::*;

    #[test]
    fn pings_and_unknown_events_between_text_are_ignored() {
        let mut frames = vec![json!({"type": "message_start", "message": {"usage": {"input_tokens": 25}}})];
        frames.push(start(0, json!({"type": "text", "text": ""})));
        frames.push(delta(0, json!({"type": "text_delta", "text": "Hel"})));
        frames.push(json!({"type": "ping"}));
        frames.push(json!({"type": "weather", "index": 9}));
        frames.push(delta(0, json!({"type": "citations_delta", "citation": {}})));
        frames.push(start(1, json!({"type": "hologram", "light": 1})));
        frames.push(delta(1, json!({"type": "hologram_delta", "light": 2})));
        frames.push(delta(0, json!({"type": "text_delta", "text": "lo"})));
        frames.push(stop(0));
        frames.extend(end("end_turn"));
        let (out, reply) = read(&frames);
        let reply = reply.unwrap();
        assert_eq!(out, [ModelEvent::Text("Hel".to_owned()), ModelEvent::Text("lo".to_owned())]);
        assert_eq!((reply.text.as_str(), reply.finish), ("Hello", FinishReason::Stop));
        assert_eq!(reply.protocol, ToolProtocol::Native);
        assert_eq!(reply.raw.unwrap().value, json!([{"type": "text", "text": "Hello"}]));
    }

    #[test]
    fn arguments_may_be_split_or_missing() {
        let mut frames = use_of(0, "toolu_1", &["", "{\"command\": \"l", "s\"}"]);
        frames.extend(use_of(1, "toolu_2", &[]));
        frames.extend(use_of(2, "toolu_3", &[""]));
        frames.extend(end("tool_use"));
        let reply = read(&frames).1.unwrap();
        assert_eq!(reply.calls.len(), 3);
        assert_eq!(reply.calls[0].id, CallId::new("toolu_1"));
        assert_eq!(reply.calls[0].text_argument("command"), Some("ls"));
        for call in &reply.calls[1..] {
            assert_eq!(call.arguments, Arguments::Object(serde_json::Map::new()));
        }
        let raw = reply.raw.unwrap().value;
        assert_eq!(raw[0]["input"], json!({"command": "ls"}));
        assert_eq!(raw[2]["input"], json!({}));
    }

    #[test]
    fn invalid_json_arguments_are_reported_and_echoed_as_an_object() {
        let mut frames = use_of(0, "toolu_1", &["{\"command\": ls}"]);
        frames.extend(end("tool_use"));
        let reply = read(&frames).1.unwrap();
        assert_eq!(reply.calls[0].arguments, Arguments::Invalid("{\"command\": ls}".to_owned()));
        assert!(reply.raw.unwrap().value[0]["input"].is_object());
    }

    #[test]
    fn thinking_with_empty_text_and_redacted_thinking_are_kept() {
        let mut frames = vec![
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
            stop(0),
            start(1, json!({"type": "redacted_thinking", "data": "Zm9v"})),
            stop(1),
        ];
        frames.extend(use_of(2, "toolu_1", &["{}"]));
        frames.extend(end("tool_use"));
        let (out, reply) = read(&frames);
        let raw = reply.unwrap().raw.unwrap();
        assert!(out.is_empty());
        assert_eq!(raw.model, model());
        assert_eq!(raw.value[0], json!({"type": "thinking", "thinking": "", "signature": "EqQB"}));
        assert_eq!(raw.value[1], json!({"type": "redacted_thinking", "data": "Zm9v"}));
    }

    #[test]
    fn thinking_is_shown_as_reasoning_and_never_ends_the_echo() {
        let frames: Vec<Value> = [
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "I mu"})),
            delta(0, json!({"type": "thinking_delta", "thinking": "se"})),
            stop(0),
        ]
        .into_iter()
        .chain(end("end_turn"))
        .collect();
        let (out, reply) = read(&frames);
        let reply = reply.unwrap();
        assert_eq!(out, [ModelEvent::Reasoning("I mu".to_owned()), ModelEvent::Reasoning("se".to_owned())]);
        assert_eq!(reply.reasoning, "I muse");
        assert_eq!(reply.raw, None);
    }

    #[test]
    fn usage_is_cumulative_and_counts_the_cache_once() {
        let mut frames = vec![json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 25, "output_tokens": 1,
            "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}}})];
        frames.extend(text(0, "hi"));
        frames.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 89}}));
        frames.push(json!({"type": "message_stop"}));
        let usage = read(&frames).1.unwrap().usage;
        assert_eq!(usage, Usage { input_tokens: 132, output_tokens: 89, cached_tokens: 100 });
    }

    #[test]
    fn max_tokens_drops_a_truncated_call() {
        let mut frames = use_of(0, "toolu_1", &["{\"command\": \"ls\"}"]);
        frames.extend(use_of(1, "toolu_2", &["{\"command\": \"rm -rf /tm"]));
        frames.extend(end("max_tokens"));
        let reply = read(&frames).1.unwrap();
        assert_eq!(reply.finish, FinishReason::Length);
        assert_eq!(reply.calls.len(), 1);
        assert_eq!(reply.raw.unwrap().value.as_array().unwrap().len(), 1);
        let mut frames = use_of(0, "toolu_1", &[]);
        frames.extend(end("max_tokens"));
        let reply = read(&frames).1.unwrap();
        assert_eq!((reply.calls.len(), reply.raw), (0, None));
    }

    #[test]
    fn a_refusal_keeps_no_text() {
        let mut frames = Vec::from(text(0, "Sure, first"));
        frames.extend(use_of(1, "toolu_1", &["{}"]));
        frames.push(json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": null}}}));
        frames.push(json!({"type": "message_stop"}));
        let reply = read(&frames).1.unwrap();
        assert_eq!(reply.finish, FinishReason::Refused);
        assert_eq!((reply.calls.len(), &reply.raw), (0, &None));
        assert!(reply.text.contains("cyber") && !reply.text.contains("Sure"), "{}", reply.text);
    }

    #[test]
    fn an_empty_end_of_turn_is_an_empty_reply() {
        let reply = read(&end("end_turn")).1.unwrap();
        assert_eq!(
            reply,
            Reply { usage: Usage { output_tokens: 9, ..Usage::default() }, ..Reply::default() }
        );
    }

    #[test]
    fn a_paused_turn_ends_with_the_received_text() {
        let frames: Vec<Value> = text(0, "so far").into_iter().chain(end("pause_turn")).collect();
        let reply = read(&frames).1.unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("so far", FinishReason::Stop));
    }

    #[test]
    fn a_full_window_is_an_overflow_unless_text_was_received() {
        let FrameError::InStream { retry, kind, .. } =
            read(&end("model_context_window_exceeded")).1.unwrap_err()
        else {
            panic!("expected a failure of the server");
        };
        assert_eq!((retry, kind), (false, FailureKind::ContextOverflow));
        let frames: Vec<Value> =
            text(0, "so").into_iter().chain(end("model_context_window_exceeded")).collect();
        assert_eq!(read(&frames).1.unwrap().finish, FinishReason::Length);
    }

    #[test]
    fn an_error_after_text_is_retried_if_transient() {
        for (code, retry, kind) in [
            ("overloaded_error", true, FailureKind::Unreachable),
            ("api_error", true, FailureKind::Unreachable),
            ("rate_limit_error", true, FailureKind::RateLimited),
            ("invalid_request_error", false, FailureKind::BadRequest),
            ("authentication_error", false, FailureKind::Auth),
        ] {
            let mut frames = Vec::from(text(0, "Hel"));
            frames.push(json!({"type": "error", "error": {"type": code, "message": "Over\u{1b}[2Jloaded"}}));
            let (out, reply) = read(&frames);
            assert_eq!(out.len(), 1);
            let FrameError::InStream { message, retry: again, kind: found } = reply.unwrap_err() else {
                panic!("expected a failure of the server");
            };
            assert_eq!((again, found), (retry, kind), "{code}");
            assert!(message.contains("loaded") && !message.contains('\u{1b}'), "{message}");
        }
    }

    #[test]
    fn a_stream_without_a_final_event_was_truncated() {
        let (_, reply) = read(&text(0, "Hel"));
        assert!(matches!(reply, Err(FrameError::InStream { retry: true, .. })), "{reply:?}");
    }

    #[test]
    fn invalid_events_are_protocol_errors() {
        let mut decoder = api().decoder(&request(vec![user("hi")]), &ModelQuirks::default());
        let mut out = Vec::new();
        assert!(matches!(decoder.decode_frame("", "<html>", &mut out), Err(FrameError::Malformed(_))));
        let stray = delta(3, json!({"type": "text_delta", "text": "x"})).to_string();
        assert!(matches!(decoder.decode_frame("", &stray, &mut out), Err(FrameError::Malformed(_))));
    }

    #[test]
    fn a_reply_with_too_many_blocks_fails() {
        let frames: Vec<Value> =
            (0..5_000).map(|index| start(index, json!({"type": "text", "text": ""}))).collect();
        assert!(matches!(read(&frames).1, Err(FrameError::Malformed(_))));
    }

    #[test]
    fn a_decoded_reply_can_be_sent_back() {
        let mut frames = vec![
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
        ];
        frames.extend(text(1, "\n\n"));
        frames.extend(use_of(2, "toolu_1", &["{\"command\":\"ls\"}"]));
        frames.extend(end("tool_use"));
        let reply = read(&frames).1.unwrap();
        let messages = vec![
            user("hi"),
            Message::Assistant { reply },
            Message::ToolResults { results: vec![result("toolu_1")] },
        ];
        let body = body(&request(messages));
        assert_eq!(
            body["messages"][1]["content"],
            json!([
                {"type": "thinking", "thinking": "", "signature": "EqQB"},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
            ])
        );
    }
}

mod refusals {
    use super::*;

    #[test]
    fn errors_are_classified_by_status_and_message() {
        let overflow = "prompt is too long: 210000 tokens > 200000 maximum";
        assert_eq!(failed(400, "invalid_request_error", overflow).0, FailureKind::ContextOverflow);
        let sum = "input length and `max_tokens` exceed context limit: 199000 + 16000 > 200000";
        assert_eq!(failed(400, "invalid_request_error", sum).0, FailureKind::ContextOverflow);
        assert_eq!(failed(413, "request_too_large", "too large").0, FailureKind::ContextOverflow);
        assert_eq!(failed(401, "authentication_error", "invalid x-api-key").0, FailureKind::Auth);
        assert_eq!(failed(403, "permission_error", "no").0, FailureKind::Auth);
        assert_eq!(failed(404, "not_found_error", "model: claude-9").0, FailureKind::UnknownModel);
        assert_eq!(failed(400, "invalid_request_error", "messages: odd").0, FailureKind::BadRequest);
        let html = api().classify_error(413, "<html>too large</html>", &mut ModelQuirks::default());
        assert!(
            matches!(html, Some(ErrorAction::Fail(failure)) if failure.kind == FailureKind::ContextOverflow)
        );
    }

    #[test]
    fn foreign_error_bodies_use_the_common_rules() {
        let refuse = |body: &str| api().classify_error(400, body, &mut ModelQuirks::default());
        assert_eq!(refuse("<html>bad request</html>"), None);
        let full = refuse("the prompt is too long: it fills the model's window");
        assert!(
            matches!(full, Some(ErrorAction::Fail(failure)) if failure.kind == FailureKind::ContextOverflow)
        );
    }

    #[test]
    fn missing_credit_is_reported_and_not_retried() {
        let credit = "Your credit balance is too low to access the Anthropic API.";
        assert_eq!(failed(400, "invalid_request_error", credit).0, FailureKind::BadRequest);
        assert_eq!(failed(402, "billing_error", "pay").0, FailureKind::BadRequest);
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "spent",
            "details": {"error_code": "workspace_spend_limit_reached"}}});
        let refusal = api().classify_error(429, &body.to_string(), &mut ModelQuirks::default());
        assert!(
            matches!(refusal, Some(ErrorAction::Fail(failure)) if failure.kind == FailureKind::RateLimited)
        );
    }

    #[test]
    fn overload_is_retried_and_a_rate_limit_uses_the_common_rules() {
        let refuse = |status, code| classify_error(status, code, "Overloaded", &mut ModelQuirks::default());
        assert_eq!(refuse(529, "overloaded_error"), Some(ErrorAction::RetryAfter(None)));
        assert_eq!(refuse(409, "conflict_error"), Some(ErrorAction::RetryAfter(None)));
        assert_eq!(refuse(429, "rate_limit_error"), None);
        assert_eq!(refuse(500, "api_error"), None);
    }

    #[test]
    fn error_messages_contain_no_key_and_no_control_character() {
        let sentence = failed(401, "authentication_error", &format!("bad \u{1b}]0;x\u{7} {KEY}")).1;
        assert!(!sentence.contains(KEY) && !sentence.contains('\u{1b}'), "{sentence}");
        assert!(sentence.contains("ANTHROPIC_API_KEY"));
        assert!(failed(400, "invalid_request_error", &"x".repeat(100_000)).1.chars().count() < 600);
    }

    #[test]
    fn a_refused_parameter_is_left_out_and_the_request_retried_once() {
        let bound = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a \
                     different conversation. Remove the block, or set thinking.block_binding.prefix_mismatch_behavior";
        let header =
            "Unexpected value(s) `thinking-binding-controls-2026-08-01` for the `anthropic-beta` header";
        for (message, quirk) in [
            ("adaptive thinking is not supported on this model", quirk::THINKING),
            ("thinking.adaptive.display: Extra inputs are not permitted", quirk::DISPLAY),
            (header, quirk::BLOCK_BINDING),
            ("messages.1.content.0: Invalid `signature` in `thinking` block", quirk::THINKING_BLOCKS),
            ("Expected `thinking` or `redacted_thinking`, but found `tool_use`", quirk::THINKING_BLOCKS),
            (
                "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens",
                quirk::LONG_ANSWERS,
            ),
            (bound, quirk::STRICT_BINDING),
        ] {
            let mut quirks = ModelQuirks::default();
            let refusal = classify_error(400, "invalid_request_error", message, &mut quirks);
            assert_eq!(refusal, Some(ErrorAction::RetryNow), "{message}");
            assert_eq!(quirks.unsupported_params, [quirk], "{message}");
        }
        let mut quirks = unsupported_params(&[quirk::THINKING]);
        let again = classify_error(400, "invalid_request_error", "thinking is not supported", &mut quirks);
        assert!(matches!(again, Some(ErrorAction::Fail(_))), "{again:?}");
    }

    #[test]
    fn foreign_thinking_is_dropped_by_the_server_first_and_then_by_us() {
        let bound = "The block is bound to a different conversation";
        let blocks = json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "so"},
        ]);
        let request = request(vec![user("hi"), echoed(blocks, vec![]), user("more")]);
        let mut quirks = ModelQuirks::default();
        assert!(written(&request, &quirks)["thinking"].get("block_binding").is_none());
        classify_error(400, "invalid_request_error", bound, &mut quirks).unwrap();
        let first = written(&request, &quirks);
        assert_eq!(first["thinking"]["block_binding"]["prefix_mismatch_behavior"], "drop_block");
        assert!(first.to_string().contains("sig"));
        classify_error(400, "invalid_request_error", bound, &mut quirks).unwrap();
        assert!(!written(&request, &quirks)["messages"].to_string().contains("sig"));
        let last = classify_error(400, "invalid_request_error", bound, &mut quirks);
        assert!(matches!(last, Some(ErrorAction::Fail(_))));
    }
}
