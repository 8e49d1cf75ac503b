//! Reads the lines of `/api/chat`.

use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, Finish, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage};
use sysop_driver::port::ModelEvent;

use crate::exchange::{json, refusal_in_stream};
use crate::failure::{Place, Problem, Refusal};
use crate::frames::Frame;
use crate::history::made_up_id;
use crate::think::{Said, ThinkSplitter, split_unopened};

/// Most calls in one reply; more are dropped.
const CALLS_MAX: usize = 256;

/// What a line brought.
pub(super) enum Read {
    More,
    End,
    Refused(Box<Refusal>),
}

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Reading {
    text: String,
    /// What the server itself told apart as thinking; goes back to it.
    thinking: String,
    reasoning: String,
    splitter: ThinkSplitter,
    calls: Vec<ToolCall>,
    usage: Usage,
    done: bool,
    length: bool,
}

impl Reading {
    pub(super) fn frame(
        &mut self,
        frame: &Frame,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Read, Problem> {
        let value = json(frame, place)?;
        if value.get("error").is_some_and(|error| !error.is_null()) {
            let mut refusal = refusal_in_stream(value, &frame.data);
            // What breaks in the middle is the server's trouble; it says so in words only.
            refusal.status = 500;
            return Ok(Read::Refused(Box::new(refusal)));
        }
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let thinking = text("/message/thinking");
        if !thinking.is_empty() {
            self.thinking.push_str(thinking);
            self.said(Said::Thought(thinking.to_owned()), out);
        }
        for said in self.splitter.push(text("/message/content")) {
            self.said(said, out);
        }
        let calls = value.pointer("/message/tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten().take(CALLS_MAX.saturating_sub(self.calls.len())) {
            self.calls.push(read_call(call));
        }
        if value.get("done").and_then(Value::as_bool) != Some(true) {
            return Ok(Read::More);
        }
        let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
        self.usage = Usage {
            input_tokens: number("prompt_eval_count"),
            output_tokens: number("eval_count"),
            cached_tokens: 0,
        };
        self.length = text("/done_reason") == "length";
        self.done = true;
        Ok(Read::End)
    }

    fn said(&mut self, said: Said, out: &mut Vec<ModelEvent>) {
        match said {
            Said::Thought(text) => {
                self.reasoning.push_str(&text);
                out.push(ModelEvent::Reasoning(text));
            }
            Said::Text(text) if text.is_empty() => {}
            Said::Text(text) => {
                self.text.push_str(&text);
                out.push(ModelEvent::Text(text));
            }
        }
    }

    pub(super) fn end(
        mut self,
        model: &ModelRef,
        text_protocol: bool,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Reply, Problem> {
        if !self.done {
            return Err(place.cut());
        }
        if let Some(said) = self.splitter.finish() {
            self.said(said, out);
        }
        if let Some(thought) = split_unopened(&mut self.text) {
            self.reasoning.push_str(&thought);
        }
        let raw = (!self.thinking.is_empty())
            .then(|| RawReply { model: model.clone(), value: json!({"thinking": self.thinking}) });
        Ok(Reply {
            text: self.text,
            reasoning: self.reasoning,
            calls: self.calls,
            protocol: if text_protocol { ToolProtocol::Text } else { ToolProtocol::Native },
            finish: if self.length { Finish::Length } else { Finish::Stop },
            usage: self.usage,
            raw,
        })
    }
}

fn read_call(call: &Value) -> ToolCall {
    let text = |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let arguments = match call.pointer("/function/arguments") {
        Some(Value::Object(map)) => Arguments::Object(map.clone()),
        Some(Value::String(text)) => Arguments::parse(text),
        None | Some(Value::Null) => Arguments::parse(""),
        Some(other) => Arguments::Invalid(other.to_string()),
    };
    let id = match text("/id") {
        "" => made_up_id(),
        id => id.to_owned(),
    };
    ToolCall { id: CallId::new(id), wire_id: None, name: text("/function/name").to_owned(), arguments }
}
