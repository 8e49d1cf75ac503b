//! Client messages: their meaning, and messages that are invalid.

use serde_json::{Value, json};
use sysop_core::event::{ConfigChange, Decision, Input, Origin};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::message::ModelRef;
use sysop_core::mode::Mode;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::question::QuestionId;

use super::{ClientMessage, Hello, QuestionReply, ToolResult};
use crate::secret::Secret;

fn parse(message: Value) -> ClientMessage {
    ClientMessage::parse(&message.to_string()).unwrap()
}

fn input(message: Value) -> Input {
    let mut inputs = parse(message).inputs("web");
    assert_eq!(inputs.len(), 1, "{inputs:?}");
    inputs.remove(0)
}

#[test]
fn each_user_message_becomes_an_input() {
    let text = "why is it slow?".to_owned();
    // A client cannot name the sender.
    assert_eq!(
        input(json!({"type": "user.message", "sessionId": "s", "content": text, "by": "root"})),
        Input::Prompt { text, images: Vec::new(), by: Some("web".to_owned()) }
    );
    assert_eq!(input(json!({"type": "cancel", "sessionId": "s"})), Input::Cancel);
    assert_eq!(input(json!({"type": "pause"})), Input::Pause);
    assert_eq!(input(json!({"type": "resume"})), Input::Resume);
    assert_eq!(input(json!({"type": "retry"})), Input::Retry);
    assert_eq!(input(json!({"type": "clear"})), Input::Clear);
}

#[test]
fn a_decision_carries_its_details() {
    let decide = |rest: Value| {
        let mut message = json!({"type": "approval.decision", "toolCallId": "c1"});
        message.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let Input::Decision { call, decision, by, .. } = input(message) else { panic!("not a decision") };
        assert_eq!((call, by.as_str()), (CallId::new("c1"), "web"));
        decision
    };
    assert_eq!(decide(json!({"decision": "allow"})), Decision::Allow { command: None });
    let edited = Decision::Allow { command: Some("ls -l".into()) };
    assert_eq!(decide(json!({"decision": "allow", "command": "ls -l"})), edited);
    assert_eq!(decide(json!({"decision": "allow_session"})), Decision::AllowSession { command: None });
    let always = decide(json!({"decision": "allow_always"}));
    assert_eq!(always, Decision::Allow { command: None }, "the rule is written by the server, before");
    let rejected = Decision::Reject { reason: "not here".into() };
    assert_eq!(decide(json!({"decision": "reject", "reason": "not here"})), rejected);
    assert_eq!(decide(json!({"decision": "reject"})), Decision::Reject { reason: String::new() });
}

#[test]
fn hello_accepts_both_forms_of_the_manifest() {
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
fn a_session_is_configured_one_change_at_a_time() {
    let inputs =
        parse(json!({"type": "configure", "model": "openai/gpt-5", "approve": "never", "mode": "chat"}))
            .inputs("web");
    let changes = [
        ConfigChange::Model(ModelRef::new("openai", "gpt-5")),
        ConfigChange::Approve(ApprovalMode::Never),
        ConfigChange::Mode(Mode::Chat),
    ];
    assert_eq!(inputs, changes.map(|change| Input::Configure { change }));
}

#[test]
fn a_direct_call_is_a_command_or_a_tool_with_its_arguments() {
    let direct = |message| {
        let Input::Direct { tool, arguments, origin, .. } = input(message) else { panic!("no direct call") };
        (tool, Value::Object(arguments), origin)
    };
    assert_eq!(
        direct(json!({"type": "direct", "command": "uptime", "origin": "typed"})),
        ("bash".to_owned(), json!({"command": "uptime"}), Origin::User)
    );
    assert_eq!(
        direct(json!({"type": "direct", "command": "uptime"})).2,
        Origin::Routine,
        "who does not say that a person typed it is asked"
    );
    assert_eq!(
        direct(
            json!({"type": "direct", "tool": "send_keys", "arguments": {"keys": "q"}, "origin": "routine"})
        ),
        ("send_keys".to_owned(), json!({"keys": "q"}), Origin::Routine)
    );
    assert_eq!(
        direct(json!({"type": "direct", "command": "uptime", "origin": "plan"})).2,
        Origin::Plan,
        "a step that the model proposed while the session was read-only"
    );
    for bad in [
        json!({"type": "direct"}),
        json!({"type": "direct", "command": "x", "tool": "bash"}),
        json!({"type": "direct", "command": "x", "arguments": {"timeout_s": 1}}),
        json!({"type": "direct", "command": "x", "origin": "model"}),
    ] {
        assert!(ClientMessage::parse(&bad.to_string()).is_err(), "{bad}");
    }
}

#[test]
fn an_answer_has_one_value_and_is_hidden_in_debug_output() {
    let answer = |message| parse(message).answer().unwrap();
    let id = QuestionId(7);
    let given = parse(json!({"type": "question.answer", "id": 7, "answer": "hunter2"}));
    assert_eq!(given.answer(), Some((id, QuestionReply::Given(Secret::from("hunter2".to_owned())))));
    assert!(!format!("{given:?} {:?}", given.answer()).contains("hunter2"));
    assert_eq!(
        answer(json!({"type": "question.answer", "id": 7, "refuse": true})),
        (id, QuestionReply::Refused)
    );
    let no_secret = json!({"type": "question.answer", "id": 7, "noSecret": true});
    assert_eq!(answer(no_secret), (id, QuestionReply::NoSecret));
    for reply in
        [QuestionReply::Given(Secret::from("x".to_owned())), QuestionReply::NoSecret, QuestionReply::Refused]
    {
        assert_eq!(ClientMessage::question_answer(id, reply.clone()).answer(), Some((id, reply)));
    }
    for bad in [
        json!({"type": "question.answer", "id": 7}),
        json!({"type": "question.answer", "id": 7, "answer": "hunter2", "refuse": true}),
        json!({"type": "question.answer", "id": 7, "answer": 48151623}),
        json!({"type": "question.answer", "id": 7, "answer": ["hunter2"]}),
        json!({"type": "question.answer", "id": 7, "answer": {"hunter2": 48151623}}),
        json!({"type": "terminal.input", "data": 48151623}),
    ] {
        let error = ClientMessage::parse(&bad.to_string()).unwrap_err().to_string();
        assert!(!error.contains("hunter2") && !error.contains("48151623"), "{error}");
    }
    let keys = parse(json!({"type": "terminal.input", "data": "hunter2"}));
    assert!(!format!("{keys:?}").contains("hunter2"), "what is typed into a terminal may be a password");
}

#[test]
fn inputs_of_front_ends_round_trip() {
    let arguments = json!({"keys": "q"}).as_object().unwrap().clone();
    let call = CallId::new("c1");
    let by = "web".to_owned();
    let direct = |origin| {
        let arguments = arguments.clone();
        Input::Direct { tool: "send_keys".into(), arguments, origin, by: Some(by.clone()) }
    };
    for input in [
        Input::Prompt { text: "go".to_owned(), images: Vec::new(), by: Some(by.clone()) },
        direct(Origin::User),
        direct(Origin::Plan),
        Input::Decision {
            call: call.clone(),
            decision: Decision::AllowSession { command: Some("x".into()) },
            by: by.clone(),
            person: None,
        },
        Input::Decision { call, decision: Decision::Reject { reason: String::new() }, by, person: None },
        Input::Configure { change: ConfigChange::Model(ModelRef::new("demo", "demo")) },
        Input::Configure { change: ConfigChange::Approve(ApprovalMode::Auto) },
        Input::Configure { change: ConfigChange::Mode(Mode::Chat) },
        Input::Cancel,
        Input::Pause,
        Input::Resume,
        Input::Retry,
        Input::Clear,
    ] {
        let message = ClientMessage::from_input(&input).unwrap();
        let read = ClientMessage::parse(&serde_json::to_string(&message).unwrap()).unwrap();
        assert_eq!(read.inputs("web"), [input]);
    }
    assert_eq!(ClientMessage::from_input(&Input::Recovered), None, "a process tells itself");
}

#[test]
fn messages_for_the_server_are_not_inputs() {
    for message in [
        json!({"type": "hello"}),
        json!({"type": "tool.result", "toolCallId": "c1", "output": ""}),
        json!({"type": "terminal.input", "data": "\u{3}"}),
        json!({"type": "terminal.resize", "cols": 120, "rows": 40}),
        json!({"type": "terminal.attach", "cols": 120, "rows": 40, "scrollback": 10000}),
        json!({"type": "terminal.attach"}),
        json!({"type": "terminal.detach"}),
        json!({"type": "terminal.release"}),
        json!({"type": "tool.output", "toolCallId": "c1", "content": "x"}),
        json!({"type": "question.answer", "id": 7, "refuse": true}),
        json!({"type": "configure"}),
        json!({"type": "heartbeat"}),
    ] {
        assert_eq!(parse(message.clone()).inputs("web"), [], "{message}");
    }
}

#[test]
fn the_session_id_is_optional() {
    for kind in ["cancel", "pause", "resume", "retry", "clear", "terminal.detach", "configure"] {
        assert_eq!(parse(json!({"type": kind, "sessionId": "s"})).session_id(), Some(&SessionId::new("s")));
        assert_eq!(parse(json!({"type": kind})).session_id(), None);
    }
}

#[test]
fn each_message_round_trips() {
    for message in [
        json!({"type": "hello", "sessionId": "s", "clientVersion": "1", "toolManifest":
            [{"name": "ls", "description": "", "parameters": {}}], "workspaceRoot": "/", "resumeFrom": 4}),
        json!({"type": "user.message", "sessionId": "s", "content": "x"}),
        json!({"type": "tool.result", "sessionId": "s", "toolCallId": "c", "output": "x", "error": "y"}),
        json!({"type": "approval.decision", "toolCallId": "c", "decision": "allow_session", "command": "x"}),
        json!({"type": "terminal.input", "data": "x"}),
        json!({"type": "terminal.resize", "cols": 80, "rows": 24}),
        json!({"type": "question.answer", "id": 7, "answer": "x"}),
        json!({"type": "question.answer", "id": 7, "noSecret": true}),
        json!({"type": "direct", "command": "uptime", "origin": "typed"}),
        json!({"type": "direct", "tool": "undo", "origin": "typed"}),
        json!({"type": "configure", "model": "ollama/phi3", "approve": "auto", "mode": "agent"}),
        json!({"type": "terminal.attach", "sessionId": "s", "cols": 80, "rows": 24}),
        json!({"type": "tool.output", "toolCallId": "c", "content": "x"}),
        json!({"type": "pause", "messageId": "m1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
        json!({"type": "heartbeat"}),
    ] {
        assert_eq!(serde_json::to_value(parse(message.clone())).unwrap(), message);
    }
}

#[test]
fn invalid_messages_are_reported_in_one_sentence() {
    for (text, word) in [
        (r#"{"type":"teleport"}"#, "teleport"),
        (r#"{"content":"x"}"#, "type"),
        (r#"{"type":"user.message"}"#, "content"),
        (r#"{"type":"approval.decision","toolCallId":"c","decision":"maybe"}"#, "maybe"),
        (r#"{"type":"#, "EOF"),
    ] {
        let error = ClientMessage::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("invalid message: ") && error.contains(word), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
