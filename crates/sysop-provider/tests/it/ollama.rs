//! Ollama's native API: one test per quirk.

use std::sync::Arc;

use serde_json::{Value, json};
use sysop_core::message::{Arguments, FailureKind, FinishReason, Message, ModelRequest, Reply, ToolProtocol};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_mock_llm::{MockServer, Scenarios};
use sysop_provider::text_protocol;
use sysop_provider::{Endpoint, OllamaSettings};

use crate::server::{Answer, End, Server};
use crate::world::{CallResult, ask, bash, called, ollama, ollama_at, request, results, user};

const DONE: &str = r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":169,"eval_count":15}"#;

fn lines(messages: &[Value]) -> String {
    let said: String = messages
        .iter()
        .map(|message| format!("{}\n", json!({"model": "m", "message": message, "done": false})))
        .collect();
    format!("{said}{DONE}\n")
}

fn said(text: &str) -> Answer {
    Answer::lines(&lines(&[json!({"role": "assistant", "content": text})]))
}

/// Starts a server whose models have `capabilities`, and which answers chats in turn.
async fn server(capabilities: Value, chats: Vec<Answer>) -> Server {
    server_with_window(capabilities, json!({"models": []}), chats).await
}

async fn server_with_window(capabilities: Value, loaded: Value, chats: Vec<Answer>) -> Server {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Server::with_routes(move |seen, _| match seen.path() {
        "/api/show" if capabilities.is_null() => Answer::json(404, r#"{"error":"model 'm' not found"}"#),
        "/api/show" => Answer::json(200, &json!({"capabilities": capabilities}).to_string()),
        "/api/ps" => Answer::json(200, &loaded.to_string()),
        _ => {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            chats[number.min(chats.len() - 1)].clone()
        }
    })
    .await
}

fn hi() -> ModelRequest {
    request("ollama/m", vec![user("hi")])
}

fn chats(server: &Server) -> Vec<Value> {
    server.seen().into_iter().filter(|seen| seen.path() == "/api/chat").map(|seen| seen.body).collect()
}

async fn replay_answer(body: &str) -> CallResult {
    let server = server(json!(["completion", "tools"]), vec![Answer::lines(body)]).await;
    ask(&ollama_at(&server.url), hi()).await
}

#[tokio::test]
async fn text_thoughts_calls_and_usage_are_read_and_requests_are_well_formed() {
    let server = server(
        json!(["completion", "tools", "thinking"]),
        vec![Answer::lines(&lines(&[
            json!({"role": "assistant", "content": "", "thinking": "h"}),
            json!({"role": "assistant", "content": "", "thinking": "m"}),
            json!({"role": "assistant", "content": "a\n"}),
            json!({"role": "assistant", "content": "b", "tool_calls": [
                {"id": "call_1", "function": {"index": 0, "name": "bash", "arguments": {"command": "ls"}}},
                {"function": {"name": "bash", "arguments": {}}}]}),
        ]))],
    )
    .await;
    let heard = ask(&ollama_at(&server.url), hi()).await;
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("a\nb", "hm"));
    assert!(heard.notices.is_empty(), "{heard:?}");
    let reply = heard.reply();
    let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1", ""]);
    assert_eq!(reply.calls[0].text_argument("command"), Some("ls"));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (169, 15));
    assert_eq!((reply.finish, reply.protocol), (FinishReason::Stop, ToolProtocol::Native));
    assert_eq!(
        chats(&server)[0],
        json!({"model": "m", "stream": true, "truncate": false, "shift": false, "options": {"num_ctx": 32768},
            "messages": [{"role": "system", "content": "You are sysop."}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "bash", "description": "Runs a command.",
                "parameters": bash().parameters}}]})
    );
}

#[tokio::test]
async fn settings_are_sent() {
    for (keep_alive, sent) in [("30m", json!("30m")), ("-1", json!(-1))] {
        let server = server(json!(["tools"]), vec![said("x")]).await;
        let settings = OllamaSettings {
            endpoint: Endpoint {
                base_url: Some(server.url.clone()),
                api_key: Some("sk-canary".into()),
                ..Endpoint::default()
            },
            num_ctx: Some(8192),
            keep_alive: Some(keep_alive.to_owned()),
        };
        let mut request = hi();
        request.max_output_tokens = Some(77);
        request.temperature = Some(0.5);
        ask(&ollama(settings), request).await.reply();
        let chat = &chats(&server)[0];
        assert_eq!(chat["keep_alive"], sent);
        assert_eq!(chat["options"], json!({"num_ctx": 8192, "num_predict": 77, "temperature": 0.5}));
        assert!(server.seen().iter().all(|seen| seen.header("authorization") == Some("Bearer sk-canary")));
    }
}

#[tokio::test]
async fn calls_results_and_thoughts_are_echoed_unchanged() {
    let body = lines(&[json!({"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
        {"id": "call_1", "function": {"name": "bash", "arguments": {"command": "ls"}}}]})]);
    let server = server(json!(["tools", "thinking"]), vec![Answer::lines(&body)]).await;
    let providers = ollama_at(&server.url);
    let reply = ask(&providers, hi()).await.reply();
    let results = results(&reply.calls, "a.txt");
    let messages = vec![user("hi"), Message::Assistant { reply }, results];
    ask(&providers, request("ollama/m", messages.clone())).await;
    ask(&providers, request("ollama/other", messages)).await;
    let chats = chats(&server);
    let call = json!({"id": "call_1", "function": {"name": "bash", "arguments": {"command": "ls"}}});
    assert_eq!(
        chats[1]["messages"][2],
        json!({"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]})
    );
    assert_eq!(
        chats[1]["messages"][3],
        json!({"role": "tool", "tool_name": "bash", "tool_call_id": "call_1", "content": "a.txt"})
    );
    assert_eq!(chats[2]["messages"][2], json!({"role": "assistant", "content": "", "tool_calls": [call]}));
}

#[tokio::test]
async fn model_capabilities_are_requested_once() {
    let server = server(json!(["completion", "tools"]), vec![said("x")]).await;
    let providers = ollama_at(&server.url);
    for _ in 0..3 {
        ask(&providers, hi()).await.reply();
    }
    let paths: Vec<String> = server.seen().iter().map(|seen| seen.path().to_owned()).collect();
    assert_eq!(paths.iter().filter(|path| *path == "/api/show").count(), 1, "{paths:?}");
    assert_eq!(paths[0], "/api/show");
    assert_eq!(paths.iter().filter(|path| *path == "/api/chat").count(), 3);
}

fn is_text(chat: &Value) -> bool {
    let system = chat["messages"][0]["content"].as_str().unwrap();
    chat.get("tools").is_none()
        && chat["format"] == text_protocol::schema(&[bash()], false)
        && system.starts_with("You are sysop.\n\n")
        && system.ends_with(&text_protocol::instructions(&[bash()]))
        && chat["options"]
            == json!({"num_ctx": 32768, "num_predict": 2048, "temperature": 0.0, "stop": ["\nObservation"]})
}

#[tokio::test]
async fn a_model_without_tools_gets_the_text_protocol_at_once() {
    let server =
        server(json!(["completion"]), vec![said(r#"{"type":"shell","command":"df -h","reason":"look"}"#)])
            .await;
    let reply = ask(&ollama_at(&server.url), hi()).await.reply();
    assert_eq!(reply.protocol, ToolProtocol::Text);
    let chats = chats(&server);
    assert!(chats.len() == 1 && is_text(&chats[0]) && chats[0].get("think").is_none(), "{chats:?}");
}

#[tokio::test]
async fn the_text_protocol_has_its_own_system_prompt_and_can_require_a_call() {
    let server =
        server(json!(["completion"]), vec![said(r#"{"type":"shell","command":"df -h","reason":"look"}"#)])
            .await;
    let request = ModelRequest { text_system: Some("Be brief.".into()), must_call: true, ..hi() };
    ask(&ollama_at(&server.url), request).await.reply();
    let chat = &chats(&server)[0];
    let system = chat["messages"][0]["content"].as_str().unwrap_or_default();
    assert_eq!(system, format!("Be brief.\n\n{}", text_protocol::instructions(&[bash()])));
    assert_eq!(chat["format"], text_protocol::schema(&[bash()], true));
}

#[tokio::test]
async fn a_chat_with_a_model_without_tools_is_plain_text() {
    let said_json = r#"{"type":"answer","text":"4"}"#;
    let server = server(json!(["completion"]), vec![said(said_json)]).await;
    let mut chat = hi();
    (chat.mode, chat.sampling_defaults, chat.tools) = (Mode::Chat, SamplingDefaults::CHAT, Arc::from([]));
    let reply = ask(&ollama_at(&server.url), chat).await.reply();
    assert_eq!((reply.text.as_str(), reply.protocol), (said_json, ToolProtocol::Native));
    let chat = &chats(&server)[0];
    assert_eq!(chat["messages"][0], json!({"role": "system", "content": "You are sysop."}));
    assert!(chat.get("format").is_none() && chat.get("tools").is_none(), "{chat}");
    assert_eq!(chat["options"], json!({"num_ctx": 32768, "num_predict": 4096, "temperature": 0.7}));
}

#[tokio::test]
async fn a_thinking_model_gets_a_limit_with_room_for_its_thoughts() {
    let server = server(json!(["completion", "tools", "thinking"]), vec![said("4")]).await;
    let mut chat = hi();
    (chat.mode, chat.sampling_defaults) = (Mode::Chat, SamplingDefaults::CHAT);
    ask(&ollama_at(&server.url), chat).await.reply();
    assert_eq!(
        chats(&server)[0]["options"],
        json!({"num_ctx": 32768, "num_predict": 32768, "temperature": 0.7})
    );
}

#[tokio::test]
async fn a_model_that_refuses_tools_gets_the_text_protocol() {
    let refusal =
        Answer::json(400, r#"{"error":"registry.ollama.ai/library/phi3:latest does not support tools"}"#);
    let server = server(Value::Null, vec![refusal, said("{}")]).await;
    let providers = ollama_at(&server.url);
    let heard = ask(&providers, hi()).await;
    assert!(heard.notices.is_empty());
    assert_eq!(heard.reply().protocol, ToolProtocol::Text);
    assert_eq!(ask(&providers, hi()).await.reply().protocol, ToolProtocol::Text);
    let texts: Vec<bool> = chats(&server).iter().map(is_text).collect();
    assert_eq!(texts, [false, true, true]);
}

#[tokio::test]
async fn thinking_is_off_with_a_schema_and_unset_after_a_refusal() {
    let refusal = Answer::json(400, r#"{"error":"\"m\" does not support thinking"}"#);
    let server = server(json!(["completion", "thinking"]), vec![refusal, said("{}")]).await;
    ask(&ollama_at(&server.url), hi()).await.reply();
    let thinks: Vec<Value> = chats(&server).into_iter().map(|chat| chat["think"].clone()).collect();
    assert_eq!(thinks, [json!(false), Value::Null]);
}

#[tokio::test]
async fn a_refused_schema_is_left_out() {
    let refusal = Answer::json(500, r#"{"error":"failed to load model vocabulary required for format"}"#);
    let server = server(json!(["completion"]), vec![refusal, said("{}")]).await;
    ask(&ollama_at(&server.url), hi()).await.reply();
    let formats: Vec<bool> = chats(&server).iter().map(|chat| chat.get("format").is_some()).collect();
    assert_eq!(formats, [true, false]);
}

#[tokio::test]
async fn history_in_the_text_protocol_is_text() {
    let server = server(json!(["completion"]), vec![said("{}")]).await;
    let calls = vec![called("c", r#"{"command":"ls","reason":"look"}"#)];
    let reply = Reply { calls: calls.clone(), ..Reply::default() };
    let messages = vec![user("hi"), Message::Assistant { reply }, results(&calls, "a.txt")];
    ask(&ollama_at(&server.url), request("ollama/m", messages)).await.reply();
    let sent = chats(&server)[0]["messages"].clone();
    assert_eq!(
        sent[2],
        json!({"role": "assistant", "content": r#"{"type":"shell","command":"ls","reason":"look"}"#})
    );
    assert_eq!(sent[3]["role"], "user");
    assert!(sent[3]["content"].as_str().unwrap().starts_with("Observation: a.txt"));
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_error() {
    let half = json!({"message": {"role": "assistant", "content": "a"}, "done": false}).to_string();
    for (error, kind) in [
        ("the input length exceeds the context length", FailureKind::ContextOverflow),
        ("CUDA error: out of memory", FailureKind::BadRequest),
    ] {
        let failure = replay_answer(&format!("{half}\n{}\n", json!({"error": error}))).await.failure();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(error), "{}", failure.message);
    }
    let crashed = format!("{half}\n{}\n", json!({"error": "llama runner process has terminated"}));
    let server = server(json!(["tools"]), vec![Answer::lines(&crashed), said("b")]).await;
    let heard = ask(&ollama_at(&server.url), hi()).await;
    assert_eq!((heard.restarts, heard.notices.len(), heard.reply().text.as_str()), (1, 1, "b"));
}

#[tokio::test]
async fn a_stream_without_done_was_truncated() {
    let half = format!("{}\n", json!({"message": {"role": "assistant", "content": "a"}, "done": false}));
    for end in [End::Whole, End::Cut] {
        let server = server(json!(["tools"]), vec![Answer::lines(&half).end(end), said("b")]).await;
        let heard = ask(&ollama_at(&server.url), hi()).await;
        assert_eq!((heard.restarts, heard.reply().text.as_str()), (1, "b"), "{end:?}");
    }
}

#[tokio::test]
async fn an_unterminated_last_line_is_read_and_a_length_stop_is_reported() {
    let body = lines(&[json!({"content": "a"})]).replace("\"stop\"", "\"length\"");
    let reply = replay_answer(body.trim_end()).await.reply();
    assert_eq!((reply.text.as_str(), reply.finish), ("a", FinishReason::Length));
}

#[tokio::test]
async fn each_refusal_has_a_hint() {
    let cases = [
        (404, r#"{"error":"model 'm' not found"}"#, FailureKind::UnknownModel, "`ollama pull m`"),
        (
            404,
            r#"{"error":"model \"m\" not found, try pulling it first"}"#,
            FailureKind::UnknownModel,
            "`ollama pull m`",
        ),
        (403, "", FailureKind::Auth, "localhost"),
        (
            401,
            r#"{"error":"unauthorized","signin_url":"https://ollama.com"}"#,
            FailureKind::Auth,
            "`ollama signin`",
        ),
        (
            400,
            r#"{"error":"\"m\" does not support chat"}"#,
            FailureKind::BadRequest,
            "does not support chat;",
        ),
        (
            400,
            r#"{"error":"the prompt is longer than the context length currently available to the model"}"#,
            FailureKind::ContextOverflow,
            "num_ctx",
        ),
        (
            500,
            r#"{"error":"model requires more system memory (8 GiB) than is available (4 GiB)"}"#,
            FailureKind::BadRequest,
            "smaller model",
        ),
    ];
    for (status, body, kind, hint) in cases {
        let server = server(json!(["tools"]), vec![Answer::json(status, body)]).await;
        let failure = ask(&ollama_at(&server.url), hi()).await.failure();
        assert_eq!(failure.kind, kind, "{body}");
        assert!(failure.message.contains(hint), "{}", failure.message);
        assert_eq!(chats(&server).len(), 1, "{body}");
    }
}

#[tokio::test]
async fn a_full_queue_is_retried() {
    let full =
        Answer::json(503, r#"{"error":"server busy, please try again. maximum pending requests exceeded"}"#);
    let server = server(json!(["tools"]), vec![full, said("a")]).await;
    let heard = ask(&ollama_at(&server.url), hi()).await;
    assert_eq!((heard.notices.len(), heard.reply().text.as_str()), (1, "a"));
}

#[tokio::test]
async fn an_unreachable_server_hints_at_starting_it() {
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let failure = ask(&ollama_at(&url), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(failure.message.contains("`ollama serve`"), "{}", failure.message);
    let probe = ollama_at(&url).probe("ollama").await;
    assert!(!probe.reachable && probe.problem.unwrap().message.contains("`ollama serve`"));
    let failure = ask(&ollama_at("ftp://x"), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    assert!(failure.message.contains("127.0.0.1:11434"), "{}", failure.message);
}

#[tokio::test]
async fn a_smaller_context_window_is_reported_once() {
    let loaded = json!({"models": [{"name": "other", "context_length": 1}, {"name": "m:latest", "context_length": 4096}]});
    let server = server_with_window(json!(["tools"]), loaded, vec![said("a")]).await;
    let providers = ollama_at(&server.url);
    let heard = ask(&providers, hi()).await;
    let notices = &heard.notices;
    assert!(
        notices.len() == 1 && notices[0].contains("a context window of 4096 tokens instead of 32768"),
        "{notices:?}"
    );
    assert_eq!(heard.reply().context_window, Some(4096));
    assert!(ask(&providers, hi()).await.notices.is_empty());
}

#[tokio::test]
async fn a_prompt_that_fills_the_window_is_reported() {
    let full = lines(&[json!({"content": "a"})]).replace("169", "4090");
    for (body, notices) in [(full, 1), (lines(&[json!({"content": "a"})]), 0)] {
        let server = server(json!(["tools"]), vec![Answer::lines(&body)]).await;
        let settings = OllamaSettings {
            endpoint: Endpoint { base_url: Some(server.url.clone()), ..Endpoint::default() },
            num_ctx: Some(4096),
            keep_alive: None,
        };
        let heard = ask(&ollama(settings), hi()).await;
        assert_eq!(heard.notices.len(), notices, "{heard:?}");
        assert!(heard.notices.iter().all(|notice| notice.contains("4096 tokens")));
        heard.reply();
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_the_window_is_an_overflow() {
    let loaded = json!({"models": [{"name": "m:latest", "context_length": 4096}]});
    for (bytes, tokens, overflow, notices) in
        [(4096 * 17, 2000, true, 0), (4096 * 5, 600, false, 1), (4096 * 5, 3000, false, 0)]
    {
        let body = lines(&[json!({"content": "a"})]).replace("169", &tokens.to_string());
        let server =
            server_with_window(json!(["tools"]), loaded.clone(), vec![said("a"), Answer::lines(&body)]).await;
        let providers = ollama_at(&server.url);
        ask(&providers, hi()).await.reply();
        let heard = ask(&providers, request("ollama/m", vec![user(&"x".repeat(bytes))])).await;
        assert_eq!(heard.notices.len(), notices, "{bytes}: {heard:?}");
        match heard.end {
            Ok(_) => assert!(!overflow, "{bytes}"),
            Err(failure) => assert!(overflow && failure.kind == FailureKind::ContextOverflow, "{failure:?}"),
        }
    }
}

#[tokio::test]
async fn a_turn_with_the_mock_server_completes() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let providers = ollama_at(&mock.url());
    let mut messages = vec![user("please write hello world")];
    for name in ["write_file", "bash"] {
        let heard = ask(&providers, request("ollama/mock-model", messages.clone())).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        let reply = heard.reply();
        assert_eq!((reply.calls[0].name.as_str(), reply.protocol), (name, ToolProtocol::Native));
        let results = results(&reply.calls, "ok");
        messages.extend([Message::Assistant { reply }, results]);
    }
    let reply = ask(&providers, request("ollama/mock-model", messages)).await.reply();
    assert!(reply.text.starts_with("Done!") && reply.calls.is_empty(), "{reply:?}");
    let failure = ask(&providers, request("ollama/missing", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
}

#[tokio::test]
async fn a_model_without_tools_completes_a_turn_by_the_text_protocol() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let providers = ollama_at(&mock.url());
    let mut messages = vec![user("please write hello world")];
    for command in [None, Some("python hello.py")] {
        let mut reply = ask(&providers, request("ollama/phi3", messages.clone())).await.reply();
        assert_eq!((reply.protocol, reply.calls.len()), (ToolProtocol::Text, 1), "{reply:?}");
        reply.calls =
            reply.calls.iter().map(|call| called("c", &call.arguments.to_value().to_string())).collect();
        assert!(matches!(&reply.calls[0].arguments, Arguments::Object(_)));
        assert!(command.is_none() || reply.calls[0].text_argument("command") == command, "{reply:?}");
        let results = results(&reply.calls, "ok");
        messages.extend([Message::Assistant { reply }, results]);
    }
    let reply = ask(&providers, request("ollama/phi3", messages)).await.reply();
    assert!(reply.text.starts_with("Done!") && reply.calls.is_empty(), "{reply:?}");
}

#[tokio::test]
async fn probing_lists_models() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let probe = ollama_at(&mock.url()).probe("ollama").await;
    assert!(probe.reachable && probe.models.contains(&"phi3:latest".to_owned()), "{probe:?}");
}
