//! Who may run what: modes, verdicts, risks, grants. Deny beats allow; what is not understood asks.

use regex::Regex;
use serde::{Deserialize, Serialize};

use sysop_shell::{self as shell, Analysis};
pub use sysop_shell::{Finding, Grant, Risk, RiskClass};

use crate::tool::{ToolEffect, ToolSpec};

/// How much runs without a person (`--approve`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Every change is asked about.
    #[default]
    Ask,
    /// Runs by itself; what is dangerous or opaque still asks.
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
    pub fn risk(&self, command: &str) -> Risk {
        self.judge(command, &shell::analyze(command))
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
    pub fn command(&self, mode: ApprovalMode, grants: &[Grant], command: &str) -> Assessment {
        let analysis = shell::analyze(command);
        let risk = self.judge(command, &analysis);
        let covers = match risk.class {
            RiskClass::ReadOnly | RiskClass::Changes => shell::grant_for(command, &analysis),
            RiskClass::Opaque | RiskClass::Dangerous => Grant::Exact { command: command.to_owned() },
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
            ApprovalMode::Auto if granted || risk.class <= RiskClass::Changes => Verdict::Allow,
            ApprovalMode::Ask if granted => Verdict::Allow,
            ApprovalMode::Auto | ApprovalMode::Ask => Verdict::Ask,
        };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict) }
    }

    /// Whether a rule forbids this command whatever anybody allows; the rule, if so.
    pub fn denies(&self, command: &str) -> Option<&str> {
        self.denying(command, &shell::analyze(command))
    }

    fn denying(&self, command: &str, analysis: &Analysis) -> Option<&str> {
        let rule = self.deny.iter().find(|pattern| pattern.find_in(command, analysis).is_some())?;
        Some(&rule.text)
    }

    /// Assesses keys for a terminal by the text that they type: a shell there would run it as a command.
    pub fn keys(&self, mode: ApprovalMode, grants: &[Grant], spec: &ToolSpec, keys: &str) -> Assessment {
        let typed = typed_text(keys);
        let analysis = shell::analyze(&typed);
        let mut risk = self.judge(&typed, &analysis);
        risk.class = risk.class.max(RiskClass::Changes);
        for finding in &mut risk.findings {
            (finding.start, finding.end) = (0, 0); // places in the typed text; what is shown are the keys
        }
        let covers = Grant::Tool { name: spec.name.clone() };
        if let Some(rule) = self.denying(&typed, &analysis) {
            let refusal = format!("refused by the rule `{rule}`; do not try to get around it");
            return Assessment { verdict: Verdict::Deny, risk, covers, refusal };
        }
        let plain = risk.class <= RiskClass::Changes;
        let verdict = match mode {
            ApprovalMode::Never => Verdict::Deny,
            ApprovalMode::Auto if plain => Verdict::Allow,
            ApprovalMode::Ask if plain && grants.contains(&covers) => Verdict::Allow,
            ApprovalMode::Auto | ApprovalMode::Ask => Verdict::Ask,
        };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict) }
    }

    /// Whether a rule forbids what these keys type; the rule, if so.
    pub fn denies_keys(&self, keys: &str) -> Option<&str> {
        self.denies(&typed_text(keys))
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
            ApprovalMode::Ask if grants.contains(&covers) => Verdict::Allow,
            ApprovalMode::Ask => Verdict::Ask,
        };
        let risk = Risk { class, findings: Vec::new() };
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict) }
    }
}

/// The text that keys type: tokens are split on spaces, `"…"` holds one together, `Space`, `Tab` and `Enter` are
/// what they say. Any other token stands for itself: at worst the name of a key is read as a word.
fn typed_text(keys: &str) -> String {
    let mut text = String::new();
    let mut rest = keys.trim_start_matches(' ');
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (token, after) = quoted.or_else(|| rest.split_once(' ')).unwrap_or((rest, ""));
        if quoted.is_some() {
            text.push_str(token);
        } else {
            match token.to_ascii_lowercase().as_str() {
                "space" => text.push(' '),
                "tab" => text.push('\t'),
                "enter" | "return" => text.push('\n'),
                _ => text.push_str(token),
            }
        }
        rest = after.trim_start_matches(' ');
    }
    text
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
