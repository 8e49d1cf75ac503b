//! Ollama's native API. A model whose name begins with `phi3` does not support tools and writes its calls as text.
//!
//! Sources: ollama v0.33.0-rc2, `server/routes.go`, `api/types.go`; the Jexida design for the text protocol.

use serde_json::{Value, json};

use super::{
    ApiError, ApiRequest, IncomingRequest, ScriptedReply, TEXT_ONLY_MODEL_PREFIX, list, reject_missing_model,
};
use crate::engine::Turn;
use crate::event_stream::{EventStream, Framing};
use crate::scenario::ScriptedCall;

const VERSION: &str = "0.33.0";
/// Context window of every model, in tokens.
const CONTEXT_LENGTH: u64 = 32_768;
/// Models that are listed. Requests with any other model name are answered too.
const MODELS: [&str; 2] = ["mock-model:latest", "phi3:latest"];
/// Tools whose calls a model without tools writes as `{"type":"shell",…}`.
const SHELL_TOOLS: [&str; 2] = ["bash", "run_command"];
/// Duration reported for each phase, in nanoseconds.
const DURATION_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct OllamaChatRequest {
    model: String,
    turn: Turn,
    stream: bool,
    /// True if the request only loads the model.
    load: bool,
}

impl ApiRequest for OllamaChatRequest {
    const NOT_JSON: &'static str = "invalid JSON:";

    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError> {
        let body = call.body;
        let model = model_of(body)?;
        let messages = list(body, "messages");
        let turn = validate_messages(messages)?;
        if lacks_tools(&model) {
            if !list(body, "tools").is_empty() {
                let full = full_name(&model);
                return Err(ApiError::bad_request(format!(
                    "registry.ollama.ai/library/{full} does not support tools"
                )));
            }
            if body["think"].as_bool() == Some(true) || body["think"].is_string() {
                return Err(ApiError::bad_request(format!("\"{model}\" does not support thinking")));
            }
        }
        let stream = body["stream"].as_bool().unwrap_or(true);
        Ok(Self { model, turn, stream, load: messages.is_empty() })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream
    }

    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value {
        if self.load {
            return self.loaded(scripted);
        }
        let mut message = json!({"role": "assistant", "content": ""});
        if lacks_tools(&self.model) {
            message["content"] = json!(as_text(scripted));
        } else {
            message["content"] = json!(scripted.response.text());
            let calls = self.calls(scripted);
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
        }
        self.last(scripted, message)
    }

    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream {
        let mut script = EventStream::new(Framing::Lines);
        if self.load {
            script.push(&self.loaded(scripted), 1);
            return script;
        }
        let line = |message: Value| json!({"model": self.model, "created_at": scripted.at.to_string(), "message": message, "done": false});
        let text = |piece: &str| line(json!({"role": "assistant", "content": piece}));
        if lacks_tools(&self.model) {
            for piece in scripted.split(&as_text(scripted)) {
                script.push(&text(piece), 1);
            }
        } else {
            for (piece, times) in scripted.pieces() {
                script.push(&text(piece), times);
            }
            for call in self.calls(scripted) {
                script.push(&line(json!({"role": "assistant", "content": "", "tool_calls": [call]})), 1);
            }
        }
        script.push(&self.last(scripted, json!({"role": "assistant", "content": ""})), 1);
        script
    }

    fn error_body(refusal: &ApiError, _request_id: &str) -> Value {
        json!({"error": refusal.message})
    }
}

impl OllamaChatRequest {
    fn last(&self, scripted: &ScriptedReply<'_>, message: Value) -> Value {
        let usage = scripted.usage();
        json!({
            "model": self.model,
            "created_at": scripted.at.to_string(),
            "message": message,
            "done": true,
            "done_reason": "stop",
            "total_duration": 3 * DURATION_NS,
            "load_duration": DURATION_NS,
            "prompt_eval_count": usage.input_tokens,
            "prompt_eval_duration": DURATION_NS,
            "eval_count": usage.output_tokens,
            "eval_duration": DURATION_NS,
        })
    }

    fn loaded(&self, scripted: &ScriptedReply<'_>) -> Value {
        json!({"model": self.model, "created_at": scripted.at.to_string(),
            "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "load"})
    }

    fn calls(&self, scripted: &ScriptedReply<'_>) -> Vec<Value> {
        let calls = scripted.response.tool_calls.iter().enumerate();
        calls
            .map(|(index, call)| {
                json!({"id": scripted.ids.make("call_", 8),
                    "function": {"index": index, "name": call.name, "arguments": call.arguments}})
            })
            .collect()
    }
}

/// Returns the response in the form in which a model without tools writes it: one call per line, or the answer.
fn as_text(scripted: &ScriptedReply<'_>) -> String {
    let response = scripted.response;
    if response.tool_calls.is_empty() {
        return json!({"type": "answer", "text": response.text()}).to_string();
    }
    let reason = response.content.as_deref().unwrap_or_default();
    let calls: Vec<String> = response.tool_calls.iter().map(|call| call_as_text(call, reason)).collect();
    calls.join("\n")
}

fn call_as_text(call: &ScriptedCall, reason: &str) -> String {
    match call.arguments.get("command") {
        Some(command) if SHELL_TOOLS.contains(&call.name.as_str()) => {
            json!({"type": "shell", "command": command, "reason": reason}).to_string()
        }
        Some(_) | None => json!({"name": call.name, "arguments": call.arguments}).to_string(),
    }
}

fn lacks_tools(model: &str) -> bool {
    model.to_ascii_lowercase().starts_with(TEXT_ONLY_MODEL_PREFIX)
}

fn full_name(model: &str) -> String {
    if model.contains(':') { model.to_owned() } else { format!("{model}:latest") }
}

fn model_of(body: &Value) -> Result<String, ApiError> {
    let named = body["model"].as_str().or(body["name"].as_str()).filter(|name| !name.is_empty());
    let model = named.ok_or_else(|| ApiError::bad_request("model is required"))?;
    reject_missing_model(model, || format!("model '{model}' not found"))?;
    Ok(model.to_owned())
}

fn validate_messages(messages: &[Value]) -> Result<Turn, ApiError> {
    let mut turn = Turn::default();
    for message in messages {
        let content = match &message["content"] {
            Value::Null => "",
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(ApiError::bad_request(
                    "json: cannot unmarshal into Go struct field ChatRequest.messages.content of type string",
                ));
            }
        };
        match message["role"].as_str() {
            Some("user") => turn.user(content),
            Some("tool") => turn.tool_result(),
            Some("system" | "assistant") => {}
            Some(_) | None => {
                return Err(ApiError::bad_request(
                    "role must be one of [\"system\", \"user\", \"assistant\", \"tool\"]",
                ));
            }
        }
        for call in list(message, "tool_calls") {
            if !call["function"]["arguments"].is_object() {
                return Err(ApiError::bad_request(
                    "json: cannot unmarshal string into Go struct field ToolCallFunction.arguments of type api.ToolCallFunctionArguments",
                ));
            }
        }
    }
    Ok(turn)
}

fn capabilities(model: &str) -> Value {
    if lacks_tools(model) { json!(["completion"]) } else { json!(["completion", "tools"]) }
}

fn details() -> Value {
    json!({"parent_model": "", "format": "gguf", "family": "mock", "families": ["mock"],
        "parameter_size": "4B", "quantization_level": "Q4_0"})
}

fn digest() -> String {
    "5eed".repeat(16)
}

/// Returns the response to `GET /api/version`.
pub(crate) fn version() -> Value {
    json!({"version": VERSION})
}

/// Returns the response to `GET /api/tags`.
pub(crate) fn tags(now: jiff::Timestamp) -> Value {
    let models: Vec<Value> = MODELS
        .iter()
        .map(|name| {
            json!({"name": name, "model": name, "modified_at": now.to_string(), "size": 2_000_000_000u64,
                "digest": digest(), "details": details(), "capabilities": capabilities(name)})
        })
        .collect();
    json!({"models": models})
}

/// Returns the response to `GET /api/ps`, which lists both models as loaded entirely on the GPU.
pub(crate) fn ps(now: jiff::Timestamp) -> Value {
    let models: Vec<Value> = MODELS
        .iter()
        .map(|name| {
            json!({"name": name, "model": name, "size": 2_000_000_000u64, "size_vram": 2_000_000_000u64,
                "digest": digest(), "details": details(), "expires_at": now.to_string(),
                "context_length": CONTEXT_LENGTH})
        })
        .collect();
    json!({"models": models})
}

/// Returns the response to `POST /api/show`.
pub(crate) fn show(body: &Value, now: jiff::Timestamp) -> Result<Value, ApiError> {
    let model = model_of(body)?;
    Ok(json!({
        "modelfile": "",
        "parameters": format!("num_ctx {CONTEXT_LENGTH}"),
        "template": "{{ .Prompt }}",
        "details": details(),
        "model_info": {"general.architecture": "mock", "mock.context_length": CONTEXT_LENGTH},
        "capabilities": capabilities(&model),
        "modified_at": now.to_string(),
    }))
}
