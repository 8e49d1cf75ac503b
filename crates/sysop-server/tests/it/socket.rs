//! Guarantees of a socket to its client.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sysop_server::{ServerSettings, SocketSettings};
use tokio_tungstenite::tungstenite::Message;

use crate::client::{Client, get, in_time, post, request, session};
use crate::world::{World, settings};

fn seqs(messages: &[Value]) -> Vec<u64> {
    messages.iter().filter_map(|message| message["seq"].as_u64()).collect()
}

fn text(messages: &[Value]) -> String {
    let deltas = messages.iter().filter(|message| message["type"] == "assistant.delta");
    deltas.filter_map(|message| message["content"].as_str()).collect()
}

#[tokio::test]
async fn hello_is_answered_and_a_message_streams_until_done() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut client = Client::connect(world.address, &id, "ann").await;
    client
        .say(json!({"type": "hello", "clientVersion": "1", "toolManifest": [], "workspaceRoot": "/w"}))
        .await;
    let created = client.next().await.unwrap();
    assert_eq!(
        (created["type"].as_str(), created["sessionId"].as_str()),
        (Some("session.created"), Some(id.as_str()))
    );
    let turn = client.turn("good day").await;
    assert_eq!(text(&turn), "good day");
    let done = turn.last().unwrap();
    assert_eq!(done["metadata"]["stopReason"], "end_turn");
    assert!(
        turn.iter().all(|message| message["type"] == "heartbeat" || message["sessionId"] == *id),
        "{turn:?}"
    );
}

#[tokio::test]
async fn a_reconnecting_client_gets_missed_messages_once_in_order() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut client, _) = Client::join(world.address, &id, "ann", json!({"resumeFrom": 0})).await;
    let mut all = client.turn("call bash {\"command\": \"echo 1\"}").await;
    all.extend(client.turn("and again").await);
    client.leave().await;
    let logged: Vec<&Value> = all.iter().filter(|message| message["seq"].is_u64()).collect();
    let last = logged.last().unwrap()["seq"].as_u64().unwrap();
    for from in 0..=last {
        let (mut client, created) =
            Client::join(world.address, &id, "bob", json!({"resumeFrom": from})).await;
        assert_eq!(created["lastSeq"], last);
        let missed: Vec<&Value> =
            logged.iter().copied().filter(|message| message["seq"].as_u64() > Some(from)).collect();
        for expected in missed {
            assert_eq!(client.next().await.as_ref(), Some(expected), "from {from}");
        }
        // No other message is pending: the next one is the error reply.
        client.say(json!({"type": "nonsense"})).await;
        assert_eq!(client.next().await.unwrap()["type"], "error");
        client.leave().await;
    }
}

#[tokio::test]
async fn a_chat_is_broadcast_survives_a_restart_and_runs_nothing() {
    let mut world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "auto"})).await;
    let (mut ann, created) = Client::join(world.address, &id, "ann", json!({})).await;
    assert_eq!(created["mode"], "agent");
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    ann.say(json!({"type": "configure", "mode": "chat"})).await;
    assert_eq!(bob.until("configured").await["mode"], "chat");
    let turn = bob.turn("call bash {\"command\": \"echo 1\"}").await;
    let types: Vec<&str> = turn.iter().filter_map(|message| message["type"].as_str()).collect();
    assert!(!types.contains(&"tool.call") && !types.contains(&"approval.request"), "{types:?}");
    let refused = turn.iter().find(|message| message["type"] == "tool.finished").unwrap();
    assert_eq!(refused["status"], "failed");
    assert!(world.machine.ran.lock().is_empty(), "{turn:?}");
    world.stop();
    world.ended().await;
    let again = World::on(Arc::clone(&world.store), settings()).await;
    let (mut carl, created) = Client::join(again.address, &id, "carl", json!({})).await;
    assert_eq!(created["mode"], "chat");
    carl.say(json!({"type": "configure", "mode": "agent"})).await;
    assert_eq!(carl.until("configured").await["mode"], "agent");
    let turn = carl.turn("call bash {\"command\": \"echo 1\"}").await;
    assert!(turn.iter().any(|message| message["type"] == "tool.call"), "{turn:?}");
}

#[tokio::test]
async fn without_a_resume_point_only_open_requests_are_sent() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.say(json!({"type": "user.message", "content": "call bash {\"command\": \"rm x\"}"})).await;
    let asked = ann.until("approval.request").await;
    let (mut bob, created) = Client::join(world.address, &id, "bob", json!({})).await;
    assert_eq!(created["lastSeq"], asked["seq"]);
    assert_eq!(bob.next().await.unwrap()["state"], "waiting");
    assert_eq!(bob.next().await.unwrap()["toolCallId"], asked["toolCallId"]);
}

#[tokio::test]
async fn a_client_that_joins_late_gets_the_rest_of_the_bounds_of_auto() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.say(json!({"type": "configure", "approve": "auto", "bounds": "3 commands, 10m"})).await;
    ann.until("configured").await;
    let set = ann.until("state").await;
    let until = set["auto"]["until"].as_i64().expect("an end of the time");
    assert_eq!(set["auto"], json!({"commands": 3, "until": until}), "{set}");
    ann.turn("call bash {\"command\": \"echo 1\"}").await;
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    assert_eq!(bob.until("state").await["auto"], json!({"commands": 2, "until": until}));
    ann.say(json!({"type": "configure", "approve": "ask"})).await;
    bob.until("configured").await;
    let ended = bob.until("state").await;
    assert_eq!((&ended["approve"], ended.get("auto")), (&json!("ask"), None));
}

#[tokio::test]
async fn all_clients_get_all_messages_and_the_first_decision_wins() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({"resumeFrom": 0})).await;
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({"resumeFrom": 0})).await;
    ann.say(json!({"type": "user.message", "content": "call bash {\"command\": \"rm x\"}"})).await;
    let call = ann.until("approval.request").await["toolCallId"].clone();
    let mut of_bob = bob.all_until("approval.request").await;
    bob.say(json!({"type": "approval.decision", "toolCallId": call, "decision": "allow", "command": "rm y"}))
        .await;
    let closed = ann.until("approval.closed").await;
    assert_eq!((closed["by"].as_str(), closed["command"].as_str()), (Some("bob"), Some("rm y")));
    ann.say(
        json!({"type": "approval.decision", "messageId": "m7", "toolCallId": call, "decision": "reject"}),
    )
    .await;
    let late = ann.until("error").await;
    assert_eq!((late["code"].as_str(), late["replyTo"].as_str()), (Some("stale"), Some("m7")));
    of_bob.extend(bob.all_until("assistant.done").await);
    assert!(of_bob.iter().any(|message| message["type"] == "user.message"), "{of_bob:?}");
    assert!(of_bob.iter().any(|message| message["output"] == "ran rm y"), "{of_bob:?}");
    let seqs = seqs(&of_bob);
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert_eq!(*world.machine.ran.lock(), ["bash rm y"]);
}

#[tokio::test]
async fn invalid_messages_get_an_error_and_keep_the_socket_open() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut client = Client::connect(world.address, &id, "ann").await;
    client.say(json!({"type": "user.message", "content": "before hello"})).await;
    assert_eq!(client.next().await.unwrap()["type"], "error");
    client.say(json!({"type": "hello"})).await;
    client.until("state").await;
    let huge = json!({"type": "user.message", "content": "x".repeat(2 << 20)}).to_string();
    let other = json!({"type": "cancel", "sessionId": "another"}).to_string();
    let cases = [
        ("not json", "bad_message"),
        ("[1]", "bad_message"),
        ("{\"type\":\"no.such\"}", "bad_message"),
        ("{\"type\":\"user.message\"}", "bad_message"),
        ("{\"type\":\"user.message\",\"content\":\"  \"}", "bad_message"),
        (
            "{\"type\":\"hello\",\"toolManifest\":[{\"name\":\"a b\",\"parameters\":{}}],\"workspaceRoot\":\"/\"}",
            "bad_manifest",
        ),
        ("{\"type\":\"question.answer\",\"id\":9,\"answer\":\"pw\"}", "stale"),
        ("{\"type\":\"configure\",\"model\":\"demo/forbidden\"}", "forbidden"),
        (other.as_str(), "no_session"),
        (huge.as_str(), "too_large"),
    ];
    for (sent, code) in cases {
        client.ws.send_text(sent).await;
        let error = client.next().await.unwrap();
        let shown = &sent[..sent.len().min(80)];
        assert_eq!(
            (error["type"].as_str(), error["code"].as_str()),
            (Some("error"), Some(code)),
            "{shown}: {error}"
        );
    }
    futures::SinkExt::send(&mut client.ws, Message::binary(vec![0xff, 0])).await.unwrap();
    assert_eq!(client.next().await.unwrap()["code"], "bad_message");
    assert_eq!(text(&client.turn("still here").await), "still here");
}

#[tokio::test]
async fn the_message_queue_is_bounded_and_a_rejected_message_can_be_resent() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut client = Client::connect(world.address, &id, "ann").await;
    client.say(json!({"type": "hello"})).await;
    client.say(json!({"type": "user.message", "content": "hang"})).await;
    client.until("user.message").await;
    for number in 0..32 {
        client.say(json!({"type": "user.message", "content": format!("say {number}")})).await;
    }
    let more = json!({"type": "user.message", "content": "one more", "messageId": "m"});
    client.say(more.clone()).await;
    let refused = client.until("error").await;
    assert_eq!((&refused["code"], &refused["replyTo"]), (&json!("too_many"), &json!("m")), "{refused}");
    let path = format!("/api/agent/sessions/{id}/messages");
    let refused = post(world.address, "ann", &path, &json!({"content": "and another"})).await;
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("too_many")));

    client.say(json!({"type": "cancel"})).await;
    client.until("assistant.done").await;
    client.say(more).await;
    assert_eq!(client.until("user.message").await["content"], "one more");
}

trait SendText {
    async fn send_text(&mut self, text: &str);
}

impl<S> SendText for S
where
    S: futures::Sink<Message> + Unpin,
    S::Error: std::fmt::Debug,
{
    async fn send_text(&mut self, text: &str) {
        futures::SinkExt::send(self, Message::text(text)).await.unwrap();
    }
}

#[tokio::test]
async fn a_read_only_client_gets_everything_and_can_do_nothing() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut reader, _) = Client::join(world.address, &id, "reader", json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    for sent in [
        json!({"type": "user.message", "content": "hello"}),
        json!({"type": "cancel"}),
        json!({"type": "terminal.input", "data": "rm\n"}),
        json!({"type": "terminal.attach"}),
        json!({"type": "hello", "workspaceRoot": "/", "toolManifest": [{"name": "ls", "parameters": {}}]}),
    ] {
        reader.say(sent.clone()).await;
        assert_eq!(reader.until("error").await["code"], "forbidden", "{sent}");
    }
    ann.turn("good day").await;
    assert_eq!(text(&reader.all_until("assistant.done").await), "good day");
}

#[tokio::test]
async fn the_server_sends_heartbeats_and_drops_a_silent_peer() {
    let times = SocketSettings {
        heartbeat: Duration::from_millis(50),
        silence: Duration::from_millis(400),
        ..SocketSettings::default()
    };
    let world = World::with(ServerSettings { socket: times, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut lively, _) = Client::join(world.address, &id, "ann", json!({})).await;
    // Never reads, so it answers no pings; its connection stays open.
    let (_silent, _) = Client::join(world.address, &id, "bob", json!({})).await;
    for _ in 0..20 {
        lively.until("heartbeat").await;
    }
    let metrics = get(world.address, "ann", "/metrics").await.body;
    assert!(metrics.contains("sysop_sockets 1\n"), "{metrics}");
    assert!(metrics.contains("sysop_sockets_dropped_total{reason=\"silent\"} 1"), "{metrics}");
    assert_eq!(text(&lively.turn("here").await), "here");
}

#[tokio::test]
async fn a_slow_reader_is_dropped_with_a_reason_and_can_resume() {
    let times = SocketSettings {
        write: Duration::from_secs(3),
        // Long enough for the client to read everything that is pending, even on a slow machine.
        close_timeout: Duration::from_secs(25),
        ..settings().socket
    };
    let world = World::with(ServerSettings { socket: times, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut slow, created) = Client::join(world.address, &id, "bob", json!({"resumeFrom": 0})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    // More than the kernel buffers for a client that does not read.
    for _ in 0..32 {
        let turn = ann.turn(&"x".repeat(400_000)).await;
        assert_eq!(
            turn.last().unwrap()["metadata"]["stopReason"],
            "end_turn",
            "other clients are not slowed"
        );
    }
    in_time("drop", async {
        while !get(world.address, "ann", "/metrics").await.body.contains("reason=\"too_slow\"} 1") {}
    })
    .await;
    let mut seen = vec![created];
    while let Some(message) = slow.next().await {
        seen.push(message);
    }
    let last = seen.last().unwrap();
    assert_eq!((last["type"].as_str(), last["code"].as_str()), (Some("error"), Some("too_slow")));
    assert_eq!(u16::from(slow.closed.unwrap().code), 1008);
    let had = seqs(&seen).last().copied().unwrap_or(0);
    let (mut again, _) = Client::join(world.address, &id, "bob", json!({"resumeFrom": had})).await;
    let rest = again.all_until("assistant.done").await;
    assert!(seqs(&rest).first() > Some(&had) && seqs(&rest).is_sorted(), "{had}: {:?}", seqs(&rest));
}

#[tokio::test]
async fn a_program_prompt_is_answered_over_the_socket_without_leaking_the_secret() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    let (mut bob, _) = Client::join(world.address, &id, "bob", json!({})).await;
    ann.say(json!({"type": "user.message", "content": "call bash {\"command\": \"ask\"}"})).await;
    let question = ann.until("question").await;
    bob.say(json!({"type": "question.answer", "id": question["question"]["id"], "answer": "hunter2"})).await;
    let turn = ann.all_until("assistant.done").await;
    assert!(
        turn.iter().any(|message| message["type"] == "question.closed" && message["by"] == "bob"),
        "{turn:?}"
    );
    assert!(turn.iter().any(|message| message["output"] == "bob: 7 letters"), "{turn:?}");
    let all = format!("{turn:?}{:?}", bob.all_until("assistant.done").await);
    assert!(!all.contains("hunter2"), "{all}");
}

#[tokio::test]
async fn the_socket_watches_and_types_into_the_terminal() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.say(json!({"type": "terminal.input", "data": "early\r"})).await;
    assert_eq!(ann.until("error").await["code"], "no_terminal");
    ann.say(json!({"type": "terminal.attach", "cols": 80, "rows": 24})).await;
    let first = ann.until("terminal.output").await;
    assert_eq!(
        (first["data"].as_str(), first["reset"].as_bool(), first["cols"].as_u64()),
        (Some("$ "), Some(true), Some(80))
    );
    let mut data = String::new();
    while data != "café\r\n" {
        data += ann.until("terminal.output").await["data"].as_str().unwrap();
    }
    assert_eq!(ann.until("terminal.output").await["cols"], 100);
    ann.say(json!({"type": "terminal.input", "data": "ls\r"})).await;
    in_time("typing", world.machine.arrived.notified()).await;
    assert_eq!(world.machine.typed.lock().as_slice(), b"ann:ls\r");
}

#[tokio::test]
async fn a_stopping_server_notifies_its_sockets() {
    let mut world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    world.stop();
    in_time("no", async { while request(world.address, "GET", "/readyz", &[], "").await.status != 503 {} })
        .await;
    let last = ann.until("error").await;
    assert_eq!(last["code"], "draining");
    assert!(ann.next().await.is_none());
    assert_eq!(u16::from(ann.closed.unwrap().code), 1012);
    world.ended().await;
}

#[tokio::test]
async fn a_server_that_ends_for_good_says_so_to_its_sockets() {
    let why = "this server ended".to_owned();
    let mut world = World::with(ServerSettings { final_message: Some(why.clone()), ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    world.stop();
    let last = ann.until("error").await;
    assert_eq!((last["code"].as_str(), last["message"].as_str()), (Some("no_session"), Some(why.as_str())));
    assert!(ann.next().await.is_none());
    assert_eq!(u16::from(ann.closed.unwrap().code), 1001);
    world.ended().await;
}

#[tokio::test]
async fn a_retry_is_attributed_as_such() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.turn("first").await;
    ann.say(json!({"type": "retry"})).await;
    ann.until("assistant.done").await;
    assert_eq!(*world.machine.requests.lock(), [("ann".to_owned(), false), ("ann".to_owned(), true)]);
}

#[tokio::test]
async fn an_unused_session_is_evicted_and_resumes_on_connect() {
    let world = World::with(ServerSettings { idle: Duration::from_millis(1), ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.turn("first").await;
    assert_eq!(world.driver.live_sessions(), 1, "a session with a client stays in memory");
    ann.leave().await;
    in_time("rest", async {
        while world.driver.live_sessions() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    assert_eq!(text(&ann.turn("second").await), "second");
}

#[tokio::test]
async fn sessions_continue_on_another_server_with_running_calls_interrupted() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({"resumeFrom": 0})).await;
    ann.say(json!({"type": "user.message", "content": "call bash {\"command\": \"wait\"}"})).await;
    let before = ann.all_until("tool.output").await;
    let had = seqs(&before).last().copied().unwrap();
    let store = std::sync::Arc::clone(&world.store);
    drop(world); // like a power cut: no shutdown, and the running call has no result in the log
    let world = World::on(store, settings()).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({"resumeFrom": had})).await;
    let finished = ann.until("tool.finished").await;
    assert_eq!((finished["status"].as_str(), finished["seq"].as_u64()), (Some("interrupted"), Some(had + 1)));
    assert!(world.machine.ran.lock().is_empty(), "nothing is run again");
    ann.say(json!({"type": "cancel"})).await;
    ann.until("assistant.done").await;
    assert_eq!(text(&ann.turn("on").await), "on");
}
