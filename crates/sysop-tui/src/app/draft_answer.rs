//! Answers to a proposal that are written as a message: "yes" and "no" are answers, any other text is feedback.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use sysop_core::event::Decision;

use super::review::{AWAITS_PREVIEW, ONLY_CAPITAL_Y, ReviewEvent};
use super::{Action, App};

/// Message if the draft says yes to a proposal whose end or middle has not been displayed.
const READ_FIRST: &str = "read the rest before you run it";

/// Effect of Enter on a draft that was written at a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftAnswer {
    /// The draft says yes, and Enter alone would run the call, too.
    Run,
    /// The draft says yes, but only the key `Y` runs the call, which is dangerous.
    NeedsCapitalY,
    /// The draft says no.
    Reject,
    /// The draft is feedback for the model.
    RejectWithText,
}

impl App {
    /// Returns the effect that Enter has on the draft. Returns `None` if no proposal is under review, or if the draft
    /// is empty or a command.
    pub fn draft_answer(&self) -> Option<DraftAnswer> {
        let review = self.review.as_ref()?;
        let text = self.composer().text();
        if !self.is_message(&text) {
            return None;
        }
        let is_any = |words: [&str; 2]| words.iter().any(|word| text.trim().eq_ignore_ascii_case(word));
        Some(match (is_any(["y", "yes"]), is_any(["n", "no"])) {
            (true, _) if review.takes_capital_y() => DraftAnswer::NeedsCapitalY,
            (true, _) => DraftAnswer::Run,
            (false, true) => DraftAnswer::Reject,
            (false, false) => DraftAnswer::RejectWithText,
        })
    }

    /// Carries out a draft that says yes or no. Returns `None` for any other draft.
    pub(super) fn answer_with_draft(&mut self, now: Duration) -> Option<Vec<Action>> {
        let answer = self.draft_answer()?;
        if answer == DraftAnswer::RejectWithText {
            return None;
        }
        self.composer_mut().take();
        let review = self.review.as_mut()?;
        let event = match answer {
            DraftAnswer::Run if !review.is_read() => ReviewEvent::Message(READ_FIRST),
            // The same as Enter alone, which says why if it does not run the call.
            DraftAnswer::Run => review.decision_key(KeyEvent::from(KeyCode::Enter)),
            DraftAnswer::NeedsCapitalY if review.awaits_preview() => ReviewEvent::Message(AWAITS_PREVIEW),
            DraftAnswer::NeedsCapitalY => ReviewEvent::Message(ONLY_CAPITAL_Y),
            DraftAnswer::Reject | DraftAnswer::RejectWithText => {
                ReviewEvent::Decided(Decision::Reject { reason: String::new() })
            }
        };
        Some(self.review_event(event, now))
    }
}
