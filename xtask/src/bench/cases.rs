//! The measurements.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::measure::{BenchOutput, KeepAliveConnection, fastest, http_turn, measure_usage, ms, steps};
use super::mock::{MockProcess, answer, commands, conversation, prompt};
use super::{Bench, guard, history, machines, mcp, page, server, tui};

const RUNS: usize = 30;
const LONG_RUNS: usize = 10;
/// Number of consecutive steps over which the baseline for a turn's calls is averaged.
const STEPS: u32 = 200;
const OUTPUT_BYTES: usize = 100_000_000;
/// Environment variables passed to measured programs and baselines alike: a shell that loads a locale takes 0.1 ms
/// longer, and so does one that looks up the user's login shell.
const INHERITED_VARIABLES: [&str; 4] = ["PATH", "LANG", "LC_ALL", "SHELL"];

type BenchCase = fn(&mut Bench) -> Result<()>;

pub(crate) const ALL: [(&str, BenchCase); 16] = [
    ("start", start),
    ("turn", turn),
    ("tools", tools),
    ("stream", stream),
    ("output", output),
    ("store", store),
    ("policy", policy),
    ("sandbox", machines::sandbox),
    ("ssh", machines::ssh),
    ("guard", guard::guard),
    ("terminal", machines::terminal),
    ("tui", tui::tui),
    ("history", history::history),
    ("server", server::server),
    ("page", page::page),
    ("mcp", mcp::mcp),
];

/// Returns a command that runs `sysop exec` with a separate home directory and the mock server as the model.
pub(super) fn exec(bench: &Bench, port: u16, prompt: &str) -> Command {
    let home = bench.folder.join("home");
    let mut command = Command::new(&bench.sysop);
    environment(&mut command, &home)
        .env("OPENAI_API_KEY", "bench")
        .env("LLM_BASE_URL", format!("http://127.0.0.1:{port}/v1"))
        .env("SYSOP_MAX_ITERATIONS", "1000")
        .env("SYSOP_MAX_HISTORY_MESSAGES", "10000")
        .current_dir(&bench.folder)
        .args(["exec", "--model", "openai/mock", "--approve", "auto", prompt]);
    command
}

/// Sets the environment shared by all measured programs.
pub(super) fn environment<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    let kept = INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("HOME", home)
}

/// Measures the time that the policy takes to decide on one command.
fn policy(bench: &mut Bench) -> Result<()> {
    let numbers = BenchOutput::of_example("sysop-shell", "verdict", &[])?;
    bench.at_most("a verdict on 200 bytes", numbers.get("best_ms")?, 1.0, "ms");
    bench.at_most("the first verdict of a process", numbers.get("first_ms")?, 3.0, "ms");
    Ok(())
}

fn start(bench: &mut Bench) -> Result<()> {
    let source = bench.folder.join("hello.rs");
    let hello = bench.folder.join("hello");
    fs::write(&source, "fn main() { println!(\"hello\"); }")?;
    let built = Command::new("rustc").args(["-O", "-o"]).arg(&hello).arg(&source).status()?;
    if !built.success() {
        bail!("rustc failed");
    }
    // Alternate, as in `tools`: the machine may be faster a minute later.
    let (mut baseline, mut version) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        baseline = baseline.min(fastest(1, || Command::new(&hello))?);
        version = version.min(fastest(1, || {
            let mut command = Command::new(&bench.sysop);
            command.arg("--version");
            command
        })?);
    }
    bench.baseline("hello-world binary", ms(baseline), "ms");
    bench.at_most("`--version` / hello-world", ms(version) / ms(baseline), 2.5, "×");
    let size = fs::metadata(&bench.sysop)?.len();
    bench.at_most("binary with the page, stripped", size as f64 / 1e6, 32.0, "MB");
    Ok(())
}

fn turn(bench: &mut Bench) -> Result<()> {
    let mock =
        MockProcess::start(&bench.sysop, &bench.folder, &[answer("hello", r#"{"content":"Hello there."}"#)])?;
    let http = http_turn(mock.port, 500, &prompt("hello"))?;
    bench.baseline("one HTTP turn on the mock, kept alive", ms(http), "ms");
    let wall = fastest(RUNS, || exec(bench, mock.port, "hello"))?;
    bench.at_most("`exec`, one turn, durable log included", ms(wall), 8.0, "ms");
    let peak = measure_usage(&exec(bench, mock.port, "hello"))?.rss;
    // About 15 MiB of this is pages of the program file.
    bench.at_most("its peak memory", peak, 18.0, "MiB");
    Ok(())
}

fn tools(bench: &mut Bench) -> Result<()> {
    let many = |n: usize| commands(&format!("calls {n}."), (0..n).map(|n| format!("true {n}")));
    let scenarios = [many(1), many(20), many(100), many(200), many(400)];
    let mock = MockProcess::start(&bench.sysop, &bench.folder, &scenarios)?;
    let home = bench.folder.join("home");
    let bash = || {
        let mut command = Command::new("bash");
        environment(&mut command, &home).args(["-c", "true"]);
        command
    };
    bench.baseline("`bash -c true`, the shortest", ms(fastest(RUNS, bash)?), "ms");
    bench.baseline("one HTTP turn, the shortest", ms(http_turn(mock.port, 500, &prompt("nothing"))?), "ms");
    let mut short = KeepAliveConnection::connect(mock.port, &prompt("nothing"))?;
    // The mock's input grows with the turn; this is its input in the middle of 200 calls.
    let mut middle = KeepAliveConnection::connect(mock.port, &conversation("calls 400.", 100))?;
    // In a turn with many calls, each request includes the history so far; the baseline's requests do not.
    let one = ms(fastest(RUNS, || exec(bench, mock.port, "calls 1."))?);
    let [mut plain, mut alike, mut twenty, mut two_hundred] = [f64::MAX; 4];
    for _ in 0..LONG_RUNS {
        plain = plain.min(ms(steps(1, STEPS, &mut short, bash)?));
        twenty = twenty.min(ms(fastest(3, || exec(bench, mock.port, "calls 20."))?));
        two_hundred = two_hundred.min(ms(fastest(1, || exec(bench, mock.port, "calls 200."))?));
        alike = alike.min(ms(steps(1, STEPS, &mut middle, bash)?));
    }
    bench.baseline("`bash -c true` + HTTP turn, 200 in a row", plain, "ms");
    bench.baseline("the same, each turn with 100 calls and their results", alike, "ms");
    let (few, many) = ((twenty - one) / 19.0, (two_hundred - one) / 199.0);
    bench.baseline("200 tool calls, whole process", two_hundred, "ms");
    bench.baseline("one tool call (model turn + `bash true`), of 200 in a turn", many, "ms");
    bench.at_most("a tool call / (`bash -c true` + HTTP turn)", many / plain, 2.0, "×");
    let what = "the same, where the HTTP turn carries 100 calls as the steps do on average";
    bench.baseline(what, many / alike, "×");
    bench.baseline("the same, of 20 in a turn, against the short HTTP turn", few / plain, "×");
    let mut cpu = [f64::MAX; 3];
    for _ in 0..5 {
        for (best, prompt) in cpu.iter_mut().zip(["calls 100.", "calls 200.", "calls 400."]) {
            *best = best.min(measure_usage(&exec(bench, mock.port, prompt))?.cpu);
        }
    }
    let (first, second) = (cpu[1] - cpu[0], cpu[2] - cpu[1]);
    bench.at_most("processor time of calls 200–400 / calls 100–200 (linear: 2)", second / first, 2.4, "×");
    Ok(())
}

fn stream(bench: &mut Bench) -> Result<()> {
    let words =
        |n: usize| answer(&format!("stream {n}."), &format!(r#"{{"content":"word ","repeat_text":{n}}}"#));
    let mock = MockProcess::start(&bench.sysop, &bench.folder, &[words(1), words(100_000), words(200_000)])?;
    let one = fastest(LONG_RUNS, || exec(bench, mock.port, "stream 1."))?;
    let many = fastest(LONG_RUNS, || exec(bench, mock.port, "stream 100000."))?;
    let rate = 100_000.0 / (many - one).as_secs_f64();
    bench.at_least("100k-token stream", rate, 1_000_000.0, "tokens/s");
    let small = measure_usage(&exec(bench, mock.port, "stream 100000."))?.rss;
    let large = measure_usage(&exec(bench, mock.port, "stream 200000."))?.rss;
    bench.baseline("peak memory at 100k tokens (0.5 MB of text)", small, "MiB");
    bench.at_most("additional memory for twice the tokens (0.5 MB more text)", large - small, 8.0, "MiB");
    Ok(())
}

fn output(bench: &mut Bench) -> Result<()> {
    let file = bench.folder.join("output");
    let line = format!("{}\n", "x".repeat(99));
    let mut writer = std::io::BufWriter::new(fs::File::create(&file)?);
    for _ in 0..OUTPUT_BYTES / line.len() {
        writer.write_all(line.as_bytes())?;
    }
    writer.into_inner().context("cannot write the file")?;
    let mock = MockProcess::start(
        &bench.sysop,
        &bench.folder,
        &[commands("flood", ["cat output".to_owned()]), commands("calls 1.", ["true".to_owned()])],
    )?;
    let pipe = fastest(LONG_RUNS, || {
        let mut command = Command::new("bash");
        command.args(["-c", "cat output | cat"]).current_dir(&bench.folder);
        command
    })?;
    bench.baseline("`cat | cat` of 100 MB", ms(pipe), "ms");
    let one = fastest(LONG_RUNS, || exec(bench, mock.port, "calls 1."))?;
    let flood = fastest(LONG_RUNS, || exec(bench, mock.port, "flood"))?;
    bench.at_most("100 MB of output / the bare pipe", (ms(flood) - ms(one)) / ms(pipe), 1.3, "×");
    bench.at_most("its peak memory", measure_usage(&exec(bench, mock.port, "flood"))?.rss, 40.0, "MiB");
    Ok(())
}

fn store(bench: &mut Bench) -> Result<()> {
    let numbers = BenchOutput::of_example("sysop-store", "appends", &[])?;
    bench.at_least("durable appends, grouped", numbers.get("appends_per_s")?, 5000.0, "/s");
    bench.at_most("opening a session of 100k events", numbers.get("open_100k_ms")?, 300.0, "ms");
    Ok(())
}
