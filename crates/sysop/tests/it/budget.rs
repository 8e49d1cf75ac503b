//! Budgets of a task: limits of tokens and cost.

use serde_json::Value;

use crate::World;
use crate::support::{Mock, bash, lines_of_json, say};

fn spent_today(world: &World) -> Value {
    let text = std::fs::read_to_string(world.data().join("spent_today.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn three_steps() -> Mock {
    Mock::start(&[("count", vec![bash("echo one"), bash("echo two"), bash("echo three"), say("Counted.")])])
}

#[test]
fn a_task_stops_before_the_call_that_would_exceed_its_tokens() {
    let server = three_steps();
    let world = World::with_openai(&server.url());
    let run = world.finish(&["exec", "--max-tokens-total", "3k", "count"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("stopped by the budget: the session has used "), "{run:?}");
    assert!(run.err.contains(" of 3000 tokens, and the next call takes about "), "{run:?}");
    let asked = server.requests().len();
    assert!((1..4).contains(&asked), "{asked} model calls");

    let enough = World::with_openai(&server.url());
    let run = enough.finish(&["exec", "--max-tokens-total", "200k", "count"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Counted.\n"), "{run:?}");
}

#[test]
fn a_limit_given_on_resume_replaces_that_of_the_session() {
    let server = Mock::start(&[("count", vec![say("One.")])]);
    let world = World::with_openai(&server.url());
    assert_eq!(world.finish(&["exec", "--max-tokens-total", "200k", "count"]).code, Some(0));
    let run = world.finish(&["exec", "-c", "--max-tokens-total", "10", "count"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("stopped by the budget: the session has used "), "{run:?}");
    let run = world.finish(&["exec", "-c", "count"]);
    assert_eq!(run.code, Some(1), "the session keeps its limit: {run:?}");
    let run = world.finish(&["exec", "-c", "--max-tokens-total", "1M", "count"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "One.\n"), "{run:?}");
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
    let told = "stopped by the budget: the session's budget is too small: the next call costs about $";
    assert!(run.err.contains(told) && run.err.contains(", but only $0.50 is left"), "{run:?}");
    let from_environment =
        World::new().variable("LLM_BASE_URL", &server.url()).variable("LLM_DEFAULT_MODEL", "unheard-of");
    let asked = server.requests().len();
    let run = from_environment.finish(&["exec", "--max-cost", "0.50", "count"]);
    assert_eq!((run.code, server.requests().len()), (Some(2), asked), "{run:?}");
    assert!(run.err.contains("the price of openai/unheard-of is unknown"), "{run:?}");
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
    assert!(third.err.contains("stopped by the budget: all sessions today have used "), "{third:?}");
    assert!(third.err.contains(" of 10 k tokens") && third.err.contains("[budget] day"), "{third:?}");
    assert!(server.requests().len() - asked < 4, "the later sessions stop");

    let priced =
        World::with_openai(&server.url()).file(".config/sysop/config.toml", "[budget]\nday = { cost = 1 }\n");
    let run = priced.finish(&["exec", "count"]);
    assert_eq!(run.code, Some(2), "a limit of cost needs a price: {run:?}");
}

#[test]
fn a_line_says_that_80_percent_of_a_budget_are_used() {
    let steps: Vec<_> =
        (0..9).map(|number| bash(&format!("echo {number}"))).chain([say("Counted.")]).collect();
    let server = Mock::start(&[("count", steps)]);
    let world = World::with_openai(&server.url())
        .file(".config/sysop/config.toml", "[budget]\nturn = { minutes = 60 }\nday = { tokens = 1000000 }\n");
    world.finish(&["exec", "--max-tokens-total", "1M", "count"]);
    let tokens = spent_today(&world)["tokens"].as_u64().expect("a number");

    // The same task again, with a limit that it nearly reaches.
    let limit = (tokens * 11 / 10).to_string();
    let run = world.finish(&["exec", "--max-tokens-total", &limit, "count"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Counted.\n"), "{run:?}");
    assert_eq!(run.err.matches("% of the session's budget is used: ").count(), 1, "{run:?}");
    let json = world.finish(&["exec", "--json", "--max-tokens-total", &limit, "count"]);
    let notices = lines_of_json(&json.out).into_iter().filter(|line| line["type"] == "notice");
    assert_eq!(notices.filter(|line| line["content"].to_string().contains("session's budget")).count(), 1);
}

#[test]
fn the_minutes_of_a_day_count_in_all_sessions() {
    let server = three_steps();
    let world = World::with_openai(&server.url())
        .file(".config/sysop/config.toml", "[budget]\nday = { minutes = 1 }\n");
    let first = world.finish(&["exec", "count"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let mut today = spent_today(&world);
    assert!(today["time_ms"].as_u64() > Some(0), "{today}");
    today["time_ms"] = 60_000.into();
    let world = world.file(".local/share/sysop/spent_today.json", &today.to_string());
    let second = world.finish(&["exec", "count"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.err.contains("all sessions today have run for 1 minute\n"), "{second:?}");
}
