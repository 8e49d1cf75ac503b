//! Budgets of tokens, cost and minutes.

use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::event::{ConfigChange, Effect, Event, Input, Origin, PauseReason};
use sysop_core::id::{Timestamp, TurnId};
use sysop_core::message::{FailureKind, Reply, Usage};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::session::{Activity, Session};

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
        Event::Paused { reason: PauseReason::Budget, detail, .. } => detail.clone(),
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
fn a_session_adds_up_its_turns_and_each_turn_starts_at_zero() {
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
fn a_limit_that_is_set_later_replaces_the_earlier_one_and_no_other() {
    let budget = Budget { session: tokens(10_000), turn: minutes(20) };
    let mut world = world("openai/gpt-4o", budget);
    world.prompt("one").reply(used(says("done"), 9_000));
    world.prompt("two");
    assert!(paused(&world).is_some());
    world.tell(Input::Cancel);
    let session = |tokens| Budget { session: tokens, ..Budget::default() };
    let set = |limit| Input::Configure { change: ConfigChange::Budget(session(tokens(limit))) };
    world.tell(set(10_000));
    assert!(world.last.events.is_empty(), "nothing new");
    world.tell(set(50_000)).prompt("three");
    assert_eq!((paused(&world), timer(&world)), (None, Some(16 * 60)), "the turn still has its minutes");
    world.reply(used(says("done"), 9_000)).tell(set(1_000)).prompt("four");
    let detail = paused(&world).expect("a pause");
    assert!(detail.starts_with("the session has used 18 k of 1000 tokens"), "{detail}");
    let replayed = Session::replay(world.log.clone()).expect("a log");
    assert_eq!(replayed.spec().budget, Budget { session: tokens(1_000), turn: minutes(20) });
}

#[test]
fn a_time_limit_set_during_a_turn_sets_its_timer() {
    let mut world = world("openai/gpt-4o", Budget::default());
    world.prompt("go");
    assert_eq!(timer(&world), None);
    let turn = Budget { turn: minutes(10), ..Budget::default() };
    world.tell(Input::Configure { change: ConfigChange::Budget(turn) });
    assert_eq!(timer(&world), Some(8 * 60));
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

fn minutes(limit: u32) -> BudgetLimits {
    BudgetLimits { minutes: Some(limit), ..BudgetLimits::default() }
}

/// Returns the seconds until the turn's timer that the last input set, if any.
fn timer(world: &World) -> Option<u64> {
    world.last.effects.iter().find_map(|effect| match effect {
        Effect::SetTurnTimer { after, .. } => Some(after.as_secs()),
        _ => None,
    })
}

fn notices(world: &World) -> Vec<&str> {
    let effects = world.last.effects.iter();
    let texts = effects.filter_map(|effect| match effect {
        Effect::Notify { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn time_out(world: &mut World, turn: u32, seconds: i64) {
    world.tell_at(seconds, Input::TurnTimer { turn: TurnId(turn) });
}

#[test]
fn minutes_pause_the_turn_and_stop_its_command() {
    let mut world = world("openai/gpt-4o", Budget { turn: minutes(20), ..Budget::default() });
    world.prompt("go");
    assert_eq!(timer(&world), Some(16 * 60));
    world.reply(calls(vec![bash("a", "sleep 9999")]));
    time_out(&mut world, 7, 1);
    assert!(world.last.events.is_empty() && world.last.effects.is_empty(), "a timer of another turn");
    time_out(&mut world, 1, 16 * 60);
    assert_eq!(notices(&world), ["80% of the turn's budget is used: 16 of 20 minutes"]);
    assert_eq!((timer(&world), paused(&world)), (Some(4 * 60), None));
    time_out(&mut world, 1, 20 * 60);
    assert_eq!(paused(&world).as_deref(), Some("the turn has run for 20 minutes"));
    assert!(notices(&world).is_empty());
    assert!(world.last.effects.iter().any(|effect| matches!(effect, Effect::CancelTool { .. })));
    world.outcome(Outcome::new(Status::Cancelled, "[stopped]"));
    assert_eq!((world.session.activity(), world.asked.is_none()), (Activity::Paused, true));
    world.tell_at(90 * 60, Input::Resume);
    assert_eq!((timer(&world), world.asked.is_some()), (Some(16 * 60), true));
    world.reply(says("done"));
    time_out(&mut world, 1, 110 * 60);
    assert!(world.last.events.is_empty(), "the turn is over");
}

#[test]
fn a_pause_does_not_count_and_its_timer_starts_again() {
    let mut world = world("openai/gpt-4o", Budget { turn: minutes(10), ..Budget::default() });
    world.prompt("go").reply(calls(vec![bash("a", "ls")]));
    world.tell_at(3 * 60, Input::Pause);
    world.outcome(Outcome::ok("x"));
    time_out(&mut world, 1, 8 * 60);
    assert!(world.last.events.is_empty() && world.last.effects.is_empty(), "the turn is paused");
    world.tell_at(60 * 60, Input::Resume);
    assert_eq!(timer(&world), Some(5 * 60));
    time_out(&mut world, 1, 65 * 60);
    assert_eq!((notices(&world).len(), timer(&world)), (1, Some(2 * 60)));
    time_out(&mut world, 1, 67 * 60 - 1);
    assert_eq!((paused(&world), timer(&world)), (None, Some(1)));
    time_out(&mut world, 1, 67 * 60);
    assert_eq!(paused(&world).as_deref(), Some("the turn has run for 10 minutes"));
}

#[test]
fn the_minutes_of_a_session_count_over_its_turns_and_survive_a_restart() {
    let mut world = world("openai/gpt-4o", Budget { session: minutes(10), ..Budget::default() });
    world.prompt("one");
    world.tell_at(6 * 60, Input::Pause);
    world.reply(says("done"));
    world.tell_at(30 * 60, Input::Resume);
    world.direct("bash", "ls", Origin::User);
    assert_eq!(timer(&world), None, "a command that a user types does not count");
    world.tell_at(50 * 60, Input::Pause);
    world.outcome(Outcome::ok("x"));
    let log = world.log.clone();
    let mut reopened = Session::replay(log).expect("a log");
    assert_eq!(reopened, world.session);
    let started = reopened.handle_at(Timestamp(3_600_000), Input::prompt("two"));
    let after = started.effects.iter().find_map(|effect| match effect {
        Effect::SetTurnTimer { after, .. } => Some(after.as_secs()),
        _ => None,
    });
    assert_eq!(after, Some(2 * 60), "8 minutes are 80%, of which 6 are spent");
    world.tell_at(60 * 60, Input::prompt("two"));
    time_out(&mut world, 3, 62 * 60);
    assert_eq!(notices(&world), ["80% of the session's budget is used: 8 of 10 minutes"]);
    time_out(&mut world, 3, 64 * 60);
    assert_eq!(paused(&world).as_deref(), Some("the session has run for 10 minutes"));
    world.tell(Input::Cancel);
    world.prompt("three");
    assert_eq!(paused(&world).as_deref(), Some("the session has run for 10 minutes"));
    world.tell(Input::Resume);
    assert_eq!((world.asked.is_some(), timer(&world)), (true, Some(8 * 60)));
}

#[test]
fn users_are_notified_once_when_80_percent_of_a_budget_are_spent() {
    let budget = Budget { turn: tokens(50_000), session: tokens(100_000) };
    let mut world = world("openai/gpt-4o", budget);
    let eight_steps = |world: &mut World| {
        for number in 0..8 {
            world.reply(used(calls(vec![bash("a", &format!("echo {number}"))]), 4_400));
            assert!(notices(world).is_empty());
            world.outcome(Outcome::ok("x"));
        }
    };
    world.prompt("one");
    eight_steps(&mut world);
    world.reply(used(says("done"), 4_400));
    assert_eq!(notices(&world), ["81% of the turn's budget is used: 40 k of 50 k tokens"]);
    world.prompt("two");
    eight_steps(&mut world);
    world.reply(used(calls(vec![bash("b", "ls")]), 4_400));
    assert_eq!(
        notices(&world),
        [
            "81% of the turn's budget is used: 40 k of 50 k tokens",
            "81% of the session's budget is used: 81 k of 100 k tokens"
        ]
    );
    world.outcome(Outcome::ok("x")).reply(used(says("done"), 100));
    assert!(notices(&world).is_empty(), "once");
    world.session = Session::replay(world.log.clone()).expect("a log");
    world.prompt("three").reply(used(says("done"), 100));
    assert!(notices(&world).is_empty(), "not again after a restart");
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
