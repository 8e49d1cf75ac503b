//! The request body of `/api/chat`.

use serde_json::{Map, Value, json};
use sysop_core::message::{Arguments, Message, ModelRequest, Reply};
use sysop_core::text_protocol;

use crate::history::{self, Prefixes, piece};
use crate::openai::{TEXT_TOKENS_MAX, system_prompt, written_reply};
use crate::settings::OllamaSettings;

/// No tokenizer makes tokens of more bytes on average, blanks not counted.
pub(super) const BYTES_OF_A_TOKEN_MAX: u64 = 8;

/// How tools are offered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// As text.
    pub(super) text: bool,
    /// With a schema for the reply, where they are text.
    pub(super) schema: bool,
}

/// The body of one request, and how many bytes of its messages are not blank.
pub(super) fn body(
    prefixes: &Prefixes,
    request: &ModelRequest,
    settings: &OllamaSettings,
    shape: Shape,
) -> (String, u64) {
    let mut body = options(request, settings, shape).to_string();
    body.pop(); // the closing brace
    let variant = if shape.text { "ollama/text" } else { "ollama" };
    let prefix = prefixes.of(request, variant, || encode_prefix(request, shape.text));
    body.push(',');
    body.push_str(&prefix);
    let start = body.len();
    for message in &request.messages {
        let echo = history::echo(message.message(), &request.model);
        let wire = match (shape.text, echo.is_some()) {
            (true, _) => "ollama/text",
            (false, false) => "ollama",
            (false, true) => "ollama+raw",
        };
        let encoded = piece(message, wire, |message| {
            encode(message, shape.text, history::echo(message, &request.model))
        });
        if encoded.is_empty() {
            continue;
        }
        if !body.ends_with('[') {
            body.push(',');
        }
        body.push_str(&encoded);
    }
    let black = body.as_bytes()[start..].iter().filter(|byte| !byte.is_ascii_whitespace()).count();
    body.push_str("]}");
    (body, u64::try_from(black).unwrap_or(u64::MAX))
}

fn options(request: &ModelRequest, settings: &OllamaSettings, shape: Shape) -> Value {
    let mut options = Map::new();
    options.insert("num_ctx".into(), settings.num_ctx.into());
    let limit = request.max_output_tokens.or(shape.text.then_some(TEXT_TOKENS_MAX));
    if let Some(limit) = limit {
        options.insert("num_predict".into(), limit.into());
    }
    if let Some(temperature) = request.temperature.or(shape.text.then_some(0.0)) {
        options.insert("temperature".into(), json!(temperature));
    }
    if shape.text {
        // A small model that goes on here makes up the result of its own call.
        options.insert("stop".into(), json!(["\nObservation"]));
    }
    let mut body = Map::new();
    body.insert("model".into(), request.model.name.clone().into());
    body.insert("stream".into(), true.into());
    if let Some(keep_alive) = &settings.keep_alive {
        let value =
            keep_alive.trim().parse::<i64>().map_or_else(|_| json!(keep_alive), |seconds| json!(seconds));
        body.insert("keep_alive".into(), value);
    }
    body.insert("options".into(), options.into());
    // Without these an overflow is cut silently; older servers ignore them.
    body.insert("truncate".into(), false.into());
    body.insert("shift".into(), false.into());
    if shape.text && shape.schema {
        body.insert("format".into(), text_protocol::schema(&request.tools));
    }
    Value::Object(body)
}

fn encode_prefix(request: &ModelRequest, text: bool) -> String {
    let mut out = String::new();
    if !text && !request.tools.is_empty() {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function":
                    {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
            })
            .collect();
        out.push_str(&format!("\"tools\":{},", Value::from(tools)));
    }
    out.push_str("\"messages\":[");
    let system = system_prompt(request, text);
    if !system.is_empty() {
        out.push_str(&json!({"role": "system", "content": system}).to_string());
    }
    out
}

/// A message as one or more JSON objects, joined by commas; empty where there is nothing to say.
fn encode(message: &Message, text: bool, echo: Option<&Value>) -> String {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}).to_string(),
        Message::Assistant { reply } if text => written_reply(reply)
            .map(|content| json!({"role": "assistant", "content": content}).to_string())
            .unwrap_or_default(),
        Message::Assistant { reply } => encode_reply(reply, echo),
        Message::ToolResults { results } if text => {
            json!({"role": "user", "content": text_protocol::results(results)}).to_string()
        }
        Message::ToolResults { results } => {
            let messages: Vec<String> = results
                .iter()
                .map(|result| {
                    json!({"role": "tool", "tool_name": result.name, "tool_call_id": result.wire_id(),
                        "content": result.output})
                    .to_string()
                })
                .collect();
            messages.join(",")
        }
    }
}

fn encode_reply(reply: &Reply, echo: Option<&Value>) -> String {
    if reply.text.is_empty() && reply.calls.is_empty() {
        return String::new();
    }
    let mut message = json!({"role": "assistant", "content": reply.text});
    if let Some(thinking) = echo.and_then(|raw| raw.get("thinking")) {
        message["thinking"] = thinking.clone();
    }
    if !reply.calls.is_empty() {
        let calls: Vec<Value> = reply
            .calls
            .iter()
            .map(|call| {
                let arguments = match &call.arguments {
                    Arguments::Object(map) => Value::Object(map.clone()),
                    Arguments::Invalid(text) => json!({"invalid_arguments": text}),
                };
                json!({"id": call.wire_id(), "function": {"name": call.name, "arguments": arguments}})
            })
            .collect();
        message["tool_calls"] = calls.into();
    }
    message.to_string()
}
