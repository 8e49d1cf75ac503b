//! Edited commands: they run only as seen, with their effect and their risk.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::event::{Decision, Event, Input};

use super::keys::{decisions, in_review};
use super::world::{World, control, key};
use crate::app::{Action, EditTarget, FLASH_MAX, KEY_DEBOUNCE, LETTER_PAUSE, ReviewMode, State};

#[test]
fn an_edited_command_runs_only_after_its_effect_was_shown() {
    let mut world = in_review("touch x");
    world.answers_with('i').types("yz");
    // Requests for the preview stay unanswered at first.
    let sent = |actions: Vec<Action>| match &actions[..] {
        [Action::Send(request @ Input::PreviewCommand { command, .. })] if command == "touch xyz" => {
            request.clone()
        }
        other => panic!("{other:?}"),
    };
    sent(world.app.key(key(KeyCode::Enter), world.now));
    assert_eq!(world.app.review().map(|it| it.mode()), Some(ReviewMode::Deciding));
    world.is_read();
    let screen = world.screen(120, 24);
    assert!(screen.contains("checking the effect…") && !screen.contains("Enter run"), "{screen}");
    let request = sent(world.app.key(key(KeyCode::Enter), world.now));
    assert!(decisions(&world).is_empty());
    assert!(world.screen(120, 24).contains("wait: the effect is being checked"));
    world.tell(request).is_read();
    assert!(world.screen(120, 24).contains("Enter run"));
    world.press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Allow { command: Some("touch xyz".to_owned()) }]);
}

#[test]
fn a_dangerous_edit_runs_by_no_key_before_its_effect_is_known() {
    let mut world = in_review("touch x");
    world.answers_with('i').types("; sudo rm -rf /srv").press(KeyCode::Enter).is_read();
    world.answers_with('i').types("/x");
    // The request for the preview stays unanswered.
    world.app.key(key(KeyCode::Enter), world.now);
    world.is_read();
    for answer in [KeyCode::Enter, KeyCode::Char('Y')] {
        world.app.key(key(answer), world.now);
        world.now += LETTER_PAUSE;
        world.app.release_letter(world.now);
        assert_eq!(world.app.flash(), Some("wait: the effect is being checked"), "{answer:?}");
    }
    assert!(decisions(&world).is_empty());
}

#[test]
fn the_editor_offers_no_key_of_the_proposal() {
    let mut world = in_review("touch x");
    let offer = "a allow for this session";
    assert!(world.screen(100, 24).contains(offer));
    world.answers_with('i');
    assert!(!world.screen(100, 24).contains(offer), "{}", world.screen(100, 24));
    world.press(KeyCode::Esc);
    assert!(world.screen(100, 24).contains(offer));
}

#[test]
fn an_edit_that_makes_a_command_dangerous_needs_capital_y() {
    let mut world = in_review("touch x");
    world.answers_with('i').types("; sudo rm -rf /srv").press(KeyCode::Enter);
    world.is_read().press(KeyCode::Enter);
    assert!(decisions(&world).is_empty() && world.screen(120, 24).contains("Y run"));
    world.is_read().answers_with('Y');
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn an_edited_command_is_only_allowed_once() {
    let mut world = in_review("touch flag.txt && ls -la");
    let offer = "a allow for this session";
    assert!(world.screen(120, 24).contains(offer) && world.screen(120, 24).contains("a session"));
    world.answers_with('i').types(" && rm -rf /tmp/zzz").press(KeyCode::Enter).is_read();
    let screen = world.screen(120, 24);
    assert!(screen.contains("dangerous: recursive delete"), "{screen}");
    assert!(!screen.contains(offer) && !screen.contains("a session"), "{screen}");
    world.answers_with('a');
    assert!(world.screen(120, 24).contains("this kind of command can only be allowed once"));
    assert!(decisions(&world).is_empty() && world.app.state() == State::ReviewAction);
    world.is_read().answers_with('Y');
    assert_eq!(decisions(&world).len(), 1);
    let mut world = in_review("touch x");
    world.answers_with('i').types("y").press(KeyCode::Enter).is_read().answers_with('a');
    assert!(world.screen(120, 24).contains("an edited command can only be allowed once"));
    assert!(decisions(&world).is_empty());
}

#[test]
fn an_emptied_command_cannot_be_run() {
    let mut world = in_review("x");
    world.answers_with('i').press(KeyCode::Backspace).press(KeyCode::Enter);
    assert!(world.screen(100, 24).contains("the command is empty; press Esc to restore it"));
    for mode in [ReviewMode::Editing, ReviewMode::Deciding] {
        if mode == ReviewMode::Deciding {
            let now = world.press(KeyCode::Esc).now;
            world.app.edited(EditTarget::Proposal, Some(String::new()), now);
        }
        assert_eq!(world.passes(FLASH_MAX).is_read().app.review().map(|it| it.mode()), Some(mode));
        let screen = world.screen(100, 24);
        assert!(screen.contains("! empty command: there is nothing to run"), "{screen}");
        assert!(!screen.contains("read-only") && !screen.contains("Enter run"), "{screen}");
    }
    world.press(KeyCode::Enter);
    assert!(decisions(&world).is_empty() && world.screen(100, 24).contains("press i to edit it"));
}

#[test]
fn escape_and_ctrl_c_discard_an_edit_and_enter_ends_it() {
    for leave in [key(KeyCode::Esc), control('c')] {
        let mut world = in_review("touch x");
        // The last row has the time.
        let rows = |screen: String| screen.lines().take(23).map(str::to_owned).collect::<Vec<_>>();
        let card = rows(world.screen(120, 24));
        world.answers_with('i').types("yz");
        assert!(world.screen(120, 24).contains("Enter done · Esc discard"));
        world.key(leave);
        // A key that comes before the proposal is displayed again answers nothing.
        world.press(KeyCode::Enter);
        assert!(decisions(&world).is_empty(), "{leave:?}");
        assert_eq!(rows(world.is_read().screen(120, 24)), card, "{leave:?}");
        world.press(KeyCode::Enter);
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{leave:?}");
    }
    // An edit that Enter has ended is discarded by the next one; Alt+u brings it back.
    let mut world = in_review("touch x");
    world.answers_with('i').types("y").press(KeyCode::Enter).is_read();
    assert!(world.screen(120, 24).contains("$ touch xy"));
    world.answers_with('i').press(KeyCode::Esc).is_read();
    assert!(!world.screen(120, 24).contains("touch xy") && !world.app.review().unwrap().is_edited());
    world.answers_with('i').key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::ALT));
    assert!(world.app.review().unwrap().is_edited());
}

#[test]
fn enter_in_the_editor_runs_nothing() {
    let mut world = in_review("touch x");
    world.answers_with('i').press(KeyCode::Enter).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    world.is_read().press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Allow { command: None }]);
}

#[test]
fn ctrl_c_leaves_the_feedback_before_it_stops_the_turn() {
    let mut world = in_review("touch x");
    world.answers_with('r').types("not there").key(control('c'));
    assert_eq!(world.app.review().map(|it| it.mode()), Some(ReviewMode::Deciding));
    world.key(control('c'));
    assert!(world.log.iter().any(|event| matches!(event, Event::TurnEnded { .. })));
    assert!(!world.actions.iter().any(|action| matches!(action, Action::Quit(_))));
}

#[test]
fn the_models_command_is_restored_exactly() {
    let command = "printf 'a\r\n\tb\u{200b}'\r\necho";
    let mut world = in_review(command);
    world.answers_with('i').types("x").press(KeyCode::Esc).is_read();
    assert_eq!(world.app.review().unwrap().command(), command);
}

#[test]
fn a_refused_decision_leaves_the_proposal_open() {
    let mut world = in_review("rm -rf /srv/x");
    let call = world.app.review().unwrap().call().clone();
    let decision = Decision::AllowSession { command: None };
    world.app.close_review(&call, &decision, world.now);
    assert!(world.app.review().is_none());
    world.tell(Input::Decision { call, decision, by: "tui".to_owned(), person: None });
    assert!(decisions(&world).is_empty() && world.app.state() == State::ReviewAction);
    let screen = world.screen(120, 24);
    assert!(screen.contains("it still waits for an answer") && screen.contains("Run this?"), "{screen}");
}

#[test]
fn a_call_that_asks_again_after_its_answer_is_shown_again() {
    let mut world = in_review("touch x");
    let call = world.app.review().unwrap().call().clone();
    world.press(KeyCode::Enter);
    assert!(world.app.review().is_none());
    let asked = world.log.iter().find(|event| matches!(event, Event::ApprovalAsked { .. })).cloned().unwrap();
    world.happened(vec![asked]);
    assert_eq!(world.app.review().map(|review| review.call().clone()), Some(call));
    assert_eq!(world.app.state(), State::ReviewAction);
}

#[test]
fn nothing_on_the_card_moves_when_editing_begins() {
    let mut world = in_review("rm -rf build && df -h");
    let place = |screen: &str, text: &str| screen.lines().position(|line| line.contains(text)).expect(text);
    let before = world.screen(80, 24);
    world.is_read().answers_with('i');
    let after = world.screen(80, 24);
    assert!(after.contains("Esc discard"), "{after}");
    for text in ["Run this?", "$ rm -rf build", "dangerous"] {
        assert_eq!(place(&before, text), place(&after, text), "{text}\n{before}\n{after}");
    }
    world.types(" -x");
    let typed = world.screen(80, 24);
    assert_eq!(place(&before, "Run this?"), place(&typed, "Run this?"), "{typed}");
}

/// Returns a command of `lines` lines, `touch file1` and so on.
fn long_command(lines: usize) -> String {
    (1..=lines).map(|number| format!("touch file{number}")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_long_proposal_tells_which_lines_are_shown() {
    let mut world = in_review(&long_command(60));
    let position = |world: &mut World| {
        let screen = world.screen(100, 24);
        let title = screen.lines().find(|line| line.contains("Run this?")).expect("a title").to_owned();
        title.split("Run this?  lines ").nth(1).map(|rest| rest.split("  ").next().unwrap().to_owned())
    };
    let first = position(&mut world).expect("it does not fit");
    assert!(first.starts_with("1–"), "{first}");
    let (page, total) = first.trim_start_matches("1–").split_once(" of ").expect("a range");
    let (page, total): (usize, usize) = (page.parse().unwrap(), total.parse().unwrap());
    assert!(total > 60, "{first}");
    world.is_read();
    world.frame(100, 24);
    world.press(KeyCode::Enter);
    assert_eq!(position(&mut world), Some(format!("{}–{} of {total}", page + 1, 2 * page)));
    assert_eq!(position(&mut in_review("touch x")), None, "a short one needs no position");
}

#[test]
fn editing_a_long_command_begins_on_the_page_that_was_shown() {
    let mut world = in_review(&long_command(60));
    world.frame(100, 24);
    world.press(KeyCode::Enter);
    let shown = world.screen(100, 24);
    let last =
        shown.lines().rev().find_map(|line| line.split_once("touch file")).expect("a command").1.to_owned();
    world.answers_with('i');
    let screen = world.screen(100, 24);
    assert!(screen.contains(&format!("touch file{last}")), "line {last} in\n{screen}");
    world.types("x");
    let command = world.app.review().expect("a review").command();
    assert!(command.contains(&format!("touch file{last}x\n")), "the cursor is on that line: {command}");
}

#[test]
fn rows_of_another_width_are_read_again() {
    let mut world = in_review(&format!("echo {}", "word ".repeat(1600)));
    world.frame(100, 24);
    for _ in 0..3 {
        world.press(KeyCode::PageDown).frame(100, 24);
    }
    world.frame(200, 24);
    world.press(KeyCode::End).is_read();
    world.frame(200, 24);
    world.press(KeyCode::End).frame(200, 24);
    let screen = world.screen(200, 24);
    assert!(screen.contains("Enter unread lines"), "{screen}");
}

#[test]
fn page_and_end_keys_scroll_a_long_proposal() {
    let mut world = in_review(&long_command(60));
    let title = |world: &mut World| {
        let screen = world.screen(120, 24);
        screen.lines().find(|line| line.contains("Run this?")).expect("a title").to_owned()
    };
    let first = title(&mut world);
    let screen = world.is_read().screen(120, 24);
    assert!(
        screen.contains("Enter more · r reject · PgUp/PgDn scroll") && screen.contains("Home/End"),
        "{screen}"
    );
    assert!(title(world.press(KeyCode::PageDown)) != first, "{first}");
    assert_eq!(title(world.press(KeyCode::PageUp)), first);
    // The pages between were not displayed, so that Enter goes to the first of them.
    assert!(world.press(KeyCode::End).screen(120, 24).contains("touch file60"));
    world.is_read();
    world.frame(120, 24);
    let screen = world.screen(120, 24);
    assert!(
        screen.contains("Enter unread lines") && screen.contains(" lines above not read yet"),
        "{screen}"
    );
    let mut pages = 0;
    while world.app.review().is_some() {
        world.press(KeyCode::Enter).passes(KEY_DEBOUNCE);
        world.frame(120, 24);
        pages += 1;
    }
    assert!(pages > 3 && decisions(&world).len() == 1, "{pages}");
    // All was displayed, so that the last page can be answered after a look at the first one.
    let mut world = in_review(&long_command(60));
    for code in [KeyCode::PageDown; 9].into_iter().chain([KeyCode::Home, KeyCode::End]) {
        world.press(code);
        world.frame(120, 24);
    }
    assert!(world.press(KeyCode::Enter).app.review().is_none());
    // In a draft, Home and End move the cursor, and a short proposal leaves the keys to the history.
    let mut world = in_review(&long_command(60));
    let first = title(&mut world);
    world.types("bc").press(KeyCode::Home).types("a").press(KeyCode::End).types("d");
    assert_eq!((world.app.composer().text().as_str(), title(&mut world)), ("abcd", first));
    assert!(!in_review("touch x").screen(120, 24).contains("PgUp/PgDn"));
}
