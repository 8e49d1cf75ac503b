//! Snapshots of every state at a usual, a large and a small size.

use crossterm::event::KeyCode;
use expect_test::expect_file;
use serde_json::json;
use sysop_core::message::{Reply, Usage};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::question::QuestionKind;

use super::world::{World, bash, call, control, says};

const SMALL: (u16, u16) = (40, 12);
const USUAL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

/// Builds a front end in one of its states.
type State = fn() -> World;

fn picture(world: &mut World, (columns, rows): (u16, u16)) -> String {
    world.screen(columns, rows)
}

fn input() -> World {
    World::new()
}

fn thinking() -> World {
    let mut world = World::new();
    world.says("why is the disk of web1 full?").passes(std::time::Duration::from_secs(3));
    world
}

fn answering() -> World {
    let mut world = thinking();
    world.streams("The disk is full because of **logs**. Let me look at the largest of them, in `/var/log`:\n\n- syslog\n- journal");
    world
}

fn review() -> World {
    let mut world = thinking();
    world.replies(bash("c1", "sudo rm -rf /var/log/*.gz && df -h /var | tail -1")).is_read();
    world
}

fn edit_review() -> World {
    let mut world = thinking();
    let edit = call(
        "c1",
        "edit_file",
        json!({"path": "etc/app.conf", "old_string": "level = debug\nkeep = 1", "new_string": "level = info\nkeep = 1"}),
    );
    world
        .replies(Reply { text: "The level is too low.".to_owned(), calls: vec![edit], ..Reply::default() })
        .is_read();
    world
}

fn executing() -> World {
    let mut world = review();
    world
        .press(KeyCode::Char('Y'))
        .press(KeyCode::Enter)
        .prints("removed 14 files\r\n\u{1b}[32mok\u{1b}[0m\n/dev/sda1   20G   12G  8.0G  60% /var\n");
    world.passes(std::time::Duration::from_secs(2));
    world
}

fn finalizing() -> World {
    let mut world = executing();
    let output = "removed 14 files\nok\n/dev/sda1   20G   12G  8.0G  60% /var\n";
    world.ends(Outcome { exit_code: Some(0), duration_ms: 2_100, ..Outcome::new(Status::Ok, output) });
    world
}

fn done() -> World {
    let mut world = finalizing();
    let usage = Usage { input_tokens: 1_234, output_tokens: 56, cached_tokens: 1_000 };
    world.replies(Reply { usage, ..says("There are **8 GB** free now; the old logs are gone.") });
    world
}

fn editing() -> World {
    let mut world = review();
    world.answers_with('i').types(" # häufig");
    world
}

fn rejecting() -> World {
    let mut world = review();
    world.answers_with('r').types("only older than a week");
    world
}

fn secret() -> World {
    let mut world = executing();
    world.asks(1, QuestionKind::Secret, "[sudo] password for anna: ").is_read().types("geheim");
    world
}

fn host_key() -> World {
    let mut world = thinking();
    let prompt = "The authenticity of host 'web1 (10.0.0.7)' can't be established.\nED25519 key fingerprint is SHA256:u0xXb1DYt9gG0t.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ";
    world.asks(1, QuestionKind::Text, prompt).is_read().types("ye");
    world
}

fn doubtful() -> World {
    let mut world = executing();
    world.asks(1, QuestionKind::PerhapsSecret, "Enter PIN: ").is_read();
    world
}

fn failed() -> World {
    let mut world = thinking();
    world.fails(sysop_core::message::FailureKind::Unreachable);
    world
}

fn paused() -> World {
    let mut world = executing();
    world
        .key(control('p'))
        .ends(Outcome { exit_code: Some(1), ..Outcome::new(Status::Failed, "no such file\n") });
    world.passes(std::time::Duration::from_secs(9));
    world
}

fn stopping() -> World {
    let mut world = executing();
    world.press(KeyCode::Esc);
    world
}

fn queued() -> World {
    let mut world = executing();
    world.says("and then restart nginx").types("a draft");
    world
}

fn help() -> World {
    let mut world = input();
    world.press(KeyCode::Char('?'));
    world
}

fn colors() -> World {
    let mut world = done();
    world.says("/theme");
    world
}

fn completing() -> World {
    let mut world = done();
    world.types("/re").press(KeyCode::Down);
    world
}

fn cards() -> World {
    let mut world = done();
    world.press(KeyCode::Tab);
    world
}

fn multi_line() -> World {
    let mut world = input();
    world.types("first line").key(control('j')).types("second, with 漢字 and 🙂").key(control('j'));
    world.pastes(&"a line of a large paste\n".repeat(12));
    world
}

fn opening() -> World {
    let mut world = World::new();
    world.app = crate::app::App::new(crate::app::AppOptions::default());
    world.types("typed before anything is open");
    world
}

/// After an intended change, run with `UPDATE_EXPECT=1` and review the differences.
#[test]
fn every_state_matches_its_snapshot() {
    let states: [(&str, State); 23] = [
        ("opening", opening),
        ("input", input),
        ("multi_line", multi_line),
        ("thinking", thinking),
        ("answering", answering),
        ("review", review),
        ("edit_review", edit_review),
        ("editing", editing),
        ("rejecting", rejecting),
        ("executing", executing),
        ("finalizing", finalizing),
        ("done", done),
        ("secret", secret),
        ("host_key", host_key),
        ("doubtful", doubtful),
        ("failed", failed),
        ("paused", paused),
        ("stopping", stopping),
        ("queued", queued),
        ("help", help),
        ("colors", colors),
        ("completing", completing),
        ("cards", cards),
    ];
    for (name, state) in states {
        let pictures = [USUAL, LARGE, SMALL].map(|size| {
            let (columns, rows) = size;
            format!("{columns}×{rows}\n{}", framed(&picture(&mut state(), size), columns))
        });
        expect_file![format!("screens/{name}.txt")].assert_eq(&pictures.join("\n"));
    }
}

/// Adds a right edge, so that trailing blanks are visible.
fn framed(picture: &str, columns: u16) -> String {
    picture
        .lines()
        .map(|line| {
            let gap = usize::from(columns).saturating_sub(sysop_term::cells::width(line));
            format!("{line}{}▕\n", " ".repeat(gap))
        })
        .collect()
}

#[test]
fn a_too_small_screen_shows_a_message_and_recovers() {
    let mut world = review();
    assert!(world.screen(19, 4).contains("window too small"));
    assert!(
        world.screen(20, 5).contains("$ sudo") || world.screen(20, 5).contains("to see"),
        "{}",
        world.screen(20, 5)
    );
    assert!(world.screen(80, 24).contains("Run this?"));
}
