//! Decodes a stream from the Responses API.
//!
//! Text and reasoning are shown as they arrive. Only the complete items of `response.output_item.done` are kept.

use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{
    FailureKind, FinishReason, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_driver::port::ModelEvent;

use super::ITEMS;
use crate::api::{FrameError, ReplyDecoder, push_reasoning, push_text};
use crate::json::{LaxCount, LaxText};
use crate::openai::decode::parse_stream_error;
use crate::openai::is_overflow;
use crate::tool_arguments;
use crate::transport::error_text;

/// Maximum items per reply; further ones are dropped.
const ITEMS_MAX: usize = 256;

#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: LaxText<'a>,
    #[serde(borrow, default)]
    delta: Option<LaxText<'a>>,
    item: Option<Value>,
    response: Option<ResponseObject>,
}

#[derive(Deserialize)]
struct ResponseObject {
    output: Option<Vec<Value>>,
    usage: Option<ResponseUsage>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponseUsage {
    #[serde(default)]
    input_tokens: LaxCount,
    #[serde(default)]
    output_tokens: LaxCount,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: LaxCount,
}

pub(crate) struct ResponsesDecoder {
    model: ModelRef,
    text: String,
    /// True if the text of the current message item arrived in pieces and was already shown.
    streamed: bool,
    reasoning: String,
    items: Vec<Value>,
    usage: Usage,
    refused: bool,
    finish: Option<FinishReason>,
}

impl ResponsesDecoder {
    pub(crate) fn new(model: ModelRef) -> Self {
        Self {
            model,
            text: String::new(),
            streamed: false,
            reasoning: String::new(),
            items: Vec::new(),
            usage: Usage::default(),
            refused: false,
            finish: None,
        }
    }

    fn push_text(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        self.streamed = true;
        push_text(out, text);
        self.text.push_str(text);
    }

    fn push_reasoning(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        push_reasoning(out, text);
        self.reasoning.push_str(text);
    }

    /// Takes a complete item. Its text is shown only if it did not arrive in pieces before.
    fn take_item(&mut self, item: Value, out: &mut Vec<ModelEvent>) {
        if item["type"] == "message" {
            for part in item["content"].as_array().into_iter().flatten() {
                self.refused |= part["type"] == "refusal";
                let words = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                if !self.streamed {
                    push_text(out, words);
                    self.text.push_str(words);
                }
            }
            self.streamed = false;
        }
        if self.items.len() < ITEMS_MAX {
            self.items.push(item);
        }
    }

    fn end(&mut self, response: Option<ResponseObject>, complete: bool, out: &mut Vec<ModelEvent>) {
        let reason = response.as_ref().and_then(|response| response.incomplete_details.as_ref());
        let filtered = reason.is_some_and(|details| details.reason.as_deref() == Some("content_filter"));
        self.finish = Some(match complete {
            true if self.refused => FinishReason::Refused,
            true => FinishReason::Stop,
            false if filtered => FinishReason::Refused,
            false => FinishReason::Length,
        });
        let Some(response) = response else { return };
        if let Some(usage) = response.usage {
            self.usage = Usage {
                input_tokens: usage.input_tokens.number(),
                output_tokens: usage.output_tokens.number(),
                cached_tokens: usage.input_tokens_details.map_or(0, |details| details.cached_tokens.number()),
            };
        }
        if self.items.is_empty() {
            // A server that does not stream items.
            response.output.into_iter().flatten().for_each(|item| self.take_item(item, out));
            if complete && self.refused {
                self.finish = Some(FinishReason::Refused);
            }
        }
    }

    /// Returns the items to send back with later requests. Leaves out reasoning at the end, because the server refuses
    /// reasoning that is not followed by the item it led to. Returns `None` for a reply that was cut off, whose calls
    /// the server would refuse.
    fn raw(&mut self, finish: FinishReason) -> Option<RawReply> {
        while self.items.last().is_some_and(|item| item["type"] == "reasoning") {
            self.items.pop();
        }
        if finish != FinishReason::Stop || self.items.is_empty() {
            return None;
        }
        let items = std::mem::take(&mut self.items);
        Some(RawReply { model: self.model.clone(), value: json!({ ITEMS: items }) })
    }
}

impl ReplyDecoder for ResponsesDecoder {
    fn protocol(&self) -> ToolProtocol {
        ToolProtocol::Native
    }

    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        if data.trim().is_empty() || data.starts_with("[DONE]") {
            return Ok(false);
        }
        let frame: StreamEvent<'_> =
            serde_json::from_str(data).map_err(|_| FrameError::Malformed(data.to_owned()))?;
        let kind = if frame.kind.0.is_empty() { event } else { &*frame.kind.0 };
        let delta = frame.delta.unwrap_or_default().0;
        match kind {
            "response.output_text.delta" => self.push_text(&delta, out),
            "response.refusal.delta" => {
                self.refused = true;
                self.push_text(&delta, out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.push_reasoning(&delta, out);
            }
            "response.reasoning_summary_part.added" if !self.reasoning.is_empty() => {
                self.push_reasoning("\n\n", out);
            }
            "response.output_item.done" => {
                if let Some(item) = frame.item {
                    self.take_item(item, out);
                }
            }
            "response.completed" | "response.done" => {
                self.end(frame.response, true, out);
                return Ok(true);
            }
            "response.incomplete" => {
                self.end(frame.response, false, out);
                return Ok(true);
            }
            "response.failed" | "error" => return Err(failure(data)),
            _ => {}
        }
        Ok(false)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, FrameError> {
        let Some(mut finish) = self.finish else {
            return Err(FrameError::InStream {
                message: "the reply was truncated".to_owned(),
                retry: true,
                kind: FailureKind::Unreachable,
            });
        };
        let is_call = |item: &&Value| item["type"] == "function_call";
        let arguments = |item: &Value| item["arguments"].as_str().unwrap_or_default().to_owned();
        let mut calls: Vec<&Value> = self.items.iter().filter(is_call).collect();
        if finish != FinishReason::Stop {
            calls.retain(|item| tool_arguments::is_complete_object(&arguments(item)));
        }
        let calls: Vec<ToolCall> = calls
            .into_iter()
            .map(|item| ToolCall {
                id: CallId::new(item["call_id"].as_str().unwrap_or_default()),
                wire_id: None,
                name: item["name"].as_str().unwrap_or_default().to_owned(),
                arguments: tool_arguments::parse_arguments(&arguments(item)),
            })
            .collect();
        if self.refused && finish == FinishReason::Stop {
            finish = FinishReason::Refused;
        }
        let raw = self.raw(finish);
        Ok(Reply {
            context_window: None,
            vision: None,
            calls,
            text: self.text,
            reasoning: self.reasoning,
            protocol: ToolProtocol::Native,
            finish,
            usage: self.usage,
            raw,
        })
    }
}

/// Parses a `response.failed` or `error` event. The error is in `response.error`, in `error`, or is the event itself.
fn failure(data: &str) -> FrameError {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let inner = [value.pointer("/response/error"), value.get("error"), Some(&value)];
    let error = inner.into_iter().flatten().find(|error| error.is_object()).cloned().unwrap_or_default();
    let text = json!({ "error": error }).to_string();
    if is_overflow(&text.to_ascii_lowercase()) {
        let message = error_text(&text);
        return FrameError::InStream { message, retry: false, kind: FailureKind::ContextOverflow };
    }
    parse_stream_error(&text)
}
