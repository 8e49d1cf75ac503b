//! Instructions for the model, and the rendering of history.
//!
//! The instructions are short and depend on the tools alone, so that a server's prompt cache stays valid.

use serde_json::{Map, Value, json};

use super::TextToolCall;
use super::recognizer::{command_tool, is_shell_name, reason_of};
use sysop_core::message::{Arguments, CallEnd, ToolResult};
use sysop_core::tool::ToolSpec;

/// Maximum characters of a tool's description in the instructions.
const DESCRIPTION_CHARS_MAX: usize = 80;

/// Maximum depth to which a tool's schema is kept; deeper levels accept any value.
const SCHEMA_DEPTH_MAX: usize = 6;

const SHELL_CONTRACT: &str = r#"Reply with exactly one JSON object and nothing else. To do something, run one shell command and wait for its output:
{"type":"shell","command":"COMMAND","reason":"WHY"}
When everything that the user asked for is done, or an observation answers the question, end with:
{"type":"answer","text":"TEXT"}
Never invent output. An answer changes nothing: to write a file or change something, run a command that does it.

Example:
User: How full is the disk?
Reply: {"type":"shell","command":"df -h /","reason":"Show disk usage"}
User: Observation: /dev/sda1 40G 10G 28G 27% /
Reply: {"type":"answer","text":"The disk is 27% full."}

Example:
User: Save the names of the users whose shell is bash in report/bash.txt.
Reply: {"type":"shell","command":"grep ':/bin/bash$' /etc/passwd | cut -d: -f1 >report/bash.txt && cat report/bash.txt","reason":"Write the names into the file and check it"}
User: Observation: sh: report/bash.txt: No such file or directory
[exit code 1]
Reply: {"type":"shell","command":"mkdir -p report && grep ':/bin/bash$' /etc/passwd | cut -d: -f1 >report/bash.txt && cat report/bash.txt","reason":"The folder was missing"}
User: Observation: root
ann
[exit code 0]
Reply: {"type":"answer","text":"The names are in report/bash.txt; the folder report is new."}

Example:
User: What is 2+2?
Reply: {"type":"answer","text":"4"}
"#;

/// Text behind results without a failure.
const AFTER_SUCCESS: &str = "\n\nIs everything done that the user asked for? If so, answer with \
    {\"type\":\"answer\",\"text\":\"TEXT\"} and use only what the observations say. If not, make the next call.";

/// Text behind results of which one tells why a call did not run, or was stopped.
const AFTER_REFUSAL: &str = "\n\nThis was not done, or not to its end. Do not try it another way. Do what else was asked \
    for, or answer.";

/// Text behind results of which one was cut short.
const AFTER_CUT: &str = "\n\nThis did not end, so the task is not done. Find out what it has done, then go on or try \
    another way.";

/// Text behind results of which one is a failure.
const AFTER_FAILURE: &str =
    "\n\nThis failed, so the task is not done. Find out why, or try another way; do not repeat the call.";

const ANSWER_CONTRACT: &str = r#"Reply with exactly one JSON object and nothing else: {"type":"answer","text":"TEXT"}
"#;

pub(super) fn instructions(tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return ANSWER_CONTRACT.to_owned();
    }
    if command_tool(tools).is_some() {
        return SHELL_CONTRACT.to_owned();
    }
    let mut text = String::from(
        "Reply with exactly one JSON object and nothing else. Either call one tool and wait for its result:\n\
         {\"name\":\"TOOL\",\"arguments\":{}}\nor answer the user:\n{\"type\":\"answer\",\"text\":\"TEXT\"}\n\
         Never invent results. An answer changes nothing: to change something, call a tool that does it.\n\nTools:\n",
    );
    for tool in tools {
        text.push_str(&format!("- {}\n", tool_line(tool)));
    }
    text.push_str(&format!(
        "\nExample:\nReply: {}\nUser: Observation: (its result)\nReply: {{\"type\":\"answer\",\"text\":\"Here is what I found.\"}}\n",
        example_call(&tools[0]),
    ));
    text.push_str("\nExample:\nUser: What is 2+2?\nReply: {\"type\":\"answer\",\"text\":\"4\"}\n");
    text
}

pub(super) fn schema(tools: &[ToolSpec], must_call: bool) -> Value {
    let answer = object(json!({"type": {"enum": ["answer"]}, "text": {"type": "string"}}));
    if tools.is_empty() {
        return answer;
    }
    let mut forms = Vec::new();
    if command_tool(tools).is_some() {
        forms.push(object(
            json!({"type": {"enum": ["shell"]}, "command": {"type": "string"}, "reason": {"type": "string"}}),
        ));
    } else {
        forms.extend(tools.iter().map(|tool| {
            object(json!({"name": {"enum": [tool.name]}, "arguments": simplified(&tool.parameters, 0)}))
        }));
    }
    if !must_call {
        forms.push(answer);
    }
    json!({ "anyOf": forms })
}

pub(super) fn render_call(call: &TextToolCall) -> String {
    let Arguments::Object(arguments) = &call.arguments else {
        return json!({"name": call.name, "arguments": call.arguments.to_value()}).to_string();
    };
    match arguments.get("command") {
        Some(Value::String(command)) if is_shell_name(&call.name) => {
            let reason = reason_of(arguments).unwrap_or_default();
            json!({"type": "shell", "command": command, "reason": reason}).to_string()
        }
        _ => json!({"name": call.name, "arguments": arguments}).to_string(),
    }
}

pub(super) fn render_results(results: &[ToolResult]) -> String {
    let mut text = String::from("Observation:");
    for result in results {
        text.push_str(if results.len() > 1 { "\n" } else { " " });
        if results.len() > 1 {
            text.push_str(&format!("[{}] ", result.name));
        }
        if result.is_error {
            text.push_str("the call failed: ");
        }
        let output = result.output.trim_end();
        text.push_str(if output.is_empty() { "(nothing was printed)" } else { output });
    }
    if results.is_empty() {
        text.push_str(" (no result)");
    }
    let ended = |end| results.iter().any(|result| result.end == end);
    text.push_str(if ended(CallEnd::Failed) {
        AFTER_FAILURE
    } else if ended(CallEnd::Refused) {
        AFTER_REFUSAL
    } else if ended(CallEnd::Unfinished) {
        AFTER_CUT
    } else if ended(CallEnd::Advised) {
        "" // the result says what to run
    } else {
        AFTER_SUCCESS
    });
    text
}

fn tool_line(tool: &ToolSpec) -> String {
    let required = required(tool);
    let arguments: Vec<String> = properties(tool)
        .map(|name| if required.contains(&name) { name.to_owned() } else { format!("{name}?") })
        .collect();
    let sentence = tool.description.split(['\n', '.']).next().unwrap_or_default().trim();
    let sentence: String = sentence.chars().take(DESCRIPTION_CHARS_MAX).collect();
    format!("{}({}): {sentence}", tool.name, arguments.join(", "))
}

fn example_call(tool: &ToolSpec) -> Value {
    let arguments: Map<String, Value> = required(tool)
        .into_iter()
        .map(|name| {
            let value = match tool.parameters["properties"][name]["type"].as_str() {
                Some("integer" | "number") => json!(1),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => Value::from(name.to_uppercase()),
            };
            (name.to_owned(), value)
        })
        .collect();
    json!({"name": tool.name, "arguments": arguments})
}

fn properties(tool: &ToolSpec) -> impl Iterator<Item = &str> {
    tool.parameters["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str())
}

fn required(tool: &ToolSpec) -> Vec<&str> {
    tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the schema of an object that has exactly these properties, all of them required.
fn object(properties: Value) -> Value {
    let names: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// Returns a schema with only the keywords of grammar converters. The tool's own schema checks everything else.
fn simplified(schema: &Value, depth: usize) -> Value {
    let mut kept = Map::new();
    if depth >= SCHEMA_DEPTH_MAX {
        return Value::Object(kept);
    }
    if let Some(values) = schema.get("enum") {
        kept.insert("enum".to_owned(), values.clone());
        return Value::Object(kept);
    }
    if let Some(kind @ Value::String(_)) = schema.get("type") {
        kept.insert("type".to_owned(), kind.clone());
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let properties: Map<String, Value> =
            properties.iter().map(|(name, inner)| (name.clone(), simplified(inner, depth + 1))).collect();
        kept.insert("properties".to_owned(), Value::Object(properties));
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
        if let Some(required) = schema.get("required") {
            kept.insert("required".to_owned(), required.clone());
        }
    }
    if let Some(items) = schema.get("items") {
        kept.insert("items".to_owned(), simplified(items, depth + 1));
    }
    Value::Object(kept)
}
