//! Ollama on the remote machine, through a tunnel of real sockets.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, Message, ToolProtocol};
use sysop_driver::port::{ModelEvent, Provider as _};
use sysop_mock_llm::{MockServer, Scenarios};
use sysop_provider::{
    Endpoint, NO_REMOTE_MACHINE, OllamaSettings, Providers, ProvidersSettings, RetrySettings,
};

use crate::remote_machine::{AWAY, FakeRemote, Policy, shared};
use crate::server::{Answer, DEADLINE, End, Server};
use crate::world::{QUICK, ask, collect_events, request, results, user};

fn providers(remote: &Arc<FakeRemote>) -> Providers {
    with_settings(remote, OllamaSettings::default())
}

fn with_settings(remote: &Arc<FakeRemote>, ollama_ssh: OllamaSettings) -> Providers {
    let settings = ProvidersSettings { ollama_ssh, remote: shared(remote), ..ProvidersSettings::default() };
    Providers::new(settings).with_retries(QUICK)
}

fn hi() -> sysop_core::message::ModelRequest {
    request("ollama+ssh/phi3", vec![user("hi")])
}

fn line(message: &Value) -> String {
    format!("{}\n", json!({"message": message, "done": false}))
}

fn said(text: &str) -> Answer {
    let done = json!({"message": {"role": "assistant", "content": ""}, "done": true, "prompt_eval_count": 9});
    Answer::lines(&format!("{}{done}\n", line(&json!({"role": "assistant", "content": text}))))
}

/// Starts an Ollama whose model has tools, and which answers chats in turn.
async fn ollama(chats: Vec<Answer>) -> Server {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Server::with_routes(move |seen, _| match seen.path() {
        "/api/version" => Answer::json(200, r#"{"version":"0.33.0"}"#),
        "/api/show" => Answer::json(200, r#"{"capabilities":["completion","tools"]}"#),
        "/api/ps" => Answer::json(200, r#"{"models":[]}"#),
        "/api/tags" => Answer::json(200, r#"{"models":[{"name":"phi3:latest"}]}"#),
        _ => chats[count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(chats.len() - 1)].clone(),
    })
    .await
}

fn chats(server: &Server) -> usize {
    server.seen().iter().filter(|seen| seen.path() == "/api/chat").count()
}

#[tokio::test]
async fn a_missing_remote_host_is_reported() {
    let here = Providers::new(ProvidersSettings::default());
    let failure = ask(&here, hi()).await.failure();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::BadRequest, NO_REMOTE_MACHINE));
    assert_eq!(here.probe("ollama+ssh").await.problem.unwrap().message, NO_REMOTE_MACHINE);
}

#[tokio::test]
async fn a_turn_goes_through_the_tunnel_with_tools() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let remote = Arc::new(FakeRemote::with_ollama_at(&mock.url()));
    let providers = providers(&remote);
    let mut messages = vec![user("please write hello world")];
    for name in ["write_file", "bash"] {
        let heard = ask(&providers, request("ollama+ssh/mock-model", messages.clone())).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        let reply = heard.reply();
        assert_eq!((reply.calls[0].name.as_str(), reply.protocol), (name, ToolProtocol::Native));
        let results = results(&reply.calls, "ok");
        messages.extend([Message::Assistant { reply }, results]);
    }
    let reply = ask(&providers, request("ollama+ssh/mock-model", messages)).await.reply();
    assert!(reply.text.starts_with("Done!"), "{reply:?}");
    let text = ask(&providers, request("ollama+ssh/phi3", vec![user("please write hello world")])).await;
    assert_eq!(text.reply().protocol, ToolProtocol::Text);
    assert_eq!(remote.forwards(), [mock.url().trim_start_matches("http://")], "all requests use one tunnel");
    let failure = ask(&providers, request("ollama+ssh/missing", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert_eq!(
        failure.message,
        "no model missing in Ollama on the remote host; run `ollama pull missing` there"
    );
    let probe = providers.probe("ollama+ssh").await;
    assert!(probe.reachable && probe.models.contains(&"phi3:latest".to_owned()), "{probe:?}");
}

#[tokio::test]
async fn the_remote_address_is_parsed_as_ollama_does_and_named_in_messages() {
    let server = ollama(vec![said("a")]).await;
    for (host, base_url, target, name) in [
        (None, None, "127.0.0.1:11434", "127.0.0.1:11434"),
        (Some("0.0.0.0:9"), None, "127.0.0.1:9", "127.0.0.1:9"),
        (Some("[::]"), None, "[::1]:11434", "[::1]:11434"),
        (Some("http://gpu"), None, "gpu:80", "gpu"),
        (Some("gpu:1"), Some("other"), "other:11434", "other:11434"),
    ] {
        let remote = Arc::new(FakeRemote::with_host(host, Some(&server.url)));
        let endpoint = Endpoint {
            base_url: base_url.map(str::to_owned),
            api_key: Some("sk-canary".into()),
            ..Endpoint::default()
        };
        let providers =
            with_settings(&remote, OllamaSettings { endpoint, num_ctx: Some(8192), keep_alive: None });
        assert_eq!(ask(&providers, hi()).await.reply().text, "a");
        assert_eq!(remote.forwards(), [target], "{host:?}");
        let seen = server.seen().pop().unwrap();
        let chat = server.seen().into_iter().rev().find(|seen| seen.path() == "/api/chat").unwrap();
        assert_eq!((seen.header("host"), chat.header("host")), (Some(name), Some(name)), "{host:?}");
        assert_eq!(chat.header("authorization"), Some("Bearer sk-canary"));
        assert_eq!(chat.body["options"]["num_ctx"], 8192);
    }
    for (host, words) in [
        ("gpu:port", "invalid OLLAMA_HOST on the remote host: invalid Ollama address `gpu:port`"),
        ("ftp://x", "ftp://x"),
    ] {
        let failure =
            ask(&providers(&Arc::new(FakeRemote::with_host(Some(host), None))), hi()).await.failure();
        assert_eq!(failure.kind, FailureKind::BadRequest);
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[tokio::test]
async fn errors_name_the_remote_address_and_no_secret() {
    let server = ollama(vec![Answer::json(401, r#"{"error":"key sk-canary is wrong"}"#)]).await;
    let remote = Arc::new(FakeRemote::with_host(Some("gpu"), Some(&server.url)));
    let endpoint = Endpoint { api_key: Some("sk-canary".into()), ..Endpoint::default() };
    let settings = OllamaSettings { endpoint, ..OllamaSettings::default() };
    let failure = ask(&with_settings(&remote, settings), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(
        failure.message.starts_with("ollama+ssh at http://gpu:11434 returned 401"),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("`ollama signin` on the remote host") && !failure.message.contains("canary")
    );
}

#[tokio::test]
async fn a_tunnel_that_breaks_in_the_middle_of_a_reply_is_opened_again() {
    let half = line(&json!({"role": "assistant", "content": "half "}));
    let server = ollama(vec![Answer::lines(&half).end(End::Silence), said("whole")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let mut stream = providers(&remote).stream(hi());
    let mut events = Vec::new();
    while !events.contains(&ModelEvent::Text("half ".to_owned())) {
        events.push(tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().unwrap());
    }
    remote.break_tunnels();
    events.extend(tokio::time::timeout(DEADLINE, stream.collect::<Vec<_>>()).await.unwrap());
    let heard = collect_events(events);
    assert_eq!((heard.restarts, heard.notices.len(), heard.text.as_str()), (1, 1, "whole"), "{heard:?}");
    let broke = "attempt 2 of 5: the connection to ollama+ssh at http://127.0.0.1:";
    assert!(heard.notices[0].contains(broke), "{heard:?}");
    assert_eq!((remote.forwards().len(), chats(&server)), (2, 2));
}

#[tokio::test]
async fn a_tunnel_that_broke_between_two_calls_is_opened_again() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    for tunnels in 1..4 {
        assert_eq!(ask(&providers, hi()).await.reply().text, "a");
        assert_eq!(remote.forwards().len(), tunnels);
        remote.break_tunnels();
    }
}

#[tokio::test]
async fn a_link_that_stays_broken_is_reported() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    ask(&providers, hi()).await.reply();
    remote.set(Policy::Fails);
    remote.break_tunnels();
    let failure = ask(&providers, hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert_eq!(failure.message, AWAY);
    let probe = providers.probe("ollama+ssh").await;
    assert_eq!(probe.problem.unwrap().message, AWAY);
    remote.set(Policy::Allows);
    assert_eq!(ask(&providers, hi()).await.reply().text, "a");
}

#[tokio::test]
async fn an_ollama_that_is_not_running_is_reported_with_the_start_command() {
    for policy in [Policy::NotListening, Policy::Closes] {
        let remote = Arc::new(FakeRemote::with_host(None, None));
        remote.set(policy);
        let providers = providers(&remote);
        let heard = ask(&providers, hi()).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert_eq!(
            failure.message,
            "cannot connect to Ollama at http://127.0.0.1:11434 on the remote host; start it with `ollama serve`, or \
             check OLLAMA_HOST on that host"
        );
        assert_eq!(providers.probe("ollama+ssh").await.problem, Some(failure));
        assert_eq!(remote.forwards().len(), 2, "a tunnel that leads nowhere is not kept");
    }
}

#[tokio::test]
async fn an_ollama_behind_https_is_rejected_with_both_alternatives() {
    let remote = Arc::new(FakeRemote::with_host(Some("https://gpu"), None));
    let failure = ask(&providers(&remote), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    for words in ["at https://gpu, but https does not work through ssh", "[providers.ollama+ssh]"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    assert!(remote.forwards().is_empty());
}

#[tokio::test]
async fn an_unreachable_host_is_not_retried() {
    let remote = Arc::new(FakeRemote::with_host(None, None));
    remote.set(Policy::Fails);
    let providers = providers(&remote);
    let heard = ask(&providers, hi()).await;
    assert!(heard.notices.is_empty(), "{heard:?}");
    let failure = heard.failure();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Unreachable, AWAY));
    assert_eq!(remote.forwards().len(), 1);
}

#[tokio::test]
async fn dropping_a_call_closes_the_remote_connection() {
    let half = line(&json!({"role": "assistant", "content": "Here I am"}));
    let mut server = ollama(vec![Answer::lines(&half).end(End::Silence)]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let mut stream = providers(&remote).stream(hi());
    let mut events = Vec::new();
    while !events.contains(&ModelEvent::Text("Here I am".to_owned())) {
        events.push(tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().expect("the call goes on"));
    }
    let before = server.seen().len();
    drop(stream);
    server.wait_for_gone(before).await;
}

#[tokio::test]
async fn concurrent_calls_share_one_tunnel() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    let heard = futures::future::join_all((0..8).map(|_| ask(&providers, hi()))).await;
    assert!(heard.into_iter().all(|heard| heard.reply().text == "a"));
    assert_eq!(remote.forwards().len(), 1);
}

#[tokio::test]
async fn no_request_is_sent_before_the_first_poll() {
    let remote = Arc::new(FakeRemote::with_host(None, None));
    let providers = providers(&remote).with_retries(RetrySettings { retries: 0, ..QUICK });
    drop(providers.stream(hi()));
    assert!(remote.forwards().is_empty());
}
