//! Approvals in a transcript: the pending proposal, and the preview of its effect.

use super::{ItemBody, ItemId, Proposal, ProposalState, SessionPhase, Transcript};
use crate::event::{Event, Origin};
use crate::id::CallId;
use crate::policy::Risk;

impl Transcript {
    pub(super) fn approval_asked(&mut self, event: &Event) {
        let Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, terms, .. } = event
        else {
            return;
        };
        let plan = Proposal {
            call: call.clone(),
            origin: Origin::Model,
            command: command.clone(),
            edited_from: None,
            reason: reason.clone(),
            risk: risk.clone(),
            covers: Some(covers.clone()),
            preview: preview.clone(),
            previewed_edit: None,
            guarded: *guarded,
            terms: *terms,
            given: Vec::new(),
            state: ProposalState::Waiting,
        };
        self.put(ItemId::Proposal(call.id.clone()), ItemBody::Proposal(Box::new(plan)));
        self.phase = SessionPhase::AwaitingApproval { call: call.id.clone() };
    }

    /// Replaces the preview of a proposal.
    pub(super) fn approval_previewed(
        &mut self,
        call: &CallId,
        edited: Option<(String, Risk)>,
        preview: &[String],
    ) {
        self.change_plan(call, |plan| {
            plan.preview = preview.to_vec();
            plan.previewed_edit = edited;
        });
    }
}
