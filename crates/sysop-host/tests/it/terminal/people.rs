//! People at the terminal: what they see, what they type, who has the control.

use futures::StreamExt;
use sysop_core::event::Typed;
use sysop_core::outcome::Status;
use sysop_driver::people::{TerminalOutput, TerminalSize, TerminalView};

use super::desk::{Desk, Shell};
use crate::world::DEADLINE;

/// Reads on until a text was shown; gives all that was. Looks at the picture first.
pub(super) async fn until_shown(view: &mut TerminalView, text: &str) -> String {
    let mut shown = String::from_utf8(view.picture.to_vec()).unwrap();
    view.picture = bytes::Bytes::new();
    let reading = async {
        while !shown.contains(text) {
            match view.live.next().await.expect("the terminal goes on") {
                TerminalOutput::Bytes(bytes) | TerminalOutput::Redrawn(bytes) => {
                    shown.push_str(&String::from_utf8_lossy(&bytes));
                }
                TerminalOutput::Resized(size) => shown.push_str(&format!("<{}x{}>", size.columns, size.rows)),
                TerminalOutput::Ended(why) => shown.push_str(&format!("<{why}>")),
            }
        }
    };
    let read = tokio::time::timeout(DEADLINE, reading).await;
    assert!(read.is_ok(), "{text:?} is not in {shown:?}");
    shown
}

#[tokio::test]
async fn a_watcher_sees_the_picture_and_what_comes() {
    let desk = Desk::new(Shell::Bash);
    desk.output("echo before").await;
    let mut view = desk.terminal().watch().await.unwrap();
    assert_eq!(view.size, TerminalSize { columns: 120, rows: 40 });
    assert!(String::from_utf8_lossy(&view.picture).contains("before"));
    desk.output("echo live $((1+1)); printf '\\033]52;c;eA==\\007\\033[31mred\\033[6n\\n'").await;
    let shown = until_shown(&mut view, "\x1b[31mred").await;
    assert!(shown.contains("live 2\r\n"), "{shown:?}");
    for dropped in ["\x1b]52", "\x1b[6n", "7717", "sysop"] {
        assert!(!shown.contains(dropped), "{shown:?}");
    }
    desk.terminal().resize(TerminalSize { columns: 90, rows: 20 });
    until_shown(&mut view, "<90x20>").await;
    assert_eq!(desk.output("stty size").await, "20 90\n");
    assert!(desk.recorded().contains("\"r\", \"90x20\""));
    desk.run("exit 3").await;
    until_shown(&mut view, "<the shell ended with exit code 3>").await;
    desk.run("echo new").await;
    until_shown(&mut view, "new\r\n").await;
}

#[tokio::test]
async fn a_watcher_with_a_scrollback_is_given_what_was_above_the_screen() {
    let desk = Desk::new(Shell::Bash);
    desk.output("seq -f 'line-%.0f;' 200").await;
    let picture = |view: TerminalView| String::from_utf8(view.picture.to_vec()).unwrap();
    let whole = picture(desk.terminal().watch_back(10_000).await.unwrap());
    assert!(whole.contains("line-1;\r\nline-2;\r\n") && whole.contains("line-200;"), "{whole:?}");
    let screen = picture(desk.terminal().watch().await.unwrap());
    assert!(!screen.contains("line-100;") && screen.contains("line-200;"), "{screen:?}");
}

#[tokio::test]
async fn a_person_types_from_a_thread_of_their_own() {
    let desk = Desk::new(Shell::Bash);
    let mut view = desk.terminal().watch().await.unwrap();
    let terminal = desk.terminal();
    let typing = std::thread::spawn(move || {
        terminal.input("ann", b"echo $((40+2))\r");
        terminal.release("ann");
    });
    until_shown(&mut view, "42\r\n").await;
    typing.join().expect("typing needs no runtime around it");
}

#[tokio::test]
async fn a_watcher_that_falls_behind_gets_a_new_picture() {
    let desk = Desk::new(Shell::Bash);
    let mut view = desk.terminal().watch().await.unwrap();
    desk.run("seq 600000; echo the end").await;
    let mut redrawn = false;
    let shown = async {
        while let Some(output) = view.live.next().await {
            match output {
                TerminalOutput::Redrawn(bytes) => {
                    redrawn = true;
                    if String::from_utf8_lossy(&bytes).contains("the end") {
                        return;
                    }
                }
                TerminalOutput::Bytes(bytes) => {
                    if redrawn && String::from_utf8_lossy(&bytes).contains("the end") {
                        return;
                    }
                }
                TerminalOutput::Resized(_) | TerminalOutput::Ended(_) => {}
            }
        }
    };
    tokio::time::timeout(DEADLINE, shown).await.expect("it is shown in time");
    assert!(redrawn);
}

#[tokio::test]
async fn while_a_person_types_the_agent_waits_and_is_told() {
    let desk = Desk::with_rc(Shell::Bash, "PS1='prompt> '");
    desk.output("true").await;
    let terminal = desk.terminal();
    terminal.input("ann", b"echo from ");
    assert_eq!(*desk.people.control.lock().unwrap(), [Some("ann".to_owned())]);
    let waiting = desk.run("echo by the agent");
    let person = async {
        let mut view = terminal.watch().await.unwrap();
        terminal.input("ann", b"ann\r");
        assert!(!until_shown(&mut view, "from ann\r\n").await.contains("agent"));
        terminal.release("ann");
    };
    let (outcome, ()) = tokio::join!(waiting, person);
    let expected = "[ann typed: echo from ann Enter]\nby the agent\n[exit code 0]";
    assert_eq!((outcome.output.as_str(), outcome.status), (expected, Status::Ok));
    assert_eq!(*desk.people.control.lock().unwrap(), [Some("ann".to_owned()), None]);
    let keys = Typed::Keys { text: "echo from ann Enter".to_owned() };
    assert_eq!(*desk.people.typed.lock().unwrap(), [("ann".to_owned(), keys)]);
    assert_eq!(desk.output("echo again").await, "again\n");
}

#[tokio::test]
async fn a_person_who_goes_away_gives_the_control_back() {
    let desk = Desk::new(Shell::Bash);
    desk.output("true").await;
    desk.terminal().input("ann", b"half a li");
    // The half line does not become a part of the command.
    assert_eq!(desk.run("echo whole").await.output, "[ann typed: half a li]\nwhole\n[exit code 0]");
    assert_eq!(*desk.people.control.lock().unwrap(), [Some("ann".to_owned()), None]);
}

#[tokio::test]
async fn what_a_person_runs_is_not_interrupted() {
    let desk = Desk::new(Shell::Bash);
    desk.output("true").await;
    let terminal = desk.terminal();
    let mut view = terminal.watch().await.unwrap();
    // The shell's line editor is gone before its command prints.
    terminal.input("ann", b"echo ready; cat\r");
    until_shown(&mut view, "ready\r\n").await;
    terminal.input("ann", b"typed\r");
    until_shown(&mut view, "typed\r\ntyped\r\n").await;
    terminal.release("ann");
    let outcome = desk.run("echo x").await;
    assert!(outcome.output.contains("a program still runs in the terminal"), "{}", outcome.output);
    terminal.input("bob", b"\x04");
    terminal.release("bob");
    let outcome = desk.run("echo x").await;
    assert_eq!(outcome.output, "[bob typed: Ctrl+D]\nx\n[exit code 0]");
}

#[tokio::test]
async fn a_person_may_answer_what_the_agent_runs() {
    let desk = Desk::new(Shell::Bash);
    let terminal = desk.terminal();
    let person = async {
        let mut view = terminal.watch().await.unwrap();
        until_shown(&mut view, "name? ").await;
        terminal.input("ann", b"Ann\r");
        terminal.release("ann");
    };
    let (outcome, ()) = tokio::join!(desk.run("printf 'name? '; read name; echo hello $name"), person);
    assert!(outcome.output.contains("hello Ann\n[exit code 0]"), "{outcome:?}");
}
