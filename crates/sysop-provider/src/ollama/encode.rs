//! Writes a request of Ollama's own API. Each message is encoded once and kept beside it.

use serde_json::{Value, json};
use sysop_core::message::{HistoryMessage, Message, ModelRef, ModelRequest, Reply, ToolResult};
use sysop_core::text_protocol;

use crate::calls::{sendable_arguments, sendable_name};
use crate::json::{push, short, text};
use crate::openai::{push_tools, reply_as_text};

use super::FORMAT;

/// The most tokens of a reply in the text protocol, where the request has no limit of its own: a small model that
/// is bound to a schema may write blanks for ever.
const TEXT_TOKENS_MAX: u32 = 2048;

/// How a request is written.
#[derive(Debug)]
pub(super) struct Style<'a> {
    /// The text protocol, in place of the API's own tools.
    pub(super) text_protocol: bool,
    /// `think`, where it is said at all.
    pub(super) think: Option<bool>,
    /// Whether it thinks first: its thoughts count as an answer would.
    pub(super) thinks: bool,
    pub(super) num_ctx: u32,
    pub(super) keep_alive: Option<&'a str>,
    /// What the server refused.
    pub(super) without: &'a [&'static str],
}

/// The whole body.
pub(super) fn body(request: &ModelRequest, style: &Style<'_>) -> String {
    let mut body = String::from("{\"model\":");
    push(&mut body, &request.model.name);
    body.push_str(",\"messages\":[");
    push_system(&mut body, request, style);
    for message in &request.messages {
        push_message(&mut body, message, &request.model, style);
    }
    if body.ends_with(',') {
        body.pop();
    }
    body.push_str("],\"stream\":true,\"truncate\":false,\"shift\":false");
    if style.text_protocol {
        if !style.without.contains(&FORMAT) {
            body.push_str(",\"format\":");
            push(&mut body, &text_protocol::schema(&request.tools));
        }
    } else if !request.tools.is_empty() {
        body.push_str(",\"tools\":[");
        push_tools(&mut body, request);
        body.push(']');
    }
    if let Some(think) = style.think {
        body.push_str(&format!(",\"think\":{think}"));
    }
    if let Some(keep_alive) = style.keep_alive {
        body.push_str(",\"keep_alive\":");
        // A bare number means seconds, and only as a number.
        match keep_alive.trim().parse::<i64>() {
            Ok(seconds) => push(&mut body, &seconds),
            Err(_) => push(&mut body, keep_alive),
        }
    }
    body.push_str(",\"options\":");
    push(&mut body, &options(request, style));
    body.push('}');
    body
}

fn options(request: &ModelRequest, style: &Style<'_>) -> Value {
    let mut options = json!({"num_ctx": style.num_ctx});
    let usual = request.usual;
    let limit = request.max_output_tokens.or(style.text_protocol.then_some(TEXT_TOKENS_MAX));
    if let Some(limit) = limit.or(usual.output_tokens.filter(|_| !style.thinks)) {
        options["num_predict"] = json!(limit);
    }
    let temperature = request.temperature.or(style.text_protocol.then_some(0.0));
    if let Some(temperature) = temperature.or(usual.temperature) {
        options["temperature"] = short(temperature);
    }
    if style.text_protocol {
        // A model that makes up the result of its own call is cut there.
        options["stop"] = json!(["\nObservation"]);
    }
    options
}

fn push_system(body: &mut String, request: &ModelRequest, style: &Style<'_>) {
    let mut system = request.system.to_string();
    if style.text_protocol {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(&text_protocol::instructions(&request.tools));
    }
    if !system.is_empty() {
        body.push_str(&said("system", &system));
    }
}

/// Adds a message, or several for several results, each with a comma behind it.
fn push_message(body: &mut String, message: &HistoryMessage, model: &ModelRef, style: &Style<'_>) {
    let form = Form::of(message.message(), model, style);
    match message.encoded(form.name(), |message| form.encode(message)) {
        Some(kept) => body.push_str(kept),
        None => body.push_str(&form.encode(message.message())),
    }
}

/// All that the encoded form of a message depends on, beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With the API's own tools.
    Native,
    /// The same, with what this very model thought.
    Own,
    /// Without tools.
    Text,
}

impl Form {
    fn of(message: &Message, model: &ModelRef, style: &Style<'_>) -> Self {
        match message {
            Message::User { .. } => Self::Native,
            Message::Assistant { .. } | Message::ToolResults { .. } if style.text_protocol => Self::Text,
            Message::Assistant { reply } if reply.raw.as_ref().is_some_and(|raw| raw.model == *model) => {
                Self::Own
            }
            Message::Assistant { .. } | Message::ToolResults { .. } => Self::Native,
        }
    }

    /// The name under which the encoded form is kept.
    fn name(self) -> &'static str {
        match self {
            Self::Native => "ollama",
            Self::Own => "ollama own",
            Self::Text => "ollama text",
        }
    }

    fn encode(self, message: &Message) -> String {
        #[cfg(test)]
        tests::ENCODED.with(|count| count.set(count.get() + 1));
        match (message, self) {
            (Message::User { text }, _) => said("user", text),
            (Message::Assistant { reply }, Self::Text) => said("assistant", &reply_as_text(reply)),
            (Message::Assistant { reply }, Self::Native | Self::Own) => assistant(reply, self),
            (Message::ToolResults { results }, Self::Text) => said("user", &text_protocol::results(results)),
            (Message::ToolResults { results }, Self::Native | Self::Own) => {
                results.iter().map(tool_result).collect()
            }
        }
    }
}

fn said(role: &str, content: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":{}}},", text(content))
}

fn assistant(reply: &Reply, form: Form) -> String {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if let Some(raw) = reply.raw.as_ref().filter(|_| form == Form::Own)
        && raw.value["thinking"].is_string()
    {
        message["thinking"] = raw.value["thinking"].clone();
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            json!({"id": call.wire_id(), "function": {
                "name": sendable_name(&call.name), "arguments": sendable_arguments(&call.arguments)}})
        });
        message["tool_calls"] = calls.collect();
    }
    format!("{message},")
}

fn tool_result(result: &ToolResult) -> String {
    format!(
        "{{\"role\":\"tool\",\"tool_name\":{},\"tool_call_id\":{},\"content\":{}}},",
        text(&sendable_name(&result.name)),
        text(result.wire_id()),
        text(&result.output)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use sysop_core::message::ToolProtocol;
    use sysop_core::mode::{Mode, Usual};

    use super::*;

    thread_local! {
        pub(super) static ENCODED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn encodes_each_message_once_over_many_steps() {
        let style = Style {
            text_protocol: true,
            think: None,
            thinks: false,
            num_ctx: 4096,
            keep_alive: None,
            without: &[],
        };
        let mut messages = vec![HistoryMessage::new(Message::User { text: "go".to_owned() })];
        for _ in 0..50 {
            let reply = Reply { text: "x".to_owned(), protocol: ToolProtocol::Text, ..Reply::default() };
            messages.push(HistoryMessage::new(Message::Assistant { reply }));
            messages.push(HistoryMessage::new(Message::ToolResults { results: Vec::new() }));
            let request = ModelRequest {
                model: ModelRef::new("ollama", "phi3"),
                system: Arc::from(""),
                messages: messages.clone(),
                trimmed: false,
                tools: Arc::from([]),
                max_output_tokens: None,
                temperature: None,
                mode: Mode::Agent,
                usual: Usual::default(),
            };
            assert!(serde_json::from_str::<Value>(&body(&request, &style)).is_ok());
        }
        assert_eq!(ENCODED.with(Cell::get), messages.len());
    }
}
