//! Questions to the user's hooks about a prompt, before a model gets it. A denied prompt is withheld from every model.
//!
//! The answer is not part of the state: a later process that continues the turn asks again.

use super::Session;
use crate::event::{Effect, Event, Output, StopReason};
use crate::hook::HookAnswer;
use crate::id::TurnId;

/// Text that models get instead of a denied prompt.
pub(crate) const WITHHELD_PROMPT: &str = "(a hook of the user withheld this prompt)";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PromptCheck {
    #[default]
    Unasked,
    /// The hooks are examining the prompt of this turn.
    Asked(TurnId),
    /// The prompt of this turn may go to the model.
    Passed(TurnId),
    /// Like `Passed`, but each call of the turn needs a user's consent, for this reason.
    Asks(TurnId, String),
}

impl Session {
    pub(super) fn is_checking_prompt(&self) -> bool {
        matches!(self.prompt_check, PromptCheck::Asked(_))
    }

    /// Asks the hooks about the prompt of the turn, unless they have answered. Returns true if the session must wait.
    pub(super) fn check_prompt(&mut self, out: &mut Output) -> bool {
        let turn = self.state.turn;
        let is_checked = match &self.prompt_check {
            PromptCheck::Unasked => false,
            PromptCheck::Asked(of) | PromptCheck::Passed(of) | PromptCheck::Asks(of, _) => *of == turn,
        };
        if is_checked || !self.state.spec.policy.prompt_hooks {
            return false;
        }
        let Some(prompt) = self.state.last_prompt.clone() else { return false };
        self.prompt_check = PromptCheck::Asked(turn);
        out.effects.push(Effect::AskPromptHooks { turn, prompt });
        true
    }

    pub(super) fn on_prompt_hooks_answered(&mut self, out: &mut Output, turn: TurnId, answer: HookAnswer) {
        if self.prompt_check != PromptCheck::Asked(turn) {
            return; // stale answer: the turn was stopped
        }
        match answer {
            HookAnswer::Pass => self.prompt_check = PromptCheck::Passed(turn),
            HookAnswer::Ask { reason } => self.prompt_check = PromptCheck::Asks(turn, reason),
            HookAnswer::Deny { reason } => {
                self.prompt_check = PromptCheck::Passed(turn);
                let has_images = !self.state.last_images.is_empty();
                let text = WITHHELD_PROMPT.to_owned();
                self.emit(out, Event::PromptExpanded { text, commands: Vec::new() });
                if has_images {
                    // The images of a prompt stay in the history, which a model gets with the next prompt.
                    self.emit(out, Event::HistoryCleared);
                }
                let error = format!("a hook denied the prompt: {reason}; no model received the prompt");
                self.end_turn(out, StopReason::Failed, Some(error));
            }
        }
    }

    pub(super) fn cancel_prompt_check(&mut self) {
        if self.is_checking_prompt() {
            self.prompt_check = PromptCheck::Unasked;
        }
    }

    /// Returns the answer that the hooks gave for all calls of the current turn.
    pub(super) fn hook_answer_for_turn(&self) -> HookAnswer {
        match &self.prompt_check {
            PromptCheck::Asks(turn, reason) if *turn == self.state.turn => {
                HookAnswer::Ask { reason: reason.clone() }
            }
            PromptCheck::Unasked | PromptCheck::Asked(_) | PromptCheck::Passed(_) | PromptCheck::Asks(..) => {
                HookAnswer::Pass
            }
        }
    }
}
