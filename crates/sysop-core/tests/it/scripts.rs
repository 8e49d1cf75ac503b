//! Scripts: each test sends a session inputs and compares its events.

use expect_test::{Expect, expect};
use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Event, Input, Origin};
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, FailureKind, FinishReason, Message, ModelRef, RawReply, Reply, ToolCall,
};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Activity;
use sysop_core::tool::ToolEffect;

use crate::world::{World, bash, call, calls, changed, line, says, spec, tool};

pub(crate) fn shows(world: &World, expected: Expect) {
    expected.assert_eq(&world.lines());
}

#[test]
fn an_answer_ends_the_turn() {
    let mut world = World::each();
    shows(
        world.prompt("2+2?"),
        expect![[r#"
            turn 1 Model: 2+2?
            step 1.1"#]],
    );
    shows(
        world.reply(says("4")),
        expect![[r#"
            replied "4" []
            turn 1 ended end_turn"#]],
    );
}

#[test]
fn a_command_is_proposed_run_and_reported_to_the_model() {
    let mut world = World::each();
    world.prompt("make a");
    shows(
        world.reply(calls(vec![bash("b", "touch a")])),
        expect![[r#"
            replied "" [b=bash]
            asked b: touch a covers Program { program: "touch", subcommand: None }"#]],
    );
    shows(
        world.allow(),
        expect![[r#"
            decided b Allow { command: None } by tester
            started b {"command":"touch a"}"#]],
    );
    shows(
        world.outcome(Outcome::ok("made")),
        expect![[r#"
            finished b ok: made
            step 1.2"#]],
    );
    let (_, request) = world.asked.clone().expect("the model is asked");
    let Some(Message::ToolResults { results }) = request.messages.last().map(|m| m.message()) else {
        panic!("the last message holds the results")
    };
    assert_eq!(results[0].output, "made");
}

#[test]
fn the_edited_command_runs_and_is_reported_to_the_model() {
    let mut world = World::each();
    world.prompt("make a").reply(calls(vec![bash("b", "touch a")]));
    world.decide(Decision::Allow { command: Some("touch b".to_owned()) });
    assert_eq!(world.ran[0].text_argument("command"), Some("touch b"));
    world.outcome(Outcome::ok("made"));
    let Some(Message::ToolResults { results }) = world.session.messages().last().cloned() else {
        panic!("the last message holds the results")
    };
    assert_eq!(results[0].output, "[the user changed the command before it ran, to: touch b]\nmade");
}

#[test]
fn a_denied_command_does_not_run_when_edited_in() {
    let mut world = World::each();
    world.prompt("try").reply(calls(vec![bash("b", "touch a")]));
    shows(
        world.decide(Decision::Allow { command: Some("forbidden thing".to_owned()) }),
        expect![[r#"
            decided b Allow { command: Some("forbidden thing") } by tester
            finished b rejected: denied by the rule `forbidden`; nothing ran
            step 1.2"#]],
    );
    assert!(world.ran.is_empty());
}

#[test]
fn a_denied_command_does_not_run_when_typed() {
    for origin in [Origin::User, Origin::Routine] {
        let mut world = World::auto();
        world.direct("bash", "echo a; forbidden thing", origin);
        assert!(world.ran.is_empty(), "{origin:?}");
        let lines = world.lines();
        assert!(lines.contains("rejected: denied by the rule `forbidden`"), "{lines}");
        assert!(lines.contains(r#"started direct_1 {"command":"echo a; forbidden thing"}"#), "{lines}");
        assert_eq!(world.session.activity(), Activity::Idle);
    }
}

#[test]
fn never_mode_applies_to_typed_commands_undo_and_open_proposals() {
    let mut world = World::auto();
    let write = calls(vec![call("1", "write_file", json!({"path": "a"}))]);
    world.prompt("go").reply(write).outcome(changed("a")).reply(says("ok"));
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Ask) });
    world.prompt("go").reply(calls(vec![bash("2", "touch a")]));
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Never) });
    world.allow();
    assert!(
        world.lines().contains("finished 2 rejected: denied: this session is read-only"),
        "{}",
        world.lines()
    );
    world.reply(says("ok")).direct("bash", "touch a", Origin::User).direct("undo", "", Origin::User);
    assert_eq!(world.ran.len(), 1, "only the write from before");
    world.direct("bash", "ls", Origin::User);
    assert_eq!(world.ran.len(), 2, "a read-only call needs no approval");
}

#[test]
fn keys_are_judged_by_the_text_they_type() {
    let with_keys = |mode| {
        let mut spec = spec(mode);
        spec.tools.push(tool("send_keys", ToolEffect::Keys, "keys"));
        World::new(spec)
    };
    let press = |id, keys: &str| calls(vec![call(id, "send_keys", json!({ "keys": keys }))]);
    let mut world = with_keys(ApprovalMode::Auto);
    world.prompt("go").reply(press("1", "y Enter")).outcome(Outcome::ok(""));
    assert_eq!(world.ran.len(), 1, "harmless keys need no approval");
    world.reply(press("2", "forbidden Space thing Enter"));
    assert!(
        world.lines().contains("finished 2 rejected: denied by the rule `forbidden`"),
        "{}",
        world.lines()
    );
    for (id, keys) in [
        ("3", "\"rm -rf /\" Enter"),
        ("4", "rm Space -rf Space / Enter"),
        ("5", "sudo Space rm Space -r Space x Enter"),
    ] {
        world.reply(press(id, keys));
        assert_eq!(world.waiting(), Some(CallId::new(id)), "{keys}");
        world.decide(Decision::Reject { reason: String::new() });
    }
    let mut world = with_keys(ApprovalMode::Ask);
    world.prompt("go").reply(press("1", "q")).decide(Decision::AllowSession { command: None });
    world.outcome(Outcome::ok("")).reply(press("2", "j")).outcome(Outcome::ok(""));
    assert_eq!(world.ran.len(), 2, "allowed for the session");
    world.reply(press("3", "\"rm -rf /\" Enter"));
    assert_eq!(world.waiting(), Some(CallId::new("3")), "a grant does not cover danger");
}

#[test]
fn only_a_command_can_be_edited() {
    let mut world = World::each();
    world.prompt("try").reply(calls(vec![call("w", "write_file", json!({"path": "a"}))]));
    world.decide(Decision::Allow { command: Some("touch b".to_owned()) });
    assert!(world.last.events.is_empty());
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
}

#[test]
fn a_session_grant_covers_the_same_call_only() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "./deploy a")]));
    world.decide(Decision::AllowSession { command: None }).outcome(Outcome::ok("x"));
    world.reply(calls(vec![bash("2", "./deploy a")])).outcome(Outcome::ok("y"));
    world.reply(calls(vec![bash("3", "./deploy a; ./other")]));
    assert_eq!(world.waiting(), Some(CallId::new("3")));
}

#[test]
fn a_session_grant_covers_a_file_tool() {
    let mut world = World::each();
    let write = |id| calls(vec![call(id, "write_file", json!({"path": "a"}))]);
    world.prompt("go").reply(write("1")).decide(Decision::AllowSession { command: None });
    world.outcome(Outcome::ok("OK")).reply(write("2"));
    assert_eq!(world.running.as_ref().map(|call| call.id.as_str()), Some("2"));
}

#[test]
fn auto_runs_changes_and_asks_for_dangerous_calls() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "touch a"), bash("2", "rm -rf / # x")]));
    assert_eq!(world.ran.len(), 1);
    shows(
        world.outcome(Outcome::ok("")),
        expect![[r#"
            finished 1 ok: 
            asked 2: rm -rf / # x covers Exact { command: "rm -rf / # x" }"#]],
    );
}

#[test]
fn never_runs_nothing_that_changes_anything() {
    let mut world = World::new(spec(ApprovalMode::Never));
    world.prompt("go").reply(calls(vec![
        bash("1", "touch a"),
        call("2", "write_file", json!({"path": "a"})),
        call("3", "read_file", json!({"path": "a"})),
    ]));
    assert_eq!(world.ran.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["read_file"]);
}

#[test]
fn a_task_completes_only_after_the_model_saw_its_results() {
    let done = |id| call(id, "task_complete", json!({"summary": "Done."}));
    for both in [vec![bash("1", "touch a"), done("2")], vec![done("2"), bash("1", "touch a")]] {
        let mut world = World::auto();
        world.prompt("go").reply(calls(both)).outcome(Outcome::ok(""));
        assert_eq!(world.session.activity(), Activity::Thinking, "{}", world.lines());
        let unseen = "you have not seen the result of `bash` yet; call this tool again in your next reply";
        let refused =
            |event: &Event| matches!(event, Event::ToolFinished { outcome, .. } if outcome.output == unseen);
        assert_eq!(world.log.iter().filter(|event| refused(event)).count(), 1);
        world.reply(calls(vec![done("3")]));
        assert_eq!(world.session.activity(), Activity::Idle);
    }
}

#[test]
fn a_call_that_always_asks_gets_no_session_grant() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "rm -rf /etc")]));
    world.decide(Decision::AllowSession { command: None });
    assert_eq!(world.waiting(), Some(CallId::new("1")), "the call still waits");
    world.decide(Decision::AllowSession { command: Some("rm -rf /usr".to_owned()) });
    assert_eq!(world.waiting(), Some(CallId::new("1")));
    world.allow();
    assert_eq!(world.ran.len(), 1);
}

#[test]
fn a_rejection_reaches_the_model_with_its_reason() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    shows(
        world.decide(Decision::Reject { reason: "use b".to_owned() }),
        expect![[r#"
            decided 1 Reject { reason: "use b" } by tester
            finished 1 rejected: the user rejected this call; nothing ran. Reason: use b
            step 1.2"#]],
    );
}

#[test]
fn rejecting_with_stop_ends_the_turn() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "touch a"), bash("2", "touch b")]));
    shows(
        world.decide(Decision::Reject { reason: "stop".to_owned() }),
        expect![[r#"
            decided 1 Reject { reason: "stop" } by tester
            finished 1 rejected: the user rejected this call; nothing ran. Reason: stop
            finished 2 cancelled: not run: the turn was stopped
            turn 1 ended cancelled"#]],
    );
}

#[test]
fn invalid_calls_are_reported_and_the_turn_continues() {
    let mut world = World::each();
    world.prompt("go");
    let invalid = ToolCall { arguments: Arguments::Invalid("{\"a\"".to_owned()), ..bash("2", "") };
    shows(
        world.reply(calls(vec![
            call("1", "fly", json!({})),
            invalid,
            call("3", "bash", json!({"command": 7})),
            call("4", "read_file", json!({})),
        ])),
        expect![[r#"
            replied "" [1=fly 2=bash 3=bash 4=read_file]
            finished 1 failed: unknown tool `fly`; available: read_file, write_file, bash, task_complete
            finished 2 failed: the arguments of `bash` are not a JSON object; nothing ran
            finished 3 failed: invalid arguments of `bash`: command: 7 is not of type "string"; nothing ran
            finished 4 failed: invalid arguments of `read_file`: "path" is a required property; nothing ran
            step 1.2"#]],
    );
}

#[test]
fn of_two_calls_with_one_id_the_first_runs() {
    let mut world = World::auto();
    world.prompt("go");
    let raw = RawReply { model: ModelRef::new("demo", "demo"), value: json!({}) };
    let reply = Reply { raw: Some(raw), ..calls(vec![bash("x", "touch a"), bash("x", "touch b")]) };
    world.reply(reply).outcome(Outcome::ok("made"));
    shows(
        &world,
        expect![[r#"
            finished x ok: made
            finished x_2 failed: not run: another call in this reply has the same id
            step 1.2"#]],
    );
    assert_eq!(world.ran.len(), 1);
    let Some(Message::Assistant { reply }) = world.session.messages().nth(1).cloned() else {
        panic!("a reply")
    };
    assert_eq!(reply.raw, None, "the provider's form has ambiguous ids");
}

#[test]
fn a_call_id_reused_in_a_later_step_is_distinguished() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("call_0", "touch a")])).outcome(Outcome::ok("1"));
    world.reply(calls(vec![bash("call_0", "touch b")]));
    let running = world.running.clone().expect("it runs");
    assert_eq!((running.id.as_str(), running.wire_id()), ("call_0_2", "call_0"));
}

#[test]
fn calls_without_ids_get_generated_ids() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("", "touch a"), bash("", "touch b")]));
    world.outcome(Outcome::ok("1"));
    assert_eq!(
        world.ran.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
        ["call_1_1_0", "call_1_1_1"]
    );
}

#[test]
fn the_same_call_with_the_same_result_three_times_pauses() {
    let mut world = World::auto();
    world.prompt("go");
    for id in ["1", "2"] {
        world.reply(calls(vec![bash(id, "systemctl is-active x")])).outcome(Outcome::ok("no"));
        assert_eq!(world.session.activity(), Activity::Thinking);
    }
    world.reply(calls(vec![bash("3", "systemctl is-active x")]));
    shows(
        world.outcome(Outcome::ok("no")),
        expect![[r#"
            finished 3 ok: no
            paused Loop"#]],
    );
    assert_eq!(world.tell(Input::Resume).lines(), "resumed\nstep 1.4");
}

#[test]
fn max_iterations_ends_the_turn() {
    let mut spec = spec(ApprovalMode::Auto);
    spec.max_iterations = 2;
    let mut world = World::new(spec);
    world.prompt("go").reply(calls(vec![bash("1", "touch a")])).outcome(Outcome::ok("1"));
    world.reply(calls(vec![bash("2", "touch b")]));
    shows(
        world.outcome(Outcome::ok("2")),
        expect![[r#"
            finished 2 ok: 2
            turn 1 ended max_iterations: stopped after 2 model calls (max_iterations); send `continue` to resume"#]],
    );
}

#[test]
fn pausing_waits_for_the_end_of_the_step() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "touch a"), bash("2", "touch b")]));
    shows(world.tell(Input::Pause), expect!["paused Asked"]);
    world.outcome(Outcome::ok("1"));
    assert_eq!(world.session.activity(), Activity::Running, "the step has a second call");
    world.outcome(Outcome::ok("2"));
    assert_eq!(world.session.activity(), Activity::Paused);
    assert_eq!(world.tell(Input::Resume).lines(), "resumed\nstep 1.2");
}

#[test]
fn stopping_waits_for_the_tool_and_keeps_its_output() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make"), bash("2", "touch b")]));
    shows(world.tell(Input::Cancel), expect!["cancel asked, then Nothing"]);
    shows(
        world.outcome(Outcome::new(Status::Cancelled, "half")),
        expect![[r#"
            finished 1 cancelled: half
            finished 2 cancelled: not run: the turn was stopped
            turn 1 ended cancelled"#]],
    );
}

#[test]
fn a_prompt_that_comes_while_a_tool_is_being_stopped_is_kept() {
    let ends = [
        Input::Outcome { call: CallId::new("1"), outcome: Outcome::new(Status::Cancelled, "half") },
        Input::Timer { call: CallId::new("1") },
    ];
    for end in ends {
        let mut world = World::auto();
        world.prompt("go").reply(calls(vec![bash("1", "make")])).prompt("no more").tell(Input::Cancel);
        world.prompt("else");
        world.running = None;
        world.tell(end);
        let after = world.lines().split_once('\n').expect("more than the end of the tool").1.to_owned();
        assert_eq!(after, "turn 1 ended cancelled\nqueued else\nturn 2 Model: else\nstep 2.1");
    }
}

#[test]
fn the_newest_of_two_stop_requests_counts() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).tell(Input::Cancel).tell(Input::Clear);
    assert!(world.last.effects.is_empty(), "the tool is stopped once");
    let end = Outcome::new(Status::Cancelled, "");
    assert_eq!(world.outcome(end).lines(), "finished 1 cancelled: \nturn 1 ended cancelled\ncleared");
    world.prompt("go").reply(calls(vec![bash("2", "make")])).tell(Input::Cancel).prompt("else");
    world.tell(Input::Cancel).outcome(Outcome::new(Status::Cancelled, ""));
    assert_eq!(world.session.activity(), Activity::Idle, "the prompt between them was stopped too");
}

#[test]
fn a_tool_that_does_not_stop_is_abandoned() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).tell(Input::Cancel);
    let input = Input::Timer { call: CallId::new("1") };
    world.running = None;
    shows(
        world.tell(input),
        expect![[r#"
            finished 1 unknown: the call did not stop within 10 s; outcome unknown
            turn 1 ended cancelled"#]],
    );
}

#[test]
fn stopping_a_model_call_ends_the_turn_at_once() {
    let mut world = World::each();
    world.prompt("go");
    shows(world.tell(Input::Cancel), expect!["turn 1 ended cancelled"]);
    assert!(world.asked.is_none());
}

#[test]
fn stopping_closes_an_open_approval() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "make")]));
    shows(
        world.tell(Input::Cancel),
        expect![[r#"
            decided 1 Reject { reason: "the turn was stopped" } by sysop
            finished 1 cancelled: not run: the turn was stopped
            turn 1 ended cancelled"#]],
    );
}

#[test]
fn a_prompt_keeps_its_sender_while_queued_and_when_retried() {
    let mut world = World::each();
    let say = |text: &str, by: &str| Input::Prompt {
        text: text.to_owned(),
        images: Vec::new(),
        by: Some(by.to_owned()),
    };
    world.tell(say("one", "ada")).tell(say("two", "bob")).reply(says("1")).reply(says("2"));
    world.tell(Input::Retry).reply(says("2")).prompt("three");
    let senders: Vec<(&str, &str, Option<&str>)> = world
        .log
        .iter()
        .filter_map(|event| match event {
            Event::PromptQueued { text, by, .. } => Some(("queued", text.as_str(), by.as_deref())),
            Event::TurnStarted { prompt, by, .. } => Some(("started", prompt.as_str(), by.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(
        senders,
        [
            ("started", "one", Some("ada")),
            ("queued", "two", Some("bob")),
            ("started", "two", Some("bob")),
            ("started", "two", Some("bob")),
            ("started", "three", None),
        ]
    );
}

#[test]
fn a_prompt_waits_for_the_end_of_a_turn() {
    let mut world = World::each();
    world.prompt("one");
    shows(world.prompt("two"), expect!["queued two"]);
    shows(
        world.reply(says("1")),
        expect![[r#"
            replied "1" []
            turn 1 ended end_turn
            turn 2 Model: two
            step 2.1"#]],
    );
}

#[test]
fn only_its_sender_takes_a_queued_prompt_back() {
    let mut world = World::each();
    let (by, text) = (|name: &str| Some(name.to_owned()), "two".to_owned());
    world.prompt("one").prompt("two").prompt("three");
    world.tell(Input::Prompt { text: text.clone(), images: Vec::new(), by: by("ada") });
    shows(world.tell(Input::WithdrawPrompt { text: text.clone(), by: by("bob") }), expect![""]);
    shows(world.tell(Input::WithdrawPrompt { text: text.clone(), by: by("ada") }), expect!["withdrawn two"]);
    shows(world.tell(Input::WithdrawPrompt { text: text.clone(), by: by("ada") }), expect![""]);
    shows(world.tell(Input::WithdrawPrompt { text, by: None }), expect!["withdrawn two"]);
    shows(
        world.reply(says("1")),
        expect![[r#"
            replied "1" []
            turn 1 ended end_turn
            turn 2 Model: three
            step 2.1"#]],
    );
    shows(world.tell(Input::WithdrawPrompt { text: "three".to_owned(), by: None }), expect![""]);
}

#[test]
fn retry_runs_the_last_prompt_with_a_fresh_history() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).tell(Input::Retry);
    shows(
        world.outcome(Outcome::new(Status::Cancelled, "")),
        expect![[r#"
            finished 1 cancelled: 
            turn 1 ended cancelled
            cleared
            turn 2 Model: go
            step 2.1"#]],
    );
    assert_eq!(world.asked.as_ref().map(|(_, request)| request.messages.len()), Some(1));
}

#[test]
fn an_overflow_shortens_the_history_and_retries() {
    let mut world = World::each();
    for n in 0..6 {
        world.prompt(&format!("p{n}")).reply(says("ok"));
    }
    world.prompt("last");
    shows(
        world.fail(FailureKind::ContextOverflow),
        expect![[r#"
            model failed ContextOverflow
            compacted to 6
            step 7.2"#]],
    );
    let (_, request) = world.asked.clone().expect("asked");
    assert!(request.trimmed && request.messages.len() <= 6);
}

#[test]
fn a_model_error_ends_the_turn_with_its_message() {
    let mut world = World::each();
    world.prompt("go");
    shows(
        world.fail(FailureKind::Auth),
        expect![[r#"
            model failed Auth
            turn 1 ended failed: the turn failed"#]],
    );
}

#[test]
fn an_empty_reply_is_retried_once() {
    let mut world = World::each();
    world.prompt("go");
    shows(
        world.reply(says("")),
        expect![[r#"
            replied "" []
            step 1.2"#]],
    );
    shows(
        world.reply(says(" ")),
        expect![[r#"
            replied " " []
            turn 1 ended failed: the model returned an empty answer twice; retry or use another model"#]],
    );
}

#[test]
fn the_empty_reply_hint_is_not_repeated_after_progress() {
    let mut world = World::auto();
    world.prompt("go").reply(says(""));
    let sent = |world: &World| world.asked.as_ref().expect("the model is asked").1.messages.clone();
    assert_eq!(sent(&world).len(), 2, "the prompt, and the notice about the empty reply");
    world.reply(calls(vec![bash("1", "make")])).outcome(Outcome::ok("made"));
    let last = sent(&world).last().expect("messages").message().clone();
    assert!(matches!(last, Message::ToolResults { .. }), "{last:?}");
    assert_eq!(world.reply(says("")).lines(), "replied \"\" []\nstep 1.4", "once more in a row is allowed");
    assert!(world.reply(says("")).lines().ends_with("turn 1 ended end_turn"));
}

#[test]
fn a_truncated_answer_and_a_refusal_are_reported() {
    let mut world = World::each();
    world.prompt("go").reply(Reply { finish: FinishReason::Length, ..says("so f") });
    assert!(world.lines().ends_with("ended end_turn: the reply was cut off at the token limit"));
    world.prompt("go").reply(Reply { finish: FinishReason::Refused, ..says("I may not") });
    assert!(world.lines().ends_with("ended failed: the model refused the request: I may not"));
}

#[test]
fn task_complete_ends_the_turn_with_its_summary() {
    let mut world = World::each();
    world.prompt("go");
    shows(
        world.reply(calls(vec![call("c", "task_complete", json!({"summary": "all well"}))])),
        expect![[r#"
            replied "" [c=task_complete]
            finished c ok: all well
            turn 1 ended end_turn"#]],
    );
}

#[test]
fn a_typed_command_runs_without_a_model_and_stays_out_of_the_history() {
    let mut world = World::each();
    shows(
        world.direct("bash", "uptime", Origin::User),
        expect![[r#"
            turn 1 User: 
            started direct_1 {"command":"uptime"}"#]],
    );
    shows(
        world.outcome(Outcome { exit_code: Some(3), ..Outcome::failed("no") }),
        expect![[r#"
            finished direct_1 failed: no
            turn 1 ended failed: the command exited with code 3"#]],
    );
    assert_eq!(world.session.messages().count(), 0);
}

#[test]
fn a_routine_needs_approval() {
    let mut world = World::each();
    shows(
        world.direct("bash", "touch a", Origin::Routine),
        expect![[r#"
            turn 1 Routine: 
            asked direct_1: touch a covers Program { program: "touch", subcommand: None }"#]],
    );
    shows(
        world.allow().outcome(Outcome::ok("")),
        expect![[r#"
            finished direct_1 ok: 
            turn 1 ended end_turn"#]],
    );
    world.direct("bash", "touch b", Origin::Routine);
    shows(
        world.decide(Decision::Reject { reason: String::new() }),
        expect![[r#"
            decided direct_2 Reject { reason: "" } by tester
            finished direct_2 rejected: the user rejected this call; nothing ran
            turn 2 ended cancelled"#]],
    );
}

#[test]
fn undo_reverts_one_turn_at_a_time() {
    let mut world = World::auto();
    let write = |id| calls(vec![call(id, "write_file", json!({"path": "a"}))]);
    world.prompt("one").reply(write("1")).outcome(changed("a")).reply(says("ok"));
    world.prompt("two").reply(write("2")).outcome(changed("b")).reply(write("3")).outcome(changed("c"));
    world.reply(says("ok"));
    let paths = |world: &World| {
        let call = world.running.clone().expect("undo runs");
        let value = call.arguments.to_value();
        let paths = value["changes"].as_array().expect("changes").iter();
        paths.map(|change| change["path"].as_str().expect("a path").to_owned()).collect::<Vec<_>>()
    };
    world.direct("undo", "", Origin::User);
    assert_eq!(paths(&world), ["b", "c"]);
    world.outcome(Outcome::failed("b was changed since")).direct("undo", "", Origin::User);
    assert_eq!(paths(&world), ["b", "c"], "a failed call can be retried");
    world.outcome(Outcome::ok("")).direct("undo", "", Origin::User);
    assert_eq!(paths(&world), ["a"]);
    world.outcome(Outcome::ok("")).direct("undo", "", Origin::User);
    assert!(world.lines().ends_with("ended failed: nothing to undo in this session"));
}

#[test]
fn after_a_crash_running_calls_are_interrupted_and_the_turn_pauses() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make"), bash("2", "make install")])).crash();
    shows(
        &world,
        expect![[r#"
            finished 1 interrupted: sysop exited while this was running; outcome unknown, not retried
            paused Interrupted"#]],
    );
    assert_eq!(world.ran.len(), 1);
    world.tell(Input::Resume);
    assert_eq!(world.ran[1].id.as_str(), "2");
}

#[test]
fn after_a_crash_an_open_approval_still_waits() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).crash();
    assert!(world.last.events.is_empty());
    world.allow();
    assert_eq!(world.ran.len(), 1);
}

#[test]
fn after_a_crash_a_lost_model_call_is_repeated_only_on_resume() {
    let mut world = World::each();
    world.prompt("go").crash();
    shows(
        &world,
        expect![[r#"
            model failed Unreachable
            paused Interrupted"#]],
    );
    assert_eq!(world.tell(Input::Resume).lines(), "resumed\nstep 1.2");
}

#[test]
fn a_new_prompt_abandons_a_paused_turn() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make"), bash("2", "x")])).crash();
    shows(
        world.prompt("else"),
        expect![[r#"
            finished 2 cancelled: not run: the turn was stopped
            turn 1 ended paused
            queued else
            turn 2 Model: else
            step 2.1"#]],
    );
}

#[test]
fn a_direct_call_abandons_a_paused_turn() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).prompt("later").crash();
    shows(
        world.direct("bash", "uptime", Origin::User),
        expect![[r#"
            turn 1 ended paused
            turn 2 User: 
            queued later
            started direct_2 {"command":"uptime"}"#]],
    );
    assert!(world.outcome(Outcome::ok("")).lines().ends_with("turn 3 Model: later\nstep 3.1"));
}

#[test]
fn added_rules_are_kept() {
    let mut world = World::auto();
    let rules = || ConfigChange::Rules {
        dangerous: vec!["deploy".to_owned()],
        deny: vec!["halt".to_owned()],
        options: None,
        rules: Vec::new(),
    };
    world.tell(Input::Configure { change: rules() });
    world.tell(Input::Configure { change: rules() });
    assert!(world.last.events.is_empty(), "nothing new");
    world.prompt("go").reply(calls(vec![bash("1", "halt"), bash("2", "forbidden"), bash("3", "./deploy")]));
    assert!(world.ran.is_empty());
    assert_eq!(world.waiting(), Some(CallId::new("3")));
}

#[test]
fn the_model_and_the_mode_can_be_changed() {
    let mut world = World::each();
    world.tell(Input::Configure { change: ConfigChange::Model(ModelRef::new("ollama", "phi3")) });
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Auto) });
    world.prompt("go");
    assert_eq!(world.asked.as_ref().map(|(_, r)| r.model.to_string()), Some("ollama/phi3".to_owned()));
    world.reply(calls(vec![bash("1", "touch a")]));
    assert!(world.running.is_some());
}

#[test]
fn every_event_round_trips() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "make")])).allow().tell(Input::Cancel);
    world.outcome(Outcome::new(Status::Cancelled, "")).prompt("again").crash().tell(Input::Resume);
    world.tell(Input::Clear);
    for event in &world.log {
        let text = serde_json::to_string(event).expect("events are plain data");
        let back: sysop_core::event::Event = serde_json::from_str(&text).expect("and read back");
        assert_eq!(&back, event, "{}", line(event));
    }
}
