//! A running shell in its PTY: reads its output, keeps its screen, removes our marks from the stream, and sends the
//! remaining output to all watchers. This module knows nothing of tools and asks no questions.
//!
//! One thread reads output and another parses it, so that a program with much output delays only itself. A task writes
//! the input.

use std::any::Any;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::{TerminalOutput, TerminalSize};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::pty_reader::{BATCH_BYTES, PtyReader, StopGuard};
use super::recording::Recording;
use super::state::{HiddenInput, ShellEnd, TerminalState};
use crate::machine::{Echo, TerminalStart};
use crate::output::redact::Secrets;
use crate::platform::{ProcessEntry, ProcessState, children, process};
use crate::sandbox::{FenceRequest, PreparedFence};
use crate::spawn::with_default_signals;

/// Maximum captured bytes not yet taken by a call. If there are more, the program is blocked until the call takes them.
const CAPTURE_BYTES_MAX: usize = 1024 * 1024;
/// Captured bytes after which a call is notified even while output continues.
const FLOOD_NOTICE_BYTES: usize = CAPTURE_BYTES_MAX / 4;
/// Maximum bytes queued for the program's input. Further input is dropped.
const TYPED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time to read remaining output after the shell has exited.
const DRAIN: Duration = Duration::from_millis(200);
/// Time between `SIGHUP` and `SIGKILL` when a shell is terminated.
const HANG_UP_GRACE: Duration = Duration::from_millis(500);
/// Interval for checking state that sends no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Ctrl+U, which deletes the typed line in all line editors and in the kernel's line discipline.
pub(super) const KILL_LINE: u8 = 0x15;

/// Starts the shell inside its fence. The returned directory is its private `TMPDIR`, if any, and must outlive the
/// shell.
fn spawn_shell(
    start: &TerminalStart,
    master: &OwnedFd,
    pts: pty_process::Pts,
) -> io::Result<(tokio::process::Child, Option<TempDir>)> {
    let mut command = with_default_signals(pty_process::Command::new(&start.program))
        .args(&start.arguments)
        .env_clear()
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&start.folder)
        .kill_on_drop(true);
    let tty = rustix::pty::ptsname(master, Vec::new())?;
    let tty = Path::new(OsStr::from_bytes(tty.to_bytes()));
    let request = FenceRequest { fence: &start.fence, root: None, tty: Some(tty) };
    let Some(mut fence) = PreparedFence::new(&request, start.sandbox)? else {
        return Ok((command.spawn(pts).map_err(io::Error::other)?, None));
    };
    let temporary = fence.take_temporary_folder();
    if let Some(folder) = &temporary {
        command = command.env("TMPDIR", folder.path());
    }
    let runtime = Handle::current();
    let child = fence.start_inside(move || {
        let _runtime = runtime.enter();
        command.spawn(pts).map_err(io::Error::other)
    })?;
    Ok((child, temporary))
}

pub(super) struct LiveShell {
    inner: Mutex<TerminalState>,
    /// Signaled when a call has taken captured output.
    capture_drained: Condvar,
    revision: watch::Sender<u64>,
    typing: mpsc::UnboundedSender<Vec<u8>>,
    typed_waiting: Arc<AtomicUsize>,
    master: OwnedFd,
    pid: Option<Pid>,
    /// Name of the remote machine; `None` for a local shell.
    pub(super) remote_host: Option<String>,
    secrets: Arc<Secrets>,
    stop: CancellationToken,
    pub(super) runtime: Handle,
    /// Held as long as the shell may run.
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl LiveShell {
    pub(super) fn start(
        start: &TerminalStart,
        size: TerminalSize,
        outputs: broadcast::Sender<TerminalOutput>,
        recording: Option<Recording>,
        secrets: Arc<Secrets>,
    ) -> io::Result<Arc<Self>> {
        let (pty, pts) = pty_process::open().map_err(io::Error::other)?;
        pty.resize(pty_size(size)).map_err(io::Error::other)?;
        // Read outside the runtime, which would wake up for each small chunk of output.
        let master = OwnedFd::from(pty);
        let (read, write) = (master.try_clone()?, master.try_clone()?);
        let write = Sender::from_file_unchecked(write.into())?;
        let (child, temporary) = spawn_shell(start, &master, pts)?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (typing, typed) = mpsc::unbounded_channel();
        let live = Arc::new(Self {
            inner: Mutex::new(TerminalState::new(size, start.runner.clone(), outputs, recording)),
            capture_drained: Condvar::new(),
            revision: watch::Sender::new(0),
            typing,
            typed_waiting: Arc::default(),
            master,
            pid,
            remote_host: start.remote_host.clone(),
            _guard: start.guard.clone(),
            secrets,
            stop: CancellationToken::new(),
            runtime: Handle::current(),
        });
        let intake = Arc::new(PtyReader::default());
        let (reading, stop_reading) = intake.stop_guard()?;
        let reader = Arc::clone(&intake);
        thread("terminal-read", move || reader.read(&read, &stop_reading))?;
        let parser = Arc::clone(&live);
        let read_all = Arc::new(Notify::new());
        let parsed = Arc::clone(&read_all);
        thread("terminal", move || parser.parse(&intake, &parsed))?;
        tokio::spawn(until_stopped(
            live.stop.clone(),
            write_typed(write, typed, Arc::clone(&live.typed_waiting)),
        ));
        let waiting = Arc::clone(&live).wait(child, read_all, reading);
        tokio::spawn(async move {
            waiting.await;
            drop(temporary);
        });
        Ok(live)
    }

    /// Locks the state. Never hold the guard across an await.
    pub(super) fn state(&self) -> MutexGuard<'_, TerminalState> {
        self.inner.lock()
    }

    /// Waits until `check` returns a value, at most for `limit`.
    pub(super) async fn until<T>(
        &self,
        limit: Duration,
        mut check: impl FnMut(&mut TerminalState) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        loop {
            let mut changes = self.revision.subscribe();
            if let Some(found) = check(&mut self.state()) {
                return Some(found);
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            // Some of the checked state sends no notification.
            let _ = timeout_at(deadline.min(now + POLL_INTERVAL), changes.changed()).await;
        }
    }

    /// Returns a receiver that is notified after each change of the state.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Queues bytes for the program. Never blocks; if the queue is full, the bytes are dropped.
    pub(super) fn send(&self, bytes: Vec<u8>) {
        let waiting = self.typed_waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if waiting + bytes.len() > TYPED_BYTES_MAX {
            self.typed_waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            return;
        }
        // Fails only if the shell has exited.
        let _ = self.typing.send(bytes);
    }

    /// Types one of our lines at the prompt. `hidden` specifies how its echo is hidden.
    pub(super) fn type_line(&self, line: &str, hidden: HiddenInput) {
        let bytes = {
            let mut inner = self.state();
            inner.hide(hidden);
            let paste =
                inner.shell_kind().is_some_and(|kind| kind.takes_paste()) && inner.screen.takes_paste();
            // Text already on the line can be discarded: people's input was seen before, and a terminal reply
            // may have arrived after the program that requested it had exited.
            let kill_line = char::from(KILL_LINE);
            if paste {
                format!("{kill_line}\x1b[200~{line}\x1b[201~\r")
            } else {
                format!("{kill_line}{line}\r")
            }
        };
        self.send(bytes.into_bytes());
    }

    /// Replaces the contents of `taken` with the output captured since the last call.
    pub(super) fn captured(&self, taken: &mut Vec<u8>) {
        taken.clear();
        if let Some(capture) = self.state().capture.as_mut() {
            std::mem::swap(taken, &mut capture.out);
        }
        self.capture_drained.notify_all();
    }

    pub(super) fn end_capture(&self) -> Vec<u8> {
        let capture = self.state().capture.take();
        self.capture_drained.notify_all();
        capture.map(super::state::CommandCapture::finish).unwrap_or_default()
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        let mut inner = self.state();
        if inner.screen.size() != size && inner.ended.is_none() {
            let winsize = rustix::termios::Winsize {
                ws_row: size.rows,
                ws_col: size.columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // Fails on a terminal that is closing.
            let _ = rustix::termios::tcsetwinsize(&self.master, winsize);
            inner.resize(size);
            drop(inner);
            self.changed();
        }
    }

    /// Returns the echo mode of the terminal. Returns `None` if a program reads single keys and echoes them itself.
    /// Always returns `None` for a remote machine, because its local terminal is always raw.
    pub(super) fn echo(&self) -> Option<Echo> {
        if self.remote_host.is_some() || self.is_raw() {
            return None;
        }
        echo(&self.master)
    }

    /// Returns true if the program reads single keys, as line editors do. Always false for a remote shell.
    pub(super) fn is_raw(&self) -> bool {
        self.remote_host.is_none()
            && tcgetattr(&self.master).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Returns the foreground process group of the terminal, or `None` if it cannot be determined.
    pub(super) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.master).ok()
    }

    /// Returns true if the shell itself is in the foreground, or `None` if this is unknown, as on a remote machine.
    pub(super) fn shell_in_front(&self) -> Option<bool> {
        if self.remote_host.is_some() {
            return None;
        }
        Some(self.foreground()? == self.pid?)
    }

    /// Returns the name of the foreground program, or `None` if it is unknown, as for a remote shell.
    pub(super) fn foreground_program(&self) -> Option<String> {
        if self.remote_host.is_some() {
            return None;
        }
        process(self.foreground()?.as_raw_nonzero().get()).map(|found| found.name)
    }

    /// Returns true if the shell is in the foreground and waits for input: it sleeps, and none of its children is about
    /// to become the foreground process. The children are checked because, on a busy machine, a shell may stay in the
    /// foreground for a long time before it runs its command. Returns `None` if unknown.
    pub(super) fn shell_waits(&self) -> Option<bool> {
        if !self.shell_in_front()? {
            return Some(false);
        }
        let shell = self.pid?.as_raw_nonzero().get();
        let Some(found) = process(shell) else { return Some(true) };
        let sleeps = |process: &ProcessEntry| process.state == ProcessState::Sleeping;
        // A new child first has the shell's process group, then its own, and finally its own program.
        let begins =
            |child: &ProcessEntry| child.group == found.group || child.name == found.name && !sleeps(child);
        Some(sleeps(&found) && !children(shell).iter().any(begins))
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Terminates the shell: sends `SIGHUP`, as closing a terminal window does, and later `SIGKILL`.
    pub(super) fn close(&self) {
        self.stop.cancel();
    }

    fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Processes output until the end of the stream. Notifies waiters during a flood and at its end.
    fn parse(&self, intake: &PtyReader, parsed: &Notify) {
        let mut batch = Vec::new();
        let mut untold = false;
        while intake.next(&mut batch).is_some() {
            // In chunks, because watchers queue a limited number of chunks.
            let reply: Vec<u8> = batch.chunks(BATCH_BYTES).flat_map(|piece| self.take(piece)).collect();
            if !reply.is_empty() {
                self.send(reply);
            }
            untold |= !batch.is_empty();
            let goes_on = batch.len() >= BATCH_BYTES;
            let mut inner = self.state();
            if !goes_on {
                inner.flush_recording();
            }
            let much = inner.captured_bytes() > FLOOD_NOTICE_BYTES;
            drop(inner);
            if untold && (much || !goes_on) {
                untold = false;
                self.changed();
            }
        }
        parsed.notify_one();
    }

    /// Processes a chunk of output as soon as there is room to capture it. Returns the terminal's reply to the program.
    fn take(&self, piece: &[u8]) -> Vec<u8> {
        let mut inner = self.state();
        while inner.captured_bytes() > CAPTURE_BYTES_MAX && !self.stop.is_cancelled() {
            self.capture_drained.wait_for(&mut inner, DRAIN);
        }
        inner.take(piece, &self.secrets)
    }

    /// Waits for the shell to exit. If `stop` is canceled, terminates the shell.
    async fn wait(
        self: Arc<Self>,
        mut child: tokio::process::Child,
        read_all: Arc<Notify>,
        reading: StopGuard,
    ) {
        let status = tokio::select! {
            status = child.wait() => status.ok(),
            () = self.stop.cancelled() => {
                if let Some(pid) = self.pid {
                    // Fails if the shell has just exited.
                    let _ = kill_process(pid, Signal::HUP);
                }
                let ended = timeout(HANG_UP_GRACE, child.wait()).await;
                // Kill the shell if it survives `SIGHUP`.
                let _ = child.start_kill();
                ended.ok().and_then(Result::ok)
            }
        };
        // A background program may keep the terminal open until it gets `SIGHUP` because the shell has exited.
        let _ = timeout(DRAIN, read_all.notified()).await;
        // Stops the reader, as dropping this future would.
        drop(reading);
        self.state().end(ShellEnd::of(status));
        self.stop.cancel();
        self.capture_drained.notify_all();
        self.changed();
    }
}

impl std::fmt::Debug for LiveShell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Returns the echo mode of a terminal, or `None` if it cannot be read. `terminal` may be either end of the PTY.
pub(super) fn echo(terminal: impl AsFd) -> Option<Echo> {
    let modes = tcgetattr(terminal).ok()?.local_modes;
    let hidden = modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO);
    Some(if hidden { Echo::Off } else { Echo::On })
}

fn pty_size(size: TerminalSize) -> pty_process::Size {
    pty_process::Size::new(size.rows, size.columns)
}

async fn until_stopped(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

async fn write_typed(
    mut write: Sender,
    mut typed: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(bytes) = typed.recv().await {
        let written = write.write_all(&bytes).await;
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        if written.is_err() {
            return;
        }
    }
}
