//! Client tools run on their client only, and once; the model is told of errors in words.

use std::time::Duration;

use serde_json::{Value, json};
use sysop_server::{ClientToolSettings, ServerSettings};

use crate::client::{Client, Events, post, session};
use crate::world::{World, settings};

fn lending() -> Value {
    let parameters =
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    json!({
        "workspaceRoot": "/home/ann/docs",
        "toolManifest": [
            {"name": "ls", "description": "List", "parameters": parameters},
            {"name": "bash", "description": "Run", "inputSchema": {"type": "object", "properties": {"command": {"type": "string"}}}},
        ],
    })
}

async fn lender(world: &World, id: &str, name: &str) -> Client {
    let (mut client, _) = Client::join(world.address, id, name, lending()).await;
    client.until("configured").await;
    client
}

/// Waits for the next call that this client must run.
async fn asked(client: &mut Client) -> Value {
    loop {
        let call = client.until("tool.call").await;
        if call["run"] == true {
            return call;
        }
    }
}

fn output_of(messages: &[Value]) -> &str {
    let finished = messages.iter().find(|message| message["type"] == "tool.finished").unwrap();
    finished["output"].as_str().unwrap()
}

#[tokio::test]
async fn a_lent_tool_runs_on_the_client_and_never_on_the_server() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    ann.say(json!({
        "type": "user.message", "content": "call bash {\"command\": \"ls\"}",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }))
    .await;
    let call = asked(&mut ann).await;
    assert_eq!((call["name"].as_str(), &call["arguments"]), (Some("bash"), &json!({"command": "ls"})));
    assert_eq!(call["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let of_bob = bob.until("tool.call").await;
    assert_eq!(
        (&of_bob["toolCallId"], &of_bob["run"]),
        (&call["toolCallId"], &Value::Null),
        "only the client that offers the tool runs it"
    );
    // A client that does not offer the tool cannot deliver its result.
    bob.say(json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": "forged"})).await;
    ann.say(json!({"type": "tool.output", "toolCallId": call["toolCallId"], "content": "a.txt\n"})).await;
    assert_eq!(bob.until("tool.output").await["content"], "a.txt\n");
    ann.say(json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": "a.txt\u{1b}[2J"}))
        .await;
    let end = ann.all_until("assistant.done").await;
    assert_eq!(output_of(&end), "a.txt");
    assert!(world.machine.ran.lock().is_empty(), "the server's own host runs nothing");
}

#[tokio::test]
async fn a_call_waits_for_a_disconnected_client_and_is_resent_under_its_id() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    ann.say(json!({"type": "user.message", "content": "call ls {\"path\": \".\"}"})).await;
    let call = asked(&mut ann).await;
    ann.leave().await;
    // The same tools of another user are on another machine.
    let (mut bob, _) = Client::join(world.address, &id, "bob", lending()).await;
    bob.say(json!({"type": "nonsense"})).await;
    let of_bob = bob.all_until("error").await;
    assert!(of_bob.iter().all(|message| message["run"] != true), "{of_bob:?}");
    bob.leave().await;

    let mut back = lending();
    back["resumeFrom"] = call["seq"].clone();
    let (mut ann, _) = Client::join(world.address, &id, "ann", back).await;
    let again = asked(&mut ann).await;
    assert_eq!((&again["toolCallId"], &again["seq"]), (&call["toolCallId"], &call["seq"]));
    for output in ["first", "second"] {
        ann.say(json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": output})).await;
    }
    ann.say(json!({"type": "tool.result", "toolCallId": "never asked", "output": "x"})).await;
    let end = ann.all_until("assistant.done").await;
    assert_eq!(output_of(&end), "first");
    let asked_again = end.iter().filter(|message| message["run"] == true).count();
    assert_eq!(asked_again, 0, "{end:?}");
}

#[tokio::test]
async fn a_call_fails_if_its_client_does_not_return() {
    let client_tools =
        ClientToolSettings { tool_timeout: Duration::from_millis(200), ..settings().client_tools };
    let world = World::with(ServerSettings { client_tools, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    ann.say(json!({"type": "user.message", "content": "call ls {\"path\": \".\"}"})).await;
    asked(&mut ann).await;
    ann.leave().await;
    let end = bob.all_until("assistant.done").await;
    let finished = end.iter().find(|message| message["type"] == "tool.finished").unwrap();
    assert_eq!(finished["status"], "failed");
    assert!(finished["output"].as_str().unwrap().contains("was disconnected for 0.2 s"), "{finished}");
}

#[tokio::test]
async fn a_call_that_may_not_be_sent_to_a_client_is_rejected_with_a_reason() {
    let client_tools =
        ClientToolSettings { calls_per_minute: 2, result_bytes_max: 1000, ..settings().client_tools };
    let world = World::with(ServerSettings { client_tools, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    // The session validates arguments against the schema in the manifest.
    let wrong = ann.turn("call ls {\"path\": 7}").await;
    assert!(wrong.iter().all(|message| message["type"] != "tool.call"), "{wrong:?}");
    assert!(output_of(&wrong).contains("path"), "{wrong:?}");

    ann.say(json!({"type": "user.message", "content": "call ls {\"path\": \".\"}"})).await;
    let call = asked(&mut ann).await;
    ann.say(json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": "x".repeat(1001)}))
        .await;
    assert!(output_of(&ann.all_until("assistant.done").await).contains("the limit is 1000"));

    ann.say(json!({"type": "user.message", "content": "call ls {\"path\": \".\"}"})).await;
    let call = asked(&mut ann).await;
    let huge =
        json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": "x".repeat(2 << 20)});
    ann.say(huge).await;
    assert!(output_of(&ann.all_until("assistant.done").await).contains("the limit is 1000"));

    let third = ann.turn("call ls {\"path\": \".\"}").await;
    assert!(output_of(&third).contains("2 calls per minute"), "{third:?}");
    assert!(
        third.iter().all(|message| message["run"] != true),
        "a refused call is not sent to a client: {third:?}"
    );
}

#[tokio::test]
async fn a_tool_missing_from_the_clients_manifest_is_rejected() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let ann = lender(&world, &id, "ann").await;
    ann.leave().await;
    // The log still lists `ls` as a client tool, but the client connected now does not offer it.
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    bob.say(json!({"type": "user.message", "content": "call ls {\"path\": \".\"}"})).await;
    bob.until("tool.call").await;
    let other = json!({"workspaceRoot": "/x", "toolManifest": [{"name": "stat", "parameters": {}}]});
    let (mut carl, _) = Client::join(world.address, &id, "carl", other).await;
    carl.until("configured").await;
    carl.say(json!({"type": "cancel"})).await;
    bob.until("assistant.done").await;
    let end = carl.turn("call ls {\"path\": \".\"}").await;
    assert!(end.iter().all(|message| message["run"] != true), "{end:?}");
    assert!(world.machine.ran.lock().is_empty());
}

#[tokio::test]
async fn stopping_the_turn_cancels_the_call_on_the_client() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    ann.say(json!({"type": "user.message", "content": "call bash {\"command\": \"sleep 99\"}"})).await;
    let call = asked(&mut ann).await;
    ann.say(json!({"type": "cancel"})).await;
    assert_eq!(ann.until("tool.cancel").await["toolCallId"], call["toolCallId"]);
    let result = json!({"type": "tool.result", "toolCallId": call["toolCallId"], "output": "half", "status": "cancelled"});
    ann.say(result).await;
    let end = ann.all_until("assistant.done").await;
    assert_eq!(output_of(&end), "half");
    assert_eq!(end.last().unwrap()["metadata"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_client_without_a_socket_lends_tools_over_events() {
    let world = World::start().await;
    let id = session(world.address, "ann", &lending()).await;
    let mut events = Events::of(world.address, "ann", &id, None).await;
    let place = format!("/api/agent/sessions/{id}");
    let said = post(
        world.address,
        "ann",
        &format!("{place}/messages"),
        &json!({"content": "call ls {\"path\": \".\"}"}),
    )
    .await;
    assert_eq!((said.status, said.json()["status"].as_str()), (202, Some("accepted")));
    let call = events.until("tool.call").await.pop().unwrap().data;
    assert_eq!(call["run"], true);
    let result = json!({"toolCallId": call["toolCallId"], "output": "b.txt"});
    let taken = post(world.address, "ann", &format!("{place}/tool-results"), &result).await;
    assert_eq!(taken.json()["status"], "accepted");
    let late = post(world.address, "ann", &format!("{place}/tool-results"), &result).await;
    assert_eq!(late.json()["status"], "ignored");
    let end = events.until("assistant.done").await;
    assert!(end.iter().any(|event| event.data["output"] == "b.txt"), "{end:?}");
}

#[tokio::test]
async fn withdrawing_client_tools_restores_the_sessions_own() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut ann = lender(&world, &id, "ann").await;
    ann.say(json!({"type": "hello"})).await;
    ann.until("configured").await;
    let end = ann.turn("call bash {\"command\": \"here\"}").await;
    assert_eq!(output_of(&end), "ran here");
}
