//! Encodes a request for Ollama's native API. Each message is encoded once and cached with the message.

use crate::text_protocol;
use serde_json::{Value, json};
use std::borrow::Cow;
use sysop_core::image::RequestImages;
use sysop_core::message::{HistoryMessage, Message, ModelRef, ModelRequest, Reply, ToolResult};

use crate::api::FORMAT;
use crate::images::{EncodedImage, RESULT_IMAGES, encoded_images};
use crate::json::{push, short_float, text};
use crate::openai::{push_tools, reply_as_text};
use crate::tool_arguments::{arguments_object, portable_tool_name};

/// Maximum tokens of a reply in the text protocol, unless the request sets its own limit. Needed because a small model
/// constrained to a schema may emit whitespace endlessly.
const TEXT_TOKENS_MAX: u32 = 2048;

#[derive(Debug)]
pub(super) struct ChatParams<'a> {
    /// True to use the text protocol instead of native tools.
    pub(super) text_protocol: bool,
    /// Value of the `think` parameter; `None` leaves it out.
    pub(super) think: Option<bool>,
    /// True if the model thinks before it answers. Its thoughts count toward the output limit.
    pub(super) thinks: bool,
    pub(super) num_ctx: u32,
    pub(super) keep_alive: Option<&'a str>,
    /// Parameters that the server refused.
    pub(super) unsupported_params: &'a [&'static str],
}

pub(super) fn body(request: &ModelRequest, params: &ChatParams<'_>) -> String {
    let mut body = String::from("{\"model\":");
    push(&mut body, &request.model.name);
    body.push_str(",\"messages\":[");
    push_system(&mut body, request, params);
    for message in &request.messages {
        push_message(&mut body, message, request, params);
    }
    if body.ends_with(',') {
        body.pop();
    }
    body.push_str("],\"stream\":true,\"truncate\":false,\"shift\":false");
    if params.text_protocol {
        if !params.unsupported_params.contains(&FORMAT) {
            body.push_str(",\"format\":");
            push(&mut body, &text_protocol::schema(&request.tools, request.must_call));
        }
    } else if !request.tools.is_empty() {
        body.push_str(",\"tools\":[");
        push_tools(&mut body, request);
        body.push(']');
    }
    if let Some(think) = params.think {
        body.push_str(&format!(",\"think\":{think}"));
    }
    if let Some(keep_alive) = params.keep_alive {
        body.push_str(",\"keep_alive\":");
        // A bare number means seconds, but only as a JSON number.
        match keep_alive.trim().parse::<i64>() {
            Ok(seconds) => push(&mut body, &seconds),
            Err(_) => push(&mut body, keep_alive),
        }
    }
    body.push_str(",\"options\":");
    push(&mut body, &options(request, params));
    body.push('}');
    body
}

fn options(request: &ModelRequest, params: &ChatParams<'_>) -> Value {
    let mut options = json!({"num_ctx": params.num_ctx});
    let sampling_defaults = request.sampling_defaults;
    let limit = request.max_output_tokens.or(params.text_protocol.then_some(TEXT_TOKENS_MAX));
    if let Some(limit) = limit.or(sampling_defaults.reply_tokens(params.thinks)) {
        options["num_predict"] = json!(limit);
    }
    let temperature = request.temperature.or(params.text_protocol.then_some(0.0));
    if let Some(temperature) = temperature.or(sampling_defaults.temperature) {
        options["temperature"] = short_float(temperature);
    }
    if params.text_protocol {
        // Stops a model that invents the result of its own call.
        options["stop"] = json!(["\nObservation"]);
    }
    options
}

fn push_system(body: &mut String, request: &ModelRequest, params: &ChatParams<'_>) {
    let system = if params.text_protocol {
        Cow::Owned(text_protocol::system(request))
    } else {
        Cow::Borrowed(&*request.system)
    };
    if !system.is_empty() {
        body.push_str(&text_message("system", &system));
    }
}

/// Appends a message in the API's form, followed by a comma. Several tool results become several API messages.
fn push_message(
    body: &mut String,
    message: &HistoryMessage,
    request: &ModelRequest,
    params: &ChatParams<'_>,
) {
    let form = OllamaEncoding::of(message.message(), &request.model, params);
    let encode = |message: &Message| form.encode(message, &request.images);
    match message.encoded(form.cache_key(), encode) {
        Some(kept) => body.push_str(kept),
        None => body.push_str(&encode(message.message())),
    }
}

/// Everything that the encoded form of a message depends on besides the message itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OllamaEncoding {
    Native,
    /// With native tools, and with the thoughts that this same model sent.
    NativeWithThinking,
    /// Without native tools.
    Text,
}

impl OllamaEncoding {
    fn of(message: &Message, model: &ModelRef, params: &ChatParams<'_>) -> Self {
        match message {
            Message::User { .. } => Self::Native,
            Message::Assistant { .. } | Message::ToolResults { .. } if params.text_protocol => Self::Text,
            Message::Assistant { reply } if reply.raw.as_ref().is_some_and(|raw| raw.model == *model) => {
                Self::NativeWithThinking
            }
            Message::Assistant { .. } | Message::ToolResults { .. } => Self::Native,
        }
    }

    fn cache_key(self) -> &'static str {
        match self {
            Self::Native => "ollama",
            Self::NativeWithThinking => "ollama own",
            Self::Text => "ollama text",
        }
    }

    fn encode(self, message: &Message, data: &RequestImages) -> String {
        #[cfg(test)]
        tests::ENCODED.with(|count| count.set(count.get() + 1));
        match (message, self) {
            (Message::User { text, images }, _) => user_message(text, encoded_images(images, data)),
            (Message::Assistant { reply }, Self::Text) => text_message("assistant", &reply_as_text(reply)),
            (Message::Assistant { reply }, Self::Native | Self::NativeWithThinking) => assistant(reply, self),
            (Message::ToolResults { results }, Self::Text) => {
                text_message("user", &text_protocol::render_results(results))
            }
            (Message::ToolResults { results }, Self::Native | Self::NativeWithThinking) => {
                let images = message.images().cloned().collect::<Vec<_>>();
                let results = results.iter().map(tool_result).collect::<String>();
                // The templates of most models show only the images in user messages.
                match encoded_images(&images, data) {
                    images if images.is_empty() => results,
                    images => results + &user_message(RESULT_IMAGES, images),
                }
            }
        }
    }
}

fn text_message(role: &str, content: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":{}}},", text(content))
}

fn user_message(content: &str, images: Vec<EncodedImage>) -> String {
    if images.is_empty() {
        return text_message("user", content);
    }
    let images: Vec<String> = images.into_iter().map(|image| image.base64).collect();
    format!("{},", json!({"role": "user", "content": content, "images": images}))
}

fn assistant(reply: &Reply, form: OllamaEncoding) -> String {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if let Some(raw) = reply.raw.as_ref().filter(|_| form == OllamaEncoding::NativeWithThinking)
        && raw.value["thinking"].is_string()
    {
        message["thinking"] = raw.value["thinking"].clone();
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            json!({"id": call.wire_id(), "function": {
                "name": portable_tool_name(&call.name), "arguments": arguments_object(&call.arguments)}})
        });
        message["tool_calls"] = calls.collect();
    }
    format!("{message},")
}

fn tool_result(result: &ToolResult) -> String {
    format!(
        "{{\"role\":\"tool\",\"tool_name\":{},\"tool_call_id\":{},\"content\":{}}},",
        text(&portable_tool_name(&result.name)),
        text(result.wire_id()),
        text(&result.output)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use sysop_core::message::ToolProtocol;
    use sysop_core::mode::{Mode, SamplingDefaults};

    use super::*;

    thread_local! {
        pub(super) static ENCODED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn encodes_each_message_once_over_many_steps() {
        let params = ChatParams {
            text_protocol: true,
            think: None,
            thinks: false,
            num_ctx: 4096,
            keep_alive: None,
            unsupported_params: &[],
        };
        let mut messages = vec![HistoryMessage::new(Message::user("go"))];
        for _ in 0..50 {
            let reply = Reply { text: "x".to_owned(), protocol: ToolProtocol::Text, ..Reply::default() };
            messages.push(HistoryMessage::new(Message::Assistant { reply }));
            messages.push(HistoryMessage::new(Message::ToolResults { results: Vec::new() }));
            let request = ModelRequest {
                model: ModelRef::new("ollama", "phi3"),
                system: Arc::from(""),
                messages: messages.clone(),
                trimmed: false,
                images: RequestImages::default(),
                tools: Arc::from([]),
                known_tools: Arc::from([]),
                max_output_tokens: None,
                temperature: None,
                mode: Mode::Agent,
                effort: None,
                calls_as_text: false,
                must_call: false,
                text_system: None,
                sampling_defaults: SamplingDefaults::default(),
            };
            assert!(serde_json::from_str::<Value>(&body(&request, &params)).is_ok());
        }
        assert_eq!(ENCODED.with(Cell::get), messages.len());
    }
}
