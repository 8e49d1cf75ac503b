//! The terminal that the model and the users share: one shell on the session's machine and one screen.
//!
//! # Problem
//!
//! A model that runs commands in a shell of its own cannot continue what a user began in another shell, and the user
//! cannot see what the model does. Sharing one shell needs three things that a terminal does not offer: a reliable end
//! and exit code for each command, a rule for whose turn it is to type, and privacy for what users type.
//!
//! # Design
//!
//! 1. `live_shell` runs the shell in a PTY (`pty_reader`). `sequences` splits its output into text and escape sequences
//!    once, for all consumers: `state` with its `screen`, watchers through `output_filter`, and captures as
//!    `plain_text`.
//! 2. `shell_setup` and `shells` type a few lines that make the shell report its prompt and the end of each command as
//!    marks (`marks`). A mark carries the shell's random key, and the end of a command a nonce of its own.
//! 3. `call` is the model's side: it runs a command to its end, or sends keys (`keys`). The shell starts on
//!    first use and is replaced once it has exited.
//! 4. `control` is the users' side. The first key of a user takes control; the agent waits until the user returns it,
//!    or has typed nothing for a while and the terminal is as it was before.
//! 5. `private_use` keeps a second screen, for the model, which does not show the commands that users run for
//!    themselves. `echo` decides which typed text may be reported: only what the terminal showed. `secret` and
//!    `secret_reader` recognize a prompt for a secret and name the program that reads it.
//! 6. `survey` reports the shell, its directory and the line at the cursor, so that the policy treats keys as
//!    the command that they complete.
//!
//! # Rejected
//!
//! - A sentinel after each command (`cmd; echo DONE $?`). Programs can print it, unfinished quotes swallow it, Ctrl+C
//!   and syntax errors lose it, and users see it (`docs/adr/0009`).
//! - Fixed marks (OSC 133). Any displayed file can contain them.
//! - Two shells with a copied screen. The directory, variables and running programs would differ.
//!
//! # Invariants
//!
//! - An exit code is reported only with the nonce of its command; otherwise the end is unknown.
//! - Keys of users reach neither the log nor the model nor the recording; only their number and duration do.
//! - While a prompt for a secret is open, the model types nothing, and the answer goes to the terminal alone.
//! - Watchers receive only sequences of an allowlist.
//! - Memory is bounded: one escape sequence, one line, a fixed scrollback.

mod call;
mod call_end;
mod control;
mod echo;
mod heuristics;
mod hidden_prompt;
mod incomplete_command;
pub(crate) mod keys;
mod live_shell;
mod marks;
mod output_filter;
mod plain_text;
mod private_use;
mod pty_reader;
mod recording;
mod screen;
mod secret;
mod secret_reader;
mod sequences;
mod shell_setup;
pub(crate) mod shells;
mod state;
mod survey;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use sysop_core::id::CallId;
use sysop_core::policy::Fence;
use sysop_driver::prompter::{NoPrompter, Prompter, Terminal, TerminalOutput, TerminalSize, TerminalView};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

pub(crate) use self::call_end::{CallEnd, CallError};
use self::control::UserControl;
use self::live_shell::LiveShell;
use crate::machine::{Echo, Machine};
use crate::output::artifacts::Artifacts;
use crate::output::redact::Secrets;

/// Initial size, used until a front end sets another.
const SIZE_DEFAULT: TerminalSize = TerminalSize { columns: 120, rows: 40 };
/// Bounds of a terminal's rows and columns. Values outside these bounds are clamped.
const SIZE_RANGE: std::ops::RangeInclusive<u16> = 2..=1000;
/// Maximum chunks of output queued for one watcher. A watcher that falls further behind gets a full redraw.
const OUTPUTS_WAITING_MAX: usize = 32;

pub(crate) struct SharedTerminal {
    machine: Arc<dyn Machine>,
    artifacts: Artifacts,
    secrets: Arc<Secrets>,
    people: Mutex<Arc<dyn Prompter>>,
    /// The shell. The lock is held while the shell is being started.
    slot: tokio::sync::Mutex<ShellSlot>,
    /// The same shell, for code that cannot await `slot`.
    current: Mutex<Option<Arc<LiveShell>>>,
    /// The call surveyed last, and the state of the terminal at that time.
    judged: Mutex<Option<(CallId, survey::TerminalPlace)>>,
    call_lock: tokio::sync::Mutex<()>,
    user_control: Mutex<UserControl>,
    size: Mutex<TerminalSize>,
    /// Sends the output to all watchers. It is created with the first shell, because most sessions start no shell.
    outputs: OnceLock<broadcast::Sender<TerminalOutput>>,
    /// Sandbox limits of the shell.
    fence: Fence,
    /// Reference to itself, for tasks that may outlive a call.
    weak_self: Weak<Self>,
}

#[derive(Default)]
struct ShellSlot {
    live: Option<Arc<LiveShell>>,
    /// True once the installation of our prompt hooks was attempted. Some shells do not support the hooks.
    prepared: bool,
    /// Kind of the shell, if the machine reports it.
    shell: Option<shells::ShellKind>,
    /// Note about the shell that is shown at the start of the next call's output.
    news: Option<String>,
}

impl SharedTerminal {
    pub(crate) fn new(machine: Arc<dyn Machine>, artifacts: Artifacts, secrets: Arc<Secrets>) -> Arc<Self> {
        Self::build(machine, artifacts, secrets, Arc::new(NoPrompter), Fence::Off)
    }

    /// Returns another terminal of the same machine, with the same prompter, whose shell runs inside `fence`. No front
    /// end shows it.
    pub(crate) fn fenced(&self, fence: Fence) -> Arc<Self> {
        let (machine, secrets) = (Arc::clone(&self.machine), Arc::clone(&self.secrets));
        Self::build(machine, self.artifacts.clone(), secrets, self.people(), fence)
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    fn build(
        machine: Arc<dyn Machine>,
        artifacts: Artifacts,
        secrets: Arc<Secrets>,
        people: Arc<dyn Prompter>,
        fence: Fence,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak_self| Self {
            machine,
            artifacts,
            secrets,
            people: Mutex::new(people),
            slot: tokio::sync::Mutex::default(),
            current: Mutex::default(),
            judged: Mutex::default(),
            call_lock: tokio::sync::Mutex::default(),
            user_control: Mutex::default(),
            size: Mutex::new(SIZE_DEFAULT),
            outputs: OnceLock::new(),
            fence,
            weak_self: weak_self.clone(),
        })
    }

    pub(crate) fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.people.lock() = people;
    }

    pub(crate) fn people(&self) -> Arc<dyn Prompter> {
        Arc::clone(&self.people.lock())
    }

    fn current(&self) -> Option<Arc<LiveShell>> {
        self.current.lock().clone()
    }

    fn size(&self) -> TerminalSize {
        *self.size.lock()
    }
}

impl Drop for SharedTerminal {
    fn drop(&mut self) {
        if let Some(live) = self.current.lock().take() {
            live.close();
        }
    }
}

#[async_trait]
impl Terminal for SharedTerminal {
    async fn watch(&self) -> Result<TerminalView, String> {
        self.watch_back(0).await
    }

    async fn watch_back(&self, scrollback_rows: usize) -> Result<TerminalView, String> {
        let live = self.open().await.map_err(|error| error.to_string())?;
        let inner = live.state();
        let (picture, outputs) = inner.subscribe(scrollback_rows);
        let size = inner.screen.size();
        drop(inner);
        Ok(TerminalView { size, picture, live: watcher(self.weak_self.clone(), outputs) })
    }

    fn input(&self, by: &str, bytes: &[u8]) {
        // Front ends call this from threads without a runtime, and the prompter may spawn a task.
        let live = self.current();
        let _runtime = live.as_ref().map(|live| live.runtime.enter());
        self.typed(by, bytes);
    }

    fn release(&self, by: &str) {
        let live = self.current();
        let _runtime = live.as_ref().map(|live| live.runtime.enter());
        self.user_released(by);
    }

    fn resize(&self, size: TerminalSize) {
        let bounded = |cells: u16| cells.clamp(*SIZE_RANGE.start(), *SIZE_RANGE.end());
        let size = TerminalSize { columns: bounded(size.columns), rows: bounded(size.rows) };
        *self.size.lock() = size;
        if let Some(live) = self.current() {
            live.resize(size);
        }
    }

    fn is_open(&self) -> bool {
        self.current().is_some()
    }
}

/// Returns the output stream of one watcher. All watchers share the bytes. A watcher that lags behind gets a redraw and
/// then continues.
fn watcher(
    terminal: Weak<SharedTerminal>,
    outputs: broadcast::Receiver<TerminalOutput>,
) -> BoxStream<'static, TerminalOutput> {
    futures::stream::unfold((terminal, outputs), |(terminal, mut outputs)| async move {
        let output = match outputs.recv().await {
            Ok(output) => output,
            Err(RecvError::Closed) => return None,
            Err(RecvError::Lagged(_)) => {
                let live = terminal.upgrade()?.current()?;
                let (picture, newer) = live.state().subscribe(0);
                outputs = newer;
                TerminalOutput::Redrawn(picture)
            }
        };
        Some((output, (terminal, outputs)))
    })
    .boxed()
}

/// Returns the echo mode of the local terminal with this device path, or `None` if it cannot be opened.
pub(crate) fn echo_of(tty: &str) -> Option<Echo> {
    let flags = i32::try_from((OFlags::NOCTTY | OFlags::NONBLOCK).bits()).ok()?;
    live_shell::echo(OpenOptions::new().read(true).custom_flags(flags).open(tty).ok()?)
}

#[cfg(test)]
mod tests;
