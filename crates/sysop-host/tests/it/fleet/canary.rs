//! Tests of the canary: a few hosts go first, and the others follow only if these succeed with the same result.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use sysop_core::outcome::{Outcome, Status};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{Fleet, FleetSettings};
use tokio::time::sleep;

use super::{by_host, call, exited, fake, fleet_with, run, settings};

type Trace = Arc<Mutex<Vec<String>>>;

/// Returns a fleet of `h0`, `h1`, … with these outcomes, and a trace of the start and end of each call.
fn fleet(canary: usize, outcomes: &[Outcome]) -> (Fleet, Trace) {
    let trace = Trace::default();
    let hosts = outcomes.iter().enumerate().map(|(number, outcome)| {
        let (outcome, trace) = (outcome.clone(), Arc::clone(&trace));
        let host = fake(move |_, _, _| {
            let (outcome, trace) = (outcome.clone(), Arc::clone(&trace));
            async move {
                trace.lock().push(format!("+{number}"));
                sleep(Duration::from_secs(1)).await; // on the paused clock, without a real wait
                trace.lock().push(format!("-{number}"));
                outcome
            }
        });
        (format!("h{number}"), host)
    });
    let settings = FleetSettings { canary: NonZeroUsize::new(canary), ..settings() };
    (fleet_with(hosts, settings).unwrap(), trace)
}

async fn change(fleet: &Fleet) -> Outcome {
    run(fleet, call("bash", json!({ "command": "systemctl restart nginx" }))).await
}

fn seen(trace: &Trace) -> Vec<String> {
    trace.lock().clone()
}

#[tokio::test(start_paused = true)]
async fn other_hosts_follow_if_all_canaries_succeed_alike() {
    let (fleet, trace) = fleet(2, &[exited(0, "a"), exited(0, "a"), exited(0, "a"), exited(1, "b")]);
    let outcome = change(&fleet).await;
    assert_eq!(seen(&trace), ["+0", "+1", "-0", "-1", "+2", "+3", "-2", "-3"]);
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(by_host(&outcome), ["h0 ok 2", "h1 ok 2", "h2 ok 2", "h3 failed 1"]);
}

#[tokio::test(start_paused = true)]
async fn no_host_follows_if_a_canary_fails() {
    let (fleet, trace) = fleet(2, &[exited(0, "a"), exited(1, "bad"), exited(0, "a"), exited(0, "a")]);
    let outcome = change(&fleet).await;
    assert_eq!(seen(&trace), ["+0", "+1", "-0", "-1"], "the others never began");
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, None));
    assert_eq!(by_host(&outcome), ["h0 ok 2", "h1 failed 1", "h2 rejected 3", "h3 rejected 3"]);
    assert_eq!(
        outcome.output,
        "== h1 (1 host of 4): exit code 1 ==\nbad\n== h0 (1 host of 4): exit code 0 ==\na\n\
         == h2, h3 (2 hosts of 4): not run ==\nnot run: h1 in the canary group ended with: exit code 1"
    );
}

#[tokio::test(start_paused = true)]
async fn no_host_follows_if_canaries_differ() {
    let (fleet, trace) = fleet(2, &[exited(0, "a"), exited(0, "b"), exited(0, "a")]);
    let outcome = change(&fleet).await;
    assert_eq!(seen(&trace).len(), 4);
    assert_eq!(outcome.status, Status::Failed, "a host ran the call, so the call does not count as rejected");
    assert!(
        outcome.output.ends_with(
            "== h2 (1 host of 3): not run ==\nnot run: the canary hosts h0 and h1 gave different results"
        ),
        "{}",
        outcome.output
    );
}

#[tokio::test(start_paused = true)]
async fn stopping_during_the_canary_stops_all() {
    let stopped = Outcome::new(Status::Cancelled, "[stopped]");
    let (fleet, trace) = fleet(1, &[stopped, exited(0, "")]);
    let outcome = change(&fleet).await;
    assert_eq!(seen(&trace), ["+0", "-0"]);
    assert_eq!(by_host(&outcome), ["h0 cancelled 1", "h1 cancelled 2"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_after_the_canary_starts_no_more_hosts() {
    let (fleet, trace) = fleet(1, &[exited(0, ""), exited(0, "")]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = fleet.run(call("bash", json!({ "command": "x" })), DeltaSink::none(), cancel).await;
    assert!(seen(&trace).is_empty());
    assert_eq!(by_host(&outcome), ["h0 cancelled 1", "h1 cancelled 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_only_bash_reads_as_a_test_goes_to_the_canary_first() {
    let (fleet, trace) = fleet(1, &[exited(0, ""), exited(0, "")]);
    run(&fleet, call("bash", json!({ "command": "[[ a > b ]]" }))).await;
    assert_eq!(seen(&trace), ["+0", "-0", "+1", "-1"]);
}

#[tokio::test(start_paused = true)]
async fn read_only_calls_need_no_canary() {
    let reads = [
        call("read_file", json!({ "path": "x" })),
        call("bash", json!({ "command": "hostname; systemctl status nginx | head -n 3" })),
    ];
    for call in reads {
        let (fleet, trace) = fleet(1, &[exited(1, "a"), exited(0, "b")]);
        run(&fleet, call).await;
        assert_eq!(seen(&trace), ["+0", "+1", "-0", "-1"]);
    }
}
