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
        /// The person who opened it; left out for sessions of 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
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
    /// Whoever runs this call is to stop it. Its `tool.result` still counts if it comes within a second. Not logged.
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
        /// Changes to the system that were recognized.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<SystemChange>,
        /// How much of it can be undone; left out if nobody looked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<Reversibility>,
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
        /// Effects that a dry run found, one a line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preview: Vec<String>,
        /// Set if the call would run under a guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarded: Option<GuardTimeout>,
        /// The rule that `allow_always` would write, as TOML; left out where that is not offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<String>,
        /// The file that the rule would be written to, for people; there where `always` is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rules_file: Option<String>,
    },
    /// One of several people whose consent is needed allowed a call.
    #[serde(rename = "approval.given")]
    ApprovalGiven {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which call.
        tool_call_id: CallId,
        /// The person.
        by: String,
        /// Number of different people who must allow it in all.
        needed: u32,
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
        /// Calls whose outputs are left out of the prompt.
        elided: Vec<CallId>,
        /// Facts that the code took from the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ledger: String,
        /// The model's summary; left out for a ledger alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Focus that a person asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// Number of newest messages that stay as they are.
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
        /// The whole list.
        items: Vec<TodoItem>,
    },
    /// A command went on in the background.
    #[serde(rename = "job.started")]
    JobStarted {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which job.
        job_id: JobId,
        /// The call that started it.
        tool_call_id: CallId,
        /// The command.
        command: String,
        /// The host that it runs on.
        host: String,
    },
    /// A background job ended, or was lost with its process: then its status is `unknown`.
    #[serde(rename = "job.finished")]
    JobFinished {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// Which job.
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
        /// The call that is guarded.
        tool_call_id: CallId,
        /// The host.
        host: String,
        /// Seconds until the change is rolled back.
        seconds: u32,
    },
    /// A guard was confirmed, fired, or was lost sight of.
    #[serde(rename = "guard.ended")]
    GuardEnded {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        position: LogPosition,
        /// The call that was guarded.
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
        /// Which call.
        tool_call_id: CallId,
        /// The person who wanted it.
        by: String,
        /// How much was undone.
        how: Reversibility,
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
        /// That they typed, or what they answered: never what they typed.
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
