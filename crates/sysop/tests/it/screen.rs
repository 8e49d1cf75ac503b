//! The TUI as users see it: the real binary in a real terminal, a scripted model, a real shell.

use rustix::process::Signal;

use crate::World;
use crate::person::at_a_terminal;
use crate::support::{Mock, bash, say};
use crate::viewer::Viewer;

#[test]
fn a_task_is_proposed_edited_run_and_answered() {
    let mock = Mock::start(&[(
        "make me files",
        vec![bash("touch proposed"), bash("touch second; ls; echo 'a b'"), say("All **is** made.")],
    )]);
    let world = World::with_openai(&mock.url()).file("work/junk", "old\n");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("please make me files\r").await;
        viewer.reads_the_proposal().await;
        assert!(viewer.screen().contains("$ touch proposed") && !world.has("proposed"));
        // The command is edited in place, shown again with its effect, and then runs.
        viewer.types("i").await;
        viewer.sees("Esc discard").await;
        viewer.types(" edited && rm junk").await;
        viewer.sees("touch proposed edited && rm junk").await;
        viewer.types("\r").await;
        let described = |screen: &str| screen.contains("removes 1 file") && screen.contains("Enter run");
        viewer.sees_that("the effect", described).await;
        viewer.types("\r").await;
        viewer.sees("touch second").await;
        assert!(world.has("proposed") && world.has("edited"));
        viewer.reads_the_proposal().await;
        viewer.types("a").await;
        viewer.sees("Esc back").await;
        viewer.types("a").await;
        let screen = viewer.sees("All is made.").await;
        assert!(screen.contains("a b") && screen.contains("✓ "), "{screen}");
        viewer.sees("done in").await;
        assert!(world.has("second"));
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
        assert!(viewer.is_given_back());
        let screen = viewer.screen();
        let id = world.only_session();
        assert!(screen.contains("All is made.\n"), "{screen}");
        let shown =
            screen.split_once("sysop --resume ").expect("a hint").1.lines().next().unwrap_or_default();
        assert!(shown.starts_with(&id) && shown.len() == 13, "{screen}");
        // The resumed session shows everything, and the arrow keys recall its prompts.
        let mut viewer = Viewer::sits_down(&world, &[&format!("--resume={id}")]);
        viewer.sees("All is made.").await;
        viewer.types("\x1b[A").await;
        viewer.sees("› please make me files").await;
        // The first clears the draft.
        viewer.types("\x03\x03\x03").await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn a_task_from_the_command_line_is_rejected_with_feedback_and_stopped() {
    let mock = Mock::start(&[(
        "count",
        vec![bash("touch never"), bash("echo be''gun; sleep 1000 # by the test of the screen"), say("Done.")],
    )]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["count to ten"]);
        viewer.reads_the_proposal().await;
        viewer.types("not that\r").await;
        viewer.sees("sleep 1000").await;
        assert!(mock.last_body().to_string().contains("not that"));
        viewer.reads_the_proposal().await;
        viewer.types("\r").await;
        viewer.sees("begun").await;
        viewer.types("and then").await;
        viewer.sees("› and then").await;
        viewer.types("\x1b").await;
        // The draft is still there.
        viewer
            .sees_that("the end", |screen| screen.contains("stopped") && !screen.contains("running bash"))
            .await;
        assert!(viewer.screen().contains("› and then") && !world.has("never"));
        viewer.types("\x15\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
    crate::support::wait_until_gone("by the test of the screen", crate::support::DEADLINE);
}

#[test]
fn keys_for_an_editor_run_nothing() {
    let mock = Mock::start(&[("go", vec![bash("touch proposed"), say("Done.")])]);
    let editor = "echo the editor is here; until [ -e saved ]; do sleep 0.02; done; echo touch written >$0";
    let world = World::with_openai(&mock.url()).variable("EDITOR", &format!("sh -c '{editor}'"));
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["go"]);
        viewer.reads_the_proposal().await;
        viewer.types("e").await;
        viewer.sees("the editor is here").await;
        // The editor's result is not on the screen yet.
        viewer.types("a\r").await;
        std::fs::write(world.work().join("saved"), "").unwrap();
        viewer.sees("touch written").await;
        viewer.reads_the_proposal().await;
        assert!(!world.has("written") && !world.has("proposed"));
        viewer.types("\r").await;
        viewer.sees("Done.").await;
        assert!(world.has("written") && !world.has("proposed"));
        viewer.types("\x15\x15\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn keys_pressed_before_a_proposal_appeared_run_nothing() {
    let mock = Mock::start(&[("go", vec![bash("touch never"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["go"]);
        // All keys at once, as from a cat on the keyboard: before the proposal, and while it appears.
        viewer.types("\ra\r").await;
        viewer.sees("Run this?").await;
        viewer.types("\r").await;
        // The `a` may have become a draft, to which keys go then.
        let accepts_keys = |screen: &str| {
            ["Enter run", "Enter reject with this text"].iter().any(|hint| screen.contains(hint))
        };
        viewer.sees_that("the keys of the proposal", accepts_keys).await;
        if viewer.screen().contains("Enter reject with this text") {
            viewer.types("\x1b").await;
            viewer.sees("text set aside").await;
        }
        viewer.types("\x1b").await;
        viewer.sees("stopped").await;
        assert!(!world.has("never"));
        viewer.signals(Signal::TERM);
        assert_eq!(viewer.ends().await, 143);
        assert!(viewer.is_given_back());
    });
}

#[test]
fn the_screen_is_resized_suspended_and_continued() {
    let mock = Mock::start(&[("hello", vec![say("Good **morning**.")])]);
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::in_a_shell(&world);
        viewer.sees("shell>").await;
        viewer.types("$SYSOP hello\r").await;
        viewer.sees("Good morning.").await;
        viewer.resizes(20, 5);
        viewer
            .sees_that("a small screen", |screen| {
                screen.lines().count() == 5 && screen.contains("›") && screen.contains("local")
            })
            .await;
        viewer.resizes(100, 30);
        viewer
            .sees_that("a large screen", |screen| {
                screen.lines().count() == 30 && screen.contains("Good morning.") && screen.contains("? keys")
            })
            .await;
        viewer.types("\x1a").await;
        viewer.sees_that("the shell", |screen| screen.contains("Stopped") && screen.contains("shell>")).await;
        assert!(!viewer.screen().contains("Good morning."));
        viewer.types("fg\r").await;
        viewer.sees("Good morning.").await;
        viewer.types("still here\x04").await;
        viewer.sees("› still here").await;
        viewer.types("\x15\x04").await;
        viewer.sees_that("the shell again", |screen| screen.contains("To resume this session")).await;
        assert!(viewer.is_given_back() || viewer.screen().contains("shell>"));
        viewer.types("exit\r").await;
        viewer.ends().await;
    });
}

#[test]
fn the_session_terminal_is_shown_and_released() {
    let world = World::new().variable("SYSOP_MODEL", "demo/demo").variable("SHELL", "/bin/bash");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &[]);
        viewer.sees("Describe a task").await;
        viewer.types("\x14").await;
        viewer.sees("Ctrl+] to return").await;
        viewer
            .sees_that("a prompt", |screen| {
                screen.lines().next().is_some_and(|line| line.ends_with(['$', '#', '%', '>']))
            })
            .await;
        viewer.types("echo $((20 + 22)) > typed; cat typed\r").await;
        viewer.sees_that("the output", |screen| screen.lines().any(|line| line.trim() == "42")).await;
        viewer.types("\x1d").await;
        viewer.sees("Describe a task").await;
        assert_eq!(world.read("typed").trim(), "42");
        viewer.types("\x03\x03").await;
        assert_eq!(viewer.ends().await, 0);
    });
}

#[test]
fn without_a_terminal_another_command_is_suggested() {
    let world = World::new().variable("SYSOP_MODEL", "demo/demo");
    let run = world.run(&[]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("`sysop chat`") && run.out.is_empty(), "{run:?}");
    let dumb = World::new().variable("SYSOP_MODEL", "demo/demo").variable("TERM", "dumb");
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&dumb, &["a task"]);
        assert_eq!(viewer.ends().await, 2);
        assert!(viewer.screen().contains("`sysop chat`"), "{}", viewer.screen());
        // The error about an unknown session is printed after the terminal was restored.
        let mut viewer = Viewer::sits_down(&world, &["--resume=nowhere"]);
        assert_eq!(viewer.ends().await, 2);
        assert!(viewer.screen().contains("nowhere") && viewer.is_given_back(), "{}", viewer.screen());
    });
}
