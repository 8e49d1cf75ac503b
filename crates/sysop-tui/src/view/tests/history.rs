//! Scroll position and caching of the history.

use sysop_core::event::{ConfigChange, Delta, Event};
use sysop_core::message::Reply;
use sysop_core::outcome::Outcome;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};
use sysop_core::transcript::{ItemId, Transcript};
use sysop_term::theme::{Theme, ThemeName};

use super::super::history::{CACHED_ROWS_MAX, HistoryView, Scroll};
use super::{DARK, STEP, Story, bash, buffer, screen};

struct Reader {
    history: HistoryView,
    columns: u16,
    rows: u16,
    theme: Theme,
}

impl Reader {
    fn new(columns: u16, rows: u16) -> Self {
        Self { history: HistoryView::default(), columns, rows, theme: DARK }
    }

    fn see(&mut self, story: &Story) -> String {
        let mut buffer = buffer(self.columns, self.rows);
        self.history.draw(&story.transcript, None, self.theme, buffer.area, &mut buffer);
        screen(&buffer)
    }

    fn first(&mut self, story: &Story) -> String {
        self.see(story).lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }
}

fn long(turns: usize) -> Story {
    let mut story = Story::new();
    for turn in 0..turns {
        story.prompt(&format!("question {turn}")).answer(&format!("answer {turn}\n\nin two parts"));
    }
    story
}

#[test]
fn the_view_follows_the_end_until_scrolled() {
    let mut story = long(20);
    let mut reader = Reader::new(40, 8);
    assert!(reader.see(&story).contains("answer 19"));
    story.prompt("newest");
    assert!(reader.see(&story).trim_end().ends_with("❯ newest"));
    reader.history.scroll(Scroll::Up(10));
    let before = reader.see(&story);
    assert!(!reader.history.follows());
    story.answer("more").prompt("and more");
    assert_eq!(reader.see(&story), before, "nothing moves when something is added below");
    reader.history.scroll(Scroll::Down(1_000));
    assert!(reader.see(&story).contains("and more"));
    assert!(reader.history.follows());
}

#[test]
fn dropping_old_text_does_not_move_the_view() {
    let mut story = Story::new();
    let long = "one more paragraph of a long answer. ".repeat(400);
    for number in 0..500 {
        story.prompt(&format!("question {number}")).answer(&format!("answer {number}\n\n{long}"));
    }
    let mut reader = Reader::new(40, 9);
    reader.see(&story);
    reader.history.scroll(Scroll::Up(100));
    let before = reader.see(&story);
    for turn in 0..50 {
        story.prompt(&format!("later {turn}")).answer("yes");
    }
    assert_eq!(reader.see(&story), before);
    assert_eq!(reader.history.truncated_item(), None);
    reader.history.scroll(Scroll::Top);
    let top = reader.see(&story);
    assert!(top.starts_with("❯ question 0\n\n● answer 0"), "{top}");
    let short = reader.history.truncated_item().cloned().expect("what is far back was let go");
    assert!(story.transcript.backfill(&short).is_some());
}

#[test]
fn scrolling_up_and_down_returns_to_the_same_place() {
    let story = long(40);
    let mut reader = Reader::new(30, 10);
    let end = reader.see(&story);
    for by in [1, 3, 17, 60] {
        reader.history.scroll(Scroll::Up(by));
        assert_ne!(reader.see(&story), end);
        reader.history.scroll(Scroll::Down(by));
        assert_eq!(reader.see(&story), end);
    }
    reader.history.scroll(Scroll::Top);
    assert!(reader.see(&story).starts_with("❯ question 0\n"));
    reader.history.scroll(Scroll::Up(5));
    assert!(reader.see(&story).starts_with("❯ question 0\n"));
    reader.history.scroll(Scroll::PageDown);
    reader.history.scroll(Scroll::PageUp);
    assert!(reader.see(&story).starts_with("❯ question 0\n"));
    reader.history.scroll(Scroll::End);
    assert_eq!(reader.see(&story), end);
}

#[test]
fn resizing_keeps_the_scroll_position() {
    let mut story = Story::new();
    for turn in 0..30 {
        story.prompt(&format!("question {turn}")).answer(&"some words that wrap ".repeat(10));
    }
    let mut reader = Reader::new(80, 12);
    reader.see(&story);
    reader.history.scroll(Scroll::Up(60));
    let before = reader.see(&story);
    let number = |screen: &str| {
        let line = screen.lines().find(|line| line.contains("question")).unwrap().to_owned();
        line.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<i32>().unwrap()
    };
    reader.columns = 24;
    reader.see(&story);
    reader.columns = 80;
    assert!((number(&reader.see(&story)) - number(&before)).abs() <= 1);
    for (columns, rows) in [(1, 1), (2, 3), (20, 5), (300, 80)] {
        (reader.columns, reader.rows) = (columns, rows);
        reader.see(&story);
    }
}

#[test]
fn a_new_theme_applies_at_once() {
    let mut story = Story::new();
    story.prompt("x");
    let mut reader = Reader::new(10, 2);
    reader.see(&story);
    for name in ThemeName::ALL {
        let mut buffer = buffer(10, 2);
        reader.history.draw(&story.transcript, None, Theme::new(name), buffer.area, &mut buffer);
        assert_eq!(
            buffer[(2, 0)].fg,
            Theme::new(name).style(sysop_term::theme::StyleRole::Prompt).fg.unwrap_or_default()
        );
    }
}

#[test]
fn streamed_text_equals_the_final_text() {
    let text = "Some **text**.\n\n- a\n- b\n\n```sh\nls -la\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let mut story = Story::new();
    story.prompt("go").log(Event::StepStarted { step: STEP });
    let mut reader = Reader::new(40, 20);
    for piece in text.as_bytes().chunks(3) {
        let text = String::from_utf8(piece.to_vec()).unwrap();
        story.delta(Delta::Text { step: STEP, text });
        reader.see(&story);
    }
    let streamed = reader.see(&story);
    story.log(Event::Replied { step: STEP, reply: Reply { text: text.to_owned(), ..Reply::default() } });
    assert_eq!(reader.see(&story), streamed);
    assert_eq!(Reader::new(40, 20).see(&story), streamed);
}

#[test]
fn a_restarted_reply_is_redrawn() {
    let mut story = Story::new();
    story.prompt("go").log(Event::StepStarted { step: STEP });
    let mut reader = Reader::new(40, 6);
    story.delta(Delta::Text { step: STEP, text: "first try\n\nand more".into() });
    reader.see(&story);
    story.delta(Delta::Restarted { step: STEP });
    story.delta(Delta::Text { step: STEP, text: "second".into() });
    story.delta(Delta::Text { step: STEP, text: " try".into() });
    let seen = reader.see(&story);
    assert!(seen.contains("● second try") && !seen.contains("first"), "{seen}");
}

#[test]
fn cards_unfold_in_place() {
    let mut story = Story::new();
    let lines: String = (0..40).map(|line| format!("line {line}\n")).collect();
    story.prompt("go").step();
    story.ran(bash("a", "seq 40"), Outcome { exit_code: Some(0), ..Outcome::ok(lines) });
    story.answer("done");
    let mut reader = Reader::new(40, 20);
    assert!(reader.see(&story).contains("│ … 29 more lines"));
    reader.history.focus_last(&story.transcript);
    reader.history.focus_previous(&story.transcript);
    assert_eq!(reader.history.focused().map(ToString::to_string).as_deref(), Some("output-a"));
    reader.history.toggle();
    let open = reader.see(&story);
    assert!(open.contains("line 7") && !open.contains("more"), "{open}");
    reader.history.toggle();
    let folded = reader.see(&story);
    assert!(folded.contains("… 29 more lines"), "{folded}");
    reader.history.unfocus();
    assert_eq!(reader.history.focused(), None);
}

#[test]
fn a_card_shows_the_location_of_a_lent_tool() {
    let bare = SessionSpec { host: "none".into(), tools: Vec::new(), ..crate::tests::world::spec() };
    let mut story = Story { transcript: Transcript::of(&bare), ..Story::new() };
    let tool = ToolSpec {
        name: "bash".into(),
        description: "".into(),
        parameters: serde_json::json!({}).into(),
        effect: ToolEffect::Command,
    };
    let lend =
        |tools| Event::configured(ConfigChange::ClientTools(ClientTools { tools, root: "/home/me".into() }));
    let mut reader = Reader::new(40, 20);
    story.prompt("go");
    reader.see(&story); // laid out before the client offered a tool
    story.log(lend(vec![tool])).step();
    story.ran(bash("a", "ls"), Outcome::ok("kept.md"));
    let seen = reader.see(&story);
    assert!(seen.contains("· on the client"), "{seen}");
    assert_eq!(story.transcript.session_info().map(|facts| facts.place()), Some("the client"));
    story.log(lend(Vec::new()));
    assert_eq!(story.transcript.session_info().map(|facts| facts.place()), Some("none"));
}

#[test]
fn a_card_names_the_machine_of_a_server_only_beside_another_machine() {
    let host = sysop_core::ui_text::server_machine("ops.example.com");
    let on_server = SessionSpec { host, ..crate::tests::world::spec() };
    let mut story = Story { transcript: Transcript::of(&on_server), ..Story::new() };
    let mut reader = Reader::new(60, 20);
    story.prompt("go").step();
    story.ran(bash("a", "ls"), Outcome::ok("kept.md"));
    let seen = reader.see(&story);
    assert!(seen.contains("kept.md") && !seen.contains("ops.example.com"), "{seen}");
    let tool = ToolSpec {
        name: "client_bash".into(),
        description: "".into(),
        parameters: serde_json::json!({}).into(),
        effect: ToolEffect::Command,
    };
    let client_tools = ClientTools { tools: vec![tool], root: "/home/me".into() };
    story.log(Event::configured(ConfigChange::ClientTools(client_tools)));
    let seen = reader.see(&story);
    assert!(seen.contains("· on ops.example.com"), "{seen}");
}

#[test]
fn the_focused_item_scrolls_into_view() {
    let story = long(60);
    let mut reader = Reader::new(40, 10);
    reader.see(&story);
    reader.history.focus_last(&story.transcript);
    for _ in 0..80 {
        reader.history.focus_previous(&story.transcript);
        let seen = reader.see(&story);
        assert!(seen.contains('▌'), "{seen}");
    }
    for _ in 0..70 {
        reader.history.focus_next(&story.transcript);
        let seen = reader.see(&story);
        assert!(seen.contains('▌'), "{seen}");
    }
}

#[test]
fn a_screen_row_maps_to_its_item() {
    let mut story = Story::new();
    story.prompt("go").answer("yes");
    let mut reader = Reader::new(20, 4);
    let seen = reader.see(&story);
    let y = u16::try_from(seen.lines().position(|line| line.contains("yes")).unwrap()).unwrap();
    assert_eq!(reader.history.item_at(y), Some(&ItemId::Answer(STEP)));
    assert_eq!(reader.history.item_at(90), None);
}

#[test]
fn items_shown_elsewhere_are_omitted() {
    let mut story = Story::new();
    story.prompt("go").answer("yes");
    let mut buffer = buffer(20, 3);
    let hidden = ItemId::Answer(STEP);
    HistoryView::default().draw(&story.transcript, Some(&hidden), DARK, buffer.area, &mut buffer);
    assert_eq!(screen(&buffer).trim(), "❯ go");
}

#[test]
fn the_layout_cache_is_bounded() {
    let mut story = Story::new();
    for turn in 0..1_000 {
        story.prompt(&format!("{turn}")).answer(&"line\n\n".repeat(40));
    }
    let mut reader = Reader::new(40, 50);
    reader.see(&story);
    let one_screen = reader.history.cached_rows();
    assert!(one_screen < 300, "only what is seen is laid out: {one_screen}");
    for _ in 0..1_000 {
        reader.history.scroll(Scroll::PageUp);
        reader.see(&story);
        assert!(reader.history.cached_rows() <= CACHED_ROWS_MAX + 200);
    }
    assert!(reader.first(&story).contains("❯ ") || !reader.history.follows());
}
