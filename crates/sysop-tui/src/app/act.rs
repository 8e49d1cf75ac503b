//! What the run loop is asked to do.

use sysop_core::event::Input;
use sysop_core::look::Looks;
use sysop_core::question::QuestionId;
use sysop_driver::face::Which;
use sysop_driver::people::Answer;

use crate::view::theme::ThemeName;

/// What the run loop is asked to do.
#[derive(Debug)]
pub enum Act {
    /// Tells the session something.
    Send(Input),
    /// Answers a question of a program.
    Answer(QuestionId, Answer),
    /// Lends the terminal to the person's editor, for this text.
    OpenEditor(Edited, String),
    /// Shows a text in the person's pager; made safe before.
    Pager(String),
    /// The same with an output and how it looks.
    PagerOfOutput(String, Looks),
    /// Fetches the whole output of a call by the name of its artefact and shows it in the pager.
    PagerOfArtefact(String),
    /// Opens a session in place of this one.
    Open(Which),
    /// Fetches the list of sessions.
    ListSessions,
    /// Fetches the list of models.
    ListModels,
    /// Looks for paths that hold this.
    FindPaths(String),
    /// Adds a message to the file of messages.
    Remember(String),
    /// Keeps these colours for the next start.
    KeepTheme(ThemeName),
    /// Shows the session's terminal.
    ShowTerminal,
    /// Stops this process until the person's shell continues it.
    Suspend,
    /// Draws the whole screen anew.
    Redraw,
    /// Leaves.
    Quit(Left),
}

/// What an editor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// What the person is about to say.
    Draft,
    /// The proposed command.
    Proposal,
}

/// How the person left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// As they wanted.
    Done,
    /// By Ctrl+C, while a turn was being stopped.
    Interrupted,
    /// The session is gone; one sentence.
    Failed(String),
    /// By SIGTERM.
    Terminated,
    /// The terminal went away.
    HungUp,
}
