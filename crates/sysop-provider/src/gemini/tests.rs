//! One test for each quirk of the API, over recorded frames and written requests.

use std::sync::Arc;
use std::time::Duration;

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

use super::Gemini;
use super::encode::quirk;
use crate::api::{ErrorAction, FrameError, ModelApi as _, ModelQuirks};
use crate::settings::Endpoint;

mod round_trip;

const KEY: &str = "AIza-canary";
const DUMMY: &str = "skip_thought_signature_validator";

fn model() -> ModelRef {
    ModelRef::new("gemini", "gemini-3.8-flash")
}

fn endpoint() -> Endpoint {
    Endpoint { api_key: Some(SecretString::from(KEY)), ..Endpoint::default() }
}

fn api() -> Gemini {
    Gemini::new(&endpoint())
}

fn user(text: &str) -> Message {
    Message::user(text.to_owned())
}

fn said(text: &str) -> Message {
    Message::Assistant { reply: Reply { text: text.to_owned(), ..Reply::default() } }
}

fn call(id: &str, name: &str) -> ToolCall {
    let arguments = json!({"command": "ls"}).as_object().unwrap().clone();
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn result(id: &str, name: &str) -> ToolResult {
    ToolResult {
        call: CallId::new(id),
        wire_id: None,
        name: name.to_owned(),
        output: "a.txt".to_owned(),
        is_error: false,
        end: CallEnd::Done,
        images: Vec::new(),
    }
}

fn echoed(parts: Value, calls: Vec<ToolCall>) -> Message {
    let raw = Some(RawReply { model: model(), value: parts });
    Message::Assistant { reply: Reply { calls, raw, ..Reply::default() } }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |name: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: "does it".into(),
        parameters: parameters.into(),
        effect: ToolEffect::Command,
    };
    let object = json!({"type": "object", "properties": {"command": {"type": "string"}},
        "additionalProperties": false});
    ModelRequest {
        model: model(),
        system: Arc::from("Be brief."),
        messages: messages.into_iter().map(HistoryMessage::new).collect(),
        trimmed: false,
        tools: Arc::from([tool("bash", object), tool("ls", json!({"type": "object", "properties": {}}))]),
        known_tools: Arc::from([]),
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

fn named(model: &str, mut request: ModelRequest) -> ModelRequest {
    request.model.name = model.to_owned();
    request
}

/// Returns a request whose history holds a signed call, with the server's id if `id` is set.
fn signed_step(id: Option<&str>) -> ModelRequest {
    let mut part =
        json!({"functionCall": {"name": "bash", "args": {"z": 1, "a": 2}}, "thoughtSignature": "Cq8+/="});
    if let Some(id) = id {
        part["functionCall"]["id"] = json!(id);
    }
    let parts = json!([{"text": "I look."}, part]);
    request(vec![
        user("hi"),
        echoed(parts, vec![call("x1", "bash")]),
        Message::ToolResults { results: vec![result("x1", "bash")] },
    ])
}

/// Decodes frames up to the first error.
fn read(frames: &[Value]) -> (Vec<ModelEvent>, Result<Reply, FrameError>) {
    let mut decoder = api().decoder(&request(vec![user("hi")]), &ModelQuirks::default());
    let mut out = Vec::new();
    for frame in frames {
        match decoder.decode_frame("", &frame.to_string(), &mut out) {
            Ok(ended) => assert!(!ended, "the API has no end marker"),
            Err(error) => return (out, Err(error)),
        }
    }
    (out, decoder.finish())
}

fn chunk(parts: Value) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 9}})
}

fn in_stream(frames: &[Value]) -> (bool, FailureKind, String) {
    match read(frames).1 {
        Err(FrameError::InStream { message, retry, kind }) => (retry, kind, message),
        other => panic!("expected a failure of the server, got {other:?}"),
    }
}

fn error(code: u16, status: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "status": status, "message": message, "details": details}})
}

fn classify_error(body: &Value, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
    let first = body.get(0).unwrap_or(body);
    let status = u16::try_from(first["error"]["code"].as_u64().unwrap()).unwrap();
    api().classify_error(status, &body.to_string(), quirks)
}

fn failed(body: &Value) -> (FailureKind, String) {
    match classify_error(body, &mut ModelQuirks::default()) {
        Some(ErrorAction::Fail(failure)) => (failure.kind, failure.message),
        other => panic!("expected a failure, got {other:?}"),
    }
}

mod request_form {
    use super::*;

    #[test]
    fn a_missing_key_is_named() {
        let build =
            Gemini::new(&Endpoint::default()).build(&request(vec![user("hi")]), &ModelQuirks::default());
        let failure = build.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains("GEMINI_API_KEY"));
    }

    #[test]
    fn the_key_is_a_header_and_never_in_the_address() {
        let built = api().build(&request(vec![user("hi")]), &ModelQuirks::default()).unwrap();
        assert_eq!(
            built.url,
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
        );
        assert_eq!(built.headers[0].0, "x-goog-api-key");
        assert_eq!(built.headers[0].1.expose_secret(), KEY);
    }

    #[test]
    fn a_base_may_end_in_its_version() {
        let address = |base: &str| {
            let endpoint = Endpoint { base_url: Some(base.to_owned()), ..endpoint() };
            let request = named("models/gemini-3.8-flash", request(vec![user("hi")]));
            Gemini::new(&endpoint).build(&request, &ModelQuirks::default()).map(|built| built.url)
        };
        let tail = "models/gemini-3.8-flash:streamGenerateContent?alt=sse";
        assert_eq!(address("http://h:1").unwrap(), format!("http://h:1/v1beta/{tail}"));
        assert_eq!(address("http://h:1/x/").unwrap(), format!("http://h:1/x/v1beta/{tail}"));
        assert_eq!(address("http://h:1/v1").unwrap(), format!("http://h:1/v1/{tail}"));
        assert_eq!(address("http://h:1/v1beta/").unwrap(), format!("http://h:1/v1beta/{tail}"));
        assert_eq!(address("no address").unwrap_err().kind, FailureKind::BadRequest);
    }

    #[test]
    fn a_model_name_cannot_leave_its_path_segment() {
        let request = named("../../evil?key=1#x", request(vec![user("hi")]));
        let url = api().build(&request, &ModelQuirks::default()).unwrap().url;
        assert!(
            url.contains("/v1beta/models/..%2F..%2Fevil%3Fkey=1%23x:streamGenerateContent?alt=sse"),
            "{url}"
        );
    }

    #[test]
    fn all_functions_stand_in_one_entry_and_an_empty_schema_is_left_out() {
        let body = body(&request(vec![user("hi")]));
        assert_eq!(body["tools"].as_array().unwrap().len(), 1);
        let functions = &body["tools"][0]["functionDeclarations"];
        assert_eq!(functions[0]["parametersJsonSchema"]["additionalProperties"], false);
        assert!(functions[0].get("parameters").is_none());
        assert!(functions[1].get("parametersJsonSchema").is_none());
        assert_eq!(body["systemInstruction"]["parts"][0]["text"], "Be brief.");
    }

    #[test]
    fn models_from_3_on_get_thinking_and_no_sampling_parameters() {
        let names = [
            ("gemini-3.8-flash", true),
            ("gemini-4-argon", true),
            ("gemini-flash-latest", true),
            ("models/gemini-3.1-pro-preview", true),
            ("gemini-2.5-pro", false),
            ("gemma-3-27b-it", false),
        ];
        for (name, newer) in names {
            let options = body(&named(name, request(vec![user("hi")])))["generationConfig"].clone();
            let wanted = if newer {
                json!({"thinkingConfig": {"includeThoughts": true}})
            } else {
                json!({"temperature": 0.5})
            };
            assert_eq!(options, wanted, "{name}");
        }
        let unknown = body(&named("my-tuned", request(vec![user("hi")])));
        assert!(unknown.get("generationConfig").is_none());
    }

    #[test]
    fn an_output_limit_is_sent_if_configured() {
        let mut request = request(vec![user("hi")]);
        request.max_output_tokens = Some(64);
        assert_eq!(body(&request)["generationConfig"]["maxOutputTokens"], 64);
    }

    #[test]
    fn chat_sampling_is_sent_to_models_that_honor_it() {
        let names = [
            ("gemini-2.0-flash", json!({"temperature": 0.7, "maxOutputTokens": 4096})),
            ("gemma-3-27b-it", json!({"temperature": 0.7, "maxOutputTokens": 4096})),
            // Thoughts count as output.
            ("gemini-2.5-flash", json!({"temperature": 0.7, "maxOutputTokens": 32_768})),
            (
                "gemini-3.8-flash",
                json!({"maxOutputTokens": 32_768, "thinkingConfig": {"includeThoughts": true}}),
            ),
        ];
        for (name, wanted) in names {
            let mut chat = named(name, request(vec![user("hi")]));
            (chat.mode, chat.sampling_defaults, chat.temperature) =
                (Mode::Chat, SamplingDefaults::CHAT, None);
            assert_eq!(body(&chat)["generationConfig"], wanted, "{name}");
        }
    }

    #[test]
    fn a_chat_with_a_model_without_tools_is_plain_text() {
        let mut chat = request(vec![user("hi"), said("yes?"), user("bye")]);
        (chat.mode, chat.tools) = (Mode::Chat, Arc::from([]));
        let known_quirks = ModelQuirks { text_protocol: true, ..ModelQuirks::default() };
        assert_eq!(written(&chat, &known_quirks), body(&chat));
    }

    #[test]
    fn the_text_protocol_has_its_own_system_prompt() {
        let mut request = request(vec![user("go")]);
        request.text_system = Some("be brief".into());
        let known_quirks = ModelQuirks { text_protocol: true, ..ModelQuirks::default() };
        let text = written(&request, &known_quirks)["systemInstruction"]["parts"][0]["text"].clone();
        assert!(text.as_str().is_some_and(|text| text.starts_with("be brief\n\nReply with")), "{text}");
        assert!(!body(&request).to_string().contains("be brief"));
    }

    #[test]
    fn consecutive_messages_of_one_role_become_one() {
        let body = body(&request(vec![user("a"), user(""), user("b"), said("c"), said("d"), user("e")]));
        assert_eq!(
            body["contents"],
            json!([
                {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
                {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
                {"role": "user", "parts": [{"text": "e"}]},
            ])
        );
    }

    #[test]
    fn a_conversation_begins_and_ends_with_the_user() {
        let body = body(&request(vec![said("hello"), user("hi"), said(""), said("so?")]));
        let roles: Vec<_> =
            body["contents"].as_array().unwrap().iter().map(|turn| turn["role"].clone()).collect();
        assert_eq!(roles, ["user", "model", "user", "model", "user"]);
    }

    #[test]
    fn every_call_is_answered_in_one_user_turn_with_an_object() {
        let reply = Reply { calls: vec![call("a", "bash"), call("b", "ls")], ..Reply::default() };
        let mut broken = result("b", "ls");
        broken.is_error = true;
        let results = Message::ToolResults { results: vec![result("a", "bash"), broken] };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, results, user("go on")]));
        assert_eq!(
            body["contents"][2]["parts"],
            json!([
                {"functionResponse": {"name": "bash", "response": {"output": "a.txt"}}},
                {"functionResponse": {"name": "ls", "response": {"error": "a.txt"}}},
                {"text": "go on"},
            ])
        );
    }

    #[test]
    fn the_first_invented_call_of_a_turn_gets_the_dummy_signature() {
        let messages = || {
            let reply = Reply { calls: vec![call("a", "bash"), call("b", "ls")], ..Reply::default() };
            let results = Message::ToolResults { results: vec![result("a", "bash"), result("b", "ls")] };
            vec![user("hi"), Message::Assistant { reply }, results]
        };
        let newer = body(&request(messages()));
        let parts = &newer["contents"][1]["parts"];
        assert_eq!(parts[0]["thoughtSignature"], DUMMY);
        assert!(parts[1].get("thoughtSignature").is_none());
        assert!(parts[0]["functionCall"].get("id").is_none());
        let older = body(&named("gemini-2.5-flash", request(messages())));
        assert!(!older.to_string().contains(DUMMY));
    }

    #[test]
    fn a_reply_of_this_model_is_echoed_byte_for_byte_with_its_ids() {
        let request = signed_step(Some("x1"));
        let built = api().build(&request, &ModelQuirks::default()).unwrap().body;
        let part =
            r#"{"functionCall":{"name":"bash","args":{"z":1,"a":2},"id":"x1"},"thoughtSignature":"Cq8+/="}"#;
        assert!(built.contains(part), "{built}");
        assert_eq!(body(&request)["contents"][2]["parts"][0]["functionResponse"]["id"], "x1");
    }

    #[test]
    fn a_server_that_sent_no_ids_gets_none() {
        let body = body(&signed_step(None));
        assert_eq!(body["contents"][1]["parts"][1]["thoughtSignature"], "Cq8+/=");
        assert!(body["contents"][2]["parts"][0]["functionResponse"].get("id").is_none());
    }

    #[test]
    fn signatures_are_not_sent_to_another_model_despite_the_cache() {
        let request = signed_step(Some("x1"));
        assert!(body(&request).to_string().contains("Cq8"));
        let switched = body(&named("gemini-4-argon", request.clone()));
        assert!(!switched.to_string().contains("Cq8"));
        assert_eq!(switched["contents"][1]["parts"][0]["thoughtSignature"], DUMMY);
        assert!(switched["contents"][2]["parts"][0]["functionResponse"].get("id").is_none());
        assert!(body(&request).to_string().contains("Cq8"));
    }

    #[test]
    fn a_message_is_encoded_once() {
        let request = signed_step(Some("x1"));
        let first = api().build(&request, &ModelQuirks::default()).unwrap().body;
        for message in &request.messages {
            let kept = message.encoded("gemini", |_| panic!("encoded again"));
            assert!(first.contains(kept.unwrap()));
        }
    }

    #[test]
    fn foreign_names_are_made_to_fit_the_pattern() {
        let mut odd = call("a", "1 bash/é");
        odd.arguments = Arguments::Invalid("ls".to_owned());
        let reply = Reply { calls: vec![odd], ..Reply::default() };
        let results = Message::ToolResults { results: vec![result("a", "1 bash/é")] };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, results]));
        let made = &body["contents"][1]["parts"][0]["functionCall"];
        assert_eq!(made["name"], "_1_bash__");
        assert_eq!(made["args"], json!({"invalid_arguments": "ls"}));
        assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["name"], "_1_bash__");
    }

    #[test]
    fn a_refused_parameter_is_never_sent_again() {
        let reply = Reply { text: "no".to_owned(), finish: FinishReason::Refused, ..Reply::default() };
        let body = body(&request(vec![user("hi"), Message::Assistant { reply }, user("please")]));
        assert_eq!(body["contents"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_model_without_tools_gets_the_text_protocol() {
        let reply = Reply { calls: vec![call("a", "bash")], ..Reply::default() };
        let results = Message::ToolResults { results: vec![result("a", "bash")] };
        let request =
            named("gemma-3-27b-it", request(vec![user("hi"), Message::Assistant { reply }, results]));
        let mut quirks = ModelQuirks::default();
        for message in [
            "Function calling is not enabled for models/gemma-3-27b-it",
            "Developer instruction is not enabled for models/gemma-3-27b-it",
        ] {
            let refusal = classify_error(&error(400, "INVALID_ARGUMENT", message, json!([])), &mut quirks);
            assert_eq!(refusal, Some(ErrorAction::RetryNow));
        }
        let body = written(&request, &quirks);
        let text = body.to_string();
        assert!(body.get("tools").is_none() && body.get("systemInstruction").is_none());
        assert!(!text.contains("functionCall") && !text.contains("functionResponse"));
        let first = &body["contents"][0]["parts"];
        assert!(first[0]["text"].as_str().unwrap().starts_with("Be brief.\n\n"));
        assert_eq!(first[1]["text"], "hi");
        assert!(body["contents"][1]["parts"][0]["text"].as_str().unwrap().contains("ls"));
        assert!(body["contents"][2]["parts"][0]["text"].as_str().unwrap().starts_with("Observation:"));
        let mut decoder = api().decoder(&request, &quirks);
        decoder.decode_frame("", &chunk(json!([{"text": "ok"}])).to_string(), &mut Vec::new()).unwrap();
        decoder.decode_frame("", &end("STOP").to_string(), &mut Vec::new()).unwrap();
        assert_eq!(decoder.finish().unwrap().protocol, ToolProtocol::Text);
    }
}

mod stream {
    use super::*;

    #[test]
    fn text_and_thoughts_are_distinguished() {
        let (out, reply) = read(&[
            chunk(json!([{"text": "hm", "thought": true}])),
            chunk(json!([{"text": "Hel"}])),
            chunk(json!([{"text": "lo"}])),
            json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "Cq9"}]}, "finishReason": "STOP"}]}),
        ]);
        let reply = reply.unwrap();
        assert_eq!(
            out,
            [
                ModelEvent::Reasoning("hm".to_owned()),
                ModelEvent::Text("Hel".to_owned()),
                ModelEvent::Text("lo".to_owned())
            ]
        );
        assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("Hello", "hm"));
        let raw = reply.raw.unwrap();
        assert_eq!(raw.model, model());
        assert_eq!(raw.value, json!([{"text": "Hello"}, {"text": "", "thoughtSignature": "Cq9"}]));
    }

    #[test]
    fn signed_parts_are_kept_apart_and_in_order() {
        let (_, reply) = read(&[
            chunk(
                json!([{"text": "a", "thoughtSignature": "S1"}, {"text": "b"}, {"text": "c", "thoughtSignature": "S2"}]),
            ),
            chunk(json!([{"thoughtSignature": "S3"}])),
            chunk(
                json!([{"functionCall": {"id": "x1", "name": "bash", "args": {}}, "thoughtSignature": "S4"},
                {"functionCall": {"id": "x2", "name": "ls", "args": {}}}]),
            ),
            end("STOP"),
        ]);
        assert_eq!(
            reply.unwrap().raw.unwrap().value,
            json!([
                {"text": "a", "thoughtSignature": "S1"}, {"text": "b"}, {"text": "c", "thoughtSignature": "S2"},
                {"thoughtSignature": "S3", "text": ""},
                {"functionCall": {"id": "x1", "name": "bash", "args": {}}, "thoughtSignature": "S4"},
                {"functionCall": {"id": "x2", "name": "ls", "args": {}}},
            ])
        );
    }

    #[test]
    fn calls_come_whole_with_stop_and_may_lack_arguments_and_id() {
        let (_, reply) = read(&[
            chunk(json!([{"functionCall": {"id": "x1", "name": "bash", "args": {"command": "ls"}}}])),
            chunk(json!([{"functionCall": {"name": "ls"}}])),
            end("STOP"),
        ]);
        let reply = reply.unwrap();
        assert_eq!(reply.finish, FinishReason::Stop);
        assert_eq!(reply.calls[0].id, CallId::new("x1"));
        assert_eq!(reply.calls[0].text_argument("command"), Some("ls"));
        assert_eq!(reply.calls[1].id, CallId::new(""));
        assert_eq!(reply.calls[1].arguments, Arguments::Object(serde_json::Map::new()));
    }

    #[test]
    fn invalid_arguments_are_reported_and_not_echoed() {
        let (_, reply) =
            read(&[chunk(json!([{"functionCall": {"name": "bash", "args": "ls"}}])), end("STOP")]);
        let reply = reply.unwrap();
        assert_eq!(reply.calls[0].arguments, Arguments::Invalid("\"ls\"".to_owned()));
        assert_eq!(reply.raw, None);
    }

    #[test]
    fn usage_is_cumulative_and_thoughts_are_output() {
        let usage = |said: u64| {
            json!({"promptTokenCount": 40, "candidatesTokenCount": said, "thoughtsTokenCount": 120,
            "cachedContentTokenCount": 30, "toolUsePromptTokenCount": 2})
        };
        let mut first = chunk(json!([{"text": "hi"}]));
        first["usageMetadata"] = usage(3);
        let mut last = end("STOP");
        last["usageMetadata"] = usage(9);
        let reply = read(&[first, last]).1.unwrap();
        assert_eq!(reply.usage, Usage { input_tokens: 42, output_tokens: 129, cached_tokens: 30 });
    }

    #[test]
    fn missing_candidates_content_and_parts_are_ignored() {
        let frames = [
            json!({"usageMetadata": {"promptTokenCount": 1}}),
            json!({"candidates": []}),
            json!({"candidates": [{"index": 0}]}),
            json!({"candidates": [{"content": {"role": "model"}}], "promptFeedback": null}),
            chunk(json!([{"text": "hi"}])),
            end("STOP"),
        ];
        assert_eq!(read(&frames).1.unwrap().text, "hi");
    }

    #[test]
    fn a_blocked_prompt_is_a_refusal() {
        let reply = read(&[json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})]).1.unwrap();
        assert_eq!(reply.finish, FinishReason::Refused);
        assert!(reply.text.contains("PROHIBITED_CONTENT"), "{}", reply.text);
    }

    #[test]
    fn a_safety_stop_is_a_refusal_that_keeps_no_text() {
        for reason in ["SAFETY", "RECITATION", "SPII", "BLOCKLIST", "MODEL_ARMOR", "OTHER", "SOMETHING_NEW"] {
            let parts = json!([{"text": "Sure, "}, {"functionCall": {"name": "bash"}}]);
            let reply = read(&[chunk(parts), end(reason)]).1.unwrap();
            assert_eq!((reply.finish, reply.calls.len(), &reply.raw), (FinishReason::Refused, 0, &None));
            assert!(reply.text.contains(reason) && !reply.text.contains("Sure"), "{}", reply.text);
        }
    }

    #[test]
    fn broken_calls_and_empty_replies_are_retried() {
        for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"] {
            let mut last = end(reason);
            last["candidates"][0]["finishMessage"] =
                json!("Malformed function call: print(default_api.bash(");
            let (retry, kind, message) = in_stream(&[last]);
            assert_eq!((retry, kind), (true, FailureKind::Protocol), "{reason}");
            assert!(message.contains("default_api"), "{message}");
        }
        assert!(in_stream(&[end("STOP")]).0);
        assert!(in_stream(&[chunk(json!([{"text": "hm", "thought": true}])), end("STOP")]).0);
        let missing = in_stream(&[end("MISSING_THOUGHT_SIGNATURE")]);
        assert_eq!((missing.0, missing.1), (false, FailureKind::Protocol));
    }

    #[test]
    fn the_token_limit_may_truncate_before_any_text() {
        let reply = read(&[end("MAX_TOKENS")]).1.unwrap();
        assert_eq!((reply.finish, reply.text.as_str()), (FinishReason::Length, ""));
        let reply = read(&[chunk(json!([{"text": "so"}])), end("MAX_TOKENS")]).1.unwrap();
        assert_eq!((reply.finish, reply.text.as_str()), (FinishReason::Length, "so"));
    }

    #[test]
    fn a_body_without_a_finish_reason_was_truncated() {
        let (retry, kind, _) = in_stream(&[chunk(json!([{"text": "Hel"}]))]);
        assert_eq!((retry, kind), (true, FailureKind::Unreachable));
    }

    #[test]
    fn a_streamed_error_is_recognized_bare_and_in_a_list() {
        let overloaded = error(503, "UNAVAILABLE", "The model is overloaded \u{1b}[2J", json!([]));
        for frame in [overloaded.clone(), json!([overloaded])] {
            let (retry, kind, message) = in_stream(&[chunk(json!([{"text": "Hel"}])), frame]);
            assert_eq!((retry, kind), (true, FailureKind::Unreachable));
            assert!(message.contains("overloaded") && !message.contains('\u{1b}'), "{message}");
        }
        let limited = error(429, "RESOURCE_EXHAUSTED", "slow down", json!([]));
        assert_eq!(in_stream(&[limited]).1, FailureKind::RateLimited);
        let spent = error(429, "RESOURCE_EXHAUSTED", "limit: 0", json!([]));
        assert!(!in_stream(&[spent]).0);
        let bad = in_stream(&[error(400, "INVALID_ARGUMENT", "no", json!([]))]);
        assert_eq!((bad.0, bad.1), (false, FailureKind::BadRequest));
    }

    #[test]
    fn a_json_array_of_chunks_is_accepted() {
        let list =
            Value::Array(vec![chunk(json!([{"text": "Hel"}])), chunk(json!([{"text": "lo"}])), end("STOP")]);
        assert_eq!(read(&[list]).1.unwrap().text, "Hello");
    }

    #[test]
    fn invalid_chunks_are_protocol_errors() {
        let mut decoder = api().decoder(&request(vec![user("hi")]), &ModelQuirks::default());
        for data in ["<html>", "12", ""] {
            assert!(matches!(decoder.decode_frame("", data, &mut Vec::new()), Err(FrameError::Malformed(_))));
        }
        let parts: Vec<Value> = (0..5_000).map(|_| json!({"functionCall": {"name": "bash"}})).collect();
        let many = chunk(Value::Array(parts)).to_string();
        assert!(matches!(decoder.decode_frame("", &many, &mut Vec::new()), Err(FrameError::Malformed(_))));
    }
}

mod refusals {
    use super::*;

    #[test]
    fn the_retry_delay_is_read_from_details_or_message() {
        let info =
            |delay: &str| json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
        for (details, message, wait) in [
            (info("37s"), "quota", Some(37_000)),
            (info("1.5s"), "quota", Some(1_500)),
            (info("250ms"), "quota", Some(250)),
            (json!([]), "Quota exceeded. Please retry in 37.4s.", Some(37_400)),
            (json!([]), "Please retry in 120ms.", Some(120)),
            (json!([]), "Quota exceeded, limit: 05", None),
        ] {
            let refusal = classify_error(
                &error(429, "RESOURCE_EXHAUSTED", message, details),
                &mut ModelQuirks::default(),
            );
            assert_eq!(refusal, Some(ErrorAction::RetryAfter(wait.map(Duration::from_millis))), "{message}");
        }
        let overloaded = error(503, "UNAVAILABLE", "overloaded", json!([]));
        assert_eq!(classify_error(&overloaded, &mut ModelQuirks::default()), None);
        let overloaded = error(503, "UNAVAILABLE", "overloaded", info("2s"));
        let refusal = classify_error(&overloaded, &mut ModelQuirks::default());
        assert_eq!(refusal, Some(ErrorAction::RetryAfter(Some(Duration::from_secs(2)))));
    }

    #[test]
    fn an_exhausted_quota_is_not_retried() {
        let per_day = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}]);
        let long = json!([{"retryDelay": "3600s"}]);
        for (details, message) in
            [(per_day, "Quota exceeded"), (json!([]), "Quota exceeded, limit: 0, model: x"), (long, "Quota")]
        {
            assert_eq!(
                failed(&error(429, "RESOURCE_EXHAUSTED", message, details)).0,
                FailureKind::RateLimited
            );
        }
    }

    #[test]
    fn errors_are_classified_by_status_reason_and_message() {
        let overflow =
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
        assert_eq!(
            failed(&error(400, "INVALID_ARGUMENT", overflow, json!([]))).0,
            FailureKind::ContextOverflow
        );
        let key = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
        let (kind, sentence) = failed(&error(400, "INVALID_ARGUMENT", "API key not valid", key));
        assert_eq!(kind, FailureKind::Auth);
        assert!(sentence.contains("GEMINI_API_KEY"));
        let region = error(400, "FAILED_PRECONDITION", "User location is not supported", json!([]));
        assert_eq!(failed(&region).0, FailureKind::Auth);
        assert_eq!(failed(&error(403, "PERMISSION_DENIED", "no", json!([]))).0, FailureKind::Auth);
        assert_eq!(failed(&error(400, "INVALID_ARGUMENT", "roles", json!([]))).0, FailureKind::BadRequest);
    }

    #[test]
    fn an_error_may_come_in_a_list() {
        let body = json!([error(404, "NOT_FOUND", "models/gemini-1.5-flash is not found", json!([]))]);
        let (kind, sentence) = failed(&body);
        assert_eq!(kind, FailureKind::UnknownModel);
        assert!(sentence.contains("gemini-1.5 and gemini-2.0 models have been shut down"), "{sentence}");
    }

    #[test]
    fn foreign_error_bodies_use_the_common_rules() {
        assert_eq!(api().classify_error(400, "<html>bad request</html>", &mut ModelQuirks::default()), None);
        let mut quirks = ModelQuirks::default();
        let again = api().classify_error(400, "a thought_signature is missing", &mut quirks);
        assert_eq!(again, Some(ErrorAction::RetryNow));
    }

    #[test]
    fn refused_signatures_are_replaced_once() {
        let request = signed_step(Some("x1"));
        for message in [
            "Function call is missing a thought_signature in functionCall parts.",
            "Invalid thought signature: Corrupted thought signature.",
        ] {
            let refusal = error(400, "INVALID_ARGUMENT", message, json!([]));
            let mut quirks = ModelQuirks::default();
            assert_eq!(classify_error(&refusal, &mut quirks), Some(ErrorAction::RetryNow));
            assert_eq!(quirks, unsupported_params(&[quirk::SIGNATURES]));
            let body = written(&request, &quirks);
            assert!(!body.to_string().contains("Cq8"));
            assert_eq!(body["contents"][1]["parts"][0]["thoughtSignature"], DUMMY);
            assert!(matches!(classify_error(&refusal, &mut quirks), Some(ErrorAction::Fail(_))));
        }
    }

    #[test]
    fn refused_thinking_is_left_out() {
        let refusal = error(400, "INVALID_ARGUMENT", "Thinking is not supported by this model", json!([]));
        let mut quirks = ModelQuirks::default();
        assert_eq!(classify_error(&refusal, &mut quirks), Some(ErrorAction::RetryNow));
        let body = written(&request(vec![user("hi")]), &quirks);
        assert!(body.get("generationConfig").is_none());
    }

    #[test]
    fn error_messages_contain_no_key() {
        let (_, sentence) = failed(&error(403, "PERMISSION_DENIED", &format!("{KEY} \u{1b}c"), json!([])));
        assert!(!sentence.contains(KEY) && !sentence.contains('\u{1b}'), "{sentence}");
    }
}
