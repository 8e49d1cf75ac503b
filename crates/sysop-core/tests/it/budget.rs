//! Budgets of tokens, cost and minutes.

use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::event::{Effect, Event, Input, PauseReason};
use sysop_core::id::TurnId;
use sysop_core::message::{FailureKind, Reply, Usage};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Activity;

use crate::world::{World, bash, calls, says, spec};

fn world(model: &str, budget: Budget) -> World {
    let mut spec = spec(ApprovalMode::Auto);
    spec.model = model.parse().expect("a model");
    spec.budget = budget;
    World::new(spec)
}

fn tokens(limit: u64) -> BudgetLimits {
    BudgetLimits { tokens: Some(limit), ..BudgetLimits::default() }
}

fn used(reply: Reply, input_tokens: u64) -> Reply {
    Reply { usage: Usage { input_tokens, output_tokens: 100, cached_tokens: 0 }, ..reply }
}

fn step(world: &mut World, id: &str, input_tokens: u64) {
    world.reply(used(calls(vec![bash(id, &format!("echo {id}"))]), input_tokens));
    world.outcome(Outcome::ok("x"));
}

fn paused(world: &World) -> Option<String> {
    world.last.events.iter().find_map(|event| match event {
        Event::Paused { reason: PauseReason::Budget, detail } => detail.clone(),
        _ => None,
    })
}

#[test]
fn a_turn_pauses_before_the_call_that_would_exceed_its_tokens() {
    let mut world = world("openai/gpt-4o", Budget { turn: tokens(10_000), ..Budget::default() });
    world.prompt("go");
    step(&mut world, "a", 3_000);
    assert_eq!(paused(&world), None);
    step(&mut world, "b", 3_500);
    let detail = paused(&world).expect("a pause");
    assert!(
        detail.starts_with("the turn has used 6700 of 10 k tokens, and the next call takes about 3"),
        "{detail}"
    );
    assert_eq!((world.session.activity(), world.asked.is_none()), (Activity::Paused, true));
    world.tell(Input::Resume);
    assert!(world.asked.is_some(), "the same amount is granted once more");
    step(&mut world, "c", 4_000);
    assert_eq!(paused(&world), None);
    step(&mut world, "d", 4_500);
    assert!(paused(&world).is_some());
}

#[test]
fn a_session_counts_over_its_turns_and_a_turn_starts_afresh() {
    let budget = Budget { turn: tokens(8_000), session: tokens(12_000) };
    let mut world = world("openai/gpt-4o", budget);
    for prompt in ["one", "two"] {
        world.prompt(prompt);
        assert_eq!(paused(&world), None, "{prompt}");
        world.reply(used(says("done"), 5_000));
    }
    world.prompt("three");
    let detail = paused(&world).expect("a pause");
    assert!(detail.starts_with("the session has used 10 k of 12 k tokens"), "{detail}");
    world.tell(Input::Cancel);
    assert!(world.lines().contains("ended paused"), "{}", world.lines());
}

#[test]
fn a_cost_is_limited_by_the_price_of_the_model() {
    let cost = BudgetLimits { cost: Some(0.02), ..BudgetLimits::default() };
    let mut world = world("openai/gpt-4o", Budget { session: cost, ..Budget::default() });
    world.prompt("go");
    step(&mut world, "a", 4_000); // $2.50 per million in, $10 out: about 1.1 cents
    assert_eq!(paused(&world), None);
    step(&mut world, "b", 4_000);
    let detail = paused(&world).expect("a pause");
    assert!(detail.starts_with("the session has cost $0.022 of $0.02"), "{detail}");
}

#[test]
fn a_cost_limit_stops_a_model_without_a_price_and_not_a_local_one() {
    let cost = BudgetLimits { cost: Some(0.01), ..BudgetLimits::default() };
    let budget = Budget { turn: cost, ..Budget::default() };
    let mut unknown = world("openai/my-model", budget);
    unknown.prompt("go");
    assert!(paused(&unknown).expect("a pause").starts_with("the price of the model is unknown"));
    let mut local = world("ollama/qwen", budget);
    local.prompt("go");
    step(&mut local, "a", 1_000_000);
    assert_eq!(paused(&local), None);
}

#[test]
fn minutes_pause_the_turn_and_stop_its_command() {
    let minutes = BudgetLimits { minutes: Some(20), ..BudgetLimits::default() };
    let mut world = world("openai/gpt-4o", Budget { turn: minutes, ..Budget::default() });
    world.prompt("go");
    let timer = |world: &World| {
        world.last.effects.iter().any(|effect| {
            matches!(effect, Effect::SetTurnTimer { turn: TurnId(1), after } if after.as_secs() == 1_200)
        })
    };
    assert!(timer(&world));
    world.reply(calls(vec![bash("a", "sleep 9999")]));
    world.tell(Input::TurnTimer { turn: TurnId(7) });
    assert!(world.last.events.is_empty() && world.last.effects.is_empty(), "a timer of another turn");
    world.tell(Input::TurnTimer { turn: TurnId(1) });
    assert_eq!(paused(&world).as_deref(), Some("the turn has run for 20 minutes"));
    assert!(world.last.effects.iter().any(|effect| matches!(effect, Effect::CancelTool { .. })));
    world.outcome(Outcome::new(Status::Cancelled, "[stopped]"));
    assert_eq!((world.session.activity(), world.asked.is_none()), (Activity::Paused, true));
    world.tell(Input::Resume);
    assert!(timer(&world) && world.asked.is_some());
    world.reply(says("done"));
    world.tell(Input::TurnTimer { turn: TurnId(1) });
    assert!(world.last.events.is_empty(), "the turn is over");
}

#[test]
fn a_provider_that_refuses_for_the_day_pauses_the_turn() {
    let mut world = World::auto();
    world.prompt("go").fail(FailureKind::Budget);
    assert!(paused(&world).is_some(), "{}", world.lines());
    assert_eq!(world.session.activity(), Activity::Paused);
    world.tell(Input::Resume);
    assert!(world.asked.is_some(), "a resumed turn tries again");
}
