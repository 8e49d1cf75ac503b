//! The question or proposal waiting for the user.

use std::time::Duration;

use sysop_core::event::{Delta, Update};
use sysop_core::question::{Question, QuestionId};
use sysop_core::transcript::{Decider, ProposalState, SessionPhase};
use sysop_core::ui_text;

use super::{App, Focus, QuestionPrompt, Review, ReviewMode, key_debounce};
use crate::BY;

impl App {
    /// Opens the question or proposal waiting for the user, and closes one that is no longer waiting.
    pub(super) fn sync_questions(&mut self, now: Duration) {
        if self.is_replaying() {
            return;
        }
        self.sync_review(now);
        let open = match self.transcript.phase() {
            SessionPhase::Stopping => None,
            SessionPhase::Idle
            | SessionPhase::Thinking { .. }
            | SessionPhase::AwaitingApproval { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Paused { .. } => self.open_question(),
        };
        match (open, &self.question_prompt) {
            (Some(question), Some(question_prompt)) if question_prompt.id() == question.id => {}
            // Do not replace a proposal while the user is editing or rejecting it.
            (Some(_), _)
                if self.review.as_ref().is_some_and(|review| review.mode() != ReviewMode::Deciding) => {}
            (Some(question), _) => self.question_prompt = Some(QuestionPrompt::of(question)),
            (None, Some(question_prompt)) => {
                // Discard the rest of the typed keys: they may be part of a secret.
                self.keys_muted_until =
                    question_prompt.is_begun().then_some(now + key_debounce::TYPING_DEBOUNCE);
                self.question_prompt = None;
                self.reset_debounce();
            }
            (None, None) => {}
        }
    }

    /// Returns the oldest question without an answer, or the oldest that can be answered while the server is away.
    fn open_question(&self) -> Option<&Question> {
        let is_open = |question: &&Question| !self.answered_questions.contains(&question.id);
        let mut open = self.transcript.questions().iter().filter(is_open);
        let oldest = open.clone().next();
        open.find(|question| !self.lacks_recipient(question.id)).or(oldest)
    }

    fn sync_review(&mut self, now: Duration) {
        let waiting = match (self.transcript.waiting(), &self.decided) {
            (Some(plan), Some((decided, _))) if plan.call.id == *decided => None,
            (waiting, _) => waiting,
        };
        match (waiting, &self.review) {
            (Some(plan), Some(review)) if review.call() == &plan.call.id => {}
            (Some(plan), _) => {
                self.review = Some(Review::of(plan));
                self.focus = Focus::Box;
                self.completion = None;
            }
            (None, Some(review)) => {
                let text = self.transcript.plan(review.call()).and_then(decision_message);
                self.review = None;
                if let Some(text) = text {
                    self.show_flash(text, now);
                }
            }
            (None, None) => {}
        }
    }

    /// If the question on the screen was closed elsewhere, shows who closed it.
    pub(super) fn announce_closed_question(&mut self, update: &Update, now: Duration) {
        let Update::Delta(Delta::QuestionClosed { id, by }) = update else { return };
        if self.answered_questions.remove(id)
            || self.question_prompt.as_ref().is_none_or(|question_prompt| question_prompt.id() != *id)
        {
            return;
        }
        let Some(question) = self.question(*id) else { return };
        let text = match by {
            Some(by) => format!("{by} answered {}", question.from),
            None => format!("{} prompt closed", question.from),
        };
        self.show_flash(text, now);
    }

    fn question(&self, id: QuestionId) -> Option<&Question> {
        self.transcript.questions().iter().find(|question| question.id == id)
    }
}

/// Returns a message about a proposal that was decided elsewhere. Returns `None` if the proposal was decided
/// in this front end or is still undecided.
fn decision_message(plan: &sysop_core::transcript::Proposal) -> Option<String> {
    match &plan.state {
        ProposalState::Allowed { by: Decider::Person(by), .. }
        | ProposalState::Rejected { by: Decider::Person(by), .. }
            if by == BY =>
        {
            None
        }
        ProposalState::Allowed { .. } | ProposalState::Rejected { .. } => ui_text::decision_summary(plan, BY),
        ProposalState::Waiting | ProposalState::NotRun => None,
    }
}
