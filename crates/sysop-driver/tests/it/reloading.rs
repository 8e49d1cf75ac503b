//! Sessions that another process continues while they are idle here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sysop_core::event::{ConfigChange, Delta, Event, Input, Update};
use sysop_core::id::Seq;
use sysop_core::mode::Mode;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Session;
use sysop_core::tool::ClientTools;
use sysop_driver::{Driver, Handle, Updates};

use crate::driving::{DEADLINE, create_lazy, ended, logged, next, until};
use crate::world::{World, events, spec};

const WAITING: &str = "waiting for another sysop process (pid 7) that is using this session";

fn notices(updates: &[Update]) -> Vec<&str> {
    let text = |update| match update {
        &Update::Delta(Delta::Notice { ref text }) => Some(text.as_str()),
        _ => None,
    };
    updates.iter().filter_map(text).collect()
}

async fn prompt(handle: &Handle, updates: &mut Updates, text: &str) -> Vec<Update> {
    handle.send(Input::prompt(text)).expect("open");
    let begun = |event: &Event| matches!(event, Event::TurnStarted { prompt, .. } if prompt == text);
    let mut all = until(updates, begun).await;
    all.extend(until(updates, ended).await);
    all
}

/// Returns a session whose first turn has ended.
async fn idle_session() -> (Arc<World>, Driver, Handle, Updates) {
    let world = World::new(10);
    let (driver, handle, mut updates) = create_lazy(&world);
    prompt(&handle, &mut updates, "first").await;
    (world, driver, handle, updates)
}

/// Continues the session in another process, whose mode is `auto`.
async fn continue_elsewhere(world: &Arc<World>, handle: &Handle, text: &str) {
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is idle");
    let change = ConfigChange::Approve(ApprovalMode::Auto);
    other.send(Input::Configure { change }).expect("open");
    let mut theirs = other.subscribe(other.last_seq());
    prompt(&other, &mut theirs, text).await;
}

#[tokio::test]
async fn an_idle_session_that_another_process_continued_is_reloaded() {
    let world = World::new(10);
    let (_driver, handle, mut updates) = create_lazy(&world);
    let mut seen = prompt(&handle, &mut updates, "first").await;
    continue_elsewhere(&world, &handle, "second").await;
    let rest = prompt(&handle, &mut updates, "third").await;
    assert_eq!(notices(&rest), ["the session was continued in another process"]);
    seen.extend(rest);
    let log = world.disk.lock()[handle.id()].clone();
    let seen: Vec<_> = logged(&seen).iter().map(|logged| (logged.seq, logged.event.clone())).collect();
    let stored: Vec<_> = log.iter().map(|logged| (logged.seq, logged.event.clone())).collect();
    assert_eq!(seen, stored, "each event is published once, in order");
    let session = Session::replay(events(&log)).expect("the log is valid");
    assert_eq!(session.spec().approve, ApprovalMode::Ask, "this process keeps its settings");
    assert_eq!(handle.last_error(), None);
    assert_eq!(world.claims(), 0);
}

#[tokio::test]
async fn only_the_events_of_the_other_process_are_reported_as_such() {
    let world = World::new(10);
    let (_driver, handle, mut updates) = create_lazy(&world);
    prompt(&handle, &mut updates, "same").await;
    continue_elsewhere(&world, &handle, "same").await;
    handle.send(Input::prompt("same")).expect("open");
    let mut all = until(&mut updates, ended).await;
    all.extend(until(&mut updates, ended).await);
    let turns: Vec<bool> = logged(&all)
        .iter()
        .filter(|logged| matches!(logged.event, Event::TurnStarted { .. }))
        .map(|logged| handle.is_by_another_process(logged.seq))
        .collect();
    assert_eq!(turns, [true, false]);
}

#[tokio::test]
async fn a_front_end_gets_no_event_of_another_process_before_the_reload() {
    let world = World::new(10);
    let (_driver, first, mut updates) = create_lazy(&world);
    prompt(&first, &mut updates, "first").await;
    let handle = Driver::new(world.ports()).resume(first.id(), world.runtime()).await.expect("it is idle");
    continue_elsewhere(&world, &first, "second").await;
    let mut updates = handle.subscribe(Seq(0));
    for seq in 1..=handle.last_seq().0 {
        let update = next(&mut updates).await.expect("the session stays open");
        assert_eq!(logged(&[update])[0].seq, Seq(seq));
    }
    handle.send(Input::prompt("third")).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), ["the session was continued in another process"]);
}

#[tokio::test]
async fn tools_of_clients_of_another_process_are_not_offered_here() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is idle");
    let mut theirs = other.subscribe(other.last_seq());
    let tools = ClientTools { tools: spec().tools, root: "/home/me".to_owned() };
    other.send(Input::Configure { change: ConfigChange::ClientTools(tools) }).expect("open");
    prompt(&other, &mut theirs, "second").await;
    prompt(&handle, &mut updates, "third").await;
    let session = Session::replay(events(&world.disk.lock()[handle.id()])).expect("the log is valid");
    assert_eq!(*session.client_tools(), ClientTools::default());
}

#[tokio::test]
async fn a_setting_changed_after_another_process_has_continued_the_session_takes_effect() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    continue_elsewhere(&world, &handle, "second").await;
    handle.send(Input::Configure { change: ConfigChange::Mode(Mode::Chat) }).expect("open");
    let to_chat =
        |event: &Event| matches!(event, Event::Configured { change: ConfigChange::Mode(Mode::Chat), .. });
    until(&mut updates, to_chat).await;
    prompt(&handle, &mut updates, "third").await;
    let session = Session::replay(events(&world.disk.lock()[handle.id()])).expect("the log is valid");
    assert_eq!((session.mode(), session.spec().approve), (Mode::Chat, ApprovalMode::Ask));
}

#[tokio::test]
async fn a_setting_that_another_process_has_changed_alike_leaves_no_claim() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    let to_chat = || Input::Configure { change: ConfigChange::Mode(Mode::Chat) };
    let is_chat =
        |event: &Event| matches!(event, Event::Configured { change: ConfigChange::Mode(Mode::Chat), .. });
    let other = Driver::new(world.ports()).resume(handle.id(), world.runtime()).await.expect("it is idle");
    let mut theirs = other.subscribe(other.last_seq());
    other.send(to_chat()).expect("open");
    until(&mut theirs, is_chat).await;
    handle.send(to_chat()).expect("open");
    until(&mut updates, is_chat).await; // published after the claim
    let released = async {
        while world.claims() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, released).await.expect("the claim ends");
    prompt(&other, &mut theirs, "second").await;
    assert_eq!((handle.last_error(), other.last_error()), (None, None));
}

#[tokio::test]
async fn a_prompt_waits_while_another_process_works_on_the_session() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::prompt("second")).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), [WAITING]);
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    let begun = |event: &Event| matches!(event, Event::TurnStarted { prompt, .. } if prompt == "second");
    until(&mut updates, begun).await;
    until(&mut updates, ended).await;
    assert_eq!((handle.last_error(), world.claims()), (None, 0));
}

#[tokio::test]
async fn a_session_whose_waiting_prompt_is_canceled_is_closed() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    let before = world.disk.lock()[handle.id()].len();
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::prompt("second")).expect("open");
    next(&mut updates).await.expect("a notice");
    handle.send(Input::Cancel).expect("open");
    assert_eq!(next(&mut updates).await, None);
    assert!(handle.last_error().expect("a reason").contains("running in another process (7)"));
    assert_eq!(world.disk.lock()[handle.id()].len(), before);
}

#[tokio::test]
async fn a_cancel_before_a_prompt_does_not_cancel_the_wait_of_that_prompt() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::Cancel).expect("open");
    handle.send(Input::prompt("second")).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), [WAITING]);
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    until(&mut updates, ended).await;
    assert_eq!(handle.last_error(), None);
}

fn withdraw(text: &str) -> Input {
    Input::WithdrawPrompt { text: text.to_owned(), by: None }
}

#[tokio::test]
async fn prompts_that_wait_for_another_process_are_taken_back_and_leave_no_trace() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    let before = world.disk.lock()[handle.id()].len();
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::prompt("second")).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), [WAITING]);
    for input in [Input::prompt("third"), withdraw("third"), withdraw("second"), Input::Cancel] {
        handle.send(input).expect("open");
    }
    tokio::time::timeout(DEADLINE, handle.settle()).await.expect("nothing waits");
    assert_eq!((handle.last_error(), world.disk.lock()[handle.id()].len()), (None, before));
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    let rest = prompt(&handle, &mut updates, "fourth").await;
    let turns =
        logged(&rest).iter().filter(|logged| matches!(logged.event, Event::TurnStarted { .. })).count();
    assert_eq!((turns, handle.last_error()), (1, None));
}

#[tokio::test]
async fn taking_back_one_prompt_leaves_the_others_waiting() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::prompt("second")).expect("open");
    next(&mut updates).await.expect("a notice");
    handle.send(Input::prompt("third")).expect("open");
    handle.send(withdraw("second")).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), [WAITING], "the third prompt waits now");
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    let rest = until(&mut updates, ended).await;
    let begun = logged(&rest);
    let mut prompts = begun.iter().filter_map(|logged| match &logged.event {
        Event::TurnStarted { prompt, .. } => Some(prompt.as_str()),
        _ => None,
    });
    assert_eq!((prompts.next(), handle.last_error()), (Some("third"), None));
}

#[tokio::test]
async fn a_cancel_does_not_close_a_session_in_which_only_a_setting_waits() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::Configure { change: ConfigChange::Mode(Mode::Chat) }).expect("open");
    handle.send(Input::prompt("second")).expect("open");
    next(&mut updates).await.expect("a notice");
    handle.send(withdraw("second")).expect("open");
    handle.send(Input::Cancel).expect("open");
    world.claimed_elsewhere.store(false, Ordering::SeqCst);
    let is_chat =
        |event: &Event| matches!(event, Event::Configured { change: ConfigChange::Mode(Mode::Chat), .. });
    until(&mut updates, is_chat).await;
    assert_eq!(handle.last_error(), None);
}

#[tokio::test]
async fn a_prompt_that_is_taken_back_during_an_attempt_to_claim_leaves_the_session_open() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::prompt("second")).expect("open");
    next(&mut updates).await.expect("a notice");
    let user = handle.clone();
    *world.on_claim.lock() = Some(Box::new(move || {
        for input in [withdraw("second"), Input::Cancel] {
            user.send(input).expect("open");
        }
    }));
    tokio::time::timeout(DEADLINE, handle.settle()).await.expect("nothing waits");
    assert_eq!(handle.last_error(), None);
    assert!(world.on_claim.lock().is_none(), "it was taken back during an attempt");
}

#[tokio::test]
async fn a_prompt_that_is_taken_back_before_the_reload_leaves_no_claim() {
    let (world, _driver, handle, _updates) = idle_session().await;
    continue_elsewhere(&world, &handle, "second").await;
    let user = handle.clone();
    *world.on_claim.lock() = Some(Box::new(move || user.send(withdraw("third")).expect("open")));
    handle.send(Input::prompt("third")).expect("open");
    tokio::time::timeout(DEADLINE, handle.settle()).await.expect("nothing waits");
    assert!(world.on_claim.lock().is_none(), "it was taken back during the claim");
    assert_eq!((world.claims(), handle.last_error()), (0, None));
}

#[tokio::test]
async fn a_cancel_of_a_prompt_behind_a_waiting_setting_closes_the_session() {
    let (world, _driver, handle, mut updates) = idle_session().await;
    continue_elsewhere(&world, &handle, "second").await;
    world.claimed_elsewhere.store(true, Ordering::SeqCst);
    handle.send(Input::Configure { change: ConfigChange::Mode(Mode::Chat) }).expect("open");
    let update = next(&mut updates).await.expect("the session stays open");
    assert_eq!(notices(&[update]), [WAITING], "the setting waits");
    handle.send(Input::prompt("third")).expect("open");
    handle.send(Input::Cancel).expect("open");
    assert_eq!(next(&mut updates).await, None);
    assert!(handle.last_error().expect("a reason").contains("running in another process (7)"));
}
