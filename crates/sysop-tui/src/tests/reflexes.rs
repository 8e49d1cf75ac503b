//! Keys that people press without looking: Esc, Ctrl+C and ↑.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::event::Event;
use sysop_core::transcript::SessionPhase;

use super::keys::{decisions, in_review};
use super::world::{World, bash, control, says};
use crate::app::{Action, ReviewMode};

fn has_left(world: &World) -> bool {
    world.actions.iter().any(|action| matches!(action, Action::Quit(_)))
}

fn is_canceled(world: &World) -> bool {
    world.log.iter().any(|event| matches!(event, Event::CancelAsked { .. } | Event::TurnEnded { .. }))
}

#[test]
fn esc_sets_a_text_at_a_proposal_aside_and_the_turn_stays() {
    let mut world = in_review("touch x");
    world.types("why not").press(KeyCode::Esc);
    let screen = world.screen(80, 24);
    assert!(!is_canceled(&world) && world.app.composer().is_empty(), "{screen}");
    assert!(screen.contains("text set aside; Alt+u brings it back"), "{screen}");
    world.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::ALT));
    assert_eq!(world.app.composer().text(), "why not");
    // The box is empty again, so the key answers the proposal.
    world.press(KeyCode::Esc).is_read().press(KeyCode::Enter);
    assert_eq!(decisions(&world).len(), 1);
    world.press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "why not", "the history has it, too");
}

#[test]
fn undo_brings_back_a_text_that_was_set_aside_after_the_turn_was_canceled() {
    let mut world = in_review("rm -rf /srv/old");
    world.types("why not").press(KeyCode::Esc).press(KeyCode::Esc);
    assert!(is_canceled(&world) && world.app.composer().is_empty());
    world.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::ALT));
    assert_eq!(world.app.composer().text(), "why not");
}

#[test]
fn a_repeat_of_the_letter_that_answered_is_not_the_beginning_of_a_message() {
    let mut world = in_review("rm -rf /srv/old");
    world.answers_with('Y').press(KeyCode::Char('Y')).press(KeyCode::Char('Y'));
    assert_eq!((decisions(&world).len(), world.app.composer().text()), (1, String::new()));
    world.types("Nearly").types("Y");
    assert_eq!(world.app.composer().text(), "NearlyY");
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('a')).is_read().press(KeyCode::Char('a')).press(KeyCode::Char('a'));
    assert_eq!((decisions(&world).len(), world.app.composer().text()), (1, String::new()));
    world.passes(Duration::from_secs(2)).types("a");
    assert_eq!(world.app.composer().text(), "a");
}

#[test]
fn esc_dismisses_a_message_at_a_proposal_before_it_cancels_the_turn() {
    let mut world = in_review("touch x | cat");
    world.app.set_offered_rule(None);
    for (columns, rows) in [(120, 40), (80, 24), (60, 20), (40, 12)] {
        world.answers_with('A');
        let screen = world.screen(columns, rows);
        assert!(screen.contains("no rule possible"), "{screen}");
        assert!(screen.contains(" · r reject"), "{screen}");
        world.press(KeyCode::Esc);
        let screen = world.screen(columns, rows);
        assert!(!is_canceled(&world) && !screen.contains("no rule possible"), "{screen}");
    }
    world.press(KeyCode::Esc);
    assert!(is_canceled(&world));
}

#[test]
fn esc_counts_at_once_at_a_proposal_because_it_runs_nothing() {
    // The user types right up to the proposal.
    let mut world = World::that_always_asks();
    world.says("go").types("one more").replies(bash("c1", "touch x"));
    world.screen(80, 24);
    world.app.note_displayed(world.now);
    assert!(!world.app.accepts_answers(world.now));
    world.press(KeyCode::Esc);
    assert!(!is_canceled(&world) && world.app.flash() == Some("text set aside; Alt+u brings it back"));
    world.press(KeyCode::Esc);
    assert!(is_canceled(&world));
    // The second of two quick presses after an edit.
    let mut world = in_review("touch x");
    world.answers_with('i').types("yz").press(KeyCode::Esc).press(KeyCode::Esc);
    assert!(is_canceled(&world));
    // A confirmation is left, and the turn stays.
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('a')).press(KeyCode::Esc);
    assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Deciding));
    assert!(!is_canceled(&world));
}

#[test]
fn a_letter_right_after_a_discarded_edit_answers_but_enter_waits() {
    let mut world = in_review("touch x");
    world.answers_with('i').types("yz").press(KeyCode::Esc).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    world.answers_with('r');
    assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Rejecting));
    assert!(world.app.composer().is_empty());
}

#[test]
fn a_ctrl_c_that_stopped_a_turn_is_not_the_first_of_two_that_quit() {
    let mut world = World::new();
    world.says("go").key(control('c'));
    assert!(is_canceled(&world) && *world.app.transcript().phase() == SessionPhase::Idle);
    world.key(control('c'));
    assert!(!has_left(&world));
    assert!(world.screen(80, 24).contains("Press Ctrl+C again or Ctrl+D to quit"));
    world.key(control('c'));
    assert!(has_left(&world));
}

#[test]
fn a_queued_message_is_not_offered_to_be_sent_again() {
    let mut world = World::new();
    world.says("earlier").replies(says("done"));
    world.says("go").says("queued").types("x").press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "go");
    world.press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "earlier");
    world.press(KeyCode::Down).press(KeyCode::Down);
    assert_eq!(world.app.composer().text(), "x");
    world.press(KeyCode::Esc);
    assert_eq!(world.app.composer().text(), "queued\nx");
}

#[test]
fn the_up_key_takes_queued_messages_back_newest_first() {
    let mut world = World::new();
    world.says("go").says("first").says("second").press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "second");
    let screen = world.screen(120, 24);
    assert!(screen.contains("1 queued") && screen.contains("not sent: second"), "{screen}");
    world.key(control('u')).press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "first");
    assert!(!world.screen(120, 24).contains("1 queued"));
    world.replies(says("done"));
    assert_eq!(*world.app.transcript().phase(), SessionPhase::Idle);
}

#[test]
fn editing_and_rejecting_are_named_and_the_first_keys_fit_a_small_screen() {
    for (columns, rows) in [(120, 40), (60, 20), (40, 12)] {
        let mut world = in_review("touch x");
        let screen = world.screen(columns, rows);
        assert!(screen.contains("? Approval") && screen.contains(" · r reject"), "{screen}");
        world.answers_with('i');
        assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Editing));
        let screen = world.screen(columns, rows);
        assert!(screen.contains("✎ Editing") && screen.contains("Enter done · Esc discard"), "{screen}");
        world.press(KeyCode::Esc).is_read().answers_with('r');
        let screen = world.screen(columns, rows);
        assert!(screen.contains("✗ Rejecting") && screen.contains("Enter reject"), "{screen}");
    }
    // A proposal that does not fit scrolls, and the key that rejects it comes first.
    let mut world = in_review(&vec!["touch x"; 40].join("\n"));
    for (columns, rows) in [(60, 20), (40, 12)] {
        let screen = world.screen(columns, rows);
        assert!(screen.contains("Enter more · r reject"), "{screen}");
    }
}
