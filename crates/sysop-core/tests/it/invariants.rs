//! Invariants of ARCHITECTURE.md, over every short sequence of inputs and over long random ones.

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;
use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Input, Origin, TypedInput as TerminalTyped};
use sysop_core::id::{CallId, JobId, StepId, TurnId};
use sysop_core::message::{Arguments, FailureKind, FinishReason, Reply, ToolCall, ToolProtocol};
use sysop_core::mode::Mode;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;

use crate::world::{World, bash, call, calls, changed, failure, says, spec};

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Symbol {
    Prompt,
    Blank,
    Answer,
    Nothing,
    Refusal,
    Read,
    ConfigChange,
    Danger,
    Two,
    SameId,
    Unknown,
    Complete,
    Written,
    Overflow,
    Fail,
    Allow,
    AllowSession,
    Edit,
    EditForbidden,
    Reject,
    RejectStop,
    StaleDecision,
    Done,
    Changed,
    Broken,
    StaleOutcome,
    StaleReply,
    Timer,
    Cancel,
    Pause,
    Resume,
    Retry,
    Clear,
    Auto,
    Never,
    TypedInput,
    Routine,
    Undo,
    Crash,
    Hands,
    Lend,
    Chat,
    Withdraw,
    Away,
    JobEnd,
    JobStop,
    Look,
    Looked,
}

use Symbol::{
    Allow, AllowSession, Answer, Auto, Away, Blank, Broken, Cancel, Changed, Chat, Clear, Complete,
    ConfigChange as Changes, Crash, Danger, Done, Edit, EditForbidden, Fail, Hands, JobEnd, JobStop, Lend,
    Look, Looked, Never, Nothing, Overflow, Pause, Prompt, Read, Refusal, Reject, RejectStop, Resume, Retry,
    Routine, SameId, StaleDecision, StaleOutcome, StaleReply, Timer, Two, TypedInput, Undo, Unknown,
    Withdraw, Written,
};

const ALL: [Symbol; 48] = [
    Prompt, Blank, Answer, Nothing, Refusal, Read, Changes, Danger, Two, SameId, Unknown, Complete, Written,
    Overflow, Fail, Allow, AllowSession, Edit, EditForbidden, Reject, RejectStop, StaleDecision, Done,
    Changed, Broken, StaleOutcome, StaleReply, Timer, Cancel, Pause, Resume, Retry, Clear, Auto, Never,
    TypedInput, Routine, Undo, Crash, Hands, Lend, Chat, Withdraw, Away, JobEnd, JobStop, Look, Looked,
];

/// The symbols that lead furthest, for longer sequences.
const DEEP: [Symbol; 11] = [Prompt, Two, Changes, Allow, Reject, Done, Cancel, Pause, Resume, Retry, Crash];

/// The symbols about jobs, which are last in `ALL`.
const JOBS: [Symbol; 5] = [Away, JobEnd, JobStop, Look, Looked];
/// The symbols about jobs, and other symbols that matter with them.
const JOBS_DEEP: [Symbol; 13] =
    [Away, JobEnd, JobStop, Look, Looked, Changes, Allow, Done, Answer, Prompt, Cancel, Clear, Crash];

fn written() -> Reply {
    Reply { protocol: ToolProtocol::Text, ..calls(vec![bash("", "touch a")]) }
}

fn reply_of(letter: Symbol) -> Option<Reply> {
    let write = |id| call(id, "write_file", json!({"path": "a"}));
    Some(match letter {
        Answer => says("four"),
        Nothing => says(""),
        Refusal => Reply { finish: FinishReason::Refused, ..says("I may not") },
        Read => calls(vec![call("r", "read_file", json!({"path": "a"}))]),
        Changes => calls(vec![bash("b", "touch a")]),
        Danger => calls(vec![bash("b", "rm -rf /")]),
        Two => calls(vec![bash("b", "touch a"), write("w")]),
        SameId => calls(vec![bash("b", "touch a"), bash("b", "touch b")]),
        Unknown => calls(vec![
            call("u", "no_such_tool", json!({})),
            ToolCall { arguments: Arguments::Invalid("{".to_owned()), ..bash("i", "") },
            call("m", "bash", json!({})),
        ]),
        Complete => calls(vec![call("c", "task_complete", json!({"summary": "done"}))]),
        Written => written(),
        Look => calls(vec![call("j", "jobs", json!({"action": "read", "id": 1, "wait_s": 5}))]),
        _ => return None,
    })
}

/// Performs the symbol. Returns false if it does not apply now.
fn act(world: &mut World, letter: Symbol) -> bool {
    if let Some(reply) = reply_of(letter) {
        let possible = world.asked.is_some();
        if possible {
            world.reply(reply);
        }
        return possible;
    }
    let decision = match letter {
        Allow => Some(Decision::Allow { command: None }),
        AllowSession => Some(Decision::AllowSession { command: None }),
        Edit => Some(Decision::Allow { command: Some("touch edited".to_owned()) }),
        EditForbidden => Some(Decision::Allow { command: Some("forbidden".to_owned()) }),
        Reject => Some(Decision::Reject { reason: "no".to_owned() }),
        RejectStop => Some(Decision::Reject { reason: "stop".to_owned() }),
        _ => None,
    };
    if let Some(decision) = decision {
        let possible = world.waiting().is_some();
        if possible {
            world.decide(decision);
        }
        return possible;
    }
    if letter == JobEnd {
        let possible = !world.jobs.is_empty();
        if possible {
            world.end_job(Outcome::ok("finished"));
        }
        return possible;
    }
    let outcome = match letter {
        Done => Some(Outcome::ok("done")),
        Changed => Some(changed("a")),
        Broken => Some(Outcome::new(Status::Timeout, "too long")),
        _ => None,
    };
    if let Some(outcome) = outcome {
        let possible = world.running.is_some();
        if possible {
            world.outcome(outcome);
        }
        return possible;
    }
    other(world, letter)
}

fn other(world: &mut World, letter: Symbol) -> bool {
    let stale_step = StepId { turn: TurnId(999), step: 1 };
    match letter {
        Overflow | Fail => {
            let possible = world.asked.is_some();
            if possible {
                world.fail(if letter == Fail {
                    FailureKind::Unreachable
                } else {
                    FailureKind::ContextOverflow
                });
            }
            return possible;
        }
        Prompt => world.prompt("do it"),
        Blank => world.prompt(" \t\n"),
        StaleDecision => stale(world, decision_on_nothing()),
        StaleOutcome => {
            let input = Input::Outcome { call: CallId::new("gone"), outcome: Outcome::ok("late") };
            stale(world, input)
        }
        StaleReply => {
            stale(world, Input::Reply { step: stale_step, result: Err(failure(FailureKind::Auth)) })
        }
        Timer => {
            let call = world.running.as_ref().map_or(CallId::new("gone"), |call| call.id.clone());
            world.tell(Input::Timer { call });
            if world.session.activity() != sysop_core::session::Activity::Running {
                world.running = None;
            }
            world
        }
        Away => {
            let call = world.running.as_ref().map_or(CallId::new("gone"), |call| call.id.clone());
            world.tell(Input::BackgroundTimer { call, output: "so far".to_owned() })
        }
        Withdraw => world.tell(Input::WithdrawPrompt { text: "do it".to_owned(), by: None }),
        JobStop => world.tell(Input::StopJob { job: JobId(1) }),
        Looked => {
            let call = world.reading.clone().unwrap_or_else(|| CallId::new("gone"));
            world.tell(Input::JobRead { call, output: "so far".to_owned() })
        }
        Cancel => world.tell(Input::Cancel),
        Pause => world.tell(Input::Pause),
        Resume => world.tell(Input::Resume),
        Retry => world.tell(Input::Retry),
        Clear => world.tell(Input::Clear),
        Auto => world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Auto) }),
        Never => world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Never) }),
        TypedInput => world.direct("bash", "touch typed", Origin::User),
        Routine => world.direct("bash", "touch routine", Origin::Routine),
        Undo => world.direct("undo", "", Origin::User),
        Hands => {
            let typed = TerminalTyped::Activity { keys: 3, seconds: 1 };
            world.tell(Input::TerminalInput { by: "somebody".to_owned(), typed })
        }
        Lend => match world.session.client_tools().root.as_str() {
            "" => world.lend("/home/me", &["bash", "write_file"]),
            "/home/me" => world.lend("/home/you", &["write_file", "play"]),
            _ => world.lend("", &[]),
        },
        Chat => match world.session.mode() {
            Mode::Agent => world.mode(Mode::Chat),
            Mode::Chat => world.mode(Mode::Agent),
        },
        Crash => world.crash(),
        _ => unreachable!("handled before"),
    };
    true
}

fn decision_on_nothing() -> Input {
    let decision = Decision::Allow { command: None };
    Input::Decision { call: CallId::new("gone"), decision, by: "late".to_owned(), person: None }
}

/// Checks invariant 7: an answer with a stale id changes nothing.
fn stale(world: &mut World, input: Input) -> &mut World {
    let before = world.session.clone();
    world.tell(input);
    assert!(world.last.events.is_empty() && world.last.effects.is_empty(), "invariant 7");
    assert!(before == world.session, "invariant 7");
    world
}

/// Walks every sequence over `letters` up to `depth`.
fn walk(world: &World, letters: &[Symbol], depth: usize, visited: &mut usize) {
    if depth == 0 {
        return;
    }
    for &letter in letters {
        let mut next = world.clone();
        if act(&mut next, letter) {
            *visited += 1;
            walk(&next, letters, depth - 1, visited);
        }
    }
}

#[test]
fn every_short_word_from_every_phase_keeps_the_invariants() {
    let idle = World::each();
    let begun = |letters: &[Symbol]| {
        let mut world = idle.clone();
        for &letter in letters {
            assert!(act(&mut world, letter), "{letter:?} leads on");
        }
        world
    };
    let starts = [
        begun(&[]),
        begun(&[Prompt]),
        begun(&[Prompt, Two]),
        begun(&[Prompt, Two, Allow]),
        begun(&[Prompt, Two, Allow, Crash]),
        begun(&[Prompt, Two, Allow, Cancel]),
        begun(&[Routine]),
        begun(&[Chat, Prompt]),
    ];
    let mut visited = 0;
    for start in &starts {
        walk(start, &ALL[..ALL.len() - JOBS.len()], 3, &mut visited);
    }
    walk(&begun(&[Prompt, Two, Allow, Away]), &JOBS_DEEP, 4, &mut visited);
    assert!(visited > 30_000, "the walk reached only {visited} states");
}

#[test]
fn every_longer_word_of_the_deep_letters_keeps_the_invariants() {
    let mut visited = 0;
    let mut world = World::each();
    world.prompt("begin").reply(reply_of(Two).expect("a reply"));
    walk(&world, &DEEP, 5, &mut visited);
    assert!(visited > 10_000, "the walk reached only {visited} states");
}

fn letters() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..ALL.len(), 1..60)
}

proptest! {
    #![proptest_config(Config::with_cases(300))]

    #[test]
    fn long_words_keep_the_invariants(
        word in letters(),
        mode in prop_oneof![Just(ApprovalMode::Ask), Just(ApprovalMode::Auto), Just(ApprovalMode::Never)],
        keep in 1_usize..8,
        iterations in 1_u32..6,
        begun in any::<bool>(),
    ) {
        let mut spec = spec(mode);
        spec.max_history_messages = keep;
        spec.max_iterations = iterations;
        let mut world = World::new(spec);
        if begun {
            world.prompt("begin");
        }
        for index in word {
            act(&mut world, ALL[index]);
        }
    }
}
