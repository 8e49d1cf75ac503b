//! The request body of `generateContent`.

use serde_json::{Map, Value, json};
use sysop_core::message::{Arguments, Message, ModelRequest, Reply, ToolResult};

use crate::history::{self, Prefixes, Side, is_made_up, piece, turns};

/// Stands in for the signature of a call that this model never made (as Google's own CLI does).
pub(super) const DUMMY_SIGNATURE: &str = "skip_thought_signature_validator";

/// What this call leaves out because the server refused it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    /// The model's own parts; their signatures are not taken any more.
    pub(super) no_echo: bool,
    /// The wish to see thoughts.
    pub(super) no_thoughts: bool,
}

/// The body of one request.
pub(super) fn body(
    prefixes: &Prefixes,
    request: &ModelRequest,
    changes: &Changes,
    continuation: Option<&str>,
) -> String {
    let prefix = prefixes.of(request, "gemini", || encode_prefix(request));
    let mut body = String::from("{");
    body.push_str(&prefix);
    body.push_str("\"contents\":[");
    body.push_str(&contents(request, changes));
    body.push_str("],\"generationConfig\":");
    body.push_str(&config(request, changes).to_string());
    if let Some(token) = continuation {
        body.push_str(",\"continuationToken\":");
        body.push_str(&Value::from(token).to_string());
    }
    body.push('}');
    body
}

/// The turns, joined by commas.
pub(super) fn contents(request: &ModelRequest, changes: &Changes) -> String {
    let pieces = request.messages.iter().map(|message| {
        let wire = if echo(message.message(), request, changes).is_some() { "gemini+raw" } else { "gemini" };
        let encoded = piece(message, wire, |message| encode(message, echo(message, request, changes)));
        (Side::of(message.message()), encoded)
    });
    let filler = json!({"text": "Continue."}).to_string();
    let turns: Vec<String> = turns(pieces, &filler)
        .into_iter()
        .map(|turn| {
            let role = match turn.side {
                Side::User => "user",
                Side::Model => "model",
            };
            format!("{{\"role\":\"{role}\",\"parts\":[{}]}}", turn.pieces)
        })
        .collect();
    turns.join(",")
}

fn config(request: &ModelRequest, changes: &Changes) -> Value {
    let name = request.model.name.rsplit('/').next().unwrap_or_default();
    let mut config = Map::new();
    if let Some(limit) = request.max_output_tokens {
        config.insert("maxOutputTokens".into(), limit.into());
    }
    let old = ["gemini-1", "gemini-2.0"].iter().any(|family| name.starts_with(family));
    let thinks = name.starts_with("gemini-") && !old;
    if thinks && !changes.no_thoughts {
        config.insert("thinkingConfig".into(), json!({"includeThoughts": true}));
    }
    // Newer models do not honour it, and those of the third generation may loop with it.
    let samples = old || name.starts_with("gemini-2.5") || !name.starts_with("gemini-");
    if let Some(temperature) = request.temperature.filter(|_| samples) {
        config.insert("temperature".into(), json!(temperature));
    }
    Value::Object(config)
}

fn encode_prefix(request: &ModelRequest) -> String {
    let mut out = String::new();
    if !request.system.is_empty() {
        let system = json!({"parts": [{"text": &*request.system}]});
        out.push_str(&format!("\"systemInstruction\":{system},"));
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                let mut declaration = json!({"name": tool.name, "description": tool.description});
                let properties = tool.parameters.get("properties").and_then(Value::as_object);
                if properties.is_some_and(|properties| !properties.is_empty()) {
                    declaration["parametersJsonSchema"] = tool.parameters.clone();
                }
                declaration
            })
            .collect();
        let tools = json!([{"functionDeclarations": declarations}]);
        out.push_str(&format!("\"tools\":{tools},"));
    }
    out
}

fn echo<'a>(message: &'a Message, request: &ModelRequest, changes: &Changes) -> Option<&'a Value> {
    history::echo(message, &request.model).filter(|_| !changes.no_echo)
}

/// A message as parts, joined by commas; empty where there is nothing to say.
fn encode(message: &Message, echo: Option<&Value>) -> String {
    let parts = match message {
        Message::User { text } if text.is_empty() => Vec::new(),
        Message::User { text } => vec![json!({"text": text})],
        Message::Assistant { reply } => match echo.and_then(Value::as_array) {
            Some(parts) => parts.clone(),
            None => encode_reply(reply),
        },
        Message::ToolResults { results } => results.iter().map(encode_result).collect(),
    };
    parts.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

fn encode_reply(reply: &Reply) -> Vec<Value> {
    let mut parts = Vec::new();
    if !reply.text.is_empty() {
        parts.push(json!({"text": reply.text}));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let args = match &call.arguments {
            Arguments::Object(map) => Value::Object(map.clone()),
            Arguments::Invalid(text) => json!({"invalid_arguments": text}),
        };
        let mut part = json!({"functionCall": {"name": call.name, "args": args}});
        if !is_made_up(call.wire_id()) {
            part["functionCall"]["id"] = call.wire_id().into();
        }
        if index == 0 {
            part["thoughtSignature"] = DUMMY_SIGNATURE.into();
        }
        parts.push(part);
    }
    parts
}

fn encode_result(result: &ToolResult) -> Value {
    let key = if result.is_error { "error" } else { "output" };
    let mut response = json!({"name": result.name, "response": {key: result.output}});
    if !is_made_up(result.wire_id()) {
        response["id"] = result.wire_id().into();
    }
    json!({"functionResponse": response})
}
