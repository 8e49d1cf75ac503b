//! The answer "always": the rule that a proposal offers, and what becomes of the proposal when it is written.

use std::time::Duration;

use sysop_core::event::Decision;
use sysop_core::id::CallId;
use sysop_core::transcript::Proposal;
use sysop_driver::frontend::OfferedRule;

use super::{Action, App, State};

impl App {
    /// The proposal on the screen, if nobody has looked yet for a rule that "always" would write.
    pub fn proposal_without_offer(&self) -> Option<&Proposal> {
        let review = self.review.as_ref().filter(|review| !review.knows_offer())?;
        self.transcript.plan(review.call())
    }

    /// Takes note of the rule that "always" would write for the proposal on the screen; `None` if it is not offered.
    pub fn set_offered_rule(&mut self, offered: Option<OfferedRule>) {
        if let Some(review) = &mut self.review {
            let offered = offered.filter(|offered| offered.call == *review.call());
            review.set_offered_rule(offered);
        }
    }

    /// Answers the proposal with "always".
    pub(super) fn decide_always(&mut self, offered: OfferedRule, now: Duration) -> Vec<Action> {
        self.close_review(&offered.call, &Decision::Allow { command: None }, now);
        vec![Action::AllowAlways(offered)]
    }

    /// Takes a proposal that was decided here off the screen, before the log tells of it.
    pub(super) fn close_review(&mut self, call: &CallId, decision: &Decision, now: Duration) {
        self.decided = Some((call.clone(), State::after(decision)));
        // A remark about this proposal is none about the next.
        (self.review, self.flash) = (None, None);
        self.meter.phase(now);
        self.sync_questions(now);
        self.move_draft();
    }
}
