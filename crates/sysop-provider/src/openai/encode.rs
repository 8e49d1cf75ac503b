//! Encodes a request for the Chat Completions API. Each encoded message is cached with the message.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::text_protocol::{self, TextToolCall};
use serde_json::{Value, json};
use sysop_core::effort::Effort;
use sysop_core::image::RequestImages;
use sysop_core::message::{HistoryMessage, Message, ModelRef, ModelRequest, Reply, ToolResult};
use sysop_core::tool::ToolSpec;

use crate::api::{ModelQuirks, RESPONSE_FORMAT};
use crate::images::{EncodedImage, RESULT_IMAGES, encoded_images};
use crate::json::{push, text};
use crate::tool_arguments::{arguments_object, portable_tool_name};

use super::{
    ASSISTANT_REASONING, MAX_COMPLETION_TOKENS, MAX_TOKENS, REASONING_EFFORT, RETURN_PROGRESS,
    STREAM_OPTIONS, TEMPERATURE, TEXT_TOKENS_MAX,
};

/// Maximum bytes of a call id at api.openai.com.
const ID_BYTES_MAX: usize = 40;
/// Exact length of call ids at api.mistral.ai, in characters.
const MISTRAL_ID_SIGNS: usize = 9;
/// Bytes reserved in a body for everything besides the system prompt, messages and tools.
const BODY_REST_BYTES: usize = 512;

/// Server with requirements beyond the API's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// api.openai.com.
    OpenAi,
    /// api.mistral.ai.
    Mistral,
    /// A llama.cpp server.
    LlamaCpp,
    Other,
}

/// Cached JSON of a session's tools, which are the same in every step.
#[derive(Debug, Default)]
pub(super) struct EncodedToolsCache(Mutex<Option<EncodedTools>>);

#[derive(Debug)]
struct EncodedTools {
    /// Weak reference: it keeps the address from being reused for other tools, but does not keep the tools alive.
    tools: Weak<[ToolSpec]>,
    text: Arc<str>,
}

impl EncodedToolsCache {
    fn text(&self, request: &ModelRequest) -> Arc<str> {
        let mut cached = self.0.lock();
        let tools = Arc::downgrade(&request.tools);
        if let Some(cached) = cached.as_ref().filter(|cached| cached.tools.ptr_eq(&tools)) {
            return Arc::clone(&cached.text);
        }
        let mut text = String::new();
        push_tools(&mut text, request);
        let text: Arc<str> = text.into();
        *cached = Some(EncodedTools { tools, text: Arc::clone(&text) });
        text
    }
}

pub(super) fn body(
    request: &ModelRequest,
    quirks: &ModelQuirks,
    dialect: Dialect,
    tools_cache: &EncodedToolsCache,
) -> String {
    let quirks = &*quirks.for_request(request);
    let sends = |name: &str| !quirks.unsupported_params.contains(&name);
    let messages: Vec<_> =
        request.messages.iter().map(|message| encoded(message, request, quirks, dialect)).collect();
    let native = !quirks.text_protocol && !request.tools.is_empty();
    let tools = native.then(|| tools_cache.text(request));
    let length = messages.iter().map(|message| message.len()).sum::<usize>()
        + tools.as_ref().map_or(0, |tools| tools.len())
        + request.system.len();
    let mut body = String::with_capacity(length + length / 64 + BODY_REST_BYTES);
    body.push_str("{\"model\":");
    push(&mut body, &request.model.name);
    body.push_str(",\"messages\":[");
    push_system(&mut body, request, quirks);
    messages.iter().for_each(|message| body.push_str(message));
    if body.ends_with(',') {
        body.pop();
    }
    body.push_str("],\"stream\":true");
    if sends(STREAM_OPTIONS) {
        body.push_str(",\"stream_options\":{\"include_usage\":true}");
    }
    if dialect == Dialect::LlamaCpp && sends(RETURN_PROGRESS) {
        body.push_str(",\"return_progress\":true");
    }
    if quirks.text_protocol {
        if sends(RESPONSE_FORMAT) {
            let schema = text_protocol::schema(&request.tools, request.must_call);
            let format = json!({"type": "json_schema",
                "json_schema": {"name": "reply", "strict": true, "schema": schema}});
            body.push_str(",\"response_format\":");
            push(&mut body, &format);
        }
    } else if let Some(tools) = tools {
        body.push_str(",\"tools\":[");
        body.push_str(&tools);
        body.push(']');
    }
    let effort = if quirks.reasoning_none { Some(Effort::None) } else { request.effort };
    if let Some(effort) = effort.filter(|_| sends(REASONING_EFFORT)) {
        body.push_str(&format!(",\"reasoning_effort\":\"{}\"", effort.as_str()));
    }
    push_limits(&mut body, request, quirks, dialect);
    body.push('}');
    body
}

fn push_limits(body: &mut String, request: &ModelRequest, quirks: &ModelQuirks, dialect: Dialect) {
    let sends = |name: &str| !quirks.unsupported_params.contains(&name);
    let names = match dialect {
        Dialect::OpenAi => [MAX_COMPLETION_TOKENS, MAX_TOKENS],
        Dialect::Mistral | Dialect::LlamaCpp | Dialect::Other => [MAX_TOKENS, MAX_COMPLETION_TOKENS],
    };
    let (name, sampling_defaults) = (&request.model.name, request.sampling_defaults);
    let limit = request.max_output_tokens.or(quirks.text_protocol.then_some(TEXT_TOKENS_MAX));
    let limit = limit.or(sampling_defaults.reply_tokens(is_reasoning_model(name)));
    if let (Some(limit), Some(name)) = (limit, names.into_iter().find(|name| sends(name))) {
        body.push_str(&format!(",\"{name}\":{limit}"));
    }
    let temperature = request.temperature.or(quirks.text_protocol.then_some(0.0));
    let temperature =
        temperature.or(sampling_defaults.temperature.filter(|_| !is_openai_reasoning_model(name)));
    if let Some(temperature) = temperature.filter(|_| sends(TEMPERATURE)) {
        body.push_str(",\"temperature\":");
        push(body, &temperature);
    }
}

/// Returns a model's name in lowercase, without the path prefix that many servers put before it.
fn bare_model_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase()
}

/// Returns true for OpenAI models that think before they answer. These models accept only the default temperature.
pub(super) fn is_openai_reasoning_model(model: &str) -> bool {
    let name = bare_model_name(model);
    let generation = name.strip_prefix("gpt-").and_then(|rest| rest.chars().next()?.to_digit(10));
    let is_o = ["o1", "o3", "o4", "codex-", "computer-use"].iter().any(|family| name.starts_with(family));
    (is_o || generation.is_some_and(|generation| generation >= 5)) && !name.contains("chat")
}

/// Returns true if the name suggests a model that thinks before it answers. A limit meant for answers alone would cut
/// off its thoughts.
fn is_reasoning_model(model: &str) -> bool {
    const FAMILIES: [&str; 7] = ["gpt-oss", "deepseek-r", "qwq", "qwen3", "magistral", "glm-", "minimax-m"];
    let name = bare_model_name(model);
    is_openai_reasoning_model(model)
        || FAMILIES.iter().any(|family| name.starts_with(family))
        || name.contains("think")
        || name.contains("reason")
}

fn push_system(body: &mut String, request: &ModelRequest, quirks: &ModelQuirks) {
    let system = if quirks.text_protocol {
        Cow::Owned(text_protocol::system(request))
    } else {
        Cow::Borrowed(&*request.system)
    };
    if !system.is_empty() {
        body.push_str("{\"role\":\"system\",\"content\":");
        push(body, &system);
        body.push_str("},");
    }
}

/// Appends the tools in OpenAI's form, which other vendors use too.
pub(crate) fn push_tools(body: &mut String, request: &ModelRequest) {
    for (index, tool) in request.tools.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str("{\"type\":\"function\",\"function\":{\"name\":");
        push(body, &tool.name);
        body.push_str(",\"description\":");
        push(body, &tool.description);
        body.push_str(",\"parameters\":");
        push(body, &tool.parameters);
        body.push_str("}}");
    }
}

/// Returns a message in the API's form, followed by a comma. Several tool results become several API messages.
fn encoded<'a>(
    message: &'a HistoryMessage,
    request: &ModelRequest,
    quirks: &ModelQuirks,
    dialect: Dialect,
) -> Cow<'a, str> {
    let form = OpenAiEncoding::of(message.message(), &request.model, quirks, dialect);
    let encode = |message: &Message| form.encode(message, &request.images);
    match message.encoded(form.cache_key(), encode) {
        Some(cached) => Cow::Borrowed(cached),
        None => Cow::Owned(encode(message.message())),
    }
}

/// Everything that the encoded form of a message depends on besides the message itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenAiEncoding {
    /// The same for every server.
    Plain,
    /// Calls and results as text, for models without native tools.
    Text,
    /// Native tools. `own` adds the extra fields that the same model sent; `reasoning` adds an empty
    /// `reasoning_content` to replies with calls.
    Native { dialect: Dialect, own: bool, reasoning: bool },
}

impl OpenAiEncoding {
    fn of(message: &Message, model: &ModelRef, quirks: &ModelQuirks, dialect: Dialect) -> Self {
        let own = match message {
            Message::User { .. } => return Self::Plain,
            Message::Assistant { .. } | Message::ToolResults { .. } if quirks.text_protocol => {
                return Self::Text;
            }
            Message::Assistant { reply } => reply.raw.as_ref().is_some_and(|raw| raw.model == *model),
            Message::ToolResults { .. } => false,
        };
        let reasoning = !own && quirks.unsupported_params.contains(&ASSISTANT_REASONING);
        Self::Native { dialect, own, reasoning }
    }

    fn cache_key(self) -> &'static str {
        match self {
            Self::Plain => "openai",
            Self::Text => "openai text",
            Self::Native { dialect, own, reasoning } => match (dialect, own, reasoning) {
                (Dialect::OpenAi, true, _) => "openai.com own",
                (Dialect::OpenAi, false, true) => "openai.com reasoning",
                (Dialect::OpenAi, false, false) => "openai.com",
                (Dialect::Mistral, true, _) => "mistral own",
                (Dialect::Mistral, false, true) => "mistral reasoning",
                (Dialect::Mistral, false, false) => "mistral",
                (Dialect::Other | Dialect::LlamaCpp, true, _) => "openai-like own",
                (Dialect::Other | Dialect::LlamaCpp, false, true) => "openai-like reasoning",
                (Dialect::Other | Dialect::LlamaCpp, false, false) => "openai-like",
            },
        }
    }

    fn encode(self, message: &Message, data: &RequestImages) -> String {
        #[cfg(test)]
        tests::ENCODED.with(|count| count.set(count.get() + 1));
        match (message, self) {
            (Message::User { text, images }, _) => user_message(text, encoded_images(images, data)),
            (Message::Assistant { reply }, Self::Native { dialect, own, reasoning }) => {
                assistant(reply, dialect, own, reasoning)
            }
            (Message::Assistant { reply }, Self::Plain | Self::Text) => {
                text_message("assistant", &reply_as_text(reply))
            }
            (Message::ToolResults { results }, Self::Native { dialect, .. }) => {
                let images = message.images().cloned().collect::<Vec<_>>();
                let results = results.iter().map(|result| tool_result(result, dialect)).collect::<String>();
                // The API takes text only in results.
                match encoded_images(&images, data) {
                    images if images.is_empty() => results,
                    images => results + &user_message(RESULT_IMAGES, images),
                }
            }
            (Message::ToolResults { results }, Self::Plain | Self::Text) => {
                text_message("user", &text_protocol::render_results(results))
            }
        }
    }
}

fn text_message(role: &str, content: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":{}}},", text(content))
}

/// Returns a user message. Without images, its content is the plain text, which every server understands.
fn user_message(content: &str, images: Vec<EncodedImage>) -> String {
    if images.is_empty() {
        return text_message("user", content);
    }
    let images =
        images.iter().map(|image| json!({"type": "image_url", "image_url": {"url": image.data_url()}}));
    let parts: Value = std::iter::once(json!({"type": "text", "text": content})).chain(images).collect();
    format!("{},", json!({"role": "user", "content": parts}))
}

/// Renders a reply as a model without native tools would have written it.
pub(crate) fn reply_as_text(reply: &Reply) -> String {
    if reply.calls.is_empty() {
        return json!({"type": "answer", "text": reply.text}).to_string();
    }
    let calls = reply.calls.iter().map(|call| {
        text_protocol::render_call(&TextToolCall {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        })
    });
    let before = (!reply.text.is_empty()).then(|| reply.text.clone());
    before.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

fn assistant(reply: &Reply, dialect: Dialect, own: bool, reasoning: bool) -> String {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        if reply.text.is_empty() {
            message["content"] = Value::Null;
        }
        let calls = reply.calls.iter().map(|call| {
            json!({"id": call_id(call.wire_id(), dialect), "type": "function", "function": {
                "name": portable_tool_name(&call.name),
                "arguments": text(&arguments_object(&call.arguments)),
            }})
        });
        message["tool_calls"] = calls.collect();
    }
    if reasoning && !reply.calls.is_empty() {
        message["reasoning_content"] = Value::from("");
    }
    if let Some(raw) = reply.raw.as_ref().filter(|_| own) {
        echo(&mut message, &raw.value);
    }
    format!("{message},")
}

/// Restores the extra fields of a message and its calls from `raw`, which has the form
/// `{"message":{..},"calls":[null|{..}]}`.
fn echo(message: &mut Value, raw: &Value) {
    for (name, value) in raw["message"].as_object().into_iter().flatten() {
        message[name] = value.clone();
    }
    let (Some(calls), Some(extras)) = (message["tool_calls"].as_array_mut(), raw["calls"].as_array()) else {
        return;
    };
    if calls.len() != extras.len() {
        return;
    }
    for (call, extra) in calls.iter_mut().zip(extras) {
        if !extra.is_null() {
            call["extra_content"] = extra.clone();
        }
    }
}

fn tool_result(result: &ToolResult, dialect: Dialect) -> String {
    let id = call_id(result.wire_id(), dialect);
    format!("{{\"role\":\"tool\",\"tool_call_id\":{},\"content\":{}}},", text(&id), text(&result.output))
}

/// Returns an id that the server accepts. A call and its result get the same id.
fn call_id(id: &str, dialect: Dialect) -> String {
    let fits = match dialect {
        Dialect::OpenAi => id.len() <= ID_BYTES_MAX,
        Dialect::Mistral => {
            id.len() == MISTRAL_ID_SIGNS && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
        Dialect::Other | Dialect::LlamaCpp => true,
    };
    if fits { id.to_owned() } else { short_id(id) }
}

/// Returns nine letters and digits derived from the id (FNV-1a, base 62).
pub(super) fn short_id(id: &str) -> String {
    const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut short = String::with_capacity(MISTRAL_ID_SIGNS);
    for _ in 0..MISTRAL_ID_SIGNS {
        let sign = usize::try_from(hash % 62).expect("the index is less than 62");
        short.push(char::from(SIGNS[sign]));
        hash /= 62;
    }
    short
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use sysop_core::id::CallId;
    use sysop_core::message::{Arguments, CallEnd, RawReply, ToolCall};
    use sysop_core::mode::{Mode, SamplingDefaults};
    use sysop_core::tool::ToolEffect;

    use super::*;

    fn body(request: &ModelRequest, quirks: &ModelQuirks, dialect: Dialect) -> String {
        super::body(request, quirks, dialect, &EncodedToolsCache::default())
    }

    thread_local! {
        pub(super) static ENCODED: Cell<usize> = const { Cell::new(0) };
    }

    fn request(messages: Vec<HistoryMessage>) -> ModelRequest {
        ModelRequest {
            model: ModelRef::new("openai", "m"),
            system: Arc::from("be good"),
            messages,
            trimmed: false,
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
            images: Default::default(),
        }
    }

    fn sent(request: &ModelRequest, quirks: &ModelQuirks) -> Value {
        serde_json::from_str(&body(request, quirks, Dialect::Other)).unwrap()
    }

    #[test]
    fn a_chat_with_a_model_without_tools_is_plain_text() {
        let text_message = |text: &str| HistoryMessage::new(Message::user(text.to_owned()));
        let reply = Reply { text: "yes?".to_owned(), ..Reply::default() };
        let messages =
            vec![text_message("hi"), HistoryMessage::new(Message::Assistant { reply }), text_message("bye")];
        let chat =
            ModelRequest { mode: Mode::Chat, sampling_defaults: SamplingDefaults::CHAT, ..request(messages) };
        let known_quirks =
            ModelQuirks { text_protocol: true, reasoning_none: true, ..ModelQuirks::default() };
        assert_eq!(
            sent(&chat, &known_quirks),
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "be good"},
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "yes?"},
                    {"role": "user", "content": "bye"},
                ],
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": 4096,
                "temperature": 0.7,
            })
        );
        let agent = sent(&ModelRequest { mode: Mode::Agent, ..chat }, &known_quirks);
        assert!(agent.get("response_format").is_some());
        assert_eq!(
            (&agent["temperature"], &agent["max_tokens"]),
            (&json!(0.0), &json!(2048)),
            "as small models need"
        );
    }

    #[test]
    fn the_text_protocol_has_its_own_system_prompt_and_can_require_a_call() {
        let text_message = HistoryMessage::new(Message::user("go"));
        let request = ModelRequest {
            tools: sysop_core::catalog::tools(sysop_core::catalog::Profile::Full).into(),
            text_system: Some("be brief".into()),
            must_call: true,
            ..request(vec![text_message])
        };
        let text = sent(&request, &ModelQuirks { text_protocol: true, ..ModelQuirks::default() });
        let system = text["messages"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(system, format!("be brief\n\n{}", text_protocol::instructions(&request.tools)));
        assert_eq!(
            text["response_format"]["json_schema"]["schema"],
            text_protocol::schema(&request.tools, true)
        );
        let native = sent(&request, &ModelQuirks::default());
        assert_eq!(native["messages"][0]["content"], "be good");
    }

    #[test]
    fn sampling_is_omitted_for_models_known_to_ignore_it() {
        let names = [
            ("gpt-4.1-mini", true, true),
            ("phi3", true, true),
            ("gpt-5.2-chat-latest", true, true),
            ("gpt-5.6-terra", false, false),
            ("openai/o4-mini", false, false),
            ("gpt-oss:20b", true, false),
            ("Qwen/Qwen3-8B", true, false),
            ("deepseek-reasoner", true, false),
            ("kimi-k2-thinking", true, false),
        ];
        for (name, temperature, short) in names {
            let mut chat = ModelRequest {
                mode: Mode::Chat,
                sampling_defaults: SamplingDefaults::CHAT,
                ..request(Vec::new())
            };
            chat.model.name = name.to_owned();
            let body = sent(&chat, &ModelQuirks::default());
            let limit = body.get("max_tokens").or(body.get("max_completion_tokens")).cloned();
            assert_eq!(body.get("temperature").is_some(), temperature, "{name}");
            assert_eq!(limit, Some(json!(if short { 4096 } else { 32_768 })), "{name}");
            (chat.temperature, chat.max_output_tokens) = (Some(0.2), Some(7));
            let body = sent(&chat, &ModelQuirks::default());
            let told = (&body["temperature"], &body["max_tokens"]);
            assert_eq!(told, (&json!(0.2), &json!(7)), "{name}: a value set by the user is sent");
        }
    }

    fn step(number: usize) -> [HistoryMessage; 2] {
        let id = CallId::new(format!("call_{number}"));
        let call = ToolCall {
            id: id.clone(),
            wire_id: None,
            name: "bash".to_owned(),
            arguments: Arguments::parse(r#"{"command":"ls"}"#),
        };
        let raw = RawReply {
            model: ModelRef::new("openai", "m"),
            value: json!({"message": {"reasoning_content": "hm"}, "calls": [{"a": 1}]}),
        };
        let reply = Reply { calls: vec![call], raw: Some(raw), ..Reply::default() };
        let result = ToolResult {
            call: id,
            wire_id: None,
            name: "bash".to_owned(),
            output: "a.txt".to_owned(),
            is_error: false,
            end: CallEnd::Done,
            images: Vec::new(),
        };
        [
            HistoryMessage::new(Message::Assistant { reply }),
            HistoryMessage::new(Message::ToolResults { results: vec![result] }),
        ]
    }

    #[test]
    fn each_request_has_the_tools_of_its_own_session() {
        let cached = EncodedToolsCache::default();
        let names = |tools: &Arc<[ToolSpec]>| -> Value {
            let request = ModelRequest { tools: Arc::clone(tools), ..request(Vec::new()) };
            let sent = super::body(&request, &ModelQuirks::default(), Dialect::Other, &cached);
            let sent: Value = serde_json::from_str(&sent).unwrap();
            sent["tools"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|tool| tool["function"]["name"].clone())
                .collect()
        };
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: "".into(),
            parameters: Arc::new(json!({"type": "object"})),
            effect: ToolEffect::default(),
        };
        let one: Arc<[ToolSpec]> = Arc::from([tool("a")]);
        let other: Arc<[ToolSpec]> = Arc::from([tool("b"), tool("c")]);
        for _ in 0..2 {
            assert_eq!(names(&one), json!(["a"]));
            assert_eq!(names(&one), json!(["a"]));
            assert_eq!(names(&other), json!(["b", "c"]));
            assert_eq!(names(&Arc::from([])), json!([]));
        }
    }

    #[test]
    fn encodes_each_message_once_over_many_steps() {
        let mut messages = vec![HistoryMessage::new(Message::user("go"))];
        for number in 0..50 {
            messages.extend(step(number));
            let request = request(messages.clone());
            let body = body(&request, &ModelQuirks::default(), Dialect::Other);
            assert!(serde_json::from_str::<Value>(&body).is_ok());
        }
        assert_eq!(ENCODED.with(Cell::get), messages.len());
    }

    #[test]
    fn echoes_a_raw_reply_to_its_own_model_only() {
        let mut request = request(step(1).to_vec());
        let own: Value =
            serde_json::from_str(&body(&request, &ModelQuirks::default(), Dialect::Other)).unwrap();
        assert_eq!(own["messages"][1]["reasoning_content"], "hm");
        assert_eq!(own["messages"][1]["tool_calls"][0]["extra_content"], json!({"a": 1}));
        request.model.name = "other".to_owned();
        let other: Value =
            serde_json::from_str(&body(&request, &ModelQuirks::default(), Dialect::Other)).unwrap();
        assert_eq!(
            other["messages"][1],
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]})
        );
    }

    #[test]
    fn writes_ids_in_the_form_each_server_accepts() {
        let long = "x".repeat(41);
        assert_eq!(call_id(&long, Dialect::Other), long);
        assert_eq!(call_id(&long, Dialect::OpenAi).len(), 9);
        assert_eq!(call_id("call_1", Dialect::OpenAi), "call_1");
        assert_eq!(call_id("aB3dE6gH9", Dialect::Mistral), "aB3dE6gH9");
        let short = call_id("call_1", Dialect::Mistral);
        assert!(short.len() == 9 && short.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{short}");
        assert_ne!(short, call_id("call_2", Dialect::Mistral));
    }
}
