//! Messages from a server to its clients. Names and fields follow the JolliAgent design; `seq` and further messages are
//! sysop's additions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::auto_bounds::AutoBounds;
use sysop_core::budget::Budget;
use sysop_core::compaction::CompactionReason;
use sysop_core::effort::Effort;
use sysop_core::event::{Origin, TypedInput};
use sysop_core::guard::{GuardEnd, GuardTimeout};
use sysop_core::id::{CallId, JobId, Seq, SessionId, Timestamp};
use sysop_core::instructions::{InstructionFile, UntrustedFile};
use sysop_core::job::JobOutput;
use sysop_core::message::{FailureKind, ModelRef};
use sysop_core::mode::Mode;
use sysop_core::outcome::{HostOutcome, Reversibility, Status, SystemChange};
use sysop_core::policy::{ApprovalMode, Finding, Grant, RiskClass};
use sysop_core::question::{Question, QuestionId};
use sysop_core::skill::Skills;
use sysop_core::style::StyleRuns;
use sysop_core::todo::TodoItem;

use crate::client_message::DecisionKind;

mod parts;
mod position;
mod state;

pub(crate) use parts::arguments_of;
pub use parts::{
    ChangedFile, ClientToolSet, ErrorCode, OfferedTool, PromptImage, TokenCounts, ToolCallRequest,
    TurnSummary,
};
pub use state::{SessionState, State, StateEvent};

/// Position of a logged message. Messages of the same event share its `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogPosition {
    /// Position of the event in the log.
    pub seq: Seq,
    /// True if another message of the same event follows. Omitted if false; only then `seq` is a resume point.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ServerMessage {
    /// A session was created. Without a `seq` it answers `hello` with the current configuration.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of its event; `None` in the answer to `hello`.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// Current model.
        model: ModelRef,
        /// Approval mode.
        approve: ApprovalMode,
        /// Mode of the next turn.
        #[serde(default)]
        mode: Mode,
        /// Host of the tools.
        host: String,
        /// Root of the file tools.
        root: String,
        /// Name of the tool profile.
        profile: String,
        /// Maximum model calls per turn.
        #[serde(default)]
        max_iterations: u32,
        /// Tools of the session's host.
        #[serde(default)]
        tools: Vec<OfferedTool>,
        /// Tools of a client, if one offers any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// Last event in the log when this message was sent. Events up to this one are history. Only in the answer to
        /// `hello`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_seq: Option<Seq>,
        /// The user who opened the session; omitted if the log does not name one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
    },
    /// The configuration changed; contains only the changed fields.
    #[serde(rename = "configured")]
    Configured {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Model of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// Approval mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approve: Option<ApprovalMode>,
        /// Bounds of the mode `auto`; once any of them is reached, the mode becomes `ask`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<AutoBounds>,
        /// Mode of the next turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Reasoning effort of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<Effort>,
        /// Limits of cost, tokens and minutes that were set; the others stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Budget>,
        /// Tools of a client; an empty set withdraws them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lent: Option<ClientToolSet>,
        /// True if rules of the server's config were added.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rules: bool,
        /// Session grants that were revoked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        revoked: Vec<Grant>,
        /// Bound of `auto` that was reached, such as `20 commands`, if that is why the mode changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reached: Option<String>,
    },
    /// A prompt was queued behind the current turn.
    #[serde(rename = "prompt.queued")]
    PromptQueued {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Text of the prompt.
        content: String,
        /// Images of the prompt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<PromptImage>,
        /// Name of the sender's token; absent for the local user, and in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A queued prompt left the queue, because its sender took it back: the newest one with this text and sender.
    #[serde(rename = "prompt.withdrawn")]
    PromptWithdrawn {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Text of the prompt.
        content: String,
        /// Name of the sender's token; absent for the local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A turn began with a user's prompt.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Text of the prompt.
        content: String,
        /// Images of the prompt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<PromptImage>,
        /// Name of the sender's token; absent for the local user, and in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// More text from the model. Not logged.
    #[serde(rename = "assistant.delta")]
    AssistantDelta {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// The next chunk, to append to the earlier ones.
        content: String,
    },
    /// More visible reasoning from the model. Not logged.
    #[serde(rename = "assistant.reasoning")]
    AssistantReasoning {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// The next chunk, to append to the earlier ones.
        content: String,
    },
    /// The deltas of this step so far are void: the request is being retried. Not logged.
    #[serde(rename = "assistant.restarted")]
    AssistantRestarted {
        /// Session to which the message belongs.
        session_id: SessionId,
    },
    /// The complete text of one step; replaces its deltas.
    #[serde(rename = "assistant.message")]
    AssistantMessage {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Complete text of the step.
        content: String,
        /// The visible reasoning; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
    },
    /// A model replied. The text of the reply is in `assistant.message`.
    #[serde(rename = "step.finished")]
    StepFinished {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Number of the model call within the turn, counted from 1.
        iteration: u32,
        /// Tokens of this model call.
        usage: TokenCounts,
        /// Tool calls of the reply, in order; each has messages of its own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallRequest>,
    },
    /// A model call failed and its step is abandoned; the turn ends or the step is repeated.
    #[serde(rename = "step.failed")]
    StepFailed {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Number of the model call within the turn, counted from 1.
        iteration: u32,
        /// Kind of the failure.
        kind: FailureKind,
        /// One sentence for display.
        message: String,
    },
    /// A turn ended. Each turn has exactly one such message.
    #[serde(rename = "assistant.done")]
    AssistantDone {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Summary of the turn.
        metadata: TurnSummary,
    },
    /// A tool call began, on the client that provides the tool or on the session's host.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call. A client must run each call at most once.
        tool_call_id: CallId,
        /// Name of the tool.
        name: String,
        /// Arguments: an object, or a string with the model's invalid text.
        arguments: Value,
        /// Source of the call.
        #[serde(default)]
        origin: Origin,
        /// True if the receiving client must run the call now and answer with `tool.result`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        run: bool,
        /// Trace context of the call: a W3C `traceparent` value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
    },
    /// The client that runs this call must stop it and still send its `tool.result`. Not logged.
    #[serde(rename = "tool.cancel")]
    ToolCancel {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Id of the call, as in `tool.call`.
        tool_call_id: CallId,
    },
    /// More output of a running tool. Not logged.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Id of the call, as in `tool.call`.
        tool_call_id: CallId,
        /// The next chunk, to append to the earlier ones.
        content: String,
    },
    /// A tool call ended, or was rejected before it began.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call, unique within the session.
        tool_call_id: CallId,
        /// Name of the tool; omitted if the server does not know the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Final status of the call.
        status: Status,
        /// Exit code of a command that was not killed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// True if `output` is incomplete.
        truncated: bool,
        /// Output as sent to the model.
        output: String,
        /// Styles of `output`: the UTF-8 byte offset where each style begins, with its SGR parameters.
        #[serde(default, rename = "looks", skip_serializing_if = "StyleRuns::is_empty")]
        styles: StyleRuns,
        /// Duration in milliseconds.
        duration_ms: u64,
        /// Name of the artifact with the full output, if it was kept.
        #[serde(default, rename = "artefact", skip_serializing_if = "Option::is_none")]
        artifact: Option<String>,
        /// Files changed through file tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChangedFile>,
        /// Outcome on each host, if the call ran on several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<HostOutcome>,
        /// Detected changes to the system.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<SystemChange>,
        /// Extent to which the call can be undone; omitted if not determined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<Reversibility>,
        /// Images that the model got.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<PromptImage>,
        /// True if nothing ran because the host could not be reached.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unreachable: bool,
    },
    /// A tool call waits for approval.
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call, unique within the session.
        tool_call_id: CallId,
        /// Name of the tool.
        name: String,
        /// The command that would run, byte for byte; for other tools a short form of the call.
        command: String,
        /// Complete arguments. Only they contain the text that a file tool would write.
        arguments: Value,
        /// The model's reason; may be empty.
        reason: String,
        /// Risk class of the call.
        risk: RiskClass,
        /// Findings of the assessment.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// Calls that the decision `allow_session` would allow for the rest of the session; omitted if the call can be
        /// allowed only once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        covers: Option<Grant>,
        /// Effects found by a probe that only reads: at most 4 lines of summary (more than 2 only if they are
        /// dangerous), then at most 200 lines of diff.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preview: Vec<String>,
        /// Time limit of the guard under which the call would run; omitted if it would run without a guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarded: Option<GuardTimeout>,
        /// Time after which the call is rejected; omitted if the approval does not expire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// Number of different people who must allow the call, if more than one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approvals: Option<u32>,
        /// The rule that `allow_always` would write, as TOML; omitted if `allow_always` is not offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<String>,
        /// Target file of the rule, for display; present if `always` is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rules_file: Option<String>,
    },
    /// The preview of an open `approval.request`, computed after the request, or for an edited command.
    #[serde(rename = "approval.preview")]
    ApprovalPreview {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call, as in `approval.request`.
        tool_call_id: CallId,
        /// The edited command that the preview describes; omitted for the command of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Risk class of the edited command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        risk: Option<RiskClass>,
        /// Findings of the assessment of the edited command.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// The new preview, as in `approval.request`.
        preview: Vec<String>,
    },
    /// One of several required users allowed a call.
    #[serde(rename = "approval.given")]
    ApprovalGiven {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call, as in `approval.request`.
        tool_call_id: CallId,
        /// The user who allowed the call.
        by: String,
        /// Total number of distinct users who must allow the call.
        needed: u32,
    },
    /// An approval was answered, or closed because the turn ended.
    #[serde(rename = "approval.closed")]
    ApprovalClosed {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call, as in `approval.request`.
        tool_call_id: CallId,
        /// The user's decision.
        decision: DecisionKind,
        /// The user who decided.
        by: String,
        /// The edited command, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Message to the model, if the call was rejected with one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Older messages were replaced with a summary.
    #[serde(rename = "context.compacted")]
    ContextCompacted {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Estimated prompt tokens before the compaction.
        before: u64,
        /// Estimated prompt tokens after the compaction.
        after: u64,
        /// Calls whose outputs are omitted from the prompt.
        elided: Vec<CallId>,
        /// Facts that code extracted from the log, without a model.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ledger: String,
        /// The model's summary; omitted if there is only a ledger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Topic that the user asked the summary to keep.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// Number of newest messages kept verbatim.
        #[serde(default)]
        kept_messages: usize,
        /// Number of messages that the ledger and the summary replace; 0 if only outputs are omitted.
        #[serde(default)]
        replaced_messages: usize,
        /// Reason for the compaction.
        #[serde(default)]
        reason: CompactionReason,
        /// Tokens of the model call that wrote the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<TokenCounts>,
    },
    /// Instructions from files that the model gets from now on.
    #[serde(rename = "instructions")]
    Instructions {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Files that the model gets, possibly truncated.
        files: Vec<InstructionFile>,
        /// Files that the model does not get, because the user does not trust the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        untrusted: Vec<UntrustedFile>,
        /// Skills and commands that can be invoked by name, without their text.
        #[serde(flatten)]
        skills: Skills,
    },
    /// The prompt of the turn invoked a skill or command.
    #[serde(rename = "prompt.expanded")]
    PromptExpanded {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Text that the model gets instead of the prompt.
        text: String,
        /// Commands that run before the model is asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<String>,
    },
    /// The agent replaced its todo list.
    #[serde(rename = "todo")]
    Todo {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// The complete new list.
        items: Vec<TodoItem>,
    },
    /// A command continues in the background.
    #[serde(rename = "job.started")]
    JobStarted {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the job, unique within the session.
        job_id: JobId,
        /// The call that started it.
        tool_call_id: CallId,
        /// The full command line.
        command: String,
        /// Host that the command runs on.
        host: String,
    },
    /// A background job ended. The status is `unknown` if sysop exited, or lost the connection, while the job ran.
    #[serde(rename = "job.finished")]
    JobFinished {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the job, as in `job.started`.
        job_id: JobId,
        /// The command; empty if the server does not know the start of the job.
        #[serde(default)]
        command: String,
        /// Host that the command ran on; empty if the server does not know the start of the job.
        #[serde(default)]
        host: String,
        /// Final status of the command.
        status: Status,
        /// Exit code of a command that was not killed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Output of the job.
        #[serde(default, skip_serializing_if = "JobOutput::is_empty")]
        output: JobOutput,
    },
    /// A guard was armed on a host before a risky change.
    #[serde(rename = "guard.armed")]
    GuardArmed {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// The guarded call.
        tool_call_id: CallId,
        /// Host of the guard.
        host: String,
        /// Seconds until the change is rolled back.
        seconds: u32,
    },
    /// A guard ended: the change was confirmed or rolled back, or the host became unreachable.
    #[serde(rename = "guard.ended")]
    GuardEnded {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// The guarded call.
        tool_call_id: CallId,
        /// Host of the guard.
        host: String,
        /// Outcome of the guard.
        how: GuardEnd,
    },
    /// The changes made by a call were undone.
    #[serde(rename = "undone")]
    Undone {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// Id of the call that was undone.
        tool_call_id: CallId,
        /// Number of that call in the session, counted from 1; absent in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
        /// The user who requested the undo; in older logs, the one who allowed it.
        by: String,
        /// Extent of the undo.
        how: Reversibility,
    },
    /// Output of a live terminal, for clients attached to it. Not logged.
    #[serde(rename = "terminal.output")]
    TerminalOutput {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// The text, with control sequences for colors and cursor movements only.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        data: String,
        /// True if `data` draws everything on an empty screen: at the start, and after the client fell behind.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset: bool,
        /// New number of columns, if the size changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cols: Option<u16>,
        /// New number of rows, if the size changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u16>,
        /// Reason why the shell ended. The next use of the terminal starts another shell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<String>,
        /// Id of the server process, in the first message after `terminal.attach`. If it differs from the earlier one,
        /// the server was restarted, and the earlier shell has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<String>,
    },
    /// Current state of the session; sent whenever a part of the state changed.
    #[serde(rename = "state")]
    State {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// State after the event.
        #[serde(flatten)]
        now: State,
        /// The event, if no other message with the same `seq` reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<StateEvent>,
        /// Origin of the call that the turn runs without a model; present if `event` is `turn_started`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
        /// Name of the token that asked for the call of the turn; only if `event` is `turn_started`. Absent for the
        /// local user, and in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Progress of the model call in flight; a newer one replaces it. Not logged.
    #[serde(rename = "assistant.progress")]
    AssistantProgress {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Tokens of the prompt that the model's server has read; absent if the server does not report that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_done: Option<u64>,
        /// All tokens of the prompt; present if `promptDone` is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_total: Option<u64>,
        /// Tokens of the reply received so far, estimated.
        received: u64,
        /// Time since the first token of the reply, in milliseconds.
        receiving_ms: u64,
    },
    /// Transient information, such as a retry or a model that is loading. Not logged.
    #[serde(rename = "notice")]
    Notice {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Text of the notice; one line.
        content: String,
    },
    /// A program waits for a user's answer: a password, a passphrase, the confirmation of a host key. Not logged.
    #[serde(rename = "question")]
    Question {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// The question, with the program that asks and the kind of answer.
        question: Question,
    },
    /// A question was answered, or its program no longer waits. Not logged.
    #[serde(rename = "question.closed")]
    QuestionClosed {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Id of the question, as in `question`.
        id: QuestionId,
        /// The user who answered; omitted if the program stopped waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Control of the terminal changed. Not logged.
    #[serde(rename = "terminal.control")]
    TerminalControl {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// The user who types while the agent waits; omitted if the agent may type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// A user typed into the terminal, or answered a question.
    #[serde(rename = "terminal.typed")]
    TerminalTyped {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log.
        #[serde(flatten)]
        position: LogPosition,
        /// The user who typed or answered.
        by: String,
        /// Amount of typing, or a non-secret answer; never the typed keys.
        typed: TypedInput,
    },
    /// A request failed, or the connection is about to close.
    #[serde(rename = "error")]
    Error {
        /// Session to which the message belongs.
        session_id: SessionId,
        /// Position of this message's event in the log, if it ends a turn; `None` if it answers a message.
        #[serde(flatten)]
        position: Option<LogPosition>,
        /// One sentence for display.
        message: String,
        /// Kind of the error, for programs; omitted at the end of a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        /// `messageId` of the client message that caused this error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<String>,
    },
    /// Keeps the connection alive.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}
