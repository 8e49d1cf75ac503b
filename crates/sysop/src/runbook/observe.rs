//! Asks the hosts about a plan's steps: their effects, risks and guards, and which of them are already done. Nothing is
//! changed: the only commands that run are the probes of previews, and those that the approval mode `never` allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use sysop_core::catalog::{BASH_TIMEOUT_S_DEFAULT, BASH_TOOL};
use sysop_core::guard::{GuardRequest, GuardTimeout};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{
    ApprovalMode, Assessment, Fence, GuardOffer, Policy, PolicyOptions, RiskClass, Survey, Verdict,
};
use sysop_core::preview;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_core::ui_text;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use super::call::StepCall;
use super::judge::{ProbeResult, probe_result};
use super::plan::{PlannedProbe, PlannedStep, ProbeKind, RunbookPlan};
use crate::app::{Machines, ToolLocation};
use crate::policy_check::summary;
use crate::settings::{HostChoice, Settings};

/// Adds facts to each step, obtained from the step's host. An unreachable host is reported in the plan's heading.
pub(super) async fn observe(settings: Settings, plan: &mut RunbookPlan) -> Result<()> {
    let settings = Arc::new(settings);
    let machines = Machines::new(Arc::clone(&settings));
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    let mut unreachable = Vec::new();
    for step in &mut plan.steps {
        let choice = step.other_host.clone().unwrap_or_else(|| settings.host.clone());
        let name = choice.to_string();
        if !places.contains_key(&name) {
            places.insert(name.clone(), Place::new(&settings, &machines, choice)?);
        }
        let Some(place) = places.get(&name) else { continue };
        if unreachable.contains(&name) {
            continue;
        }
        if let Err(why) = place.observe(step).await {
            plan.heading.push(format!("{name} cannot be reached, so effects on it are unknown: {why}"));
            unreachable.push(name);
        }
    }
    machines.close().await;
    Ok(())
}

/// One host of the plan, with the policy for it.
struct Place {
    host: Arc<dyn Host>,
    mode: ApprovalMode,
    policy: Policy,
    options: PolicyOptions,
}

impl Place {
    fn new(settings: &Settings, machines: &Machines, choice: HostChoice) -> Result<Self> {
        let (mode, options) = (settings.approve(&choice), settings.policy_options(&choice));
        let policy = Policy::new(&settings.dangerous_patterns, &settings.deny).with_options(options.clone());
        let host = machines.host(&ToolLocation::new(choice, settings.root.clone()), settings.profile)?;
        Ok(Self { host, mode, policy, options })
    }

    /// Fills in the probe answers, the assessment and the effects of a step. Fails if the host cannot be reached.
    async fn observe(&self, step: &mut PlannedStep) -> Result<(), String> {
        let mut probes = std::mem::take(&mut step.probes);
        for probe in probes.iter_mut().filter(|probe| probe.is_known) {
            probe.answer = self.answer(probe).await?;
        }
        step.probes = probes;
        let Some(call) = step.call.as_ref().filter(|_| step.is_known) else { return Ok(()) };
        let call = tool_call(call, step.timeout_s, step.guard);
        let Some(spec) = self.spec(&call.name) else {
            step.effects.push(format!("this host has no tool `{}`", call.name));
            return Ok(());
        };
        let survey = self.survey(&call).await?;
        let mut assessment = self.assess(self.mode, spec, &call, &survey);
        if step.guard.is_some() && assessment.verdict != Verdict::Deny {
            (assessment.risk.class, assessment.verdict) = (RiskClass::Lockout, Verdict::Ask);
        }
        step.verdict = summary(&assessment);
        if self.options.approvals > 1 && assessment.risk.class > RiskClass::ReadOnly {
            step.verdict = format!("{} ({} people)", step.verdict, self.options.approvals);
        }
        step.effects.extend(self.effect(spec, &call, &survey).await);
        step.effects.extend(guard_line(step, &survey.guard));
        Ok(())
    }

    fn spec(&self, tool: &str) -> Option<&ToolSpec> {
        self.host.tools().iter().find(|spec| spec.name == tool)
    }

    async fn survey(&self, call: &ToolCall) -> Result<Survey, String> {
        let survey = self.host.survey(call).await;
        match survey.unreachable {
            Some(why) => Err(why),
            None => Ok(survey),
        }
    }

    fn assess(&self, mode: ApprovalMode, spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Assessment {
        let command = call.text_argument("command").filter(|_| spec.effect == ToolEffect::Command);
        match command {
            Some(command) => self.policy.command(mode, &[], survey, command),
            None => self.policy.tool(mode, &[], survey, spec, call),
        }
    }

    async fn effect(&self, spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Vec<String> {
        if !preview::is_probeable(survey) {
            return Vec::new();
        }
        let Some(plan) = preview::plan_of(spec, call, survey, ApprovalMode::Never) else {
            return Vec::new();
        };
        let results = match plan.script(false) {
            Some(_) => self.host.probe(&plan, CancellationToken::new()).await,
            None => vec![preview::ProbeResult { host: String::new(), output: Ok(Vec::new()) }],
        };
        preview::lines(&plan, &results)
    }

    /// Runs an `unless` or a `check` command for its answer, if the command is known to only read.
    async fn answer(&self, probe: &PlannedProbe) -> Result<String, String> {
        let call = command_call(&probe.command);
        let Some(spec) = self.spec(BASH_TOOL) else { return Ok(String::new()) };
        let survey = self.survey(&call).await?;
        let assessment = self.assess(ApprovalMode::Never, spec, &call, &survey);
        if assessment.verdict != Verdict::Allow {
            return Ok("not checked now, because the command may do more than read".to_owned());
        }
        let fence = self.policy.fence(ApprovalMode::Never, &survey, spec, &call, &assessment);
        let (sink, cancel) = (DeltaSink::none(), CancellationToken::new());
        let outcome: Outcome = match fence {
            Fence::Off => self.host.run(call, sink, cancel).await,
            fence @ (Fence::ReadOnly { .. } | Fence::Workspace { .. }) => {
                self.host.run_fenced(call, fence, sink, cancel).await
            }
        };
        Ok(match (probe.kind, probe_result(&outcome)) {
            (ProbeKind::Unless, ProbeResult::Yes) => {
                "now: already done; the step would be skipped".to_owned()
            }
            (ProbeKind::Unless, ProbeResult::No(_)) => "now: not done yet; the step would run".to_owned(),
            (ProbeKind::Check, ProbeResult::Yes) => "now: passes".to_owned(),
            (ProbeKind::Check, ProbeResult::No(why)) => format!("now: fails, {why}"),
            (_, ProbeResult::Unclear(why)) => format!("now: unclear, {why}"),
        })
    }
}

fn guard_line(step: &PlannedStep, offer: &GuardOffer) -> Option<String> {
    match (offer, step.guard) {
        (GuardOffer::Offered { seconds }, _) => Some(ui_text::guarded(GuardTimeout { seconds: *seconds })),
        (GuardOffer::Refused { why }, Some(_)) => {
            Some(format!("cannot be guarded, so the run would stop here: {why}"))
        }
        (GuardOffer::Refused { why }, None) => {
            Some(format!("NOT guarded, so nothing will roll it back: {why}"))
        }
        (GuardOffer::NotNeeded, Some(_)) => Some(
            "cannot be guarded, so the run would stop here: guards need a Linux host over ssh".to_owned(),
        ),
        (GuardOffer::NotNeeded, None) => None,
    }
}

fn tool_call(call: &StepCall, timeout_s: u64, guard: Option<GuardRequest>) -> ToolCall {
    let call = call.to_call("", timeout_s, guard);
    let (id, wire_id) = (CallId::new("plan"), None);
    ToolCall { id, wire_id, name: call.tool, arguments: Arguments::Object(call.arguments) }
}

fn command_call(command: &str) -> ToolCall {
    tool_call(&StepCall::Command(command.to_owned()), BASH_TIMEOUT_S_DEFAULT, None)
}
