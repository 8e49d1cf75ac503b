//! Three nodes on one PostgreSQL that die and lose their leases at random while users work on all of them.
//!
//! The interval between two faults is measured in completed jobs and in calls that ran, so that a slow machine gets as
//! many faults, and as much work between them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sysop_core::event::{Event, Input, Logged};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::session::{Activity, Session};
use sysop_driver::port::{CancellationToken, Store};
use sysop_store::PostgresStore;
use tokio::sync::watch;

use crate::cluster::{DEADLINE, Node, TestClient, World, database, direct, new_world, prompt};
use crate::server::shared;

const NODES: usize = 3;
const SESSIONS: usize = 6;
/// Number of faults.
const FAULTS: u32 = 8;
/// Number of jobs completed between two faults.
const JOBS_BETWEEN_FAULTS: u32 = 12;
/// Number of calls that ran between two faults. There are fewer calls than jobs, because the users of a session
/// cancel each other.
const CALLS_BETWEEN_FAULTS: usize = 2;
/// Maximum number of attempts to bring a session to its end. Each takes at most `TRY_TIME`.
const TRIES_MAX: u32 = 6;
const TRY_TIME: std::time::Duration = std::time::Duration::from_secs(10);
const NAMES: [&str; NODES] = ["a", "b", "c"];

/// A node, with a signal of its death.
struct Slot {
    node: Node,
    dead: CancellationToken,
}

struct Chaos {
    url: String,
    world: Arc<World>,
    slots: Vec<tokio::sync::RwLock<Slot>>,
    rng: Mutex<StdRng>,
    over: AtomicBool,
    done: watch::Sender<u32>,
}

impl Chaos {
    fn below(&self, bound: usize) -> usize {
        self.rng.lock().random_range(0..bound)
    }

    async fn slot(&self, number: usize) -> Slot {
        Slot {
            node: Node::start(NAMES[number], &self.url, &self.world).await,
            dead: CancellationToken::new(),
        }
    }

    /// Opens a session on any node; the signal tells when that node is dead.
    async fn open(&self, name: &str) -> (TestClient, CancellationToken) {
        loop {
            let slot = self.slots[self.below(NODES)].read().await;
            // A node that has just lost its lease cannot open sessions for a moment.
            if let Ok(face) = slot.node.try_open(name).await {
                return (face, slot.dead.clone());
            }
        }
    }
}

/// Simulates a user who works on a session, and who moves to another node when theirs dies.
async fn work(chaos: Arc<Chaos>, name: String) {
    let mut number = 0;
    while !chaos.over.load(Ordering::SeqCst) {
        let (mut face, dead) = chaos.open(&name).await;
        let at_work = async {
            while !chaos.over.load(Ordering::SeqCst) {
                number += 1;
                let said = if number % 2 == 0 {
                    direct(&format!("touch {number}"))
                } else {
                    prompt(format!("{name} {number}"))
                };
                if one_job(&mut face, said).await.is_none() {
                    return;
                }
                chaos.done.send_modify(|done| *done += 1);
            }
        };
        dead.run_until_cancelled(at_work).await;
    }
}

/// Sends an input and waits until a turn ends after it, or was interrupted. `None` if the session is gone from this
/// node.
async fn one_job(face: &mut TestClient, said: Input) -> Option<()> {
    // This user does not resume interrupted turns.
    for input in [Input::Cancel, said] {
        face.session.send(input).ok()?;
    }
    loop {
        let update = tokio::time::timeout(DEADLINE, face.next()).await.expect("something happens")?;
        let rests = |event: &Event| matches!(event, Event::TurnEnded { .. } | Event::Paused { .. });
        if update.is_some_and(|logged| rests(&logged.event)) {
            return Some(());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn randomly_crashing_nodes_lose_nothing_and_run_nothing_twice() {
    let chosen = std::env::var("SYSOP_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = chosen.unwrap_or_else(rand::random);
    // Shown if the test fails.
    eprintln!("SYSOP_SIM_SEED={seed}");
    let world = new_world();
    let (database, url) = database().await;
    let (done, mut progress) = watch::channel(0);
    let mut chaos = Chaos {
        url,
        world: Arc::clone(&world),
        slots: Vec::new(),
        rng: Mutex::new(StdRng::seed_from_u64(seed)),
        over: AtomicBool::new(false),
        done,
    };
    for number in 0..NODES {
        let slot = chaos.slot(number).await;
        chaos.slots.push(tokio::sync::RwLock::new(slot));
    }
    let names: Vec<_> = (0..SESSIONS).map(|number| format!("s{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        chaos.slots[number % NODES].read().await.node.create(name).await;
    }
    let chaos = Arc::new(chaos);
    // Two users per session, so that most have a follower.
    let people: Vec<_> =
        names.iter().chain(&names).map(|name| tokio::spawn(work(Arc::clone(&chaos), name.clone()))).collect();
    let mut calls = 0;
    for blow in 1..=FAULTS {
        calls += CALLS_BETWEEN_FAULTS;
        let enough = |done: &u32| *done >= blow * JOBS_BETWEEN_FAULTS && world.ran.lock().len() >= calls;
        tokio::time::timeout(DEADLINE, progress.wait_for(enough)).await.expect("work goes on").unwrap();
        let number = chaos.below(NODES);
        // The database considers the node expired: it is dead, or was frozen for that long.
        let expire =
            format!("UPDATE sysop_nodes SET until = clock_timestamp() WHERE name = '{}'", NAMES[number]);
        if chaos.below(2) == 0 {
            let fresh = chaos.slot(number).await;
            let mut slot = chaos.slots[number].write().await;
            let old = std::mem::replace(&mut *slot, fresh);
            drop(slot);
            old.node.die();
            old.dead.cancel();
        }
        shared().run(&database, &expire).await;
    }
    chaos.over.store(true, Ordering::SeqCst);
    for person in people {
        person.await.unwrap();
    }
    check(&chaos, &names).await;
}

/// Brings a session to its end. Late inputs of others may still arrive and cancel this one.
async fn end(chaos: &Chaos, name: &str) -> TestClient {
    let (mut face, _) = chaos.open(name).await;
    for number in 0..TRIES_MAX {
        let last_word = format!("the last word {number}");
        face.say(Input::Cancel);
        face.say(prompt(last_word.clone()));
        if tokio::time::timeout(TRY_TIME, face.until_answered(&last_word)).await.is_ok() {
            return face;
        }
    }
    panic!("{name} does not end: {:?}", face.log.last());
}

/// Returns the log of an idle session.
async fn idle(store: &PostgresStore, name: &str) -> Vec<Logged> {
    loop {
        let log = store.load(&SessionId::new(name), Seq(0), usize::MAX).await.unwrap();
        let session = Session::replay(log.iter().map(|logged| &logged.event)).unwrap();
        if session.activity() == Activity::Idle {
            return log;
        }
    }
}

/// Checks that every session ends, and that its log has no gap and matches what the hosts ran.
async fn check(chaos: &Chaos, names: &[String]) {
    let store = PostgresStore::connect(&chaos.url).await.unwrap();
    let mut ends = Vec::new();
    for name in names {
        let face = end(chaos, name).await;
        ends.push((name, face));
    }
    // All work has ended: the logs must account for every call.
    let ran = chaos.world.ran.lock().clone();
    let mut started: HashSet<(String, CallId)> = HashSet::new();
    for (name, face) in ends {
        let log = tokio::time::timeout(DEADLINE, idle(&store, name)).await.expect("it ends");
        let mut finished = HashSet::new();
        for (index, logged) in log.iter().enumerate() {
            assert_eq!(logged.seq, Seq(index as u64 + 1));
            match &logged.event {
                Event::ToolStarted { call, .. } => {
                    assert!(started.insert((name.clone(), call.id.clone())), "{} started twice", call.id);
                }
                Event::ToolFinished { call, .. } => assert!(finished.insert(call), "{call} finished twice"),
                _ => {}
            }
        }
        assert!(face.log.iter().zip(&log).all(|(told, stored)| **told == *stored), "told, but not durable");
    }
    let mut once = HashSet::new();
    for call in ran.iter() {
        assert!(once.insert(call.clone()), "{call:?} ran twice");
        assert!(started.contains(call), "{call:?} ran, but its start is not durable");
    }
}
