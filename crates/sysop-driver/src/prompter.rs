//! Ports between a host and the users of its session: questions, and the shared terminal.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use secrecy::SecretString;
use sysop_core::event::TypedInput;
use sysop_core::guard::GuardReport;
use sysop_core::id::{CallId, SessionId};
use sysop_core::question::QuestionKind;

/// The users of a session, as its host sees them.
#[async_trait]
pub trait Prompter: Send + Sync {
    /// Asks all users and waits until one of them answers; the first answer counts. Dropping the future withdraws the
    /// question.
    async fn ask(&self, asked: PromptRequest) -> PromptReply;

    /// Logs that a user typed into the terminal.
    fn typed(&self, by: &str, typed: TypedInput);

    /// Publishes that the user `holder`, or the agent if `holder` is `None`, now controls the terminal.
    fn control(&self, holder: Option<&str>);

    /// Publishes a one-line notice while a call runs.
    fn notice(&self, text: &str);

    /// Logs that the guard of a call was armed or has ended on the host with this name.
    fn guard(&self, call: &CallId, host: &str, report: GuardReport) {
        let _ = (call, host, report);
    }

    /// Returns the id of the session, or `None` if there is no session.
    fn session(&self) -> Option<SessionId> {
        None
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRequest {
    pub kind: QuestionKind,
    /// Program that asks, as shown to users: `sudo on web1`, `ssh web1`.
    pub from: String,
    /// Observations by the host about the program, one sentence each. Never derived from the prompt's text.
    pub details: Vec<String>,
    /// The program's prompt, verbatim.
    pub prompt: String,
    /// The call that is waiting for the answer, if any.
    pub call: Option<CallId>,
}

#[derive(Debug, Clone)]
pub enum PromptReply {
    Given {
        by: String,
        /// The answer, without the line end.
        text: SecretString,
    },
    /// A user reports that the program is not asking for a secret, and types into the terminal directly.
    NoSecret,
    /// No one can or wants to answer.
    Refused,
}

/// Refuses every question and publishes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompter;

#[async_trait]
impl Prompter for NoPrompter {
    async fn ask(&self, _: PromptRequest) -> PromptReply {
        PromptReply::Refused
    }

    fn typed(&self, _: &str, _: TypedInput) {}

    fn control(&self, _: Option<&str>) {}

    fn notice(&self, _: &str) {}
}

/// A session's terminal: one screen, shared by users and the agent.
#[async_trait]
pub trait Terminal: Send + Sync {
    /// Opens the terminal if necessary. Returns its current content and live output. Fails with one sentence if no
    /// shell can be started.
    async fn watch(&self) -> Result<TerminalView, String>;

    /// Like `watch`, but for viewers with a scrollback. The snapshot begins with up to `scrollback_rows` rows from
    /// above the screen, and replaces the viewer's scrollback. Fails with one sentence if no shell can be started.
    async fn watch_back(&self, scrollback_rows: usize) -> Result<TerminalView, String> {
        let _ = scrollback_rows; // a terminal without scrollback returns only the screen
        self.watch().await
    }

    /// Types on behalf of a user. The agent waits from the first byte until `release`, or until this user has been idle
    /// for a while. Never blocks.
    fn input(&self, by: &str, bytes: &[u8]);

    /// Returns control to the agent at once.
    fn release(&self, by: &str);

    /// Sets the terminal to the size of a user's screen; the last call takes effect.
    fn resize(&self, size: TerminalSize);

    /// Returns true if a shell is running that would end with the session.
    fn is_open(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

pub struct TerminalView {
    pub size: TerminalSize,
    /// Bytes that draw the current content on an empty screen.
    pub picture: Bytes,
    /// Live output; ends when the terminal is closed for good.
    pub live: BoxStream<'static, TerminalOutput>,
}

/// Terminal output for a viewer. All bytes are safe: they contain only text, colors and cursor movements,
/// nothing that has an effect beyond the viewer's screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalOutput {
    Bytes(Bytes),
    Resized(TerminalSize),
    /// Sent if the viewer fell behind, or if the shell was replaced. The bytes redraw the screen from scratch.
    Redrawn(Bytes),
    /// The shell exited, and the next use starts another one. The text is one sentence.
    Ended(String),
}

impl std::fmt::Debug for TerminalView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalView").field("size", &self.size).finish_non_exhaustive()
    }
}
