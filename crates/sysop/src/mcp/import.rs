//! `sysop mcp import`: servers from the config files of other programs.
//!
//! Settings are copied only if they have the same meaning here. Approvals, and values that other programs
//! would expand or run, are never copied. Imported servers ask about every call and need consent to start.

mod json;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value};
use sysop_core::text::{neutralize, neutralize_line};
use sysop_mcp::settings::ServerName;

use super::add::{ServerEntry, to_toml};
use super::config_file;
use crate::config::display_path;
use crate::exit::{CommandError, Exit};
use crate::settings::{McpServer, Settings};
use crate::yes_no;

const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
const SERVERS_MAX: usize = 64;

/// Servers in a file, and sentences about the parts that were left out.
#[derive(Debug, Default)]
struct Import {
    servers: BTreeMap<String, ServerEntry>,
    notes: Vec<String>,
}

pub(super) fn run(settings: &Settings, file: &Path) -> Result<Exit> {
    let Import { mut servers, mut notes } = read(file).map_err(CommandError::usage)?;
    servers.retain(|name, entry| {
        let parsed = ServerName::parse(name);
        let taken = parsed
            .as_ref()
            .ok()
            .and_then(|name| settings.mcp.iter().find(|known| known.settings.name.resembles(name)));
        let checked = parsed.and_then(|name| {
            let text = toml::to_string(entry).map_err(|error| error.to_string())?;
            McpServer::from_toml(&name, &text, settings)
        });
        match (taken, checked) {
            (Some(_), _) => notes.push(format!("{name} skipped: a server with this name already exists")),
            (None, Err(why)) => notes.push(format!("{name} skipped: {why}")),
            (None, Ok(_)) => return true,
        }
        false
    });
    for note in &notes {
        crate::tell(&format!("note: {note}"));
    }
    if servers.is_empty() {
        let why = format!("{} has no MCP server that can be imported", display_path(file));
        return Err(CommandError::usage(why).into());
    }
    let tables = to_toml(&servers)?;
    let own = &settings.config.own_file;
    crate::emit(neutralize(&tables).as_bytes())?;
    match yes_no::ask(&format!("Add this to {}?", display_path(own)))? {
        Some(true) => {
            config_file::add(own, &tables).map_err(CommandError::failed)?;
            crate::tell("added; to allow the servers, run `sysop mcp list`");
            Ok(Exit::Done)
        }
        Some(false) => {
            crate::tell("nothing was added");
            Ok(Exit::Done)
        }
        None => Err(CommandError {
            exit: Exit::ApprovalNeeded,
            message: "nothing was added: no answer".to_owned(),
        }
        .into()),
    }
}

pub(super) fn count_servers(file: &Path) -> Result<usize, String> {
    if !file.is_file() {
        return Err("no file".to_owned());
    }
    let Import { servers, notes } = read(file)?;
    match servers.len() + notes.len() {
        0 => Err("no servers".to_owned()),
        count => Ok(count),
    }
}

fn read(file: &Path) -> Result<Import, String> {
    let shown = display_path(file);
    let length = std::fs::metadata(file).map_err(|error| format!("cannot read {shown}: {error}"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{shown} is larger than {FILE_BYTES_MAX} bytes"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let root: Value = match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => {
            let table: toml::Table =
                text.parse().map_err(|error| format!("{shown} is not valid TOML: {error}"))?;
            serde_json::to_value(table).map_err(|error| error.to_string())?
        }
        Some("yaml" | "yml") => {
            return Err(format!(
                "{shown} is YAML, which sysop does not read; add the servers with `sysop mcp add`"
            ));
        }
        _ => serde_json::from_str(&json::plain(&text))
            .map_err(|error| format!("{shown} is not valid JSON: {error}"))?,
    };
    Ok(import(&root))
}

/// Key paths under which other programs' config files list their MCP servers.
const TABLES: [&[&str]; 5] = [&["mcpServers"], &["mcp_servers"], &["mcp", "servers"], &["mcp"], &["servers"]];

fn import(root: &Value) -> Import {
    let find = |path: &[&str]| path.iter().try_fold(root, |at, name| at.get(name)).and_then(Value::as_object);
    let mut import = Import::default();
    let Some(table) = TABLES.iter().find_map(|path| find(path)) else { return import };
    for (name, value) in table.iter().take(SERVERS_MAX) {
        let clean = clean_name(name);
        let shown = neutralize_line(name).into_owned();
        if clean != *name {
            import.notes.push(format!("{shown} is named {clean} here"));
        }
        let mut notes = Vec::new();
        match value
            .as_object()
            .ok_or_else(|| "the entry is not a table".to_owned())
            .and_then(|table| entry(table, &mut notes))
        {
            Ok(entry) => {
                import.servers.insert(clean, entry);
            }
            Err(why) => notes.push(format!("left out: {why}")),
        }
        import.notes.extend(notes.into_iter().map(|note| format!("{shown}: {note}")));
    }
    import
}

/// Returns a name without the characters that names of servers cannot have.
pub(super) fn clean_name(name: &str) -> String {
    let valid = |sign: char| if sign.is_ascii_alphanumeric() || sign == '_' { sign } else { '-' };
    let mut clean: String = name.chars().map(valid).take(32).collect();
    while clean.contains("__") {
        clean = clean.replace("__", "_");
    }
    clean.trim_matches(['_', '-']).to_owned()
}

fn entry(table: &Map<String, Value>, notes: &mut Vec<String>) -> Result<ServerEntry, String> {
    let text = |names: &[&str]| names.iter().find_map(|name| table.get(*name)?.as_str()).map(str::to_owned);
    if text(&["type"]).as_deref() == Some("sse") {
        return Err("the old SSE transport is not supported".to_owned());
    }
    let mut entry = ServerEntry { cwd: text(&["cwd"]), ..ServerEntry::default() };
    let words = match table.get("command").or_else(|| table.get("cmd")) {
        Some(Value::Array(words)) => list(words),
        Some(Value::String(word)) => vec![word.clone()],
        _ => Vec::new(),
    };
    let arguments = table.get("args").and_then(Value::as_array).map(|words| list(words)).unwrap_or_default();
    let mut words = words.into_iter().chain(arguments);
    entry.command = words.next();
    entry.args = words.collect();
    entry.url = text(&["httpUrl", "url", "uri"]).filter(|_| entry.command.is_none());
    for word in entry.command.iter().chain(&entry.args).chain(&entry.url).chain(&entry.cwd) {
        if is_expanded(word) {
            return Err(format!("{} would be expanded by the other program", neutralize_line(word)));
        }
    }
    let variables = ["env", "environment", "envs"].iter().find_map(|name| table.get(*name)?.as_object());
    for (name, value) in variables.into_iter().flatten() {
        let Some(value) = value.as_str() else { continue };
        match variable(value) {
            Some(source) if source == name => entry.env_pass.push(name.clone()),
            Some(source) => return Err(format!("the variable {name} is a copy of {source}")),
            None if is_expanded(value) => {
                return Err(format!("the variable {name} would be expanded by the other program"));
            }
            None => {
                entry.env.insert(name.clone(), value.to_owned());
            }
        }
    }
    entry.env_pass.extend(
        ["env_vars", "env_keys"]
            .iter()
            .filter_map(|name| table.get(*name)?.as_array())
            .flat_map(|names| list(names)),
    );
    headers(table, &mut entry, notes);
    if let Some(variable) = text(&["bearer_token_env_var"]) {
        notes.push(format!(
            "set a new variable to `Bearer ` followed by the value of {variable}, and name the new variable in \
             `headers_env.Authorization`"
        ));
    }
    timeouts(table, &mut entry, notes);
    tools(table, &mut entry);
    let flag = |name: &str| table.get(name).and_then(Value::as_bool);
    if flag("enabled") == Some(false) || flag("disabled") == Some(true) {
        entry.enabled = Some(false);
    }
    let others = table.iter().filter(|(name, value)| !KEYS.contains(&name.as_str()) && !is_unset(value));
    let others: Vec<_> = others.map(|(name, _)| neutralize_line(name).into_owned()).collect();
    if !others.is_empty() {
        notes.push(format!("not imported: {}", others.join(", ")));
    }
    Ok(entry)
}

/// Keys of the other programs' entries that an import reads, or that mean nothing here.
const KEYS: &[&str] = &[
    "type", "cwd", "command", "cmd", "args", "httpUrl", "url", "uri", "env", "environment", "envs",
    "env_vars", "env_keys", "headers", "http_headers", "env_http_headers", "bearer_token_env_var",
    "tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms", "timeout", "includeTools",
    "enabled_tools", "available_tools", "tools", "excludeTools", "disabled_tools", "enabled", "disabled",
    "name", "description", "display_name", "alwaysLoad", "trust",
];

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Reads timeouts whose unit is known.
fn timeouts(table: &Map<String, Value>, entry: &mut ServerEntry, notes: &mut Vec<String>) {
    let number = |name: &str| table.get(name).and_then(Value::as_f64).filter(|value| *value > 0.0);
    // At least one second: 0 would let every call fail.
    let seconds = |value: f64| {
        let rounded = Duration::try_from_secs_f64(value.ceil());
        rounded.map_or(u64::from(u32::MAX), |time| time.as_secs()).max(1)
    };
    entry.timeout_s = number("tool_timeout_sec").map(seconds);
    entry.startup_timeout_s = number("startup_timeout_sec")
        .or_else(|| number("startup_timeout_ms").map(|ms| ms / 1000.0))
        .map(seconds);
    match table.get("timeout") {
        None | Some(Value::Null) => {}
        Some(Value::Object(both)) => {
            let part = |name: &str| both.get(name).and_then(Value::as_f64).filter(|value| *value > 0.0);
            entry.startup_timeout_s =
                part("startup").map(|ms| seconds(ms / 1000.0)).or(entry.startup_timeout_s);
            entry.timeout_s = part("request").map(|ms| seconds(ms / 1000.0)).or(entry.timeout_s);
        }
        // Claude Code, Gemini and opencode count milliseconds, pi and goose seconds.
        Some(value) => match value.as_f64() {
            Some(value) if value >= MILLISECONDS_MIN => entry.timeout_s = Some(seconds(value / 1000.0)),
            _ => {
                notes.push("`timeout` is not imported, because its unit is unclear; use timeout_s".to_owned())
            }
        },
    }
}

/// Smallest `timeout` that is certainly in milliseconds: as seconds it would be more than 80 minutes.
const MILLISECONDS_MIN: f64 = 5_000.0;

/// Reads the lists of offered and excluded tools.
fn tools(table: &Map<String, Value>, entry: &mut ServerEntry) {
    let names = |keys: &[&str]| -> Vec<String> {
        let listed = keys.iter().find_map(|key| table.get(*key)?.as_array());
        let listed = listed.map(|names| list(names)).unwrap_or_default();
        // Gemini also writes `name(arguments)`, of which only the name counts.
        listed.iter().map(|name| name.split('(').next().unwrap_or_default().trim().to_owned()).collect()
    };
    entry.tools = names(&["includeTools", "enabled_tools", "available_tools", "tools"]);
    entry.exclude_tools = names(&["excludeTools", "disabled_tools"]);
}

fn headers(table: &Map<String, Value>, entry: &mut ServerEntry, notes: &mut Vec<String>) {
    let given = ["headers", "http_headers"].iter().filter_map(|name| table.get(*name)?.as_object()).flatten();
    for (name, value) in given {
        match value.as_str().and_then(variable) {
            Some(source) => {
                entry.headers_env.insert(name.clone(), source.to_owned());
            }
            None => notes.push(format!(
                "the header {} is left out; put its value in a variable and name it in headers_env",
                neutralize_line(name)
            )),
        }
    }
    let named = table.get("env_http_headers").and_then(Value::as_object).into_iter().flatten();
    entry
        .headers_env
        .extend(named.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
}

fn list(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the variable if a value consists only of one: `${X}`, `${env:X}` or `{env:X}`.
fn variable(value: &str) -> Option<&str> {
    let inside = value.strip_prefix("${").or_else(|| value.strip_prefix("{"))?.strip_suffix('}')?;
    let name = match inside.strip_prefix("env:") {
        Some(name) => name,
        None if value.starts_with("${") => inside,
        None => return None,
    };
    name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_').then_some(name)
}

fn is_expanded(text: &str) -> bool {
    text.contains("${") || text.contains("{env:") || text.starts_with('!')
}

#[cfg(test)]
mod tests;
