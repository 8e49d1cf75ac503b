//! Runs commands that `never` allows, in a throwaway system that they must not change.
//!
//! Commands are mutated from everyday ones. Those that the analysis calls read-only run in each shell of their dialect,
//! in batches, in namespaces of their own (see `namespace.sh`). A batch that changes a file, a process, the network or
//! the machine's settings is bisected until the offending commands are found.
//!
//! `SYSOP_FUZZ_COMMANDS` is the number of commands to run, `SYSOP_FUZZ_SEED` the seed, which is printed. The seed is
//! fixed in plain test runs; `cargo xtask test --all` uses others.

mod generator;
mod namespace;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use sysop_shell::{Dialect, RiskClass, analyze};

use generator::Generator;
use namespace::{Batch, Case, Outcome};

/// Default number of commands to run.
const COMMANDS: usize = 2_000;
const BATCH_COMMANDS: usize = 200;
/// Number of batches that run in parallel. They spend part of their time waiting for programs that end only when
/// killed.
const WORKERS: usize = 4;
/// Maximum number of changes to bisect before the fuzzer gives up.
const FAILURES_MAX: usize = 25;

/// Result of a fuzz run.
#[derive(Default)]
struct Tally {
    generated: usize,
    runs: usize,
    succeeded: usize,
    failures: Vec<String>,
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

fn is_read_only(command: &str, dialect: Dialect) -> bool {
    analyze(command, &crate::review::survey(dialect)).risk.class == RiskClass::ReadOnly
}

/// Returns the next distinct commands that the classifier calls read-only.
fn draw(
    generator: &mut Generator,
    seen: &mut BTreeSet<(String, &'static str)>,
    allows: &impl Fn(&str, Dialect) -> bool,
    wanted: usize,
    generated: &mut usize,
) -> Vec<Case> {
    let mut cases = Vec::with_capacity(wanted);
    while cases.len() < wanted {
        let command = generator.command();
        let (dialect, name) = generator.dialect();
        *generated += 1;
        if allows(&command, dialect) && seen.insert((command.clone(), name)) {
            cases.push(Case { command, dialect });
        }
    }
    cases
}

/// Bisects a batch to the commands that cause its change. A change that neither half reproduces is reported for the
/// whole batch and never dropped.
fn find_changing(cases: &[Case], outcome: &Outcome, tally: &Mutex<Tally>) {
    let report = |text: String| {
        let failures = &mut tally.lock().failures;
        failures.push(format!("{text}\n    {}", outcome.changes.join("\n    ")));
    };
    if let [case] = cases {
        report(format!("{:?} {:?}", case.dialect, case.command));
        return;
    }
    let (left, right) = cases.split_at(cases.len() / 2);
    let mut is_found = false;
    for half in [left, right] {
        if tally.lock().failures.len() >= FAILURES_MAX {
            return;
        }
        let outcome = Batch::new(half).run();
        if !outcome.changes.is_empty() {
            is_found = true;
            find_changing(half, &outcome, tally);
        }
    }
    if !is_found {
        let commands: Vec<_> = cases.iter().map(|case| &case.command).collect();
        report(format!("only together, or only once: {commands:?}"));
    }
}

/// Runs the commands that a classifier allows.
fn fuzz(count: usize, seed: u64, allows: &(impl Fn(&str, Dialect) -> bool + Sync)) -> Tally {
    let tally = Mutex::new(Tally::default());
    let source = Mutex::new((Generator::new(seed), BTreeSet::new()));
    let left = AtomicUsize::new(count.div_ceil(BATCH_COMMANDS));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
                    let mut generated = 0;
                    let cases = {
                        let (generator, seen) = &mut *source.lock();
                        draw(generator, seen, allows, BATCH_COMMANDS.min(count), &mut generated)
                    };
                    let outcome = Batch::new(&cases).run();
                    {
                        let mut tally = tally.lock();
                        tally.generated += generated;
                        tally.runs += outcome.runs;
                        tally.succeeded += outcome.succeeded;
                    }
                    if !outcome.changes.is_empty() {
                        find_changing(&cases, &outcome, &tally);
                    }
                }
            });
        }
    });
    tally.into_inner()
}

#[test]
fn read_only_commands_change_nothing() {
    let seed = setting("SYSOP_FUZZ_SEED", 1);
    let count =
        usize::try_from(setting("SYSOP_FUZZ_COMMANDS", COMMANDS as u64)).expect("a number of commands");
    println!("SYSOP_FUZZ_SEED={seed} SYSOP_FUZZ_COMMANDS={count}");
    let start = Instant::now();
    let tally = fuzz(count, seed, &is_read_only);
    println!(
        "{} commands made, {count} of them read-only, {} runs in {:.0} s, {} of them ended with 0",
        tally.generated,
        tally.runs,
        start.elapsed().as_secs_f64(),
        tally.succeeded
    );
    assert!(
        tally.failures.is_empty(),
        "{} commands count as read-only but change something (SYSOP_FUZZ_SEED={seed}):\n{}",
        tally.failures.len(),
        tally.failures.join("\n")
    );
    assert!(tally.succeeded * 4 > tally.runs, "most commands fail, so the test covers little");
}

/// Tests the fuzz itself: each kind of change is detected, and read-only commands are not reported.
#[test]
fn each_kind_of_change_is_detected() {
    const CHANGES: &[&str] = &[
        "touch P",
        "chmod 600 f",
        "echo x >> f",
        "rm a",
        "ln -s a q",
        "touch -d 2020-01-01 x",
        "mkdir /tmp/x",
        "touch /dev/shm/x",
        "touch /etc/x",
        "touch /usr/bin/x",
        "sleep 100 &",
        "setsid sleep 99 &",
        "pkill -x sleep",
        "kill -STOP $(pgrep -x sleep)",
        "renice 15 -p $(pgrep -x sleep)",
        "echo > /dev/tcp/10.1.2.3/80",
        "echo > /dev/udp/10.1.2.3/53",
        "getent hosts a.example",
        "hostname evil",
        "ip link set lo down",
        "cd sub && git status",
    ];
    for command in CHANGES {
        let case = Case { command: (*command).to_owned(), dialect: Dialect::Bash };
        let outcome = Batch::new(&[case]).run();
        assert!(!outcome.changes.is_empty(), "no change was detected: {command}");
    }
    let looks = ["ls -la", "git status", "ps aux", "cat f | sort", "sleep 0 & wait", "ss -tulpn", "ip addr"];
    let cases = looks.map(|command| Case { command: command.to_owned(), dialect: Dialect::Bash });
    let outcome = Batch::new(&cases).run();
    assert!(outcome.changes.is_empty(), "{:?}", outcome.changes);
    assert_eq!((outcome.runs, outcome.succeeded), (7, 7));
}

#[test]
fn a_wrong_classifier_is_detected() {
    let allows = |command: &str, _: Dialect| command.ends_with("; touch P") || command == "ls -l";
    let tally = fuzz(20, 7, &allows);
    assert!(tally.failures.iter().any(|failure| failure.contains("touch P")), "{:?}", tally.failures);
}

/// A change that only two commands make together is reported, although no half of their batch reproduces it.
#[test]
fn a_change_that_neither_half_reproduces_is_reported() {
    let cases = ["x=1", "ls"].map(|command| Case { command: command.to_owned(), dialect: Dialect::Bash });
    let outcome = Outcome { changes: vec!["file > P".to_owned()], runs: 2, succeeded: 2 };
    let tally = Mutex::new(Tally::default());
    find_changing(&cases, &outcome, &tally);
    let failures = tally.into_inner().failures;
    assert!(
        matches!(failures.as_slice(), [one] if one.contains("only together") && one.contains("file > P"))
    );
}
