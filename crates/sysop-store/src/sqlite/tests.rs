//! Behavior visible only from inside: errors of SQLite, and transactions shared by several writes.

use std::path::PathBuf;
use std::sync::Arc;

use sysop_core::event::{Event, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::session::Session;
use sysop_driver::port::{Store, StoreError};
use tempfile::TempDir;

use super::SqliteStore;

fn events(after: u64, count: u64, size: usize) -> Vec<Arc<Logged>> {
    let event = |seq| Logged {
        seq: Seq(seq),
        at: Timestamp(0),
        event: Event::PromptQueued { text: "x".repeat(size), images: Vec::new(), by: None },
    };
    (after + 1..=after + count).map(event).map(Arc::new).collect()
}

fn store() -> (TempDir, PathBuf, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sysop.db");
    let store = SqliteStore::open(&path).unwrap();
    (folder, path, store)
}

fn id(text: &str) -> SessionId {
    SessionId::new(text)
}

/// Runs SQL on the writer's connection.
async fn on_writer(store: &SqliteStore, sql: &'static str) {
    store.writer.with_connection(move |connection| connection.execute_batch(sql)).await.unwrap();
}

fn said(path: &std::path::Path, error: &StoreError, words: &str) {
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unavailable(_)), "{text}");
    assert!(text.contains(path.to_str().unwrap()) && text.contains(words), "{text}");
}

#[tokio::test]
async fn a_full_disk_is_reported_and_recovered_from() {
    let (_folder, path, store) = store();
    store.append(&id("s"), Seq(0), &events(0, 2, 10)).await.unwrap();
    on_writer(&store, "PRAGMA max_page_count = 20").await;
    let error = store.append(&id("s"), Seq(2), &events(2, 3, 100_000)).await.unwrap_err();
    said(&path, &error, "free some space");
    // The limit went with the connection: there is room again.
    assert_eq!(store.load(&id("s"), Seq(0), 10).await.unwrap().len(), 2);
    assert_eq!(store.append(&id("s"), Seq(2), &events(2, 3, 100_000)).await, Ok(Seq(5)));
}

#[tokio::test]
async fn an_overlong_event_is_rejected() {
    let (_folder, _path, store) = store();
    let error = store.append(&id("s"), Seq(0), &events(0, 1, 17 << 20)).await.unwrap_err();
    assert!(error.to_string().contains("the limit is 16777216"), "{error}");
    assert_eq!(store.list(1).await, Ok(vec![]));
}

#[tokio::test]
async fn an_unwritable_file_is_reported() {
    let (_folder, path, store) = store();
    on_writer(&store, "PRAGMA query_only = ON").await;
    let error = store.append(&id("s"), Seq(0), &events(0, 1, 10)).await.unwrap_err();
    said(&path, &error, "make the file and its directory writable");
}

#[tokio::test]
async fn a_removed_file_is_reported() {
    let (_folder, path, store) = store();
    std::fs::remove_file(&path).unwrap();
    let error = store.append(&id("s"), Seq(0), &events(0, 1, 10)).await.unwrap_err();
    said(&path, &error, "cannot open");
    let error = store.list(1).await.unwrap_err();
    said(&path, &error, "cannot open");
}

#[tokio::test]
async fn one_broken_session_does_not_fail_the_group() {
    let (_folder, _path, store) = store();
    // An event without its session's row, as in a damaged file.
    on_writer(&store, "PRAGMA foreign_keys = OFF; INSERT INTO events VALUES ('broken', 1, 0, '{}')").await;
    let held = store.writer.connection.lock().await;
    let tasks: Vec<_> = ["a", "broken", "b"]
        .into_iter()
        .map(|name| {
            let store = store.clone();
            tokio::spawn(async move { store.append(&id(name), Seq(0), &events(0, 1, 10)).await })
        })
        .collect();
    while store.writer.permits.available_permits() > super::writer::JOBS_WAITING_MAX - tasks.len() {
        tokio::task::yield_now().await;
    }
    drop(held);
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert_eq!((&answers[0], &answers[2]), (&Ok(Seq(1)), &Ok(Seq(1))));
    assert!(matches!(answers[1], Err(StoreError::Unavailable(_))), "{answers:?}");
    assert_eq!(store.list(10).await.unwrap().len(), 2);
}

#[test]
fn a_store_survives_the_end_of_a_runtime() {
    let (_folder, _path, store) = store();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        let events = events(0, 1, 10);
        let id = id("abandoned");
        let append = store.append(&id, Seq(0), &events);
        // The append is queued and its task started, but nothing waits for it.
        assert!(futures::poll!(std::pin::pin!(append)).is_pending());
    });
    drop(first);
    runtime().block_on(async {
        let (id, events) = (id("s"), events(0, 1, 10));
        let append = store.append(&id, Seq(0), &events);
        let appended = tokio::time::timeout(std::time::Duration::from_secs(30), append).await;
        assert_eq!(appended.expect("nobody writes any more"), Ok(Seq(1)));
        // The queued append was not lost either.
        assert_eq!(store.load(&SessionId::new("abandoned"), Seq(0), 10).await.unwrap().len(), 1);
    });
}

#[tokio::test]
async fn a_log_of_several_pages_is_read_completely() {
    let (_folder, _path, store) = store();
    let (page, total) = (8192, 2 * 8192);
    let spec = serde_json::json!({"model": "mock/mock", "system": "", "tools": [],
        "approve": "auto", "dangerous_patterns": [], "max_iterations": 5, "max_history_messages": 5,
        "host": "local", "root": "/", "profile": "coder"});
    let opened = Event::SessionOpened { spec: serde_json::from_value(spec).unwrap(), opened_by: None };
    let mut log = vec![Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event: opened })];
    log.extend(events(1, total - 1, 10));
    for part in log.chunks(page) {
        store.append(&id("s"), Seq(part[0].seq.0 - 1), part).await.unwrap();
    }
    for more in [0, 1, 600] {
        let after = log.last().unwrap().seq;
        let part = events(after.0, more, 20);
        store.append(&id("s"), after, &part).await.unwrap();
        log.extend(part);
        let whole = Session::replay(log.iter().map(|logged| &logged.event)).unwrap();
        let replayed = sysop_driver::replay(&store, &id("s")).await.unwrap();
        assert!(replayed == (whole, log.last().unwrap().seq), "{} events", log.len());
    }
}
