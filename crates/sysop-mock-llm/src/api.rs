//! What the four APIs have in common here: read a request, judge it, say the scripted response.
//!
//! Each wire is one module and knows nothing of HTTP but headers and a JSON body.

pub(crate) mod anthropic;
pub(crate) mod gemini;
mod gemini_validation;
pub(crate) mod ollama;
pub(crate) mod openai;

use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::Turn;
use crate::event_stream::{EventStream, split};
use crate::ids::IdGenerator;
use crate::json::Json;
use crate::scenario::{Response, TokenUsage};

/// How many bytes of JSON or text count as one token where nothing else is said.
const BYTES_A_TOKEN: usize = 4;

/// A model whose name begins so does not exist: every API answers its 404.
pub const MISSING_MODEL_PREFIX: &str = "missing";
/// A model whose name begins so (in lower case) has no tools on Ollama.
pub const TEXT_ONLY_MODEL_PREFIX: &str = "phi3";

/// A chat request of one API, read and found right.
pub(crate) trait ApiRequest: Sized + Send {
    /// How the API begins its complaint about a body that is no JSON.
    const NOT_JSON: &'static str;
    /// The header that carries a request's id, and how such an id begins.
    const REQUEST_ID: Option<(&'static str, &'static str)> = None;

    /// What is looked at in a request's body.
    type RequestBody<'a>: Deserialize<'a>;

    /// Reads a request and judges it as the real server would.
    fn read(call: &IncomingRequest<'_, Self::RequestBody<'_>>) -> Result<Self, ApiError>;
    /// What the conversation has come to.
    fn turn(&self) -> &Turn;
    /// Whether the answer is streamed.
    fn streams(&self) -> bool;
    /// The answer as one body.
    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value;
    /// The answer as events.
    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream;
    /// An error in the API's own shape.
    fn error_body(refusal: &ApiError, request_id: &str) -> Value;
}

/// A request as it came.
pub(crate) struct IncomingRequest<'a, B> {
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a B,
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The parameter that is to blame; OpenAI tells it apart from the message.
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

/// A response that is to be said to one request.
pub(crate) struct ScriptedReply<'a> {
    pub(crate) response: &'a Response,
    pub(crate) ids: &'a IdGenerator,
    pub(crate) at: jiff::Timestamp,
    /// Of the request's body.
    pub(crate) request_bytes: usize,
}

impl ScriptedReply<'_> {
    /// The text and how often each piece of it is said, in order.
    pub(crate) fn pieces(&self) -> Vec<(&str, usize)> {
        let content = self.response.content.as_deref().unwrap_or_default();
        match self.response.repeats {
            1 => self.split(content).map(|piece| (piece, 1)).collect(),
            _ if content.is_empty() => Vec::new(),
            times => vec![(content, times)],
        }
    }

    /// A text in the pieces that events carry.
    pub(crate) fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        split(text, self.response.delivery.chunk_bytes)
    }

    /// The tokens to report.
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

/// Refuses the models that are said not to exist.
fn reject_missing_model(model: &str, message: impl FnOnce() -> String) -> Result<(), ApiError> {
    if model.starts_with(MISSING_MODEL_PREFIX) { Err(ApiError::new(404, message())) } else { Ok(()) }
}

/// The text of a `content` that is a string or a list of parts with `text`.
fn text_of(content: &Json<'_>) -> String {
    match content {
        Json::String(text) => text.clone().into_owned(),
        Json::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

/// The list under a key; empty where there is none.
fn list<'a, 't>(value: &'a Json<'t>, key: &str) -> &'a [Json<'t>] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}
