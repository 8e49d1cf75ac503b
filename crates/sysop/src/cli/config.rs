//! Arguments of `sysop config`.

use clap::Subcommand;

use super::{Command, McpCommand};

/// `sysop config`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the path of the user config file
    Path,
    /// Print each value and its source
    Show,
    /// Print the value of a key in effect
    #[command(
        after_help = "Examples:\n  sysop config get approve\n  sysop config get -v model   # Also prints where the value \
                            comes from\n  sysop config get providers.openai\n\nSecrets are printed as `[set]`. Exits with 1 \
                            if the key has no value."
    )]
    Get {
        /// Key or table, with dots between names
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a key in the user config file
    #[command(
        after_help = "Examples:\n  sysop config set model ollama/qwen3\n  sysop config set hosts.web1.host \
                            10.0.0.1\n  sysop config set providers.openai.api_key -   # Reads the value from standard input\
                            \n\nThe value is checked before it is written. Comments and other keys are kept."
    )]
    Set {
        /// Key, with dots between names
        #[arg(value_name = "KEY")]
        key: String,
        /// Value; a list in TOML syntax; `-` reads a line from standard input
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a key from the user config file
    #[command(
        after_help = "Examples:\n  sysop config unset model\n  sysop config unset hosts.web1\n\nA table is removed with \
                            all of its keys. Exits with 1 if the file does not set the key."
    )]
    Unset {
        /// Key or table, with dots between names
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Open the user config file in your editor, and check it before it is written
    Edit,
}

impl Command {
    /// Returns true if the command may create the user's config file.
    pub(crate) fn writes_config(&self) -> bool {
        matches!(
            self,
            Self::Init
                | Self::Config(ConfigCommand::Set { .. } | ConfigCommand::Edit)
                | Self::Mcp(McpCommand::Add(_) | McpCommand::Import { .. })
        )
    }
}
