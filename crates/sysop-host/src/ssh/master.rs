//! The `ssh` process that holds a connection and multiplexes sessions. It is a child of sysop with a session of its
//! own and no terminal, and does not outlive sysop.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use super::error::SshError;
use super::settings::{SshSettings, literal};
use crate::environment::Environment;
use crate::platform::{anonymous_file, exit_descriptor};
use crate::spawn::{SpawnSpec, spawn, watch_exit};
use crate::watchdog::Watchdog;

/// Interval at which a new connection is checked until it is ready.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Timeout for the parts of a login that ssh's own timeout does not cover (jump hosts, slow logins). It applies if no
/// user is prompted.
const LOGIN_MAX: Duration = Duration::from_secs(60);
/// Maximum time for a user to answer one prompt of ssh.
const ANSWERS_MAX: Duration = Duration::from_secs(600);
const END_MAX: Duration = Duration::from_secs(2);
const PRINTED_BYTES_MAX: u64 = 16 * 1024;

/// An established connection. Dropping this ends the connection.
#[derive(Debug)]
pub(super) struct Master {
    socket: PathBuf,
    pid: Pid,
    printed: OwnedFd,
    /// Kills ssh if this process is killed.
    watchdog: Watchdog,
}

impl Master {
    /// Connects, and returns when sessions can be opened. `questions` are the prompts that the login may wait for.
    pub(super) async fn start(
        settings: &SshSettings,
        socket: PathBuf,
        questions: LoginPrompts,
    ) -> Result<Self, SshError> {
        // ssh prints only to sysop; reasons of refused forwards appear only at this log level.
        let mut line = settings.arguments_saying("INFO");
        line.extend(["-oControlMaster=yes".into(), "-oRequestTTY=no".into()]);
        line.extend(["-N".into(), "-S".into()]);
        line.push(literal(&socket));
        line.extend(settings.target());
        let here = |error: std::io::Error| SshError::here(&settings.destination, error);
        let printed = anonymous_file("ssh").map_err(here)?;
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let nothing = nothing.map_err(|error| here(error.into()))?;
        let pid = start(settings, line, [nothing.as_fd(), nothing.as_fd(), printed.as_fd()])?;
        let master = Self { socket, pid, printed, watchdog: Watchdog::default() };
        // Watched from now on: a user may take long to answer a prompt while ssh is connecting.
        master.watchdog.watch_until_drop(c"/bin/sh", pid);
        match questions.wait(settings.connect_timeout + LOGIN_MAX, master.ready(settings)).await {
            Some(Ok(())) => Ok(master),
            Some(Err(error)) => Err(error),
            None => Err(SshError::Timeout(settings.destination.clone())),
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn printed(&self) -> String {
        self.printed_after(self.printed_bytes().saturating_sub(PRINTED_BYTES_MAX))
    }

    pub(super) fn printed_bytes(&self) -> u64 {
        rustix::fs::fstat(&self.printed).map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0))
    }

    /// Returns what ssh printed after its first `bytes` bytes, at most `PRINTED_BYTES_MAX` bytes of it.
    pub(super) fn printed_after(&self, bytes: u64) -> String {
        let mut text = vec![0; usize::try_from(PRINTED_BYTES_MAX).expect("the size fits in memory")];
        let length = rustix::io::pread(&self.printed, &mut text, bytes).unwrap_or(0);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    pub(super) async fn end(&self) {
        // The process may already have exited.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let Ok(descriptor) = watch_exit(self.pid) else { return };
        if timeout(END_MAX, descriptor.readable()).await.is_err() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    async fn ready(&self, settings: &SshSettings) -> Result<(), SshError> {
        let descriptor =
            watch_exit(self.pid).map_err(|error| SshError::here(&settings.destination, error))?;
        let mut look = interval(READY_POLL_INTERVAL);
        loop {
            tokio::select! {
                _ = descriptor.readable() => {
                    return Err(SshError::read_before_login(&settings.destination, &self.printed()));
                }
                _ = look.tick() => {}
            }
            // The name appears when ssh listens.
            if self.socket.symlink_metadata().is_ok() {
                return Ok(());
            }
        }
    }
}

/// Prompts that a login may wait for, in addition to the host's response.
#[derive(Debug)]
pub(super) enum LoginPrompts {
    Never,
    /// Prompts from an external askpass program, for an unknown time.
    External,
    /// Prompts to users of the session, while the number of open prompts is above 0.
    Session(watch::Receiver<usize>),
}

impl LoginPrompts {
    /// Waits for `login`, at most for the timeout `machine`, or longer while a prompt is open. The timeout restarts
    /// after each answer. Returns `None` if the login takes too long.
    pub(super) async fn wait<T>(mut self, machine: Duration, login: impl Future<Output = T>) -> Option<T> {
        let mut login = pin!(login);
        loop {
            let (limit, questions) = match &mut self {
                Self::Never => (machine, None),
                Self::External => (ANSWERS_MAX, None),
                Self::Session(open) => {
                    let limit = if *open.borrow_and_update() > 0 { ANSWERS_MAX } else { machine };
                    (limit, Some(open))
                }
            };
            let asked = async {
                let changed = match questions {
                    Some(open) => open.changed().await.is_ok(),
                    None => false,
                };
                if !changed {
                    // No more prompts can come.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                ready = &mut login => return Some(ready),
                () = asked => {}
                () = sleep(limit) => return None,
            }
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // The process may already have exited, and its socket may be gone.
        let _ = kill_process_group(self.pid, Signal::TERM);
        let _ = std::fs::remove_file(&self.socket);
        reap(self.pid);
    }
}

/// Starts an `ssh`, or the program of the settings' container, with these descriptors as its streams.
pub(super) fn start(
    settings: &SshSettings,
    line: Vec<std::ffi::OsString>,
    ends: [std::os::fd::BorrowedFd<'_>; 3],
) -> Result<Pid, SshError> {
    let environment = settings.environment();
    let program = program(settings, &environment)?;
    let here = |error: &dyn std::fmt::Display| SshError::here(&settings.destination, error);
    let name = settings.container().map_or("ssh", |container| container.program());
    let arguments: Vec<CString> = [std::ffi::OsString::from(name)]
        .into_iter()
        .chain(line)
        .map(|word| CString::new(word.into_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| here(&error))?;
    spawn(&SpawnSpec {
        program: &program,
        arguments: &arguments,
        environment: &environment.entries(),
        mark: None,
        folder: c"/",
        stdin: ends[0],
        output: ends[1],
        errors: ends[2],
    })
    .map_err(|error| here(&error))
}

/// Returns the path of the user's `ssh`, or of the container engine's program, found in the absolute directories of
/// `PATH`.
pub(super) fn program(settings: &SshSettings, environment: &Environment) -> Result<CString, SshError> {
    let Some(container) = settings.container() else {
        return environment.program("ssh").ok_or(SshError::NoSsh);
    };
    let program = container.program();
    let destination = settings.destination.clone();
    environment.program(program).ok_or(SshError::NoContainerProgram { destination, program })
}

/// Waits in a thread for a process that was asked to exit, and kills the process after a while.
pub(super) fn reap(pid: Pid) {
    std::thread::spawn(move || {
        if let Ok(descriptor) = exit_descriptor(pid) {
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            let patience = Timespec { tv_sec: END_MAX.as_secs().cast_signed(), tv_nsec: 0 };
            if !matches!(poll(&mut polled, Some(&patience)), Ok(1)) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).map(drop)
    });
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::{Instant, sleep};

    use super::{ANSWERS_MAX, LoginPrompts};

    const MACHINE: Duration = Duration::from_secs(75);

    #[tokio::test(start_paused = true)]
    async fn a_login_without_prompts_times_out() {
        let (_open, questions) = watch::channel(0);
        for patience in [LoginPrompts::Never, LoginPrompts::Session(questions)] {
            let started = Instant::now();
            assert_eq!(patience.wait(MACHINE, pending::<()>()).await, None);
            assert_eq!(started.elapsed(), MACHINE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_login_timeout_restarts_after_an_answer() {
        let (open, questions) = watch::channel(0);
        let started = Instant::now();
        let answering = async {
            sleep(MACHINE / 2).await;
            open.send_modify(|open| *open += 1);
            sleep(ANSWERS_MAX / 2).await;
            open.send_modify(|open| *open -= 1);
            pending::<()>().await;
        };
        assert_eq!(LoginPrompts::Session(questions).wait(MACHINE, answering).await, None);
        assert_eq!(started.elapsed(), MACHINE / 2 + ANSWERS_MAX / 2 + MACHINE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_login_prompt_times_out() {
        let (open, questions) = watch::channel(1);
        let started = Instant::now();
        assert_eq!(LoginPrompts::Session(questions).wait(MACHINE, pending::<()>()).await, None);
        assert_eq!(started.elapsed(), ANSWERS_MAX);
        drop(open);
    }
}
