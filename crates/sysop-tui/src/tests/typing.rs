//! Text typed while a proposal waits for an answer.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::event::{Decision, Event};
use sysop_core::question::QuestionKind;
use sysop_driver::frontend::OfferedRule;

use super::keys::{decisions, in_review};
use super::world::{World, bash, control};
use crate::app::{Action, LETTER_PAUSE, ReviewMode};

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

/// Messages whose first letter answers a proposal, or once did.
const MESSAGES: [&str; 14] = [
    "report it", "Run it later", "instead use foo", "I think so", "explain this", "Edit it yourself",
    "Yes, but not now", "also x", "and then rest", "A list of it", "Any other?", "Always yes", "keep it",
    "just no",
];

#[test]
fn a_message_typed_at_a_proposal_keeps_its_first_letter_and_does_nothing_else() {
    let long = vec!["touch x"; 80].join("\n");
    for (text, command) in
        MESSAGES.iter().flat_map(|text| [(text, "touch x"), (text, "shutdown"), (text, &long)])
    {
        for pause in [0, 100, 200, 300, 350] {
            let mut world = in_review(command);
            let plan = world.app.proposal_without_offer().unwrap();
            let offered = OfferedRule::for_proposal(world.app.transcript(), plan, "rules.toml".to_owned());
            world.app.set_offered_rule(offered);
            for sign in text.chars() {
                world.frame(100, 40);
                world.passes(Duration::from_millis(pause)).press(KeyCode::Char(sign));
            }
            let place = format!("{text}, {pause} ms, {}", &command[..7]);
            let review = world.app.review().expect(&place);
            assert_eq!(
                (review.mode(), review.command().as_str()),
                (ReviewMode::Deciding, command),
                "{place}"
            );
            assert_eq!(world.app.composer().text(), *text, "{place}");
            assert!(decisions(&world).is_empty() && world.actions.len() == 1, "{place}: {:?}", world.actions);
            world.press(KeyCode::Enter);
            assert_eq!(decisions(&world), [Decision::Reject { reason: (*text).to_owned() }], "{place}");
        }
    }
}

#[test]
fn yes_runs_a_proposal_and_no_rejects_it_without_a_text() {
    for (text, hint, decision) in [
        ("y", "Enter run ·", Decision::Allow { command: None }),
        (" YES ", "Enter run ·", Decision::Allow { command: None }),
        ("n", "Enter reject ·", Decision::Reject { reason: String::new() }),
        ("No", "Enter reject ·", Decision::Reject { reason: String::new() }),
        ("yes please", "Enter reject with this text ·", Decision::Reject { reason: "yes please".to_owned() }),
    ] {
        let mut world = in_review("touch x");
        let screen = world.types(text).screen(100, 24);
        assert!(screen.contains(hint), "{text}: {screen}");
        world.press(KeyCode::Enter);
        assert_eq!(decisions(&world), [decision], "{text}");
        assert!(world.app.composer().is_empty(), "{text}");
    }
}

#[test]
fn yes_neither_runs_nor_rejects_a_dangerous_proposal() {
    for text in ["y", "yes", "Yes"] {
        let mut world = in_review("shutdown");
        let screen = world.types(text).screen(100, 24);
        assert!(screen.contains("Enter clear (only Y runs this) ·"), "{text}: {screen}");
        let screen = world.press(KeyCode::Enter).screen(100, 24);
        assert!(decisions(&world).is_empty(), "{text}");
        assert!(screen.contains("dangerous command: press Y to run"), "{text}: {screen}");
        world.answers_with('Y');
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{text}");
    }
    let mut world = in_review("shutdown");
    world.says("no");
    assert_eq!(decisions(&world), [Decision::Reject { reason: String::new() }]);
}

#[test]
fn yes_runs_nothing_that_was_not_displayed() {
    let mut world = in_review(&vec!["touch x"; 80].join("\n"));
    world.says("yes");
    assert!(decisions(&world).is_empty());
    assert!(world.screen(100, 24).contains("read the rest before you run it"));
}

#[test]
fn a_letter_that_answers_waits_for_a_second_letter() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('e'));
    assert!(world.screen(100, 24).contains("› e"), "{}", world.screen(100, 24));
    assert_eq!(world.app.next_change(world.now).map(|at| at > world.now), Some(true));
    assert_eq!(world.actions.len(), 1);
    world.passes(LETTER_PAUSE);
    assert!(matches!(world.actions[..], [_, Action::OpenEditor(..)]), "{:?}", world.actions);
    // Enter confirms the letter and does nothing else; Esc and Backspace take the letter back.
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('r')).press(KeyCode::Enter);
    assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Rejecting));
    for key in [KeyCode::Esc, KeyCode::Backspace] {
        let mut world = in_review("touch x");
        world.press(KeyCode::Char('Y')).press(key).passes(LETTER_PAUSE);
        assert!(decisions(&world).is_empty() && world.app.composer().is_empty(), "{key:?}");
        assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Deciding));
    }
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('i')).pastes("f so").passes(LETTER_PAUSE);
    assert_eq!(world.app.composer().text(), "if so");
    // Something else came to the front.
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('Y')).press(KeyCode::F(1)).passes(LETTER_PAUSE);
    assert!(decisions(&world).is_empty() && world.app.overlay().is_some());
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('Y')).app.reset_debounce();
    world.passes(LETTER_PAUSE);
    assert!(decisions(&world).is_empty());
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
        let screen = world.screen(100, 24);
        assert!(decisions(&world).is_empty() && !screen.contains(title), "{key:?}");
        // These would run the command once, so that a user may believe that they did.
        assert_eq!(screen.contains("nothing allowed yet: a, a allows it"), key != KeyCode::Esc, "{screen}");
        world.is_read().press(KeyCode::Enter);
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{key:?}");
    }
    let mut world = confirming();
    world.answers_with('r');
    assert_eq!(world.app.review().map(|review| review.mode()), Some(ReviewMode::Deciding));
    assert_eq!(world.app.composer().text(), "ar");
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
fn a_message_sent_while_a_proposal_appears_answers_nothing() {
    let mut world = World::new();
    world.says("go").types("and then").replies(bash("c1", "touch x"));
    world.press(KeyCode::Enter).frame(100, 40);
    world.press(KeyCode::Enter);
    assert!(decisions(&world).is_empty() && world.app.composer().text() == "and then");
    world.is_read().press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Reject { reason: "and then".to_owned() }]);
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
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "touch x")).is_read().press(KeyCode::Enter);
    world.says("queued").key(control('c'));
    assert_eq!(world.app.composer().text(), "queued");
    world.key(control('c'));
    assert!(world.actions.iter().any(|action| matches!(action, Action::Quit(_))), "{:?}", world.actions);
}

#[test]
fn a_letter_before_a_key_that_scrolls_takes_effect_unless_it_would_run_the_call() {
    for key in [KeyCode::Down, KeyCode::Up, KeyCode::Left, KeyCode::End, KeyCode::Home, KeyCode::PageDown] {
        for (letter, mode) in [('i', ReviewMode::Editing), ('r', ReviewMode::Rejecting)] {
            let mut world = in_review("touch x");
            world.press(KeyCode::Char(letter)).press(key);
            assert_eq!(world.app.review().map(crate::app::Review::mode), Some(mode), "{letter}, {key:?}");
            assert!(decisions(&world).is_empty() && world.app.composer().is_empty());
        }
        let mut world = in_review("shutdown");
        world.press(KeyCode::Char('Y')).press(key).passes(LETTER_PAUSE);
        assert!(decisions(&world).is_empty(), "{key:?}");
        assert!(world.app.flash().is_some_and(|text| text.contains("press it again")), "{key:?}");
        world.answers_with('Y');
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{key:?}");
    }
}

#[test]
fn a_draft_is_shown_from_its_beginning_once_the_window_is_high_enough_again() {
    let mut world = World::new();
    world.pastes("first\nsecond\nthird\nfourth\nfifth\nsixth");
    let before = world.screen(80, 24);
    assert!(before.contains("› first") && before.contains("sixth"), "{before}");
    let small = world.screen(80, 9);
    assert!(!small.contains("first") && small.contains("sixth"), "{small}");
    assert_eq!(world.screen(80, 24), before);
    world.types("!");
    assert!(world.screen(80, 24).contains("sixth!"), "the cursor is where it was");
}

#[test]
fn the_key_that_stops_or_declines_fits_a_narrow_screen() {
    let mut world = World::new();
    world.says("go");
    assert!(world.screen(60, 20).contains(" Esc stop "), "{}", world.screen(60, 20));
    world.says("!uptime");
    let screen = world.screen(60, 20);
    assert!(screen.contains("not run: a turn is running") && screen.contains(" Esc stop "), "{screen}");
    for kind in [QuestionKind::Secret, QuestionKind::PerhapsSecret] {
        let mut world = in_review("make");
        world.press(KeyCode::Enter).asks(1, kind, "Password:").is_read();
        for columns in [60, 40] {
            let screen = world.screen(columns, 20);
            assert!(screen.contains("Esc decline"), "{kind:?} {columns}: {screen}");
        }
    }
}
