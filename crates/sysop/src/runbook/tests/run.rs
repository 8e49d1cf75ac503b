//! The run of a runbook after a failure, call by call: which call, question or end follows.

use std::collections::BTreeMap;

use sysop_repl::Exit;
use sysop_repl::exec::{
    CallRole, CommandSequence, SequenceAction, SequenceAnswer, SequenceCall, SequenceEvent,
};

use super::*;
use crate::runbook::run::{RunRange, RunbookRun};

/// A run, its next action, and the lines that it printed so far.
struct Play {
    run: RunbookRun,
    action: SequenceAction,
    said: Vec<String>,
}

impl Play {
    /// Starts the steps on a system that has all programs.
    fn new(steps: &str) -> Self {
        Self::with_flags(&GlobalFlags::default(), steps)
    }

    fn with_flags(flags: &GlobalFlags, steps: &str) -> Self {
        let text = format!("[routines.r]\ndescription = 'x'\n{steps}");
        let mut read = routines_of_text(Path::new("book.toml"), &text).unwrap();
        let routine = read.routines.remove("r").unwrap();
        assert!(routine.faults.is_empty(), "{:?}", routine.faults);
        let (values, invocation) = (BTreeMap::new(), "sysop run r".to_owned());
        let book = Runbook { name: "r".to_owned(), routine, values, invocation };
        let settings = load(&World::new(), flags, &[]).unwrap();
        let mut run = RunbookRun::new(book, RunRange::Steps { from: 1 }, &settings).unwrap();
        let first = run.next(SequenceEvent::Started);
        let mut play = Self { run, action: first.action, said: first.progress };
        if play.call().is_some_and(|call| call.role == CallRole::HostCheck) && play.said.is_empty() {
            play.ends(ended(0, ""));
        }
        play
    }

    fn call(&self) -> Option<&SequenceCall> {
        let SequenceAction::Run(call) = &self.action else { return None };
        Some(call)
    }

    /// Returns the command of the call that runs next.
    fn command(&self) -> &str {
        let call = self.call().unwrap_or_else(|| panic!("no call: {:?}\n{:?}", self.action, self.said));
        call.arguments["command"].as_str().unwrap()
    }

    fn tell(&mut self, event: SequenceEvent<'_>) -> &mut Self {
        let step = self.run.next(event);
        self.action = step.action;
        self.said.extend(step.progress);
        self
    }

    fn ends(&mut self, outcome: Outcome) -> &mut Self {
        self.tell(SequenceEvent::Ended(&outcome))
    }

    /// Ends the call if it is this command.
    fn runs(&mut self, command: &str, code: i32) -> &mut Self {
        assert_eq!(self.command(), command, "{:?}", self.said);
        self.ends(ended(code, ""))
    }

    fn answers(&mut self, answer: SequenceAnswer) -> &mut Self {
        assert!(matches!(self.action, SequenceAction::Ask(_)), "{:?}\n{:?}", self.action, self.said);
        self.tell(SequenceEvent::Answered(answer))
    }

    /// Returns the exit code and the error of a run that has ended.
    fn end(&self) -> (Exit, &str) {
        let SequenceAction::Finish { exit, error } = &self.action else {
            panic!("not ended: {:?}\n{:?}", self.action, self.said)
        };
        (*exit, error.as_deref().unwrap_or_default())
    }

    fn has_said(&self, text: &str) -> bool {
        self.said.iter().any(|line| line.contains(text))
    }
}

/// Two steps with undo, and a third one that may fail.
fn third(step: &str) -> Play {
    let mut play = Play::new(&format!(
        "[[routines.r.steps]]\nname = 'a'\ncmd = 'make a'\nundo = 'drop a'\ntimeout_s = 7\nguard = 'sshd'\n\
         [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\nundo = 'drop b'\n\
         [[routines.r.steps]]\nname = 'c'\n{step}\n\
         [[routines.r.steps]]\nname = 'd'\ncmd = 'make d'\nundo = 'drop d'\n"
    ));
    play.runs("make a", 0).runs("make b", 0);
    play
}

const ACTIONS: [&str; 3] = ["stop", "continue", "undo"];

/// Checks the reaction to a failure of the third step, and returns the run.
fn reacts(mut play: Play, on_fail: &str, difference: &str) -> Play {
    match on_fail {
        "continue" => {
            assert!(play.has_said(&format!("failed, continuing: {difference}")), "{:?}", play.said);
            play.runs("make d", 0);
            assert_eq!(play.end(), (Exit::Done, ""));
            assert!(play.has_said("failed and skipped: step 3"), "{:?}", play.said);
        }
        "undo" => {
            assert!(play.has_said("to undo the steps so far, in this order:"), "{:?}", play.said);
            let asks = SequenceAction::Ask("Undo these steps now, in this order?".to_owned());
            assert_eq!(play.action, asks);
        }
        _ => {
            let (exit, error) = play.end();
            assert_eq!(exit, Exit::Failed);
            assert!(error.starts_with(&format!("stopped at step 3 of 4 (c): {difference}")), "{error}");
            assert!(error.ends_with("continue with `sysop run r --from 3`"), "{error}");
        }
    }
    play
}

#[test]
fn each_phase_of_a_step_obeys_on_fail() {
    let killed = || Outcome::new(Status::Timeout, "");
    let edit = "file = 'f'\ncontent = 'x'\nsha256 = \
                'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'";
    for on_fail in ACTIONS {
        let step = |keys: &str| third(&format!("{keys}\non_fail = '{on_fail}'"));

        let mut play = step("cmd = 'make c'\nunless = 'test -e c'");
        play.ends(killed());
        reacts(play, on_fail, "the result of `unless` is unclear: ");

        for outcome in [ended(1, ""), killed()] {
            let mut play = step("cmd = 'make c'\ncheck = 'test -e c'");
            play.ends(outcome);
            reacts(play, on_fail, "`check` failed before the step: ");
        }

        let mut play = step(edit);
        assert!(play.command().contains("sha256"), "{}", play.command());
        play.ends(ended(0, "0123 f"));
        reacts(play, on_fail, "the file differs from the expected one: sha256 0123");

        let mut play = step("cmd = 'make c'");
        play.runs("make c", 5);
        reacts(play, on_fail, "exit code 5, expected 0");

        let mut play = step("cmd = 'make c'\nverify = 'test -e c'\nretry = { times = 2, every_s = 3 }");
        play.runs("make c", 0).runs("test -e c", 1);
        assert_eq!(play.call().unwrap().delay, std::time::Duration::from_secs(3));
        play.ends(killed());
        reacts(play, on_fail, "`verify` failed after the step: ");
    }
}

#[test]
fn a_step_that_was_not_approved_or_answered_with_no_stops_the_run_whatever_on_fail_says() {
    for on_fail in ACTIONS {
        let mut play = third(&format!("cmd = 'make c'\non_fail = '{on_fail}'"));
        play.ends(Outcome::new(Status::Rejected, "denied by a rule"));
        let (exit, error) = play.end();
        assert_eq!((exit, error), (Exit::Failed, "step 3 of 4 (c) was not approved: denied by a rule"));
        assert!(play.has_said("step 2: drop b"), "{:?}", play.said);

        let mut play = third(&format!("ask = 'sure?'\ncmd = 'make c'\non_fail = '{on_fail}'"));
        play.answers(SequenceAnswer::No);
        assert!(play.end().1.starts_with("stopped at step 3 of 4 (c): answered with no"), "{:?}", play.end());
        let mut play = third(&format!("ask = 'sure?'\ncmd = 'make c'\non_fail = '{on_fail}'"));
        play.answers(SequenceAnswer::Unavailable);
        assert_eq!(
            play.end(),
            (Exit::ApprovalNeeded, "step 3 of 4 (c) needs a person; run it on a terminal")
        );
    }
}

#[test]
fn a_step_whose_verify_fails_is_undone_first_and_one_whose_action_fails_is_not() {
    let mut play = third("cmd = 'make c'\nundo = 'drop c'\nverify = 'test -e c'\non_fail = 'undo'");
    play.runs("make c", 0).runs("test -e c", 1).answers(SequenceAnswer::Yes);
    play.runs("drop c", 0).runs("drop b", 0).runs("drop a", 0);
    let (exit, error) = play.end();
    assert_eq!(exit, Exit::Failed, "the run failed, although all is undone");
    assert!(error.starts_with("stopped at step 3 of 4 (c): `verify` failed"), "{error}");
    assert!(play.has_said("undone: 3 steps"), "{:?}", play.said);

    let mut play = third("cmd = 'make c'\nundo = 'drop c'\non_fail = 'undo'");
    play.runs("make c", 1).answers(SequenceAnswer::Yes);
    play.runs("drop b", 0).runs("drop a", 0);
    assert!(play.has_said("undone: 2 steps") && play.end().0 == Exit::Failed, "{:?}", play.said);
}

#[test]
fn an_undo_keeps_the_time_limit_and_the_guard_of_its_step() {
    let mut play = third("cmd = 'make c'\non_fail = 'undo'");
    play.runs("make c", 1).answers(SequenceAnswer::Yes).runs("drop b", 0);
    assert_eq!(play.command(), "drop a");
    let arguments = &play.call().unwrap().arguments;
    assert_eq!(arguments["timeout_s"], 7);
    assert!(arguments.contains_key(sysop_core::guard::GUARD_ARGUMENT), "{arguments:?}");
}

#[test]
fn without_consent_nothing_is_undone_and_the_hint_names_the_last_step_with_an_undo() {
    for answer in [SequenceAnswer::No, SequenceAnswer::Unavailable] {
        let mut play = third("cmd = 'make c'\non_fail = 'undo'");
        play.runs("make c", 1).answers(answer);
        assert_eq!(play.end().0, Exit::Failed);
        assert!(
            play.has_said("nothing was undone; undo with `sysop run r --undo --from 2`"),
            "{:?}",
            play.said
        );
        for (undo, from) in [("", 2), ("undo = 'drop c'", 3)] {
            let mut play = third(&format!("cmd = 'make c'\nverify = 'test -e c'\non_fail = 'undo'\n{undo}"));
            play.runs("make c", 0).runs("test -e c", 1).answers(answer);
            let way = format!("nothing was undone; undo with `sysop run r --undo --from {from}`");
            assert!(play.has_said(&way), "{:?}", play.said);
        }
    }
}

#[test]
fn without_consent_no_command_is_named_that_would_undo_a_skipped_step() {
    for answer in [SequenceAnswer::No, SequenceAnswer::Unavailable] {
        let mut play = Play::new(
            "[[routines.r.steps]]\nname = 'a'\ncmd = 'make a'\nunless = 'test -e a'\nundo = 'drop a'\n\
             [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\nundo = 'drop b'\n\
             [[routines.r.steps]]\nname = 'c'\ncmd = 'make c'\non_fail = 'undo'\n",
        );
        play.runs("test -e a", 0).runs("make b", 0).runs("make c", 1).answers(answer);
        assert!(play.has_said("nothing was undone") && !play.has_said("--undo"), "{:?}", play.said);
    }
}

#[test]
fn a_failed_undo_ends_the_run_with_both_errors() {
    for (outcome, why) in [
        (ended(4, ""), "exit code 4, expected 0"),
        (Outcome::new(Status::Rejected, "denied by a rule\nmore"), "denied by a rule"),
    ] {
        let mut play = third("cmd = 'make c'\non_fail = 'undo'");
        play.runs("make c", 1).answers(SequenceAnswer::Yes).ends(outcome);
        let (exit, error) = play.end();
        assert_eq!(exit, Exit::Failed);
        let undo = format!(
            "; the undo of step 2 of 4 (b) failed: {why}; fix the cause, then continue with `sysop run r --undo --from 2`"
        );
        assert!(
            error.starts_with("stopped at step 3 of 4 (c): exit code 1") && error.ends_with(&undo),
            "{error}"
        );
        assert!(!play.has_said("undone:"), "{:?}", play.said);
    }
}

#[test]
fn a_run_without_any_undo_ends_at_once_and_one_with_some_names_the_others() {
    let steps = |undo: &str| {
        format!(
            "[[routines.r.steps]]\nname = 'a'\ncmd = 'make a'\n{undo}\n\
             [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\n\
             [[routines.r.steps]]\nname = 'c'\ncmd = 'make c'\non_fail = 'undo'\n"
        )
    };
    let mut play = Play::new(&steps(""));
    play.runs("make a", 0).runs("make b", 0).runs("make c", 1);
    assert_eq!(play.end().0, Exit::Failed);
    assert!(!play.has_said("to undo"), "{:?}", play.said);
    let mut play = Play::new(&steps("undo = 'drop a'"));
    play.runs("make a", 0).runs("make b", 0).runs("make c", 1);
    assert!(play.has_said("  steps without undo: 2"), "{:?}", play.said);
    play.answers(SequenceAnswer::Yes).runs("drop a", 0);
    assert!(
        play.has_said("step 2 of 3 (b) has no undo") && play.has_said("undone: 1 step"),
        "{:?}",
        play.said
    );
}

#[test]
fn a_step_that_was_passed_over_is_not_undone_later() {
    let mut play = Play::new(
        "[[routines.r.steps]]\nname = 'a'\ncmd = 'make a'\nundo = 'drop a'\n\
         [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\nundo = 'drop b'\non_fail = 'continue'\n\
         [[routines.r.steps]]\nname = 'c'\ncmd = 'make c'\non_fail = 'undo'\n",
    );
    play.runs("make a", 0).runs("make b", 1).runs("make c", 1).answers(SequenceAnswer::Yes);
    play.runs("drop a", 0);
    assert!(play.has_said("undone: 1 step") && play.end().0 == Exit::Failed, "{:?}", play.said);
}

#[test]
fn the_answers_of_probes_are_told() {
    let mut play = Play::new(
        "[[routines.r.steps]]\nname = 'a'\nunless = 'test -e a'\ncheck = 'test -d .'\ncmd = 'make a'\n\
         expect.exit = [0, 3]\nverify = 'test -e a'\nretry = { times = 2, every_s = 5 }\n",
    );
    assert_eq!(play.call().map(|call| call.role), Some(CallRole::Probe));
    play.runs("test -e a", 1).runs("test -d .", 0);
    assert_eq!(play.call().map(|call| call.role), Some(CallRole::Step));
    play.runs("make a", 3).runs("test -e a", 1).runs("test -e a", 0);
    let told = [
        "── step 1 of 1 (a)",
        "  unless: not done yet",
        "  check: ok",
        "  as the step expects",
        "  verify: not yet (exit code 1, expected 0); trying again in 5 s",
        "  verify: ok",
        "done: 1 step",
    ];
    assert_eq!(play.said, told);
}

#[test]
fn a_failed_run_names_its_host_and_how_to_go_on() {
    let steps = "[[routines.r.steps]]\nname = 'look'\ncmd = 'make a'\n\
                 [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\n";
    let on_web1 = GlobalFlags { host: Some("web1".to_owned()), ..GlobalFlags::default() };
    let mut play = Play::with_flags(&on_web1, steps);
    play.runs("make a", 3);
    let difference = "exit code 3, expected 0; fix the cause, then";
    let first = format!("stopped at step 1 of 2 (look) on web1: {difference} run `sysop run r` again");
    assert_eq!(play.end().1, first);
    let mut play = Play::new(steps);
    play.runs("make a", 0).runs("make b", 3);
    let second = format!("stopped at step 2 of 2 (b): {difference} continue with `sysop run r --from 2`");
    assert_eq!(play.end().1, second);
}

#[test]
fn a_failed_run_names_the_undo_that_reverts_what_it_did() {
    let mut play = third("cmd = 'make c'\nundo = 'drop c'");
    play.runs("make c", 1);
    assert!(play.has_said("or: sysop run r --undo --from 2"), "{:?}", play.said);
    let skipped = "[[routines.r.steps]]\nname = 'a'\nunless = 'test -e a'\ncmd = 'make a'\nundo = 'drop a'\n\
                   [[routines.r.steps]]\nname = 'b'\ncmd = 'make b'\nundo = 'drop b'\n\
                   [[routines.r.steps]]\nname = 'c'\ncmd = 'make c'\n";
    let mut play = Play::new(skipped);
    play.runs("test -e a", 0).runs("make b", 0).runs("make c", 1);
    assert!(
        play.has_said("  step 2: drop b") && !play.has_said("--undo"),
        "it would undo step 1: {:?}",
        play.said
    );
}
