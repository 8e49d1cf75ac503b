//! The TUI, measured from outside by running the real binary on a PTY.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::Bench;
use super::measure::ms;
use super::mock::{MockProcess, answer, commands};

/// Number of times the TUI is opened.
const RUNS: usize = 30;
/// Number of floods. Whether the processors are shared well differs from process to process.
const FLOODS: usize = 15;
/// Number of keys to type during each flood.
const KEYS: usize = 40;
/// Time for which to observe the idle screen.
const IDLE: Duration = Duration::from_secs(5);
/// Time without output after which the screen counts as idle.
const IDLE_AFTER: Duration = Duration::from_millis(700);
const WAIT_MAX: Duration = Duration::from_secs(20);
/// End of each frame (DEC 2026).
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// A letter that occurs nowhere in the TUI's own text, so that its appearance proves that the key was handled.
const LETTER: char = '\u{0411}';

/// The TUI on its own PTY, killed on drop.
pub(super) struct TuiProcess {
    child: Child,
    terminal: OwnedFd,
    output: Receiver<(Instant, Vec<u8>)>,
    begun: Instant,
    /// Output received but not yet examined.
    rest: Vec<u8>,
}

impl TuiProcess {
    /// Opens the TUI on a terminal whose input already contains `typed`.
    pub(super) fn open(bench: &Bench, port: u16, typed: &str, arguments: &[&str]) -> Result<Self> {
        let (pty, pts) = pty_process::blocking::open().context("cannot open a PTY")?;
        pty.resize(pty_process::Size::new(30, 100)).context("a PTY has a size")?;
        // Typed text must appear because the program drew it, not because the terminal echoed it.
        let mut mode = tcgetattr(&pty)?;
        mode.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&pty, OptionalActions::Now, &mode)?;
        let terminal = pty.as_fd().try_clone_to_owned()?;
        let mut reader = File::from(pty.as_fd().try_clone_to_owned()?);
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            // When the program exits, reading fails here.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
        rustix::io::write(&terminal, typed.as_bytes())?;
        let begun = Instant::now();
        let child = pty_process::blocking::Command::new(&bench.sysop)
            .args(arguments)
            .args(["--model", "openai/mock", "--approve", "auto"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", bench.folder.join("home"))
            .env("TERM", "xterm-256color")
            .env("OPENAI_API_KEY", "bench")
            .env("LLM_BASE_URL", format!("http://127.0.0.1:{port}/v1"))
            .current_dir(&bench.folder)
            .spawn(pts)
            .context("cannot start sysop")?;
        Ok(Self { child, terminal, output, begun, rest: Vec::new() })
    }

    /// Returns the time at which `wanted` arrived.
    fn wait_for(&mut self, wanted: &[u8]) -> Result<Instant> {
        let until = Instant::now() + WAIT_MAX;
        let mut at = Instant::now();
        loop {
            if let Some(found) = self.rest.windows(wanted.len()).position(|window| window == wanted) {
                self.rest.drain(..found + wanted.len());
                return Ok(at);
            }
            let keep = self.rest.len().saturating_sub(wanted.len());
            self.rest.drain(..keep);
            let left = until.saturating_duration_since(Instant::now());
            let (when, bytes) = self.output.recv_timeout(left).with_context(|| {
                format!("`{}` did not appear", String::from_utf8_lossy(wanted).escape_debug())
            })?;
            at = when;
            self.rest.extend_from_slice(&bytes);
        }
    }

    fn wait_until_idle(&mut self) -> Result<()> {
        let until = Instant::now() + WAIT_MAX;
        while Instant::now() < until {
            match self.output.recv_timeout(IDLE_AFTER) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => bail!("sysop has exited"),
            }
        }
        bail!("the screen did not settle")
    }

    fn type_text(&self, text: &str) -> Result<()> {
        rustix::io::write(&self.terminal, text.as_bytes())?;
        Ok(())
    }

    /// Presses Ctrl+D on the first frame and waits until the program has exited.
    pub(super) fn quit(mut self) -> Result<()> {
        self.wait_for(FRAME_END)?;
        self.wait_until_idle()?;
        self.type_text("\u{4}")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the TUI failed: {status}");
        Ok(())
    }

    /// Returns the clock ticks of CPU time so far, and the number of voluntary context switches.
    fn work(&self) -> Result<(u64, u64)> {
        let folder = format!("/proc/{}", self.child.id());
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        let fields = stat.rsplit(") ").next().context("a process has a name")?;
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|number| number.parse::<u64>().ok()).sum();
        let mut sleeps = 0;
        for task in fs::read_dir(format!("{folder}/task"))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            sleeps += number_of(&status, "voluntary_ctxt_switches:")?;
        }
        Ok((ticks, sleeps))
    }

    fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        Ok(number_of(&status, "VmRSS:")? as f64 / 1024.0)
    }
}

impl Drop for TuiProcess {
    fn drop(&mut self) {
        // The program may have exited already; either way nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number_of(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("/proc does not contain {name}"))
}

pub(crate) fn tui(bench: &mut Bench) -> Result<()> {
    let scenarios = [
        answer("hello", r#"{"content":"Hello."}"#),
        commands("flood", ["seq 1000000 2000000000".to_owned()]),
    ];
    let mock = MockProcess::start(&bench.sysop, &bench.folder, &scenarios)?;
    // Creates the database for the following runs.
    TuiProcess::open(bench, mock.port, "", &["hello"])?.wait_for("Hello.".as_bytes())?;
    let fastest = |typed: &str, wanted: &[u8]| -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..RUNS {
            let mut seen = TuiProcess::open(bench, mock.port, typed, &[])?;
            best = best.min(seen.wait_for(wanted)? - seen.begun);
        }
        Ok(best)
    };
    let frame = fastest("", FRAME_END)?;
    let letter = LETTER.to_string();
    let usable = fastest(&letter, letter.as_bytes())?;
    bench.at_most("first frame after exec", ms(frame), 10.0, "ms");
    bench.at_most("a key typed before the start is shown", ms(usable), 15.0, "ms");
    idle(bench, mock.port)?;
    flood(bench, mock.port)
}

fn idle(bench: &mut Bench, port: u16) -> Result<()> {
    let mut seen = TuiProcess::open(bench, port, "", &[])?;
    seen.wait_for(FRAME_END)?;
    seen.wait_until_idle()?;
    let (ticks, sleeps) = seen.work()?;
    thread::sleep(IDLE);
    let (ticks_after, sleeps_after) = seen.work()?;
    bench.at_most("idle: processor time in 5 s", (ticks_after - ticks) as f64 * 10.0, 0.0, "ms");
    bench.at_most("idle: wake-ups in 5 s", (sleeps_after - sleeps) as f64, 0.0, "");
    bench.at_most("idle: resident memory", seen.resident()?, 20.0, "MiB");
    Ok(())
}

fn flood(bench: &mut Bench, port: u16) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..FLOODS {
        let mut seen = TuiProcess::open(bench, port, "", &["flood"])?;
        // Blanks already on the screen are not redrawn, so search for a single word.
        seen.wait_for(b"output")?;
        for number in 0..KEYS {
            let letter = char::from_u32(u32::from(LETTER) + u32::try_from(number)?).context("a letter")?;
            let begun = Instant::now();
            seen.type_text(&letter.to_string())?;
            times.push(seen.wait_for(letter.to_string().as_bytes())?.saturating_duration_since(begun));
        }
    }
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    bench.at_most("a key while output floods, until it is shown: median", ms(median), 10.0, "ms");
    bench.baseline("the slowest of them", ms(slowest), "ms");
    Ok(())
}
