//! Edited commands: they run only as seen, with their effect and their risk.

use crossterm::event::KeyCode;
use sysop_core::event::{Decision, Input};

use super::keys::{decisions, in_review};
use super::world::key;
use crate::app::{Action, ReviewMode};

#[test]
fn an_edited_command_runs_only_after_its_effect_was_shown() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('i')).types("yz");
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
    let request = sent(world.app.key(key(KeyCode::Enter), world.now));
    assert!(decisions(&world).is_empty());
    assert!(world.screen(120, 24).contains("wait for the effect of the edited command"));
    world.tell(request).is_read().press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Allow { command: Some("touch xyz".to_owned()) }]);
}

#[test]
fn an_edit_that_makes_a_command_dangerous_needs_capital_y() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('i')).types("; sudo rm -rf /srv").press(KeyCode::Enter);
    world.is_read().press(KeyCode::Enter);
    assert!(decisions(&world).is_empty() && world.screen(120, 24).contains("Y run"));
    world.is_read().press(KeyCode::Char('Y'));
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn nothing_on_the_card_moves_when_editing_begins() {
    let mut world = in_review("rm -rf build && df -h");
    let place = |screen: &str, text: &str| screen.lines().position(|line| line.contains(text)).expect(text);
    let before = world.screen(80, 24);
    world.is_read().press(KeyCode::Char('i'));
    let after = world.screen(80, 24);
    assert!(after.contains("Esc done"), "{after}");
    for text in ["Run this?", "$ rm -rf build", "dangerous"] {
        assert_eq!(place(&before, text), place(&after, text), "{text}\n{before}\n{after}");
    }
    world.types(" -x");
    let typed = world.screen(80, 24);
    assert_eq!(place(&before, "Run this?"), place(&typed, "Run this?"), "{typed}");
}
