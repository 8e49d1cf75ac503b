//! What the REPL needs of a way to draw a session.

use std::io;

use sysop_core::event::Update;
use sysop_core::transcript::{Proposal, Transcript};
use sysop_term::StyleRole;

use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;

/// Draws a session onto a screen.
pub(crate) trait ReplView: Send {
    /// Draws what an update, which the transcript has already taken in, changed.
    fn update(
        &mut self,
        update: &Update,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()>;
    /// Draws what moves with time.
    fn tick(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    /// Takes note of a prompt that was typed here, and so is on the screen already.
    fn own_prompt(&mut self, text: &str);
    /// Makes the question about a plan.
    fn question(&mut self, plan: &Proposal, transcript: &Transcript, screen: &InlineScreen)
    -> ApprovalPrompt;
    /// Says something of the front end's own.
    fn say(&mut self, text: &str, role: StyleRole, screen: &mut InlineScreen) -> io::Result<()>;
    /// Draws what the session is.
    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
    /// Draws the last turn of a session that was opened again.
    fn recap(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()>;
}
