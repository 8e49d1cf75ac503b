//! Budgets of a task: limits of tokens and cost.

use crate::World;
use crate::support::{Mock, bash, lines_of_json, say};

fn three_steps() -> Mock {
    Mock::start(&[("count", vec![bash("echo one"), bash("echo two"), bash("echo three"), say("Counted.")])])
}

#[test]
fn a_task_stops_before_the_call_that_would_exceed_its_tokens() {
    let server = three_steps();
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--max-tokens-total", "3k", "count"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("stopped: the budget is spent: the session has used "), "{run:?}");
    assert!(run.err.contains(" of 3000 tokens, and the next call takes about "), "{run:?}");
    let asked = server.requests().len();
    assert!((1..4).contains(&asked), "{asked} model calls");

    let enough = World::with_openai(&server.url());
    let run = enough.finish(&["exec", "--max-tokens-total", "200k", "count"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Counted.\n"), "{run:?}");
}

#[test]
fn the_config_limits_a_turn_and_json_has_the_reason() {
    let server = three_steps();
    let world = World::with_openai(&server.url())
        .file(".config/sysop/config.toml", "[budget]\nturn = { tokens = 3000 }\n");
    let run = world.finish(&["exec", "--json", "count"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let done = lines_of_json(&run.out).into_iter().find(|line| line["type"] == "assistant.done");
    let done = done.unwrap_or_else(|| panic!("no end of the turn: {run:?}"));
    assert_eq!(
        (&done["metadata"]["stopReason"], &done["metadata"]["reason"]),
        (&"paused".into(), &"budget".into())
    );
}

#[test]
fn a_cost_limit_needs_a_price() {
    let server = three_steps();
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--max-cost", "0.50", "count"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("the price of openai/") && run.err.contains("[prices."), "{run:?}");
    assert!(run.err.contains("--max-tokens-total"), "{run:?}");
    assert!(server.requests().is_empty());

    let prices = "[prices.\"openai/test-model\"]\ninput = 1000\noutput = 1000\n";
    let priced = World::with_openai(&server.url()).file(".config/sysop/config.toml", prices);
    let run = priced.finish(&["exec", "--max-cost", "0.50", "count"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("the budget is spent: the session has cost $"), "{run:?}");
    for amount in ["-1", "nan", "free"] {
        let run = priced.finish(&["exec", "--max-cost", amount, "count"]);
        assert_eq!(run.code, Some(2), "{run:?}");
    }
}

#[test]
fn the_sessions_of_a_day_share_a_budget() {
    let server = three_steps();
    let world = World::with_openai(&server.url())
        .file(".config/sysop/config.toml", "[budget]\nday = { tokens = 10000 }\n");
    let first = world.finish(&["exec", "count"]);
    assert_eq!((first.code, first.out.as_str()), (Some(0), "Counted.\n"), "{first:?}");
    let asked = server.requests().len();
    let second = world.finish(&["exec", "--json", "count"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let done = lines_of_json(&second.out).into_iter().find(|line| line["type"] == "assistant.done").unwrap();
    assert_eq!(done["metadata"]["reason"], "budget", "{done}");
    let third = world.finish(&["exec", "count"]);
    assert!(third.err.contains("the budget is spent: all sessions of today have used "), "{third:?}");
    assert!(third.err.contains(" of 10 k tokens") && third.err.contains("[budget] day"), "{third:?}");
    assert!(server.requests().len() - asked < 4, "the later sessions stop");

    let priced =
        World::with_openai(&server.url()).file(".config/sysop/config.toml", "[budget]\nday = { cost = 1 }\n");
    let run = priced.finish(&["exec", "count"]);
    assert_eq!(run.code, Some(2), "a limit of cost needs a price: {run:?}");
}
