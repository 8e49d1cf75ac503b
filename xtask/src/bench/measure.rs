//! Elapsed time, memory and CPU time of a process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::cargo;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceUsage {
    /// User and system time of the process and its children, in seconds, with millisecond resolution.
    pub(crate) cpu: f64,
    /// Peak resident memory of the largest single process, in MiB.
    pub(crate) rss: f64,
}

/// Output of a benchmark example, in which each line is a name and a number.
pub(crate) struct BenchOutput {
    example: &'static str,
    text: String,
}

impl BenchOutput {
    pub(crate) fn of_example(
        package: &'static str,
        example: &'static str,
        arguments: &[&OsStr],
    ) -> Result<Self> {
        let mut run = cargo();
        run.args(["run", "--release", "--locked", "--quiet"])
            .args(["--package", package, "--example", example, "--"])
            .args(arguments);
        Self::of(example, &mut run)
    }

    /// Runs a program that prints numbers, and returns its output.
    pub(crate) fn of(example: &'static str, command: &mut Command) -> Result<Self> {
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        if !output.status.success() {
            bail!("`{example}` failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self { example, text: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        let value =
            self.text.lines().find_map(|line| line.split_once(' ').filter(|(known, _)| *known == name));
        let (_, value) = value.with_context(|| format!("`{}` does not report `{name}`", self.example))?;
        value.trim().parse().with_context(|| format!("`{name}` is not a number"))
    }
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn fastest(runs: usize, mut make: impl FnMut() -> Command) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let mut command = make();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let begun = Instant::now();
        let output =
            command.spawn().with_context(|| format!("cannot start {command:?}"))?.wait_with_output()?;
        let took = begun.elapsed();
        if !output.status.success() {
            bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        best = best.min(took);
    }
    Ok(best)
}

/// Runs the command once. time(1) reports its memory usage, and bash's `time` around it reports CPU time with
/// millisecond resolution.
pub(crate) fn measure_usage(command: &Command) -> Result<ResourceUsage> {
    let mut timed = Command::new("bash");
    timed.args(["-c", "TIMEFORMAT='%3U %3S'; time command time --format %M -- \"$@\"", "bash"]);
    timed.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        timed.current_dir(folder);
    }
    timed.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = timed.output().context("cannot start bash")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{timed:?} failed: {text}");
    }
    let mut last = text.lines().rev();
    let mut numbers = || -> Result<Vec<f64>> {
        let line = last.next().unwrap_or_default();
        line.split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("unexpected output of `time`: {text}"))
    };
    let (times, memory) = (numbers()?, numbers()?);
    let ([user, system], [kib]) = (&times[..], &memory[..]) else {
        bail!("unexpected output of `time`: {text}")
    };
    Ok(ResourceUsage { cpu: user + system, rss: kib / 1024.0 })
}

/// A hand-written keep-alive connection to the mock server: the baseline cost of HTTP and the mock server.
pub(crate) struct KeepAliveConnection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    request: String,
}

impl KeepAliveConnection {
    /// Connects. `messages` is the JSON array of messages without its brackets.
    pub(crate) fn connect(port: u16, messages: &str) -> Result<Self> {
        let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let stream = TcpStream::connect(("127.0.0.1", port)).context("the mock server does not respond")?;
        stream.set_nodelay(true)?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, reader, request })
    }

    /// Sends one request and reads the whole response.
    pub(crate) fn turn(&mut self) -> Result<()> {
        self.stream.write_all(self.request.as_bytes())?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().context("a length is a number")?;
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut self.reader.by_ref().take(length), &mut std::io::sink())?;
        Ok(())
    }
}

pub(crate) fn http_turn(port: u16, runs: usize, messages: &str) -> Result<Duration> {
    let mut connection = KeepAliveConnection::connect(port, messages)?;
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let begun = Instant::now();
        connection.turn()?;
        best = best.min(begun.elapsed());
    }
    Ok(best)
}

/// Returns the average duration of `steps` consecutive steps, each of which is an HTTP turn and a command.
/// The smallest average of `runs` runs counts. The duration of a step in a long turn is also an average, so
/// neither of the two numbers is a lucky outlier.
pub(crate) fn steps(
    runs: usize,
    steps: u32,
    connection: &mut KeepAliveConnection,
    mut make: impl FnMut() -> Command,
) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let begun = Instant::now();
        for _ in 0..steps {
            connection.turn()?;
            fastest(1, &mut make)?;
        }
        best = best.min(begun.elapsed());
    }
    Ok(best / steps)
}
