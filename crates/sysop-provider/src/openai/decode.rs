//! Decodes a reply from the Chat Completions API, streamed or whole. Accepts the deviations of real servers.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sysop_core::id::CallId;
use sysop_core::message::{
    FailureKind, FinishReason, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_core::model_progress::ModelProgress;
use sysop_driver::port::ModelEvent;

use crate::api::{FrameError, ReplyDecoder, push_reasoning, push_text};
use crate::json::{LaxCount, LaxText};
use crate::think_tags::ThinkTagParser;
use crate::tool_arguments;
use crate::transport::error_text;

/// Maximum tool calls per reply; further ones are dropped.
const CALLS_MAX: usize = 128;

/// Fields that hardly any chunk has are boxed, because a chunk is moved several times while it is decoded.
#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<ChunkChoice<'a>>>,
    usage: Option<Box<ChunkUsage>>,
    /// Progress of prompt processing, from llama.cpp.
    #[serde(default)]
    prompt_progress: Option<PromptProgress>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    #[serde(borrow, default)]
    delta: Option<ChunkDelta<'a>>,
    /// The whole message, sent instead of `delta` by a server that does not stream.
    #[serde(borrow, default)]
    message: Option<Box<ChunkDelta<'a>>>,
    #[serde(borrow, default)]
    finish_reason: Option<LaxText<'a>>,
}

#[derive(Deserialize)]
struct ChunkDelta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking_blocks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolCallDelta<'a>>>,
}

#[derive(Deserialize)]
struct ToolCallDelta<'a> {
    index: Option<f64>,
    #[serde(borrow, default)]
    id: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PromptProgress {
    #[serde(default)]
    total: LaxCount,
    /// Tokens that were read or found in the cache.
    #[serde(default)]
    processed: LaxCount,
}

#[derive(Deserialize)]
struct ChunkUsage {
    #[serde(default)]
    prompt_tokens: LaxCount,
    #[serde(default)]
    completion_tokens: LaxCount,
    prompt_tokens_details: Option<TokenDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: LaxCount,
}

#[derive(Deserialize)]
struct TokenDetails {
    #[serde(default)]
    cached_tokens: LaxCount,
}

#[derive(Default)]
struct PartialToolCall {
    /// Used only to tell calls apart, because servers send arbitrary numbers.
    index: Option<f64>,
    id: String,
    name: String,
    arguments: String,
    extra: Value,
}

pub(super) struct OpenAiDecoder {
    model: ModelRef,
    protocol: ToolProtocol,
    text: String,
    reasoning: String,
    thinking: ThinkTagParser,
    /// Extra fields to send back with this message, by name.
    extras: serde_json::Map<String, Value>,
    reasoning_name: Option<&'static str>,
    partial_calls: Vec<PartialToolCall>,
    usage: Usage,
    finish: Option<String>,
    refused: bool,
    ended: bool,
}

impl OpenAiDecoder {
    pub(super) fn new(model: ModelRef, text_protocol: bool) -> Self {
        Self {
            model,
            protocol: if text_protocol { ToolProtocol::Text } else { ToolProtocol::Native },
            text: String::new(),
            reasoning: String::new(),
            thinking: ThinkTagParser::default(),
            extras: serde_json::Map::new(),
            reasoning_name: None,
            partial_calls: Vec::new(),
            usage: Usage::default(),
            finish: None,
            refused: false,
            ended: false,
        }
    }

    fn delta(&mut self, delta: ChunkDelta<'_>, out: &mut Vec<ModelEvent>) {
        let reasoning = match (&delta.reasoning_content, &delta.reasoning) {
            (Some(text), Some(other)) if text.0.is_empty() && !other.0.is_empty() => {
                Some(("reasoning", other))
            }
            (Some(text), _) => Some(("reasoning_content", text)),
            (None, Some(text)) => Some(("reasoning", text)),
            (None, None) => None,
        };
        if let Some((name, text)) = reasoning {
            self.reasoning_name.get_or_insert(name);
            push_reasoning(out, &text.0);
            self.reasoning.push_str(&text.0);
        }
        for (name, raw) in [
            ("reasoning_details", delta.reasoning_details),
            ("thinking_blocks", delta.thinking_blocks),
            ("extra_content", delta.extra_content),
        ] {
            if let Some(value) = raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) {
                self.extra(name, value);
            }
        }
        if let Some(content) = delta.content {
            self.content(content.get(), out);
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.0.is_empty()) {
            self.refused = true;
            push_text(out, &refusal.0);
            self.text.push_str(&refusal.0);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call);
        }
    }

    fn content(&mut self, content: &str, out: &mut Vec<ModelEvent>) {
        if content.starts_with('[') {
            self.parts(content, out);
            return;
        }
        if let Ok(LaxText(content)) = serde_json::from_str::<LaxText<'_>>(content) {
            self.thinking.push(&content).add_to(&mut self.text, &mut self.reasoning, out);
        }
    }

    /// Flushes the text that the tag parser held back.
    fn end_thinking(&mut self, out: &mut Vec<ModelEvent>) {
        self.thinking.finish().add_to(&mut self.text, &mut self.reasoning, out);
    }

    /// Decodes content sent as a list of parts, as Mistral does; the parts include thoughts.
    fn parts(&mut self, parts: &str, out: &mut Vec<ModelEvent>) {
        let Ok(parts) = serde_json::from_str::<Vec<Value>>(parts) else { return };
        for part in parts {
            for thought in part["thinking"].as_array().into_iter().flatten() {
                let thought = thought["text"].as_str().unwrap_or_default();
                push_reasoning(out, thought);
                self.reasoning.push_str(thought);
            }
            let text = part["text"].as_str().unwrap_or_default();
            push_text(out, text);
            self.text.push_str(text);
        }
    }

    fn extra(&mut self, name: &str, value: Value) {
        match (self.extras.get_mut(name), value) {
            (Some(Value::Array(before)), Value::Array(more)) => {
                for item in more {
                    join(before, item);
                }
            }
            (_, value) if value.is_null() => {}
            (_, value) => {
                self.extras.insert(name.to_owned(), value);
            }
        }
    }

    fn call(&mut self, delta: ToolCallDelta<'_>) {
        let id = delta.id.unwrap_or_default().0;
        let (name, arguments) = match delta.function {
            Some(function) => (function.name.unwrap_or_default().0, argument_text(function.arguments)),
            None => Default::default(),
        };
        let Some(partial_call) = self.partial_call(delta.index, &id, &name, &arguments) else { return };
        if partial_call.id.is_empty() {
            partial_call.id.push_str(&id);
        }
        if partial_call.name.is_empty() {
            partial_call.name.push_str(&name);
        }
        partial_call.arguments.push_str(&arguments);
        if let Some(extra) = delta.extra_content
            && let Ok(extra) = serde_json::from_str(extra.get())
        {
            partial_call.extra = extra;
        }
    }

    /// Returns the call that a delta belongs to, adding a call if needed; `None` if that is one too many.
    fn partial_call(
        &mut self,
        index: Option<f64>,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> Option<&mut PartialToolCall> {
        let found = match index {
            Some(_) => self.partial_calls.iter().rposition(|partial_call| partial_call.index == index),
            None if id.is_empty() => self.partial_calls.len().checked_sub(1),
            None => self.partial_calls.iter().rposition(|partial_call| partial_call.id == id).or_else(|| {
                self.partial_calls.len().checked_sub(1).filter(|last| self.partial_calls[*last].id.is_empty())
            }),
        };
        let found = found.filter(|found| {
            let partial_call = &self.partial_calls[*found];
            !(is_other_call(partial_call, id) || starts_new_call(partial_call, id, name, arguments))
        });
        match found {
            Some(found) => self.partial_calls.get_mut(found),
            None if self.partial_calls.len() < CALLS_MAX => {
                self.partial_calls.push(PartialToolCall { index, ..PartialToolCall::default() });
                self.partial_calls.last_mut()
            }
            None => None,
        }
    }

    fn raw(&mut self) -> Option<RawReply> {
        if let Some(name) = self.reasoning_name {
            self.extras.insert(name.to_owned(), Value::from(self.reasoning.clone()));
        }
        let extras: Vec<Value> =
            self.partial_calls.iter_mut().map(|partial_call| partial_call.extra.take()).collect();
        let mut value = serde_json::Map::new();
        if !self.extras.is_empty() {
            value.insert("message".to_owned(), Value::Object(std::mem::take(&mut self.extras)));
        }
        if extras.iter().any(|extra| !extra.is_null()) {
            value.insert("calls".to_owned(), Value::Array(extras));
        }
        (!value.is_empty()).then(|| RawReply { model: self.model.clone(), value: Value::Object(value) })
    }

    /// Returns the finish reason; fails if the reply ended in a failure.
    fn finish_reason(&self) -> Result<FinishReason, FrameError> {
        let stream_error = |message: &str, retry: bool| FrameError::InStream {
            message: message.to_owned(),
            retry,
            kind: FailureKind::Unreachable,
        };
        match self.finish.as_deref() {
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => {
                Ok(FinishReason::Length)
            }
            Some("content_filter" | "sensitive" | "refusal") => Ok(FinishReason::Refused),
            Some(reason @ ("error" | "network_error" | "insufficient_system_resource")) => {
                Err(stream_error(&format!("the stream ended with `{reason}`"), true))
            }
            Some(_) if self.refused => Ok(FinishReason::Refused),
            Some(_) => Ok(FinishReason::Stop),
            None if self.ended => Ok(if self.refused { FinishReason::Refused } else { FinishReason::Stop }),
            None => Err(stream_error("the reply was truncated", true)),
        }
    }
}

impl ReplyDecoder for OpenAiDecoder {
    fn protocol(&self) -> ToolProtocol {
        self.protocol
    }

    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        if data.starts_with("[DONE]") {
            self.ended = true;
            self.end_thinking(out);
            return Ok(true);
        }
        if event == "error" {
            return Err(parse_stream_error(data));
        }
        if data.trim().is_empty() {
            return Ok(false);
        }
        let chunk: ChatChunk<'_> =
            serde_json::from_str(data).map_err(|_| FrameError::Malformed(data.to_owned()))?;
        if chunk.error.is_some() {
            return Err(parse_stream_error(data));
        }
        if let Some(usage) = chunk.usage {
            let details = usage.prompt_tokens_details.map_or(0, |details| details.cached_tokens.number());
            self.usage = Usage {
                input_tokens: usage.prompt_tokens.number(),
                output_tokens: usage.completion_tokens.number(),
                cached_tokens: details.max(usage.prompt_cache_hit_tokens.number()),
            };
        }
        if let Some(prompt) = chunk.prompt_progress {
            let prompt = Some((prompt.processed.number(), prompt.total.number()));
            out.push(ModelEvent::Progress(ModelProgress { prompt, ..ModelProgress::default() }));
        }
        if let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() {
            if let Some(delta) = choice.delta.or(choice.message.map(|whole| *whole)) {
                self.delta(delta, out);
            }
            if let Some(LaxText(reason)) = choice.finish_reason.filter(|reason| !reason.0.is_empty()) {
                self.finish = Some(reason.into_owned());
                self.end_thinking(out);
            }
        }
        Ok(false)
    }

    fn call_bytes(&self) -> usize {
        self.partial_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum()
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, FrameError> {
        let finish = self.finish_reason()?;
        self.end_thinking(&mut Vec::new());
        self.partial_calls
            .retain(|partial_call| !(partial_call.name.is_empty() && partial_call.arguments.is_empty()));
        if finish != FinishReason::Stop
            && self
                .partial_calls
                .last()
                .is_some_and(|partial_call| !tool_arguments::is_complete_object(&partial_call.arguments))
        {
            self.partial_calls.pop();
        }
        let raw = self.raw();
        let calls = self.partial_calls.iter().map(|partial_call| ToolCall {
            id: CallId::new(partial_call.id.clone()),
            wire_id: None,
            name: partial_call.name.clone(),
            arguments: tool_arguments::parse_arguments(&partial_call.arguments),
        });
        Ok(Reply {
            context_window: None,
            vision: None,
            calls: calls.collect(),
            text: self.text,
            reasoning: self.reasoning,
            protocol: self.protocol,
            finish,
            usage: self.usage,
            raw,
        })
    }
}

/// Returns true if `id` is the id of another call. Some servers give every call the index 0.
fn is_other_call(partial_call: &PartialToolCall, id: &str) -> bool {
    !id.is_empty() && !partial_call.id.is_empty() && partial_call.id != id
}

/// Returns true if a delta without an id starts a new call. A name that follows arguments does so, except in the stream
/// of a server that repeats the same name in every delta.
fn starts_new_call(partial_call: &PartialToolCall, id: &str, name: &str, arguments: &str) -> bool {
    if !id.is_empty() || name.is_empty() || partial_call.arguments.is_empty() {
        return false;
    }
    partial_call.name != name
        || (!arguments.is_empty()
            && partial_call.arguments.ends_with('}')
            && tool_arguments::is_complete_object(&partial_call.arguments))
}

/// Returns the JSON text of arguments that a server sent as a string or as an object.
fn argument_text(raw: Option<&RawValue>) -> std::borrow::Cow<'_, str> {
    let Some(raw) = raw.map(RawValue::get) else { return "".into() };
    if raw.starts_with('"') {
        return serde_json::from_str::<LaxText<'_>>(raw).unwrap_or_default().0;
    }
    raw.into()
}

/// Joins a piece of a typed list (`reasoning_details`, `thinking_blocks`) to the entry that it continues, or appends it
/// as a new entry.
fn join(list: &mut Vec<Value>, piece: Value) {
    const TEXTS: [&str; 3] = ["text", "summary", "thinking"];
    let continues = list.last().is_some_and(|last| {
        let has_text = |value: &Value| TEXTS.iter().any(|name| value[name].is_string());
        let signed = last["signature"].as_str().is_some_and(|signature| !signature.is_empty());
        let more_text = TEXTS.iter().any(|name| piece[name].as_str().is_some_and(|text| !text.is_empty()));
        last["type"] == piece["type"]
            && last["index"] == piece["index"]
            && has_text(last)
            && !(signed && more_text)
            && piece["data"].is_null()
    });
    match (list.last_mut().filter(|_| continues), piece) {
        (Some(Value::Object(last)), Value::Object(piece)) => {
            for (name, value) in piece {
                match (last.get_mut(&name), value) {
                    (Some(Value::String(before)), Value::String(more)) if TEXTS.contains(&name.as_str()) => {
                        before.push_str(&more);
                    }
                    (_, value) if value.is_null() || value == "" => {}
                    (_, value) => {
                        last.insert(name, value);
                    }
                }
            }
        }
        (_, piece) => list.push(piece),
    }
}

/// Parses an error that the stream holds in place of a reply chunk.
pub(super) fn parse_stream_error(data: &str) -> FrameError {
    let lower = data.to_ascii_lowercase();
    let code = serde_json::from_str::<Value>(data).ok().and_then(|value| {
        let code = value.pointer("/error/code").or_else(|| value.pointer("/error/status"))?;
        code.as_u64().or_else(|| code.as_str()?.parse().ok())
    });
    let limited = code == Some(429) || lower.contains("rate_limit") || lower.contains("rate limit");
    let quota = lower.contains("insufficient_quota");
    let transient =
        ["overloaded", "server_error", "timeout", "timed out", "temporarily", "service unavailable"]
            .iter()
            .any(|word| lower.contains(word));
    let (kind, retry) = match code {
        _ if quota => (FailureKind::RateLimited, false),
        _ if limited => (FailureKind::RateLimited, true),
        Some(408 | 500..=599) => (FailureKind::Unreachable, true),
        Some(401 | 403) => (FailureKind::Auth, false),
        Some(402) => (FailureKind::RateLimited, false),
        Some(_) => (FailureKind::BadRequest, false),
        None if transient => (FailureKind::Unreachable, true),
        None => (FailureKind::BadRequest, false),
    };
    FrameError::InStream { message: error_text(data), retry, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_decoded_independently() {
        let mut decoder = Box::new(OpenAiDecoder::new(ModelRef::new("openai", "m"), false));
        let mut decode = |content: &str| {
            let mut out = Vec::new();
            let chunk = format!(r#"{{"choices":[{{"delta":{{"content":{content}}}}}]}}"#);
            decoder.decode_frame("message", &chunk, &mut out).map(|_| out)
        };
        let text = |text: &str| Ok(vec![ModelEvent::Text(text.to_owned())]);
        for (content, events) in [
            (r#""a""#, text("a")),
            (r#""b""#, text("b")),
            (r#""\"\u00e9\n""#, text("\"é\n")),
            (r#""""#, Ok(vec![])),
            ("null", Ok(vec![])),
            ("7", text("7")),
            (r#"[{"type":"text","text":"t"}]"#, text("t")),
            (r#""a","refusal":"x""#, text("ax")),
            (
                r#""a","reasoning":"h""#,
                Ok(vec![ModelEvent::Reasoning("h".to_owned()), ModelEvent::Text("a".to_owned())]),
            ),
            (r#""c""#, text("c")),
        ] {
            assert_eq!(decode(content), events, "{content}");
        }
        for malformed in ["", r#"""#, "\"a\nb\"", r#""a","content":"b""#] {
            assert!(matches!(decode(malformed), Err(FrameError::Malformed(_))), "{malformed}");
        }
        assert_eq!(decoder.text, "ab\"é\n7taxac");
    }
}
