//! Runs one program: captures its output, waits for its end, and stops it together with all processes that it
//! started.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use sysop_driver::port::CancellationToken;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::ProgramInvocation;
use super::process_tree::ProcessTree;
use crate::machine::TimeLimit;
use crate::machine::{ExecResult, ExitReason};
use crate::output::capture::Capture;
use crate::pipe::{default_pipe, discard_output, grow, read};
use crate::sandbox::PreparedFence;
use crate::spawn::{SpawnSpec, spawn, watch_exit};
use crate::watchdog::{Watchdog, WatchedGroup};

/// Time after which the watchdog covers a program; for a shorter one, it would cost more than the program.
const WATCHDOG_DELAY: Duration = Duration::from_millis(100);
/// Capacity, in bytes, of the pipe of a program with much output, if the system permits it. With a large pipe, the
/// program rarely has to wait for this process.
const PIPE_BYTES: usize = 1024 * 1024;
/// A read that returns at least this many bytes suggests that the program has much output, so its pipe is enlarged.
/// Other programs keep the default pipe, because enlarging a pipe takes time.
const MUCH_BYTES: usize = 4096;
/// Maximum time to read further output after the shell has exited while another process still holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// Time between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Interval at which remaining processes are checked between SIGTERM and SIGKILL.
pub(super) const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time to wait for a killed program to exit. Only a blocking system call takes longer.
pub(super) const KILL_WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum background programs whose output is read and discarded, so that a closed pipe does not kill them.
const BACKGROUND_MAX: usize = 64;

/// State shared by all programs of a machine.
#[derive(Debug)]
pub(super) struct ProcessRunner {
    folder: CString,
    watchdog_shell: CString,
    watchdog: Watchdog,
    background: Arc<Semaphore>,
    /// Canceled when the runner is dropped, to stop reading the output of background programs.
    closed: CancellationToken,
}

impl ProcessRunner {
    /// Creates a runner; programs start in `folder`.
    pub(super) fn new(folder: CString, watchdog_shell: CString) -> Self {
        Self {
            folder,
            watchdog_shell,
            watchdog: Watchdog::default(),
            background: Arc::new(Semaphore::new(BACKGROUND_MAX)),
            closed: CancellationToken::new(),
        }
    }

    /// Runs a program inside its fence until it ends, `limit` is reached, or `cancel` is triggered.
    pub(super) async fn run(
        &self,
        invocation: &ProgramInvocation,
        fence: Option<PreparedFence>,
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> io::Result<ExecResult> {
        let mut running = self.start(invocation, fence)?;
        let stopped = tokio::select! {
            ended = running.pump(capture) => {
                let left_running = ended?;
                let end = running.child.reap()?;
                if left_running {
                    self.discard_output(running.pipe);
                }
                return Ok(ExecResult { end, left_running });
            }
            () = cancel.cancelled() => ExitReason::Cancelled,
            () = limit.reached() => ExitReason::TimedOut,
        };
        running.stop(capture).await;
        Ok(ExecResult { end: stopped, left_running: false })
    }

    fn start(
        &self,
        invocation: &ProgramInvocation,
        fence: Option<PreparedFence>,
    ) -> io::Result<RunningProcess<'_>> {
        let ProgramInvocation { executable, arguments, environment } = invocation;
        let mark = format!("SYSOP_CALL_{:016x}", rand::random::<u64>());
        let marked = CString::new(format!("{mark}=1"))?;
        let (pipe, write) = default_pipe()?;
        let nothing = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let start = SpawnSpec {
            program: executable,
            arguments,
            environment,
            mark: Some(&marked),
            folder: &self.folder,
            stdin: nothing.as_fd(),
            output: write.as_fd(),
            errors: write.as_fd(),
        };
        let pid = match fence {
            None => spawn(&start)?,
            Some(fence) => fence.start_inside(|| spawn(&start))?,
        };
        let child = ChildProcess::new(pid, mark);
        Ok(RunningProcess {
            processes: self,
            child,
            watch: None,
            watch_at: Instant::now() + WATCHDOG_DELAY,
            pipe,
            wide: false,
            ended: false,
        })
    }

    /// Reads and discards the output of a background program as long as this runner exists. If there are too many such
    /// programs, closes the pipe instead.
    fn discard_output(&self, pipe: Receiver) {
        let Ok(permit) = Arc::clone(&self.background).try_acquire_owned() else { return };
        let closed = self.closed.clone();
        tokio::spawn(async move {
            let _permit = permit;
            tokio::select! {
                () = discard_output(&pipe) => {}
                () = closed.cancelled() => {}
            }
        });
    }
}

impl Drop for ProcessRunner {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

struct RunningProcess<'a> {
    processes: &'a ProcessRunner,
    child: ChildProcess,
    watch: Option<WatchedGroup<'a>>,
    watch_at: Instant,
    pipe: Receiver,
    /// True once the pipe has its larger capacity.
    wide: bool,
    /// True once all write ends of the pipe are closed.
    ended: bool,
}

impl RunningProcess<'_> {
    /// Captures output until the program has exited and its output is closed, but at most for `DRAIN` after
    /// the program's end. Returns true if another process still holds the output. Cancel safe.
    async fn pump(&mut self, capture: &mut Capture<'_>) -> io::Result<bool> {
        let mut drained: Option<Instant> = None;
        loop {
            if self.ended && drained.is_some() {
                return Ok(false);
            }
            capture.settle().await;
            let display = capture.display_due();
            tokio::select! {
                read = read(&self.pipe, capture.room()), if !self.ended => match read? {
                    0 => self.ended = true,
                    bytes => {
                        if bytes >= MUCH_BYTES && !self.wide {
                            grow(&self.pipe, PIPE_BYTES);
                            self.wide = true;
                        }
                        capture.filled(bytes);
                    }
                },
                ended = self.child.ended(), if drained.is_none() => {
                    ended?;
                    drained = Some(Instant::now() + DRAIN);
                }
                () = sleep_until(display.unwrap_or_else(Instant::now)), if display.is_some() => {
                    capture.display();
                }
                () = sleep_until(self.watch_at), if self.watch.is_none() && drained.is_none() => {
                    let ProcessRunner { watchdog, watchdog_shell, .. } = self.processes;
                    self.watch = Some(watchdog.watch(watchdog_shell, self.child.pid));
                }
                () = sleep_until(drained.unwrap_or_else(Instant::now)), if drained.is_some() => {
                    return Ok(true);
                }
            }
        }
    }

    /// Sends SIGTERM to the program and all processes that it started, captures their last output, and then kills them.
    async fn stop(mut self, capture: &mut Capture<'_>) {
        let tree = self.child.tree.clone();
        run_blocking(tree.clone(), |tree| tree.terminate()).await;
        let until = Instant::now() + STOP_GRACE;
        // Capture the remaining output; a read error no longer matters.
        let _ = timeout_at(until, self.pump(capture)).await;
        while Instant::now() < until && run_blocking(tree.clone(), |tree| tree.is_alive()).await {
            sleep(STOP_POLL_INTERVAL).await;
        }
        run_blocking(tree, |tree| tree.kill()).await;
        if let Ok(Ok(())) = timeout(KILL_WAIT_MAX, self.child.ended()).await {
            let _ = self.child.reap();
        }
        let _ = timeout(DRAIN, self.pump_rest(capture)).await;
    }

    async fn pump_rest(&self, capture: &mut Capture<'_>) {
        if self.ended {
            return;
        }
        loop {
            capture.settle().await;
            match read(&self.pipe, capture.room()).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => capture.filled(bytes),
            }
        }
    }
}

/// Runs `look`, which reads all processes, on a blocking thread, because reading about a process that hangs in the
/// kernel can block. Returns the default value if this takes too long.
pub(super) async fn run_blocking<T: Default + Send + 'static>(
    tree: ProcessTree,
    look: impl FnOnce(&ProcessTree) -> T + Send + 'static,
) -> T {
    let looking = tokio::task::spawn_blocking(move || look(&tree));
    match timeout(KILL_WAIT_MAX, looking).await {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => T::default(),
    }
}

/// Started program. If dropped before it is reaped, it is killed together with all processes that it started.
pub(super) struct ChildProcess {
    pid: Pid,
    pub(super) tree: ProcessTree,
    waiter: ExitWaiter,
    ended: bool,
    reaped: bool,
}

enum ExitWaiter {
    Descriptor(AsyncFd<OwnedFd>),
    /// A blocking thread that waits for the exit, for kernels before 5.3, which have no pidfds.
    Thread(JoinHandle<io::Result<()>>),
}

impl ChildProcess {
    pub(super) fn new(pid: Pid, mark: String) -> Self {
        let waiter = match watch_exit(pid) {
            Ok(descriptor) => ExitWaiter::Descriptor(descriptor),
            Err(_) => ExitWaiter::on_thread(pid),
        };
        Self { pid, tree: ProcessTree::new(pid, mark), waiter, ended: false, reaped: false }
    }

    /// Waits for the program's end, but does not reap the program, so that its pid stays reserved. Cancel safe.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        if !self.ended {
            match &mut self.waiter {
                ExitWaiter::Descriptor(descriptor) => descriptor.readable().await.map(drop)?,
                ExitWaiter::Thread(thread) => thread.await.map_err(io::Error::other)??,
            }
            self.ended = true;
        }
        Ok(())
    }

    /// Returns the exit reason of a program that has exited, but does not reap the program.
    pub(super) fn peek(&self) -> io::Result<ExitReason> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options)?
            .ok_or_else(|| io::Error::other("the program is still running"))?;
        end_of(&status)
    }

    /// Reaps a program that has exited.
    pub(super) fn reap(&mut self) -> io::Result<ExitReason> {
        let status = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?
            .ok_or_else(|| io::Error::other("the program is still running"))?;
        self.reaped = true;
        end_of(&status)
    }
}

impl ExitWaiter {
    fn on_thread(pid: Pid) -> Self {
        Self::Thread(tokio::task::spawn_blocking(move || {
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
            Ok(())
        }))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.tree.kill();
        let pid = self.pid;
        std::thread::spawn(move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).map(drop));
    }
}

fn end_of(status: &WaitIdStatus) -> io::Result<ExitReason> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ok(ExitReason::Exited(code)),
        (None, Some(signal)) => Ok(ExitReason::Killed { signal }),
        (None, None) => Err(io::Error::other("the program neither exited nor was killed")),
    }
}

#[cfg(test)]
mod tests;
