//! Background jobs: commands that the session no longer waits for.

use std::time::Duration;

use serde_json::{Value, json};
use sysop_core::catalog::{self, OUTSIDE_SANDBOX, Profile};
use sysop_core::event::{Effect, Event, Input, Logged, Origin};
use sysop_core::id::{CallId, JobId, Seq, Timestamp};
use sysop_core::job::JOBS_MAX;
use sysop_core::message::Message;
use sysop_core::outcome::{Outcome, Reversibility, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Activity;
use sysop_core::tool::ToolSpec;
use sysop_core::tool_time_limit;
use sysop_core::transcript::Transcript;

use crate::world::{World, bash, call, calls, says, spec};

/// The text of the last result that the model got.
fn result(world: &World) -> String {
    let (_, request) = world.asked.as_ref().expect("the model is asked");
    match request.messages.last().expect("a message").message() {
        Message::ToolResults { results } => results.last().expect("a result").output.clone(),
        other => panic!("{other:?}"),
    }
}

fn timer(world: &World) -> Option<Duration> {
    world.last.effects.iter().find_map(|effect| match effect {
        Effect::SetBackgroundTimer { after, .. } => Some(*after),
        _ => None,
    })
}

fn jobs(arguments: Value) -> sysop_core::message::ToolCall {
    call("j", "jobs", arguments)
}

/// A session whose model started a job and waits for nothing.
fn with_job() -> World {
    let mut world = World::auto();
    world.prompt("build").reply(calls(vec![bash("b", "make")])).background("half\n");
    world
}

#[test]
fn a_turn_goes_on_without_waiting_for_a_job() {
    let mut world = with_job();
    assert_eq!(result(&world), "half\n\n[still running in the background as job 1; see `jobs`]");
    assert_eq!(world.session.jobs().len(), 1);
    world.reply(says("It builds."));
    assert_eq!(world.session.activity(), Activity::Idle);
    world.end_job(Outcome { exit_code: Some(2), ..Outcome::new(Status::Failed, "error: x") });
    assert!(world.session.jobs().is_empty());
    let ended = world.log.last().expect("an event");
    let expected = matches!(ended, Event::JobFinished { job: JobId(1), exit_code: Some(2), output, .. }
        if output.text == "error: x");
    assert!(expected, "{ended:?}");
    world.prompt("and now?");
    let (_, request) = world.asked.as_ref().expect("the model is asked");
    let prompt = request.messages.last().expect("a prompt").message();
    let text = "[background job 1 ended, exit code 2: make]\n\nand now?".to_owned();
    assert_eq!(*prompt, Message::user(text), "the model learns of it with the next message");
}

/// The outcome of a call whose command went to the background five seconds after its start.
fn moved_to_background(command: &str) -> (World, Outcome) {
    let mut world = World::auto();
    world.prompt("build").reply(calls(vec![bash("b", command)]));
    world.tell_at(5, Input::BackgroundTimer { call: CallId::new("b"), output: "half".to_owned() });
    let outcome = world.log.iter().find_map(|event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    (world, outcome.expect("the call is over"))
}

#[test]
fn the_outcome_of_a_call_names_its_job_and_the_time_so_far() {
    let (_, outcome) = moved_to_background("make");
    assert_eq!((outcome.job, outcome.duration_ms), (Some(JobId(1)), 5_000));
    assert_eq!(outcome.undo, Some(Reversibility::None), "nothing is kept for an undo");
    let (_, outcome) = moved_to_background("tail -f app.log");
    assert_eq!(outcome.undo, None, "there is nothing to undo");
    let whole = Outcome { duration_ms: 5, ..Outcome::ok("done") };
    let json = serde_json::to_string(&whole).expect("an outcome is JSON");
    assert!(!json.contains("job") && !json.contains("undo_ms"), "the log has no empty fields: {json}");
}

#[test]
fn an_undo_after_a_job_says_that_jobs_have_none() {
    let (mut world, _) = moved_to_background("make");
    world.reply(says("ok")).tell(Input::StopJob { job: JobId(1) });
    world.end_job(Outcome::new(Status::Cancelled, "partly"));
    world.direct("undo", "", Origin::User);
    let told = "nothing to undo in this session; commands in the background have no undo";
    assert!(world.lines().ends_with(told), "{}", world.lines());
}

#[test]
fn the_model_chooses_when_a_command_goes_to_the_background() {
    let cases = [
        (json!({ "command": "make" }), None),
        (json!({ "command": "make", "background": false }), None),
        (json!({ "command": "make", "on_timeout": "kill" }), None),
        (json!({ "command": "make", "background": true }), Some(1)),
        (json!({ "command": "make", "on_timeout": "background" }), Some(30)),
        (json!({ "command": "make", "on_timeout": "background", "timeout_s": 5 }), Some(5)),
    ];
    for (arguments, seconds) in cases {
        let mut world = World::auto();
        world.prompt("build").reply(calls(vec![call("b", "bash", arguments.clone())]));
        assert_eq!(timer(&world), seconds.map(Duration::from_secs), "{arguments}");
    }
}

#[test]
fn an_approval_names_an_unusual_time_limit() {
    let cases = [
        (json!({}), None),
        (json!({ "timeout_s": 5 }), None),
        (json!({ "timeout_s": 600 }), Some("may run for up to 600 s")),
        (json!({ "background": true, "timeout_s": 5 }), Some("runs in the background, without a time limit")),
        (
            json!({ "on_timeout": "background" }),
            Some("continues in the background if it takes longer than 30 s"),
        ),
    ];
    for (mut arguments, expected) in cases {
        arguments["command"] = json!("make");
        let mut world = World::new(spec(ApprovalMode::Ask));
        world.prompt("build").reply(calls(vec![call("b", "bash", arguments.clone())]));
        let asked = world.log.iter().find_map(|event| match event {
            Event::ApprovalAsked { risk, .. } => Some(risk),
            _ => None,
        });
        let findings = &asked.expect("an approval").findings;
        let of_time = findings.iter().map(|finding| finding.why.as_str());
        let of_time: Vec<_> =
            of_time.filter(|why| why.contains(" s") || why.contains("background")).collect();
        assert_eq!(of_time, expected.into_iter().collect::<Vec<_>>(), "{arguments}");
    }
}

#[test]
fn the_config_decides_for_calls_that_do_not() {
    let cases = [
        (json!({ "command": "make" }), Some(30)),
        (json!({ "command": "make", "timeout_s": 5 }), Some(5)),
        (json!({ "command": "make", "on_timeout": "kill" }), None),
        (json!({ "command": "make", "background": true }), Some(1)),
    ];
    for outside in [false, true] {
        let mut spec = spec(ApprovalMode::Auto);
        spec.tools = catalog::tools(Profile::Coder);
        if outside {
            catalog::offer_outside_sandbox(&mut spec.tools);
        }
        catalog::background_on_timeout(&mut spec.tools);
        let has_outside = |tool: &ToolSpec| tool.parameters["properties"].get(OUTSIDE_SANDBOX).is_some();
        assert_eq!(spec.tools.iter().any(has_outside), outside);
        for (arguments, seconds) in &cases {
            let mut world = World::new(spec.clone());
            world.prompt("build").reply(calls(vec![call("b", "bash", arguments.clone())]));
            assert_eq!(timer(&world), seconds.map(Duration::from_secs), "{arguments}");
            let ran = world.ran[0].text_argument("on_timeout");
            let decided = seconds.is_some() && arguments.get("on_timeout").is_none();
            assert_eq!(ran == Some("background"), decided, "{arguments}");
            let logged = |event: &Event| match event {
                Event::ToolStarted { call, .. } => call.arguments.to_value() == *arguments,
                _ => false,
            };
            assert!(world.log.iter().any(logged), "the log contains the call as the model wrote it");
        }
    }
}

#[test]
fn the_config_limits_the_time_of_calls_that_do_not() {
    let mut spec = spec(ApprovalMode::Ask);
    spec.tools = catalog::tools(Profile::Full);
    tool_time_limit::set_time_limit(&mut spec.tools, 7);
    let cases = [
        ("bash", json!({ "command": "make" }), 7, None),
        ("bash", json!({ "command": "make", "timeout_s": 5 }), 5, None),
        ("bash", json!({ "command": "make", "timeout_s": 9 }), 9, Some("may run for up to 9 s")),
        ("run_command", json!({ "command": "make", "reasoning": "" }), 7, None),
    ];
    for (tool, arguments, seconds, finding) in cases {
        let mut world = World::new(spec.clone());
        world.prompt("build").reply(calls(vec![call("b", tool, arguments.clone())]));
        let asked = world.log.iter().find_map(|event| match event {
            Event::ApprovalAsked { risk, .. } => Some(risk),
            _ => None,
        });
        let findings = &asked.expect("an approval").findings;
        let of_time = findings.iter().map(|finding| finding.why.as_str()).find(|why| why.contains(" up to "));
        assert_eq!(of_time, finding, "{arguments}");
        world.allow();
        assert_eq!(world.ran[0].arguments.to_value()["timeout_s"], seconds, "{arguments}");
        let logged = |event: &Event| match event {
            Event::ToolStarted { call, .. } => call.arguments.to_value() == arguments,
            _ => false,
        };
        assert!(world.log.iter().any(logged), "the log contains the call as the model wrote it");
    }
}

#[test]
fn no_command_goes_to_the_background_while_too_many_jobs_run() {
    let mut world = World::auto();
    for number in 0..JOBS_MAX {
        let (id, job) =
            (format!("b{number}"), json!({ "command": format!("make {number}"), "background": true }));
        world.prompt("build").reply(calls(vec![call(&id, "bash", job)])).background("").reply(says("ok"));
    }
    world.prompt("build");
    assert_eq!(world.session.jobs().len(), JOBS_MAX);
    let one_more = json!({ "command": "one more", "background": true });
    world.reply(calls(vec![call("more", "bash", one_more)]));
    assert_eq!(result(&world), "not run: 64 background jobs are running; stop one with `jobs` first");
    world.reply(calls(vec![bash("plain", "make")])).tell(Input::Background);
    assert_eq!(timer(&world), None);
    world.background("");
    assert_eq!(world.session.jobs().len(), JOBS_MAX, "every job stays listed");
}

#[test]
fn a_user_moves_the_running_command_to_the_background() {
    let mut world = World::auto();
    world.prompt("build").tell(Input::Background);
    assert!(world.last.effects.is_empty(), "nothing runs");
    world.reply(calls(vec![bash("b", "make")])).tell(Input::Background);
    assert_eq!(timer(&world), Some(Duration::ZERO));
    world.background("").reply(says("ok"));
    assert_eq!(world.session.jobs().len(), 1);
}

#[test]
fn a_call_that_ended_or_is_being_stopped_does_not_become_a_job() {
    let mut world = World::auto();
    world.prompt("build").reply(calls(vec![bash("b", "make")])).outcome(Outcome::ok("made"));
    let call = sysop_core::id::CallId::new("b");
    world.tell(Input::BackgroundTimer { call, output: String::new() });
    assert!(world.session.jobs().is_empty());
    world.reply(calls(vec![bash("c", "make")])).tell(Input::Cancel).background("");
    assert!(world.session.jobs().is_empty());
}

#[test]
fn the_model_lists_reads_and_stops_jobs() {
    let mut world = with_job();
    world.reply(calls(vec![jobs(json!({ "action": "list" }))]));
    assert_eq!(result(&world), "1: running on local: make");
    world.reply(calls(vec![jobs(json!({ "action": "read", "id": 1, "wait_s": 20 }))]));
    let waits = world
        .last
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::ReadJob { wait, .. } if *wait == Duration::from_secs(20)));
    assert!(waits && world.asked.is_none());
    let reading = world.reading.clone().expect("the job is being read");
    world.tell(Input::JobRead { call: reading, output: "more".to_owned() });
    assert_eq!(result(&world), "more\n[job 1 is running: make]");
    world.reply(calls(vec![jobs(json!({ "action": "stop", "id": 1 }))]));
    assert_eq!(result(&world), "job 1 is being stopped");
    world.end_job(Outcome::new(Status::Cancelled, "partly"));
    world.reply(calls(vec![jobs(json!({ "action": "read", "id": 1 }))]));
    let text = "partly\n[job 1 ended, cancelled: make]\n[background job 1 ended, cancelled: make]";
    assert_eq!(result(&world), text);
    world.reply(calls(vec![jobs(json!({ "action": "read", "id": 7 }))]));
    assert!(
        result(&world).starts_with("no job has the id 7; 1: cancelled on local: make"),
        "{}",
        result(&world)
    );
}

#[test]
fn a_job_that_ends_while_it_is_waited_for_is_reported_with_its_output() {
    let mut world = with_job();
    world.reply(calls(vec![jobs(json!({ "action": "read", "id": 1, "wait_s": 20 }))]));
    let reading = world.reading.clone().expect("the job is being read");
    world.end_job(Outcome { exit_code: Some(0), ..Outcome::ok("made") });
    world.tell(Input::JobRead { call: reading, output: "ma".to_owned() });
    assert!(result(&world).starts_with("made\n[job 1 ended, exit code 0: make]"), "{}", result(&world));
}

#[test]
fn polling_a_job_does_not_count_as_a_loop() {
    let mut world = with_job();
    for _ in 0..6 {
        world.reply(calls(vec![jobs(json!({ "action": "list" }))]));
    }
    assert!(world.asked.is_some(), "{}", world.lines());
    assert!(!result(&world).contains("same call"), "{}", result(&world));
}

#[test]
fn after_a_crash_the_end_of_a_job_is_unknown() {
    let mut world = with_job();
    world.reply(says("It builds.")).crash();
    let unknown = world
        .log
        .iter()
        .any(|event| matches!(event, Event::JobFinished { job: JobId(1), status: Status::Unknown, .. }));
    assert!(unknown && world.session.jobs().is_empty());
    world.prompt("well?").reply(calls(vec![jobs(json!({ "action": "read", "id": 1 }))]));
    assert!(result(&world).contains("[job 1 ended, outcome unknown"), "{}", result(&world));
    world.reply(calls(vec![bash("c", "make again")])).background("");
    let second = world.session.jobs().iter().next().expect("a job").0;
    assert_eq!(second, JobId(2), "job numbers are never reused");
}

#[test]
fn a_stopped_turn_leaves_jobs_running_and_a_user_stops_them() {
    let mut world = with_job();
    world.tell(Input::Cancel);
    assert_eq!(world.session.jobs().len(), 1);
    world.tell(Input::StopJob { job: JobId(1) });
    assert!(matches!(world.last.effects[..], [Effect::CancelTool { .. }]));
    world.tell(Input::StopJob { job: JobId(2) });
    assert!(matches!(world.last.effects.as_slice(), [Effect::Notify { .. }]));
}

#[test]
fn a_job_runs_since_its_call_was_started() {
    let mut transcript = Transcript::new();
    let (job, started) = (JobId(1), Event::ToolStarted { call: bash("1", "make"), origin: Origin::Model });
    let moved =
        Event::JobStarted { job, call: CallId::new("1"), command: "make".into(), host: "web1".into() };
    for (seq, seconds, event) in [(1, 10, started), (2, 130, moved)] {
        transcript.apply_logged(&Logged { seq: Seq(seq), at: Timestamp(seconds * 1_000), event });
    }
    let run_time = |seconds: i64| transcript.job_run_time(job, Timestamp(seconds * 1_000));
    assert_eq!(run_time(140).as_deref(), Some("2 min 10 s"));
    assert_eq!(run_time(12).as_deref(), Some("2 s"));
    assert_eq!(transcript.job_run_time(JobId(2), Timestamp(0)), None);
}

#[test]
fn a_job_on_a_client_is_named_as_its_calls_are() {
    let mut world = World::auto();
    world.lend("/home/ann", &["bash"]).prompt("go").reply(calls(vec![bash("1", "make")])).background("");
    let mut transcript = Transcript::new();
    for (seq, event) in (1..).zip(world.log.clone()) {
        transcript.apply_logged(&Logged { seq: Seq(seq), at: Timestamp(0), event });
    }
    let hosts: Vec<_> = transcript.jobs().iter().map(|(_, job)| job.host.clone()).collect();
    let info = transcript.session_info().expect("the session is open");
    assert_eq!(hosts, [info.place_of("bash").0]);
}

#[test]
fn a_job_that_does_not_run_cannot_be_stopped() {
    let mut world = with_job();
    let mut stop = |job: u32| {
        world.tell(Input::StopJob { job: JobId(job) });
        world.last.effects.clone()
    };
    let told = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Notify { text }] => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(stop(9)), "no job has the id 9; 1: running on local: make");
    assert!(matches!(stop(1).as_slice(), [Effect::CancelTool { .. }]));
    world.end_job(Outcome::new(Status::Cancelled, ""));
    world.tell(Input::StopJob { job: JobId(1) });
    assert_eq!(told(world.last.effects.clone()), "job 1 has already ended");
}
