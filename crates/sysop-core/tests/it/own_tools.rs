//! Tools that a session answers itself: the todo list. `read_output` is tested with compaction.

use serde_json::{Value, json};
use sysop_core::catalog::{Profile, tools};
use sysop_core::event::{Event, Input};
use sysop_core::message::Message;
use sysop_core::model_limits::ModelLimits;
use sysop_core::policy::ApprovalMode;
use sysop_core::todo::{TodoItem, TodoState};

use crate::world::{World, bash, call, calls, spec};

fn todo(world: &mut World, id: &str, items: Value) -> String {
    world.reply(calls(vec![call(id, "todo", json!({ "items": items }))]));
    assert!(world.running.is_none(), "nothing runs");
    let (_, request) = world.asked.as_ref().expect("the model is asked");
    match request.messages.last().expect("a message").message() {
        Message::ToolResults { results } => results[0].output.clone(),
        other => panic!("{other:?}"),
    }
}

/// A world whose session has the todo list too.
fn with_list(approve: ApprovalMode) -> World {
    let mut spec = spec(approve);
    spec.tools.extend(tools(Profile::Full).into_iter().filter(|tool| tool.name == "todo"));
    World::new(spec)
}

fn lists(world: &World) -> Vec<Vec<TodoItem>> {
    let of = |event: &Event| match event {
        Event::TodoChanged { items } => Some(items.clone()),
        _ => None,
    };
    world.log.iter().filter_map(of).collect()
}

#[test]
fn a_model_sets_the_todo_list_without_approval() {
    let mut world = with_list(ApprovalMode::Each);
    world.prompt("clean up");
    let items = json!([{"text": " look ", "state": "done"}, {"text": "rm", "state": "active"}]);
    assert_eq!(todo(&mut world, "a", items.clone()), "1 of 2 done; now: rm");
    let expected = [("look", TodoState::Done), ("rm", TodoState::Active)];
    let expected = expected.map(|(text, state)| TodoItem { text: text.to_owned(), state });
    assert_eq!(world.session.todo(), expected);
    todo(&mut world, "b", items);
    assert_eq!(lists(&world).len(), 1, "an unchanged list causes no event");
    assert_eq!(todo(&mut world, "c", json!([])), "the list is empty");
    assert!(world.session.todo().is_empty());
}

#[test]
fn an_invalid_list_changes_nothing() {
    let mut world = with_list(ApprovalMode::Each);
    world.prompt("clean up");
    for (id, items) in
        [("a", json!("x")), ("b", json!([{"text": 7, "state": "done"}])), ("c", json!([{"state": "lost"}]))]
    {
        let answer = todo(&mut world, id, items);
        assert!(answer.starts_with("invalid arguments of `todo`"), "{answer}");
    }
    let long = json!(vec![json!({"text": "x".repeat(2_000), "state": "pending"}); 300]);
    todo(&mut world, "d", long);
    let list = world.session.todo();
    assert_eq!((list.len(), list[0].text.len()), (100, 500));
    assert_eq!(lists(&world).len(), 1);
}

#[test]
fn only_the_operators_profiles_have_the_list() {
    for (profile, offered) in [
        (Profile::Full, true),
        (Profile::Operator, true),
        (Profile::Coder, false),
        (Profile::Workspace, false),
    ] {
        assert_eq!(tools(profile).iter().any(|tool| tool.name == "todo"), offered, "{profile}");
    }
}

#[test]
fn a_tool_of_a_client_with_the_same_name_runs_there_and_changes_no_list() {
    let mut world = with_list(ApprovalMode::Auto);
    world.lend("/home/me", &["todo"]);
    world.prompt("clean up");
    world.reply(calls(vec![call("a", "todo", json!({"path": "x"}))]));
    assert_eq!(world.running.as_ref().map(|call| call.name.as_str()), Some("todo"));
    assert!(lists(&world).is_empty());
}

#[test]
fn the_list_is_repeated_after_a_compaction() {
    let mut spec = with_list(ApprovalMode::Auto).session.spec().clone();
    spec.max_history_messages = 0;
    spec.max_iterations = 1_000;
    let limits = ModelLimits { context_window: Some(8_192), ..ModelLimits::default() };
    spec.models.insert(spec.model.to_string(), limits);
    let mut world = World::new(spec);
    world.prompt("clean up");
    todo(
        &mut world,
        "t",
        json!([{"text": "look", "state": "done"}, {"text": "rotate logs", "state": "pending"}]),
    );
    for n in 0..150 {
        world.reply(calls(vec![bash(&format!("c{n}"), &format!("show {n}"))]));
        world.outcome(sysop_core::outcome::Outcome::ok("y".repeat(800)));
    }
    let (_, request) = world.asked.as_ref().expect("the model is asked");
    let Message::User { text, .. } = request.messages[0].message() else { panic!("not a user's message") };
    assert!(text.contains("[x] look\n[ ] rotate logs"), "{text}");
    world.tell(Input::Cancel);
}
