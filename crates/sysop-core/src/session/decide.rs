//! Review of a call before it runs: the text to show, the reason, and the verdict of the policy.

use serde_json::Value;

use super::Session;
use super::state::Phase;
use crate::message::{Arguments, ToolCall};
use crate::outcome::{HostOutcome, Outcome, Status};
use crate::policy::{
    ApprovalMode, Assessment, Fence, Finding, Grant, Policy, READ_ONLY_REFUSAL, Risk, RiskClass, Survey,
    Verdict, grants_for,
};
use crate::tool::{ToolEffect, ToolSpec};

/// Maximum number of hosts that one sentence names.
const HOSTS_NAMED_MAX: usize = 8;

/// A call with everything that the decision on it needs.
pub(super) struct CallReview {
    pub(super) assessment: Assessment,
    /// Text to show: the command, or a short form of the call.
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
        Self { assessment, command: display_command(spec, call), reason, fence }
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
    let argument = match spec.effect {
        ToolEffect::Command => call.text_argument("command"),
        ToolEffect::Keys => call.text_argument("keys"),
        ToolEffect::Reads | ToolEffect::Writes | ToolEffect::Completes => None,
    };
    let assessment = match argument {
        Some(keys) if spec.effect == ToolEffect::Keys => policy.keys(mode, grants, survey, spec, keys),
        Some(command) => policy.command(mode, grants, survey, command),
        None => policy.tool(mode, grants, survey, spec, call),
    };
    policy.assess_outside(mode, call, assessment)
}

impl Session {
    /// Returns the tools of the same reply whose results the model had not seen when it made this call.
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

    /// Returns the reason a call cannot run even if a user allows it: a deny rule, or a read-only session.
    pub(super) fn denial_reason(&self, call: &ToolCall, survey: &Survey) -> Option<String> {
        let policy = self.policy();
        let types =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Keys);
        let typed =
            call.text_argument("keys").filter(|_| types).and_then(|keys| policy.denies_keys(keys, survey));
        let rule = call.text_argument("command").and_then(|command| policy.denies(command, survey)).or(typed);
        if let Some(rule) = rule {
            return Some(format!("denied by the rule `{rule}`; nothing ran"));
        }
        let never = ApprovalMode::Never;
        if self.state.spec.approve != never {
            return None;
        }
        let read_only = self.offered_tools().named(&call.name).is_some_and(|spec| {
            let assessment = assess(policy, never, &[], survey, spec, call);
            assessment.verdict != Verdict::Deny
        });
        (!read_only).then(|| READ_ONLY_REFUSAL.to_owned())
    }
}

/// Text that an approval shows for a call: the full command, the keys, or the tool with its path.
fn display_command(spec: &ToolSpec, call: &ToolCall) -> String {
    let argument = match spec.effect {
        ToolEffect::Command => return call.text_argument("command").unwrap_or_default().to_owned(),
        ToolEffect::Keys => call.text_argument("keys"),
        ToolEffect::Reads | ToolEffect::Writes | ToolEffect::Completes => {
            call.text_argument("path").or_else(|| call.text_argument("message"))
        }
    };
    match argument {
        Some(argument) => format!("{} {argument}", call.name),
        None => format!("{} {}", call.name, call.arguments.to_value()),
    }
}

/// Returns true if approving `seen` also covers `risk`: its class is no worse, and it has no new serious finding.
pub(super) fn is_no_worse(risk: &Risk, seen: &Risk) -> bool {
    let known = |finding: &Finding| seen.findings.iter().any(|known| known.why == finding.why);
    risk.class <= seen.class
        && risk.findings.iter().filter(|finding| finding.class > RiskClass::Changes).all(known)
}

pub(super) fn with_command(mut call: ToolCall, command: String) -> ToolCall {
    if let Arguments::Object(map) = &mut call.arguments {
        map.insert("command".to_owned(), Value::String(command));
    }
    call
}

/// One sentence on a direct call that failed.
pub(super) fn failure_sentence(outcome: &Outcome) -> String {
    if !outcome.hosts.is_empty() {
        return format!("the command failed on {}", bad_hosts(&outcome.hosts));
    }
    match (outcome.status, outcome.exit_code) {
        (Status::Failed, Some(code)) => format!("the command exited with {code}"),
        (Status::Timeout, _) => "the command timed out".to_owned(),
        (Status::Cancelled, _) => "the command was stopped".to_owned(),
        (Status::Interrupted | Status::Unknown, _) => "the outcome of the command is unknown".to_owned(),
        (Status::Ok | Status::Failed | Status::Rejected, _) => {
            outcome.output.lines().next().unwrap_or("the call failed").to_owned()
        }
    }
}

/// Lists the hosts where the command failed, without those that were skipped.
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
