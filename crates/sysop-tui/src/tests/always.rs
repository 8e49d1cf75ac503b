//! The answer "allow always", and the proposed steps of a read-only session.
#![expect(clippy::wildcard_enum_match_arm, reason = "the rest is of no interest")]

use crossterm::event::KeyCode;
use sysop_core::event::{Decision, Event};
use sysop_core::id::CallId;
use sysop_core::outcome::Outcome;
use sysop_driver::frontend::OfferedRule;

use super::world::{World, bash, says};
use crate::app::{Action, KEY_DEBOUNCE, ReviewMode, State};

/// Puts a command under review, with the rule that the session service offers.
fn in_review(command: &str) -> World {
    let mut world = World::new();
    world.says("go").replies(bash("c1", command));
    let plan = world.app.proposal_without_offer().expect("nobody has looked for a rule");
    let file = "/home/me/rules.toml".to_owned();
    let offered = OfferedRule::for_proposal(world.app.transcript(), plan, file);
    world.app.set_offered_rule(offered);
    assert!(world.app.proposal_without_offer().is_none());
    world.is_read();
    world
}

fn has_decided(world: &World) -> bool {
    world.log.iter().any(|event| matches!(event, Event::Decided { .. }))
}

fn mode(world: &World) -> Option<ReviewMode> {
    world.app.review().map(|review| review.mode())
}

/// Rules that the front end asked to write.
fn written(world: &World) -> Vec<&OfferedRule> {
    let rules = world.actions.iter().filter_map(|act| match act {
        Action::AllowAlways(offered) => Some(offered),
        _ => None,
    });
    rules.collect()
}

#[test]
fn always_shows_the_rule_and_its_file_before_it_is_written() {
    let mut world = in_review("touch x");
    assert!(world.screen(120, 40).contains("A always"));
    world.answers_with('A');
    let screen = world.screen(120, 40);
    let rule = "match = { program = \"touch\", options = [], operands = [\"x\"], host = \"web1\" }";
    assert!(screen.contains(rule) && screen.contains("into /home/me/rules.toml"), "{screen}");
    assert!(screen.contains("The rule holds in every directory"), "{screen}");
    // A repeated key meant for the proposal does not confirm the rule.
    world.press(KeyCode::Enter);
    assert!(written(&world).is_empty() && mode(&world) == Some(ReviewMode::ConfirmingRule));
    world.is_read();
    assert!(world.screen(120, 40).contains("Enter save and run"));
    world.press(KeyCode::Enter);
    let [offered] = written(&world)[..] else { panic!("one rule is written: {:?}", world.actions) };
    assert!(offered.toml.contains(rule) && offered.call == CallId::new("c1"));
    assert!(!has_decided(&world), "whoever writes the rule allows the call");
    assert_eq!((world.app.review().is_none(), world.app.state()), (true, State::Executing));
    // Writing failed, so the proposal is under review again.
    world.app.failed("cannot write the rule".to_owned(), world.now);
    assert_eq!(mode(&world), Some(ReviewMode::Deciding));
    assert!(world.screen(120, 40).contains("cannot write the rule"));
}

#[test]
fn declining_a_rule_returns_to_the_proposal() {
    let mut world = in_review("touch x");
    world.answers_with('A').is_read().press(KeyCode::Esc);
    assert_eq!(mode(&world), Some(ReviewMode::Deciding));
    assert!(world.screen(120, 40).contains("Run this?"));
    // The proposal must be displayed again before a key counts.
    world.press(KeyCode::Enter);
    assert!(!has_decided(&world));
    world.is_read().press(KeyCode::Enter);
    assert!(has_decided(&world) && written(&world).is_empty());
}

#[test]
fn a_long_rule_must_be_scrolled_to_its_end() {
    let names: Vec<String> = (0..200).map(|at| format!("name{at}")).collect();
    let mut world = in_review(&format!("touch {}", names.join(" ")));
    world.answers_with('A');
    world.frame(40, 12);
    world.passes(KEY_DEBOUNCE);
    assert!(world.screen(40, 12).contains("Enter more"));
    world.press(KeyCode::Enter);
    assert!(written(&world).is_empty());
    for _ in 0..200 {
        world.frame(40, 12);
        world.press(KeyCode::Enter);
    }
    assert_eq!(written(&world).len(), 1);
}

#[test]
fn always_does_nothing_if_not_offered() {
    let plain = "rules cover one plain command without";
    for (command, why) in [
        ("rm -rf /etc", "the command is dangerous"),
        ("touch x; touch y", plain),
        ("touch x > y", plain),
        ("touch $(id)", plain),
        ("python3 prog.py | cat", plain),
        ("python3 prog.py", "the file that the command runs is not analyzed; allow it for this session"),
        ("./prog.sh", "the file that the command runs is not analyzed"),
    ] {
        let mut world = in_review(command);
        assert!(!world.screen(120, 40).contains("A always"), "{command}");
        world.answers_with('A');
        let screen = world.screen(120, 40);
        assert!(screen.contains(&format!("no rule possible: {why}")), "{command}: {screen}");
        assert!(!has_decided(&world) && mode(&world) == Some(ReviewMode::Deciding), "{command}");
    }
    // The rule does not apply to an edited command.
    let mut world = in_review("touch x");
    world.answers_with('i').types("y").press(KeyCode::Enter).is_read().answers_with('A');
    assert!(world.screen(120, 40).contains("only available for unedited commands"));
    assert!(!has_decided(&world));
}

#[test]
fn always_works_only_with_an_empty_composer() {
    let mut world = World::new();
    world.says("go").types("and").replies(bash("c1", "touch x"));
    let plan = world.app.proposal_without_offer().unwrap();
    let offered = OfferedRule::for_proposal(world.app.transcript(), plan, "rules.toml".to_owned());
    world.app.set_offered_rule(offered);
    world.is_read().answers_with('A');
    assert_eq!(mode(&world), Some(ReviewMode::Deciding));
    assert_eq!(world.app.composer().text(), "andA");
}

#[test]
fn the_plan_of_a_read_only_session_is_run_step_by_step() {
    let mut world = World::new();
    world.says("/approve never").says("go").replies(bash("c1", "touch one"));
    world.replies(bash("c2", "touch two")).replies(says("That is the plan."));
    assert!(world.running.is_none() && world.app.review().is_none());
    let listed =
        "· 2 proposed steps; /approve ask, then /plan runs the next one\n  1. touch one\n  2. touch two\n";
    assert!(world.screen(120, 40).contains(listed), "{}", world.screen(120, 40));
    let before = world.log.len();
    world.says("/plan");
    assert_eq!(world.app.flash(), Some("read-only: /approve ask first, then /plan"));
    assert_eq!(world.log.len(), before, "nothing starts");
    world.says("/approve ask");
    assert_eq!(world.app.flash(), Some("2 proposed steps; /plan runs the next one: `touch one`"));
    // The current approval mode decides, and it asks.
    world.says("/plan").is_read();
    assert!(world.screen(120, 40).contains("$ touch one"));
    world.press(KeyCode::Enter);
    let running = |world: &World| {
        world.running.as_ref().and_then(|call| call.text_argument("command")).map(str::to_owned)
    };
    assert_eq!(running(&world).as_deref(), Some("touch one"));
    world.ends(Outcome::ok(""));
    let screen = world.screen(120, 40);
    assert!(screen.contains("· from the plan") && !screen.contains("routine"), "{screen}");
    assert!(screen.contains("· 1 proposed step left; /plan runs the next one: `touch two`"), "{screen}");
    world.says("/approve auto").says("/plan");
    assert_eq!(running(&world).as_deref(), Some("touch two"));
    world.ends(Outcome::ok(""));
    assert!(world.screen(120, 40).contains("· no proposed steps left"));
    world.says("/plan");
    assert!(world.app.flash().is_some_and(|text| text.starts_with("no proposed steps; to get some")));
    let rejected = world.log.iter().any(
        |event| matches!(event, Event::Decided { decision, .. } if matches!(decision, Decision::Reject { .. })),
    );
    assert!(!rejected);
}
