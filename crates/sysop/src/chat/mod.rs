//! `sysop chat`: the line REPL. Turns lines into `Input`s and updates into rows; decides nothing about a session.
//!
//! Who reads the terminal: the line editor while the session waits for a prompt; the question while a call waits
//! or a program waits for an answer; the session's terminal after `/shell`; nobody while a turn runs. What is typed then stays in the terminal until the next prompt, and
//! never answers a question.

pub(crate) mod approval;
mod console;
pub(crate) mod editor;
mod field;
mod mirror;
mod plain;
pub(crate) mod question;
mod repl;
mod rich;
pub(crate) mod screen;
mod terminal;
mod view;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use sysop_driver::face::{Desk, Opened};

pub(crate) use sysop_tui::command::Known;

use crate::exit::Exit;

/// The name under which this face answers approvals.
const BY: &str = "chat";

/// How the REPL looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Panels, line editor, single keys.
    Panels {
        /// Whether colours are wanted.
        colour: bool,
    },
    /// Lines only, also through a pipe.
    Plain,
}

/// What is known of where the REPL runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// `--plain`.
    pub(crate) plain: bool,
    /// `--no-color`, or `NO_COLOR` is set.
    pub(crate) no_colour: bool,
    /// `TERM`; empty where it is not set.
    pub(crate) term: &'a str,
    /// Whether standard input, output and error are all terminals.
    pub(crate) terminal: bool,
}

impl Form {
    /// Panels on a terminal that can move its cursor, else the plain form.
    pub(crate) fn choose(around: Surroundings<'_>) -> Self {
        if around.plain || !around.terminal || matches!(around.term, "" | "dumb") {
            return Self::Plain;
        }
        Self::Panels { colour: !around.no_colour }
    }
}

/// What the REPL needs.
pub(crate) struct ChatContext {
    /// The session to begin with.
    pub(crate) opened: Opened,
    /// What to ask of it first.
    pub(crate) task: Option<String>,
    /// Where others are opened and found.
    pub(crate) desk: Arc<dyn Desk>,
    /// The interactive shell of `/shell`, where the session has no terminal.
    pub(crate) shell: Box<dyn Fn() -> std::process::Command + Send + Sync>,
    /// Where typed lines are remembered; nowhere if none.
    pub(crate) history: Option<PathBuf>,
    /// How it looks.
    pub(crate) form: Form,
    /// The command that goes on with a session, up to its id.
    pub(crate) again: String,
    /// What becomes of a turn that runs when the person leaves.
    pub(crate) leaving: Leaving,
}

/// What becomes of a turn that runs when the person leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It is stopped: it works with this process.
    StopsIt,
    /// It goes on without them.
    LetsItRun,
}

/// Runs the REPL until the person leaves; returns how it ended: `Failed` when the session is gone, `Interrupted`
/// when they left a running turn by Ctrl+C, `Terminated` and `HungUp` after these signals.
pub(crate) async fn run(context: ChatContext) -> anyhow::Result<Exit> {
    repl::Repl::new(context)?.run().await
}
