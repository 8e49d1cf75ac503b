//! Encodes a request. A message is encoded once, as its parts joined by commas; each request adds roles around those
//! bytes and merges neighboring messages of one role.

use std::borrow::Cow;

use crate::text_protocol::{self, TextToolCall};
use serde_json::{Map, Value, json};
use sysop_core::image::ImageRef;
use sysop_core::message::{
    Arguments, FinishReason, HistoryMessage, Message, ModelRequest, Reply, ToolResult,
};

use super::bare;
use crate::api::ModelQuirks;
use crate::images::{EncodedImage, encoded_images};
use crate::json::short_float;

/// Entries of `ModelQuirks::unsupported_params`: features that the server was found to refuse.
pub(crate) mod quirk {
    /// Thought signatures: a placeholder is sent instead.
    pub(crate) const SIGNATURES: &str = "thought signatures";
    pub(crate) const THINKING: &str = "thinkingConfig";
    /// `systemInstruction`: the system prompt is sent at the start of the conversation instead.
    pub(crate) const SYSTEM: &str = "systemInstruction";
}

/// Placeholder sent with a call that has no signature from the current model. The vendor's own client also sends it.
const SIGNATURE_DUMMY: &str = "skip_thought_signature_validator";
/// First model generation that shows its thoughts and signs its calls.
const SIGNED_SINCE: u32 = 3;
const NAME_BYTES_MAX: usize = 128;
/// Placeholder for a user message that the API requires but the history does not have.
const CONTINUE: &str = r#"{"text":"Continue."}"#;
/// Key under which the text of invalid arguments is sent, because the API accepts only an object.
const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// Form in which a message is encoded. The encoded message depends only on the message and this value, so it can be
/// cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeminiEncoding {
    /// The server's own parts, verbatim. Results carry the call ids that the server gave.
    Echo,
    /// The server's own parts, verbatim. Results carry no call ids, because the server gave no ids.
    EchoWithoutIds,
    /// Text and calls, rebuilt because another model wrote them. The first call has the placeholder signature.
    Signed,
    /// Text and calls, rebuilt, for models without signatures.
    Unsigned,
    /// Calls and results as text, for models without tools.
    TextProtocol,
}

impl GeminiEncoding {
    fn cache_key(self) -> &'static str {
        match self {
            Self::Echo => "gemini",
            Self::EchoWithoutIds => "gemini without ids",
            Self::Signed => "gemini signed",
            Self::Unsigned => "gemini unsigned",
            Self::TextProtocol => "gemini in text",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentRole {
    User,
    Model,
}

/// One API content: a role and at least one encoded part.
struct GeminiContent<'a> {
    role: ContentRole,
    parts: Vec<Cow<'a, str>>,
}

pub(crate) fn body(request: &ModelRequest, quirks: &ModelQuirks) -> String {
    let quirks = &*quirks.for_request(request);
    let mut turns = turns(request, quirks);
    let mut body = String::from("{");
    let system = system(request, quirks);
    if !system.trim().is_empty() {
        let part = json!({"text": &*system}).to_string();
        if quirks.unsupported_params.contains(&quirk::SYSTEM) {
            turns[0].parts.insert(0, Cow::Owned(part));
        } else {
            body.push_str(&format!(r#""systemInstruction":{{"parts":[{part}]}},"#));
        }
    }
    if let Some(tools) = tools(request).filter(|_| !quirks.text_protocol) {
        body.push_str(&format!(r#""tools":{tools},"#));
    }
    let options = options(request, quirks);
    if !options.is_empty() {
        body.push_str(&format!(r#""generationConfig":{},"#, Value::Object(options)));
    }
    body.push_str(r#""contents":["#);
    push_turns(&mut body, &turns);
    body.push_str("]}");
    body
}

/// Returns the generation in a model's name, or `u32::MAX` for a name such as `gemini-pro-latest`, which follows the
/// newest model. `None` if the name shows no generation.
fn generation(model: &str) -> Option<u32> {
    let rest = bare(model).strip_prefix("gemini-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    if digits.is_empty() && rest.ends_with("-latest") { Some(u32::MAX) } else { digits.parse().ok() }
}

/// Returns true if the model is known to show its thoughts.
fn shows_thoughts(model: &str) -> bool {
    generation(model).is_some_and(|number| number >= SIGNED_SINCE)
}

/// Returns true if the model is known to predate signatures.
fn is_old(model: &str) -> bool {
    bare(model).starts_with("gemma") || generation(model).is_some_and(|number| number < SIGNED_SINCE)
}

/// Returns true if the model is known not to think. Other models may think, and their thoughts count toward the output
/// limit.
fn never_thinks(model: &str) -> bool {
    let name = bare(model);
    name.starts_with("gemma")
        || name.starts_with("gemini-2.0")
        || generation(model).is_some_and(|number| number < 2)
}

fn system<'a>(request: &'a ModelRequest, quirks: &ModelQuirks) -> Cow<'a, str> {
    if quirks.text_protocol {
        return Cow::Owned(text_protocol::system(request));
    }
    Cow::Borrowed(&request.system)
}

/// Returns the `tools` field, which declares all tools in one entry. A tool without parameters is sent without a
/// schema, as the API requires. Returns `None` if there are no tools.
fn tools(request: &ModelRequest) -> Option<Value> {
    let functions: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let mut function = json!({"name": tool.name, "description": tool.description});
            if tool.parameters["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
                function["parametersJsonSchema"] = Value::clone(&tool.parameters);
            }
            function
        })
        .collect();
    (!functions.is_empty()).then(|| json!([{ "functionDeclarations": functions }]))
}

fn options(request: &ModelRequest, quirks: &ModelQuirks) -> Map<String, Value> {
    let model = &request.model.name;
    let mut options = Map::new();
    let sampling_defaults = request.sampling_defaults;
    if let Some(tokens) = request.max_output_tokens.or(sampling_defaults.reply_tokens(!never_thinks(model))) {
        options.insert("maxOutputTokens".to_owned(), json!(tokens));
    }
    if let Some(temperature) = request.temperature.or(sampling_defaults.temperature).filter(|_| is_old(model))
    {
        options.insert("temperature".to_owned(), short_float(temperature));
    }
    if shows_thoughts(model) && !quirks.unsupported_params.contains(&quirk::THINKING) {
        options.insert("thinkingConfig".to_owned(), json!({"includeThoughts": true}));
    }
    options
}

fn turns<'a>(request: &'a ModelRequest, quirks: &ModelQuirks) -> Vec<GeminiContent<'a>> {
    let mut turns = Vec::new();
    let mut answered = GeminiEncoding::Unsigned;
    for message in &request.messages {
        let (role, form) = match message.message() {
            Message::User { .. } => (ContentRole::User, GeminiEncoding::Echo),
            Message::Assistant { reply } => {
                answered = form_of(reply, request, quirks);
                // The model's own parts are the same with and without ids: only results differ.
                (
                    ContentRole::Model,
                    if answered == GeminiEncoding::EchoWithoutIds { GeminiEncoding::Echo } else { answered },
                )
            }
            Message::ToolResults { .. } => (ContentRole::User, answered),
        };
        push_turn(&mut turns, role, encoded(message, form, request));
    }
    if turns.first().is_none_or(|turn| turn.role == ContentRole::Model) {
        turns.insert(0, GeminiContent { role: ContentRole::User, parts: vec![Cow::Borrowed(CONTINUE)] });
    }
    if turns.last().is_some_and(|turn| turn.role == ContentRole::Model) {
        push_turn(&mut turns, ContentRole::User, Cow::Borrowed(CONTINUE));
    }
    turns
}

fn form_of(reply: &Reply, request: &ModelRequest, quirks: &ModelQuirks) -> GeminiEncoding {
    let distrusted = quirks.unsupported_params.contains(&quirk::SIGNATURES);
    if quirks.text_protocol {
        return GeminiEncoding::TextProtocol;
    }
    match &reply.raw {
        Some(raw) if raw.model == request.model && raw.value.is_array() && !distrusted => {
            let mut calls =
                raw.value.as_array().into_iter().flatten().filter_map(|part| part.get("functionCall"));
            let named = calls.all(|call| call["id"].as_str().is_some_and(|id| !id.is_empty()));
            if named { GeminiEncoding::Echo } else { GeminiEncoding::EchoWithoutIds }
        }
        Some(_) | None if is_old(&request.model.name) && !distrusted => GeminiEncoding::Unsigned,
        Some(_) | None => GeminiEncoding::Signed,
    }
}

fn encoded<'a>(message: &'a HistoryMessage, form: GeminiEncoding, request: &ModelRequest) -> Cow<'a, str> {
    match message.encoded(form.cache_key(), |message| parts_of(message, form, request)) {
        Some(parts) => Cow::Borrowed(parts),
        None => Cow::Owned(parts_of(message.message(), form, request)),
    }
}

/// Appends the parts of a message to the conversation, merging them into the last content if it has the same role.
fn push_turn<'a>(turns: &mut Vec<GeminiContent<'a>>, role: ContentRole, parts: Cow<'a, str>) {
    if parts.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(turn) if turn.role == role => turn.parts.push(parts),
        Some(_) | None => turns.push(GeminiContent { role, parts: vec![parts] }),
    }
}

fn push_turns(body: &mut String, turns: &[GeminiContent<'_>]) {
    for (index, turn) in turns.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(match turn.role {
            ContentRole::User => r#"{"role":"user","parts":["#,
            ContentRole::Model => r#"{"role":"model","parts":["#,
        });
        for (place, parts) in turn.parts.iter().enumerate() {
            if place > 0 {
                body.push(',');
            }
            body.push_str(parts);
        }
        body.push_str("]}");
    }
}

/// Returns the parts of a message joined by commas; empty if the message has no content.
fn parts_of(message: &Message, form: GeminiEncoding, request: &ModelRequest) -> String {
    let parts: Vec<Value> = match message {
        Message::User { text, images } => {
            image_parts(images, request).into_iter().chain(text_part(text)).collect()
        }
        Message::Assistant { reply } => reply_parts(reply, form),
        Message::ToolResults { results } if form == GeminiEncoding::TextProtocol => {
            text_part(&text_protocol::render_results(results)).into_iter().collect()
        }
        Message::ToolResults { results } => {
            let mut parts: Vec<Value> = results.iter().map(|result| result_part(result, form)).collect();
            for (place, result) in results.iter().enumerate() {
                let images = image_parts(&result.images, request);
                if images.is_empty() {
                    // The common case.
                } else if shows_thoughts(&request.model.name) {
                    parts[place]["functionResponse"]["parts"] = Value::Array(images);
                } else {
                    parts.extend(images); // older models take no images inside a result
                }
            }
            parts
        }
    };
    let texts: Vec<String> = parts.iter().map(Value::to_string).collect();
    texts.join(",")
}

fn image_parts(images: &[ImageRef], request: &ModelRequest) -> Vec<Value> {
    let part =
        |image: EncodedImage| json!({"inlineData": {"mimeType": image.media_type, "data": image.base64}});
    encoded_images(images, &request.images).into_iter().map(part).collect()
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

fn reply_parts(reply: &Reply, form: GeminiEncoding) -> Vec<Value> {
    if reply.finish == FinishReason::Refused {
        return Vec::new(); // a refused reply must not be sent back
    }
    let raw = reply.raw.as_ref().and_then(|raw| raw.value.as_array());
    match (form, raw) {
        (GeminiEncoding::Echo | GeminiEncoding::EchoWithoutIds, Some(parts)) => parts.clone(),
        (GeminiEncoding::Echo | GeminiEncoding::EchoWithoutIds | GeminiEncoding::Unsigned, _) => {
            fresh_parts(reply, false)
        }
        (GeminiEncoding::Signed, _) => fresh_parts(reply, true),
        (GeminiEncoding::TextProtocol, _) => text_part(&render_call(reply)).into_iter().collect(),
    }
}

/// Rebuilds a reply's parts without call ids, because another server assigned the ids. The API matches a call with its
/// result by order and name.
fn fresh_parts(reply: &Reply, signed: bool) -> Vec<Value> {
    let calls = reply.calls.iter().enumerate().map(|(index, call)| {
        let args = match &call.arguments {
            Arguments::Object(map) => Value::Object(map.clone()),
            Arguments::Invalid(text) => json!({ INVALID_ARGUMENTS: text }),
        };
        let mut part = json!({"functionCall": {"name": function_name(&call.name), "args": args}});
        if signed && index == 0 {
            part["thoughtSignature"] = json!(SIGNATURE_DUMMY);
        }
        part
    });
    text_part(&reply.text).into_iter().chain(calls).collect()
}

fn render_call(reply: &Reply) -> String {
    let calls = reply.calls.iter().map(|call| {
        text_protocol::render_call(&TextToolCall {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        })
    });
    let said = (!reply.text.is_empty()).then(|| reply.text.clone());
    said.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

fn result_part(result: &ToolResult, form: GeminiEncoding) -> Value {
    let name = match form {
        GeminiEncoding::Echo | GeminiEncoding::EchoWithoutIds => result.name.clone(),
        GeminiEncoding::Signed | GeminiEncoding::Unsigned | GeminiEncoding::TextProtocol => {
            function_name(&result.name)
        }
    };
    let key = if result.is_error { "error" } else { "output" };
    let mut response = json!({"name": name, "response": { key: result.output }});
    if form == GeminiEncoding::Echo {
        response["id"] = json!(result.wire_id());
    }
    json!({ "functionResponse": response })
}

/// Converts a tool name to the characters that the API allows.
fn function_name(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':' | '-') {
            character
        } else {
            '_'
        }
    };
    let mut text: String = name.chars().map(plain).collect();
    if !text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        text.insert(0, '_');
    }
    text.truncate(NAME_BYTES_MAX);
    text
}
