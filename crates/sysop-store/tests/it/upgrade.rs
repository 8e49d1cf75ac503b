//! Logs and databases of sysop 0.1.0, and of future versions.

use std::path::{Path, PathBuf};

use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use sysop_core::event::{Event, Logged};
use sysop_core::id::Seq;
use sysop_core::session::Session;
use sysop_core::transcript::Transcript;
use sysop_driver::port::{Store, StoreError};
use sysop_store::SqliteStore;

use crate::events::{KINDS, any_event, id, of_kind, queued};

/// A database written by sysop 0.1.0: an edit with colors and an artifact, an unanswered dangerous call, a call in the
/// terminal that ends the task, and a session killed during a call.
const DATABASE: &[u8] = include_bytes!("../fixtures/sysop-0.1.0.db");
/// Logs of the same sessions, as printed by `sysop sessions export` of 0.1.0.
const LOGS: &str = include_str!("../fixtures/log-0.1.0.jsonl");
/// The sessions with their numbers of events, newest first.
const SESSIONS: [(&str, &str, usize); 4] = [
    ("01a20460-1bb0-75a2-9e36-da538db68f25", "wait", 5),
    ("01a20460-1b5e-7073-b2b8-13e6c5207c2a", "term", 10),
    ("01a20460-1b36-723c-96d4-67c8d50c05f1", "danger", 8),
    ("01a20460-1aed-752c-b829-76c7d2de4f0c", "please tidy up", 23),
];

/// Copies the database of 0.1.0.
fn old_database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sysop.db");
    std::fs::write(&path, DATABASE).unwrap();
    (folder, path)
}

fn backup_of(path: &Path) -> PathBuf {
    path.with_file_name("sysop.db.v2.bak")
}

fn version(path: &Path) -> i64 {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn run_raw(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn check_sessions(store: &SqliteStore) {
    let listed = store.list(10).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|summary| (summary.id.as_str(), summary.title.as_str())).collect();
    assert_eq!(listed, SESSIONS.map(|(id, title, _)| (id, title)));
    for (name, _, events) in SESSIONS {
        let log = store.load(&id(name), Seq(0), usize::MAX).await.unwrap();
        assert_eq!(log.len(), events, "{name}");
        check_replay(&log);
    }
}

/// Checks that a session and a transcript can be restored from the log.
fn check_replay(log: &[Logged]) {
    Session::replay(log.iter().map(|logged| &logged.event)).unwrap();
    let mut transcript = Transcript::new();
    log.iter().for_each(|logged| transcript.apply_logged(logged));
    assert_eq!(transcript.seq(), log.last().unwrap().seq);
    assert!(transcript.items().len() >= 2, "{:?}", transcript.items().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_0_1_0_database_is_backed_up_and_opened() {
    let (_folder, path) = old_database();
    let store = SqliteStore::open(&path).unwrap();
    check_sessions(&store).await;
    store.close().await;
    assert_eq!(names(path.parent().unwrap()), ["sysop.db", "sysop.db.v2.bak"]);
    assert_eq!((version(&path), version(&backup_of(&path))), (5, 2));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(backup_of(&path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    // The backup is a complete database of 0.1.0.
    let (_other, copy) = old_database();
    std::fs::copy(backup_of(&path), &copy).unwrap();
    check_sessions(&SqliteStore::open(&copy).unwrap()).await;
}

#[tokio::test]
async fn an_existing_backup_is_kept() {
    let (_folder, path) = old_database();
    std::fs::write(backup_of(&path), "the first one").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    check_sessions(&store).await;
    assert_eq!(std::fs::read(backup_of(&path)).unwrap(), b"the first one");
}

#[tokio::test]
async fn a_new_database_has_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("sysop.db")).unwrap();
    assert_eq!(store.list(1).await, Ok(vec![]));
    store.close().await;
    assert_eq!(names(folder.path()), ["sysop.db"]);
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_stops_the_migration() {
    let (_folder, path) = old_database();
    // The copy's name is too long for the file system, the database's is not.
    let long = path.with_file_name(format!("{}.db", "x".repeat(250)));
    std::fs::rename(&path, &long).unwrap();
    let store = SqliteStore::open(&long).unwrap();
    let error = store.list(1).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unavailable(_)), "{text}");
    assert!(text.contains("was not migrated") && text.contains("free some space"), "{text}");
    assert!(!text.contains('\n'), "{text}");
    store.close().await;
    assert_eq!(version(&long), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_migrations_succeed_and_the_backup_is_the_old_database() {
    for _ in 0..10 {
        let (_folder, path) = old_database();
        let stores: Vec<_> = (0..4).map(|_| SqliteStore::open(&path).unwrap()).collect();
        let opening: Vec<_> = stores
            .iter()
            .map(|store| {
                let store = store.clone();
                tokio::spawn(async move { store.list(10).await.map(|listed| listed.len()) })
            })
            .collect();
        for opened in opening {
            assert_eq!(opened.await.unwrap(), Ok(4));
        }
        for store in &stores {
            store.close().await;
        }
        assert_eq!((version(&path), version(&backup_of(&path))), (5, 2));
        let copies: Vec<_> =
            names(path.parent().unwrap()).into_iter().filter(|name| name.contains(".bak")).collect();
        assert_eq!(copies, ["sysop.db.v2.bak"], "no copy is left half done");
    }
}

#[tokio::test]
async fn a_log_with_an_unknown_event_is_rejected_and_others_open() {
    let (_folder, path) = old_database();
    let (newer, ..) = SESSIONS[1];
    let unknown = r#"{"type":"guard_armed2\u001b[2J","call":"s3cret"}"#;
    let sql = format!("UPDATE events SET body = '{unknown}' WHERE session = '{newer}' AND seq = 7");
    run_raw(&path, &sql);
    let store = SqliteStore::open(&path).unwrap();
    let error = store.load(&id(newer), Seq(0), usize::MAX).await.unwrap_err();
    let StoreError::NewerLog { seq, .. } = &error else { panic!("{error}") };
    assert_eq!(*seq, Seq(7));
    let text = error.to_string();
    let begin = format!("event 7 of session {newer} has the unknown kind `guard_armed2");
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.ends_with("written by a newer version of sysop; update sysop to open it"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("s3cret"), "{text}");
    let error = sysop_driver::replay(&store, &id(newer)).await.unwrap_err();
    assert_eq!(error.to_string(), text);
    for (name, ..) in SESSIONS.into_iter().filter(|(name, ..)| *name != newer) {
        sysop_driver::replay(&store, &id(name)).await.unwrap();
    }
}

/// Logs in the file, in its order.
fn old_logs() -> Vec<Vec<Logged>> {
    let mut logs: Vec<Vec<Logged>> = Vec::new();
    for line in LOGS.lines() {
        let logged: Logged = serde_json::from_str(line).unwrap();
        if logged.seq == Seq(1) {
            logs.push(Vec::new());
        }
        logs.last_mut().unwrap().push(logged);
    }
    logs
}

#[test]
fn logs_of_0_1_0_replay_and_round_trip() {
    let logs = old_logs();
    assert_eq!(logs.len(), SESSIONS.len());
    logs.iter().for_each(|log| check_replay(log));
    for line in LOGS.lines() {
        let logged: Logged = serde_json::from_str(line).unwrap();
        let (before, after): (Value, Value) =
            (serde_json::from_str(line).unwrap(), serde_json::to_value(&logged).unwrap());
        assert_eq!(after, before);
    }
    let old = serde_json::from_value::<Event>(json!({"type": "compacted", "keep": 6})).unwrap();
    assert_eq!(old, Event::Compacted { keep: 6 });
}

#[test]
fn every_event_kind_has_a_known_name() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for number in 0..KINDS {
        let event = of_kind(number).new_tree(&mut runner).unwrap().current();
        let value = serde_json::to_value(event).unwrap();
        let name = value["type"].as_str().unwrap();
        assert!(Event::is_known_kind(name), "{name}");
    }
    for unknown in ["", "teleported", "SessionOpened", "session_opened ", "7"] {
        assert!(!Event::is_known_kind(unknown), "{unknown}");
    }
}

/// Additions that a future version may make.
fn with_unknown_fields(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.insert("zz_later".to_owned(), json!({"deep": [1, null, {"type": "x"}]}));
    for nested in ["spec", "outcome", "compaction", "call", "reply", "risk", "guarded"] {
        if let Some(Value::Object(nested)) = fields.get_mut(nested) {
            nested.insert("zz_later".to_owned(), json!([true]));
        }
    }
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn unknown_fields_are_ignored_in_every_event(event in any_event()) {
        let later = with_unknown_fields(&event);
        prop_assert_eq!(serde_json::from_value::<Event>(later.clone()).unwrap(), event.clone());
        prop_assert_eq!(serde_json::from_str::<Event>(&later.to_string()).unwrap(), event);
    }
}

#[test]
fn unknown_fields_are_ignored_in_each_kind_of_event() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for kind in 0..KINDS {
        let event = of_kind(kind).new_tree(&mut runner).unwrap().current();
        let later = with_unknown_fields(&event).to_string();
        assert_eq!(serde_json::from_str::<Event>(&later).unwrap(), event, "{later}");
    }
}

/// Returns the files of a directory that contain these bytes.
fn holders(folder: &Path, text: &str) -> Vec<String> {
    let holds = |name: &String| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    names(folder).into_iter().filter(holds).collect()
}

#[tokio::test]
async fn a_deleted_session_leaves_no_text_in_the_database_and_its_backup() {
    let (folder, path) = old_database();
    let (name, title, _) = SESSIONS[3];
    let store = SqliteStore::open(&path).unwrap();
    store.list(1).await.unwrap();
    store.append(&id("mine"), Seq(0), &queued(0, 50, "a word that only I know")).await.unwrap();
    assert!(holders(folder.path(), title).contains(&"sysop.db.v2.bak".to_owned()));
    assert_ne!(holders(folder.path(), "only I know"), [""; 0]);
    store.delete(&id(name)).await.unwrap();
    store.delete(&id("mine")).await.unwrap();
    for text in [title, name, "only I know"] {
        assert_eq!(holders(folder.path(), text), [""; 0], "{text}");
    }
    assert_eq!(store.list(10).await.unwrap().len(), SESSIONS.len() - 1);
}

#[tokio::test]
async fn text_left_by_0_1_0_is_erased_by_the_next_delete() {
    let (folder, path) = old_database();
    let (name, title, _) = SESSIONS[3];
    let sql = format!(
        "PRAGMA foreign_keys = ON; PRAGMA secure_delete = OFF; DELETE FROM sessions WHERE id = '{name}'"
    );
    run_raw(&path, &sql);
    assert_eq!(holders(folder.path(), title), ["sysop.db"], "0.1.0 leaves it there");
    let store = SqliteStore::open(&path).unwrap();
    store.delete(&id(SESSIONS[0].0)).await.unwrap();
    assert_eq!(store.list(10).await.unwrap().len(), SESSIONS.len() - 2);
    assert_eq!(holders(folder.path(), title), [""; 0]);
}

#[tokio::test]
async fn a_delete_reports_text_that_another_reader_keeps() {
    let (folder, path) = old_database();
    let store = SqliteStore::open(&path).unwrap();
    store.append(&id("mine"), Seq(0), &queued(0, 5, "a word that only I know")).await.unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
    let error = store.delete(&id("mine")).await.unwrap_err().to_string();
    assert!(
        error.contains("session mine is deleted, but its text stays in") && error.contains("sysop.db-wal"),
        "{error}"
    );
    let (name, title, _) = SESSIONS[3];
    assert!(holders(folder.path(), title).contains(&"sysop.db.v2.bak".to_owned()));
    store.delete(&id(name)).await.unwrap_err();
    assert!(
        !holders(folder.path(), title).contains(&"sysop.db.v2.bak".to_owned()),
        "nobody reads the backup"
    );
    reader.close().unwrap();
    store.close().await;
    for text in [title, "only I know"] {
        assert_eq!(holders(folder.path(), text), [""; 0], "{text}");
    }
}
