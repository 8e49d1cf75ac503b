//! Starts the shell of a terminal and makes it tell of its commands.

use std::sync::Arc;
use std::time::Duration;

use sysop_driver::people::TerminalOutput;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::live::Live;
use super::recording::Recording;
use super::shells::{self, ShellKind};
use super::state::{Hidden, Inner, Until, random_key};
use super::{OUTPUTS_WAITING_MAX, SharedTerminal, Slot, locked};
use crate::machine::{MachineError, TerminalStart};

/// How long a shell on this machine has until it is at its prompt.
const PROMPT_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long one on a far machine has, and the login before it.
const FAR_PROMPT_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a shell has to do what makes it tell.
const SETUP_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long nothing is printed by a shell that is at its prompt.
const QUIET: Duration = Duration::from_millis(100);
/// The same where something stands on the line.
const DRAWN: Duration = Duration::from_millis(20);
/// The same on a far machine.
const FAR_QUIET: Duration = Duration::from_millis(400);

impl SharedTerminal {
    /// The running shell; starts one where there is none.
    pub(super) async fn open(&self) -> Result<Arc<Live>, MachineError> {
        let mut slot = self.slot.lock().await;
        let running = slot.live.clone().filter(|live| live.inner().ended.is_none());
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
    pub(super) async fn news(&self) -> Option<String> {
        self.slot.lock().await.news.take()
    }

    async fn start(&self, slot: &mut Slot) -> Result<Arc<Live>, MachineError> {
        let again = slot.live.is_some();
        let start: TerminalStart = self.machine.terminal().await?;
        let size = self.size();
        let recording = Recording::begin(&self.artefacts, self.people().session().as_ref(), size)
            .inspect_err(|error| tracing::warn!(%error, "the terminal is not recorded"))
            .ok();
        let outputs = self.outputs.get_or_init(|| broadcast::Sender::new(OUTPUTS_WAITING_MAX));
        let live = Live::start(&start, size, outputs.clone(), recording, Arc::clone(&self.secrets)).map_err(
            |error| MachineError::Refused(format!("{} cannot be started: {error}", start.program.display())),
        )?;
        if again {
            slot.news = Some("the shell had ended; this is a new one, in its first folder".to_owned());
            let (picture, _) = live.inner().watched(0);
            // Nobody may be watching.
            let _ = outputs.send(TerminalOutput::Redrawn(picture));
        }
        *locked(&self.current) = Some(Arc::clone(&live));
        (slot.live, slot.prepared, slot.shell) = (Some(Arc::clone(&live)), false, start.shell);
        Ok(live)
    }
}

/// Waits for the first prompt and makes the shell tell. A shell that cannot is used as it is.
async fn prepare(live: &Live, known: Option<ShellKind>) {
    if live.far.is_some() {
        let at_prompt = |inner: &mut Inner| {
            (inner.prints > 0 && inner.screen.cursor().1 > 0 && quiet(inner, FAR_QUIET)).then_some(())
        };
        live.until(FAR_PROMPT_WAIT_MAX, |inner| inner.ended.map(drop).or_else(|| at_prompt(inner))).await;
        if known.is_none_or(ShellKind::marks) {
            ask_and_set_up(live).await;
        }
        return;
    }
    let reads = live.until(PROMPT_WAIT_MAX, |inner| {
        if inner.ended.is_some() {
            return Some(None);
        }
        let Some(kind) = known.or_else(|| kind_of(live)) else {
            // Something around a shell, perhaps: it is asked what it is, if it looks like one.
            let prompt = is_prompt(&inner.screen.line_to_cursor()) && quiet(inner, FAR_QUIET);
            return prompt.then_some(None);
        };
        let front = live.shell_in_front() == Some(true);
        // Line editors can be turned off.
        let plain = front && quiet(inner, FAR_QUIET) && is_prompt(&inner.screen.line_to_cursor());
        let reads = if kind.edits() { live.is_raw() || plain } else { front };
        // Some shells read before they have drawn their prompt, and some prompts are empty.
        let drawn = kind.edits() && inner.screen.cursor().1 > 0 && quiet(inner, DRAWN);
        let still = quiet(inner, if inner.prints > 0 { QUIET } else { FAR_QUIET });
        (reads && (drawn || still)).then_some(Some(kind))
    });
    match reads.await {
        Some(Some(kind)) => {
            set_up(live, kind).await;
        }
        Some(None) if live.inner().ended.is_none() => {
            ask_and_set_up(live).await;
        }
        Some(None) | None => {}
    }
}

/// Whether a line looks like the prompt of a shell.
pub(super) fn is_prompt(line: &str) -> bool {
    line.trim_end().ends_with(['$', '#', '%', '>', '❯', '➜', 'λ'])
}

/// Whether nothing was printed for a while.
pub(super) fn quiet(inner: &Inner, time: Duration) -> bool {
    Instant::now().saturating_duration_since(inner.printed) >= time
}

/// Which shell runs in a terminal of this machine, by its program.
fn kind_of(live: &Live) -> Option<ShellKind> {
    kind_of_process(live.pid()?.as_raw_nonzero().get())
}

/// Which shell a process is, by its program.
pub(super) fn kind_of_process(pid: i32) -> Option<ShellKind> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    ShellKind::of_program(program.to_str()?)
}

/// Asks the shell that reads which one it is, and makes it tell. Says which it is.
pub(super) async fn ask_and_set_up(live: &Live) -> Option<ShellKind> {
    let key = random_key();
    live.inner().known = None;
    live.type_line(&shells::ask_kind(&key), Hidden { until: Until::Known(key), shown: String::new() });
    let known = live.until(SETUP_WAIT_MAX, |inner| inner.known.clone()).await;
    let kind = known.and_then(|program| ShellKind::of_program(&program));
    let told = match kind {
        Some(kind) => set_up(live, kind).await,
        None => false,
    };
    if !told {
        live.inner().hidden = None;
    }
    kind
}

/// Makes the shell that reads tell of its commands; says whether it does.
pub(super) async fn set_up(live: &Live, kind: ShellKind) -> bool {
    if !kind.marks() {
        return false;
    }
    let key = random_key();
    let secret_key = {
        let mut inner = live.inner();
        inner.enter(key.clone(), kind);
        inner.secret_key.clone()
    };
    type_setup(live, kind, &key, shells::setup(kind, &key, &secret_key)).await
}

/// Makes a shell that has forgotten it tell again, or another that has taken its place. The end of the last
/// command is told too, if the shell knows.
pub(super) async fn set_up_again(live: &Live) -> bool {
    let key = random_key();
    let (kind, secret_key) = {
        let mut inner = live.inner();
        let outermost = inner.shells.len() == 1;
        let secret_key = inner.secret_key.clone();
        let Some(shell) = inner.shells.last_mut() else { return false };
        shell.kind = kind_of(live).filter(|_| outermost).unwrap_or(shell.kind);
        shell.key.clone_from(&key);
        (shell.kind, secret_key)
    };
    let mut lines = shells::setup(kind, &key, &secret_key);
    if let Some(first) = lines.first_mut() {
        *first = format!("{};{first}", shells::recover(kind, &key));
    }
    type_setup(live, kind, &key, lines).await
}

async fn type_setup(live: &Live, kind: ShellKind, key: &str, lines: Vec<String>) -> bool {
    for line in lines {
        live.type_line(&line, Hidden { until: Until::Ready(key.to_owned()), shown: String::new() });
    }
    let ready = live
        .until(SETUP_WAIT_MAX, |inner| (inner.ready || inner.ended.is_some()).then_some(inner.ready))
        .await;
    if ready == Some(true) {
        return true;
    }
    tracing::debug!(shell = kind.name(), "the shell does not tell of its commands");
    let mut inner = live.inner();
    inner.hidden = None;
    inner.shells.pop();
    false
}
