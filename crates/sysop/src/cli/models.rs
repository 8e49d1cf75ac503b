//! Arguments of `sysop model`.

use clap::Subcommand;

use super::word;

/// `sysop model`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models that can be downloaded, and mark downloaded ones
    List,
    /// Download a model, and the program that runs it if none is installed
    #[command(
        after_help = "Without NAME, downloads the best model for this machine. NAME may be `llama-server`.\n\n\
                            The next run resumes an interrupted download. Only a file with the expected SHA-256 is \
                            installed. HF_ENDPOINT sets a mirror and HF_TOKEN a token; proxy variables apply."
    )]
    Get {
        /// Model, as in `sysop model list` [default: recommended one]
        #[arg(value_name = "NAME", value_parser = word)]
        name: Option<String>,
        /// Download without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove a downloaded model
    Remove {
        /// Model, or `llama-server`
        #[arg(value_name = "NAME", value_parser = word)]
        name: String,
    },
    /// Serve a model to other programs, with an OpenAI-compatible API
    Serve {
        /// Model [default: first downloaded one]
        #[arg(value_name = "NAME", value_parser = word)]
        name: Option<String>,
    },
    /// Run as the supervisor of this machine's model server; started by sysop itself
    #[command(hide = true)]
    Supervise,
}
