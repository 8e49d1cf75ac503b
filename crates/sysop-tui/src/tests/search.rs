//! Search in the transcript, and what a cleared history hides.

use crossterm::event::KeyCode;
use ratatui::style::Color;
use sysop_core::event::Input;
use sysop_core::outcome::{Outcome, Status};

use super::world::{World, bash, control, says};

/// Background of the current match in the dark theme.
const CURRENT: Color = Color::Indexed(24);

/// A session with two matches of `disk` in one output, one in the prompt and one in the answer.
fn with_matches() -> World {
    let mut world = World::that_always_asks();
    world.says("is the disk full?").replies(bash("c1", "df -h")).is_read().press(KeyCode::Enter);
    world.ends(Outcome::new(Status::Ok, "disk one: 20%\nsomething else\ndisk two: 90%"));
    world.replies(says("The second Disk is almost full."));
    world.screen(80, 24);
    world
}

/// Returns the screen row of the current match with the marked text.
fn current_match(world: &mut World) -> (u16, String) {
    let buffer = world.frame(80, 24);
    let is_marked = |x: u16, y: u16| buffer[(x, y)].bg == CURRENT && buffer[(x, y)].symbol() != "▌";
    let rows = (0..24).filter(|y| (0..80).any(|x| is_marked(x, *y)));
    let rows: Vec<u16> = rows.collect();
    assert_eq!(rows.len(), 1, "one match is current");
    let row = rows[0];
    let marked = (0..80).filter(|x| is_marked(*x, row)).map(|x| buffer[(x, row)].symbol());
    (row, marked.collect())
}

#[test]
fn a_search_steps_from_match_to_match_and_counts_them() {
    let mut world = with_matches();
    world.press(KeyCode::Tab).types("/disk").press(KeyCode::Enter);
    let mut rows = Vec::new();
    for position in ["4 of 4", "3 of 4", "2 of 4", "1 of 4", "4 of 4"] {
        let (row, text) = current_match(&mut world);
        let screen = world.screen(80, 24);
        assert!(screen.contains(&format!("/ disk  {position}")), "{position} in\n{screen}");
        assert_eq!(text.to_lowercase(), "disk", "{position}");
        rows.push(row);
        world.types("n");
    }
    assert!(rows[0] > rows[1] && rows[1] > rows[2] && rows[2] > rows[3], "each is above the last: {rows:?}");
    assert_eq!(rows[4], rows[0], "the search wraps around");
    world.types("NN");
    assert!(world.screen(80, 24).contains("/ disk  1 of 4"));
}

#[test]
fn a_search_shows_the_other_matches_underlined() {
    let mut world = with_matches();
    world.press(KeyCode::Tab).types("/disk").press(KeyCode::Enter);
    let buffer = world.frame(80, 24);
    let underlined = buffer.content().iter().filter(|cell| {
        cell.fg == Color::Indexed(221) && cell.modifier.contains(ratatui::style::Modifier::UNDERLINED)
    });
    assert_eq!(underlined.count(), 3 * "disk".len());
    world.press(KeyCode::Esc);
    let buffer = world.frame(80, 24);
    assert!(
        buffer.content().iter().all(|cell| cell.fg != Color::Indexed(221)),
        "the marks end with the search"
    );
}

#[test]
fn a_cleared_history_is_gone_from_the_screen() {
    let mut world = with_matches();
    world.types("/clear").press(KeyCode::Enter);
    let screen = world.screen(80, 24);
    assert!(screen.contains("History cleared; earlier messages stay in the log"), "{screen}");
    assert!(!screen.contains("disk"), "{screen}");
    world.key(crossterm::event::KeyEvent::new(KeyCode::Home, crossterm::event::KeyModifiers::CONTROL));
    world.press(KeyCode::PageUp);
    assert!(!world.screen(80, 24).contains("disk"), "scrolling does not bring it back");
    // What follows is shown as usual, and only that has cards and matches.
    world.says("hello").replies(says("Hello there."));
    let screen = world.screen(80, 24);
    assert!(screen.contains("Hello there.") && !screen.contains("df -h"), "{screen}");
    world.key(control('o')).types("/disk").press(KeyCode::Enter);
    assert!(world.screen(80, 24).contains("not found: disk"));
    world.press(KeyCode::Esc);
    for _ in 0..5 {
        world.press(KeyCode::Up);
    }
    assert!(!world.screen(80, 24).contains("df -h"), "no hidden card gets the focus");
}

#[test]
fn a_card_that_was_cleared_while_it_had_the_focus_stays_hidden() {
    let mut world = with_matches();
    world.press(KeyCode::Tab).press(KeyCode::Up).press(KeyCode::Up);
    world.tell(Input::Clear).press(KeyCode::Enter);
    assert!(!world.screen(80, 24).contains("disk"));
    let mut world = with_matches();
    world.press(KeyCode::Tab).types("/disk").press(KeyCode::Enter).tell(Input::Clear);
    let screen = world.screen(80, 24);
    assert!(screen.starts_with("· History cleared"), "{screen}");
}

#[test]
fn a_search_that_fails_names_the_output_that_is_shown_only_in_part() {
    let told = |truncated: bool| {
        let mut world = World::that_always_asks();
        world.says("go").replies(bash("c1", "df -h")).is_read().press(KeyCode::Enter);
        let artifact = truncated.then(|| "a1".to_owned());
        world.ends(Outcome { truncated, artifact, ..Outcome::ok("a\n… [9 lines omitted] …\nb") });
        world.replies(says("Done."));
        world.press(KeyCode::Tab).types("/disk").press(KeyCode::Enter);
        world.app.flash().unwrap_or_default().to_owned()
    };
    assert_eq!(told(false), "not found: disk");
    let more = "not found: disk; not in the shown part: o on a truncated output opens all of it";
    assert_eq!(told(true), more);
}
