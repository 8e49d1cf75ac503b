//! The decision on a proposal, and the answer "allow always": the offered rule, and the proposal's state while the rule
//! is being written.

use std::time::Duration;

use sysop_core::event::{Decision, Input};
use sysop_core::id::CallId;
use sysop_core::transcript::{NO_RULES_HERE, Proposal};
use sysop_driver::frontend::OfferedRule;

use super::{Action, App, State};
use crate::BY;

impl App {
    /// Returns the proposal under review if its rule has not been looked up yet.
    pub fn proposal_without_offer(&self) -> Option<&Proposal> {
        let review = self.review.as_ref().filter(|review| !review.knows_offer())?;
        self.transcript.plan(review.call())
    }

    /// Sets the rule for the proposal under review. `None` means that no rule can be offered.
    pub fn set_offered_rule(&mut self, offered: Option<OfferedRule>) {
        let Some(review) = &mut self.review else { return };
        let plan = self.transcript.plan(review.call()).zip(self.transcript.session_info());
        let why = || plan.map_or(NO_RULES_HERE, |(plan, info)| plan.no_rule_reason(info));
        let offered = offered.filter(|offered| offered.call == *review.call());
        review.set_offered_rule(offered.ok_or_else(why));
    }

    /// Decides on a proposal. While the connection to the server is lost, the proposal stays open instead.
    pub(super) fn decide(&mut self, call: CallId, decision: Decision, now: Duration) -> Vec<Action> {
        if self.refuses_offline(now) {
            return Vec::new();
        }
        self.close_review(&call, &decision, now);
        vec![Action::Send(Input::Decision { call, decision, by: BY.to_owned(), person: None })]
    }

    pub(super) fn decide_always(&mut self, offered: OfferedRule, now: Duration) -> Vec<Action> {
        if self.refuses_offline(now) {
            return Vec::new();
        }
        self.close_review(&offered.call, &Decision::Allow { command: None }, now);
        vec![Action::AllowAlways(offered)]
    }

    /// Closes the review of a decided proposal before the log confirms the decision.
    pub(crate) fn close_review(&mut self, call: &CallId, decision: &Decision, now: Duration) {
        self.answer_repeats.note_answer(now);
        self.decided = Some((call.clone(), State::after(decision)));
        // The message was about this proposal, not the next one.
        (self.review, self.flash) = (None, None);
        self.meter.phase(None, now);
        self.sync_questions(now);
        self.move_draft();
    }
}
