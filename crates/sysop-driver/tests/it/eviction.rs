//! Sessions unused in memory, and calls that belong on a client's machine.

use std::time::Duration;

use sysop_core::event::{ConfigChange, Event, Input};
use sysop_core::id::{Seq, SessionId};
use sysop_core::outcome::Status;
use sysop_core::tool::ClientTools;
use sysop_driver::{Driver, IDLE_SESSIONS_MAX};

use crate::driving::{create_lazy, direct, ended, last_event, logged, next, until};
use crate::world::{World, spec};

const DEADLINE: Duration = Duration::from_secs(30);

/// Evicts until this many sessions are left; the last input may still be in progress.
async fn rested(driver: &Driver, left: usize) {
    let resting = async {
        loop {
            driver.evict_idle(Duration::ZERO);
            if driver.live_sessions() == left {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, resting).await.expect("it rests");
}

#[tokio::test]
async fn an_unused_session_is_evicted_and_resumes_from_its_log() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(Input::prompt("hello")).expect("open");
    let before = logged(&until(&mut updates, ended).await);
    let id = handle.id().clone();
    drop((handle, updates));
    rested(&driver, 0).await;

    let handle = driver.resume(&id, world.runtime()).await.expect("it is in its log");
    let mut updates = handle.subscribe(Seq(0));
    handle.send(Input::prompt("again")).expect("open");
    let mut seen = logged(&until(&mut updates, ended).await);
    seen.extend(logged(&until(&mut updates, ended).await));
    assert_eq!(seen[..before.len()], before[..], "the log is the same");
    let interrupted = |event: &Event| matches!(event, Event::Paused { .. });
    assert!(!seen.iter().any(|logged| interrupted(&logged.event)), "{seen:?}");
}

#[tokio::test]
async fn a_watched_held_or_busy_session_is_kept() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    let id = handle.id().clone();
    let arm = world.tool_arm.lock().await;
    handle.send(direct("echo")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    drop(updates);
    drop(handle);
    driver.evict_idle(Duration::ZERO);
    assert_eq!(driver.live_sessions(), 1, "a tool is running");

    let handle = driver.resume(&id, world.runtime()).await.expect("it is live");
    let mut updates = handle.subscribe(Seq(0));
    drop(arm);
    until(&mut updates, ended).await;
    drop(handle);
    driver.evict_idle(Duration::ZERO);
    assert_eq!(driver.live_sessions(), 1, "a front end is subscribed");
    drop(updates);
    rested(&driver, 0).await;
}

#[tokio::test]
async fn a_session_is_evicted_only_after_an_idle_period() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(Input::prompt("hello")).expect("open");
    until(&mut updates, ended).await;
    drop((handle, updates));
    driver.evict_idle(Duration::from_secs(3600));
    assert_eq!(driver.live_sessions(), 1);
}

/// A read-only user can watch any number of sessions.
#[tokio::test]
async fn the_number_of_idle_sessions_in_memory_is_bounded() {
    let world = World::new(1);
    let before = Driver::new(world.ports());
    let ids: Vec<_> = (0..3 * IDLE_SESSIONS_MAX).map(|number| SessionId::new(format!("s{number}"))).collect();
    for id in &ids {
        before.create(id.clone(), spec(), world.runtime_factory()).await.expect("created");
    }
    let driver = Driver::new(world.ports());
    let held = driver.resume(&ids[0], world.runtime()).await.expect("it is in its log");
    let working = driver.resume(&ids[1], world.runtime()).await.expect("it is in its log");
    let mut updates = working.subscribe(Seq(0));
    working.send(direct("wait")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    let id = working.id().clone();
    drop((working, updates));
    for id in &ids[2..] {
        driver.resume(id, world.runtime()).await.expect("it is in its log");
        assert!(driver.live_sessions() <= IDLE_SESSIONS_MAX + 2, "{}", driver.live_sessions());
    }
    assert!(driver.get(held.id()).is_some(), "a front end holds a handle");
    assert!(driver.get(&id).is_some(), "the session is busy");
    let newest = ids.last().expect("there are some");
    assert!(driver.get(newest).is_some(), "the oldest sessions are evicted first");
    assert!(driver.get(&ids[2]).is_none());
    driver.resume(&ids[2], world.runtime()).await.expect("it goes on from its log");
}

#[tokio::test]
async fn ending_a_session_stops_its_work_and_notifies_subscribers() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("wait")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    driver.end(handle.id(), "it was deleted");
    tokio::time::timeout(DEADLINE, world.stopped.notified()).await.expect("the tool is stopped");
    while next(&mut updates).await.is_some() {}
    assert_eq!(handle.last_error().as_deref(), Some("it was deleted"));
    assert!(handle.send(Input::Pause).is_err());
    assert_eq!(driver.live_sessions(), 0);
}

#[tokio::test]
async fn a_lent_tool_never_runs_on_the_sessions_host_after_eviction() {
    let world = World::new(1);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let bash = spec().tools.into_iter().filter(|tool| tool.name == "bash").collect();
    let lent = ClientTools { tools: bash, root: "/home/me".to_owned() };
    handle.send(Input::Configure { change: ConfigChange::ClientTools(lent) }).expect("open");
    handle.send(direct("touch here")).expect("open");
    let seen = until(&mut updates, |event| matches!(event, Event::ToolFinished { .. })).await;
    let Event::ToolFinished { outcome, .. } = last_event(&seen) else { unreachable!("waited for it") };
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("no connected client offers"), "{}", outcome.output);
    assert!(world.ran.lock().is_empty());

    handle
        .send(Input::Configure { change: ConfigChange::ClientTools(ClientTools::default()) })
        .expect("open");
    handle.send(direct("touch there")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolFinished { .. })).await;
    assert_eq!(world.ran.lock().len(), 1, "after the tools are withdrawn, the call runs here again");
}
