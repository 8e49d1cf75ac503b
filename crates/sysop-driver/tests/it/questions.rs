//! Questions of a host to the users of its session.

use sysop_core::event::{Delta, Event, Input, TypedInput, Update};
use sysop_core::id::Seq;
use sysop_core::question::{Question, QuestionId};
use sysop_driver::Updates;
use sysop_driver::prompter::PromptReply;

use crate::driving::{create_lazy, direct, ended, logged, next, until};
use crate::world::World;

async fn question(updates: &mut Updates) -> Question {
    loop {
        if let Update::Delta(Delta::Question { question }) = next(updates).await.expect("open") {
            return question;
        }
    }
}

async fn closed(updates: &mut Updates) -> (QuestionId, Option<String>) {
    loop {
        if let Update::Delta(Delta::QuestionClosed { id, by }) = next(updates).await.expect("open") {
            return (id, by);
        }
    }
}

fn given(text: &str) -> PromptReply {
    PromptReply::Given { by: "ann".to_owned(), text: text.into() }
}

#[tokio::test]
async fn the_first_answer_reaches_the_program_and_is_not_logged() {
    let world = World::new(1);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("ask")).expect("open");
    let asked = question(&mut updates).await;
    assert_eq!((asked.from.as_str(), asked.prompt.as_str()), ("sudo", "Password: "));
    assert!(handle.answer(asked.id, given("hunter2")));
    assert!(!handle.answer(asked.id, given("another")), "a question can be answered only once");
    assert!(!handle.answer(QuestionId(99), given("x")), "there is no such question");
    let mut late = handle.subscribe(Seq(0));
    let mut events = logged(&until(&mut updates, ended).await);
    // Typing is logged when it happens, possibly after the program has finished.
    if !events.iter().any(|logged| matches!(logged.event, Event::TerminalInput { .. })) {
        events.extend(logged(&until(&mut updates, |e| matches!(e, Event::TerminalInput { .. })).await));
    }
    let typed = events.iter().find_map(|logged| match &logged.event {
        Event::TerminalInput { by, typed } => Some((by.as_str(), typed.clone())),
        _ => None,
    });
    assert_eq!(typed, Some(("ann", TypedInput::Secret { prompt: "Password: ".to_owned() })));
    let output = events.iter().find_map(|logged| match &logged.event {
        Event::ToolFinished { outcome, .. } => Some(outcome.output.clone()),
        _ => None,
    });
    assert_eq!(output.as_deref(), Some("7"));
    let log = serde_json::to_string(&world.disk.lock()[handle.id()]).expect("JSON");
    assert!(!log.contains("hunter2"));
    let all = until(&mut late, ended).await;
    let still_open = all.iter().any(|update| matches!(update, Update::Delta(Delta::Question { .. })));
    assert!(!still_open, "a later front end does not see an answered question");
}

#[tokio::test]
async fn a_late_subscriber_sees_the_open_question_and_who_answered_it() {
    let world = World::new(2);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("ask")).expect("open");
    let asked = question(&mut updates).await;
    let mut late = handle.subscribe(Seq(0));
    assert_eq!(question(&mut late).await, asked);
    assert!(handle.answer(asked.id, given("x")));
    assert_eq!(closed(&mut late).await, (asked.id, Some("ann".to_owned())));
    assert_eq!(closed(&mut updates).await, (asked.id, Some("ann".to_owned())));
}

#[tokio::test]
async fn a_question_closes_with_its_call() {
    let world = World::new(3);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("ask")).expect("open");
    let asked = question(&mut updates).await;
    handle.send(Input::Cancel).expect("open");
    assert_eq!(closed(&mut updates).await, (asked.id, None));
    assert!(!handle.answer(asked.id, given("too late")));
    until(&mut updates, ended).await;
    let log = world.disk.lock()[handle.id()].clone();
    assert!(!log.iter().any(|logged| matches!(logged.event, Event::TerminalInput { .. })));
}

#[tokio::test]
async fn a_refusal_is_not_an_answer() {
    let world = World::new(4);
    let (_driver, handle, mut updates) = create_lazy(&world);
    handle.send(direct("ask")).expect("open");
    let asked = question(&mut updates).await;
    assert!(handle.answer(asked.id, PromptReply::Refused));
    assert_eq!(closed(&mut updates).await, (asked.id, None));
    let events = logged(&until(&mut updates, ended).await);
    let told = events.iter().any(|logged| {
        matches!(&logged.event, Event::ToolFinished { outcome, .. } if outcome.output == "nobody knows it")
    });
    assert!(told);
}
