//! Reads the chunks of `streamGenerateContent`.

use serde_json::Value;
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, FailureKind, Finish, ModelRef, RawReply, Reply, ToolCall, ToolProtocol, Usage,
};
use sysop_driver::port::ModelEvent;

use crate::exchange::{Ending, json, refusal_in_stream};
use crate::failure::{Place, Problem, Refusal, excerpt};
use crate::frames::Frame;
use crate::history::made_up_id;

/// Most times that a turn is asked for again because the model stumbled over itself.
const STUMBLES_MAX: u32 = 2;

/// Most requests that one reply may be spread over.
const CONTINUATIONS_MAX: u32 = 8;

/// Most parts of one reply.
const PARTS_MAX: usize = 100_000;

/// Why a reply cannot be used.
pub(super) enum Trouble {
    Problem(Problem),
    /// The model says that the history lacks a signature.
    MissingSignature(Problem),
}

/// A reply as far as it has come.
#[derive(Debug)]
pub(super) struct Reading {
    model: ModelRef,
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    /// The parts to be echoed.
    parts: Vec<Value>,
    usage: Usage,
    finish: Option<String>,
    finish_message: String,
    blocked: Option<String>,
    token: Option<String>,
    continuations: u32,
    stumbles: u32,
    continued: bool,
}

impl Reading {
    pub(super) fn new(model: &ModelRef) -> Self {
        Self {
            model: model.clone(),
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            parts: Vec::new(),
            usage: Usage::default(),
            finish: None,
            finish_message: String::new(),
            blocked: None,
            token: None,
            continuations: 0,
            stumbles: 0,
            continued: false,
        }
    }

    /// Makes ready for the next request's answer.
    pub(super) fn restart(&mut self) {
        if std::mem::take(&mut self.continued) {
            self.finish = None;
            return;
        }
        let (continuations, stumbles) = (self.continuations, self.stumbles);
        *self = Self { continuations, stumbles, ..Self::new(&self.model) };
    }

    /// What the server wants back so that it goes on.
    pub(super) fn continuation(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    /// Takes a chunk; answers with a refusal if it is one.
    pub(super) fn frame(
        &mut self,
        frame: &Frame,
        place: &Place,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Option<Box<Refusal>>, Problem> {
        if frame.data.trim().is_empty() || frame.data.starts_with("[DONE]") {
            return Ok(None);
        }
        let value = json(frame, place)?;
        let chunks = match value {
            Value::Array(chunks) => chunks,
            other => vec![other],
        };
        for chunk in chunks {
            if chunk.get("error").is_some_and(|error| !error.is_null()) {
                return Ok(Some(Box::new(refusal_in_stream(chunk, &frame.data))));
            }
            self.chunk(&chunk, out);
        }
        Ok(None)
    }

    fn chunk(&mut self, chunk: &Value, out: &mut Vec<ModelEvent>) {
        let text = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        if let Some(reason) = text(chunk, "/promptFeedback/blockReason") {
            self.blocked = Some(reason);
        }
        if let Some(usage) = chunk.get("usageMetadata") {
            let number = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
            self.usage = Usage {
                input_tokens: number("promptTokenCount") + number("toolUsePromptTokenCount"),
                output_tokens: number("candidatesTokenCount") + number("thoughtsTokenCount"),
                cached_tokens: number("cachedContentTokenCount"),
            };
        }
        if let Some(token) = text(chunk, "/continuationToken") {
            self.token = Some(token);
        }
        let Some(candidate) = chunk.pointer("/candidates/0") else { return };
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.part(part, out);
        }
        if let Some(token) = text(candidate, "/continuationToken") {
            self.token = Some(token);
        }
        if let Some(reason) = text(candidate, "/finishReason") {
            self.finish = Some(reason);
            self.finish_message = text(candidate, "/finishMessage").unwrap_or_default();
        }
    }

    fn part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        let signed = part.get("thoughtSignature").is_some();
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
        if let Some(call) = part.get("functionCall") {
            self.calls.push(read_call(call));
        } else if is_thought && !text.is_empty() {
            self.reasoning.push_str(text);
            out.push(ModelEvent::Reasoning(text.to_owned()));
        } else if !text.is_empty() {
            self.text.push_str(text);
            out.push(ModelEvent::Text(text.to_owned()));
        }
        let is_empty = part.get("text").is_some() && text.is_empty();
        if !signed && (is_thought || is_empty) {
            return; // thoughts are not sent back, and an empty text is refused
        }
        self.keep(part, text);
    }

    /// Keeps a part for the echo. Plain text that came in pieces is one part again; nothing signed is merged.
    fn keep(&mut self, part: &Value, text: &str) {
        let is_plain = |part: &Value| {
            part.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("text"))
        };
        if is_plain(part) && self.parts.last().is_some_and(is_plain) {
            if let Some(Value::String(whole)) = self.parts.last_mut().and_then(|last| last.get_mut("text")) {
                whole.push_str(text);
            }
        } else if self.parts.len() < PARTS_MAX {
            self.parts.push(part.clone());
        }
    }

    pub(super) fn end(&mut self, place: &Place) -> Result<Ending, Trouble> {
        if let Some(reason) = self.blocked.take() {
            let text = format!("The request was blocked by Google's filter ({}).", excerpt(&reason));
            return Ok(self.done(Finish::Refused, Some(text)));
        }
        let Some(reason) = self.finish.take() else { return Err(Trouble::Problem(place.cut())) };
        let silent = self.text.is_empty() && self.calls.is_empty();
        match reason.as_str() {
            "STOP" | "FINISH_REASON_UNSPECIFIED" if silent && self.stumbles < STUMBLES_MAX => {
                Err(self.stumbled(place, "answered with nothing"))
            }
            "STOP" | "FINISH_REASON_UNSPECIFIED" => Ok(self.done(Finish::Stop, None)),
            "MAX_TOKENS" => Ok(self.done(Finish::Length, None)),
            "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS" => {
                let said =
                    format!("made a call that cannot be read ({reason}) {}", excerpt(&self.finish_message));
                Err(self.stumbled(place, said.trim_end()))
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let said = "missed a thought signature in the history; start a new chat";
                Err(Trouble::MissingSignature(Problem::new(
                    FailureKind::BadRequest,
                    format!("{place} {said}"),
                )))
            }
            "CONTINUATION" if self.token.is_some() && self.continuations < CONTINUATIONS_MAX => {
                self.continuations += 1;
                self.continued = true;
                Ok(Ending::Continued)
            }
            "CONTINUATION" => Ok(self.done(Finish::Length, None)),
            "OTHER" if !silent => Ok(self.done(Finish::Stop, None)),
            _ => {
                let text = format!("The reply was stopped by Google's filter ({}).", excerpt(&reason));
                Ok(self.done(Finish::Refused, Some(text)))
            }
        }
    }

    fn stumbled(&mut self, place: &Place, said: &str) -> Trouble {
        self.stumbles += 1;
        let problem =
            Problem::new(FailureKind::Protocol, format!("{place} {said}; try again or another model"));
        let label = format!("the model {said}");
        Trouble::Problem(problem.retried(label, None).at_most(STUMBLES_MAX))
    }

    fn done(&mut self, finish: Finish, note: Option<String>) -> Ending {
        let mut text = std::mem::take(&mut self.text);
        if let Some(note) = note {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&note);
        }
        let parts = std::mem::take(&mut self.parts);
        let raw = (finish != Finish::Refused && !parts.is_empty())
            .then(|| RawReply { model: self.model.clone(), value: Value::Array(parts) });
        Ending::Done(Box::new(Reply {
            text,
            reasoning: std::mem::take(&mut self.reasoning),
            calls: std::mem::take(&mut self.calls),
            protocol: ToolProtocol::Native,
            finish,
            usage: self.usage,
            raw,
        }))
    }
}

fn read_call(call: &Value) -> ToolCall {
    let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
    let arguments = match call.get("args") {
        Some(Value::Object(map)) => Arguments::Object(map.clone()),
        None | Some(Value::Null) => Arguments::parse(""),
        Some(other) => Arguments::Invalid(other.to_string()),
    };
    let id = match text("id") {
        "" => made_up_id(),
        id => id.to_owned(),
    };
    ToolCall { id: CallId::new(id), wire_id: None, name: text("name").to_owned(), arguments }
}
