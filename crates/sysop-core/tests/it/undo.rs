//! Undo of commands: which step a user means, the approval of the plan, and what the log says afterwards.

use serde_json::{Map, Value, json};
use sysop_core::event::{Decision, Effect, Event, Input, Origin};
use sysop_core::guard::GuardTimeout;
use sysop_core::id::CallId;
use sysop_core::outcome::{FileChange, Outcome, Reversibility};
use sysop_core::policy::{GuardOffer, RiskClass, Survey, UndoOffer};
use sysop_core::session::Activity;
use sysop_core::undo::{UndoRecord, UndoRights};

use crate::world::{World, bash, calls};

/// Returns the outcome of a command with a record.
fn recorded(id: &str) -> Outcome {
    let record = UndoRecord { id: id.to_owned(), host: String::new(), rights: UndoRights::Own };
    Outcome { records: vec![record], undo: Some(Reversibility::Exact), ..Outcome::ok("") }
}

/// Runs commands of a user: the first and the third can be undone.
fn world() -> World {
    let mut world = World::auto();
    world.direct("bash", "echo 1 >a", Origin::User).outcome(recorded("r1"));
    world.direct("bash", "true", Origin::User).outcome(Outcome::ok(""));
    world.direct("bash", "echo 3 >a", Origin::User).outcome(recorded("r3"));
    world.survey.undo = UndoOffer::Offered { lines: vec!["restore /a".to_owned()] };
    world
}

fn undo(world: &mut World, arguments: &Value) {
    undo_by(world, arguments, None);
}

fn undo_by(world: &mut World, arguments: &Value, by: Option<&str>) {
    let by = by.map(str::to_owned);
    let arguments = arguments.as_object().cloned().unwrap_or_else(Map::new);
    world.tell(Input::Direct { tool: "undo".to_owned(), arguments, origin: Origin::User, by });
}

/// Returns the command and the plan of the latest approval.
fn asked(world: &World) -> (String, Vec<String>) {
    let found = world.log.iter().rev().find_map(|event| match event {
        Event::ApprovalAsked { command, preview, .. } => Some((command.clone(), preview.clone())),
        _ => None,
    });
    found.expect("a person is asked")
}

fn running(world: &World) -> Value {
    world.running.clone().expect("undo runs").arguments.to_value()
}

#[test]
fn an_undo_shows_its_plan_and_runs_once_it_is_allowed() {
    let mut world = world();
    undo(&mut world, &json!({}));
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
    assert_eq!(asked(&world), ("undo call 3".to_owned(), vec!["restore /a".to_owned()]));
    assert!(world.running.is_none());
    world.allow();
    let wanted = json!({ "step": 3, "call": "direct_3", "records": [{ "id": "r3", "rights": "own" }], "undoes": "echo 3 >a" });
    assert_eq!(running(&world), wanted);
    world.outcome(recorded("r4"));
    let undone = world.last.events.iter().find_map(|event| match event {
        Event::Undone { call, how, .. } => Some((call.clone(), *how)),
        _ => None,
    });
    assert_eq!(undone, Some((CallId::new("direct_3"), Reversibility::Exact)));
}

#[test]
fn an_undo_names_the_user_who_asked_for_it_and_the_number_of_the_step() {
    let mut world = world();
    undo_by(&mut world, &json!({ "step": 1 }), Some("bob"));
    let asked_by = world.last.events.iter().find_map(|event| match event {
        Event::TurnStarted { by, .. } => by.clone(),
        _ => None,
    });
    assert_eq!(asked_by.as_deref(), Some("bob"));
    world.allow();
    world.outcome(recorded("r4"));
    let undone = |world: &World| {
        world.last.events.iter().find_map(|event| match event {
            Event::Undone { step, by, .. } => Some((*step, by.clone())),
            _ => None,
        })
    };
    assert_eq!(undone(&world), Some((Some(1), "bob".to_owned())));
    undo(&mut world, &json!({ "step": 3 }));
    world.allow();
    world.outcome(recorded("r5"));
    assert_eq!(undone(&world), Some((Some(3), "tester".to_owned())), "the name is that of this turn");
}

#[test]
fn a_plan_that_is_not_exact_says_so() {
    let exact =
        |lines: &[&str]| UndoOffer::Offered { lines: lines.iter().map(|&line| line.to_owned()).collect() };
    let mut world = World::auto();
    let partly = Outcome { undo: Some(Reversibility::Partly), ..recorded("r1") };
    world.direct("bash", "echo 1 >a; reload-it", Origin::User).outcome(partly);
    world.survey.undo = exact(&["restore /a"]);
    undo(&mut world, &json!({}));
    let (_, plan) = asked(&world);
    assert_eq!(plan, ["restore /a", "not exact: other effects of the command, such as on processes, remain"]);
    world.allow();
    world.outcome(Outcome { undo: Some(Reversibility::Partly), ..recorded("r2") });
    world.survey.undo =
        exact(&["restore /a", "not exact: /b: its content was not saved and cannot be restored"]);
    undo(&mut world, &json!({ "step": 1 }));
    assert_eq!(asked(&world).1.len(), 2, "the host has said why");
}

#[test]
fn an_undo_that_may_lock_people_out_is_guarded_or_says_that_it_is_not() {
    let asked = |world: &World| {
        let found = world.log.iter().rev().find_map(|event| match event {
            Event::ApprovalAsked { risk, guarded, .. } => Some((risk.clone(), *guarded)),
            _ => None,
        });
        found.expect("a person is asked")
    };
    let mut world = world();
    world.guard = GuardOffer::Offered { seconds: 90 };
    undo(&mut world, &json!({}));
    let (risk, guarded) = asked(&world);
    assert_eq!((risk.class, guarded), (RiskClass::Lockout, Some(GuardTimeout { seconds: 90 })));
    world.allow();
    assert_eq!(world.guards.last(), Some(&Some(GuardTimeout { seconds: 90 })));
    world.outcome(recorded("r4"));

    world.guard = GuardOffer::Refused { why: "there is no timer".to_owned() };
    undo(&mut world, &json!({}));
    let (risk, guarded) = asked(&world);
    assert_eq!((risk.class, guarded), (RiskClass::Lockout, None));
    assert!(risk.findings[0].why.contains("NOT guarded"), "{risk:?}");
    world.guard = GuardOffer::Offered { seconds: 90 };
    world.allow();
    assert_eq!(
        world.guards.last(),
        Some(&Some(GuardTimeout { seconds: 90 })),
        "a guard that is possible is used"
    );
}

#[test]
fn an_undo_whose_guard_is_gone_after_the_approval_asks_again() {
    let mut world = world();
    world.guard = GuardOffer::Offered { seconds: 90 };
    undo(&mut world, &json!({}));
    world.guard = GuardOffer::Refused { why: "there is no timer".to_owned() };
    world.allow();
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
    assert!(world.running.is_none());
}

#[test]
fn the_next_undo_goes_further_back_and_an_undo_is_undone_by_its_number() {
    let mut world = world();
    undo(&mut world, &json!({}));
    world.allow().outcome(recorded("r4"));
    undo(&mut world, &json!({}));
    assert_eq!(asked(&world).0, "undo call 1");
    world.allow().outcome(recorded("r5"));
    undo(&mut world, &json!({ "step": 4 }));
    world.allow();
    assert_eq!(running(&world)["records"][0]["id"], "r4");
}

#[test]
fn a_step_is_named_by_its_number_or_its_call() {
    let mut world = world();
    undo(&mut world, &json!({ "step": 1 }));
    assert_eq!(asked(&world).0, "undo call 1");
    world.decide(Decision::Reject { reason: String::new() });
    undo(&mut world, &json!({ "call": "direct_3" }));
    assert_eq!(asked(&world).0, "undo call 3");
}

#[test]
fn a_step_that_cannot_be_undone_is_refused_with_the_reason() {
    for (step, why) in [
        (2, "call 2 cannot be undone: it changed nothing, or nothing was saved for it"),
        (9, "there is no call 9; this session has 3 tool calls"),
    ] {
        let mut world = world();
        undo(&mut world, &json!({ "step": step }));
        assert!(world.lines().ends_with(&format!("ended failed: {why}")), "{}", world.lines());
    }
}

#[test]
fn an_impossible_undo_does_not_end_a_paused_turn() {
    let mut world = world();
    world.prompt("go").reply(calls(vec![bash("1", "true")])).tell(Input::Pause).outcome(Outcome::ok(""));
    assert_eq!(world.session.activity(), Activity::Paused);
    undo(&mut world, &json!({ "step": 77 }));
    assert!(world.lines().is_empty(), "{}", world.lines());
    let told: Vec<_> = world
        .last
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Notify { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["not run: there is no call 77; this session has 4 tool calls"]);
    assert_eq!(world.session.activity(), Activity::Paused);
    undo(&mut world, &json!({ "step": 3 }));
    assert_eq!(asked(&world).0, "undo call 3");
}

#[test]
fn an_undo_without_a_step_says_why_the_last_change_has_none() {
    let mut world = World::auto();
    let output = "[exit code 0]\n[no undo: /srv/big is 120 MB: its content is not saved]";
    let unsaved = Outcome { undo: Some(Reversibility::None), ..Outcome::ok(output) };
    world.direct("bash", "rm -r /srv/big", Origin::User).outcome(unsaved);
    world.direct("bash", "ls", Origin::User).outcome(Outcome::ok(""));
    undo(&mut world, &json!({}));
    let why =
        "nothing to undo in this session; call 1 has no undo: /srv/big is 120 MB: its content is not saved";
    assert!(world.lines().ends_with(&format!("ended failed: {why}")), "{}", world.lines());
}

#[test]
fn a_file_changed_since_ends_the_undo_before_anyone_is_asked() {
    let mut world = world();
    world.survey.undo =
        UndoOffer::Refused { why: "changed since: /a was edited; nothing was undone".to_owned() };
    undo(&mut world, &json!({}));
    assert_eq!(world.session.activity(), Activity::Idle);
    assert!(world.lines().contains("changed since: /a was edited"), "{}", world.lines());
    assert!(world.running.is_none());
}

#[test]
fn an_undo_does_not_run_if_the_host_gave_no_answer_about_it() {
    let mut world = world();
    world.survey = Survey::without_facts("the host did not answer within 10 s");
    undo(&mut world, &json!({}));
    assert_eq!(world.session.activity(), Activity::Idle);
    assert!(world.lines().contains("the host did not answer within 10 s"), "{}", world.lines());
    assert!(world.running.is_none());
}

/// Returns the outcome of a file tool that changed these files; only those that begin with `old` existed before.
fn changed(paths: &[&str]) -> Outcome {
    let change = |path: &&str| FileChange {
        path: (*path).to_owned(),
        before: path.starts_with("old").then(|| "artifact".to_owned()),
        after_hash: "0".to_owned(),
    };
    Outcome { changes: paths.iter().map(change).collect(), ..Outcome::ok("") }
}

#[test]
fn an_undo_of_files_asks_only_if_its_caller_wants_it() {
    let mut world = World::auto();
    world.direct("bash", "true", Origin::User).outcome(changed(&["old.conf", "new\n.txt", "old.conf"]));
    undo(&mut world, &json!({}));
    assert_eq!(world.session.activity(), Activity::Running, "a front end with a way back undoes at once");
    world.outcome(Outcome::failed("the disk is full"));
    for (arguments, command) in [
        (json!({ "ask": true }), "undo the file edits of the last turn"),
        (json!({ "ask": true, "step": 1 }), "undo call 1"),
    ] {
        undo(&mut world, &arguments);
        assert_eq!(world.session.activity(), Activity::AwaitingApproval);
        let plan = vec!["restore old.conf".to_owned(), "remove new\\n.txt".to_owned()];
        assert_eq!(asked(&world), (command.to_owned(), plan));
        world.decide(Decision::Reject { reason: "no".to_owned() });
        assert!(world.running.is_none());
    }
    undo(&mut world, &json!({ "ask": true }));
    world.allow();
    assert_eq!(running(&world)["changes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_plan_of_an_undo_of_many_files_is_short() {
    let mut world = World::auto();
    let paths: Vec<String> = (0..120).map(|number| format!("old{number}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    world.direct("bash", "true", Origin::User).outcome(changed(&paths));
    undo(&mut world, &json!({ "ask": true }));
    let (_, plan) = asked(&world);
    assert_eq!((plan.len(), plan[50].as_str()), (51, "and 70 more files"));
}

#[test]
fn a_model_cannot_call_undo() {
    use crate::world::{call, calls};
    let mut world = world();
    world.prompt("x").reply(calls(vec![call("1", "undo", json!({ "step": 1 }))]));
    assert!(world.running.is_none() && world.lines().contains("unknown tool"), "{}", world.lines());
}

#[test]
fn a_step_that_was_done_again_is_the_next_to_be_undone() {
    let mut world = world();
    undo(&mut world, &json!({}));
    world.allow().outcome(recorded("r4"));
    undo(&mut world, &json!({ "step": 4 }));
    world.allow().outcome(recorded("r5"));
    undo(&mut world, &json!({}));
    assert_eq!(asked(&world).0, "undo call 3");
}
