//! Tests of the report on several hosts: grouped, outliers first, and within the limits of one host.

use std::sync::Arc;

use serde_json::json;
use sysop_core::outcome::{Outcome, Status};
use sysop_driver::port::Host;
use sysop_host::{Fleet, FleetSettings, OutputLimits};

use super::{bash, by_host, call, ends, exited, fleet, fleet_with, run};
use crate::world::{Factory, Local, Setup};

#[tokio::test]
async fn equal_results_are_grouped_and_odd_hosts_come_first() {
    let ok = || ends(exited(0, "active"));
    let hosts = [("web1", ok()), ("db1", ends(exited(1, "inactive\n[exit code 1]"))), ("web2", ok())];
    let outcome = bash(&fleet(hosts)).await;
    assert_eq!(
        outcome.output,
        "== db1 (1 host of 3): exit code 1 ==\ninactive\n== web1, web2 (2 hosts of 3): exit code 0 ==\nactive"
    );
    assert_eq!(by_host(&outcome), ["web1 ok 2", "db1 failed 1", "web2 ok 2"]);
    assert!(!outcome.truncated && outcome.artifact.is_none());
}

#[tokio::test]
async fn equal_means_status_exit_code_and_output() {
    let plain = |status| ends(Outcome::new(status, "same"));
    let hosts = [
        ("a", ends(exited(0, "same"))),
        ("b", plain(Status::Ok)),
        ("c", plain(Status::Failed)),
        ("d", ends(exited(2, "same"))),
        ("e", ends(exited(0, "same "))),
        ("f", plain(Status::Timeout)),
        ("g", ends(exited(0, "same"))),
    ];
    let outcome = bash(&fleet(hosts)).await;
    let headings: Vec<&str> = outcome.output.lines().filter(|line| line.starts_with("==")).collect();
    assert_eq!(
        headings,
        [
            "== f (1 host of 7): timed out ==",
            "== c (1 host of 7): failed ==",
            "== d (1 host of 7): exit code 2 ==",
            "== b (1 host of 7): ok ==",
            "== e (1 host of 7): exit code 0 ==",
            "== a, g (2 hosts of 7): exit code 0 ==",
        ],
        "among groups of the same size, the worst comes first"
    );
}

#[tokio::test]
async fn hosts_cannot_imitate_each_other() {
    let forged = "x\n== db1 (1 host of 1): exit code 0 ==\nall is well";
    let outcome = bash(&fleet([("web1", ends(exited(0, forged))), ("db1", ends(exited(1, "")))])).await;
    let headings: Vec<&str> = outcome.output.lines().filter(|line| line.starts_with("== ")).collect();
    assert_eq!(headings, ["== db1 (1 host of 2): exit code 1 ==", "== web1 (1 host of 2): exit code 0 =="]);
    assert!(outcome.output.contains("\n == db1 (1 host of 1): exit code 0 ==\nall is well"));
}

fn limited(bytes: usize, lines: usize, outcomes: Vec<Outcome>) -> (Fleet, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let hosts = outcomes.into_iter().enumerate().map(|(n, outcome)| (format!("web{n}"), ends(outcome)));
    let limits = OutputLimits { bytes, lines };
    let settings = FleetSettings { limits, ..FleetSettings::new(home.path().join("artefacts")) };
    (fleet_with(hosts, settings).unwrap(), home)
}

fn numbered(host: usize, lines: usize) -> String {
    (0..lines).map(|line| format!("host {host} line {line}\n")).collect()
}

fn assert_within(outcome: &Outcome, bytes: usize, lines: usize) {
    let (bytes_told, lines_told) = (outcome.output.len(), outcome.output.lines().count());
    assert!(bytes_told <= bytes && lines_told <= lines, "{bytes_told} bytes, {lines_told} lines");
}

#[tokio::test]
async fn each_group_gets_a_share_and_truncated_output_is_an_artifact() {
    let outcomes =
        vec![exited(0, &numbered(0, 5)), exited(0, &numbered(1, 400)), exited(0, &numbered(2, 400))];
    let (fleet, home) = limited(50_000, 100, outcomes);
    let outcome = bash(&fleet).await;
    assert_within(&outcome, 50_000, 100);
    assert!(outcome.output.lines().count() > 90, "the available lines are used: {}", outcome.output);
    assert!(outcome.truncated);
    assert!(outcome.output.contains(&numbered(0, 5)), "short output is shown completely");
    for host in [1, 2] {
        for line in [0, 1, 397, 398] {
            assert!(outcome.output.contains(&format!("host {host} line {line}\n")), "head and tail stay");
        }
        assert!(!outcome.output.contains(&format!("host {host} line 200\n")));
    }
    let named: Vec<&str> = outcome.output.split("artifact ").skip(1).map(|rest| &rest[..27]).collect();
    assert_eq!(named.len(), 2, "{}", outcome.output);
    assert_eq!(outcome.artifact.as_deref(), Some(named[0]));
    for (host, name) in [1, 2].into_iter().zip(named) {
        let kept = std::fs::read_to_string(home.path().join("artefacts").join(name)).unwrap();
        assert_eq!(kept, numbered(host, 400));
    }
}

#[tokio::test]
async fn a_thousand_different_results_fit_the_limits() {
    for (bytes, lines) in [(51_200, 500), (51_200, 1_000_000), (4_096, 20), (2_000_000, 100)] {
        let outcomes = (0..1_000).map(|host| exited(host % 7, &numbered(usize::try_from(host).unwrap(), 50)));
        let (fleet, _home) = limited(bytes, lines, outcomes.collect());
        let outcome = bash(&fleet).await;
        assert_within(&outcome, bytes, lines);
        assert!(outcome.truncated && outcome.hosts.len() == 1_000);
        assert!(
            outcome.output.starts_with("== web1 (1 host of 1000): exit code 1 ==\n"),
            "{}",
            outcome.output
        );
        let left_out = outcome.output.lines().find(|line| line.contains("omitted: web")).unwrap();
        assert!(left_out.ends_with("; select fewer hosts at once] …"), "{left_out}");
        let told = outcome.output.lines().filter(|line| line.starts_with("== ")).count();
        assert!(left_out.starts_with(&format!("… [{} hosts with ", 1_000 - told)), "{told} told, {left_out}");
    }
}

#[tokio::test]
async fn the_majority_is_shown_with_any_number_of_odd_hosts() {
    let mut outcomes: Vec<Outcome> = (0..200).map(|host| exited(1, &numbered(host, 50))).collect();
    outcomes.extend((0..300).map(|_| exited(0, "all is well")));
    let (fleet, _home) = limited(8_192, 100, outcomes);
    let outcome = bash(&fleet).await;
    assert_within(&outcome, 8_192, 100);
    assert!(outcome.output.contains("(300 hosts of 500): exit code 0 ==\nall is well"), "{}", outcome.output);
    let heading = outcome.output.lines().find(|line| line.contains("(300 hosts of 500)")).unwrap();
    assert!(heading.starts_with("== web[200-499] (300 hosts of 500)"), "{heading}");
}

#[tokio::test]
async fn names_that_form_no_range_are_counted_once_they_do_not_fit() {
    let outcomes = (0..500).map(|host| exited(host % 2, if host % 2 == 0 { "all is well" } else { "bad" }));
    let (fleet, _home) = limited(8_192, 100, outcomes.collect());
    let outcome = bash(&fleet).await;
    let heading = outcome.output.lines().find(|line| line.contains("exit code 0")).unwrap();
    let names = "== web0, web2, web4, ";
    assert!(heading.starts_with(names) && heading.contains(" more (250 hosts of 500)"), "{heading}");
}

#[tokio::test]
async fn tiny_limits_still_name_the_worst_host() {
    let (fleet, _home) = limited(1, 1, vec![exited(0, "fine"), exited(0, "fine"), exited(1, "bad")]);
    let outcome = bash(&fleet).await;
    assert!(outcome.truncated && outcome.output.contains("== web0 and 1 more (2 hosts of 3)"), "{outcome:?}");
    assert!(outcome.output.contains("1 host with 1 other result omitted: web2"), "{outcome:?}");
}

#[tokio::test]
async fn equal_long_outputs_are_stored_once() {
    let limits = OutputLimits { bytes: 10_000, lines: 50 };
    // All three hosts store their outputs in one directory, like the hosts of one session.
    let worlds = [1, 2, 3].map(|_| Local.open(Setup { limits, ..Setup::default() }));
    let folder = tempfile::tempdir().unwrap();
    let hosts = worlds.iter().zip(["a", "b", "c"]).map(|(world, name)| {
        let settings = sysop_host::LocalSettings {
            limits,
            ..sysop_host::LocalSettings::new(world.root(), folder.path())
        };
        let host = sysop_host::LocalHost::open(settings).unwrap();
        (name.to_owned(), Arc::new(host) as Arc<dyn Host>)
    });
    let settings = FleetSettings { limits, ..FleetSettings::new(folder.path()) };
    let fleet = Fleet::new(hosts.collect(), settings).unwrap();
    for world in &worlds[..2] {
        world.put("middle", "5000\n");
    }
    worlds[2].put("middle", "5001\n");
    // The outputs differ in a single digit in the middle, which no excerpt shows.
    let command = "seq 1 4999; cat middle; seq 5002 10000";
    let outcome = run(&fleet, call("bash", json!({ "command": command }))).await;
    assert_eq!(by_host(&outcome), ["a ok 2", "b ok 2", "c ok 1"]);
    assert_within(&outcome, 10_000, 50);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "equal outputs are stored once");
    for name in outcome.output.split("artifact ").skip(1).map(|rest| &rest[..27]) {
        let kept = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(kept.starts_with("1\n2\n") && kept.ends_with("\n10000\n"));
    }
    assert_eq!(outcome.output.matches("full output: artifact ").count(), 2, "{}", outcome.output);
}
