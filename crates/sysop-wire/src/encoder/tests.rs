//! Golden messages of every event and delta.

use expect_test::{Expect, expect};
use serde_json::json;
use sysop_core::event::{
    CancelFollowUp, ConfigChange, Decision, Delta, Event, Logged, Origin, PauseReason, StopReason,
};
use sysop_core::id::{CallId, JobId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::job::JobOutput;
use sysop_core::message::{Arguments, FailureKind, ModelFailure, ModelRef, Reply, ToolCall, Usage};
use sysop_core::mode::Mode;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, Finding, Grant, Risk, RiskClass};
use sysop_core::spec::SessionSpec;
use sysop_core::style::STYLE_CHANGES_MAX;
use sysop_core::text::split_styles;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};
use sysop_core::transcript::Transcript;

use super::Encoder;
use crate::json_line::to_json_line;
use crate::server_message::{ErrorCode, ServerMessage, SessionState};

fn opened() -> Event {
    Event::SessionOpened {
        spec: SessionSpec {
            model: ModelRef::new("ollama", "phi3"),
            system: "You operate a server.".into(),
            tools: vec![ToolSpec {
                name: "bash".into(),
                description: "runs".into(),
                parameters: json!({}).into(),
                effect: ToolEffect::Command,
            }],
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
            host: "web-1".into(),
            root: "/srv".into(),
            profile: "full".into(),
        }
        .into(),
        opened_by: None,
    }
}

fn turn(number: u32, prompt: &str) -> Event {
    Event::TurnStarted {
        turn: TurnId(number),
        prompt: prompt.into(),
        origin: Origin::Model,
        images: Vec::new(),
        by: None,
    }
}

fn step(number: u32) -> StepId {
    StepId { turn: TurnId(1), step: number }
}

fn call(id: &str) -> ToolCall {
    let arguments = json!({"command": "rm -rf /tmp/x"});
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(arguments.as_object().unwrap().clone()),
    }
}

fn replied(number: u32, text: &str, calls: Vec<ToolCall>) -> Event {
    let usage = Usage { input_tokens: 100, output_tokens: 7, cached_tokens: 64 };
    Event::Replied {
        step: step(number),
        reply: Reply { text: text.into(), calls, usage, ..Reply::default() },
    }
}

fn asked(id: &str) -> Event {
    let finding = Finding { start: 0, end: 6, class: RiskClass::Dangerous, why: "recursive delete".into() };
    Event::ApprovalAsked {
        call: call(id),
        command: "rm -rf /tmp/x".into(),
        reason: "make room".into(),
        risk: Risk { class: RiskClass::Dangerous, findings: vec![finding] },
        covers: Grant::Program { program: "rm".into(), subcommand: None },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    }
}

fn finished(id: &str, outcome: Outcome) -> Event {
    Event::ToolFinished { call: CallId::new(id), outcome }
}

fn ended(number: u32, reason: StopReason, error: Option<&str>) -> Event {
    Event::TurnEnded { turn: TurnId(number), reason, error: error.map(str::to_owned), active_ms: 0 }
}

fn messages(events: Vec<Event>) -> Vec<ServerMessage> {
    let mut encoder = Encoder::new(SessionId::new("s"));
    let log =
        events.into_iter().zip(1..).map(|(event, seq)| Logged { seq: Seq(seq), at: Timestamp(0), event });
    log.flat_map(|logged| encoder.encode_event(&logged)).collect()
}

/// Compares the messages of the events, one per line and without `sessionId`.
fn check(events: Vec<Event>, expected: &Expect) {
    let messages = messages(events);
    let mut lines = String::new();
    for message in &messages {
        let line = to_json_line(message);
        let back: ServerMessage = serde_json::from_str(&line).unwrap();
        assert_eq!(back, *message, "it must be read back as it was written");
        let short = line.replace(r#","sessionId":"s""#, "");
        assert_ne!(short, line, "every message names its session");
        lines.push_str(&short);
        lines.push('\n');
    }
    expected.assert_eq(&lines);
}

#[test]
fn a_turn_with_a_tool_call_is_encoded() {
    check(
        vec![
            opened(),
            turn(1, "make room"),
            Event::StepStarted { step: step(1) },
            replied(1, "I will delete it.", vec![call("c1")]),
            asked("c1"),
            Event::Decided {
                call: CallId::new("c1"),
                decision: Decision::Allow { command: Some("rm -r /tmp/x".into()) },
                by: "web".into(),
            },
            Event::ToolStarted { call: call("c1"), origin: Origin::Model },
            finished("c1", Outcome { exit_code: Some(0), duration_ms: 12, ..Outcome::ok("gone\n") }),
            Event::StepStarted { step: step(2) },
            replied(2, "Done.", vec![]),
            ended(1, StopReason::EndTurn, None),
        ],
        &expect![[r#"
            {"type":"session.created","seq":1,"more":true,"model":"ollama/phi3","approve":"ask","mode":"agent","host":"web-1","root":"/srv","profile":"full","maxIterations":20,"tools":[{"name":"bash","effect":"command"}]}
            {"type":"state","seq":1,"state":"idle","turn":0,"iteration":0,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"user.message","seq":2,"more":true,"content":"make room"}
            {"type":"state","seq":2,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"state","seq":3,"state":"thinking","turn":1,"iteration":1,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0,"event":"step_started"}
            {"type":"assistant.message","seq":4,"more":true,"content":"I will delete it."}
            {"type":"step.finished","seq":4,"iteration":1,"usage":{"inputTokens":100,"outputTokens":7,"cachedTokens":64},"toolCalls":[{"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"}}]}
            {"type":"approval.request","seq":5,"more":true,"toolCallId":"c1","name":"bash","command":"rm -rf /tmp/x","arguments":{"command":"rm -rf /tmp/x"},"reason":"make room","risk":"dangerous","findings":[{"start":0,"end":6,"class":"dangerous","why":"recursive delete"}]}
            {"type":"state","seq":5,"state":"waiting","turn":1,"iteration":1,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"approval.closed","seq":6,"toolCallId":"c1","decision":"allow","by":"web","command":"rm -r /tmp/x"}
            {"type":"tool.call","seq":7,"more":true,"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"},"origin":"model"}
            {"type":"state","seq":7,"state":"running","turn":1,"iteration":1,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"tool.finished","seq":8,"toolCallId":"c1","name":"bash","status":"ok","exitCode":0,"truncated":false,"output":"gone\n","durationMs":12}
            {"type":"state","seq":9,"state":"thinking","turn":1,"iteration":2,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0,"event":"step_started"}
            {"type":"assistant.message","seq":10,"more":true,"content":"Done."}
            {"type":"step.finished","seq":10,"iteration":2,"usage":{"inputTokens":100,"outputTokens":7,"cachedTokens":64}}
            {"type":"state","seq":11,"more":true,"state":"idle","turn":1,"iteration":2,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"assistant.done","seq":11,"metadata":{"stopReason":"end_turn","turn":1,"usage":{"inputTokens":200,"outputTokens":14,"cachedTokens":128},"iterations":2}}
        "#]],
    );
}

#[test]
fn a_reply_without_text_sends_only_its_end() {
    check(
        vec![replied(1, "", vec![call("c1")])],
        &expect![[r#"
        {"type":"step.finished","seq":1,"iteration":1,"usage":{"inputTokens":100,"outputTokens":7,"cachedTokens":64},"toolCalls":[{"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"}}]}
    "#]],
    );
}

#[test]
fn reasoning_is_sent_with_the_text() {
    let reply = Reply { reasoning: "They mean the log.".into(), ..Reply::default() };
    check(
        vec![Event::Replied { step: step(1), reply }],
        &expect![[r#"
            {"type":"assistant.message","seq":1,"more":true,"content":"","reasoning":"They mean the log."}
            {"type":"step.finished","seq":1,"iteration":1,"usage":{"inputTokens":0,"outputTokens":0,"cachedTokens":0}}
        "#]],
    );
}

#[test]
fn refused_calls_are_encoded() {
    let reject = Decision::Reject { reason: "not on this host".into() };
    check(
        vec![
            replied(1, "", vec![call("c1"), call("c2")]),
            Event::Decided { call: CallId::new("c1"), decision: reject, by: "web".into() },
            finished("c1", Outcome::new(Status::Rejected, "The person refused: not on this host")),
            finished(
                "c2",
                Outcome { truncated: true, artifact: Some("a1".into()), ..Outcome::failed("denied") },
            ),
        ],
        &expect![[r#"
            {"type":"step.finished","seq":1,"iteration":1,"usage":{"inputTokens":100,"outputTokens":7,"cachedTokens":64},"toolCalls":[{"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"}},{"toolCallId":"c2","name":"bash","arguments":{"command":"rm -rf /tmp/x"}}]}
            {"type":"approval.closed","seq":2,"toolCallId":"c1","decision":"reject","by":"web","reason":"not on this host"}
            {"type":"tool.finished","seq":3,"toolCallId":"c1","name":"bash","status":"rejected","truncated":false,"output":"The person refused: not on this host","durationMs":0}
            {"type":"tool.finished","seq":4,"toolCallId":"c2","name":"bash","status":"failed","truncated":true,"output":"denied","durationMs":0,"artefact":"a1"}
        "#]],
    );
}

#[test]
fn an_error_is_sent_once_before_the_end() {
    let failure = ModelFailure { kind: FailureKind::Unreachable, message: "nobody answers at :8000".into() };
    check(
        vec![
            turn(1, "hi"),
            Event::StepStarted { step: step(1) },
            Event::ModelFailed { step: step(1), failure },
            ended(1, StopReason::Failed, Some("nobody answers at :8000; start the model server")),
        ],
        &expect![[r#"
            {"type":"user.message","seq":1,"more":true,"content":"hi"}
            {"type":"state","seq":1,"state":"thinking","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"state","seq":2,"state":"thinking","turn":1,"iteration":1,"maxIterations":0,"approve":"ask","queued":0,"event":"step_started"}
            {"type":"step.failed","seq":3,"iteration":1,"kind":"unreachable","message":"nobody answers at :8000"}
            {"type":"error","seq":4,"more":true,"message":"nobody answers at :8000; start the model server"}
            {"type":"state","seq":4,"more":true,"state":"idle","turn":1,"iteration":1,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"assistant.done","seq":4,"metadata":{"stopReason":"failed","turn":1,"usage":{"inputTokens":0,"outputTokens":0,"cachedTokens":0},"iterations":1}}
        "#]],
    );
}

#[test]
fn stopping_a_tool_is_a_state() {
    check(
        vec![
            turn(1, "hi"),
            Event::ToolStarted { call: call("c1"), origin: Origin::Model },
            Event::CancelAsked { then: CancelFollowUp::Clear },
            finished("c1", Outcome::new(Status::Cancelled, "half")),
            ended(1, StopReason::Cancelled, None),
        ],
        &expect![[r#"
            {"type":"user.message","seq":1,"more":true,"content":"hi"}
            {"type":"state","seq":1,"state":"thinking","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"tool.call","seq":2,"more":true,"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"},"origin":"model"}
            {"type":"state","seq":2,"state":"running","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"state","seq":3,"state":"stopping","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0,"event":"cancel_asked"}
            {"type":"tool.finished","seq":4,"toolCallId":"c1","name":"bash","status":"cancelled","truncated":false,"output":"half","durationMs":0}
            {"type":"state","seq":5,"more":true,"state":"idle","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"assistant.done","seq":5,"metadata":{"stopReason":"cancelled","turn":1,"usage":{"inputTokens":0,"outputTokens":0,"cachedTokens":0},"iterations":0}}
        "#]],
    );
}

#[test]
fn a_direct_call_is_not_a_user_message_and_names_who_asked_for_it() {
    check(
        vec![
            Event::TurnStarted {
                turn: TurnId(1),
                prompt: String::new(),
                origin: Origin::User,
                images: Vec::new(),
                by: Some("bob".to_owned()),
            },
            Event::ToolStarted { call: call("c1"), origin: Origin::User },
            finished("c1", Outcome { exit_code: Some(1), ..Outcome::failed("no\n") }),
            ended(1, StopReason::Failed, None),
        ],
        &expect![[r#"
            {"type":"state","seq":1,"state":"running","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0,"event":"turn_started","origin":"typed","by":"bob"}
            {"type":"tool.call","seq":2,"toolCallId":"c1","name":"bash","arguments":{"command":"rm -rf /tmp/x"},"origin":"typed"}
            {"type":"tool.finished","seq":3,"toolCallId":"c1","name":"bash","status":"failed","exitCode":1,"truncated":false,"output":"no\n","durationMs":0}
            {"type":"state","seq":4,"more":true,"state":"idle","turn":1,"iteration":0,"maxIterations":0,"approve":"ask","queued":0}
            {"type":"assistant.done","seq":4,"metadata":{"stopReason":"failed","turn":1,"usage":{"inputTokens":0,"outputTokens":0,"cachedTokens":0},"iterations":0}}
        "#]],
    );
}

#[test]
fn prompts_name_their_senders() {
    let by = || Some("ada".to_owned());
    let started = Event::TurnStarted {
        turn: TurnId(1),
        prompt: "go".to_owned(),
        origin: Origin::Model,
        images: Vec::new(),
        by: by(),
    };
    let queued = Event::PromptQueued { text: "next".to_owned(), images: Vec::new(), by: by() };
    let sent = messages(vec![started, queued]);
    let senders: Vec<_> = sent
        .iter()
        .filter_map(|message| {
            let (ServerMessage::UserMessage { content, by, .. }
            | ServerMessage::PromptQueued { content, by, .. }) = message
            else {
                return None;
            };
            Some((content.as_str(), by.clone()))
        })
        .collect();
    assert_eq!(senders, [("go", by()), ("next", by())]);
}

#[test]
fn pauses_and_changes_are_states() {
    check(
        vec![
            opened(),
            Event::configured(ConfigChange::Model(ModelRef::new("openai", "gpt-5"))),
            Event::configured(ConfigChange::Approve(ApprovalMode::Auto)),
            Event::configured(ConfigChange::Mode(Mode::Chat)),
            turn(1, "go"),
            Event::PromptQueued { text: "and then this".into(), images: Vec::new(), by: None },
            Event::Compacted { keep: 6 },
            Event::Paused { reason: PauseReason::Loop, detail: None, active_ms: 0 },
            Event::Resumed,
            Event::HistoryCleared,
            Event::HistoryCleared,
            ended(1, StopReason::EndTurn, None),
            turn(2, "and then this"),
        ],
        &expect![[r#"
            {"type":"session.created","seq":1,"more":true,"model":"ollama/phi3","approve":"ask","mode":"agent","host":"web-1","root":"/srv","profile":"full","maxIterations":20,"tools":[{"name":"bash","effect":"command"}]}
            {"type":"state","seq":1,"state":"idle","turn":0,"iteration":0,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
            {"type":"configured","seq":2,"more":true,"model":"openai/gpt-5"}
            {"type":"state","seq":2,"state":"idle","turn":0,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"ask","queued":0}
            {"type":"configured","seq":3,"more":true,"approve":"auto"}
            {"type":"state","seq":3,"state":"idle","turn":0,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":0}
            {"type":"configured","seq":4,"mode":"chat"}
            {"type":"user.message","seq":5,"more":true,"content":"go"}
            {"type":"state","seq":5,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":0}
            {"type":"prompt.queued","seq":6,"more":true,"content":"and then this"}
            {"type":"state","seq":6,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1}
            {"type":"state","seq":7,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1,"keptMessages":6,"event":"compacted"}
            {"type":"state","seq":8,"state":"paused","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1,"pauseReason":"loop","keptMessages":6,"event":"paused"}
            {"type":"state","seq":9,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1,"keptMessages":6,"event":"resumed"}
            {"type":"state","seq":10,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1,"historyCleared":true,"event":"history_cleared"}
            {"type":"state","seq":11,"state":"thinking","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1,"historyCleared":true,"event":"history_cleared"}
            {"type":"state","seq":12,"more":true,"state":"idle","turn":1,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":1}
            {"type":"assistant.done","seq":12,"metadata":{"stopReason":"end_turn","turn":1,"usage":{"inputTokens":0,"outputTokens":0,"cachedTokens":0},"iterations":0}}
            {"type":"user.message","seq":13,"more":true,"content":"and then this"}
            {"type":"state","seq":13,"state":"thinking","turn":2,"iteration":0,"maxIterations":20,"model":"openai/gpt-5","approve":"auto","queued":0}
        "#]],
    );
}

#[test]
fn an_abandoned_turn_drops_its_pending_approval() {
    let queued = |text: &str| Event::PromptQueued { text: text.into(), images: Vec::new(), by: None };
    let last = |events: Vec<Event>| {
        messages(events).into_iter().rev().find_map(|message| {
            let ServerMessage::State { now, .. } = message else { return None };
            Some(now.queued)
        })
    };
    let given_up = ended(1, StopReason::Paused, None);
    assert_eq!(last(vec![turn(1, "a"), queued("b"), given_up, queued("b"), queued("c")]), Some(2));
    let stopping = Event::CancelAsked { then: CancelFollowUp::Nothing };
    assert_eq!(last(vec![turn(1, "a"), queued("b"), stopping, queued("c")]), Some(1));
}

#[test]
fn lent_tools_are_announced_to_present_and_later_clients() {
    let tool = ToolSpec {
        name: "cat".into(),
        description: "shows".into(),
        parameters: json!({"type": "object"}).into(),
        effect: ToolEffect::Reads,
    };
    let lent = ClientTools { tools: vec![tool], root: "/home/me".into() };
    let events = vec![
        opened(),
        Event::configured(ConfigChange::ClientTools(lent)),
        Event::configured(ConfigChange::Rules {
            dangerous: vec!["x".into()],
            deny: vec![],
            options: None,
            rules: Vec::new(),
        }),
    ];
    let mut encoder = Encoder::new(SessionId::new("s"));
    assert_eq!(encoder.hello_reply(), None);
    let mut lines = Vec::new();
    for (event, seq) in events.into_iter().zip(1..) {
        let logged = Logged { seq: Seq(seq), at: Timestamp(0), event };
        lines.extend(encoder.encode_event(&logged).iter().map(to_json_line));
    }
    lines.extend(encoder.hello_reply().iter().map(to_json_line));
    expect![[r#"
        {"type":"session.created","sessionId":"s","seq":1,"more":true,"model":"ollama/phi3","approve":"ask","mode":"agent","host":"web-1","root":"/srv","profile":"full","maxIterations":20,"tools":[{"name":"bash","effect":"command"}]}
        {"type":"state","sessionId":"s","seq":1,"state":"idle","turn":0,"iteration":0,"maxIterations":20,"model":"ollama/phi3","approve":"ask","queued":0}
        {"type":"configured","sessionId":"s","seq":2,"lent":{"tools":[{"name":"cat","effect":"reads"}],"root":"/home/me"}}
        {"type":"configured","sessionId":"s","seq":3,"rules":true}
        {"type":"session.created","sessionId":"s","model":"ollama/phi3","approve":"ask","mode":"agent","host":"web-1","root":"/srv","profile":"full","maxIterations":20,"tools":[{"name":"bash","effect":"command"}],"lent":{"tools":[{"name":"cat","effect":"reads"}],"root":"/home/me"},"lastSeq":3}"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn a_pause_starts_after_the_running_tool_ends() {
    let call = ToolCall {
        id: CallId::new("c"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(serde_json::Map::new()),
    };
    let (step, origin) = (StepId { turn: TurnId(1), step: 1 }, Origin::Model);
    let started = Event::ToolStarted { call: call.clone(), origin };
    let finished = Event::ToolFinished { call: call.id, outcome: Outcome::ok("") };
    let paused = Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 };
    let before = [turn(1, "go"), Event::StepStarted { step }];
    let last = |rest: Vec<Event>| {
        let events = before.iter().cloned().chain(rest).collect();
        messages(events).into_iter().rev().find_map(|message| {
            let ServerMessage::State { now, .. } = message else { return None };
            Some(now.state)
        })
    };
    let while_thinking = vec![paused.clone(), started.clone(), finished];
    assert_eq!(last(while_thinking), Some(SessionState::Paused), "nothing runs any more");
    assert_eq!(
        last(vec![started, paused, Event::Resumed]),
        Some(SessionState::Running),
        "the tool still runs"
    );
}

#[test]
fn an_approval_request_contains_the_whole_file_content() {
    let arguments = json!({"path": "a.sh", "content": "rm -rf ~"});
    let serde_json::Value::Object(map) = arguments.clone() else { unreachable!("written as an object") };
    let call = ToolCall {
        id: CallId::new("w"),
        wire_id: None,
        name: "write_file".into(),
        arguments: Arguments::Object(map),
    };
    let asked = Event::ApprovalAsked {
        call,
        command: "write_file a.sh".into(),
        reason: String::new(),
        risk: Risk::default(),
        covers: Grant::Tool { name: "write_file".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    };
    let request = serde_json::to_value(&messages(vec![asked])[0]).expect("it is plain data");
    assert_eq!(request["arguments"], arguments);
    assert_eq!(request["covers"], json!({"tool": {"name": "write_file"}}));
}

#[test]
fn a_canceled_turn_drops_its_pending_approval() {
    let events = vec![
        turn(1, "a"),
        Event::PromptQueued { text: "b".into(), images: Vec::new(), by: None },
        ended(1, StopReason::Cancelled, None),
    ];
    let states: Vec<u32> = messages(events)
        .into_iter()
        .filter_map(|message| {
            let ServerMessage::State { now, .. } = message else { return None };
            Some(now.queued)
        })
        .collect();
    assert_eq!(states, [0, 1, 0]);
}

#[test]
fn a_turn_counts_only_its_own_tokens() {
    let one_turn = |number| {
        vec![
            turn(number, "x"),
            Event::StepStarted { step: step(1) },
            replied(1, "y", vec![]),
            ended(number, StopReason::EndTurn, None),
        ]
    };
    let done: Vec<_> = messages([one_turn(1), one_turn(2)].concat())
        .into_iter()
        .filter_map(|message| {
            let ServerMessage::AssistantDone { metadata, .. } = message else { return None };
            Some((metadata.usage.input_tokens, metadata.iterations))
        })
        .collect();
    assert_eq!(done, [(100, 1), (100, 1)]);
}

#[test]
fn seq_increases_and_only_an_events_last_message_is_a_resume_point() {
    let events = vec![
        opened(),
        turn(1, "a"),
        asked("c1"),
        ended(1, StopReason::Failed, Some("it broke")),
        turn(2, "b"),
    ];
    let places: Vec<_> = messages(events)
        .iter()
        .map(|message| (message.position().unwrap().seq.0, message.resume_point()))
        .collect();
    let last = |seq| (seq, Some(Seq(seq)));
    let not_last = |seq| (seq, None);
    assert_eq!(
        places,
        [
            not_last(1),
            last(1),
            not_last(2),
            last(2),
            not_last(3),
            last(3),
            not_last(4),
            not_last(4),
            last(4),
            not_last(5),
            last(5),
        ]
    );
}

#[test]
fn deltas_have_no_log_position() {
    let encoder = Encoder::new(SessionId::new("s"));
    let text = "more \u{1b}[31m".to_owned();
    let lines: Vec<String> = [
        Delta::Text { step: step(1), text: text.clone() },
        Delta::Reasoning { step: step(1), text: text.clone() },
        Delta::Output { call: CallId::new("c1"), text },
        Delta::Restarted { step: step(1) },
        Delta::Notice { text: "retrying in 3 s, attempt 2 of 5: 429".into() },
    ]
    .iter()
    .map(|delta| encoder.encode_delta(delta))
    .map(|message| {
        assert_eq!(message.position(), None);
        to_json_line(&message)
    })
    .collect();
    expect![[r#"
        {"type":"assistant.delta","sessionId":"s","content":"more \u001b[31m"}
        {"type":"assistant.reasoning","sessionId":"s","content":"more \u001b[31m"}
        {"type":"tool.output","sessionId":"s","toolCallId":"c1","content":"more \u001b[31m"}
        {"type":"assistant.restarted","sessionId":"s"}
        {"type":"notice","sessionId":"s","content":"retrying in 3 s, attempt 2 of 5: 429"}"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn messages_without_an_event_are_encoded() {
    let session_id = SessionId::new("s");
    let lines: Vec<String> = [
        ServerMessage::TerminalOutput {
            session_id: session_id.clone(),
            data: "$ ".into(),
            reset: true,
            cols: Some(80),
            rows: Some(24),
            ended: None,
            instance: None,
        },
        ServerMessage::TerminalOutput {
            session_id: session_id.clone(),
            data: String::new(),
            reset: false,
            cols: None,
            rows: None,
            ended: Some("the shell exited with 0".into()),
            instance: None,
        },
        ServerMessage::ToolCancel { session_id: session_id.clone(), tool_call_id: CallId::new("c1") },
        ServerMessage::Error {
            session_id,
            position: None,
            message: "there is no call c9".into(),
            code: Some(ErrorCode::Stale),
            reply_to: Some("m1".into()),
        },
        ServerMessage::Heartbeat {},
    ]
    .iter()
    .map(|message| {
        let line = to_json_line(message);
        assert_eq!(serde_json::from_str::<ServerMessage>(&line).unwrap(), *message);
        line
    })
    .collect();
    expect![[r#"
        {"type":"terminal.output","sessionId":"s","data":"$ ","reset":true,"cols":80,"rows":24}
        {"type":"terminal.output","sessionId":"s","ended":"the shell exited with 0"}
        {"type":"tool.cancel","sessionId":"s","toolCallId":"c1"}
        {"type":"error","sessionId":"s","message":"there is no call c9","code":"stale","replyTo":"m1"}
        {"type":"heartbeat"}"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn output_styles_are_a_separate_optional_field() {
    let (output, styles) = split_styles("a \u{1b}[1;31mred\u{1b}[0m b");
    let outcome = Outcome { styles, ..Outcome::ok(output) };
    let line = to_json_line(&messages(vec![finished("c1", outcome)])[0]);
    assert!(line.contains(r#""output":"a red b","looks":[[2,"1;31"],[5,""]]"#), "{line}");
    // Messages of an older server, and of one with styles that cannot be expressed.
    let read =
        |styles: &str| match serde_json::from_str(&line.replace(r#""looks":[[2,"1;31"],[5,""]],"#, styles)) {
            Ok(ServerMessage::ToolFinished { styles, .. }) => styles,
            other => panic!("{other:?}"),
        };
    assert!(read("").is_empty());
    assert!(read(r#""looks":[[0,"8"],[1,"\u001b]0;owned\u0007"],[9,"5"]],"#).is_empty());
    let flood = vec![r#"[1,"31"],[2,"32"]"#; 9_000].join(",");
    assert!(read(&format!(r#""looks":[{flood}],"#)).changes().count() <= STYLE_CHANGES_MAX);
}

#[test]
fn a_turn_abandoned_during_a_pause_names_the_pause_reason() {
    let done = |reason, stop| {
        let events =
            vec![turn(1, "go"), Event::Paused { reason, detail: None, active_ms: 0 }, ended(1, stop, None)];
        let last = messages(events).pop().unwrap();
        let ServerMessage::AssistantDone { metadata, .. } = last else { panic!("{last:?}") };
        serde_json::to_value(metadata).unwrap()
    };
    let budget = done(PauseReason::Budget, StopReason::Paused);
    assert_eq!((&budget["stopReason"], &budget["reason"]), (&json!("paused"), &json!("budget")));
    assert_eq!(done(PauseReason::Loop, StopReason::Paused)["reason"], json!("loop"));
    assert!(done(PauseReason::Asked, StopReason::Cancelled).get("reason").is_none());
}

#[test]
fn a_finished_job_names_its_command_and_host() {
    let (job, call) = (JobId(3), CallId::new("c1"));
    let (command, host) = ("make".to_owned(), "web-1".to_owned());
    let ended =
        Event::JobFinished { job, status: Status::Ok, exit_code: Some(0), output: JobOutput::default() };
    check(
        vec![Event::JobStarted { job, call, command, host }, ended.clone(), ended],
        &expect![[r#"
            {"type":"job.started","seq":1,"jobId":3,"toolCallId":"c1","command":"make","host":"web-1"}
            {"type":"job.finished","seq":2,"jobId":3,"command":"make","host":"web-1","status":"ok","exitCode":0}
            {"type":"job.finished","seq":3,"jobId":3,"command":"","host":"","status":"ok","exitCode":0}
        "#]],
    );
}

#[test]
fn a_client_learns_that_a_call_did_not_reach_its_host() {
    let mut encoder = Encoder::new(SessionId::new("s"));
    let mut decoder = crate::Decoder::new();
    let mut far = Transcript::new();
    let events = [
        opened(),
        turn(1, "go"),
        replied(1, "", vec![call("c1")]),
        finished("c1", Outcome::unreachable("cannot reach local")),
        ended(1, StopReason::EndTurn, None),
    ];
    for (event, seq) in events.into_iter().zip(1..) {
        let logged = Logged { seq: Seq(seq), at: Timestamp(0), event };
        let updates = encoder.encode_event(&logged).into_iter().filter_map(|message| decoder.take(message));
        updates.for_each(|update| far.apply(&update));
    }
    assert_eq!(far.missed_hosts().as_deref(), Some("not done on web-1"));
}
