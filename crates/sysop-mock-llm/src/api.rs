//! Parts that the five APIs share: reading a request, validating it, and rendering the scripted response.
//!
//! Each API is one module. Of an HTTP request, a module sees only the path, the headers and the JSON body.

pub(crate) mod anthropic;
pub(crate) mod gemini;
mod gemini_validation;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod responses;

use axum::http::HeaderMap;
use serde_json::Value;

use crate::engine::Turn;
use crate::event_stream::{EventStream, split};
use crate::ids::IdGenerator;
use crate::scenario::{Response, TokenUsage};

/// Estimated bytes of JSON or text per token.
const BYTES_A_TOKEN: usize = 4;

/// Prefix of model names for which every API answers 404, as for a model that does not exist.
pub const MISSING_MODEL_PREFIX: &str = "missing";
/// Lowercase prefix of model names that the mock Ollama reports as not supporting tools.
pub const TEXT_ONLY_MODEL_PREFIX: &str = "phi3";

pub(crate) trait ApiRequest: Sized + Send {
    /// Start of the API's error message for a body that is not JSON.
    const NOT_JSON: &'static str;
    /// Name of the header that holds the request id, and the prefix of that id.
    const REQUEST_ID: Option<(&'static str, &'static str)> = None;

    /// Parses a request and validates it like the real server.
    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError>;
    fn turn(&self) -> &Turn;
    /// Returns true if the client wants a streamed response.
    fn streams(&self) -> bool;
    /// Renders the response as one body.
    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value;
    /// Renders the response as events.
    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream;
    /// Renders an error in the API's own shape.
    fn error_body(refusal: &ApiError, request_id: &str) -> Value;
}

pub(crate) struct IncomingRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// Parameter that caused the error. OpenAI reports it separately from the message.
    pub(crate) param: Option<String>,
    pub(crate) retry_after_s: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, retry_after_s: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(crate) fn with_param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }
}

/// A response to be rendered for one request.
pub(crate) struct ScriptedReply<'a> {
    pub(crate) response: &'a Response,
    pub(crate) ids: &'a IdGenerator,
    pub(crate) at: jiff::Timestamp,
    pub(crate) request_bytes: usize,
}

impl ScriptedReply<'_> {
    /// Returns the pieces of the text in order, each with its number of repetitions.
    pub(crate) fn pieces(&self) -> Vec<(&str, usize)> {
        let content = self.response.content.as_deref().unwrap_or_default();
        match self.response.repeats {
            1 => self.split(content).map(|piece| (piece, 1)).collect(),
            _ if content.is_empty() => Vec::new(),
            times => vec![(content, times)],
        }
    }

    /// Splits the text into the pieces that the events of a stream carry.
    pub(crate) fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        split(text, self.response.delivery.chunk_bytes)
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        let response = self.response;
        response.usage.unwrap_or_else(|| {
            let text = response.content.as_ref().map_or(0, String::len).div_ceil(BYTES_A_TOKEN);
            let calls: usize = response.tool_calls.iter().map(|call| call.arguments_text.len()).sum();
            let output = text * response.repeats + calls.div_ceil(BYTES_A_TOKEN);
            TokenUsage {
                input_tokens: self.request_bytes.div_ceil(BYTES_A_TOKEN) as u64,
                output_tokens: output.max(1) as u64,
            }
        })
    }
}

/// Refuses a model whose name begins with [`MISSING_MODEL_PREFIX`].
fn reject_missing_model(model: &str, message: impl FnOnce() -> String) -> Result<(), ApiError> {
    if model.starts_with(MISSING_MODEL_PREFIX) { Err(ApiError::new(404, message())) } else { Ok(()) }
}

/// Returns the text of a `content` that is a string or a list of parts with `text`.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}
