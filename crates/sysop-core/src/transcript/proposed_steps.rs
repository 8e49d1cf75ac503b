//! The plan of a read-only session: the calls that were denied, and that a user may run later.

use super::{Item, ItemBody, Proposal, ProposalState, Severity, Transcript};
use crate::event::Origin;
use crate::outcome::Status;
use crate::policy::{ApprovalMode, READ_ONLY_REFUSAL, refusal_for_people};
use crate::text::neutralize;
use crate::ui_text::counted;

const STEPS_MAX: usize = 32;

/// Answer to `/plan` if there are no proposed steps.
const NO_STEPS: &str = "no proposed steps; to get some, run /approve never and then prompt the model";

/// Answer to `/plan` in a read-only session.
const IS_READ_ONLY: &str = "read-only: /approve ask first, then /plan";

impl Transcript {
    /// Returns the calls of the last prompt's turn that were denied because the session was read-only and have not run
    /// since, oldest first.
    pub fn proposed_steps(&self) -> Vec<&Proposal> {
        self.steps_among(self.items())
    }

    /// Returns the reason why the next proposed step cannot run now, if there is one.
    pub fn step_refusal(&self) -> Option<&'static str> {
        let is_read_only = self.facts.as_ref().is_some_and(|facts| facts.approve == ApprovalMode::Never);
        if self.proposed_steps().is_empty() { Some(NO_STEPS) } else { is_read_only.then_some(IS_READ_ONLY) }
    }

    /// Returns a sentence about the proposed steps, or `None` if there are none. Safe to display.
    pub fn steps_sentence(&self) -> Option<String> {
        let steps = self.proposed_steps();
        let (count, next) = (counted(steps.len() as u64, "proposed step"), line(steps.first()?));
        Some(format!("{count}; /plan runs the next one: `{next}`"))
    }

    /// Adds a notice at the end of a turn: the list of the steps that the turn proposed, or how many are left after one
    /// of them.
    pub(super) fn note_steps(&mut self) {
        let text = match self.turn.origin {
            Origin::Model => list(&self.steps_among(self.items.range(self.turn_from..))),
            Origin::Plan => Some(left(&self.proposed_steps())),
            Origin::User | Origin::Routine | Origin::McpClient => None,
        };
        if let Some(text) = text {
            self.notice(Severity::Note, text);
        }
    }

    fn steps_among<'a>(&'a self, items: impl Iterator<Item = &'a Item>) -> Vec<&'a Proposal> {
        let mut steps: Vec<&Proposal> = Vec::new();
        for item in items {
            match &item.body {
                ItemBody::Prompt(_) => steps.clear(),
                ItemBody::Proposal(plan)
                    if plan.origin != Origin::Model
                        && matches!(plan.state, ProposalState::Allowed { .. }) =>
                {
                    let same = |step: &&Proposal| {
                        step.call.name == plan.call.name && step.call.arguments == plan.call.arguments
                    };
                    if let Some(at) = steps.iter().position(same) {
                        steps.remove(at);
                    }
                }
                ItemBody::ToolOutput(output) => {
                    let denied = output.outcome.as_ref().is_some_and(|outcome| {
                        outcome.status == Status::Rejected
                            && outcome.output == refusal_for_people(READ_ONLY_REFUSAL)
                    });
                    let plan = denied.then(|| self.plan(&output.call)).flatten();
                    let plan = plan.filter(|plan| plan.origin == Origin::Model);
                    steps.extend(plan.filter(|_| steps.len() < STEPS_MAX));
                }
                ItemBody::Proposal(_)
                | ItemBody::Reasoning(_)
                | ItemBody::Answer(_)
                | ItemBody::Notice(_)
                | ItemBody::End(_) => {}
            }
        }
        steps
    }
}

/// Returns the numbered list of the steps that a turn proposed, or `None` if there are none.
fn list(steps: &[&Proposal]) -> Option<String> {
    let lines: String =
        steps.iter().enumerate().map(|(at, step)| format!("\n{}. {}", at + 1, line(step))).collect();
    let count = counted(steps.len() as u64, "proposed step");
    (!steps.is_empty()).then(|| format!("{count}; /approve ask, then /plan runs the next one{lines}"))
}

/// Returns a sentence about the steps that are left after one of them.
fn left(steps: &[&Proposal]) -> String {
    match steps.first() {
        Some(next) => {
            let count = counted(steps.len() as u64, "proposed step");
            format!("{count} left; /plan runs the next one: `{}`", line(next))
        }
        None => "no proposed steps left".to_owned(),
    }
}

fn line(step: &Proposal) -> String {
    neutralize(&step.command).replace('\n', " ")
}
