//! MCP servers: the cost of a call, compared with the official client, and the cost of many tools.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::cases::{environment, exec};
use super::measure::BenchOutput;
use crate::workspace::{cargo, root, step, target};

/// Number of calls per run; the shortest call counts.
const CALLS: &str = "300";
/// Number of runs per client, alternating between the clients.
const RUNS: usize = 3;
/// Number of servers, with 15 tools each.
const SERVERS: usize = 20;
/// The reference server, and the Python interpreter that has the official client, under the tools directory.
const REFERENCE_SERVER: &str = "mcp-npm/node_modules/.bin/mcp-server-everything";
const PYTHON: &str = "mcp-servers/bin/python";

pub(super) fn mcp(bench: &mut Bench) -> Result<()> {
    call(bench)?;
    many_tools(bench)
}

/// Measures a call to a reference server by both clients.
fn call(bench: &mut Bench) -> Result<()> {
    let example = ["--package", "sysop-mcp", "--example", "call"];
    step("build the client", cargo().args(["build", "--release", "--locked", "--quiet"]).args(example))?;
    let ours = target().join("release/examples/call");
    let tools = target().join("tools");
    let server = tools.join(REFERENCE_SERVER);
    let script = root().join("xtask/src/bench/mcp_client.py");
    let (mut best, mut official) = (f64::MAX, f64::MAX);
    for _ in 0..RUNS {
        let of = |command: &mut Command| {
            command.args([CALLS, "echo", r#"{"message":"hello"}"#]).arg(&server);
            BenchOutput::of("call", command)?.get("best_ms")
        };
        official = official.min(of(Command::new(tools.join(PYTHON)).arg(&script))?);
        best = best.min(of(&mut Command::new(&ours))?);
    }
    bench.baseline("a call of an MCP server by the official Python client", official, "ms");
    bench.at_most("the same by sysop's client / by the official client", best / official, 1.3, "×");
    Ok(())
}

/// Measures the first request of a session with 300 server tools.
fn many_tools(bench: &mut Bench) -> Result<()> {
    let home = bench.folder.join("home");
    let server = root().join("crates/sysop-mcp/tests/it/server.py");
    for number in 0..SERVERS {
        let mut add = Command::new(&bench.sysop);
        environment(&mut add, &home)
            .args(["mcp", "add", &format!("server-{number}"), "--", "python3"])
            .arg(&server)
            .args(["many", "logs"])
            .stdout(Stdio::null());
        if !add.status().context("cannot start sysop")?.success() {
            bail!("`sysop mcp add` failed");
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let first = thread::spawn(move || first_request(&listener));
    let mut run = exec(bench, port, "hello");
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().context("cannot start sysop")?;
    let bytes = first.join().map_err(|_| anyhow::anyhow!("the model server panicked"))??;
    std::fs::remove_dir_all(&home).context("cannot remove the home with the servers")?;
    let what = "first request with 300 tools of 20 MCP servers";
    bench.at_most(what, bytes as f64 / 1024.0, 8.0, "KiB");
    Ok(())
}

/// Acts as a model server that offers no list of models and rejects its first model request. Returns the size of
/// that request's body in bytes.
fn first_request(listener: &TcpListener) -> Result<usize> {
    loop {
        let (stream, _) = listener.accept()?;
        if let Some(bytes) = model_request(stream)? {
            return Ok(bytes);
        }
    }
}

/// Rejects one request. Returns the size of its body, or `None` if it has none.
fn model_request(stream: TcpStream) -> Result<Option<usize>> {
    const REJECTION: &[u8] = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let mut reader = BufReader::new(TcpStream::try_clone(&stream)?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().context("a length is a number")?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    (&stream).write_all(REJECTION)?;
    if length == 0 {
        return Ok(None);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if !body.windows(12).any(|window| window == b"\"find_tools\"") {
        bail!("the request does not offer `find_tools`");
    }
    Ok(Some(length))
}
