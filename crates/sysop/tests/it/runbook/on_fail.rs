//! What a run does after a step that fails, by the step's `on_fail`, wherever in the step the failure is.

use super::{run, with_steps};
use crate::World;
use crate::person::{Person, at_a_terminal};

/// Ways in which a step fails, with the difference that the run names.
const FAILURES: [(&str, &str); 5] = [
    ("cmd = 'exit 3'", "exit code 3, expected 0"),
    ("cmd = 'echo an error'\nexpect = { not_match = 'error' }", "the output matches /error/"),
    ("check = 'test -e nothing'\ncmd = 'touch ran'", "`check` failed before the step: exit code 1"),
    ("cmd = 'true'\nverify = 'test -e nothing'", "`verify` failed after the step: exit code 1"),
    ("unless = 'test -e nothing'\ncmd = 'exit 4'", "exit code 4, expected 0"),
];

/// Makes `a`, something without an undo, and `b`, fails, and makes `after`. Each undo notes itself in `undone`.
fn failing(failure: &str, on_fail: &str) -> World {
    with_steps(&format!(
        "[[routines.r.steps]]\nname = 'a'\ncmd = 'mkdir a'\nundo = 'rmdir a && echo a >>undone'\n\
         [[routines.r.steps]]\nname = 'plain'\ncmd = 'touch plain'\n\
         [[routines.r.steps]]\nname = 'b'\ncmd = 'mkdir b'\nundo = 'rmdir b && echo b >>undone'\n\
         [[routines.r.steps]]\nname = 'fail'\n{failure}\n{on_fail}\n\
         [[routines.r.steps]]\nname = 'after'\ncmd = 'touch after'\nundo = 'rm after'\n"
    ))
}

const ORDER: &str = "to undo the steps so far, in this order:\n  step 3: rmdir b && echo b >>undone\n  \
                     step 1: rmdir a && echo a >>undone\n  steps without undo: ";

#[test]
fn a_run_stops_at_a_failed_step_and_names_the_undo_without_running_it() {
    for on_fail in ["", "on_fail = 'stop'"] {
        for (failure, difference) in FAILURES {
            let world = failing(failure, on_fail);
            let ran = run(&world, &["r"]);
            assert_eq!(ran.code, Some(1), "{failure}: {ran:?}");
            let stopped = format!("stopped at step 4 of 5 (fail): {difference}");
            assert!(ran.err.contains(&stopped) && ran.err.contains("--from 4"), "{failure}: {ran:?}");
            assert!(ran.err.contains(ORDER), "{failure}: {ran:?}");
            assert!(world.has("a") && world.has("b") && !world.has("undone"), "{failure}: {ran:?}");
            assert!(!world.has("after") && !world.has("ran"), "{failure}: {ran:?}");
        }
    }
}

#[test]
fn a_run_continues_after_a_failed_step_that_says_so() {
    for (failure, difference) in FAILURES {
        let world = failing(failure, "on_fail = 'continue'");
        let ran = run(&world, &["r"]);
        assert_eq!(ran.code, Some(0), "{failure}: {ran:?}");
        assert!(ran.err.contains(&format!("failed, continuing: {difference}")), "{failure}: {ran:?}");
        assert!(ran.err.contains("failed and skipped: step 4"), "{failure}: {ran:?}");
        assert!(world.has("after") && world.has("b"), "{failure}: {ran:?}");
        assert!(!world.has("ran") && !world.has("undone"), "{failure}: {ran:?}");
    }
}

#[test]
fn nothing_is_undone_without_a_person() {
    for (failure, difference) in FAILURES {
        let world = failing(failure, "on_fail = 'undo'");
        let ran = run(&world, &["r"]);
        assert_eq!(ran.code, Some(1), "{failure}: {ran:?}");
        assert!(
            ran.err.contains(&format!("stopped at step 4 of 5 (fail): {difference}")),
            "{failure}: {ran:?}"
        );
        assert!(ran.err.contains(ORDER), "{failure}: {ran:?}");
        assert!(
            ran.err.contains("nothing was undone; undo with `sysop run --approve auto r --undo --from "),
            "{ran:?}"
        );
        assert!(world.has("a") && world.has("b"), "{failure}: {ran:?}");
        assert!(!world.has("undone") && !world.has("after"), "{failure}: {ran:?}");
    }
}

/// Runs the routine on a terminal, where a person gives `answer` to the question about the undo.
fn run_and_answer(world: &World, answer: &str) -> (i32, String) {
    at_a_terminal(async {
        let mut person = Person::sits_down(world, &["run", "--approve", "auto", "r"]);
        person.sees("Undo these steps now, in this order?").await;
        person.sees("y yes").await;
        person.types(answer).await;
        person.leaves().await
    })
}

#[test]
fn a_person_has_the_steps_undone_in_reverse_order() {
    for (failure, _) in FAILURES {
        let world = failing(failure, "on_fail = 'undo'");
        let (code, seen) = run_and_answer(&world, "y");
        assert_eq!(code, 1, "{failure}: {seen}");
        assert_eq!(world.read("undone"), "b\na\n", "{failure}: {seen}");
        assert!(
            seen.contains("step 2 of 5 (plain) has no undo") && seen.contains("undone: 2 steps"),
            "{seen}"
        );
        assert!(!world.has("a") && !world.has("b") && !world.has("after"), "{failure}: {seen}");
        assert!(world.has("plain"), "{failure}: {seen}");
    }
    let world = failing("cmd = 'exit 3'", "on_fail = 'undo'");
    let (code, seen) = run_and_answer(&world, "n");
    assert_eq!((code, world.has("undone"), world.has("a")), (1, false, true), "{seen}");
    assert!(seen.contains("nothing was undone"), "{seen}");
}

#[test]
fn a_failed_undo_leaves_the_earlier_steps_alone() {
    let world = failing("cmd = 'touch b/in-the-way && exit 3'", "on_fail = 'undo'");
    let (code, seen) = run_and_answer(&world, "y");
    assert_eq!(code, 1, "{seen}");
    assert!(world.has("a") && world.has("b") && !world.has("undone"), "{seen}");
    let unwrapped = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("the undo of step 3 of 5 (b) failed: exit code 1, expected 0"), "{seen}");
    assert!(unwrapped.contains("sysop run --approve auto r --undo --from 3"), "{seen}");
}

#[test]
fn an_undo_that_the_policy_refuses_does_not_run() {
    let world =
        failing("cmd = 'exit 3'", "on_fail = 'undo'").file("work/.sysop.toml", "deny = ['rmdir b']\n");
    let (code, seen) = run_and_answer(&world, "y");
    assert_eq!(code, 1, "{seen}");
    assert!(world.has("a") && world.has("b") && !world.has("undone"), "{seen}");
}

#[test]
fn the_plan_says_what_follows_a_failure() {
    for (on_fail, line) in [
        ("on_fail = 'undo'", Some("on failure: offers to undo the steps so far")),
        ("on_fail = 'continue'", Some("on failure: continues")),
        ("on_fail = 'stop'", None),
    ] {
        let world = failing("cmd = 'exit 3'", on_fail);
        let plan = world.finish(&["run", "--plan", "r"]);
        assert_eq!(plan.code, Some(0), "{plan:?}");
        assert_eq!(plan.out.contains("on failure"), line.is_some(), "{plan:?}");
        assert!(line.is_none_or(|line| plan.out.contains(line)), "{plan:?}");
    }
}
