//! Decodes a streamed reply of Ollama's native API: one JSON object per line; the last object has `done` set.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use sysop_core::id::CallId;
use sysop_core::message::{
    FailureKind, FinishReason, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_driver::port::ModelEvent;

use crate::api::{FrameError, ReplyDecoder, push_reasoning};
use crate::json::{LaxCount, LaxText};
use crate::think_tags::ThinkTagParser;
use crate::tool_arguments;
use crate::transport::error_text;

use super::errors;

/// Maximum tool calls per reply; further ones are dropped.
const CALLS_MAX: usize = 128;
/// Upper bound on the bytes per token in any prompt. A prompt with more bytes than this per token cannot fit.
const BYTES_PER_TOKEN_MAX: u64 = 16;
/// Typical bytes per token of prose and code.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Deserialize)]
struct ChatLine<'a> {
    #[serde(borrow, default)]
    message: Option<ChatMessage<'a>>,
    done: Option<bool>,
    #[serde(borrow, default)]
    done_reason: Option<LaxText<'a>>,
    #[serde(default)]
    prompt_eval_count: LaxCount,
    #[serde(default)]
    eval_count: LaxCount,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatMessage<'a> {
    #[serde(borrow, default)]
    content: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ChatToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ChatToolCall<'a> {
    #[serde(borrow, default)]
    id: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    function: Option<ChatFunction<'a>>,
}

#[derive(Deserialize)]
struct ChatFunction<'a> {
    #[serde(borrow, default)]
    name: Option<LaxText<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Size of the prompt that was sent; used to determine whether the model read all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PromptSize {
    pub(super) bytes: u64,
    /// Context window in tokens, as requested or as reported by the server.
    pub(super) window: u64,
    /// Name of the config table that sets the window, for messages.
    pub(super) table: &'static str,
}

pub(super) struct OllamaDecoder {
    model: ModelRef,
    prompt_size: PromptSize,
    thinking: ThinkTagParser,
    reply: Reply,
    /// Reasoning that the server sent separately from the text; later requests send it back with the message.
    thought: String,
    done: bool,
}

impl OllamaDecoder {
    pub(super) fn new(model: ModelRef, text_protocol: bool, prompt_size: PromptSize) -> Self {
        let protocol = if text_protocol { ToolProtocol::Text } else { ToolProtocol::Native };
        Self {
            model,
            prompt_size,
            thinking: ThinkTagParser::default(),
            reply: Reply { protocol, ..Reply::default() },
            thought: String::new(),
            done: false,
        }
    }

    fn on_message(&mut self, said: ChatMessage<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(LaxText(thought)) = said.thinking {
            push_reasoning(out, &thought);
            self.reply.reasoning.push_str(&thought);
            self.thought.push_str(&thought);
        }
        if let Some(LaxText(content)) = said.content {
            let Reply { text, reasoning, .. } = &mut self.reply;
            self.thinking.push(&content).add_to(text, reasoning, out);
        }
        for call in said.tool_calls.unwrap_or_default() {
            let Some(function) = call.function.filter(|_| self.reply.calls.len() < CALLS_MAX) else {
                continue;
            };
            self.reply.calls.push(ToolCall {
                id: CallId::new(call.id.unwrap_or_default().0),
                wire_id: None,
                name: function.name.unwrap_or_default().0.into_owned(),
                arguments: tool_arguments::parse_arguments(function.arguments.map_or("", RawValue::get)),
            });
        }
    }

    /// Flushes the text that the tag parser held back.
    fn end_thinking(&mut self, out: &mut Vec<ModelEvent>) {
        let Reply { text, reasoning, .. } = &mut self.reply;
        self.thinking.finish().add_to(text, reasoning, out);
    }

    /// Warns if Ollama may have cut off the beginning of the prompt, which it does silently. Fails if the prompt cannot
    /// fit into the window.
    fn check_window(&self, out: &mut Vec<ModelEvent>) -> Result<(), FrameError> {
        let PromptSize { bytes, window, table } = self.prompt_size;
        let read = self.reply.usage.input_tokens;
        if bytes > window.saturating_mul(BYTES_PER_TOKEN_MAX) {
            return Err(FrameError::InStream {
                message: format!(
                    "the prompt ({bytes} bytes) exceeds the window of {window} tokens, and Ollama truncated it silently"
                ),
                retry: false,
                kind: FailureKind::ContextOverflow,
            });
        }
        // Old versions do not count a cached prefix, so a low count alone proves nothing.
        let full = read > 0 && read >= window - window / 50;
        let lost =
            read > 0 && bytes > window.saturating_mul(BYTES_PER_TOKEN) && read < bytes / BYTES_PER_TOKEN_MAX;
        if full || lost {
            out.push(ModelEvent::Notice(format!(
                "the prompt may exceed the window of {window} tokens, and Ollama may have dropped its start; raise \
                 num_ctx in [providers.{table}], or start a new session"
            )));
        }
        Ok(())
    }
}

impl ReplyDecoder for OllamaDecoder {
    fn protocol(&self) -> ToolProtocol {
        self.reply.protocol
    }

    fn decode_frame(
        &mut self,
        _event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        let line: ChatLine<'_> =
            serde_json::from_str(data).map_err(|_| FrameError::Malformed(data.to_owned()))?;
        if line.error.is_some() {
            let message = error_text(data);
            let (kind, retry) = errors::classify_message(&message);
            return Err(FrameError::InStream { message, retry, kind });
        }
        if let Some(said) = line.message {
            self.on_message(said, out);
        }
        if line.done != Some(true) {
            return Ok(false);
        }
        self.done = true;
        self.end_thinking(out);
        self.reply.usage = Usage {
            input_tokens: line.prompt_eval_count.number(),
            output_tokens: line.eval_count.number(),
            cached_tokens: 0,
        };
        if line.done_reason.is_some_and(|reason| reason.0 == "length") {
            self.reply.finish = FinishReason::Length;
        }
        self.check_window(out)?;
        Ok(true)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, FrameError> {
        if !self.done {
            return Err(FrameError::InStream {
                message: "the reply was truncated".to_owned(),
                retry: true,
                kind: FailureKind::Unreachable,
            });
        }
        if !self.thought.is_empty() {
            let value = json!({"thinking": self.thought});
            self.reply.raw = Some(RawReply { model: self.model, value });
        }
        Ok(self.reply)
    }
}
