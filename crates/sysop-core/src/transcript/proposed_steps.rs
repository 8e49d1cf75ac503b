//! The plan of a read-only session: the calls that were denied, and that a user may run later.

use super::{ItemBody, Proposal, ProposalState, Transcript};
use crate::event::Origin;
use crate::outcome::Status;
use crate::policy::{READ_ONLY_REFUSAL, refusal_for_people};

const STEPS_MAX: usize = 32;

impl Transcript {
    /// Returns the calls of the last prompt's turn that were denied because the session was read-only and have not run
    /// since, oldest first.
    pub fn proposed_steps(&self) -> Vec<&Proposal> {
        let mut steps: Vec<&Proposal> = Vec::new();
        for item in self.items() {
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
                    let plan = self.plan(&output.call).filter(|plan| denied && plan.origin == Origin::Model);
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
