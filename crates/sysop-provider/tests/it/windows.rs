//! Context windows of models on compatible servers, with recorded responses.

use serde_json::{Value, json};

use crate::server::{Answer, End, Server};
use crate::world::{ask, openai, openai_at, request, user};
use sysop_provider::Endpoint;

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Starts a server that answers `GET path` with these bodies, other queries with 404, and calls with a reply.
async fn server(bodies: Vec<(&'static str, Value)>) -> Server {
    Server::with_models(move |seen, _| {
        let body = bodies.iter().find(|(path, _)| seen.path() == *path);
        match body {
            Some((_, body)) => Answer::json(200, &body.to_string()),
            None if seen.line.starts_with("GET ") => Answer::json(404, r#"{"error":"not found"}"#),
            None => Answer::events(HELLO),
        }
    })
    .await
}

/// Returns the window that the first reply of `openai/m` has, and the paths of all queries.
async fn window(bodies: Vec<(&'static str, Value)>) -> (Option<u32>, Vec<String>) {
    let server = server(bodies).await;
    let providers = openai_at(&format!("{}/v1", server.url));
    let mut windows = Vec::new();
    for _ in 0..2 {
        let heard = ask(&providers, request("openai/m", vec![user("hi")])).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        windows.push(heard.reply().context_window);
    }
    assert_eq!(windows[0], windows[1]);
    let queries = server.seen().into_iter().filter(|seen| seen.line.starts_with("GET "));
    (windows[0], queries.map(|seen| seen.path().to_owned()).collect())
}

#[tokio::test]
async fn llama_cpp_tells_the_window_in_its_list_of_models() {
    let list = json!({"object": "list", "data": [{"id": "/models/qwen.gguf", "object": "model", "created": 1763900000,
        "owned_by": "llamacpp", "meta": {"vocab_type": 2, "n_vocab": 151936, "n_ctx": 8192, "n_ctx_train": 32768,
            "n_embd": 1536, "n_params": 1543714304, "size": 1111370752}}]});
    assert_eq!(window(vec![("/v1/models", list)]).await, (Some(8192), vec!["/v1/models".to_owned()]));
}

#[tokio::test]
async fn an_older_llama_cpp_tells_the_window_in_its_properties() {
    let list = json!({"object": "list", "data": [{"id": "qwen", "object": "model", "created": 1733000000,
        "owned_by": "llamacpp", "meta": {"vocab_type": 2, "n_vocab": 151936, "n_ctx_train": 32768}}]});
    let props = json!({"default_generation_settings": {"id": 0, "n_ctx": 4096, "params": {"n_predict": -1}},
        "total_slots": 1, "model_path": "/models/qwen.gguf"});
    let told = window(vec![("/v1/models", list.clone()), ("/props", props)]).await;
    assert_eq!(told, (Some(4096), vec!["/v1/models".to_owned(), "/props".to_owned()]));
    assert_eq!(window(vec![("/v1/models", list)]).await.0, None, "the training window is not the window");
}

#[tokio::test]
async fn vllm_tells_the_window_of_each_model() {
    let entry = |id: &str, window: u32| {
        json!({"id": id, "object": "model", "created": 1763900000, "owned_by": "vllm", "root": id, "parent": null,
            "max_model_len": window, "permission": []})
    };
    let list = json!({"object": "list", "data": [entry("other", 1), entry("m", 40_960)]});
    assert_eq!(window(vec![("/v1/models", list)]).await.0, Some(40_960));
    let others = json!({"object": "list", "data": [entry("other", 1), entry("another", 2)]});
    assert_eq!(window(vec![("/v1/models", others)]).await.0, None);
}

#[tokio::test]
async fn lm_studio_tells_the_window_of_a_loaded_model() {
    let list = json!({"object": "list", "data": [
        {"id": "m", "object": "model", "owned_by": "organization_owner"},
        {"id": "text-embedding", "object": "model", "owned_by": "organization_owner"}]});
    let loaded = json!({"models": [
        {"type": "llm", "key": "m", "max_context_length": 131_072, "loaded_instances": [
            {"id": "m", "config": {"context_length": 16_384, "flash_attention": true}}]},
        {"type": "embedding", "key": "text-embedding", "max_context_length": 2048, "loaded_instances": []}]});
    let told = window(vec![("/v1/models", list.clone()), ("/api/v1/models", loaded)]).await;
    assert_eq!(told, (Some(16_384), vec!["/v1/models".to_owned(), "/api/v1/models".to_owned()]));
    let unloaded = json!({"models": [{"key": "m", "max_context_length": 131_072, "loaded_instances": []}]});
    assert_eq!(window(vec![("/v1/models", list), ("/api/v1/models", unloaded)]).await.0, None);
}

#[tokio::test]
async fn a_server_that_does_not_tell_is_asked_once_and_silently() {
    let odd =
        [json!({}), json!({"data": "m"}), json!({"data": [{"id": "m", "max_model_len": -1}]}), json!([])];
    for body in odd {
        let told = window(vec![("/v1/models", body.clone())]).await;
        assert_eq!(told, (None, vec!["/v1/models".to_owned()]), "{body}");
    }
    assert_eq!(window(Vec::new()).await, (None, vec!["/v1/models".to_owned()]));
}

#[tokio::test]
async fn a_silent_server_delays_the_first_reply_only_by_a_bounded_time() {
    let server = Server::with_models(|seen, _| match seen.line.starts_with("GET ") {
        true => Answer::json(200, "").end(End::Silence),
        false => Answer::events(HELLO),
    })
    .await;
    let endpoint = Endpoint {
        base_url: Some(server.url.clone()),
        api_key: Some("sk-canary".into()),
        ..Endpoint::default()
    };
    let providers = openai(endpoint);
    for _ in 0..2 {
        let heard = ask(&providers, request("openai/m", vec![user("hi")])).await;
        assert_eq!(heard.reply().context_window, None);
    }
    let queries: Vec<_> = server.seen().into_iter().filter(|seen| seen.line.starts_with("GET ")).collect();
    assert_eq!(queries.len(), 1);
    assert_eq!(queries[0].header("authorization"), Some("Bearer sk-canary"));
}
