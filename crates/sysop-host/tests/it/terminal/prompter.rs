//! Tests of users at the terminal: their view, their input and their control.

use futures::StreamExt;
use sysop_core::event::TypedInput;
use sysop_core::outcome::Status;
use sysop_driver::prompter::{TerminalOutput, TerminalSize, TerminalView};

use super::rig::{Rig, Shell};
use crate::world::DEADLINE;

/// Reads until the text is displayed, starting with the snapshot; returns everything displayed.
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
async fn a_watcher_gets_a_snapshot_and_later_output() {
    let rig = Rig::new(Shell::Bash);
    rig.output("echo before").await;
    let mut view = rig.terminal().watch().await.unwrap();
    assert_eq!(view.size, TerminalSize { columns: 120, rows: 40 });
    assert!(String::from_utf8_lossy(&view.picture).contains("before"));
    rig.output("echo live $((1+1)); printf '\\033]52;c;eA==\\007\\033[31mred\\033[6n\\n'").await;
    let shown = until_shown(&mut view, "\x1b[31mred").await;
    assert!(shown.contains("live 2\r\n"), "{shown:?}");
    for dropped in ["\x1b]52", "\x1b[6n", "7717", "sysop"] {
        assert!(!shown.contains(dropped), "{shown:?}");
    }
    rig.terminal().resize(TerminalSize { columns: 90, rows: 20 });
    until_shown(&mut view, "<90x20>").await;
    assert_eq!(rig.output("stty size").await, "20 90\n");
    assert!(rig.recorded().contains("\"r\", \"90x20\""));
    rig.run("exit 3").await;
    until_shown(&mut view, "<the shell ended with exit code 3>").await;
    rig.run("echo new").await;
    until_shown(&mut view, "new\r\n").await;
}

#[tokio::test]
async fn a_watcher_with_scrollback_gets_the_lines_above_the_screen() {
    let rig = Rig::new(Shell::Bash);
    rig.output("seq -f 'line-%.0f;' 200").await;
    let picture = |view: TerminalView| String::from_utf8(view.picture.to_vec()).unwrap();
    let whole = picture(rig.terminal().watch_back(10_000).await.unwrap());
    assert!(whole.contains("line-1;\r\nline-2;\r\n") && whole.contains("line-200;"), "{whole:?}");
    let screen = picture(rig.terminal().watch().await.unwrap());
    assert!(!screen.contains("line-100;") && screen.contains("line-200;"), "{screen:?}");
}

#[tokio::test]
async fn a_user_types_from_another_thread() {
    let rig = Rig::new(Shell::Bash);
    let mut view = rig.terminal().watch().await.unwrap();
    let terminal = rig.terminal();
    let typing = std::thread::spawn(move || {
        terminal.input("ann", b"echo $((40+2))\r");
        terminal.release("ann");
    });
    until_shown(&mut view, "42\r\n").await;
    typing.join().expect("typing needs no runtime around it");
}

#[tokio::test]
async fn a_lagging_watcher_gets_a_new_snapshot() {
    let rig = Rig::new(Shell::Bash);
    let mut view = rig.terminal().watch().await.unwrap();
    rig.run("seq 600000; echo the end").await;
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
async fn the_agent_waits_while_a_user_types() {
    let rig = Rig::with_rc(Shell::Bash, "PS1='prompt> '");
    rig.output("true").await;
    let terminal = rig.terminal();
    terminal.input("ann", b"echo from ");
    assert_eq!(*rig.people.control.lock(), [Some("ann".to_owned())]);
    let waiting = rig.run("echo by the agent");
    let person = async {
        let mut view = terminal.watch().await.unwrap();
        terminal.input("ann", b"ann\r");
        assert!(!until_shown(&mut view, "from ann\r\n").await.contains("agent"));
        terminal.release("ann");
    };
    let (outcome, ()) = tokio::join!(waiting, person);
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.output.starts_with("[ann typed into the terminal for "), "{outcome:?}");
    assert!(
        outcome
            .output
            .ends_with("s; the output is private unless they share it]\nby the agent\n[exit code 0]")
    );
    assert_eq!(*rig.people.control.lock(), [Some("ann".to_owned()), None]);
    let typed = rig.people.typed.lock().clone();
    assert!(matches!(&typed[..], [(by, TypedInput::Activity { keys: 14, .. })] if by == "ann"), "{typed:?}");
    assert_eq!(rig.output("echo again").await, "again\n");
}

#[tokio::test]
async fn a_user_who_leaves_releases_control() {
    let rig = Rig::new(Shell::Bash);
    rig.output("true").await;
    rig.terminal().input("ann", b"half a li");
    // The incomplete line does not become part of the command.
    let output = rig.run("echo whole").await.output;
    assert!(output.starts_with("[ann typed into the terminal for ") && !output.contains("half"), "{output}");
    assert!(output.ends_with("]\nwhole\n[exit code 0]"), "{output}");
    assert_eq!(*rig.people.control.lock(), [Some("ann".to_owned()), None]);
}

#[tokio::test]
async fn a_users_program_is_not_interrupted() {
    let rig = Rig::new(Shell::Bash);
    rig.output("true").await;
    let terminal = rig.terminal();
    let mut view = terminal.watch().await.unwrap();
    // After `ready`, the shell's line editor no longer reads the input.
    terminal.input("ann", b"echo ready; cat\r");
    until_shown(&mut view, "ready\r\n").await;
    terminal.input("ann", b"typed\r");
    until_shown(&mut view, "typed\r\ntyped\r\n").await;
    terminal.release("ann");
    let outcome = rig.run("echo x").await;
    assert!(outcome.output.contains("a program is still running in the terminal"), "{}", outcome.output);
    terminal.input("bob", b"\x04");
    terminal.release("bob");
    let outcome = rig.run("echo x").await;
    assert!(outcome.output.starts_with("[bob typed into the terminal for "), "{outcome:?}");
    assert!(outcome.output.ends_with("]\nx\n[exit code 0]"), "{outcome:?}");
}

#[tokio::test]
async fn a_user_can_answer_the_agents_program() {
    let rig = Rig::new(Shell::Bash);
    let terminal = rig.terminal();
    let person = async {
        let mut view = terminal.watch().await.unwrap();
        until_shown(&mut view, "name? ").await;
        terminal.input("ann", b"Ann\r");
        terminal.release("ann");
    };
    let (outcome, ()) = tokio::join!(rig.run("printf 'na''me? '; read name; echo hello $name"), person);
    assert!(outcome.output.contains("hello Ann\n[exit code 0]"), "{outcome:?}");
}

/// The model sees the output of its own calls, before and after.
#[tokio::test]
async fn output_of_a_users_program_is_neither_sent_nor_recorded() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Dash] {
        let rig = Rig::new(shell);
        rig.output("echo first by the agent").await;
        let terminal = rig.terminal();
        let mut view = terminal.watch().await.unwrap();
        terminal.input("ann", b"echo sala''ry-4111\r");
        until_shown(&mut view, "salary-4111").await;
        terminal.release("ann");
        let ran = rig.run("echo second by the agent").await.output;
        assert!(ran.ends_with("]\nsecond by the agent\n[exit code 0]"), "{shell:?}: {ran}");
        let seen = rig.keys("\"echo third\" Enter").await.output;
        for own in ["first by the agent", "second by the agent", "third"] {
            assert!(seen.contains(own), "{shell:?}: {own} in {seen}");
        }
        let everything = format!("{ran}{seen}{}{:?}", rig.recorded(), rig.people.typed.lock());
        for private in ["sala", "4111"] {
            assert!(!everything.contains(private), "{shell:?}: {private} in {everything}");
        }
        assert!(rig.recorded().contains("second by the agent"), "{shell:?}");
    }
}

#[tokio::test]
async fn a_users_program_stays_private_after_they_leave() {
    let rig = Rig::new(Shell::Bash);
    rig.output("true").await;
    let terminal = rig.terminal();
    let mut view = terminal.watch().await.unwrap();
    terminal.input("ann", b"echo diag''nosis; cat\r");
    until_shown(&mut view, "diagnosis").await;
    terminal.release("ann");
    for outcome in [rig.run("echo x").await, rig.keys("Left").await] {
        assert!(!outcome.output.contains("diag"), "{outcome:?}");
    }
    let seen = rig.keys("Left").await.output;
    assert!(seen.contains("a program started by the user is running; its output is private"), "{seen}");
}

#[tokio::test]
async fn input_to_the_agents_program_appears_on_its_screen() {
    let rig = Rig::new(Shell::Bash);
    let terminal = rig.terminal();
    let person = async {
        let mut view = terminal.watch().await.unwrap();
        // The quotes keep the shell's echo of the command from passing for its prompts.
        until_shown(&mut view, "name? ").await;
        terminal.input("ann", b"Ann\r");
        until_shown(&mut view, "sure? ").await;
        terminal.release("ann");
    };
    let (outcome, ()) =
        tokio::join!(rig.run_for("read -p 'na''me? ' a; read -p 'su''re? ' b; echo $a", 2), person);
    assert!(outcome.output.contains("name? Ann"), "{outcome:?}");
    assert!(rig.keys("y Enter").await.output.contains("name? Ann"));
}
