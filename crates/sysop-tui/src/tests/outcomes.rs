//! Lines of the transcript about calls and turns that ended.

use crossterm::event::KeyCode;
use sysop_core::outcome::{Outcome, Status};

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
fn a_canceled_command_has_one_line_and_its_turn_another() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).press(KeyCode::Esc);
    world.ends(Outcome { duration_ms: 1_200, ..Outcome::new(Status::Cancelled, "") });
    let screen = world.screen(80, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["■ canceled, 1.2 s", "■ stopped"], "{screen}");
}
