//! Arguments of `sysop shell-init`.

use clap::{Args, ValueEnum};

/// `sysop shell-init`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShellInitArguments {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: InitShell,
    /// Read a line from standard input and print a proposal; the script calls this
    #[arg(long, hide = true)]
    pub(crate) propose: bool,
}

/// Shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitShell {
    Bash,
    Zsh,
    Fish,
}
