//! What the face knows: a transcript and what the person is about to say. Pure: no IO and no clock; time comes in.

mod state;

use sysop_core::event::{Input, Update};
use sysop_core::id::SessionId;
use sysop_core::question::QuestionId;
use sysop_core::transcript::{ItemId, Transcript};
use sysop_driver::face::Which;
use sysop_driver::people::Answer;

pub use self::state::State;

/// The face's state. What is drawn is drawn from it.
#[derive(Default)]
pub struct App {
    transcript: Transcript,
}

/// What the run loop is asked to do.
#[derive(Debug)]
pub enum Act {
    /// Tells the session something.
    Send(Input),
    /// Answers a question of a program.
    Answer(QuestionId, Answer),
    /// Lends the terminal to the person's editor.
    OpenEditor(Edited, String),
    /// Lends the terminal to the person's pager, with a text that is safe to print.
    Pager(String),
    /// Fetches the whole output of a call and shows it in the pager.
    PagerOfArtefact(SessionId, String),
    /// Opens a session in place of this one.
    Open(Which),
    /// Shows the session's terminal.
    ShowTerminal,
    /// Leaves.
    Quit,
}

/// What an editor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// What the person is about to say.
    Draft,
    /// The proposed command.
    Proposal,
}

impl App {
    /// What is known of the session.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Takes in what happened.
    pub fn update(&mut self, update: &Update) {
        self.transcript.apply(update);
    }

    /// The item that the middle pane shows, so that the history need not: the proposal in review, or the output of
    /// the running tool.
    pub fn middle(&self) -> Option<ItemId> {
        use sysop_core::transcript::Phase;
        match self.transcript.phase() {
            Phase::Waiting { call } => Some(ItemId::Plan(call.clone())),
            Phase::Running { call } => Some(ItemId::Output(call.clone())),
            Phase::Idle | Phase::Thinking { .. } | Phase::Paused { .. } | Phase::Stopping => None,
        }
    }
}
