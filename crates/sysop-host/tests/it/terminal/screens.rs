//! Tests of `send_keys` with full-screen programs, pagers, prompts and nested shells.

use std::time::Instant;

use sysop_core::outcome::Status;

use super::rig::{Rig, SETTLED_MAX, Shell};

#[tokio::test]
async fn keys_drive_an_editor() {
    let rig = Rig::new(Shell::Bash);
    let outcome = rig.run("vim.tiny note").await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{outcome:?}");
    assert!(outcome.output.contains("a full-screen program is still running"), "{}", outcome.output);
    assert!(
        outcome.output.starts_with("[screen of the full-screen program, as of now]\n"),
        "{}",
        outcome.output
    );
    let rest = ["~\n", "is left out"].map(|part| outcome.output.contains(part));
    assert_eq!(
        rest,
        [false, false],
        "neither filler rows nor a remark that the screen is missing: {outcome:?}"
    );
    let refused = rig.run("echo x").await;
    assert!(refused.output.contains("is still running in the terminal"), "{}", refused.output);
    let outcome = rig.keys("i \"two words\" Escape").await;
    assert!(outcome.output.contains("two words"), "{}", outcome.output);
    assert!(outcome.output.contains("a full-screen program is running"), "{}", outcome.output);
    rig.keys_until(":wq Enter", |screen| screen.contains("the shell is at its prompt")).await;
    assert_eq!(rig.output("cat note").await, "two words\n");
}

#[tokio::test]
async fn what_a_program_has_drawn_on_the_alternate_screen_is_no_output() {
    let rig = Rig::new(Shell::Bash);
    let draw = r"printf 'a\n\033[?1049h\033[2;1H~\n~ drawn\033[?1049lb\n'";
    assert_eq!(rig.output(draw).await, "a\n[full-screen program ended]\nb\n");
    let left = rig.output(r"printf 'a\n\033[?1049hlost\n'").await;
    assert!(left.starts_with("a\n[the output from here on was drawn on the alternate screen"), "{left}");
    let command = "vim.tiny -c 's/^/hello/' -c wq note && cat note";
    assert_eq!(rig.output(command).await, "[full-screen program ended]\nhello\n");
}

#[tokio::test]
async fn an_unexpected_pager_is_reported() {
    let rig = Rig::new(Shell::Bash);
    assert_eq!(rig.output("echo $PAGER $GIT_PAGER $MANPAGER").await, "cat cat cat\n");
    for pager in ["less", "LESS=-X less"] {
        let outcome = rig.run(&format!("seq 1000 | {pager}")).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{pager}: {outcome:?}");
        assert!(outcome.output.contains("send_keys"), "{pager}: {}", outcome.output);
        let outcome = rig.keys("Space").await;
        assert!(outcome.output.contains("\n70\n"), "{pager}: {}", outcome.output);
        let outcome = rig.keys("q").await;
        assert!(outcome.output.contains("the shell is at its prompt"), "{pager}: {}", outcome.output);
    }
    assert_eq!(rig.output("echo after").await, "after\n");
}

#[tokio::test]
async fn keys_answer_a_question() {
    let rig = Rig::new(Shell::Bash);
    let outcome = rig.run("sh -c 'printf \"Go on? [y/N] \"; read answer; echo chose $answer'").await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{outcome:?}");
    assert!(outcome.output.contains("Go on? [y/N]") && outcome.output.contains("wait for an answer"));
    let outcome = rig.keys("y Enter").await;
    assert!(outcome.output.contains("chose y"), "{}", outcome.output);
}

#[tokio::test]
async fn a_settled_screen_is_reported_quickly() {
    let rig = Rig::new(Shell::Bash);
    rig.output("true").await;
    let begun = Instant::now();
    let outcome = rig.keys("\"echo a b\" Enter").await;
    assert!(outcome.output.contains("\na b\n"), "{}", outcome.output);
    assert!(begun.elapsed() < SETTLED_MAX, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn programs_started_by_keys_are_waited_for() {
    let rig = Rig::new(Shell::Bash);
    rig.output("true").await;
    // The screen is unchanged for longer than the time after which it counts as settled.
    let outcome = rig.keys("\"sleep 0.4; echo late\" Enter").await;
    assert!(outcome.output.contains("\nlate\n"), "{}", outcome.output);
    let outcome = rig.keys("cat Enter").await;
    assert!(outcome.output.contains("a program is running"), "{}", outcome.output);
    let outcome = rig.keys("hello Enter Ctrl+D").await;
    assert!(outcome.output.contains("hello\nhello\n"), "{}", outcome.output);
    assert!(outcome.output.contains("the shell is at its prompt"), "{}", outcome.output);
}

#[tokio::test]
async fn an_inner_shell_takes_commands_until_it_ends() {
    for inner in ["bash", "zsh", "fish", "dash", "busybox ash"] {
        let rig = Rig::new(Shell::Bash);
        let outcome = rig.run(inner).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{inner}: {outcome:?}");
        assert!(outcome.output.contains("is running inside"), "{inner}: {}", outcome.output);
        let outcome = rig.run("echo inside; sh -c 'exit 7'").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.exit_code),
            ("inside\n[exit code 7]", Some(7)),
            "{inner}"
        );
        let outcome = rig.run("exit").await;
        assert!(outcome.output.contains("the inner shell ended"), "{inner}: {}", outcome.output);
        assert_eq!(outcome.exit_code, None, "{inner}");
        assert_eq!(rig.output("echo outside").await, "outside\n", "{inner}");
    }
}

#[tokio::test]
async fn a_shell_behind_another_program_is_detected() {
    let rig = Rig::new(Shell::Bash);
    // `script` runs the shell in another terminal, like ssh and sudo.
    let outcome = rig.run("env script -qc bash /dev/null").await;
    assert!(outcome.output.contains("another shell (bash) is running inside"), "{outcome:?}");
    let outcome = rig.run("echo inside; false").await;
    assert_eq!((outcome.output.as_str(), outcome.exit_code), ("inside\n[exit code 1]", Some(1)));
    rig.run("exit").await;
    assert_eq!(rig.output("echo outside").await, "outside\n");
}

#[tokio::test]
async fn a_shell_that_replaces_the_first_is_instrumented() {
    let rig = Rig::new(Shell::Bash);
    for exec in ["exec bash", "exec zsh"] {
        let outcome = rig.run(exec).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{exec}: {outcome:?}");
        assert_eq!(rig.output("echo here").await, "here\n", "{exec}");
    }
}

#[tokio::test]
async fn a_shell_without_marks_reports_unknown_exit_codes() {
    let rig = Rig::new(Shell::Tcsh);
    let outcome = rig.run("echo hello; false").await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{outcome:?}");
    assert!(outcome.output.starts_with("hello\n"), "{}", outcome.output);
    assert!(outcome.output.contains("exit code unknown"), "{}", outcome.output);
    for number in 0..3 {
        let outcome = rig.run(&format!("sleep 1; echo slow {number}")).await;
        assert!(outcome.output.contains(&format!("slow {number}\n")), "{}", outcome.output);
    }
}
