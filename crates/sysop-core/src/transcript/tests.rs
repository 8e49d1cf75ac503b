//! Transcripts as tables; a replay gives the same items as live updates.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::approval::ApprovalTerms;
use crate::event::{CancelFollowUp, ConfigChange, TypedInput};
use crate::guard::{GuardEnd, GuardTimeout};
use crate::id::{JobId, Timestamp};
use crate::job::JobOutput;
use crate::message::{Arguments, FailureKind, ModelFailure, ModelRef};
use crate::mode::Mode;
use crate::policy::{ApprovalMode, Grant, Risk};
use crate::tool::{ToolEffect, ToolSpec};
use crate::ui_text;

mod participants;
mod pending;
mod proposals;

fn tool(name: &str, effect: ToolEffect) -> ToolSpec {
    ToolSpec { name: name.into(), description: "".into(), parameters: json!({}).into(), effect }
}

fn spec() -> SessionSpec {
    SessionSpec {
        model: ModelRef::new("demo", "one"),
        system: String::new(),
        tools: vec![tool("bash", ToolEffect::Command), tool("task_complete", ToolEffect::Completes)],
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
        profile: "full".into(),
    }
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    let serde_json::Value::Object(map) = arguments else { panic!("arguments are an object") };
    ToolCall { id: CallId::new(id), wire_id: None, name: name.into(), arguments: Arguments::Object(map) }
}

fn bash(id: &str, command: &str) -> ToolCall {
    call(id, "bash", json!({ "command": command }))
}

fn step(turn: u32, step: u32) -> StepId {
    StepId { turn: TurnId(turn), step }
}

fn started(turn: u32, prompt: &str) -> Event {
    turn_started(turn, prompt, Origin::User)
}

fn turn_started(turn: u32, prompt: &str, origin: Origin) -> Event {
    Event::TurnStarted { turn: TurnId(turn), prompt: prompt.into(), origin, images: Vec::new(), by: None }
}

fn ended(turn: u32, reason: StopReason) -> Event {
    Event::TurnEnded { turn: TurnId(turn), reason, error: None, active_ms: 0 }
}

fn replied(at: StepId, text: &str, calls: Vec<ToolCall>) -> Event {
    let usage = Usage { input_tokens: 10, output_tokens: 2, cached_tokens: 0 };
    Event::Replied { step: at, reply: Reply { text: text.into(), calls, usage, ..Reply::default() } }
}

fn asked(call: &ToolCall) -> Event {
    Event::ApprovalAsked {
        command: call.text_argument("command").unwrap_or_default().into(),
        call: call.clone(),
        reason: "because".into(),
        risk: Risk::default(),
        covers: Grant::Exact { command: "x".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    }
}

fn decided(id: &str, decision: Decision) -> Event {
    Event::Decided { call: CallId::new(id), decision, by: "tui".into() }
}

fn finished(id: &str, outcome: Outcome) -> Event {
    Event::ToolFinished { call: CallId::new(id), outcome }
}

#[test]
fn denied_calls_of_a_read_only_session_are_proposed_steps_until_they_run() {
    let denied = || Outcome::new(Status::Rejected, crate::policy::READ_ONLY_REFUSAL);
    let calls = vec![bash("1", "touch a"), bash("2", "touch b"), bash("3", "ls")];
    let mut steps: Vec<Step> = vec![
        Event::SessionOpened { spec: spec().into(), opened_by: None }.into(),
        started(1, "go").into(),
        replied(step(1, 1), "", calls).into(),
        finished("1", denied()).into(),
        finished("2", denied()).into(),
        finished("3", Outcome::ok("a")).into(),
        ended(1, StopReason::EndTurn).into(),
    ];
    let proposed = |steps: &[Step]| {
        let transcript = live(steps);
        transcript.proposed_steps().iter().map(|step| step.command.clone()).collect::<Vec<_>>()
    };
    assert_eq!(proposed(&steps), ["touch a", "touch b"]);
    steps.extend([
        turn_started(2, "", Origin::Routine).into(),
        Event::ToolStarted { call: bash("4", "touch a"), origin: Origin::Routine }.into(),
        finished("4", Outcome::ok("")).into(),
        ended(2, StopReason::EndTurn).into(),
    ]);
    assert_eq!(proposed(&steps), ["touch b"]);
    steps.push(started(3, "something else").into());
    assert_eq!(proposed(&steps), Vec::<String>::new());
}

fn text(at: StepId, piece: &str) -> Step {
    Step::Delta(Delta::Text { step: at, text: piece.into() })
}

/// One update; events get their number later.
#[derive(Debug, Clone)]
enum Step {
    Event(Box<Event>),
    Delta(Delta),
}

impl From<Event> for Step {
    fn from(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}

fn live(steps: &[Step]) -> Transcript {
    let mut transcript = Transcript::new();
    let mut seq = Seq(0);
    for step in steps {
        transcript.apply(&match step {
            Step::Event(event) => {
                seq = seq.next();
                Update::Logged(Arc::new(Logged { seq, at: Timestamp(0), event: Event::clone(event) }))
            }
            Step::Delta(delta) => Update::Delta(delta.clone()),
        });
    }
    transcript
}

fn replay(steps: &[Step]) -> Transcript {
    let events: Vec<Step> = steps.iter().filter(|step| matches!(step, Step::Event(_))).cloned().collect();
    live(&events)
}

fn drawn(transcript: &Transcript) -> String {
    let mut out = String::new();
    for item in transcript.items() {
        let live = if item.live_only { " (live)" } else { "" };
        let body = match &item.body {
            ItemBody::Prompt(prompt) => prompt.text.clone(),
            ItemBody::Reasoning(text) | ItemBody::Answer(text) => format!("{:?} {:?}", text.state, text.text),
            ItemBody::Proposal(plan) => {
                format!("{:?} {:?} from {:?}", plan.command, plan.state, plan.edited_from)
            }
            ItemBody::ToolOutput(output) => match &output.outcome {
                Some(outcome) => {
                    format!("{} {} {:?}", output.tool, outcome.status.as_str(), outcome.output)
                }
                None => format!("{} … {:?}", output.tool, output.tail),
            },
            ItemBody::Notice(notice) => format!("{:?} {}", notice.weight, notice.text),
            ItemBody::End(end) => format!(
                "{} {:?} {}+{} tokens, {} steps",
                end.reason.as_str(),
                end.error,
                end.usage.input_tokens,
                end.usage.output_tokens,
                end.iterations
            ),
        };
        writeln!(out, "{}{live}: {body}", item.id).expect("writing to a string");
    }
    writeln!(out, "{:?}", transcript.phase()).expect("writing to a string");
    out
}

fn check(steps: Vec<Step>, expected: Expect) {
    expected.assert_eq(&drawn(&live(&steps)));
}

fn open() -> Step {
    Event::SessionOpened { spec: spec().into(), opened_by: None }.into()
}

#[test]
fn the_logged_text_replaces_the_streamed_text() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "hello").into(),
            Event::StepStarted { step: at }.into(),
            text(at, "Hi "),
            text(at, "the"),
        ],
        expect![[r#"
            prompt-1: hello
            answer-1.1 (live): Streaming "Hi the"
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
    check(
        vec![
            open(),
            started(1, "hello").into(),
            Event::StepStarted { step: at }.into(),
            text(at, "Hi "),
            replied(at, "Hi there", Vec::new()).into(),
            text(at, "late"),
            ended(1, StopReason::EndTurn).into(),
        ],
        expect![[r#"
            prompt-1: hello
            answer-1.1: Whole "Hi there"
            end-1: end_turn None 10+2 tokens, 1 steps
            Idle
        "#]],
    );
}

#[test]
fn a_restarted_reply_removes_its_streamed_text() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "hello").into(),
            Event::StepStarted { step: at }.into(),
            text(at, "Hi th"),
            Step::Delta(Delta::Restarted { step: at }),
            text(at, "Good d"),
        ],
        expect![[r#"
            prompt-1: hello
            answer-1.1 (live): Streaming "Good d"
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn stopping_lasts_until_the_tool_ends() {
    let mut steps = vec![
        open(),
        started(1, "x").into(),
        Event::ToolStarted { call: bash("c1", "sleep 9"), origin: Origin::Model }.into(),
        Event::CancelAsked { then: CancelFollowUp::Nothing }.into(),
    ];
    assert_eq!(live(&steps).phase(), &SessionPhase::Stopping);
    steps.push(finished("c1", Outcome::new(Status::Cancelled, "")).into());
    assert_eq!(live(&steps).phase(), &SessionPhase::Stopping);
    steps.push(ended(1, StopReason::Cancelled).into());
    assert_eq!(live(&steps).phase(), &SessionPhase::Idle);
}

#[test]
fn streamed_text_that_becomes_a_call_is_removed() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "disk?").into(),
            Event::StepStarted { step: at }.into(),
            text(at, "{\"type\":\"shell\""),
            replied(at, "", vec![bash("c1", "df -h")]).into(),
        ],
        expect![[r#"
            prompt-1: disk?
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn an_approval_goes_from_waiting_to_edited_to_its_output() {
    let (at, ask) = (step(1, 1), bash("c1", "rm -r x"));
    let mut steps = vec![
        open(),
        started(1, "clean").into(),
        Event::StepStarted { step: at }.into(),
        replied(at, "I will clean.", vec![ask.clone()]).into(),
        asked(&ask).into(),
    ];
    check(
        steps.clone(),
        expect![[r#"
            prompt-1: clean
            answer-1.1: Whole "I will clean."
            plan-c1: "rm -r x" Waiting from None
            AwaitingApproval { call: CallId("c1") }
        "#]],
    );
    steps.extend([
        decided("c1", Decision::Allow { command: Some("rm -ri x".into()) }).into(),
        Event::ToolStarted { call: bash("c1", "rm -ri x"), origin: Origin::Model }.into(),
        Step::Delta(Delta::Output { call: CallId::new("c1"), text: "gone\n".into() }),
    ]);
    check(
        steps.clone(),
        expect![[r#"
            prompt-1: clean
            answer-1.1: Whole "I will clean."
            plan-c1: "rm -ri x" Allowed { by: Person("tui"), scope: Once } from Some("rm -r x")
            output-c1: bash … "gone\n"
            Running { call: CallId("c1") }
        "#]],
    );
    steps.extend([
        finished("c1", Outcome::ok("gone")).into(),
        Step::Delta(Delta::Output { call: CallId::new("c1"), text: "late\n".into() }),
    ]);
    check(
        steps,
        expect![[r#"
            prompt-1: clean
            answer-1.1: Whole "I will clean."
            plan-c1: "rm -ri x" Allowed { by: Person("tui"), scope: Once } from Some("rm -r x")
            output-c1: bash ok "gone"
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn calls_that_the_session_answers_are_not_rejected() {
    let own = |id: &str, name: &str| ToolCall { name: name.to_owned(), ..bash(id, "x") };
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: step(1, 1) }.into(),
            replied(step(1, 1), "", vec![own("c1", "todo"), own("c2", "read_output")]).into(),
            finished("c1", Outcome::ok("0 of 1 done")).into(),
            finished("c2", Outcome::ok("line 1")).into(),
        ],
        expect![[r#"
            prompt-1: x
            plan-c2: "read_output(\"x\")" Allowed { by: Policy, scope: Once } from None
            output-c2: read_output ok "line 1"
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn calls_that_do_not_run_show_the_reason() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: at }.into(),
            replied(at, "", vec![bash("c1", "a"), bash("c2", "b")]).into(),
            asked(&bash("c1", "a")).into(),
            decided("c1", Decision::Reject { reason: "not now".into() }).into(),
            finished("c1", Outcome::new(Status::Rejected, "rejected: not now")).into(),
            finished("c2", Outcome::new(Status::Rejected, "denied by the policy")).into(),
            ended(1, StopReason::Cancelled).into(),
        ],
        expect![[r#"
            prompt-1: x
            plan-c1: "a" Rejected { by: Person("tui"), reason: "not now" } from None
            output-c1: bash rejected "rejected: not now"
            plan-c2: "b" Rejected { by: Policy, reason: "" } from None
            output-c2: bash rejected "denied by the policy"
            end-1: cancelled None 10+2 tokens, 1 steps
            Idle
        "#]],
    );
}

#[test]
fn a_completing_call_becomes_an_answer() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: at }.into(),
            replied(at, "", vec![call("c1", "task_complete", json!({ "summary": "all done" }))]).into(),
            finished("c1", Outcome::ok("")).into(),
            ended(1, StopReason::EndTurn).into(),
        ],
        expect![[r#"
            prompt-1: x
            summary-c1: Whole "all done"
            end-1: end_turn None 10+2 tokens, 1 steps
            Idle
        "#]],
    );
}

#[test]
fn a_failed_step_keeps_streamed_text_and_shows_the_reason() {
    let at = step(1, 1);
    let failure = ModelFailure { kind: FailureKind::Unreachable, message: "nobody answers at x".into() };
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: at }.into(),
            text(at, "I thi"),
            Step::Delta(Delta::Notice { text: "retrying in 3 s, attempt 2 of 5: 429".into() }),
            Event::ModelFailed { step: at, failure }.into(),
            ended(1, StopReason::Failed).into(),
        ],
        expect![[r#"
            prompt-1: x
            answer-1.1 (live): Broken "I thi"
            end-1: failed Some("nobody answers at x") 0+0 tokens, 1 steps
            Idle
        "#]],
    );
}

#[test]
fn a_tool_that_ends_during_a_pause_leaves_the_turn_paused() {
    let call = bash("c1", "make");
    let paused = SessionPhase::Paused { reason: PauseReason::Asked };
    let mut steps: Vec<Step> = vec![
        open(),
        started(1, "go").into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }.into(),
        replied(step(1, 1), "", vec![call.clone()]).into(),
        Event::ToolStarted { call, origin: Origin::Model }.into(),
        finished("c1", Outcome::ok("made")).into(),
    ];
    assert_eq!(live(&steps).phase(), &paused);
    steps.push(Event::Resumed.into());
    assert_eq!(live(&steps).phase(), &SessionPhase::Thinking { step: step(1, 1) });
}

#[test]
fn a_proposal_still_waits_when_a_pause_is_requested() {
    let call = bash("c1", "make");
    let mut steps: Vec<Step> = vec![
        open(),
        started(1, "go").into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        replied(step(1, 1), "", vec![call.clone()]).into(),
        asked(&call).into(),
        Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }.into(),
    ];
    assert!(live(&steps).waiting().is_some());
    let mut resumed = steps.clone();
    resumed.push(Event::Resumed.into());
    assert!(live(&resumed).waiting().is_some());
    steps.push(Event::ToolStarted { call: call.clone(), origin: Origin::Model }.into());
    assert_eq!(live(&steps).phase(), &SessionPhase::Running { call: call.id.clone() });
    let mut finished_first = steps.clone();
    finished_first.push(finished("c1", Outcome::ok("made")).into());
    assert_eq!(live(&finished_first).phase(), &SessionPhase::Paused { reason: PauseReason::Asked });
    steps.push(Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }.into());
    assert_eq!(live(&steps).still_running(), Some(call.id.clone()));
    steps.push(Event::Resumed.into());
    assert_eq!(live(&steps).phase(), &SessionPhase::Running { call: call.id });
}

#[test]
fn pauses_stops_and_changes_produce_notices() {
    let mut transcript = live(&[
        open(),
        started(1, "x").into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        Event::configured(ConfigChange::Model(ModelRef::new("demo", "two"))).into(),
        Event::configured(ConfigChange::Approve(ApprovalMode::Auto)).into(),
        Event::configured(ConfigChange::Mode(Mode::Chat)).into(),
        Event::Paused { reason: PauseReason::Loop, detail: None, active_ms: 0 }.into(),
    ]);
    expect![[r#"
        prompt-1: x
        notice-4: Note model set to demo/two
        notice-5: Note approval mode set to `auto`
        notice-6: Note chat mode: the next turn has no tools
        notice-7: Warning paused: the model repeated the same call 3 times; rephrase the task
        Paused { reason: Loop }
    "#]]
    .assert_eq(&drawn(&transcript));
    let facts = transcript.session_info().expect("the session was opened");
    assert_eq!((facts.model.to_string().as_str(), facts.approve), ("demo/two", ApprovalMode::Auto));
    assert_eq!(facts.mode, Mode::Chat);
    transcript.stopping();
    assert_eq!(transcript.phase(), &SessionPhase::Stopping);
}

#[test]
fn a_duplicate_event_is_ignored() {
    let logged = Update::Logged(Arc::new(Logged {
        seq: Seq(3),
        at: Timestamp(0),
        event: replied(step(1, 1), "x", Vec::new()),
    }));
    let mut transcript = Transcript::new();
    transcript.apply(&logged);
    transcript.apply(&logged);
    assert_eq!(transcript.usage().input_tokens, 10);
    assert_eq!(transcript.items().len(), 1);
}

#[test]
fn every_growing_collection_is_bounded() {
    let at = step(1, 1);
    let run = bash("c1", "yes");
    let mut steps = vec![open(), started(1, "x").into(), Event::StepStarted { step: at }.into()];
    steps.extend((0..LIVE_ITEMS_MAX + 50).map(|n| Step::Delta(Delta::Notice { text: n.to_string() })));
    steps.extend((0..40).map(|_| text(at, &"é".repeat(32 * 1024))));
    let transcript = live(&steps);
    let Some(ItemBody::Answer(answer)) = transcript.item(&ItemId::Answer(at)).map(|item| &item.body) else {
        panic!("the answer is streaming")
    };
    assert_eq!(answer.text.len(), LIVE_TEXT_BYTES_MAX);
    assert_eq!(transcript.items().filter(|item| item.live_only).count(), LIVE_ITEMS_MAX);

    let mut steps =
        vec![open(), started(1, "x").into(), Event::ToolStarted { call: run, origin: Origin::User }.into()];
    steps.extend((0..100).map(|n| {
        Step::Delta(Delta::Output { call: CallId::new("c1"), text: format!("{n:04}\u{e9}").repeat(300) })
    }));
    let transcript = live(&steps);
    let Some(ItemBody::ToolOutput(output)) =
        transcript.item(&ItemId::ToolOutput(CallId::new("c1"))).map(|item| &item.body)
    else {
        panic!("the output is there")
    };
    assert!(output.tail.len() <= LIVE_OUTPUT_BYTES_MAX);
    assert!(output.tail.ends_with("0099é"));
    assert_eq!(output.skipped_bytes + output.tail.len() as u64, 100 * 300 * 6);
}

/// A log with long text of every kind, well above the limits.
fn long_log(turns: u32) -> Vec<Logged> {
    let mut events = vec![Event::SessionOpened { spec: spec().into(), opened_by: None }];
    for turn in 1..=turns {
        let at = step(turn, 1);
        let id = format!("c{turn}");
        let write =
            call(&id, "write_file", json!({ "path": "a", "content": format!("{turn} ").repeat(2_000) }));
        let answer = Reply {
            text: format!("answer {turn} ").repeat(500),
            calls: vec![write.clone()],
            ..Reply::default()
        };
        let outcome = Outcome::ok(format!("output {turn}\n").repeat(1_000));
        events.extend([
            started(turn, &format!("prompt {turn} ").repeat(100)),
            Event::StepStarted { step: at },
            Event::Replied { step: at, reply: answer },
            Event::ToolStarted { call: write, origin: Origin::Model },
            finished(&id, outcome),
            ended(turn, StopReason::EndTurn),
        ]);
    }
    (1..).zip(events).map(|(seq, event)| Logged { seq: Seq(seq), at: Timestamp(0), event }).collect()
}

fn folded(log: &[Logged]) -> Transcript {
    let mut transcript = Transcript::new();
    log.iter().for_each(|logged| transcript.apply(&Update::Logged(Arc::new(logged.clone()))));
    transcript
}

/// Returns an item's content, truncated or not.
fn said(item: &Item) -> String {
    format!("{:?}", item.body)
}

#[test]
fn items_remain_and_dropped_text_is_backfilled() {
    let log = long_log(400);
    let whole: Vec<Item> =
        log[1..].chunks(6).flat_map(|turn| folded(turn).items().cloned().collect::<Vec<_>>()).collect();
    let mut transcript = folded(&log);
    assert_eq!(transcript.items().len(), 400 * 5);
    let retained: usize = transcript.items().map(|item| said(item).len()).sum();
    let prompts: usize = 400 * 1_500;
    assert!(retained < TEXTS_BYTES_MAX + prompts + 2_000 * 600, "{retained} bytes are retained");
    let short = |transcript: &Transcript| {
        transcript.items().filter(|item| item.retention == Retention::Truncated).count()
    };
    assert!(short(&transcript) > 500);
    assert!(
        transcript
            .items()
            .filter(|item| matches!(item.body, ItemBody::Prompt(_)))
            .all(|item| said(item).len() > 900)
    );
    // Reading anywhere restores the text there, and only there.
    for at in [0, 3, 450, 451] {
        let id = transcript.at(at).unwrap().id.clone();
        if transcript.at(at).unwrap().retention != Retention::Truncated {
            continue;
        }
        let mut recall = transcript.backfill(&id).expect("it is short");
        let read = log.iter().position(|logged| recall.apply(logged)).expect("it comes to its end");
        assert!(read < log.len() / 2, "{read}");
        transcript.restore_items(recall.items());
        let item = transcript.item(&id).unwrap();
        let original = whole.iter().find(|item| item.id == id).unwrap();
        assert_eq!((item.retention, said(item)), (Retention::Backfilled, said(original)));
        assert!(transcript.backfill(&id).is_none());
        assert!(transcript.items().filter(|item| item.retention == Retention::Backfilled).count() <= 64);
    }
    // Further events do not truncate restored items, and the end is whole.
    let first =
        transcript.items().find(|item| item.retention == Retention::Backfilled).map(|item| item.id.clone());
    let next = log.len() as u64 + 1;
    let more = Logged { seq: Seq(next), at: Timestamp(0), event: Event::HistoryCleared };
    transcript.apply(&Update::Logged(Arc::new(more)));
    assert!(
        first.is_some_and(|id| transcript
            .item(&id)
            .is_some_and(|item| item.retention == Retention::Backfilled))
    );
    assert!(transcript.items().rev().take(50).all(|item| item.retention == Retention::Whole));
}

#[test]
fn short_text_is_one_line() {
    let forms = [
        call_summary(&call("c", "read_file", json!({ "path": "src/main.py" }))),
        call_summary(&call("c", "edit_file", json!({ "path": "src/main.py", "old_string": "a" }))),
        call_summary(&call("c", "write_file", json!({ "path": "a\"\n\u{1b}[2J" }))),
        call_summary(&call("c", "ls", json!({}))),
        call_summary(&call("c", "bash", json!({ "command": "df", "reasoning": "look" }))),
        call_summary(&bash("c", &"x".repeat(100))),
    ];
    expect![[r#"
        read_file("src/main.py")
        edit_file("src/main.py", ...)
        write_file("a\"\n\u001b[2J")
        ls()
        bash("df")
        bash("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…)"#]]
    .assert_eq(&forms.join("\n"));
}

/// Generates events and deltas in any order, well-formed or not. They share few ids, so that they affect each other.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![Just("c1"), Just("c2"), Just("done")];
    let at = (1..3u32, 1..3u32).prop_map(|(turn, n)| step(turn, n));
    let calls = prop_oneof![
        Just(Vec::new()),
        Just(vec![bash("c1", "ls"), bash("c2", "pwd")]),
        Just(vec![call("done", "task_complete", json!({ "summary": "ok" }))]),
    ];
    let reason = prop_oneof![
        Just(StopReason::EndTurn),
        Just(StopReason::Cancelled),
        Just(StopReason::Failed),
        Just(StopReason::Paused)
    ];
    let decision = prop_oneof![
        Just(Decision::Allow { command: None }),
        Just(Decision::Allow { command: Some("ls -l".into()) }),
        Just(Decision::AllowSession { command: None }),
        Just(Decision::Reject { reason: "no".into() })
    ];
    let failure = ModelFailure { kind: FailureKind::Auth, message: "no key".into() };
    let event = prop_oneof![
        (1..3u32, "[a-z]{0,3}").prop_map(|(turn, prompt)| started(turn, &prompt)),
        at.clone().prop_map(|step| Event::StepStarted { step }),
        (at.clone(), "[a-z]{0,3}", calls).prop_map(|(at, text, calls)| replied(at, &text, calls)),
        at.clone().prop_map(move |step| Event::ModelFailed { step, failure: failure.clone() }),
        id.clone().prop_map(|id| asked(&bash(id, "ls"))),
        (id.clone(), decision).prop_map(|(id, decision)| decided(id, decision)),
        id.clone().prop_map(|id| Event::ToolStarted { call: bash(id, "ls"), origin: Origin::Model }),
        id.clone().prop_map(|id| finished(id, Outcome::ok("out"))),
        Just(Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }),
        Just(Event::Resumed),
        Just(Event::CancelAsked { then: CancelFollowUp::Nothing }),
        Just(Event::HistoryCleared),
        (1..3u32, reason).prop_map(|(turn, reason)| ended(turn, reason)),
    ];
    let at_again = at.clone();
    let delta = prop_oneof![
        (at.clone(), "[a-z]{1,3}").prop_map(|(step, text)| Delta::Text { step, text }),
        (at, "[a-z]{1,3}").prop_map(|(step, text)| Delta::Reasoning { step, text }),
        (id, "[a-z]{1,3}").prop_map(|(id, text)| Delta::Output { call: CallId::new(id), text }),
        "[a-z]{1,3}".prop_map(|text| Delta::Notice { text }),
        at_again.prop_map(|step| Delta::Restarted { step }),
    ];
    let step = prop_oneof![3 => event.prop_map(Step::from), 2 => delta.prop_map(Step::Delta)];
    proptest::collection::vec(step, 0..60).prop_map(|mut steps| {
        steps.insert(0, open());
        steps.push(ended(9, StopReason::EndTurn).into());
        steps
    })
}

fn logged_part(transcript: &Transcript) -> Vec<(String, ItemBody)> {
    let mut items: Vec<(String, ItemBody)> = transcript
        .items()
        .filter(|item| !item.live_only)
        .map(|item| (item.id.to_string(), item.body.clone()))
        .collect();
    for (_, body) in &mut items {
        // A tool that never finished in the log has a tail that only the live view saw.
        if let ItemBody::ToolOutput(output) = body {
            output.tail.clear();
            output.skipped_bytes = 0;
        }
    }
    items
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn replay_equals_the_live_transcript_after_the_turn(steps in steps()) {
        let (live, replay) = (live(&steps), replay(&steps));
        prop_assert_eq!(logged_part(&live), logged_part(&replay));
        prop_assert!(replay.items().all(|item| !item.live_only));
        prop_assert_eq!(live.phase(), replay.phase());
        prop_assert_eq!(live.phase(), &SessionPhase::Idle);
        prop_assert_eq!(live.usage(), replay.usage());
        prop_assert_eq!(live.iteration(), replay.iteration());
    }

    #[test]
    fn item_ids_are_unique(steps in steps()) {
        let live = live(&steps);
        let ids: std::collections::HashSet<&ItemId> = live.items().map(|item| &item.id).collect();
        prop_assert_eq!(ids.len(), live.items().len());
    }
}

#[test]
fn events_without_an_item_become_notices_in_order() {
    let (job, call) = (JobId(1), CallId::new("c"));
    check(
        vec![
            Event::JobStarted { job, call: call.clone(), command: "make".into(), host: "web1".into() }.into(),
            Event::GuardArmed { call: call.clone(), host: "web1".into(), seconds: 120 }.into(),
            Event::GuardEnded { call, host: "web1".into(), how: GuardEnd::Fired }.into(),
            Event::JobFinished { job, status: Status::Ok, exit_code: Some(0), output: JobOutput::default() }
                .into(),
        ],
        expect![[r#"
            notice-2: Note guard armed on web1: rolls back in 120 s unless confirmed
            notice-3: Warning guard on web1 fired: change rolled back
            notice-4: Note job 1 ended: ok, exit code 0
            Idle
        "#]],
    );
}

#[test]
fn a_proposal_has_its_preview_and_its_guard() {
    let call = bash("a", "ufw enable");
    let Event::ApprovalAsked { call, command, reason, risk, covers, .. } = asked(&call) else { panic!() };
    let (preview, guarded) = (vec!["+ deny in".to_owned()], Some(GuardTimeout { seconds: 120 }));
    let asked = Event::ApprovalAsked {
        call,
        command,
        reason,
        risk,
        covers,
        preview,
        guarded,
        scope: None,
        terms: Default::default(),
    };
    let transcript = live(&[open(), asked.into()]);
    let plan = transcript.waiting().unwrap();
    assert_eq!((plan.preview.as_slice(), plan.guarded), (&["+ deny in".to_owned()][..], guarded));
}
