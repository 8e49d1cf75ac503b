//! Prompts that were sent and that the log does not have yet, because another process uses the session.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use sysop_core::event::{Delta, Event, Input, Origin};
use sysop_core::id::TurnId;
use sysop_core::ui_text;

use super::keys::in_review;
use super::world::{World, control, says};
use crate::app::Action;

const WAIT: &str = "waiting for another sysop process (pid 7) that is using this session";

/// Presses a key without passing its inputs to the session. Returns the inputs.
fn sent_by(world: &mut World, key: KeyEvent) -> Vec<Input> {
    let input = |action| if let Action::Send(input) = action { Some(input) } else { None };
    world.app.key(key, world.now).into_iter().filter_map(input).collect()
}

fn withdrawal(text: &str) -> Input {
    Input::WithdrawPrompt { text: text.to_owned(), by: None }
}

/// A front end whose prompts wait for another process, some time after a first turn.
fn waiting(prompts: &[&str]) -> World {
    let mut world = World::new();
    world.says("go").replies(says("done")).passes(Duration::from_secs(36));
    for prompt in prompts {
        world.types(prompt);
        assert_eq!(sent_by(&mut world, KeyEvent::from(KeyCode::Enter)), [Input::prompt(*prompt)]);
    }
    world.delta(Delta::Notice { text: ui_text::waiting_for_process(Some(7)) });
    world
}

#[test]
fn a_prompt_that_waits_for_another_process_stays_on_the_screen_until_the_log_has_it() {
    let mut world = waiting(&["fix it", "and this"]);
    for seconds in [3, 60] {
        let screen = world.passes(Duration::from_secs(seconds)).screen(100, 24);
        assert!(screen.contains("· waiting: fix it") && screen.contains("· waiting: and this"), "{screen}");
        assert!(screen.contains("Esc take back") && !screen.contains("Ctrl+P"), "{screen}");
    }
    let screen = world.screen(120, 24);
    assert!(screen.contains(&format!("{WAIT} · 1 min 03 s")), "{screen}");
    world.tell(Input::prompt("theirs")).replies(says("done")).passes(Duration::from_secs(1));
    world.tell(Input::prompt("fix it")).tell(Input::prompt("and this"));
    let screen = world.screen(100, 24);
    assert!(!screen.contains("· waiting: ") && screen.contains("1 queued"), "{screen}");
    world.press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "and this");
    let screen = world.screen(100, 24);
    assert!(!screen.contains("1 queued"), "the prompt in the queue is an own one: {screen}");
}

#[test]
fn keys_take_back_prompts_that_wait_for_another_process() {
    for key in [KeyEvent::from(KeyCode::Esc), control('c')] {
        let mut world = waiting(&["first", "second"]);
        world.passes(Duration::from_secs(10));
        assert_eq!(sent_by(&mut world, KeyEvent::from(KeyCode::Up)), [withdrawal("second")]);
        assert_eq!(world.app.composer().text(), "second");
        let screen = world.screen(100, 24);
        assert!(screen.contains("· waiting: first") && !screen.contains("· waiting: second"), "{screen}");
        if key == control('c') {
            sent_by(&mut world, control('u'));
        }
        assert_eq!(sent_by(&mut world, key), [withdrawal("first"), Input::Cancel]);
        let screen = world.screen(100, 24);
        assert!(!screen.contains("take back") && !screen.contains("· waiting: "), "{screen}");
        assert!(world.app.composer().text().starts_with("first"));
        assert!(world.app.activity(world.now).is_none(), "nothing is stopped");
    }
}

#[test]
fn a_prompt_that_ran_before_it_could_be_taken_back_leaves_the_box() {
    let mut world = waiting(&["fix it"]);
    sent_by(&mut world, KeyEvent::from(KeyCode::Up));
    world.types(" now");
    assert_eq!(world.app.composer().text(), "fix it now");
    for _ in 0..4 {
        world.press(KeyCode::Backspace);
    }
    let prompt = "fix it".to_owned();
    let turn = TurnId(2);
    let begun = Event::TurnStarted { turn, prompt, origin: Origin::Model, images: Vec::new(), by: None };
    world.happened(vec![begun]);
    assert_eq!(world.app.composer().text(), "");
}

#[test]
fn a_prompt_that_was_taken_back_stays_in_the_box_when_another_process_sends_an_equal_one() {
    let mut world = waiting(&["continue"]);
    sent_by(&mut world, KeyEvent::from(KeyCode::Up));
    world.passes(Duration::from_secs(3)).tell(Input::prompt("continue"));
    assert_eq!(world.app.composer().text(), "continue");
}

#[test]
fn a_prompt_that_joins_a_waiting_setting_waits_too() {
    let mut world = World::new();
    world.says("go").replies(says("done")).passes(Duration::from_secs(36)).types("/mode chat");
    assert!(matches!(sent_by(&mut world, KeyEvent::from(KeyCode::Enter))[..], [Input::Configure { .. }]));
    world.delta(Delta::Notice { text: ui_text::waiting_for_process(Some(7)) });
    for prompt in ["fix it", "fix that"] {
        world.passes(Duration::from_secs(5)).types(prompt);
        sent_by(&mut world, KeyEvent::from(KeyCode::Enter));
        let screen = world.passes(Duration::from_secs(10)).screen(120, 24);
        assert!(screen.contains(&format!("· waiting: {prompt}")), "{screen}");
        assert!(screen.contains(&format!("{WAIT} · 10 s")), "{screen}");
        assert_eq!(sent_by(&mut world, KeyEvent::from(KeyCode::Up)), [withdrawal(prompt)]);
        assert!(world.app.activity(world.now).is_none(), "no turn waits");
        sent_by(&mut world, control('u'));
    }
}

#[test]
fn a_call_that_waits_can_be_stopped_after_the_prompt_behind_it_was_taken_back() {
    let mut world = World::new();
    world.says("go").replies(says("done")).passes(Duration::from_secs(36)).types("!make");
    assert!(matches!(sent_by(&mut world, KeyEvent::from(KeyCode::Enter))[..], [Input::Direct { .. }]));
    world.delta(Delta::Notice { text: ui_text::waiting_for_process(Some(7)) });
    world.types("then test");
    sent_by(&mut world, KeyEvent::from(KeyCode::Enter));
    assert_eq!(sent_by(&mut world, KeyEvent::from(KeyCode::Up)), [withdrawal("then test")]);
    let screen = world.passes(Duration::from_secs(10)).screen(120, 24);
    assert!(screen.contains(WAIT) && screen.contains("Esc stop"), "{screen}");
    assert_eq!(sent_by(&mut world, KeyEvent::from(KeyCode::Esc)), [Input::Cancel]);
}

#[test]
fn waiting_prompts_that_do_not_fit_are_counted_as_waiting() {
    let screen = waiting(&["1", "2", "3", "4", "5"]).screen(100, 24);
    assert!(screen.contains("· waiting: 1") && screen.contains(" more waiting"), "{screen}");
}

#[test]
fn a_setting_changed_while_a_prompt_waits_for_another_process_does_not_hide_it() {
    let mut world = waiting(&["fix it"]);
    world.types("/mode chat");
    sent_by(&mut world, KeyEvent::from(KeyCode::Enter));
    let screen = world.passes(Duration::from_secs(10)).screen(100, 24);
    assert!(screen.contains("· waiting: fix it") && screen.contains("Esc take back"), "{screen}");
}

#[test]
fn an_answer_that_the_log_does_not_have_yet_shows_no_check_of_the_hosts() {
    let mut world = World::that_always_asks();
    world.says("go");
    let checking = "checking the command on 4 hosts: waiting for dead";
    world.delta(Delta::Notice { text: format!("{checking}…") });
    assert!(world.screen(100, 24).contains(checking));
    world.replies(super::world::bash("c1", "touch x")).is_read();
    world.delta(Delta::Notice { text: format!("{checking}…") });
    world.types("no");
    sent_by(&mut world, KeyEvent::from(KeyCode::Enter));
    let screen = world.screen(100, 24);
    assert!(!screen.contains("checking") && screen.contains("rejecting"), "{screen}");
    let mut world = in_review("touch x");
    world.delta(Delta::Notice { text: format!("{checking}…") });
    sent_by(&mut world, KeyEvent::from(KeyCode::Enter));
    let screen = world.screen(100, 24);
    assert!(!screen.contains("checking") && screen.contains("starting"), "{screen}");
}
