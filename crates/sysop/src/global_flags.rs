//! The flags that go with every command, with the types and parsers of their values.
//!
//! `cli` adds them to every command and `settings` gives them their meaning. This module knows neither of the two.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use sysop_core::id::SessionId;
use sysop_core::message::{InvalidModelRef, ModelRef};
use sysop_core::policy::ApprovalMode;

use crate::config::{DEMO, PROVIDERS, unknown_provider};

/// The flags that go with every command, before or after it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Flags of every command")]
pub(crate) struct GlobalFlags {
    /// Where commands run: `local`, what `ssh` accepts, a host or @TAG of the config, or several: `web1,web2,db1`
    #[arg(long, global = true, value_name = "DEST", value_parser = host)]
    pub(crate) host: Option<String>,
    /// Of several hosts, let the first N go ahead; the others follow only if these end well and alike
    #[arg(long, global = true, value_name = "N")]
    pub(crate) canary: Option<NonZeroUsize>,
    /// The model to ask, for example `ollama/phi3`; `demo` needs none
    #[arg(long, global = true, value_name = "PROVIDER/NAME", value_parser = model)]
    pub(crate) model: Option<ModelRef>,
    /// What runs without a question [default: ask]
    #[arg(long, global = true, value_name = "HOW")]
    pub(crate) approve: Option<Approve>,
    /// The folder that file tools stay in [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Which tools the model is offered
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<Profile>,
    /// Read this config file instead of your own
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Go on with an earlier session [default: the latest]
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
    /// Tell more, as what each call of `exec` printed; twice tells all
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Tell only errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Use no colors
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

impl GlobalFlags {
    /// Returns the amount of messages beside the work.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, more) => Verbosity::Verbose(more),
        }
    }
}

/// `--verbose` and `--quiet`: the amount of messages beside the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors alone.
    Quiet,
    /// The usual.
    Normal,
    /// More (1) and more (2 and up).
    Verbose(u8),
}

/// `--approve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask before every command
    Each,
    /// Run read-only commands, ask before everything else
    Ask,
    /// Run changes, ask before opaque and dangerous commands
    Auto,
    /// Run read-only commands and nothing else; the model makes a plan
    Never,
}

impl Approve {
    /// As it is typed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

impl From<Approve> for ApprovalMode {
    fn from(approve: Approve) -> Self {
        match approve {
            Approve::Each => Self::Each,
            Approve::Ask => Self::Ask,
            Approve::Auto => Self::Auto,
            Approve::Never => Self::Never,
        }
    }
}

/// `--profile`: which tools are on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// The tools of coder and operator, and two that look
    Full,
    /// Files and shell
    Coder,
    /// A visible terminal
    Operator,
    /// Files and git of a workspace
    Workspace,
}

impl Profile {
    /// The names, as they are typed.
    pub(crate) const NAMES: [&'static str; 4] = ["full", "coder", "operator", "workspace"];

    /// As it is typed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Coder => "coder",
            Self::Operator => "operator",
            Self::Workspace => "workspace",
        }
    }

    /// The profile of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|profile| profile.as_str() == name)
    }
}

impl From<Profile> for sysop_core::catalog::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Full => Self::Full,
            Profile::Coder => Self::Coder,
            Profile::Operator => Self::Operator,
            Profile::Workspace => Self::Workspace,
        }
    }
}

/// `--resume`: which session to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResumeTarget {
    /// The one that changed last.
    Latest,
    /// This one.
    Session(SessionId),
}

/// Refuses only slips of the command line; `settings` looks the host up.
fn host(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a host was expected".to_owned()),
        text if text.starts_with('-') => Err("ssh would take it for an option".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn model(text: &str) -> Result<ModelRef, String> {
    if text == DEMO {
        return Ok(ModelRef::new(DEMO, DEMO));
    }
    let model: ModelRef = text.parse().map_err(|error: InvalidModelRef| error.to_string())?;
    if model.provider == DEMO || PROVIDERS.contains(&model.provider.as_str()) {
        return Ok(model);
    }
    Err(unknown_provider(&model.provider))
}

#[expect(clippy::unnecessary_wraps, reason = "clap wants a parser that can fail")]
fn resume(text: &str) -> Result<ResumeTarget, String> {
    match text {
        "" => Ok(ResumeTarget::Latest),
        id => Ok(ResumeTarget::Session(SessionId::new(id))),
    }
}
