//! The decision `allow_always`: the offered rule, the written rule, and refusals.

use serde_json::{Value, json};

use crate::client::{Client, Events, post, session};
use crate::world::World;

/// Returns a prompt that makes the scripted model call `bash` with this command.
fn run(command: &str) -> Value {
    json!({"type": "user.message", "content": format!("call bash {}", json!({"command": command}))})
}

fn rules(world: &World) -> Vec<String> {
    world.machine.rules.lock().iter().map(sysop_core::policy::Rule::to_toml).collect()
}

const TOUCH: &str = "[[policy.rules]]\naction = \"allow\"\nmatch = { program = \"touch\", options = [], \
                     operands = [\"x\"], host = \"local\" }\n";

#[tokio::test]
async fn always_writes_the_offered_rule_and_applies_it_in_the_session() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.say(run("touch x")).await;
    let asked = ann.until("approval.request").await;
    assert_eq!((asked["always"].as_str(), asked["rulesFile"].as_str()), (Some(TOUCH), Some("rules.toml")));
    // A client that joins while the approval is pending gets the same offer.
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    assert_eq!(bob.until("approval.request").await["always"], TOUCH);
    // A rule sent by the client is ignored.
    bob.say(
        json!({"type": "approval.decision", "toolCallId": asked["toolCallId"], "decision": "allow_always",
        "always": "[[policy.rules]]\naction = \"allow\"\nmatch = { program = \"*\" }\n"}),
    )
    .await;
    let configured = ann.until("configured").await;
    let closed = ann.until("approval.closed").await;
    assert_eq!(configured["rules"], true);
    assert_eq!((closed["decision"].as_str(), closed["by"].as_str()), (Some("allow"), Some("bob")));
    ann.until("assistant.done").await;
    assert_eq!(rules(&world), [TOUCH]);
    let seen = ann.turn(run("touch x")["content"].as_str().unwrap()).await;
    assert!(seen.iter().all(|message| message["type"] != "approval.request"), "{seen:?}");
    assert_eq!(*world.machine.ran.lock(), ["bash touch x", "bash touch x"]);
    ann.say(run("touch y")).await;
    ann.until("approval.request").await;
}

#[tokio::test]
async fn always_is_rejected_if_not_offered_and_for_read_tokens() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let path = format!("/api/agent/sessions/{id}/decisions");
    let mut events = Events::of(world.address, "ann", &id, None).await;
    let (mut reader, _) = Client::join(world.address, &id, "reader", json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    for (command, why) in [
        ("rm -rf /etc", "only be allowed once"),
        ("touch a; touch b", "no rule can be written"),
        ("touch a > b", "no rule can be written"),
    ] {
        ann.say(run(command)).await;
        let asked = events.until("approval.request").await.pop().unwrap().data;
        assert_eq!((&asked["always"], &asked["rulesFile"]), (&Value::Null, &Value::Null), "{command}");
        let always = json!({"toolCallId": asked["toolCallId"], "decision": "allow_always"});
        let refused = post(world.address, "ann", &path, &always).await;
        assert_eq!(refused.status, 400, "{command}: {refused:?}");
        assert!(refused.json().to_string().contains(why), "{command}: {refused:?}");
        let reject = json!({"toolCallId": asked["toolCallId"], "decision": "reject", "reason": "stop"});
        assert_eq!(post(world.address, "ann", &path, &reject).await.status, 202, "nothing was decided");
        events.until("assistant.done").await;
    }
    ann.say(run("touch x")).await;
    let asked = events.until("approval.request").await.pop().unwrap().data;
    let always = |more: Value| {
        let mut body = json!({"type": "approval.decision", "toolCallId": asked["toolCallId"]});
        body["decision"] = "allow_always".into();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    assert_eq!(post(world.address, "reader", &path, &always(json!({}))).await.status, 403);
    reader.say(always(json!({}))).await;
    assert_eq!(reader.until("error").await["code"], "forbidden");
    let edited = always(json!({"command": "touch y"}));
    assert_eq!(post(world.address, "ann", &path, &edited).await.status, 400);
    let other = always(json!({"toolCallId": "another"}));
    assert_eq!(post(world.address, "ann", &path, &other).await.status, 409);
    *world.machine.rules_are_full.lock() = true;
    assert_eq!(post(world.address, "ann", &path, &always(json!({}))).await.status, 500);
    assert!(rules(&world).is_empty() && world.machine.ran.lock().is_empty());
    *world.machine.rules_are_full.lock() = false;
    assert_eq!(post(world.address, "ann", &path, &always(json!({}))).await.status, 202);
    events.until("assistant.done").await;
    assert_eq!(rules(&world), [TOUCH]);
}

#[tokio::test]
async fn always_is_not_offered_for_client_tools() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let bash = json!({"name": "bash", "description": "", "parameters":
        {"type": "object", "properties": {"command": {"type": "string"}}}});
    let hello = json!({"toolManifest": [bash], "workspaceRoot": "/w"});
    let (mut ann, _) = Client::join(world.address, &id, "ann", hello).await;
    ann.say(run("touch x")).await;
    let asked = ann.until("approval.request").await;
    assert_eq!(asked["always"], Value::Null);
    ann.say(
        json!({"type": "approval.decision", "toolCallId": asked["toolCallId"], "decision": "allow_always"}),
    )
    .await;
    assert_eq!(ann.until("error").await["code"], "bad_message");
    assert!(rules(&world).is_empty());
}
