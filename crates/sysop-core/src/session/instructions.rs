//! Instructions of the workspace and the user. They are read before a process's first step, and again before later
//! steps until the session's host is connected. Prompts that name a skill or custom command are expanded here.

use serde_json::{Map, Value};

use super::Session;
use crate::event::{Effect, Event, Output, StopReason};
use crate::id::{CallId, StepId};
use crate::instructions::{FoundInstructions, INIT_PROMPT, InstructionSource, Instructions};
use crate::message::{Arguments, Reply, ToolCall};
use crate::skill::Expansion;

/// Prompt that asks for an `AGENTS.md`. Some front ends expand it themselves.
const INIT_COMMAND: &str = "/init";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Number of requests so far; used to match an answer to its request.
    attempts: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unread,
    Requested,
    /// The instructions were only partly read after this step. They are read again after the next step.
    Incomplete(StepId),
    Read,
}

impl Session {
    pub fn instructions(&self) -> &Instructions {
        &self.state.instructions
    }

    pub(super) fn is_reading_instructions(&self) -> bool {
        self.reading.stage == Stage::Requested
    }

    /// Requests the instructions if they have not been read yet. Returns true if the session must wait for them.
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
            let of_workspace =
                earlier.skills.found.iter().filter(|skill| skill.source == InstructionSource::Workspace);
            of_workspace.for_each(|skill| instructions.skills.add(Ok(skill.clone())));
        }
        let instructions = instructions.limited(self.context_window());
        if instructions != self.state.instructions {
            self.emit(out, Event::InstructionsLoaded { instructions });
        }
    }

    pub(super) fn on_reload_instructions(&mut self) {
        self.reading.stage = Stage::Unread;
    }

    /// Expands the prompt of the turn if it is `/init`, or begins with the name of a skill or custom command. Returns
    /// true if the prompt was expanded.
    pub(super) fn expand_prompt(&mut self, out: &mut Output) -> bool {
        let state = &self.state;
        if state.step.step > 0 || state.expansion.is_some() {
            return false;
        }
        let expansion = state.last_prompt.as_deref().and_then(|prompt| match prompt.trim() {
            INIT_COMMAND => Some(Expansion { text: INIT_PROMPT.to_owned(), commands: Vec::new() }),
            prompt => state.instructions.skills.expand(prompt),
        });
        let Some(Expansion { text, commands }) = expansion else { return false };
        self.emit(out, Event::PromptExpanded { text, commands });
        true
    }

    /// Proposes the commands of an expanded prompt, as if the model had called them. Returns true if there are any.
    pub(super) fn run_expanded_commands(&mut self, out: &mut Output) -> bool {
        let Some(commands) = self.state.expansion.clone().filter(|commands| !commands.is_empty()) else {
            return false;
        };
        let tool = self.offered_tools().command_tool().filter(|_| !self.is_chat());
        let Some(tool) = tool.map(|tool| tool.name.clone()) else {
            let error = "this command runs programs, which this session cannot do".to_owned();
            self.end_turn(out, StopReason::Failed, Some(error));
            return true;
        };
        let prompt = self.state.last_prompt.as_deref().unwrap_or_default();
        let name = prompt.split_whitespace().next().unwrap_or_default().to_owned();
        let calls = commands.into_iter().map(|command| {
            let arguments = [("command", command), ("reason", format!("for {name}"))];
            let arguments = arguments.map(|(key, value)| (key.to_owned(), Value::from(value)));
            let arguments = Arguments::Object(Map::from_iter(arguments));
            ToolCall { id: CallId::new(""), wire_id: None, name: tool.clone(), arguments }
        });
        let reply = Reply { calls: calls.collect(), ..Reply::default() };
        let step = StepId { turn: self.state.turn, step: self.state.step.step + 1 };
        self.emit(out, Event::StepStarted { step });
        let reply = self.normalize(reply);
        self.emit(out, Event::Replied { step, reply });
        true
    }

    /// Stops waiting for the instructions; the next step requests them again.
    pub(super) fn cancel_instructions(&mut self) {
        if self.is_reading_instructions() {
            self.reading.stage = Stage::Unread;
        }
    }
}
