//! Arguments of `sysop mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `sysop mcp`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum McpCommand {
    /// List servers with their state and tools, and ask about new and changed ones
    List {
        /// Show the complete definitions of the tools
        #[arg(long)]
        definitions: bool,
    },
    /// Add a server to the config, start it and show its tools
    #[command(
        after_help = "Examples:\n  sysop mcp add time -- uvx mcp-server-time\n  sysop mcp add grafana --env \
                      GRAFANA_URL=http://g:3000 --env-pass GRAFANA_TOKEN -- uvx mcp-grafana\n  sysop mcp add docs \
                      --url https://docs.example.org/mcp --header Authorization=DOCS_BEARER"
    )]
    Add(McpAddArguments),
    /// Offer the hosts to another agent, as an MCP server on standard input and output
    #[command(
        after_help = "Examples:\n  sysop mcp serve\n  sysop -H web1 mcp serve --approve ask\n\nThe agent's calls are \
                      approved and logged like those of sysop's own model. Without --approve, only read-only calls \
                      are allowed. With \
                      --approve ask, users attached to the session (--attachable) approve calls. If nobody is \
                      attached, the client asks its user, if it supports elicitation. Otherwise, calls are \
                      rejected."
    )]
    Serve {
        /// Let `sysop attach` join the sessions, to watch and approve; the URL is printed to standard error
        #[arg(long)]
        attachable: bool,
    },
    /// Remove a server from the config
    Remove {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Add the servers of another program's config file
    #[command(
        after_help = "Reads the config files of Claude, Cursor, VS Code, Copilot, Gemini, opencode and codex, shows \
                      what it would add, and asks. No server is started; `sysop mcp list` asks about each."
    )]
    Import {
        /// File to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `sysop mcp add`.
#[derive(Debug, Clone, Args)]
pub(crate) struct McpAddArguments {
    /// Name of the server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// URL of the server, instead of a command
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "env_pass", "cwd"])]
    pub(crate) url: Option<String>,
    /// Header of each request, and the environment variable that holds its value
    #[arg(long = "header", value_name = "HEADER=VARIABLE", value_parser = pair, requires = "url")]
    pub(crate) headers: Vec<(String, String)>,
    /// Variable of the server's environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Variable that the server gets from sysop's environment
    #[arg(long, value_name = "NAME")]
    pub(crate) env_pass: Vec<String>,
    /// Directory that the server starts in [default: the home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Offer only tools that match this glob
    #[arg(long = "tool", value_name = "GLOB")]
    pub(crate) tools: Vec<String>,
    /// Calls that run without asking: none (`ask`), or those declared read-only (`reads`); `never` disables all tools
    #[arg(long, value_name = "MODE", value_parser = ["ask", "reads", "never"])]
    pub(crate) calls: Option<String>,
    /// Command line of the server
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}
