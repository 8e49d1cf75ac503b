//! Messages to the user above the input.

use std::time::Duration;

use crossterm::event::KeyCode;
use sysop_core::outcome::Outcome;

use super::world::{World, bash, says};
use crate::app::Action;

const LONG: &str = "session written to /tmp/some/very/long/directory/of/a/user/with/many/parts/and/names/in/it/\
                    sysop-01a22510-7c3e-4bb0-9d1e-aa0000000001.md";

#[test]
fn a_message_that_does_not_fit_in_a_row_is_wrapped() {
    let mut world = World::new();
    world.says("go").replies(says("done"));
    world.app.show_flash(LONG, world.now);
    let screen = world.screen(80, 24);
    let shown: String = screen.lines().map(str::trim).collect();
    let (start, end) = LONG.split_once(" to ").unwrap();
    assert!(shown.contains(&format!("{start} to{end}")), "{screen}");
    // Longer than a short message, and not for ever.
    world.passes(Duration::from_secs(6));
    assert!(world.screen(80, 24).contains("session written to"));
    world.passes(Duration::from_secs(10));
    assert!(!world.screen(80, 24).contains("session written to"));
    // A message that needs more rows than that is cut.
    world.app.show_flash("word ".repeat(100), world.now);
    let screen = world.screen(80, 24);
    assert_eq!(screen.lines().filter(|line| line.contains("word")).count(), 3, "{screen}");
    assert!(screen.contains("word…"), "{screen}");
}

#[test]
fn a_long_message_fits_on_every_screen() {
    for (columns, rows) in [(20, 5), (24, 7), (60, 12), (200, 60)] {
        for command in ["touch x", "touch a\ntouch b\ntouch c"] {
            let mut world = World::that_always_asks();
            world.says("go").replies(bash("c1", command)).is_read();
            world.app.show_flash(LONG, world.now);
            assert_eq!(world.screen(columns, rows).lines().count(), usize::from(rows));
        }
    }
}

#[test]
fn the_help_is_wrapped_on_a_narrow_screen() {
    for columns in [40, 60] {
        let mut world = World::new();
        world.press(KeyCode::Char('?'));
        let screen = world.screen(columns, 120);
        assert!(screen.lines().all(|row| !row.trim_end().ends_with('…')), "{screen}");
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Always allow this exact command (shows the rule)"), "{screen}");
    }
}

#[test]
fn the_cost_is_told_in_full() {
    let mut world = World::new();
    world.says("/cost");
    let screen = world.screen(60, 24);
    let shown = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = world.app.flash().unwrap().to_owned();
    assert!(text.len() > 56 && shown.contains(&text), "{text}: {screen}");
}

#[test]
fn an_unknown_provider_of_a_model_is_refused() {
    let mut world = World::new();
    let model = |world: &World| world.app.transcript().session_info().unwrap().model.to_string();
    let before = model(&world);
    world.says("/model nope/x");
    assert!(world.screen(120, 24).contains("unknown provider \"nope\"; available: openai"));
    assert_eq!(model(&world), before);
    assert!(!world.actions.iter().any(|act| matches!(act, Action::CheckModel(_))));
    world.says("/model openai/x");
    let checked = |act: &Action| matches!(act, Action::CheckModel(model) if model.to_string() == "openai/x");
    assert!(world.actions.iter().any(checked), "{:?}", world.actions);
}

#[test]
fn advice_for_the_model_is_not_shown_to_the_user() {
    let mut world = World::new();
    world.says("/approve never").says("go").replies(bash("c1", "touch one")).replies(says("That is it."));
    world.says("/plan").press(KeyCode::Esc);
    let screen = world.screen(120, 40);
    assert!(screen.contains("this session is read-only (approve = never)"), "{screen}");
    assert!(!screen.contains("keep investigating") && !screen.contains("step of your plan"), "{screen}");
}

#[test]
fn the_lines_that_were_omitted_for_the_model_count_as_folded() {
    let folded = |notice: &str, truncated: bool| {
        let line = |number: usize| format!("{number}\n");
        let head: String = (1..=250).map(line).collect();
        let tail: String = (551..=800).map(line).collect();
        let outcome = Outcome { truncated, ..Outcome::ok(format!("{head}{notice}\n{tail}")) };
        let mut world = World::new();
        world.says("go").replies(bash("c1", "seq 1 800")).ends(outcome).replies(says("done"));
        let screen = world.screen(80, 40);
        let row = screen.lines().find(|line| line.contains("more lines")).expect("it is folded").to_owned();
        row.trim_start_matches('│').trim().to_owned()
    };
    let artifact = "full output: artifact a1] …";
    assert_eq!(folded(&format!("… [300 lines, 1,200 bytes omitted; {artifact}"), true), "… 789 more lines");
    assert_eq!(folded(&format!("… [3,000 lines, 9 bytes omitted; {artifact}"), true), "… 3489 more lines");
    let range = "… [lines 251 to 550 omitted (1,200 bytes); read them with start_line and end_line] …";
    assert_eq!(folded(range, true), "… 789 more lines");
    assert_eq!(folded("… [1,200 bytes of line 251 omitted] …", true), "… more lines");
    // A command printed it.
    assert_eq!(folded(&format!("… [300 lines, 1,200 bytes omitted; {artifact}"), false), "… 490 more lines");
}
