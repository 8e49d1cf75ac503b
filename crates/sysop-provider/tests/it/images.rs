//! Images in requests: the form of each API, and models that cannot see them.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretString;
use serde_json::{Value, json};
use sysop_core::image::{ImageFormat, ImageRef};
use sysop_core::message::{FailureKind, Message, ModelRequest, Reply};
use sysop_provider::{Endpoint, OllamaSettings, Providers, ProvidersSettings};

use crate::server::{Answer, Server};
use crate::world::{CallResult, QUICK, ask, called, ollama_at, openai_at, request, results, user};

const BYTES: &[u8] = b"not decoded";

fn image() -> ImageRef {
    ImageRef {
        artifact: "image-1.png".to_owned(),
        media_type: ImageFormat::Png,
        width: 640,
        height: 480,
        name: "a.png".to_owned(),
    }
}

fn base64() -> String {
    BASE64_STANDARD.encode(BYTES)
}

fn data_url() -> String {
    format!("data:image/png;base64,{}", base64())
}

/// Returns a request whose prompt and newest tool result have the image.
fn conversation(model: &str, vision: Option<bool>) -> ModelRequest {
    let calls = [called("call_1", r#"{"command":"shot"}"#)];
    let reply = Reply { calls: calls.to_vec(), ..Reply::default() };
    let Message::ToolResults { results: mut shown } = results(&calls, "done") else { panic!("results") };
    shown[0].images = vec![image()];
    let prompt = Message::User { text: "look".to_owned(), images: vec![image()] };
    let messages = vec![prompt, Message::Assistant { reply }, Message::ToolResults { results: shown }];
    with_bytes(request(model, messages), vision)
}

fn with_bytes(mut request: ModelRequest, vision: Option<bool>) -> ModelRequest {
    request.images.vision = vision;
    request.images.bytes = [(image().artifact, Arc::from(BYTES))].into();
    request
}

/// Returns the body of the first request to a server that refuses it.
async fn sent(model: &str, providers: impl Fn(Endpoint) -> ProvidersSettings) -> Value {
    let server = Server::start(vec![Answer::json(401, "{}")]).await;
    let endpoint = Endpoint {
        base_url: Some(server.url.clone()),
        api_key: Some(SecretString::from("key")),
        ..Endpoint::default()
    };
    let providers = Providers::new(providers(endpoint)).with_retries(QUICK);
    ask(&providers, conversation(model, Some(true))).await.failure();
    server.seen().pop().expect("a request").body
}

#[tokio::test]
async fn chat_completions_get_images_of_results_in_a_user_message() {
    let body =
        sent("openai/gpt-4o", |openai| ProvidersSettings { openai, ..ProvidersSettings::default() }).await;
    let part = json!({"type": "image_url", "image_url": {"url": data_url()}});
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"], json!([{"type": "text", "text": "look"}, part]));
    assert_eq!((&messages[3]["role"], &messages[3]["content"]), (&"tool".into(), &"done".into()));
    assert_eq!((&messages[4]["role"], &messages[4]["content"][1]), (&"user".into(), &part));
}

#[tokio::test]
async fn responses_take_images_in_messages_and_outputs() {
    let body =
        sent("openai/o3-pro", |openai| ProvidersSettings { openai, ..ProvidersSettings::default() }).await;
    let part = json!({"type": "input_image", "image_url": data_url(), "detail": "auto"});
    assert_eq!(body["input"][0]["content"], json!([{"type": "input_text", "text": "look"}, part]));
    assert_eq!(body["input"][2]["output"], json!([{"type": "input_text", "text": "done"}, part]));
}

#[tokio::test]
async fn anthropic_gets_images_before_text_and_inside_results() {
    let body = sent("anthropic/claude-sonnet-5-5", |anthropic| ProvidersSettings {
        anthropic,
        ..ProvidersSettings::default()
    })
    .await;
    let block = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64()}});
    let messages = &body["messages"];
    assert_eq!(messages[0]["content"][0], block);
    assert_eq!(messages[0]["content"][1]["text"], "look");
    let result = &messages[2]["content"][0];
    assert_eq!((&result["content"][0], &result["content"][1]["text"]), (&block, &"done".into()));
}

#[tokio::test]
async fn gemini_gets_inline_data_inside_results_since_its_third_generation() {
    let gemini = |gemini| ProvidersSettings { gemini, ..ProvidersSettings::default() };
    let part = json!({"inlineData": {"mimeType": "image/png", "data": base64()}});
    let body = sent("gemini/gemini-3.8-flash", gemini).await;
    assert_eq!(body["contents"][0]["parts"], json!([part, {"text": "look"}]));
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["parts"], json!([part]));
    let body = sent("gemini/gemini-2.5-pro", gemini).await;
    let parts = body["contents"][2]["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &parts[1]), (2, &part));
}

#[tokio::test]
async fn ollama_gets_images_of_users() {
    let body = sent("ollama/llava", |endpoint| ProvidersSettings {
        ollama: OllamaSettings { endpoint, ..OllamaSettings::default() },
        ..ProvidersSettings::default()
    })
    .await;
    let messages = body["messages"].as_array().unwrap();
    assert_eq!((&messages[1]["content"], &messages[1]["images"]), (&"look".into(), &json!([base64()])));
    assert_eq!((&messages[3]["role"], &messages[4]["images"]), (&"tool".into(), &json!([base64()])));
}

/// Asks an Ollama model with these capabilities about an image.
async fn ask_ollama(capabilities: Value, vision: Option<bool>) -> (CallResult, Server) {
    let server = Server::with_routes(move |seen, _| match seen.path() {
        "/api/show" => Answer::json(200, &json!({"capabilities": capabilities}).to_string()),
        _ => Answer::json(401, "{}"),
    })
    .await;
    let prompt = Message::User { text: "look".to_owned(), images: vec![image()] };
    let request = with_bytes(request("ollama/m", vec![prompt]), vision);
    (ask(&ollama_at(&server.url), request).await, server)
}

#[tokio::test]
async fn a_model_that_ollama_calls_blind_is_not_asked_about_images() {
    let asked = |server: &Server| server.seen().iter().any(|seen| seen.body.get("messages").is_some());
    let (heard, server) = ask_ollama(json!(["completion", "tools"]), None).await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    assert!(
        failure.message.starts_with("ollama/m cannot see images; choose a model that can"),
        "{failure:?}"
    );
    assert!(!asked(&server));
    let (heard, server) = ask_ollama(json!(["completion", "vision"]), None).await;
    assert!(heard.failure().message.contains("calls tools as text"), "no tools: the text protocol");
    assert!(!asked(&server));
    let (_, server) = ask_ollama(json!(["completion", "tools"]), Some(true)).await;
    assert!(asked(&server), "the config overrides the capabilities");
}

#[tokio::test]
async fn an_older_image_becomes_a_line_for_a_model_that_sees_none() {
    let server = Server::start(vec![Answer::json(401, "{}")]).await;
    let older = Message::User { text: "look".to_owned(), images: vec![image()] };
    let reply = Reply { text: "A lamp.".to_owned(), ..Reply::default() };
    let messages = vec![older, Message::Assistant { reply }, user("and now?")];
    ask(&openai_at(&server.url), with_bytes(request("openai/m", messages), Some(false))).await.failure();
    let body = server.seen().remove(0).body;
    let line = "[image 640×480 a.png omitted: you cannot see images; tell the user if the image matters]";
    assert_eq!(body["messages"][1]["content"], format!("look\n{line}"));
}
