//! Scopes of tokens, and the right to decide in a session.

use serde_json::{Value, json};

use crate::client::{Client, Events, get, post, session};
use crate::world::World;

/// Creates a session of `owner` with a pending approval; returns the session id and the request.
async fn waiting(world: &World, owner: &str) -> (String, Value) {
    let id = session(world.address, owner, &json!({"approve": "ask"})).await;
    let mut events = Events::of(world.address, owner, &id, None).await;
    let path = format!("/api/agent/sessions/{id}/messages");
    let words = json!({"content": "call bash {\"command\": \"rm -r build\"}"});
    assert_eq!(post(world.address, owner, &path, &words).await.status, 202);
    let asked = events.until("approval.request").await.pop().unwrap();
    (id, asked.data["toolCallId"].clone())
}

async fn say(world: &World, who: &str, id: &str, endpoint: &str, body: Value) -> u16 {
    post(world.address, who, &format!("/api/agent/sessions/{id}/{endpoint}"), &body).await.status
}

#[tokio::test]
async fn an_approval_needs_the_decide_scope_or_the_sessions_opener() {
    let world = World::start().await;
    for (owner, who, status) in [
        ("operator", "reader", 403),
        ("operator", "other operator", 403),
        ("operator", "operator", 202),
        ("ann", "operator", 403),
        ("ann", "decider", 202),
        ("operator", "ann", 202),
    ] {
        let (id, call) = waiting(&world, owner).await;
        let answer = json!({"toolCallId": call, "decision": "reject"});
        assert_eq!(say(&world, who, &id, "decisions", answer).await, status, "{owner}, {who}");
    }
}

#[tokio::test]
async fn the_openers_name_without_the_operate_scope_cannot_decide() {
    let world = World::start().await;
    // The token of a shared, read-only page has the name of the token that created the link.
    let (id, call) = waiting(&world, "operator").await;
    let (mut socket, _) = Client::join(world.address, &id, "operator, shared", json!({})).await;
    socket.say(json!({"type": "approval.decision", "toolCallId": call, "decision": "allow"})).await;
    assert_eq!(socket.until("error").await["code"], "forbidden");
}

#[tokio::test]
async fn the_names_of_files_need_the_operate_scope() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let path = format!("/api/agent/sessions/{id}/paths?word=a");
    for (who, status) in [("reader", 403), ("decider", 403), ("operator", 200)] {
        assert_eq!(get(world.address, who, &path).await.status, status, "{who}");
    }
}

#[tokio::test]
async fn running_without_approval_needs_the_decide_scope() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    for (endpoint, body, operator, decider) in [
        ("messages", json!({"content": "hello"}), 202, 403),
        ("configure", json!({"approve": "auto"}), 403, 202),
        ("configure", json!({"model": "demo/other"}), 202, 403),
        ("configure", json!({"approve": "auto", "mode": "chat"}), 403, 403),
        ("direct", json!({"command": "ls", "origin": "typed"}), 403, 403),
        ("direct", json!({"command": "ls"}), 202, 403),
        ("terminal/input", json!({"data": "ls\r"}), 403, 403),
        ("questions", json!({"id": 9, "answer": "yes"}), 403, 409),
        ("cancel", json!({}), 202, 403),
    ] {
        assert_eq!(say(&world, "operator", &id, endpoint, body.clone()).await, operator, "{endpoint} {body}");
        assert_eq!(say(&world, "decider", &id, endpoint, body.clone()).await, decider, "{endpoint} {body}");
        assert_eq!(say(&world, "reader", &id, endpoint, body).await, 403, "{endpoint}");
    }
    let own = session(world.address, "operator", &json!({})).await;
    let typed = json!({"command": "ls", "origin": "typed"});
    assert_eq!(say(&world, "operator", &own, "direct", typed).await, 202);
}

#[tokio::test]
async fn a_token_created_by_a_command_since_the_prompt_cannot_decide() {
    let world = World::start().await;
    let (id, call) = waiting(&world, "ann").await;
    let answer = json!({"toolCallId": call, "decision": "allow"});
    assert_eq!(say(&world, "late", &id, "decisions", answer.clone()).await, 403);
    let (mut socket, _) = Client::join(world.address, &id, "late", json!({})).await;
    socket.say(json!({"type": "configure", "approve": "auto"})).await;
    assert_eq!(socket.until("error").await["code"], "forbidden");
    assert_eq!(*world.machine.refused.lock(), ["late", "late"]);
    assert_eq!(say(&world, "late person", &id, "decisions", answer).await, 202);
    assert_eq!(world.machine.refused.lock().len(), 2);
}

#[tokio::test]
async fn a_prompt_names_the_token_that_sent_it_whatever_the_client_says() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut socket, _) = Client::join(world.address, &id, "ann", json!({})).await;
    socket.say(json!({"type": "user.message", "content": "hello", "by": "root"})).await;
    assert_eq!(socket.until("user.message").await["by"], "ann");
    socket.until("assistant.done").await;
    let words = json!({"content": "hello again", "by": "root"});
    assert_eq!(say(&world, "operator", &id, "messages", words).await, 202);
    assert_eq!(socket.until("user.message").await["by"], "operator");
}

#[tokio::test]
async fn a_typed_command_names_the_token_that_sent_it_whatever_the_client_says() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut socket, _) = Client::join(world.address, &id, "ann", json!({})).await;
    let direct = json!({"type": "direct", "command": "ls", "origin": "typed", "by": "root"});
    socket.say(direct).await;
    let started = async |socket: &mut Client| loop {
        let state = socket.until("state").await;
        if state["event"] == "turn_started" {
            return (state["origin"].clone(), state["by"].clone());
        }
    };
    assert_eq!(started(&mut socket).await, (json!("typed"), json!("ann")));
    socket.until("assistant.done").await;
    let words = json!({"command": "ls", "by": "root"});
    assert_eq!(say(&world, "operator", &id, "direct", words).await, 202);
    assert_eq!(started(&mut socket).await, (json!("routine"), json!("operator")));
}

#[tokio::test]
async fn sessions_name_their_opener_and_decisions_their_author() {
    let world = World::start().await;
    let (id, call) = waiting(&world, "operator").await;
    let (mut socket, greeting) = Client::join(world.address, &id, "decider", json!({})).await;
    assert_eq!(greeting["openedBy"], "operator");
    socket.say(json!({"type": "approval.decision", "toolCallId": call, "decision": "reject"})).await;
    assert_eq!(socket.until("approval.closed").await["by"], "decider");
    let events = get(world.address, "reader", &format!("/api/agent/sessions/{id}")).await;
    assert_eq!(events.status, 200);
}

/// Returns the live output of a call that prints secrets, as a caller sees it.
async fn output_for(world: &World, who: &str, start: &str) -> String {
    let id = session(world.address, "ann", &json!({"approve": "auto"})).await;
    let path = format!("/api/agent/sessions/{id}/messages");
    let words = |command: &str| json!({"content": format!("call bash {{\"command\": \"{command}\"}}")});
    if start == "earlier" {
        let mut before = Events::of(world.address, "ann", &id, None).await;
        assert_eq!(post(world.address, "ann", &path, &words("ls")).await.status, 202);
        before.until("assistant.done").await;
    }
    let mut events = Events::of(world.address, who, &id, None).await;
    events.until(if start == "earlier" { "assistant.done" } else { "session.created" }).await;
    assert_eq!(post(world.address, "ann", &path, &words("env")).await.status, 202);
    let told = events.until("tool.finished").await;
    let output = told.iter().filter(|event| event.data["type"] == "tool.output");
    output.filter_map(|event| event.data["content"].as_str()).collect()
}

#[tokio::test]
async fn live_output_is_redacted_for_callers_who_may_not_operate() {
    let world = World::start().await;
    for start in ["new", "earlier"] {
        let raw = output_for(&world, "operator", start).await;
        assert!(raw.contains("DB_PASSWORD=hunter22\n") && raw.contains("MIIE"), "{raw}");
        for who in ["reader", "decider"] {
            let clean = output_for(&world, who, start).await;
            assert_eq!(clean, "begun\nDB_PASSWORD=[redacted: secret]\n[redacted: private key]\n$ ", "{who}");
        }
    }
}

#[tokio::test]
async fn stored_output_is_redacted_for_callers_who_may_not_operate() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    for (name, raw, clean) in [
        ("env", "DB_PASSWORD=hunter22\n", "DB_PASSWORD=[redacted: secret]\n"),
        ("notes", "GIF89a\npassword: hunter22\n", "GIF89a\npassword: [redacted: secret]\n"),
        (
            "picture",
            "GIF89a\u{1}\0\u{1}\0\npassword: hunter22\n",
            "GIF89a\u{1}\0\u{1}\0\npassword: hunter22\n",
        ),
    ] {
        let path = format!("/api/agent/sessions/{id}/artefacts/{name}");
        assert_eq!(get(world.address, "operator", &path).await.body, raw);
        assert_eq!(get(world.address, "reader", &path).await.body, clean);
    }
}
