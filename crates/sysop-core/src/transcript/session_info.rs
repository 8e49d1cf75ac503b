//! Configuration of a session, for headers and status lines.

use std::collections::BTreeMap;

use super::Proposal;
use crate::auto_meter::AutoMeter;
use crate::event::ConfigChange;
use crate::host_names::fold_names;
use crate::id::Timestamp;
use crate::message::ModelRef;
use crate::missed_hosts::MissedHosts;
use crate::mode::Mode;
use crate::model_limits::ModelLimits;
use crate::policy::{ApprovalMode, SandboxMode};
use crate::spec::SessionSpec;
use crate::tool::{CLIENT_MACHINE, ClientTools, ToolEffect, ToolSpec};
use crate::ui_text;

/// Host name of a session whose only tools are client tools.
const NO_HOST: &str = "none";
/// Name of this machine.
const LOCAL: &str = "local";

/// Configuration of a session, for headers and status lines.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    pub model: ModelRef,
    pub approve: ApprovalMode,
    /// Bounds of `auto` mode that are in effect.
    pub auto: AutoMeter,
    pub sandbox: SandboxMode,
    pub mode: Mode,
    /// Maximum model calls per turn.
    pub max_iterations: u32,
    pub host: String,
    /// Number of hosts on which changes run first; `None` if they run on all hosts at once.
    pub canary: Option<u32>,
    pub root: String,
    pub profile: String,
    pub client_tools: Vec<String>,
    /// Root of the file tools on the client; empty if there are no client tools.
    pub client_root: String,
    /// Hosts that the last calls on several hosts did not reach.
    pub missed_hosts: MissedHosts,
    /// Limits of models from the config. The keys have the form `PROVIDER/NAME`.
    models: BTreeMap<String, ModelLimits>,
    /// Tools of the session's spec that end the turn with a summary.
    completing: Vec<String>,
    /// Client tools that end the turn with a summary.
    client_completing: Vec<String>,
    /// Tools of the session's spec that run the command in their arguments.
    commanding: Vec<String>,
    /// Client tools that run the command in their arguments.
    client_commanding: Vec<String>,
}

impl SessionInfo {
    pub(super) fn of(spec: &SessionSpec) -> Self {
        let mut auto = AutoMeter::default();
        auto.open(spec);
        Self {
            model: spec.model.clone(),
            approve: spec.approve,
            auto,
            sandbox: spec.policy.sandbox.mode,
            mode: Mode::default(),
            max_iterations: spec.max_iterations,
            host: spec.host.clone(),
            canary: spec.canary,
            root: spec.root.clone(),
            profile: spec.profile.clone(),
            client_tools: Vec::new(),
            client_root: String::new(),
            missed_hosts: MissedHosts::default(),
            models: spec.models.clone(),
            completing: named(&spec.tools, ToolEffect::Completes),
            client_completing: Vec::new(),
            commanding: named(&spec.tools, ToolEffect::Command),
            client_commanding: Vec::new(),
        }
    }

    pub(super) fn configure(&mut self, change: &ConfigChange) {
        self.auto.configure(change);
        match change {
            ConfigChange::Model(model) => self.model = model.clone(),
            ConfigChange::Approve(mode) => self.approve = *mode,
            ConfigChange::Auto(_) => self.approve = ApprovalMode::Auto,
            ConfigChange::Mode(mode) => self.mode = *mode,
            ConfigChange::Effort(_) | ConfigChange::Budget(_) | ConfigChange::Revoke(_) => {}
            ConfigChange::Rules { options, .. } => {
                self.sandbox = options.as_ref().map_or(self.sandbox, |options| options.sandbox.mode);
            }
            ConfigChange::ClientTools(client_tools) => self.set_client_tools(client_tools),
        }
    }

    fn set_client_tools(&mut self, client_tools: &ClientTools) {
        self.client_tools = client_tools.tools.iter().map(|tool| tool.name.clone()).collect();
        self.client_root.clone_from(&client_tools.root);
        self.client_completing = named(&client_tools.tools, ToolEffect::Completes);
        self.client_commanding = named(&client_tools.tools, ToolEffect::Command);
    }

    /// Returns the approval mode for the status line, with what is left of its bounds: `auto (12 commands, 18m left)`.
    /// `now` is the time, if known.
    pub fn approval_status(&self, now: Option<Timestamp>) -> String {
        let label = approval_label(self.approve);
        let Some(auto) = self.auto.progress() else { return label.to_owned() };
        let until = auto.bounds.until.unwrap_or_default();
        let seconds = i64::try_from(auto.bounds.seconds.unwrap_or_default()).unwrap_or_default();
        let start = Timestamp(until.0.saturating_sub(seconds.saturating_mul(1000)));
        format!("{label} ({} left)", auto.left(now.unwrap_or(start)))
    }

    /// Returns a label for the status line if the settings require a fence for every command in the model's own shells,
    /// otherwise `None`. The label says if the session's host cannot enforce the fence; sessions on other machines have
    /// the mode `off`. A server does not tell the fence of its own machine, so that there is no label.
    pub fn fence_label(&self) -> Option<&'static str> {
        match (self.sandbox, self.approve) {
            (SandboxMode::Off | SandboxMode::Auto, ApprovalMode::Never) if self.runs_elsewhere() => {
                Some("sandbox not enforced")
            }
            (SandboxMode::On, _) | (SandboxMode::Auto, ApprovalMode::Never) => Some("sandboxed"),
            (SandboxMode::Off | SandboxMode::Auto, _) => None,
        }
    }

    /// Returns true if commands run on another machine than the process that runs the session.
    fn runs_elsewhere(&self) -> bool {
        self.host != LOCAL && !ui_text::is_server_machine(&self.host)
    }

    pub(super) fn configured_window(&self) -> Option<u32> {
        self.models.get(&self.model.to_string())?.context_window
    }

    /// Returns a sentence about the hosts on which a change runs first, or `None` if it runs on all hosts.
    pub fn canary_sentence(&self) -> Option<String> {
        let count = usize::try_from(self.canary?).ok()?;
        let names: Vec<&str> = self.host.split(',').map(str::trim).collect();
        let first = fold_names(names.get(..count).filter(|first| first.len() < names.len())?);
        Some(format!(
            "canary: {first} first; the other hosts only if all of these succeed with the same result"
        ))
    }

    /// Returns the location of the tools: the host, or the client if the session has no host.
    pub fn place(&self) -> &str {
        if self.host == NO_HOST && !self.client_tools.is_empty() { CLIENT_MACHINE } else { &self.host }
    }

    /// Returns the location of a tool: its host and the root there.
    pub fn place_of(&self, tool: &str) -> (&str, &str) {
        let client_tools = self.client_tools.iter().any(|name| name == tool);
        if client_tools { (CLIENT_MACHINE, &self.client_root) } else { (&self.host, &self.root) }
    }

    /// Returns the location of a proposed call: its host and its directory there.
    pub fn place_of_plan<'a>(&'a self, plan: &'a Proposal) -> (&'a str, &'a str) {
        let (host, root) = self.place_of(&plan.call.name);
        (host, plan.folder.as_deref().unwrap_or(root))
    }

    pub(super) fn completes(&self, tool: &str) -> bool {
        self.is_among(tool, &self.completing, &self.client_completing)
    }

    /// Returns true if the tool runs the command in its arguments.
    pub(super) fn commands(&self, tool: &str) -> bool {
        self.is_among(tool, &self.commanding, &self.client_commanding)
    }

    pub(super) fn is_among(&self, tool: &str, own: &[String], client_tools: &[String]) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == tool);
        if named(&self.client_tools) { named(client_tools) } else { named(own) }
    }
}

/// Returns the name of an approval mode, as in `--approve`.
pub fn approval_label(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Each => "each",
        ApprovalMode::Ask => "ask",
        ApprovalMode::Auto => "auto",
        ApprovalMode::Never => "never",
    }
}

fn named(tools: &[ToolSpec], effect: ToolEffect) -> Vec<String> {
    tools.iter().filter(|tool| tool.effect == effect).map(|tool| tool.name.clone()).collect()
}
