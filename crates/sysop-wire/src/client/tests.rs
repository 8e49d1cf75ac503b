//! Messages of clients: what they mean, and what cannot be read.

use serde_json::{Value, json};
use sysop_core::event::{Decision, Input};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::outcome::{Outcome, Status};

use super::{ClientMessage, Hello, ToolResult};

fn parse(message: Value) -> ClientMessage {
    ClientMessage::parse(&message.to_string()).unwrap()
}

fn input(message: Value) -> Input {
    parse(message).input("web").unwrap()
}

#[test]
fn each_wish_of_a_person_is_an_input() {
    let text = "why is it slow?".to_owned();
    assert_eq!(
        input(json!({"type": "user.message", "sessionId": "s", "content": text})),
        Input::Prompt { text }
    );
    assert_eq!(input(json!({"type": "cancel", "sessionId": "s"})), Input::Cancel);
    assert_eq!(input(json!({"type": "pause"})), Input::Pause);
    assert_eq!(input(json!({"type": "resume"})), Input::Resume);
    assert_eq!(input(json!({"type": "retry"})), Input::Retry);
    assert_eq!(input(json!({"type": "clear"})), Input::Clear);
}

#[test]
fn a_decision_carries_what_belongs_to_it() {
    let decide = |rest: Value| {
        let mut message = json!({"type": "approval.decision", "toolCallId": "c1"});
        message.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let Input::Decision { call, decision, by } = input(message) else { panic!("not a decision") };
        assert_eq!((call, by.as_str()), (CallId::new("c1"), "web"));
        decision
    };
    assert_eq!(decide(json!({"decision": "allow"})), Decision::Allow { command: None });
    let edited = Decision::Allow { command: Some("ls -l".into()) };
    assert_eq!(decide(json!({"decision": "allow", "command": "ls -l"})), edited);
    assert_eq!(decide(json!({"decision": "allow_session"})), Decision::AllowSession { command: None });
    let rejected = Decision::Reject { reason: "not here".into() };
    assert_eq!(decide(json!({"decision": "reject", "reason": "not here"})), rejected);
    assert_eq!(decide(json!({"decision": "reject"})), Decision::Reject { reason: String::new() });
}

#[test]
fn hello_takes_the_manifest_in_both_forms() {
    let message = parse(json!({
        "type": "hello", "clientVersion": "jolli 0.3", "workspaceRoot": "/home/me/docs", "resumeFrom": 41,
        "toolManifest": [
            {"name": "ls", "description": "lists", "parameters": {"type": "object"}},
            {"name": "cat", "description": "shows", "inputSchema": {"type": "object", "properties": {}}},
        ],
    }));
    let ClientMessage::Hello(hello) = message else { panic!("{message:?}") };
    assert_eq!(hello.client_version, "jolli 0.3");
    assert_eq!((hello.workspace_root.as_str(), hello.resume_from), ("/home/me/docs", Some(Seq(41))));
    assert_eq!(hello.tool_manifest[0].parameters, json!({"type": "object"}));
    assert_eq!(hello.tool_manifest[1].parameters, json!({"type": "object", "properties": {}}));
    assert_eq!(parse(json!({"type": "hello"})), ClientMessage::Hello(Hello::default()));
}

#[test]
fn a_tool_result_becomes_an_outcome() {
    let outcome = |message| {
        let ClientMessage::ToolResult(result) = parse(message) else { panic!("not a result") };
        result.into_outcome()
    };
    let call = CallId::new("c1");
    let plain = json!({"type": "tool.result", "sessionId": "s", "toolCallId": "c1", "output": "a\nb"});
    assert_eq!(outcome(plain), (call.clone(), Outcome::ok("a\nb")));
    let failed = json!({"type": "tool.result", "toolCallId": "c1", "output": "", "error": "no such file"});
    assert_eq!(outcome(failed), (call.clone(), Outcome::failed("no such file")));
    let both = json!({"type": "tool.result", "toolCallId": "c1", "output": "half", "error": "disk full"});
    assert_eq!(outcome(both), (call.clone(), Outcome::failed("disk full\nhalf")));

    let whole = Outcome {
        exit_code: Some(3),
        truncated: true,
        duration_ms: 17,
        ..Outcome::new(Status::Timeout, "so far")
    };
    let sent = serde_json::to_value(ClientMessage::ToolResult(ToolResult::new(call.clone(), whole.clone())));
    assert_eq!(outcome(sent.unwrap()), (call, whole));
}

#[test]
fn what_is_not_for_the_session_is_no_input() {
    for message in [
        json!({"type": "hello"}),
        json!({"type": "tool.result", "toolCallId": "c1", "output": ""}),
        json!({"type": "terminal.input", "data": "\u{3}"}),
        json!({"type": "terminal.resize", "cols": 120, "rows": 40}),
        json!({"type": "heartbeat"}),
    ] {
        assert_eq!(parse(message.clone()).input("web"), None, "{message}");
    }
}

#[test]
fn the_session_may_be_named_or_not() {
    for kind in ["cancel", "pause", "resume", "retry", "clear"] {
        assert_eq!(parse(json!({"type": kind, "sessionId": "s"})).session_id(), Some(&SessionId::new("s")));
        assert_eq!(parse(json!({"type": kind})).session_id(), None);
    }
}

#[test]
fn each_message_is_read_back_as_it_is_written() {
    for message in [
        json!({"type": "hello", "sessionId": "s", "clientVersion": "1", "toolManifest":
            [{"name": "ls", "description": "", "parameters": {}}], "workspaceRoot": "/", "resumeFrom": 4}),
        json!({"type": "user.message", "sessionId": "s", "content": "x"}),
        json!({"type": "tool.result", "sessionId": "s", "toolCallId": "c", "output": "x", "error": "y"}),
        json!({"type": "approval.decision", "toolCallId": "c", "decision": "allow_session", "command": "x"}),
        json!({"type": "terminal.input", "data": "x"}),
        json!({"type": "terminal.resize", "cols": 80, "rows": 24}),
        json!({"type": "pause"}),
        json!({"type": "heartbeat"}),
    ] {
        assert_eq!(serde_json::to_value(parse(message.clone())).unwrap(), message);
    }
}

#[test]
fn what_cannot_be_read_is_told_in_one_sentence() {
    for (text, word) in [
        (r#"{"type":"teleport"}"#, "teleport"),
        (r#"{"content":"x"}"#, "type"),
        (r#"{"type":"user.message"}"#, "content"),
        (r#"{"type":"approval.decision","toolCallId":"c","decision":"maybe"}"#, "maybe"),
        (r#"{"type":"#, "EOF"),
    ] {
        let error = ClientMessage::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("this message cannot be used: ") && error.contains(word), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
