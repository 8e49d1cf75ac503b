//! Lines of the transcript about calls and turns that ended.

use crossterm::event::KeyCode;
use sysop_core::event::Delta;
use sysop_core::message::Arguments;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::ui_text::retrying;

use super::world::{World, bash};

#[test]
fn a_canceled_proposal_has_one_line_and_its_turn_another() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Esc);
    let screen = world.screen(80, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["■ not run", "■ stopped"], "{screen}");
}

#[test]
fn a_call_that_could_not_run_has_its_reason_and_no_rejection() {
    let mut world = World::new();
    let mut reply = bash("c1", "make");
    reply.calls[0].arguments = Arguments::Object(serde_json::Map::new());
    world.says("go").replies(reply);
    let screen = world.screen(80, 24);
    assert!(screen.contains("✗ not run: "), "{screen}");
    assert!(!screen.contains("rejected") && !screen.contains("✗ failed"), "{screen}");
}

#[test]
fn a_retry_is_one_line_and_leaves_the_key_that_stops_the_turn_visible() {
    let mut world = World::new();
    let retry = |attempt, reason: &str| Delta::Notice { text: retrying("4 s", attempt, 6, reason) };
    world.says("go").delta(retry(2, "no answer"));
    world.delta(retry(3, "http://models.example.com:8080/v1 returned 503: overloaded, come back much later"));
    let screen = world.screen(80, 24);
    assert!(screen.contains("retrying in 4 s, attempt 3 of 6: http://"), "{screen}");
    assert!(screen.contains("Esc stop") && !screen.contains("attempt 2"), "{screen}");
}

#[test]
fn each_page_of_a_dangerous_proposal_states_the_danger() {
    let mut world = World::new();
    let steps: Vec<String> = (0..40).map(|n| format!("touch file{n}")).collect();
    world.says("go").replies(bash("c1", &format!("{}\nrm -rf /etc", steps.join("\n"))));
    let screen = world.screen(100, 24);
    let title = screen.lines().find(|line| line.contains("Run this?")).unwrap_or_default();
    assert!(title.contains("lines 1–") && title.contains("  ⚠ "), "{screen}");
}

#[test]
fn a_canceled_command_has_one_line_and_its_turn_another() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).press(KeyCode::Esc);
    world.ends(Outcome { duration_ms: 1_200, ..Outcome::new(Status::Cancelled, "") });
    let screen = world.screen(80, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["■ canceled, 1.2 s", "■ stopped"], "{screen}");
}
