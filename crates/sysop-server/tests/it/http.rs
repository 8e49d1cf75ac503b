//! HTTP endpoints and event streams, for clients without a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sysop_core::event::{Event, Logged};
use sysop_core::id::{SessionId, Timestamp};
use sysop_driver::port::Store;
use sysop_server::{ServerSettings, SocketSettings};

use crate::client::{Client, Events, get, in_time, post, request, session};
use crate::world::{World, settings};

fn operations(described: &Value) -> Vec<(String, String)> {
    let paths = described["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().unwrap().keys();
        methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    });
    all.collect()
}

#[tokio::test]
async fn sessions_are_created_listed_shown_and_deleted() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "never"})).await;
    let listed = get(world.address, "ann", "/api/agent/sessions").await.json();
    assert_eq!(listed["sessions"][0]["sessionId"], *id);
    let shown = get(world.address, "ann", &format!("/api/agent/sessions/{id}")).await.json();
    assert_eq!((shown["approve"].as_str(), shown["state"]["state"].as_str()), (Some("never"), Some("idle")));
    let (mut client, _) = Client::join(world.address, &id, "ann", json!({})).await;
    let gone = request(
        world.address,
        "DELETE",
        &format!("/api/agent/sessions/{id}"),
        &[("authorization", "Bearer ann")],
        "",
    )
    .await;
    assert_eq!(gone.status, 204);
    assert_eq!(client.until("error").await["message"], "it was deleted");
    for path in ["", "/events", "/stream"] {
        let answer = get(world.address, "ann", &format!("/api/agent/sessions/{id}{path}")).await;
        assert!(matches!(answer.status, 404 | 426), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_fork_begins_with_the_settings_of_its_session_at_that_turn_and_can_be_configured() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    ann.say(json!({"type": "configure", "model": "demo/other"})).await;
    ann.until("configured").await;
    ann.say(json!({"type": "configure", "approve": "each"})).await;
    ann.until("configured").await;
    ann.turn("first").await;
    ann.say(json!({"type": "configure", "approve": "never"})).await;
    ann.until("configured").await;
    ann.turn("second").await;
    let settings = async |id: &str| {
        let shown = get(world.address, "ann", &format!("/api/agent/sessions/{id}")).await.json();
        ["model", "host", "root", "approve"].map(|name| shown[name].as_str().unwrap_or_default().to_owned())
    };
    let fork = async |before: u32| {
        let path = format!("/api/agent/sessions/{id}/fork");
        let made = post(world.address, "ann", &path, &json!({ "before": before })).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["sessionId"].as_str().unwrap().to_owned()
    };
    let (early, late) = (fork(1).await, fork(2).await);
    assert_eq!(settings(&early).await, ["demo/other", "local", "/srv", "each"]);
    assert_eq!(settings(&late).await, ["demo/other", "local", "/srv", "never"]);
    // Its settings are its own from then on.
    let (mut left, created) = Client::join(world.address, &early, "ann", json!({})).await;
    assert_eq!((created["model"].as_str(), created["approve"].as_str()), (Some("demo/other"), Some("each")));
    left.say(json!({"type": "configure", "approve": "never"})).await;
    while left.until("configured").await["approve"] != "never" {}
    assert_eq!(settings(&early).await, ["demo/other", "local", "/srv", "never"]);
    assert_eq!(settings(&id).await, ["demo/other", "local", "/srv", "never"]);
}

#[tokio::test]
async fn the_session_list_shows_live_states_and_is_searchable() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for prompt in ["tidy the Logs", "count the logs", "hang"] {
        let id = session(world.address, "ann", &json!({})).await;
        let path = format!("/api/agent/sessions/{id}/messages");
        let mut events = Events::of(world.address, "ann", &id, None).await;
        post(world.address, "ann", &path, &json!({"content": prompt})).await;
        if prompt == "hang" {
            while events.until("state").await.pop().unwrap().data["state"] != "thinking" {}
        } else {
            events.until("assistant.done").await;
        }
        ids.push(id);
    }
    let list = async |query: &str| {
        let path = format!("/api/agent/sessions{query}");
        let rows = get(world.address, "ann", &path).await.json()["sessions"].take();
        let pairs =
            rows.as_array().unwrap().iter().map(|row| (row["sessionId"].clone(), row["state"].clone()));
        pairs.collect::<Vec<_>>()
    };
    let row = |at: usize, state: &str| (json!(ids[at]), json!(state));
    assert_eq!(list("?search=hang").await, [row(2, "thinking")]);
    assert_eq!(list("?search=the%20LOGS&limit=1").await, [row(1, "idle")]);
    assert_eq!(list("?search=logs+tidy").await, [row(0, "idle")]);
    assert_eq!(list("?search=nowhere").await, []);
    // The model repeats the prompt, so the answer is found, too.
    let rows = get(world.address, "ann", "/api/agent/sessions?search=tidy").await.json();
    assert_eq!(rows["sessions"][0]["excerpt"], "tidy the Logs");
    for bad in ["x".repeat(5000), "x+".repeat(33)] {
        let path = format!("/api/agent/sessions?search={bad}");
        assert_eq!(get(world.address, "ann", &path).await.status, 400);
    }
}

#[tokio::test]
async fn a_session_that_waits_for_approval_is_listed_as_waiting_after_a_restart() {
    let before = World::start().await;
    let id = session(before.address, "ann", &json!({"approve": "ask"})).await;
    let path = format!("/api/agent/sessions/{id}");
    let mut events = Events::of(before.address, "ann", &id, None).await;
    let prompt = json!({"content": "call bash {\"command\": \"touch it\"}"});
    post(before.address, "ann", &format!("{path}/messages"), &prompt).await;
    events.until("approval.request").await;
    let idle = session(before.address, "ann", &json!({})).await;
    let after = World::on(Arc::clone(&before.store), settings()).await;
    let rows = get(after.address, "ann", "/api/agent/sessions").await.json()["sessions"].take();
    let state_of = |wanted: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["sessionId"] == wanted);
        row.expect("the session is listed")["state"].clone()
    };
    assert_eq!((state_of(&id), state_of(&idle)), (json!("waiting"), Value::Null));
    let open = get(after.address, "ann", "/api/approvals").await.json()["approvals"].take();
    assert_eq!(open[0]["sessionId"], id);
}

#[tokio::test]
async fn a_session_is_renamed_and_pinned_by_those_who_operate() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let label = async |who: &str, body: Value| {
        post(world.address, who, &format!("/api/agent/sessions/{id}/label"), &body).await.status
    };
    assert_eq!(label("ann", json!({"title": "  The disk  ", "pinned": true})).await, 204);
    for (who, body, status) in [
        ("reader", json!({"title": "x"}), 403),
        ("ann", json!({"title": " "}), 400),
        ("ann", json!({"title": "two\nlines"}), 400),
        ("ann", json!({"title": "x".repeat(81)}), 400),
        ("ann", json!({"name": "x"}), 400),
    ] {
        assert_eq!(label(who, body.clone()).await, status, "{who} {body}");
    }
    let rows = get(world.address, "reader", "/api/agent/sessions").await.json();
    let row = &rows["sessions"][0];
    assert_eq!((row["title"].as_str(), row["pinned"].as_bool()), (Some("The disk"), Some(true)));
    let gone = post(world.address, "ann", "/api/agent/sessions/nobody/label", &json!({"pinned": true})).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn a_caller_gets_its_name_and_scopes_and_the_defaults_of_the_server() {
    let world = World::start().await;
    for (who, operate, decide) in [("ann", true, true), ("reader", false, false), ("decider", false, true)] {
        let me = get(world.address, who, "/api/me").await.json();
        let server = json!({
            "machine": "lab", "host": "local", "root": "/srv", "model": "demo/demo", "approve": "auto",
        });
        assert_eq!(me, json!({"name": who, "operate": operate, "decide": decide, "server": server}));
    }
}

#[tokio::test]
async fn terminal_output_is_streamed_as_events_on_request() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let path = |more: &str| format!("/api/agent/sessions/{id}/events?resumeFrom=0{more}");
    let open = async |name: &str| {
        let token = format!("Bearer {name}");
        let headers = [("authorization", token.as_str())];
        Events::open(world.address, "GET", &path("&terminal=true&cols=80&rows=24"), &headers, "").await
    };
    let refused = open("reader").await.until("error").await.pop().unwrap();
    assert_eq!(refused.data["code"], "forbidden", "opening a shell needs more than `read`");
    let mut ann = open("ann").await;
    let first = ann.until("terminal.output").await.pop().unwrap();
    assert_eq!((first.data["data"].as_str(), first.data["reset"].as_bool()), (Some("$ "), Some(true)));
    let all = ann.until("session.created").await;
    let mut data = String::new();
    while !data.ends_with("café\r\n") {
        data += ann.until("terminal.output").await.pop().unwrap().data["data"].as_str().unwrap();
    }
    assert!(all.iter().all(|event| event.data["type"] != "error"));
}

#[tokio::test]
async fn an_event_stream_resumes_after_the_last_event_id() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut first = Events::of(world.address, "ann", &id, None).await;
    assert!(first.head.to_lowercase().contains("content-type: text/event-stream"), "{}", first.head);
    let path = format!("/api/agent/sessions/{id}/messages");
    post(world.address, "ann", &path, &json!({"content": "good day"})).await;
    let all = first.until("assistant.done").await;
    assert!(all.iter().any(|event| event.data["type"] == "assistant.delta"));
    let ids: Vec<u64> = all.iter().filter_map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    for from in &ids[..ids.len() - 1] {
        let mut again = Events::of(world.address, "bob", &id, Some(*from)).await;
        let missed = again.until("assistant.done").await;
        let missed: Vec<u64> = missed.iter().filter_map(|event| event.id).collect();
        assert_eq!(missed, ids.iter().copied().filter(|id| id > from).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn requests_pause_resume_stop_and_retry_a_turn() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({"approve": "ask"})).await;
    let mut events = Events::of(world.address, "ann", &id, None).await;
    let say = |what: &'static str, body: Value| {
        let (path, address) = (format!("/api/agent/sessions/{id}/{what}"), world.address);
        async move { post(address, "ann", &path, &body).await }
    };
    assert_eq!(say("messages", json!({"content": "call bash {\"command\": \"rm x\"}"})).await.status, 202);
    let call = events.until("approval.request").await.pop().unwrap().data["toolCallId"].clone();
    assert_eq!(say("decisions", json!({"toolCallId": "another", "decision": "allow"})).await.status, 409);
    assert_eq!(say("pause", json!({})).await.status, 202);
    assert_eq!(say("decisions", json!({"toolCallId": call, "decision": "allow"})).await.status, 202);
    while events.until("state").await.pop().unwrap().data["state"] != "paused" {}
    assert_eq!(say("resume", json!({})).await.status, 202);
    events.until("assistant.done").await;
    assert_eq!(say("messages", json!({"content": "hang"})).await.status, 202);
    events.until("user.message").await;
    assert_eq!(say("cancel", json!({})).await.status, 202);
    let done = events.until("assistant.done").await.pop().unwrap();
    assert_eq!(done.data["metadata"]["stopReason"], "cancelled");
    assert_eq!(say("clear", json!({})).await.status, 202);
    assert_eq!(say("configure", json!({"model": "demo/forbidden"})).await.status, 403);
    assert_eq!(say("messages", json!({"content": " "})).await.status, 400);
    assert_eq!(say("messages", json!({})).await.status, 400);
}

#[tokio::test]
async fn an_approval_seen_on_another_server_can_be_answered_here_early() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let path = format!("/api/agent/sessions/{id}/decisions");
    let decision = json!({"toolCallId": "c1", "decision": "allow"});
    assert_eq!(post(world.address, "ann", &path, &decision).await.status, 409, "no approval is open");
    let id = SessionId::new(id);
    let last = world.driver.last_seq(&id).unwrap();
    let event = Event::PromptQueued { text: "of another server".to_owned(), images: Vec::new(), by: None };
    let told = Arc::new(Logged { seq: last.next(), at: Timestamp(0), event });
    world.store.append(&id, last, &[told]).await.unwrap();
    assert_eq!(post(world.address, "ann", &path, &decision).await.status, 202);
}

#[tokio::test]
async fn only_json_with_a_token_is_accepted() {
    let world = World::start().await;
    let with = |headers: &'static [(&'static str, &'static str)], body: &'static str| {
        request(world.address, "POST", "/api/agent/sessions", headers, body)
    };
    assert_eq!(with(&[], "{}").await.status, 401);
    assert_eq!(with(&[("authorization", "Bearer reader")], "").await.status, 403);
    let plain = &[("authorization", "Bearer ann"), ("content-type", "text/plain")];
    assert_eq!(with(plain, "{}").await.status, 415);
    assert_eq!(with(&[("authorization", "Bearer ann")], "{}").await.status, 415);
    let json = &[("authorization", "Bearer ann"), ("content-type", "application/json")];
    assert_eq!(with(json, "{\"aprove\":\"auto\"}").await.status, 400, "a typo creates no session");
    assert_eq!(with(json, "[]").await.status, 400);
    assert_eq!(with(json, "{}").await.status, 201);
    assert_eq!(
        get(world.address, "ann", "/api/agent/sessions").await.json()["sessions"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn the_openapi_description_lists_every_route_and_each_responds() {
    let world = World::start().await;
    let described = get(world.address, "ann", "/api/openapi.json").await.json();
    assert_eq!(described["openapi"], "3.1.0");
    let operations = operations(&described);
    assert!(operations.len() > 25, "{operations:?}");
    for (method, path) in operations {
        let real = path.replace("{id}", "nobody").replace("{name}", "kept");
        let answer = request(world.address, &method, &real, &[], "").await;
        let open = described["paths"][&path][method.to_lowercase()]["security"] == json!([]);
        if open {
            assert_ne!(answer.status, 401, "{method} {path}");
        } else {
            assert_eq!(answer.status, 401, "{method} {path} needs no token");
        }
        let with = [("authorization", "Bearer ann"), ("content-type", "application/json")];
        let answer = request(world.address, &method, &real, &with, "{}").await;
        let known = &described["paths"][&path][method.to_lowercase()]["responses"];
        assert!(known.get(answer.status.to_string()).is_some(), "{method} {path} answers {}", answer.status);
    }
    let ann = [("authorization", "Bearer ann")];
    assert_eq!(request(world.address, "PUT", "/api/agent/sessions", &ann, "").await.status, 405);
    assert_eq!(get(world.address, "ann", "/no/such").await.status, 404);
    assert_eq!(request(world.address, "GET", "/no/such", &[], "").await.status, 401);
}

#[tokio::test]
async fn the_web_chat_streams_text_and_tools_in_one_session_per_client() {
    let world = World::start().await;
    let chat = |name: &'static str, cookie: Option<String>, message: &'static str| {
        let address = world.address;
        async move {
            let token = format!("Bearer {name}");
            let mut headers = vec![("authorization", token.as_str()), ("content-type", "application/json")];
            let cookie = cookie.unwrap_or_default();
            if !cookie.is_empty() {
                headers.push(("cookie", cookie.as_str()));
            }
            let body = json!({"message": message}).to_string();
            let mut events = Events::open(address, "POST", "/chat", &headers, &body).await;
            let all = events.until("done").await;
            assert!(events.next().await.is_none(), "the stream ends after `done`");
            (all, events.head)
        }
    };
    let (all, head) = chat("ann", None, "call bash {\"command\": \"echo 1\"}").await;
    let told: Vec<(&str, &Value)> = all.iter().map(|event| (event.name.as_str(), &event.data)).collect();
    assert_eq!(
        told,
        [
            ("tool", &json!({"name": "bash", "input": {"command": "echo 1"}})),
            ("text", &json!({"content": "result: ran echo 1"})),
            ("done", &json!({})),
        ]
    );
    let cookie = head.lines().find_map(|line| line.split_once("sysop_chat=")).unwrap().1;
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = format!("sysop_chat={}", cookie.split(';').next().unwrap());
    chat("ann", None, "by token").await;
    chat("bob", Some(cookie), "by cookie").await;
    chat("bob", None, "another").await;
    let listed = get(world.address, "ann", "/api/agent/sessions").await.json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2, "{listed}");
    let cleared = post(world.address, "ann", "/clear", &json!({})).await;
    assert_eq!((cleared.status, cleared.json()), (200, json!({"status": "ok"})));
}

#[tokio::test]
async fn the_endpoints_of_juni_cli_answer_with_any_model() {
    let world = World::start().await;
    let history = json!({"model": "gemini-3-flash-preview", "history": [
        {"role": "user", "parts": [{"text": "call run_command {\"command\": \"df\", \"reasoning\": \"look\"}"}]},
    ]});
    let first = post(world.address, "ann", "/api/gemini/agent", &history).await.json();
    assert_eq!(
        first,
        json!({"parts": [{"functionCall": {"name": "run_command", "args": {"command": "df", "reasoning": "look"}}}]})
    );
    let mut history = history;
    let all = history["history"].as_array_mut().unwrap();
    all.push(json!({"role": "model", "parts": first["parts"]}));
    all.push(json!({"role": "user", "parts": [{"functionResponse": {"name": "run_command", "response": {"output": "9%"}}}]}));
    let second = post(world.address, "ann", "/api/gemini/agent", &history).await.json();
    assert_eq!(second, json!({"parts": [{"text": "result: 9%"}]}));
    let chat = json!({"messages": [{"role": "user", "text": "hi"}, {"role": "model", "text": "yes?"}, {"role": "user", "text": "bye"}]});
    assert_eq!(post(world.address, "ann", "/api/gemini/chat", &chat).await.json(), json!({"reply": "bye"}));
    assert_eq!(post(world.address, "ann", "/api/gemini/chat", &json!({"messages": []})).await.status, 400);
}

#[tokio::test]
async fn health_is_public_and_metrics_need_read_scope() {
    let world = World::start().await;
    assert_eq!(request(world.address, "GET", "/healthz", &[], "").await.json(), json!({"status": "ok"}));
    assert_eq!(request(world.address, "GET", "/readyz", &[], "").await.json(), json!({"status": "ready"}));
    let id = session(world.address, "ann", &json!({})).await;
    let (mut client, _) = Client::join(world.address, &id, "ann", json!({})).await;
    client.turn("call bash {\"command\": \"secret words\"}").await;
    let metrics = get(world.address, "reader", "/metrics").await;
    assert!(metrics.head.contains("application/openmetrics-text"), "{}", metrics.head);
    for line in [
        "sysop_sessions_created_total 1\n",
        "sysop_sockets 1\n",
        "sysop_tool_calls_total{tool=\"bash\",status=\"ok\"} 1\n",
    ] {
        assert!(metrics.body.contains(line), "{line} is not in {}", metrics.body);
    }
    assert!(!metrics.body.contains("secret") && !metrics.body.contains(&id), "{}", metrics.body);
}

#[tokio::test]
async fn an_artifact_is_served_as_a_download() {
    let world = World::start().await;
    let id = session(world.address, "ann", &json!({})).await;
    let kept = get(world.address, "ann", &format!("/api/agent/sessions/{id}/artefacts/kept")).await;
    assert_eq!((kept.status, kept.body.as_str()), (200, "<b>whole</b>"));
    assert!(kept.head.to_lowercase().contains("content-type: application/octet-stream"), "{}", kept.head);
}

#[tokio::test]
async fn an_unread_stream_is_closed_and_resumes_after_its_last_event() {
    let times = SocketSettings {
        write: Duration::from_secs(2),
        close_timeout: Duration::from_millis(100),
        ..settings().socket
    };
    let world = World::with(ServerSettings { socket: times, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut stalled = Events::of(world.address, "bob", &id, Some(0)).await;
    let (mut ann, _) = Client::join(world.address, &id, "ann", json!({})).await;
    // More than the kernel buffers for a client that does not read.
    let mut end = 0;
    for _ in 0..32 {
        let turn = ann.turn(&"x".repeat(400_000)).await;
        end = turn.last().unwrap()["seq"].as_u64().unwrap();
    }
    in_time("drop", async {
        let dropped = "sysop_streams_dropped_total{reason=\"too_slow\"} 1";
        while !get(world.address, "ann", "/metrics").await.body.contains(dropped) {}
    })
    .await;
    let metrics = get(world.address, "ann", "/metrics").await.body;
    assert!(metrics.contains("sysop_streams 0\n"), "the stream is no longer counted: {metrics}");
    let mut ids = Vec::new();
    while let Some(event) = stalled.next().await {
        ids.extend(event.id);
    }
    let had = ids.last().copied().unwrap_or(0);
    let mut again = Events::of(world.address, "bob", &id, Some(had)).await;
    assert!(had < end, "the stream was interrupted");
    while ids.last() < Some(&end) {
        ids.extend(again.next().await.unwrap().id);
    }
    assert!(ids.iter().copied().eq(1..=end), "each once and in order, {had} before the break: {ids:?}");
}

#[tokio::test]
async fn a_stream_resumed_too_late_ends_with_a_reason() {
    // Zero, so that every reader is too slow for its second message.
    let times = SocketSettings { write: Duration::ZERO, ..settings().socket };
    let world = World::with(ServerSettings { socket: times, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let mut events = Events::of(world.address, "ann", &id, Some(0)).await;
    post(world.address, "ann", &format!("/api/agent/sessions/{id}/messages"), &json!({"content": "hi"}))
        .await;
    let told = events.until("error").await;
    let last = told.last().unwrap();
    assert_eq!((last.data["code"].as_str(), last.id), (Some("too_slow"), None));
    assert!(last.data["message"].as_str().unwrap().contains("Last-Event-ID"), "{last:?}");
    assert!(events.next().await.is_none(), "the stream ends");
}

#[tokio::test]
async fn slow_bodies_time_out_and_unauthenticated_bodies_are_small() {
    let world = World::with(ServerSettings { body_wait: Duration::from_millis(200), ..settings() }).await;
    for path in ["/login", "/api/agent/sessions"] {
        let headers = [
            ("authorization", "Bearer ann"),
            ("content-type", "application/json"),
            ("content-length", "100"),
        ];
        let answer = request(world.address, "POST", path, &headers, "").await;
        assert_eq!(answer.status, 408, "{path}: {answer:?}");
    }
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let answer = request(world.address, "POST", "/login", &kind, &"x".repeat(2000)).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn the_address_of_the_login_form_leads_to_the_page() {
    let world = World::with(settings()).await;
    let answer = request(world.address, "GET", "/login", &[], "").await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(answer.head.to_lowercase().lines().any(|line| line == "location: /"), "{}", answer.head);
}

#[tokio::test]
async fn the_script_of_the_login_form_needs_no_token() {
    let world = World::with(settings()).await;
    let script = request(world.address, "GET", "/login.js", &[], "").await;
    assert_eq!(script.status, 200, "{script:?}");
    assert!(script.head.to_lowercase().contains("content-type: text/javascript"), "{}", script.head);
    assert!(script.body.contains("location.hash.startsWith(\"#/\")"), "{}", script.body);
    assert_eq!(request(world.address, "GET", "/theme.js", &[], "").await.status, 401);
}

#[tokio::test]
async fn every_endpoint_rejects_an_oversized_body() {
    let bytes_max = 64 * 1024;
    let world = World::with(ServerSettings { body_bytes_max: bytes_max, ..settings() }).await;
    let id = session(world.address, "ann", &json!({})).await;
    let described = get(world.address, "ann", "/api/openapi.json").await.json();
    let paths = described["paths"].as_object().unwrap().iter();
    let paths: Vec<_> = paths
        .filter(|(_, methods)| methods["post"]["requestBody"].is_object())
        .filter(|(path, _)| !path.ends_with("/images")) // takes images, with a limit of its own
        .map(|(path, _)| path.replace("{id}", &id))
        .collect();
    assert!(paths.len() > 15, "{paths:?}");
    let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(2 * bytes_max));
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let length = large.len().to_string();
    for path in paths {
        for (framing, body) in
            [(("content-length", length.as_str()), ""), (("transfer-encoding", "chunked"), chunks.as_str())]
        {
            let kind = ("content-type", "application/json");
            let headers = [("authorization", "Bearer ann"), kind, framing];
            let answer = request(world.address, "POST", &path, &headers, body).await;
            assert_eq!(answer.status, 413, "{path} {framing:?}: {answer:?}");
            assert_eq!(answer.json()["code"], "too_large", "{path}: {answer:?}");
            assert!(answer.json()["error"].as_str().unwrap().contains("too large"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_invalid_id_is_not_a_session() {
    let world = World::start().await;
    for id in ["nothing", &"x".repeat(300), &"%F0%9F%98%80".repeat(1000)] {
        for path in ["", "/events", "/artefacts/a"] {
            let answer = get(world.address, "ann", &format!("/api/agent/sessions/{id}{path}")).await;
            assert_eq!(answer.status, 404, "{answer:?}");
        }
    }
}
