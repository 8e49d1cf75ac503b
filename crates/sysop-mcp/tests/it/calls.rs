//! Calls of tools: arguments, results, limits, progress and cancellation.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sysop_core::event::TypedInput;
use sysop_core::outcome::Status;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use sysop_mcp::probe;

use crate::world::{World, call, server};

#[tokio::test]
async fn a_call_starts_the_server_and_returns_its_text() {
    let world = World::new("calm").await;
    let outcome = world.call("echo", json!({"text": "hello"})).await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "hello"));
    assert_eq!(*world.live.lock(), "hello\n", "users see the text, too");
    assert_eq!(world.call("echo", json!({"text": "again"})).await.output, "again");
    world.host.close().await;
    assert_eq!(world.call("echo", json!({"text": "restarted"})).await.output, "restarted");
}

/// The servers answer the discovery only after it was given up.
#[tokio::test]
async fn slow_servers_of_both_generations_are_connected() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = async |mode: &str| probe(&server("slow", mode, &folder.path().join(mode))).await;
    let (old, null, bare, new, mute) = tokio::join!(
        slow("slow-old"),
        slow("slow-null"),
        slow("slow-bare"),
        slow("slow-new"),
        slow("slow-mute")
    );
    let (before, now) = ("2025-11-25", "2026-07-28");
    for (connection, version) in [(old, before), (null, before), (bare, before), (new, now), (mute, now)] {
        let connection = connection.expect(version);
        let description = connection.description();
        assert!(description.ends_with(&format!("protocol {version}")), "{description}");
        assert_eq!(connection.tools().await.expect("it lists its tools").len(), 3);
        connection.close().await;
    }
}

#[tokio::test]
async fn a_wrapped_call_runs_like_a_direct_one() {
    let world = World::new("calm").await;
    let wrapped = call("call_tool", json!({"name": "mcp__test__echo", "arguments": {"text": "inside"}}));
    let outcome = world.host.run(wrapped, DeltaSink::none(), CancellationToken::new()).await;
    assert_eq!(outcome.output, "inside");
    for name in ["bash", "call_tool", "mcp__test__none"] {
        let wrapped = call("call_tool", json!({"name": name, "arguments": {"command": "echo ran"}}));
        let outcome = world.host.run(wrapped, DeltaSink::none(), CancellationToken::new()).await;
        assert!(outcome.status == Status::Failed && !outcome.output.contains("ran"), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_tools_of_the_machine_still_run() {
    let world = World::new("calm").await;
    let bash = call("bash", json!({"command": "echo from bash"}));
    let outcome = world.host.run(bash, DeltaSink::none(), CancellationToken::new()).await;
    assert_eq!(outcome.output.lines().next(), Some("from bash"));
}

#[tokio::test]
async fn a_server_gets_only_the_stated_variables() {
    let world = World::new("calm").await;
    let outcome = world.call("environment", json!({})).await;
    let variables: serde_json::Value = serde_json::from_str(&outcome.output).expect("JSON");
    let names: Vec<&str> = variables.as_object().expect("an object").keys().map(String::as_str).collect();
    // `python3` may be a script that sets variables of its own, but none of cargo's reach it.
    assert!(names.contains(&"GIVEN_TOKEN") && std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!names.iter().any(|name| name.starts_with("CARGO") || *name == "HOME"), "{names:?}");
    assert_eq!(variables["GIVEN_TOKEN"], "[redacted]");
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_is_displayed() {
    let world = World::with("progress", |settings| settings.call_timeout = Duration::from_secs(1)).await;
    let outcome = world.act().await;
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "done"), "{outcome:?}");
    assert!(world.live.lock().contains("step 3\n"));
}

#[tokio::test]
async fn a_canceled_call_ends_at_once() {
    let world = World::new("hangs").await;
    let cancel = CancellationToken::new();
    let canceling = cancel.clone();
    let (outcome, ()) = tokio::join!(world.call_until("act", json!({}), cancel), async move {
        tokio::task::yield_now().await;
        canceling.cancel();
    });
    assert_eq!(outcome.status, Status::Cancelled);
}

struct Yes;

#[async_trait]
impl Prompter for Yes {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        assert_eq!(asked.from, "MCP server test");
        PromptReply::Given { by: "me".into(), text: "yes".into() }
    }
    fn typed(&self, _: &str, _: TypedInput) {}
    fn control(&self, _: Option<&str>) {}
    fn notice(&self, _: &str) {}
}

#[tokio::test]
async fn a_question_of_a_server_reaches_the_people_of_the_session() {
    let world = World::new("asks").await;
    world.host.set_prompter(Arc::new(Yes));
    let outcome = world.act().await;
    let answer: serde_json::Value = serde_json::from_str(&outcome.output).expect("JSON");
    assert_eq!(answer, json!({"action": "accept", "content": {"sure": true}}));
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_is_declined() {
    let world = World::new("asks").await;
    assert!(world.act().await.output.contains("decline"));
}

#[tokio::test]
async fn a_server_gets_no_model() {
    let world = World::new("samples").await;
    assert_eq!(world.act().await.output, "-32601");
}
