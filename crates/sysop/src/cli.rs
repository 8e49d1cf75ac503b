//! The command line: every command and flag of this build, as typed.
//!
//! Nothing here reads files, the environment or the network; `settings` gives the flags their meaning. The modules that
//! carry out a command take its arguments from here, so nothing here names those modules; only the flags of `sysop serve`
//! (`serve_options`) and the forms of an export (`sessions`) stand beside what they decide.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use secrecy::SecretString;
use sysop_core::policy::Dialect;
use sysop_driver::tokens::Scopes;

use crate::config::nearest_word;
use crate::global_flags::{Approve, GlobalFlags};
use crate::serve_options::ServeOptions;
use crate::sessions::ExportFormat;

/// The longest name of a token, in characters.
const TOKEN_NAME_CHARS_MAX: usize = 64;
/// The longest life of a token, in milliseconds: ten years.
const TOKEN_LIFE_MS_MAX: i64 = 3653 * DAY_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const MINUTE_MS: i64 = 60 * 1000;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sysop",
    version,
    about = "An AI operator for your terminal and your servers",
    long_about = "An AI operator for your terminal and your servers.\n\nSay what you want; a model proposes the next \
                  step; you see it, edit it, allow it or refuse it; it runs, and the output goes back to the model \
                  until the task is done. Without a command, the full screen opens; `sysop chat` is the \
                  same line by line.",
    after_long_help = TOP_EXAMPLES,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// What you want done; opens the full screen with it
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Option<String>,
    /// The flags that go with every command.
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const TOP_EXAMPLES: &str = "\
Examples:
  sysop                              the full screen, on this machine
  sysop \"why is the disk full?\"      the same, beginning with a task
  sysop chat                         the same line by line
  sysop exec --approve auto \"...\"    one task; only what is dangerous asks
  sysop --host web1 \"...\"           on another machine, through your own ssh
  sysop exec --host @web --canary 1 \"...\"
                                     on all hosts with the tag `web`, one of
                                     them first
  sysop --model demo                 try it without any model
  sysop doctor                       what would be used, and why

Exit codes:
  0    done; the model was told of each command that failed, or of which nobody knows how it ended
  1    the task failed: a model error, the iteration limit, a routine's command
  2    bad usage or config
  3    an approval was needed and nobody could give it; nothing that needed one ran
  4    stopped by someone else
  130  Ctrl-C

Environment:
  SYSOP_<KEY>                        sets a config key; `__` stands between a
                                     table and what is in it: SYSOP_MODEL,
                                     SYSOP_MAX_ITERATIONS,
                                     SYSOP_PROVIDERS__OPENAI__BASE_URL
  SYSOP_HOST                         where commands run, as with --host
  OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY, ANTHROPIC_API_KEY
                                     keys of models
  LLM_BASE_URL, LLM_AUTH_TOKEN, LLM_DEFAULT_MODEL, LLM_SMALL_FAST_MODEL
                                     a server that speaks like OpenAI's
  OLLAMA_HOST                        where Ollama runs
  NO_COLOR                           no colors
  VISUAL, EDITOR, PAGER              your programs for long texts

Files:
  ~/.config/sysop/config.toml        your config; see `sysop config path`
  .sysop.toml                        a workspace's config, at its root";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk with a model, line by line
    #[command(
        after_help = "Examples:\n  sysop chat\n  sysop chat --model ollama/phi3 \"what listens on port 80?\"\n  \
                            printf 'hello\\n' | sysop chat --plain"
    )]
    Chat(ChatArguments),
    /// Do one task and end
    #[command(
        after_help = "Examples:\n  sysop exec \"what is my current directory?\"\n  sysop exec --approve auto \
                            --json \"run the tests\"\n  git diff | sysop exec -\n\nWithout --approve, the first thing \
                            that needs an approval is asked about on a terminal; elsewhere it ends sysop with 3, and \
                            it has not run."
    )]
    Exec(ExecArguments),
    /// Run a routine of the config file
    #[command(after_help = "Examples:\n  sysop run update_system\n  sysop run service name=nginx.service")]
    Run(RunArguments),
    /// Serve sessions to browsers and other programs
    #[command(
        after_help = "Examples:\n  sysop serve\n  sysop serve --port 9000 --root ~/project\n  SYSOP_DATABASE=postgres://sysop@db/sysop sysop serve   \
                            # one of several\n  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 sysop \
                            serve   # tells a collector of turns and calls, not what they are about\n\nThe first line says \
                            where. On a terminal the address in it opens the page once; elsewhere the token is in a file \
                            that the line names, which is there as long as the server runs."
    )]
    Serve(ServeArguments),
    /// Talk with a session that lives on a server, and let its tools run here
    #[command(
        after_help = "Examples:\n  sysop connect 'http://127.0.0.1:8765/?token=…'\n  SYSOP_TOKEN=… sysop connect \
                            https://ops.example.org --root ~/project \"tidy the docs\"\n  SYSOP_TOKEN=… sysop connect \
                            https://ops.example.org --tools ls,cat,read_file\n\nNo model and no key is needed here. Tools run \
                            below --root, of the profile `workspace` unless --profile names another. Whatever the server \
                            says, a call that changes something runs only if --approve lets it, or if you allow it here. A \
                            token in the address can be read by others on this machine while sysop runs; SYSOP_TOKEN cannot."
    )]
    Connect(ConnectArguments),
    /// Open a session that lives on a server
    #[command(
        after_help = "Examples:\n  sysop attach 'http://127.0.0.1:8765/?token=…'\n  SYSOP_TOKEN=… sysop attach \
                            https://ops.example.org 0198c2f1\n  SYSOP_TOKEN=… sysop attach https://ops.example.org \
                            --plain\n\nWithout SESSION, the latest one. Several may be attached to one session: all see all, \
                            and the first answer to a question counts. Leaving stops nothing."
    )]
    Attach(AttachArguments),
    /// Open the page in a window of its own, with a server that lives as long as the window
    #[command(
        after_help = "Examples:\n  sysop desktop\n  sysop desktop 0198c2f1                 # at a session, or the beginning of its \
                            id\n  sysop desktop --root ~/project --model ollama/phi3\n\nThe window is a program of its own, \
                            sysop-desktop (in Debian the package of this name), so that this one needs no web engine; it \
                            stands beside this one or on PATH. There is one window: a second start raises the first, whose \
                            flags stay. Without a display, `sysop serve` prints an address for a browser elsewhere."
    )]
    Desktop(DesktopArguments),
    /// Look at what was done before
    #[command(after_help = "Examples:\n  sysop sessions list\n  sysop sessions export ID > session.jsonl")]
    Sessions(SessionsArguments),
    /// Say who may use your server: make, list and end tokens
    #[command(
        after_help = "Examples:\n  sysop token create --name laptop --scope operate,decide --expires 30d\n  sysop token create --name phone --scope decide   # answers what waits for a person\n  sysop token list\n  \
                      sysop token revoke 1a2b3c4d"
    )]
    Token(TokenArguments),
    /// See what your server let run, and whether the record of it was touched
    #[command(subcommand, after_help = "Examples:\n  sysop audit show --limit 20\n  sysop audit verify")]
    Audit(AuditCommand),
    /// Serve scripted answers in place of a model, for tests and demos
    #[command(after_help = "Example:\n  sysop mock-llm --port 8000 &\n  LLM_BASE_URL=http://127.0.0.1:8000 \
                            sysop exec \"how are you\"")]
    MockLlm(MockLlmArguments),
    /// Say what would be used and why, and what is missing
    #[command(
        after_help = "Example:\n  sysop doctor --model ollama/phi3\n\nEnds with 0 if a task can run, else \
                            with 1."
    )]
    Doctor,
    /// See what would become of a command, without running it
    #[command(
        subcommand,
        after_help = "Examples:\n  sysop policy check 'git push --force'\n  sysop policy check \
                            --mode auto --json 'make test'\n  sysop policy check --host web1 'systemctl restart nginx'"
    )]
    Policy(PolicyCommand),
    /// Show the config
    #[command(subcommand, after_help = "Examples:\n  sysop config show\n  $EDITOR \"$(sysop config path)\"")]
    Config(ConfigCommand),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  sysop completions bash > \
                            ~/.local/share/bash-completion/completions/sysop")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  sysop man > ~/.local/share/man/man1/sysop.1")]
    Man,
}

/// `sysop chat`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChatArguments {
    /// What you want done first
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Option<String>,
    /// Draw nothing: plain lines, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `sysop exec`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecArguments {
    /// What you want done; `-` reads it from standard input
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: String,
    /// Print one JSON message a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `sysop run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    /// The routine's name
    #[arg(value_name = "ROUTINE")]
    pub(crate) routine: String,
    /// Values for its variables
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) values: Vec<(String, String)>,
}

/// `sysop serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArguments {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8765")]
    pub(crate) listen: std::net::SocketAddr,
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", conflicts_with = "listen")]
    pub(crate) port: Option<u16>,
    /// How long a call waits for a client that is away, or silent, while it runs on the client's machine
    #[arg(long, value_name = "SECS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) tool_timeout: u64,
    /// Also end with standard input, and say on standard output in JSON, an object a line, where the server is and what
    /// waits for a person: for a program that starts a server of its own
    #[arg(long)]
    pub(crate) watched: bool,
    /// Where sessions and tokens are.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
    /// Who may reach it.
    #[command(flatten)]
    pub(crate) exposure: ServeOptions,
}

/// Where sessions and tokens are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct DatabaseArgument {
    /// The PostgreSQL that several servers share, as postgres://USER@HOST:PORT/DATABASE; others can see flags, so
    /// leave a password to SYSOP_DATABASE, PGPASSWORD or the config [default: a file of yours]
    #[arg(long, global = true, value_name = "URL", value_parser = database, hide_default_value = true)]
    pub(crate) database: Option<SecretString>,
}

fn database(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text))
}

/// `sysop desktop`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DesktopArguments {
    /// Which session to show first: its id or the beginning of it; `--resume` takes the latest
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
}

/// `sysop sessions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionsArguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
    /// Where they are.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
}

/// `sysop token`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TokenArguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    /// Where they are.
    #[command(flatten)]
    pub(crate) database: DatabaseArgument,
}

/// `sysop connect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectArguments {
    /// The server, as `sysop serve` prints it; without its token, SYSOP_TOKEN is taken
    #[arg(value_name = "URL", value_parser = word)]
    pub(crate) url: String,
    /// What you want done first
    #[arg(value_name = "TASK", value_parser = task)]
    pub(crate) task: Option<String>,
    /// Draw nothing: plain lines, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
    /// Lend only these tools of the profile
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Lend a tool that deletes files, too
    #[arg(long)]
    pub(crate) allow_delete: bool,
    /// The most bytes of a file that tools write here: 4096, 64K, 2M [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_file_size: Option<u64>,
}

/// `sysop attach`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArguments {
    /// The server, as `sysop serve` prints it; without its token, SYSOP_TOKEN is taken
    #[arg(value_name = "URL", value_parser = word)]
    pub(crate) url: String,
    /// Which session: its id or the beginning of it [default: the latest]
    #[arg(value_name = "SESSION", value_parser = word)]
    pub(crate) session: Option<String>,
    /// Talk line by line instead of on the full screen
    #[arg(long)]
    pub(crate) chat: bool,
    /// Draw nothing: plain lines, for pipes and dumb terminals
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `sysop sessions`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, the latest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Show what was said and done
    Show {
        /// Which session
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
    },
    /// Print a session for other programs, one event a line as JSON, or as a document
    Export {
        /// Which session
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
        /// The form
        #[arg(long, value_name = "FORM", value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// Delete a session and all that was kept of it
    Delete {
        /// Which session
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
    },
}

/// `sysop token`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    Create {
        /// What to call it in lists and logs
        #[arg(long, value_name = "NAME", value_parser = token_name)]
        name: String,
        /// What its bearer may do besides look: operate, decide, or both with a comma; read for nothing else
        #[arg(long, value_name = "SCOPES", value_parser = token_scopes)]
        scope: Scopes,
        /// How long it lives: 30d, 12h, 45m or 2w [default: for ever]
        #[arg(long, value_name = "LIFE", value_parser = token_lifetime)]
        expires: Option<TokenLifetime>,
    },
    /// List tokens, never what they are
    List,
    /// End a token; what its bearers have open ends within a second
    Revoke {
        /// Which token, as the list names it
        #[arg(value_name = "ID", value_parser = word)]
        id: String,
    },
}

/// `sysop token create --expires`: the time that a token lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenLifetime {
    pub(crate) milliseconds: i64,
}

/// `sysop audit`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line was changed, left out or put in between; name the first that was
    Verify {
        /// One file of it [default: all, in your data folder]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show what was allowed, what ran, and how it ended
    Show {
        /// One file of it [default: all, in your data folder]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Only of the session whose id begins so
        #[arg(long, value_name = "ID", value_parser = word)]
        session: Option<String>,
        /// How many of the latest lines at most
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
    },
}

/// `sysop mock-llm`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MockLlmArguments {
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 8000)]
    pub(crate) port: u16,
    /// What to answer (JSON); without it, the scenarios that are built in
    #[arg(long, value_name = "FILE")]
    pub(crate) scenarios: Option<PathBuf>,
}

/// `sysop config`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the path of your config file
    Path,
    /// Print each value and where it came from
    Show,
}

/// `sysop policy`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Judge a command: does it run, ask or is it denied, and why
    #[command(
        after_help = "Examples:\n  sysop policy check 'rm -rf build'\n  sysop policy check --mode never 'df -h'\n  \
                            sysop policy check --dialect fish 'echo hi'\n  sysop policy check --host web1 --json \
                            'journalctl -u nginx'\n\nNothing runs. The settings of the folder count: config, rules and \
                            dangerous patterns. With --host, paths are judged as they are written: the host is asked when \
                            the command runs. Grants of a session do not count. Ends with 0 whatever the verdict."
    )]
    Check(PolicyCheckArguments),
}

/// `sysop policy check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyCheckArguments {
    /// The command line, as one word
    #[arg(value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) command: String,
    /// Judge it in this approval mode [default: that of the config]
    #[arg(long, value_name = "HOW")]
    pub(crate) mode: Option<Approve>,
    /// The shell that would read it [default: bash]
    #[arg(long, value_name = "SHELL")]
    pub(crate) dialect: Option<ShellDialect>,
    /// The folder that it would run in [default: the root]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `sysop policy check --dialect`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellDialect {
    /// bash
    #[default]
    Bash,
    /// A POSIX shell: dash, busybox, ksh
    Sh,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// csh or tcsh
    Csh,
}

impl From<ShellDialect> for Dialect {
    fn from(dialect: ShellDialect) -> Self {
        match dialect {
            ShellDialect::Bash => Self::Bash,
            ShellDialect::Sh => Self::Sh,
            ShellDialect::Zsh => Self::Zsh,
            ShellDialect::Fish => Self::Fish,
            ShellDialect::Csh => Self::Csh,
        }
    }
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// What clap has to say; also `--help` and `--version` come as errors whose exit code is 0.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let arguments = join_resume(arguments.into_iter().collect());
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let parsed = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let Some(task) = &parsed.task else { return Ok(parsed) };
    match (mistyped_command(task), &parsed.command) {
        (Some(complaint), None) => Err(command.error(clap::error::ErrorKind::InvalidSubcommand, complaint)),
        (_, Some(_)) => {
            let complaint = format!("the task {task:?} stands before a command; a task goes after it");
            Err(command.error(clap::error::ErrorKind::ArgumentConflict, complaint))
        }
        (None, None) => Ok(parsed),
    }
}

/// The commands of this build.
const COMMANDS: &[&str] = &[
    "chat",
    "exec",
    "run",
    "serve",
    "connect",
    "attach",
    "desktop",
    "sessions",
    "token",
    "audit",
    "mock-llm",
    "doctor",
    "policy",
    "config",
    "completions",
    "man",
    "help",
];

/// Words that are commands in some build, and would be odd tasks.
const OTHER_COMMANDS: &[&str] = &["acp"];

/// A task of one word that was hardly meant as one: a command with a slip, or one that this build does not have.
fn mistyped_command(task: &str) -> Option<String> {
    let otherwise = format!("a task of one word is given as `sysop chat {task}`");
    if OTHER_COMMANDS.contains(&task) {
        return Some(format!("this build has no command `{task}`; {otherwise}"));
    }
    if task.contains(char::is_whitespace) || task.len() < 4 {
        return None;
    }
    let meant = nearest_word(task, COMMANDS.iter().copied())?;
    Some(format!("there is no command `{task}`; did you mean `{meant}`? ({otherwise})"))
}

/// Joins `--resume ID` into `--resume=ID`, so that a command or a task after a bare `--resume` is not taken for an id:
/// an id is one word, is no flag, and is no command.
fn join_resume(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut joined = Vec::with_capacity(arguments.len());
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            joined.push(argument);
            joined.extend(rest);
            return joined;
        }
        let is_id = |next: &OsString| {
            next.to_str().is_some_and(|word| {
                !word.is_empty()
                    && !word.starts_with('-')
                    && !word.contains(char::is_whitespace)
                    && !COMMANDS.contains(&word)
            })
        };
        match rest.peek() {
            Some(next) if argument == "--resume" && is_id(next) => {
                let mut both = OsString::from("--resume=");
                both.push(rest.next().unwrap_or_default());
                joined.push(both);
            }
            Some(_) | None => joined.push(argument),
        }
    }
    joined
}

fn task(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("the task is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn word(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.starts_with('-') {
        return Err("a name was expected".to_owned());
    }
    Ok(text.to_owned())
}

/// A number of bytes, with K or M for 1024 times as many, once or twice.
fn size(text: &str) -> Result<u64, String> {
    let (digits, times) = match text.trim_end_matches(['B', 'b']).to_ascii_uppercase() {
        text if text.ends_with('K') => (text[..text.len() - 1].to_owned(), 1024),
        text if text.ends_with('M') => (text[..text.len() - 1].to_owned(), 1024 * 1024),
        text => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
    let most = sysop_host::FILE_BYTES_MAX;
    bytes
        .filter(|bytes| (1..=most).contains(bytes))
        .ok_or_else(|| format!("a size from 1 to {most} bytes: 4096, 64K, 2M"))
}

/// Reads `30d`, `12h`, `45m` or `2w`.
fn token_lifetime(text: &str) -> Result<TokenLifetime, String> {
    let bad = || "write it as 30d, 12h, 45m or 2w".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    let unit = match unit {
        "m" => MINUTE_MS,
        "h" => HOUR_MS,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        _ => return Err(bad()),
    };
    let number: u32 = number.parse().map_err(|_| bad())?;
    match i64::from(number).checked_mul(unit) {
        Some(0) => Err("a token that expires at once is of no use".to_owned()),
        Some(life) if life <= TOKEN_LIFE_MS_MAX => Ok(TokenLifetime { milliseconds: life }),
        Some(_) | None => {
            Err("the longest life is ten years; leave it out for a token that never expires".to_owned())
        }
    }
}

/// Reads the name of a token: one short line, to be recognized in lists and logs.
fn token_scopes(text: &str) -> Result<Scopes, String> {
    let known = |_| "scopes are `read`, `operate` and `decide`, with a comma between them".to_owned();
    text.parse().map_err(known)
}

fn token_name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > TOKEN_NAME_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(format!("a name is one line of 1 to {TOKEN_NAME_CHARS_MAX} characters"));
    }
    Ok(text.to_owned())
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests;
