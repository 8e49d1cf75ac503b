//! The choice between native tools, a schema and plain text for the models of local servers.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::message::{ModelRef, ToolProtocol};
use sysop_provider::{
    Endpoint, Providers, ProvidersSettings, ToolCalling, ToolCallingReport, ToolCallingStore,
};

use crate::server::{Answer, ReceivedRequest, Server};
use crate::world::{QUICK, ask, request, user};

/// A store in memory.
#[derive(Default)]
struct MemoryStore(Mutex<Vec<(String, String, ToolCallingReport)>>);

impl ToolCallingStore for MemoryStore {
    fn load(&self, model: &ModelRef, address: &str, server: &str) -> Option<ToolCallingReport> {
        let kept = self.0.lock();
        let found = kept.iter().rev().find(|(name, at, report)| {
            *name == model.to_string() && at == address && report.server == server
        });
        found.map(|(.., report)| report.clone())
    }

    fn save(&self, model: &ModelRef, address: &str, report: &ToolCallingReport) {
        self.0.lock().push((model.to_string(), address.to_owned(), report.clone()));
    }
}

/// Abilities of a model behind the server.
#[derive(Clone, Copy)]
struct Abilities {
    parameters: f64,
    native: bool,
    schema: bool,
}

fn chunk(delta: &Value) -> Answer {
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    Answer::events(&format!(
        "data: {}\n\ndata: {end}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"delta": delta}]})
    ))
}

/// Answers as a model with these abilities on a llama.cpp server.
fn answer(seen: &ReceivedRequest, abilities: Abilities) -> Answer {
    match seen.path() {
        "/v1/models" => {
            let meta = json!({"n_ctx": 8192, "n_params": abilities.parameters});
            let entry = json!({"id": "m", "owned_by": "llamacpp", "meta": meta});
            return Answer::json(200, &json!({"data": [entry]}).to_string());
        }
        "/props" => return Answer::json(200, r#"{"build_info":"b12316"}"#),
        _ => {}
    }
    let body = &seen.body;
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let said = last["content"].as_str().unwrap_or_default();
    let (wants_answer, text) = match said {
        _ if said.contains("2+2") => (true, "4"),
        _ if said.contains("37 a.txt") => (true, "It has 37 lines."),
        _ => (false, ""),
    };
    let native = body.get("tools").is_some();
    let schema = body.get("response_format").is_some();
    if native && abilities.native && !wants_answer {
        let function = json!({"name": "bash", "arguments": r#"{"command":"df -h"}"#});
        return chunk(&json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}));
    }
    if (native && abilities.native) || (schema && abilities.schema) {
        let shell = json!({"type": "shell", "command": "df -h", "reason": ""}).to_string();
        let answer =
            if native { text.to_owned() } else { json!({"type": "answer", "text": text}).to_string() };
        return chunk(&json!({"content": if wants_answer { answer } else { shell }}));
    }
    chunk(&json!({"content": "```sh\ndf -h\n```"}))
}

struct Choice {
    notices: Vec<String>,
    protocol: ToolProtocol,
    /// Number of requests to the model.
    requests: usize,
}

async fn first_use(abilities: Abilities, store: &Arc<MemoryStore>, asks: bool) -> (Choice, Server) {
    let server = Server::with_models(move |seen, _| answer(seen, abilities)).await;
    let choice = use_model(&server, store, asks).await;
    (choice, server)
}

async fn use_model(server: &Server, store: &Arc<MemoryStore>, asks: bool) -> Choice {
    let before = posts(server);
    let endpoint = Endpoint { base_url: Some(format!("{}/v1", server.url)), ..Endpoint::default() };
    let tool_calling = asks.then(|| Arc::clone(store) as Arc<dyn ToolCallingStore>);
    let settings = ProvidersSettings {
        openai: endpoint,
        tool_calling,
        probe_models: true,
        ..ProvidersSettings::default()
    };
    let providers = Providers::new(settings).with_retries(QUICK);
    let heard = ask(&providers, request("openai/m", vec![user("How full is the disk?")])).await;
    let notices = heard.notices.clone();
    let reply = heard.reply();
    let again = ask(&providers, request("openai/m", vec![user("How full is the disk?")])).await;
    assert!(again.notices.is_empty(), "asked once: {:?}", again.notices);
    Choice { notices, protocol: reply.protocol, requests: posts(server) - before - 1 }
}

fn posts(server: &Server) -> usize {
    server.seen().iter().filter(|seen| seen.line.starts_with("POST ")).count()
}

#[tokio::test]
async fn faultless_native_tools_need_four_questions() {
    let store = Arc::default();
    let abilities = Abilities { parameters: 8e9, native: true, schema: true };
    let (choice, server) = first_use(abilities, &store, true).await;
    assert_eq!((choice.protocol, choice.requests), (ToolProtocol::Native, 5));
    assert!(choice.notices[0].contains("first use of m: up to ten short questions"), "{:?}", choice.notices);
    assert_eq!(choice.notices[1], "tool calls of m: native tools (native 4 of 4)");
    let kept = store.0.lock().last().cloned().unwrap();
    assert_eq!((kept.0.as_str(), kept.1.as_str()), ("openai/m", server.url.as_str()));
    assert_eq!(kept.2.server, "llama.cpp b12316");
    let later = use_model(&server, &store, true).await;
    assert_eq!((later.protocol, later.requests), (ToolProtocol::Native, 1), "remembered");
    assert!(later.notices.is_empty(), "{:?}", later.notices);
}

#[tokio::test]
async fn a_model_without_working_tools_gets_a_schema_after_ten_questions() {
    let store = Arc::default();
    let abilities = Abilities { parameters: 8e9, native: false, schema: true };
    let (choice, server) = first_use(abilities, &store, true).await;
    assert_eq!((choice.protocol, choice.requests), (ToolProtocol::Text, 11));
    assert_eq!(
        choice.notices[1],
        "tool calls of m: JSON constrained by a schema (native 0 of 4, schema 4 of 4, text 2 of 2); writes calls \
         as a fenced block"
    );
    let last = server.seen().into_iter().rfind(|seen| seen.line.starts_with("POST ")).unwrap();
    let body = last.body;
    assert!(body.get("response_format").is_some() && body.get("tools").is_none());
    assert_eq!(use_model(&server, &store, true).await.requests, 1, "remembered");
}

#[tokio::test]
async fn a_server_that_ignores_schemas_gets_plain_text() {
    let store = Arc::default();
    let abilities = Abilities { parameters: 8e9, native: false, schema: false };
    let (choice, server) = first_use(abilities, &store, true).await;
    assert_eq!((choice.protocol, choice.requests), (ToolProtocol::Text, 11));
    assert_eq!(store.0.lock().last().map(|(.., report)| report.calling), Some(ToolCalling::Text));
    let last = server.seen().into_iter().rfind(|seen| seen.line.starts_with("POST ")).unwrap();
    let body = last.body;
    assert!(body.get("response_format").is_none() && body.get("tools").is_none());
}

#[tokio::test]
async fn a_small_model_gets_a_schema_without_questions() {
    let abilities = Abilities { parameters: 1.5e9, native: true, schema: true };
    let (choice, server) = first_use(abilities, &Arc::default(), true).await;
    assert_eq!((choice.protocol, choice.requests), (ToolProtocol::Text, 1));
    assert!(choice.notices.is_empty(), "{:?}", choice.notices);
    let posts: Vec<_> = server.seen().into_iter().filter(|seen| seen.line.starts_with("POST ")).collect();
    let body = &posts[0].body;
    assert_eq!(body["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn without_a_store_no_model_is_asked() {
    let abilities = Abilities { parameters: 1.5e9, native: true, schema: true };
    let (choice, _server) = first_use(abilities, &Arc::default(), false).await;
    assert_eq!((choice.protocol, choice.requests), (ToolProtocol::Native, 1));
}

/// The second request of a turn begins with the bytes of the first one, so that a server evaluates only what is new.
#[tokio::test]
async fn the_constrained_protocol_keeps_the_prefix_of_a_request() {
    use crate::world::{called, results};
    use sysop_core::message::{Message, Reply};

    let abilities = Abilities { parameters: 1.5e9, native: true, schema: true };
    let store: Arc<MemoryStore> = Arc::default();
    let server = Server::with_models(move |seen, _| answer(seen, abilities)).await;
    let endpoint = Endpoint { base_url: Some(format!("{}/v1", server.url)), ..Endpoint::default() };
    let settings =
        ProvidersSettings { openai: endpoint, tool_calling: Some(store), ..ProvidersSettings::default() };
    let providers = Providers::new(settings).with_retries(QUICK);
    let first = vec![user("How full is the disk?")];
    let reply = ask(&providers, request("openai/m", first.clone())).await.reply();
    let calls = vec![called("call_1", r#"{"command":"df -h"}"#)];
    let reply = Reply { calls: calls.clone(), ..reply };
    let second = [first, vec![Message::Assistant { reply }, results(&calls, "40G 27%")]].concat();
    ask(&providers, request("openai/m", second)).await.reply();
    let posts = server.seen().into_iter().filter(|seen| seen.line.starts_with("POST "));
    let bodies: Vec<String> = posts.map(|seen| seen.body.to_string()).collect();
    let prefix = bodies[0].split("],\"stream\"").next().unwrap();
    assert!(prefix.contains("How full is the disk?"));
    assert!(bodies[1].starts_with(prefix), "{}\n{}", bodies[0], bodies[1]);
}
