//! Arguments of `sysop run` and `sysop runbook`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{DatabaseArgument, assignment, word};

/// `sysop run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    /// Name of the routine; without it, the routines are listed
    #[arg(value_name = "ROUTINE")]
    pub(crate) routine: Option<String>,
    /// Values for the routine's variables
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) values: Vec<(String, String)>,
    /// Show what would run, without running it
    #[arg(long)]
    pub(crate) plan: bool,
    /// Start at step N; with --undo, undo the steps from N back to the first
    #[arg(long, value_name = "N", value_parser = step_number)]
    pub(crate) from: Option<usize>,
    /// Undo the steps, the last one first
    #[arg(long)]
    pub(crate) undo: bool,
    /// Read routines from this file instead of the config
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

fn step_number(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "expected the number of a step, from 1".to_owned())
}

/// `sysop runbook`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RunbookCommand {
    /// Create a runbook from the calls of a session
    #[command(
        after_help = "Exports the calls that succeeded, as they ran and in order. On a terminal, asks about each \
                      variable; otherwise uses the proposed ones. Secrets are never exported: a step that contains \
                      one becomes a manual step. Notes about omitted calls go to standard error."
    )]
    Export(RunbookExportArguments),
    /// Check the routines in files, and exit with 1 if any cannot run
    Check {
        /// TOML files with routines
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

/// Format of an exported runbook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunbookFormat {
    /// A config file for `sysop run`
    #[default]
    Toml,
    /// A POSIX shell script
    Sh,
    /// A Markdown document
    #[value(alias = "markdown")]
    Md,
}

/// `sysop runbook export`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct RunbookExportArguments {
    /// Session id or id prefix [default: the most recent session]
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
    /// Output format; only `toml` is read back by `sysop run`
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: RunbookFormat,
    /// File to create [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Name of the routine [default: from the task]
    #[arg(long, value_name = "NAME", value_parser = routine_name)]
    pub(crate) name: Option<String>,
    /// Turn this value into a variable (repeatable)
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) variables: Vec<(String, String)>,
    /// Do not propose variables
    #[arg(long = "no-vars")]
    pub(crate) no_variables: bool,
    /// Also export read-only commands
    #[arg(long)]
    pub(crate) all: bool,
    /// Also export failed commands, and expect their exit codes
    #[arg(long)]
    pub(crate) failed: bool,
    /// Make each step expect a line of its output that is likely to recur
    #[arg(long = "match")]
    pub(crate) match_output: bool,
    /// Accept all proposals without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Database that stores the sessions.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
}

fn routine_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if text.is_empty() || text.starts_with('-') || !text.bytes().all(fits) {
        return Err("expected letters, digits, `_` and `-`".to_owned());
    }
    Ok(text.to_owned())
}
