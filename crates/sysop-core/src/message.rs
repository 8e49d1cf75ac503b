//! What is said between a person, a model and its tools; the vocabulary that a provider encodes.
//!
//! A `Message` is immutable once made, so that a provider may keep its encoded form beside it.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::REASONS;
use crate::id::CallId;
use crate::mode::{Mode, SamplingDefaults};

/// Names a model the way a person does: `PROVIDER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
#[serde(into = "String", try_from = "String")]
pub struct ModelRef {
    /// `openai`, `gemini`, `vertex`, `ollama`, `ollama+ssh`, `anthropic` or `demo`.
    pub provider: String,
    /// The provider's own name for the model; may hold `/` and `:`.
    pub name: String,
}

impl ModelRef {
    /// Puts the two halves together.
    pub fn new(provider: impl Into<String>, name: impl Into<String>) -> Self {
        Self { provider: provider.into(), name: name.into() }
    }
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> Self {
        model.to_string()
    }
}

/// A model was not written as `PROVIDER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not PROVIDER/NAME, for example `ollama/phi3`")]
pub struct InvalidModelRef(pub String);

impl std::str::FromStr for ModelRef {
    type Err = InvalidModelRef;

    fn from_str(text: &str) -> Result<Self, InvalidModelRef> {
        match text.split_once('/') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                Ok(Self::new(provider, name))
            }
            _ => Err(InvalidModelRef(text.to_owned())),
        }
    }
}

impl TryFrom<String> for ModelRef {
    type Error = InvalidModelRef;

    fn try_from(text: String) -> Result<Self, InvalidModelRef> {
        text.parse()
    }
}

/// One chat message of the history, without the system prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What the person said, or what sysop says in their place.
    User {
        /// The text, as it was typed.
        text: String,
    },
    /// What the model replied.
    Assistant {
        /// Its reply, whole.
        reply: Reply,
    },
    /// The results of all tool calls of the reply before, in the order of the calls.
    ToolResults {
        /// One for each call.
        results: Vec<ToolResult>,
    },
}

/// A message of the history together with room for its encoded form.
///
/// The history of a long turn is sent again with each step; a provider encodes each message once and
/// keeps the bytes here. Cloning shares both.
#[derive(Debug, Clone)]
pub struct HistoryMessage {
    inner: Arc<HistoryMessageInner>,
}

#[derive(Debug)]
struct HistoryMessageInner {
    message: Message,
    encoded: OnceLock<(&'static str, Box<str>)>,
}

impl HistoryMessage {
    /// Takes a message into a history.
    pub fn new(message: Message) -> Self {
        Self { inner: Arc::new(HistoryMessageInner { message, encoded: OnceLock::new() }) }
    }

    /// The message itself.
    pub fn message(&self) -> &Message {
        &self.inner.message
    }

    /// The message as encoded for `wire`; calls `encode` the first time only.
    ///
    /// `wire` names the encoding and all that it depends on. A second wire for the same message (after a
    /// change of model) gets `None` and must encode by itself.
    pub fn encoded(&self, wire: &'static str, encode: impl FnOnce(&Message) -> String) -> Option<&str> {
        let (kept_wire, text) =
            self.inner.encoded.get_or_init(|| (wire, encode(&self.inner.message).into_boxed_str()));
        (*kept_wire == wire).then_some(text)
    }
}

impl PartialEq for HistoryMessage {
    fn eq(&self, other: &Self) -> bool {
        self.inner.message == other.inner.message
    }
}

/// A model's reply to one request, whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text for the person; empty where the model only called tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The model's visible reasoning, for display only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tool calls, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// How the tools were offered when this was said.
    #[serde(default)]
    pub protocol: ToolProtocol,
    /// Why the model stopped.
    #[serde(default)]
    pub finish: FinishReason,
    /// Tokens, where the server counted them.
    #[serde(default)]
    pub usage: Usage,
    /// The provider's own form, to be echoed byte for byte (signatures of thoughts live here).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawReply>,
}

/// A reply in its provider's own form; only that provider and model may be sent it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawReply {
    /// Whose form it is; compared with the model of the request before it is echoed.
    pub model: ModelRef,
    /// The form itself; its shape is the provider's business.
    pub value: Value,
}

/// How tools were offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolProtocol {
    /// By the API's own means.
    #[default]
    Native,
    /// As JSON in plain text (`text_protocol`), for models without tool calling.
    Text,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had said all; also where it calls tools, because servers do not agree on a word for that.
    #[default]
    Stop,
    /// The token limit cut it; a last tool call may be cut too and is not among `calls` then.
    Length,
    /// The model or its server refused; `text` says what there is to say.
    Refused,
}

/// Tokens of one request, as its server counted them; zero where it did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens that came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
    }
}

/// One call of a tool, as a model (or a person) wants it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the session.
    pub id: CallId,
    /// The id that the model's server knows it by, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

impl ToolCall {
    /// The id to use towards the model's server.
    pub fn wire_id(&self) -> &str {
        self.wire_id.as_deref().unwrap_or(self.id.as_str())
    }

    /// A text argument by name.
    pub fn text_argument(&self, name: &str) -> Option<&str> {
        match &self.arguments {
            Arguments::Object(map) => map.get(name).and_then(Value::as_str),
            Arguments::Invalid(_) => None,
        }
    }

    /// The model's reason, under either of its names; may be empty.
    pub fn reason(&self) -> &str {
        REASONS.iter().find_map(|name| self.text_argument(name)).unwrap_or_default()
    }
}

/// A tool call's arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object, as tools take.
    Object(serde_json::Map<String, Value>),
    /// What the model wrote instead; told back to it as an error.
    Invalid(String),
}

impl Arguments {
    /// Reads the text that a model wrote; an empty one means no arguments.
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Object(serde_json::Map::new());
        }
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(map)) => Self::Object(map),
            Ok(Value::Null) => Self::Object(serde_json::Map::new()),
            Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
                Self::Invalid(text.to_owned())
            }
        }
    }

    /// The arguments as a JSON value; invalid ones as a string.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Object(map) => Value::Object(map.clone()),
            Self::Invalid(text) => Value::String(text.clone()),
        }
    }
}

/// What a tool call came to, as the model is told it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that it answers.
    pub call: CallId,
    /// The same call's id towards the model's server, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The text.
    pub output: String,
    /// Whether the text tells of a failure of the call itself (not of a command's exit code).
    pub is_error: bool,
}

impl ToolResult {
    /// The id to use towards the model's server.
    pub fn wire_id(&self) -> &str {
        self.wire_id.as_deref().unwrap_or(self.call.as_str())
    }
}

/// What is asked of a model: one step.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Which model.
    pub model: ModelRef,
    /// The system prompt.
    pub system: Arc<str>,
    /// The history window: begins with a user message, never splits a call from its result.
    pub messages: Vec<HistoryMessage>,
    /// Whether older messages of the session were left out of `messages`.
    pub trimmed: bool,
    /// The tools on offer; empty where none may be called.
    pub tools: Arc<[crate::tool::ToolSpec]>,
    /// The tools whose names are recognized in a call that the model writes as text; `tools` may offer fewer, to make a
    /// model answer. Empty in a chat.
    pub known_tools: Arc<[crate::tool::ToolSpec]>,
    /// The most tokens to answer with, where a limit is wanted.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature, where one is wanted and the model honors it.
    pub temperature: Option<f32>,
    /// In a chat the reply is text: no protocol is spoken in it, with whatever model.
    pub mode: Mode,
    /// What the mode wants where neither of the two above is set.
    pub sampling_defaults: SamplingDefaults,
}

/// Why a model call came to nothing. Data, not an error type: the turn reacts to its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// One sentence for the person: what happened, where, what to do next. Holds no secret.
    pub message: String,
}

/// Kinds of model failure that are handled differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The prompt does not fit the model's context window. A shorter history may.
    ContextOverflow,
    /// Wrong key, region or access rights.
    Auth,
    /// No such model.
    UnknownModel,
    /// No answer, or a broken or silent stream, after all retries.
    Unreachable,
    /// Rate limit or quota exceeded, after all retries.
    RateLimited,
    /// The server sent an unusable answer.
    Protocol,
    /// The server rejected the request.
    BadRequest,
    /// A host of the session does not allow this model to see its output. Nothing was sent.
    Withheld,
}
