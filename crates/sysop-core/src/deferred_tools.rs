//! Deferred tools: external tools whose definitions are left out of requests, because together they would
//! take up too much of the model's window.
//!
//! In their place a session offers `find_tools`, which returns the definitions that match a query, and `call_tool`,
//! which calls a tool by name. Neither of these two tools changes while the session runs, so the servers' prompt caches
//! stay valid. A call to `call_tool` is assessed, shown and run as a call to the tool that it names.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::message::{Arguments, ToolCall};
use crate::model_limits::ModelLimits;
use crate::model_table;
use crate::spec::SessionSpec;
use crate::text::neutralize_line;
use crate::tool::{ToolEffect, ToolSpec};

/// Tool that returns definitions of deferred tools.
pub const FIND_TOOLS: &str = "find_tools";
/// Tool that calls a deferred tool.
pub const CALL_TOOL: &str = "call_tool";
/// Prefix of the names of external tools, which have the form `mcp__SERVER__TOOL`.
pub const EXTERNAL_PREFIX: &str = "mcp__";

/// Maximum bytes of the definitions of external tools in a request, if the model's window is unknown.
const DEFINITION_BYTES_MAX: u64 = 8 * 1024;
/// Approximate bytes of a definition per token. JSON Schema has many short words.
const BYTES_PER_TOKEN: u64 = 4;
/// Share of the window that the definitions of external tools may take: one tenth.
const WINDOW_SHARE: u64 = 10;
/// Maximum number of definitions that one call to `find_tools` returns.
const FOUND_MAX: usize = 5;
/// Maximum bytes of the names of servers in the description of `find_tools`.
const SERVER_NAMES_BYTES_MAX: usize = 1_000;

/// Returns true if the external tools' definitions would take up more than a tenth of the model's window.
pub fn defers(spec: &SessionSpec) -> bool {
    let bytes: u64 = external(&spec.tools).map(definition_bytes).sum();
    bytes > definition_bytes_max(spec)
}

fn definition_bytes_max(spec: &SessionSpec) -> u64 {
    let configured =
        spec.models.get(&spec.model.to_string()).and_then(|limits: &ModelLimits| limits.context_window);
    let window = configured.or_else(|| model_table::find(&spec.model).map(|model| model.context_window));
    window.map_or(DEFINITION_BYTES_MAX, |tokens| u64::from(tokens) * BYTES_PER_TOKEN / WINDOW_SHARE)
}

pub fn external(tools: &[ToolSpec]) -> impl Iterator<Item = &ToolSpec> {
    tools.iter().filter(|tool| tool.effect.is_external())
}

fn definition_bytes(tool: &ToolSpec) -> u64 {
    (tool.name.len() + tool.description.len() + tool.parameters.to_string().len()) as u64
}

/// Returns the tools that a session offers in place of these deferred tools.
pub(crate) fn replacements(deferred: &[ToolSpec]) -> [ToolSpec; 2] {
    let mut servers: Vec<&str> = deferred.iter().map(|tool| server_of(&tool.name)).collect();
    servers.dedup();
    let mut names = String::new();
    for (index, server) in servers.iter().enumerate() {
        if names.len() + server.len() > SERVER_NAMES_BYTES_MAX {
            names.push_str(&format!(" and {} more", servers.len() - index));
            break;
        }
        names.push_str(if index == 0 { "" } else { ", " });
        names.push_str(server);
    }
    let find = ToolSpec {
        name: FIND_TOOLS.to_owned(),
        description: format!(
            "Find tools of MCP servers; returns up to {FOUND_MAX} definitions for `{CALL_TOOL}`. {} tools of: {names}",
            deferred.len()
        )
        .into(),
        parameters: object(json!({ "query": { "type": "string" } }), &["query"]),
        effect: ToolEffect::Session,
    };
    let call = ToolSpec {
        name: CALL_TOOL.to_owned(),
        description: format!("Call a tool that `{FIND_TOOLS}` returned").into(),
        parameters: object(
            json!({ "name": { "type": "string" }, "arguments": { "type": "object" } }),
            &["name", "arguments"],
        ),
        effect: ToolEffect::External,
    };
    [find, call]
}

fn object(properties: Value, required: &[&str]) -> std::sync::Arc<Value> {
    json!({ "type": "object", "properties": properties, "required": required }).into()
}

/// Returns the server of an external tool, or `None` for other tools.
pub(crate) fn server(name: &str) -> Option<&str> {
    name.starts_with(EXTERNAL_PREFIX).then(|| server_of(name))
}

/// Returns the server in a name of the form `mcp__SERVER__TOOL`.
fn server_of(name: &str) -> &str {
    let name = name.strip_prefix(EXTERNAL_PREFIX).unwrap_or(name);
    name.split_once("__").map_or(name, |(server, _)| server)
}

/// Unwraps a call to `call_tool` into the call that it stands for. Other calls are returned unchanged.
pub fn inner_call(call: &ToolCall) -> Cow<'_, ToolCall> {
    let Arguments::Object(arguments) = &call.arguments else { return Cow::Borrowed(call) };
    let (Some(Value::String(name)), true) = (arguments.get("name"), call.name == CALL_TOOL) else {
        return Cow::Borrowed(call);
    };
    let arguments = match arguments.get("arguments") {
        Some(Value::Object(arguments)) => Arguments::Object(arguments.clone()),
        None | Some(Value::Null) => Arguments::Object(Map::new()),
        Some(other) => Arguments::Invalid(other.to_string()),
    };
    Cow::Owned(ToolCall { name: name.clone(), arguments, ..call.clone() })
}

/// Answers a call to `find_tools` with the best matching definitions, as JSON.
pub(crate) fn find(deferred: &[ToolSpec], query: &str) -> Result<String, String> {
    let words: Vec<String> = words(query).collect();
    let mut scored: Vec<(usize, &ToolSpec)> =
        deferred.iter().map(|tool| (score(tool, &words), tool)).filter(|(score, _)| *score > 0).collect();
    scored.sort_by(|(a, _), (b, _)| b.cmp(a)); // stable: equal scores keep the order of the servers
    if scored.is_empty() {
        let mut servers: Vec<&str> = deferred.iter().map(|tool| server_of(&tool.name)).collect();
        servers.dedup();
        return Err(format!(
            "no tool matches {:?}; try other words, or the name of a server: {}",
            neutralize_line(query),
            servers.join(", ")
        ));
    }
    let found = scored.iter().take(FOUND_MAX).map(|(_, tool)| {
        json!({ "name": tool.name, "description": tool.description, "arguments": *tool.parameters })
            .to_string()
    });
    let mut answer: Vec<String> = found.collect();
    if let more @ 1.. = scored.len().saturating_sub(FOUND_MAX) {
        let names: Vec<_> =
            scored.iter().skip(FOUND_MAX).take(FOUND_MAX * 4).map(|(_, tool)| tool.name.as_str()).collect();
        answer.push(format!("[{more} more: {}]", names.join(", ")));
    }
    Ok(answer.join("\n"))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Returns the score of a tool for these words. A match in the tool's name counts more than one in its description.
fn score(tool: &ToolSpec, query: &[String]) -> usize {
    let name: Vec<String> = words(&tool.name).collect();
    let description = tool.description.to_lowercase();
    let of_word = |word: &String| {
        let exact = name.contains(word);
        let partly = name.iter().any(|part| part.contains(word.as_str()));
        8 * usize::from(exact) + 4 * usize::from(partly) + usize::from(description.contains(word.as_str()))
    };
    let whole =
        query.join("_") == name[usize::from(name.first().is_some_and(|word| word == "mcp"))..].join("_");
    query.iter().map(of_word).sum::<usize>() + 100 * usize::from(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CALL_TOOL, find, inner_call, replacements};
    use crate::id::CallId;
    use crate::message::{Arguments, ToolCall};
    use crate::tool::{ToolEffect, ToolSpec};

    fn tool(name: &str, description: &str) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {}}).into();
        ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
            effect: ToolEffect::External,
        }
    }

    fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
        let serde_json::Value::Object(arguments) = arguments else { panic!("an object") };
        ToolCall {
            id: CallId::new("1"),
            wire_id: None,
            name: name.into(),
            arguments: Arguments::Object(arguments),
        }
    }

    #[test]
    fn a_search_returns_the_best_definitions_first() {
        let tools: Vec<ToolSpec> = (0..20)
            .map(|number| tool(&format!("mcp__logs__read_{number}"), "reads something"))
            .chain([
                tool("mcp__grafana__query_loki", "Query logs"),
                tool("mcp__grafana__list", "List dashboards"),
            ])
            .collect();
        let found = find(&tools, "query loki").expect("one fits");
        assert!(found.starts_with(r#"{"name":"mcp__grafana__query_loki""#), "{found}");
        let found = find(&tools, "read").expect("many fit");
        assert_eq!(found.lines().count(), 6, "{found}");
        assert!(found.contains("[15 more: mcp__logs__read_5,"), "{found}");
        let none = find(&tools, "kubernetes").expect_err("none fits");
        assert!(none.ends_with("logs, grafana"), "{none}");
    }

    #[test]
    fn a_wrapped_call_stands_for_the_call_that_it_names() {
        let wrapped = call(CALL_TOOL, json!({"name": "mcp__a__b", "arguments": {"x": 1}}));
        let inner = inner_call(&wrapped).into_owned();
        assert_eq!(inner, call("mcp__a__b", json!({"x": 1})));
        let other = call("bash", json!({"name": "mcp__a__b", "arguments": {}}));
        assert_eq!(inner_call(&other).into_owned(), other);
        let bad = inner_call(&call(CALL_TOOL, json!({"name": "mcp__a__b", "arguments": "x"}))).into_owned();
        assert!(matches!(bad.arguments, Arguments::Invalid(_)));
    }

    #[test]
    fn the_replacements_stay_small_with_any_number_of_servers() {
        let tools: Vec<ToolSpec> =
            (0..500).map(|number| tool(&format!("mcp__server-with-a-long-name-{number}__t"), "")).collect();
        let bytes: usize =
            replacements(&tools).iter().map(|spec| serde_json::to_string(spec).expect("JSON").len()).sum();
        assert!(bytes < 2_000, "{bytes}");
    }
}
