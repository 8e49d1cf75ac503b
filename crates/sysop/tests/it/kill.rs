//! The binary killed at any moment: printed events are stored, started calls are known, and nothing runs twice.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::Value;
use sysop_core::event::{Event, Logged};
use sysop_core::id::{Seq, SessionId};
use sysop_core::message::ToolCall;
use sysop_core::outcome::Status;
use sysop_core::session::{Activity, Session};
use sysop_driver::port::Store;
use sysop_store::SqliteStore;

use crate::World;
use crate::support::{Mock, bash, calls, lines_of_json, say, wait_until_gone, wait_until_there};

/// Number of kills in one run of the test, unless `SYSOP_TEST_KILLS` sets another.
const KILLS: usize = 60;
/// Number of kills per session.
const KILLS_A_SESSION: usize = 10;
/// Number of sessions tested at the same time.
const THREADS: usize = 4;
/// Number of steps of the scenario; each appends two lines.
const STEPS: usize = 8;
/// File of the lines, in the workspace.
const FILE: &str = "lines";

/// Small deterministic generator: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.next() % u64::try_from(limit.as_micros()).unwrap().max(1))
    }
}

/// Prompt of one process of a session; its steps append lines that no other prompt appends.
fn trigger(life: usize) -> String {
    format!("life {life} of the task")
}

fn append(life: usize, number: usize) -> String {
    format!("echo {life}-{number} >> {FILE}")
}

fn scenario() -> Mock {
    let lives: Vec<(String, Vec<Value>)> = (0..=KILLS_A_SESSION)
        .map(|life| {
            let mut responses = Vec::new();
            for step in 0..STEPS {
                // Two calls give two results, so the following step is two further on.
                let both = [2 * step, 2 * step + 1]
                    .map(|number| ("", "bash", serde_json::json!({ "command": append(life, number) })));
                responses.push(calls("Two more.", &both));
                responses.push(say("out of step"));
            }
            responses.push(say("All lines are there."));
            (trigger(life), responses)
        })
        .collect();
    let lives: Vec<(&str, Vec<Value>)> =
        lives.iter().map(|(trigger, responses)| (trigger.as_str(), responses.clone())).collect();
    Mock::start(&lives)
}

/// Reads the logs from the database file.
fn logs(world: &World) -> Vec<(SessionId, Vec<Logged>)> {
    let path = world.data().join("sysop.db");
    if !path.exists() {
        return Vec::new();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        let mut logs = Vec::new();
        for summary in store.list(100).await.unwrap() {
            let log = store.load(&summary.id, Seq(0), 100_000).await.unwrap();
            logs.push((summary.id, log));
        }
        store.close().await;
        logs
    })
}

/// Calls in the log.
#[derive(Default)]
struct Calls {
    started: BTreeMap<String, ToolCall>,
    finished: BTreeMap<String, Status>,
}

impl Calls {
    fn of(log: &[Logged]) -> Self {
        let mut calls = Self::default();
        for logged in log {
            if let Event::ToolStarted { call, .. } = &logged.event {
                let before = calls.started.insert(call.id.to_string(), call.clone());
                assert!(before.is_none(), "{} started twice", call.id);
            } else if let Event::ToolFinished { call, outcome } = &logged.event {
                let before = calls.finished.insert(call.to_string(), outcome.status);
                assert!(before.is_none(), "{call} finished twice");
            }
        }
        calls
    }

    /// Calls that have started and have no known result.
    fn open(&self) -> Vec<&String> {
        self.started.keys().filter(|id| !self.finished.contains_key(*id)).collect()
    }
}

/// Checks a log against the printed events and the files on disk.
fn check(world: &World, log: &[Logged], printed: &str) -> Calls {
    let seqs: Vec<u64> = log.iter().map(|logged| logged.seq.0).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>(), "the log has no gap");
    let session = Session::replay(log.iter().map(|logged| &logged.event)).unwrap();
    let calls = Calls::of(log);
    assert_eq!(session.activity() == Activity::Running, !calls.open().is_empty());
    assert!(calls.open().len() <= 1, "{:?}", calls.open());

    // A truncated message does not count as printed.
    let whole = printed.rfind('\n').map_or("", |end| &printed[..end]);
    let events: HashMap<u64, &Event> = log.iter().map(|logged| (logged.seq.0, &logged.event)).collect();
    for message in lines_of_json(whole) {
        let Some(seq) = message["seq"].as_u64() else { continue };
        let event = events.get(&seq).unwrap_or_else(|| panic!("printed but not stored: {message}"));
        match (message["type"].as_str().unwrap(), event) {
            ("tool.call", Event::ToolStarted { call, .. }) => {
                assert_eq!(message["toolCallId"], call.id.to_string());
            }
            ("tool.finished", Event::ToolFinished { call, .. }) => {
                assert_eq!(message["toolCallId"], call.to_string());
            }
            ("tool.call" | "tool.finished", other) => panic!("{message} differs from {other:?}"),
            _ => {}
        }
    }

    let text = fs::read_to_string(world.work().join(FILE)).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "a line appears twice: {lines:?}");
    let command_of = |line: &str| format!("echo {line} >> {FILE}");
    for line in &lines {
        let started =
            calls.started.values().any(|call| call.text_argument("command") == Some(&command_of(line)));
        assert!(started, "{line} was written by a call that is not in the log");
    }
    for (id, status) in &calls.finished {
        if *status == Status::Ok {
            let command = calls.started[id].text_argument("command").unwrap();
            assert!(lines.iter().any(|line| command_of(line) == command), "{command} did not run");
        }
    }
    calls
}

/// Kills one session again and again and then completes it. Returns the number of interrupted calls.
fn torment(seed: u64, whole: Duration) -> usize {
    let mock = scenario();
    let world = World::with_openai(&mock.url());
    let mut random = Random(seed);
    let mut interrupted = Vec::new();
    for life in 0..KILLS_A_SESSION {
        let task = trigger(life);
        let before = logs(&world).pop();
        let resume = before.as_ref().map(|(id, _)| format!("--resume={id}"));
        let mut arguments = vec!["exec", "--approve", "auto", "--json", &task];
        arguments.extend(resume.as_deref());
        let mut running = world.start(&arguments);
        running.ends_within(random.below(whole));
        let run = running.kill();
        assert!(matches!(run.code, None | Some(0)), "{run:?}");
        let Some((_, log)) = logs(&world).pop() else {
            assert_eq!(run.out.lines().count(), 0, "printed but not stored: {run:?}");
            continue;
        };
        let calls = check(&world, &log, &run.out);
        // A process that was killed before it logged anything changed nothing.
        let nothing_new = before.is_some_and(|(_, before)| before.len() == log.len());
        for id in &interrupted {
            let status = calls.finished.get(id);
            assert!(status == Some(&Status::Interrupted) || nothing_new, "{id} ended as {status:?}");
        }
        interrupted.extend(calls.open().into_iter().cloned());
        interrupted.sort();
        interrupted.dedup();
    }
    let task = trigger(KILLS_A_SESSION);
    let resumed = logs(&world).pop().is_some();
    let mut arguments = vec!["exec", "--approve", "auto", "--json", &task];
    arguments.extend(resumed.then_some("--resume"));
    let run = world.finish(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    let (_, log) = logs(&world).pop().unwrap();
    let calls = check(&world, &log, &run.out);
    assert!(calls.open().is_empty());
    for id in &interrupted {
        assert_eq!(calls.finished.get(id), Some(&Status::Interrupted), "{id}");
    }
    let text = world.read(FILE);
    for number in 0..2 * STEPS {
        let line = format!("{KILLS_A_SESSION}-{number}");
        assert!(text.lines().any(|found| found == line), "the last process did its work: {line}\n{text}");
    }
    assert_eq!(logs(&world).len(), 1, "there is only one session");
    interrupted.len()
}

/// Measures the time that an undisturbed process takes on this machine now.
fn whole_life() -> Duration {
    let mock = scenario();
    let world = World::with_openai(&mock.url());
    let begun = Instant::now();
    let run = world.finish(&["exec", "--approve", "auto", "--json", &trigger(0)]);
    assert_eq!(run.code, Some(0), "{run:?}");
    begun.elapsed()
}

#[test]
fn a_kill_at_any_moment_loses_no_published_event_and_repeats_nothing() {
    let seed = match std::env::var("SYSOP_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap(),
    };
    println!("SYSOP_TEST_SEED={seed} repeats the kill points of this run");
    let kills = std::env::var("SYSOP_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let whole = whole_life();
    let (next, interrupted) = (AtomicUsize::new(0), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= kills / KILLS_A_SESSION {
                        return;
                    }
                    let count = torment(seed.wrapping_add(number as u64), whole);
                    *interrupted.lock() += count;
                }
            });
        }
    });
    let interrupted = interrupted.into_inner();
    println!("{kills} kills within {whole:?} of a start; {interrupted} hit a running command");
    assert!(interrupted > 0, "no kill hit a running command, so the test covered nothing");
}

#[test]
fn a_kill_ends_running_commands_and_marks_them_interrupted() {
    let name = format!("sleep 4{}", std::process::id());
    // A command is registered with the crash guard once it has run for 0.1 s.
    let command = format!("echo before >> {FILE}; sleep 0.3; echo ready; {name}; echo after >> {FILE}");
    let mock = Mock::start(&[
        ("the long one", vec![bash(&command), say("never said")]),
        ("go on", vec![say("Going on.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let running = world.start(&["exec", "--approve", "auto", "--json", "the long one"]);
    running.out.wait_for_text("\"content\":\"ready");
    wait_until_there(&name, Duration::from_secs(5));
    let run = running.kill();
    assert_eq!(run.code, None);
    wait_until_gone(&name, Duration::from_secs(5));
    let (id, log) = logs(&world).pop().unwrap();
    let open = check_open(&log);
    let run = world.finish(&["exec", &format!("--resume={id}"), "go on"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Going on.\n"), "{run:?}");
    let (_, log) = logs(&world).pop().unwrap();
    assert_eq!(Calls::of(&log).finished.get(&open), Some(&Status::Interrupted));
    assert_eq!(world.read(FILE), "before\n", "the call was not run again");
    let told = mock.last_body()["messages"].to_string();
    assert!(told.contains("outcome unknown"), "the model is told: {told}");
    let shown = world.finish(&["sessions", "show", id.as_str()]).out;
    assert!(shown.contains("interrupted"), "{shown}");
}

#[test]
fn a_session_that_another_process_works_on_is_not_resumed() {
    let mock = Mock::start(&[
        ("the long one", vec![bash("echo ready; cat gate"), say("All done.")]),
        ("go on", vec![say("Going on.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let gate = world.work().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let running = world.start(&["exec", "--approve", "auto", "--json", "the long one"]);
    running.out.wait_for_text("\"content\":\"ready");
    let process = running.pid();
    let run = world.finish(&["exec", "--resume", "go on"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains(&format!("is running in another process ({process})")), "{run:?}");
    std::fs::write(&gate, "go\n").unwrap();
    let run = running.finish();
    assert!(run.code == Some(0) && run.out.contains("All done."), "{run:?}");
    let (_, log) = logs(&world).pop().unwrap();
    assert!(Calls::of(&log).finished.values().all(|status| *status == Status::Ok));
    let run = world.finish(&["exec", "--resume", "go on"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Going on.\n"), "{run:?}");
}

fn check_open(log: &[Logged]) -> String {
    let calls = Calls::of(log);
    let open = calls.open();
    assert_eq!(open.len(), 1, "{open:?}");
    open[0].clone()
}

#[test]
fn a_resumed_chat_shows_interrupted_calls_and_continues() {
    let mock = Mock::start(&[
        ("the long one", vec![bash("sleep 0.3; echo ready; sleep 77"), say("never said")]),
        ("go on", vec![say("Going on.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let running = world.start(&["exec", "--approve", "auto", "--json", "the long one"]);
    running.out.wait_for_text("\"content\":\"ready");
    running.kill();
    let mut chat = world.start_with_input(&["chat", "--plain", "--resume"]);
    chat.out.wait_for_text("You: ");
    chat.type_text("go on\n");
    chat.end_input();
    let run = chat.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("Agent: Going on."), "{run:?}");
    let (_, log) = logs(&world).pop().unwrap();
    assert!(Calls::of(&log).finished.values().any(|status| *status == Status::Interrupted));
}

#[test]
fn an_approval_open_at_a_kill_does_not_block_a_later_task() {
    let mock = Mock::start(&[
        ("ask me", vec![bash("touch made"), say("never said")]),
        ("go on", vec![say("Going on.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let mut chat = world.start_with_input(&["chat", "--plain"]);
    chat.type_text("ask me\n");
    chat.out.wait_for_text("Run it?");
    chat.kill();
    let run = world.start(&["exec", "--resume", "go on"]).finish_within(Duration::from_secs(20));
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Going on.\n"), "{run:?}");
    assert!(!world.has("made"));
    let (_, log) = logs(&world).pop().unwrap();
    assert_eq!(Calls::of(&log).finished.len(), 1, "the call that waited for approval has ended");
}

#[test]
fn a_routine_runs_in_a_killed_session() {
    let mock = Mock::start(&[("ask me", vec![bash("touch made"), say("never said")])]);
    let world = World::with_openai(&mock.url())
        .file(".config/sysop/config.toml", "[routines.greet]\ncmd = 'echo hello'\n");
    let mut chat = world.start_with_input(&["chat", "--plain"]);
    chat.type_text("ask me\n");
    chat.out.wait_for_text("Run it?");
    chat.kill();
    let run = world
        .start(&["run", "greet", "--approve", "auto", "--resume"])
        .finish_within(Duration::from_secs(20));
    assert_eq!((run.code, run.out.as_str()), (Some(0), "hello\n"), "{run:?}");
}

#[test]
fn a_signal_that_ends_a_chat_ends_its_commands() {
    for signal in [Signal::TERM, Signal::HUP] {
        let name = format!("sleep 5{}{}", std::process::id(), signal.as_raw());
        let world = World::new().variable("SYSOP_MODEL", "demo");
        let mut chat = world.start_with_input(&["chat", "--plain"]);
        chat.type_text(&format!("!echo ready; {name}\n"));
        chat.out.wait_for_text("ready\n");
        wait_until_there(&name, Duration::from_secs(5));
        chat.signal(signal);
        let run = chat.finish_within(Duration::from_secs(5));
        assert_eq!(run.code, Some(128 + signal.as_raw()), "{run:?}");
        wait_until_gone(&name, Duration::from_secs(5));
    }
}
