//! A machine that loses power at any await, repeatedly, and the invariants that must hold nevertheless.
//!
//! Each run has a seed: a failure prints it, and `SYSOP_SIM_SEED=<n>` repeats that run.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, json};
use sysop_core::event::{Decision, Delta, Event, Input, Logged, Origin, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::session::{Activity, Session};
use sysop_driver::{Driver, DriverError, Handle};

use crate::world::{World, events, spec};

const SEEDS: u64 = 600;
const LIVES: usize = 6;
/// Number of actions of the user in one life.
const DEEDS: u32 = 12;

fn session_id() -> SessionId {
    SessionId::new("s")
}

/// Events shown to the user in one life of the machine, in order and without duplicates.
#[derive(Default)]
struct SeenEvents {
    events: Vec<Arc<Logged>>,
}

#[test]
fn no_crash_loses_an_event_or_runs_anything_twice() {
    let chosen = std::env::var("SYSOP_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let mut crashes = 0;
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| simulate(seed)) {
            Ok(crashed) => crashes += crashed,
            Err(panic) => {
                eprintln!("the simulation failed with SYSOP_SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(
        crashes >= seeds.count(),
        "the power must fail often enough to test anything; it failed {crashes} times"
    );
}

/// Runs one seed. Returns the number of power failures.
fn simulate(seed: u64) -> usize {
    let world = World::new(seed);
    let mut crashes = 0;
    for life in 0..LIVES {
        world.light_fuse(i64::from(world.below(60)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut told = SeenEvents::default();
        let crashed = runtime.block_on(async {
            tokio::select! {
                biased;
                () = world.power_lost.notified() => true,
                result = live(&world, &mut told) => {
                    result.expect("only the power fails here");
                    false
                }
            }
        });
        drop(runtime); // every task ends wherever it was
        crashes += usize::from(crashed);
        check_told(&world, &told);
        check_log(&world, life);
    }
    world.light_fuse(-1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(rest(&world)).expect("nothing fails any more");
    check_log(&world, LIVES);
    crashes
}

async fn open(world: &Arc<World>) -> Result<Handle, DriverError> {
    let driver = Driver::new(world.ports());
    match driver.resume(&session_id(), world.runtime()).await {
        Err(DriverError::Store(sysop_driver::port::StoreError::NotFound(_))) => {
            driver.create(session_id(), spec(), world.runtime_factory()).await?;
            driver.resume(&session_id(), world.runtime()).await
        }
        other => other,
    }
}

/// Simulates one life of the process: a user acts at random and reads updates.
async fn live(world: &Arc<World>, told: &mut SeenEvents) -> Result<(), DriverError> {
    let handle = open(world).await?;
    let mut updates = handle.subscribe(Seq(0));
    for _ in 0..DEEDS {
        handle.send(deed(world, told))?;
        for _ in 0..world.below(12) {
            world.pause().await;
            while let Some(update) = updates.try_next() {
                match update {
                    Update::Logged(logged) => told.events.push(logged),
                    Update::Delta(delta) => check_delta(&delta, told),
                }
            }
        }
    }
    Ok(())
}

fn deed(world: &World, told: &SeenEvents) -> Input {
    let asked = told.events.iter().rev().find_map(|logged| match &logged.event {
        Event::ApprovalAsked { call, .. } => Some(call.id.clone()),
        _ => None,
    });
    let decision = match world.below(3) {
        0 => Decision::Reject { reason: String::new() },
        1 => Decision::AllowSession { command: None },
        _ => Decision::Allow { command: None },
    };
    let decide = |call| Input::Decision { call, decision, by: "person".to_owned(), person: None };
    match (world.below(10), asked) {
        (0, _) => Input::Cancel,
        (1, _) => Input::Pause,
        (2 | 3, _) => Input::Resume,
        (4, _) => Input::Retry,
        (5, _) => Input::Direct {
            tool: "bash".to_owned(),
            arguments: Map::from_iter([("command".to_owned(), json!("touch typed"))]),
            origin: Origin::User,
            by: None,
        },
        (6..9, Some(call)) => decide(call),
        (_, _) => Input::prompt("random"),
    }
}

/// Simulates the last life: everything is canceled and must become idle.
async fn rest(world: &Arc<World>) -> Result<(), DriverError> {
    let handle = open(world).await?;
    let mut updates = handle.subscribe(Seq(0));
    handle.send(Input::Cancel)?;
    handle.send(Input::prompt("the last word"))?;
    loop {
        let update = updates.next().await.expect("the session stays open");
        let Update::Logged(logged) = update else { continue };
        if matches!(&logged.event, Event::TurnStarted { prompt, .. } if prompt == "the last word") {
            break;
        }
    }
    while let Some(update) = updates.next().await {
        if matches!(&update, Update::Logged(l) if matches!(l.event, Event::TurnEnded { .. })) {
            break;
        }
    }
    let log = world.disk.lock()[&session_id()].clone();
    let session = Session::replay(events(&log)).expect("a session");
    assert_eq!(session.activity(), Activity::Idle);
    Ok(())
}

/// Checks that no text of a reply appears before its step, and no output before the start of its call.
fn check_delta(delta: &Delta, told: &SeenEvents) {
    if let Delta::Output { call, .. } = delta {
        let starts = |logged: &Arc<Logged>| matches!(&logged.event, Event::ToolStarted { call: c, .. } if c.id == *call);
        assert!(told.events.iter().any(starts), "{delta:?} came before its call");
    }
    let (Delta::Text { step, .. } | Delta::Reasoning { step, .. } | Delta::Restarted { step }) = delta else {
        return;
    };
    let asked = |logged: &Arc<Logged>| logged.event == Event::StepStarted { step: *step };
    assert!(told.events.iter().any(asked), "{delta:?} came before its step");
}

/// Checks that the events shown to a user are durable and in order, without gaps or duplicates.
fn check_told(world: &World, told: &SeenEvents) {
    let disk = world.disk.lock();
    let log = disk.get(&session_id()).map_or(&[][..], Vec::as_slice);
    for (index, logged) in told.events.iter().enumerate() {
        assert_eq!(logged.seq, Seq(index as u64 + 1), "events are shown in order, once, without a gap");
        assert_eq!(log.get(index), Some(&**logged), "the event was shown but is not durable");
    }
}

/// Checks that the log has no gap and matches what the host ran.
fn check_log(world: &World, life: usize) {
    let disk = world.disk.lock();
    let Some(log) = disk.get(&session_id()) else {
        assert!(world.ran.lock().is_empty());
        return;
    };
    for (index, logged) in log.iter().enumerate() {
        assert_eq!(logged.seq, Seq(index as u64 + 1));
    }
    Session::replay(events(log)).expect("the log replays");
    let (mut started, mut finished): (HashSet<&CallId>, HashSet<&CallId>) = Default::default();
    for logged in log {
        match &logged.event {
            Event::ToolStarted { call, .. } => assert!(started.insert(&call.id), "{} started twice", call.id),
            Event::ToolFinished { call, .. } => assert!(finished.insert(call), "{call} finished twice"),
            _ => {}
        }
    }
    let ran = world.ran.lock();
    let ahead = world.ran_ahead.lock();
    let mut once = HashSet::new();
    for call in ran.iter() {
        assert!(once.insert(call), "{call} ran twice (life {life})");
        assert!(started.contains(call), "{call} ran, but its start is not durable (life {life})");
    }
    assert!(ahead.is_empty(), "{ahead:?} began before their start was durable (life {life})");
    let open = started.difference(&finished).count();
    assert!(open <= 1, "{open} calls run at once");
}
