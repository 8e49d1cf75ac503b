//! Replies written by real small models, and proofs that parsing never fails.

mod contract;
mod hostile;
mod properties;
mod replies;

use serde_json::{Value, json};

use super::{ParsedReply, TextToolCall, parse};
use sysop_core::message::Arguments;
use sysop_core::tool::{ToolEffect, ToolSpec};

fn tool(name: &str, effect: ToolEffect, parameters: Value) -> ToolSpec {
    let parameters = parameters.into();
    ToolSpec {
        name: name.to_owned(),
        description: format!("Does {name}. More of it.").into(),
        parameters,
        effect,
    }
}

fn bash() -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"},
        "reason": {"type": "string"}, "timeout_s": {"type": "integer"}}, "required": ["command"]});
    tool("bash", ToolEffect::Command, parameters)
}

fn run_command() -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"},
        "reasoning": {"type": "string"}}, "required": ["command", "reasoning"]});
    tool("run_command", ToolEffect::Command, parameters)
}

fn read_file() -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2}},
        "required": ["path"]});
    tool("read_file", ToolEffect::Reads, parameters)
}

fn send_keys() -> ToolSpec {
    let parameters =
        json!({"type": "object", "properties": {"keys": {"type": "string"}}, "required": ["keys"]});
    tool("send_keys", ToolEffect::Keys, parameters)
}

fn all_tools() -> Vec<ToolSpec> {
    vec![read_file(), run_command(), bash(), send_keys()]
}

/// Formats a parsed reply the way the table of replies expects it.
fn shown(parsed: &ParsedReply) -> String {
    match parsed {
        ParsedReply::Answer(text) => format!("answer: {text}"),
        ParsedReply::Calls { text, calls } => {
            let calls: Vec<String> = calls.iter().map(shown_call).collect();
            let calls = calls.join(" ; ");
            if text.is_empty() { calls } else { format!("{text} => {calls}") }
        }
    }
}

fn shown_call(call: &TextToolCall) -> String {
    match &call.arguments {
        Arguments::Object(map) => format!("{} {}", call.name, Value::Object(map.clone())),
        Arguments::Invalid(text) => format!("{} invalid {text}", call.name),
    }
}

fn calls_of(parsed: ParsedReply) -> Vec<TextToolCall> {
    match parsed {
        ParsedReply::Answer(_) => Vec::new(),
        ParsedReply::Calls { calls, .. } => calls,
    }
}

fn offered(reply: &str) -> ParsedReply {
    parse(reply, &all_tools(), true)
}

fn native(reply: &str) -> ParsedReply {
    parse(reply, &all_tools(), false)
}
