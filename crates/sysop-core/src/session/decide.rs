//! Review of a call before it runs: the text to show, the reason, and the verdict of the policy.

use std::borrow::Cow;
use std::sync::Arc;

use super::jobs::with_time_limit;
use super::state::Phase;
use super::undo::asks_for_approval;
use super::{Consent, PendingSurvey, Session, chat, hints};
use crate::event::{Effect, Event, Origin, Output};
use crate::guard::{GuardRequest, GuardTimeout};
use crate::hook::{HookAnswer, HookQuestion};
use crate::id::CallId;
use crate::message::{ToolCall, ToolProtocol};
use crate::outcome::{HostOutcome, Outcome, Status};
use crate::policy::{
    ApprovalMode, Assessment, CommandContext, Fence, Finding, Grant, GrantScope, GuardOffer, Policy,
    READ_ONLY_REFUSAL, Risk, RiskClass, Survey, UndoOffer, Verdict, grants_for, named_rule,
    reading_needs_no_approval, refusal_for_people, survey_as_written,
};
use crate::tool::{ToolEffect, ToolSpec};
use crate::undo::UNDO_TOOL;

const HOSTS_NAMED_MAX: usize = 8;

/// Result of reviewing a call, with everything that is needed to decide on it.
pub(super) struct CallReview {
    pub(super) assessment: Assessment,
    /// Text that an approval shows: the command, or a short form of the call.
    pub(super) command: String,
    /// The model's reason; may be empty.
    pub(super) reason: String,
    /// Fence to apply if the call runs.
    pub(super) fence: Fence,
}

impl CallReview {
    pub(super) fn new(session: &Session, spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Self {
        let (policy, state) = (session.policy(), &session.state);
        let mode = state.spec.approve;
        let grants = grants_for(&state.grants, spec, survey);
        let assessment = assess(policy, mode, &grants, survey, spec, call);
        let reason = call.reason().to_owned();
        let fence = policy.fence(mode, survey, spec, call, &assessment);
        let limited = session.with_default_limits(call.clone());
        let assessment = with_time_limit(assessment, &limited, session.default_time_limit());
        let assessment = with_people(assessment, mode, session.people_needed());
        let command = display_command(spec, call);
        let assessment = match GuardRequest::of(call) {
            Some(_) => with_requested_guard(assessment, &command),
            None => assessment,
        };
        Self { assessment, command, reason, fence }
    }
}

fn assess(
    policy: &Policy,
    mode: ApprovalMode,
    grants: &[Grant],
    survey: &Survey,
    spec: &ToolSpec,
    call: &ToolCall,
) -> Assessment {
    let argument = spec.effect.command_argument().and_then(|name| call.text_argument(name));
    let assessment = match argument {
        Some(keys) if spec.effect == ToolEffect::Keys => policy.keys(mode, grants, survey, spec, keys),
        Some(command) => policy.command(mode, grants, survey, command),
        None => policy.tool(mode, grants, survey, spec, call),
    };
    policy.assess_outside(mode, call, assessment)
}

impl Session {
    /// Begins the review of a call. A call that cannot run, or that the session answers itself, is finished at once.
    /// For every other call, a survey is requested.
    pub(super) fn review_call(&mut self, out: &mut Output, call: ToolCall, origin: Origin) {
        if self.is_chat() && !self.state.direct {
            return self.finish(out, call.id, Outcome::failed(chat::NO_TOOLS));
        }
        let tools = Arc::clone(self.offered_tools());
        match tools.check(&call) {
            Ok((spec, _)) if spec.effect == ToolEffect::Completes => {
                if let Some(unseen) = self.unseen_results(&call) {
                    let why =
                        format!("you have not seen {unseen} yet; call this tool again in your next reply");
                    return self.finish(out, call.id, Outcome::failed(why));
                }
                let summary = call.text_argument("summary").unwrap_or_default().to_owned();
                self.finish(out, call.id, Outcome::ok(summary));
            }
            Ok((spec, _))
                if spec.effect == ToolEffect::Session
                    && self.state.client_tools.named(&spec.name).is_none() =>
            {
                if origin != Origin::Model {
                    // No model reply contains this call.
                    self.emit(out, Event::ToolStarted { call: call.clone(), origin });
                }
                if let Some(outcome) = self.answer_own(out, &call, origin) {
                    self.finish(out, call.id, outcome);
                }
            }
            Ok((spec, _)) if let Some(error) = self.unclosed(spec, &call, origin) => {
                self.finish(out, call.id, Outcome::failed(error));
            }
            Ok((spec, inner)) if let Some(why) = self.denial_as_written(spec, &inner) => {
                self.deny(out, call, origin, None, why);
            }
            Ok(_) => match self.lacks_room_for_job(&call) {
                Some(why) => self.finish(out, call.id, Outcome::failed(why)),
                None => self.start_survey(out, call, origin, None),
            },
            Err(_) if origin == Origin::User => self.start_survey(out, call, origin, None),
            Err(error) => self.finish(out, call.id, Outcome::failed(error)),
        }
    }

    /// Returns the reason to deny a call that a read-only session cannot run, whatever its host is like, so that nobody
    /// waits for the host. `None` if facts about the host may matter: for keys, and for a command whose text does not
    /// tell its effect.
    fn denial_as_written(&self, spec: &ToolSpec, call: &ToolCall) -> Option<String> {
        let never = ApprovalMode::Never;
        if self.state.spec.approve != never || spec.effect == ToolEffect::Keys {
            return None;
        }
        let is_on_client = self.state.client_tools.named(&call.name).is_some();
        let survey = match is_on_client {
            true => Survey::elsewhere(CommandContext::bash()),
            false => survey_as_written(&self.state.spec.host),
        };
        let assessment = assess(self.policy(), never, &[], &survey, spec, call);
        let is_certain = match assessment.risk.class {
            RiskClass::Changes | RiskClass::Dangerous | RiskClass::Lockout => true,
            RiskClass::ReadOnly | RiskClass::ReadsRemote | RiskClass::Opaque | RiskClass::ReadsSecret => {
                false
            }
        };
        (assessment.verdict == Verdict::Deny && is_certain).then_some(assessment.refusal)
    }

    /// Returns the error of a model's command that ends within a quote or a document. Models that get their tools as
    /// text write such commands, which no shell runs as meant. A second one in a turn is reviewed as any other.
    fn unclosed(&self, spec: &ToolSpec, call: &ToolCall, origin: Origin) -> Option<String> {
        let is_text =
            || self.state.history.last_reply().is_some_and(|reply| reply.protocol == ToolProtocol::Text);
        if origin != Origin::Model || spec.name != "bash" || self.state.returned_unclosed || !is_text() {
            return None;
        }
        call.text_argument("command").and_then(hints::unclosed)
    }

    pub(super) fn start_survey(
        &mut self,
        out: &mut Output,
        call: ToolCall,
        origin: Origin,
        allowed: Option<Consent>,
    ) {
        self.surveys = self.surveys.wrapping_add(1);
        let (attempt, place) = (self.surveys, self.location(&call));
        let shell = self.shell_fence(origin);
        let limited = self.with_default_time_limit(call.clone());
        out.effects.push(Effect::Survey { call: limited, place, shell: shell.clone(), attempt });
        let surveyed = None;
        self.survey = Some(PendingSurvey { call, origin, attempt, place, shell, surveyed, allowed });
    }

    /// Returns the fence of the shell that `run_command` would use. Commands that a user typed have no fence.
    fn shell_fence(&self, origin: Origin) -> Fence {
        match origin {
            Origin::User => Fence::Off,
            Origin::Model | Origin::Routine | Origin::Plan | Origin::McpClient => {
                self.policy().shell_fence(self.state.spec.approve)
            }
        }
    }

    pub(super) fn on_surveyed(&mut self, out: &mut Output, id: CallId, attempt: u32, survey: &Survey) {
        let Some(pending) = self.survey.take_if(|pending| {
            pending.attempt == attempt && pending.call.id == id && pending.surveyed.is_none()
        }) else {
            return; // stale answer: the call was abandoned, or a newer survey is pending
        };
        match self.hook_question(&pending, survey) {
            None => self.decide(out, pending, survey, HookAnswer::Pass),
            Some(question) => {
                out.effects.push(Effect::AskHooks { question, attempt });
                self.survey = Some(PendingSurvey { surveyed: Some(Box::new(survey.clone())), ..pending });
            }
        }
    }

    pub(super) fn on_hooks_answered(
        &mut self,
        out: &mut Output,
        id: &CallId,
        attempt: u32,
        answer: HookAnswer,
    ) {
        let Some(mut pending) = self.survey.take_if(|pending| {
            pending.attempt == attempt && pending.call.id == *id && pending.surveyed.is_some()
        }) else {
            return; // stale answer
        };
        let survey = pending.surveyed.take().unwrap_or_default();
        self.decide(out, pending, &survey, answer);
    }

    /// Returns the question to the hooks. `None` if there are no hooks, or if the call cannot run anyway.
    fn hook_question(&self, pending: &PendingSurvey, survey: &Survey) -> Option<Box<HookQuestion>> {
        if !self.state.spec.policy.hooks || survey.unreachable.is_some() {
            return None;
        }
        let PendingSurvey { call, origin, .. } = pending;
        let (spec, inner) = match self.offered_tools().check(call) {
            Ok(checked) => checked,
            Err(_) => (self.offered_tools().named(&call.name)?, Cow::Borrowed(call)),
        };
        let CallReview { assessment, command, reason, .. } = CallReview::new(self, spec, &inner, survey);
        (assessment.verdict != Verdict::Deny).then(|| {
            Box::new(HookQuestion {
                call: call.clone(),
                command,
                reason,
                risk: assessment.risk,
                mode: self.state.spec.approve,
                origin: *origin,
                verdict: assessment.verdict,
            })
        })
    }

    /// Runs a surveyed call, asks for approval, or denies the call.
    fn decide(&mut self, out: &mut Output, pending: PendingSurvey, survey: &Survey, hooks: HookAnswer) {
        let PendingSurvey { call, origin, place, shell, allowed, .. } = pending;
        if place != self.location(&call) || shell != self.shell_fence(origin) {
            return self.start_survey(out, call, origin, allowed); // the tool or its shell changed in the meantime
        }
        if let Some(why) = self
            .denial_reason(&call, survey)
            .filter(|_| origin == Origin::User || (allowed.is_some() && survey.unreachable.is_none()))
        {
            return self.deny(out, call, origin, allowed.as_ref(), why);
        }
        if let Some(why) = &survey.unreachable {
            return self.fail_unstarted(out, call, origin, Outcome::unreachable(why.clone()));
        }
        if let Some(why) = hook_refusal(&hooks).or_else(|| guard_refusal(&call, survey)) {
            return self.deny(out, call, origin, allowed.as_ref(), why);
        }
        if call.name == UNDO_TOOL && !self.review_undo(out, &call, survey, allowed.as_ref()) {
            return;
        }
        // A call that a user typed has that user's consent.
        let is_offered_undo = call.name == UNDO_TOOL && matches!(survey.undo, UndoOffer::Offered { .. });
        let has_seen_plan = is_offered_undo || asks_for_approval(&call) && allowed.is_some();
        if origin == Origin::User && (self.people_needed() == 1 || has_seen_plan) {
            let guarded = if is_offered_undo { guard_of(&survey.guard, 0).0 } else { None };
            return self.run(out, call, origin, Fence::Off, guarded);
        }
        let tools = Arc::clone(self.offered_tools());
        let (review, scope) = match tools.check(&call) {
            Ok((spec, inner)) => (CallReview::new(self, spec, &inner, survey), GrantScope::of(spec, survey)),
            Err(error) => return self.finish(out, call.id, Outcome::failed(error)),
        };
        let CallReview { assessment, command, reason, fence } = review;
        let fence = if origin == Origin::User { Fence::Off } else { fence };
        let hooks = hooks.stricter(self.hook_answer_for_turn());
        let mut assessment = with_hook(assessment, &hooks, &command);
        let scripts = self.state.instructions.skills.script_findings(survey, command.len());
        let (guarded, unguarded) = guard_of(&survey.guard, command.len());
        let is_guard_lost = guarded.is_none() && allowed.as_ref().is_some_and(|seen| seen.guarded.is_some());
        let unguarded = unguarded
            .or_else(|| is_guard_lost.then(|| not_guarded("the host did not answer", command.len())));
        let is_allowed = allowed.as_ref().is_some_and(|seen| {
            let keeps_guard = seen.guarded.is_none() || guarded.is_some();
            keeps_guard && seen.scope == scope && covers_risk(seen, &assessment.risk, &scripts, survey)
        });
        assessment.risk.findings.extend(scripts);
        let Assessment { verdict, mut risk, covers, refusal, .. } = assessment;
        match verdict {
            Verdict::Allow => self.run(out, call, origin, fence, guarded),
            Verdict::Ask if is_allowed => self.run(out, call, origin, fence, guarded),
            Verdict::Ask => {
                if let Some(why) = self.certain_failure(&call, survey) {
                    return self.fail_unstarted(out, call, origin, Outcome::failed(why));
                }
                risk.findings.extend(unguarded.into_iter().chain(unreached_hosts(survey)));
                let (preview, terms) = (Vec::new(), self.approval_terms());
                let asked = Event::ApprovalAsked {
                    call,
                    command,
                    reason,
                    risk,
                    covers,
                    preview,
                    guarded,
                    scope,
                    terms,
                };
                self.ask_with_preview(out, asked, origin, survey);
            }
            Verdict::Deny => self.deny(out, call, origin, allowed.as_ref(), refusal),
        }
    }

    /// Ends a call that the policy, a hook or the guard denies. `allowed` is the consent to an approval of the call,
    /// which the log then has.
    fn deny(
        &mut self,
        out: &mut Output,
        call: ToolCall,
        origin: Origin,
        allowed: Option<&Consent>,
        why: String,
    ) {
        let outcome = Outcome::new(Status::Rejected, why);
        match allowed {
            Some(_) => self.finish(out, call.id, outcome),
            None => self.fail_unstarted(out, call, origin, outcome),
        }
    }

    /// Ends a call that cannot run.
    fn fail_unstarted(&mut self, out: &mut Output, call: ToolCall, origin: Origin, outcome: Outcome) {
        let id = call.id.clone();
        if origin != Origin::Model {
            // No model reply contains this call; `ToolStarted` records in the log what failed.
            self.emit(out, Event::ToolStarted { call, origin });
        }
        self.finish(out, id, outcome);
    }

    /// Returns the text with which the call would fail, if the host knows that it would. Returns `None` if reading the
    /// files of the call needs approval, because the text tells something about their content, and if the user has
    /// hooks, because a hook may guard these files.
    fn certain_failure(&self, call: &ToolCall, survey: &Survey) -> Option<String> {
        if self.state.spec.policy.hooks {
            return None;
        }
        let why = survey.certain_failure.clone()?;
        let spec = self.offered_tools().named(&call.name)?;
        reading_needs_no_approval(spec, call, survey).then_some(why)
    }

    /// Assesses a command from its text alone, without a survey of its host.
    pub(super) fn risk_as_written(&self, command: &str) -> Risk {
        self.policy().risk(command, &Survey::elsewhere(CommandContext::bash()))
    }

    /// Assesses a command that a user wrote in place of a proposed one. The hosts that the survey of the proposed one
    /// missed do not run it either.
    pub(super) fn risk_of_edit(&self, command: &str, proposed: &Risk) -> Risk {
        let mut risk = self.risk_as_written(command);
        risk.findings.extend(proposed.findings.iter().filter(|finding| finding.is_unreached()).cloned());
        risk
    }

    /// Returns a phrase that names the other tools called in the same reply, because the model had not seen their
    /// results when it made this call. `None` if there are no other tools.
    pub(super) fn unseen_results(&self, call: &ToolCall) -> Option<String> {
        let Phase::Acting { pending, results, .. } = &self.state.phase else { return None };
        let tools = self.offered_tools();
        let done = results.iter().map(|result| result.name.as_str());
        let names: Vec<_> = done
            .chain(pending.iter().filter(|other| other.id != call.id).map(|other| other.name.as_str()))
            .filter(|name| !tools.completes(name))
            .map(|name| format!("`{name}`"))
            .collect();
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("the result of {name}")),
            names => Some(format!("the results of {}", names.join(", "))),
        }
    }

    /// Returns the reason why a call cannot run even if a user allows it (a deny rule, or a read-only session), if any.
    pub(super) fn denial_reason(&self, call: &ToolCall, survey: &Survey) -> Option<String> {
        let policy = self.policy();
        let types =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Keys);
        let typed =
            call.text_argument("keys").filter(|_| types).and_then(|keys| policy.denies_keys(keys, survey));
        let rule = call.text_argument("command").and_then(|command| policy.denies(command, survey)).or(typed);
        if let Some(rule) = rule {
            return Some(format!("denied by {}; nothing ran", named_rule(rule)));
        }
        let never = ApprovalMode::Never;
        if self.state.spec.approve != never {
            return None;
        }
        let call = self.offered_tools().inner(call);
        let read_only = self.offered_tools().named(&call.name).is_some_and(|spec| {
            let assessment = assess(policy, never, &[], survey, spec, &call);
            assessment.verdict != Verdict::Deny
        });
        (!read_only).then(|| READ_ONLY_REFUSAL.to_owned())
    }
}

/// Returns the guard that a host offers for a call, or a finding that says why there is none.
pub(super) fn guard_of(offer: &GuardOffer, command_bytes: usize) -> (Option<GuardTimeout>, Option<Finding>) {
    match offer {
        GuardOffer::NotNeeded => (None, None),
        GuardOffer::Offered { seconds } => (Some(GuardTimeout { seconds: *seconds }), None),
        GuardOffer::Refused { why } => (None, Some(not_guarded(why, command_bytes))),
    }
}

/// Returns the findings about the hosts of a call on which it will not run.
pub(super) fn unreached_hosts(survey: &Survey) -> impl Iterator<Item = Finding> {
    survey.unreached.iter().map(|line| Finding::unreached(line))
}

fn hook_refusal(answer: &HookAnswer) -> Option<String> {
    let HookAnswer::Deny { reason } = answer else { return None };
    Some(format!("denied by a hook: {reason}; nothing ran"))
}

/// Returns the reason why a call that requests a guard cannot run, if the host offers none.
fn guard_refusal(call: &ToolCall, survey: &Survey) -> Option<String> {
    GuardRequest::of(call)?;
    let why = match &survey.guard {
        GuardOffer::Offered { .. } => return None,
        GuardOffer::Refused { why } => why,
        GuardOffer::NotNeeded => "only commands on Linux hosts over ssh can be guarded",
    };
    Some(format!("this call needs a guard, which is not available: {why}; nothing ran"))
}

/// Raises the risk of a call that requests a guard: it may lock people out, whatever its command looks like.
fn with_requested_guard(mut assessment: Assessment, command: &str) -> Assessment {
    let (start, end, class) = (0, command.len(), RiskClass::Lockout);
    if assessment.risk.class < class {
        let why = "the runbook says that this step may lock you out".to_owned();
        assessment.risk.findings.push(Finding { start, end, class, why });
        assessment.risk.class = class;
        assessment.covers = Grant::Exact { command: command.to_owned() };
    }
    if assessment.verdict == Verdict::Allow {
        assessment.verdict = Verdict::Ask;
    }
    assessment
}

fn not_guarded(why: &str, command_bytes: usize) -> Finding {
    let why = format!("NOT guarded, so nothing will roll it back: {why}");
    Finding { start: 0, end: command_bytes, class: RiskClass::Lockout, why }
}

/// Adapts the verdict if several people must allow a call: only reads then run without approval, because a mode, a
/// rule or a grant is the decision of one person.
fn with_people(mut assessment: Assessment, mode: ApprovalMode, people: u32) -> Assessment {
    let changes = assessment.risk.class > RiskClass::ReadOnly;
    if people > 1 && changes && mode != ApprovalMode::Never && assessment.verdict == Verdict::Allow {
        assessment.verdict = Verdict::Ask;
    }
    assessment
}

/// Adds the answer of the hooks. A hook may only make the verdict stricter.
fn with_hook(mut assessment: Assessment, hooks: &HookAnswer, command: &str) -> Assessment {
    if let HookAnswer::Ask { reason } = hooks {
        if assessment.verdict == Verdict::Allow {
            assessment.verdict = Verdict::Ask;
        }
        // The finding has the lowest class, because its text may differ when the hook is asked again.
        let why = format!("a hook asks: {reason}");
        let finding = Finding { start: 0, end: command.len(), class: RiskClass::ReadOnly, why };
        assessment.risk.findings.push(finding);
    }
    assessment
}

/// Returns the text that an approval shows for a call: the full command, the keys, or the tool with its path.
fn display_command(spec: &ToolSpec, call: &ToolCall) -> String {
    let argument = match spec.effect {
        ToolEffect::Command => return call.text_argument("command").unwrap_or_default().to_owned(),
        ToolEffect::Keys => call.text_argument("keys"),
        // The user sees all arguments of a call to a server.
        ToolEffect::External | ToolEffect::ExternalReads => None,
        ToolEffect::Reads | ToolEffect::Writes | ToolEffect::Completes | ToolEffect::Session => {
            call.text_argument("path").or_else(|| call.text_argument("message"))
        }
    };
    match argument {
        Some(argument) => format!("{} {argument}", call.name),
        None => format!("{} {}", call.name, call.arguments.to_value()),
    }
}

/// Returns true if the person who consented saw this risk and the present form of these scripts, and if the hosts that
/// were said to be unreachable still are.
fn covers_risk(seen: &Consent, risk: &Risk, scripts: &[Finding], survey: &Survey) -> bool {
    let shown = |script: &Finding| seen.risk.findings.iter().any(|finding| finding.why == script.why);
    let is_unreached = |finding: &Finding| unreached_hosts(survey).any(|other| other == *finding);
    let mut missed = seen.risk.findings.iter().filter(|finding| finding.is_unreached());
    missed.all(is_unreached) && scripts.iter().all(shown) && is_no_worse(risk, &seen.risk)
}

/// Returns true if the approval of the risk `seen` also covers `risk`: no worse class and no new serious finding.
pub(super) fn is_no_worse(risk: &Risk, seen: &Risk) -> bool {
    let known = |finding: &Finding| seen.findings.iter().any(|known| known.why == finding.why);
    risk.class <= seen.class
        && risk.findings.iter().filter(|finding| finding.class > RiskClass::Changes).all(known)
}

/// Returns one sentence about a direct call that failed.
pub(super) fn failure_sentence(outcome: &Outcome) -> String {
    if !outcome.hosts.is_empty() {
        return format!("the command failed on {}", bad_hosts(&outcome.hosts));
    }
    match (outcome.status, outcome.exit_code) {
        (Status::Failed, Some(code)) => format!("the command exited with code {code}"),
        (Status::Timeout, _) => "the command timed out".to_owned(),
        (Status::Cancelled, _) => "the command was stopped".to_owned(),
        (Status::Interrupted | Status::Unknown, _) => "the outcome of the command is unknown".to_owned(),
        (Status::Ok | Status::Failed | Status::Rejected, _) => {
            let first = outcome.output.lines().next().unwrap_or("the call failed");
            refusal_for_people(first).to_owned()
        }
    }
}

/// Lists the hosts where the command failed. Hosts that were skipped are not listed.
fn bad_hosts(hosts: &[HostOutcome]) -> String {
    let bad: Vec<&str> = hosts
        .iter()
        .filter(|host| !matches!(host.status, Status::Ok | Status::Rejected))
        .map(|host| host.host.as_str())
        .collect();
    match bad.len() {
        0 => "any host".to_owned(),
        count @ 1..=HOSTS_NAMED_MAX => bad[..count].join(", "),
        count => format!("{} and {} more", bad[..HOSTS_NAMED_MAX].join(", "), count - HOSTS_NAMED_MAX),
    }
}
