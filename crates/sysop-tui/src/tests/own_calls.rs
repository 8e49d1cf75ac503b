//! Calls of the user's own, typed while a turn runs, and what is said of calls that need no question.

use std::time::Duration;

use crossterm::event::KeyCode;
use serde_json::json;
use sysop_core::event::{Decision, Delta, Input, Origin};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{PolicyOptions, READ_ONLY_REFUSAL};
use sysop_core::spec::SessionSpec;

use super::keys::{decisions, in_review};
use super::world::{World, bash, control, key, says, spec};
use crate::app::{Action, AppOptions};

/// Lines that run a call without the model.
const LINES: [&str; 5] = ["!uptime", "/undo", "/keys y Enter", "/jobs read 1", "/plan"];

#[test]
fn a_call_typed_while_the_session_is_busy_stays_in_the_box_and_says_why() {
    let runs = "not run: a turn is running; wait for it, or stop it with Esc";
    let waits = "not run: a proposal is waiting; answer it first";
    let thinking = || {
        let mut world = World::that_always_asks();
        world.says("go");
        world
    };
    let running = || {
        let mut world = in_review("make");
        world.press(KeyCode::Enter);
        world
    };
    let states: [(&dyn Fn() -> World, &str); 3] =
        [(&thinking, runs), (&|| in_review("make"), waits), (&running, runs)];
    for (line, (state, why)) in LINES.iter().flat_map(|line| states.iter().map(move |state| (line, state))) {
        let mut world = state();
        let before = world.log.len();
        world.says(line);
        assert_eq!((world.app.composer().text().as_str(), world.app.flash()), (*line, Some(*why)));
        assert_eq!(world.log.len(), before, "{line}: nothing happens");
    }
}

#[test]
fn a_call_typed_right_after_a_prompt_stays_in_the_box() {
    let mut world = World::new();
    world.types("go");
    let sent = world.app.key(key(KeyCode::Enter), world.now);
    assert!(matches!(&sent[..], [.., Action::Send(Input::Prompt { .. })]), "{sent:?}");
    // The log has not confirmed the prompt yet.
    world.says("!uptime");
    assert_eq!(world.app.composer().text(), "!uptime");
}

#[test]
fn reading_a_job_ends_no_paused_turn() {
    let mut world = in_review("make");
    world.press(KeyCode::Enter).key(control('p')).ends(Outcome::ok("made"));
    world.says("/jobs read 1");
    assert_eq!(world.app.composer().text(), "/jobs read 1");
    assert!(world.app.flash().is_some_and(|text| text.contains("it would end the paused turn")));
}

#[test]
fn a_job_that_does_not_run_cannot_be_stopped_and_the_session_says_so() {
    let mut world = World::new();
    world.says("/jobs stop 9");
    let screen = world.screen(100, 24);
    assert!(screen.contains("no job has the id 9; no background jobs"), "{screen}");
}

#[test]
fn a_compaction_asked_for_at_a_proposal_is_confirmed() {
    let mut world = in_review("make");
    world.says("/compact");
    assert_eq!(world.app.flash(), Some("the context will be compacted after this step"));
    let mut world = World::new();
    world.says("/compact");
    assert_eq!(world.app.flash(), None, "it happens at once");
}

#[test]
fn a_turn_that_did_not_reach_its_host_does_not_end_with_success() {
    let mut world = in_review("uptime");
    world.press(KeyCode::Enter);
    let call = world.running.take().expect("a tool runs").id;
    let outcome = Outcome::unreachable("cannot reach web1: connection refused");
    world.tell(Input::Outcome { call, outcome }).replies(says("It does not answer."));
    let screen = world.screen(100, 24);
    assert!(screen.contains("✗ not done on web1") && !screen.contains("✓ done"), "{screen}");
}

#[test]
fn a_refusal_of_the_policy_is_told_once() {
    let mut world = World::new();
    world.says("/approve never").says("go").replies(bash("c1", "touch one"));
    let screen = world.screen(100, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["│ denied: this session is read-only (approve = never)", "■ rejected"], "{screen}");
    assert!(READ_ONLY_REFUSAL.contains("nothing ran"), "the model is told more");
}

#[test]
fn a_denied_call_of_the_user_names_its_command_and_its_origin() {
    let mut world = World::new();
    world.says("/approve never").says("!touch zz.txt");
    assert!(world.running.is_none());
    let screen = world.screen(100, 24);
    for text in ["$ touch zz.txt", "· typed by you", "■ rejected"] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    assert_eq!(screen.matches("denied: this session is read-only").count(), 1, "{screen}");
}

/// A world whose calls need two approvals.
fn with_two_approvals() -> World {
    let policy = PolicyOptions { approvals: 2, ..PolicyOptions::default() };
    World::of(SessionSpec { policy, ..spec() }, AppOptions::default())
}

#[test]
fn a_text_at_a_call_of_the_users_own_rejects_it_and_returns_to_the_box() {
    let mut world = with_two_approvals();
    world.says("!touch x").is_read();
    world.types("why does it need approval?");
    let screen = world.screen(100, 24);
    assert!(screen.contains("Enter reject, keep text"), "{screen}");
    world.press(KeyCode::Enter);
    let reason = "why does it need approval?".to_owned();
    assert_eq!(decisions(&world), [Decision::Reject { reason: reason.clone() }]);
    assert_eq!(world.app.composer().text(), reason);
    assert_eq!(world.app.flash(), Some("your text was not sent; it is in the input"));
    assert!(world.asked.is_none() && world.running.is_none(), "no model is called");
}

#[test]
fn a_reason_for_rejecting_a_call_of_the_users_own_returns_to_the_box() {
    let mut world = with_two_approvals();
    world.says("!touch x").is_read();
    world.press(KeyCode::Char('r'));
    world.passes(Duration::from_secs(1));
    world.types("not now");
    world.press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Reject { reason: "not now".to_owned() }]);
    assert_eq!(world.app.composer().text(), "not now");
}

#[test]
fn another_agent_that_asked_for_a_call_gets_the_reason_for_its_rejection() {
    let mut world = with_two_approvals();
    let arguments = json!({ "command": "touch x" }).as_object().cloned().unwrap_or_default();
    let (tool, origin) = ("bash".to_owned(), Origin::McpClient);
    world.tell(Input::Direct { tool, arguments, origin, by: None }).is_read().says("not yet");
    assert_eq!(decisions(&world), [Decision::Reject { reason: "not yet".to_owned() }]);
    assert!(world.app.composer().is_empty());
}

#[test]
fn the_failure_of_a_users_own_call_is_told_once() {
    let mut world = World::new();
    world.says("!false").ends(Outcome { exit_code: Some(1), ..Outcome::failed("") });
    let screen = world.screen(100, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with('✗')).collect();
    assert_eq!(told, ["✗ exit code 1, 0 ms"], "{screen}");
    // No card tells that an undo has nothing to do.
    world.says("/undo");
    assert!(world.screen(100, 24).contains("✗ nothing to undo"), "{}", world.screen(100, 24));
}

#[test]
fn the_answer_to_a_key_outlasts_the_changes_of_a_busy_turn() {
    let mut world = World::new();
    world.says("go").says("!uptime");
    let why = Some("not run: a turn is running; wait for it, or stop it with Esc");
    assert_eq!(world.app.flash(), why);
    world.passes(Duration::from_secs(2)).replies(bash("c1", "uptime"));
    assert_eq!(world.app.flash(), why, "the phase has changed");
    world.passes(Duration::from_secs(3));
    assert_eq!(world.app.flash(), None, "it has been read");
}

#[test]
fn the_time_of_a_command_goes_on_when_its_pause_is_canceled() {
    let mut world = in_review("make");
    world.press(KeyCode::Enter).passes(Duration::from_secs(5));
    world.key(control('p')).passes(Duration::from_secs(2)).key(control('p')).passes(Duration::from_secs(5));
    let activity = world.app.activity(world.now).expect("the command runs");
    assert!(activity.text.starts_with("running bash · 12 s"), "{}", activity.text);
}

#[test]
fn the_work_of_the_host_around_a_command_is_in_the_activity_line() {
    let mut world = in_review("make");
    world.press(KeyCode::Enter);
    world.delta(Delta::Notice { text: "saving files for undo on web1…".to_owned() });
    let screen = world.screen(100, 24);
    assert!(screen.contains("saving files for undo on web1 · 0 s"), "{screen}");
    world.prints("made\n");
    assert!(!world.screen(100, 24).contains("saving files"));
}

#[test]
fn a_look_at_a_job_is_named_in_words() {
    let mut world = World::new();
    world.says("/jobs read 1");
    let screen = world.screen(100, 24);
    assert!(screen.contains("→ job 1: output so far"), "{screen}");
}

#[test]
fn no_model_is_awaited_for_a_call_of_the_users_own() {
    let mut world = World::new();
    world.types("!touch x");
    let _ = world.app.key(key(KeyCode::Enter), world.now);
    let screen = world.screen(80, 24);
    assert!(screen.contains("starting") && !screen.contains("waiting for"), "{screen}");
}
