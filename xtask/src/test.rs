//! `cargo xtask test`: runs every check.

use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{cargo, root, step, target};
use crate::{booted_tests, dist, docs, setup, web, wire, workflows};

/// Environment variable with the seed for the property tests, and its value in a plain run. With a fixed
/// seed, every run has the same result. A value that is already set takes precedence.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");
/// Environment variable of Rust's test harness: the number of tests to run concurrently.
const THREADS: &str = "RUST_TEST_THREADS";
/// Environment variable that makes a test fail if it cannot run here, for example without the privilege to create a
/// network namespace. The variable is set for root.
const COMPLETE: &str = "SYSOP_TESTS_COMPLETE";
/// Number of runs of the random tests with `--all`. Each run uses new seeds, and a failure prints its seed.
const LONG_RUNS: usize = 10;
/// Number of times that `--all` kills the binary in its kill test.
const LONG_KILLS: &str = "200";
/// Number of tests to run concurrently per processor: many wait for timers, servers and other processes.
const TESTS_PER_PROCESSOR: usize = 2;
/// Time per `arbtest` property in a run with `--all`, in milliseconds.
const LONG_BUDGET_MS: &str = "3000";
/// Number of commands that the shell fuzz test executes in each run with `--all`: 100,000 in total.
const LONG_FUZZ_COMMANDS: &str = "10000";
/// Crates whose random tests benefit from more runs: those that make decisions, and those that parse the
/// output of models and programs.
const LONG_CRATES: [&str; 9] = [
    "sysop-shell", "sysop-core", "sysop-host", "sysop-driver", "sysop-provider", "sysop-wire", "sysop-term",
    "sysop-tui", "sysop-repl",
];

/// Runs the format check, the lints, the check of the generated TypeScript, builds page and guide, and runs all tests
/// and the page's tests in a browser. `--all` adds slow checks, which take more than 20 minutes in total; `--booted`
/// runs only the tests on a booted system. Other arguments go to `cargo test`.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let named: Vec<&String> = rest.iter().take_while(|argument| *argument != "--").collect();
    let all = named.first().is_some_and(|first| *first == "--all");
    let rest = rest.iter().position(|argument| argument == "--").map_or(&[][..], |at| &rest[at + 1..]);
    let booted = named.first().is_some_and(|first| *first == "--booted");
    if (all || booted) && (named.len() > 1 || !rest.is_empty()) {
        bail!("--all and --booted take no other arguments");
    }
    if booted {
        return booted_tests::run();
    }
    setup::tests()?;
    setup::desktop()?;
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    let mut lints = cargo();
    lints.args(["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    step("lints", &mut lints)?;
    wire::check()?;
    workflows::check()?;
    web::build()?;
    web::check()?;
    docs::build()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]).args(rest);
    let (seed, value) = PROPERTY_SEED;
    if std::env::var_os(seed).is_none() {
        tests.env(seed, value);
    }
    if std::env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        tests.env(THREADS, (processors * TESTS_PER_PROCESSOR).to_string());
    }
    if is_root() {
        tests.env(COMPLETE, "1");
    }
    step("tests", &mut tests)?;
    web::test(&[])?;
    if all { long() } else { Ok(()) }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

/// Runs checks that are too slow for every change. The random tests are built with light optimization and
/// overflow checks.
fn long() -> Result<()> {
    for run in 1..=LONG_RUNS {
        let mut tests = cargo();
        tests.args([
            "test", "--profile", "random", "--locked", "--lib", "--test", "it", "--no-fail-fast", "--quiet",
        ]);
        for name in LONG_CRATES {
            tests.args(["--package", name]);
        }
        let seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        tests.env("ARBTEST_BUDGET_MS", LONG_BUDGET_MS).env("SYSOP_FUZZ_COMMANDS", LONG_FUZZ_COMMANDS);
        tests.env("SYSOP_FUZZ_SEED", seed.to_string());
        step(&format!("random tests, run {run} of {LONG_RUNS}"), &mut tests)?;
    }
    let mut kills = cargo();
    kills.args(["test", "--locked", "--package", "sysop", "--test", "it", "kill::a_kill_at_any_moment"]);
    step("more kills", kills.env("SYSOP_TEST_KILLS", LONG_KILLS))?;
    web::lighthouse()?;
    booted_tests::run()?;
    dist::run(&["--static".to_owned(), "--try".to_owned()])?;
    install_from_source()
}

/// Runs the guide's commands that install sysop from source.
fn install_from_source() -> Result<()> {
    let folder = target().join("installed");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder.join("bin")].into_iter().chain(std::env::split_paths(&path)))?;
    let mut install = Command::new("sh");
    install.arg(root().join("docs/guide/tests/source.sh")).current_dir(root());
    step("install sysop from the sources", install.env("CARGO_INSTALL_ROOT", &folder).env("PATH", path))
}
