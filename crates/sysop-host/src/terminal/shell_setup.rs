//! Starts the shell of a terminal and makes it tell of its commands.

use std::sync::Arc;
use std::time::Duration;

use sysop_driver::prompter::TerminalOutput;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::live_shell::LiveShell;
use super::recording::Recording;
use super::shells::{self, ShellKind};
use super::state::{HiddenInput, HiddenInputEnd, TerminalState, random_key};
use super::{OUTPUTS_WAITING_MAX, SharedTerminal, ShellSlot, locked};
use crate::machine::{MachineError, TerminalStart};

/// How long a shell on this machine has until it is at its prompt.
const PROMPT_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long one on a remote machine has, and the login before it.
const REMOTE_PROMPT_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a shell has to do what makes it tell.
const SETUP_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long nothing is printed by a shell that is at its prompt.
const QUIET: Duration = Duration::from_millis(100);
/// The same where something stands on the line.
const DRAWN: Duration = Duration::from_millis(20);
/// The same on a remote machine.
const REMOTE_QUIET: Duration = Duration::from_millis(400);

impl SharedTerminal {
    /// The running shell; starts one where there is none.
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

    /// What the next call has to be told of the shell itself.
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
                MachineError::Refused(format!("{} cannot be started: {error}", start.program.display()))
            })?;
        if again {
            slot.news = Some("the shell had ended; this is a new one, in its first folder".to_owned());
            let (picture, _) = live.state().subscribe(0);
            // Nobody may be watching.
            let _ = outputs.send(TerminalOutput::Redrawn(picture));
        }
        *locked(&self.current) = Some(Arc::clone(&live));
        (slot.live, slot.prepared, slot.shell) = (Some(Arc::clone(&live)), false, start.shell);
        Ok(live)
    }
}

/// Waits for the first prompt and makes the shell tell. A shell that cannot is used as it is.
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
            // Something around a shell, perhaps: it is asked what it is, if it looks like one.
            let prompt = is_prompt(&inner.screen.line_to_cursor()) && quiet(inner, REMOTE_QUIET);
            return prompt.then_some(None);
        };
        let front = live.shell_in_front() == Some(true);
        // Line editors can be turned off.
        let plain = front && quiet(inner, REMOTE_QUIET) && is_prompt(&inner.screen.line_to_cursor());
        let reads = if kind.has_line_editor() { live.is_raw() || plain } else { front };
        // Some shells read before they have drawn their prompt, and some prompts are empty.
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

/// Whether a line looks like the prompt of a shell.
pub(super) fn is_prompt(line: &str) -> bool {
    line.trim_end().ends_with(['$', '#', '%', '>', '❯', '➜', 'λ'])
}

/// Whether nothing was printed for a while.
pub(super) fn quiet(inner: &TerminalState, time: Duration) -> bool {
    Instant::now().saturating_duration_since(inner.printed) >= time
}

/// Which shell runs in a terminal of this machine, by its program.
fn local_shell_kind(live: &LiveShell) -> Option<ShellKind> {
    kind_of_process(live.pid()?.as_raw_nonzero().get())
}

/// Which shell a process is, by its program.
pub(super) fn kind_of_process(pid: i32) -> Option<ShellKind> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    ShellKind::of_program(program.to_str()?)
}

/// Asks the shell that reads which one it is, and makes it tell. Says which it is.
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

/// Makes the shell that reads tell of its commands; says whether it does.
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

/// Makes a shell that has forgotten it tell again, or another that has taken its place. The end of the last
/// command is told too, if the shell knows.
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
    tracing::debug!(shell = kind.name(), "the shell does not tell of its commands");
    let mut inner = live.state();
    inner.hidden = None;
    inner.shells.pop();
    false
}

/// Whether a shell without marks was silent so long, and is at its prompt as far as can be seen; `waits` is what the
/// system says of it.
pub(super) fn is_blind_rest(inner: &TerminalState, waits: Option<bool>, silent: Duration) -> bool {
    quiet(inner, silent) && waits.unwrap_or_else(|| is_prompt(&inner.screen.line_to_cursor()))
}

/// The interactive shell that is in the foreground of a terminal of this machine, where it is not the first one.
pub(super) fn interactive_shell(live: &LiveShell) -> Option<ShellKind> {
    let front = live.foreground()?;
    if Some(front) == live.pid() {
        return None;
    }
    let pid = front.as_raw_nonzero().get();
    let kind = kind_of_process(pid)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let interactive = line
        .split(|byte| *byte == 0)
        .skip(1)
        .filter(|argument| !argument.is_empty() && argument != b"sh" && argument != b"ash")
        .all(|argument| argument.starts_with(b"-") && argument != b"-c");
    interactive.then_some(kind)
}
