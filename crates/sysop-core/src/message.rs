//! Messages between a user, a model and its tools. Providers encode these types for their servers.
//!
//! A `Message` is immutable once made, so that a provider may cache its encoded form with it.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::REASONS;
use crate::effort::Effort;
use crate::id::CallId;
use crate::image::{ImageRef, RequestImages};
use crate::mode::{Mode, SamplingDefaults};

/// Name of a model as users write it: `PROVIDER/NAME`.
///
/// ```
/// use sysop_core::message::ModelRef;
///
/// let model: ModelRef = "ollama/hf.co/org/phi3:mini".parse().unwrap();
/// assert_eq!((model.provider.as_str(), model.name.as_str()), ("ollama", "hf.co/org/phi3:mini"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
#[serde(into = "String", try_from = "String")]
pub struct ModelRef {
    pub provider: String,
    /// The provider's own name for the model; may hold `/` and `:`.
    pub name: String,
}

impl ModelRef {
    /// Combines a provider and a model name; neither is checked.
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

/// Error for text that is not of the form `PROVIDER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid model `{0}`; use PROVIDER/NAME, for example `ollama/qwen3`")]
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

/// One message of the history. The system prompt is not part of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Input of a user, or text that sysop sends in a user's place.
    User {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageRef>,
    },
    /// A reply of the model.
    Assistant { reply: Reply },
    /// Results of all tool calls of the preceding reply, in the order of the calls.
    ToolResults { results: Vec<ToolResult> },
}

impl Message {
    /// Returns a user message without images.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }

    pub fn images(&self) -> impl Iterator<Item = &ImageRef> {
        let (of_user, results): (&[ImageRef], &[ToolResult]) = match self {
            Self::User { images, .. } => (images, &[]),
            Self::Assistant { .. } => (&[], &[]),
            Self::ToolResults { results } => (&[], results),
        };
        of_user.iter().chain(results.iter().flat_map(|result| &result.images))
    }

    /// Returns the message with images replaced with text. `placeholder` returns the text for an image, or `None` to
    /// keep the image.
    #[must_use]
    pub fn without_images(&self, placeholder: impl Fn(&ImageRef) -> Option<String>) -> Self {
        let replace = |text: &mut String, images: &mut Vec<ImageRef>| {
            images.retain(|image| {
                let Some(line) = placeholder(image) else { return true };
                text.push('\n');
                text.push_str(&line);
                false
            });
        };
        let mut message = self.clone();
        match &mut message {
            Self::User { text, images } => replace(text, images),
            Self::Assistant { .. } => {}
            Self::ToolResults { results } => {
                results.iter_mut().for_each(|result| replace(&mut result.output, &mut result.images));
            }
        }
        message
    }
}

/// A message of the history with a slot for its encoded form.
///
/// The history of a long turn is sent again with each step, so a provider encodes each message once and caches the
/// bytes here. Clones share the message and its encoded form.
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
    pub fn new(message: Message) -> Self {
        Self { inner: Arc::new(HistoryMessageInner { message, encoded: OnceLock::new() }) }
    }

    pub fn message(&self) -> &Message {
        &self.inner.message
    }

    /// Returns the message encoded for `wire`. Calls `encode` only the first time.
    ///
    /// `wire` identifies the encoding, including every setting that affects the result. Only the first encoding is
    /// cached: for any other `wire` (after a change of model), this returns `None` and the caller must encode the
    /// message itself. Messages with images are large and never cached.
    pub fn encoded(&self, wire: &'static str, encode: impl FnOnce(&Message) -> String) -> Option<&str> {
        if self.inner.message.images().next().is_some() {
            return None;
        }
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

/// A model's complete reply to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Text for the user; empty if the model only called tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The model's visible reasoning; for display only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tool calls in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Protocol in which tools were offered to the model.
    #[serde(default)]
    pub protocol: ToolProtocol,
    #[serde(default)]
    pub finish: FinishReason,
    /// Token counts, if the server reports them.
    #[serde(default)]
    pub usage: Usage,
    /// The model's context window in tokens, if its server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// True if the model accepts images, according to its server; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    /// The reply in the provider's own form, which contains the signatures of its reasoning. It is sent back byte for
    /// byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawReply>,
}

/// A reply in its provider's own form; only the same provider and model may receive it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawReply {
    /// Model that wrote the reply. The raw reply is sent back only to this model.
    pub model: ModelRef,
    /// The reply as JSON. Only the provider knows its structure.
    pub value: Value,
}

/// Protocol in which tools are offered to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolProtocol {
    #[default]
    Native,
    /// JSON in plain text (`text_protocol`), for models without tool calling.
    Text,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The reply is complete. This includes replies with tool calls, because servers have no common reason for stopping
    /// there.
    #[default]
    Stop,
    /// The reply was truncated at the token limit. If its last tool call was truncated, `calls` does not contain that
    /// call.
    Length,
    /// Refused by the model or its server; `text` holds the explanation, if any.
    Refused,
}

/// Tokens of one request as counted by the server; 0 if not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, including cached ones.
    pub input_tokens: u64,
    /// All output tokens, including reasoning.
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    /// Returns true if the server reported no tokens.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
    }
}

/// One tool call, as requested by a model or a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the session.
    pub id: CallId,
    /// Id known to the model's server, if it differs from `id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_id: Option<String>,
    pub name: String,
    pub arguments: Arguments,
}

impl ToolCall {
    /// Returns the id to use with the model's server.
    pub fn wire_id(&self) -> &str {
        self.wire_id.as_deref().unwrap_or(self.id.as_str())
    }

    pub fn text_argument(&self, name: &str) -> Option<&str> {
        match &self.arguments {
            Arguments::Object(map) => map.get(name).and_then(Value::as_str),
            Arguments::Invalid(_) => None,
        }
    }

    /// Returns the call with another command.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Self {
        if let Arguments::Object(map) = &mut self.arguments {
            map.insert("command".to_owned(), Value::String(command));
        }
        self
    }

    /// Returns the model's reason for the call, which tools declare under different names; empty if there is none.
    pub fn reason(&self) -> &str {
        REASONS.iter().find_map(|name| self.text_argument(name)).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object, as tools require.
    Object(serde_json::Map<String, Value>),
    /// Verbatim text of the model that is not a JSON object; reported back to the model as an error.
    Invalid(String),
}

impl Arguments {
    /// Parses the model's text. Empty text and `null` mean no arguments.
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

    /// Returns the arguments' values that are strings, not including nested ones.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (object, invalid) = match self {
            Self::Object(map) => (Some(map), None),
            Self::Invalid(text) => (None, Some(text.as_str())),
        };
        object.into_iter().flat_map(|map| map.values().filter_map(Value::as_str)).chain(invalid)
    }

    /// Returns the arguments as JSON. Invalid arguments become a string.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Object(map) => Value::Object(map.clone()),
            Self::Invalid(text) => Value::String(text.clone()),
        }
    }
}

/// Result of a tool call, as sent to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call: CallId,
    /// Id known to the model's server, if it differs from `call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_id: Option<String>,
    pub name: String,
    pub output: String,
    /// True if the call itself failed. A command that exits with an error code is not such a failure.
    pub is_error: bool,
    /// End of the call, which decides the advice for a model that gets its tools as text.
    #[serde(default, skip_serializing_if = "CallEnd::is_done")]
    pub end: CallEnd,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
}

/// End of a tool call. It selects the advice that follows the result for a model that gets its tools as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The call succeeded, or failed without an error message, as a search that finds nothing does.
    #[default]
    Done,
    /// The call was tried and failed with an error message: another attempt may succeed.
    Failed,
    /// The call failed or had no effect, and the output ends with a line that names the command to run next. More
    /// advice would keep small models from running it.
    Advised,
    /// A person or the policy rejected or stopped it, or its host was not reached: another way must not be tried.
    Refused,
    /// The call was cut short, such as by its time limit or a signal: its effect is unknown, and another way may
    /// succeed.
    Unfinished,
}

impl CallEnd {
    fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

/// Returns true if the output of a failed call says what went wrong. A search that finds nothing fails without a word.
pub fn has_error_message(output: &str) -> bool {
    output.lines().any(|line| !line.trim().is_empty() && !line.starts_with(['[', '(']))
}

impl ToolResult {
    /// Returns the id to use with the model's server.
    pub fn wire_id(&self) -> &str {
        self.wire_id.as_deref().unwrap_or(self.call.as_str())
    }
}

/// One request to a model, for a step or a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub model: ModelRef,
    pub system: Arc<str>,
    /// Replaces `system` for a model that gets its tools as text.
    pub text_system: Option<Arc<str>>,
    /// The history window. It begins with a user message and never separates a call from its result.
    pub messages: Vec<HistoryMessage>,
    /// True if older messages of the session are missing from `messages`.
    pub trimmed: bool,
    /// Images of `messages`. Their bytes are added before the request reaches a provider.
    pub images: RequestImages,
    /// Tools offered to the model; empty if it may call none.
    pub tools: Arc<[crate::tool::ToolSpec]>,
    /// Tools whose names are recognized in a call that the model writes as text. `tools` may contain fewer, to make the
    /// model answer instead of calling a tool. Empty in a plain chat.
    pub known_tools: Arc<[crate::tool::ToolSpec]>,
    /// Maximum tokens of the reply; `None` for the server's default.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature, if set and honored by the model.
    pub temperature: Option<f32>,
    /// Reasoning effort, if set and honored by the model.
    pub effort: Option<Effort>,
    /// Mode of the turn. In a plain chat the reply is text only, and no calls are parsed from it.
    pub mode: Mode,
    /// True if the model is to write its calls as text, because its native calls kept failing. A provider whose models
    /// all have native tools ignores this.
    pub calls_as_text: bool,
    /// True if a model that gets its tools as text must call one before it may answer, because its last command failed.
    pub must_call: bool,
    /// Defaults of the mode, used where `max_output_tokens` or `temperature` is not set.
    pub sampling_defaults: SamplingDefaults,
}

/// Failure of a model call. It is data rather than an error type, because the turn reacts to its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    pub kind: FailureKind,
    /// One sentence for the user: the failure, where it happened, and what to try next. Contains no secret.
    pub message: String,
}

/// Kinds of model failure that are handled differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The prompt exceeds the model's context; a shorter history may fit.
    ContextOverflow,
    /// The server rejected the key, the region or the permissions.
    Auth,
    /// No such model.
    UnknownModel,
    /// No answer, or the stream broke or stalled, after all retries.
    Unreachable,
    /// Rate limit or quota, after all retries.
    RateLimited,
    /// The server's answer could not be used.
    Protocol,
    /// The server rejected the request itself.
    BadRequest,
    /// A host of the session does not allow this model to see its output. Nothing was sent.
    Withheld,
    /// The budget of the day does not cover the request. Nothing was sent; the turn pauses.
    Budget,
}
