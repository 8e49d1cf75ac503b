//! Display of calls: their changes, edits of files, waiting programs, and the initial task.

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};

use super::*;

#[tokio::test]
async fn the_changes_of_a_call_are_shown_after_it() {
    let line = "changed: /etc/motd edited; undo: exact (/undo 1)";
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("wrote\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains(&format!("· {line}")), "{text}");
    let (text, _) = plain("wrote\n").await;
    assert!(text.contains(&format!("({line})\n")), "{text}");
}

#[tokio::test]
async fn an_edit_that_nobody_is_asked_about_is_shown_as_its_changes() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("edited\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ EDIT ─") && text.contains("edit_file a.py"), "{text}");
    assert!(text.contains("- old") && text.contains("+ new 18") && !text.contains("+ new 19"), "{text}");
    assert!(text.contains("… 22 more rows (/output 1)"), "{text}");
    person.sees(PROMPT).await;
    person.types("/output 1\r").await;
    let text = person.sees("OUTPUT 1").await;
    assert!(text.contains("EDIT 1") && text.contains("+ new 40"), "{text}");
    let (text, _) = plain("edited\n/output\n").await;
    assert!(text.contains("- old\n+ new 1\n"), "{text}");
    assert!(text.contains("+ new 19\n… 21 more rows (/output 1)\n"), "{text}");
    assert!(text.contains("+ new 40\nedited a.py\n"), "{text}");
}

#[tokio::test]
async fn a_command_that_nobody_is_asked_about_is_running() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("auto\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ RUNNING ─") && !text.contains("PLAN"), "{text}");
}

#[tokio::test]
async fn a_program_that_waits_ends_the_turn_with_its_line_and_the_ways_to_answer() {
    let hint = "a program waits for input: `Really? [y/N]`; answer it, e.g. with /keys y Enter";
    let mut person = Person::starts("panels", None);
    person.sees(PROMPT).await;
    person.types("waits\r").await;
    let text = person.sees("STATUS").await.replace("\n  ", " ");
    assert!(text.contains(&format!("{hint}, or use the terminal with /shell")), "{text}");
    let (text, _) = plain("waits\n").await;
    assert!(text.contains(&format!("({hint})\n")), "{text}");
}

#[tokio::test]
async fn the_initial_task_is_shown() {
    let mut person = Person::starts("task", None);
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ PROMPT ─") && text.contains("│ hello "), "{text}");
    let (text, _) = plain_form("plain task", "").await;
    assert!(text.contains("\nYou: hello\n\nAgent: Hello **there**"), "{text}");
}

#[tokio::test]
async fn a_late_effect_is_shown_while_the_question_is_open() {
    for form in ["panels", "plain"] {
        let mut person = Person::starts(form, None);
        person.sees(if form == "panels" { PROMPT } else { "You: " }).await;
        person.types("late\r").await;
        person.sees("→ effect: still checking").await;
        person.sees(QUESTION).await;
        person.signals(rustix::process::Signal::USR2);
        person.sees("→ removes 3 files").await;
        person.sees(QUESTION).await;
        person.types("y\r").await;
        person.sees("ran rm -r build").await;
    }
}

#[tokio::test]
async fn the_output_of_a_background_job_opens_no_panel() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("left\r").await;
    let text = person.sees("STATUS").await;
    assert!(!text.contains("from the background") && !text.contains("COMMAND OUTPUT"), "{text}");
    let (text, _) = plain("left\n").await;
    assert!(text.contains("It runs.") && !text.contains("from the background"), "{text}");
}

#[tokio::test]
async fn a_failed_command_that_was_typed_states_its_exit_code_once() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!false\r").await;
    let text = person.sees("STATUS").await + &person.sees(PROMPT).await;
    assert_eq!(text.matches("exit code 1").count(), 1, "{text}");
    person.types("/undo 99\r").await;
    let text = person.sees("there is no call 99").await + &person.sees(PROMPT).await;
    assert!(!text.contains("STATUS") && text.matches("there is no call 99").count() == 1, "{text}");
}

#[tokio::test]
async fn keys_typed_during_exec_are_not_shown_and_its_terminal_is_restored() {
    for (signal, code) in [(Signal::INT, 130), (Signal::QUIT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut person = Person::starts("slow", None);
        person.sees("Working on it").await;
        person.types("typed ahead").await;
        person.signals(signal);
        let text = person.sees("stopped; resume with `sysop exec --resume").await;
        assert!(!text.contains("typed"), "{text}");
        assert_eq!(person.leaves().await, code);
    }
}

#[tokio::test]
async fn exec_in_the_background_leaves_the_terminal_to_the_shell() {
    let shell = pty_process::Command::new("sh")
        .args(["-c", "set -m; \"$@\" & wait $!", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(CHILD_ARGUMENTS);
    let mut person = Person::runs("", "auto", None, shell);
    person.sees("That is all.").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn exec_leaves_the_terminal_to_a_pager_of_its_output() {
    let command = pty_process::Command::new(std::env::current_exe().unwrap()).args(CHILD_ARGUMENTS);
    let mut person = Person::runs("", "slow", None, command.stdout(Stdio::piped()));
    let mut output = person.child.stdout.take().unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("Working on it") {
        let read = tokio::time::timeout(DEADLINE, output.read_buf(&mut text)).await;
        assert!(read.unwrap().unwrap() > 0, "{}", String::from_utf8_lossy(&text));
    }
    assert!(tcgetattr(&person.terminal).unwrap().local_modes.contains(LocalModes::ECHO));
    person.signals(Signal::TERM);
    assert_eq!(person.leaves().await, 143);
}
