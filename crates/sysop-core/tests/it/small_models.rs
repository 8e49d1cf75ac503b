//! Rules that help small models: one call at a time, hints, evidence, and usage after a failure.

use expect_test::expect;
use sysop_core::event::Input;
use sysop_core::message::{Message, Reply, ToolProtocol};
use sysop_core::outcome::Outcome;

use crate::scripts::shows;
use crate::world::{World, bash, calls, says};

#[test]
fn a_small_model_that_repeats_itself_is_told_to_answer_without_tools() {
    let mut world = World::auto();
    world.prompt("go");
    for id in ["1", "2"] {
        let reply = Reply { protocol: ToolProtocol::Text, ..calls(vec![bash(id, "uptime")]) };
        world.reply(reply).outcome(Outcome::ok("up"));
    }
    let (_, request) = world.asked.clone().expect("asked");
    assert!(request.tools.is_empty());
    let Some(Message::ToolResults { results }) = request.messages.last().map(|m| m.message()) else {
        panic!("the last message holds the results")
    };
    assert!(results[0].output.ends_with("do something else, or answer now]"), "{}", results[0].output);
}

#[test]
fn in_the_text_protocol_only_the_first_call_of_a_reply_counts() {
    let mut world = World::auto();
    world.prompt("go");
    let two = || calls(vec![bash("1", "touch a"), bash("2", "touch b")]);
    world.reply(Reply { protocol: ToolProtocol::Text, ..two() });
    shows(
        world.outcome(Outcome::ok("made")),
        expect![[r#"
            finished 1 ok: made
            step 1.2"#]],
    );
    let mut native = World::auto();
    native.prompt("go").reply(two()).outcome(Outcome::ok("made"));
    assert!(native.lines().contains("started 2"), "{}", native.lines());
}

#[test]
fn a_claim_without_any_call_is_asked_for_its_evidence_once() {
    let mut world = World::auto();
    world.prompt("create a.txt").reply(says("The file a.txt has been created."));
    let (_, request) = world.asked.clone().expect("the turn continues");
    let last = request.messages.last().map(|message| message.message().clone());
    assert!(
        matches!(&last, Some(Message::User { text, .. }) if text.contains("nothing has been done")),
        "{last:?}"
    );
    shows(
        world.reply(says("The file a.txt has been created.")),
        expect![[r#"
            replied "The file a.txt has been created." []
            turn 1 ended end_turn"#]],
    );
    // After a call, and in later turns, a claim may report what was done.
    let mut world = World::auto();
    world.prompt("create a.txt").reply(calls(vec![bash("1", "touch a.txt")])).outcome(Outcome::ok(""));
    world.reply(says("The file a.txt has been created."));
    assert!(world.lines().ends_with("turn 1 ended end_turn"), "{}", world.lines());
    world.prompt("what did you do?").reply(says("The file a.txt has been created."));
    assert!(world.lines().ends_with("turn 2 ended end_turn"), "{}", world.lines());
}

#[test]
fn failing_alike_leads_to_a_hint_then_to_calls_as_text_then_to_a_question() {
    let mut world = World::auto();
    world.prompt("go");
    let fail = |world: &mut World, number: u32| {
        let command = format!("touch /wrong/{number}");
        world.reply(calls(vec![bash(&number.to_string(), &command)]));
        world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed("touch: no such directory") });
    };
    let hinted = |world: &World| {
        let (_, request) = world.asked.clone().expect("asked");
        let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message())
        else {
            panic!("the last message holds the results")
        };
        (results[0].output.ends_with("then take another approach]"), request.calls_as_text)
    };
    fail(&mut world, 1);
    assert_eq!(hinted(&world), (false, false));
    fail(&mut world, 2);
    assert_eq!(hinted(&world), (true, false));
    fail(&mut world, 3);
    assert_eq!(hinted(&world), (true, true));
    fail(&mut world, 4);
    fail(&mut world, 5);
    assert!(world.lines().ends_with("paused Loop"), "{}", world.lines());
    world.tell(Input::Resume);
    let (_, request) = world.asked.clone().expect("asked");
    assert!(!request.calls_as_text, "counted from the start");
}

#[test]
fn failures_without_a_message_or_with_another_one_do_not_add_up() {
    let mut world = World::auto();
    world.prompt("go");
    for number in 1..=8 {
        let message = if number % 2 == 0 { format!("error {number}") } else { "[exit code 1]".to_owned() };
        world.reply(calls(vec![bash(&number.to_string(), &format!("grep {number} a"))]));
        world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed(message) });
        assert!(!world.lines().contains("paused"), "{}", world.lines());
    }
}

#[test]
fn a_missing_program_adds_one_line_to_the_result() {
    let mut world = World::auto();
    world.prompt("go").reply(calls(vec![bash("1", "jq . a.json")]));
    world.outcome(Outcome {
        exit_code: Some(127),
        ..Outcome::failed("bash: line 1: jq: command not found\n")
    });
    let (_, request) = world.asked.clone().expect("asked");
    let Some(Message::ToolResults { results }) = request.messages.last().map(|last| last.message()) else {
        panic!("the last message holds the results")
    };
    assert_eq!(
        results[0].output,
        "bash: line 1: jq: command not found\n[jq is not installed: use another program, or the shell itself]"
    );
}
