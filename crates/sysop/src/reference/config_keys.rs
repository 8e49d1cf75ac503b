//! The page with the config keys: types and workspace permissions from the table of keys, defaults from the
//! built-in config, and meanings from the table here, which has a row for each key.

use std::fmt::Write;

use crate::config::{ConfigKey, KEYS, ListKind, TextKind, ValueKind, WorkspaceRule};

/// File with the built-in values.
const DEFAULTS: &str = include_str!("../config/default.toml");

/// Meaning of each key, in the order of the page. Rows with an empty key are headings.
const MEANINGS: &[(&str, &str)] = &[
    ("", "Model"),
    ("model.name", "Name of the model; `model = \"PROVIDER/NAME\"` sets name and provider at once"),
    (
        "model.provider",
        "Provider of the model: `openai`, `gemini`, `vertex`, `ollama`, `ollama+ssh`, `anthropic`",
    ),
    ("temperature", "Sampling temperature. Default: the provider's own"),
    ("max_output_tokens", "Tokens of one reply"),
    (
        "models.*.context_window",
        "Tokens that prompt and reply of this model may take together; overrides what its server reports",
    ),
    ("models.*.max_output_tokens", "Tokens of one reply of this model"),
    ("models.*.vision", "If the model accepts images"),
    ("models.*.url", "For `models.\"local/NAME\"`: address of the model file, `https:` or `file:`"),
    ("models.*.sha256", "SHA-256 of the model file; it is checked before the file is used"),
    ("models.*.size", "Bytes of the model file"),
    ("models.*.license", "License of the model, shown before the download"),
    (
        "providers.*.base_url",
        "Address of the provider's API, up to `/chat/completions`, `/v1/messages` or `/api/chat`",
    ),
    ("providers.*.api_key", "API key; prefer `api_key_env`, so that no key is in a file"),
    ("providers.*.api_key_env", "Environment variable with the API key"),
    ("providers.*.api_key_file", "File with the API key; only you may be able to read it"),
    ("providers.*.headers.*", "Header that is sent with each request"),
    ("providers.*.timeout_s", "Longest silence of the provider, in seconds"),
    ("providers.openai.api", "API to use; `auto` picks one by server and model"),
    ("providers.openai.effort", "Reasoning effort. Default: the model's own"),
    ("providers.vertex.project", "Google Cloud project"),
    ("providers.vertex.location", "Google Cloud region"),
    ("providers.ollama.num_ctx", "Context window that Ollama is asked to load the model with"),
    ("providers.ollama.keep_alive", "How long Ollama keeps the model in memory"),
    ("providers.ollama+ssh.num_ctx", "Like `providers.ollama.num_ctx`, for the Ollama of the remote host"),
    (
        "providers.ollama+ssh.keep_alive",
        "Like `providers.ollama.keep_alive`, for the Ollama of the remote host",
    ),
    ("", "Approval and policy"),
    ("approve", "How much runs without asking.; see [policy](../policy.md)"),
    ("never_network", "If `never` allows read-only commands to connect"),
    ("never_asks", "If `never` asks before read-only commands"),
    ("dangerous_patterns", "Commands that match are dangerous and ask in every mode"),
    ("deny", "Commands that match never run"),
    ("", "Sandbox"),
    ("sandbox", "Fence around commands on this machine.; see [sandbox](../sandbox.md)"),
    ("sandbox_write", "Folders that fenced changes may write to, besides the root and temporary folders"),
    ("sandbox_network", "If fenced changes may connect"),
    (
        "guard.seconds",
        "Seconds until a change over ssh that may lock people out rolls back; 0 turns guards off",
    ),
    ("", "Turns, calls and output"),
    ("profile", "Tools that the model gets: `full`, `coder`, `operator` or `workspace`"),
    ("max_iterations", "Model calls in one turn"),
    ("max_history_messages", "Newest messages that the model gets; 0: as many as its window holds"),
    ("ledger_only", "If compaction never asks the model for a summary.; see [context](../context.md)"),
    ("max_output_bytes", "Bytes of a call's output for the model; head and tail stay"),
    ("max_output_lines", "Lines of a call's output for the model"),
    ("tool_timeout_s", "Time limit of a call that states none, in seconds"),
    ("on_timeout", "What happens to a command of `bash` at its time limit: it ends, or becomes a job"),
    ("", "Budgets and prices"),
    ("budget.turn.cost", "US dollars that a turn may cost"),
    ("budget.turn.tokens", "Tokens that a turn may use"),
    ("budget.turn.minutes", "Minutes that a turn may run"),
    ("budget.session.cost", "US dollars that a session may cost"),
    ("budget.session.tokens", "Tokens that a session may use"),
    ("budget.session.minutes", "Minutes that the turns of a session may run"),
    ("budget.day.cost", "US dollars that all sessions of a day may cost"),
    ("budget.day.tokens", "Tokens that all sessions of a day may use"),
    ("budget.day.minutes", "Minutes that the turns of a day may run"),
    ("prices.*.input", "US dollars for a million input tokens of this model"),
    ("prices.*.output", "US dollars for a million output tokens of this model"),
    ("prices.*.cached", "US dollars for a million input tokens that the provider had cached"),
    ("", "Hosts"),
    (
        "connection.host",
        "Default host: an ssh destination, a name or @TAG of `[hosts]`, or several. Default: this machine",
    ),
    ("connection.user", "User of the default host"),
    ("connection.port", "Port of the default host"),
    ("ssh_config", "ssh config that is used instead of `~/.ssh/config`"),
    ("hosts.*.host", "ssh destination of the host. Default: the name of the table"),
    ("hosts.*.user", "User on the host"),
    ("hosts.*.port", "Port of the host's ssh server"),
    ("hosts.*.tags", "Tags for `--host @TAG`"),
    ("hosts.*.approve", "Approval mode on the host, if it is stricter than the session's"),
    ("hosts.*.models", "Models that may see what the host shows. Default: all"),
    ("hosts.*.approvals", "Number of different people who must allow a change on the host"),
    ("hosts.*.root", "Folder of file tools on the host, where commands start"),
    ("hosts.*.description", "Text for people and the model"),
    ("", "Routines"),
    ("routines.*.description", "Text for people"),
    ("routines.*.cmd", "Command; `{{name}}` stands for the quoted value of a variable"),
    ("routines.*.vars.*.description", "Text for people"),
    ("routines.*.vars.*.pattern", "Regular expression that a value must match"),
    ("routines.*.vars.*.default", "Value if none is given"),
    ("routines.*.made_from.session", "Session that the runbook was made from"),
    ("routines.*.made_from.date", "Day of that session"),
    ("routines.*.made_from.os", "Operating system on which it ran"),
    ("routines.*.made_from.arch", "Architecture on which it ran"),
    ("routines.*.made_from.policy", "Version of the policy under which it ran"),
    ("", "MCP servers"),
    ("mcp.*.command", "Program of a server on this machine"),
    ("mcp.*.args", "Its arguments"),
    ("mcp.*.env.*", "Variable of its environment"),
    ("mcp.*.env_pass", "Variables that it gets from sysop's environment"),
    ("mcp.*.cwd", "Folder in which it starts"),
    ("mcp.*.url", "Address of a server over HTTP"),
    ("mcp.*.headers_env.*", "Header for it; the value is the name of an environment variable"),
    ("mcp.*.tools", "Tools to offer, with `*`. Default: all"),
    (
        "mcp.*.approve",
        "Calls that ask: `ask` all, `reads` all but those said to only read; `never` offers no tool",
    ),
    ("mcp.*.timeout_s", "Seconds until a call fails"),
    ("mcp.*.startup_timeout_s", "Seconds until a start fails"),
    ("mcp.*.enabled", "False to offer none of its tools"),
    ("", "Front ends and server"),
    ("theme", "Colors of the full screen. Default: those that fit the terminal's background"),
    (
        "status_line",
        "Parts of the full screen's status line: host, folder, branch, model, approval, sandbox, context, tokens, cost, \
         time, step",
    ),
    ("database", "PostgreSQL database that several servers share. Default: a file of this user"),
    ("otlp_endpoint", "OpenTelemetry endpoint (HTTP) for spans of a server"),
    (
        "approval_expires_s",
        "Seconds until an approval that nobody answers is rejected; 0 for never. Default: 0, on a server 3600",
    ),
    ("audit.journald", "True to write the audit of a server to the journal of systemd, too"),
    ("undo.megabytes", "Content that is kept per call for undo, in MiB; 0 keeps nothing"),
];

/// Returns the page.
pub(super) fn page() -> String {
    let mut page = "# Configuration reference\n\nAll keys of `config.toml`, and of `.sysop.toml` in a workspace. `*` \
                    stands for a name that you choose. [Configuration](configuration.md) explains where settings \
                    come from. `[[policy.rules]]` is described in [policy](../policy.md#rules).\n\nThe last column says \
                    what a workspace may do before you trust it.\n"
        .to_owned();
    let defaults: toml::Table = DEFAULTS.parse().expect("the built-in config is valid");
    for (name, meaning) in MEANINGS {
        if name.is_empty() {
            write!(page, "\n## {meaning}\n\n| key | type | meaning | default | untrusted workspace |\n| --- | --- | --- | --- | --- |\n")
                .expect("a string takes all");
            continue;
        }
        let key = KEYS.iter().find(|key| key.pattern.join(".") == *name);
        let key = key.unwrap_or_else(|| panic!("`{name}` is described, but is no key"));
        let default = default_of(name, &defaults);
        writeln!(page, "| `{name}` | {} | {meaning} | {default} | {} |", type_of(key), rights(key))
            .expect("a string takes all");
    }
    for key in KEYS {
        let name = key.pattern.join(".");
        assert!(MEANINGS.iter().any(|(known, _)| *known == name), "the key `{name}` has no row in MEANINGS");
    }
    page
}

/// Returns a key's built-in value as TOML; empty if there is none.
fn default_of(name: &str, defaults: &toml::Table) -> String {
    let mut names = name.split('.');
    let first = names.next().and_then(|first| defaults.get(first));
    let value = names.fold(first, |value, name| value.and_then(|value| value.get(name)));
    value.map(|value| format!("`{}`", value.to_string().replace('|', r"\|"))).unwrap_or_default()
}

fn type_of(key: &ConfigKey) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match key.kind {
        ValueKind::Text(TextKind::Word(known)) => words(known),
        ValueKind::Text(TextKind::Any) => "text".to_owned(),
        ValueKind::Text(TextKind::Secret) => "text, never shown".to_owned(),
        ValueKind::Text(TextKind::Url) => "URL".to_owned(),
        ValueKind::Text(TextKind::Variable) => "name of a variable".to_owned(),
        ValueKind::Text(TextKind::Pattern) => "regular expression".to_owned(),
        ValueKind::Text(TextKind::OrInteger) => "text or integer".to_owned(),
        ValueKind::Integer { least, most: i64::MAX } => format!("integer from {least}"),
        ValueKind::Integer { least, most } => format!("integer from {least} to {most}"),
        ValueKind::Number { least, most } => format!("number from {least} to {most}"),
        ValueKind::Switch => "true or false".to_owned(),
        ValueKind::List(ListKind::Patterns | ListKind::Denials) => "list of regular expressions".to_owned(),
        ValueKind::List(ListKind::Words) => "list of texts".to_owned(),
        ValueKind::List(ListKind::Variables) => "list of names of variables".to_owned(),
        ValueKind::List(ListKind::Tags) => "list of tags".to_owned(),
        ValueKind::List(ListKind::Folders) => "list of folders".to_owned(),
        ValueKind::List(ListKind::Models) => "list of models, with `*`".to_owned(),
    }
}

fn rights(key: &ConfigKey) -> String {
    match key.workspace {
        WorkspaceRule::Ignored => "ignored".to_owned(),
        WorkspaceRule::Stricter(words) => format!("stricter, in the order {}", words.join(", ")),
        WorkspaceRule::Only(value) => format!("only {value}"),
        WorkspaceRule::Lower => "lower".to_owned(),
        WorkspaceRule::Adds => "adds".to_owned(),
    }
}
