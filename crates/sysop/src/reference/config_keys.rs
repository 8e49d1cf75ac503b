//! The page with the config keys: types and workspace permissions from the table of keys, defaults from the
//! built-in config and from the constants of the code that uses the keys, and meanings from the table here, which has a
//! row for each key.

use std::fmt::Write;

use sysop_core::catalog::{BASH_TIMEOUT_S_DEFAULT, RUN_COMMAND_TIMEOUT_S_DEFAULT};
use sysop_core::model_provider::PROVIDERS;
use sysop_mcp::settings::{CALL_TIMEOUT_DEFAULT, STARTUP_TIMEOUT_DEFAULT};
use sysop_provider::{NUM_CTX_DEFAULT, SILENCE_MAX};

use crate::config::{
    ConfigKey, HOOK_KEYS, HOOK_TIMEOUT_S, KEYS, ListKind, TextKind, ValueKind, WorkspaceRule,
};
use crate::serve::APPROVAL_EXPIRES_S;

/// File with the built-in values.
const DEFAULTS: &str = include_str!("../config/default.toml");

/// Meaning of each key, in the order of the page. Rows with an empty key are headings. A meaning may end with the
/// default, if the default is no value.
const MEANINGS: &[(&str, &str)] = &[
    ("", "Model"),
    ("model.name", "Model name; `model = \"PROVIDER/NAME\"` sets both the name and the provider"),
    (
        "model.provider",
        "Model provider: `openai`, `gemini`, `vertex`, `ollama`, `ollama+ssh`, `anthropic`, `local`",
    ),
    ("temperature", "Sampling temperature. Default: the model's own"),
    ("max_output_tokens", "Maximum tokens per reply. Default: the model's own"),
    (
        "models.*.context_window",
        "Context window of this model, in tokens; overrides the value that its server reports. Default: the reported value",
    ),
    ("models.*.max_output_tokens", "Maximum tokens per reply of this model. Default: `max_output_tokens`"),
    ("models.*.vision", "True if the model accepts images. Default: as known or reported"),
    ("models.*.url", "For `models.\"local/NAME\"`: URL of the model file, `https:` or `file:`"),
    ("models.*.sha256", "SHA-256 of the model file, verified before use"),
    ("models.*.size", "Size of the model file, in bytes"),
    ("models.*.license", "License of the model, shown before the download"),
    (
        "providers.*.base_url",
        "Base URL of the provider's API: the part before `/chat/completions`, `/v1/messages` or `/api/chat`",
    ),
    ("providers.*.api_key", "API key; prefer `api_key_env`, which keeps it out of files"),
    (
        "providers.*.api_key_env",
        "Environment variable that contains the API key; an empty string if the server needs none",
    ),
    ("providers.*.api_key_file", "File that contains the API key; must not be readable by other users"),
    ("providers.*.headers.*", "Header to send with each request"),
    ("providers.*.timeout_s", "Maximum seconds to wait for data from the provider"),
    ("providers.openai.api", "API to use; `auto` chooses by server and model"),
    ("providers.openai.effort", "Reasoning effort. Default: the model's own"),
    ("providers.vertex.project", "Google Cloud project. Default: `GOOGLE_CLOUD_PROJECT`"),
    ("providers.vertex.location", "Google Cloud region"),
    ("providers.ollama.num_ctx", "Context window to request from Ollama, in tokens"),
    ("providers.ollama.keep_alive", "Time that Ollama keeps the model in memory. Default: Ollama's own"),
    ("providers.ollama+ssh.num_ctx", "Like `providers.ollama.num_ctx`, for the Ollama of the remote host"),
    (
        "providers.ollama+ssh.keep_alive",
        "Like `providers.ollama.keep_alive`, for the Ollama of the remote host. Default: Ollama's own",
    ),
    ("", "Approval and policy"),
    ("approve", "Approval mode; see [policy](../policy.md)"),
    ("never_network", "Let read-only commands use the network in `never` mode"),
    ("never_asks", "Ask before read-only commands in `never` mode"),
    (
        "dangerous_patterns",
        "Regular expressions; matching commands are dangerous and need approval in every mode",
    ),
    ("deny", "Regular expressions; matching commands are denied"),
    ("", "Sandbox"),
    ("sandbox", "Sandbox for commands on this machine; see [sandbox](../sandbox.md)"),
    (
        "sandbox_write",
        "Directories that sandboxed changes may write to, besides the root and temporary directories",
    ),
    ("sandbox_network", "Let sandboxed changes use the network"),
    (
        "guard.seconds",
        "Seconds after which an unconfirmed change over ssh that may lock you out is rolled back; 0 disables guards",
    ),
    ("", "Turns, calls and output"),
    ("profile", "Tools that the model gets: `full`, `coder`, `operator` or `workspace`"),
    ("max_iterations", "Maximum number of model calls in one turn"),
    (
        "max_history_messages",
        "Maximum number of recent messages that the model gets; 0 means as many as its context window holds",
    ),
    (
        "ledger_only",
        "True to compact the history without asking the model for a summary; see [context](../context.md)",
    ),
    (
        "probe_models",
        "True to ask a model on an unknown local server up to ten questions before its first use; see \
         [models](../models.md)",
    ),
    ("max_output_bytes", "Maximum bytes of a call's output that the model gets; head and tail are kept"),
    ("max_output_lines", "Maximum lines of a call's output that the model gets"),
    ("tool_timeout_s", "Time limit of a command whose call sets none, in seconds"),
    (
        "on_timeout",
        "Action at the time limit of a `bash` command: stop the command, or let it continue as a job",
    ),
    ("", "Budgets and prices"),
    ("budget.turn.cost", "Maximum cost of a turn, in US dollars"),
    ("budget.turn.tokens", "Maximum tokens per turn"),
    ("budget.turn.minutes", "Maximum minutes per turn"),
    ("budget.session.cost", "Maximum cost of a session, in US dollars"),
    ("budget.session.tokens", "Maximum tokens per session"),
    ("budget.session.minutes", "Maximum minutes of all turns of a session"),
    ("budget.day.cost", "Maximum cost of all sessions per day, in US dollars"),
    ("budget.day.tokens", "Maximum tokens of all sessions per day"),
    ("budget.day.minutes", "Maximum minutes of all turns per day"),
    (
        "prices.*.input",
        "Price per million input tokens of this model, in US dollars. Default: as in the built-in table",
    ),
    (
        "prices.*.output",
        "Price per million output tokens of this model, in US dollars. Default: as in the built-in table",
    ),
    (
        "prices.*.cached",
        "Price per million cached input tokens of this model, in US dollars. Default: as in the built-in table",
    ),
    ("", "Hosts"),
    (
        "connection.host",
        "Default hosts: an ssh destination, a name or @TAG from `[hosts]`, or a comma-separated list. Default: this \
         machine",
    ),
    ("connection.user", "User on the default host. Default: as in the ssh config"),
    ("connection.port", "Port of the default host's ssh server. Default: as in the ssh config"),
    ("ssh_config", "ssh config to use. Default: `~/.ssh/config`"),
    ("hosts.*.host", "ssh destination of the host. Default: the name of the table"),
    ("hosts.*.user", "User on the host. Default: as in the ssh config"),
    ("hosts.*.port", "Port of the host's ssh server. Default: as in the ssh config"),
    ("hosts.*.tags", "Tags for `--host @TAG`"),
    (
        "hosts.*.approve",
        "Approval mode on the host; the stricter one of this and the session's counts, but `auto` also loosens an \
         `ask` that is the default or from your own config. Default: the session's",
    ),
    ("hosts.*.models", "Models that may receive output from the host. Default: all"),
    ("hosts.*.approvals", "Number of different people who must allow a change on the host"),
    ("hosts.*.root", "Root directory on the host. Default: the home directory"),
    ("hosts.*.description", "Description for users and the model"),
    ("", "Routines"),
    ("routines.*.description", "Description for users"),
    ("routines.*.cmd", "Command; `{{name}}` is replaced by the quoted value of a variable"),
    ("routines.*.vars.*.description", "Description for users"),
    ("routines.*.vars.*.pattern", "Regular expression that the whole value must match"),
    ("routines.*.vars.*.default", "Default value"),
    ("routines.*.made_from.session", "Session that the runbook was exported from"),
    ("routines.*.made_from.date", "Date of the export"),
    ("routines.*.made_from.os", "Operating system that the session ran on"),
    ("routines.*.made_from.arch", "Architecture that the session ran on"),
    ("routines.*.made_from.policy", "Number of policy rules at the time of the export"),
    ("", "MCP servers"),
    ("mcp.*.command", "Program of a server on this machine"),
    ("mcp.*.args", "Arguments of the server's program"),
    ("mcp.*.env.*", "Environment variable of the server"),
    ("mcp.*.env_pass", "Variables that the server gets from sysop's environment"),
    ("mcp.*.cwd", "Directory that the server starts in"),
    ("mcp.*.url", "URL of a server that is reached over HTTP"),
    (
        "mcp.*.headers_env.*",
        "Header to send to the server; the value names the environment variable that contains it",
    ),
    ("mcp.*.tools", "Names of the tools to offer; `*` matches any text. Default: all"),
    ("mcp.*.exclude_tools", "Names of the tools not to offer; `*` matches any text"),
    (
        "mcp.*.approve",
        "Calls that need approval: all (`ask`), or all except those declared read-only (`reads`); `never` offers no \
         tools",
    ),
    ("mcp.*.timeout_s", "Time limit of a call, in seconds"),
    (
        "mcp.*.startup_timeout_s",
        "Time limit of the server's start, in seconds; `60` by default if `npx`, `uvx`, `bunx`, `pipx`, `uv`, `docker` or \
         `podman` starts it",
    ),
    ("mcp.*.enabled", "False to disable the server"),
    ("", "Hooks and notifications"),
    (
        "hooks.on",
        "Event that runs the program; `[[hooks]]` is a list of tables with these keys, see [hooks](../hooks.md)",
    ),
    ("hooks.match", "Regular expression for the command, the prompt or the reason. Default: everything"),
    ("hooks.run", "Program and its arguments, without a shell"),
    ("hooks.timeout_s", "Time limit of the program, in seconds"),
    ("hooks.on_error", "Decision if the program fails"),
    (
        "notify.command",
        "Program and its arguments, run when a call waits for approval; see \
         [approvals](../approvals.md#notifications)",
    ),
    ("notify.timeout_s", "Time limit of the program, in seconds"),
    ("notify.url", "Base URL of the web page, for links. Default: the server's own address"),
    ("", "Front ends and server"),
    ("theme", "Theme of the TUI. Default: chosen by the terminal's background"),
    (
        "status_line",
        "Parts of the TUI's status line: host, folder, branch, model, approval, sandbox, context, tokens, cost, \
         time, step. Default: all of them",
    ),
    ("mouse", "False to leave the mouse to the terminal, so that the terminal can select text"),
    (
        "database",
        "URL of a PostgreSQL database, which several servers can share. Default: an SQLite file of this user",
    ),
    ("otlp_endpoint", "OpenTelemetry endpoint (OTLP over HTTP) for the server's spans"),
    ("approval_expires_s", "Seconds after which an unanswered approval is rejected; 0 for never"),
    ("audit.journald", "Also write the server's audit log to the systemd journal"),
    ("undo.megabytes", "Maximum size of the content saved per call for undo, in MiB; 0 saves nothing"),
];

/// Returns the whole page as Markdown.
pub(super) fn page() -> String {
    let mut page = "# Configuration reference\n\nAll keys of `config.toml`, and of `.sysop.toml` in a workspace. `*` \
                    stands for a name that you choose. [Configuration](configuration.md) explains where settings \
                    come from. `sysop config get KEY` prints the value of a key in effect. `[[policy.rules]]` is described in \
                    [policy](../policy.md#rules), and `[[routines.NAME.steps]]` in [runbooks](../runbooks.md#file).\n\nThe last \
                    column shows what an untrusted workspace may set.\n"
        .to_owned();
    let defaults: toml::Table = DEFAULTS.parse().expect("the built-in config is valid");
    for (name, meaning) in MEANINGS {
        if name.is_empty() {
            write!(page, "\n## {meaning}\n\n| key | type | meaning | default | untrusted workspace |\n| --- | --- | --- | --- | --- |\n")
                .expect("writing to a string cannot fail");
            continue;
        }
        let key = KEYS.iter().chain(HOOK_KEYS).find(|key| key.pattern.join(".") == *name);
        let key = key.unwrap_or_else(|| panic!("`{name}` is described, but is not a key"));
        let built_in = default_of(name, &defaults).or_else(|| default_in_code(name));
        let (meaning, default) = match (built_in, meaning.split_once(". Default: ")) {
            (Some(_), Some(_)) => panic!("`{name}` has two defaults"),
            (Some(value), None) => (*meaning, value),
            (None, Some((meaning, text))) => (meaning, text.to_owned()),
            (None, None) => (*meaning, "none".to_owned()),
        };
        writeln!(page, "| `{name}` | {} | {meaning} | {default} | {} |", type_of(key), rights(key))
            .expect("writing to a string cannot fail");
    }
    for key in KEYS.iter().chain(HOOK_KEYS) {
        let name = key.pattern.join(".");
        assert!(MEANINGS.iter().any(|(known, _)| *known == name), "the key `{name}` has no row in MEANINGS");
    }
    page
}

/// Returns the default of a key whose default is a constant of the code that uses the key.
fn default_in_code(name: &str) -> Option<String> {
    let number = |value: u64| Some(format!("`{value}`"));
    match name {
        "providers.*.base_url" => {
            let with_address = PROVIDERS.iter().filter(|provider| !provider.base_url.is_empty());
            let list = with_address.map(|provider| format!("`{}` ({})", provider.base_url, provider.name));
            Some(list.collect::<Vec<_>>().join(", "))
        }
        "providers.*.api_key_env" => {
            let with_key = PROVIDERS.iter().filter(|provider| !provider.key_variables.is_empty());
            let list = with_key
                .map(|provider| format!("`{}` ({})", provider.key_variables.join("`, `"), provider.name));
            Some(list.collect::<Vec<_>>().join(", "))
        }
        "providers.*.timeout_s" => number(SILENCE_MAX.as_secs()),
        "providers.ollama.num_ctx" | "providers.ollama+ssh.num_ctx" => number(NUM_CTX_DEFAULT.into()),
        "providers.openai.api" => Some("`\"auto\"`".to_owned()),
        "providers.vertex.location" => Some("`\"global\"`".to_owned()),
        "tool_timeout_s" => Some(format!(
            "`{BASH_TIMEOUT_S_DEFAULT}` (`bash`), `{RUN_COMMAND_TIMEOUT_S_DEFAULT}` (`run_command`)"
        )),
        "approval_expires_s" => Some(format!("`{APPROVAL_EXPIRES_S}` on a server, otherwise `0`")),
        "hosts.*.approvals" => number(1),
        "mcp.*.approve" => Some("`\"ask\"`".to_owned()),
        "mcp.*.timeout_s" => number(CALL_TIMEOUT_DEFAULT.as_secs()),
        "mcp.*.startup_timeout_s" => number(STARTUP_TIMEOUT_DEFAULT.as_secs()),
        "mcp.*.enabled" => Some("`true`".to_owned()),
        "hooks.timeout_s" | "notify.timeout_s" => number(HOOK_TIMEOUT_S),
        "hooks.on_error" => Some("`\"ask\"`".to_owned()),
        _ => None,
    }
}

/// Returns a key's built-in value as TOML, or `None` if the built-in config does not set it.
fn default_of(name: &str, defaults: &toml::Table) -> Option<String> {
    let mut names = name.split('.');
    let first = names.next().and_then(|first| defaults.get(first));
    let value = names.fold(first, |value, name| value.and_then(|value| value.get(name)));
    value.map(|value| format!("`{}`", value.to_string().replace('|', r"\|")))
}

fn type_of(key: &ConfigKey) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match key.kind {
        ValueKind::Text(TextKind::Word { words: known, .. }) => words(known),
        ValueKind::Text(TextKind::Any) => "string".to_owned(),
        ValueKind::Text(TextKind::Secret) => "secret string".to_owned(),
        ValueKind::Text(TextKind::Url) => "URL".to_owned(),
        ValueKind::Text(TextKind::Variable | TextKind::VariableOrNone) => "environment variable".to_owned(),
        ValueKind::Text(TextKind::Pattern) => "regular expression".to_owned(),
        ValueKind::Text(TextKind::OrInteger) => "string or integer".to_owned(),
        ValueKind::Integer { least, most: i64::MAX } => format!("integer from {least}"),
        ValueKind::Integer { least, most } => format!("integer from {least} to {most}"),
        ValueKind::Number { least, most } => format!("number from {least} to {most}"),
        ValueKind::Switch => "true or false".to_owned(),
        ValueKind::List(ListKind::Patterns | ListKind::Denials) => "list of regular expressions".to_owned(),
        ValueKind::List(ListKind::Words) => "list of strings".to_owned(),
        ValueKind::List(ListKind::Variables) => "list of environment variables".to_owned(),
        ValueKind::List(ListKind::Tags) => "list of tags".to_owned(),
        ValueKind::List(ListKind::Folders) => "list of directories".to_owned(),
        ValueKind::List(ListKind::Models) => "list of models; `*` matches any".to_owned(),
    }
}

fn rights(key: &ConfigKey) -> String {
    match key.workspace {
        WorkspaceRule::Ignored => "ignored".to_owned(),
        WorkspaceRule::Stricter(words) => format!("stricter only: {}", words.join(", ")),
        WorkspaceRule::Only(value) => format!("only {value}"),
        WorkspaceRule::Lower => "lower only".to_owned(),
        WorkspaceRule::Adds => "additions only".to_owned(),
    }
}
