//! Anthropic Messages. Validates the pairing of `tool_use` and `tool_result` as strictly as the real server.
//!
//! Sources: `anthropic` 2.11.0 (Python) types; platform.claude.com, `api/versioning`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ApiError, ApiRequest, IncomingRequest, ScriptedReply, list, reject_missing_model};
use crate::engine::Turn;
use crate::event_stream::{EventStream, Framing};
use crate::scenario::{TokenUsage, is_tool_name};

const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];
/// First API version without sampling parameters.
const VERSION_WITHOUT_SAMPLING: &str = "2026-10-21";
const TOOL_NAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct MessagesRequest {
    model: String,
    turn: Turn,
    stream: bool,
}

impl ApiRequest for MessagesRequest {
    const NOT_JSON: &'static str = "The request body is not valid JSON:";
    const REQUEST_ID: Option<(&'static str, &'static str)> = Some(("request-id", "req_011C"));

    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError> {
        let body = call.body;
        let version = call.headers.get("anthropic-version").and_then(|value| value.to_str().ok());
        let version =
            version.ok_or_else(|| ApiError::bad_request("anthropic-version: header is required"))?;
        if !VERSIONS.contains(&version) {
            return Err(ApiError::bad_request(format!(
                "anthropic-version: \"{version}\" is not a valid version"
            )));
        }
        let model =
            body["model"].as_str().ok_or_else(|| ApiError::bad_request("model: Field required"))?.to_owned();
        reject_missing_model(&model, || format!("model: {model}"))?;
        if body["max_tokens"].as_u64().is_none() {
            return Err(ApiError::bad_request("max_tokens: Field required"));
        }
        for name in ["temperature", "top_p", "top_k"] {
            if version == VERSION_WITHOUT_SAMPLING && !body[name].is_null() {
                return Err(ApiError::bad_request(format!("{name}: not supported in version {version}")));
            }
        }
        validate_tools(body)?;
        let turn = validate_messages(body)?;
        Ok(Self { model, turn, stream: body["stream"].as_bool().unwrap_or(false) })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream
    }

    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value {
        let mut message = self.message(scripted, scripted.usage());
        let mut content = Vec::new();
        let text = scripted.response.text();
        if !text.is_empty() {
            content.push(json!({"type": "text", "text": text}));
        }
        for call in &scripted.response.tool_calls {
            let id = scripted.ids.make("toolu_01", 22);
            content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}));
        }
        message["content"] = Value::Array(content);
        message["stop_reason"] = json!(stop_reason(scripted));
        message
    }

    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream {
        let usage = scripted.usage();
        let mut script = EventStream::new(Framing::Sse);
        let message = self.message(scripted, TokenUsage { output_tokens: 1, ..usage });
        script.push_named(&json!({"type": "message_start", "message": message}), 1);
        script.push_named(&json!({"type": "ping"}), 1);
        let mut index = 0;
        let pieces = scripted.pieces();
        if !pieces.is_empty() {
            script.push_named(&start(index, json!({"type": "text", "text": ""})), 1);
            for (piece, times) in pieces {
                script.push_named(&delta(index, json!({"type": "text_delta", "text": piece})), times);
            }
            script.push_named(&json!({"type": "content_block_stop", "index": index}), 1);
            index += 1;
        }
        for call in &scripted.response.tool_calls {
            let id = scripted.ids.make("toolu_01", 22);
            let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
            script.push_named(&start(index, block), 1);
            // The real server begins with an empty delta, and sends no other if there are no arguments.
            let pieces = if call.arguments.is_empty() { "" } else { call.arguments_text.as_str() };
            for piece in std::iter::once("").chain(scripted.split(pieces)) {
                let input = json!({"type": "input_json_delta", "partial_json": piece});
                script.push_named(&delta(index, input), 1);
            }
            script.push_named(&json!({"type": "content_block_stop", "index": index}), 1);
            index += 1;
        }
        let ended = json!({"stop_reason": stop_reason(scripted), "stop_sequence": null});
        let tokens = json!({"output_tokens": usage.output_tokens});
        script.push_named(&json!({"type": "message_delta", "delta": ended, "usage": tokens}), 1);
        script.push_named(&json!({"type": "message_stop"}), 1);
        script
    }

    fn error_body(refusal: &ApiError, request_id: &str) -> Value {
        let kind = match refusal.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 => "conflict_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": request_id})
    }
}

impl MessagesRequest {
    fn message(&self, scripted: &ScriptedReply<'_>, usage: TokenUsage) -> Value {
        json!({
            "id": scripted.ids.make("msg_01", 22),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": usage.input_tokens, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": usage.output_tokens},
        })
    }
}

fn stop_reason(scripted: &ScriptedReply<'_>) -> &'static str {
    if scripted.response.tool_calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn start(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn validate_tools(body: &Value) -> Result<(), ApiError> {
    let mut names = BTreeSet::new();
    for (index, tool) in list(body, "tools").iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_tool_name(name, TOOL_NAME_BYTES_MAX) {
            return Err(ApiError::bad_request(format!(
                "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )));
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(ApiError::bad_request(format!(
                "tools.{index}.custom.input_schema.type: Field required"
            )));
        }
        if !names.insert(name) {
            return Err(ApiError::bad_request("tools: Tool names must be unique."));
        }
    }
    Ok(())
}

/// A content block, reduced to the fields that are validated.
enum RequestBlock<'a> {
    Text(&'a str),
    ToolUse(&'a str),
    ToolResult(&'a str),
    Other,
}

fn validate_messages(body: &Value) -> Result<Turn, ApiError> {
    let messages = list(body, "messages");
    if messages.is_empty() {
        return Err(ApiError::bad_request("messages: at least one message is required"));
    }
    let mut turn = Turn::default();
    let mut open: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    let mut first = true;
    let mut last_is_assistant = false;
    for (index, message) in messages.iter().enumerate() {
        let blocks = blocks_of(index, message)?;
        let asked_before = std::mem::take(&mut open);
        match message["role"].as_str() {
            Some("user") => {
                validate_results(index, &asked_before, &blocks)?;
                advance_turn(&mut turn, &blocks);
            }
            Some("assistant") if first => {
                return Err(ApiError::bad_request("messages: first message must use the \"user\" role"));
            }
            Some("assistant") => {
                all_answered(index, asked_before)?;
                open = uses_of(index, &blocks)?;
                if open.iter().any(|id| !known.insert(*id)) {
                    return Err(ApiError::bad_request("messages: `tool_use` ids must be unique"));
                }
            }
            Some("system") => all_answered(index, asked_before)?,
            Some(_) | None => {
                return Err(ApiError::bad_request(format!(
                    "messages.{index}.role: Input should be 'user' or 'assistant'"
                )));
            }
        }
        first = false;
        last_is_assistant = message["role"] == "assistant";
    }
    all_answered(messages.len(), open)?;
    if last_is_assistant {
        return Err(ApiError::bad_request(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    if !known.is_empty() && list(body, "tools").is_empty() {
        return Err(ApiError::bad_request(
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        ));
    }
    Ok(turn)
}

fn blocks_of<'a>(index: usize, message: &'a Value) -> Result<Vec<RequestBlock<'a>>, ApiError> {
    let blocks = match &message["content"] {
        Value::String(text) if text.is_empty() => {
            return Err(ApiError::bad_request(format!(
                "messages.{index}: all messages must have non-empty content"
            )));
        }
        Value::String(text) => return Ok(vec![RequestBlock::Text(text)]),
        Value::Array(blocks) => blocks,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(ApiError::bad_request(format!("messages.{index}.content: Field required")));
        }
    };
    blocks.iter().enumerate().map(|(place, block)| block_of(index, place, block)).collect()
}

fn block_of<'a>(index: usize, place: usize, block: &'a Value) -> Result<RequestBlock<'a>, ApiError> {
    let wrong = |what: &str| ApiError::bad_request(format!("messages.{index}.content.{place}.{what}"));
    match block["type"].as_str() {
        None => Err(wrong("type: Field required")),
        Some("text") => match block["text"].as_str() {
            None => Err(wrong("text.text: Field required")),
            Some("") => Err(ApiError::bad_request("messages: text content blocks must be non-empty")),
            Some(text) => Ok(RequestBlock::Text(text)),
        },
        Some("tool_use") if !block["input"].is_object() => {
            Err(wrong("tool_use.input: Input should be a valid dictionary"))
        }
        Some("tool_use") => match block["id"].as_str() {
            Some(id) if is_tool_name(id, usize::MAX) => Ok(RequestBlock::ToolUse(id)),
            Some(_) | None => Err(wrong("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")),
        },
        Some("tool_result")
            if !matches!(&block["content"], Value::Null | Value::String(_) | Value::Array(_)) =>
        {
            Err(wrong("tool_result.content: Input should be a valid string or a list of blocks"))
        }
        Some("tool_result") => {
            let id = block["tool_use_id"].as_str();
            id.map(RequestBlock::ToolResult).ok_or_else(|| wrong("tool_result.tool_use_id: Field required"))
        }
        Some(_) => Ok(RequestBlock::Other),
    }
}

fn uses_of<'a>(index: usize, blocks: &[RequestBlock<'a>]) -> Result<Vec<&'a str>, ApiError> {
    let mut uses = Vec::new();
    for (place, block) in blocks.iter().enumerate() {
        match block {
            RequestBlock::ToolUse(id) => uses.push(*id),
            RequestBlock::ToolResult(_) => {
                return Err(ApiError::bad_request(format!(
                    "messages.{index}.content.{place}: `tool_result` blocks can only be in `user` messages"
                )));
            }
            RequestBlock::Text(_) | RequestBlock::Other => {}
        }
    }
    Ok(uses)
}

/// Fails unless the blocks of a user message begin with results for exactly the preceding calls, `asked`.
fn validate_results(index: usize, asked: &[&str], blocks: &[RequestBlock<'_>]) -> Result<(), ApiError> {
    let mut open = asked.to_vec();
    let mut closed = false;
    for (place, block) in blocks.iter().enumerate() {
        match block {
            RequestBlock::ToolResult(id) => match open.iter().position(|call| call == id) {
                Some(_) if closed => return all_answered(index, open),
                Some(position) => {
                    open.remove(position);
                }
                None if asked.contains(id) => {
                    return Err(ApiError::bad_request(format!(
                        "messages.{index}.content.{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                    )));
                }
                None => {
                    return Err(ApiError::bad_request(format!(
                        "messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                    )));
                }
            },
            RequestBlock::ToolUse(_) => {
                return Err(ApiError::bad_request(format!(
                    "messages.{index}.content.{place}: `tool_use` blocks can only be in `assistant` messages"
                )));
            }
            RequestBlock::Text(_) | RequestBlock::Other => closed = true,
        }
    }
    all_answered(index, open)
}

/// Fails if `open` contains calls, which have no result. `index` identifies the message with the results.
fn all_answered(index: usize, open: Vec<&str>) -> Result<(), ApiError> {
    if open.is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        index - 1,
        open.join(", ")
    )))
}

fn advance_turn(turn: &mut Turn, blocks: &[RequestBlock<'_>]) {
    let mut texts = Vec::new();
    for block in blocks {
        match block {
            RequestBlock::Text(text) => texts.push(*text),
            RequestBlock::ToolResult(_) => turn.tool_result(),
            RequestBlock::ToolUse(_) | RequestBlock::Other => {}
        }
    }
    if !texts.is_empty() {
        turn.user(&texts.join("\n"));
    }
}

/// Returns the response to `GET /v1/models`.
pub(crate) fn models(now: jiff::Timestamp) -> Value {
    let id = "mock-model";
    json!({"data": [{"type": "model", "id": id, "display_name": "Mock model", "created_at": now.to_string()}],
        "has_more": false, "first_id": id, "last_id": id})
}
