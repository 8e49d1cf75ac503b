//! Updates and the messages that editors get for them.

use std::sync::Arc;

use serde_json::{Value, json};
use sysop_core::event::{Delta, Event, Logged, Origin, PauseReason, Update};
use sysop_core::id::{CallId, Seq, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::{Outcome, Status};

use super::UpdateEncoder;

const STEP: StepId = StepId { turn: TurnId(1), step: 1 };

/// An encoder with the log that it reads.
#[derive(Default)]
struct Rig {
    encoder: UpdateEncoder,
    seq: u64,
}

impl Rig {
    /// Returns a rig whose first turn waits for its model.
    fn thinking() -> Self {
        let mut rig = Self::default();
        rig.event(started());
        rig.event(Event::StepStarted { step: STEP });
        rig
    }

    fn event(&mut self, event: Event) -> Vec<Value> {
        self.logged(event, false)
    }

    fn logged(&mut self, event: Event, replay: bool) -> Vec<Value> {
        self.seq += 1;
        let logged = Logged { seq: Seq(self.seq), at: Timestamp(0), event };
        self.encoder.apply(&Update::Logged(Arc::new(logged)), replay)
    }

    fn delta(&mut self, delta: Delta) -> Vec<Value> {
        self.encoder.apply(&Update::Delta(delta), false)
    }

    fn text(&mut self, text: &str) -> Vec<Value> {
        self.delta(Delta::Text { step: STEP, text: text.into() })
    }

    fn reply(&mut self, text: &str, calls: Vec<ToolCall>) -> Vec<Value> {
        self.event(Event::Replied {
            step: STEP,
            reply: Reply { text: text.into(), calls, ..Reply::default() },
        })
    }
}

fn started() -> Event {
    Event::TurnStarted {
        turn: TurnId(1),
        prompt: "look\naround".into(),
        origin: Origin::Model,
        images: Vec::new(),
        by: None,
    }
}

fn bash(command: &str) -> ToolCall {
    let Value::Object(arguments) = json!({ "command": command }) else {
        unreachable!("the message is an object")
    };
    ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(arguments),
    }
}

/// Returns the text of the messages of one kind, joined.
fn texts(messages: &[Value], kind: &str) -> String {
    let of_kind = messages.iter().filter(|message| message["sessionUpdate"] == kind);
    of_kind.map(|message| message["content"]["text"].as_str().unwrap_or_default()).collect()
}

#[test]
fn streamed_text_is_sent_once_and_neutralized() {
    let mut rig = Rig::thinking();
    let mut sent = rig.text("Hel\u{1b}[3");
    sent.extend(rig.text("1mlo\r"));
    sent.extend(rig.reply("Hel\u{1b}[31mlo\r\n!", Vec::new()));
    assert_eq!(texts(&sent, "agent_message_chunk"), "Hel\\x1b[31mlo\n!");
    assert!(sent.iter().all(|message| message["messageId"] == "answer-1.1"), "one message: {sent:?}");
}

#[test]
fn a_reply_that_differs_from_its_stream_becomes_a_new_message() {
    let mut rig = Rig::thinking();
    rig.text("One th");
    rig.delta(Delta::Restarted { step: STEP });
    let mut sent = rig.text("Another");
    sent.extend(rig.reply("Another thing.", Vec::new()));
    assert_eq!(texts(&sent, "agent_message_chunk"), "Another thing.");
    assert!(sent.iter().all(|message| message["messageId"] == "answer-1.1-1"), "{sent:?}");
    let mut rig = Rig::thinking();
    rig.text("Wrong");
    let sent = rig.reply("Right.", Vec::new());
    assert_eq!(texts(&sent, "agent_message_chunk"), "Right.");
    assert_eq!(sent[0]["messageId"], "answer-1.1-1");
}

#[test]
fn prompts_are_sent_only_in_a_replay_and_the_first_names_the_session() {
    let mut rig = Rig::default();
    let sent = rig.event(started());
    assert_eq!(sent, [json!({ "sessionUpdate": "session_info_update", "title": "look" })]);
    let mut rig = Rig::default();
    let sent = rig.logged(started(), true);
    assert_eq!(texts(&sent, "user_message_chunk"), "look\naround");
}

#[test]
fn a_call_is_announced_once_and_ends_with_its_output() {
    let mut rig = Rig::thinking();
    rig.reply("", vec![bash("ls")]);
    let sent = rig.event(Event::ToolStarted { call: bash("ls"), origin: Origin::Model });
    assert_eq!(
        (&sent[0]["sessionUpdate"], &sent[0]["toolCallId"], &sent[0]["title"], &sent[0]["status"]),
        (&json!("tool_call"), &json!("c1"), &json!("ls"), &json!("in_progress"))
    );
    rig.delta(Delta::Output { call: CallId::new("c1"), text: "a\n".into() });
    let output = rig.encoder.take_output().expect("there is output");
    assert_eq!(output["content"][0]["content"]["text"], "```console\na\n```");
    assert_eq!(rig.encoder.take_output(), None, "the output was already sent");
    let outcome = Outcome { exit_code: Some(0), ..Outcome::ok("a\nb\n") };
    let sent = rig.event(Event::ToolFinished { call: CallId::new("c1"), outcome });
    assert_eq!(
        (&sent[0]["sessionUpdate"], &sent[0]["status"]),
        (&json!("tool_call_update"), &json!("completed"))
    );
    assert_eq!(sent[0]["content"][0]["content"]["text"], "```console\na\nb\n```");
}

#[test]
fn a_refused_call_is_shown_as_failed() {
    let mut rig = Rig::thinking();
    rig.reply("", vec![bash("rm x")]);
    let sent = rig.event(Event::ToolFinished { call: CallId::new("c1"), outcome: Outcome::failed("denied") });
    let kinds: Vec<_> = sent.iter().map(|message| &message["sessionUpdate"]).collect();
    assert_eq!(kinds, ["tool_call", "tool_call_update"]);
    assert_eq!(sent[1]["status"], "failed");
}

#[test]
fn a_pause_says_how_to_go_on() {
    let mut rig = Rig::thinking();
    let sent = rig.event(Event::Paused { reason: PauseReason::Loop, detail: None, active_ms: 0 });
    assert!(texts(&sent, "agent_message_chunk").contains("Send /continue"), "{sent:?}");
}

#[test]
fn an_interruption_says_if_a_command_was_running() {
    let paused = || Event::Paused { reason: PauseReason::Interrupted, detail: None, active_ms: 0 };
    let mut thinking = Rig::thinking();
    let sent = thinking.event(paused());
    let text = texts(&sent, "agent_message_chunk");
    assert!(text.contains("sysop exited during this turn; no command was running. Send"), "{text}");
    let mut running = Rig::thinking();
    let call = bash("make");
    running.reply("", vec![call.clone()]);
    running.event(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
    running.event(Event::ToolFinished {
        call: call.id,
        outcome: Outcome::new(Status::Interrupted, "outcome unknown"),
    });
    let sent = running.event(paused());
    let text = texts(&sent, "agent_message_chunk");
    assert!(text.contains("the running command may not have finished. Send"), "{text}");
}
