//! Parts of server messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{PauseReason, StopReason};
use sysop_core::id::{CallId, TurnId};
use sysop_core::image::{ImageFormat, ImageHeader, ImageRef};
use sysop_core::message::{Arguments, ToolCall, Usage};
use sysop_core::outcome::FileChange;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};

/// A tool that the model can call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfferedTool {
    /// Name as the model sees it.
    pub name: String,
    /// Effect of a call.
    #[serde(default)]
    pub effect: ToolEffect,
}

impl From<&ToolSpec> for OfferedTool {
    fn from(tool: &ToolSpec) -> Self {
        Self { name: tool.name.clone(), effect: tool.effect }
    }
}

/// Tools of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientToolSet {
    /// The tools; they replace tools of the session's host with the same names.
    pub tools: Vec<OfferedTool>,
    /// Root of the file tools on the client.
    pub root: String,
}

impl From<&ClientTools> for ClientToolSet {
    fn from(lent: &ClientTools) -> Self {
        Self { tools: lent.tools.iter().map(OfferedTool::from).collect(), root: lent.root.clone() }
    }
}

/// An image of a prompt or of a tool's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PromptImage {
    /// Name of the artifact that holds the image.
    pub artifact: String,
    /// Media type, determined from the content.
    pub media_type: ImageFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// File name; omitted if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl From<&ImageRef> for PromptImage {
    fn from(image: &ImageRef) -> Self {
        let ImageRef { artifact, media_type, width, height, name } = image.clone();
        Self { artifact, media_type, width, height, name }
    }
}

impl From<PromptImage> for ImageRef {
    fn from(image: PromptImage) -> Self {
        let PromptImage { artifact, media_type, width, height, name } = image;
        Self::new(artifact, ImageHeader { format: media_type, width, height }, &name)
    }
}

/// A tool call requested by a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRequest {
    /// Id of the call, unique within the session.
    pub tool_call_id: CallId,
    /// Name of the tool.
    pub name: String,
    /// Arguments: an object, or a string with the model's invalid text.
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

/// Converts a JSON value to arguments; the reverse of [`Arguments::to_value`].
pub(crate) fn arguments_of(value: Value) -> Arguments {
    match value {
        Value::Object(map) => Arguments::Object(map),
        Value::String(text) => Arguments::Invalid(text),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Arguments::Invalid(other.to_string())
        }
    }
}

/// A file changed by a file tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Path relative to the root.
    pub path: String,
    /// Artifact with the previous content, on the host; omitted if the file did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// BLAKE3 of the new content, in hex.
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

/// Kind of an `error`.
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
    /// The token lacks the permission.
    Forbidden,
    /// The session does not exist, or its server ended and does not come back.
    NoSession,
    /// The call, approval or question does not exist or was already answered.
    Stale,
    /// Not possible while a turn runs, or while another process uses the session.
    Busy,
    /// The client read too slowly. It may reconnect and resume.
    TooSlow,
    /// The server shuts down; the session continues after its restart, or on another node.
    Draining,
    /// The server closed the session, because it cannot write the session's log.
    Closed,
    /// The terminal does not exist or cannot be opened.
    NoTerminal,
    /// An internal error of the server.
    Internal,
}

/// Outcome of a turn, and the tokens and model calls that it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnSummary {
    /// Reason why the turn ended.
    pub stop_reason: StopReason,
    /// Number of the turn.
    pub turn: TurnId,
    /// Tokens of all model calls.
    pub usage: TokenCounts,
    /// Number of model calls.
    pub iterations: u32,
    /// Reason for the pause, if the turn ended while paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<PauseReason>,
}

/// Tokens as counted by the models' servers; 0 if not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenCounts {
    /// All input tokens, including cached ones.
    pub input_tokens: u64,
    /// All output tokens, including reasoning.
    pub output_tokens: u64,
    /// Input tokens read from a cache.
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
