//! What the run loop is asked to do.

use sysop_core::event::Input;
use sysop_core::question::QuestionId;
use sysop_core::style::StyleRuns;
use sysop_driver::frontend::{OfferedRule, SessionSelector};
use sysop_driver::prompter::PromptReply;
use sysop_term::theme::ThemeName;

/// What the run loop is asked to do.
#[derive(Debug)]
pub enum Action {
    /// Tells the session something.
    Send(Input),
    /// Writes this rule and allows the call that it was offered for.
    AllowAlways(OfferedRule),
    /// Answers a question of a program.
    AnswerQuestion(QuestionId, PromptReply),
    /// Lends the terminal to the person's editor, for this text.
    OpenEditor(EditTarget, String),
    /// Shows a text in the person's pager; made safe before.
    OpenPager(String),
    /// The same with an output and how it looks.
    PageOutput(String, StyleRuns),
    /// Fetches the whole output of a call by the name of its artifact and shows it in the pager.
    PageArtifact(String),
    /// Opens a session in place of this one.
    OpenSession(SessionSelector),
    /// Fetches the list of sessions.
    ListSessions,
    /// Fetches the list of models.
    ListModels,
    /// Looks for paths that hold this.
    FindPaths(String),
    /// Adds a message to the file of messages.
    AppendPromptHistory(String),
    /// Keeps these colors for the next start.
    SaveTheme(ThemeName),
    /// Shows the session's terminal.
    ShowTerminal,
    /// Stops this process until the person's shell continues it.
    Suspend,
    /// Draws the whole screen anew.
    Redraw,
    /// Leaves.
    Quit(ExitReason),
}

/// What an editor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditTarget {
    /// What the person is about to say.
    Draft,
    /// The proposed command.
    Proposal,
}

/// How the person left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    /// As they wanted.
    Quit,
    /// By Ctrl+C, while a turn was being stopped.
    Interrupted,
    /// The session is gone; one sentence.
    Failed(String),
    /// By SIGTERM.
    Terminated,
    /// The terminal went away.
    HungUp,
}
