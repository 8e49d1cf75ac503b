//! Cards of the transcript: moving between them, and what they show and copy of an output.

use crossterm::event::KeyCode;
use sysop_core::outcome::{Outcome, Reversibility};
use sysop_core::transcript::ItemId;

use super::keys::in_review;
use super::world::{World, says};
use crate::app::{Action, Focus};

/// A turn with one command that ended like this.
fn finished(outcome: Outcome) -> World {
    let mut world = in_review("make");
    world.press(KeyCode::Enter).ends(outcome).replies(says("done"));
    world
}

fn copied(world: &mut World) -> (String, Option<String>) {
    world.press(KeyCode::Tab);
    while !matches!(world.app.history.focused(), Some(ItemId::ToolOutput(_))) {
        world.press(KeyCode::Up);
    }
    world.types("y");
    let Some(Action::Copy { text, part }) = world.actions.last() else { panic!("{:?}", world.actions) };
    (text.clone(), part.clone())
}

#[test]
fn tab_goes_on_to_older_cards_and_does_not_leave_them() {
    let mut world = finished(Outcome::ok("made"));
    world.press(KeyCode::Tab);
    let newest = world.app.history.focused().cloned();
    world.press(KeyCode::Tab);
    assert!(matches!(world.app.history.focused(), Some(ItemId::ToolOutput(_))), "{newest:?}");
    for _ in 0..9 {
        world.press(KeyCode::Tab);
    }
    assert!(matches!(world.app.history.focused(), Some(ItemId::Prompt(_))));
    world.press(KeyCode::Up).press(KeyCode::Enter);
    assert_eq!((world.app.focus(), world.app.composer().is_empty()), (Focus::Cards, true));
    let screen = world.screen(80, 24);
    assert!(screen.contains("─ Esc back · Tab older") && !screen.contains("Enter expand"), "{screen}");
    world.press(KeyCode::Esc);
    assert_eq!(world.app.focus(), Focus::Box);
}

#[test]
fn a_card_offers_to_unfold_only_what_is_folded() {
    let lines: Vec<String> = (0..40).map(|number| format!("line {number}")).collect();
    for (output, is_long) in [(lines.join("\n"), true), ("made".to_owned(), false)] {
        let mut world = finished(Outcome::ok(output));
        let screen = world.press(KeyCode::Tab).screen(100, 60);
        assert!(screen.contains("Esc back") && !screen.contains("Enter expand"), "an answer: {screen}");
        let screen = world.press(KeyCode::Tab).screen(100, 60);
        assert_eq!(screen.contains("Enter expand"), is_long, "{screen}");
        let screen = world.press(KeyCode::Enter).screen(100, 60);
        assert_eq!(screen.contains("Enter fold"), is_long, "{screen}");
    }
}

#[test]
fn a_copied_output_has_no_lines_that_are_meant_for_the_model() {
    let text = "one\n… [4,500 lines, 90,000 bytes omitted; full output: artifact a1] …\ntwo\n[exit code 0]\n[no undo: \
                the program is unknown]";
    let outcome = Outcome {
        exit_code: Some(0),
        truncated: true,
        artifact: Some("a1".to_owned()),
        undo: Some(Reversibility::None),
        ..Outcome::ok(text)
    };
    let mut world = finished(outcome);
    assert_eq!(copied(&mut world), ("one\ntwo".to_owned(), Some("of 4,502; o opens all of it".to_owned())));
    let mut world = finished(Outcome { exit_code: Some(0), ..Outcome::ok("one\ntwo\n[exit code 0]") });
    assert_eq!(copied(&mut world), ("one\ntwo".to_owned(), None));
}

#[test]
fn the_status_of_a_card_says_why_there_is_no_undo_and_the_output_does_not() {
    let text = "made\n[exit code 0]\n[no undo: the program is unknown]";
    let undo = Some(Reversibility::None);
    let outcome = Outcome { exit_code: Some(0), undo, duration_ms: 8, ..Outcome::ok(text) };
    let screen = finished(outcome).screen(80, 24);
    assert!(screen.contains("│ made\n✓ 8 ms · no undo: the program is unknown\n"), "{screen}");
}

#[test]
fn a_folded_output_shows_the_last_update_of_a_progress_line() {
    let mut lines: Vec<String> = vec!["fetching".to_owned()];
    lines.extend((0..=99).map(|percent| format!("[{}] {percent}% {percent}kB/s", "#".repeat(percent / 10))));
    lines.push("fetched".to_owned());
    let mut world = finished(Outcome::ok(lines.join("\n")));
    let screen = world.screen(80, 24);
    assert!(
        screen.contains("│ fetching\n│ … 99 more lines\n│ [#########] 99% 99kB/s\n│ fetched\n"),
        "{screen}"
    );
    // Other lines with a percentage are not updates.
    let disks: Vec<String> = (b'a'..=b'z').map(|disk| format!("/dev/{} 12%", char::from(disk))).collect();
    let screen = finished(Outcome::ok(disks.join("\n"))).screen(80, 24);
    assert!(screen.contains("/dev/e 12%\n│ … 15 more lines\n│ /dev/u 12%"), "{screen}");
    let columns: Vec<String> = (0..26).map(|disk| format!(" {}%", 97 - disk * 3)).collect();
    let screen = finished(Outcome::ok(columns.join("\n"))).screen(80, 24);
    assert!(screen.contains("│  97%\n│  94%\n"), "{screen}");
}
