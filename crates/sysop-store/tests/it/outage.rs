//! Databases that are unavailable, full, read-only or too old: the errors, and the recovery afterwards.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::{Event, Input};
use sysop_core::id::Seq;
use sysop_core::outcome::Status;
use sysop_driver::cluster::{AcquireOutcome, Cluster, Lease};
use sysop_driver::port::{Store, StoreError};
use sysop_store::{PostgresNode, PostgresStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::cluster::{DEADLINE, database, direct, new_world, owned, prompt, two_nodes};
use crate::events::{id, queued};
use crate::proxy::{Proxy, ProxyMode};
use crate::server::{Server, shared};

#[track_caller]
fn is_one_sentence(text: &str, about: &str) {
    assert!(text.contains(about), "{text}");
    assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
}

/// Appends to a session for its owner while a fault is active.
fn appending(lease: &Arc<dyn Lease>, after: u64) -> JoinHandle<Result<Seq, StoreError>> {
    let lease = Arc::clone(lease);
    tokio::spawn(async move { lease.append(Seq(after), &queued(after, 1, "waits"), &[]).await })
}

/// Waits until a stall reason is available.
async fn stall_reason(lease: &Arc<dyn Lease>) -> String {
    let look = async {
        loop {
            match lease.stall_reason() {
                Some(why) => return why,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(DEADLINE, look).await.expect("it is told why an append waits")
}

async fn done(appending: JoinHandle<Result<Seq, StoreError>>) -> Result<Seq, StoreError> {
    tokio::time::timeout(DEADLINE, appending).await.expect("an append that waited is done").unwrap()
}

/// Creates a node with a session that has one event.
async fn owner(url: &str) -> (PostgresStore, PostgresNode, Arc<dyn Lease>) {
    let store = PostgresStore::connect(url).await.unwrap();
    let node = PostgresNode::join(&store, "a").await.unwrap();
    let lease = node.new_lease(&id("s"));
    assert_eq!(lease.append(Seq(0), &queued(0, 1, "a"), &[]).await, Ok(Seq(1)));
    (store, node, lease)
}

async fn seqs(store: &PostgresStore) -> Vec<u64> {
    let log = store.load(&id("s"), Seq(0), 100).await.unwrap();
    log.iter().map(|logged| logged.seq.0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_wait_for_the_database_and_are_stored_once() {
    let (name, _) = database().await;
    let proxy = Proxy::to(shared().folder());
    let (store, _node, lease) = owner(&Server::url_through(proxy.folder(), &name)).await;
    // Stored, but the answer is lost before the database goes away.
    proxy.set(ProxyMode::DropNextAnswer);
    let waiting = appending(&lease, 1);
    proxy.wait_for_drop().await;
    proxy.set(ProxyMode::Closed);
    let place = proxy.folder().to_str().unwrap();
    is_one_sentence(&stall_reason(&lease).await, place);
    is_one_sentence(&store.ready().await.unwrap_err().to_string(), place);
    // Creating a session fails at once: no one uses it yet.
    let refused = store.append(&id("new"), Seq(0), &queued(0, 1, "n")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(!waiting.is_finished());
    proxy.set(ProxyMode::Open);
    assert_eq!(done(waiting).await, Ok(Seq(2)));
    assert_eq!(lease.stall_reason(), None);
    assert_eq!(store.ready().await, Ok(()));
    assert_eq!(seqs(&store).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_lost_its_session_gets_an_error() {
    let (name, url) = database().await;
    let proxy = Proxy::to(shared().folder());
    let (_store, _node, lease) = owner(&Server::url_through(proxy.folder(), &name)).await;
    proxy.set(ProxyMode::Closed);
    let waiting = appending(&lease, 1);
    stall_reason(&lease).await;
    let other = PostgresStore::connect(&url).await.unwrap();
    let heir = PostgresNode::join(&other, "b").await.unwrap();
    shared().run(&name, "UPDATE sysop_nodes SET until = clock_timestamp() WHERE name = 'a'").await;
    let taken = owned(heir.acquire(&id("s")).await.unwrap());
    assert_eq!(taken.append(Seq(1), &queued(1, 1, "b"), &[]).await, Ok(Seq(2)));
    proxy.set(ProxyMode::Open);
    let refused = done(waiting).await.unwrap_err();
    assert_eq!(refused, StoreError::LeaseLost { id: id("s"), by: "b".into() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_reported_and_appends_continue_once_it_has_room() {
    let (name, url) = database().await;
    let (store, _node, lease) = owner(&url).await;
    let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$; \
                CREATE TRIGGER full_disk BEFORE INSERT ON sysop_events EXECUTE FUNCTION full_disk()";
    shared().run(&name, full).await;
    let waiting = appending(&lease, 1);
    is_one_sentence(&stall_reason(&lease).await, "is out of space");
    is_one_sentence(&store.ready().await.unwrap_err().to_string(), "is out of space");
    let refused = store.append(&id("new"), Seq(0), &queued(0, 1, "n")).await.unwrap_err();
    is_one_sentence(&refused.to_string(), "nothing was stored; free disk space");
    shared().run(&name, "DROP TRIGGER full_disk ON sysop_events").await;
    assert_eq!(done(waiting).await, Ok(Seq(2)));
    assert_eq!(store.ready().await, Ok(()));
    assert_eq!(seqs(&store).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_reported_and_appends_continue_once_it_is_primary() {
    let server = Arc::new(tokio::task::spawn_blocking(Server::start).await.unwrap());
    let name = server.database().await;
    let (store, _node, lease) = owner(&server.url(&name)).await;
    tokio::task::block_in_place(|| server.demote());
    let waiting = appending(&lease, 1);
    is_one_sentence(&stall_reason(&lease).await, "read-only or a standby");
    is_one_sentence(&store.ready().await.unwrap_err().to_string(), "read-only or a standby");
    let late = PostgresStore::connect(&server.url(&name)).await.unwrap();
    is_one_sentence(&late.ready().await.unwrap_err().to_string(), "read-only or a standby");
    let joined = PostgresNode::join(&late, "late").await.err().expect("a standby has no nodes");
    is_one_sentence(&joined.to_string(), "read-only or a standby");
    tokio::task::block_in_place(|| server.promote());
    assert_eq!(done(waiting).await, Ok(Seq(2)));
    assert_eq!(store.ready().await, Ok(()));
    assert_eq!(seqs(&store).await, [1, 2]);
    drop((store, late, lease));
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_reported_in_time() {
    let begun = std::time::Instant::now();
    let error = PostgresStore::connect("postgres://u:open-sesame@127.0.0.1:1/d").await.unwrap_err();
    is_one_sentence(&error.to_string(), "cannot reach database 127.0.0.1:1/d");
    assert!(!error.to_string().contains("open-sesame"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_outdated_server_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let old = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        loop {
            let length = client.read_u32().await.unwrap();
            let mut wish = vec![0; length as usize - 4];
            client.read_exact(&mut wish).await.unwrap();
            if wish != 80_877_103_u32.to_be_bytes() {
                break;
            }
            client.write_all(b"N").await.unwrap(); // it has no TLS
        }
        let mut answer = b"R\0\0\0\x08\0\0\0\0".to_vec();
        for (name, value) in [("server_version", "9.6.24"), ("client_encoding", "UTF8")] {
            let length = u32::try_from(4 + name.len() + 1 + value.len() + 1).unwrap();
            answer.push(b'S');
            answer.extend(length.to_be_bytes());
            answer.extend(format!("{name}\0{value}\0").into_bytes());
        }
        answer.extend(b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I");
        client.write_all(&answer).await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.ok();
    });
    let error = PostgresStore::connect(&Server::url_through(folder.path(), "d")).await.unwrap_err();
    is_one_sentence(&error.to_string(), "runs PostgreSQL 9, but sysop needs 13 or newer");
    tokio::time::timeout(DEADLINE, old).await.expect("the connection is closed").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_lease_blocks_no_node() {
    let (_, url) = database().await;
    let (_store, _node, lease) = owner(&url).await;
    let other = PostgresStore::connect(&url).await.unwrap();
    let heir = PostgresNode::join(&other, "b").await.unwrap();
    assert!(matches!(heir.acquire(&id("s")).await.unwrap(), AcquireOutcome::OwnedBy(_)));
    drop(lease);
    let wanted = async {
        loop {
            if let AcquireOutcome::Owned(lease) = heir.acquire(&id("s")).await.unwrap() {
                return lease;
            }
        }
    };
    let lease = tokio::time::timeout(Duration::from_secs(4), wanted).await.expect("before a lease ends");
    assert_eq!(lease.append(Seq(1), &queued(1, 1, "b"), &[]).await, Ok(Seq(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_open_blocks_no_node() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    for step in 0..40 {
        // Covers the whole time: the awaited work takes some thousand of these.
        let polls = 1 + step * step * 10;
        let name: &'static str = format!("s{step}").leak();
        drop(a.create(name).await);
        a.evict_idle().await;
        let (driver, make_runtime) = (b.driver.clone(), b.make_runtime(name));
        let giving_up = b.runtime.as_ref().unwrap().spawn(async move {
            let id = id(name);
            let mut opening = std::pin::pin!(driver.open(&id, make_runtime));
            for _ in 0..polls {
                if futures::poll!(&mut opening).is_ready() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        tokio::time::timeout(DEADLINE, giving_up).await.expect("it gives up").unwrap();
        b.evict_idle().await;
        let mut face = a.open(name).await;
        face.say(prompt("hello"));
        face.until_answered("hello").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_on_a_node_without_database_continues_there() {
    let world = new_world();
    let (name, _) = database().await;
    let proxy = Proxy::to(shared().folder());
    let url: &'static str = Server::url_through(proxy.folder(), &name).leak();
    let node = crate::cluster::Node::start("a", url, &world).await;
    let mut face = node.create("s").await;
    face.say(prompt("before"));
    face.until_answered("before").await;
    face.say(direct("wait"));
    world.waits.notified().await;
    proxy.set(ProxyMode::Closed);
    // Sent while nothing can be stored, and stored afterwards.
    face.say(prompt("meanwhile"));
    let lost = async {
        loop {
            if node.is_lost() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, lost).await.expect("its lease ends");
    proxy.set(ProxyMode::Open);
    let status = |event: &Event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.status),
        _ => None,
    };
    assert_eq!(face.until(status).await, Status::Interrupted);
    face.say(Input::Resume);
    face.until_answered("meanwhile").await;
    let said = |event: &Event| matches!(event, Event::TurnStarted { prompt, .. } if prompt == "meanwhile");
    assert_eq!(face.log.iter().filter(|logged| said(&logged.event)).count(), 1);
    assert_eq!(world.ran.lock().len(), 1);
}
