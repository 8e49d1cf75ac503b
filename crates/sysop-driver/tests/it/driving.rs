//! Guarantees of the driver to a front end, one test each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::BoxStream;
use serde_json::{Map, json};
use sysop_core::event::{ConfigChange, Decision, Delta, Event, Input, Logged, Origin, StopReason, Update};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::message::{Arguments, FailureKind, ModelFailure, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::Status;
use sysop_core::policy::{ApprovalMode, RiskClass};
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::ClientTools;
use sysop_driver::port::{ModelEvent, Provider, StoreError};
use sysop_driver::{Driver, DriverError, Handle, Runtime, Updates};
use tokio::sync::Notify;

use crate::world::{PANIC, World, spec};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn create_lazy(world: &Arc<World>) -> (Driver, Handle, Updates) {
    let driver = Driver::new(world.ports());
    let handle = driver.create_lazy(SessionId::new("s"), spec(), world.runtime());
    let updates = handle.subscribe(Seq(0));
    (driver, handle, updates)
}

/// Like `create_lazy`, in mode `auto`.
fn begin_auto(world: &Arc<World>) -> (Driver, Handle, Updates) {
    let driver = Driver::new(world.ports());
    let spec = SessionSpec { approve: ApprovalMode::Auto, ..spec() };
    let handle = driver.create_lazy(SessionId::new("s"), spec, world.runtime());
    let updates = handle.subscribe(Seq(0));
    (driver, handle, updates)
}

fn prompt(text: &str) -> Input {
    Input::prompt(text.to_owned())
}

pub(crate) fn direct(command: &str) -> Input {
    let arguments = Map::from_iter([("command".to_owned(), json!(command))]);
    Input::Direct { tool: "bash".to_owned(), arguments, origin: Origin::User, by: None }
}

pub(crate) async fn next(updates: &mut Updates) -> Option<Update> {
    tokio::time::timeout(DEADLINE, updates.next()).await.expect("an update comes")
}

/// Reads until an event matches. Returns everything read.
pub(crate) async fn until(updates: &mut Updates, wanted: impl Fn(&Event) -> bool) -> Vec<Update> {
    let mut all = Vec::new();
    loop {
        let update = next(updates).await.expect("the session is open");
        let found = matches!(&update, Update::Logged(logged) if wanted(&logged.event));
        all.push(update);
        if found {
            return all;
        }
    }
}

pub(crate) fn ended(event: &Event) -> bool {
    matches!(event, Event::TurnEnded { .. })
}

pub(crate) fn last_event(updates: &[Update]) -> &Event {
    match updates.last() {
        Some(Update::Logged(logged)) => &logged.event,
        other => panic!("not an event: {other:?}"),
    }
}

pub(crate) fn logged(updates: &[Update]) -> Vec<Arc<Logged>> {
    updates
        .iter()
        .filter_map(|update| match update {
            Update::Logged(l) => Some(Arc::clone(l)),
            Update::Delta(_) => None,
        })
        .collect()
}

#[tokio::test]
async fn a_lent_tool_never_runs_on_the_sessions_host() {
    let world = World::new(1);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let lend = |tools| Input::Configure {
        change: ConfigChange::ClientTools(ClientTools { tools, root: "/home/me".to_owned() }),
    };
    let bash = spec().tools.into_iter().find(|tool| tool.name == "bash").expect("it is offered");
    handle.send(lend(vec![bash])).unwrap();
    handle.send(direct("echo")).unwrap();
    let told = until(&mut updates, ended).await;
    let finished = logged(&told).into_iter().find_map(|logged| match &logged.event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let outcome = finished.expect("the call has its end");
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.output, "no connected client offers `bash`; not run");
    assert!(world.ran.lock().is_empty());

    handle.send(lend(Vec::new())).unwrap();
    handle.send(direct("echo")).unwrap();
    until(&mut updates, ended).await;
    assert_eq!(world.ran.lock().len(), 1, "the calls run on the client");
}

/// A front end reads its terminal on a thread of its own, and a host may report a user's keys from there.
#[tokio::test]
async fn an_input_may_come_from_any_thread() {
    let world = World::new(1);
    let (_driver, handle, mut updates) = create_lazy(&world);
    std::thread::spawn(move || handle.send(direct("echo by a thread"))).join().expect("no panic").unwrap();
    until(&mut updates, ended).await;
}

#[tokio::test]
async fn a_session_that_is_never_used_leaves_no_trace() {
    let world = World::new(1);
    let (_driver, handle, mut updates) = create_lazy(&world);
    assert!(world.disk.lock().is_empty());
    handle.send(prompt("hello")).expect("open");
    let seen = logged(&until(&mut updates, ended).await);
    assert!(matches!(seen[0].event, Event::SessionOpened { .. }));
    let log = world.disk.lock()[handle.id()].clone();
    assert_eq!(seen.iter().map(|l| Logged::clone(l)).collect::<Vec<_>>(), log);
    assert_eq!(log.iter().map(|l| l.seq.0).collect::<Vec<_>>(), (1..=log.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_created_session_is_durable_at_once_and_only_one_can_have_its_id() {
    let world = World::new(1);
    Driver::new(world.ports())
        .create(SessionId::new("s"), spec(), world.runtime_factory())
        .await
        .expect("created");
    assert_eq!(world.disk.lock()[&SessionId::new("s")].len(), 1);
    let again = Driver::new(world.ports()).create(SessionId::new("s"), spec(), world.runtime_factory()).await;
    assert!(matches!(again.err(), Some(DriverError::Store(StoreError::Conflict { .. }))));
}

#[tokio::test]
async fn an_approval_is_answered_and_the_tool_runs_once() {
    let world = World::new(2);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("bash 1")).expect("open");
    let asked = until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await;
    assert!(world.ran.lock().is_empty());
    let Event::ApprovalAsked { call, .. } = last_event(&asked) else { unreachable!("waited for it") };
    for by in ["first", "second"] {
        let decision = Decision::Allow { command: None };
        handle
            .send(Input::Decision { call: call.id.clone(), decision, by: by.to_owned(), person: None })
            .expect("open");
    }
    let rest = until(&mut updates, ended).await;
    let decided: Vec<_> = logged(&rest)
        .iter()
        .filter_map(|l| match &l.event {
            Event::Decided { by, .. } => Some(by.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(decided, ["first"]);
    assert_eq!(world.ran.lock().len(), 1);
    assert!(
        rest.iter()
            .any(|update| matches!(update, Update::Delta(Delta::Output { text, .. }) if text == "begun"))
    );
}

#[tokio::test]
async fn a_proposal_says_that_its_host_did_not_answer_in_time() {
    let world = World::new(2);
    world.mutes_surveys.store(true, Ordering::SeqCst);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("bash 1")).expect("open");
    let asked = until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await;
    let Event::ApprovalAsked { risk, .. } = last_event(&asked) else { unreachable!("waited for it") };
    let expected = (RiskClass::Opaque, "the host did not answer within 10 s");
    assert_eq!((risk.class, risk.findings[0].why.as_str()), expected);
}

#[tokio::test]
async fn stopping_ends_a_model_call_that_never_ends() {
    let world = World::new(3);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("slow")).expect("open");
    until(&mut updates, |event| matches!(event, Event::StepStarted { .. })).await;
    handle.send(Input::Cancel).expect("open");
    let rest = until(&mut updates, ended).await;
    assert!(matches!(last_event(&rest), Event::TurnEnded { reason: StopReason::Cancelled, .. }));
    handle.send(prompt("hello")).expect("open");
    until(&mut updates, ended).await;
}

/// Holds even before the disk has written them, and with no more in memory than may be queued.
#[tokio::test]
async fn the_prompt_queue_is_bounded() {
    let world = World::new(3);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("slow")).expect("open");
    until(&mut updates, |event| matches!(event, Event::StepStarted { .. })).await;
    let arm = world.disk_arm.lock().await;
    for number in 0..QUEUED_PROMPTS_MAX {
        handle.send(prompt(&format!("prompt {number}"))).expect("there is room");
    }
    let full = |handle: &Handle| matches!(handle.send(prompt("one more")), Err(DriverError::QueueFull(_)));
    assert!(full(&handle), "no event is on disk yet");
    drop(arm);
    let last = format!("prompt {}", QUEUED_PROMPTS_MAX - 1);
    until(&mut updates, |event| matches!(event, Event::PromptQueued { text, .. } if *text == last)).await;
    assert!(full(&handle), "all events are on disk");
    handle.send(Input::Cancel).expect("that is always possible");
    until(&mut updates, ended).await;
    handle.send(prompt("hello")).expect("those that waited are gone");
    let seen = logged(&until(&mut updates, ended).await);
    let hello = |event: &Event| matches!(event, Event::TurnStarted { prompt, .. } if prompt == "hello");
    assert!(seen.iter().any(|logged| hello(&logged.event)), "{seen:?}");
}

#[tokio::test]
async fn a_reopened_session_restores_its_queue_length() {
    let world = World::new(3);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("slow")).expect("open");
    until(&mut updates, |event| matches!(event, Event::StepStarted { .. })).await;
    for number in 0..QUEUED_PROMPTS_MAX {
        handle.send(prompt(&format!("prompt {number}"))).expect("there is room");
    }
    let last = format!("prompt {}", QUEUED_PROMPTS_MAX - 1);
    until(&mut updates, |event| matches!(event, Event::PromptQueued { text, .. } if *text == last)).await;
    driver.end(handle.id(), "as in a crash");
    let again =
        Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is in its log");
    assert!(matches!(again.send(prompt("one more")), Err(DriverError::QueueFull(_))));
}

#[tokio::test]
async fn stopping_a_tool_keeps_its_output() {
    let world = World::new(3);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("wait")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    handle.send(Input::Cancel).expect("open");
    let rest = until(&mut updates, ended).await;
    let half = logged(&rest)
        .iter()
        .any(|l| matches!(&l.event, Event::ToolFinished { outcome, .. } if outcome.output == "half"));
    assert!(half);
}

#[tokio::test]
async fn a_tool_that_does_not_stop_ends_as_unknown() {
    let world = World::new(3);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("hang")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    handle.send(Input::Cancel).expect("open");
    let rest = until(&mut updates, ended).await;
    let unknown = logged(&rest).iter().any(
        |l| matches!(&l.event, Event::ToolFinished { outcome, .. } if outcome.status == Status::Unknown),
    );
    assert!(unknown);
}

#[tokio::test]
async fn a_panic_in_a_port_is_a_failure_of_that_call_only() {
    let world = World::new(4);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("panic")).expect("open");
    let model = until(&mut updates, ended).await;
    assert!(
        matches!(last_event(&model), Event::TurnEnded { reason: StopReason::Failed, error: Some(error), .. } if error.contains("internal error"))
    );
    handle.send(direct("panic")).expect("open");
    let tool = until(&mut updates, ended).await;
    assert!(matches!(last_event(&tool), Event::TurnEnded { reason: StopReason::Failed, .. }));
    handle.send(prompt("hello")).expect("open");
    let answer = until(&mut updates, ended).await;
    assert!(matches!(last_event(&answer), Event::TurnEnded { reason: StopReason::EndTurn, .. }));
}

#[tokio::test]
async fn a_stream_without_a_final_event_is_a_model_failure() {
    let world = World::new(4);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("cut")).expect("open");
    let rest = until(&mut updates, ended).await;
    assert!(matches!(last_event(&rest), Event::TurnEnded { reason: StopReason::Failed, error: Some(_), .. }));
}

#[tokio::test]
async fn a_store_failure_closes_the_session_before_anything_runs() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let full = StoreError::Unavailable("the disk is full".to_owned());
    *world.broken_disk.lock() = Some(full);
    handle.send(direct("touch a")).expect("open");
    assert_eq!(next(&mut updates).await, None);
    assert_eq!(handle.last_error().as_deref(), Some("the disk is full"));
    assert!(matches!(handle.send(prompt("x")), Err(DriverError::Closed(why)) if why == "the disk is full"));
    assert!(world.ran.lock().is_empty(), "no effect is performed before its event is durable");
}

#[tokio::test]
async fn a_session_is_claimed_while_it_works_and_not_longer() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let begin = async |updates: &mut Updates| {
        handle.send(direct("wait")).expect("open");
        until(updates, |event| matches!(event, Event::ToolStarted { .. })).await;
        assert_eq!(world.claims(), 1);
    };
    begin(&mut updates).await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await;
    assert!(matches!(other.err(), Some(DriverError::Store(StoreError::InUse { process: Some(7), .. }))));
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    handle.send(Input::Cancel).expect("open");
    until(&mut updates, ended).await;
    assert_eq!(world.claims(), 0, "it waits for a prompt");
    begin(&mut updates).await;
    *world.broken_disk.lock() = Some(StoreError::Unavailable("the disk is full".to_owned()));
    handle.send(Input::Pause).expect("open");
    while next(&mut updates).await.is_some() {}
    assert_eq!(world.claims(), 0, "a closed session can be opened again, although its handle is kept");
}

#[tokio::test]
async fn an_ended_session_leaves_nothing_running() {
    for why in ["the disk is full", PANIC] {
        let world = World::new(5);
        let (_driver, handle, mut updates) = create_lazy(&world);
        handle.send(direct("wait")).expect("open");
        until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
        let broken = StoreError::Unavailable(why.to_owned());
        *world.broken_disk.lock() = Some(broken);
        handle.send(Input::Pause).expect("open");
        while next(&mut updates).await.is_some() {}
        let stopped = tokio::time::timeout(DEADLINE, world.stopped.notified()).await;
        assert!(stopped.is_ok(), "the tool continues to run: {why}");
    }
}

#[tokio::test]
async fn an_early_model_call_overlaps_the_write_but_publishes_nothing_before_it() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let tool = world.tool_arm.lock().await;
    handle.send(prompt("read")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    world.answered.notified().await; // the first step
    let disk = world.disk_arm.lock().await;
    drop(tool);
    // The answer is complete before the step is durable.
    tokio::time::timeout(DEADLINE, world.answered.notified()).await.expect("the model is asked");
    while let Some(update) = updates.try_next() {
        assert!(matches!(update, Update::Delta(Delta::Output { .. })), "published too early: {update:?}");
    }
    drop(disk);
    let told = until(&mut updates, ended).await;
    let place = |wanted: fn(&Update) -> bool| told.iter().position(wanted).expect("it is told");
    let started = place(|u| matches!(u, Update::Logged(l) if matches!(l.event, Event::StepStarted { .. })));
    let text = place(|u| matches!(u, Update::Delta(Delta::Text { .. })));
    let replied = place(|u| matches!(u, Update::Logged(l) if matches!(l.event, Event::Replied { .. })));
    assert!(started < text && text < replied, "{told:?}");
}

#[tokio::test]
async fn an_early_answer_is_dropped_if_its_step_cannot_be_stored() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let tool = world.tool_arm.lock().await;
    handle.send(prompt("hasty")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    let full = StoreError::Unavailable("the disk is full".to_owned());
    *world.broken_disk.lock() = Some(full);
    drop(tool);
    while let Some(update) = next(&mut updates).await {
        assert!(
            matches!(update, Update::Delta(Delta::Output { .. })),
            "published but not stored: {update:?}"
        );
    }
    assert_eq!(handle.last_error().as_deref(), Some("the disk is full"));
}

#[tokio::test]
async fn a_call_waits_until_its_start_is_durable() {
    for text in ["bash 1", "read"] {
        let world = World::new(5);
        let (_driver, handle, mut updates) = begin_auto(&world);
        let model = world.model_arm.lock().await;
        handle.send(prompt(text)).expect("open");
        until(&mut updates, |event| matches!(event, Event::StepStarted { .. })).await;
        let disk = world.disk_arm.lock().await;
        drop(model);
        tokio::time::timeout(DEADLINE, world.answered.notified()).await.expect("the model answers");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(world.ran.lock().is_empty(), "{text}");
        drop(disk);
        until(&mut updates, ended).await;
        assert_eq!(world.ran.lock().len(), 1, "{text}");
        assert!(world.ran_ahead.lock().is_empty(), "{text}");
    }
}

#[tokio::test]
async fn an_early_model_call_is_canceled_if_its_step_cannot_be_stored() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let tool = world.tool_arm.lock().await;
    handle.send(prompt("read")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    world.answered.notified().await; // the first step
    let full = StoreError::Unavailable("the disk is full".to_owned());
    *world.broken_disk.lock() = Some(full);
    let disk = world.disk_arm.lock().await;
    drop(tool);
    tokio::time::timeout(DEADLINE, world.answered.notified()).await.expect("the model is asked");
    drop(disk);
    while let Some(update) = next(&mut updates).await {
        assert!(
            matches!(update, Update::Delta(Delta::Output { .. })),
            "published but not stored: {update:?}"
        );
    }
    assert_eq!(handle.last_error().as_deref(), Some("the disk is full"));
}

#[tokio::test]
async fn a_prompt_that_cannot_be_stored_is_not_sent() {
    let world = World::new(5);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let full = StoreError::Unavailable("the disk is full".to_owned());
    *world.broken_disk.lock() = Some(full);
    handle.send(prompt("hello")).expect("open");
    assert_eq!(next(&mut updates).await, None);
    assert!(world.asked.notified().now_or_never().is_none(), "the model was called");
}

#[tokio::test]
async fn a_late_subscriber_sees_every_event_once_in_order() {
    let world = World::new(6);
    let (_driver, handle, mut first) = create_lazy(&world);
    for _ in 0..60 {
        handle.send(prompt("hello")).expect("open");
        until(&mut first, ended).await;
    }
    let length = world.disk.lock()[handle.id()].len() as u64;
    for after in [0, 1, length - 3, length] {
        let mut late = handle.subscribe(Seq(after));
        handle.send(prompt("hello")).expect("open");
        let last = logged(&until(&mut first, ended).await).last().expect("an event").seq;
        let mut seqs = Vec::new();
        while seqs.last() != Some(&last) {
            if let Update::Logged(logged) = next(&mut late).await.expect("open") {
                seqs.push(logged.seq);
            }
        }
        assert_eq!(seqs, (after + 1..=last.0).map(Seq).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_slow_subscriber_misses_nothing_and_slows_no_other() {
    let world = World::new(7);
    let (_driver, handle, mut reader) = create_lazy(&world);
    let mut sleeper = handle.subscribe(Seq(0));
    for _ in 0..1500 {
        handle.send(prompt("hello")).expect("open");
        until(&mut reader, ended).await;
    }
    handle.send(prompt("stream 5000")).expect("open");
    let last = logged(&until(&mut reader, ended).await).last().expect("an event").seq;
    let mut seqs = Vec::new();
    while seqs.last() != Some(&last) {
        if let Update::Logged(logged) = next(&mut sleeper).await.expect("open") {
            seqs.push(logged.seq);
        }
    }
    assert_eq!(seqs, (1..=last.0).map(Seq).collect::<Vec<_>>());
}

#[tokio::test]
async fn waiting_deltas_are_merged() {
    let world = World::new(8);
    let (_driver, handle, mut reader) = create_lazy(&world);
    let mut sleeper = handle.subscribe(Seq(0));
    handle.send(prompt("stream 5000")).expect("open");
    until(&mut reader, ended).await;
    let seen = until(&mut sleeper, ended).await;
    let texts: Vec<_> = seen
        .iter()
        .filter_map(|update| match update {
            Update::Delta(Delta::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts.concat(), "x".repeat(5000));
    assert_eq!(texts.len(), 1);
}

#[tokio::test]
async fn resuming_replays_the_log_once_per_driver() {
    let world = World::new(9);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("hello")).expect("open");
    until(&mut updates, ended).await;
    let same = driver.resume(handle.id(), world.runtime()).await.expect("it runs here");
    same.send(prompt("hello")).expect("open");
    until(&mut updates, ended).await;
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is kept");
    let mut replayed = other.subscribe(Seq(0));
    let seen =
        logged(&until(&mut replayed, |e| matches!(e, Event::TurnEnded { turn, .. } if turn.0 == 2)).await);
    assert_eq!(seen.len(), world.disk.lock()[handle.id()].len());
    let missing = driver.resume(&SessionId::new("none"), world.runtime()).await;
    assert!(matches!(missing.err(), Some(DriverError::Store(StoreError::NotFound(_)))));
}

#[tokio::test]
async fn a_live_session_is_not_created_again() {
    let world = World::new(12);
    let (driver, handle, mut updates) = create_lazy(&world);
    handle.send(prompt("hello")).expect("open");
    until(&mut updates, ended).await;
    let again = driver.create(handle.id().clone(), spec(), world.runtime_factory()).await;
    assert!(matches!(again.err(), Some(DriverError::Store(StoreError::Conflict { .. }))));
}

#[tokio::test]
async fn a_stale_writer_is_closed_during_its_work() {
    let world = World::new(10);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("wait")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is kept");
    let mut theirs = other.subscribe(Seq(0));
    until(&mut theirs, |event| matches!(event, Event::ToolFinished { .. })).await;
    handle.send(Input::Cancel).expect("open");
    while next(&mut updates).await.is_some() {}
    assert!(handle.last_error().expect("a reason").contains("changed by another process"));
}

#[tokio::test]
async fn the_events_of_an_input_are_durable_once_the_session_has_settled() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    for mode in [ApprovalMode::Never, ApprovalMode::Auto] {
        let before = handle.last_seq();
        handle.send(Input::Configure { change: ConfigChange::Approve(mode) }).unwrap();
        tokio::time::timeout(DEADLINE, handle.settle()).await.expect("it settles");
        assert!(handle.last_seq() > before);
    }
    driver.end(handle.id(), "it was deleted");
    tokio::time::timeout(DEADLINE, handle.settle()).await.expect("a session that has ended has settled");
    while next(&mut updates).await.is_some() {}
}

/// A fork has the history before the excluded prompt, and is independent afterwards.
#[tokio::test]
async fn a_session_forks_at_a_prompt() {
    let world = World::new(1);
    let (driver, handle, mut updates) = create_lazy(&world);
    for text in ["first", "second", "third"] {
        handle.send(prompt(text)).unwrap();
        until(&mut updates, ended).await;
    }
    let fork = SessionId::new("fork");
    driver.fork(handle.id(), TurnId(3), &fork, Some("ada")).await.unwrap();
    let forked = driver.resume(&fork, world.runtime()).await.unwrap();
    forked.send(prompt("another third")).unwrap();
    let mut updates = forked.subscribe(Seq(0));
    let mut prompts = Vec::new();
    while prompts.last().is_none_or(|last| last != "another third") {
        for update in logged(&until(&mut updates, |event| matches!(event, Event::TurnStarted { .. })).await) {
            if let Event::TurnStarted { prompt, .. } = &update.event {
                prompts.push(prompt.clone());
            }
        }
    }
    assert_eq!(prompts, ["first", "second", "another third"]);
    let gone = driver.fork(handle.id(), TurnId(9), &SessionId::new("other"), None).await;
    assert_eq!(gone, Err(DriverError::NoTurn(handle.id().clone(), TurnId(9))));
}

#[tokio::test]
async fn each_session_uses_the_models_of_its_own_runtime() {
    let world = World::new(0);
    let driver = Driver::new(world.ports());
    let named = |name: &'static str| Runtime { provider: Arc::new(Named(name)), ..world.runtime() };
    let first = driver.create_lazy(SessionId::new("first"), spec(), named("first host"));
    let second = driver.create_lazy(SessionId::new("second"), spec(), named("second host"));
    for (handle, name) in [(&second, "second host"), (&first, "first host"), (&second, "second host")] {
        let mut updates = handle.subscribe(handle.last_seq());
        handle.send(prompt("where are you?")).unwrap();
        let ended = |event: &Event| matches!(event, Event::TurnEnded { .. });
        let all = until(&mut updates, ended).await;
        let failures: Vec<_> = logged(&all)
            .iter()
            .filter_map(|logged| match &logged.event {
                Event::ModelFailed { failure, .. } => Some(failure.message.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(failures, [name]);
    }
}

/// An unreachable model that reports its own location.
struct Named(&'static str);

impl Provider for Named {
    fn stream(&self, _: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let failure = ModelFailure { kind: FailureKind::Auth, message: self.0.to_owned() };
        Box::pin(futures::stream::iter([ModelEvent::Failed(failure)]))
    }
}

/// A model that first calls a tool, and hangs or panics at its second call.
struct FailsLater {
    calls: AtomicUsize,
    panics: bool,
    asked: Arc<Notify>,
    dropped: Arc<Notify>,
}

impl FailsLater {
    fn new(panics: bool) -> Arc<Self> {
        Arc::new(Self { calls: AtomicUsize::new(0), panics, asked: Arc::default(), dropped: Arc::default() })
    }
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Provider for FailsLater {
    fn stream(&self, _: ModelRequest) -> BoxStream<'static, ModelEvent> {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let call = ToolCall {
                id: CallId::new("1"),
                wire_id: None,
                name: "read_file".to_owned(),
                arguments: Arguments::Object(Map::new()),
            };
            let reply = Reply { calls: vec![call], ..Reply::default() };
            return Box::pin(futures::stream::iter([ModelEvent::Done(Box::new(reply))]));
        }
        self.asked.notify_one();
        assert!(!self.panics, "the second call panics before it has a stream");
        let guard = NotifyOnDrop(Arc::clone(&self.dropped));
        Box::pin(futures::stream::poll_fn(move |_| {
            let _ = &guard;
            std::task::Poll::Pending
        }))
    }
}

#[tokio::test]
async fn an_early_model_call_ends_with_its_session_while_the_disk_hangs() {
    let world = World::new(5);
    let driver = Driver::new(world.ports());
    let model = FailsLater::new(false);
    let runtime = Runtime { provider: Arc::clone(&model) as Arc<dyn Provider>, ..world.runtime() };
    let handle = driver.create_lazy(SessionId::new("s"), spec(), runtime);
    let mut updates = handle.subscribe(Seq(0));
    let tool = world.tool_arm.lock().await;
    handle.send(prompt("go")).expect("open");
    until(&mut updates, |event| matches!(event, Event::ToolStarted { .. })).await;
    let disk = world.disk_arm.lock().await;
    drop(tool);
    tokio::time::timeout(DEADLINE, model.asked.notified()).await.expect("the model is asked early");
    driver.end(handle.id(), "it was deleted");
    tokio::time::timeout(DEADLINE, model.dropped.notified()).await.expect("the early call is dropped");
    drop(disk);
}

#[tokio::test]
async fn a_panic_in_an_early_model_call_fails_its_turn_only() {
    let world = World::new(5);
    let driver = Driver::new(world.ports());
    let model = FailsLater::new(true);
    let runtime = Runtime { provider: Arc::clone(&model) as Arc<dyn Provider>, ..world.runtime() };
    let handle = driver.create_lazy(SessionId::new("s"), spec(), runtime);
    let mut updates = handle.subscribe(Seq(0));
    handle.send(prompt("go")).expect("open");
    let told = until(&mut updates, ended).await;
    assert!(
        matches!(last_event(&told), Event::TurnEnded { reason: StopReason::Failed, error: Some(error), .. } if error.contains("internal error")),
        "{told:?}"
    );
    assert_eq!(handle.last_error(), None, "the session is open");
}
