//! Proposals in a transcript: those that await approval, those that need none, and the preview of their effect.

use super::{ItemBody, ItemId, Proposal, ProposalState, SessionPhase, Transcript, call_summary};
use crate::approval::ApprovalTerms;
use crate::event::{Event, Origin};
use crate::id::CallId;
use crate::message::ToolCall;
use crate::outcome::Status;
use crate::policy::{GrantScope, Risk, is_grantable};
use crate::text::neutralize_line;
use crate::tool::TERMINAL_TOOLS;

impl Transcript {
    pub(super) fn approval_asked(&mut self, event: &Event) {
        let Event::ApprovalAsked { call, command, reason, risk, covers, preview, guarded, scope, terms } =
            event
        else {
            return;
        };
        // The shell of the session's terminal may have left the root.
        let scope = scope.as_ref().filter(|_| TERMINAL_TOOLS.contains(&call.name.as_str()));
        let folder = scope.and_then(|scope| self.shell_folder(scope));
        let plan = Proposal {
            call: call.clone(),
            origin: self.turn.origin,
            asked_by: self.asked_by(self.turn.origin),
            command: command.clone(),
            folder,
            edited_from: None,
            reason: reason.clone(),
            risk: risk.clone(),
            covers: is_grantable(&call.name, risk.class, terms.people).then(|| covers.clone()),
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

    /// Returns the directory of the terminal's shell, as `MACHINE:DIRECTORY` after `ssh` to another machine.
    fn shell_folder(&self, scope: &GrantScope) -> Option<String> {
        let folder = neutralize_line(scope.folder.as_deref()?);
        let host = self.facts.as_ref().map(|facts| facts.host.as_str());
        Some(match scope.host.as_deref() {
            Some(machine) if Some(machine) != host => format!("{}:{folder}", neutralize_line(machine)),
            Some(_) | None => folder.into_owned(),
        })
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
            folder: None,
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

    /// Returns true if the current turn is one call that no model proposed, and the call has failed.
    pub(super) fn is_failed_call(&self) -> bool {
        let mut outputs = self.items.range(self.turn_from..).rev().filter_map(|item| item.body.tool_output());
        let outcome = outputs.next().and_then(|output| output.outcome.as_ref());
        self.turn.origin != Origin::Model && outcome.is_some_and(|outcome| outcome.status != Status::Ok)
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
