//! State of the terminal, collected before the policy decides on a call: the shell that would read a command, its
//! directory, and the reader of keys at the cursor.
//!
//! For a local shell, the kernel is queried. For a remote shell, the marks of its prompt are trusted.

use std::time::Duration;

use sysop_core::id::CallId;
use sysop_core::policy::{Dialect, TerminalFocus};

use super::SharedTerminal;
use super::call_end::CallError;
use super::live_shell::LiveShell;
use super::shell_setup::kind_of_process;
use super::shells::ShellKind;
use crate::platform::{UserIds, shares_root, user_ids, working_folder};
use crate::survey::TerminalUse;

/// Maximum time for a shell to show its prompt after a command.
const PROMPT_WAIT: Duration = Duration::from_secs(1);

/// Programs that show other shells or machines full screen. Keys that are sent to them may be commands.
const TRANSPARENT: [&str; 14] = [
    "abduco", "byobu", "docker", "dtach", "dvtm", "kubectl", "mosh-client", "podman", "screen", "script",
    "ssh", "tmux", "tmux: client", "zellij",
];

/// State of the terminal that is relevant to the decision on a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct TerminalPlace {
    /// Language of the shell that would read a command.
    pub(crate) dialect: Dialect,
    /// Working directory of the shell that would read a command, with links resolved.
    pub(crate) folder: Option<String>,
    /// Home directory (`~`) of the shell that would read a command.
    pub(crate) home: Option<String>,
    /// Name of the machine, if the shell reported it.
    pub(crate) machine: Option<String>,
    /// True if the shell runs on the terminal's own machine as the same user.
    pub(crate) is_home: bool,
    /// True if no shell has been started yet.
    pub(crate) is_new: bool,
    /// The program or prompt that would read keys typed now.
    pub(crate) focus: TerminalFocus,
    /// True if a program runs, so that no command would run now.
    pub(crate) is_busy: bool,
}

impl TerminalPlace {
    /// Describes how `now` differs from this place, or returns `None` if it does not. A value that is unknown
    /// in this place never counts as different, because the decision did not rely on it.
    fn difference(&self, now: &Self) -> Option<&'static str> {
        let moved = |known: &Option<String>, found: &Option<String>| known.is_some() && known != found;
        if (self.is_home && !now.is_home) || moved(&self.machine, &now.machine) {
            return Some("the terminal switched to another host or user");
        }
        if self.dialect != Dialect::Unknown && self.dialect != now.dialect {
            return Some("another shell took over the terminal");
        }
        if moved(&self.folder, &now.folder) {
            return Some("the shell changed its directory");
        }
        (self.focus != TerminalFocus::Unknown && self.focus != now.focus)
            .then_some("the text at the cursor changed")
    }
}

impl SharedTerminal {
    /// Inspects the terminal. For a command, starts a shell if there is none, because the shell's startup files
    /// determine its directory.
    pub(crate) async fn survey(&self, usage: TerminalUse) -> TerminalPlace {
        let live = match usage {
            TerminalUse::Command => self.open().await.ok(),
            TerminalUse::Keys => {
                let running = self.current().filter(|live| live.state().ended.is_none());
                let Some(live) = running else { return self.new_place().await };
                Some(live)
            }
        };
        let Some(live) = live else { return TerminalPlace::default() };
        self.look(&live, usage).await
    }

    async fn look(&self, live: &LiveShell, usage: TerminalUse) -> TerminalPlace {
        live.until(PROMPT_WAIT, |inner| (!inner.awaits_prompt()).then_some(())).await;
        let mut place = if live.remote_host.is_some() { by_marks(live) } else { by_process(live) };
        if usage == TerminalUse::Command {
            let kind = live.state().shell_kind();
            place.dialect = match (kind, place.dialect) {
                (Some(kind), _) if !kind.evaluates_commands() => runner_dialect(live),
                (None, _) => Dialect::Sh,
                (Some(_), dialect) => dialect,
            };
            place.is_busy = place.dialect == Dialect::Unknown && !live.state().ready;
        } else {
            place.focus = self.focus(live).await;
        }
        place
    }

    /// Records the place for which a call was surveyed, for [`Self::check_place`].
    pub(crate) fn note_place(&self, call: &CallId, place: &TerminalPlace) {
        *self.judged.lock() = Some((call.clone(), place.clone()));
    }

    /// Checks that the terminal has not changed since the call was surveyed, for example because a user typed.
    pub(super) async fn check_place(
        &self,
        live: &LiveShell,
        usage: TerminalUse,
        call: &CallId,
    ) -> Result<(), CallError> {
        let judged = self.judged.lock().take_if(|(judged, _)| judged == call);
        let Some((_, judged)) = judged.filter(|(_, place)| !place.is_new) else { return Ok(()) };
        let now = self.look(live, usage).await;
        match judged.difference(&now) {
            None => Ok(()),
            Some(what) => Err(CallError::Refused(format!(
                "nothing ran: {what} while the call was waiting; check the terminal and call again"
            ))),
        }
    }

    /// Returns the expected place of a shell that has not been started yet.
    async fn new_place(&self) -> TerminalPlace {
        let start = self.machine.terminal().await.ok();
        let kind = start.and_then(|start| {
            start.shell.or_else(|| ShellKind::of_program(&start.program.to_string_lossy()))
        });
        TerminalPlace {
            dialect: kind.map_or(Dialect::Unknown, ShellKind::dialect),
            is_home: true,
            is_new: true,
            focus: TerminalFocus::Prompt { line: String::new(), at_end: true },
            ..TerminalPlace::default()
        }
    }

    /// Determines the program or prompt that would read keys typed now.
    async fn focus(&self, live: &LiveShell) -> TerminalFocus {
        let (full, process) = {
            let inner = live.state();
            if inner.ready {
                let typed = inner.typed_line();
                return typed
                    .map_or(TerminalFocus::Unknown, |(line, at_end)| TerminalFocus::Prompt { line, at_end });
            }
            (inner.screen.is_full(), inner.shell_process())
        };
        let name = if live.remote_host.is_none() {
            if live.shell_in_front() != Some(false) {
                return TerminalFocus::Unknown;
            }
            live.foreground_program()
        } else if let Some((tty, shell)) = process {
            let found = self.machine.foreground(&tty, shell).await;
            found.filter(|found| !found.is_shell).map(|found| found.program)
        } else {
            None
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else { return TerminalFocus::Unknown };
        match full {
            true if TRANSPARENT.contains(&name.as_str()) => TerminalFocus::Unknown,
            true => TerminalFocus::FullScreen,
            // A shell without our hooks does not report the text at its prompt.
            false if ShellKind::of_program(&name).is_some() => TerminalFocus::Unknown,
            false => TerminalFocus::Program { name },
        }
    }
}

/// Returns the language of the shell that runs commands in place of the terminal's own shell.
fn runner_dialect(live: &LiveShell) -> Dialect {
    let runner = live.state().shells.last().map(|shell| shell.runner.clone()).unwrap_or_default();
    ShellKind::of_program(&runner).map_or(Dialect::Unknown, ShellKind::dialect)
}

/// Returns the place reported by the marks of the innermost shell. If that shell is not at its prompt, most values are
/// unknown.
fn by_marks(live: &LiveShell) -> TerminalPlace {
    let inner = live.state();
    let Some(shell) = inner.shells.last().filter(|_| inner.ready) else {
        return TerminalPlace {
            machine: inner.machine(),
            is_home: inner.shells.len() == 1,
            ..Default::default()
        };
    };
    TerminalPlace {
        dialect: shell.kind.dialect(),
        folder: shell.folder.clone(),
        home: shell.home.clone(),
        machine: inner.machine(),
        is_home: inner.shells.len() == 1,
        ..TerminalPlace::default()
    }
}

/// Returns the place of the local foreground shell from the kernel. Uses marks if the foreground program is not a known
/// shell.
fn by_process(live: &LiveShell) -> TerminalPlace {
    let front = live.foreground().map(|group| group.as_raw_nonzero().get());
    let Some((pid, kind)) = front.and_then(|pid| Some((pid, kind_of_process(pid)?))) else {
        let place = by_marks(live);
        // A shell at its prompt that is not a local foreground process runs elsewhere.
        return TerminalPlace { is_home: place.is_home && !live.state().ready, ..place };
    };
    let inner = live.state();
    let marked = inner.shells.last().filter(|shell| inner.ready && shell.kind == kind);
    let is_home = shares_root(pid) && is_own(pid);
    let folder = working_folder(pid).and_then(|folder| folder.to_str().map(str::to_owned));
    TerminalPlace {
        dialect: kind.dialect(),
        folder: folder.filter(|_| is_home),
        home: marked.and_then(|shell| shell.home.clone()),
        is_home,
        ..TerminalPlace::default()
    }
}

/// Returns true if the real and effective user ids of the process equal the effective user id of this process.
fn is_own(pid: i32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    user_ids(pid) == Some(UserIds { real: own, effective: own })
}
