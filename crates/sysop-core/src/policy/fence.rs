//! The fence of a call: what the kernel lets a command do, whatever its text was judged to be.
//!
//! The policy reads commands, and reading can be wrong. Where the machine offers it, the kernel holds the command to what it
//! was judged by. This module says which fence a call gets; the host builds it, or runs nothing. A host that cannot build
//! fences is given none: its sessions have [`SandboxMode::Off`].

use serde::{Deserialize, Serialize};
use sysop_shell as shell;

use super::{ApprovalMode, Assessment, Finding, Policy, READ_ONLY_REFUSAL, RiskClass, Survey, Verdict};
use crate::catalog::OUTSIDE_SANDBOX;
use crate::message::{Arguments, ToolCall};
use crate::tool::{ToolEffect, ToolSpec};

/// The tool whose commands are fenced in every mode that fences.
const BASH: &str = "bash";
/// The tool whose commands run in a terminal.
const RUN_COMMAND: &str = "run_command";

/// Programs that cannot work behind a fence: they gain rights, or have a service do the work. They run as they were judged.
const UNCONFINED: &[&str] = &[
    "apt",
    "apt-get",
    "at",
    "bwrap",
    "chsh",
    "crontab",
    "dnf",
    "doas",
    "docker",
    "flatpak",
    "hostnamectl",
    "localectl",
    "loginctl",
    "mount",
    "newgrp",
    "nsenter",
    "passwd",
    "ping",
    "pkexec",
    "podman",
    "runuser",
    "scp",
    "service",
    "sftp",
    "snap",
    "ssh",
    "su",
    "sudo",
    "systemctl",
    "timedatectl",
    "umount",
    "unshare",
    "yum",
    "zypper",
];

/// When commands are fenced (`sandbox`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// Never.
    #[default]
    Off,
    /// In `never`, and plain changes in `auto`.
    Auto,
    /// Always.
    On,
}

impl SandboxMode {
    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Off, Self::Auto, Self::On].into_iter().find(|mode| mode.as_str() == name)
    }

    /// The word for it in config files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        }
    }
}

/// What the config says of fences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxOptions {
    /// When commands are fenced.
    pub mode: SandboxMode,
    /// Absolute paths that changes may write below, beside the root and temporary folders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether changes may connect.
    pub network: bool,
}

impl SandboxOptions {
    /// Whether nothing is fenced and nothing else is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the kernel lets the processes of a call do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fence {
    /// Whatever their user may do.
    #[default]
    Off,
    /// Read, and write to a temporary folder of their own.
    ReadOnly {
        /// Whether they may connect.
        network: bool,
    },
    /// Read, and write below the root, temporary folders and `write`.
    Workspace {
        /// More folders to write below.
        write: Vec<String>,
        /// Whether they may connect.
        network: bool,
    },
}

/// Whether a call asks to run without a fence.
fn is_outside(call: &ToolCall) -> bool {
    matches!(&call.arguments, Arguments::Object(map) if map.get(OUTSIDE_SANDBOX).is_some_and(|value| *value == true))
}

impl Policy {
    /// The fence of a call of a model that may run. `assessment` is what the policy says of it.
    pub fn fence(
        &self,
        mode: ApprovalMode,
        survey: &Survey,
        spec: &ToolSpec,
        call: &ToolCall,
        assessment: &Assessment,
    ) -> Fence {
        let sandbox = &self.options.sandbox;
        let class = assessment.risk.class;
        let workspace = || Fence::Workspace { write: sandbox.write.clone(), network: sandbox.network };
        let is_bash = spec.name == BASH && spec.effect == ToolEffect::Command;
        match (sandbox.mode, mode) {
            (SandboxMode::Off, _) => Fence::Off,
            _ if spec.name == RUN_COMMAND || spec.effect == ToolEffect::Keys => self.shell_fence(mode),
            (SandboxMode::Auto | SandboxMode::On, ApprovalMode::Never) => {
                Fence::ReadOnly { network: self.options.never_network && class == RiskClass::ReadsRemote }
            }
            (SandboxMode::On, _) if is_bash => workspace(),
            (SandboxMode::Auto, ApprovalMode::Auto) if is_bash => {
                let is_user = survey.context.uid.is_some_and(|uid| uid != 0);
                let runs = assessment.verdict == Verdict::Allow && class == RiskClass::Changes;
                let command = call.text_argument("command").unwrap_or_default();
                let plain = || {
                    let analysis = shell::analyze(command, survey);
                    !analysis.invocations.iter().any(|invocation| is_unconfined(&invocation.words))
                };
                if is_user && runs && plain() { workspace() } else { Fence::Off }
            }
            (SandboxMode::Auto | SandboxMode::On, _) => Fence::Off,
        }
    }

    /// The fence of the shell in which `run_command` of a model runs: in `never` it has one of its own, elsewhere it runs in
    /// the one that people share.
    pub fn shell_fence(&self, mode: ApprovalMode) -> Fence {
        match (self.options.sandbox.mode, mode) {
            (SandboxMode::Auto | SandboxMode::On, ApprovalMode::Never) => {
                Fence::ReadOnly { network: self.options.never_network }
            }
            (SandboxMode::Off | SandboxMode::Auto | SandboxMode::On, _) => Fence::Off,
        }
    }

    /// The assessment of a call that asks to run without a fence: it asks whatever it does, and is denied where nobody may
    /// allow it. Any other call keeps its assessment.
    pub fn assess_outside(&self, mode: ApprovalMode, call: &ToolCall, assessment: Assessment) -> Assessment {
        let sandbox = self.options.sandbox.mode;
        if sandbox == SandboxMode::Off || !is_outside(call) || assessment.verdict == Verdict::Deny {
            return assessment;
        }
        let refusal = match (sandbox, mode) {
            (SandboxMode::On, _) => {
                "refused: every command runs in the sandbox here (sandbox = on); nothing ran"
            }
            (_, ApprovalMode::Never) => READ_ONLY_REFUSAL,
            _ if call.reason().trim().is_empty() => {
                "not run: a call with outside_sandbox says in `reason` why it needs that"
            }
            _ => return unconfined(assessment),
        };
        Assessment { verdict: Verdict::Deny, refusal: refusal.to_owned(), ..assessment }
    }
}

/// The same call as a person is asked about it.
fn unconfined(mut assessment: Assessment) -> Assessment {
    let why = "runs outside the sandbox".to_owned();
    assessment.risk.class = assessment.risk.class.max(RiskClass::Changes);
    assessment.risk.findings.push(Finding { start: 0, end: 0, class: RiskClass::Changes, why });
    Assessment { verdict: Verdict::Ask, ..assessment }
}

fn is_unconfined(words: &[Option<String>]) -> bool {
    let program = words.first().and_then(Option::as_deref).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    UNCONFINED.contains(&name)
}
