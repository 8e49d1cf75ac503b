//! `[mcp.NAME]`: MCP servers in the config, with the environment that they receive.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use sysop_acp::EditorTransport;
use sysop_core::text::neutralize_line;
use sysop_host::PipedCommand;
use sysop_mcp::record::ServerRecord;
use sysop_mcp::settings::{
    CALL_TIMEOUT_DEFAULT, STARTUP_TIMEOUT_DEFAULT, ServerApproval, ServerName, ServerSettings,
    ServerTransport, startup_timeout,
};
use url::Url;

use super::Settings;
use crate::config::{Config, ConfigWarning, Environment, KeyPath, UserDirs, display_path, table_error};

/// Variables passed to a local server in addition to those named in its config.
const BASE_VARIABLES: [&str; 12] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
    "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
];
/// Words that cause a variable's value to be redacted if they occur in its name.
const SECRET_WORDS: [&str; 7] = ["TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH", "DSN"];

#[derive(Debug, Clone)]
pub(crate) struct McpServer {
    pub(crate) settings: ServerSettings,
    /// False if the server is disabled in the config.
    pub(crate) enabled: bool,
    /// Lines that show a user what starting the server entails. The variables' values are not shown.
    pub(crate) shown: Vec<String>,
    /// Hash of what is started, including variable values from the config. The user consents to this hash.
    pub(crate) identity: String,
    pub(crate) origin: String,
    pub(crate) secrets: Vec<SecretString>,
    /// True if an editor named the server for a session.
    pub(crate) is_of_editor: bool,
    /// Record that holds for this session only; `None` for the saved one.
    pub(crate) session_record: Option<ServerRecord>,
}

impl McpServer {
    /// Returns the server defined by a config entry in TOML. Fails with one sentence if the entry is invalid.
    pub(crate) fn from_toml(name: &ServerName, entry: &str, settings: &Settings) -> Result<Self, String> {
        let table: ServerTable =
            entry.parse().and_then(toml::Table::try_into).map_err(|error| table_error(&error))?;
        let origin = display_path(&settings.config.own_file);
        server(name.clone(), &table, origin, &settings.environment, &settings.folders)
    }

    /// Returns a server that an editor named. Fails with one sentence if the entry is invalid.
    pub(crate) fn of_editor(
        name: ServerName,
        transport: EditorTransport,
        settings: &Settings,
    ) -> Result<Self, String> {
        let table = match transport {
            EditorTransport::Stdio { command, args, env } => {
                ServerTable { command, args, env: env.into_iter().collect(), ..ServerTable::default() }
            }
            EditorTransport::Http { url, headers } => {
                ServerTable { url, headers: headers.into_iter().collect(), ..ServerTable::default() }
            }
        };
        let server = server(name, &table, "the editor".to_owned(), &settings.environment, &settings.folders)?;
        Ok(Self { is_of_editor: true, ..server })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerTable {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    env_pass: Vec<String>,
    cwd: Option<String>,
    url: String,
    headers_env: BTreeMap<String, String>,
    /// Headers with their values, from an editor.
    #[serde(skip)]
    headers: BTreeMap<String, String>,
    tools: Vec<String>,
    exclude_tools: Vec<String>,
    approve: Option<String>,
    timeout_s: Option<u64>,
    startup_timeout_s: Option<u64>,
    enabled: Option<bool>,
}

/// Parses the servers in the config. Invalid ones are skipped with a warning.
pub(super) fn read(config: &mut Config, environment: &Environment, folders: &UserDirs) -> Vec<McpServer> {
    let tables: BTreeMap<String, ServerTable> = config.get("mcp").unwrap_or_default();
    let mut servers: Vec<McpServer> = Vec::new();
    for (name, table) in tables {
        let path = KeyPath::new(["mcp", &name]);
        let Some(origin) = config.below(&path).next().map(|(_, entry)| entry.origin().clone()) else {
            continue;
        };
        let read = ServerName::parse(&name).and_then(|name| {
            match servers.iter().find(|other| other.settings.name.resembles(&name)) {
                Some(other) => Err(format!("resembles the name of the server {}", other.settings.name)),
                None => server(name, &table, origin.to_string(), environment, folders),
            }
        });
        match read {
            Ok(server) => servers.push(server),
            Err(why) => {
                let message = format!("ignoring the MCP server {name:?}: {why}");
                config.warnings.push(ConfigWarning { origin, message });
            }
        }
    }
    servers
}

fn server(
    name: ServerName,
    table: &ServerTable,
    origin: String,
    environment: &Environment,
    folders: &UserDirs,
) -> Result<McpServer, String> {
    let (transport, shown, secrets) = match (table.command.as_str(), table.url.as_str()) {
        ("", "") => return Err("neither `command` nor `url` is set".to_owned()),
        (_, "") => stdio(table, environment, folders)?,
        ("", _) => http(table, environment)?,
        _ => return Err("both `command` and `url` are set".to_owned()),
    };
    let approve = table.approve.as_deref().and_then(ServerApproval::from_name).unwrap_or_default();
    let startup = table.startup_timeout_s.map(Duration::from_secs);
    let default =
        if table.url.is_empty() { startup_timeout(&table.command) } else { STARTUP_TIMEOUT_DEFAULT };
    let settings = ServerSettings {
        name,
        transport,
        tools: table.tools.clone(),
        exclude_tools: table.exclude_tools.clone(),
        approve,
        call_timeout: table.timeout_s.map_or(CALL_TIMEOUT_DEFAULT, Duration::from_secs),
        startup_timeout: startup.unwrap_or(default),
    };
    Ok(McpServer {
        settings,
        enabled: table.enabled.unwrap_or(true),
        shown,
        identity: identity(table),
        origin,
        secrets,
        is_of_editor: false,
        session_record: None,
    })
}

/// Returns the hash of everything that determines what is started.
fn identity(table: &ServerTable) -> String {
    let mut parts = vec![json!([
        table.command, table.args, table.env, table.env_pass, table.cwd, table.url, table.headers_env
    ])];
    parts.extend((!table.headers.is_empty()).then(|| json!(table.headers)));
    // A single part is hashed by itself, as in earlier versions, so that consent from then holds.
    let parts = if parts.len() == 1 { parts.swap_remove(0) } else { json!(parts) };
    blake3::hash(parts.to_string().as_bytes()).to_hex().to_string()
}

type ReadTransport = (ServerTransport, Vec<String>, Vec<SecretString>);

fn stdio(
    table: &ServerTable,
    environment: &Environment,
    folders: &UserDirs,
) -> Result<ReadTransport, String> {
    if !table.headers_env.is_empty() {
        return Err("`headers_env` is for servers with `url`".to_owned());
    }
    let home = |path: &str| match path.strip_prefix("~/") {
        Some(rest) => folders.home.join(rest),
        None => PathBuf::from(path),
    };
    let folder = table.cwd.as_deref().map_or_else(|| folders.home.clone(), home);
    if !folder.is_absolute() {
        return Err("`cwd` is not an absolute path".to_owned());
    }
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let passed = table.env_pass.iter().map(String::as_str);
    for name in BASE_VARIABLES.into_iter().chain(passed) {
        if let Some(value) = environment.value(name) {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    variables.insert("TERM".to_owned(), "dumb".to_owned());
    variables.extend(table.env.clone());
    let is_named = |name: &String| table.env.contains_key(name) || table.env_pass.contains(name);
    let secrets = variables.iter().filter(|(name, _)| is_named(name) && is_secret(name));
    let secrets = secrets.map(|(_, value)| value.as_str().into()).collect();
    let words = std::iter::once(table.command.as_str()).chain(table.args.iter().map(String::as_str));
    let line: Vec<_> = words.map(shell_words::quote).collect();
    let mut shown = vec![format!("command: {}", neutralize_line(&line.join(" ")))];
    if table.cwd.is_some() {
        shown.push(format!("in {}", display_path(&folder)));
    }
    let names: Vec<_> = table.env.keys().chain(&table.env_pass).map(|name| neutralize_line(name)).collect();
    if !names.is_empty() {
        shown.push(format!("with the variables {}", names.join(", ")));
    }
    let program = home(&table.command).display().to_string();
    let environment = variables.into_iter().map(|(name, value)| (name, value.into())).collect();
    let command = PipedCommand { program, arguments: table.args.clone(), environment, folder };
    Ok((ServerTransport::Stdio(command), shown, secrets))
}

fn http(table: &ServerTable, environment: &Environment) -> Result<ReadTransport, String> {
    if !table.args.is_empty() || !table.env.is_empty() || !table.env_pass.is_empty() || table.cwd.is_some() {
        return Err("`args`, `env`, `env_pass` and `cwd` are for servers with `command`".to_owned());
    }
    let url = Url::parse(&table.url).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL holds a password; put it in a variable that `headers_env` names".to_owned());
    }
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let has_headers = !table.headers_env.is_empty() || !table.headers.is_empty();
    if url.scheme() == "http" && has_headers && !is_local {
        return Err("the headers would be sent in clear text; use https".to_owned());
    }
    let mut headers = Vec::new();
    for (header, variable) in &table.headers_env {
        if let Some(value) = environment.value(variable) {
            headers.push((header.clone(), SecretString::from(value)));
        }
    }
    let mut shown = vec![format!("url: {}", neutralize_line(url.as_str()))];
    for (header, variable) in &table.headers_env {
        let unset = if environment.value(variable).is_none() { " (not set)" } else { "" };
        shown.push(neutralize_line(&format!("with the header {header} from {variable}{unset}")).into_owned());
    }
    for (header, value) in &table.headers {
        headers.push((header.clone(), SecretString::from(value.as_str())));
        shown.push(neutralize_line(&format!("with the header {header}")).into_owned());
    }
    let transport = ServerTransport::Http { url, headers };
    let secrets = transport.header_secrets();
    Ok((transport, shown, secrets))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use sysop_mcp::settings::ServerTransport;

    use super::{Environment, ServerName, ServerTable, UserDirs, server};

    fn folders() -> UserDirs {
        UserDirs {
            home: "/home/me".into(),
            config: "/home/me/.config".into(),
            data: "/home/me/.local/share/sysop".into(),
            cache: "/home/me/.cache/sysop".into(),
        }
    }

    fn read(toml: &str) -> Result<super::McpServer, String> {
        let table: ServerTable = toml::from_str(toml).expect("a table");
        let environment = Environment::from_iter([
            ("PATH", "/usr/bin"),
            ("HOME", "/home/me"),
            ("OPENAI_API_KEY", "sk-1"),
            ("SYSOP_TOKEN", "t"),
            ("GRAFANA_TOKEN", "g-secret"),
            ("BEARER", "Bearer x"),
        ]);
        server(
            ServerName::parse("s").expect("a name"),
            &table,
            "config.toml:1".into(),
            &environment,
            &folders(),
        )
    }

    #[test]
    fn a_server_gets_named_variables_and_no_keys() {
        let read =
            read("command = 'uvx'\nargs = ['a b']\nenv = { A = '1' }\nenv_pass = ['GRAFANA_TOKEN', 'UNSET']")
                .expect("a server");
        let ServerTransport::Stdio(command) = &read.settings.transport else { panic!("a program") };
        let names: Vec<_> = command.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "GRAFANA_TOKEN", "HOME", "PATH", "TERM"]);
        assert_eq!(command.folder, std::path::Path::new("/home/me"));
        assert_eq!(read.shown, ["command: uvx 'a b'", "with the variables A, GRAFANA_TOKEN, UNSET"]);
        assert_eq!(
            read.secrets.iter().map(|secret| secret.expose_secret()).collect::<Vec<_>>(),
            ["g-secret"]
        );
        assert_eq!(read.settings.startup_timeout.as_secs(), 60);
    }

    #[test]
    fn consent_is_for_exactly_what_starts() {
        let one = read("command = 'uvx'\nargs = ['a']\nenv = { A = '1' }").expect("a server").identity;
        let same =
            read("command = 'uvx'\nargs = ['a']\nenv = { A = '1' }\napprove = 'reads'").expect("a server");
        assert_eq!(one, same.identity);
        for other in [
            "command = 'uvx'\nargs = ['b']\nenv = { A = '1' }",
            "command = 'uvx'\nargs = ['a']\nenv = { A = '2' }",
        ] {
            assert_ne!(one, read(other).expect("a server").identity, "{other}");
        }
    }

    #[test]
    fn contradictory_and_leaky_entries_are_refused() {
        for (toml, why) in [
            ("", "neither"),
            ("command = 'a'\nurl = 'http://x'", "both"),
            ("url = 'https://u:p@x/mcp'", "password"),
            ("url = 'http://x.example/mcp'\nheaders_env = { Authorization = 'BEARER' }", "clear text"),
            ("url = 'https://x.example/mcp'\nargs = ['a']", "`command`"),
            ("command = 'a'\ncwd = 'here'", "absolute"),
        ] {
            let error = read(toml).expect_err(toml);
            assert!(error.contains(why), "{toml}: {error}");
        }
        let http =
            read("url = 'https://x.example/mcp'\nheaders_env = { Authorization = 'BEARER', X = 'NONE' }")
                .expect("a server");
        assert_eq!(
            http.shown[1..],
            ["with the header Authorization from BEARER", "with the header X from NONE (not set)"]
        );
    }
}
