//! What a server tells its clients.
//!
//! Names and fields are those of the JolliAgent design; `seq` and the messages that it does not have are
//! additions of ours.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{Origin, PauseReason, StopReason, TypedInput};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::message::{Arguments, FailureKind, ModelRef, ToolCall, Usage};
use sysop_core::mode::Mode;
use sysop_core::outcome::{FileChange, HostOutcome, Status};
use sysop_core::policy::{ApprovalMode, Finding, Grant, RiskClass};
use sysop_core::question::{Question, QuestionId};
use sysop_core::style::StyleRuns;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};

use crate::client_message::DecisionKind;

/// Where a logged message comes from. One event may give several messages; they share its `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogPosition {
    /// The event.
    pub seq: Seq,
    /// Whether another message of the same event follows: `seq` is a point to resume from only where this is
    /// false, and then it is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// One message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ServerMessage {
    /// The session is there. Without a `seq` it answers `hello` and tells how the session works now.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// Which session.
        session_id: SessionId,
        /// Its event; none where it answers `hello`.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// The model that is asked.
        model: ModelRef,
        /// How much runs without a person.
        approve: ApprovalMode,
        /// With tools or without, from the next turn on.
        #[serde(default)]
        mode: Mode,
        /// Where its tools run.
        host: String,
        /// The root of its file tools.
        root: String,
        /// The name of its tool profile.
        profile: String,
        /// The most model calls in one turn.
        #[serde(default)]
        max_iterations: u32,
        /// The tools on its own host.
        #[serde(default)]
        tools: Vec<OfferedTool>,
        /// The tools that a client lends, where one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// The last event when this was sent: what comes up to it is history. Only where it answers `hello`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_seq: Option<Seq>,
    },
    /// How the session works was changed; only what was changed is there.
    #[serde(rename = "configured")]
    Configured {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The model of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// How much runs without a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approve: Option<ApprovalMode>,
        /// With tools or without, from the next turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// The tools that a client lends; without tools, it takes them back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// Whether rules of the server's config were added.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rules: bool,
    },
    /// A person said something while a turn ran; it waits for the end of that turn.
    #[serde(rename = "prompt.queued")]
    PromptQueued {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The words.
        content: String,
    },
    /// A person said something, and a turn began.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The words.
        content: String,
    },
    /// More of the model's text. Not logged.
    #[serde(rename = "assistant.delta")]
    AssistantDelta {
        /// Which session.
        session_id: SessionId,
        /// The piece.
        content: String,
    },
    /// More of the model's visible reasoning. Not logged.
    #[serde(rename = "assistant.reasoning")]
    AssistantReasoning {
        /// Which session.
        session_id: SessionId,
        /// The piece.
        content: String,
    },
    /// What the deltas of this step said so far is void: the request is made again. Not logged.
    #[serde(rename = "assistant.restarted")]
    AssistantRestarted {
        /// Which session.
        session_id: SessionId,
    },
    /// The model's text of one step, whole; it replaces what its deltas said.
    #[serde(rename = "assistant.message")]
    AssistantMessage {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The text.
        content: String,
        /// The visible reasoning, where there was any.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
    },
    /// A model answered, and its part of the step is over. Its text is in `assistant.message`.
    #[serde(rename = "step.finished")]
    StepFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The how-manyth model call of the turn, from 1.
        iteration: u32,
        /// The tokens of this call.
        usage: TokenCounts,
        /// The tools that it wants to call, in order; what becomes of each is told by its own messages.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallRequest>,
    },
    /// A model call failed, and the step is given up; the turn ends or the step is made again.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The how-manyth model call of the turn, from 1.
        iteration: u32,
        /// What kind of failure it is.
        kind: FailureKind,
        /// One sentence.
        message: String,
    },
    /// A turn ended; each turn has exactly one of these.
    #[serde(rename = "assistant.done")]
    AssistantDone {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// How it ended and what it took.
        metadata: TurnSummary,
    },
    /// A tool call began, on the client that has the tool or on the session's own host.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which call; a tool host runs an id once.
        tool_call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments: an object; a string where the model wrote none.
        arguments: Value,
        /// Whose wish it is.
        #[serde(default)]
        origin: Origin,
        /// Whether the client that receives it is to run it now, and to answer with `tool.result`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        run: bool,
        /// Which trace it belongs to, as W3C Trace Context writes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
    },
    /// Whoever runs this call is to stop it; its `tool.result` still comes. Not logged.
    #[serde(rename = "tool.cancel")]
    ToolCancel {
        /// Which session.
        session_id: SessionId,
        /// Which call.
        tool_call_id: CallId,
    },
    /// More of a running tool's output. Not logged.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// Which session.
        session_id: SessionId,
        /// Which call.
        tool_call_id: CallId,
        /// The piece.
        content: String,
    },
    /// A tool call ended, or was refused before it began.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which call.
        tool_call_id: CallId,
        /// The tool, where the encoder saw the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How it ended.
        status: Status,
        /// The exit code, where a command ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether `output` leaves out a part.
        truncated: bool,
        /// What the model is told.
        output: String,
        /// How `output` looked: where each look begins, in bytes of its UTF-8, and the parameters of its SGR sequence.
        #[serde(default, rename = "looks", skip_serializing_if = "StyleRuns::is_empty")]
        styles: StyleRuns,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Name of the artifact with the whole output, where it was kept.
        #[serde(default, rename = "artefact", skip_serializing_if = "Option::is_none")]
        artifact: Option<String>,
        /// The files that it changed through file tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChangedFile>,
        /// What came of it on each host, where it ran on several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<HostOutcome>,
    },
    /// A tool call waits for a person.
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which call.
        tool_call_id: CallId,
        /// The tool.
        name: String,
        /// What would run, byte for byte; for other tools a short form of the call.
        command: String,
        /// The arguments, whole: what a file tool would write is in them only.
        arguments: Value,
        /// The model's reason.
        reason: String,
        /// How much it can do.
        risk: RiskClass,
        /// What was found in it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// What `allow_session` would allow.
        covers: Grant,
    },
    /// An approval was answered, or nobody can answer it any more.
    #[serde(rename = "approval.closed")]
    ApprovalClosed {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which call.
        tool_call_id: CallId,
        /// The answer.
        decision: DecisionKind,
        /// Who answered.
        by: String,
        /// What runs instead, where it was edited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// The word to the model, where it was rejected with one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// What a live terminal printed; only to clients that are attached to it. Not logged.
    #[serde(rename = "terminal.output")]
    TerminalOutput {
        /// Which session.
        session_id: SessionId,
        /// The text, with control sequences for text, colors and movements in it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        data: String,
        /// Whether `data` draws all on an empty screen: at the beginning, and where the client fell behind.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset: bool,
        /// Columns of the terminal from here on, where they are told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cols: Option<u16>,
        /// Its rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u16>,
        /// Why the shell in it ended; the next use opens another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<String>,
    },
    /// What the session does now; sent whenever any of it changed.
    #[serde(rename = "state")]
    State {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// What it does.
        #[serde(flatten)]
        now: State,
        /// What happened, where no other message of the same `seq` tells it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<StateEvent>,
    },
    /// Something worth knowing while one waits: a retry, a model that is loading. Not logged.
    #[serde(rename = "notice")]
    Notice {
        /// Which session.
        session_id: SessionId,
        /// One line.
        content: String,
    },
    /// A program waits for a person's answer: a password, a passphrase, whether a host key is right. Not logged.
    #[serde(rename = "question")]
    Question {
        /// Which session.
        session_id: SessionId,
        /// What is asked.
        question: Question,
    },
    /// A question has its answer, or nobody waits for one any more. Not logged.
    #[serde(rename = "question.closed")]
    QuestionClosed {
        /// Which session.
        session_id: SessionId,
        /// Which question.
        id: QuestionId,
        /// Who answered; none where it went away by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The control of the terminal changed hands. Not logged.
    #[serde(rename = "terminal.control")]
    TerminalControl {
        /// Which session.
        session_id: SessionId,
        /// The person who types while the agent waits; none where the agent may type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// A person typed into the terminal, or answered a question.
    #[serde(rename = "terminal.typed")]
    TerminalTyped {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Who.
        by: String,
        /// What, as far as it may be known.
        typed: TypedInput,
    },
    /// Something went wrong.
    #[serde(rename = "error")]
    Error {
        /// Which session.
        session_id: SessionId,
        /// Its event, where it is the end of a turn; none where it answers a message.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// One sentence.
        message: String,
        /// What kind of problem it is, for programs; none at the end of a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        /// The `messageId` of the message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<String>,
    },
    /// The connection lives.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}

impl ServerMessage {
    /// Where it comes from; none for what is not logged.
    pub fn position(&self) -> Option<LogPosition> {
        match self {
            Self::Configured { position, .. }
            | Self::PromptQueued { position, .. }
            | Self::UserMessage { position, .. }
            | Self::AssistantMessage { position, .. }
            | Self::StepFinished { position, .. }
            | Self::StepFailed { position, .. }
            | Self::AssistantDone { position, .. }
            | Self::ToolCall { position, .. }
            | Self::ToolFinished { position, .. }
            | Self::ApprovalRequest { position, .. }
            | Self::ApprovalClosed { position, .. }
            | Self::TerminalTyped { position, .. }
            | Self::State { position, .. } => Some(*position),
            Self::SessionCreated { position, .. } | Self::Error { position, .. } => *position,
            Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
            | Self::ToolCancel { .. }
            | Self::ToolOutput { .. }
            | Self::TerminalOutput { .. }
            | Self::Notice { .. }
            | Self::Question { .. }
            | Self::QuestionClosed { .. }
            | Self::TerminalControl { .. }
            | Self::Heartbeat {} => None,
        }
    }

    /// The seq that a client may resume from once it has this message: that of the last message of an event.
    pub fn resume_point(&self) -> Option<Seq> {
        self.position().filter(|position| !position.more).map(|position| position.seq)
    }

    /// Says that another message of the same event follows.
    pub(crate) fn set_more(&mut self) {
        match self {
            Self::Configured { position, .. }
            | Self::PromptQueued { position, .. }
            | Self::UserMessage { position, .. }
            | Self::AssistantMessage { position, .. }
            | Self::StepFinished { position, .. }
            | Self::StepFailed { position, .. }
            | Self::AssistantDone { position, .. }
            | Self::ToolCall { position, .. }
            | Self::ToolFinished { position, .. }
            | Self::ApprovalRequest { position, .. }
            | Self::ApprovalClosed { position, .. }
            | Self::TerminalTyped { position, .. }
            | Self::State { position, .. }
            | Self::SessionCreated { position: Some(position), .. }
            | Self::Error { position: Some(position), .. } => position.more = true,
            Self::SessionCreated { position: None, .. }
            | Self::Error { position: None, .. }
            | Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
            | Self::ToolCancel { .. }
            | Self::ToolOutput { .. }
            | Self::TerminalOutput { .. }
            | Self::Notice { .. }
            | Self::Question { .. }
            | Self::QuestionClosed { .. }
            | Self::TerminalControl { .. }
            | Self::Heartbeat {} => {}
        }
    }
}

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
    /// Which call.
    pub tool_call_id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments: an object; a string where the model wrote none.
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

/// What kind of problem an `error` tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message cannot be read, or contradicts itself.
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
    /// The server ends; the session goes on when it is back, or on another node.
    Draining,
    /// The session cannot go on here: its log cannot be written.
    Closed,
    /// The terminal cannot be opened, or there is none.
    NoTerminal,
    /// A fault of the server.
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

/// What happened, where `state` alone tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StateEvent {
    /// A turn without words of a person began: a direct call.
    TurnStarted,
    /// A model is asked.
    StepStarted,
    /// A person wants the turn to stop.
    CancelAsked,
    /// The turn waits.
    Paused,
    /// The turn goes on.
    Resumed,
    /// Older messages are no longer sent to the model.
    Compacted,
    /// The history was forgotten.
    HistoryCleared,
}

/// What a session does now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// In one word.
    pub state: SessionState,
    /// The turn that runs, or ran last; 0 before the first.
    pub turn: TurnId,
    /// Model calls in that turn so far.
    pub iteration: u32,
    /// The most model calls in one turn.
    pub max_iterations: u32,
    /// The model of the next step; left out where the encoder did not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// How much runs without a person.
    pub approve: ApprovalMode,
    /// Prompts that wait for the end of the turn.
    pub queued: u32,
    /// Why it is paused, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<PauseReason>,
    /// How many newest messages are sent to the model, where older ones had to be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_messages: Option<usize>,
    /// Whether the history was forgotten just now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history_cleared: bool,
}

/// What a session does now, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No turn runs.
    #[default]
    Idle,
    /// A model is asked.
    Thinking,
    /// A tool runs.
    Running,
    /// An approval is open.
    Waiting,
    /// The turn waits for `resume`.
    Paused,
    /// A person stopped the turn, and the running tool has yet to end.
    Stopping,
}
