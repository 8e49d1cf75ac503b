//! Editors and pagers get the original terminal, and the front end takes it over again afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::person::{Person, UNTOUCHED, at_a_terminal};

/// Installs an editor that runs `script` with the file as `$1`.
fn editor(person: &Person, script: &str) {
    let path = person.home.path().join("editor");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn drafts(person: &Person) -> Vec<String> {
    let files = fs::read_dir(person.home.path()).unwrap().map(|file| file.unwrap().file_name());
    files.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with("draft")).collect()
}

#[test]
fn an_editor_changes_the_text() {
    at_a_terminal(async {
        let mut person = Person::opens();
        editor(&person, r#"cat "$1"; stat -c 'mode %a' "$1"; read answer; echo "$answer" > "$1""#);
        person.sees("size").await;
        let taken = person.state();
        person.types("e").await;
        person.sees("old text").await;
        person.sees("mode 600").await;
        assert_eq!(person.state(), UNTOUCHED);
        // All input goes to the editor, including Ctrl+C.
        person.types("new text\r").await;
        person.sees(r#"Text("new text")"#).await;
        assert_eq!(person.state(), taken);
        assert_eq!(drafts(&person), [""; 0]);
        person.types("q").await;
        assert!(person.ends().await.success());
        assert_eq!(person.state(), UNTOUCHED);
    });
}

#[test]
fn a_failing_editor_loses_nothing() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("e").await;
        person.sees("cannot start the editor").await;
        assert_eq!(drafts(&person), [""; 0]);
        editor(&person, "echo changed > \"$1\"; exit 1");
        person.types("e").await;
        person.sees("Unchanged").await;
        assert_eq!(drafts(&person), [""; 0]);
        editor(&person, "echo changed > \"$1\"; kill -9 $$");
        person.types("e").await;
        person.sees("(SIGKILL)); draft").await;
        let drafts = drafts(&person);
        let [draft] = drafts.as_slice() else { panic!("{drafts:?}") };
        assert_eq!(fs::read_to_string(person.home.path().join(draft)).unwrap(), "changed\n");
    });
}

#[test]
fn signals_end_sysop_while_an_editor_runs() {
    at_a_terminal(async {
        let mut person = Person::opens();
        editor(&person, "echo waits; read answer");
        person.types("e").await;
        person.sees("waits").await;
        person.signals(Signal::TERM);
        assert!(person.ends().await.success());
        assert_eq!(person.state(), UNTOUCHED);
        assert_eq!(drafts(&person).len(), 1);
    });
}

#[test]
fn a_pager_shows_hostile_text_escaped() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("v").await;
        person.sees("first\nsecond \\x1b]0;owned\\x07").await;
        assert!(!person.raw.windows(9).any(|window| window == b"\x1b]0;owned"));
        person.types("q").await;
        person.sees("Ok(())").await;
        person.sees("key v").await;
        person.types("q").await;
        assert!(person.ends().await.success());
        assert_eq!(person.state(), UNTOUCHED);
    });
}
