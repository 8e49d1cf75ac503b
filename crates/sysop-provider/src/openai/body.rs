//! The request body of chat completions.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sysop_core::message::{Arguments, Message, ModelRequest, Reply, ToolCall};
use sysop_core::text_protocol::{self, WrittenCall};

use super::{Dialect, Quirks};
use crate::history::{self, Prefixes, piece};

/// Most tokens of a reply in the text protocol, which a small model may otherwise never end.
pub(crate) const TEXT_TOKENS_MAX: u32 = 4096;

/// The body of one request.
pub(super) fn body(prefixes: &Prefixes, request: &ModelRequest, dialect: Dialect, quirks: Quirks) -> String {
    let mut head = options(request, dialect, quirks).to_string();
    head.pop(); // the closing brace
    let variant = if quirks.text { "openai/text" } else { "openai" };
    let prefix = prefixes.of(request, variant, || encode_prefix(request, quirks.text));
    let mut body = head;
    body.push(',');
    body.push_str(&prefix);
    for message in &request.messages {
        let echo = history::echo(message.message(), &request.model);
        let text = quirks.text;
        let encoded = piece(message, wire(dialect, text, echo.is_some()), |message| {
            encode(message, dialect, text, history::echo(message, &request.model))
        });
        if encoded.is_empty() {
            continue;
        }
        if !body.ends_with('[') {
            body.push(',');
        }
        body.push_str(&encoded);
    }
    body.push_str("]}");
    body
}

/// Whether the first guess is `max_completion_tokens`: OpenAI's reasoning models refuse the other, most clones know no other.
pub(super) fn wants_completion_tokens(dialect: Dialect, model: &str) -> bool {
    let bare = model.rsplit('/').next().unwrap_or(model);
    let newer = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|family| bare.starts_with(family));
    match dialect {
        Dialect::OpenAi | Dialect::Azure => true,
        Dialect::Plain => newer,
        Dialect::DeepSeek | Dialect::Mistral => false,
    }
}

fn options(request: &ModelRequest, dialect: Dialect, quirks: Quirks) -> Value {
    let mut options = Map::new();
    options.insert("model".into(), request.model.name.clone().into());
    options.insert("stream".into(), true.into());
    if !quirks.no_stream_options {
        options.insert("stream_options".into(), json!({"include_usage": true}));
    }
    let limit = request.max_output_tokens.or(quirks.text.then_some(TEXT_TOKENS_MAX));
    if let Some(limit) = limit {
        let completion =
            quirks.completion_tokens.unwrap_or_else(|| wants_completion_tokens(dialect, &request.model.name));
        let name = if completion { "max_completion_tokens" } else { "max_tokens" };
        options.insert(name.into(), limit.into());
    }
    if let Some(temperature) = request.temperature.filter(|_| !quirks.no_temperature) {
        options.insert("temperature".into(), json!(temperature));
    }
    if quirks.effort_none {
        options.insert("reasoning_effort".into(), "none".into());
    }
    if quirks.text && !quirks.no_schema {
        let schema = text_protocol::schema(&request.tools);
        let format = json!({"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": false}});
        options.insert("response_format".into(), format);
    }
    Value::Object(options)
}

/// Tools and system prompt, and the open list of messages.
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

/// The system prompt, with the text protocol's contract where tools are offered that way.
pub(crate) fn system_prompt(request: &ModelRequest, text: bool) -> Cow<'_, str> {
    if !text {
        return Cow::Borrowed(&request.system);
    }
    let instructions = text_protocol::instructions(&request.tools);
    if request.system.is_empty() {
        instructions.into()
    } else {
        format!("{}\n\n{instructions}", request.system).into()
    }
}

/// Names an encoding by all that it depends on.
fn wire(dialect: Dialect, text: bool, echo: bool) -> &'static str {
    match (text, dialect, echo) {
        (true, _, _) => "openai/text",
        (false, Dialect::DeepSeek, false) => "openai/deepseek",
        (false, Dialect::DeepSeek, true) => "openai/deepseek+raw",
        (false, Dialect::Mistral, false) => "openai/mistral",
        (false, Dialect::Mistral, true) => "openai/mistral+raw",
        (false, Dialect::Plain | Dialect::OpenAi | Dialect::Azure, false) => "openai",
        (false, Dialect::Plain | Dialect::OpenAi | Dialect::Azure, true) => "openai+raw",
    }
}

/// A message as one or more JSON objects, joined by commas; empty where there is nothing to say.
fn encode(message: &Message, dialect: Dialect, text: bool, echo: Option<&Value>) -> String {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}).to_string(),
        Message::Assistant { reply } if text => written_reply(reply)
            .map(|content| json!({"role": "assistant", "content": content}).to_string())
            .unwrap_or_default(),
        Message::Assistant { reply } => encode_reply(reply, dialect, echo),
        Message::ToolResults { results } if text => {
            json!({"role": "user", "content": text_protocol::results(results)}).to_string()
        }
        Message::ToolResults { results } => {
            let messages: Vec<String> = results
                .iter()
                .map(|result| {
                    let id = wire_id(result.wire_id(), dialect);
                    json!({"role": "tool", "tool_call_id": id, "content": result.output}).to_string()
                })
                .collect();
            messages.join(",")
        }
    }
}

/// A reply as it reads in the text protocol; `None` where it said nothing.
pub(crate) fn written_reply(reply: &Reply) -> Option<String> {
    let calls = reply.calls.iter().map(|call| {
        text_protocol::written(&WrittenCall { name: call.name.clone(), arguments: call.arguments.clone() })
    });
    let parts: Vec<String> =
        std::iter::once(reply.text.clone()).chain(calls).filter(|part| !part.trim().is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn encode_reply(reply: &Reply, dialect: Dialect, echo: Option<&Value>) -> String {
    if reply.text.is_empty() && reply.calls.is_empty() {
        return String::new();
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let content = if reply.text.is_empty() { Value::Null } else { reply.text.clone().into() };
    message.insert("content".into(), content);
    if let Some(Value::Object(fields)) = echo.and_then(|raw| raw.get("fields")) {
        for (name, value) in fields {
            message.insert(name.clone(), value.clone());
        }
    }
    if !reply.calls.is_empty() {
        // DeepSeek refuses a history whose calls come without their reasoning, even where there was none.
        if dialect == Dialect::DeepSeek && !message.contains_key("reasoning_content") {
            message.insert("reasoning_content".into(), "".into());
        }
        let extras = echo.and_then(|raw| raw.get("calls")).and_then(Value::as_array);
        let calls: Vec<Value> = reply
            .calls
            .iter()
            .enumerate()
            .map(|(index, call)| encode_call(call, dialect, extras.and_then(|extras| extras.get(index))))
            .collect();
        message.insert("tool_calls".into(), calls.into());
    }
    Value::Object(message).to_string()
}

fn encode_call(call: &ToolCall, dialect: Dialect, extra: Option<&Value>) -> Value {
    let arguments = match &call.arguments {
        Arguments::Object(map) => Value::Object(map.clone()).to_string(),
        // Servers parse this text; what the model wrote would make them fail.
        Arguments::Invalid(text) => json!({"invalid_arguments": text}).to_string(),
    };
    let mut encoded = json!({
        "id": wire_id(call.wire_id(), dialect),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    });
    if let Some(extra) = extra.filter(|extra| !extra.is_null()) {
        encoded["extra_content"] = extra.clone();
    }
    encoded
}

/// A call's id in the form that the server takes: Mistral wants exactly nine letters or digits.
fn wire_id(id: &str, dialect: Dialect) -> Cow<'_, str> {
    let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match dialect {
        Dialect::Mistral if !fits => short_id(id).into(),
        Dialect::Mistral | Dialect::Plain | Dialect::OpenAi | Dialect::Azure | Dialect::DeepSeek => id.into(),
    }
}

/// Nine letters or digits that follow from `id` (FNV-1a): the call and its result must agree.
fn short_id(id: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut out = String::new();
    for _ in 0..9 {
        let digit = usize::try_from(hash % 62).expect("a remainder of 62 fits");
        out.push(char::from(DIGITS[digit]));
        hash /= 62;
    }
    out
}
