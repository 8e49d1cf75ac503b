//! Shell process that kills the remaining commands when this process ends.
//!
//! No matter how this process ends, even by `SIGKILL`, the pipe that the watchdog reads is closed. The watchdog then
//! kills all registered process groups. It is started with the first command that runs longer than a tenth of a second,
//! so that short commands cost nothing. If this process is killed by `SIGKILL` within that tenth of a second, the
//! command continues to run.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::pipe::blocking_pipe;
use crate::spawn::{SpawnSpec, spawn};

/// Script that reads `add GROUP` and `del GROUP`, and kills the remaining groups at the end of its input. The form
/// `kill -KILL -GROUP` is the only one that dash, bash and busybox all accept.
const SCRIPT: &CStr = c"groups=
while read -r verb group; do
  case $verb in
  add) groups=\"$groups $group\" ;;
  del) kept=; for g in $groups; do [ \"$g\" = \"$group\" ] || kept=\"$kept $g\"; done; groups=$kept ;;
  esac
done
for g in $groups; do kill -KILL \"-$g\"; done 2>/dev/null";

/// Watchdog for one machine. Its process starts with the first watched group.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    running: OnceLock<Option<WatchdogProcess>>,
}

#[derive(Debug)]
struct WatchdogProcess {
    command_pipe: OwnedFd,
    pid: Pid,
}

impl Watchdog {
    /// Watches a group until this watchdog is dropped or this process ends. Then the group is killed.
    pub(crate) fn watch_until_drop(&self, shell: &CStr, group: Pid) {
        std::mem::forget(self.watch(shell, group));
    }

    /// Watches a group until the returned guard is dropped. If this process ends before that, the group is killed.
    pub(crate) fn watch(&self, shell: &CStr, group: Pid) -> WatchedGroup<'_> {
        let running = self.running.get_or_init(|| match start(shell) {
            Ok(running) => Some(running),
            Err(error) => {
                tracing::warn!(%error, "cannot start the watchdog; commands would outlive a crash");
                None
            }
        });
        if let Some(running) = running {
            running.send_command("add", group);
        }
        WatchedGroup { running: running.as_ref(), group }
    }
}

/// Guard of one watched group. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct WatchedGroup<'a> {
    running: Option<&'a WatchdogProcess>,
    group: Pid,
}

impl Drop for WatchedGroup<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.running {
            running.send_command("del", self.group);
        }
    }
}

impl WatchdogProcess {
    fn send_command(&self, verb: &str, group: Pid) {
        let line = format!("{verb} {}\n", group.as_raw_nonzero());
        // The pipe holds thousands of lines. If the watchdog is gone or stuck, there is no remedy.
        let _ = rustix::io::write(&self.command_pipe, line.as_bytes());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(Some(running)) = self.running.take() {
            drop(running.command_pipe);
            std::thread::spawn(move || waitid(WaitId::Pid(running.pid), WaitIdOptions::EXITED).map(drop));
        }
    }
}

fn start(shell: &CStr) -> io::Result<WatchdogProcess> {
    let (input, command_pipe) = blocking_pipe()?;
    fcntl_setfl(&command_pipe, OFlags::NONBLOCK)?;
    let nowhere = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let arguments: [CString; 4] = [c"sh".into(), c"-c".into(), SCRIPT.into(), c"sysop-guard".into()];
    let pid = spawn(&SpawnSpec {
        program: shell,
        arguments: &arguments,
        environment: &[],
        mark: None,
        folder: c"/",
        stdin: input.as_fd(),
        output: nowhere.as_fd(),
        errors: nowhere.as_fd(),
    })?;
    Ok(WatchdogProcess { command_pipe, pid })
}
