//! Proposals in a transcript: those that await approval, those that need none, and the preview of their effect.

use super::{ItemBody, ItemId, Proposal, ProposalState, SessionPhase, Transcript, call_summary};
use crate::approval::ApprovalTerms;
use crate::event::{Event, Origin};
use crate::id::CallId;
use crate::message::ToolCall;
use crate::policy::Risk;

impl Transcript {
    pub(super) fn approval_asked(&mut self, event: &Event) {
        let Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, terms, .. } = event
        else {
            return;
        };
        let plan = Proposal {
            call: call.clone(),
            origin: self.turn.origin,
            asked_by: self.asked_by(self.turn.origin),
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

    /// Returns the user who asked for a call of this origin, which no model proposed.
    fn asked_by(&self, origin: Origin) -> Option<String> {
        self.turn.asked_by.clone().filter(|_| origin != Origin::Model)
    }

    pub(super) fn plan_of(&self, call: &ToolCall, origin: Origin, state: ProposalState) -> Proposal {
        let is_command = self.facts.as_ref().is_some_and(|facts| facts.commands(&call.name));
        let command = call.text_argument("command").filter(|_| is_command);
        Proposal {
            call: call.clone(),
            origin,
            asked_by: self.asked_by(origin),
            command: command.map_or_else(|| call_summary(call), str::to_owned),
            edited_from: None,
            reason: call.reason().to_owned(),
            risk: Risk::default(),
            covers: None,
            preview: Vec::new(),
            previewed_edit: None,
            guarded: None,
            terms: ApprovalTerms::default(),
            given: Vec::new(),
            state,
        }
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
