//! Interface implemented by the layouts of the REPL.

use std::io;

use sysop_core::event::Update;
use sysop_core::transcript::{Proposal, Transcript};
use sysop_term::StyleRole;

use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;

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
    fn question(&mut self, plan: &Proposal, transcript: &Transcript, screen: &InlineScreen)
    -> ApprovalPrompt;
    /// Prints a message of the front end itself.
    fn say(&mut self, text: &str, role: StyleRole, screen: &mut InlineScreen) -> io::Result<()>;
    /// Prints the description of the session.
    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    /// Prints the last turn of a resumed session.
    fn recap(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
}
