//! Text typed while a proposal waits for an answer.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::event::{Decision, Event};
use sysop_driver::frontend::OfferedRule;

use super::keys::{decisions, in_review};
use super::world::{World, bash, control};
use crate::app::{Action, ReviewMode};

#[test]
fn a_long_list_of_commands_says_which_part_is_visible() {
    let mut world = World::new();
    world.types("/");
    let all = world.app.completion().map_or(0, |completion| completion.offers.len());
    assert!(world.screen(100, 30).contains(&format!("  1–8 of {all}")), "{}", world.screen(100, 30));
    for _ in 0..9 {
        world.press(KeyCode::Down);
    }
    assert!(world.screen(100, 30).contains(&format!("  2–9 of {all}")), "{}", world.screen(100, 30));
    world.types("the");
    assert!(!world.screen(100, 30).contains('–'), "{}", world.screen(100, 30));
}

#[test]
fn typing_continues_when_a_proposal_arrives() {
    let mut world = World::new();
    world.says("go").types("and a").replies(bash("c1", "touch x"));
    world.frame(80, 24);
    for sign in "fter".chars() {
        world.passes(Duration::from_millis(150)).press(KeyCode::Char(sign));
    }
    assert_eq!(world.app.composer().text(), "and after");
    // A short pause while typing does not make a key an answer.
    world.passes(Duration::from_millis(500)).press(KeyCode::Char('a'));
    assert!(decisions(&world).is_empty());
    // No key is an answer while the composer contains text.
    for key in [KeyCode::Char('a'), KeyCode::Char('Y'), KeyCode::Char('r')] {
        world.passes(Duration::from_secs(1)).press(key);
    }
    assert!(decisions(&world).is_empty());
    assert_eq!(world.app.composer().text(), "and afteraaYr");
    world.passes(Duration::from_secs(1)).key(control('u')).press(KeyCode::Char('a'));
    world.is_read().press(KeyCode::Char('a'));
    assert_eq!(decisions(&world), [Decision::AllowSession { command: None }]);
}

#[test]
fn the_first_letter_of_a_message_allows_nothing_for_the_session() {
    for text in ["also x", "and then rest", "aardvark", "A list of it", "Any other?", "Always yes"] {
        let mut world = in_review("touch x");
        let plan = world.app.proposal_without_offer().unwrap();
        let offered = OfferedRule::for_proposal(world.app.transcript(), plan, "rules.toml".to_owned());
        world.app.set_offered_rule(offered);
        for sign in text.chars() {
            world.frame(100, 40);
            world.passes(Duration::from_millis(150)).press(KeyCode::Char(sign));
        }
        assert!(decisions(&world).is_empty(), "{text}");
        assert_eq!(world.app.composer().text(), text.replace("aar", "ar"), "{text}");
        world.is_read().press(KeyCode::Enter);
        let reason = text.replace("aar", "ar");
        assert_eq!(decisions(&world), [Decision::Reject { reason }], "{text}");
        assert!(!world.actions.iter().any(|action| matches!(action, Action::AllowAlways(_))), "{text}");
    }
}

#[test]
fn allowing_for_the_session_is_confirmed_on_the_card() {
    let title = "Allow for this session? Press a again; Esc returns";
    let confirming = || {
        let mut world = in_review("touch x");
        world.press(KeyCode::Char('a'));
        assert!(world.screen(100, 24).contains(title), "{}", world.screen(100, 24));
        // A key that is held down repeats itself.
        world.press(KeyCode::Char('a'));
        assert!(decisions(&world).is_empty());
        world.is_read();
        world
    };
    let mut world = confirming();
    assert!(world.screen(100, 24).contains("a allow for this session · Esc back"));
    world.press(KeyCode::Char('a'));
    assert_eq!(decisions(&world), [Decision::AllowSession { command: None }]);
    for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('Y')] {
        let mut world = confirming();
        world.press(key);
        assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Deciding), "{key:?}");
        assert!(decisions(&world).is_empty() && !world.screen(100, 24).contains(title), "{key:?}");
        world.is_read().press(KeyCode::Enter);
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{key:?}");
    }
    let mut world = confirming();
    world.press(KeyCode::Char('r'));
    assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Rejecting));
    let mut world = confirming();
    world.pastes("aaa");
    assert!(decisions(&world).is_empty());
    assert_eq!(world.app.composer().text(), "aaa");
}

#[test]
fn a_letter_that_is_no_key_of_a_proposal_begins_a_draft() {
    let mut world = in_review("touch x");
    // The `a` of a word would allow the command for the session, and the `r` would reject it.
    world.types("Make arrangements");
    assert!(decisions(&world).is_empty());
    assert_eq!(world.app.composer().text(), "Make arrangements");
    let screen = world.screen(120, 24);
    assert!(screen.contains("Enter reject with this text") && !screen.contains("Enter run"), "{screen}");
    world
        .passes(Duration::from_secs(1))
        .key(control('u'))
        .press(KeyCode::Char(' '))
        .press(KeyCode::Char('a'))
        .is_read()
        .press(KeyCode::Char('a'));
    assert_eq!(decisions(&world), [Decision::AllowSession { command: None }]);
}

#[test]
fn a_message_rejects_the_proposal_and_is_the_reason() {
    let mut world = in_review("touch created.txt");
    world.types("do not create it");
    let screen = world.screen(120, 24);
    assert!(screen.contains("Enter reject with this text") && !screen.contains("Enter run"), "{screen}");
    world.press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Reject { reason: "do not create it".to_owned() }]);
    assert!(world.app.composer().is_empty() && world.app.review().is_none());
    assert!(
        matches!(&world.actions[..], [.., Action::AppendPromptHistory(text)] if text == "do not create it")
    );
    // A second Enter out of habit runs nothing.
    world.is_read().press(KeyCode::Enter);
    assert!(world.running.is_none() && decisions(&world).len() == 1);
    assert!(world.log.iter().all(|event| !matches!(event, Event::PromptQueued { .. })));
    // A path is a message, too, and lines are joined.
    let mut world = in_review("touch x");
    world.pastes("/etc/x is\nwrong").press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Reject { reason: "/etc/x is wrong".to_owned() }]);
}

#[test]
fn a_draft_that_is_no_message_answers_nothing() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Char(' ')).pastes("  ").is_read().press(KeyCode::Enter).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    for command in ["/status", "/init", "!uptime"] {
        let mut world = in_review("touch x");
        world.types(command);
        let screen = world.screen(120, 24);
        assert!(screen.contains("Enter send") && !screen.contains("reject with this text"), "{screen}");
        world.press(KeyCode::Enter);
        assert!(decisions(&world).is_empty() && world.app.review().is_some(), "{command}");
    }
}

#[test]
fn ctrl_c_clears_the_draft_before_it_stops_or_quits() {
    let mut world = World::new();
    world.says("go").types("and a draft").key(control('c'));
    assert!(world.asked.is_some() && world.app.composer().is_empty(), "the turn goes on");
    assert!(world.screen(80, 24).contains("draft cleared"));
    assert!(matches!(world.actions.last(), Some(Action::AppendPromptHistory(text)) if text == "and a draft"));
    assert_eq!(world.press(KeyCode::Up).app.composer().text(), "and a draft");
    world.key(control('c')).key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::ALT));
    assert_eq!(world.app.composer().text(), "and a draft");
    world.key(control('c')).key(control('c'));
    assert!(world.asked.is_none(), "the turn stops");
}

#[test]
fn ctrl_c_pressed_again_quits_although_queued_prompts_returned_to_the_box() {
    let mut world = World::new();
    world.says("go").says("queued").key(control('c'));
    assert_eq!(world.app.composer().text(), "queued");
    world.key(control('c'));
    assert!(world.actions.iter().any(|action| matches!(action, Action::Quit(_))), "{:?}", world.actions);
}
