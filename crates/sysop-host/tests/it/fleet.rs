//! Tests of fleets: the order of calls, the combined report, and the isolation of hosts from each other.

mod canary;
mod files;
mod prompter;
mod text;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::catalog::{self, Profile};
use sysop_core::event::TypedInput;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_core::policy::{CommandContext, Dialect, Survey, UndoOffer};
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use sysop_host::{Fleet, FleetError, FleetSettings, HOSTS_AT_ONCE};
use tokio::time::{Instant, sleep};

use crate::world::Display;

type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Scripted host.
struct Fake {
    tools: Vec<ToolSpec>,
    act: Box<dyn Fn(ToolCall, DeltaSink, CancellationToken) -> Running + Send + Sync>,
    people: Arc<Mutex<Option<Arc<dyn Prompter>>>>,
    undo: UndoOffer,
    /// Reason why the survey does not reach the host.
    unreachable: Arc<Mutex<Option<String>>>,
    /// True if the host never answers a survey.
    is_silent: bool,
    /// Time that a survey takes.
    survey_time: Arc<Mutex<Duration>>,
}

#[async_trait]
impl Host for Fake {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        if self.is_silent {
            return std::future::pending().await;
        }
        let time = *self.survey_time.lock();
        sleep(time).await; // on a paused clock, without a real wait
        let unreachable = self.unreachable.lock().clone().filter(|_| !time.is_zero());
        Survey { undo: self.undo.clone(), unreachable, ..Survey::elsewhere(CommandContext::bash()) }
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        (self.act)(call, sink, cancel).await
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.people.lock() = Some(people);
    }
}

fn fake<F>(act: impl Fn(ToolCall, DeltaSink, CancellationToken) -> F + Send + Sync + 'static) -> Fake
where
    F: Future<Output = Outcome> + Send + 'static,
{
    Fake {
        tools: catalog::tools(Profile::Full),
        act: Box::new(move |call, sink, cancel| Box::pin(act(call, sink, cancel))),
        people: Arc::default(),
        undo: UndoOffer::NotNeeded,
        unreachable: Arc::default(),
        is_silent: false,
        survey_time: Arc::default(),
    }
}

/// Records the notices.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Prompter for Notices {
    async fn ask(&self, _: PromptRequest) -> PromptReply {
        PromptReply::Refused
    }

    fn typed(&self, _: &str, _: TypedInput) {}

    fn control(&self, _: Option<&str>) {}

    fn notice(&self, text: &str) {
        self.0.lock().push(text.to_owned());
    }
}

/// Returns a host that ends at once, always with this outcome.
fn ends(outcome: Outcome) -> Fake {
    fake(move |_, _, _| std::future::ready(outcome.clone()))
}

fn exited(code: i32, output: &str) -> Outcome {
    let status = if code == 0 { Status::Ok } else { Status::Failed };
    Outcome { exit_code: Some(code), ..Outcome::new(status, output) }
}

fn settings() -> FleetSettings {
    // No test with these settings stores an output.
    FleetSettings::new("/nonexistent")
}

fn fleet_with<N: Into<String>>(
    hosts: impl IntoIterator<Item = (N, Fake)>,
    settings: FleetSettings,
) -> Result<Fleet, FleetError> {
    let hosts = hosts.into_iter().map(|(name, host)| (name.into(), Arc::new(host) as Arc<dyn Host>));
    Fleet::new(hosts.collect(), settings)
}

fn fleet<N: Into<String>>(hosts: impl IntoIterator<Item = (N, Fake)>) -> Fleet {
    fleet_with(hosts, settings()).unwrap()
}

fn call(tool: &str, arguments: Value) -> ToolCall {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let arguments = Arguments::Object(arguments);
    ToolCall { id: CallId::new("call-1"), wire_id: None, name: tool.to_owned(), arguments }
}

async fn run(fleet: &Fleet, call: ToolCall) -> Outcome {
    fleet.run(call, DeltaSink::none(), CancellationToken::new()).await
}

async fn bash(fleet: &Fleet) -> Outcome {
    run(fleet, call("bash", json!({ "command": "true" }))).await
}

/// Formats the results as `web1 ok 1`: host, status and group.
fn by_host(outcome: &Outcome) -> Vec<String> {
    let line = |of: &HostOutcome| format!("{} {} {}", of.host, of.status.as_str(), of.group);
    outcome.hosts.iter().map(line).collect()
}

#[test]
fn a_fleet_offers_the_common_tools_without_the_terminal() {
    let terminal = |name: &str, effect| ToolSpec { name: name.to_owned(), effect, ..catalog::delete_file() };
    let with = |more: &[ToolSpec]| {
        let mut host = ends(Outcome::ok(""));
        host.tools = catalog::tools(Profile::Coder);
        host.tools.extend(more.iter().cloned());
        host
    };
    let hands = [terminal("run_command", ToolEffect::Command), terminal("send_keys", ToolEffect::Keys)];
    let end = terminal("task_complete", ToolEffect::Completes);
    let both = [&hands[..], std::slice::from_ref(&end)].concat();
    let more = [&both[..], &[catalog::delete_file()]].concat();
    let fleet = fleet([("web1", with(&more)), ("web2", with(&both))]);
    let names: Vec<&str> = fleet.tools().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        ["read_file", "write_file", "edit_file", "bash", "task_complete"],
        "a tool that one host lacks is not offered"
    );
    let other = ToolSpec { parameters: json!({ "type": "object" }).into(), ..end.clone() };
    let fleet = self::fleet([("web1", with(&[end])), ("web2", with(&[other]))]);
    assert!(
        !fleet.tools().iter().any(|spec| spec.name == "task_complete"),
        "tools with other arguments are not offered"
    );
    assert!(fleet.terminal().is_none());
}

#[tokio::test]
async fn an_unknown_tool_runs_on_no_host() {
    let fleet = fleet([("web1", fake(|_, _, _| async { panic!("a host ran the call") }))]);
    for (tool, why) in [
        ("run_command", "several hosts are selected; use bash"),
        ("nothing", "the tool nothing is not available on all hosts"),
    ] {
        let outcome = run(&fleet, call(tool, json!({}))).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains(why) && outcome.hosts.is_empty(), "{outcome:?}");
    }
}

#[test]
fn duplicate_host_names_are_rejected() {
    let of = |names: &[&str]| {
        let hosts = names.iter().map(|name| (*name, ends(Outcome::ok(""))));
        fleet_with(hosts, settings()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(of(&["web1", "web10", "ann@web1"]), Ok(()));
    assert_eq!(of(&[]).unwrap_err(), FleetError::Empty.to_string());
    for (names, why) in [
        (["web1", "web1"], "web1 and web1 are the same host"),
        (["web1", "WEB1"], "web1 and WEB1 are the same host"),
        (["fe80", "fe80::1"], "are ambiguous in fe80:PATH"),
        (["fe80::1", "fe80"], "are ambiguous in fe80:PATH"),
        (["web1", " "], "invalid host name"),
        (["web1", "web\n2"], "invalid host name"),
        (["web1", "web\u{202e}2"], "invalid host name"),
    ] {
        let error = of(&names).unwrap_err();
        assert!(error.contains(why), "{names:?}: {error}");
    }
}

/// Returns hosts with one-second calls, the current and the maximum number of concurrent calls.
fn counted(hosts: usize) -> (Vec<(String, Fake)>, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let host = |number: usize| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        let host = fake(move |_, _, _| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await; // on the paused clock, without a real wait
                now.fetch_sub(1, Ordering::SeqCst);
                exited(0, "")
            }
        });
        (format!("web{number}"), host)
    };
    ((0..hosts).map(host).collect(), now, most)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_hosts_run_with_bounded_concurrency() {
    let (hosts, now, most) = counted(1_000);
    let fleet = fleet(hosts);
    let started = Instant::now();
    let outcome = bash(&fleet).await;
    assert_eq!(outcome.status, Status::Ok);
    assert_eq!((outcome.exit_code, outcome.hosts.len()), (Some(0), 1_000));
    assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (HOSTS_AT_ONCE, 0));
    let seconds = started.elapsed().as_secs();
    assert_eq!(seconds, 63, "1,000 hosts, 16 at once, one second each");
    assert_eq!(outcome.duration_ms / 1000, seconds);
    let names: Vec<&str> = outcome.hosts.iter().map(|host| host.host.as_str()).collect();
    let in_order: Vec<String> = (0..1_000).map(|number| format!("web{number}")).collect();
    assert_eq!(names, in_order, "the results are in the order of the host names");
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_limit_is_configurable() {
    let (hosts, _, most) = counted(10);
    bash(&fleet_with(hosts, FleetSettings { at_once: 3, ..settings() }).unwrap()).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let (hosts, _, most) = counted(3);
    bash(&fleet_with(hosts, FleetSettings { at_once: 0, ..settings() }).unwrap()).await;
    assert_eq!(most.load(Ordering::SeqCst), 1, "zero concurrent calls count as one");
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_delays_no_other_and_ends_as_unknown() {
    let ended = Arc::new(Mutex::new(None));
    let (well, at) = (Arc::clone(&ended), Instant::now());
    let fleet = fleet_with(
        [
            ("dead1", fake(|_, _, _| std::future::pending())),
            ("dead2", fake(|_, _, _| std::future::pending())),
            (
                "web1",
                fake(move |_, _, _| {
                    *well.lock() = Some(at.elapsed());
                    std::future::ready(exited(0, "fine"))
                }),
            ),
        ],
        // The dead hosts occupy two of three places.
        FleetSettings { at_once: 3, ..settings() },
    );
    let outcome = run(&fleet.unwrap(), call("bash", json!({ "command": "x", "timeout_s": 5 }))).await;
    assert_eq!(ended.lock().unwrap(), Duration::ZERO, "the reachable host ran at once");
    assert_eq!(outcome.status, Status::Unknown);
    assert_eq!(by_host(&outcome), ["dead1 unknown 2", "dead2 unknown 2", "web1 ok 1"]);
    assert!(
        outcome
            .output
            .contains("[no response within 95 s, and the command did not stop; the result is unknown]")
    );
    assert_eq!(
        outcome.hosts[0].duration_ms, 105_000,
        "the call's timeout, the time to answer, and the time to stop"
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_late_reports_it() {
    let late = fake(|_, _, cancel| async move {
        cancel.cancelled().await;
        Outcome::new(Status::Cancelled, "half\n[stopped]")
    });
    let outcome = bash(&fleet([("web1", late), ("web2", ends(exited(0, "")))])).await;
    assert_eq!((outcome.status, outcome.hosts[0].status), (Status::Timeout, Status::Timeout));
    assert!(outcome.output.contains("half\n[stopped]\n[no response within 120 s; stopped]"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_running_hosts_and_starts_no_more() {
    let begun = Arc::new(AtomicUsize::new(0));
    let host = |stops: bool| {
        let begun = Arc::clone(&begun);
        fake(move |_, _, cancel| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                cancel.cancelled().await;
                if !stops {
                    std::future::pending::<()>().await;
                }
                Outcome::new(Status::Cancelled, "[stopped]")
            }
        })
    };
    let hosts = [("web1", host(true)), ("hangs", host(false)), ("web3", host(true))];
    let fleet = fleet_with(hosts, FleetSettings { at_once: 2, ..settings() }).unwrap();
    let cancel = CancellationToken::new();
    let stopping = async {
        sleep(Duration::from_secs(1)).await; // on the paused clock, without a real wait
        cancel.cancel();
    };
    let command = call("bash", json!({ "command": "x" }));
    let (outcome, ()) = tokio::join!(fleet.run(command, DeltaSink::none(), cancel.clone()), stopping);
    assert_eq!(begun.load(Ordering::SeqCst), 2, "the third host never started");
    assert_eq!(outcome.duration_ms, 11_000, "a host that hangs is given up");
    assert_eq!(outcome.status, Status::Unknown);
    let statuses: Vec<Status> = outcome.hosts.iter().map(|host| host.status).collect();
    assert_eq!(statuses, [Status::Cancelled, Status::Unknown, Status::Cancelled]);
    assert!(outcome.output.contains(
        "== web3 (1 host of 3): stopped ==\nnot run: the call was stopped before it reached this host"
    ));
}

#[tokio::test]
async fn a_lost_host_makes_the_result_unknown_and_affects_no_other() {
    let lost =
        || ends(Outcome::new(Status::Unknown, "the connection to db1 broke; nobody knows how it ended"));
    let outcome = bash(&fleet([("web1", ends(exited(0, "fine"))), ("db1", lost())])).await;
    assert_eq!(outcome.status, Status::Unknown);
    assert_eq!(by_host(&outcome), ["web1 ok 2", "db1 unknown 1"]);
    let breaks = fake(|_, _, _| async { panic!("a bug") });
    let outcome = bash(&fleet([("web1", breaks), ("db1", ends(exited(0, "fine")))])).await;
    assert_eq!(by_host(&outcome), ["web1 unknown 1", "db1 ok 2"]);
}

#[tokio::test]
async fn the_result_has_the_worst_status_and_a_common_exit_code() {
    let other = |status| Outcome::new(status, "");
    for (outcomes, status, exit_code) in [
        (vec![exited(0, "a"), exited(0, "b")], Status::Ok, Some(0)),
        (vec![exited(1, ""), exited(1, "")], Status::Failed, Some(1)),
        (vec![exited(0, ""), exited(1, "")], Status::Failed, None),
        (vec![exited(0, ""), Outcome::ok("")], Status::Ok, None),
        (vec![exited(1, ""), other(Status::Timeout)], Status::Timeout, None),
        (vec![other(Status::Cancelled), other(Status::Timeout)], Status::Cancelled, None),
        (vec![other(Status::Unknown), other(Status::Cancelled)], Status::Unknown, None),
        (vec![other(Status::Interrupted), exited(0, "")], Status::Unknown, None),
        (vec![other(Status::Rejected), other(Status::Rejected)], Status::Rejected, None),
        (vec![other(Status::Rejected), exited(0, "")], Status::Failed, None),
    ] {
        let hosts = outcomes.iter().enumerate().map(|(n, outcome)| (format!("w{n}"), ends(outcome.clone())));
        let outcome = bash(&fleet(hosts)).await;
        assert_eq!((outcome.status, outcome.exit_code), (status, exit_code), "{outcomes:?}");
    }
}

#[tokio::test]
async fn live_output_is_whole_lines_prefixed_with_the_host_and_counts_the_ended_hosts() {
    let (first, second) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (here, there) = (Arc::clone(&first), Arc::clone(&second));
    let web1 = fake(move |_, sink, _| {
        let (here, there) = (Arc::clone(&here), Arc::clone(&there));
        async move {
            sink.output("one\ntw");
            there.notify_one();
            here.notified().await;
            sink.output("o\n");
            sink.output("no end");
            exited(0, "")
        }
    });
    let web2 = fake(move |_, sink, _| {
        let (here, there) = (Arc::clone(&second), Arc::clone(&first));
        async move {
            here.notified().await;
            sink.output("in between\n\n");
            sink.output(&"x".repeat(9_000));
            sink.output("y\n");
            there.notify_one();
            exited(0, "")
        }
    });
    let fleet = fleet([("web1", web1), ("web2", web2)]);
    let display = Display::default();
    fleet.run(call("bash", json!({ "command": "x" })), display.sink(), CancellationToken::new()).await;
    let long = "x".repeat(9_000);
    assert_eq!(
        display.text(),
        format!(
            "web1 | one\nweb2 | in between\nweb2 | \nweb2 | {long}y\n\
             [1/2 hosts] web2: ok, exit code 0, 0 ms\nweb1 | two\nweb1 | no end\n\
             [2/2 hosts] web1: ok, exit code 0, 0 ms\n"
        )
    );
}

#[tokio::test]
async fn an_output_that_ends_with_undo_notes_does_not_repeat_the_exit_code() {
    let touched = |note: &str| ends(exited(0, &format!("[exit code 0]{note}")));
    let text =
        |note| async move { bash(&fleet([("web1", touched(note)), ("web2", touched(note))])).await.output };
    assert_eq!(text("").await, "== web1, web2 (2 hosts of 2): exit code 0 ==");
    let heading = "== web1, web2 (2 hosts of 2): exit code 0 ==\n[no undo: the disk is full]";
    assert_eq!(text("\n[no undo: the disk is full]").await, heading);
}

#[tokio::test]
async fn a_host_that_the_survey_did_not_reach_does_not_run_the_call() {
    let silent = fake(|_, _, _| std::future::ready(exited(0, "it ran")));
    let silent = Fake {
        unreachable: Arc::new(Mutex::new(Some("db1 did not respond in time".to_owned()))),
        survey_time: Arc::new(Mutex::new(Duration::from_millis(1))),
        ..silent
    };
    let fleet = fleet([("web1", ends(exited(0, "up"))), ("db1", silent)]);
    let uptime = call("bash", json!({ "command": "uptime" }));
    assert_eq!(fleet.survey(&uptime).await.unreachable, None, "one host was reached");
    let outcome = run(&fleet, uptime).await;
    let text = "== db1 (1 host of 2): not run ==\ndb1 did not respond in time\n";
    assert!(outcome.output.starts_with(text), "{}", outcome.output);
    assert!(!outcome.output.contains("it ran"), "{}", outcome.output);
}

#[tokio::test(start_paused = true)]
async fn live_lines_tell_the_time_on_hosts_on_which_the_call_ran() {
    let slow = fake(|_, _, _| async {
        sleep(Duration::from_millis(11_445)).await; // on the paused clock, without a real wait
        Outcome { duration_ms: 11_445, ..exited(0, "") }
    });
    let lost = fake(|_, _, _| async {
        sleep(Duration::from_secs(20)).await; // on the paused clock, without a real wait
        Outcome { duration_ms: 20_000, ..Outcome::unreachable("no route") }
    });
    let fleet = fleet([("web1", slow), ("web2", lost)]);
    let display = Display::default();
    fleet.run(call("bash", json!({ "command": "x" })), display.sink(), CancellationToken::new()).await;
    let expected = "[1/2 hosts] web1: ok, exit code 0, 11.4 s\n[2/2 hosts] web2: not run\n";
    assert_eq!(display.text(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_not_reached_delays_the_next_calls_by_a_second_until_it_is_back() {
    let time = Arc::new(Mutex::new(Duration::from_secs(8)));
    let dead = Fake {
        unreachable: Arc::new(Mutex::new(Some("no connection to dead".to_owned()))),
        survey_time: Arc::clone(&time),
        ..ends(exited(0, "it ran"))
    };
    let fleet = fleet([("web1", ends(exited(0, "up"))), ("dead", dead)]);
    let told = Notices::default();
    fleet.set_prompter(Arc::new(told.clone()));
    let mut waits = Vec::new();
    let mut reached = Vec::new();
    for number in 0..4 {
        if number == 3 {
            *time.lock() = Duration::ZERO;
            sleep(Duration::from_secs(10)).await; // on the paused clock; the survey in the background has ended
        }
        let start = Instant::now();
        let call =
            ToolCall { id: CallId::new(format!("c{number}")), ..call("bash", json!({ "command": "x" })) };
        assert_eq!(fleet.survey(&call).await.unreachable, None);
        waits.push(start.elapsed().as_secs());
        reached.push(run(&fleet, call).await.output.contains("it ran"));
    }
    assert_eq!((waits, reached), (vec![8, 1, 0, 0], vec![false, false, false, true]));
    assert_eq!(*told.0.lock(), ["checking the command on 2 hosts: waiting for dead…"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_host_runs_calls_again_after_a_late_survey_reached_it() {
    let unreachable = Arc::new(Mutex::new(Some("no connection to slow".to_owned())));
    let slow = Fake {
        unreachable: Arc::clone(&unreachable),
        survey_time: Arc::new(Mutex::new(Duration::from_secs(2))),
        ..ends(exited(0, "it ran"))
    };
    let fleet = fleet([("web1", ends(exited(0, "up"))), ("slow", slow)]);
    let mut calls = Vec::new();
    for number in 0..3 {
        let start = Instant::now();
        let call =
            ToolCall { id: CallId::new(format!("c{number}")), ..call("bash", json!({ "command": "x" })) };
        fleet.survey(&call).await;
        let wait = start.elapsed().as_secs();
        calls.push((wait, run(&fleet, call).await.output.contains("it ran")));
        *unreachable.lock() = None;
        sleep(Duration::from_secs(10)).await; // on the paused clock; the survey in the background has ended
    }
    assert_eq!(calls, [(2, false), (1, false), (2, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_run_on_a_host_that_is_back_for_a_later_call() {
    let unreachable = Arc::new(Mutex::new(Some("no connection to web2".to_owned())));
    let survey_time = Arc::new(Mutex::new(Duration::from_millis(100)));
    let away = Fake { unreachable: Arc::clone(&unreachable), survey_time, ..ends(exited(0, "it ran")) };
    let canary = fake(|_, _, _| async {
        sleep(Duration::from_secs(5)).await; // on the paused clock, without a real wait
        exited(0, "up")
    });
    let settings = FleetSettings { canary: std::num::NonZeroUsize::new(1), ..settings() };
    let fleet = fleet_with([("web1", canary), ("web2", away)], settings).unwrap();
    let named = |id: &str| ToolCall { id: CallId::new(id), ..call("bash", json!({ "command": "x" })) };
    fleet.survey(&named("first")).await;
    let later = async {
        sleep(Duration::from_secs(1)).await; // on the paused clock, while the canary runs
        *unreachable.lock() = None;
        fleet.survey(&named("later")).await
    };
    let (outcome, survey) = tokio::join!(run(&fleet, named("first")), later);
    assert_eq!(survey.incomplete, None, "web2 is back");
    assert!(!outcome.output.contains("it ran"), "{}", outcome.output);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_a_proposal_called_unreachable_does_not_run_the_call_if_it_is_back_before_the_answer() {
    let unreachable = Arc::new(Mutex::new(Some("connection refused".to_owned())));
    let survey_time = Arc::new(Mutex::new(Duration::from_millis(100)));
    let dead = Fake { unreachable: Arc::clone(&unreachable), survey_time, ..ends(exited(0, "it ran")) };
    let fleet = fleet([("web1", ends(exited(0, "up"))), ("dead1", dead)]);
    let named = |id: &str| ToolCall { id: CallId::new(id), ..call("bash", json!({ "command": "x" })) };
    let proposed = fleet.survey(&named("first")).await.unreached;
    *unreachable.lock() = None;
    assert_eq!(proposed, ["dead1: connection refused"]);
    assert_eq!(fleet.survey(&named("first")).await.unreached, proposed);
    let output = run(&fleet, named("first")).await.output;
    assert!(output.contains("connection refused") && !output.contains("it ran"), "{output}");
    assert!(fleet.survey(&named("next")).await.unreached.is_empty());
    assert!(run(&fleet, named("next")).await.output.contains("it ran"));
}

#[tokio::test(start_paused = true)]
async fn a_survey_names_the_host_that_did_not_answer_in_time() {
    let silent = || Fake { is_silent: true, ..ends(exited(0, "")) };
    let survey = fleet([("web1", ends(exited(0, ""))), ("web2", silent())])
        .survey(&call("bash", json!({ "command": "uptime" })))
        .await;
    assert_eq!((survey.unreachable, survey.context.dialect), (None, Dialect::Unknown));
    assert_eq!(survey.incomplete.as_deref(), Some("web2 did not answer within 9.5 s"));
    let undo = json!({ "call": "c", "records": [{ "id": "r", "host": "web2", "rights": "own" }] });
    let survey = fleet([("web1", ends(exited(0, ""))), ("web2", silent())]).survey(&call("undo", undo)).await;
    let why = "web2 did not answer within 9.5 s".to_owned();
    assert_eq!(survey.undo, UndoOffer::Refused { why }, "nobody knows what the undo would do");
}
