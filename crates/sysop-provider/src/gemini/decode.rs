//! Decodes the stream. The API has no end marker: the body just ends, and only a `finishReason` distinguishes a whole
//! reply from a truncated one.

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, FailureKind, FinishReason, ModelRef, ModelRequest, RawReply, Reply, ToolCall, ToolProtocol,
    Usage,
};
use sysop_driver::port::ModelEvent;

use super::errors::GeminiError;
use crate::api::{FrameError, ModelQuirks, ReplyDecoder};
use crate::server_text::quote_server_text;

const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of parts of a reply, counted after neighboring plain text parts are joined.
const PARTS_MAX: usize = 4_096;

/// Token counts reported by the server; each report replaces the previous one.
#[derive(Default)]
struct TokenCounts {
    prompt: u64,
    tool_prompt: u64,
    said: u64,
    thought: u64,
    cached: u64,
}

pub(crate) struct GeminiDecoder {
    model: ModelRef,
    key: Option<SecretString>,
    protocol: ToolProtocol,
    parts: Vec<Value>,
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    counts: TokenCounts,
    finish: Option<String>,
    finish_message: String,
    block: Option<String>,
    bytes: usize,
}

impl GeminiDecoder {
    /// Starts to decode the response to `request`. `key` is masked wherever server text is quoted.
    pub(crate) fn new(request: &ModelRequest, quirks: &ModelQuirks, key: Option<SecretString>) -> Self {
        Self {
            model: request.model.clone(),
            key,
            protocol: if quirks.for_request(request).text_protocol {
                ToolProtocol::Text
            } else {
                ToolProtocol::Native
            },
            parts: Vec::new(),
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            counts: TokenCounts::default(),
            finish: None,
            finish_message: String::new(),
            block: None,
            bytes: 0,
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut Vec<ModelEvent>) -> Result<(), FrameError> {
        if let Some(error) = GeminiError::of(&chunk["error"]) {
            return Err(self.error(&error));
        }
        self.count(&chunk["usageMetadata"]);
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            self.block = Some(reason.to_owned());
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            if let Some(part) = part.as_object() {
                self.part(part, out)?;
            }
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.finish = Some(reason.to_owned());
            self.finish_message = candidate["finishMessage"].as_str().unwrap_or_default().to_owned();
        }
        Ok(())
    }

    fn part(&mut self, part: &Map<String, Value>, out: &mut Vec<ModelEvent>) -> Result<(), FrameError> {
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        let signed = part.contains_key("thoughtSignature");
        if part.get("thought") == Some(&Value::Bool(true)) {
            if !text.is_empty() {
                out.push(ModelEvent::Reasoning(text.to_owned()));
                self.reasoning.push_str(text);
            }
            // Thoughts are not sent back, except parts that carry a signature.
            return if signed { self.keep(part) } else { Ok(()) };
        }
        if let Some(call) = part.get("functionCall") {
            self.calls.push(call_of(call));
            return self.keep(part);
        }
        if !text.is_empty() {
            out.push(ModelEvent::Text(text.to_owned()));
            self.text.push_str(text);
        }
        let plain = part.len() == 1 && part.contains_key("text");
        match self.parts.last_mut() {
            _ if plain && text.is_empty() => Ok(()),
            // A signed part must stay unchanged; plain parts are mere stream chunks and are joined.
            Some(Value::Object(last)) if plain && last.len() == 1 && last.contains_key("text") => {
                if let Some(Value::String(joined)) = last.get_mut("text") {
                    joined.push_str(text);
                }
                Ok(())
            }
            Some(_) | None => self.keep(part),
        }
    }

    fn keep(&mut self, part: &Map<String, Value>) -> Result<(), FrameError> {
        if self.parts.len() >= PARTS_MAX {
            return Err(FrameError::Malformed(format!("more than {PARTS_MAX} parts in one reply")));
        }
        let mut part = part.clone();
        if part.keys().all(|name| matches!(name.as_str(), "thought" | "thoughtSignature")) {
            part.insert("text".to_owned(), json!("")); // the API rejects a part without data
        }
        self.parts.push(Value::Object(part));
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let read = |name: &str, into: &mut u64| {
            if let Some(tokens) = usage[name].as_u64() {
                *into = tokens;
            }
        };
        read("promptTokenCount", &mut self.counts.prompt);
        read("toolUsePromptTokenCount", &mut self.counts.tool_prompt);
        read("candidatesTokenCount", &mut self.counts.said);
        read("thoughtsTokenCount", &mut self.counts.thought);
        read("cachedContentTokenCount", &mut self.counts.cached);
    }

    fn usage(&self) -> Usage {
        let counts = &self.counts;
        Usage {
            input_tokens: counts.prompt.saturating_add(counts.tool_prompt),
            output_tokens: counts.said.saturating_add(counts.thought),
            cached_tokens: counts.cached,
        }
    }

    fn error(&self, error: &GeminiError) -> FrameError {
        let kind = match (error.status.as_str(), error.code) {
            _ if error.is_overflow() => FailureKind::ContextOverflow,
            ("RESOURCE_EXHAUSTED", _) | (_, 429) => FailureKind::RateLimited,
            ("UNAUTHENTICATED" | "PERMISSION_DENIED", _) | (_, 401 | 403) => FailureKind::Auth,
            ("NOT_FOUND", _) | (_, 404) => FailureKind::UnknownModel,
            ("INVALID_ARGUMENT" | "FAILED_PRECONDITION", _) | (_, 400) => FailureKind::BadRequest,
            _ => FailureKind::Unreachable,
        };
        let retry = matches!(kind, FailureKind::RateLimited | FailureKind::Unreachable) && !error.is_spent();
        let said = quote_server_text(&error.message, self.key.as_ref());
        let status = quote_server_text(&error.status, None);
        FrameError::InStream {
            message: format!("Google interrupted its reply: {said} ({status})"),
            retry,
            kind,
        }
    }

    fn refused_reply(&self, sentence: String) -> Reply {
        Reply {
            text: sentence,
            finish: FinishReason::Refused,
            protocol: self.protocol,
            usage: self.usage(),
            ..Reply::default()
        }
    }

    fn reply(self, finish: FinishReason) -> Reply {
        let usage = self.usage();
        let whole = |call: &ToolCall| !call.name.is_empty() && matches!(call.arguments, Arguments::Object(_));
        // A call that the API would reject in the history is rebuilt instead of echoed.
        let echo = !self.parts.is_empty() && self.calls.iter().all(whole);
        Reply {
            text: self.text,
            reasoning: self.reasoning,
            calls: self.calls,
            protocol: self.protocol,
            finish,
            usage,
            context_window: None,
            vision: None,
            raw: echo.then(|| RawReply { model: self.model, value: Value::Array(self.parts) }),
        }
    }

    fn retryable_error(&self, what: &str) -> FrameError {
        FrameError::InStream { message: self.with_reason(what), retry: true, kind: FailureKind::Protocol }
    }

    fn final_error(&self, what: &str) -> FrameError {
        FrameError::InStream { message: self.with_reason(what), retry: false, kind: FailureKind::Protocol }
    }

    fn with_reason(&self, what: &str) -> String {
        let said = quote_server_text(&self.finish_message, self.key.as_ref());
        if said.is_empty() { what.to_owned() } else { format!("{what}: {said}") }
    }
}

impl ReplyDecoder for GeminiDecoder {
    fn protocol(&self) -> ToolProtocol {
        self.protocol
    }

    fn decode_frame(
        &mut self,
        _event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        self.bytes += data.len();
        if self.bytes > RESPONSE_BYTES_MAX {
            return Err(FrameError::Malformed(format!("a reply longer than {RESPONSE_BYTES_MAX} bytes")));
        }
        match serde_json::from_str::<Value>(data) {
            Ok(Value::Array(chunks)) => chunks.iter().try_for_each(|chunk| self.chunk(chunk, out))?,
            Ok(chunk @ Value::Object(_)) => self.chunk(&chunk, out)?,
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                return Err(FrameError::Malformed("an event that is not a JSON object".to_owned()));
            }
            Err(error) => {
                return Err(FrameError::Malformed(format!("invalid JSON in an event: {error}")));
            }
        }
        Ok(false)
    }

    fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
        if let Some(reason) = &self.block {
            let reason = quote_server_text(reason, None);
            return Ok(self.refused_reply(format!("Google blocked the prompt ({reason}); rephrase it")));
        }
        let Some(reason) = self.finish.clone() else {
            return Err(FrameError::InStream {
                message: "incomplete".to_owned(),
                retry: true,
                kind: FailureKind::Unreachable,
            });
        };
        let nothing = self.text.trim().is_empty() && self.calls.is_empty();
        match reason.as_str() {
            "STOP" | "FINISH_REASON_UNSPECIFIED" if nothing => {
                Err(self.retryable_error("the model returned an empty reply"))
            }
            "STOP" | "FINISH_REASON_UNSPECIFIED" => Ok(self.reply(FinishReason::Stop)),
            "MAX_TOKENS" | "CONTINUATION" => Ok(self.reply(FinishReason::Length)),
            "TOO_MANY_TOOL_CALLS" if !nothing => Ok(self.reply(FinishReason::Stop)),
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" => {
                Err(self.retryable_error("the model returned an invalid tool call"))
            }
            "MISSING_THOUGHT_SIGNATURE" => Err(self.final_error("a thought_signature is missing")),
            "TOO_MANY_TOOL_CALLS" => Err(self.final_error("the model called too many tools")),
            _ => {
                let reason = quote_server_text(&reason, None);
                Ok(self.refused_reply(format!("Google blocked the reply ({reason}); rephrase the task")))
            }
        }
    }
}

/// Parses a call. Its arguments arrive whole; they may be missing if there are none. Only newer model generations send
/// an id.
fn call_of(call: &Value) -> ToolCall {
    let arguments = match &call["args"] {
        Value::Object(map) => Arguments::Object(map.clone()),
        Value::Null => Arguments::Object(Map::new()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Arguments::Invalid(other.to_string())
        }
    };
    ToolCall {
        id: CallId::new(call["id"].as_str().unwrap_or_default()),
        wire_id: None,
        name: call["name"].as_str().unwrap_or_default().to_owned(),
        arguments,
    }
}
