//! Instructions of the workspace and the user: read before the first step that a process makes, and again until the
//! session's host is connected.

use super::Session;
use crate::event::{Effect, Event, Output};
use crate::id::StepId;
use crate::instructions::{FoundInstructions, InstructionSource, Instructions};

/// Progress of reading the instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Number of requests; distinguishes the answers.
    attempts: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unread,
    Requested,
    /// Read in part, after this step; the next one reads again.
    Incomplete(StepId),
    Read,
}

impl Session {
    /// The instructions that the model gets.
    pub fn instructions(&self) -> &Instructions {
        &self.state.instructions
    }

    pub(super) fn is_reading_instructions(&self) -> bool {
        self.reading.stage == Stage::Requested
    }

    /// Requests the instructions if they are not read yet. Returns true if the session must wait for them.
    pub(super) fn read_instructions(&mut self, out: &mut Output) -> bool {
        let is_read = match self.reading.stage {
            Stage::Unread => false,
            Stage::Incomplete(step) => step == self.state.step,
            Stage::Requested | Stage::Read => true,
        };
        if !self.state.spec.instructions || is_read {
            return false;
        }
        self.reading = Reading { attempts: self.reading.attempts + 1, stage: Stage::Requested };
        out.effects.push(Effect::ReadInstructions { attempt: self.reading.attempts });
        true
    }

    pub(super) fn on_instructions_read(&mut self, out: &mut Output, attempt: u32, found: FoundInstructions) {
        if !self.is_reading_instructions() || attempt != self.reading.attempts {
            return;
        }
        let FoundInstructions { mut instructions, complete } = found;
        self.reading.stage = if complete { Stage::Read } else { Stage::Incomplete(self.state.step) };
        if !complete {
            let earlier = &self.state.instructions;
            let of_workspace =
                earlier.files.iter().filter(|file| file.source == InstructionSource::Workspace);
            instructions.files.extend(of_workspace.cloned());
            instructions.untrusted.clone_from(&earlier.untrusted);
        }
        let instructions = instructions.limited(self.context_window());
        if instructions != self.state.instructions {
            self.emit(out, Event::InstructionsLoaded { instructions });
        }
    }

    pub(super) fn on_reload_instructions(&mut self) {
        self.reading.stage = Stage::Unread;
    }

    /// Stops waiting for the instructions; the next step requests them again.
    pub(super) fn cancel_instructions(&mut self) {
        if self.is_reading_instructions() {
            self.reading.stage = Stage::Unread;
        }
    }
}
