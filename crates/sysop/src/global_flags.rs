//! Flags shared by all commands, with the types and parsers of their values.
//!
//! `cli` adds them to every command and `settings` interprets them. This module depends on neither.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use sysop_core::catalog::Profile;
use sysop_core::id::SessionId;
use sysop_core::message::{InvalidModelRef, ModelRef};
use sysop_core::model_provider::is_known;
use sysop_core::policy::ApprovalMode;

use crate::config::{DEMO, unknown_provider};

/// Flags that may stand before or after the command's name. `cli::global_help` says which commands they apply to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalFlags {
    /// Host(s) to run on: `local`, an SSH destination, a configured host, @TAG, docker:NAME, podman:NAME, kube:NS/POD,
    /// or a comma-separated list without `local`
    #[arg(short = 'H', long, global = true, value_name = "DEST", value_parser = host)]
    pub(crate) host: Option<String>,
    /// Run changes on the first N hosts; continue only if all succeed with the same result
    #[arg(long, global = true, value_name = "N", value_parser = canary)]
    pub(crate) canary: Option<NonZeroUsize>,
    /// Model to use, e.g. `ollama/qwen3` (`demo`: built-in script)
    #[arg(short, long, global = true, value_name = "PROVIDER/NAME", value_parser = model)]
    pub(crate) model: Option<ModelRef>,
    /// Approval mode [default: ask]
    #[arg(long, global = true, value_name = "MODE", value_parser = approval_mode())]
    pub(crate) approve: Option<ApprovalMode>,
    /// Confine file tools to DIR [default: current directory]
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Tools available to the model
    #[arg(long, global = true, value_name = "NAME", value_parser = profile())]
    pub(crate) profile: Option<Profile>,
    /// Path to the config file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// True if the command writes the config file, which need not exist.
    #[arg(skip)]
    pub(crate) creates_config: bool,
    /// Resume the most recent session, if possible of this host and directory
    #[arg(short = 'c', long = "continue", global = true, conflicts_with = "resume")]
    pub(crate) resume_latest: bool,
    /// Resume a session, by id or id prefix [default: the most recent]
    #[arg(
        long,
        global = true,
        value_name = "ID",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = resume
    )]
    pub(crate) resume: Option<ResumeTarget>,
    /// Increase verbosity: show the first and last lines of calls' output in `exec`, secrets included (-vv: all of it,
    /// and debug output)
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Print only the answer, errors, questions and skipped commands
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Pause when the session has cost this much [US dollars]
    #[arg(long, global = true, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Pause when the session has used this many tokens, such as 200k
    #[arg(long, global = true, value_name = "N", value_parser = token_count)]
    pub(crate) max_tokens_total: Option<u64>,
    /// Pause a turn that has run for this long; its running command is stopped
    #[arg(long, global = true, value_name = "N", value_parser = number_of::<u32>("number of minutes", 1..=10_080))]
    pub(crate) max_minutes: Option<u32>,
    /// Trust the workspace for this run: its .sysop.toml, AGENTS.md, skills and commands
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Disable colored output
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

/// Returns a parser for a number that errors call `what`, such as `number of minutes`.
pub(crate) fn number_of<N: TryFrom<u64>>(
    what: &'static str,
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number: u64 = text.parse().map_err(|_| format!("expected a {what}"))?;
        let accepted = range.contains(&number).then(|| N::try_from(number).ok()).flatten();
        accepted.ok_or_else(|| format!("expected a {what} from {} to {}", range.start(), range.end()))
    }
}

/// Parses an amount in US dollars.
fn dollars(text: &str) -> Result<f64, String> {
    let amount: f64 =
        text.trim_start_matches('$').parse().map_err(|_| "use a number, such as 0.50".to_owned())?;
    (amount.is_finite() && amount > 0.0).then_some(amount).ok_or_else(|| "use a positive number".to_owned())
}

/// Parses a number of tokens; `k` and `M` stand for thousand and million.
fn token_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number: Option<u64> = digits.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    number.filter(|number| *number > 0).ok_or_else(|| "use a number, such as 200000 or 200k".to_owned())
}

impl GlobalFlags {
    /// Converts `--continue` to the equivalent `--resume`.
    pub(crate) fn settle_continue(&mut self) {
        if std::mem::take(&mut self.resume_latest) {
            self.resume = Some(ResumeTarget::Latest);
        }
    }

    /// Returns the flags without those that override config keys, for a command that shows and writes the config.
    pub(crate) fn without_overrides(self) -> Self {
        Self { host: None, model: None, approve: None, profile: None, ..self }
    }

    /// Returns the model for a session on a server, which does not know this machine's providers. Fails if the flag
    /// names no provider.
    pub(crate) fn model_on_server(&self) -> Result<Option<ModelRef>, InvalidModelRef> {
        match &self.model {
            Some(model) if model.name.is_empty() => Err(InvalidModelRef(model.provider.clone())),
            model => Ok(model.clone()),
        }
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, more) => Verbosity::Verbose(more),
        }
    }
}

/// `--verbose` and `--quiet`: the amount of messages printed besides the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only errors are printed.
    Quiet,
    Normal,
    /// Number of `-v` flags: 1 also prints the output of calls; 2 or more also print debug output.
    Verbose(u8),
}

/// Parser of a flag whose value is one of `values`, each with its name and its description in the help.
pub(crate) fn choice<T: Clone + Send + Sync + 'static, const N: usize>(
    values: [(T, &'static str, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let names = values.each_ref().map(|(_, name, help)| {
        let value = PossibleValue::new(*name);
        if help == name { value } else { value.help(*help) }
    });
    PossibleValuesParser::new(names).map(move |given| {
        let value = values.iter().find(|(_, name, _)| *name == given);
        value.expect("the parser accepts only these names").0.clone()
    })
}

pub(crate) fn approval_mode() -> impl TypedValueParser<Value = ApprovalMode> {
    choice([
        (ApprovalMode::Each, "each", "Ask before every command"),
        (ApprovalMode::Ask, "ask", "Run read-only commands, ask before everything else"),
        (
            ApprovalMode::Auto,
            "auto",
            "Run commands that make changes; ask before dangerous ones and code that cannot be checked",
        ),
        (ApprovalMode::Never, "never", "Run read-only commands only; the model proposes a plan"),
    ])
}

fn profile() -> impl TypedValueParser<Value = Profile> {
    choice([
        (Profile::Full, "full", "All coder and operator tools, plus `ls` and `find_files`"),
        (Profile::Coder, "coder", "File tools and a shell"),
        (Profile::Operator, "operator", "Commands and keys in a visible terminal"),
        (Profile::Workspace, "workspace", "File and git tools confined to the root directory"),
    ])
}

/// `--resume`: session to resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResumeTarget {
    /// The most recently changed session.
    Latest,
    /// The most recently changed session of the directory that has something to undo.
    LatestWithUndo,
    /// Session with this id or id prefix.
    Session(SessionId),
}

/// Parses the value of `--host`. Only obvious mistakes are rejected here, because `settings` resolves the host.
fn host(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a host".to_owned()),
        text if text.starts_with('-') => Err("ssh would read it as an option".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn canary(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of hosts, from 1".to_owned())
}

/// Parses the value of `--model`. A word without a slash becomes a provider without a model, as in `SYSOP_MODEL`;
/// `settings` reports it, with the models that could be meant.
fn model(text: &str) -> Result<ModelRef, String> {
    if text == DEMO {
        return Ok(ModelRef::new(DEMO, DEMO));
    }
    if !text.is_empty() && !text.contains('/') {
        return Ok(ModelRef::new(text, ""));
    }
    let model: ModelRef = text.parse().map_err(|error: InvalidModelRef| error.to_string())?;
    if is_known(&model.provider) {
        return Ok(model);
    }
    Err(unknown_provider(&model.provider))
}

#[expect(clippy::unnecessary_wraps, reason = "clap requires a fallible parser")]
fn resume(text: &str) -> Result<ResumeTarget, String> {
    match text {
        "" => Ok(ResumeTarget::Latest),
        id => Ok(ResumeTarget::Session(SessionId::new(id))),
    }
}
