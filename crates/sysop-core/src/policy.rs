//! Who may run what: modes, verdicts, risks, grants. Deny beats allow; what is not understood asks.

mod keys;

use regex::Regex;
use serde::{Deserialize, Serialize};

use sysop_shell::{self as shell, Analysis};
pub use sysop_shell::{
    Access, CommandContext, Dialect, Finding, Grant, Resolution, ResolvedFile, ResolvedTarget, Risk,
    RiskClass, Survey, Target, TerminalFocus,
};

use crate::tool::{ToolEffect, ToolSpec};

/// How much runs without a person (`--approve`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Every command is asked about.
    Each,
    /// What is known to be read-only runs; everything else is asked about.
    #[default]
    Ask,
    /// Runs by itself; what is opaque or dangerous is still asked about.
    Auto,
    /// Only what is known to be read-only runs.
    Never,
}

/// What the policy says of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

/// What the policy says of one call, and what a person should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The verdict.
    pub verdict: Verdict,
    /// The risk, to be shown.
    pub risk: Risk,
    /// What "for this session" would cover.
    pub covers: Grant,
    /// Why it is denied, for the model; empty otherwise.
    pub refusal: String,
}

/// Decides which calls run, which are asked about and which do not run.
#[derive(Debug)]
pub struct Policy {
    dangerous: Vec<Pattern>,
    deny: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    /// None where the text is no regular expression: it then matches everything, so that a slip in a
    /// config file cannot weaken the policy.
    regex: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), regex: Regex::new(text).ok() }
    }

    fn find(&self, command: &str) -> Option<(usize, usize)> {
        match &self.regex {
            Some(regex) => regex.find(command).map(|found| (found.start(), found.end())),
            None => Some((0, command.len())),
        }
    }

    /// Finds the pattern in the command as written or in what its words come to without their quotes.
    fn find_in(&self, command: &str, analysis: &Analysis) -> Option<(usize, usize)> {
        self.find(command).or_else(|| {
            let unquoted = analysis.invocations.iter().any(|invocation| {
                let words: Vec<_> =
                    invocation.words.iter().map(|word| word.as_deref().unwrap_or_default()).collect();
                self.find(&words.join(" ")).is_some()
            });
            unquoted.then_some((0, command.len()))
        })
    }
}

impl Policy {
    /// Compiles the patterns. One that does not compile matches every command.
    pub fn new(dangerous: &[String], deny: &[String]) -> Self {
        let compile = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        Self { dangerous: compile(dangerous), deny: compile(deny) }
    }

    /// What a command can do: its grammar and the dangerous patterns, whichever is worse.
    pub fn risk(&self, command: &str, survey: &Survey) -> Risk {
        self.judge(command, &shell::analyze(command, survey))
    }

    fn judge(&self, command: &str, analysis: &Analysis) -> Risk {
        let mut risk = analysis.risk.clone();
        for pattern in &self.dangerous {
            if let Some((start, end)) = pattern.find_in(command, analysis) {
                let why = format!("matches the dangerous pattern `{}`", pattern.text);
                risk.findings.push(Finding { start, end, class: RiskClass::Dangerous, why });
                risk.class = RiskClass::Dangerous;
            }
        }
        risk
    }

    /// Assesses a shell command.
    pub fn command(
        &self,
        mode: ApprovalMode,
        grants: &[Grant],
        survey: &Survey,
        command: &str,
    ) -> Assessment {
        let analysis = shell::analyze(command, survey);
        let risk = self.judge(command, &analysis);
        let covers = if risk.class <= RiskClass::Changes {
            shell::grant_for(command, &analysis)
        } else {
            Grant::Exact { command: command.to_owned() }
        };
        if let Some(rule) = self.denying(command, &analysis) {
            let refusal = format!("refused by the rule `{rule}`; do not try to get around it");
            return Assessment { verdict: Verdict::Deny, risk, covers, refusal };
        }
        let granted = grants.iter().any(|grant| match grant {
            Grant::Exact { command: exact } => exact == command,
            Grant::Program { .. } => {
                risk.class <= RiskClass::Changes && shell::covers(grant, command, &analysis)
            }
            Grant::Tool { .. } => false,
        });
        let verdict = match mode {
            ApprovalMode::Never if risk.class == RiskClass::ReadOnly => Verdict::Allow,
            ApprovalMode::Never => Verdict::Deny,
            _ if risk.class.always_asks() => Verdict::Ask,
            ApprovalMode::Ask if risk.class == RiskClass::ReadOnly => Verdict::Allow,
            ApprovalMode::Auto if risk.class <= RiskClass::Changes => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask | ApprovalMode::Auto if granted => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask | ApprovalMode::Auto => Verdict::Ask,
        };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict) }
    }

    /// Whether a rule forbids this command whatever anybody allows; the rule, if so.
    pub fn denies(&self, command: &str, survey: &Survey) -> Option<&str> {
        self.denying(command, &shell::analyze(command, survey))
    }

    fn denying(&self, command: &str, analysis: &Analysis) -> Option<&str> {
        let rule = self.deny.iter().find(|pattern| pattern.find_in(command, analysis).is_some())?;
        Some(&rule.text)
    }

    /// Assesses a call of a tool that neither runs a command nor types keys.
    pub fn tool(&self, mode: ApprovalMode, grants: &[Grant], spec: &ToolSpec) -> Assessment {
        let covers = Grant::Tool { name: spec.name.clone() };
        let read_only = matches!(spec.effect, ToolEffect::Reads | ToolEffect::Completes);
        let class = if read_only { RiskClass::ReadOnly } else { RiskClass::Changes };
        let verdict = match mode {
            _ if read_only => Verdict::Allow,
            ApprovalMode::Never => Verdict::Deny,
            ApprovalMode::Auto => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask if grants.contains(&covers) => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask => Verdict::Ask,
        };
        let risk = Risk { class, findings: Vec::new() };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict) }
    }
}

fn read_only_refusal(verdict: Verdict) -> String {
    match verdict {
        Verdict::Deny => {
            "refused: this session is read-only (approve = never); nothing that changes anything runs"
        }
        Verdict::Allow | Verdict::Ask => "",
    }
    .to_owned()
}
