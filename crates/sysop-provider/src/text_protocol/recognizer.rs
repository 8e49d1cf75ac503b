//! Decides whether a JSON value is a call or an answer, and which offered tool a call means.
//!
//! Looks only at values; their position in the reply is left to the scanner.

use serde_json::{Map, Value};

use super::{TextToolCall, lenient_json};
use sysop_core::message::Arguments;
use sysop_core::tool::{ToolEffect, ToolSpec};

/// Maximum number of calls and answers accepted from one array or one reply; more are a sign of a runaway model.
pub(super) const SEGMENTS_MAX: usize = 32;

/// Names by which models call a shell tool, whatever name the offered tool has.
const SHELL_NAMES: [&str; 8] =
    ["shell", "run_cmd", "bash", "sh", "run_command", "run_shell", "execute_command", "terminal"];

/// Keys that may hold a call's name, in order of precedence.
const NAME_KEYS: [&str; 4] = ["tool", "name", "function", "tool_name"];

const ARGUMENT_KEYS: [&str; 4] = ["arguments", "args", "parameters", "input"];

const ANSWER_KEYS: [&str; 4] = ["text", "answer", "content", "message"];

const REASON_KEYS: [&str; 2] = ["reason", "reasoning"];

/// Way in which the model was offered its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolCallMode {
    Text,
    /// By the API, so that the model should not write calls as text at all.
    Native,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueContext {
    /// The value is the whole reply.
    Whole,
    /// The value is between a model's native tool-call tags.
    Marked,
    /// The value stands next to other text.
    Embedded,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReplyItem {
    Call(TextToolCall),
    Answer(String),
}

/// Recognizes calls and answers for one set of offered tools.
pub(super) struct CallRecognizer<'a> {
    tools: &'a [ToolSpec],
    mode: ToolCallMode,
}

impl<'a> CallRecognizer<'a> {
    pub(super) fn new(tools: &'a [ToolSpec], mode: ToolCallMode) -> Self {
        Self { tools, mode }
    }

    /// Returns the calls and answers in an object or an array of objects, or `None` if any element is neither.
    pub(super) fn recognize(&self, value: &Value, context: ValueContext) -> Option<Vec<ReplyItem>> {
        match value {
            Value::Object(map) => match map.get("tool_calls") {
                Some(Value::Array(calls)) => self.all(calls, context),
                _ => self.object(map, context).map(|item| vec![item]),
            },
            Value::Array(values) => self.all(values, context),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    /// Returns a call whose name was written outside the JSON, or `None` if no such call is acceptable.
    pub(super) fn marked(&self, name: &str, arguments: &Value) -> Option<ReplyItem> {
        let tool = self.resolve(name);
        self.finish(name, tool, arguments_of(arguments, tool), ValueContext::Marked, "name")
            .map(ReplyItem::Call)
    }

    /// Returns a call like [`marked`](Self::marked), or `None` if its name is not the name of an offered tool.
    pub(super) fn marked_offered(&self, name: &str, arguments: &Value) -> Option<ReplyItem> {
        self.resolve(name)?;
        self.marked(name, arguments)
    }

    /// Returns the command of a fenced shell block as a call, or `None` if no shell is offered.
    pub(super) fn fenced(&self, command: &str) -> Option<TextToolCall> {
        let tool = command_tool(self.tools)?;
        Some(shell_call(tool, &Map::from_iter([("command".to_owned(), Value::from(command))])))
    }

    fn all(&self, values: &[Value], context: ValueContext) -> Option<Vec<ReplyItem>> {
        if values.is_empty() || values.len() > SEGMENTS_MAX {
            return None;
        }
        values.iter().map(|value| value.as_object().and_then(|map| self.object(map, context))).collect()
    }

    fn object(&self, map: &Map<String, Value>, context: ValueContext) -> Option<ReplyItem> {
        if let Some(kind) = map.get("type").and_then(Value::as_str) {
            if kind.eq_ignore_ascii_case("answer") {
                return ANSWER_KEYS.iter().find_map(|key| answer_text(map.get(*key)?)).map(ReplyItem::Answer);
            }
            if is_shell_name(kind) && is_command(map, context) {
                return Some(ReplyItem::Call(match command_tool(self.tools) {
                    Some(tool) => shell_call(tool, map),
                    None => unoffered_shell(kind, map),
                }));
            }
        }
        if let Some(Value::Object(function)) = map.get("function") {
            return self.named(function, context).map(ReplyItem::Call);
        }
        self.named(map, context).map(ReplyItem::Call)
    }

    fn named(&self, map: &Map<String, Value>, context: ValueContext) -> Option<TextToolCall> {
        let (key, name) = NAME_KEYS.iter().find_map(|key| Some((*key, map.get(*key)?.as_str()?)))?;
        let tool = self.resolve(name);
        if let Some(arguments) = ARGUMENT_KEYS.iter().find_map(|key| map.get(*key)) {
            return self.finish(name, tool, arguments_of(arguments, tool), context, key);
        }
        let mut rest = map.clone();
        rest.retain(|other, _| other != key && other != "type" && other != "id");
        let fits = match tool {
            Some(tool) if tool.effect == ToolEffect::Command => is_command(&rest, context),
            Some(tool) => (key == "tool" || !rest.is_empty()) && rest.keys().all(|key| declares(tool, key)),
            None => (key == "tool" || is_shell_name(name)) && is_command(&rest, context),
        };
        if !fits {
            return None;
        }
        match tool {
            Some(tool) if tool.effect == ToolEffect::Command => Some(shell_call(tool, &rest)),
            _ => self.finish(name, tool, Arguments::Object(rest), context, key),
        }
    }

    /// Returns the call with its name mapped to the matching offered tool. A call that matches none is accepted only
    /// if the value is unambiguously a call.
    fn finish(
        &self,
        name: &str,
        tool: Option<&ToolSpec>,
        arguments: Arguments,
        context: ValueContext,
        key: &str,
    ) -> Option<TextToolCall> {
        let Some(tool) = tool else {
            let shell = is_shell_name(name)
                && matches!(&arguments, Arguments::Object(map) if is_command(map, context));
            let plain =
                self.mode == ToolCallMode::Text && (context != ValueContext::Embedded || key == "tool");
            return (shell || plain).then(|| TextToolCall { name: name.to_owned(), arguments });
        };
        let arguments = match arguments {
            Arguments::Object(map) if tool.effect == ToolEffect::Command => {
                if context == ValueContext::Embedded && map.get("command").is_some_and(is_placeholder) {
                    return None;
                }
                Arguments::Object(with_reason(tool, map))
            }
            other @ (Arguments::Object(_) | Arguments::Invalid(_)) => other,
        };
        Some(TextToolCall { name: tool.name.clone(), arguments })
    }

    fn resolve(&self, name: &str) -> Option<&'a ToolSpec> {
        let bare = name.trim().trim_start_matches("functions.");
        self.tools
            .iter()
            .find(|tool| tool.name == name)
            .or_else(|| self.tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(bare)))
            .or_else(|| command_tool(self.tools).filter(|_| is_shell_name(bare)))
    }
}

/// Returns the offered tool that runs shell commands, or `None` if there is none.
pub(super) fn command_tool(tools: &[ToolSpec]) -> Option<&ToolSpec> {
    let shells = || tools.iter().filter(|tool| tool.effect == ToolEffect::Command);
    shells()
        .find(|tool| tool.name == "bash")
        .or_else(|| shells().find(|tool| tool.name == "run_command"))
        .or_else(|| shells().next())
}

pub(super) fn is_shell_name(name: &str) -> bool {
    SHELL_NAMES.iter().any(|shell| shell.eq_ignore_ascii_case(name))
}

/// Returns the reason that the model gave for a command, if any.
pub(super) fn reason_of(map: &Map<String, Value>) -> Option<&str> {
    REASON_KEYS.iter().find_map(|key| map.get(*key)?.as_str())
}

/// Returns true if `first_key`, the first key of a broken object, is one that begins a call or an answer.
pub(super) fn begins_form(first_key: &str) -> bool {
    first_key == "type"
        || first_key == "tool_calls"
        || first_key == "command"
        || NAME_KEYS.contains(&first_key)
        || ARGUMENT_KEYS.contains(&first_key)
}

fn is_command(map: &Map<String, Value>, context: ValueContext) -> bool {
    map.get("command").is_some_and(|command| {
        command.is_string() && !(context == ValueContext::Embedded && is_placeholder(command))
    })
}

/// Returns true for a placeholder such as `...` or `<shell command here>`, which occurs in quoted instructions.
fn is_placeholder(command: &Value) -> bool {
    let Some(command) = command.as_str().map(str::trim) else { return false };
    let blank = command
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|inner| !inner.contains(['<', '>', '|', ';', '/']));
    blank || matches!(command, "..." | "…")
}

fn answer_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn arguments_of(value: &Value, tool: Option<&ToolSpec>) -> Arguments {
    let map = match value {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => match lenient_json::read_whole(text) {
            Some(Value::Object(map)) => map,
            _ => return Arguments::Invalid(text.clone()),
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return Arguments::Invalid(value.to_string()),
    };
    Arguments::Object(unnested(map, tool))
}

/// Removes an extra level of nesting that small models add, as in `{"parameters":{..}}`.
fn unnested(mut map: Map<String, Value>, tool: Option<&ToolSpec>) -> Map<String, Value> {
    if map.len() != 1 {
        return map;
    }
    let nested = ARGUMENT_KEYS.iter().find(|key| {
        map.get(**key).is_some_and(Value::is_object) && !tool.is_some_and(|tool| declares(tool, key))
    });
    match nested.and_then(|key| map.get_mut(*key)).map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => map,
    }
}

fn shell_call(tool: &ToolSpec, map: &Map<String, Value>) -> TextToolCall {
    let mut arguments = map.clone();
    arguments.retain(|key, _| {
        key == "command" || REASON_KEYS.contains(&key.as_str()) || (key != "type" && declares(tool, key))
    });
    TextToolCall { name: tool.name.clone(), arguments: Arguments::Object(with_reason(tool, arguments)) }
}

fn unoffered_shell(name: &str, map: &Map<String, Value>) -> TextToolCall {
    let mut arguments = map.clone();
    arguments.retain(|key, _| key != "type");
    TextToolCall { name: name.to_owned(), arguments: Arguments::Object(arguments) }
}

/// Moves the reason to the key that the tool declares. Adds an empty reason if it is required but missing, and removes
/// the reason if the tool declares no such key.
fn with_reason(tool: &ToolSpec, mut map: Map<String, Value>) -> Map<String, Value> {
    let Some(key) = REASON_KEYS.iter().find(|key| declares(tool, key)) else {
        map.retain(|key, _| !REASON_KEYS.contains(&key.as_str()));
        return map;
    };
    if map.contains_key(*key) {
        return map;
    }
    let given = REASON_KEYS.iter().find_map(|other| map.shift_remove(*other));
    let required =
        tool.parameters["required"].as_array().is_some_and(|names| names.iter().any(|name| name == *key));
    match given {
        Some(reason) => {
            map.insert((*key).to_owned(), reason);
        }
        None if required => {
            map.insert((*key).to_owned(), Value::from(""));
        }
        None => {}
    }
    map
}

fn declares(tool: &ToolSpec, key: &str) -> bool {
    tool.parameters.get("properties").and_then(|properties| properties.get(key)).is_some()
}
