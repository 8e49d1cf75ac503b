//! Types that the messages of a server are made of.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{PauseReason, StopReason};
use sysop_core::id::{CallId, TurnId};
use sysop_core::message::{Arguments, ToolCall, Usage};
use sysop_core::outcome::FileChange;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What a call may do.
    #[serde(default)]
    pub effect: ToolEffect,
}

impl From<&ToolSpec> for OfferedTool {
    fn from(tool: &ToolSpec) -> Self {
        Self { name: tool.name.clone(), effect: tool.effect }
    }
}

/// The tools that a client lends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientToolSet {
    /// The tools; those of the session's own host with the same names are not used.
    pub tools: Vec<OfferedTool>,
    /// The root of its file tools, on the client.
    pub root: String,
}

impl From<&ClientTools> for ClientToolSet {
    fn from(lent: &ClientTools) -> Self {
        Self { tools: lent.tools.iter().map(OfferedTool::from).collect(), root: lent.root.clone() }
    }
}

/// A call that a model wants to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRequest {
    /// Id of the call.
    pub tool_call_id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments: an object, or a string if the model wrote no object.
    pub arguments: Value,
}

impl From<&ToolCall> for ToolCallRequest {
    fn from(call: &ToolCall) -> Self {
        let (tool_call_id, name) = (call.id.clone(), call.name.clone());
        Self { tool_call_id, name, arguments: call.arguments.to_value() }
    }
}

impl From<ToolCallRequest> for ToolCall {
    fn from(request: ToolCallRequest) -> Self {
        Self {
            id: request.tool_call_id,
            wire_id: None,
            name: request.name,
            arguments: arguments_of(request.arguments),
        }
    }
}

/// The arguments as they were before [`Arguments::to_value`].
pub(crate) fn arguments_of(value: Value) -> Arguments {
    match value {
        Value::Object(map) => Arguments::Object(map),
        Value::String(text) => Arguments::Invalid(text),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Arguments::Invalid(other.to_string())
        }
    }
}

/// One file that a file tool changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Path relative to the root.
    pub path: String,
    /// The artifact with the bytes before, on the host; none where the file did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// BLAKE3 of the bytes after, in hex.
    pub after_hash: String,
}

impl From<FileChange> for ChangedFile {
    fn from(change: FileChange) -> Self {
        Self { path: change.path, before: change.before, after_hash: change.after_hash }
    }
}

impl From<ChangedFile> for FileChange {
    fn from(change: ChangedFile) -> Self {
        Self { path: change.path, before: change.before, after_hash: change.after_hash }
    }
}

/// Kind of the problem that an `error` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is malformed or contradictory.
    BadMessage,
    /// The manifest of `hello` cannot be used.
    BadManifest,
    /// The message or the output is too large.
    TooLarge,
    /// Too many messages, calls, sessions or connections.
    TooMany,
    /// The token does not allow it.
    Forbidden,
    /// There is no such session.
    NoSession,
    /// There is no such call, approval or question, or it was answered before.
    Stale,
    /// It cannot be done while a turn runs.
    Busy,
    /// The client did not read fast enough; it may resume.
    TooSlow,
    /// The server is shutting down. The session continues after its restart, or on another node.
    Draining,
    /// The session cannot continue here: its log cannot be written.
    Closed,
    /// The terminal cannot be opened, or there is none.
    NoTerminal,
    /// Internal error of the server.
    Internal,
}

/// How a turn ended and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnSummary {
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Which turn.
    pub turn: TurnId,
    /// The tokens of all its model calls.
    pub usage: TokenCounts,
    /// How many model calls it made.
    pub iterations: u32,
    /// Why the turn was paused, if it ended while it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<PauseReason>,
}

/// Tokens as the models' servers counted them; zero where they did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenCounts {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens that came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
        }
    }
}

impl From<TokenCounts> for Usage {
    fn from(tokens: TokenCounts) -> Self {
        Self {
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cached_tokens: tokens.cached_tokens,
        }
    }
}
