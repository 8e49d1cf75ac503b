//! Reads the chunks of a chat completion.

use serde_json::{Map, Value, json};
use sysop_core::message::{FailureKind, Finish, ModelRequest, RawReply, Reply, ToolProtocol, Usage};
use sysop_driver::port::ModelEvent;

use super::calls::Calls;
use crate::exchange::{json, refusal_in_stream};
use crate::failure::{Place, Problem, Refusal};
use crate::frames::Frame;
use crate::think::{Said, ThinkSplitter, split_unopened};

/// What a chunk brought.
pub(super) enum Read {
    More,
    End,
    Refused(Box<Refusal>),
}

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Reading {
    text: String,
    reasoning: String,
    refusal: String,
    splitter: ThinkSplitter,
    calls: Calls,
    /// Fields to be echoed as they came: reasoning under its server's own name, signed details.
    fields: Map<String, Value>,
    finish: Option<String>,
    done: bool,
    usage: Usage,
}

impl Reading {
    pub(super) fn frame(
        &mut self,
        frame: &Frame,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Read, Problem> {
        if frame.data.starts_with("[DONE]") {
            self.done = true;
            return Ok(Read::End);
        }
        if frame.data.trim().is_empty() {
            return Ok(Read::More);
        }
        let value = json(frame, place)?;
        let failed = value.get("error").is_some_and(|error| !error.is_null());
        if failed || frame.event == "error" {
            return Ok(Read::Refused(Box::new(refusal_in_stream(value, &frame.data))));
        }
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            self.usage = read_usage(usage);
        }
        // Azure's first chunk and the usage chunk have no choices.
        if let Some(choice) = value.get("choices").and_then(|choices| choices.get(0)) {
            let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
            self.delta(delta, out);
            if let Some(reason) =
                choice.get("finish_reason").and_then(Value::as_str).filter(|r| !r.is_empty())
            {
                self.finish = Some(reason.to_owned());
            }
        }
        Ok(Read::More)
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<ModelEvent>) {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = delta.get(key).and_then(Value::as_str) {
                self.thought(text, out);
                append(&mut self.fields, key, text);
                break;
            }
        }
        if let Some(details) = delta.get("reasoning_details").and_then(Value::as_array) {
            merge_details(list(&mut self.fields, "reasoning_details"), details);
        }
        if let Some(blocks) = delta.get("thinking_blocks").and_then(Value::as_array) {
            merge_blocks(list(&mut self.fields, "thinking_blocks"), blocks);
        }
        match delta.get("content") {
            Some(Value::String(text)) => self.content(text, out),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.content_part(part, out)),
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.refusal.push_str(text);
            out.push(ModelEvent::Text(text.to_owned()));
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.calls.push(piece);
        }
        if let Some(call) = delta.get("function_call").filter(|call| call.is_object()) {
            self.calls.push(call);
        }
    }

    fn content_part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            self.content(text, out);
        }
        for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            self.thought(thought.get("text").and_then(Value::as_str).unwrap_or_default(), out);
        }
    }

    fn content(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        for said in self.splitter.push(text) {
            self.said(said, out);
        }
    }

    fn said(&mut self, said: Said, out: &mut Vec<ModelEvent>) {
        match said {
            Said::Thought(text) => self.thought(&text, out),
            Said::Text(text) if text.is_empty() => {}
            Said::Text(text) => {
                self.text.push_str(&text);
                out.push(ModelEvent::Text(text));
            }
        }
    }

    fn thought(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.reasoning.push_str(text);
            out.push(ModelEvent::Reasoning(text.to_owned()));
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn end(
        mut self,
        request: &ModelRequest,
        text_protocol: bool,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Reply, Problem> {
        if !self.done && self.finish.is_none() {
            return Err(place.cut());
        }
        if let Some(said) = self.splitter.finish() {
            self.said(said, out);
        }
        if let Some(thought) = split_unopened(&mut self.text) {
            self.reasoning.push_str(&thought);
        }
        let reason = self.finish.as_deref().unwrap_or("stop");
        if matches!(reason, "error" | "network_error" | "insufficient_system_resource")
            && self.calls.is_empty()
        {
            let message = format!("{place} ended its reply with `{reason}`; try again");
            return Err(Problem::new(FailureKind::Unreachable, message).retried(reason, None));
        }
        let finish = match reason {
            "length" => Finish::Length,
            "content_filter" | "sensitive" => Finish::Refused,
            _ if !self.refusal.is_empty() => Finish::Refused,
            _ => Finish::Stop,
        };
        let (calls, extras) = self.calls.finish(finish == Finish::Length);
        let mut text = self.text;
        text.push_str(&self.refusal);
        if finish == Finish::Refused && text.is_empty() {
            "The server's content filter held the reply back.".clone_into(&mut text);
        }
        let has_extras = extras.iter().any(|extra| !extra.is_null());
        let value = json!({"fields": self.fields, "calls": extras});
        let raw = (has_extras || value["fields"].as_object().is_some_and(|fields| !fields.is_empty()))
            .then(|| RawReply { model: request.model.clone(), value });
        Ok(Reply {
            text,
            reasoning: self.reasoning,
            calls,
            protocol: if text_protocol { ToolProtocol::Text } else { ToolProtocol::Native },
            finish,
            usage: self.usage,
            raw,
        })
    }
}

fn append(fields: &mut Map<String, Value>, key: &str, text: &str) {
    match fields.get_mut(key) {
        Some(Value::String(whole)) => whole.push_str(text),
        _ => {
            fields.insert(key.to_owned(), text.into());
        }
    }
}

fn list<'a>(fields: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let entry = fields.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    entry.as_array_mut().expect("nothing else is put under this name")
}

/// OpenRouter's typed details: pieces of one `index` are one element.
fn merge_details(whole: &mut Vec<Value>, pieces: &[Value]) {
    for piece in pieces {
        let same = |kept: &&mut Value| {
            piece.get("index").is_some_and(|index| kept.get("index") == Some(index))
                && kept.get("type") == piece.get("type")
        };
        match whole.iter_mut().rev().find(same) {
            Some(kept) => merge(kept, piece, &["text", "summary", "data"]),
            None => whole.push(piece.clone()),
        }
    }
}

/// LiteLLM's Anthropic blocks: a block is open until its signature has come.
fn merge_blocks(whole: &mut Vec<Value>, pieces: &[Value]) {
    for piece in pieces {
        let open = |block: &&mut Value| {
            block["type"] == "thinking"
                && piece["type"] == "thinking"
                && block["signature"].as_str().unwrap_or_default().is_empty()
        };
        match whole.last_mut().filter(open) {
            Some(block) => merge(block, piece, &["thinking"]),
            None => whole.push(piece.clone()),
        }
    }
}

/// Appends the texts under `appended`; other values replace what was there unless they are null.
fn merge(kept: &mut Value, piece: &Value, appended: &[&str]) {
    let (Some(kept), Some(piece)) = (kept.as_object_mut(), piece.as_object()) else { return };
    for (name, value) in piece {
        match (kept.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) if appended.contains(&name.as_str()) => {
                text.push_str(more);
            }
            (_, Value::Null) => {}
            (_, value) => {
                kept.insert(name.clone(), value.clone());
            }
        }
    }
}

fn read_usage(usage: &Value) -> Usage {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    Usage {
        input_tokens: number("/prompt_tokens").unwrap_or_default(),
        output_tokens: number("/completion_tokens").unwrap_or_default(),
        cached_tokens: number("/prompt_tokens_details/cached_tokens")
            .or_else(|| number("/prompt_cache_hit_tokens"))
            .unwrap_or_default(),
    }
}
