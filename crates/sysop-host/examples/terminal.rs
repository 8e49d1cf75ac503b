//! Measures the throughput of the shared terminal, compared to a plain one, and the time until a screen counts as
//! settled: `cargo run --release -p sysop-host --example terminal [FOLDER]`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use futures::StreamExt;
use serde_json::json;
use sysop_core::catalog::Profile;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::TerminalOutput;
use sysop_host::{LocalHost, LocalSettings};

type Failure = Box<dyn std::error::Error>;

/// Number and length of the lines in the file.
const LINES: usize = 1_000_000;
const LINE_BYTES: usize = 100;
const MEGABYTES: f64 = (LINES * LINE_BYTES) as f64 / 1e6;
/// Bytes per read of the plain terminal, the same as ours.
const READ_BYTES: usize = 64 * 1024;
/// Size of the plain terminal (rows, columns), the same as ours.
const SIZE: (u16, u16) = (40, 120);
/// Number of measurements of each kind. The kinds take turns, and the best measurement counts.
const FLOODS: usize = 5;
/// Number of screens to wait for.
const SCREENS: usize = 7;

fn write_lines(path: &Path) -> Result<(), Failure> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    for number in 0..LINES {
        writeln!(file, "{number:08} {}", "the quick brown fox jumps ".repeat(4).split_at(LINE_BYTES - 10).0)?;
    }
    file.flush()?;
    Ok(())
}

/// Measures `cat` in a terminal that is only read, in MB/s.
fn bare(file: &Path) -> Result<f64, Failure> {
    let (pty, pts) = pty_process::blocking::open()?;
    pty.resize(pty_process::Size::new(SIZE.0, SIZE.1))?;
    let start = Instant::now();
    let mut child = pty_process::blocking::Command::new("cat").arg(file).spawn(pts)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    // Linux returns EIO once the other side is closed.
    while let Ok(read @ 1..) = rustix::io::read(pty.as_fd(), &mut buffer) {
        bytes += read;
    }
    let took = start.elapsed();
    child.wait()?;
    if bytes != LINES * (LINE_BYTES + 1) {
        return Err(format!("{bytes} bytes came through the bare terminal").into());
    }
    Ok(MEGABYTES / took.as_secs_f64())
}

fn host(folder: &Path) -> Result<LocalHost, Failure> {
    let mut settings = LocalSettings::new(folder, folder.join("artefacts"));
    settings.profile = Profile::Operator;
    settings.shell = Some("/bin/bash".into());
    settings.secrets = vec!["sk-a-key-that-is-never-printed".into()];
    Ok(LocalHost::open(settings)?)
}

async fn call(host: &LocalHost, tool: &str, arguments: serde_json::Value, sink: DeltaSink) -> Outcome {
    let call = ToolCall {
        id: CallId::new("call"),
        wire_id: None,
        name: tool.into(),
        arguments: Arguments::Object(arguments.as_object().cloned().unwrap_or_default()),
    };
    host.run(call, sink, CancellationToken::new()).await
}

/// Measures `cat` by `run_command`, in MB/s.
async fn captured(host: &LocalHost, file: &Path) -> Result<f64, Failure> {
    let shown = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&shown);
    let sink = DeltaSink::new(move |text| {
        count.fetch_add(text.len(), Ordering::Relaxed);
    });
    let start = Instant::now();
    let outcome =
        call(host, "run_command", json!({"command": format!("cat {}", file.display())}), sink).await;
    let took = start.elapsed();
    let last = format!("{:08}", LINES - 1);
    if outcome.status != Status::Ok || !outcome.output.contains(&last) || shown.load(Ordering::Relaxed) == 0 {
        return Err(format!("the flood was not taken: {:?}, {:?}", outcome.status, outcome.exit_code).into());
    }
    Ok(MEGABYTES / took.as_secs_f64())
}

/// Measures the time from the last output to the return of `send_keys`, for a program that draws for a while and then
/// waits.
async fn settled(host: &LocalHost) -> Result<f64, Failure> {
    let terminal = host.terminal().ok_or("no terminal")?;
    let mut times = Vec::new();
    for number in 0..SCREENS {
        let mut live = terminal.watch().await?.live;
        let keys = format!("\"for i in 1 2 3; do echo {number}-$i; sleep 0.03; done\" Enter");
        let start = Instant::now();
        let printed = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&printed);
        let watching = tokio::spawn(async move {
            while let Some(output) = live.next().await {
                if matches!(output, TerminalOutput::Bytes(_)) {
                    seen.store(micros(start), Ordering::Relaxed);
                }
            }
        });
        let outcome = call(host, "send_keys", json!({ "keys": keys }), DeltaSink::none()).await;
        let returned = micros(start);
        watching.abort();
        if !outcome.output.contains(&format!("{number}-3")) {
            return Err(format!("the screen had not settled: {}", outcome.output).into());
        }
        times.push(returned.saturating_sub(printed.load(Ordering::Relaxed)) as f64 / 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Peak memory of this process since the last reset, in MiB.
fn peak_rss_mib() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(peak.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder)?;
    let file = folder.path().join("lines");
    write_lines(&file)?;
    let host = host(folder.path())?;
    let opened = call(&host, "run_command", json!({"command": "true"}), DeltaSink::none()).await;
    if opened.exit_code != Some(0) {
        return Err(opened.output.into());
    }
    // Resets the peak.
    fs::write("/proc/self/clear_refs", "5")?;
    let (mut bare_best, mut captured_best) = (0.0_f64, 0.0_f64);
    for number in 1..=FLOODS {
        let bare = bare(&file)?;
        let captured = captured(&host, &file).await?;
        println!("flood {number}: bare {bare:.1} MB/s, captured {captured:.1} MB/s");
        bare_best = bare_best.max(bare);
        captured_best = captured_best.max(captured);
    }
    let peak = peak_rss_mib()?;
    println!("bare_mb_per_s {bare_best:.1}");
    println!("captured_mb_per_s {captured_best:.1}");
    println!("ratio {:.2}", captured_best / bare_best);
    println!("peak_rss_mib {peak:.1}");
    println!("settled_ms {:.0}", settled(&host).await?);
    Ok(())
}
