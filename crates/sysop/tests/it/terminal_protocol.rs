//! The TUI and its terminal: the background color and the mouse.

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::Color;

use crate::World;
use crate::person::at_a_terminal;
use crate::support::{Mock, bash, say};
use crate::viewer::Viewer;

const LEAVE: &str = "\x04";

#[test]
fn the_reply_about_the_background_picks_the_theme_and_is_never_typed_text() {
    let (dark, light) = (Some(Color::Indexed(117)), Some(Color::Indexed(24)));
    for (reply, color) in [
        ("\x1b]11;rgb:ffff/ffff/ffff\x1b\\", light),
        ("\x1b]11;rgb:1e1e/1e1e/1e1e\x07", dark),
        ("\x1b]11;#ffffff\x07", dark),
        ("\x1b]11;rgb:zz\x07\x1b]4;1;rgb:00/00/00\x07\x1bP1+r544e=78\x1b\\\x1b[?62;c", dark),
    ] {
        let world = World::new().variable("SYSOP_MODEL", "demo/demo");
        at_a_terminal(async {
            let mut viewer = Viewer::sits_down(&world, &[]);
            viewer.sees("Describe a task").await;
            viewer.hears("\x1b]11;?\x07").await;
            // In two parts, as over a slow connection; the text that follows is the user's.
            let (first, rest) = reply.split_at(4);
            viewer.types(first).await;
            viewer.types(rest).await;
            viewer.types("hello").await;
            let screen = viewer.sees("› hello").await;
            assert!(!screen.contains("rgb") && !screen.contains("]11"), "{reply:?}: {screen}");
            viewer.types("\x15").await;
            viewer.sees("Describe a task").await;
            assert_eq!(viewer.color_of("› Describe a task"), color, "{reply:?}");
            viewer.types(LEAVE).await;
            assert_eq!(viewer.ends().await, 0);
        });
    }
}

#[test]
fn the_mouse_stays_with_the_terminal_if_the_config_says_so() {
    for (config, captured) in [("", true), ("mouse = false\n", false)] {
        let world =
            World::new().file(".config/sysop/config.toml", config).variable("SYSOP_MODEL", "demo/demo");
        at_a_terminal(async {
            let mut viewer = Viewer::sits_down(&world, &[]);
            viewer.sees("Describe a task").await;
            assert_eq!(viewer.modes().intersects(TermMode::MOUSE_MODE), captured, "{config:?}");
            viewer.types("/shell\r").await;
            viewer.sees("Ctrl+]").await;
            assert_eq!(
                viewer.modes().intersects(TermMode::MOUSE_MODE),
                captured,
                "{config:?}, with the terminal"
            );
            viewer.types("\x1d").await;
            viewer.sees("Describe a task").await;
            viewer.types(LEAVE).await;
            assert_eq!(viewer.ends().await, 0);
        });
    }
}

#[test]
fn a_grant_for_the_session_is_listed_and_revoked() {
    let mock = Mock::start(&[
        ("first file", vec![bash("touch a"), say("made a")]),
        ("second file", vec![bash("touch b"), say("made b")]),
        ("third file", vec![bash("touch c"), say("made c")]),
    ]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("first file\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("a").await;
        viewer.sees("Esc back").await;
        viewer.types("a").await;
        viewer.sees("made a").await;
        viewer.types("second file\r").await;
        viewer.sees("made b").await;
        viewer.types("/permissions\r").await;
        viewer.sees("any simple `touch …`").await;
        viewer.types("\r").await;
        viewer.sees("no longer allowed for this session").await;
        viewer.types("third file\r").await;
        viewer.reads_the_proposal().await;
        assert!(world.has("b") && !world.has("c"));
        viewer.types("\x1b").await;
        viewer.sees("stopped").await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

/// Runs a command of 10 seconds in a terminal without focus, which is asked to notify its user of the approval and of
/// the end.
fn notifies(term: &str, needs_you: &str, is_done: &str) {
    let mock = Mock::start(&[("take long", vec![bash("sleep 10; touch a"), say("took long")])]);
    let world = World::with_openai(&mock.url()).variable("TERM", term);
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("\x1b[O").await;
        viewer.types("take long\r").await;
        viewer.hears(needs_you).await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.hears(is_done).await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_terminal_without_focus_notifies_of_an_approval_and_of_the_end_of_a_long_task() {
    notifies("xterm-256color", "\x07\x1b]9;sysop needs you\x07", "\x1b]9;sysop is done\x07");
}

#[test]
fn rxvt_and_foot_get_notifications_in_their_own_form() {
    notifies(
        "foot",
        "\x07\x1b]777;notify;sysop;sysop needs you\x07",
        "\x1b]777;notify;sysop;sysop is done\x07",
    );
}

#[test]
fn a_terminal_with_focus_does_not_notify() {
    let mock = Mock::start(&[("make a file", vec![bash("touch a"), say("made it")])]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("\x1b[O\x1b[I").await;
        viewer.types("make a file\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("made it").await;
        viewer.types(LEAVE).await;
        assert_eq!(viewer.ends().await, 0);
        let raw = String::from_utf8_lossy(&viewer.raw);
        assert!(!raw.contains("\x1b]9;") && !raw.contains("\x1b]777;"));
    });
}
