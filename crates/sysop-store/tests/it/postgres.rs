//! The PostgreSQL store: the suite, and faults that only a server has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sysop_core::id::Seq;
use sysop_driver::port::{Store, StoreError};
use sysop_store::PostgresStore;

use crate::events::{id, opened, queued};
use crate::proxy::{Proxy, ProxyMode};
use crate::server::{Server, shared};
use crate::suite::{Fixture, check_race, conformance, race};

async fn postgres() -> Fixture {
    Fixture { store: Arc::new(new_store().await.0), folder: None }
}

conformance!(postgres);

/// A store in a database of its own, with the database's name.
async fn new_store() -> (PostgresStore, String) {
    let name = shared().database().await;
    (PostgresStore::connect(&shared().url(&name)).await.unwrap(), name)
}

/// A store behind a proxy.
async fn store_behind_proxy() -> (PostgresStore, Proxy) {
    let name = shared().database().await;
    let proxy = Proxy::to(shared().folder());
    let store = PostgresStore::connect(&Server::url_through(proxy.folder(), &name)).await.unwrap();
    (store, proxy)
}

#[track_caller]
fn is_one_sentence(error: &StoreError, about: &str) {
    let text = error.to_string();
    assert!(text.contains(about), "{text}");
    assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
}

#[tokio::test]
async fn an_append_with_a_lost_response_is_stored_once() {
    let (store, proxy) = store_behind_proxy().await;
    // The first append connects and prepares the statement, so that the next is one request and one answer.
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    for after in 1..6 {
        let before = proxy.connections.load(Ordering::SeqCst);
        proxy.set(ProxyMode::DropNextAnswer);
        assert_eq!(store.append(&id("s"), Seq(after), &queued(after, 1, "b")).await, Ok(Seq(after + 1)));
        assert!(proxy.connections.load(Ordering::SeqCst) > before, "the answer was not lost");
        store.append(&id("other"), Seq(after - 1), &queued(after - 1, 1, "o")).await.unwrap();
    }
    assert_eq!(store.load(&id("s"), Seq(0), 100).await.unwrap().len(), 6);
}

#[tokio::test]
async fn an_outage_is_reported_and_appends_continue_afterwards() {
    let (store, proxy) = store_behind_proxy().await;
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    proxy.set(ProxyMode::Closed);
    let error = store.append(&id("s"), Seq(1), &queued(1, 1, "b")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    is_one_sentence(&error, proxy.folder().to_str().unwrap());
    is_one_sentence(&store.ready().await.unwrap_err(), proxy.folder().to_str().unwrap());
    proxy.set(ProxyMode::Open);
    assert_eq!(store.append(&id("s"), Seq(1), &queued(1, 2, "c")).await, Ok(Seq(3)));
    assert_eq!(store.load(&id("s"), Seq(0), 10).await.unwrap().len(), 3);
    assert_eq!(store.ready().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_crash_loses_nothing() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let name = server.database().await;
    let store = PostgresStore::connect(&server.url(&name)).await.unwrap();
    let (told, mut progress) = tokio::sync::watch::channel(0);
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            let mut after = 0;
            while !told.is_closed() {
                store.append(&id("s"), Seq(after), &queued(after, 1, "a")).await.unwrap();
                after += 1;
                told.send_replace(after);
            }
            after
        }
    });
    for round in 1..=2 {
        progress.wait_for(|done| *done >= round * 20).await.unwrap();
        tokio::task::block_in_place(|| {
            server.crash();
            server.start_again();
        });
    }
    let last = *progress.borrow();
    progress.wait_for(|done| *done > last + 20).await.unwrap();
    drop(progress);
    let end = writing.await.unwrap();
    let log = store.load(&id("s"), Seq(0), usize::MAX).await.unwrap();
    assert_eq!(log.iter().map(|logged| logged.seq.0).collect::<Vec<_>>(), (1..=end).collect::<Vec<_>>());
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_can_write_one_session() {
    let (_, name) = new_store().await;
    let mut racers = Vec::new();
    for n in 0..4 {
        let store = Arc::new(PostgresStore::connect(&shared().url(&name)).await.unwrap());
        racers.push(tokio::spawn(race(store, format!("node {n}"), 60)));
    }
    let mut won = Vec::new();
    for racer in racers {
        won.extend(racer.await.unwrap());
    }
    let store = PostgresStore::connect(&shared().url(&name)).await.unwrap();
    check_race(&store, won).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_can_create_the_schema_at_once() {
    let name = shared().database().await;
    let start = |url: String| tokio::spawn(async move { PostgresStore::connect(&url).await });
    let starting: Vec<_> = (0..8).map(|_| start(shared().url(&name))).collect();
    for started in starting {
        assert_eq!(started.await.unwrap().unwrap().list(1).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn text_that_postgres_cannot_store_round_trips() {
    let (store, _) = new_store().await;
    let events = crate::events::log(0, 1, [opened("we\0b", "/srv/\0")]);
    store.append(&id("s"), Seq(0), &events).await.unwrap();
    assert_eq!(store.load(&id("s"), Seq(0), 1).await.unwrap()[0], *events[0]);
    assert_eq!(store.list(1).await.unwrap()[0].host, "we\u{fffd}b");
}

#[tokio::test]
async fn a_newer_schema_is_rejected() {
    let (store, name) = new_store().await;
    shared().run(&name, "UPDATE sysop_schema SET version = 99").await;
    let error = PostgresStore::connect(&shared().url(&name)).await.unwrap_err();
    is_one_sentence(&error, "newer version of sysop (schema 99");
    is_one_sentence(&store.ready().await.unwrap_err(), "newer version of sysop (schema 99");
}

#[tokio::test]
async fn the_0_1_0_schema_is_migrated_and_keeps_its_logs() {
    let (store, name) = new_store().await;
    store.append(&id("s"), Seq(0), &queued(0, 2, "a")).await.unwrap();
    shared().run(&name, "ALTER TABLE sysop_tokens DROP COLUMN owner, DROP COLUMN unattended").await;
    shared().run(&name, "ALTER TABLE sysop_sessions DROP COLUMN pinned").await;
    shared().run(&name, "UPDATE sysop_schema SET version = 2").await;
    let store = PostgresStore::connect(&shared().url(&name)).await.unwrap();
    assert_eq!(store.load(&id("s"), Seq(0), 10).await.unwrap().len(), 2);
    shared().run(&name, "DO $$ BEGIN ASSERT (SELECT version FROM sysop_schema) = 5; END $$").await;
    shared().run(&name, "SELECT owner, unattended FROM sysop_tokens").await;
}

#[tokio::test]
async fn a_missing_event_is_reported() {
    let (store, name) = new_store().await;
    store.append(&id("s"), Seq(0), &queued(0, 5, "a")).await.unwrap();
    shared().run(&name, "DELETE FROM sysop_events WHERE seq = 3").await;
    let error = store.load(&id("s"), Seq(0), 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    is_one_sentence(&error, "event 3 of session s is missing");
}

#[tokio::test]
async fn an_event_of_a_newer_version_is_named() {
    let (store, name) = new_store().await;
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    shared().run(&name, r#"UPDATE sysop_events SET body = '{"type":"dreamt","secret":"x"}'"#).await;
    let error = store.load(&id("s"), Seq(0), 10).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerLog { .. }), "{error}");
    is_one_sentence(&error, "event 1 of session s has the unknown kind `dreamt`");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn database_errors_do_not_contain_the_password() {
    let error = PostgresStore::connect("postgres://user:hunter2@host:port/").await.unwrap_err();
    is_one_sentence(&error, "postgres://USER:PASSWORD@HOST");
    assert!(!error.to_string().contains("hunter2"), "{error}");

    let error = PostgresStore::connect(&shared().url("nowhere")).await.unwrap_err();
    is_one_sentence(&error, "does not exist");

    shared().admin("CREATE ROLE locked LOGIN PASSWORD 'right'").await;
    let url = shared().url("postgres").replace("postgres@", "locked:hunter2@");
    let error = PostgresStore::connect(&url).await.unwrap_err();
    is_one_sentence(&error, "rejected the user or password");
    assert!(!error.to_string().contains("hunter2"), "{error}");

    let url = shared().url("postgres").replace("postgres@", "locked:right@");
    is_one_sentence(&PostgresStore::connect(&url).await.unwrap_err(), "lacks a privilege");
}

#[tokio::test]
async fn a_read_only_database_is_not_ready() {
    let (store, name) = new_store().await;
    assert_eq!(store.ready().await, Ok(()));
    shared().admin(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    let reader = PostgresStore::connect(&shared().url(&name)).await.unwrap();
    is_one_sentence(&reader.ready().await.unwrap_err(), "read-only or a standby");
    let error = reader.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap_err();
    is_one_sentence(&error, "read-only or a standby");
}
