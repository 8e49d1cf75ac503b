//! Secrets that only a user knows: they reach the program that asks, and are stored nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{RemoteMachineRig, files_with, outcomes, processes_given, results, text, with_passphrase};
use crate::exposed::private::{is_private, open_home};
use crate::person::{Person, at_a_terminal};
use crate::support::{bash, call, say};

/// A word that occurs nowhere else on this machine.
fn word(test: &str) -> String {
    format!("Sesam-{test}-{}", std::process::id())
}

/// Checks that none of our files contains the secret; the search does find `known`.
fn nothing_holds(far: &RemoteMachineRig, secret: &str, known: &str) {
    assert!(!files_with(&far.world.data(), known).is_empty(), "the search finds a known word");
    let kept = files_with(far.world.home(), secret);
    assert_eq!(kept, Vec::<std::path::PathBuf>::new());
    for id in far.world.session_ids() {
        for command in ["export", "show"] {
            let run = far.world.finish(&["sessions", command, &id]);
            assert!(run.code == Some(0) && run.out.contains(known), "{run:?}");
            assert!(!run.out.contains(secret) && !run.err.contains(secret), "{run:?}");
        }
    }
    let bodies: Vec<String> = far.mock.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(!bodies.is_empty() && bodies.iter().all(|body| !body.contains(secret)), "{bodies:?}");
}

/// Checks during the run that no process received the secret where others can read it.
fn nobody_was_given(far: &RemoteMachineRig, secret: &str) {
    assert!(!processes_given(&far.mark()).is_empty(), "the search finds a known process");
    assert_eq!(processes_given(secret), Vec::<String>::new());
}

#[test]
fn host_key_and_passphrase_prompts_are_answered_and_the_run_continues() {
    let (secret, wrong) = (word("passphrase"), word("wrong"));
    let far = RemoteMachineRig::with(&[("look", vec![bash("echo looked around"), say("I have looked.")])]);
    with_passphrase(&far.sshd, &secret);
    fs::write(far.sshd.path("known_hosts"), "").unwrap();
    let seen = at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat", "--host", "far", "--approve", "auto"]);
        person.sees("›").await;
        person.types("look around\r").await;
        person.sees("ssh far asks:").await;
        person.sees("yes/no").await;
        person.sees("Enter: send").await;
        person.answers("yes").await;
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.answers(&wrong).await;
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.answers(&secret).await;
        person.sees("looked around").await;
        person.sees("I have looked.").await;
        nobody_was_given(&far, &secret);
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await.1
    });
    assert!(!seen.contains(&secret) && !seen.contains(&wrong), "{seen}");
    assert_eq!(results(&far.mock.last_body()), ["looked around\n[exit code 0]"]);
    let known = fs::read_to_string(far.sshd.path("known_hosts")).unwrap();
    assert!(known.contains("ssh-ed25519"), "ssh remembers the user's answer: {known}");
    for word in [&secret, &wrong] {
        nothing_holds(&far, word, "looked around");
    }
    far.nothing_is_left();
}

#[test]
fn declining_a_passphrase_keeps_the_session() {
    let secret = word("refused");
    let far = RemoteMachineRig::with(&[
        ("look", vec![bash("echo looked around"), say("I cannot get in.")]),
        ("again", vec![bash("echo inside now"), say("Now I can.")]),
    ]);
    with_passphrase(&far.sshd, &secret);
    let seen = at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat", "--host", "far", "--approve", "auto"]);
        person.sees("›").await;
        person.types("look around\r").await;
        // ssh asks three times before it fails.
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.types("\u{1b}").await;
        person.sees("far: all keys and passwords were rejected").await;
        person.sees("I cannot get in.").await;
        person.sees("›").await;
        person.types("try again\r").await;
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.answers(&secret).await;
        person.sees("inside now").await;
        person.sees("Now I can.").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await.1
    });
    assert!(!seen.contains(&secret), "{seen}");
    nothing_holds(&far, &secret, "inside now");
    far.nothing_is_left();
}

#[test]
fn exec_on_a_terminal_asks_for_the_passphrase() {
    let secret = word("exec");
    let far = RemoteMachineRig::with(&[("look", vec![bash("echo looked around"), say("I have looked.")])]);
    with_passphrase(&far.sshd, &secret);
    let (code, seen) = at_a_terminal(async {
        let line = ["exec", "--host", "far", "--approve", "auto", "look around"];
        let mut person = Person::sits_down(&far.world, &line);
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.answers(&secret).await;
        person.sees("I have looked.").await;
        person.leaves().await
    });
    assert!(code == 0 && !seen.contains(&secret), "{seen}");
    nothing_holds(&far, &secret, "looked around");
    far.nothing_is_left();
}

/// The askpass program is a process too, and so is the `ssh` that waits for its answer.
#[test]
fn a_kill_during_an_ssh_prompt_leaves_no_process() {
    let far = RemoteMachineRig::with(&[("look", vec![bash("echo looked around"), say("never said")])]);
    with_passphrase(&far.sshd, &word("killed"));
    at_a_terminal(async {
        let line = ["chat", "--host", "far", "--approve", "auto", "look around"];
        let mut person = Person::sits_down(&far.world, &line);
        person.sees("Enter passphrase for key").await;
        assert!(!processes_given("SYSOP_ASKPASS_SOCKET").is_empty());
        person.dies().await;
    });
    far.nothing_runs();
}

#[test]
fn ctrl_c_declines_a_prompt_and_then_stops_the_turn() {
    let secret = word("stopped");
    let far = RemoteMachineRig::with(&[("look", vec![bash("echo looked around"), say("never said")])]);
    with_passphrase(&far.sshd, &secret);
    fs::write(far.sshd.path("known_hosts"), "").unwrap();
    at_a_terminal(async {
        let line = ["chat", "--host", "far", "--approve", "auto", "look around"];
        let mut person = Person::sits_down(&far.world, &line);
        person.sees("yes/no").await;
        person.sees("Enter: send").await;
        person.answers("yes").await;
        person.sees("Enter passphrase for key").await;
        person.sees("Input is hidden").await;
        person.sees("› ").await;
        person.types("\u{3}").await;
        person.sees("declined; press Ctrl+C to stop the turn").await;
        person.types("\u{3}").await;
        person.sees("stopped").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
    });
    far.nothing_is_left();
}

/// Program that asks on its terminal like `sudo`, without echo, and accepts only the right word.
fn asker(far: &RemoteMachineRig, secret: &str) -> String {
    let script = format!(
        "#!/bin/sh\nwanted='{secret}'\nwhile :; do\nstty -echo </dev/tty\nprintf '[sudo] password for me: ' >/dev/tty\n\
         IFS= read -r given </dev/tty\nstty echo </dev/tty\necho >/dev/tty\n\
         [ \"$given\" = \"$wanted\" ] && break\necho 'Sorry, try again.'\ndone\necho the disk is clean\n"
    );
    let path = far.sshd.path("asker");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    text(&path)
}

fn run_command(command: &str) -> Value {
    call("run_command", json!({ "command": command, "reasoning": "" }))
}

/// A user enters the password in the middle of a turn; `command` asks for it.
fn a_password_is_entered(far: &RemoteMachineRig, host: &str, secret: &str, wrong: &str, said: &str) {
    let seen = at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat", "--host", host]);
        person.sees("›").await;
        person.types("clean up\r").await;
        person.sees("Run it?").await;
        person.types("y").await;
        for answer in [wrong, secret] {
            person.sees("asks:").await;
            person.sees("[sudo] password for").await;
            person.sees("Input is hidden").await;
            person.answers(answer).await;
        }
        person.sees(said).await;
        person.sees("It is clean.").await;
        nobody_was_given(far, secret);
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await.1
    });
    assert!(!seen.contains(secret) && !seen.contains(wrong), "{seen}");
    let told = results(&far.mock.last_body());
    assert!(told[0].contains("[password entered]") && told[0].contains(said), "{told:?}");
    assert!(told[0].ends_with("[exit code 0]"), "{told:?}");
    let log = far.log();
    let typed: Vec<&Value> =
        log.iter().map(|logged| &logged["event"]).filter(|event| event["type"] == "terminal_input").collect();
    assert_eq!(typed.len(), 2, "the log records who answered, not the answer: {typed:?}");
    let recorded = files_with(&far.world.data(), "\"version\": 2").len()
        + files_with(&far.world.data(), "\"version\":2").len();
    assert!(recorded > 0, "the recording contains something to search");
    for word in [secret, wrong] {
        nothing_holds(far, word, said);
    }
    far.nothing_is_left();
}

#[test]
fn a_user_enters_a_password_during_a_run() {
    let (secret, wrong) = (word("stand-in"), word("not-it"));
    let mut far = RemoteMachineRig::with(&[]);
    let asker = asker(&far, &secret);
    far.mock = crate::support::Mock::start(&[("clean", vec![run_command(&asker), say("It is clean.")])]);
    let far = far.with_model();
    a_password_is_entered(&far, "far", &secret, &wrong, "the disk is clean");
}

#[test]
fn without_a_terminal_a_password_prompt_ends_the_task() {
    let secret = word("nobody");
    let mut far = RemoteMachineRig::with(&[]);
    // sysop would read a shell script as new as the session and ask about it.
    let path = far.sshd.path("asker.py");
    let script = format!(
        "import getpass\nwhile getpass.getpass('[sudo] password for me: ') != '{secret}':\n    print('Sorry, try \
         again.')\n"
    );
    fs::write(&path, script).unwrap();
    let asker = format!("python3 {}", text(&path));
    far.mock = crate::support::Mock::start(&[("clean", vec![run_command(&asker), say("never said")])]);
    let far = far.with_model();
    let run = far.world.finish(&["exec", "--host", "far", "--approve", "auto", "clean up"]);
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:?}");
    let sentences: Vec<&str> = run.err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(sentences.len(), 1, "{run:?}");
    assert!(sentences[0].contains("asks `[sudo] password for me:`"), "{run:?}");
    assert!(sentences[0].contains("there is no terminal to ask on"), "{run:?}");
    let log = far.log();
    assert_eq!(outcomes(&log)[0]["status"], "failed");
    let output = outcomes(&log)[0]["output"].as_str().unwrap();
    assert!(output.contains("no one entered the requested secret"), "{output}");
    far.nothing_is_left();
}

/// The real sudo of this machine.
#[test]
fn a_user_answers_remote_sudo() {
    // Only root can create a user with a known password.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (secret, wrong) = (word("sudo"), word("not-sudo"));
    let _gone = SudoUser::with(&secret);
    let command = format!("setpriv --reuid {SUDO_USER} --clear-groups sh -c 'sudo -k; sudo id -un'");
    let far = RemoteMachineRig::with(&[("clean", vec![run_command(&command), say("It is clean.")])]);
    a_password_is_entered(&far, "far", &secret, &wrong, "root");
}

const SUDO_USER: &str = "sysop-test-far";

/// A user who may use sudo with a password for one command; removed on drop.
struct SudoUser {
    /// Lock, because this machine has only one such user, for one test run at a time.
    _lock: fs::File,
}

impl SudoUser {
    fn with(password: &str) -> Self {
        use std::io::Write;
        let lock = fs::File::create(std::env::temp_dir().join(format!("{SUDO_USER}.lock"))).unwrap();
        lock.lock().unwrap();
        let there = Command::new("id").arg(SUDO_USER).output().unwrap().status.success();
        if !there {
            assert!(Command::new("useradd").args(["-M", "-N", SUDO_USER]).status().unwrap().success());
        }
        let mut change = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
        change.stdin.take().unwrap().write_all(format!("{SUDO_USER}:{password}\n").as_bytes()).unwrap();
        assert!(change.wait().unwrap().success());
        let rule = format!("{SUDO_USER} ALL=(root) PASSWD: /usr/bin/id\n");
        fs::write(Self::rule(), rule).unwrap();
        Self { _lock: lock }
    }

    fn rule() -> String {
        format!("/etc/sudoers.d/{SUDO_USER}")
    }
}

impl Drop for SudoUser {
    fn drop(&mut self) {
        // The rule may already be gone.
        let _ = fs::remove_file(Self::rule());
    }
}

#[test]
fn connection_sockets_are_private() {
    let far = RemoteMachineRig::with(&[(
        "wait",
        vec![bash("touch begun; until [ -e go ]; do sleep 0.05; done"), say("Done.")],
    )]);
    open_home(&far.world);
    let running = far.world.start(&["exec", "--host", "far", "--approve", "auto", "wait"]);
    far.wait_for("begun");
    let folder = far.world.home().join(".cache/sysop/ssh");
    let sockets: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!sockets.is_empty(), "the connection has a socket");
    is_private(&[vec![folder], sockets].concat());
    fs::write(far.there("go"), "").unwrap();
    assert_eq!(running.finish().code, Some(0));
}
