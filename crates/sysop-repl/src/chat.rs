//! `sysop chat`: the line REPL. The REPL turns lines into `Input`s and updates into rows, and decides nothing.
//!
//! The terminal is read by one reader at a time: by the line editor while the session waits for a prompt, by
//! an approval or program question while one is open, by the session's terminal after `/shell`, and by a simpler line
//! reader while a turn is running. What is typed during a turn is queued or kept for the next prompt, and never answers
//! a question.

pub(crate) mod approval;
mod early_input;
pub(crate) mod editor;
pub(crate) mod inline_screen;
mod input_reader;
pub(crate) mod keyboard;
mod live_output;
pub(crate) mod no_echo;
mod panel_view;
mod pastes;
mod plain_view;
pub(crate) mod program_prompt;
mod prompt_field;
mod repl;
mod session_skills;
mod status_row;
mod terminal_mirror;
mod type_ahead;
mod view;

#[cfg(test)]
pub(crate) mod fake_session;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use sysop_core::model_table::ModelPrice;
use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_term::command::CompletionNames;

use crate::Exit;

/// Name under which this front end answers approvals.
pub const BY: &str = "chat";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplLayout {
    /// Panels, line editor and single keys.
    Panels { color: bool },
    /// Plain lines, which also work through a pipe.
    Plain,
}

#[derive(Debug, Clone, Copy)]
pub struct TerminalTraits<'a> {
    /// Set by `--plain`.
    pub plain: bool,
    /// Set by `--no-color` or `NO_COLOR`.
    pub no_color: bool,
    /// Value of `TERM`; empty if unset.
    pub term: &'a str,
    /// Set if standard input, output and error are all terminals.
    pub terminal: bool,
}

impl ReplLayout {
    /// Returns panels for a terminal that can move its cursor, otherwise the plain layout.
    pub fn choose(around: TerminalTraits<'_>) -> Self {
        if around.plain || !around.terminal || matches!(around.term, "" | "dumb") {
            return Self::Plain;
        }
        Self::Panels { color: !around.no_color }
    }
}

/// Everything that a run of the REPL needs from its caller.
pub struct ReplContext {
    pub opened: AttachedSession,
    /// Initial task, if any.
    pub task: Option<String>,
    /// Service that finds and opens other sessions.
    pub service: Arc<dyn SessionService>,
    /// Creates the command that `/shell` runs if the session has no terminal.
    pub shell: Box<dyn Fn() -> std::process::Command + Send + Sync>,
    /// History file; `None` if no history is kept.
    pub history: Option<PathBuf>,
    pub form: ReplLayout,
    /// Token prices set by the user, by `PROVIDER/NAME`.
    pub prices: HashMap<String, ModelPrice>,
    /// Start of the command that resumes a session. The session's id is appended to it.
    pub resume_command: String,
    /// Policy for a turn that is still running at exit.
    pub leaving: ExitBehavior,
}

/// Policy for a turn that is still running at exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitBehavior {
    /// Stop the turn, because it depends on this process.
    StopTurn,
    /// Let the turn continue.
    KeepRunning,
}

/// Runs the REPL until the user leaves. Returns `Failed` if the session is gone, `Interrupted` if the user
/// left a running turn with Ctrl+C, `Terminated` or `HungUp` after SIGTERM or SIGHUP, and `PipeClosed` if nobody reads
/// the output any more.
pub async fn run(context: ReplContext) -> anyhow::Result<Exit> {
    let is_closed_pipe = |error: &anyhow::Error| {
        let cause = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    };
    match repl::Repl::new(context)?.run().await {
        Err(error) if is_closed_pipe(&error) => Ok(Exit::PipeClosed),
        ended => ended,
    }
}
