//! Encodes a request. A message is encoded once, as its content blocks joined by commas; each request adds roles and
//! cache marks around those bytes and merges neighboring messages of one role.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sysop_core::image::{ImageRef, RequestImages};
use sysop_core::message::{
    Arguments, FinishReason, HistoryMessage, Message, ModelRequest, Reply, ToolResult,
};

use crate::api::ModelQuirks;
use crate::images::{EncodedImage, encoded_images};

/// Entries of `ModelQuirks::unsupported_params`: features that the server was found to refuse.
pub(super) mod quirk {
    /// The whole `thinking` parameter.
    pub(crate) const THINKING: &str = "thinking";
    pub(crate) const DISPLAY: &str = "thinking.display";
    /// The server binds thinking to the exact conversation before it; later requests drop what no longer matches.
    pub(crate) const STRICT_BINDING: &str = "strict thinking binding";
    /// `thinking.block_binding` and its beta header.
    pub(crate) const BLOCK_BINDING: &str = "thinking.block_binding";
    pub(crate) const THINKING_BLOCKS: &str = "thinking blocks";
    /// A `max_tokens` above [`super::SHORT_ANSWER_TOKENS`].
    pub(crate) const LONG_ANSWERS: &str = "long answers";
}

/// Default for `max_tokens`; tokens spent on thinking count toward it.
const ANSWER_TOKENS: u32 = 16_000;
/// Value of `max_tokens` for models that refuse a larger one.
const SHORT_ANSWER_TOKENS: u32 = 4_096;
/// First model generation (major, minor) that decides by itself how much to think.
const ADAPTIVE_SINCE: (u32, u32) = (4, 6);
/// Maximum digits of a version number in a model's name; a longer run of digits is a date.
const VERSION_DIGITS_MAX: usize = 2;
/// Number of newest user turns that end in a cache mark. Of the API's four, tools and system prompt use two.
const MARKED_TURNS: usize = 2;
const NAME_BYTES_MAX: usize = 128;
/// Placeholder for a user message that the API requires but the history does not have.
const CONTINUE: &str = r#"{"type":"text","text":"Continue."}"#;
/// Key under which the text of invalid arguments is sent, because the API accepts only an object.
pub(super) const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// Form in which a message is encoded. Message and form alone determine the result, so it can be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnthropicEncoding {
    /// The server's own blocks, verbatim.
    Echo,
    /// The server's own blocks without thinking.
    EchoWithoutThinking,
    /// Text and calls of another model, rebuilt in this API's form.
    Rebuilt,
}

impl AnthropicEncoding {
    fn cache_key(self) -> &'static str {
        match self {
            Self::Echo => "anthropic",
            Self::EchoWithoutThinking => "anthropic without thinking",
            Self::Rebuilt => "anthropic rebuilt",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageRole {
    User,
    Assistant,
}

/// One API message: a role and at least one encoded content block.
struct AnthropicMessage<'a> {
    role: MessageRole,
    blocks: Vec<Cow<'a, str>>,
}

pub(super) fn body(request: &ModelRequest, quirks: &ModelQuirks) -> String {
    let mut head = Map::new();
    head.insert("model".to_owned(), json!(request.model.name));
    head.insert("max_tokens".to_owned(), json!(max_tokens(request, quirks)));
    head.insert("stream".to_owned(), json!(true));
    if !request.system.trim().is_empty() {
        let block = json!({"type": "text", "text": &*request.system, "cache_control": {"type": "ephemeral"}});
        head.insert("system".to_owned(), json!([block]));
    }
    insert_tools(&mut head, request);
    if let Some(thinking) = thinking(request, quirks) {
        head.insert("thinking".to_owned(), thinking);
    }
    let mut body = Value::Object(head).to_string();
    body.pop();
    body.push_str(",\"messages\":[");
    push_turns(&mut body, &turns(request, quirks));
    body.push_str("]}");
    body
}

/// Returns true if the request asks the server to drop thinking that no longer matches the conversation before it.
pub(super) fn drops_unbound_thinking(request: &ModelRequest, quirks: &ModelQuirks) -> bool {
    (request.trimmed || quirks.unsupported_params.contains(&quirk::STRICT_BINDING))
        && thinks_adaptively(request, quirks)
        && !quirks.unsupported_params.contains(&quirk::BLOCK_BINDING)
}

fn thinks_adaptively(request: &ModelRequest, quirks: &ModelQuirks) -> bool {
    is_adaptive(&request.model.name) && !quirks.unsupported_params.contains(&quirk::THINKING)
}

fn thinking(request: &ModelRequest, quirks: &ModelQuirks) -> Option<Value> {
    if !thinks_adaptively(request, quirks) {
        return None;
    }
    let mut thinking = json!({"type": "adaptive"});
    if !quirks.unsupported_params.contains(&quirk::DISPLAY) {
        thinking["display"] = json!("summarized");
    }
    if drops_unbound_thinking(request, quirks) {
        thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    }
    Some(thinking)
}

/// Returns true if the request must leave out thinking blocks.
fn strips_thinking(request: &ModelRequest, quirks: &ModelQuirks) -> bool {
    quirks.unsupported_params.contains(&quirk::THINKING_BLOCKS)
        || (request.trimmed && !drops_unbound_thinking(request, quirks))
}

/// Returns true if a model accepts `thinking: adaptive` according to its name, which must state a generation.
fn is_adaptive(model: &str) -> bool {
    let Some(rest) = model.strip_prefix("claude-") else { return false };
    let mut words = rest.split('-');
    if !words.next().is_some_and(|family| family.chars().all(char::is_alphabetic)) {
        return false; // the oldest models put the number first
    }
    let mut number = || {
        let word = words.next().filter(|word| word.len() <= VERSION_DIGITS_MAX)?;
        word.parse::<u32>().ok()
    };
    number().is_some_and(|major| (major, number().unwrap_or(0)) >= ADAPTIVE_SINCE)
}

fn max_tokens(request: &ModelRequest, quirks: &ModelQuirks) -> u32 {
    let most = if request.model.name.starts_with("claude-3-")
        || quirks.unsupported_params.contains(&quirk::LONG_ANSWERS)
    {
        SHORT_ANSWER_TOKENS
    } else {
        u32::MAX
    };
    let sampling_defaults = request.sampling_defaults.reply_tokens(is_adaptive(&request.model.name));
    request.max_output_tokens.or(sampling_defaults).unwrap_or(ANSWER_TOKENS).min(most).max(1)
}

/// Adds the tools, with a cache mark on the last one. If no tool may be called but the history holds calls, the tools
/// of those calls are declared, because the API requires it.
fn insert_tools(head: &mut Map<String, Value>, request: &ModelRequest) {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
        })
        .collect();
    if tools.is_empty() {
        tools = called_names(request)
            .into_iter()
            .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
            .collect();
        if !tools.is_empty() {
            head.insert("tool_choice".to_owned(), json!({"type": "none"}));
        }
    }
    if let Some(last) = tools.last_mut() {
        last["cache_control"] = json!({"type": "ephemeral"});
        head.insert("tools".to_owned(), Value::Array(tools));
    }
}

fn called_names(request: &ModelRequest) -> Vec<String> {
    let mut names = Vec::new();
    for message in &request.messages {
        let Message::Assistant { reply } = message.message() else { continue };
        for call in &reply.calls {
            let name = tool_name(&call.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn turns<'a>(request: &'a ModelRequest, quirks: &ModelQuirks) -> Vec<AnthropicMessage<'a>> {
    let strips = strips_thinking(request, quirks);
    let mut turns = Vec::new();
    let mut answered = AnthropicEncoding::Echo;
    for message in &request.messages {
        let (role, form) = match message.message() {
            Message::User { .. } => (MessageRole::User, AnthropicEncoding::Echo),
            Message::Assistant { reply } => {
                let form = form_of(reply, request, strips);
                answered = if form == AnthropicEncoding::Rebuilt {
                    AnthropicEncoding::Rebuilt
                } else {
                    AnthropicEncoding::Echo
                };
                (MessageRole::Assistant, form)
            }
            Message::ToolResults { .. } => (MessageRole::User, answered),
        };
        push_turn(&mut turns, role, encoded(message, form, &request.images));
    }
    if turns.first().is_some_and(|turn| turn.role == MessageRole::Assistant) {
        turns.insert(0, AnthropicMessage { role: MessageRole::User, blocks: vec![Cow::Borrowed(CONTINUE)] });
    }
    if turns.last().is_none_or(|turn| turn.role == MessageRole::Assistant) {
        push_turn(&mut turns, MessageRole::User, Cow::Borrowed(CONTINUE));
    }
    turns
}

fn form_of(reply: &Reply, request: &ModelRequest, strips: bool) -> AnthropicEncoding {
    match &reply.raw {
        Some(raw) if raw.model == request.model && raw.value.is_array() => {
            if strips {
                AnthropicEncoding::EchoWithoutThinking
            } else {
                AnthropicEncoding::Echo
            }
        }
        Some(_) | None => AnthropicEncoding::Rebuilt,
    }
}

fn encoded<'a>(message: &'a HistoryMessage, form: AnthropicEncoding, data: &RequestImages) -> Cow<'a, str> {
    match message.encoded(form.cache_key(), |message| blocks_of(message, form, data)) {
        Some(blocks) => Cow::Borrowed(blocks),
        None => Cow::Owned(blocks_of(message.message(), form, data)),
    }
}

/// Appends the blocks of a message to the conversation, merging them into the last turn if it has the same role.
fn push_turn<'a>(turns: &mut Vec<AnthropicMessage<'a>>, role: MessageRole, blocks: Cow<'a, str>) {
    if blocks.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(turn) if turn.role == role => turn.blocks.push(blocks),
        Some(_) | None => turns.push(AnthropicMessage { role, blocks: vec![blocks] }),
    }
}

fn push_turns(body: &mut String, turns: &[AnthropicMessage<'_>]) {
    let users = turns.iter().filter(|turn| turn.role == MessageRole::User).count();
    let mut user = 0;
    for (index, turn) in turns.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        let role = match turn.role {
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
        };
        body.push_str(r#"{"role":""#);
        body.push_str(role);
        body.push_str(r#"","content":["#);
        for (place, blocks) in turn.blocks.iter().enumerate() {
            if place > 0 {
                body.push(',');
            }
            body.push_str(blocks);
        }
        if turn.role == MessageRole::User {
            user += 1;
            if user + MARKED_TURNS > users {
                body.pop();
                body.push_str(r#","cache_control":{"type":"ephemeral"}}"#);
            }
        }
        body.push_str("]}");
    }
}

/// Returns the content blocks of a message joined by commas; empty if the message has no content.
fn blocks_of(message: &Message, form: AnthropicEncoding, data: &RequestImages) -> String {
    let blocks: Vec<Value> = match message {
        // Models read images better before the text.
        Message::User { text, images } => {
            image_blocks(images, data).into_iter().chain(text_block(text)).collect()
        }
        Message::Assistant { reply } => reply_blocks(reply, form),
        Message::ToolResults { results } => {
            results.iter().map(|result| result_block(result, form, data)).collect()
        }
    };
    let texts: Vec<String> = blocks.iter().map(Value::to_string).collect();
    texts.join(",")
}

fn image_blocks(images: &[ImageRef], data: &RequestImages) -> Vec<Value> {
    let block = |image: EncodedImage| {
        json!({"type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}})
    };
    encoded_images(images, data).into_iter().map(block).collect()
}

/// Returns a text block, or `None` if the text is blank, because the API refuses blank blocks.
fn text_block(text: &str) -> Option<Value> {
    let text = text.trim_end();
    (!text.is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn reply_blocks(reply: &Reply, form: AnthropicEncoding) -> Vec<Value> {
    if reply.finish == FinishReason::Refused {
        return Vec::new(); // a refused reply must not be sent back
    }
    let raw = reply.raw.as_ref().and_then(|raw| raw.value.as_array());
    match (form, raw) {
        (AnthropicEncoding::Echo, Some(blocks)) => blocks.clone(),
        (AnthropicEncoding::EchoWithoutThinking, Some(blocks)) => {
            blocks.iter().filter(|block| !is_thinking(block)).cloned().collect()
        }
        (AnthropicEncoding::Echo | AnthropicEncoding::EchoWithoutThinking, None)
        | (AnthropicEncoding::Rebuilt, _) => fresh_blocks(reply),
    }
}

pub(super) fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn fresh_blocks(reply: &Reply) -> Vec<Value> {
    let calls = reply.calls.iter().map(|call| {
        json!({
            "type": "tool_use",
            "id": tool_id(call.id.as_str()),
            "name": tool_name(&call.name),
            "input": input_of(&call.arguments),
        })
    });
    text_block(&reply.text).into_iter().chain(calls).collect()
}

/// Returns the arguments as a JSON object, because the API accepts no other type.
pub(super) fn input_of(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Invalid(text) => json!({ INVALID_ARGUMENTS: text }),
    }
}

/// Returns a `tool_result` block. Its id is the server's own call id if the call is echoed, otherwise sysop's id, which
/// is unique in the session.
fn result_block(result: &ToolResult, form: AnthropicEncoding, data: &RequestImages) -> Value {
    let id = match form {
        AnthropicEncoding::Echo | AnthropicEncoding::EchoWithoutThinking => result.wire_id().to_owned(),
        AnthropicEncoding::Rebuilt => tool_id(result.call.as_str()),
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": id});
    let images = image_blocks(&result.images, data);
    if !images.is_empty() {
        block["content"] = images.into_iter().chain(text_block(&result.output)).collect();
    } else if !result.output.trim().is_empty() {
        block["content"] = json!(result.output);
    }
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

/// Converts an id to the characters that the API allows, `[A-Za-z0-9_-]+`. Different ids stay different.
fn tool_id(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for character in id.chars() {
        if is_plain(character) {
            text.push(character);
        } else {
            text.push_str(&format!("_{:x}", u32::from(character)));
        }
    }
    if text.is_empty() { "_".to_owned() } else { text }
}

fn tool_name(name: &str) -> String {
    let text: String = name
        .chars()
        .map(|character| if is_plain(character) { character } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    if text.is_empty() { "_".to_owned() } else { text }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}
