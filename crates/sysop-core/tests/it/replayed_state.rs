//! State that only logged events change: todo list, jobs, guards, compaction, approvers.

use sysop_core::compaction::Compaction;
use sysop_core::event::{Decision, Event};
use sysop_core::guard::{GUARDS_MAX, GuardEnd};
use sysop_core::id::{CallId, JobId};
use sysop_core::job::JOBS_MAX;
use sysop_core::job::JobOutput;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Status;
use sysop_core::policy::{Grant, Risk};
use sysop_core::session::Session;
use sysop_core::todo::{LIST_ITEMS_MAX, TodoItem, TodoState};

fn opened() -> Event {
    let event = serde_json::json!({"type": "session_opened", "opened_by": "ada", "spec": {
        "model": "mock/mock", "system": "", "tools": [], "approve": "ask", "dangerous_patterns": [],
        "max_iterations": 5, "max_history_messages": 5, "host": "local", "root": "/", "profile": "coder"}});
    serde_json::from_value(event).expect("an event")
}

fn replay(events: impl IntoIterator<Item = Event>) -> Session {
    Session::replay([opened()].into_iter().chain(events)).expect("it is opened")
}

fn todo(count: usize) -> Event {
    let item = |n| TodoItem { text: format!("item {n}"), state: TodoState::Pending };
    Event::TodoChanged { items: (0..count).map(item).collect() }
}

fn job(number: u32) -> Event {
    let call = CallId::new("c");
    Event::JobStarted { job: JobId(number), call, command: "make".into(), host: "web1".into() }
}

fn armed(call: &str) -> Event {
    Event::GuardArmed { call: CallId::new(call), host: "web1".into(), seconds: 120 }
}

#[test]
fn replay_restores_who_opened_the_session() {
    assert_eq!(replay([]).opened_by(), Some("ada"));
}

#[test]
fn replay_keeps_the_last_todo_list_within_its_limit() {
    assert_eq!(replay([todo(3), todo(2)]).todo().len(), 2);
    let session = replay([todo(LIST_ITEMS_MAX + 7)]);
    assert_eq!(session.todo().len(), LIST_ITEMS_MAX);
    assert_eq!(session.todo()[0].text, "item 0");
    assert!(replay([todo(3), Event::HistoryCleared]).todo().is_empty());
}

#[test]
fn jobs_run_until_they_end_and_are_bounded() {
    let ended = Event::JobFinished {
        job: JobId(1),
        status: Status::Unknown,
        exit_code: None,
        output: JobOutput::default(),
    };
    let session = replay([job(1), job(2), ended]);
    let running: Vec<_> = session.jobs().iter().map(|(id, job)| (id, job.host.as_str())).collect();
    assert_eq!(running, [(JobId(2), "web1")]);
    let many = u32::try_from(JOBS_MAX).unwrap() + 5;
    let session = replay((1..=many).map(job));
    assert_eq!(session.jobs().iter().count(), JOBS_MAX);
    assert_eq!(session.jobs().iter().next().map(|(id, _)| id), Some(JobId(6)));
}

#[test]
fn guards_are_armed_until_they_end_and_are_bounded() {
    let how = GuardEnd::Unknown;
    let ended = Event::GuardEnded { call: CallId::new("a"), host: "web1".into(), how };
    let session = replay([armed("a"), armed("b"), armed("b"), ended]);
    let calls: Vec<_> = session.guards().iter().map(|guard| guard.call.as_str()).collect();
    assert_eq!(calls, ["b"]);
    let session = replay((0..GUARDS_MAX + 3).map(|n| armed(&format!("c{n}"))));
    assert_eq!((session.guards().len(), session.guards()[0].call.as_str()), (GUARDS_MAX, "c3"));
}

#[test]
fn the_last_compaction_applies_until_the_history_is_cleared() {
    let compacted =
        |keep| Event::ContextCompacted { compaction: Compaction { keep, ..Compaction::default() } };
    let keep = |session: &Session| session.compaction().map(|compaction| compaction.keep);
    assert_eq!(keep(&replay([compacted(3), compacted(4)])), Some(4));
    assert_eq!(keep(&replay([compacted(3), Event::HistoryCleared])), None);
}

#[test]
fn replay_restores_the_users_who_allowed_the_pending_call() {
    let call = ToolCall {
        id: CallId::new("a"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(serde_json::Map::new()),
    };
    let turn = Event::TurnStarted {
        turn: sysop_core::id::TurnId(1),
        prompt: String::new(),
        origin: sysop_core::event::Origin::Routine,
        images: Vec::new(),
        by: None,
    };
    let asked = Event::ApprovalAsked {
        call: call.clone(),
        command: "reboot".into(),
        reason: String::new(),
        risk: Risk::default(),
        covers: Grant::Exact { command: "reboot".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    };
    let given = |call: &str, by: &str| Event::ApprovalGiven {
        call: CallId::new(call),
        by: by.into(),
        person: None,
        needed: 2,
    };
    let mut log =
        vec![given("a", "eve"), turn, asked, given("a", "ada"), given("a", "ada"), given("b", "bob")];
    assert_eq!(replay(log.clone()).approvers(), ["ada"]);
    log.push(given("a", "bob"));
    assert_eq!(replay(log.clone()).approvers(), ["ada", "bob"]);
    log.push(Event::Decided {
        call: call.id.clone(),
        decision: Decision::Allow { command: None },
        by: "bob".into(),
    });
    log.push(Event::ToolStarted { call, origin: sysop_core::event::Origin::Routine });
    assert!(replay(log).approvers().is_empty(), "the consents are for this call, not for the next");
}
