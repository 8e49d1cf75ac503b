//! Command line: every command and flag of this build, as typed.
//!
//! Nothing here reads files, the environment or the network; `settings` interprets the flags. Modules that
//! implement a command import its arguments from here, so this file does not import those modules. The
//! exceptions are the flags of `sysop serve` (`serve_options`), the export formats (`sessions`) and the
//! arguments of `sysop shell-init`, which are defined next to the code that uses them.

mod mcp;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use secrecy::SecretString;
use sysop_core::auto_bounds::AutoBounds;
use sysop_core::image::mention_of;
use sysop_core::policy::{ApprovalMode, Dialect};
use sysop_driver::tokens::Scopes;

pub(crate) use self::mcp::{McpAddArguments, McpCommand};
use crate::global_flags::{GlobalFlags, approval_mode, choice, number_of};
use crate::serve_options::ServeOptions;
use crate::sessions::{ExportFormat, ReportFormat};

mod runbook;

pub(crate) use runbook::{RunArguments, RunbookCommand, RunbookExportArguments, RunbookFormat};

mod config;
mod global_help;
mod models;
mod shell;
mod tips;
mod top_help;
mod trust;
mod values;
mod words;

pub(crate) use config::ConfigCommand;
pub(crate) use global_help::without_inapplicable;
use global_help::{hide_inapplicable, inapplicable_flag, named_command};
pub(crate) use models::ModelCommand;
pub(crate) use shell::{InitShell, ShellInitArguments};
use tips::with_tips;
use top_help::TOP_HELP;
pub(crate) use trust::TrustArguments;
#[cfg(test)]
use values::DAY_MS;
use values::{assignment, bounds, call_number, size, task, token_lifetime, token_name, token_scopes, word};
#[cfg(test)]
use words::COMMANDS;
use words::{join_resume, mistyped_command, policy_options_first};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sysop",
    version,
    about = "An AI operator for your terminal and your servers",
    long_about = "An AI operator for your terminal and your servers.\n\nDescribe a task. The model proposes commands: \
                  those that only read run at once, and you approve, edit or reject the others. The output goes back to \
                  the model until the task is done. Without a command, sysop opens the TUI.",
    override_usage = "sysop [OPTIONS] [TASK]...\n       sysop [OPTIONS] <COMMAND>",
    after_long_help = TOP_HELP,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// Task to start with (opens the TUI)
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Vec<String>,
    #[command(flatten)]
    pub(crate) images: ImageArguments,
    /// Flags that every command accepts.
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    /// Command to run; without one, sysop opens the TUI.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Commands of sysop.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the REPL, a line-based chat
    #[command(
        after_help = "Examples:\n  sysop chat\n  sysop chat --model ollama/qwen3 what listens on port 80\n  \
                            printf 'hello\\n' | sysop chat --plain"
    )]
    Chat(ChatArguments),
    /// Run one task non-interactively
    #[command(
        after_help = "Examples:\n  sysop exec \"what is my current directory?\"\n  sysop exec --approve auto \
                            --json \"run the tests\"\n  journalctl -u nginx | sysop exec \"why does it restart?\"\n  sysop exec --schema \
                            disks.schema.json \"which disks are nearly full?\"\n\nData on standard input is attached to \
                            the task, up to 1 MiB. Approval prompts appear \
                            on the terminal, even if standard input is not one. Without a terminal, the task stops with exit code 3 before the \
                            first command that needs approval."
    )]
    Exec(ExecArguments),
    /// Run a routine from the config file
    #[command(
        after_help = "Examples:\n  sysop run update_system\n  sysop run service name=nginx.service\n  sysop run renew_cert \
                            site=a.example --plan\n  sysop run --file book.toml renew_cert site=a.example -H @web --canary \
                            1\n\nDoes not use a model. The approval policy judges every command. A routine with \
                            steps stops at the first unexpected result, with exit code 1."
    )]
    Run(RunArguments),
    /// Create runbooks from sessions, and check them
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop runbook export 0198c2f1 --name renew_cert --output book.toml\n  sysop runbook \
                            export 0198c2f1 --format sh > renew.sh\n  sysop runbook check book.toml"
    )]
    Runbook(RunbookCommand),
    /// Start the server of the web page and the API
    #[command(
        after_help = "Examples:\n  sysop serve\n  sysop serve --port 9000 --root ~/project\n\n  # One of several servers \
                            that share a database\n  SYSOP_DATABASE=postgres://sysop@db/sysop sysop serve\n\n  # Export \
                            spans of turns and tool calls, without their content\n  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 \
                            sysop serve\n\nOn a terminal, the first line of output is a URL that signs a browser in once. \
                            Otherwise, that line names the file that contains the token while the server runs."
    )]
    Serve(ServeArguments),
    /// Join a session on a server and run its tools on this machine
    #[command(
        after_help = "Examples:\n  sysop connect 'http://127.0.0.1:8765/?token=…'\n  SYSOP_TOKEN=… sysop connect \
                            https://ops.example.org --root ~/project \"tidy the docs\"\n  SYSOP_TOKEN=… sysop connect \
                            https://ops.example.org --tools ls,cat,read_file\n\nNo model or API key is needed here. Tools are \
                            confined to --root and come from the profile `workspace` unless --profile is given. Changes \
                            run only if --approve permits them or you approve them, whatever the server allows. \
                            Other users of this machine can read a token in the URL; prefer SYSOP_TOKEN."
    )]
    Connect(ConnectArguments),
    /// Open a session on a server
    #[command(
        after_help = "Examples:\n  sysop attach 'http://127.0.0.1:8765/?token=…'\n  SYSOP_TOKEN=… sysop attach \
                            https://ops.example.org 0198c2f1\n  SYSOP_TOKEN=… sysop attach https://ops.example.org \
                            --plain\n\nOpens the most recent session unless SESSION is given. Several clients can attach to \
                            one session; the first answer to an approval counts. Quitting does not stop the session."
    )]
    Attach(AttachArguments),
    /// List pending approvals on a server, or answer one
    #[command(
        after_help = "Examples:\n  sysop approve                # List approvals\n  sysop approve 4f3a91-17      # Allow it \
                            once\n  sysop approve 4f3a91-17 --reject 'not during the freeze'\n  \
                            SYSOP_URL=https://ops.example.org SYSOP_TOKEN=… sysop approve\n\nUses the server at \
                            SYSOP_URL with the token in SYSOP_TOKEN, or else the servers that you run on this machine."
    )]
    Approve(ApproveArguments),
    /// Open the web page in a desktop window
    #[command(
        after_help = "Examples:\n  sysop desktop\n  sysop desktop 0198c2f1        # Open a session by id or id prefix\n  \
                            sysop desktop --root ~/project --model ollama/qwen3\n\nRequires the separate program \
                            `sysop-desktop`, next to sysop or on PATH (Debian package: sysop-desktop). The window runs \
                            its own server and stops it on close. A second start raises the open window, which keeps \
                            its options. Without a display, use `sysop serve`."
    )]
    Desktop(DesktopArguments),
    /// Manage past sessions
    #[command(after_help = "Examples:\n  sysop sessions list\n  sysop sessions export ID > session.jsonl")]
    Sessions(SessionsArguments),
    /// Manage access tokens
    #[command(
        after_help = "Examples:\n  sysop token create --name laptop --scope operate,decide --expires 30d\n  \
                      sysop token create --name phone --scope decide    # Can answer approvals only\n  sysop token list\n  \
                      sysop token revoke 1a2b3c4d"
    )]
    Token(TokenArguments),
    /// List, confirm or roll back guarded changes of a host
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop guard list web1\n  sysop guard status web1\n  sysop guard fire web1    # Roll \
                            back now\n\nA guard rolls a change back by itself unless a fresh login works in time. \
                            Exit code 1: the decision came too late or failed; 2: the host or the guard is unknown."
    )]
    Guard(GuardCommand),
    /// Undo what a tool call of a session changed
    #[command(
        after_help = "Examples:\n  sysop undo --plan           # Show what would be restored\n  sysop undo 0198c2 4\n  \
                            sysop undo 0198c2 4 --yes\n\nCALL is the number of the tool call in the session, from 1. Exit \
                            code 1: something has changed since the call, or the undo failed; 3: the undo needs \
                            approval."
    )]
    Undo(UndoArguments),
    /// Show and verify the audit log of the servers on this machine
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop audit show --limit 20\n  sysop audit verify\n\nCovers the sessions of `sysop \
                            serve`, `sysop desktop` and `sysop mcp serve --attachable`. Those of the TUI, `chat` and \
                            `exec` are not in it: their record is the log of the session. The page \"The audit log\" of \
                            the guide says more."
    )]
    Audit(AuditCommand),
    /// Download and run models on this machine
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop model list\n  sysop model get\n  sysop exec --model local/qwen2.5-coder-1.5b \
                      \"how full is the disk?\"\n  sysop model serve"
    )]
    Model(ModelCommand),
    /// List the models that your providers offer
    #[command(after_help = "Examples:\n  sysop models\n  sysop models ollama")]
    Models {
        /// Provider [default: all that are configured]
        #[arg(value_name = "PROVIDER", value_parser = word)]
        provider: Option<String>,
    },
    /// Set up sysop: model, key, default host, approval mode
    #[command(
        after_help = "Asks questions, shows the changes, and writes them only after you confirm. Other settings of an \
                      existing config are kept."
    )]
    Init,
    /// Start a scripted model server for tests and demos
    #[command(
        after_help = "Example:\n  sysop mock-llm --port 8000 &\n  LLM_BASE_URL=http://127.0.0.1:8000/v1 \
                            sysop exec \"how are you\""
    )]
    MockLlm(MockLlmArguments),
    /// Check the configuration and environment
    #[command(
        after_help = "Examples:\n  sysop doctor --model ollama/qwen3\n  sysop doctor --probe openai/qwen3-4b\n\n\
                            Exits with 0 if a task can run, and with 1 otherwise."
    )]
    Doctor(DoctorArguments),
    /// Test commands against the approval policy
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop policy check 'git push --force'\n  sysop policy check \
                            --mode auto --json 'make test'\n  sysop policy check --host web1 'systemctl restart nginx'"
    )]
    Policy(PolicyCommand),
    /// List skills and custom commands, or check their files
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop skills list\n  sysop skills check .agents/skills/certs .sysop/commands/*.md"
    )]
    Skills(SkillsCommand),
    /// Manage MCP servers
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop mcp add time -- uvx mcp-server-time\n  sysop mcp list\n  sysop mcp import \
                      ~/.cursor/mcp.json"
    )]
    Mcp(McpCommand),
    /// Show and change the configuration
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop config show\n  sysop config get -v model\n  sysop config set approve each\n  sysop config edit"
    )]
    Config(ConfigCommand),
    /// Trust a workspace until it changes: its .sysop.toml, AGENTS.md, skills and commands
    #[command(after_help = "Examples:\n  sysop trust\n  sysop trust ~/project --revoke")]
    Trust(TrustArguments),
    /// Serve editors over the Agent Client Protocol on standard input and output
    #[command(
        after_help = "Example:\n  # Zed, settings.json\n  \"agent_servers\": {\"sysop\": {\"type\": \"custom\", \"command\": \
                      \"sysop\", \"args\": [\"acp\"]}}\n\nEach session works in the directory that the editor names. \
                      The editor asks you to approve commands. Standard output carries only the protocol; \
                      messages go to standard error."
    )]
    Acp,
    /// Print a shell script that makes Alt+S turn the typed line into a command
    #[command(
        after_help = "Examples:\n  eval \"$(sysop shell-init bash)\"           # in ~/.bashrc\n  eval \"$(sysop \
                      shell-init zsh)\"            # in ~/.zshrc\n  sysop shell-init fish | source           # in \
                      config.fish\n\nThe proposal replaces the typed line and is never run by itself. The model gets the \
                      line, the directory and the name of the shell."
    )]
    ShellInit(ShellInitArguments),
    /// Print shell completions
    #[command(after_help = "Example:\n  sysop completions bash > \
                            ~/.local/share/bash-completion/completions/sysop")]
    Completions {
        /// Shell to generate completions for
        shell: clap_complete::Shell,
    },
    /// Print the man page
    #[command(after_help = "Example:\n  sysop man > ~/.local/share/man/man1/sysop.1")]
    Man,
}

/// `sysop chat`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChatArguments {
    /// Task to start with
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Vec<String>,
    /// Print plain text, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) images: ImageArguments,
}

/// `sysop exec`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecArguments {
    /// Task to run; `-` reads it from standard input
    #[arg(value_name = "TASK", value_parser = task, required = true)]
    pub(crate) task: Vec<String>,
    /// Print JSON messages, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only a JSON value that validates against this JSON Schema
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Run without asking within these bounds, then ask; bounds are commands, time, cost and hosts, such as `20
    /// commands, 30m, $0.50, @lab`
    #[arg(long, value_name = "BOUNDS", value_parser = bounds)]
    pub(crate) bounds: Option<AutoBounds>,
    #[command(flatten)]
    pub(crate) images: ImageArguments,
}

/// Images that the model gets together with the task.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ImageArguments {
    /// Image to send with the task: PNG, JPEG, GIF or WebP, up to 5 MB and 2000 pixels a side; repeatable
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

impl ImageArguments {
    pub(crate) fn absolute_paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())).collect()
    }

    /// Returns the task with the images as mentions, for front ends that read images from the text.
    pub(crate) fn added_to(&self, task: Option<String>) -> Option<String> {
        let paths = self.absolute_paths();
        let mentions = paths.iter().map(|path| mention_of(&path.to_string_lossy()));
        let words: Vec<String> = task.into_iter().chain(mentions).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// `sysop serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArguments {
    /// Address to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8765")]
    pub(crate) listen: std::net::SocketAddr,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "N", conflicts_with = "listen", value_parser = number_of::<u16>("port", 0..=65_535))]
    pub(crate) port: Option<u16>,
    /// Seconds to wait for the result of a tool call whose client has disconnected
    #[arg(long, value_name = "SECS", default_value_t = 120, value_parser = number_of::<u64>("number of seconds", 1..=86_400))]
    pub(crate) tool_timeout: u64,
    /// Exit when standard input closes, and print server events as JSON lines
    #[arg(long)]
    pub(crate) watched: bool,
    /// Database that stores sessions and tokens.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
    /// Options that control access to the server.
    #[command(flatten)]
    pub(crate) exposure: ServeOptions,
}

/// Database that stores sessions and tokens.
#[derive(Debug, Clone, Args)]
pub(crate) struct DatabaseArgument {
    /// PostgreSQL database shared by several servers, as postgres://USER@HOST:PORT/DATABASE; set passwords in
    /// SYSOP_DATABASE, PGPASSWORD or the config, since other users can see options [default: a local SQLite file]
    #[arg(long, global = true, value_name = "URL", value_parser = database, hide_default_value = true)]
    pub(crate) database: Option<SecretString>,
}

fn database(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text))
}

/// `sysop desktop`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DesktopArguments {
    /// Session to open: id or id prefix (`--continue`: the most recent)
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
}

/// `sysop sessions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionsArguments {
    /// Subcommand to run.
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
    /// Database that stores the sessions.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
}

/// `sysop guard`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum GuardCommand {
    /// List the guards of a host
    List {
        /// Host from the config, or an ssh destination
        #[arg(value_name = "HOST", value_parser = word)]
        host: String,
    },
    /// Show the state of a guard
    Status {
        #[command(flatten)]
        guard: GuardArguments,
    },
    /// Keep a change without testing a fresh login
    Confirm {
        #[command(flatten)]
        guard: GuardArguments,
    },
    /// Roll a change back now
    Fire {
        #[command(flatten)]
        guard: GuardArguments,
    },
}

/// A guard on a host.
#[derive(Debug, Clone, Args)]
pub(crate) struct GuardArguments {
    /// Host from the config, or an ssh destination
    #[arg(value_name = "HOST", value_parser = word)]
    pub(crate) host: String,
    /// Id of the guard [default: the armed one, or else the latest]
    #[arg(value_name = "ID", value_parser = word)]
    pub(crate) id: Option<String>,
}

/// `sysop undo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UndoArguments {
    /// Session id or id prefix [default: the most recent session of this host and directory that has a change to undo]
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
    /// Number of the tool call in the session [default: the last change; if of files, all file edits of its turn]
    #[arg(value_name = "CALL", value_parser = call_number)]
    pub(crate) step: Option<u64>,
    /// Show the plan and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) plan: bool,
    /// Undo without asking; needs SESSION
    #[arg(long, requires = "session")]
    pub(crate) yes: bool,
}

/// `sysop token`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TokenArguments {
    /// Subcommand to run.
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    /// Database that stores the tokens.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
}

/// `sysop connect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectArguments {
    /// Server URL, as `sysop serve` prints it; the token may be in SYSOP_TOKEN instead
    #[arg(value_name = "URL", value_parser = word)]
    pub(crate) url: String,
    /// Task to start with
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Vec<String>,
    /// Print plain text, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
    /// Offer only these tools of the profile
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Also offer the tool that deletes files
    #[arg(long)]
    pub(crate) allow_delete: bool,
    /// Maximum size of files written by tools: 4096, 64K, 2M [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_file_size: Option<u64>,
}

/// `sysop approve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApproveArguments {
    /// Id of the approval to answer, as listed by `sysop approve`
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Reject the call, and tell the model why
    #[arg(long, value_name = "WHY", requires = "id")]
    pub(crate) reject: Option<String>,
}

/// `sysop attach`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArguments {
    /// Server URL, as `sysop serve` prints it; the token may be in SYSOP_TOKEN instead
    #[arg(value_name = "URL", value_parser = word)]
    pub(crate) url: String,
    /// Session to open: id or id prefix [default: most recent]
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
    /// Use the REPL instead of the TUI
    #[arg(long)]
    pub(crate) chat: bool,
    /// Print plain text, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `sysop sessions`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, most recent first
    List {
        /// Maximum number of sessions [default: 20]
        #[arg(short = 'n', long, value_name = "N", value_parser = number_of::<u32>("number of sessions", 1..=10_000))]
        limit: Option<u32>,
        /// List all sessions
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Show the transcript of a session
    Show {
        /// Session id or id prefix [default: the most recent session]
        #[arg(value_name = "ID", value_parser = word)]
        id: Option<String>,
    },
    /// Export a session as JSON lines or as a document
    Export {
        /// Session id or id prefix [default: the most recent session]
        #[arg(value_name = "ID", value_parser = word)]
        id: Option<String>,
        /// Output format
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// Print a report for a ticket: what was asked, done, changed and undone
    Report {
        /// Session id or id prefix [default: the most recent session]
        #[arg(value_name = "ID", value_parser = word)]
        id: Option<String>,
        /// Output format
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
        format: ReportFormat,
    },
    /// Delete a session and its stored output
    Delete {
        /// Session id or id prefix
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
    },
}

/// `sysop token`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it (shown only once)
    Create {
        /// Name shown in lists and logs
        #[arg(long, value_name = "NAME", value_parser = token_name)]
        name: String,
        /// Permissions: `operate`, `decide`, or both separated by a comma (imply `read`); or only `read`
        #[arg(long, value_name = "SCOPES", value_parser = token_scopes)]
        scope: Scopes,
        /// Lifetime: 30d, 12h, 45m or 2w [default: never expires]
        #[arg(long, value_name = "DURATION", value_parser = token_lifetime)]
        expires: Option<TokenLifetime>,
    },
    /// List tokens (values are not shown)
    List,
    /// Revoke a token and close its connections
    Revoke {
        /// Token id, as shown by `sysop token list`
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
    },
}

/// Value of `sysop token create --expires`: the lifetime of the new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenLifetime {
    pub(crate) milliseconds: i64,
}

/// `sysop audit`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify the audit log's integrity and report the first altered entry
    Verify {
        /// Audit file [default: all files in the data directory]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show approvals, commands and their results
    Show {
        /// Audit file [default: all files in the data directory]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Show one session only, by id or id prefix
        #[arg(long, value_name = "ID", value_parser = word)]
        session: Option<String>,
        /// Maximum number of entries, most recent last
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = number_of::<u32>("number of entries", 1..=1_000_000))]
        limit: u32,
    },
}

/// `sysop doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArguments {
    /// Ask a model ten short questions, to find out how it calls tools best, and remember the result
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) probe: Option<sysop_core::message::ModelRef>,
}

/// `sysop mock-llm`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MockLlmArguments {
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = number_of::<u16>("port", 0..=65_535))]
    pub(crate) port: u16,
    /// Scripted answers (JSON) [default: built-in scenarios]
    #[arg(long, value_name = "FILE")]
    pub(crate) scenarios: Option<PathBuf>,
}

/// `sysop skills`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills and commands available as /NAME in this directory
    List,
    /// Check files, and exit with 1 if any is invalid
    Check {
        /// Command files, and files or directories of skills
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<std::path::PathBuf>,
    },
}

/// `sysop policy`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show whether a command would run, ask or be denied, and why
    #[command(
        after_help = "Examples:\n  sysop policy check 'rm -rf build'\n  sysop policy check --mode never df -h\n  \
                            sysop policy check --dialect fish 'echo hi'\n  sysop policy check --host web1 --json \
                            'journalctl -u nginx'\n\nNo command is run. The check uses the config, rules and dangerous \
                            patterns of the current directory, but no session approvals. With --host, paths are not \
                            resolved on the host. Exits with 0 for every verdict."
    )]
    Check(PolicyCheckArguments),
}

/// `sysop policy check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyCheckArguments {
    /// Command line: one quoted argument, or a program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
    /// Approval mode, as after /approve [default: the mode in which a session starts on the host]
    #[arg(long, value_name = "MODE", value_parser = approval_mode())]
    pub(crate) mode: Option<ApprovalMode>,
    /// Shell syntax [default: bash]
    #[arg(long, value_name = "SHELL", value_parser = dialect())]
    pub(crate) dialect: Option<Dialect>,
    /// Working directory of the command [default: the root directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl PolicyCheckArguments {
    /// Returns the command line. Several words are quoted, because the user's shell has already split them.
    pub(crate) fn command_line(&self) -> String {
        match self.command.as_slice() {
            [whole] => whole.clone(),
            words => shell_words::join(words),
        }
    }
}

/// Parser of `sysop policy check --dialect`.
fn dialect() -> impl TypedValueParser<Value = Dialect> {
    choice([
        (Dialect::Bash, "bash", "bash"),
        (Dialect::Sh, "sh", "POSIX shells: dash, busybox, ksh"),
        (Dialect::Zsh, "zsh", "zsh"),
        (Dialect::Fish, "fish", "fish"),
        (Dialect::Csh, "csh", "csh or tcsh"),
    ])
}

/// Parses a command line whose first element is the program's name. Fails with a clap usage error. `--help`
/// and `--version` also return errors, with exit code 0.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let arguments = join_resume(arguments.into_iter().collect());
    let is_escaped = arguments.iter().any(|argument| argument == "--");
    let mut command = Arguments::command();
    let matches = match quick_matches(&command, &arguments) {
        Some(matches) => matches,
        None => {
            command = hide_inapplicable(command);
            let matches = command.try_get_matches_from_mut(arguments.iter().cloned());
            matches.map_err(|error| with_tips(error, &mut command, &arguments))?
        }
    };
    let mut parsed = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    if let Some(Command::Policy(PolicyCommand::Check(check))) = &parsed.command
        && let Some(sorted) = policy_options_first(&arguments, &check.command)
    {
        return parse(sorted);
    }
    if let Some(complaint) = inapplicable_flag(&Arguments::command(), &arguments, &matches) {
        command.build();
        let named = named_command(&mut command, &matches);
        return Err(named.error(clap::error::ErrorKind::ArgumentConflict, complaint));
    }
    parsed.global.settle_continue();
    if parsed.command.is_some() && !parsed.task.is_empty() {
        let complaint = "the task must follow the command: sysop COMMAND TASK";
        return Err(command.error(clap::error::ErrorKind::ArgumentConflict, complaint));
    }
    match mistyped_command(&parsed.task) {
        Some(complaint) if !is_escaped => {
            Err(command.error(clap::error::ErrorKind::InvalidSubcommand, complaint))
        }
        Some(_) | None => Ok(parsed),
    }
}

/// Parses with the part of the definition that a command line can use: the flags of the program, and the commands
/// whose names are among the words. Returns `None` for help, errors and their tips, which need the whole definition.
///
/// clap copies each global flag into each command. With all commands, that is a tenth of the time of a short command.
fn quick_matches(whole: &clap::Command, arguments: &[OsString]) -> Option<clap::ArgMatches> {
    let is_typed = |name: &str| arguments.iter().any(|argument| argument == name);
    let typed = whole.get_subcommands().filter(|command| is_typed(command.get_name()));
    let part = clap::Command::new("sysop")
        .args(whole.get_arguments().cloned())
        .groups(whole.get_groups().cloned())
        .subcommands(typed.cloned());
    // Without any command, clap does not add the command `help`.
    (!is_typed("help")).then(|| part.try_get_matches_from(arguments).ok()).flatten()
}

/// Returns the words of a task joined by spaces, or `None` if there are no words.
pub(crate) fn task_text(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests;
