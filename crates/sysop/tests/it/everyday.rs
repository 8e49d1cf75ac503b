//! Everyday use of the TUI, step by step, with the real binary in a real terminal.

use alacritty_terminal::vte::ansi::Color;
use rustix::process::Signal;

use crate::World;
use crate::person::at_a_terminal;
use crate::support::{Mock, bash, call, say};
use crate::viewer::Viewer;

const ESCAPE: &str = "\x1b";
const LEAVE: &str = "\x15\x15\x04";

#[test]
fn output_keeps_colors_and_no_other_sequences() {
    let print = "printf 'x \\033[31mscarlet\\033[0m \\033]0;owned\\007\\033[2Jend\\n'";
    let mock = Mock::start(&[(
        "go",
        vec![
            bash(print),
            call(
                "run_command",
                serde_json::json!({ "command": print.replace("scarlet", "crimson"), "reasoning": "again" }),
            ),
            say("Done."),
        ],
    )]);
    let world = World::with_openai(&mock.url()).variable("SHELL", "/bin/bash");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["--approve=auto", "go"]);
        viewer.sees("Done.").await;
        let red = Some(Color::Indexed(1));
        for word in ["scarlet", "crimson"] {
            assert_eq!(viewer.color_of(&format!("{word} end")), red, "{word} of\n{}", viewer.screen());
        }
        let told = mock.last_body().to_string();
        assert!(told.contains("x scarlet end") && !told.contains("033[31mscarlet\\u001b"), "{told}");
        assert!(!told.contains("\\u001b"), "{told}");
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        // A resumed session shows the colors too.
        let id = world.only_session();
        let mut viewer = Viewer::sits_down(&world, &[&format!("--resume={id}")]);
        viewer.sees("Done.").await;
        assert_eq!(viewer.color_of("scarlet end"), red);
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        let exported = world.finish(&["sessions", "export", &id]);
        assert!(exported.out.contains("x scarlet end") && !exported.out.contains('\u{1b}'), "{exported:?}");
    });
}

#[test]
fn a_message_is_written_in_an_editor() {
    let mock = Mock::start(&[("a poem", vec![say("Roses are red.")])]);
    let world = World::with_openai(&mock.url())
        .variable("EDITOR", "sh -c 'cat \"$0\" >before; printf \"a poem\\nof two lines\\n\" >\"$0\"'");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("half a thought").await;
        viewer.sees("› half a thought").await;
        viewer.types("\x07").await;
        viewer.sees("of two lines").await;
        assert_eq!(world.read("before"), "half a thought");
        viewer.types("\r").await;
        viewer.sees("Roses are red.").await;
        assert!(mock.last_body().to_string().contains("a poem\\nof two lines"));
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn messages_are_queued_recalled_and_complete_paths() {
    let mock = Mock::start(&[
        ("first", vec![bash("echo be''gun; until [ -e go-on ]; do sleep 0.02; done"), say("One is done.")]),
        ("second", vec![say("Two is done.")]),
        ("look at", vec![say("Three is done.")]),
    ]);
    let world = World::with_openai(&mock.url()).file("work/notes-of-may.txt", "x");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["first"]);
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("begun").await;
        viewer.types("second\r").await;
        viewer.sees("1 queued").await;
        std::fs::write(world.work().join("go-on"), "").unwrap();
        viewer.sees("Two is done.").await;
        assert!(viewer.screen().contains("One is done."), "{}", viewer.screen());
        // The name is completed and sent as shown.
        viewer.types("look at @notes").await;
        viewer.sees("notes-of-may.txt").await;
        viewer.types("\t").await;
        viewer.sees("› look at @notes-of-may.txt").await;
        viewer.types("\r").await;
        viewer.sees("Three is done.").await;
        viewer.types("\x12sec").await;
        viewer.sees("Earlier messages").await;
        viewer.types("\r").await;
        viewer.sees("› second").await;
        // Undo in the input box.
        viewer.types(" thought\x1bu").await;
        viewer.sees_that("less", |screen| !screen.contains("› second thought")).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_turn_is_paused_resumed_and_retried() {
    let mock = Mock::start(&[(
        "go",
        vec![bash("echo be''gun; until [ -e go-on ]; do sleep 0.02; done"), say("The end.")],
    )]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["go"]);
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("begun").await;
        viewer.types("\x10").await;
        viewer.sees("pausing after this command… Ctrl+P to resume").await;
        std::fs::write(world.work().join("go-on"), "").unwrap();
        viewer.sees("Paused. Ctrl+P to resume").await;
        assert!(!viewer.screen().contains("The end."));
        viewer.types("\x10").await;
        viewer.sees("The end.").await;
        viewer.types("/retry\r").await;
        // The turn runs again from its start.
        viewer.reads_the_proposal().await;
        viewer.types("\x1b").await;
        viewer.sees("stopped").await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_running_session_is_left_and_resumed() {
    let mock = Mock::start(&[
        (
            "long",
            vec![
                bash("echo be''gun; until [ -e go-on ]; do sleep 0.02; done"),
                bash("touch asked-for"),
                say("The long one is done."),
            ],
        ),
        ("short", vec![say("The short one is done.")]),
    ]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["long work"]);
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("running bash").await;
        viewer.types("/new\r").await;
        viewer.sees("the other session is still running").await;
        viewer.types("short work\r").await;
        viewer.sees("The short one is done.").await;
        viewer.sees("1 session in background").await;
        std::fs::write(world.work().join("go-on"), "").unwrap();
        viewer.sees("1 session awaiting approval").await;
        viewer.types("/sessions\r").await;
        viewer.sees("· needs approval").await;
        viewer.types("long\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("The long one is done.").await;
        assert!(world.has("asked-for"));
        assert!(!viewer.screen().contains("1 session awaiting approval"));
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_session_forks_from_an_earlier_message() {
    let mock =
        Mock::start(&[("apples", vec![say("Apples are round.")]), ("pears", vec![say("Pears are not.")])]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["tell of apples"]);
        viewer.sees("Apples are round.").await;
        viewer.types("tell of pears\r").await;
        viewer.sees("Pears are not.").await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        // Tab in the list of sessions opens a session's messages.
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("/sessions\r").await;
        // The start screen names the session, too.
        viewer.sees("Tab fork").await;
        viewer.sees("│tell of apples").await;
        viewer.types("\t").await;
        viewer.sees("Fork from message").await;
        viewer.types("pears\r").await;
        let screen = viewer
            .sees_that("the message in the box", |screen| {
                screen.contains("› tell of pears") && !screen.contains("Pears are not.")
            })
            .await;
        assert!(screen.contains("Apples are round."), "{screen}");
        viewer.types("\r").await;
        viewer.sees("Pears are not.").await;
        assert_eq!(world.session_ids().len(), 2);
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn routines_are_picked_and_keys_are_listed() {
    let mock = Mock::start(&[("hello", vec![say("Hello.")])]);
    let config = "[routines.greet]\ndescription = \"Greets\"\ncmd = \"echo hello {{name}} >greeted\"\n\
                  vars = { name = { description = \"who\" } }\n";
    let world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", config);
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("· ask").await;
        viewer.types("/routines\r").await;
        viewer.sees("Greets").await;
        viewer.types("\r").await;
        viewer.sees("who").await;
        viewer.types("a b\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("greeted created").await;
        assert_eq!(world.read("greeted").trim(), "hello a b");
        viewer.types("/model\r").await;
        viewer.sees("Models").await;
        viewer.types(ESCAPE).await;
        viewer.sees_that("no list", |screen| !screen.contains("Models")).await;
        viewer.types("?").await;
        viewer.sees("Ctrl+G").await;
        viewer.types(ESCAPE).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_picked_theme_is_remembered() {
    let world = World::new().variable("SYSOP_MODEL", "demo/demo");
    let color = |viewer: &Viewer| viewer.color_of("› Describe a task");
    let (dark, light) = (Some(Color::Indexed(117)), Some(Color::Indexed(24)));
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        assert_eq!(color(&viewer), dark);
        viewer.types("/theme\r").await;
        viewer.sees("Colors").await;
        viewer.types("light\r").await;
        viewer.sees("Theme saved to").await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        assert_eq!(color(&viewer), light);
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        let kept = world.data().join("chosen.toml");
        let shown = world.finish(&["config", "show"]).out;
        assert!(shown.contains(&format!("theme = \"light\"  # {}:1", kept.display())), "{shown}");
        // The user's own config file is never written; if it sets the theme, the message says so.
        let own = "# mine\ntheme = \"dark\" # as ever\n";
        let world = world.file(".config/sysop/config.toml", own);
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        assert_eq!(color(&viewer), dark);
        viewer.types("/theme terminal\r").await;
        viewer.sees("config.toml:2 overrides it").await;
        assert_eq!(color(&viewer), Some(Color::Indexed(6)));
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        assert_eq!(std::fs::read_to_string(world.home().join(".config/sysop/config.toml")).unwrap(), own);
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "theme = \"light\"\n");
    });
}

#[test]
fn a_proposal_survives_resizes_and_output_opens_in_a_pager() {
    let mock = Mock::start(&[(
        "count",
        vec![bash("touch a; seq 1000 1999; echo '日本 🦀 שלום end'"), say("Counted.")],
    )]);
    let world = World::with_openai(&mock.url()).variable("PAGER", "sh -c 'grep -e 1777 -e end >found'");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["count"]);
        viewer.reads_the_proposal().await;
        viewer.resizes(20, 5);
        viewer
            .sees_that("a small screen", |screen| screen.lines().count() == 5 && screen.contains("seq"))
            .await;
        viewer.resizes(120, 40);
        viewer
            .sees_that("a large screen", |screen| {
                screen.lines().count() == 40 && screen.contains("Run this?")
            })
            .await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("Counted.").await;
        viewer
            .sees_that("the end of the output", |screen| {
                screen.contains("日本 🦀 שלום end") && !screen.contains("1777")
            })
            .await;
        // Selects the answer, then the output before it, and opens the full output.
        viewer.types("\t").await;
        viewer.sees("Esc back").await;
        viewer.types("k").await;
        viewer.sees("o full output").await;
        viewer.types("o").await;
        viewer
            .sees_that("the screen again", |screen| {
                let is_written = world.has("found") && world.read("found").contains("שלום end");
                is_written && screen.contains("o full output")
            })
            .await;
        let found = world.read("found");
        assert!(found.starts_with("1777\n") && found.contains("שלום end"), "{found}");
        viewer.types("q").await;
        viewer.sees_that("the box", |screen| !screen.contains("o full output")).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn the_terminal_pane_leaves_room_for_the_conversation() {
    let mock = Mock::start(&[("hello", vec![say(&format!("Good morning.\n\n{}", "y".repeat(170)))])]);
    let world = World::with_openai(&mock.url()).variable("SHELL", "/bin/bash");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["hello"]);
        viewer.sees("Good morning.").await;
        for (columns, rows) in [(100, 40), (180, 30)] {
            viewer.resizes(columns, rows);
            viewer.types("\x14").await;
            viewer.sees("Ctrl+] to return").await;
            let asks = |screen: &str| screen.lines().any(|line| line.trim_end().ends_with(['$', '#', '%']));
            viewer.sees_that("a prompt", asks).await;
            let (wide, high) = if columns > 168 { (columns - 80, rows - 1) } else { (columns, 24) };
            let waits = format!("until [ \"$(stty size)\" = '{high} {wide}' ]; do :; done; echo it fi''ts\r");
            viewer.types(&waits).await;
            let screen = viewer.sees("it fits").await;
            assert!(screen.contains("Good morning."), "{screen}");
            assert!(!screen.contains("y│"), "the text touches the border:\n{screen}");
            viewer.types("clear\r\x1d").await;
            viewer.sees("? keys").await;
        }
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_hangup_stops_the_turn_and_keeps_the_session() {
    let mock = Mock::start(&[("go", vec![bash("sleep 1000 # of the test of a hangup"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["go"]);
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("running bash").await;
        viewer.signals(Signal::HUP);
        assert_eq!(viewer.ends().await, 129);
        let id = world.only_session();
        let mut viewer = Viewer::sits_down(&world, &[&format!("--resume={id}")]);
        // Timing decides if the call was stopped or had already ended.
        let told = |screen: &str| screen.contains("stopped") || screen.contains("not retried");
        viewer.sees_that("what became of it", told).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
    crate::support::wait_until_gone("of the test of a hangup", crate::support::DEADLINE);
}
