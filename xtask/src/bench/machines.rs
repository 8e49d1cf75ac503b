//! Measurements of remote machines, the terminal and the sandbox.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::measure::{BenchOutput, fastest, ms};
use super::sshd::BenchSshd;
use crate::workspace::root;

/// Number of rounds. Each round takes all measurements, so that load affects both sides of a comparison.
const ROUNDS: usize = 3;
/// Number of runs of each single `ssh` command per round.
const RUNS: usize = 12;
/// Number of runs of `ssh` to the whole fleet per round.
const FLEET_RUNS: usize = 2;
const HOSTS: usize = 20;

/// Measures tool calls over ssh, on one machine and on twenty machines, and compares them with plain `ssh`.
///
/// The twenty near machines are all this machine, whose few processors do the work of twenty servers.
/// Therefore, twenty plain `ssh` commands also take many times as long as one, and the near fleet is compared
/// with them. The cost of fan-out to machines that do their own work is measured over the slow link, by
/// comparing twenty machines with one.
pub(super) fn ssh(bench: &mut Bench) -> Result<()> {
    let sshd = BenchSshd::start(&bench.folder.join("ssh"))?;
    let shared = |host: usize| {
        let mut command = sshd.ssh();
        command.args(["-S", &socket(host), &format!("near{host}"), "true"]);
        command
    };
    let plain = |host: usize| {
        let mut command = sshd.ssh();
        command.args([&format!("near{host}"), "true"]);
        command
    };
    let [mut shared_one, mut shared_all, mut plain_one, mut plain_all] = [Duration::MAX; 4];
    let [mut one, mut all] = [CallTimings::NONE; 2];
    for _ in 0..ROUNDS {
        let masters = SshMasters::start(&sshd)?;
        shared_one = shared_one.min(fastest(RUNS, || shared(1))?);
        shared_all = shared_all.min(fastest(FLEET_RUNS, || side_by_side(&sshd, shared))?);
        drop(masters);
        plain_one = plain_one.min(fastest(RUNS, || plain(1))?);
        one = one.min(measure(bench, &sshd, "near", 1)?);
        plain_all = plain_all.min(fastest(FLEET_RUNS, || side_by_side(&sshd, plain))?);
        all = all.min(measure(bench, &sshd, "near", HOSTS)?);
    }
    let distant = measure(bench, &sshd, "far", 1)?;
    let distant_all = measure(bench, &sshd, "far", HOSTS)?;

    bench.baseline("`ssh` with a ControlMaster runs `true`", ms(shared_one), "ms");
    bench.baseline("`true` over an open connection", one.open, "ms");
    bench.at_most("the same / `ssh` with a ControlMaster", one.open / ms(shared_one), 1.15, "×");
    bench.baseline("`ssh HOST true`", ms(plain_one), "ms");
    bench.baseline("the first `true`, connecting included", one.first, "ms");
    bench.at_most("the same / `ssh HOST true`", one.first / ms(plain_one), 1.15, "×");

    let what = "20 `ssh` with ControlMasters, side by side / one (the remote sides share this machine)";
    bench.baseline(what, ms(shared_all) / ms(shared_one), "×");
    let what = "20 hosts, open / one (the remote sides share this machine)";
    bench.baseline(what, all.open / one.open, "×");
    bench.at_most("20 hosts, open / 20 `ssh` with ControlMasters", all.open / ms(shared_all), 1.15, "×");
    bench.baseline("our own processor time for each of them", all.open_own_cpu, "ms");
    bench.baseline("`true` over an open connection, 100 ms away", distant.open, "ms");
    bench.at_most("20 hosts, open / one, 100 ms away", distant_all.open / distant.open, 3.0, "×");

    let what = "20 `ssh HOST true`, side by side / one (the remote sides share this machine)";
    bench.baseline(what, ms(plain_all) / ms(plain_one), "×");
    let what = "20 hosts, first / one (the remote sides share this machine)";
    bench.baseline(what, all.first / one.first, "×");
    bench.at_most("20 hosts, first / 20 `ssh HOST true`", all.first / ms(plain_all), 1.15, "×");
    bench.baseline("our own processor time for each of them, connecting", all.first_own_cpu, "ms");
    bench.baseline("the first `true`, 100 ms away", distant.first, "ms");
    bench.at_most("20 hosts, first / one, 100 ms away", distant_all.first / distant.first, 3.0, "×");
    Ok(())
}

/// Measures the throughput of a flood of output through the shared terminal, compared with a bare PTY, and
/// the latency of keys.
pub(super) fn terminal(bench: &mut Bench) -> Result<()> {
    let example = "crates/sysop-host/examples/terminal.rs";
    if !root().join(example).is_file() {
        bail!("example {example}, which measures the terminal, not found");
    }
    let numbers = BenchOutput::of_example("sysop-host", "terminal", &[])?;
    bench.baseline("100 MB through a bare PTY", numbers.get("bare_mb_per_s")?, "MB/s");
    bench.baseline("the same, captured", numbers.get("captured_mb_per_s")?, "MB/s");
    bench.at_least("captured / bare", numbers.get("ratio")? * 100.0, 60.0, "%");
    bench.at_most("its peak memory", numbers.get("peak_rss_mib")?, 60.0, "MiB");
    bench.at_most("`send_keys`, after the screen has settled", numbers.get("settled_ms")?, 150.0, "ms");
    Ok(())
}

/// Measures a sandboxed command against the same command without a sandbox.
pub(super) fn sandbox(bench: &mut Bench) -> Result<()> {
    let numbers = BenchOutput::of_example("sysop-host", "sandbox", &[])?;
    let plain = numbers.get("plain_ms")?;
    bench.baseline("`bash` runs `true`", plain, "ms");
    bench.at_most("added by a sandbox around the workspace", numbers.get("workspace_ms")? - plain, 1.0, "ms");
    bench.at_most("added by a read-only sandbox", numbers.get("read_only_ms")? - plain, 1.0, "ms");
    Ok(())
}

/// Durations of tool calls on one machine or fleet, in milliseconds.
#[derive(Clone, Copy)]
struct CallTimings {
    open: f64,
    first: f64,
    open_own_cpu: f64,
    first_own_cpu: f64,
}

impl CallTimings {
    /// Initial value before any measurement.
    const NONE: Self =
        Self { open: f64::MAX, first: f64::MAX, open_own_cpu: f64::MAX, first_own_cpu: f64::MAX };

    /// Returns the field-wise minimum.
    fn min(self, other: Self) -> Self {
        Self {
            open: self.open.min(other.open),
            first: self.first.min(other.first),
            open_own_cpu: self.open_own_cpu.min(other.open_own_cpu),
            first_own_cpu: self.first_own_cpu.min(other.first_own_cpu),
        }
    }
}

fn measure(bench: &Bench, sshd: &BenchSshd, prefix: &str, hosts: usize) -> Result<CallTimings> {
    let (config, folder) = (sshd.config(), bench.folder.join("ssh"));
    let names: Vec<String> = (1..=hosts).map(|host| format!("{prefix}{host}")).collect();
    let mut arguments = vec![config.as_os_str(), folder.as_os_str()];
    arguments.extend(names.iter().map(OsStr::new));
    let numbers = BenchOutput::of_example("sysop-host", "remote", &arguments)?;
    Ok(CallTimings {
        open: numbers.get("open_ms")?,
        first: numbers.get("first_ms")?,
        open_own_cpu: numbers.get("open_own_cpu_ms")?,
        first_own_cpu: numbers.get("first_own_cpu_ms")?,
    })
}

/// Returns a shell command that runs `ssh` for all hosts concurrently. `one` returns a host's `ssh` command.
fn side_by_side(sshd: &BenchSshd, one: impl Fn(usize) -> Command) -> Command {
    let mut script = String::new();
    for host in 1..=HOSTS {
        script.push_str("ssh");
        for argument in one(host).get_args() {
            script.push_str(&format!(" '{}'", argument.to_string_lossy()));
        }
        script.push_str(" & ");
    }
    script.push_str("wait");
    let mut command = Command::new("sh");
    if let Some(folder) = sshd.ssh().get_current_dir() {
        command.current_dir(folder);
    }
    command.args(["-c", &script]);
    command
}

fn socket(host: usize) -> String {
    format!("master{host}")
}

/// Control masters of `ssh`, one per host, stopped on drop.
struct SshMasters<'a>(&'a BenchSshd);

impl<'a> SshMasters<'a> {
    fn start(sshd: &'a BenchSshd) -> Result<Self> {
        let masters = Self(sshd);
        for host in 1..=HOSTS {
            let mut command = sshd.ssh();
            command.args(["-M", "-N", "-f", "-S", &socket(host), &format!("near{host}")]);
            let status = command.status().context("cannot start ssh")?;
            if !status.success() {
                bail!("`ssh` cannot connect to this run's sshd: {status}");
            }
        }
        Ok(masters)
    }
}

impl Drop for SshMasters<'_> {
    fn drop(&mut self) {
        for host in 1..=HOSTS {
            let mut command = self.0.ssh();
            command.args(["-q", "-O", "exit", "-S", &socket(host), &format!("near{host}")]);
            // Stopping a master that never started fails harmlessly.
            let _ = command.output();
        }
    }
}
