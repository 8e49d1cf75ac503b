//! Answers to an approval: user decisions, the consent of several people, and expiry.

use std::time::Duration;

use super::{Consent, REJECTED_BY_USER, Session};
use crate::approval::ApprovalTerms;
use crate::auto_bounds::short_time;
use crate::event::{CancelFollowUp, Decision, Effect, Event, Output};
use crate::id::{CallId, Timestamp};
use crate::outcome::{Outcome, Status};
use crate::policy::is_grantable;
use crate::tool::ToolEffect;

/// Refusal to allow a call for the session that always asks.
const ONCE_ONLY: &str = "this kind of command can only be allowed once; it still waits for an answer";

/// Tells the users that a decision does not count. The approval stays open. Front ends that have closed it show it
/// again.
fn refuse_decision(out: &mut Output, why: &str) {
    out.effects.push(Effect::Notify { text: why.to_owned() });
}

impl Session {
    pub(super) fn on_decision(
        &mut self,
        out: &mut Output,
        id: CallId,
        decision: Decision,
        by: String,
        person: Option<String>,
    ) {
        if self.survey.is_some() {
            return; // already answered; its host is still being surveyed
        }
        let Some((call, asked, origin)) = self.state.waiting_call(&id) else { return };
        if asked.terms.is_expired(self.now) {
            return self.on_approval_timer(out, id); // the approval has expired; only its timer is late
        }
        let (call, risk, scope) = (call.clone(), asked.risk.clone(), asked.scope.clone());
        let guarded = asked.guarded;
        let needed = asked.terms.people.max(self.people_needed());
        let edited = match &decision {
            Decision::Allow { command } | Decision::AllowSession { command } => command.clone(),
            Decision::Reject { .. } => None,
        };
        let is_command =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Command);
        if edited.is_some() && !is_command {
            // Running the original is not what the user approved.
            return refuse_decision(out, "only commands can be edited; the call still waits for an answer");
        }
        // An edited command has not been assessed yet. The user who wrote it knows its findings.
        let risk = match &edited {
            Some(command) => self.risk_of_edit(command, &risk),
            None => risk,
        };
        if matches!(&decision, Decision::AllowSession { .. }) && !is_grantable(&call.name, risk.class, 1) {
            return refuse_decision(out, ONCE_ONLY);
        }
        if needed > 1 && !self.is_last_consent(out, &id, &decision, (&by, person.as_ref()), needed) {
            return;
        }
        let by_sysop = by == Decision::BY_SYSOP;
        let says_stop = |reason: &str| reason.trim().eq_ignore_ascii_case("stop");
        let stops = matches!(&decision, Decision::Reject { reason } if by_sysop || says_stop(reason));
        let refused = match &decision {
            Decision::Reject { reason } if by_sysop => Some(format!("not run: {reason}")),
            Decision::Reject { reason } if reason.trim().is_empty() => Some(REJECTED_BY_USER.to_owned()),
            Decision::Reject { reason } => Some(format!("{REJECTED_BY_USER}. Reason: {reason}")),
            Decision::Allow { .. } | Decision::AllowSession { .. } => None,
        };
        self.cancel_preview(out);
        self.undo_by = Some(by.clone());
        self.emit(out, Event::Decided { call: id.clone(), decision, by });
        if let Some(reason) = refused {
            self.emit(out, Event::ToolFinished { call: id, outcome: Outcome::new(Status::Rejected, reason) });
            if stops || self.state.direct {
                self.stop(out, CancelFollowUp::Nothing);
            }
            return;
        }
        let (call, guarded) = match edited {
            Some(command) => (call.with_command(command), None),
            None => (call, guarded),
        };
        self.start_survey(out, call, origin, Some(Consent { risk, scope, guarded }));
    }

    /// Returns the number of different people who must allow a call.
    pub(super) fn people_needed(&self) -> u32 {
        self.state.spec.policy.approvals.max(1)
    }

    /// Records the consent of one of several people. Returns true if the decision closes the approval: the last consent
    /// that is needed, or a rejection.
    fn is_last_consent(
        &mut self,
        out: &mut Output,
        call: &CallId,
        decision: &Decision,
        (by, person): (&String, Option<&String>),
        needed: u32,
    ) -> bool {
        let refused = match decision {
            Decision::Reject { .. } => return true,
            Decision::Allow { command: None } => {
                let known = self.state.approver_people.contains(person.unwrap_or(by));
                known.then(|| format!("{by} has already allowed this; another person must allow it, too"))
            }
            Decision::Allow { command: Some(_) } => Some(format!(
                "{needed} people must allow this command unedited; reject it to ask for a different one"
            )),
            Decision::AllowSession { .. } => {
                Some(format!("{needed} people must allow each command; allow this one once"))
            }
        };
        if let Some(text) = refused {
            refuse_decision(out, &text);
            return false;
        }
        if self.state.approvers.len() + 1 >= needed as usize {
            return true;
        }
        let (call, by, person) = (call.clone(), by.clone(), person.cloned());
        self.emit(out, Event::ApprovalGiven { call, by, person, needed });
        false
    }

    /// Returns the conditions of an approval that is requested now.
    pub(super) fn approval_terms(&self) -> ApprovalTerms {
        let seconds = self.state.spec.policy.approval_expires_s;
        let expires = (seconds > 0).then(|| Timestamp(self.now.0.saturating_add(i64::from(seconds) * 1000)));
        ApprovalTerms { expires, people: self.people_needed() }
    }

    /// Returns true if a pending approval will expire.
    pub fn has_expiring_approval(&self) -> bool {
        let Some((call, true)) = self.state.open_calls().into_iter().next() else { return false };
        self.state.waiting_call(&call).is_some_and(|(_, asked, _)| asked.terms.expires.is_some())
    }

    /// Sets the timer of the pending approval, or rejects it if it has expired.
    pub(super) fn resume_approval(&mut self, out: &mut Output) {
        if let Some((call, true)) = self.state.open_calls().into_iter().next() {
            self.lose_preview(out, &call);
            self.on_approval_timer(out, call);
        }
    }

    pub(super) fn set_approval_timers(&self, out: &mut Output) {
        let expiring = out.events.iter().filter_map(|event| {
            let Event::ApprovalAsked { call, terms, .. } = event else { return None };
            Some((call.id.clone(), terms.expires?))
        });
        let timers = expiring.map(|(call, expires)| {
            let left = u64::try_from(expires.0.saturating_sub(self.now.0)).unwrap_or_default();
            Effect::SetApprovalTimer { call, after: Duration::from_millis(left.max(1)) }
        });
        let timers: Vec<_> = timers.collect();
        out.effects.extend(timers);
    }

    /// Rejects an approval that nobody answered in time.
    pub(super) fn on_approval_timer(&mut self, out: &mut Output, call: CallId) {
        let Some((_, asked, _)) = self.state.waiting_call(&call).filter(|_| self.survey.is_none()) else {
            return; // answered in the meantime
        };
        let Some(expires) = asked.terms.expires else { return };
        let left = u64::try_from(expires.0.saturating_sub(self.now.0)).unwrap_or_default();
        if left > 0 {
            return out.effects.push(Effect::SetApprovalTimer { call, after: Duration::from_millis(left) });
        }
        let seconds = self.state.spec.policy.approval_expires_s;
        let why = match seconds {
            0 => "nobody allowed it in time".to_owned(),
            seconds => format!("nobody allowed it within {}", short_time(u64::from(seconds))),
        };
        self.withdraw_approval(out, call, &why);
    }

    /// Rejects the pending approval without a user.
    pub(super) fn withdraw_approval(&mut self, out: &mut Output, call: CallId, why: &str) {
        self.survey = None;
        self.cancel_preview(out);
        let decision = Decision::Reject { reason: why.to_owned() };
        self.emit(out, Event::Decided { call: call.clone(), decision, by: Decision::BY_SYSOP.to_owned() });
        let outcome =
            Outcome::new(Status::Rejected, format!("not run: {why}; call it again if it is still needed"));
        self.finish(out, call, outcome);
    }
}
