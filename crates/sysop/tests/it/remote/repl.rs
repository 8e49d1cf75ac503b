//! The REPL on a remote host: its terminal, commands typed by the user, and the switch to another host.

use std::fs;

use serde_json::Value;

use super::{RemoteMachineRig, outcomes, text};
use crate::person::{Person, at_a_terminal};
use crate::support::say;

/// Terminal input from the log: front end and text.
fn typed(log: &[Value]) -> Vec<(String, Value)> {
    let events = log.iter().map(|logged| &logged["event"]);
    let inputs = events.filter(|event| event["type"] == "terminal_input");
    inputs.map(|event| (event["by"].as_str().unwrap().to_owned(), event["typed"].clone())).collect()
}

#[test]
fn a_user_works_in_the_remote_terminal_and_returns() {
    let far = RemoteMachineRig::with(&[("hello", vec![say("Hello to you.")])]);
    fs::write(far.there(".profile"), "PS1='there$ '\n").unwrap();
    at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat", "--host", "far"]);
        person.sees("›").await;
        person.types("/shell\r").await;
        person.sees("terminal on far: Ctrl+] to return").await;
        person.sees("there$").await;
        person.types("echo typed-$((40 + 2)) | tee here\r").await;
        person.sees("typed-42").await;
        person.types("\u{1d}").await;
        person.sees("›").await;
        person.types("hello\r").await;
        person.sees("Hello to you.").await;
        // The same shell as before.
        person.types("/shell\r").await;
        person.sees("typed-42").await;
        person.types("echo ag''ain\r").await;
        person.sees("again").await;
        person.types("\u{1d}").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
    });
    assert_eq!(far.read_there("here"), "typed-42\n");
    let typed = typed(&far.log());
    let counts: Vec<_> =
        typed.iter().map(|(by, typed)| (by.as_str(), typed["activity"]["keys"].as_u64())).collect();
    assert_eq!(counts, [("chat", Some(34)), ("chat", Some(13))], "{typed:?}");
    far.nothing_is_left();
}

#[test]
fn a_command_typed_on_a_remote_host_shows_host_and_result() {
    let far = RemoteMachineRig::with(&[]);
    at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat", "--host", "root@far"]);
        person.sees("›").await;
        person.types("/cmd echo by ha''nd; exit 3\r").await;
        person.sees("REMOTE COMMAND").await;
        person.sees("by hand").await;
        person.sees("✗ exit code 3, ").await;
        person.sees("STATUS · root@far · openai/test-model · ").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await;
    });
    assert!(far.mock.requests().is_empty(), "the model is not called for typed commands");
    let log = far.log();
    assert_eq!(outcomes(&log)[0]["exit_code"], 3);
    far.nothing_is_left();
}

#[test]
fn the_host_can_be_switched_during_a_conversation() {
    let far = RemoteMachineRig::with(&[]);
    let root = text(&far.there(""));
    at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat"]);
        person.sees("›").await;
        person.types("/host\r").await;
        person.sees("host: this machine").await;
        person.sees("; idle").await;
        person.sees("start a session on another host with /host DEST").await;
        person.sees("›").await;
        person.types("/host far\r").await;
        person.sees("host far").await;
        person.sees("›").await;
        person.types("/cmd touch over-there\r").await;
        person.sees("✓").await;
        person.sees("exit code 0").await;
        person.sees("›").await;
        person.types("/host\r").await;
        person.sees("host: far").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        person.leaves().await;
    });
    assert!(far.there("over-there").exists());
    assert_eq!(far.log()[0]["event"]["spec"]["root"], root.trim_end_matches('/'));
    far.nothing_is_left();
}
