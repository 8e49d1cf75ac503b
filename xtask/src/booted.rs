//! A Debian system booted with systemd in a container, for trying the package's units and for tests of guards
//! and previews.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::setup;

/// Maximum time until systemd has started its units.
const BOOT_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A running system, halted on drop.
pub(crate) struct BootedSystem {
    nspawn: Child,
    /// Process id of the booted system's systemd, as seen from this machine.
    leader: u32,
}

/// Network of a booted system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// This machine's network.
    Shared,
    /// A separate network without any connection.
    Own,
}

/// Boots a Debian root directory and runs a script in it. The script must print `wanted`.
pub(crate) fn run_script(files: &Path, script: &str, wanted: &str) -> Result<()> {
    setup::need(&[("systemd-nspawn", "systemd-container"), ("nsenter", "util-linux")])?;
    let system = BootedSystem::boot(files, Network::Shared)?;
    let run = system.enter(&["sh", script]).output().context("cannot start nsenter")?;
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    if !run.status.success() || !said.contains(wanted) {
        let journal = system.enter(&["journalctl", "-b", "--no-pager", "-n", "60"]).output()?;
        bail!("{script} failed:\n{said}\n{}", String::from_utf8_lossy(&journal.stdout));
    }
    eprintln!("    {script}: {wanted}");
    Ok(())
}

impl BootedSystem {
    /// Boots a Debian root directory.
    pub(crate) fn boot(files: &Path, network: Network) -> Result<Self> {
        let mut nspawn = Command::new("systemd-nspawn");
        if network == Network::Own {
            nspawn.arg("--private-network");
        }
        nspawn
            .args(["--quiet", "--register=no", "--keep-unit", "--boot", "--console=passive", "-D"])
            .arg(files);
        // The filter of systemd-nspawn would refuse these system calls.
        nspawn.arg("--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self");
        let nspawn = nspawn
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start systemd-nspawn")?;
        let mut system = Self { nspawn, leader: 0 };
        let until = Instant::now() + BOOT_MAX;
        loop {
            if let Some(status) = system.nspawn.try_wait()? {
                bail!("systemd-nspawn ended ({status})");
            }
            if system.leader == 0 {
                system.leader = child_of(system.nspawn.id()).unwrap_or(0);
            } else if system.has_booted() {
                return Ok(system);
            }
            if Instant::now() > until {
                bail!("the system did not boot in {} s", BOOT_MAX.as_secs());
            }
            sleep(POLL_INTERVAL);
        }
    }

    fn has_booted(&self) -> bool {
        let state = self.enter(&["systemctl", "is-system-running"]).stderr(Stdio::null()).output();
        state.is_ok_and(|state| {
            let state = String::from_utf8_lossy(&state.stdout).into_owned();
            ["running", "degraded"].contains(&state.trim())
        })
    }

    /// Returns the process id, on this machine, of the system's systemd.
    pub(crate) fn leader(&self) -> u32 {
        self.leader
    }

    /// Returns a command that runs in the system as root.
    pub(crate) fn enter(&self, arguments: &[&str]) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["-t", &self.leader.to_string(), "-a"]).args(arguments).env_clear();
        enter.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        enter
    }
}

/// Returns the first child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

impl Drop for BootedSystem {
    fn drop(&mut self) {
        if self.leader != 0 {
            // Without a leader, nspawn itself is killed below.
            let _ = self.enter(&["systemctl", "poweroff", "--force", "--force"]).output();
        }
        let _ = self.nspawn.kill();
        let _ = self.nspawn.wait();
    }
}
