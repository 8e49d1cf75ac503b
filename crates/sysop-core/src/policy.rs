//! The approval policy: modes, verdicts, risks, grants. Deny beats allow; a call that cannot be analyzed needs
//! approval.

mod fence;
mod keys;
mod rules;
mod targets;

use regex::Regex;
use serde::{Deserialize, Serialize};

use sysop_shell::{self as shell, Analysis};
pub use sysop_shell::{
    Access, CommandContext, Dialect, Finding, Grant, GuardOffer, NO_ANSWER, NOT_REACHED, Resolution,
    ResolvedFile, ResolvedTarget, Risk, RiskClass, Survey, Target, TerminalFocus, UndoOffer,
    is_plain_git_setting, single_quoted,
};

pub use self::fence::{Fence, SandboxMode, SandboxOptions};
pub(crate) use self::rules::survey_as_written;
pub use self::rules::{CommandPattern, Rule, RuleAction, glob_matches, literal_glob};
pub use self::targets::{
    TARGETS_MAX, command_targets, reading_needs_no_approval, reads_with_git, targets_of,
};
use crate::catalog::REMEMBER_TOOL;
use crate::message::ToolCall;
use crate::tool::{ToolEffect, ToolSpec};
use crate::undo::UNDO_TOOL;

/// Extent to which calls run without a user's consent (`--approve`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Every command needs approval.
    Each,
    /// Read-only commands run; everything else needs approval.
    #[default]
    Ask,
    /// Commands that make changes run; opaque and dangerous commands need approval.
    Auto,
    /// Read-only commands run; nothing else does.
    Never,
}

impl ApprovalMode {
    /// All modes, in the order in which they are listed for users.
    pub const ALL: [Self; 4] = [Self::Each, Self::Ask, Self::Auto, Self::Never];

    /// Returns the name used in flags, messages and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Returns the stricter of two modes.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let rank = |mode: &Self| match mode {
            Self::Auto => 0,
            Self::Ask => 1,
            Self::Each => 2,
            Self::Never => 3,
        };
        std::cmp::max_by_key(self, other, rank)
    }

    /// Returns the mode to use if only `self` is certain to be what the user wants, and `other` may restrict it.
    /// `never` would run commands that only read without the question that `each` asks, so it does not replace `each`.
    #[must_use]
    pub fn tightened(self, other: Self) -> Self {
        match (self, other) {
            (Self::Each, Self::Never) => Self::Each,
            _ => self.stricter(other),
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Each => "ask before every command",
            Self::Ask => "run read-only commands, ask before everything else",
            Self::Auto => {
                "run commands that make changes; ask before dangerous ones and code that cannot be checked"
            }
            Self::Never => "run read-only commands only",
        }
    }
}

/// Form of an approval mode in logs. In logs written by 0.1.0, `ask` meant that every command needs approval, so it is
/// read as [`ApprovalMode::Each`]. The current mode `ask` is logged as `ask_unless_read_only`.
pub mod logged_mode {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ApprovalMode;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum LoggedMode {
        Each,
        /// Written by 0.1.0 only; read as `Each`.
        Ask,
        AskUnlessReadOnly,
        Auto,
        Never,
    }

    /// Serializes the name used in logs. Fails if the serializer fails.
    pub fn serialize<S: Serializer>(mode: &ApprovalMode, serializer: S) -> Result<S::Ok, S::Error> {
        let logged = match mode {
            ApprovalMode::Each => LoggedMode::Each,
            ApprovalMode::Ask => LoggedMode::AskUnlessReadOnly,
            ApprovalMode::Auto => LoggedMode::Auto,
            ApprovalMode::Never => LoggedMode::Never,
        };
        logged.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ApprovalMode, D::Error> {
        Ok(match LoggedMode::deserialize(deserializer)? {
            LoggedMode::Each | LoggedMode::Ask => ApprovalMode::Each,
            LoggedMode::AskUnlessReadOnly => ApprovalMode::Ask,
            LoggedMode::Auto => ApprovalMode::Auto,
            LoggedMode::Never => ApprovalMode::Never,
        })
    }
}

/// Policy settings other than the approval mode and the patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyOptions {
    /// True if read-only commands may use the network in [`ApprovalMode::Never`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_network: bool,
    /// True if even read-only commands need approval in [`ApprovalMode::Never`]. This is set when that mode is combined
    /// with [`ApprovalMode::Each`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_asks: bool,
    #[serde(skip_serializing_if = "SandboxOptions::is_default")]
    pub sandbox: SandboxOptions,
    /// Number of different people who must allow a call; 0 counts as 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub approvals: u32,
    /// Seconds after which an approval that nobody answers is rejected; 0 for never.
    #[serde(skip_serializing_if = "is_zero")]
    pub approval_expires_s: u32,
    /// True if the user's hooks examine calls before they run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hooks: bool,
    /// True if the user's hooks examine prompts before a model gets them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompt_hooks: bool,
    /// Tags that all hosts of the session have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The user's rules, in config order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PolicyOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Scope of a grant: one tool, directory, host and user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    pub tool: String,
    /// Working directory of a command, or root of a file tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Host as the user named it; `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl GrantScope {
    /// Returns the scope of a call, or `None` if its directory is unknown, because nothing can be granted then.
    pub fn of(spec: &ToolSpec, survey: &Survey) -> Option<Self> {
        let context = &survey.context;
        let folder = match spec.effect {
            ToolEffect::Command | ToolEffect::Keys => &context.folder,
            ToolEffect::Reads
            | ToolEffect::Writes
            | ToolEffect::Completes
            | ToolEffect::Session
            | ToolEffect::External
            | ToolEffect::ExternalReads => &context.root,
        };
        // The machine that assesses the call again has its own grants.
        if folder.is_none() && survey.resolution != Resolution::Elsewhere {
            return None;
        }
        Some(Self {
            tool: spec.name.clone(),
            folder: folder.clone(),
            host: context.host.clone(),
            user: context.user.clone(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedGrant {
    pub grant: Grant,
    pub scope: GrantScope,
}

pub fn grants_for(grants: &[ScopedGrant], spec: &ToolSpec, survey: &Survey) -> Vec<Grant> {
    let Some(scope) = GrantScope::of(spec, survey) else { return Vec::new() };
    grants.iter().filter(|granted| granted.scope == scope).map(|granted| granted.grant.clone()).collect()
}

/// Decision of the policy on one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Ask,
    /// Do not run.
    Deny,
}

/// Decision of the policy on one call, with the facts to show to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub verdict: Verdict,
    pub risk: Risk,
    /// Calls that the answer "allow for this session" would cover.
    pub covers: Grant,
    /// Message for the model if the call is denied; empty otherwise.
    pub refusal: String,
    /// The rule that decided, if any: its file and line, or its pattern.
    pub rule: Option<String>,
}

/// The default `dangerous_patterns`, each with the danger in words. Users need not read regular expressions that they
/// did not write.
pub const BUILT_IN_PATTERNS: [(&str, &str); 5] = [
    (r"rm\s+-rf\s+/", "recursive delete"),
    ("mkfs", "overwrites a device with a new file system"),
    (r"dd\s+if=", "copies raw data with dd"),
    (r":\(\)\s*\{", "a function that calls itself endlessly (fork bomb)"),
    (r">\s*/dev/sd", "writes to a block device"),
];

/// Beginning of a pattern of `deny` that stands for an error in the config; the place of the error follows. No regular
/// expression begins with `?`, so the pattern denies every command.
pub const CONFIG_ERROR: &str = "?? error at ";

/// Names the rule that decided about a call: a pattern, the place of a rule, or an error in the config.
pub fn named_rule(rule: &str) -> String {
    match rule.strip_prefix(CONFIG_ERROR) {
        Some(place) => format!("the config error at {place}"),
        None => format!("the rule `{rule}`"),
    }
}

/// Returns the place of the error in the config that denied a call, or `None` if its refusal has another reason.
pub fn config_error_place(refusal: &str) -> Option<&str> {
    let place = refusal_for_people(refusal).strip_prefix("denied by the config error at ")?;
    Some(place.strip_suffix("; nothing ran").unwrap_or(place))
}

fn built_in_meaning(pattern: &str) -> Option<&'static str> {
    BUILT_IN_PATTERNS.iter().find(|(known, _)| *known == pattern).map(|(_, meaning)| *meaning)
}

/// Decides for each call if it runs, needs approval, or is denied.
#[derive(Debug)]
pub struct Policy {
    dangerous: Vec<Pattern>,
    deny: Vec<Pattern>,
    options: PolicyOptions,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    /// `None` if the text is not a valid regular expression: the pattern then matches everything.
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

    /// Returns the byte range that matches in the command as written. If only its words after quote removal match,
    /// returns the range of the shortest simple command whose words do.
    fn find_in(&self, command: &str, analysis: &Analysis) -> Option<(usize, usize)> {
        self.find(command).or_else(|| {
            let unquoted = analysis.invocations.iter().filter(|invocation| {
                let words: Vec<_> =
                    invocation.words.iter().map(|word| word.as_deref().unwrap_or_default()).collect();
                self.find(&words.join(" ")).is_some()
            });
            unquoted.map(|invocation| invocation.span).min_by_key(|(start, end)| end - start)
        })
    }
}

impl Policy {
    /// Compiles the patterns. An invalid `dangerous` pattern is ignored; an invalid `deny` pattern denies every
    /// command and every change by a tool, so that a typo cannot allow anything.
    pub fn new(dangerous: &[String], deny: &[String]) -> Self {
        let dangerous = dangerous.iter().map(|text| Pattern::new(text));
        Self {
            dangerous: dangerous.filter(|pattern| pattern.regex.is_some()).collect(),
            deny: deny.iter().map(|text| Pattern::new(text)).collect(),
            options: PolicyOptions::default(),
        }
    }

    #[must_use]
    pub fn with_options(self, options: PolicyOptions) -> Self {
        Self { options, ..self }
    }

    /// Assesses the risk of a command. The result is the worse of the risk found by the shell analysis and the risk of
    /// the dangerous patterns that match.
    pub fn risk(&self, command: &str, survey: &Survey) -> Risk {
        self.judge(command, &shell::analyze(command, survey))
    }

    fn judge(&self, command: &str, analysis: &Analysis) -> Risk {
        let mut risk = analysis.risk.clone();
        for pattern in &self.dangerous {
            if let Some(found) = pattern.find_in(command, analysis) {
                let (start, end) = whole_words(command, found);
                let why = match built_in_meaning(&pattern.text) {
                    Some(meaning) => meaning.to_owned(),
                    None => format!("matches the dangerous pattern `{}`", pattern.text),
                };
                // The analysis may have found the same danger: it is told once, and the whole text is marked.
                let is_told = |known: &Finding| {
                    known.class >= RiskClass::Dangerous
                        && known.why == why
                        && (known.start < end && start < known.end)
                };
                match risk.findings.iter_mut().find(|known| is_told(known)) {
                    Some(known) => {
                        (known.start, known.end) = (known.start.min(start), known.end.max(end));
                    }
                    None => risk.findings.push(Finding { start, end, class: RiskClass::Dangerous, why }),
                }
                risk.class = RiskClass::Dangerous;
            }
        }
        risk
    }

    /// Assesses a shell command. `grants` are the grants that apply at the command's location.
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
            shell::grant_for(command, &analysis, survey)
        } else {
            Grant::Exact { command: command.to_owned() }
        };
        if let Some(rule) = self.denying(command, survey, &analysis) {
            return Assessment::denied_by(rule, risk, covers);
        }
        let granted = !risk.class.always_asks()
            && grants.iter().any(|grant| match grant {
                Grant::Exact { command: exact } => exact == command,
                Grant::Program { .. } => {
                    risk.class <= RiskClass::Changes && shell::covers(grant, command, &analysis, survey)
                }
                Grant::Tool { .. } => false,
            });
        let by_mode = self.verdict(mode, risk.class, granted);
        let asking = self.restricting(RuleAction::Ask, survey, &analysis);
        let allowing = rules::allowing(&self.options.rules, command, survey, &analysis)
            .filter(|_| mode != ApprovalMode::Never && !risk.class.always_asks());
        let (verdict, rule) = match (by_mode, asking, allowing) {
            (Verdict::Deny, _, _) => (Verdict::Deny, None),
            (_, Some(rule), _) if !granted => (Verdict::Ask, Some(rule)),
            (Verdict::Ask, None, Some(rule)) => (Verdict::Allow, Some(rule)),
            (by_mode, _, _) => (by_mode, None),
        };
        let rule = rule.map(|rule| rule.origin.clone());
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict), rule }
    }

    fn verdict(&self, mode: ApprovalMode, class: RiskClass, granted: bool) -> Verdict {
        let reads =
            class == RiskClass::ReadOnly || (class == RiskClass::ReadsRemote && self.options.never_network);
        match mode {
            ApprovalMode::Never if !reads => Verdict::Deny,
            ApprovalMode::Never if self.options.never_asks && !granted => Verdict::Ask,
            ApprovalMode::Never => Verdict::Allow,
            _ if class.always_asks() => Verdict::Ask,
            ApprovalMode::Ask if class == RiskClass::ReadOnly => Verdict::Allow,
            ApprovalMode::Auto if class <= RiskClass::Changes => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask | ApprovalMode::Auto if granted => Verdict::Allow,
            ApprovalMode::Each | ApprovalMode::Ask | ApprovalMode::Auto => Verdict::Ask,
        }
    }

    fn restricting(&self, action: RuleAction, survey: &Survey, analysis: &Analysis) -> Option<&Rule> {
        let mut rules = self.options.rules.iter().filter(|rule| rule.action == action);
        rules.find(|rule| rule.restricts(survey, analysis))
    }

    /// Returns the rule that forbids this command even with a user's consent, if any.
    pub fn denies(&self, command: &str, survey: &Survey) -> Option<&str> {
        self.denying(command, survey, &shell::analyze(command, survey))
    }

    fn denying(&self, command: &str, survey: &Survey, analysis: &Analysis) -> Option<&str> {
        let pattern = self.deny.iter().find(|pattern| pattern.find_in(command, analysis).is_some());
        let rule = || self.restricting(RuleAction::Deny, survey, analysis).map(|rule| rule.origin.as_str());
        pattern.map(|pattern| pattern.text.as_str()).or_else(rule)
    }

    /// Returns the pattern that denies every command, if any: an error in the config, or an invalid pattern.
    fn deny_all(&self) -> Option<&str> {
        self.deny.iter().find(|pattern| pattern.regex.is_none()).map(|pattern| pattern.text.as_str())
    }

    /// Assesses a call to a tool that neither runs a command nor types keys. The assessment depends on the
    /// tool's effect and on the paths in the call. Where every command is denied, so is every call assessed here that
    /// does not only read.
    pub fn tool(
        &self,
        mode: ApprovalMode,
        grants: &[Grant],
        survey: &Survey,
        spec: &ToolSpec,
        call: &ToolCall,
    ) -> Assessment {
        let covers = Grant::Tool { name: spec.name.clone() };
        let risk = targets::tool_risk(spec, call, survey);
        if let Some(rule) = self.deny_all().filter(|_| risk.class != RiskClass::ReadOnly) {
            return Assessment::denied_by(rule, risk, covers);
        }
        let can_be_granted = risk.class <= RiskClass::Changes
            || spec.effect == ToolEffect::External && risk.class == RiskClass::Opaque;
        let granted = can_be_granted && grants.contains(&covers);
        let mut verdict = if risk.class == RiskClass::ReadOnly {
            Verdict::Allow
        } else {
            self.verdict(mode, risk.class, granted)
        };
        if spec.name == REMEMBER_TOOL && verdict == Verdict::Allow {
            verdict = Verdict::Ask; // later sessions trust the note, whatever their mode
        }
        Assessment { verdict, risk, covers, refusal: read_only_refusal(verdict), rule: None }
    }
}

/// Returns true if the answer "allow for this session" can be given about a call of `tool` that `people` people must
/// allow. Otherwise, each call needs its own answer: notes are trusted by later sessions, and each undo is about
/// another change.
pub fn is_grantable(tool: &str, class: RiskClass, people: u32) -> bool {
    people == 1 && !class.always_asks() && tool != REMEMBER_TOOL && tool != UNDO_TOOL
}

impl Assessment {
    fn denied_by(rule: &str, risk: Risk, covers: Grant) -> Self {
        let refusal = format!("denied by {}{NO_WORKAROUND}", named_rule(rule));
        Self { verdict: Verdict::Deny, risk, covers, refusal, rule: Some(rule.to_owned()) }
    }
}

/// Message for the model if [`ApprovalMode::Never`] denied its call.
pub const READ_ONLY_REFUSAL: &str = "denied: this session is read-only (approve = never); nothing ran. The call was \
     recorded as a step of your plan: keep investigating, and end with the steps that you propose";

/// Beginnings of the parts of refusals that tell the model what to do.
const ADVICE_TO_MODEL: [&str; 2] =
    ["; nothing ran. The call was recorded as a step of your plan:", NO_WORKAROUND];

const NO_WORKAROUND: &str = "; do not try to work around it";

/// Returns a refusal without its advice to the model.
pub fn refusal_for_people(refusal: &str) -> &str {
    let advice = ADVICE_TO_MODEL.iter().filter_map(|advice| refusal.find(advice)).min();
    advice.map_or(refusal, |at| &refusal[..at])
}

fn read_only_refusal(verdict: Verdict) -> String {
    match verdict {
        Verdict::Deny => READ_ONLY_REFUSAL,
        Verdict::Allow | Verdict::Ask => "",
    }
    .to_owned()
}
/// Extends a match to whole words: `rm -rf /` in `rm -rf /opt/app` would read as if the root were removed.
fn whole_words(command: &str, (start, end): (usize, usize)) -> (usize, usize) {
    let ends_word = |character: char| character.is_whitespace() || ";|&()<>".contains(character);
    let Some((before, after)) = command.get(..start).zip(command.get(end..)) else { return (start, end) };
    let start = before.char_indices().rfind(|(_, character)| ends_word(*character));
    let start = start.map_or(0, |(at, character)| at + character.len_utf8());
    let is_at_end = command[..end].ends_with(ends_word);
    let rest = if is_at_end { 0 } else { after.find(ends_word).unwrap_or(after.len()) };
    (start, end + rest)
}
