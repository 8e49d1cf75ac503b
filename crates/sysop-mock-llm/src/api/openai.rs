//! OpenAI Chat Completions. Validates the rule that clients break most often: each tool call is answered exactly once.
//!
//! Sources: `openai` 3.52.0 (Python) types; the response format of the lsimons-agent design.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{ApiError, ApiRequest, IncomingRequest, ScriptedReply, list, reject_missing_model, text_of};
use crate::engine::Turn;
use crate::event_stream::{EventStream, Framing};
use crate::ids::IdGenerator;
use crate::scenario::{ScriptedCall, TokenUsage, is_tool_name};

/// Model name to use if a request names no model.
const MODEL_DEFAULT: &str = "mock-model";
const TOOL_NAME_BYTES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct ChatCompletionRequest {
    model: String,
    turn: Turn,
    stream: bool,
    include_usage: bool,
}

impl ApiRequest for ChatCompletionRequest {
    const NOT_JSON: &'static str = "We could not parse the JSON body of your request.";
    const REQUEST_ID: Option<(&'static str, &'static str)> = Some(("x-request-id", "req_"));

    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError> {
        let body = call.body;
        let model = match &body["model"] {
            Value::Null => MODEL_DEFAULT.to_owned(),
            Value::String(model) => model.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(
                    ApiError::bad_request("Invalid type for 'model': expected a string.").with_param("model")
                );
            }
        };
        reject_missing_model(&model, || {
            format!("The model `{model}` does not exist or you do not have access to it.")
        })?;
        let stream = body["stream"].as_bool().unwrap_or(false);
        if !stream && !body["stream_options"].is_null() {
            let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            return Err(ApiError::bad_request(message).with_param("stream_options"));
        }
        if !body["max_tokens"].is_null() && !body["max_completion_tokens"].is_null() {
            let message =
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
            return Err(ApiError::bad_request(message).with_param("max_tokens"));
        }
        validate_tools(list(body, "tools"))?;
        let turn = validate_messages(&body["messages"])?;
        let include_usage = body["stream_options"]["include_usage"].as_bool().unwrap_or(false);
        Ok(Self { model, turn, stream, include_usage })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream
    }

    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value {
        let calls = tool_calls(scripted);
        let finish = finish_reason(&calls);
        let content = scripted.response.content.as_ref().map(|_| scripted.response.text());
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(|(_, id, call)| whole_call(id, call)).collect();
        }
        json!({
            "id": scripted.ids.make("chatcmpl-", 29),
            "object": "chat.completion",
            "created": scripted.at.as_second(),
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
            "usage": usage(scripted.usage()),
        })
    }

    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream {
        let id = scripted.ids.make("chatcmpl-", 29);
        let mut script = EventStream::new(Framing::Sse);
        let chunk = |choices: Value, usage: Value| {
            let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": scripted.at.as_second(),
                "model": self.model, "choices": choices});
            if self.include_usage {
                chunk["usage"] = usage;
            }
            chunk
        };
        let delta = |delta: Value| {
            chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), Value::Null)
        };
        script.push(&delta(json!({"role": "assistant", "content": "", "refusal": null})), 1);
        for (piece, times) in scripted.pieces() {
            script.push(&delta(json!({"content": piece})), times);
        }
        let calls = tool_calls(scripted);
        for (index, id, call) in &calls {
            let start = json!({"index": index, "id": id, "type": "function",
                "function": {"name": call.name, "arguments": ""}});
            script.push(&delta(json!({"tool_calls": [start]})), 1);
            for piece in scripted.split(&call.arguments_text) {
                let more = json!({"index": index, "function": {"arguments": piece}});
                script.push(&delta(json!({"tool_calls": [more]})), 1);
            }
        }
        let finish = finish_reason(&calls);
        let last = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish}]);
        script.push(&chunk(last, Value::Null), 1);
        if self.include_usage {
            script.push(&chunk(json!([]), usage(scripted.usage())), 1);
        }
        script.raw("data: [DONE]\n\n".to_owned(), 1);
        script
    }

    fn error_body(refusal: &ApiError, _request_id: &str) -> Value {
        let (kind, code) = match refusal.status {
            401 => ("invalid_request_error", Some("invalid_api_key")),
            404 => ("invalid_request_error", Some("model_not_found")),
            429 => ("requests", Some("rate_limit_exceeded")),
            400..=499 => ("invalid_request_error", None),
            _ => ("server_error", None),
        };
        json!({"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": code}})
    }
}

fn finish_reason(calls: &[(usize, String, &ScriptedCall)]) -> &'static str {
    if calls.is_empty() { "stop" } else { "tool_calls" }
}

fn tool_calls<'a>(scripted: &ScriptedReply<'a>) -> Vec<(usize, String, &'a ScriptedCall)> {
    let calls = scripted.response.tool_calls.iter().enumerate();
    calls.map(|(index, call)| (index, call_id(call, scripted.ids), call)).collect()
}

fn call_id(call: &ScriptedCall, ids: &IdGenerator) -> String {
    call.id.clone().unwrap_or_else(|| ids.make("call_", 24))
}

fn whole_call(id: &str, call: &ScriptedCall) -> Value {
    json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}})
}

fn usage(tokens: TokenUsage) -> Value {
    json!({
        "prompt_tokens": tokens.input_tokens,
        "completion_tokens": tokens.output_tokens,
        "total_tokens": tokens.input_tokens + tokens.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn validate_tools(tools: &[Value]) -> Result<(), ApiError> {
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let param = format!("tools[{index}].function.name");
        if tool["type"] != "function" {
            let message = format!("Invalid value for 'tools[{index}].type': expected 'function'.");
            return Err(ApiError::bad_request(message).with_param(format!("tools[{index}].type")));
        }
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        if !is_tool_name(name, TOOL_NAME_BYTES_MAX) {
            let message = format!(
                "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            );
            return Err(ApiError::bad_request(message).with_param(param));
        }
        if !names.insert(name) {
            return Err(ApiError::bad_request(format!("Invalid '{param}': '{name}' is defined twice."))
                .with_param(param));
        }
    }
    Ok(())
}

fn validate_messages(messages: &Value) -> Result<Turn, ApiError> {
    let Some(messages) = messages.as_array() else {
        return Err(ApiError::bad_request("Missing required parameter: 'messages'.").with_param("messages"));
    };
    if messages.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(ApiError::bad_request(message).with_param("messages"));
    }
    let mut turn = Turn::default();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            close_call(&mut open, index, message)?;
            turn.tool_result();
            continue;
        }
        all_answered(&open, index)?;
        match role {
            "user" => turn.user(&text_of(require_content(index, message)?)),
            "system" | "developer" => {
                require_content(index, message)?;
            }
            "assistant" => open = calls_of(index, message)?,
            _ => {
                let message = format!(
                    "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
                );
                return Err(ApiError::bad_request(message).with_param(format!("messages[{index}].role")));
            }
        }
    }
    all_answered(&open, messages.len())?;
    Ok(turn)
}

fn close_call(open: &mut Vec<&str>, index: usize, message: &Value) -> Result<(), ApiError> {
    require_content(index, message)?;
    let Some(id) = message["tool_call_id"].as_str() else {
        let param = format!("messages.[{index}].tool_call_id");
        return Err(ApiError::bad_request(format!(
            "Missing required parameter: 'messages[{index}].tool_call_id'."
        ))
        .with_param(param));
    };
    match open.iter().position(|call| *call == id) {
        Some(position) => {
            open.remove(position);
            Ok(())
        }
        None => Err(ApiError::bad_request(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        )
        .with_param(format!("messages.[{index}].role"))),
    }
}

fn all_answered(open: &[&str], index: usize) -> Result<(), ApiError> {
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(ApiError::bad_request(message).with_param(format!("messages.[{index}].role")))
}

fn require_content(index: usize, message: &Value) -> Result<&Value, ApiError> {
    match &message["content"] {
        content @ (Value::String(_) | Value::Array(_)) => Ok(content),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            let message = format!("Invalid value for 'content': expected a string, in 'messages[{index}]'.");
            Err(ApiError::bad_request(message).with_param(format!("messages.[{index}].content")))
        }
    }
}

fn calls_of(index: usize, message: &Value) -> Result<Vec<&str>, ApiError> {
    let calls = list(message, "tool_calls");
    if calls.is_empty() {
        if message["tool_calls"].is_array() {
            let message = format!(
                "Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead."
            );
            return Err(ApiError::bad_request(message).with_param(format!("messages[{index}].tool_calls")));
        }
        require_content(index, message)?;
    }
    calls.iter().enumerate().map(|(position, call)| validate_call(index, position, call)).collect()
}

fn validate_call(index: usize, position: usize, call: &Value) -> Result<&str, ApiError> {
    let place = format!("messages[{index}].tool_calls[{position}]");
    let wrong = |field: &str, what: &str| {
        ApiError::bad_request(format!("Invalid '{place}.{field}': {what}."))
            .with_param(format!("{place}.{field}"))
    };
    if call["type"] != "function" {
        return Err(wrong("type", "expected 'function'"));
    }
    if call["function"]["name"].as_str().is_none_or(str::is_empty) {
        return Err(wrong("function.name", "expected a name"));
    }
    // Chat templates of local servers parse this string; a client must not send one that they cannot parse.
    let arguments = call["function"]["arguments"].as_str();
    if arguments.is_none_or(|text| serde_json::from_str::<IgnoredAny>(text).is_err()) {
        return Err(wrong("function.arguments", "expected JSON in a string"));
    }
    call["id"].as_str().filter(|id| !id.is_empty()).ok_or_else(|| wrong("id", "expected an id"))
}

/// Returns the response to `GET /v1/models`.
pub(crate) fn models(created: i64) -> Value {
    json!({"object": "list", "data": [
        {"id": MODEL_DEFAULT, "object": "model", "created": created, "owned_by": "mock"},
    ]})
}
