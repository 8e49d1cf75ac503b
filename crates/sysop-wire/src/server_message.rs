//! What a server tells its clients.
//!
//! Names and fields are those of the JolliAgent design; `seq` and the messages that it does not have are
//! additions of ours.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{Origin, TypedInput};
use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::id::{CallId, JobId, Seq, SessionId};
use sysop_core::message::{FailureKind, ModelRef};
use sysop_core::mode::Mode;
use sysop_core::outcome::{HostOutcome, Reversibility, Status, SystemChange};
use sysop_core::policy::{ApprovalMode, Finding, Grant, RiskClass};
use sysop_core::question::{Question, QuestionId};
use sysop_core::style::StyleRuns;
use sysop_core::todo::TodoItem;

use crate::client_message::DecisionKind;

mod parts;
mod state;

pub(crate) use parts::arguments_of;
pub use parts::{
    ChangedFile, ClientToolSet, ErrorCode, OfferedTool, TokenCounts, ToolCallRequest, TurnSummary,
};
pub use state::{SessionState, State, StateEvent};

/// Where a logged message comes from. One event may give several messages; they share its `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogPosition {
    /// The event.
    pub seq: Seq,
    /// Set if another message of the same event follows. A client may resume only from a `seq` without it. False is
    /// left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// One message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ServerMessage {
    /// The session exists. Without a `seq`, the message answers `hello` and has the current settings of the session.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// Which session.
        session_id: SessionId,
        /// Its event; none where it answers `hello`.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// Model of the session.
        model: ModelRef,
        /// Approval mode.
        approve: ApprovalMode,
        /// With tools (`agent`) or without (`chat`), from the next turn on.
        #[serde(default)]
        mode: Mode,
        /// Host of its tools.
        host: String,
        /// Root of its file tools.
        root: String,
        /// Name of its tool profile.
        profile: String,
        /// Maximum number of model calls per turn.
        #[serde(default)]
        max_iterations: u32,
        /// Tools on the session's own host.
        #[serde(default)]
        tools: Vec<OfferedTool>,
        /// Tools that a client lends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// The last event when this was sent; events up to it are history. Only in the answer to `hello`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_seq: Option<Seq>,
        /// The user who opened it. Absent for sessions of 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
    },
    /// Settings of the session changed. Only changed settings are present.
    #[serde(rename = "configured")]
    Configured {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Model of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// Approval mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approve: Option<ApprovalMode>,
        /// With tools (`agent`) or without (`chat`), from the next turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Tools that a client lends. An empty list withdraws them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// Whether rules of the server's config were added.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rules: bool,
    },
    /// A user sent a prompt during a turn. It waits for the end of that turn.
    #[serde(rename = "prompt.queued")]
    PromptQueued {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The prompt.
        content: String,
    },
    /// A user sent a prompt, and a turn started.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The prompt.
        content: String,
    },
    /// More text of the model. Not logged.
    #[serde(rename = "assistant.delta")]
    AssistantDelta {
        /// Which session.
        session_id: SessionId,
        /// The new text.
        content: String,
    },
    /// More visible reasoning of the model. Not logged.
    #[serde(rename = "assistant.reasoning")]
    AssistantReasoning {
        /// Which session.
        session_id: SessionId,
        /// The new text.
        content: String,
    },
    /// Discards all deltas of this step: the request is retried. Not logged.
    #[serde(rename = "assistant.restarted")]
    AssistantRestarted {
        /// Which session.
        session_id: SessionId,
    },
    /// The complete text of one step. It replaces the deltas.
    #[serde(rename = "assistant.message")]
    AssistantMessage {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The text.
        content: String,
        /// Visible reasoning, if any.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
    },
    /// A model call ended. Its text is in `assistant.message`.
    #[serde(rename = "step.finished")]
    StepFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Number of the model call within the turn, from 1.
        iteration: u32,
        /// Tokens of this call.
        usage: TokenCounts,
        /// Tool calls that the model requests, in order. Each has messages of its own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallRequest>,
    },
    /// A model call failed. The turn ends, or the step is repeated.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Number of the model call within the turn, from 1.
        iteration: u32,
        /// Kind of the failure.
        kind: FailureKind,
        /// One sentence for display.
        message: String,
    },
    /// A turn ended. Each turn has exactly one such message.
    #[serde(rename = "assistant.done")]
    AssistantDone {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// How it ended, and its cost.
        metadata: TurnSummary,
    },
    /// A tool call started, on the client that lends the tool or on the session's own host.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call. A tool host runs an id once.
        tool_call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments: an object, or a string if the model wrote no object.
        arguments: Value,
        /// Origin of the call.
        #[serde(default)]
        origin: Origin,
        /// Set if the receiving client must run the call now and answer with `tool.result`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        run: bool,
        /// Which trace it belongs to, as W3C Trace Context writes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
    },
    /// Whoever runs this call is to stop it. Its `tool.result` still counts if it comes within a second. Not logged.
    #[serde(rename = "tool.cancel")]
    ToolCancel {
        /// Which session.
        session_id: SessionId,
        /// Id of the call.
        tool_call_id: CallId,
    },
    /// More output of a running tool. Not logged.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// Which session.
        session_id: SessionId,
        /// Id of the call.
        tool_call_id: CallId,
        /// The new text.
        content: String,
    },
    /// A tool call ended, or was refused before it started.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call.
        tool_call_id: CallId,
        /// The tool. Absent if the encoder did not see the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How it ended.
        status: Status,
        /// Exit code of a command that ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether `output` is truncated.
        truncated: bool,
        /// Output for the model.
        output: String,
        /// Styles of `output`: byte offsets in its UTF-8, each with the parameters of an SGR sequence.
        #[serde(default, rename = "looks", skip_serializing_if = "StyleRuns::is_empty")]
        styles: StyleRuns,
        /// Duration in milliseconds.
        duration_ms: u64,
        /// Name of the artifact with the complete output, if stored.
        #[serde(default, rename = "artefact", skip_serializing_if = "Option::is_none")]
        artifact: Option<String>,
        /// Files that it changed through file tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChangedFile>,
        /// Outcome per host, for several hosts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<HostOutcome>,
        /// Recognized changes to the system.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<SystemChange>,
        /// How much of it can be undone. Absent if not checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<Reversibility>,
    },
    /// A tool call waits for approval.
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call.
        tool_call_id: CallId,
        /// The tool.
        name: String,
        /// The command that would run, byte for byte; for other tools a short form of the call.
        command: String,
        /// The complete arguments. Only they contain the text that a file tool would write.
        arguments: Value,
        /// Reason that the model gave.
        reason: String,
        /// Risk class of the call.
        risk: RiskClass,
        /// Findings in the command.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// Calls that `allow_session` would allow.
        covers: Grant,
        /// Effects that a dry run found, one a line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preview: Vec<String>,
        /// Set if the call would run under a guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarded: Option<GuardTimeout>,
        /// The rule that `allow_always` would write, as TOML. Absent if that is not offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<String>,
        /// File of that rule, for display. Present together with `always`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rules_file: Option<String>,
    },
    /// One of several required users allowed a call.
    #[serde(rename = "approval.given")]
    ApprovalGiven {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call.
        tool_call_id: CallId,
        /// The user.
        by: String,
        /// Number of different users who must allow it.
        needed: u32,
    },
    /// An approval was answered, or nobody can answer it anymore.
    #[serde(rename = "approval.closed")]
    ApprovalClosed {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call.
        tool_call_id: CallId,
        /// The answer.
        decision: DecisionKind,
        /// The user who answered.
        by: String,
        /// The command that runs instead, if it was edited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Reason for the model, if it was rejected with one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Older messages were replaced by a shorter text.
    #[serde(rename = "context.compacted")]
    ContextCompacted {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Tokens of the prompt before, estimated.
        before: u64,
        /// Tokens of the prompt after, estimated.
        after: u64,
        /// Calls whose outputs the prompt omits.
        elided: Vec<CallId>,
        /// Facts that sysop extracted from the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ledger: String,
        /// Summary by the model. Absent for a ledger alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Focus that a user asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// Number of newest messages that stay unchanged.
        #[serde(default)]
        kept_messages: usize,
    },
    /// The agent changed its todo list.
    #[serde(rename = "todo")]
    Todo {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The complete list.
        items: Vec<TodoItem>,
    },
    /// A command continues in the background.
    #[serde(rename = "job.started")]
    JobStarted {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the job.
        job_id: JobId,
        /// The call that started it.
        tool_call_id: CallId,
        /// The command.
        command: String,
        /// The host that it runs on.
        host: String,
    },
    /// A background job ended, or was lost with its process (status `unknown`).
    #[serde(rename = "job.finished")]
    JobFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the job.
        job_id: JobId,
        /// The command; empty if the encoder did not see its start.
        #[serde(default)]
        command: String,
        /// The host that it ran on; empty if the encoder did not see its start.
        #[serde(default)]
        host: String,
        /// How it ended.
        status: Status,
        /// The exit code of a command that ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// A guard was armed on a host before a risky change.
    #[serde(rename = "guard.armed")]
    GuardArmed {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The guarded call.
        tool_call_id: CallId,
        /// The host.
        host: String,
        /// Seconds until the change is rolled back.
        seconds: u32,
    },
    /// A guard was confirmed, fired, or could no longer be observed.
    #[serde(rename = "guard.ended")]
    GuardEnded {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The guarded call.
        tool_call_id: CallId,
        /// The host.
        host: String,
        /// How it ended.
        how: GuardEnd,
    },
    /// The changes of a call were undone.
    #[serde(rename = "undone")]
    Undone {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call.
        tool_call_id: CallId,
        /// The user who asked for it.
        by: String,
        /// How much was undone.
        how: Reversibility,
    },
    /// Output of the live terminal, for attached clients only. Not logged.
    #[serde(rename = "terminal.output")]
    TerminalOutput {
        /// Which session.
        session_id: SessionId,
        /// The text, with control sequences for text, colors and cursor movement.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        data: String,
        /// Set if `data` draws the complete screen: at the start, and after the client fell behind.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset: bool,
        /// New number of columns, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cols: Option<u16>,
        /// Number of rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u16>,
        /// Why its shell ended. The next use opens another shell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<String>,
    },
    /// State of the session, sent after each change.
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
        /// The event, if no other message of the same `seq` reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<StateEvent>,
    },
    /// Progress while a user waits: a retry, a loading model. Not logged.
    #[serde(rename = "notice")]
    Notice {
        /// Which session.
        session_id: SessionId,
        /// One line.
        content: String,
    },
    /// A program waits for a user's answer: a password, a passphrase, a host key check. Not logged.
    #[serde(rename = "question")]
    Question {
        /// Which session.
        session_id: SessionId,
        /// The question.
        question: Question,
    },
    /// A question was answered or withdrawn. Not logged.
    #[serde(rename = "question.closed")]
    QuestionClosed {
        /// Which session.
        session_id: SessionId,
        /// Id of the question.
        id: QuestionId,
        /// The user who answered. Absent if the question was withdrawn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Control of the terminal changed. Not logged.
    #[serde(rename = "terminal.control")]
    TerminalControl {
        /// Which session.
        session_id: SessionId,
        /// The user who types while the agent waits. Absent if the agent may type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// A user typed into the terminal, or answered a question.
    #[serde(rename = "terminal.typed")]
    TerminalTyped {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The user.
        by: String,
        /// The fact that they typed, or their answer. Never the typed text.
        typed: TypedInput,
    },
    /// An error.
    #[serde(rename = "error")]
    Error {
        /// Which session.
        session_id: SessionId,
        /// Its event, where it is the end of a turn; none where it answers a message.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// One sentence for display.
        message: String,
        /// Kind of the problem, for programs. Absent at the end of a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        /// `messageId` of the message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<String>,
    },
    /// Keeps the connection alive.
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
            | Self::ApprovalGiven { position, .. }
            | Self::ContextCompacted { position, .. }
            | Self::Todo { position, .. }
            | Self::JobStarted { position, .. }
            | Self::JobFinished { position, .. }
            | Self::GuardArmed { position, .. }
            | Self::GuardEnded { position, .. }
            | Self::Undone { position, .. }
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
            | Self::ApprovalGiven { position, .. }
            | Self::ContextCompacted { position, .. }
            | Self::Todo { position, .. }
            | Self::JobStarted { position, .. }
            | Self::JobFinished { position, .. }
            | Self::GuardArmed { position, .. }
            | Self::GuardEnded { position, .. }
            | Self::Undone { position, .. }
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
