//! The prompt stays within the context window: omitted outputs, the ledger, the model's summary, overflow.

use serde_json::json;
use sysop_core::compaction::{Compaction, CompactionReason};
use sysop_core::event::{Decision, Event, Input};
use sysop_core::message::{FailureKind, Message, ModelRequest, Reply, ToolProtocol, Usage};
use sysop_core::model_limits::ModelLimits;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Activity;
use sysop_core::spec::SessionSpec;

use crate::world::{World, bash, call, calls, failure, says, spec};

const GOAL: &str = "find out why port 8443 of web1 refuses connections";

/// Creates a world whose model has a window of this many tokens.
fn world(window: u32) -> World {
    World::new(windowed(window, ApprovalMode::Auto))
}

fn windowed(window: u32, approve: ApprovalMode) -> SessionSpec {
    let mut spec = spec(approve);
    spec.max_history_messages = 0;
    spec.max_iterations = 10_000;
    let limits = ModelLimits { context_window: Some(window), ..ModelLimits::default() };
    spec.models.insert(spec.model.to_string(), limits);
    spec
}

fn ok(output: &str) -> Outcome {
    Outcome { exit_code: Some(0), ..Outcome::ok(output) }
}

fn compactions(world: &World) -> Vec<&Compaction> {
    fn of(event: &Event) -> Option<&Compaction> {
        match event {
            Event::ContextCompacted { compaction } => Some(compaction),
            _ => None,
        }
    }
    world.log.iter().filter_map(of).collect()
}

fn text(request: &ModelRequest) -> String {
    let mut text = String::new();
    for message in &request.messages {
        match message.message() {
            Message::User { text: said, .. } => text.push_str(said),
            Message::Assistant { reply } => text.push_str(&reply.text),
            Message::ToolResults { results } => {
                results.iter().for_each(|result| text.push_str(&result.output))
            }
        }
        text.push('\n');
    }
    text
}

/// Returns a reply with one command and enough text to fill the context soon.
fn thinks_aloud(n: usize) -> Reply {
    Reply {
        text: format!("{GOAL} {}", "x".repeat(3_000)),
        ..calls(vec![bash(&format!("c{n}"), &format!("echo {n}"))])
    }
}

/// Runs `steps` commands, each with an output of `bytes`; answers requests for summaries.
fn work(world: &mut World, from: usize, steps: usize, bytes: usize) {
    for n in from..from + steps {
        world.reply(calls(vec![bash(&format!("c{n}"), &format!("show {n}"))]));
        let line = format!("line {n} of the output\n");
        world.outcome(ok(&format!("result {n}\n{}", line.repeat(bytes / line.len()))));
        if world.summary.is_some() {
            world.summarized(Ok(says(r#"{"facts": [{"fact": "a fact"}]}"#)));
        }
    }
}

fn request(world: &World) -> &ModelRequest {
    &world.asked.as_ref().expect("the model is asked").1
}

#[test]
fn two_hundred_steps_fit_into_any_window_and_keep_the_goal() {
    for (window, bytes) in [(4_096, 500), (8_192, 2_000), (32_768, 4_000), (200_000, 8_000)] {
        let mut world = world(window);
        world.prompt(GOAL);
        work(&mut world, 0, 1, bytes);
        work(&mut world, 1, 199, bytes); // `tell` checks that each prompt fits
        assert!(text(request(&world)).contains(GOAL), "{window}: the goal is missing");
        assert!(text(request(&world)).contains("result 199\n"), "{window}: the newest result is missing");
        let done = compactions(&world);
        assert!(!done.is_empty(), "{window}: nothing was compacted");
        for compaction in &done {
            assert!(compaction.tokens_after < compaction.tokens_before * 9 / 10, "{window}: {compaction:?}");
        }
        assert!(done.len() <= 80, "{window}: {} compactions", done.len());
        let summaries = done.iter().filter(|compaction| compaction.summary.is_some()).count();
        assert!(summaries == 0 || window > 8_192, "{window}: {summaries} summaries");
    }
}

#[test]
fn nothing_is_compacted_below_the_threshold() {
    let mut world = world(200_000);
    world.prompt(GOAL);
    work(&mut world, 0, 30, 4_000);
    assert_eq!(request(&world).messages.len(), 61);
    assert_eq!(compactions(&world), Vec::<&Compaction>::new());
}

#[test]
fn each_request_extends_the_one_before_unless_the_context_was_compacted() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    let mut before = request(&world).clone();
    let mut done = 0;
    for n in 0..80 {
        work(&mut world, n, 1, 3_000);
        let after = request(&world).clone();
        if compactions(&world).len() == done {
            assert_eq!(after.messages[..before.messages.len()], before.messages[..], "step {n}");
            assert_eq!((after.system, &after.tools), (before.system, &before.tools), "step {n}");
        }
        done = compactions(&world).len();
        before = request(&world).clone();
    }
    assert!((2..12).contains(&done), "{done}");
}

#[test]
fn an_empty_reply_leaves_the_prefix_unchanged() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    world.reply(says(""));
    let nudged = request(&world).messages.clone();
    work(&mut world, 0, 1, 100);
    assert_eq!(request(&world).messages[..nudged.len()], nudged[..]);
}

#[test]
fn old_outputs_are_omitted_first_and_can_be_read_again() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    let mut n = 0;
    while compactions(&world).is_empty() {
        assert_eq!(request(&world).tools.iter().filter(|tool| tool.name == "read_output").count(), 0);
        work(&mut world, n, 1, 6_000);
        n += 1;
    }
    let compaction = compactions(&world)[0];
    assert_eq!((compaction.replaced, compaction.ledger.as_str(), &compaction.summary), (0, "", &None));
    assert!(compaction.elided.len() >= 3, "{compaction:?}");
    assert!(!text(request(&world)).contains("result 0\n"));
    assert!(
        text(request(&world)).contains("to read it, call read_output with id \"c0\"]\n"),
        "a success leaves one line"
    );
    assert!(request(&world).tools.iter().any(|tool| tool.name == "read_output"));
    world.reply(calls(vec![call("r", "read_output", json!({"id": "c0", "range": "1-2"}))]));
    assert!(text(request(&world)).contains("result 0\nline 0 of the output"), "{}", world.lines());
    world.reply(calls(vec![call("r2", "read_output", json!({"id": "nothing"}))]));
    assert!(text(request(&world)).contains("no omitted output has the id `nothing`"));
    for range in ["0-3", "7-2", "x", "-", "99999999999999999999"] {
        world.reply(calls(vec![call("r", "read_output", json!({"id": "c0", "range": range}))]));
        assert!(world.lines().contains("invalid range"), "{range}: {}", world.lines());
    }
    world.reply(calls(vec![call("r", "read_output", json!({"id": "c0", "range": "9000-9001"}))]));
    assert!(world.running.is_none());
}

#[test]
fn no_number_is_asked_about_once_messages_were_compacted() {
    let is_asked = |mut world: World| {
        world.reply(Reply { protocol: ToolProtocol::Text, ..says("It refused 777 connections.") });
        world.asked.as_ref().is_some_and(|(_, request)| text(request).contains("says 777"))
    };
    let mut world = world(8_192);
    world.prompt(GOAL);
    work(&mut world, 0, 1, 2_000);
    assert!(is_asked(world.clone()));
    let mut n = 1;
    while compactions(&world).is_empty() {
        work(&mut world, n, 1, 2_000);
        n += 1;
    }
    assert!(
        compactions(&world).iter().all(|compaction| compaction.replaced == 0),
        "outputs are omitted first"
    );
    assert!(!is_asked(world), "the output with the number may be gone");
}

#[test]
fn the_end_of_a_failed_command_stays_when_its_output_is_omitted() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    world.reply(calls(vec![bash("bad", "make")]));
    let output = format!("{}error: no rule\n[exit code 2]", "compiling\n".repeat(500));
    world.outcome(Outcome { exit_code: Some(2), ..Outcome::new(Status::Failed, output) });
    work(&mut world, 0, 12, 6_000);
    assert!(!compactions(&world).is_empty());
    let shown = text(request(&world));
    assert!(shown.contains("id \"bad\"]\ncompiling\nerror: no rule\n[exit code 2]\n"), "{shown}");
}

#[test]
fn large_truncated_outputs_are_omitted_too() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    work(&mut world, 0, 40, 30_000);
    assert!(compactions(&world).iter().filter(|compaction| compaction.summary.is_some()).count() < 5);
    world.reply(calls(vec![call("r", "read_output", json!({"id": "c0", "range": "500-501"}))]));
    assert!(text(request(&world)).contains("line 0 of the output\nline 0 of the output"));
}

#[test]
fn an_output_too_large_for_the_window_is_truncated_and_can_be_read_again() {
    let mut world = world(8_192);
    world.prompt(GOAL);
    world.reply(calls(vec![bash("big", "journalctl")]));
    let lines: String = (1..=2_000).map(|n| format!("entry {n}\n")).collect();
    world.outcome(ok(&lines));
    let shown = text(request(&world));
    assert!(
        shown.contains("entry 1\n") && shown.contains("entry 2000") && shown.len() < 4_000,
        "{}",
        shown.len()
    );
    assert!(shown.contains("read_output, id \"big\", range \""), "{shown}");
    world.reply(calls(vec![call("r", "read_output", json!({"id": "big", "range": "1000-1001"}))]));
    assert!(text(request(&world)).contains("entry 1000\nentry 1001"));
}

#[test]
fn the_tokens_after_a_compaction_are_counted_as_the_server_counts() {
    let mut world = world(8_192);
    world.prompt(GOAL);
    for n in 0..40 {
        let prompt = world.session.prompt_tokens();
        // A server whose tokens are longer than the estimate assumes.
        let usage = Usage { input_tokens: prompt * 2 / 3, output_tokens: 50, cached_tokens: 0 };
        world.reply(Reply { usage, ..calls(vec![bash(&format!("c{n}"), &format!("show {n}"))]) });
        world.outcome(ok(&"disk inode mount sector cache queue buffer latency\n".repeat(40)));
    }
    let made = compactions(&world);
    assert!(made.len() > 1, "{}", made.len());
    for compaction in made {
        let (before, after) = (compaction.tokens_before, compaction.tokens_after);
        assert!(after > before / 10 && after < before * 9 / 10, "{before} to {after}");
    }
}

#[test]
fn a_model_writes_a_summary_from_text_without_tools() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    let mut n = 0;
    while world.summary.is_none() {
        world.reply(thinks_aloud(n));
        world.outcome(ok("done"));
        n += 1;
    }
    assert_eq!(world.session.activity(), Activity::Thinking);
    assert!(world.asked.is_none(), "the next step waits for the summary");
    let (_, asked) = world.summary.clone().expect("a summary is requested");
    assert!(text(&asked).contains(GOAL) && asked.messages.len() == 1);
    let usage = Usage { input_tokens: 20_000, output_tokens: 50, cached_tokens: 0 };
    let reply = Reply {
        usage,
        ..says(r#"{"facts": [{"host": "local", "fact": "port 8443 is closed"}], "next": ["open it"]}"#)
    };
    world.summarized(Ok(reply));
    let compaction = compactions(&world)[0];
    assert_eq!(
        compaction.summary.as_deref(),
        Some("Facts:\n- local: port 8443 is closed\nNext:\n- open it\n")
    );
    assert_eq!((compaction.usage, compaction.reason), (usage, CompactionReason::Threshold));
    assert!(compaction.replaced > 10 && compaction.ledger.contains(GOAL), "{compaction:?}");
    assert!(text(request(&world)).contains("port 8443 is closed"));
}

/// Fills the context until a summary is requested.
fn waiting_for_a_summary() -> World {
    let mut world = world(32_768);
    world.prompt(GOAL);
    for n in 0.. {
        world.reply(thinks_aloud(n));
        world.outcome(ok("done"));
        if world.summary.is_some() {
            return world;
        }
    }
    unreachable!("the context fills");
}

#[test]
fn a_failed_summary_leaves_the_ledger_alone() {
    for result in [Err(failure(FailureKind::Unreachable)), Ok(says("I refuse.")), Ok(says(""))] {
        let mut world = waiting_for_a_summary();
        world.summarized(result);
        let compaction = compactions(&world)[0];
        assert!(compaction.summary.is_none() && compaction.ledger.contains(GOAL), "{compaction:?}");
        assert!(world.asked.is_some());
    }
}

#[test]
fn a_crash_while_a_summary_is_written_starts_it_again() {
    let mut world = waiting_for_a_summary();
    world.crash();
    assert!(world.summary.is_none() && world.asked.is_none());
    world.tell(Input::Resume);
    assert!(world.summary.is_some());
    world.summarized(Ok(says(r#"{"facts": [{"fact": "f"}]}"#)));
    assert_eq!(compactions(&world).len(), 1);
    assert!(world.asked.is_some());
}

#[test]
fn stopping_drops_the_summary_and_late_answers_change_nothing() {
    let mut world = waiting_for_a_summary();
    let (attempt, _) = world.summary.clone().expect("a summary is requested");
    world.tell(Input::Cancel);
    assert_eq!((world.session.activity(), world.summary.is_none()), (Activity::Idle, true));
    world.tell(Input::Summarized { attempt, result: Ok(says("{}")) });
    assert_eq!((world.lines().as_str(), compactions(&world).len()), ("", 0));
}

#[test]
fn a_user_compacts_an_idle_session_and_a_prompt_waits_for_it() {
    let mut world = world(200_000);
    world.prompt(GOAL);
    work(&mut world, 0, 10, 4_000);
    world.reply(says("It is closed."));
    assert_eq!(world.session.activity(), Activity::Idle);
    world.tell(Input::Compact { focus: Some("the ports".to_owned()) });
    let (_, asked) = world.summary.clone().expect("a summary is requested");
    assert!(text(&asked).contains("the ports"));
    world.prompt("and port 80?");
    assert_eq!(world.session.queued(), 1);
    world.summarized(Ok(says(r#"{"facts": [{"fact": "f"}]}"#)));
    let compaction = compactions(&world)[0];
    assert_eq!(
        (compaction.focus.as_deref(), compaction.reason),
        (Some("the ports"), CompactionReason::Asked)
    );
    assert!(text(request(&world)).ends_with("and port 80?\n"));
    assert!(text(request(&world)).contains(GOAL));
}

#[test]
fn an_asked_compaction_waits_for_the_running_step_and_may_have_nothing_to_do() {
    let mut world = world(200_000);
    world.tell(Input::Compact { focus: None });
    assert_eq!((world.lines().as_str(), world.last.effects.len()), ("", 0));
    world.prompt(GOAL);
    work(&mut world, 0, 10, 4_000);
    world.tell(Input::Compact { focus: None });
    assert!(world.summary.is_none());
    world.reply(calls(vec![bash("late", "true")]));
    world.outcome(ok(""));
    assert!(world.summary.is_some(), "{}", world.lines());
}

#[test]
fn ledger_only_never_asks_a_model() {
    let mut spec = windowed(32_768, ApprovalMode::Auto);
    spec.ledger_only = true;
    let mut world = World::new(spec);
    world.prompt(GOAL);
    for n in 0..40 {
        world.reply(thinks_aloud(n));
        world.outcome(ok("done"));
    }
    assert!(world.summary.is_none() && !compactions(&world).is_empty());
    assert!(compactions(&world).iter().all(|compaction| compaction.usage.is_zero()));
}

#[test]
fn a_rejected_prompt_is_compacted_and_the_window_is_learned() {
    let mut world = world(200_000);
    world.prompt(GOAL);
    work(&mut world, 0, 20, 4_000);
    world.fail(FailureKind::ContextOverflow);
    assert!(world.asked.is_some(), "{}", world.lines());
    assert_eq!(compactions(&world)[0].reason, CompactionReason::Overflow);
    assert!(world.session.context_window() < 45_000, "{}", world.session.context_window());
    let learned = world.session.context_window();
    work(&mut world, 20, 60, 4_000);
    assert!(world.session.context_window() == learned && compactions(&world).len() > 2);
}

#[test]
fn a_first_overflow_is_retried_with_a_shorter_reply() {
    let mut spec = windowed(200_000, ApprovalMode::Auto);
    spec.models.clear();
    let mut world = World::new(spec);
    world.prompt(GOAL);
    let limit = |world: &World| request(world).sampling_defaults.output_tokens.expect("a limit");
    assert_eq!(limit(&world), 4_096, "the window is unknown");
    world.fail(FailureKind::ContextOverflow);
    assert!((1_024..4_096).contains(&limit(&world)), "{}", limit(&world));
    assert!(compactions(&world).is_empty());
    world.fail(FailureKind::ContextOverflow);
    assert!(world.asked.is_none(), "{}", world.lines());
}

#[test]
fn replies_are_limited_to_what_the_window_leaves() {
    let mut world = world(32_768);
    world.prompt(GOAL);
    let limit = |world: &World| request(world).sampling_defaults.output_tokens.expect("a limit");
    assert_eq!(limit(&world), 16_384);
    work(&mut world, 0, 8, 5_000);
    assert!(u64::from(limit(&world)) + world.session.prompt_tokens() <= 32_768 && limit(&world) < 16_384);
}

#[test]
fn a_prompt_that_never_fits_ends_the_turn_with_advice() {
    let mut spec = windowed(4_096, ApprovalMode::Auto);
    spec.system = "Be brief. ".repeat(800);
    let mut world = World::new(spec);
    world.prompt(GOAL);
    for _ in 0..20 {
        if world.asked.is_none() {
            break;
        }
        world.fail(FailureKind::ContextOverflow);
    }
    assert!(world.lines().contains("use a model with a larger window"), "{}", world.lines());
}

#[test]
fn a_long_prompt_that_does_not_fit_is_not_blamed_on_the_instructions() {
    let mut world = world(8_192);
    world.prompt(&"x ".repeat(6_000));
    while world.asked.is_some() {
        world.fail(FailureKind::ContextOverflow);
    }
    assert!(world.lines().contains("turn 1 ended failed"), "{}", world.lines());
    assert!(!world.lines().contains("fixed part of the prompt"), "{}", world.lines());
}

#[test]
fn a_pending_approval_postpones_the_compaction() {
    let mut world = World::new(windowed(8_192, ApprovalMode::Each));
    world.prompt(GOAL);
    for n in 0..60 {
        world.reply(calls(vec![bash(&format!("c{n}"), &format!("echo {n} {}", "x".repeat(400)))]));
        assert_eq!(world.session.activity(), Activity::AwaitingApproval);
        world.allow();
        world.outcome(ok(&"y".repeat(600)));
    }
    assert!(compactions(&world).len() > 1);
}

#[test]
fn clearing_forgets_the_ledger() {
    let mut world = world(8_192);
    world.prompt(GOAL);
    work(&mut world, 0, 90, 1_000);
    world.reply(says("done"));
    assert!(!compactions(&world).is_empty());
    world.tell(Input::Clear);
    world.prompt("something else");
    work(&mut world, 100, 90, 1_000);
    assert!(!text(request(&world)).contains("8443"), "{}", text(request(&world)));
    assert!(text(request(&world)).contains("Goal: something else"));
}

/// Twenty questions about a long session, answered from the compacted prompt alone.
#[test]
fn twenty_questions_are_answered_from_the_compacted_context() {
    for window in [8_192, 32_768] {
        let mut world = World::new(windowed(window, ApprovalMode::Each));
        world.prompt(GOAL);
        let mut n = 0;
        let mut run = |world: &mut World, command: &str, code: i32, output: &str| {
            n += 1;
            world.reply(calls(vec![bash(&format!("c{n}"), command)]));
            world.allow();
            let status = if code == 0 { Status::Ok } else { Status::Failed };
            world.outcome(Outcome { exit_code: Some(code), ..Outcome::new(status, output) });
            if world.summary.is_some() {
                world.summarized(Err(failure(FailureKind::Unreachable)));
            }
        };
        run(&mut world, "ss -ltn", 0, "LISTEN 0 511 0.0.0.0:80");
        run(&mut world, "uname -n", 0, "web1.example.org");
        run(
            &mut world,
            "nginx -t",
            1,
            "nginx: [emerg] cannot load certificate /etc/ssl/web1.pem: No such file",
        );
        run(&mut world, "ls /etc/ssl", 0, "web1-2025.pem");
        world.reply(calls(vec![bash("no1", "systemctl restart postgresql")]));
        world.decide(Decision::Reject { reason: "never restart the database".to_owned() });
        world.reply(calls(vec![bash("no2", "rm /etc/ssl/web1-2025.pem")]));
        world.decide(Decision::Reject { reason: "keep the old certificate".to_owned() });
        run(&mut world, "ln -s web1-2025.pem /etc/ssl/web1.pem", 0, "");
        run(&mut world, "sed -i s/8080/8443/ /etc/nginx/conf.d/web.conf", 0, "");
        run(&mut world, "systemctl reload nginx", 0, "");
        run(&mut world, "apt-get install -y certbot", 100, "E: Unable to locate package certbot");
        world.reply(says("The link was missing."));
        world.prompt("use port 8444 for the admin page, and tell me before you touch the firewall");
        let mut page = 0;
        while compactions(&world).last().is_none_or(|compaction| compaction.replaced == 0) {
            let body = "z".repeat(window as usize / 12);
            run(&mut world, &format!("curl -sk https://web1:8443/{page}"), 0, &format!("page {page} {body}"));
            page += 1;
        }
        let last = format!("page {} z", page - 1);
        let context = text(request(&world));
        for (question, answer) in [
            ("what is the goal", GOAL),
            ("what did the user add", "use port 8444 for the admin page"),
            ("what needs a word first", "tell me before you touch the firewall"),
            ("what must not be restarted", "systemctl restart postgresql"),
            ("why not", "never restart the database"),
            ("what must not be removed", "rm /etc/ssl/web1-2025.pem"),
            ("why must it stay", "keep the old certificate"),
            ("what listened at first", "0.0.0.0:80"),
            ("what is the full name of the host", "web1.example.org"),
            ("did the first check pass", "`nginx -t` -> exit 1"),
            ("what did nginx miss", "/etc/ssl/web1.pem: No such file"),
            ("which certificate exists", "web1-2025.pem"),
            ("which link was made", "local: /etc/ssl/web1.pem"),
            ("which config was changed", "local: /etc/nginx/conf.d/web.conf"),
            ("which unit was reloaded", "local: systemctl reload nginx"),
            ("which package was tried", "local: apt-get install -y certbot"),
            ("what ran last", &last),
            ("where are we", "this machine, in /srv"),
            ("how were the newest checks made", "curl -sk https://web1:8443/"),
            ("is the work so far listed as done", "exit 0"),
        ] {
            assert!(context.contains(answer), "{window}: {question}? `{answer}` is not in:\n{context}");
        }
    }
}
