//! `sysop chat`: the line REPL. Turns lines into `Input`s and updates into rows; decides nothing about a session.
//!
//! Who reads the terminal: the line editor while the session waits for a prompt; the question while a call waits
//! or a program waits for an answer; the session's terminal after `/shell`; nobody while a turn runs. What is typed then stays in the terminal until the next prompt, and
//! never answers a question.

pub(crate) mod approval;
pub(crate) mod editor;
pub(crate) mod inline_screen;
mod input_reader;
mod no_echo;
mod panel_view;
mod plain_view;
pub(crate) mod program_prompt;
mod prompt_field;
mod repl;
mod terminal_mirror;
mod view;

#[cfg(test)]
pub(crate) mod fake_session;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_term::command::CompletionNames;

use crate::Exit;

/// The name under which this front end answers approvals.
const BY: &str = "chat";

/// The form that the REPL is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplLayout {
    /// Panels, line editor, single keys.
    Panels {
        /// Whether colors are wanted.
        color: bool,
    },
    /// Lines only, also through a pipe.
    Plain,
}

/// The terminal that the REPL runs on.
#[derive(Debug, Clone, Copy)]
pub struct TerminalTraits<'a> {
    /// `--plain`.
    pub plain: bool,
    /// `--no-color`, or `NO_COLOR` is set.
    pub no_color: bool,
    /// `TERM`; empty where it is not set.
    pub term: &'a str,
    /// Whether standard input, output and error are all terminals.
    pub terminal: bool,
}

impl ReplLayout {
    /// Panels on a terminal that can move its cursor, else the plain form.
    pub fn choose(around: TerminalTraits<'_>) -> Self {
        if around.plain || !around.terminal || matches!(around.term, "" | "dumb") {
            return Self::Plain;
        }
        Self::Panels { color: !around.no_color }
    }
}

/// Everything that a run of the REPL needs.
pub struct ReplContext {
    /// The session to begin with.
    pub opened: AttachedSession,
    /// What to ask of it first.
    pub task: Option<String>,
    /// Where others are opened and found.
    pub service: Arc<dyn SessionService>,
    /// The interactive shell of `/shell`, where the session has no terminal.
    pub shell: Box<dyn Fn() -> std::process::Command + Send + Sync>,
    /// Where typed lines are remembered; nowhere if none.
    pub history: Option<PathBuf>,
    /// How it looks.
    pub form: ReplLayout,
    /// The command that goes on with a session, up to its id.
    pub resume_command: String,
    /// What becomes of a turn that runs when the person leaves.
    pub leaving: ExitBehavior,
}

/// What becomes of a turn that runs when the person leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitBehavior {
    /// It is stopped: it works with this process.
    StopTurn,
    /// It goes on without them.
    KeepRunning,
}

/// Runs the REPL until the person leaves; returns how it ended: `Failed` when the session is gone, `Interrupted`
/// when they left a running turn by Ctrl+C, `Terminated` and `HungUp` after these signals.
pub async fn run(context: ReplContext) -> anyhow::Result<Exit> {
    repl::Repl::new(context)?.run().await
}
