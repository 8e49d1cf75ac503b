//! Whole conversations over this crate's APIs, validated by the scripted model server, which shares no code with them.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use sysop_core::id::CallId;
use sysop_core::message::{
    CallEnd, FinishReason, HistoryMessage, Message, ModelRef, ModelRequest, Reply, ToolResult,
};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_mock_llm::{MockServer, Scenarios};

use crate::anthropic::Anthropic;
use crate::api::{ErrorAction, ModelApi, ModelQuirks};
use crate::gemini::Gemini;
use crate::openai::OpenAi;
use crate::settings::{Endpoint, OpenAiApi, VertexSettings};
use crate::vertex::Vertex;

fn endpoint(server: &MockServer) -> Endpoint {
    Endpoint {
        base_url: Some(server.url()),
        api_key: Some(SecretString::from("canary")),
        ..Endpoint::default()
    }
}

fn request(model: ModelRef, messages: &[HistoryMessage]) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "does it".into(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}).into(),
        effect: ToolEffect::Command,
    };
    ModelRequest {
        model,
        system: Arc::from("Be brief."),
        messages: messages.to_vec(),
        trimmed: false,
        tools: Arc::from([tool("bash"), tool("write_file")]),
        known_tools: Arc::from([tool("bash"), tool("write_file")]),
        max_output_tokens: Some(1_000),
        temperature: None,
        mode: Mode::Agent,
        effort: None,
        calls_as_text: false,
        must_call: false,
        text_system: None,
        sampling_defaults: SamplingDefaults::default(),
        images: Default::default(),
    }
}

async fn posted(api: &dyn ModelApi, request: &ModelRequest, quirks: &ModelQuirks) -> (u16, String) {
    rustls::crypto::ring::default_provider().install_default().ok();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    api.prepare(&http).await.unwrap();
    let built = api.build(request, quirks).unwrap();
    let mut post = http.post(&built.url).header("content-type", "application/json").body(built.body);
    for (name, value) in &built.headers {
        post = post.header(name, value.expose_secret());
    }
    let response = post.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Performs one step: posts the request and decodes the streamed reply, as the transport does.
async fn step(api: &dyn ModelApi, request: &ModelRequest) -> Reply {
    let (status, body) = posted(api, request, &ModelQuirks::default()).await;
    assert_eq!(status, 200, "{body}");
    let mut decoder = api.decoder(request, &ModelQuirks::default());
    let mut out = Vec::new();
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
        decoder.decode_frame("", data, &mut out).unwrap();
    }
    decoder.finish().unwrap()
}

/// Plays the server's `hello world` scenario from `messages` for at most `steps`; returns the last reply.
async fn talk(
    api: &dyn ModelApi,
    model: &ModelRef,
    messages: &mut Vec<HistoryMessage>,
    steps: usize,
) -> Reply {
    let mut last = Reply::default();
    for step_number in 0..steps {
        let mut reply = step(api, &request(model.clone(), messages)).await;
        for (index, call) in reply.calls.iter_mut().enumerate() {
            if call.id.as_str().is_empty() {
                call.id = CallId::new(format!("call_{step_number}_{index}"));
            }
        }
        last = reply.clone();
        let results: Vec<ToolResult> = reply
            .calls
            .iter()
            .map(|call| ToolResult {
                call: call.id.clone(),
                wire_id: call.wire_id.clone(),
                name: call.name.clone(),
                output: "Hello, World!".to_owned(),
                is_error: false,
                end: CallEnd::Done,
                images: Vec::new(),
            })
            .collect();
        messages.push(HistoryMessage::new(Message::Assistant { reply }));
        if results.is_empty() {
            break;
        }
        messages.push(HistoryMessage::new(Message::ToolResults { results }));
    }
    last
}

fn hello() -> Vec<HistoryMessage> {
    vec![HistoryMessage::new(Message::user("hello world"))]
}

async fn whole(api: &dyn ModelApi, model: ModelRef) {
    let mut messages = hello();
    let last = talk(api, &model, &mut messages, 5).await;
    assert_eq!(messages.len(), 6, "two steps with tools, and an answer");
    assert!(last.text.starts_with("Done!"), "{}", last.text);
    assert_eq!(last.finish, FinishReason::Stop);
    assert!(last.usage.input_tokens > 0 && last.usage.output_tokens > 0);
}

#[tokio::test]
async fn each_api_completes_a_conversation() {
    let server = MockServer::start(Scenarios::builtin()).await.unwrap();
    let endpoint = endpoint(&server);
    let vertex = VertexSettings { endpoint: endpoint.clone(), ..VertexSettings::default() };
    let openai = Endpoint { base_url: Some(format!("{}/v1", server.url())), ..endpoint.clone() };
    for api in [OpenAiApi::Chat, OpenAiApi::Responses] {
        whole(&OpenAi::new(&openai, api), ModelRef::new("openai", "gpt-6.1-terra")).await;
    }
    whole(&Anthropic::new(&endpoint), ModelRef::new("anthropic", "claude-sonnet-5-5")).await;
    whole(&Gemini::new(&endpoint), ModelRef::new("gemini", "gemini-3.8-flash")).await;
    whole(&Gemini::new(&endpoint), ModelRef::new("gemini", "gemini-2.5-flash")).await;
    whole(&Vertex::new(&vertex), ModelRef::new("vertex", "gemini-3.8-flash")).await;
}

#[tokio::test]
async fn a_conversation_continues_with_another_model_between_steps() {
    let server = MockServer::start(Scenarios::builtin()).await.unwrap();
    let endpoint = endpoint(&server);
    let anthropic = Anthropic::new(&endpoint);
    let gemini = Gemini::new(&endpoint);
    let openai = Endpoint { base_url: Some(format!("{}/v1", server.url())), ..endpoint.clone() };
    let responses = OpenAi::new(&openai, OpenAiApi::Responses);
    let chat = OpenAi::new(&openai, OpenAiApi::Chat);
    let places: [(&dyn ModelApi, ModelRef); 7] = [
        (&chat, ModelRef::new("openai", "gpt-6.1-terra")),
        (&responses, ModelRef::new("openai", "gpt-6.1-terra")),
        (&responses, ModelRef::new("openai", "gpt-6-luna")),
        (&anthropic, ModelRef::new("anthropic", "claude-sonnet-5-5")),
        (&gemini, ModelRef::new("gemini", "gemini-3.8-flash")),
        (&gemini, ModelRef::new("gemini", "gemini-4-argon")),
        (&gemini, ModelRef::new("gemini", "gemini-2.5-flash")),
    ];
    for (from, first) in &places {
        for (to, second) in &places {
            let mut messages = hello();
            talk(*from, first, &mut messages, 1).await;
            let last = talk(*to, second, &mut messages, 5).await;
            assert!(last.text.starts_with("Done!"), "{first} to {second}: {}", last.text);
        }
    }
}

#[tokio::test]
async fn a_missing_model_is_an_unknown_model_error() {
    let server = MockServer::start(Scenarios::builtin()).await.unwrap();
    let endpoint = endpoint(&server);
    let wires: [(Box<dyn ModelApi>, &str); 2] =
        [(Box::new(Anthropic::new(&endpoint)), "anthropic"), (Box::new(Gemini::new(&endpoint)), "gemini")];
    for (api, provider) in wires {
        let request = request(ModelRef::new(provider, "missing-model"), &hello());
        let (status, body) = posted(&*api, &request, &ModelQuirks::default()).await;
        let Some(ErrorAction::Fail(failure)) = api.classify_error(status, &body, &mut ModelQuirks::default())
        else {
            panic!("a missing model is final");
        };
        assert_eq!(failure.kind, sysop_core::message::FailureKind::UnknownModel);
        assert!(failure.message.contains("missing-model"), "{}", failure.message);
    }
}
