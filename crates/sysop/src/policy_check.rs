//! `sysop policy check`: shows the decision on a command, without running it.

use std::fmt::Write;

use serde_json::json;
use sysop_core::policy::{
    Access, ApprovalMode, Assessment, CONFIG_ERROR, CommandContext, Dialect, Policy, ResolvedFile, Risk,
    RiskClass, Survey, Target, Verdict, command_targets,
};
use sysop_core::text::neutralize;

use crate::exit::CommandError;
use crate::settings::{HostChoice, Settings};

/// Command to evaluate, and the circumstances in which it would run.
#[derive(Debug)]
pub(crate) struct PolicyQuestion {
    pub(crate) command: String,
    /// Approval mode, as after `/approve`; `None` uses the one in which a session starts.
    pub(crate) mode: Option<ApprovalMode>,
    pub(crate) dialect: Dialect,
    /// Working directory; `None` means the root.
    pub(crate) folder: Option<String>,
}

#[derive(Debug)]
pub(crate) struct PolicyAnswer {
    question: PolicyQuestion,
    mode: ApprovalMode,
    /// Setting that makes the mode what it is; `None` for the default, and for a mode that the question names.
    mode_source: Option<String>,
    survey: Survey,
    assessment: Assessment,
    targets: Vec<Target>,
    host: String,
}

/// Evaluates a command against the policy in the settings. Runs nothing and contacts no host; local paths are
/// resolved. Fails if the command is empty, or if the working directory does not exist on this machine.
pub(crate) fn check(settings: &Settings, question: PolicyQuestion) -> Result<PolicyAnswer, CommandError> {
    if question.command.trim().is_empty() {
        return Err(CommandError::usage(
            "the command is empty; give one, as in `sysop policy check 'rm -r build'`",
        ));
    }
    let context = context(settings, &question)?;
    let survey = match settings.host {
        HostChoice::Local => sysop_host::survey_here(context, &question.command),
        HostChoice::Ssh(_) | HostChoice::Fleet(_) => Survey::elsewhere(context),
    };
    let mode = question.mode.unwrap_or_else(|| settings.approve(&settings.host));
    let mode_source = match question.mode {
        Some(_) => None,
        None => settings.approve_source(&settings.host),
    };
    let policy = Policy::new(&settings.dangerous_patterns, &settings.deny)
        .with_options(settings.policy_options(&settings.host));
    let assessment = policy.command(mode, &[], &survey, &question.command);
    let targets = command_targets(&question.command, &survey);
    let host = settings.host.to_string();
    Ok(PolicyAnswer { question, mode, mode_source, survey, assessment, targets, host })
}

fn context(settings: &Settings, question: &PolicyQuestion) -> Result<CommandContext, CommandError> {
    let here = CommandContext { dialect: question.dialect, own_shell: true, ..CommandContext::default() };
    match &settings.host {
        HostChoice::Local => {
            let folder = match &question.folder {
                Some(folder) => std::path::Path::new(folder).canonicalize().map_err(|error| {
                    CommandError::usage(format!("cannot use {folder:?} as the directory: {error}"))
                })?,
                None => settings.root.clone(),
            };
            Ok(CommandContext {
                folder: Some(folder.to_string_lossy().into_owned()),
                root: Some(settings.root.to_string_lossy().into_owned()),
                home: Some(settings.folders.home.to_string_lossy().into_owned()),
                user: settings.environment.value("USER").map(str::to_owned),
                uid: Some(rustix::process::getuid().as_raw()),
                ..here
            })
        }
        HostChoice::Ssh(target) => {
            Ok(CommandContext { folder: question.folder.clone(), host: Some(target.name.clone()), ..here })
        }
        HostChoice::Fleet(_) => Ok(CommandContext {
            folder: question.folder.clone(),
            host: Some(settings.host.to_string()),
            ..here
        }),
    }
}

impl PolicyAnswer {
    /// Returns a JSON object on one line.
    pub(crate) fn to_json(&self) -> String {
        let Assessment { verdict, risk, rule, .. } = &self.assessment;
        let reasons: Vec<_> = risk
            .findings
            .iter()
            .map(|finding| {
                let text = self.piece(finding.start, finding.end);
                json!({"text": text, "start": finding.start, "end": finding.end, "class": finding.class,
                       "why": finding.why})
            })
            .collect();
        let targets: Vec<_> = self
            .targets
            .iter()
            .map(|target| {
                let files: Vec<_> = self.files(target).iter().map(|file| file.path.as_str()).collect();
                json!({"word": target.word, "access": target.access, "folder": target.folder, "files": files})
            })
            .collect();
        let answer = json!({
            "verdict": verdict, "class": risk.class, "reasons": reasons, "targets": targets, "rule": rule,
            "mode": self.mode, "host": self.host,
        });
        format!("{answer}\n")
    }

    /// Returns the risk class and the decision in a few words.
    pub(crate) fn summary(&self) -> String {
        summary(&self.assessment)
    }

    /// Returns human-readable text: the decision first, then the reasons.
    pub(crate) fn to_text(&self) -> String {
        let Assessment { verdict, risk, rule, .. } = &self.assessment;
        let verdict = match verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        };
        let mut text = format!("{verdict}: {}\n", risk_words(risk));
        for finding in &risk.findings {
            let piece = self.piece(finding.start, finding.end);
            let class = class_words(finding.class);
            writeln!(text, "  `{}`: {} ({class})", neutralize(piece), finding.why)
                .expect("writing to a string cannot fail");
        }
        for target in &self.targets {
            let access = match target.access {
                Access::Read => "reads",
                Access::Write => "writes",
                Access::Run => "runs",
                Access::Repository => "runs git in",
            };
            let files = self.files(target);
            let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
            let leads = match paths.as_slice() {
                [] => String::new(),
                [path] if *path == target.word => String::new(),
                paths => format!(" -> {}", paths.join(", ")),
            };
            writeln!(text, "  {access} {}{}", neutralize(&target.word), neutralize(&leads))
                .expect("writing to a string cannot fail");
        }
        if self.host != "local" {
            writeln!(text, "  paths on {} are resolved when the command runs", self.host)
                .expect("writing to a string cannot fail");
        }
        let decided = match rule {
            Some(rule) => match rule.strip_prefix(CONFIG_ERROR) {
                Some(place) => format!("the config error at {}", neutralize(place)),
                None => format!("the rule {}", neutralize(rule)),
            },
            None => {
                let source = self.mode_source.as_ref().map(|source| format!(" from {}", neutralize(source)));
                let source = source.unwrap_or_default();
                format!("approve = {}{source} ({})", self.mode.as_str(), self.mode.description())
            }
        };
        writeln!(text, "decided by {decided}").expect("writing to a string cannot fail");
        text
    }

    fn piece(&self, start: usize, end: usize) -> &str {
        self.question.command.get(start..end).unwrap_or(&self.question.command)
    }

    fn files(&self, target: &Target) -> &[ResolvedFile] {
        self.survey.resolved(target).unwrap_or_default()
    }
}

/// Returns an assessment's risk class and decision in a few words.
pub(crate) fn summary(assessment: &Assessment) -> String {
    let verdict = match assessment.verdict {
        Verdict::Allow => "runs",
        Verdict::Ask => "asks",
        Verdict::Deny => "is denied",
    };
    format!("{}: {verdict}", risk_words(&assessment.risk))
}

/// Returns the class of a risk in words. A dangerous command that may also lock the user out says both.
fn risk_words(risk: &Risk) -> String {
    let locks_out = risk.findings.iter().any(|finding| finding.class == RiskClass::Lockout);
    let more = if risk.class == RiskClass::Dangerous && locks_out { ", may lock you out" } else { "" };
    format!("{}{more}", class_words(risk.class))
}

fn class_words(class: RiskClass) -> &'static str {
    match class {
        RiskClass::ReadOnly => "read-only",
        RiskClass::ReadsRemote => "reads from the network",
        RiskClass::Changes => "changes",
        RiskClass::Opaque => "opaque",
        RiskClass::ReadsSecret => "reads secrets",
        RiskClass::Dangerous => "dangerous",
        RiskClass::Lockout => "may lock you out",
    }
}
