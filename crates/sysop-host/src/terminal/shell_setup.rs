//! Starts a terminal's shell and installs our prompt hooks in the shell.

use std::sync::Arc;
use std::time::Duration;

use sysop_driver::prompter::TerminalOutput;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::live_shell::LiveShell;
use super::recording::Recording;
use super::shells::{self, ShellKind};
use super::state::{HiddenInput, HiddenInputEnd, TerminalState, random_key};
use super::{OUTPUTS_WAITING_MAX, SharedTerminal, ShellSlot};
use crate::machine::{MachineError, TerminalStart};
use crate::platform::{arguments, executable};

/// Maximum time until a local shell shows its first prompt.
const PROMPT_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum time until a remote shell shows its first prompt, including login.
const REMOTE_PROMPT_WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum time for a shell to run the setup commands.
const SETUP_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time without output after which a shell counts as being at its prompt.
const QUIET: Duration = Duration::from_millis(100);
/// Used instead of `QUIET` if the cursor is not at the start of the line.
const DRAWN: Duration = Duration::from_millis(20);
/// Used instead of `QUIET` for a remote shell, and where it is less certain that a local shell is at its prompt.
const REMOTE_QUIET: Duration = Duration::from_millis(400);

impl SharedTerminal {
    /// Returns the running shell, and starts one if there is none.
    pub(super) async fn open(&self) -> Result<Arc<LiveShell>, MachineError> {
        let mut slot = self.slot.lock().await;
        let running = slot.live.clone().filter(|live| live.state().ended.is_none());
        let live = match running {
            Some(live) if slot.prepared => return Ok(live),
            Some(live) => live,
            None => self.start(&mut slot).await?,
        };
        prepare(&live, slot.shell).await;
        slot.prepared = true;
        Ok(live)
    }

    /// Takes the pending notice about the shell itself, which is shown in the output of the next call.
    pub(super) async fn take_notice(&self) -> Option<String> {
        self.slot.lock().await.news.take()
    }

    async fn start(&self, slot: &mut ShellSlot) -> Result<Arc<LiveShell>, MachineError> {
        let again = slot.live.is_some();
        let start = TerminalStart { fence: self.fence.clone(), ..self.machine.terminal().await? };
        let size = self.size();
        let recording = Recording::begin(&self.artifacts, self.people().session().as_ref(), size)
            .inspect_err(|error| tracing::warn!(%error, "the terminal is not recorded"))
            .ok();
        let outputs = self.outputs.get_or_init(|| broadcast::Sender::new(OUTPUTS_WAITING_MAX));
        let live = LiveShell::start(&start, size, outputs.clone(), recording, Arc::clone(&self.secrets))
            .map_err(|error| {
                MachineError::Refused(format!("cannot start {}: {error}", start.program.display()))
            })?;
        if again {
            slot.news = Some("the shell had exited; this is a new shell in the initial directory".to_owned());
            let (picture, _) = live.state().subscribe(0);
            // Fails only if nobody watches.
            let _ = outputs.send(TerminalOutput::Redrawn(picture));
        }
        *self.current.lock() = Some(Arc::clone(&live));
        (slot.live, slot.prepared, slot.shell) = (Some(Arc::clone(&live)), false, start.shell);
        Ok(live)
    }
}

/// Waits for the first prompt and installs our hooks. A shell that does not support them is used without hooks.
async fn prepare(live: &LiveShell, known: Option<ShellKind>) {
    if live.remote_host.is_some() {
        let at_prompt = |inner: &mut TerminalState| {
            (inner.prints > 0 && inner.screen.cursor().1 > 0 && quiet(inner, REMOTE_QUIET)).then_some(())
        };
        live.until(REMOTE_PROMPT_WAIT_MAX, |inner| inner.ended.map(drop).or_else(|| at_prompt(inner))).await;
        if known.is_none_or(ShellKind::reports_commands) {
            identify_and_set_up(live).await;
        }
        return;
    }
    let reads = live.until(PROMPT_WAIT_MAX, |inner| {
        if inner.ended.is_some() {
            return Some(None);
        }
        let Some(kind) = known.or_else(|| local_shell_kind(live)) else {
            // A wrapper around a shell, perhaps: ask it to identify itself if it shows a prompt.
            let prompt = is_prompt(&inner.screen.line_to_cursor()) && quiet(inner, REMOTE_QUIET);
            return prompt.then_some(None);
        };
        let front = live.shell_in_front() == Some(true);
        // The line editor may be turned off.
        let plain = front && quiet(inner, REMOTE_QUIET) && is_prompt(&inner.screen.line_to_cursor());
        let reads = if kind.has_line_editor() { live.is_raw() || plain } else { front };
        // Some shells read input before they draw their prompt, and some prompts are empty.
        let drawn = kind.has_line_editor() && inner.screen.cursor().1 > 0 && quiet(inner, DRAWN);
        let still = quiet(inner, if inner.prints > 0 { QUIET } else { REMOTE_QUIET });
        (reads && (drawn || still)).then_some(Some(kind))
    });
    match reads.await {
        Some(Some(kind)) => {
            set_up(live, kind).await;
        }
        Some(None) if live.state().ended.is_none() => {
            identify_and_set_up(live).await;
        }
        Some(None) | None => {}
    }
}

/// Returns true if the line ends like a shell prompt.
pub(super) fn is_prompt(line: &str) -> bool {
    line.trim_end().ends_with(['$', '#', '%', '>', '❯', '➜', 'λ'])
}

/// Returns true if nothing was printed for at least `time`.
pub(super) fn quiet(inner: &TerminalState, time: Duration) -> bool {
    Instant::now().saturating_duration_since(inner.printed) >= time
}

fn local_shell_kind(live: &LiveShell) -> Option<ShellKind> {
    kind_of_process(live.pid()?.as_raw_nonzero().get())
}

pub(super) fn kind_of_process(pid: i32) -> Option<ShellKind> {
    let program = executable(pid)?;
    ShellKind::of_program(program.to_str()?)
}

/// Identifies the foreground shell and installs our prompt hooks in it. Returns the kind of the shell.
pub(super) async fn identify_and_set_up(live: &LiveShell) -> Option<ShellKind> {
    let key = random_key();
    live.state().known = None;
    live.type_line(
        &shells::identify_command(&key),
        HiddenInput { until: HiddenInputEnd::Identified(key), shown: String::new() },
    );
    let known = live.until(SETUP_WAIT_MAX, |inner| inner.known.clone()).await;
    let kind = known.and_then(|program| ShellKind::of_program(&program));
    let told = match kind {
        Some(kind) => set_up(live, kind).await,
        None => false,
    };
    if !told {
        live.state().hidden = None;
    }
    kind
}

/// Installs our prompt hooks in the foreground shell. Returns true if they work.
pub(super) async fn set_up(live: &LiveShell, kind: ShellKind) -> bool {
    if !kind.reports_commands() {
        return false;
    }
    let key = random_key();
    let (secret_key, runner) = {
        let mut inner = live.state();
        inner.enter(key.clone(), kind);
        let runner = inner.shells.last().map(|shell| shell.runner.clone());
        (inner.secret_key.clone(), runner.unwrap_or_default())
    };
    type_setup(live, kind, &key, shells::setup(kind, &key, &secret_key, &runner)).await
}

/// Installs our hooks again in a shell that lost them or was replaced by another shell. The shell then also reports the
/// exit code of its last command, if that code is still known to the shell.
pub(super) async fn set_up_again(live: &LiveShell) -> bool {
    let key = random_key();
    let (kind, secret_key, runner) = {
        let mut inner = live.state();
        let outermost = inner.shells.len() == 1;
        let secret_key = inner.secret_key.clone();
        let Some(shell) = inner.shells.last_mut() else { return false };
        shell.kind = local_shell_kind(live).filter(|_| outermost).unwrap_or(shell.kind);
        shell.key.clone_from(&key);
        (shell.kind, secret_key, shell.runner.clone())
    };
    let mut lines = shells::setup(kind, &key, &secret_key, &runner);
    if let Some(first) = lines.first_mut() {
        *first = format!("{};{first}", shells::recover(kind, &key));
    }
    type_setup(live, kind, &key, lines).await
}

async fn type_setup(live: &LiveShell, kind: ShellKind, key: &str, lines: Vec<String>) -> bool {
    for line in lines {
        live.type_line(
            &line,
            HiddenInput { until: HiddenInputEnd::PromptReady(key.to_owned()), shown: String::new() },
        );
    }
    let ready = live
        .until(SETUP_WAIT_MAX, |inner| (inner.ready || inner.ended.is_some()).then_some(inner.ready))
        .await;
    if ready == Some(true) {
        return true;
    }
    tracing::debug!(shell = kind.name(), "the shell does not report its commands");
    let mut inner = live.state();
    inner.hidden = None;
    inner.shells.pop();
    false
}

/// Returns true if a shell without marks printed nothing for `silent` and appears to be at its prompt. `waits` is true
/// if the system says that the shell waits for input. If it is `None`, the line is checked for a prompt instead.
pub(super) fn is_blind_rest(inner: &TerminalState, waits: Option<bool>, silent: Duration) -> bool {
    quiet(inner, silent) && waits.unwrap_or_else(|| is_prompt(&inner.screen.line_to_cursor()))
}

/// Returns the interactive local shell in the foreground, unless it is the terminal's first shell.
pub(super) fn interactive_shell(live: &LiveShell) -> Option<ShellKind> {
    let front = live.foreground()?;
    if Some(front) == live.pid() {
        return None;
    }
    let pid = front.as_raw_nonzero().get();
    let kind = kind_of_process(pid)?;
    let interactive = arguments(pid)?
        .iter()
        .skip(1)
        .filter(|argument| !matches!(argument.as_str(), "" | "sh" | "ash"))
        .all(|argument| argument.starts_with('-') && argument != "-c");
    interactive.then_some(kind)
}
