//! Leaving the front end while something runs, and pausing a turn.

use std::time::Duration;

use crossterm::event::KeyCode;
use sysop_core::event::Event;
use sysop_core::id::{CallId, JobId};
use sysop_core::message::Reply;
use sysop_core::outcome::{Outcome, Status};

use super::keys::{decisions, in_review};
use super::world::{World, bash, control, says};
use crate::RunningTurnPolicy;
use crate::app::{Action, AppOptions, FLASH_MAX};

fn has_left(world: &World) -> bool {
    world.actions.iter().any(|action| matches!(action, Action::Quit(_)))
}

fn is_canceled(world: &World) -> bool {
    world.log.iter().any(|event| matches!(event, Event::CancelAsked { .. } | Event::TurnEnded { .. }))
}

fn with_running_command(options: AppOptions) -> World {
    let mut world = World::with(options);
    world.says("go").replies(bash("c1", "touch x")).is_read().press(KeyCode::Enter);
    assert!(world.running.is_some());
    world
}

#[test]
fn ctrl_d_says_what_it_will_stop_before_it_does() {
    let mut world = with_running_command(AppOptions::default());
    world.key(control('d'));
    assert!(!has_left(&world) && !is_canceled(&world));
    let text = "a command is running; press Ctrl+D again to stop it and quit";
    assert!(world.screen(100, 24).contains(text), "{}", world.screen(100, 24));
    // Later, or after another key, the first one has been forgotten.
    world.passes(Duration::from_secs(10)).key(control('d')).types("x").press(KeyCode::Backspace);
    world.key(control('d'));
    assert!(!has_left(&world) && !is_canceled(&world));
    world.key(control('d'));
    assert!(has_left(&world) && is_canceled(&world));
    assert!(world.app.is_stopping(), "the outcome is awaited");
    world.ends(Outcome::new(Status::Cancelled, "stopped"));
    assert!(!world.app.is_stopping());
}

#[test]
fn ctrl_d_while_a_model_answers_stops_the_turn_at_once() {
    let mut world = World::new();
    world.says("go").key(control('d'));
    assert!(has_left(&world) && world.asked.is_none());
}

#[test]
fn keys_that_quit_name_the_background_jobs_before_they_end() {
    let mut world = World::new();
    world.says("go").replies(says("done"));
    let job = |id: u32| Event::JobStarted {
        job: JobId(id),
        call: CallId::new(format!("c{id}")),
        command: "sleep 99".to_owned(),
        host: "web1".to_owned(),
    };
    world.happened(vec![job(1)]);
    world.key(control('d'));
    assert!(world.screen(100, 24).contains("1 background job is running; press Ctrl+D again to stop it"));
    world.happened(vec![job(2)]);
    world.passes(FLASH_MAX).key(control('c'));
    let told = "2 background jobs are running; press Ctrl+C again to stop them and quit";
    assert!(world.screen(100, 24).contains(told), "{}", world.screen(100, 24));
    assert!(!has_left(&world));
    // The process stops the jobs when it ends, and lists them.
    let actions = world.app.key(control('c'), world.now);
    assert!(matches!(actions.as_slice(), [Action::Quit(_)]), "{actions:?}");
    assert!(!world.app.is_stopping());
}

#[test]
fn ctrl_d_leaves_a_session_of_a_server_at_once() {
    let options = AppOptions { leaving: RunningTurnPolicy::Continue, ..AppOptions::default() };
    let mut world = with_running_command(options);
    world.key(control('d'));
    assert!(has_left(&world) && !is_canceled(&world));
}

#[test]
fn ctrl_p_pauses_and_resumes_at_a_pending_approval() {
    let mut world = in_review("touch x");
    for _ in 0..2 {
        world.key(control('p'));
        let told = "Approval required · pauses after this step";
        assert!(world.screen(100, 24).contains(told), "{}", world.screen(100, 24));
        assert!(world.screen(40, 24).contains("pauses after"), "{}", world.screen(40, 24));
        assert!(matches!(world.log.last(), Some(Event::Paused { .. })));
        world.passes(FLASH_MAX);
        assert!(world.screen(100, 24).contains(&format!("? {told}")), "{}", world.screen(100, 24));
        world.key(control('p'));
        assert!(world.screen(100, 24).contains("Resumed"), "{}", world.screen(100, 24));
        assert!(matches!(world.log.last(), Some(Event::Resumed)));
    }
    world.press(KeyCode::Enter);
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn leaving_names_the_call_under_review_that_it_stops() {
    let mut world = World::new();
    world.says("go").replies(Reply { text: "I create it.".to_owned(), ..bash("c1", "touch x") });
    world.key(control('d'));
    assert!(has_left(&world) && is_canceled(&world));
    assert_eq!((world.app.stopped_call(), world.app.last_answer()), (Some("touch x"), None));
    let mut world = World::with(AppOptions { leaving: RunningTurnPolicy::Continue, ..AppOptions::default() });
    world.says("go").replies(bash("c1", "touch x")).key(control('d'));
    assert_eq!(world.app.stopped_call(), None, "it still waits on the server");
}

#[test]
fn only_the_answer_that_ended_the_last_turn_is_the_last_answer() {
    let mut world = World::new();
    world.says("go").replies(says("done"));
    assert_eq!(world.app.last_answer(), Some("done"));
    world.says("more");
    assert_eq!(world.app.last_answer(), None, "a turn runs");
    world.streams("half of").key(control('d'));
    assert!(has_left(&world));
    assert_eq!(world.app.last_answer(), None, "the answer is incomplete");
}
