//! Arguments of `sysop trust`.

use std::path::PathBuf;

use clap::Args;

/// `sysop trust`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustArguments {
    /// Workspace [default: current directory]
    #[arg(value_name = "DIR", conflicts_with = "root")]
    pub(crate) folder: Option<PathBuf>,
    /// No longer trust the workspace
    #[arg(long)]
    pub(crate) revoke: bool,
}
