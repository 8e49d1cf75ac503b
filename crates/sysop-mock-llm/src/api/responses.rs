//! OpenAI Responses. Validates the rules that clients break most often: tools are declared flat, each call is answered
//! once, and reasoning is followed by the item that it led to.
//!
//! A request with `reasoning` gets a reasoning item in front of the answer. The item's `encrypted_content`
//! contains its id, so that a modified or swapped item is detected when it comes back.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ApiError, ApiRequest, IncomingRequest, ScriptedReply, list, reject_missing_model, text_of};
use crate::engine::Turn;
use crate::event_stream::{EventStream, Framing};
use crate::scenario::{TokenUsage, is_tool_name};

const TOOL_NAME_BYTES_MAX: usize = 64;
/// Summary, which is the visible part of the reasoning.
const SUMMARY: &str = "Looking at the task.";
const CHAT_PARAMETERS: [&str; 6] = [
    "messages", "max_tokens", "max_completion_tokens", "response_format", "stream_options",
    "reasoning_effort",
];

#[derive(Debug)]
pub(crate) struct ResponsesRequest {
    model: String,
    turn: Turn,
    stream: bool,
    reasons: bool,
    encrypts: bool,
}

impl ApiRequest for ResponsesRequest {
    const NOT_JSON: &'static str = "We could not parse the JSON body of your request.";
    const REQUEST_ID: Option<(&'static str, &'static str)> = Some(("x-request-id", "req_"));

    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError> {
        let body = call.body;
        let Some(model) = body["model"].as_str() else {
            return Err(refuse("Missing required parameter: 'model'.", "model"));
        };
        reject_missing_model(model, || format!("The requested model '{model}' does not exist."))?;
        if let Some(name) = CHAT_PARAMETERS.iter().find(|name| !body[**name].is_null()) {
            return Err(refuse(&format!("Unsupported parameter: '{name}'."), name));
        }
        validate_tools(list(body, "tools"))?;
        let includes = list(body, "include").iter().any(|name| name == "reasoning.encrypted_content");
        Ok(Self {
            model: model.to_owned(),
            turn: validate_input(&body["input"], body["store"] == false)?,
            stream: body["stream"].as_bool().unwrap_or(false),
            reasons: body["reasoning"].is_object(),
            encrypts: includes,
        })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream
    }

    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value {
        self.response(scripted, "completed", &self.items(scripted))
    }

    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream {
        let mut stream = EventStream::new(Framing::Sse);
        let mut number = 0;
        let mut event = |kind: &str, mut fields: Value, times: usize| {
            fields["type"] = kind.into();
            fields["sequence_number"] = number.into();
            number += 1;
            stream.push_named(&fields, times);
        };
        let began = self.response(scripted, "in_progress", &[]);
        event("response.created", json!({"response": began}), 1);
        let items = self.items(scripted);
        for (index, item) in items.iter().enumerate() {
            let mut opened = item.clone();
            opened["status"] = "in_progress".into();
            let place = json!({"output_index": index, "item_id": item["id"]});
            let with = |field: &str, value: &str| {
                let mut fields = place.clone();
                fields[field] = value.into();
                fields
            };
            event("response.output_item.added", json!({"output_index": index, "item": opened}), 1);
            match item["type"].as_str() {
                Some("reasoning") => {
                    event("response.reasoning_summary_text.delta", with("delta", SUMMARY), 1);
                }
                Some("message") => {
                    for (piece, times) in scripted.pieces() {
                        event("response.output_text.delta", with("delta", piece), times);
                    }
                }
                Some(_) | None => {
                    for piece in scripted.split(item["arguments"].as_str().unwrap_or_default()) {
                        event("response.function_call_arguments.delta", with("delta", piece), 1);
                    }
                }
            }
            event("response.output_item.done", json!({"output_index": index, "item": item}), 1);
        }
        event("response.completed", json!({"response": self.response(scripted, "completed", &items)}), 1);
        stream
    }

    fn error_body(refusal: &ApiError, request_id: &str) -> Value {
        super::openai::ChatCompletionRequest::error_body(refusal, request_id)
    }
}

impl ResponsesRequest {
    /// Returns the complete items of the answer.
    fn items(&self, scripted: &ScriptedReply<'_>) -> Vec<Value> {
        let mut items = Vec::new();
        if self.reasons {
            let id = scripted.ids.make("rs_", 24);
            let sealed = if self.encrypts { Value::from(sealed(&id)) } else { Value::Null };
            items.push(json!({"type": "reasoning", "id": id, "encrypted_content": sealed,
                "summary": [{"type": "summary_text", "text": SUMMARY}]}));
        }
        if scripted.response.content.is_some() || scripted.response.tool_calls.is_empty() {
            let text = scripted.response.text();
            items.push(json!({"type": "message", "id": scripted.ids.make("msg_", 24), "status": "completed",
                "role": "assistant", "phase": "final_answer",
                "content": [{"type": "output_text", "text": text, "annotations": []}]}));
        }
        for call in &scripted.response.tool_calls {
            let id = call.id.clone().unwrap_or_else(|| scripted.ids.make("call_", 24));
            items.push(json!({"type": "function_call", "id": scripted.ids.make("fc_", 24), "call_id": id,
                "status": "completed", "name": call.name, "arguments": call.arguments_text}));
        }
        items
    }

    fn response(&self, scripted: &ScriptedReply<'_>, status: &str, output: &[Value]) -> Value {
        let usage = if status == "completed" { usage(scripted.usage()) } else { Value::Null };
        json!({"id": scripted.ids.make("resp_", 24), "object": "response", "created_at": scripted.at.as_second(),
            "status": status, "model": self.model, "output": output, "usage": usage, "error": null,
            "incomplete_details": null})
    }
}

fn sealed(id: &str) -> String {
    format!("sealed:{id}")
}

fn usage(tokens: TokenUsage) -> Value {
    json!({
        "input_tokens": tokens.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input_tokens + tokens.output_tokens,
    })
}

fn refuse(message: &str, param: &str) -> ApiError {
    ApiError::bad_request(message).with_param(param)
}

fn validate_tools(tools: &[Value]) -> Result<(), ApiError> {
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let param = format!("tools[{index}].name");
        if tool["type"] != "function" {
            let message = format!("Invalid value for 'tools[{index}].type': expected 'function'.");
            return Err(refuse(&message, &format!("tools[{index}].type")));
        }
        let Some(name) = tool["name"].as_str() else {
            return Err(refuse(&format!("Missing required parameter: '{param}'."), &param));
        };
        if !is_tool_name(name, TOOL_NAME_BYTES_MAX) || !names.insert(name) {
            return Err(refuse(
                &format!("Invalid '{param}': '{name}' is not a valid name, or is defined twice."),
                &param,
            ));
        }
    }
    Ok(())
}

fn validate_input(input: &Value, stateless: bool) -> Result<Turn, ApiError> {
    let mut turn = Turn::default();
    if let Some(text) = input.as_str() {
        turn.user(text);
        return Ok(turn);
    }
    let Some(items) = input.as_array().filter(|items| !items.is_empty()) else {
        return Err(refuse("Missing required parameter: 'input'.", "input"));
    };
    let mut open: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        match item["type"].as_str().unwrap_or("message") {
            "message" => match item["role"].as_str() {
                Some("user") => turn.user(&text_of(parts(item, "input_text", &place)?)),
                Some("assistant") => drop(parts(item, "output_text", &place)?),
                Some("system" | "developer") => drop(parts(item, "input_text", &place)?),
                role => {
                    let message = format!("Invalid value: '{}'.", role.unwrap_or_default());
                    return Err(refuse(&message, &format!("{place}.role")));
                }
            },
            "reasoning" => validate_reasoning(item, items.get(index + 1), stateless, &place)?,
            "function_call" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                if id.is_empty() || item["name"].as_str().is_none() || item["arguments"].as_str().is_none() {
                    return Err(refuse(&format!("Missing required parameter in '{place}'."), &place));
                }
                open.push(id);
            }
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let Some(at) = open.iter().position(|call| *call == id) else {
                    let message = format!("No tool call found for function call output with call_id {id}.");
                    return Err(refuse(&message, "input"));
                };
                if item["output"].as_str().is_none() {
                    return Err(refuse(&format!("Missing required parameter: '{place}.output'."), &place));
                }
                open.remove(at);
                turn.tool_result();
            }
            kind => return Err(refuse(&format!("Invalid value: '{kind}'."), &format!("{place}.type"))),
        }
    }
    match open.first() {
        Some(id) => Err(refuse(&format!("No tool output found for function call {id}."), "input")),
        None => Ok(turn),
    }
}

/// Returns the content of a message if it is text, or if each part is of this kind or a refusal; otherwise fails.
fn parts<'a>(item: &'a Value, kind: &str, place: &str) -> Result<&'a Value, ApiError> {
    let content = &item["content"];
    let wrong = list(item, "content").iter().any(|part| part["type"] != kind && part["type"] != "refusal");
    if wrong || !(content.is_string() || content.is_array()) {
        let message =
            format!("Invalid value in '{place}.content': supported values are: '{kind}' and 'refusal'.");
        return Err(refuse(&message, &format!("{place}.content")));
    }
    Ok(content)
}

fn validate_reasoning(
    item: &Value,
    next: Option<&Value>,
    stateless: bool,
    place: &str,
) -> Result<(), ApiError> {
    let id = item["id"].as_str().unwrap_or_default();
    let follows = |item: &Value| {
        item["type"] == "function_call" || (item["type"] == "message" && item["role"] == "assistant")
    };
    if !next.is_some_and(follows) {
        let message =
            format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
        return Err(refuse(&message, "input"));
    }
    match item["encrypted_content"].as_str() {
        None if stateless => {
            let message = format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
            );
            Err(ApiError::new(404, message).with_param("input"))
        }
        Some(content) if content != sealed(id) => {
            let message = format!("The encrypted content for item {id} could not be verified.");
            Err(refuse(&message, &format!("{place}.encrypted_content")))
        }
        Some(_) | None => Ok(()),
    }
}
