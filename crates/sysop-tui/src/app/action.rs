//! Requests of `App` to the run loop.

use sysop_core::event::Input;
use sysop_core::question::QuestionId;
use sysop_core::style::StyleRuns;
use sysop_driver::frontend::{OfferedRule, SessionSelector};
use sysop_driver::prompter::PromptReply;
use sysop_term::theme::ThemeName;

/// A request to the run loop.
#[derive(Debug)]
pub enum Action {
    /// Send an input to the session.
    Send(Input),
    /// Write this rule and allow the call for which it was offered.
    AllowAlways(OfferedRule),
    /// Answer a question of a program.
    AnswerQuestion(QuestionId, PromptReply),
    /// Open the user's editor with this text.
    OpenEditor(EditTarget, String),
    /// Show a text in the user's pager; control characters are already neutralized.
    OpenPager(String),
    /// Show an output with its styles in the pager.
    PageOutput(String, StyleRuns),
    /// Fetch an artifact by name and show it in the pager.
    PageArtifact(String),
    /// Replace the current session by another one.
    OpenSession(SessionSelector),
    /// Fetch the list of sessions.
    ListSessions,
    /// Fetch the list of models.
    ListModels,
    /// Find paths that contain this text.
    FindPaths(String),
    /// Append a prompt to the history file.
    AppendPromptHistory(String),
    /// Save the theme for the next start.
    SaveTheme(ThemeName),
    /// Show the session's terminal.
    ShowTerminal,
    /// Suspend this process, like Ctrl+Z in a shell.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
    /// Exit.
    Quit(ExitReason),
}

/// Text opened in an editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditTarget {
    /// The user's draft.
    Draft,
    /// The proposed command.
    Proposal,
}

/// Reason for the exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    /// On the user's request.
    Quit,
    /// Ctrl+C while a turn was being stopped.
    Interrupted,
    /// The session failed; one sentence.
    Failed(String),
    /// SIGTERM.
    Terminated,
    /// The terminal was closed.
    HungUp,
}
