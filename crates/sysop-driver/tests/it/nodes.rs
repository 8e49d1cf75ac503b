//! Several nodes on one store in virtual time: events get lost, nodes crash, and nodes sleep past the end of their
//! lease without knowing.
//!
//! Each run has a seed: a failure prints it, and `SYSOP_SIM_SEED=<n>` repeats that run. A node is a runtime that is run
//! briefly when its turn comes; without a turn it stands still wherever it was.

mod memory;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use sysop_core::event::{Decision, Delta, Event, Input, Logged, PauseReason, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::session::{Activity, Session};
use sysop_driver::cluster::Cluster;
use sysop_driver::port::StoreError;
use sysop_driver::{Driver, DriverError, Ports, Runtime, RuntimeFactory, frontend};

use self::memory::{MemoryNode, NodeHost, Reader, SharedDatabase, VirtualClock};
use crate::world::{World, events, spec};

const SEEDS: u64 = 80;
const NODES: usize = 3;
/// Total number of turns of all nodes while faults are injected.
const TURNS: u32 = 500;
/// Maximum further turns until everything is idle.
const REST_TURNS: u32 = 4000;

/// Number of turns without a change after which the nodes count as idle.
const STILL_TURNS: u32 = 40;

fn session_id() -> SessionId {
    SessionId::new("s")
}

/// A node with its runtime, and a user at it.
struct Node {
    runtime: tokio::runtime::Runtime,
    driver: Driver,
    node: Arc<MemoryNode>,
    session: Option<Arc<dyn frontend::SessionHandle>>,
    updates: Option<BoxStream<'static, Update>>,
    opening: Option<tokio::task::JoinHandle<Result<Arc<dyn frontend::SessionHandle>, DriverError>>>,
    told: Vec<Arc<Logged>>,
    /// All prompts that the node accepted from its user.
    said: Vec<String>,
    /// Time until which the node stands still.
    asleep: i64,
}

impl Node {
    fn start(node_index: usize, shared: &Arc<SharedDatabase>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let node = MemoryNode::new(node_index, shared);
        let ports = Ports {
            store: Arc::new(Reader(Arc::clone(shared))),
            clock: Arc::new(VirtualClock(Arc::clone(shared))),
        };
        let driver = {
            let _inside = runtime.enter();
            Driver::clustered(ports, Arc::clone(&node) as Arc<dyn Cluster>)
        };
        Self {
            runtime,
            driver,
            node,
            session: None,
            updates: None,
            opening: None,
            told: Vec::new(),
            said: Vec::new(),
            asleep: 0,
        }
    }

    fn make_runtime(&self) -> RuntimeFactory {
        let node = Arc::clone(&self.node);
        Arc::new(move || {
            let Runtime { host, provider, instructions, hooks } = node.shared.world.runtime();
            Runtime {
                host: Arc::new(NodeHost { host, node: Arc::clone(&node) }),
                provider,
                instructions,
                hooks,
            }
        })
    }

    /// Runs the node briefly; its user reads updates, or opens the session again.
    fn turn(&mut self) {
        let turns = 1 + self.node.shared.world.below(30);
        let (driver, make_runtime) = (self.driver.clone(), self.make_runtime());
        let life = self.node.life();
        let Self { runtime, session, updates, opening, told, asleep, .. } = self;
        runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
                if life.freeze.swap(false, Ordering::SeqCst) {
                    *asleep = life.shared.now() + 1000 + i64::from(life.shared.world.below(15_000));
                    return;
                }
            }
            if session.is_none() {
                let task = opening.get_or_insert_with(|| {
                    tokio::spawn(async move { driver.open(&session_id(), make_runtime).await })
                });
                if let Some(opened) = task.now_or_never() {
                    *opening = None;
                    match opened.expect("no panic") {
                        Ok(opened) => {
                            told.clear();
                            *updates = Some(opened.subscribe(Seq(0)));
                            *session = Some(opened);
                        }
                        Err(DriverError::Store(StoreError::Unavailable(_) | StoreError::NotFound(_))) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            while let Some(next) = updates.as_mut().and_then(|updates| updates.next().now_or_never()) {
                match next {
                    Some(Update::Logged(logged)) => told.push(logged),
                    Some(Update::Delta(delta)) => check_delta(&delta, told),
                    None => {
                        *session = None;
                        *updates = None;
                    }
                }
            }
        });
        for (index, logged) in told.iter().enumerate() {
            assert_eq!(logged.seq, Seq(index as u64 + 1), "events are shown in order, once, without a gap");
        }
    }

    /// Shuts the node down, while time goes on.
    fn leave(&self) {
        let shared = &self.node.shared;
        let time = async {
            loop {
                shared.now.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                left = self.driver.leave() => left.expect("the store is there"),
                () = time => {}
            }
        });
    }

    fn say(&mut self, input: Input) -> bool {
        let _inside = self.runtime.enter();
        let prompt = match &input {
            Input::Prompt { text, .. } => Some(text.clone()),
            _ => None,
        };
        let taken = self.session.as_ref().is_some_and(|session| session.send(input).is_ok());
        self.said.extend(prompt.filter(|_| taken));
        taken
    }
}

/// Checks that no text of a reply appears before its step.
fn check_delta(delta: &Delta, told: &[Arc<Logged>]) {
    let (Delta::Text { step, .. } | Delta::Reasoning { step, .. } | Delta::Restarted { step }) = delta else {
        return;
    };
    let asked = told.iter().any(|logged| logged.event == Event::StepStarted { step: *step });
    assert!(asked, "{delta:?} came before its step");
}

#[derive(Default)]
struct Counts {
    crashes: usize,
    sleeps: usize,
    takeovers: usize,
    interrupted: usize,
    letters: usize,
    ran: usize,
}

#[test]
fn crashing_and_sleeping_nodes_lose_nothing_and_run_nothing_twice() {
    let chosen = std::env::var("SYSOP_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let mut all = Counts::default();
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| simulate(seed)) {
            Ok(counts) => {
                all.crashes += counts.crashes;
                all.sleeps += counts.sleeps;
                all.takeovers += counts.takeovers;
                all.interrupted += counts.interrupted;
                all.letters += counts.letters;
                all.ran += counts.ran;
            }
            Err(panic) => {
                eprintln!("the simulation failed with SYSOP_SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    if chosen.is_none() {
        let n = seeds.count();
        let seen = (all.crashes, all.sleeps, all.takeovers, all.letters, all.ran);
        assert!(
            seen.0 > n && seen.1 > n && seen.2 > n && seen.3 > n && seen.4 > n && all.interrupted > n / 10,
            "too little went on to show anything: {seen:?} crashes, sleeps, takeovers, letters, calls"
        );
    }
}

fn simulate(seed: u64) -> Counts {
    let shared = SharedDatabase::new(seed);
    let mut counts = Counts::default();
    let mut nodes: Vec<_> = (0..NODES).map(|node_index| Node::start(node_index, &shared)).collect();
    let handle =
        nodes[0].runtime.block_on(nodes[0].driver.create(session_id(), spec(), nodes[0].make_runtime()));
    drop(handle.expect("the store keeps it"));
    let (mut posted, mut said) = (0, Vec::new());
    for turn in 0..TURNS {
        shared.now.fetch_add(i64::from(shared.world.below(200)), Ordering::SeqCst);
        let number = shared.world.below(u32::try_from(NODES).expect("few")) as usize;
        if nodes[number].asleep > shared.now() {
            continue;
        }
        match shared.world.below(60) {
            0 => {
                counts.crashes += 1;
                let crashed = std::mem::replace(&mut nodes[number], Node::start(number, &shared));
                check_told(&shared, &crashed.told);
            }
            1 => {
                counts.sleeps += 1;
                nodes[number].asleep = shared.now() + 1000 + i64::from(shared.world.below(15_000));
            }
            2 => {
                nodes[number].leave();
                let left = std::mem::replace(&mut nodes[number], Node::start(number, &shared));
                check_told(&shared, &left.told);
                said.extend(left.said);
            }
            3..15 => {
                let input = deed(&shared.world, &nodes[number], turn);
                nodes[number].say(input);
                posted += 1;
            }
            _ => {
                nodes[number].turn();
                counts.sleeps += usize::from(nodes[number].asleep > shared.now());
            }
        }
    }
    assert!(posted > 0);
    rest(&shared, &mut nodes);
    for node in &nodes {
        check_told(&shared, &node.told);
    }
    check_log(&shared, &mut counts);
    said.extend(nodes.into_iter().flat_map(|node| node.said));
    check_said(&shared, &said);
    counts
}

fn deed(world: &World, node: &Node, turn: u32) -> Input {
    let asked = node.told.iter().rev().find_map(|logged| match &logged.event {
        Event::ApprovalAsked { call, .. } => Some(call.id.clone()),
        _ => None,
    });
    match (world.below(10), asked) {
        (0, _) => Input::Cancel,
        (1, _) => Input::Pause,
        (2 | 3, _) => Input::Resume,
        (4..8, Some(call)) => Input::Decision {
            call,
            decision: Decision::Allow { command: None },
            by: "person".to_owned(),
            person: None,
        },
        // A prompt that is distinct from all others.
        (_, _) => Input::prompt(format!("random {turn}")),
    }
}

/// Stops injecting faults: everything ends, and every node learns of it.
fn rest(shared: &Arc<SharedDatabase>, nodes: &mut [Node]) {
    let (mut said, mut still) = (false, 0);
    for turn in 0..REST_TURNS {
        shared.now.fetch_add(i64::from(shared.world.below(200)), Ordering::SeqCst);
        let node = &mut nodes[turn as usize % NODES];
        if node.asleep > shared.now() {
            continue;
        }
        node.turn();
        if !said && turn % 40 == 0 && node.session.is_some() {
            node.say(Input::Cancel);
            said = node.say(Input::prompt("the last word"));
        }
        let Some(log) = shared.with(|tables| tables.logs.get(&session_id()).map(|row| row.log.clone()))
        else {
            continue;
        };
        let session = Session::replay(events(&log)).expect("a session");
        let last_word = |logged: &Logged| matches!(&logged.event, Event::TurnStarted { prompt, .. } if prompt == "the last word");
        let over = log.iter().any(last_word) && session.activity() == Activity::Idle;
        let read = shared.with(|tables| tables.letters.iter().all(|letter| letter.taken));
        let told = nodes.iter().all(|node| node.told.len() == log.len() && node.asleep <= shared.now());
        // Inputs accepted but not enqueued yet are invisible; they get time for it.
        still = if over && read && told { still + 1 } else { 0 };
        if still == STILL_TURNS {
            return;
        }
        // Answers approvals and resumes pauses.
        if turn % 20 == 0 {
            let input = match session.activity() {
                Activity::AwaitingApproval => {
                    let asked = log.iter().rev().find_map(|logged| match &logged.event {
                        Event::ApprovalAsked { call, .. } => Some(call.id.clone()),
                        _ => None,
                    });
                    let decision = Decision::Reject { reason: "stop".to_owned() };
                    Input::Decision {
                        call: asked.expect("somebody asked"),
                        decision,
                        by: "person".to_owned(),
                        person: None,
                    }
                }
                Activity::Paused => Input::Resume,
                Activity::Idle if said && !log.iter().any(last_word) && turn % 800 == 0 => {
                    Input::prompt("the last word")
                }
                Activity::Idle | Activity::Thinking | Activity::Running => continue,
            };
            nodes[turn as usize % NODES].say(input);
        }
    }
    let log = shared.with(|tables| tables.logs[&session_id()].log.clone());
    let session = Session::replay(events(&log)).expect("a session");
    let told: Vec<_> = nodes.iter().map(|node| (node.session.is_some(), node.told.len())).collect();
    panic!("the session does not end: {:?}, {} events, shown {told:?}", session.activity(), log.len());
}

/// Checks that every event shown to a user is durable.
fn check_told(shared: &SharedDatabase, told: &[Arc<Logged>]) {
    shared.with(|tables| {
        let log = &tables.logs[&session_id()].log;
        for (index, logged) in told.iter().enumerate() {
            assert_eq!(log.get(index), Some(&**logged), "the event was shown but is not durable");
        }
    });
}

/// Checks that every prompt accepted by a node that lives or was shut down is in the log, even if the node has lost the
/// session since.
fn check_said(shared: &SharedDatabase, said: &[String]) {
    let log = shared.with(|tables| tables.logs[&session_id()].log.clone());
    for text in said {
        let found = log.iter().any(|logged| match &logged.event {
            Event::TurnStarted { prompt, .. } => prompt == text,
            Event::PromptQueued { text: queued, .. } => queued == text,
            _ => false,
        });
        assert!(found, "{text} was accepted and lost");
    }
}

/// Checks that the log has no gap and matches what the hosts ran, and that each queued input was consumed once.
fn check_log(shared: &SharedDatabase, counts: &mut Counts) {
    let tables = shared.tables.lock();
    assert_eq!(tables.taken_twice, 0, "inputs were consumed twice");
    assert!(tables.trespassers.is_empty(), "{:?} began without a valid lease", tables.trespassers);
    let log = &tables.logs[&session_id()].log;
    let (mut started, mut finished, mut prompts): (HashSet<&CallId>, HashSet<&CallId>, HashMap<&str, u32>) =
        Default::default();
    let mut queued = HashSet::new();
    for (index, logged) in log.iter().enumerate() {
        assert_eq!(logged.seq, Seq(index as u64 + 1));
        match &logged.event {
            Event::ToolStarted { call, .. } => assert!(started.insert(&call.id), "{} started twice", call.id),
            Event::ToolFinished { call, .. } => assert!(finished.insert(call), "{call} finished twice"),
            Event::TurnStarted { prompt, .. } => *prompts.entry(prompt).or_default() += 1,
            Event::PromptQueued { text, .. } => {
                queued.insert(text.as_str());
            }
            Event::Paused { reason: PauseReason::Interrupted, .. } => counts.interrupted += 1,
            _ => {}
        }
    }
    let mut once = HashSet::new();
    let ran = shared.world.ran.lock();
    for call in ran.iter() {
        assert!(once.insert(call), "{call} ran twice");
        assert!(started.contains(call), "{call} ran, but its start is not durable");
    }
    counts.ran += ran.len();
    counts.takeovers += tables.takeovers;
    counts.letters += tables.letters.len();
    let (waiting, prompts_posted): (Vec<_>, Vec<_>) = (
        tables.letters.iter().filter(|letter| !letter.taken).map(|letter| &letter.input).collect(),
        tables
            .letters
            .iter()
            .filter_map(|letter| match &letter.input {
                Input::Prompt { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect(),
    );
    assert!(waiting.is_empty(), "inputs that were never consumed: {waiting:?}");
    for text in prompts_posted.iter().filter(|text| **text != "the last word") {
        let times = prompts.get(text).copied().unwrap_or(0);
        assert!(times <= 1, "an input was handled {times} times: {text}");
        assert!(times == 1 || queued.contains(text), "an input had no effect: {text}");
    }
}
