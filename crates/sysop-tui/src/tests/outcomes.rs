//! Lines of the transcript about calls and turns that ended.

use std::time::Duration;

use crossterm::event::KeyCode;
use sysop_core::event::{Delta, Event};
use sysop_core::message::{Arguments, FailureKind, Reply};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::transcript::ItemId;
use sysop_core::ui_text::retrying;

use super::world::{World, bash};

#[test]
fn a_canceled_proposal_has_one_line_and_its_turn_another() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Esc);
    let screen = world.screen(80, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["■ not run", "■ stopped"], "{screen}");
}

#[test]
fn a_call_that_could_not_run_has_its_reason_and_no_rejection() {
    let mut world = World::new();
    let mut reply = bash("c1", "make");
    reply.calls[0].arguments = Arguments::Object(serde_json::Map::new());
    world.says("go").replies(reply);
    let screen = world.screen(80, 24);
    assert!(screen.contains("✗ not run: "), "{screen}");
    assert!(!screen.contains("rejected") && !screen.contains("✗ failed"), "{screen}");
}

#[test]
fn a_call_with_invalid_arguments_has_one_row_for_the_reason_until_it_is_unfolded() {
    let told = |world: &mut World| {
        let screen = world.screen(60, 24);
        let from = screen.lines().position(|line| line.starts_with("→ ")).expect("the call");
        let rows = screen.lines().skip(from).take_while(|line| !line.trim().is_empty());
        rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>()
    };
    let mut world = World::on("web1");
    let mut reply = bash("c1", "make");
    reply.calls[0].arguments = Arguments::Invalid("{\"command\": \"make".to_owned());
    world.says("go").replies(reply);
    let not_parsed = ["→ bash(...)", "✗ not run: the arguments of `bash` are not a JSON object"];
    assert_eq!(told(&mut world), not_parsed);
    let mut world = World::on("web1");
    let mut reply = bash("c1", "make");
    let long: serde_json::Map<_, _> = [("command".to_owned(), vec!["make"; 40].into())].into_iter().collect();
    reply.calls[0].arguments = Arguments::Object(long);
    world.says("go").replies(reply);
    let rows = told(&mut world);
    let reason: Vec<_> = rows.iter().filter(|row| row.starts_with('✗')).collect();
    assert!(reason[0].starts_with("✗ not run: invalid arguments of `bash`: command: ["), "{rows:?}");
    assert!(reason[0].ends_with('…') && rows.last() == Some(reason[0]), "{rows:?}");
    world.press(KeyCode::Tab);
    while !matches!(world.app.history.focused(), Some(ItemId::ToolOutput(_))) {
        world.press(KeyCode::Up);
    }
    world.press(KeyCode::Enter);
    let rows = told(&mut world);
    let reason = rows.iter().skip_while(|row| !row.contains("not run: "));
    let reason = reason.map(|row| row.trim_start_matches('▌').trim()).collect::<Vec<_>>().join(" ");
    assert!(reason.ends_with("is not of type \"string\"") && !reason.contains('…'), "{reason}");
}

#[test]
fn a_retry_is_one_line_and_leaves_the_key_that_stops_the_turn_visible() {
    let mut world = World::new();
    let retry = |attempt, reason: &str| Delta::Notice { text: retrying("4 s", attempt, 6, reason) };
    world.says("go").delta(retry(2, "no answer"));
    world.delta(retry(3, "http://models.example.com:8080/v1 returned 503: overloaded, come back much later"));
    let screen = world.screen(80, 24);
    assert!(screen.contains("retrying in 4 s, attempt 3 of 6: http://"), "{screen}");
    assert!(screen.contains("Esc stop") && !screen.contains("attempt 2"), "{screen}");
}

#[test]
fn the_status_counts_down_to_the_next_attempt() {
    let mut world = World::new();
    world.says("go").delta(Delta::Notice { text: retrying("4 s", 3, 6, "no answer") });
    let status = |world: &mut World| {
        let screen = world.screen(100, 24);
        screen.lines().find(|line| line.contains("Esc stop")).expect("a status").to_owned()
    };
    assert!(status(&mut world).contains("retrying in 4 s, attempt 3 of 6: no answer"));
    world.passes(Duration::from_millis(1_500));
    assert!(status(&mut world).contains("retrying in 3 s, attempt 3 of 6: no answer"));
    world.passes(Duration::from_secs(3));
    assert!(status(&mut world).contains("trying again, attempt 3 of 6: no answer"));
    let screen = world.fails(FailureKind::Unreachable).screen(100, 24);
    assert!(screen.contains("the model cannot be reached") && !screen.contains("retrying"), "{screen}");
}

#[test]
fn the_call_of_a_reply_is_shown_while_its_host_does_not_answer() {
    let mut world = World::on("slow");
    world.says("disk full").streams("Let me look.");
    assert!(world.screen(100, 24).contains("qwen is answering"));
    let step = world.asked.take().expect("a model is asked");
    let reply = Reply { text: "Let me look.".to_owned(), ..bash("c1", "df -h") };
    world.happened(vec![Event::Replied { step, reply }]);
    // Most calls are assessed at once: nothing flickers.
    let screen = world.screen(100, 24);
    assert!(screen.contains("connecting to slow · 0 s") && !screen.contains("df -h"), "{screen}");
    let screen = world.passes(Duration::from_secs(14)).screen(100, 24);
    assert!(screen.contains("connecting to slow · 14 s") && screen.contains("Next  bash · slow"), "{screen}");
    assert!(screen.contains("$ df -h") && !screen.contains("answering"), "{screen}");
}

#[test]
fn each_page_of_a_dangerous_proposal_states_the_danger() {
    let mut world = World::new();
    let steps: Vec<String> = (0..40).map(|n| format!("touch file{n}")).collect();
    world.says("go").replies(bash("c1", &format!("{}\nrm -rf /etc", steps.join("\n"))));
    let screen = world.screen(100, 24);
    let title = screen.lines().find(|line| line.contains("Run this?")).unwrap_or_default();
    assert!(title.contains("lines 1–") && title.contains("  ⚠ "), "{screen}");
}

#[test]
fn a_canceled_command_has_one_line_and_its_turn_another() {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter).press(KeyCode::Esc);
    world.ends(Outcome { duration_ms: 1_200, ..Outcome::new(Status::Cancelled, "") });
    let screen = world.screen(80, 24);
    let told: Vec<&str> = screen.lines().filter(|line| line.starts_with(['■', '│'])).collect();
    assert_eq!(told, ["■ canceled, 1.2 s", "■ stopped"], "{screen}");
}
