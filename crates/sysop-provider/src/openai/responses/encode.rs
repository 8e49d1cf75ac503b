//! Encodes a request for the Responses API. Each message is encoded once and cached with the message.

use std::borrow::Cow;

use serde_json::{Value, json};
use sysop_core::image::{ImageRef, RequestImages};
use sysop_core::message::{HistoryMessage, Message, ModelRef, ModelRequest, Reply};

use super::ITEMS;
use crate::api::ModelQuirks;
use crate::images::encoded_images;
use crate::json::{push, text};
use crate::openai::encode::{is_openai_reasoning_model, short_id};
use crate::openai::{INCLUDE, MAX_OUTPUT_TOKENS, REASONING, REASONING_ITEMS, REASONING_SUMMARY, TEMPERATURE};
use crate::tool_arguments::{arguments_object, portable_tool_name};

const ID_BYTES_MAX: usize = 64;

pub(crate) fn body(request: &ModelRequest, quirks: &ModelQuirks) -> String {
    let sends = |name: &str| !quirks.unsupported_params.contains(&name);
    let reasons = is_openai_reasoning_model(&request.model.name);
    let mut body = String::from("{\"model\":");
    push(&mut body, &request.model.name);
    if !request.system.is_empty() {
        body.push_str(",\"instructions\":");
        push(&mut body, &*request.system);
    }
    if !request.tools.is_empty() {
        body.push_str(",\"tools\":[");
        for (index, tool) in request.tools.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            push(
                &mut body,
                &json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": false}),
            );
        }
        body.push(']');
    }
    body.push_str(",\"stream\":true,\"store\":false");
    if reasons && sends(INCLUDE) {
        body.push_str(",\"include\":[\"reasoning.encrypted_content\"]");
    }
    push_reasoning(&mut body, request, quirks, reasons);
    let limit = request.max_output_tokens.or(request.sampling_defaults.reply_tokens(reasons));
    if let Some(limit) = limit.filter(|_| sends(MAX_OUTPUT_TOKENS)) {
        body.push_str(&format!(",\"max_output_tokens\":{limit}"));
    }
    let temperature = request.temperature.or(request.sampling_defaults.temperature.filter(|_| !reasons));
    if let Some(temperature) = temperature.filter(|_| sends(TEMPERATURE)) {
        body.push_str(",\"temperature\":");
        push(&mut body, &crate::json::short_float(temperature));
    }
    body.push_str(",\"input\":[");
    let echoes = sends(REASONING_ITEMS);
    for message in &request.messages {
        body.push_str(&encoded(message, request, echoes));
    }
    if body.ends_with(',') {
        body.pop();
    }
    body.push_str("]}");
    body
}

fn push_reasoning(body: &mut String, request: &ModelRequest, quirks: &ModelQuirks, reasons: bool) {
    let sends = |name: &str| !quirks.unsupported_params.contains(&name);
    let mut reasoning = serde_json::Map::new();
    if let Some(effort) = request.effort {
        reasoning.insert("effort".to_owned(), effort.as_str().into());
    }
    if reasons && sends(REASONING_SUMMARY) {
        reasoning.insert("summary".to_owned(), "auto".into());
    }
    if !reasoning.is_empty() && sends(REASONING) {
        body.push_str(",\"reasoning\":");
        push(body, &Value::Object(reasoning));
    }
}

/// Returns the API items of a message, each followed by a comma.
fn encoded<'a>(message: &'a HistoryMessage, request: &ModelRequest, echoes: bool) -> Cow<'a, str> {
    let own = match message.message() {
        Message::Assistant { reply } => echoes && own_items(reply, &request.model).is_some(),
        Message::User { .. } | Message::ToolResults { .. } => false,
    };
    let key = if own { "responses own" } else { "responses" };
    let encode = |message: &Message| encode(message, own, &request.images);
    match message.encoded(key, encode) {
        Some(cached) => Cow::Borrowed(cached),
        None => Cow::Owned(encode(message.message())),
    }
}

/// Returns the items of a reply as the server sent them, or `None` if another model wrote it or it has no items.
fn own_items<'a>(reply: &'a Reply, model: &ModelRef) -> Option<&'a Vec<Value>> {
    let raw = reply.raw.as_ref().filter(|raw| raw.model == *model)?;
    raw.value.get(ITEMS)?.as_array().filter(|items| !items.is_empty())
}

fn encode(message: &Message, own: bool, data: &RequestImages) -> String {
    match message {
        Message::User { text, images } => {
            item(&json!({"type": "message", "role": "user", "content": content(text, images, data)}))
        }
        Message::Assistant { reply } => match own.then(|| own_items_of_any(reply)).flatten() {
            Some(items) => items.iter().map(item).collect(),
            None => rebuilt(reply),
        },
        Message::ToolResults { results } => results
            .iter()
            .map(|result| {
                let output = match result.images.as_slice() {
                    [] => Value::from(result.output.as_str()),
                    images => content(&result.output, images, data),
                };
                item(&json!({"type": "function_call_output", "call_id": call_id(result.wire_id()),
                    "output": output}))
            })
            .collect(),
    }
}

/// Returns the parts of a message or of a result.
fn content(text: &str, images: &[ImageRef], data: &RequestImages) -> Value {
    let images = encoded_images(images, data);
    let images = images
        .iter()
        .map(|image| json!({"type": "input_image", "image_url": image.data_url(), "detail": "auto"}));
    std::iter::once(json!({"type": "input_text", "text": text})).chain(images).collect()
}

fn own_items_of_any(reply: &Reply) -> Option<&Vec<Value>> {
    reply.raw.as_ref().and_then(|raw| own_items(reply, &raw.model))
}

/// Builds the items of a reply from its text and calls, if another model wrote it or its items are missing.
fn rebuilt(reply: &Reply) -> String {
    let mut items = String::new();
    if !reply.text.is_empty() {
        items.push_str(&item(&json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": reply.text}]})));
    }
    for call in &reply.calls {
        items.push_str(&item(&json!({"type": "function_call", "call_id": call_id(call.wire_id()),
            "name": portable_tool_name(&call.name), "arguments": text(&arguments_object(&call.arguments))})));
    }
    items
}

fn item(value: &Value) -> String {
    format!("{value},")
}

/// Returns an id that the server accepts. A call and its result get the same id.
fn call_id(id: &str) -> String {
    if id.len() <= ID_BYTES_MAX { id.to_owned() } else { short_id(id) }
}
