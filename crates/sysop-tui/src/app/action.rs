//! Requests from `App` to the run loop.

use sysop_core::event::Input;
use sysop_core::message::ModelRef;
use sysop_core::question::QuestionId;
use sysop_core::style::StyleRuns;
use sysop_driver::frontend::{OfferedRule, SessionSelector};
use sysop_driver::prompter::PromptReply;
use sysop_term::theme::ThemeChoice;

/// A request to the run loop.
#[derive(Debug)]
pub enum Action {
    Send(Input),
    /// Take back prompts that wait for the connection to the server.
    TakeBack(Vec<String>),
    /// Write this rule to its file, and allow the call for which the rule was offered.
    AllowAlways(OfferedRule),
    AnswerQuestion(QuestionId, PromptReply),
    OpenEditor(EditTarget, String),
    /// Show text in the user's pager; control characters have already been neutralized.
    OpenPager(String),
    PageOutput(String, StyleRuns),
    /// Fetch an artifact by name and show it in the pager.
    PageArtifact(String),
    /// Replace the current session with another one.
    OpenSession(SessionSelector),
    ListSessions,
    /// Search the text of past sessions.
    SearchSessions(String),
    /// Export the session to this file, or to one named after the session.
    Export(Option<String>),
    /// Copy text to the user's clipboard. `part` names the part that the text is, as in `of 4,519`, if it is not the
    /// whole text.
    Copy {
        text: String,
        part: Option<String>,
    },
    /// Paste an image from the user's clipboard as a mention.
    PasteImage,
    /// Trust the instruction files in the session's workspace.
    TrustWorkspace,
    ListModels,
    ListToolServers,
    /// Find out how the session's model gets its tools.
    FetchModelStatus,
    /// Ask the model's server if it offers the model.
    CheckModel(ModelRef),
    FindPaths(String),
    AppendPromptHistory(String),
    SaveTheme(ThemeChoice),
    ShowTerminal,
    /// Suspend this process, like Ctrl+Z in a shell.
    Suspend,
    Redraw,
    Quit(ExitReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditTarget {
    /// The user's draft.
    Draft,
    Proposal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    Quit,
    /// The user pressed Ctrl+C while a turn was being stopped.
    Interrupted,
    Failed(String),
    /// The process received SIGTERM.
    Terminated,
    HungUp,
}
