//! Data of sysop 0.1.0 with the current binary.

use std::path::PathBuf;

use crate::World;

const DATABASE: &[u8] = include_bytes!("../../../sysop-store/tests/fixtures/sysop-0.1.0.db");
const TITLES: [&str; 4] = ["please tidy up", "danger", "term", "wait"];
/// Session in which a file was edited.
const EDITED: &str = "01a20460-1aed";
/// Session that was killed while a call ran.
const KILLED: &str = "01a20460-1bb0";
/// Offset of `PRAGMA user_version` in a database file (<https://www.sqlite.org/fileformat.html>).
const USER_VERSION_AT: usize = 60;

/// A home with the database of 0.1.0, and the path of that database.
fn old_home() -> (World, PathBuf) {
    let world = World::new();
    let data = world.home().join(".local/share/sysop");
    std::fs::create_dir_all(&data).unwrap();
    let database = data.join("sysop.db");
    std::fs::write(&database, DATABASE).unwrap();
    (world, database)
}

#[test]
fn sessions_of_0_1_0_are_listed_and_shown() {
    let (world, database) = old_home();
    let listed = world.run(&["sessions", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for title in TITLES {
        assert!(listed.out.contains(title), "{title}: {}", listed.out);
    }
    assert!(database.with_file_name("sysop.db.v2.bak").exists(), "the database is backed up");
    let shown = world.run(&["sessions", "show", EDITED]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("please tidy up") && shown.out.contains("$ "), "{}", shown.out);
}

/// Replaces the only occurrence of some bytes with others of the same length.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let found: Vec<_> = (0..=bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    bytes[found[0]..found[0] + new.len()].copy_from_slice(new);
}

/// Moves the sessions to a directory that exists on every machine; the original one was on another machine.
fn use_existing_root(bytes: &mut [u8]) {
    let (old, new) = (b"/tmp/fx/ws", b"/usr/share");
    let found: Vec<_> = (0..=bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}

#[test]
fn a_log_of_a_newer_version_is_rejected_and_the_others_open() {
    let (world, database) = old_home();
    let mut bytes = DATABASE.to_vec();
    replace(&mut bytes, br#""tool_started","call":{"id":"w1""#, br#""guard_armed2","call":{"id":"w1""#);
    use_existing_root(&mut bytes);
    std::fs::write(&database, bytes).unwrap();
    for command in [
        &["sessions", "show", KILLED][..],
        &["sessions", "export", KILLED],
        &["exec", "--model", "demo", "--resume", KILLED, "go on"],
    ] {
        let run = world.run(command);
        assert_ne!(run.code, Some(0), "{command:?}: {run:?}");
        assert!(run.err.contains("event 5 of session 01a20460-1bb0"), "{command:?}: {run:?}");
        assert!(run.err.contains("unknown kind `guard_armed2`"), "{command:?}: {run:?}");
        assert!(run.err.contains("update sysop to open it"), "{command:?}: {run:?}");
        assert!(!run.err.contains("panicked"), "{command:?}: {run:?}");
    }
    let listed = world.run(&["sessions", "list"]);
    assert!(TITLES.iter().all(|title| listed.out.contains(title)), "{listed:?}");
    assert_eq!(world.run(&["sessions", "show", EDITED]).code, Some(0), "the other sessions open");
}

#[test]
fn a_database_of_a_newer_version_is_rejected_in_one_sentence() {
    let (world, database) = old_home();
    let mut bytes = DATABASE.to_vec();
    bytes[USER_VERSION_AT..USER_VERSION_AT + 4].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&database, &bytes).unwrap();
    let run = world.run(&["sessions", "list"]);
    assert_ne!(run.code, Some(0));
    assert!(
        run.err.contains("was written by a newer version of sysop (schema 99; this version supports 5)"),
        "{run:?}"
    );
    assert_eq!(std::fs::read(&database).unwrap(), bytes, "the database is left unchanged");
}
