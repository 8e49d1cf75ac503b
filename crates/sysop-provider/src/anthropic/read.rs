//! Reads the events of the Messages API.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, FailureKind, Finish, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_driver::port::ModelEvent;

use super::body::Continuation;
use crate::exchange::{Ending, json, refusal_in_stream};
use crate::failure::{Place, Problem, Refusal, excerpt};
use crate::frames::Frame;

/// Most requests that one reply may be spread over.
const CONTINUATIONS_MAX: u32 = 8;

/// Most blocks of one reply; more are dropped.
const BLOCKS_MAX: usize = 10_000;

/// What an event brought.
pub(super) enum Read {
    More,
    End,
    Refused(Box<Refusal>),
}

/// A reply as far as it has come.
#[derive(Debug)]
pub(super) struct Reading {
    model: ModelRef,
    text: String,
    reasoning: String,
    blocks: BTreeMap<u64, Block>,
    usage: Tokens,
    /// Tokens of the requests before, where a reply is spread over several.
    used: Usage,
    stop_reason: Option<String>,
    stop_details: Value,
    /// What the next request begins with.
    continuation: Continuation,
    continuations: u32,
    continued: bool,
}

#[derive(Debug)]
struct Block {
    value: Value,
    /// A call's input as it was streamed.
    input: String,
    closed: bool,
}

/// Counts as the server sends them, each one cumulative.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens {
    input: u64,
    cache_creation: u64,
    cache_read: u64,
    output: u64,
}

impl Reading {
    pub(super) fn new(model: &ModelRef) -> Self {
        Self {
            model: model.clone(),
            text: String::new(),
            reasoning: String::new(),
            blocks: BTreeMap::new(),
            usage: Tokens::default(),
            used: Usage::default(),
            stop_reason: None,
            stop_details: Value::Null,
            continuation: Continuation::default(),
            continuations: 0,
            continued: false,
        }
    }

    /// Makes ready for the next request's answer.
    pub(super) fn restart(&mut self) {
        if std::mem::take(&mut self.continued) {
            self.blocks.clear();
            self.stop_reason = None;
            self.usage = Tokens::default();
            return;
        }
        // What was continued is lost with the attempt that broke: the whole reply is asked for anew.
        *self = Self { continuations: self.continuations, ..Self::new(&self.model) };
    }

    pub(super) fn continuation(&self) -> &Continuation {
        &self.continuation
    }

    pub(super) fn is_whole(&self) -> bool {
        self.stop_reason.is_some()
    }

    pub(super) fn frame(
        &mut self,
        frame: &Frame,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Read, Problem> {
        if frame.data.trim().is_empty() {
            return Ok(Read::More);
        }
        let value = json(frame, place)?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&frame.event).to_owned();
        let index = value.get("index").and_then(Value::as_u64).unwrap_or_default();
        match kind.as_str() {
            "error" => return Ok(Read::Refused(Box::new(refusal_in_stream(value, &frame.data)))),
            "message_start" => self.usage.read(value.pointer("/message/usage")),
            "content_block_start" => self.start(index, &value["content_block"], out),
            "content_block_delta" => self.delta(index, &value["delta"], out),
            "content_block_stop" => {
                if let Some(block) = self.blocks.get_mut(&index) {
                    block.closed = true;
                }
            }
            "message_delta" => {
                self.usage.read(value.get("usage"));
                if let Some(reason) = value.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                    self.stop_details = value["delta"]["stop_details"].clone();
                }
            }
            "message_stop" => return Ok(Read::End),
            _ if value.get("error").is_some_and(|error| !error.is_null()) => {
                return Ok(Read::Refused(Box::new(refusal_in_stream(value, &frame.data))));
            }
            _ => {} // `ping`, and what may come
        }
        Ok(Read::More)
    }

    fn start(&mut self, index: u64, block: &Value, out: &mut Vec<ModelEvent>) {
        if self.blocks.len() >= BLOCKS_MAX || !block.is_object() {
            return;
        }
        for (key, kind) in [("text", "text"), ("thinking", "thinking")] {
            if block["type"] == kind {
                self.say(key, block[key].as_str().unwrap_or_default(), out);
            }
        }
        self.blocks.insert(index, Block { value: block.clone(), input: String::new(), closed: false });
    }

    fn delta(&mut self, index: u64, delta: &Value, out: &mut Vec<ModelEvent>) {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type");
        match kind {
            "text_delta" => self.say("text", text("text"), out),
            "thinking_delta" => self.say("thinking", text("thinking"), out),
            _ => {}
        }
        let Some(block) = self.blocks.get_mut(&index) else { return };
        match kind {
            "text_delta" => append(&mut block.value, "text", text("text")),
            "thinking_delta" => append(&mut block.value, "thinking", text("thinking")),
            "signature_delta" => append(&mut block.value, "signature", text("signature")),
            "input_json_delta" => block.input.push_str(text("partial_json")),
            "citations_delta" => match block.value.get_mut("citations").and_then(Value::as_array_mut) {
                Some(citations) => citations.push(delta["citation"].clone()),
                None => block.value["citations"] = json!([delta["citation"]]),
            },
            _ => {}
        }
    }

    fn say(&mut self, key: &str, text: &str, out: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        if key == "text" {
            self.text.push_str(text);
            out.push(ModelEvent::Text(text.to_owned()));
        } else {
            self.reasoning.push_str(text);
            out.push(ModelEvent::Reasoning(text.to_owned()));
        }
    }

    pub(super) fn end(&mut self, place: &Place) -> Result<Ending, Problem> {
        let Some(reason) = self.stop_reason.take() else { return Err(place.cut()) };
        match reason.as_str() {
            "refusal" => Ok(self.refusal()),
            "pause_turn" | "compaction" if self.continuations < CONTINUATIONS_MAX => {
                self.carry_on();
                Ok(Ending::Continued)
            }
            "model_context_window_exceeded" => Err(Problem::new(
                FailureKind::ContextOverflow,
                format!("{place} has filled its window; start a new chat, or lower max_history_messages"),
            )),
            "max_tokens" | "pause_turn" | "compaction" => Ok(self.done(Finish::Length)),
            _ if self.is_empty() && !self.continuation.nudge => {
                self.continuation.nudge = true;
                self.continued = true;
                Ok(Ending::Continued)
            }
            _ => Ok(self.done(Finish::Stop)),
        }
    }

    /// A model that stops right after results without a word is asked once to go on.
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.continuation.blocks.is_empty()
    }

    fn carry_on(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        self.continuation.blocks.extend(blocks.into_values().map(|block| block.whole().0));
        self.used += self.usage.total();
        self.continuations += 1;
        self.continued = true;
    }

    fn refusal(&mut self) -> Ending {
        let said = |key: &str| excerpt(self.stop_details[key].as_str().unwrap_or_default());
        let mut text = "The model refused to answer".to_owned();
        if !said("category").is_empty() {
            text.push_str(&format!(" ({})", said("category")));
        }
        text.push('.');
        if !said("explanation").is_empty() {
            text.push_str(&format!(" {}", said("explanation")));
        }
        let mut usage = self.used;
        usage += self.usage.total();
        let reasoning = std::mem::take(&mut self.reasoning);
        Ending::Done(Box::new(Reply { text, reasoning, finish: Finish::Refused, usage, ..Reply::default() }))
    }

    fn done(&mut self, finish: Finish) -> Ending {
        let nudged = self.continuation.nudge;
        let mut blocks = std::mem::take(&mut self.continuation.blocks);
        let mut calls = Vec::new();
        for (_, block) in std::mem::take(&mut self.blocks) {
            let cut = !block.closed;
            let (value, arguments) = block.whole();
            let is_thought = value["type"] == "thinking";
            if is_thought && value["signature"].as_str().unwrap_or_default().is_empty() {
                continue; // was cut; without its signature it is refused
            }
            if let Some(arguments) = arguments {
                let broken = matches!(arguments, Arguments::Invalid(_));
                if finish == Finish::Length && (cut || broken) {
                    continue;
                }
                if value["type"] == "tool_use" {
                    calls.push(ToolCall {
                        id: CallId::new(value["id"].as_str().unwrap_or_default()),
                        wire_id: None,
                        name: value["name"].as_str().unwrap_or_default().to_owned(),
                        arguments,
                    });
                }
            }
            let is_blank_text =
                value["type"] == "text" && value["text"].as_str().unwrap_or_default().trim().is_empty();
            if !is_blank_text {
                blocks.push(value);
            }
        }
        let mut usage = self.used;
        usage += self.usage.total();
        // After a nudge the history lacks what the thoughts are bound to.
        let raw = (!blocks.is_empty() && !nudged)
            .then(|| RawReply { model: self.model.clone(), value: Value::Array(blocks) });
        Ending::Done(Box::new(Reply {
            text: std::mem::take(&mut self.text),
            reasoning: std::mem::take(&mut self.reasoning),
            calls,
            protocol: ToolProtocol::Native,
            finish,
            usage,
            raw,
        }))
    }
}

impl Block {
    /// The block as it is to be echoed, and its input where it is a call.
    fn whole(mut self) -> (Value, Option<Arguments>) {
        let is_call = matches!(self.value["type"].as_str(), Some("tool_use" | "server_tool_use"));
        if !is_call {
            return (self.value, None);
        }
        let arguments = if self.input.trim().is_empty() {
            match &self.value["input"] {
                Value::Object(map) => Arguments::Object(map.clone()),
                _ => Arguments::parse(""),
            }
        } else {
            Arguments::parse(&self.input)
        };
        self.value["input"] = match &arguments {
            Arguments::Object(map) => Value::Object(map.clone()),
            Arguments::Invalid(text) => json!({"invalid_arguments": text}),
        };
        (self.value, Some(arguments))
    }
}

impl Tokens {
    fn read(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let set = |slot: &mut u64, key: &str| {
            if let Some(number) = usage.get(key).and_then(Value::as_u64) {
                *slot = number;
            }
        };
        set(&mut self.input, "input_tokens");
        set(&mut self.cache_creation, "cache_creation_input_tokens");
        set(&mut self.cache_read, "cache_read_input_tokens");
        set(&mut self.output, "output_tokens");
    }

    fn total(self) -> Usage {
        Usage {
            input_tokens: self.input.saturating_add(self.cache_creation).saturating_add(self.cache_read),
            output_tokens: self.output,
            cached_tokens: self.cache_read,
        }
    }
}

fn append(block: &mut Value, key: &str, text: &str) {
    match block.get_mut(key) {
        Some(Value::String(whole)) => whole.push_str(text),
        _ => block[key] = text.into(),
    }
}
