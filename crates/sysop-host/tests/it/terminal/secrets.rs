//! Tests of prompts for secrets: the user answers, and only the program gets the answer.

use sysop_core::event::TypedInput;
use sysop_core::outcome::Status;
use sysop_core::question::QuestionKind;
use sysop_driver::prompter::PromptReply;

use super::rig::{Rig, Shell};

const PASSWORD: &str = "correct horse";

fn given() -> PromptReply {
    PromptReply::Given { by: "ann".to_owned(), text: PASSWORD.into() }
}

/// Creates a program that asks like `sudo` and `passwd`: on the terminal itself, without echo.
fn asker(rig: &Rig) -> String {
    let path = rig.root().join("asker.sh");
    let script = "stty -echo </dev/tty; printf 'Password for app: ' >/dev/tty; IFS= read -r secret </dev/tty; \
                  stty echo </dev/tty; echo >/dev/tty; \
                  if [ \"$secret\" = 'correct horse' ]; then echo let in; else echo kept out; exit 1; fi\n";
    std::fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

/// Returns the name of the program behind `sh`.
fn sh() -> String {
    let program = std::fs::canonicalize("/bin/sh").unwrap();
    program.file_name().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_user_enters_the_password_and_the_command_continues() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        rig.people.will_answer([given()]);
        let outcome = rig.run(&asker(&rig)).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)), "{shell:?}: {outcome:?}");
        let expected = "Password for app: [password entered]\nlet in\n[exit code 0]";
        assert_eq!(outcome.output, expected, "{shell:?}");
        let asked = rig.people.asked.lock().clone();
        assert_eq!(asked.len(), 1, "{shell:?}: {asked:?}");
        assert_eq!((asked[0].kind, asked[0].prompt.as_str()), (QuestionKind::Secret, "Password for app:"));
        assert_eq!(asked[0].from, format!("{} on this machine", sh()), "{shell:?}");
        let details = asked[0].details.join("\n");
        assert!(details.contains("asker.sh`."), "{details}");
        assert!(details.contains("Started by the model: `sh "), "{details}");
        assert!(details.contains("Warning: the command started by the model can read"), "{details}");
        assert!(asked[0].call.is_some());
        let everything = format!("{outcome:?}{}{:?}", rig.recorded(), rig.people.typed.lock());
        assert!(!everything.contains(PASSWORD), "{everything}");
    }
}

#[tokio::test]
async fn an_entered_secret_is_redacted_from_later_output() {
    for typed in [false, true] {
        let rig = Rig::new(Shell::Bash);
        let command = asker(&rig);
        if typed {
            let terminal = rig.terminal();
            let person = async {
                let mut view = terminal.watch().await.unwrap();
                crate::terminal::prompter::until_shown(&mut view, "Password for app: ").await;
                terminal.input("ann", b"correct horsf\x7fe\r");
                terminal.release("ann");
            };
            tokio::join!(rig.run(&command), person);
        } else {
            rig.people.will_answer([given()]);
            rig.run(&command).await;
        }
        let echoed = rig.output("printf '%s %s\\n' correct horse; printf 'correct horse' | base64").await;
        assert!(echoed.ends_with("[redacted]\n[redacted]\n"), "{typed}: {echoed}");
        assert!(!rig.keys("Left").await.output.contains("correct horse"), "{typed}");
        assert!(!rig.recorded().contains("correct horse"), "{typed}");
    }
}

/// Any program can print the words of sudo's prompt and its mark.
#[tokio::test]
async fn a_shell_that_pretends_to_be_sudo_is_named_as_the_shell() {
    for says in ["'[sudo] password for joe: '", "\"$SUDO_PROMPT\""] {
        let rig = Rig::new(Shell::Bash);
        rig.people.will_answer([given()]);
        let outcome = rig.run(&format!("printf %s {says}; read -rs x; echo; echo \"got ${{#x}}\"")).await;
        assert!(outcome.output.ends_with("got 13\n[exit code 0]"), "{outcome:?}");
        let asked = rig.people.asked.lock().remove(0);
        assert_eq!(asked.kind, QuestionKind::Secret);
        assert_eq!(asked.from, "bash (the shell of this terminal)");
        assert!(asked.details[0].contains("/bash. Its command line: `"), "{asked:?}");
        assert!(asked.details[1].starts_with("Started by the model: `printf %s"), "{asked:?}");
        assert_eq!(asked.details[2], "Warning: the command started by the model can read your input.");
    }
}

#[tokio::test]
async fn a_users_program_is_not_attributed_to_the_model() {
    let rig = Rig::new(Shell::Bash);
    rig.run("true").await;
    let (terminal, command) = (rig.terminal(), asker(&rig));
    let mut view = terminal.watch().await.unwrap();
    terminal.input("ann", format!("{command}\r").as_bytes());
    crate::terminal::prompter::until_shown(&mut view, "Password for app: ").await;
    terminal.release("ann");
    rig.people.will_answer([given()]);
    rig.run("true").await;
    let asked = rig.people.asked.lock().remove(0);
    assert_eq!(asked.from, format!("{} on this machine", sh()));
    assert!(asked.details[0].contains("asker.sh`."), "{asked:?}");
    assert!(!asked.details.iter().any(|told| told.contains("model")), "{asked:?}");
}

#[tokio::test]
async fn prompt_time_does_not_count_towards_the_timeout() {
    let rig = Rig::new(Shell::Bash);
    let command = asker(&rig);
    let (outcome, ()) = tokio::join!(rig.run_for(&command, 1), async {
        rig.people.until(|people| !people.asked.lock().is_empty()).await;
        // Wait longer than the timeout of the command.
        let longer = std::time::Duration::from_millis(1500);
        let nothing = tokio::time::timeout(longer, std::future::pending::<()>()).await;
        assert!(nothing.is_err());
        rig.terminal().input("ann", b"correct horse\r");
    });
    assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)), "{outcome:?}");
}

#[tokio::test]
async fn a_secret_typed_into_the_terminal_is_not_logged() {
    let rig = Rig::new(Shell::Bash);
    let command = asker(&rig);
    let terminal = rig.terminal();
    let (outcome, ()) = tokio::join!(rig.run(&command), async {
        rig.people.until(|people| !people.asked.lock().is_empty()).await;
        for byte in PASSWORD.bytes() {
            terminal.input("ann", &[byte]);
        }
        terminal.input("ann", b"\r");
        terminal.release("ann");
    });
    assert!(outcome.output.contains("let in\n[exit code 0]"), "{}", outcome.output);
    let typed = rig.people.typed.lock().clone();
    let secret = TypedInput::Secret { prompt: "Password for app:".to_owned() };
    assert_eq!(typed, [("ann".to_owned(), secret)]);
    let outcome = rig.run("echo next").await;
    assert!(outcome.output.starts_with("[ann entered a password]\nnext\n"), "{}", outcome.output);
}

#[tokio::test]
async fn a_wrong_password_is_left_to_the_program() {
    let rig = Rig::new(Shell::Bash);
    rig.people.will_answer([PromptReply::Given { by: "ann".to_owned(), text: "wrong".into() }]);
    let outcome = rig.run(&asker(&rig)).await;
    assert_eq!(outcome.exit_code, Some(1), "{outcome:?}");
    assert!(outcome.output.contains("kept out"), "{}", outcome.output);
}

#[tokio::test]
async fn a_refused_secret_stops_the_program() {
    let rig = Rig::new(Shell::Bash);
    rig.people.will_answer([PromptReply::Refused]);
    let outcome = rig.run("read -s -p 'Token: ' token; echo after").await;
    assert!(outcome.output.contains("no one entered the requested secret"), "{outcome:?}");
    assert_ne!(outcome.status, Status::Ok);
    assert_eq!(rig.output("echo next").await, "next\n");
}

#[tokio::test]
async fn a_prompt_without_text_is_detected() {
    let rig = Rig::new(Shell::Bash);
    rig.people.will_answer([given()]);
    let outcome = rig.run("read -s secret; [ \"$secret\" = 'correct horse' ] && echo same").await;
    assert!(outcome.output.contains("[password entered]\nsame\n[exit code 0]"), "{outcome:?}");
}

#[tokio::test]
async fn the_model_never_types_into_a_prompt_for_a_secret() {
    let rig = Rig::new(Shell::Bash);
    // Keys after the first Enter would go to the prompt.
    rig.people.will_answer([given()]);
    let command = asker(&rig);
    let outcome = rig.keys(&format!("\"{command}\" Enter guess Enter")).await;
    assert!(outcome.output.contains("the remaining keys were not sent"), "{}", outcome.output);
    assert!(outcome.output.contains("password entered"), "{}", outcome.output);
    let outcome = rig.keys_until("Ctrl+L", |screen| screen.contains("at its prompt")).await;
    assert!(!outcome.output.contains("guess"), "{}", outcome.output);

    // A prompt that is already open: neither keys nor commands go there, whatever users answer.
    let terminal = rig.terminal();
    for tool in ["keys", "command"] {
        terminal.input("ann", format!("{command}\r").as_bytes());
        terminal.release("ann");
        let mut view = terminal.watch().await.unwrap();
        crate::terminal::prompter::until_shown(&mut view, "Password for app: ").await;
        rig.people.will_answer([PromptReply::Refused]);
        let outcome = if tool == "keys" { rig.keys("guess Enter").await } else { rig.run("guess").await };
        assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
        assert!(outcome.output.contains("nothing was typed"), "{}", outcome.output);
        assert!(outcome.output.contains("only the user may enter"), "{}", outcome.output);
        assert!(!outcome.output.contains("guess"), "{}", outcome.output);
        assert!(rig.run("echo next").await.output.ends_with("next\n[exit code 0]"));
    }
}

#[tokio::test]
async fn stopping_closes_the_secret_prompt() {
    let rig = Rig::new(Shell::Bash);
    let cancel = sysop_driver::port::CancellationToken::new();
    let command = serde_json::json!({ "command": asker(&rig), "reasoning": "a test" });
    let (outcome, ()) = tokio::join!(
        rig.call("run_command", command, cancel.clone(), sysop_driver::port::DeltaSink::none()),
        async {
            rig.people.until(|people| !people.asked.lock().is_empty()).await;
            cancel.cancel();
        }
    );
    assert_eq!(outcome.status, Status::Cancelled, "{outcome:?}");
    rig.run("stty echo").await;
    assert_eq!(rig.output("echo next").await, "next\n");
}

#[tokio::test]
async fn a_user_answers_sudo() {
    // Creating a user with a known password needs root.
    if !rustix::process::geteuid().is_root() {
        crate::world::not_tested("a password of sudo", "only root may add a user");
        return;
    }
    let rig = Rig::new(Shell::Bash);
    let user = sudo_user();
    let _gone = Gone;
    rig.people.will_answer([PromptReply::Given { by: "ann".to_owned(), text: "wrong".into() }, given()]);
    let outcome =
        rig.run(&format!("setpriv --reuid {user} --clear-groups sh -c 'sudo -k; sudo id -un'")).await;
    assert!(outcome.output.contains("root\n[exit code 0]"), "{outcome:?}");
    let asked = rig.people.asked.lock().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for asked in &asked {
        assert_eq!((asked.kind, asked.from.as_str()), (QuestionKind::Secret, "sudo on this machine"));
        assert_eq!(asked.prompt, format!("[sudo] password for {user}:"));
        assert!(asked.details[0].contains("/sudo, which runs as root (set-user-ID)"), "{asked:?}");
        assert!(
            asked.details.iter().any(|told| told.starts_with("Started by the model: `setpriv")),
            "{asked:?}"
        );
    }
    assert!(!format!("{outcome:?}{}", rig.recorded()).contains("7717"));
}

/// Removes the sudo rule of the test user.
struct Gone;

impl Drop for Gone {
    fn drop(&mut self) {
        std::fs::remove_file("/etc/sudoers.d/sysop-test-sudo").unwrap();
    }
}

/// Returns a user who may use sudo with a password; created once.
fn sudo_user() -> &'static str {
    use std::io::Write;
    use std::process::{Command, Stdio};
    const USER: &str = "sysop-test-sudo";
    let there = Command::new("id").arg(USER).output().unwrap().status.success();
    if !there {
        assert!(Command::new("useradd").args(["-M", "-N", USER]).status().unwrap().success());
    }
    let mut change = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
    change.stdin.take().unwrap().write_all(format!("{USER}:{PASSWORD}\n").as_bytes()).unwrap();
    assert!(change.wait().unwrap().success());
    let rule = format!("{USER} ALL=(root) PASSWD: /usr/bin/id\n");
    std::fs::write("/etc/sudoers.d/sysop-test-sudo", rule).unwrap();
    USER
}
