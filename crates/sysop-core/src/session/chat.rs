//! Plain chat: its system prompt, and the conversion of the history to text.
//!
//! A plain chat sends no calls, results or tool schemas. Servers therefore need not handle calls to tools
//! that are not offered, and the model sees no example of a call that it could imitate.

use std::sync::Arc;

use crate::image::ImageRef;
use crate::message::{HistoryMessage, Message, Reply, ToolCall, ToolResult};
use crate::mode::CHAT_PROMPT;
use crate::spec::SessionSpec;

/// Result that a model gets if it calls a tool in a plain chat.
pub(super) const NO_TOOLS: &str = "nothing ran: this is a plain chat without tools. Answer in words, and write each \
     command that the user may want to run as <cmd>the command</cmd>";

/// Text that replaces a reply with neither text nor calls.
const EMPTY_REPLY: &str = "(no words)";

/// Returns the system prompt of a plain chat, with the host and the directory if they are known.
pub(super) fn system(spec: &SessionSpec) -> Arc<str> {
    // Quoted, so that neither can be read as anything but a name.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let place = match spec.host.as_str() {
        "" => return Arc::from(CHAT_PROMPT),
        "local" => "this machine".to_owned(),
        host => quoted(host),
    };
    Arc::from(format!("{CHAT_PROMPT}\nThe terminal is on {place}, in the directory {}.", quoted(&spec.root)))
}

/// Converts the history to text messages in which user and model alternate. `completes` returns true for the tools with
/// which a model reports the end of its task: the summary in such a call becomes the text of the reply.
pub(super) fn as_plain_text(
    messages: Vec<HistoryMessage>,
    completes: impl Fn(&str) -> bool,
) -> Vec<HistoryMessage> {
    let mut told: Vec<HistoryMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        match message.message() {
            Message::User { text, images } => match user_message(told.last()) {
                Some((before, images_before)) => {
                    let text = format!("{before}\n\n{text}");
                    let images = [images_before, images].concat();
                    told.pop();
                    told.push(HistoryMessage::new(Message::User { text, images }));
                }
                None => told.push(message),
            },
            Message::Assistant { reply } if reply.calls.is_empty() => told.push(message),
            Message::Assistant { reply } => {
                let text = reply_as_text(reply, &completes);
                told.push(HistoryMessage::new(Message::Assistant {
                    reply: Reply { text, ..Reply::default() },
                }));
            }
            Message::ToolResults { results } => {
                let text = results_as_text(results, &completes);
                let images: Vec<_> = message.message().images().cloned().collect();
                if !text.is_empty() {
                    told.push(HistoryMessage::new(Message::User { text, images }));
                }
            }
        }
    }
    told
}

fn user_message(message: Option<&HistoryMessage>) -> Option<(&str, &[ImageRef])> {
    match message?.message() {
        Message::User { text, images } => Some((text, images)),
        Message::Assistant { .. } | Message::ToolResults { .. } => None,
    }
}

fn reply_as_text(reply: &Reply, completes: impl Fn(&str) -> bool) -> String {
    let calls = reply.calls.iter().map(|call| match call.text_argument("summary") {
        Some(summary) if completes(&call.name) => summary.to_owned(),
        Some(_) | None => call_as_text(call),
    });
    let parts: Vec<String> = std::iter::once(reply.text.clone()).chain(calls).collect();
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { EMPTY_REPLY.to_owned() } else { parts.join("\n\n") }
}

fn call_as_text(call: &ToolCall) -> String {
    match call.text_argument("command") {
        Some(command) => format!("(I called {} with: {command})", call.name),
        None => format!("(I called {} with {})", call.name, call.arguments.to_value()),
    }
}

fn results_as_text(results: &[ToolResult], completes: impl Fn(&str) -> bool) -> String {
    let told = results.iter().filter(|result| result.is_error || !completes(&result.name)).map(|result| {
        let how = if result.is_error { " failed" } else { "" };
        let output = result.output.trim_end();
        let output = if output.is_empty() { "(nothing was printed)" } else { output };
        format!("(result of {}{how})\n{output}", result.name)
    });
    told.collect::<Vec<_>>().join("\n\n")
}
