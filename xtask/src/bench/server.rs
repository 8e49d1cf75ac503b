//! A server under load: cost per session, delay of deltas, cost of client calls, connection storms, and
//! restart time. Server, model and load generator are separate processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use super::Bench;
use super::measure::{BenchOutput, ms};
use crate::workspace::{cargo, step, target};

/// Limit on open files for the server and for the load generator: enough for one socket per session and one
/// connection to the model per turn.
const OPEN_FILES: u64 = 12_000;
/// Number of sessions connected at the same time.
const CONNECTED: usize = 10_000;
const STORM_SESSIONS: usize = 2_000;
/// Number of stored sessions that a server finds at startup.
const STORED: usize = 100_000;
/// Maximum time to wait until the server is ready.
const START_MAX: Duration = Duration::from_secs(60);

/// Runs all measurements of a server.
pub(crate) fn server(bench: &mut Bench) -> Result<()> {
    raise_open_files()?;
    step(
        "build the load",
        cargo().args(["build", "--release", "--locked", "--package", "sysop-server", "--example", "load"]),
    )?;
    let load = LoadGenerator { program: target().join("release/examples/load") };
    let model = load.model()?;
    for case in [connected, calls, storm, stored] {
        case(bench, &load, &model)?;
    }
    Ok(())
}

fn connected(bench: &mut Bench, load: &LoadGenerator, model: &MockModel) -> Result<()> {
    let (server, _) = BenchServer::start(bench, "connected", model)?;
    let numbers = load.run("connected", &server, model, CONNECTED)?;
    bench.baseline("a session in memory without clients", numbers.get("live_kib")?, "KiB");
    bench.at_most("a connected idle session", numbers.get("connected_kib")?, 40.0, "KiB");
    bench.baseline("its tasks", numbers.get("connected_tasks")?, "");
    bench.at_least(
        "deltas of 500 turns beside 10,000 connected sessions",
        numbers.get("deltas_per_s")?,
        19_800.0,
        "/s",
    );
    bench.baseline("median delay of a delta (model to client)", numbers.get("delta_p50_ms")?, "ms");
    bench.at_most("p99 delay of a delta", numbers.get("delta_p99_ms")?, 20.0, "ms");
    bench.baseline("processor time of a delta on the server", numbers.get("delta_cpu_us")?, "µs");
    bench.baseline("server memory during this", numbers.get("working_mib")?, "MiB");
    bench.at_least("sockets still connected", numbers.get("sockets_that_stayed")?, CONNECTED as f64, "");
    bench.at_most("tasks of a session after all clients left", numbers.get("left_tasks")?, 0.0, "");
    bench.baseline("memory of a session after all clients left", numbers.get("left_kib")?, "KiB");
    Ok(())
}

fn calls(bench: &mut Bench, load: &LoadGenerator, model: &MockModel) -> Result<()> {
    let (server, _) = BenchServer::start(bench, "calls", model)?;
    let numbers = load.run("calls", &server, model, 1)?;
    bench.at_most("a call on a client, from reply to next request", numbers.get("call_p50_ms")?, 1.0, "ms");
    bench.baseline("the fastest", numbers.get("call_min_ms")?, "ms");
    Ok(())
}

fn storm(bench: &mut Bench, load: &LoadGenerator, model: &MockModel) -> Result<()> {
    let (server, _) = BenchServer::start(bench, "storm", model)?;
    let numbers = load.run("storm", &server, model, STORM_SESSIONS)?;
    bench.at_least("reconnects", numbers.get("storm_per_s")?, 990.0, "/s");
    bench.at_least("share of clients reconnected", numbers.get("storm_back")?, 1.0, "");
    bench.baseline("p99 time to reconnect", numbers.get("storm_p99_ms")?, "ms");
    bench.baseline("processor time of one reconnect", numbers.get("storm_cpu_us")?, "µs");
    bench.at_most("additional memory after 10,000 reconnects", numbers.get("storm_more_mib")?, 32.0, "MiB");
    Ok(())
}

fn stored(bench: &mut Bench, load: &LoadGenerator, model: &MockModel) -> Result<()> {
    let (server, _) = BenchServer::start(bench, "stored", model)?;
    let empty = server.resident()?;
    let numbers = load.run("stored", &server, model, STORED)?;
    bench.baseline("sessions made", numbers.get("created_per_s")?, "/s");
    server.stop()?;
    let (server, took) = BenchServer::start(bench, "stored", model)?;
    bench.at_most("start with 100,000 stored sessions until ready", ms(took), 1000.0, "ms");
    let each = (server.resident()? - empty).max(0.0) / STORED as f64;
    bench.at_most("memory of a stored session", each, 1.0, "KiB");
    server.stop()
}

/// Raises the limit on open files, which children inherit.
fn raise_open_files() -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= OPEN_FILES) {
        return Ok(());
    }
    let maximum = Some(maximum.map_or(OPEN_FILES, |maximum| maximum.max(OPEN_FILES)));
    setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_FILES), maximum }).with_context(|| {
        format!(
            "{CONNECTED} connected sessions need {OPEN_FILES} open files in one process; raise the hard limit \
             (`ulimit -Hn`) and run this again"
        )
    })
}

struct LoadGenerator {
    program: PathBuf,
}

impl LoadGenerator {
    fn model(&self) -> Result<MockModel> {
        let mut child = Command::new(&self.program).arg("model").stdout(Stdio::piped()).spawn()?;
        let line = first_line(&mut child)?;
        let port = line.strip_prefix("port ").context("the model server did not print its address")?;
        Ok(MockModel { port: port.trim().to_owned(), child })
    }

    fn run(
        &self,
        case: &'static str,
        server: &BenchServer,
        model: &MockModel,
        count: usize,
    ) -> Result<BenchOutput> {
        let mut command = Command::new(&self.program);
        command.args([case, &server.address, &server.child.id().to_string(), &model.port]);
        command.arg(count.to_string()).env("SYSOP_TOKEN", &server.token);
        BenchOutput::of(case, &mut command)
    }
}

struct MockModel {
    port: String,
    child: Child,
}

impl Drop for MockModel {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

struct BenchServer {
    child: Child,
    address: String,
    token: String,
}

impl BenchServer {
    /// Starts the server. Returns it and the time that it took to become ready.
    fn start(bench: &Bench, name: &str, model: &MockModel) -> Result<(Self, Duration)> {
        let home = bench.folder.join("server").join(name);
        let root = home.join("root");
        fs::create_dir_all(&root).context("cannot create a home directory for the server")?;
        let mut command = Command::new(&bench.sysop);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("OPENAI_API_KEY", "bench")
            .env("LLM_BASE_URL", format!("http://127.0.0.1:{}/v1", model.port))
            .env("SYSOP_MAX_ITERATIONS", "1000")
            .env("SYSOP_MAX_HISTORY_MESSAGES", "10000")
            .args(["serve", "--quiet", "--port", "0", "--model", "openai/mock", "--approve", "auto"])
            .args(["--max-connections", "20000", "--max-sessions", "1000000", "--max-requests", "10000000"])
            .arg("--root")
            .arg(&root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().context("cannot start the server")?;
        let line = first_line(&mut child)?;
        let (page, file) =
            line.trim_end().split_once("/, token file ").context("the server did not print its address")?;
        let (_, address) = page.rsplit_once("http://").context("the server did not print its address")?;
        let token = std::fs::read_to_string(file)
            .context("no token in the server's start line")?
            .trim_end()
            .to_owned();
        let server = Self { child, address: address.to_owned(), token };
        while !server.is_ready() {
            if begun.elapsed() > START_MAX {
                bail!("the server is not ready within {START_MAX:?}");
            }
            thread::yield_now();
        }
        Ok((server, begun.elapsed()))
    }

    fn is_ready(&self) -> bool {
        let asked = TcpStream::connect(&self.address).and_then(|mut stream| {
            let request =
                format!("GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        asked.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// Returns resident memory in KiB.
    fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        line.split_whitespace().next().context("no number")?.parse().context("a number")
    }

    /// Stops the server with SIGTERM, like a user.
    fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn first_line(child: &mut Child) -> Result<String> {
    let mut printed = BufReader::new(child.stdout.take().context("it was started with a pipe")?);
    let mut line = String::new();
    printed.read_line(&mut line)?;
    // Later output is irrelevant, but closing the pipe must not kill the server.
    thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
    Ok(line)
}

fn end(child: &mut Child) {
    // The child may have exited already; either way nothing is left to do.
    let _ = child.kill();
    let _ = child.wait();
}
