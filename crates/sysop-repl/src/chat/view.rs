//! Interface implemented by the layouts of the REPL.

use std::collections::VecDeque;
use std::io;

use serde_json::{Map, Value};
use sysop_core::event::Update;
use sysop_core::message::ToolCall;
use sysop_core::transcript::{Proposal, ToolOutput, Transcript};
use sysop_term::StyleRole;

use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;

/// Maximum number of own calls that are remembered; the oldest are dropped first.
const OWN_CALLS_MAX: usize = 32;

/// A call without a model that was started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnCall {
    tool: String,
    /// `None` if the tool is not a command.
    command: Option<String>,
}

/// Calls that were started here and have not been announced by the session yet.
#[derive(Debug, Default)]
pub(super) struct OwnCalls(VecDeque<OwnCall>);

impl OwnCall {
    pub(super) fn new(tool: &str, arguments: &Map<String, Value>) -> Self {
        let command = arguments.get("command").and_then(Value::as_str).map(str::to_owned);
        Self { tool: tool.to_owned(), command }
    }
}

impl OwnCalls {
    pub(super) fn push(&mut self, call: OwnCall) {
        if self.0.len() == OWN_CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(call);
    }

    /// Returns true if this call was started here, and forgets it.
    pub(super) fn take(&mut self, call: &ToolCall) -> bool {
        let is_same =
            |own: &OwnCall| own.tool == call.name && own.command.as_deref() == call.text_argument("command");
        let at = self.0.iter().position(is_same);
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}

/// Draws a session on a screen.
pub(crate) trait ReplView: Send {
    /// Draws the changes from an update that has already been applied to the transcript.
    fn update(
        &mut self,
        update: &Update,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()>;
    /// Draws the live parts.
    fn tick(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    /// Records a prompt that was typed here and is therefore already visible.
    fn own_prompt(&mut self, text: &str);
    /// Records a call without a model that was started here.
    fn own_call(&mut self, call: OwnCall);
    /// Announces what was not certain at the last update. No update has followed.
    fn settle(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    fn question(&mut self, plan: &Proposal, transcript: &Transcript, screen: &InlineScreen)
    -> ApprovalPrompt;
    /// Prints a message of the front end itself.
    fn say(&mut self, text: &str, role: StyleRole, screen: &mut InlineScreen) -> io::Result<()>;
    /// Prints the whole output of a call that has ended.
    fn whole_output(
        &mut self,
        output: &ToolOutput,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()>;
    /// Prints the description of the session.
    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    /// Prints the last turn of a resumed session.
    fn recap(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
}
