//! What a host needs of the people behind its session, and what people may do with its terminal.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use secrecy::SecretString;
use sysop_core::event::TypedInput;
use sysop_core::id::{CallId, SessionId};
use sysop_core::question::QuestionKind;

/// The people behind a session, as its host knows them.
#[async_trait]
pub trait Prompter: Send + Sync {
    /// Asks them; the first answer counts. Waits as long as nobody answers; dropping it takes the question back.
    async fn ask(&self, asked: PromptRequest) -> PromptReply;

    /// Somebody typed into the terminal; goes into the log.
    fn typed(&self, by: &str, typed: TypedInput);

    /// The control of the terminal changed hands: to this person, or back to the agent.
    fn control(&self, holder: Option<&str>);

    /// Something worth knowing while one waits, in one line.
    fn notice(&self, text: &str);

    /// Which session it is; none where it is none.
    fn session(&self) -> Option<SessionId> {
        None
    }
}

/// A question for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRequest {
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// Who asks, for people: `sudo on web1`, `ssh web1`.
    pub from: String,
    /// What the host observed of who asks, a sentence each. Never from the prompt's own words.
    pub details: Vec<String>,
    /// The prompt as the program wrote it.
    pub prompt: String,
    /// The call that waits for the answer, where one does.
    pub call: Option<CallId>,
}

/// What came of a question.
#[derive(Debug, Clone)]
pub enum PromptReply {
    /// Somebody answered.
    Given {
        /// The user.
        by: String,
        /// Without the end of the line.
        text: SecretString,
    },
    /// Somebody said that it is no prompt for a secret; they type into the terminal by themselves.
    NoSecret,
    /// Nobody can or will answer.
    Refused,
}

/// Asks nobody: every question is refused, and nothing is told.
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

/// A session's terminal: one screen, many hands.
#[async_trait]
pub trait Terminal: Send + Sync {
    /// Opens it if it is not open, and gives what is on it and all that comes.
    ///
    /// # Errors
    /// One sentence, where no shell can be opened.
    async fn watch(&self) -> Result<TerminalView, String>;

    /// The same, for who has a scrollback: the picture begins with so many rows that were above the screen, as far as
    /// they are kept here, and takes the place of what is above the watcher's own.
    ///
    /// # Errors
    /// One sentence, where no shell can be opened.
    async fn watch_back(&self, scrollback_rows: usize) -> Result<TerminalView, String> {
        let _ = scrollback_rows; // who keeps none gives the screen
        self.watch().await
    }

    /// Types for a person. The agent waits from the first byte until `release`, or until this person has typed
    /// nothing for a while. Never blocks.
    fn input(&self, by: &str, bytes: &[u8]);

    /// The person gives the control back at once.
    fn release(&self, by: &str);

    /// The size that the person's own screen has; the last one counts.
    fn resize(&self, size: TerminalSize);

    /// Whether a shell runs in it that would be lost with the session.
    fn is_open(&self) -> bool {
        false
    }
}

/// How large a screen is, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Cells in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// A terminal as one watcher sees it.
pub struct TerminalView {
    /// Its size now.
    pub size: TerminalSize,
    /// Bytes that draw on an empty screen what is on it now.
    pub picture: Bytes,
    /// What comes from now on; it ends when the terminal is closed for good.
    pub live: BoxStream<'static, TerminalOutput>,
}

/// What a watcher of a terminal receives. All bytes are free of what could act on the watcher beyond its screen:
/// only text, colors and movements are in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalOutput {
    /// More output.
    Bytes(Bytes),
    /// The size changed.
    Resized(TerminalSize),
    /// The watcher fell behind, or another shell took the place of the last: this draws all on an empty screen.
    Redrawn(Bytes),
    /// The shell ended; the next use opens another. One sentence.
    Ended(String),
}

impl std::fmt::Debug for TerminalView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalView").field("size", &self.size).finish_non_exhaustive()
    }
}
