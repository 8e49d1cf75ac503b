//! Measurements of the guard for risky changes: arming, confirming over a fresh login, and rolling back.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Bench;
use super::measure::ms;
use super::sshd::BenchSshd;
use crate::workspace::root;

const ROUNDS: usize = 10;
/// Size of each saved file in bytes. With the number of files in the next constant, about as much as `/etc/ssh` and
/// `/etc/pam.d`.
const FILE_BYTES: usize = 4000;
const FILES: usize = 40;
/// Control socket of the open connection.
const SOCKET: &str = "guard-master";

/// Runs the guard script as the product does: from standard input, over ssh.
struct GuardScript<'a> {
    sshd: &'a BenchSshd,
    folder: String,
    script: String,
}

impl GuardScript<'_> {
    /// Runs a command of the script, over the open connection or a fresh login. Returns its duration.
    fn run(&self, is_fresh: bool, words: &str, wanted: &str) -> Result<Duration> {
        let mut command = self.sshd.ssh();
        let socket = if is_fresh { "none" } else { SOCKET };
        command.args(["-S", socket, "near1"]);
        command.arg(format!(
            "SYSOP_GUARD_DIR={0}/guards exec sh -c 'S=$(cat); eval \"$S\"' sysop-guard {words}",
            self.folder
        ));
        let began = Instant::now();
        let said = feed(&mut command, &self.script)?;
        let took = began.elapsed();
        let text = String::from_utf8_lossy(&said.stdout);
        ensure!(text.contains(wanted), "the guard said {text:?} {}", String::from_utf8_lossy(&said.stderr));
        Ok(took)
    }
}

fn feed(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().context("it was started with a pipe")?;
    std::io::Write::write_all(&mut pipe, input.as_bytes())?;
    drop(pipe);
    Ok(child.wait_with_output()?)
}

/// Measures the guard over loopback.
pub(super) fn guard(bench: &mut Bench) -> Result<()> {
    let sshd = BenchSshd::start(&bench.folder.join("guard"))?;
    let files = bench.folder.join("guard/files");
    fs::create_dir_all(&files)?;
    for number in 0..FILES {
        fs::write(files.join(number.to_string()), "x".repeat(FILE_BYTES))?;
    }
    let mut master = sshd.ssh();
    ensure!(master.args(["-M", "-N", "-f", "-S", SOCKET, "near1"]).status()?.success(), "ssh cannot connect");
    let script = fs::read_to_string(root().join("crates/sysop-host/src/ssh/guard/guard.sh"))?;
    let guard = GuardScript { sshd: &sshd, folder: bench.folder.join("guard").display().to_string(), script };
    let uid = String::from_utf8(Command::new("id").arg("-u").output()?.stdout)?;
    let [mut arm, mut confirm, mut fire] = [Duration::MAX; 3];
    for round in 0..ROUNDS {
        let words =
            |id: &str| format!("arm {id}{round} 60 {} \"\" \"\" \"\" {}", uid.trim(), files.display());
        arm = arm.min(guard.run(false, &words("c"), " armed ")?);
        confirm = confirm.min(guard.run(true, &format!("confirm c{round}"), " confirmed timer-alive")?);
        guard.run(false, &words("f"), " armed ")?;
        fire = fire.min(guard.run(false, &format!("fire f{round} bench"), " fired ")?);
    }
    let mut exit = sshd.ssh();
    exit.args(["-q", "-O", "exit", "-S", SOCKET, "near1"]).output().context("cannot end the connection")?;
    bench.at_most("guard: arm, over an open connection", ms(arm), 1000.0, "ms");
    bench.at_most("guard: confirm, login included", ms(confirm), 1000.0, "ms");
    bench.at_most("guard: roll back, over an open connection", ms(fire), 300.0, "ms");
    Ok(())
}
