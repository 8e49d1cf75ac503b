//! The SQLite store: the suite, and faults that only a file has.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use sysop_core::id::Seq;
use sysop_driver::port::{Store, StoreError};
use sysop_store::SqliteStore;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::events::{id, opened, queued, turn};
use crate::suite::{Fixture, check_race, conformance, race};

async fn sqlite() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("sysop.db")).unwrap();
    Fixture { store: Arc::new(store), folder: Some(folder) }
}

conformance!(sqlite);

/// A directory with a path for a database.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sysop.db");
    (folder, path)
}

/// Leaves a closed database with two sessions.
async fn fill(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    store.append(&id("a"), Seq(0), &queued(0, 100, &"long ".repeat(200))).await.unwrap();
    store.append(&id("b"), Seq(0), &queued(0, 3, "b")).await.unwrap();
    store.close().await;
}

fn raw(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    connection
}

fn run_raw(path: &Path, sql: &str) {
    let connection = raw(path);
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
}

fn is_one_sentence_about(path: &Path, error: &StoreError) {
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
}

#[tokio::test]
async fn appended_events_survive_a_restart() {
    let (_folder, path) = place();
    fill(&path).await;
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.load(&id("b"), Seq(0), 10).await.unwrap().len(), 3);
    assert_eq!(store.append(&id("b"), Seq(3), &queued(3, 1, "c")).await, Ok(Seq(4)));
    assert_eq!(store.list(10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_store_still_works_after_close() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    store.close().await;
    assert_eq!(store.append(&id("s"), Seq(1), &queued(1, 1, "b")).await, Ok(Seq(2)));
    assert_eq!(store.load(&id("s"), Seq(0), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_new_file_is_empty() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.list(10).await, Ok(vec![]));
    assert_eq!(store.load(&id("s"), Seq(0), 1).await, Err(StoreError::NotFound(id("s"))));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("share").join("sysop");
    let path = data.join("sysop.db");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;

    let store = SqliteStore::open(&path).unwrap();
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    assert_eq!((mode(&data), mode(data.parent().unwrap())), (0o700, 0o700));
    for name in ["sysop.db", "sysop.db-wal", "sysop.db-shm"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    store.close().await;

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    SqliteStore::open(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_relative_path_that_looks_like_a_uri_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:sysop.db?mode=memory");
    let store = SqliteStore::open(&path).unwrap();
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    store.close().await;
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
}

#[test]
fn a_directory_in_place_of_the_file_is_rejected() {
    let (_folder, path) = place();
    std::fs::create_dir(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    is_one_sentence_about(&path, &error);
}

#[test]
fn an_uncreatable_directory_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let path = folder.path().join("file").join("sysop.db");
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    is_one_sentence_about(&path, &error);
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_left_unchanged() {
    let (_folder, path) = place();
    let content = "these are my notes, not a database\n".repeat(400);
    std::fs::write(&path, &content).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    for error in [
        store.list(10).await.unwrap_err(),
        store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        assert!(error.to_string().contains("move it away"), "{error}");
        is_one_sentence_about(&path, &error);
    }
    store.close().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
}

#[tokio::test]
async fn a_damaged_page_is_reported() {
    let (_folder, path) = place();
    fill(&path).await;
    let mut bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() > 20 * 4096, "{} bytes", bytes.len());
    bytes[5 * 4096..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let error = store.load(&id("a"), Seq(0), 100).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    is_one_sentence_about(&path, &error);
    store.close().await;
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[tokio::test]
async fn a_reader_after_a_crash_finds_all_commits() {
    let (_folder, path) = place();
    fill(&path).await;
    // A transaction with a rollback journal, cut in the middle, as when the journal mode of a new file changes.
    let connection = raw(&path);
    for sql in [
        "PRAGMA journal_mode = DELETE",
        "PRAGMA cache_size = 1",
        "BEGIN IMMEDIATE",
        "UPDATE events SET body = 'half'",
    ] {
        connection.execute_batch(sql).unwrap();
    }
    let (_crashed, crashed) = place();
    let journal = |path: &Path| path.with_extension("db-journal");
    std::fs::copy(&path, &crashed).unwrap();
    std::fs::copy(journal(&path), journal(&crashed)).unwrap();
    connection.execute_batch("ROLLBACK").unwrap();
    let store = SqliteStore::open(&crashed).unwrap();
    assert_eq!(store.list(10).await.unwrap().len(), 2);
    assert_eq!(store.load(&id("a"), Seq(0), 1000).await.unwrap().len(), 100);
    assert!(!journal(&crashed).exists(), "the journal was needed");
}

#[tokio::test]
async fn a_newer_schema_is_rejected() {
    let (_folder, path) = place();
    fill(&path).await;
    run_raw(&path, "PRAGMA user_version = 99");
    let store = SqliteStore::open(&path).unwrap();
    for error in [
        store.list(10).await.unwrap_err(),
        store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap_err(),
        store.delete(&id("a")).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("newer version of sysop (schema 99;"), "{error}");
        is_one_sentence_about(&path, &error);
    }
}

#[tokio::test]
async fn another_programs_database_is_rejected() {
    let (_folder, path) = place();
    std::fs::write(&path, "").unwrap();
    run_raw(&path, "CREATE TABLE bookmarks (url TEXT)");
    let content = std::fs::read(&path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let error = store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    is_one_sentence_about(&path, &error);
    store.close().await;
    assert_eq!(std::fs::read(&path).unwrap(), content);
}

#[tokio::test]
async fn an_event_of_a_newer_version_is_rejected_by_name() {
    let (_folder, path) = place();
    fill(&path).await;
    run_raw(
        &path,
        r#"UPDATE events SET body = '{"type":"teleported","to":"s3cret"}' WHERE session = 'b' AND seq = 2"#,
    );
    let store = SqliteStore::open(&path).unwrap();
    let error = store.load(&id("b"), Seq(0), 10).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        "event 2 of session b has the unknown kind `teleported`, written by a newer version of sysop; update sysop to open it"
    );
    // A known kind that cannot be parsed is damaged.
    run_raw(&path, r#"UPDATE events SET body = '{"type":"prompt_queued"}' WHERE session = 'b' AND seq = 2"#);
    let error = store.load(&id("b"), Seq(0), 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("event 2 (`prompt_queued`) of session b"), "{error}");
    is_one_sentence_about(&path, &error);
    assert_eq!(store.load(&id("a"), Seq(0), 1000).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_missing_event_is_reported() {
    for (sql, missing) in [
        ("DELETE FROM events WHERE session = 'a' AND seq = 1", 1),
        ("DELETE FROM events WHERE session = 'a' AND seq = 50", 50),
        ("DELETE FROM events WHERE session = 'a' AND seq BETWEEN 20 AND 90", 20),
        ("DELETE FROM events WHERE session = 'a' AND seq = 100", 100),
    ] {
        let (_folder, path) = place();
        fill(&path).await;
        run_raw(&path, sql);
        let store = SqliteStore::open(&path).unwrap();
        let error = store.load(&id("a"), Seq(0), 1000).await.unwrap_err();
        assert!(error.to_string().contains(&format!("event {missing} of session a is missing")), "{error}");
        is_one_sentence_about(&path, &error);
    }
}

#[tokio::test]
async fn a_long_log_is_read_completely_and_its_first_fault_reported() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let log = queued(0, 5000, "a");
    store.append(&id("a"), Seq(0), &log).await.unwrap();
    for (after, limit) in
        [(0, usize::MAX), (0, 4999), (1, 4998), (511, 1025), (4999, 10), (5000, 10), (9000, 10)]
    {
        let loaded = store.load(&id("a"), Seq(after), limit).await.unwrap();
        let wanted: Vec<_> = log.iter().filter(|logged| logged.seq.0 > after).take(limit).collect();
        assert!(loaded.iter().eq(wanted.into_iter().map(|logged| &**logged)), "{limit} after {after}");
    }
    store.close().await;
    run_raw(
        &path,
        "DELETE FROM events WHERE seq IN (700, 4000); UPDATE events SET body = 'x' WHERE seq = 2000",
    );
    for _ in 0..20 {
        let error = store.load(&id("a"), Seq(0), usize::MAX).await.unwrap_err();
        assert!(error.to_string().contains("event 700 of session a is missing"), "{error}");
    }
    assert_eq!(store.load(&id("a"), Seq(4000), usize::MAX).await.unwrap().len(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_can_use_one_file() {
    let (_folder, path) = place();
    // Both find an empty file, and both try to create the tables.
    let stores = [SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap()];
    let racers: Vec<_> = stores
        .iter()
        .enumerate()
        .map(|(n, store)| tokio::spawn(race(Arc::new(store.clone()), format!("racer {n}"), 100)))
        .collect();
    let mut won = Vec::new();
    for racer in racers {
        won.extend(racer.await.unwrap());
    }
    check_race(&stores[0], won).await;
}

/// Passes the database to the second process of `acknowledged_events_survive_a_kill`.
const KILLED: &str = "SYSOP_STORE_TEST_KILLED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_events_survive_a_kill() {
    if let Some(path) = std::env::var_os(KILLED) {
        append_until_killed(Path::new(&path)).await;
        return;
    }
    let (_folder, path) = place();
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::acknowledged_events_survive_a_kill", "--nocapture"])
        .env(KILLED, &path)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    while acknowledged < 200 {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("the second process ended by itself");
        acknowledged = line.strip_prefix("acknowledged ").map_or(acknowledged, |seq| seq.parse().unwrap());
    }
    child.kill().await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        acknowledged = line.strip_prefix("acknowledged ").map_or(acknowledged, |seq| seq.parse().unwrap());
    }

    let store = SqliteStore::open(&path).unwrap();
    let log = store.load(&id("s"), Seq(0), usize::MAX).await.unwrap();
    let last = log.last().unwrap().seq;
    assert!(last.0 >= acknowledged, "{acknowledged} events were acknowledged and {last} are there");
    assert_eq!(store.list(10).await.unwrap()[0].last_seq, last);
    assert_eq!(store.append(&id("s"), last, &queued(last.0, 1, "after")).await, Ok(last.next()));
}

async fn append_until_killed(path: &Path) {
    use std::io::Write;
    let store = SqliteStore::open(path).unwrap();
    store
        .append(&id("s"), Seq(0), &crate::events::log(0, 1, [opened("local", "/"), turn(1, "go")]))
        .await
        .unwrap();
    for seq in 2.. {
        store.append(&id("s"), Seq(seq), &queued(seq, 1, "x")).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {}", seq + 1).unwrap();
        out.flush().unwrap();
    }
}
