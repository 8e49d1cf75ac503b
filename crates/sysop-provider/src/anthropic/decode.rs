//! Decodes the stream. Unknown events, blocks and deltas are ignored: the vendor announces that more will be added.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, FailureKind, FinishReason, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_driver::port::ModelEvent;

use super::encode::{input_of, is_thinking};
use super::errors::AnthropicError;
use crate::api::{FrameError, ReplyDecoder};
use crate::server_text::quote_server_text;

const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
const BLOCKS_MAX: usize = 4_096;

/// A content block as received so far.
enum ContentBlock {
    Text(String),
    /// A `thinking` block with its signature.
    Thinking(Map<String, Value>),
    /// A `redacted_thinking` block, which arrives whole in its start event.
    Redacted(Map<String, Value>),
    /// A `tool_use` block as received in its start event, and the JSON text of its input.
    Call(Map<String, Value>, String),
    Unknown,
}

/// Token counts reported by the server; each report replaces the previous one.
#[derive(Default)]
struct TokenCounts {
    input: u64,
    output: u64,
    cache_written: u64,
    cache_read: u64,
}

pub(super) struct AnthropicDecoder {
    model: ModelRef,
    key: Option<SecretString>,
    blocks: BTreeMap<u64, ContentBlock>,
    counts: TokenCounts,
    stop: Option<String>,
    details: Value,
    bytes: usize,
}

impl AnthropicDecoder {
    /// Starts to decode a response from `model`. `key` is masked wherever server text is quoted.
    pub(super) fn new(model: ModelRef, key: Option<SecretString>) -> Self {
        Self {
            model,
            key,
            blocks: BTreeMap::new(),
            counts: TokenCounts::default(),
            stop: None,
            details: Value::Null,
            bytes: 0,
        }
    }

    fn start(&mut self, frame: &Value, out: &mut Vec<ModelEvent>) -> Result<(), FrameError> {
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(FrameError::Malformed(format!("more than {BLOCKS_MAX} content blocks in one reply")));
        }
        let block = frame["content_block"].as_object().cloned().unwrap_or_default();
        let text_of = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let block = match text_of("type").as_str() {
            "text" => {
                let text = text_of("text");
                emit(out, ModelEvent::Text, &text);
                ContentBlock::Text(text)
            }
            "thinking" => {
                emit(out, ModelEvent::Reasoning, &text_of("thinking"));
                ContentBlock::Thinking(block)
            }
            "redacted_thinking" => ContentBlock::Redacted(block),
            "tool_use" => ContentBlock::Call(block, String::new()),
            _ => ContentBlock::Unknown,
        };
        self.blocks.insert(index_of(frame)?, block);
        Ok(())
    }

    fn delta(&mut self, frame: &Value, out: &mut Vec<ModelEvent>) -> Result<(), FrameError> {
        let Some(block) = self.blocks.get_mut(&index_of(frame)?) else {
            return Err(FrameError::Malformed("delta for an unknown content block".to_owned()));
        };
        let delta = &frame["delta"];
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        match (block, delta["type"].as_str().unwrap_or_default()) {
            (ContentBlock::Text(text), "text_delta") => {
                text.push_str(piece("text"));
                emit(out, ModelEvent::Text, piece("text"));
            }
            (ContentBlock::Thinking(block), "thinking_delta") => {
                match block.get_mut("thinking") {
                    Some(Value::String(text)) => text.push_str(piece("thinking")),
                    Some(_) | None => {
                        block.insert("thinking".to_owned(), json!(piece("thinking")));
                    }
                }
                emit(out, ModelEvent::Reasoning, piece("thinking"));
            }
            (ContentBlock::Thinking(block), "signature_delta") => {
                block.insert("signature".to_owned(), json!(piece("signature")));
            }
            (ContentBlock::Call(_, input), "input_json_delta") => input.push_str(piece("partial_json")),
            (
                ContentBlock::Text(_)
                | ContentBlock::Thinking(_)
                | ContentBlock::Redacted(_)
                | ContentBlock::Call(..)
                | ContentBlock::Unknown,
                _,
            ) => {}
        }
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let read = |name: &str, into: &mut u64| {
            if let Some(tokens) = usage[name].as_u64() {
                *into = tokens;
            }
        };
        read("input_tokens", &mut self.counts.input);
        read("output_tokens", &mut self.counts.output);
        read("cache_creation_input_tokens", &mut self.counts.cache_written);
        read("cache_read_input_tokens", &mut self.counts.cache_read);
    }

    fn error(&self, frame: &Value) -> FrameError {
        let error = AnthropicError::of(&frame["error"])
            .unwrap_or_else(|| AnthropicError { code: String::new(), message: frame.to_string() });
        let kind = if error.is_overflow() {
            FailureKind::ContextOverflow
        } else {
            match error.code.as_str() {
                "authentication_error" | "permission_error" => FailureKind::Auth,
                "not_found_error" => FailureKind::UnknownModel,
                "rate_limit_error" => FailureKind::RateLimited,
                "invalid_request_error" | "billing_error" => FailureKind::BadRequest,
                _ => FailureKind::Unreachable,
            }
        };
        let retry = matches!(kind, FailureKind::RateLimited | FailureKind::Unreachable) && !error.is_spent();
        let said = quote_server_text(&error.message, self.key.as_ref());
        FrameError::InStream {
            message: format!("{said} ({})", quote_server_text(&error.code, None)),
            retry,
            kind,
        }
    }

    fn usage(&self) -> Usage {
        let counts = &self.counts;
        Usage {
            input_tokens: counts.input.saturating_add(counts.cache_written).saturating_add(counts.cache_read),
            output_tokens: counts.output,
            cached_tokens: counts.cache_read,
        }
    }

    /// Returns the reply to show if the model refused. The reply replaces the streamed text, which must not be kept.
    fn refused_reply(&self) -> Reply {
        let category = quote_server_text(self.details["category"].as_str().unwrap_or_default(), None);
        let said = quote_server_text(self.details["explanation"].as_str().unwrap_or_default(), None);
        let mut text = match (said.is_empty(), category.is_empty()) {
            (false, _) => said,
            (true, false) => format!("Anthropic's safety filter ({category}) blocked the answer"),
            (true, true) => "Anthropic's safety filter blocked the answer".to_owned(),
        };
        if category == "cyber" {
            text.push_str(" (such filters can block harmless tasks; rephrase it)");
        }
        Reply { text, finish: FinishReason::Refused, usage: self.usage(), ..Reply::default() }
    }

    fn reply(&self, finish: FinishReason) -> Reply {
        let mut reply = Reply { finish, usage: self.usage(), ..Reply::default() };
        let mut raw = Vec::new();
        let last = self.blocks.keys().last();
        for (index, block) in &self.blocks {
            match block {
                ContentBlock::Text(text) => {
                    reply.text.push_str(text);
                    if !text.trim().is_empty() {
                        raw.push(json!({"type": "text", "text": text}));
                    }
                }
                ContentBlock::Thinking(block) => {
                    let text = block.get("thinking").and_then(Value::as_str);
                    reply.reasoning.push_str(text.unwrap_or_default());
                    raw.push(Value::Object(block.clone()));
                }
                ContentBlock::Redacted(block) => raw.push(Value::Object(block.clone())),
                ContentBlock::Call(..) if finish == FinishReason::Length && Some(index) == last => {}
                ContentBlock::Call(block, input) => {
                    let call = call_of(block, input);
                    let mut block = block.clone();
                    block.insert("input".to_owned(), input_of(&call.arguments));
                    raw.push(Value::Object(block));
                    reply.calls.push(call);
                }
                ContentBlock::Unknown => {}
            }
        }
        // The API rejects a message that ends in thinking.
        while raw.last().is_some_and(is_thinking) {
            raw.pop();
        }
        if !raw.is_empty() {
            reply.raw = Some(RawReply { model: self.model.clone(), value: Value::Array(raw) });
        }
        reply
    }
}

impl ReplyDecoder for AnthropicDecoder {
    fn protocol(&self) -> ToolProtocol {
        ToolProtocol::Native
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
        let frame: Value = serde_json::from_str(data)
            .map_err(|error| FrameError::Malformed(format!("invalid JSON in an event: {error}")))?;
        match frame["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&frame["message"]["usage"]),
            "content_block_start" => self.start(&frame, out)?,
            "content_block_delta" => self.delta(&frame, out)?,
            "message_delta" => {
                self.count(&frame["usage"]);
                if let Some(stop) = frame["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                    self.details = frame["delta"]["stop_details"].clone();
                }
            }
            "message_stop" => return Ok(true),
            "error" => return Err(self.error(&frame)),
            _ => {}
        }
        Ok(false)
    }

    fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
        let Some(stop) = self.stop.as_deref() else {
            return Err(FrameError::InStream {
                message: "incomplete".to_owned(),
                retry: true,
                kind: FailureKind::Unreachable,
            });
        };
        match stop {
            "refusal" => Ok(self.refused_reply()),
            "max_tokens" => Ok(self.reply(FinishReason::Length)),
            "model_context_window_exceeded" => {
                let reply = self.reply(FinishReason::Length);
                if reply.text.trim().is_empty() && reply.calls.is_empty() {
                    return Err(FrameError::InStream {
                        message: "the prompt exceeds the model's context window".to_owned(),
                        retry: false,
                        kind: FailureKind::ContextOverflow,
                    });
                }
                Ok(reply)
            }
            // `pause_turn` belongs to server-side tools, which are never offered: the reply is complete.
            _ => Ok(self.reply(FinishReason::Stop)),
        }
    }
}

fn index_of(frame: &Value) -> Result<u64, FrameError> {
    frame["index"]
        .as_u64()
        .ok_or_else(|| FrameError::Malformed("a content block without an index".to_owned()))
}

fn emit(out: &mut Vec<ModelEvent>, event: fn(String) -> ModelEvent, piece: &str) {
    if !piece.is_empty() {
        out.push(event(piece.to_owned()));
    }
}

/// Builds a call from its block and `input`, the joined pieces of its arguments. If no pieces arrived, the arguments
/// are those in the start event (usually `{}`).
fn call_of(block: &Map<String, Value>, input: &str) -> ToolCall {
    let text_of = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let arguments = match block.get("input") {
        Some(Value::Object(map)) if input.trim().is_empty() => Arguments::Object(map.clone()),
        Some(_) | None => Arguments::parse(input),
    };
    ToolCall { id: CallId::new(text_of("id")), wire_id: None, name: text_of("name").to_owned(), arguments }
}
