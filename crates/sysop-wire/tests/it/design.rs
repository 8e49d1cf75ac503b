//! Messages of the JolliAgent design: names and fields match exactly.

use serde_json::{Value, json};
use sysop_core::event::{Event, Logged, Origin, StopReason};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, ModelRef, ToolCall};
use sysop_core::policy::ApprovalMode;
use sysop_core::spec::SessionSpec;
use sysop_wire::{ClientMessage, Encoder, ServerMessage};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Messages of the design's clients are parsed with their meaning.
#[test]
fn the_documented_client_messages_parse() {
    let messages = [
        json!({"type": "hello", "clientVersion": "1.0.0",
            "toolManifest": [{"name": "ls", "description": "List", "parameters": {"type": "object"}}],
            "workspaceRoot": "/home/me/docs"}),
        json!({"type": "user.message", "sessionId": "s1", "content": "write the docs"}),
        json!({"type": "tool.result", "sessionId": "s1", "toolCallId": "c1", "output": "README.md"}),
        json!({"type": "cancel", "sessionId": "s1"}),
    ];
    for message in messages {
        let read = ClientMessage::parse(&message.to_string()).expect("the design's own message");
        assert_eq!(serde_json::to_value(&read).expect("plain data"), message, "not a field more or less");
    }
}

/// Messages of a server have every field of the design, with its name and type.
#[test]
fn the_documented_server_messages_are_produced() {
    let spec = SessionSpec {
        model: ModelRef::new("demo", "demo"),
        system: String::new(),
        tools: Vec::new(),
        approve: ApprovalMode::Ask,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 20,
        max_history_messages: 20,
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        host: "local".into(),
        root: "/srv".into(),
        profile: "workspace".into(),
    };
    let arguments = json!({"path": "."}).as_object().cloned().expect("an object");
    let call = ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: "ls".into(),
        arguments: Arguments::Object(arguments),
    };
    let turn = TurnId(1);
    let events = [
        Event::SessionOpened { spec: spec.into(), opened_by: None },
        Event::TurnStarted { turn, prompt: "go".into(), origin: Origin::Model, images: Vec::new(), by: None },
        Event::StepStarted { step: StepId { turn, step: 1 } },
        Event::ToolStarted { call, origin: Origin::Model },
        Event::TurnEnded { turn, reason: StopReason::Failed, error: Some("it broke".into()), active_ms: 0 },
    ];
    let mut encoder = Encoder::new(SessionId::new("s1"));
    let mut sent: Vec<Value> = Vec::new();
    for (event, seq) in events.into_iter().zip(1..) {
        let messages = encoder.encode_event(&Logged { seq: Seq(seq), at: Timestamp(0), event });
        sent.extend(messages.iter().map(|message| serde_json::to_value(message).expect("plain data")));
    }
    let step = StepId { turn, step: 1 };
    let delta = encoder.encode_delta(&sysop_core::event::Delta::Text { step, text: "Hel".into() });
    let delta = serde_json::to_value(delta).expect("plain data");
    assert_eq!(delta, json!({"type": "assistant.delta", "sessionId": "s1", "content": "Hel"}));
    let heartbeat = serde_json::to_value(ServerMessage::Heartbeat {}).expect("plain data");
    assert_eq!(heartbeat, json!({"type": "heartbeat"}));

    let of = |kind: &str| sent.iter().find(|message| message["type"] == kind).expect("it is sent");
    assert_eq!(of("session.created")["sessionId"], "s1");
    let done = of("assistant.done");
    assert_eq!(done["sessionId"], "s1");
    assert_eq!(keys(&done["metadata"]), ["stopReason", "turn", "usage", "iterations"]);
    let call = of("tool.call");
    assert_eq!((&call["sessionId"], &call["toolCallId"]), (&json!("s1"), &json!("c1")));
    assert_eq!((&call["name"], &call["arguments"]), (&json!("ls"), &json!({"path": "."})));
    let error = of("error");
    assert_eq!((&error["sessionId"], &error["message"]), (&json!("s1"), &json!("it broke")));
}
