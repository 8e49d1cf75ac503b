//! Delivery of responses: sizes, pace, breaks, errors, disconnects; and the recorded requests.

use std::time::Instant;

use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use sysop_mock_llm::{MockServer, RECORDED_REQUESTS_MAX, Scenarios, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::client::{APIS, Api, DEADLINE, Mode, Reply, http, post, refused, start};

/// Returns a file whose only response has these fields.
fn saying(response: Value) -> String {
    json!({"scenarios": [], "default_response": response}).to_string()
}

async fn server(response: Value) -> MockServer {
    start(&saying(response)).await
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns the content of a reply, without ids.
fn gist(reply: &Reply) -> (String, Vec<(String, Value)>, String, u64) {
    let calls = reply.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    (reply.text.clone(), calls, reply.finish.clone(), reply.tokens.1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn chunk_sizes_do_not_change_a_reply(
        text in "\\PC{1,80}",
        argument in "\\PC{0,40}",
        chunk in 1usize..40,
        write in proptest::option::of(1usize..200),
    ) {
        let arguments = json!({"command": argument, "nested": {"list": [1, null, "é"]}}).to_string();
        let call = json!({"type": "function", "function": {"name": "bash", "arguments": arguments}});
        let mut response = json!({"content": text, "tool_calls": [call, call], "chunk_bytes": chunk});
        if let Some(write) = write {
            response["write_bytes"] = json!(write);
        }
        runtime().block_on(async {
            let server = server(response).await;
            for api in APIS {
                let history = [api.prompt("x")];
                let whole = api.ask(&server, &history, Mode::Whole).await;
                let streamed = api.ask(&server, &history, Mode::Streamed).await;
                assert_eq!(whole.text, text, "{api:?}");
                assert_eq!(whole.calls.len(), 2);
                // The two requests differ in length, and so do their estimated tokens.
                assert_eq!(gist(&streamed), gist(&whole), "{api:?}");
            }
        });
    }
}

#[tokio::test]
async fn chunk_bytes_sets_the_text_size_of_one_event() {
    let server = server(json!({"content": "äöü123", "chunk_bytes": 3})).await;
    let body = Api::Ollama.body(&[Api::Ollama.prompt("x")], Mode::Streamed);
    let text = post(&server, "/api/chat", &body).await.text().await.unwrap();
    let pieces: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["message"]["content"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(pieces, ["ä", "ö", "ü1", "23", ""]);
}

#[tokio::test]
async fn write_bytes_splits_inside_characters() {
    let server = server(json!({"content": "ü".repeat(50), "write_bytes": 7})).await;
    let body = Api::OpenAi.body(&[Api::OpenAi.prompt("x")], Mode::Streamed);
    let mut stream = post(&server, "/v1/chat/completions", &body).await.bytes_stream();
    let mut whole = Vec::new();
    let mut cut_characters = 0;
    while let Some(piece) = stream.next().await {
        let piece = piece.unwrap();
        assert!(piece.len() <= 7, "{}", piece.len());
        cut_characters += usize::from(std::str::from_utf8(&piece).is_err());
        whole.extend_from_slice(&piece);
    }
    assert!(cut_characters > 0);
    let reply = Api::OpenAi.read_stream(std::str::from_utf8(&whole).unwrap());
    assert_eq!(reply.text, "ü".repeat(50));
}

#[tokio::test]
async fn repeated_text_is_equal_streamed_and_unstreamed() {
    let server = server(json!({"content": "tick ", "repeat_text": 20_000})).await;
    for api in APIS {
        for mode in [Mode::Whole, Mode::Streamed] {
            let reply = api.ask(&server, &[api.prompt("x")], mode).await;
            assert!(reply.text == "tick ".repeat(20_000), "{api:?} {mode:?}: {} bytes", reply.text.len());
        }
    }
}

#[tokio::test]
async fn usage_is_reported_as_scripted() {
    let server = server(json!({"content": "x", "usage": {"input_tokens": 1234, "output_tokens": 56}})).await;
    for api in APIS {
        for mode in [Mode::Whole, Mode::Streamed] {
            let reply = api.ask(&server, &[api.prompt("x")], mode).await;
            assert_eq!(reply.tokens, (1234, 56), "{api:?} {mode:?}");
        }
    }
}

#[tokio::test]
async fn scripted_delays_are_applied() {
    let server =
        server(json!({"content": "abcd", "chunk_bytes": 1, "delay_ms": 60, "chunk_delay_ms": 20})).await;
    let before = Instant::now();
    let reply = Api::Ollama.ask(&server, &[Api::Ollama.prompt("x")], Mode::Streamed).await;
    assert_eq!(reply.text, "abcd");
    assert!(before.elapsed().as_millis() >= 60 + 4 * 20, "{:?}", before.elapsed());
}

#[tokio::test]
async fn a_connection_breaks_at_the_scripted_byte() {
    let server =
        server(json!({"content": "a long text that is never said whole", "cut_after_bytes": 300})).await;
    for api in APIS {
        let body = api.body(&[api.prompt("x")], Mode::Streamed);
        let mut stream = post(&server, &api.path(Mode::Streamed), &body).await.bytes_stream();
        let mut bytes = 0;
        let mut broke = false;
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => bytes += piece.len(),
                Err(_) => broke = true,
            }
        }
        assert_eq!((broke, bytes), (true, 300), "{api:?}");
    }
}

#[tokio::test]
async fn errors_have_the_format_of_each_api_and_end_after_their_count() {
    let response =
        json!({"content": "at last", "status": 429, "error": "slow down", "times": 2, "retry_after_s": 3});
    for api in APIS {
        let server = server(response.clone()).await;
        let history = [api.prompt("x")];
        for _ in 0..2 {
            let refusal = post(&server, &api.path(Mode::Streamed), &api.body(&history, Mode::Streamed)).await;
            assert_eq!(
                (refusal.status().as_u16(), &refusal.headers()["retry-after"]),
                (429, &"3".parse().unwrap())
            );
            let body: Value = refusal.json().await.unwrap();
            match api {
                Api::OpenAi => assert_eq!(body["error"]["code"], "rate_limit_exceeded"),
                Api::Anthropic => assert_eq!(body["error"]["type"], "rate_limit_error"),
                Api::Ollama => assert_eq!(body["error"], "slow down"),
                Api::Gemini | Api::Vertex | Api::GeminiArray => {
                    assert_eq!(body["error"]["status"], "RESOURCE_EXHAUSTED");
                    assert_eq!(body["error"]["details"][0]["retryDelay"], "3s");
                }
            }
            assert!(body.to_string().contains("slow down"));
        }
        assert_eq!(api.ask(&server, &history, Mode::Streamed).await.text, "at last", "{api:?}");
    }
    let overloaded = server(json!({"status": 529})).await;
    for _ in 0..3 {
        let (status, body) = refused(
            &overloaded,
            "/v1/messages",
            &Api::Anthropic.body(&[Api::Anthropic.prompt("x")], Mode::Whole),
        )
        .await;
        assert_eq!((status, &body["error"]["type"]), (529, &json!("overloaded_error")));
    }
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_stream() {
    let slow = json!({"content": "x", "repeat_text": 1_000_000, "chunk_delay_ms": 5});
    let late = json!({"content": "x", "delay_ms": 600_000});
    for response in [slow, late] {
        let server = server(response).await;
        for api in APIS {
            let body = api.body(&[api.prompt("x")], Mode::Streamed);
            let request = http().post(format!("{}{}", server.url(), api.path(Mode::Streamed)));
            let request = request.header("anthropic-version", "2023-06-01").json(&body);
            let asking = tokio::spawn(async move {
                let mut stream = request.send().await.unwrap().bytes_stream();
                while let Some(Ok(_)) = stream.next().await {}
            });
            timeout(DEADLINE, server.wait_for_open_replies(1)).await.expect("it begins");
            assert_eq!(server.open_replies(), 1);
            asking.abort();
            timeout(DEADLINE, server.wait_for_open_replies(0)).await.expect("it ends");
        }
    }
}

#[tokio::test]
async fn a_client_that_disconnects_unread_ends_its_stream() {
    let server = server(json!({"repeat_text": 10_000_000})).await;
    let body = Api::OpenAi.body(&[Api::OpenAi.prompt("x")], Mode::Streamed).to_string();
    let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut first = [0; 1000];
    socket.read_exact(&mut first).await.unwrap();
    assert_eq!(server.open_replies(), 1);
    drop(socket);
    timeout(DEADLINE, server.wait_for_open_replies(0)).await.expect("it ends");
}

#[tokio::test]
async fn dropping_the_server_breaks_its_connections() {
    let server = server(json!({"content": "x", "repeat_text": 1_000_000, "chunk_delay_ms": 5})).await;
    let url = server.url();
    let body = Api::OpenAi.body(&[Api::OpenAi.prompt("x")], Mode::Streamed);
    let mut stream = post(&server, "/v1/chat/completions", &body).await.bytes_stream();
    stream.next().await.unwrap().unwrap();
    drop(server);
    let rest = async { while let Some(Ok(_)) = stream.next().await {} };
    timeout(DEADLINE, rest).await.expect("the stream breaks");
    let gone = async { while http().get(&url).send().await.is_ok() {} };
    timeout(DEADLINE, gone).await.expect("the port is closed");
}

#[tokio::test]
async fn serve_answers_until_it_is_dropped() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(serve(listener, Scenarios::builtin()));
    let text = http().get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(text, "Ollama is running");
    serving.abort();
    let gone = async { while http().get(&url).send().await.is_ok() {} };
    timeout(DEADLINE, gone).await.expect("the port is closed");
}

#[tokio::test]
async fn requests_are_recorded_up_to_a_limit() {
    let server = server(json!({"content": "x"})).await;
    let client = http();
    let url = format!("{}/v1/chat/completions?a=b", server.url());
    for number in 0..RECORDED_REQUESTS_MAX + 1 {
        let body = json!({"messages": [{"role": "user", "content": number.to_string()}]});
        let response = client.post(&url).bearer_auth("sk-1").json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), RECORDED_REQUESTS_MAX);
    let oldest = &requests[0];
    assert_eq!(
        (oldest.method.as_str(), oldest.path.as_str(), oldest.query.as_str()),
        ("POST", "/v1/chat/completions", "a=b")
    );
    assert_eq!(oldest.header("authorization"), Some("Bearer sk-1"));
    assert_eq!(oldest.body["messages"][0]["content"], "1");
}

#[tokio::test]
async fn unknown_paths_and_overlong_bodies_are_rejected() {
    let server = server(json!({"content": "x"})).await;
    let (status, body) = refused(&server, "/v1/sing", &json!({})).await;
    assert_eq!(status, 404);
    assert!(body["error"]["message"].as_str().unwrap().contains("POST /v1/sing"));
    let mut long = Api::OpenAi.body(&[Api::OpenAi.prompt("x")], Mode::Whole);
    long["metadata"] = json!("x".repeat(sysop_mock_llm::REQUEST_BYTES_MAX));
    let request = http().post(format!("{}/v1/chat/completions", server.url())).json(&long);
    // The server answers before reading everything; the client may see a broken connection.
    if let Ok(response) = request.send().await {
        assert_eq!(response.status(), 413);
    }
    assert!(server.requests().iter().all(|request| request.path != "/v1/chat/completions"));
}
