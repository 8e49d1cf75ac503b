//! Fences: the restrictions that the kernel enforces on a call, independent of the analysis of its text.
//!
//! The analysis of a command can be wrong. Where the machine supports it, the kernel limits the command to the effects
//! that the policy assessed. This module selects the fence; the host either builds it or does not run the command. If
//! the host cannot build fences, the session has [`SandboxMode::Off`]. The exception is [`SandboxMode::On`] on this
//! machine, in which case no fenced command runs.

use serde::{Deserialize, Serialize};
use sysop_shell as shell;

use super::{ApprovalMode, Assessment, Finding, Policy, READ_ONLY_REFUSAL, RiskClass, Survey, Verdict};
use crate::catalog::{BASH_TOOL, OUTSIDE_SANDBOX};
use crate::message::{Arguments, ToolCall};
use crate::tool::{RUN_COMMAND, ToolEffect, ToolSpec};

/// Programs that cannot work behind a fence, because they gain privileges or delegate to a service. If both
/// the sandbox mode and the approval mode are `auto`, a command that contains one of these programs runs
/// without a fence. Only the policy's assessment then decides if the command runs.
const UNCONFINED: &[&str] = &[
    "apt", "apt-get", "at", "bwrap", "chsh", "crontab", "dnf", "doas", "docker", "flatpak", "hostnamectl",
    "localectl", "loginctl", "mount", "newgrp", "nsenter", "passwd", "ping", "pkexec", "podman", "runuser",
    "scp", "service", "sftp", "snap", "ssh", "su", "sudo", "systemctl", "timedatectl", "umount", "unshare",
    "yum", "zypper",
];

/// Setting that decides when commands are fenced (`sandbox` in the config).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    #[default]
    Off,
    /// All commands are fenced in approval mode `never`. In approval mode `auto`, commands of `bash` that the
    /// policy assesses as plain changes are fenced, unless they run as root or contain a program that cannot work
    /// behind a fence.
    Auto,
    On,
}

impl SandboxMode {
    /// Returns the name used in config files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxOptions {
    pub mode: SandboxMode,
    /// Absolute paths to which changing commands may write, in addition to the root and the temporary directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// True if changing commands may access the network.
    pub network: bool,
}

impl SandboxOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Permissions of a call's processes, enforced by the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fence {
    /// All of the user's permissions.
    #[default]
    Off,
    /// Read everything; write only to a private temporary directory.
    ReadOnly {
        /// True if the network is allowed.
        network: bool,
    },
    /// Read everything; write below the root, temporary directories and `write`.
    Workspace {
        /// Further writable directories.
        write: Vec<String>,
        /// True if the network is allowed.
        network: bool,
    },
}

/// Returns true if a call asks to run without a fence.
fn is_outside(call: &ToolCall) -> bool {
    matches!(&call.arguments, Arguments::Object(map) if map.get(OUTSIDE_SANDBOX).is_some_and(|value| *value == true))
}

impl Policy {
    /// Returns the fence for a model's call that may run. `assessment` is the policy's assessment of the call.
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
        let is_bash = spec.name == BASH_TOOL && spec.effect == ToolEffect::Command;
        match (sandbox.mode, mode) {
            (SandboxMode::Off, _) => Fence::Off,
            _ if spec.effect.is_external() => Fence::Off, // the server is already running, outside
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

    /// Returns the fence of the shell in which a model's `run_command` runs. In approval mode `never` this is
    /// a private shell, otherwise the shared one.
    pub fn shell_fence(&self, mode: ApprovalMode) -> Fence {
        match (self.options.sandbox.mode, mode) {
            (SandboxMode::Auto | SandboxMode::On, ApprovalMode::Never) => {
                Fence::ReadOnly { network: self.options.never_network }
            }
            (SandboxMode::Off | SandboxMode::Auto | SandboxMode::On, _) => Fence::Off,
        }
    }

    /// Adjusts the assessment of a call that asks to run without a fence. Such a call always needs approval.
    /// It is denied in sandbox mode `on`, in approval mode `never`, or if it gives no reason. Other calls
    /// keep their assessment.
    pub fn assess_outside(&self, mode: ApprovalMode, call: &ToolCall, assessment: Assessment) -> Assessment {
        let sandbox = self.options.sandbox.mode;
        if sandbox == SandboxMode::Off || !is_outside(call) || assessment.verdict == Verdict::Deny {
            return assessment;
        }
        let refusal = match (sandbox, mode) {
            (SandboxMode::On, _) => {
                "denied: every command must run in the sandbox (sandbox = on); nothing ran"
            }
            (_, ApprovalMode::Never) => READ_ONLY_REFUSAL,
            _ if call.reason().trim().is_empty() => {
                "denied: `outside_sandbox` also requires the argument `reason`; nothing ran"
            }
            _ => return unconfined(assessment),
        };
        Assessment { verdict: Verdict::Deny, refusal: refusal.to_owned(), ..assessment }
    }
}

/// Changes an assessment so that the call needs approval to run outside the sandbox.
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
