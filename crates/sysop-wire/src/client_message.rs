//! Messages from a client to its server.
//!
//! Names and fields follow the JolliAgent design; further messages and fields are sysop's additions. `sessionId` is
//! optional everywhere, because a socket belongs to one session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sysop_core::auto_bounds::AutoBounds;
use sysop_core::effort::Effort;
use sysop_core::event::{ConfigChange, Decision, Input, Origin};
use sysop_core::id::{CallId, JobId, Seq, SessionId};
use sysop_core::message::ModelRef;
use sysop_core::mode::Mode;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, Grant};
use sysop_core::question::QuestionId;

use crate::secret::Secret;
use crate::server_message::PromptImage;

/// Tool that runs a `direct` message that contains only a command.
const COMMAND_TOOL: &str = "bash";

/// Fields common to all messages of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Envelope {
    /// Id of the session; required only if the URL does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Id chosen by the client; an `error` that answers this message repeats it as `replyTo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Trace context of the message: a W3C `traceparent` value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// One message from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ClientMessage {
    /// The first message: identifies the client and offers its tools.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// A user's prompt. While a turn runs, the prompt is queued; more than 32 queued prompts are refused with
    /// `too_many`.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Text of the prompt.
        content: String,
        /// Images of the prompt, at most 8, as `POST …/images` returned them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<PromptImage>,
    },
    /// Result of a `tool.call` that this client ran.
    #[serde(rename = "tool.result")]
    ToolResult(ToolResult),
    /// More output of a tool that this client runs, for live display.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the call, as in `tool.call`.
        tool_call_id: CallId,
        /// The next chunk, to append to the earlier ones.
        content: String,
    },
    /// Cancels the turn.
    #[serde(rename = "cancel")]
    Cancel {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// A user's decision on an `approval.request`.
    #[serde(rename = "approval.decision")]
    ApprovalDecision {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the call, as in `approval.request`.
        tool_call_id: CallId,
        /// The user's decision.
        decision: DecisionKind,
        /// Command to run instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Message to the model, if the call is rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Asks for the preview of an edited command before the decision; the answer is `approval.preview`.
    #[serde(rename = "approval.preview")]
    ApprovalPreview {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the call, as in `approval.request`.
        tool_call_id: CallId,
        /// The command as edited so far. It does not run.
        command: String,
    },
    /// Takes back a prompt of the sender that is still queued; the newest one with this text. The answer is
    /// `prompt.withdrawn`.
    #[serde(rename = "prompt.withdraw")]
    WithdrawPrompt {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Text of the prompt, as in `prompt.queued`.
        content: String,
    },
    /// Moves the running command to the background.
    #[serde(rename = "tool.background")]
    Background {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Stops a background job.
    #[serde(rename = "job.stop")]
    StopJob {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the job, as in `job.started`.
        job_id: JobId,
    },
    /// A user's answer to a `question`: exactly one of `answer`, `refuse` and `noSecret`.
    #[serde(rename = "question.answer")]
    QuestionAnswer {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the question, as in `question`.
        id: QuestionId,
        /// The answer, without the line end. Never logged if the question is for a secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Secret>,
        /// True if the user refuses to answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refuse: bool,
        /// True if the prompt does not ask for a secret; the user answers it in the terminal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_secret: bool,
    },
    /// Runs one call without a model.
    #[serde(rename = "direct")]
    Direct {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// A shell command; short for a call of `bash`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// The tool, if no command is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Arguments of the tool.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        arguments: Map<String, Value>,
        /// Source of the call.
        #[serde(default)]
        origin: DirectOrigin,
    },
    /// Changes the session's configuration from now on.
    #[serde(rename = "configure")]
    Configure {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Model of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// Approval mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approve: Option<ApprovalMode>,
        /// Bounds of the mode `auto`, such as `20 commands, 30m, $0.50, @lab`. Requires `approve` to be `auto`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<String>,
        /// Mode of the next turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Reasoning effort of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<Effort>,
        /// Session grants to revoke.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        revoke: Vec<RevokedGrant>,
    },
    /// Pauses after the current step. If the turn ends with that step, its next queued prompt is paused.
    #[serde(rename = "pause")]
    Pause {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Continues after a pause.
    #[serde(rename = "resume")]
    Resume {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Runs the last prompt again with a fresh history.
    #[serde(rename = "retry")]
    Retry {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Drops the history.
    #[serde(rename = "clear")]
    Clear {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Replaces older messages with a summary, now or before the next step.
    #[serde(rename = "compact")]
    Compact {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Topic that the summary must keep.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
    },
    /// Watches the live terminal, opening it if necessary; the first `terminal.output` draws its current content.
    #[serde(rename = "terminal.attach")]
    TerminalAttach {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Columns of the client's screen; if omitted, the size does not change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cols: Option<u16>,
        /// Rows of the client's screen; if omitted, the size does not change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u16>,
        /// Number of rows of scrollback to send first; they replace the client's scrollback. Default 0; at most about
        /// 500 KB are sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scrollback: Option<u16>,
    },
    /// Stops watching the live terminal.
    #[serde(rename = "terminal.detach")]
    TerminalDetach {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Keys for the live terminal. The agent waits from the first key on. Before the terminal's first output, keys are
    /// refused with `no_terminal`.
    #[serde(rename = "terminal.input")]
    TerminalInput {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Bytes sent by the keys.
        data: Secret,
    },
    /// Resizes the live terminal.
    #[serde(rename = "terminal.resize")]
    TerminalResize {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
        /// Width in columns.
        cols: u16,
        /// Height in rows.
        rows: u16,
    },
    /// Returns control of the live terminal to the agent.
    #[serde(rename = "terminal.release")]
    TerminalRelease {
        /// Session and message ids.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Keeps the connection alive.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}

/// Identity of a client, and the tools that it offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Hello {
    /// Session and message ids.
    #[serde(flatten)]
    pub envelope: Envelope,
    /// Name and version of the client, for display.
    pub client_version: String,
    /// Tools that run on the client.
    pub tool_manifest: Vec<ManifestTool>,
    /// Root of the client's file tools.
    pub workspace_root: String,
    /// Last event that the client has; later events are sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<Seq>,
}

/// A tool that a client offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManifestTool {
    /// Name: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`.
    pub name: String,
    /// Description for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments; some clients call it `inputSchema`.
    #[serde(alias = "inputSchema")]
    pub parameters: Value,
}

/// Result of a call that a client ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Session and message ids.
    #[serde(flatten)]
    pub envelope: Envelope,
    /// Id of the call, as in `tool.call`.
    pub tool_call_id: CallId,
    /// Output for the model.
    pub output: String,
    /// Error message, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Final status; if omitted, `failed` if there is an `error`, otherwise `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Exit code of a command that was not killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// True if `output` is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl ToolResult {
    /// Converts the outcome of a call on the client's host. Its artifacts and changes are left out, because
    /// they stay on that host, which alone can undo the changes.
    pub fn new(call: CallId, outcome: Outcome) -> Self {
        Self {
            envelope: Envelope::default(),
            tool_call_id: call,
            output: outcome.output,
            error: None,
            status: Some(outcome.status),
            exit_code: outcome.exit_code,
            truncated: outcome.truncated,
            duration_ms: Some(outcome.duration_ms),
        }
    }

    /// Returns the call and its outcome. An `error` is put before the output. If there is no `status`, an `error` means
    /// that the call failed.
    pub fn into_outcome(self) -> (CallId, Outcome) {
        let (status, output) = match self.error {
            Some(error) if self.output.is_empty() => (Status::Failed, error),
            Some(error) => (Status::Failed, format!("{error}\n{}", self.output)),
            None => (Status::Ok, self.output),
        };
        let outcome = Outcome {
            exit_code: self.exit_code,
            truncated: self.truncated,
            duration_ms: self.duration_ms.unwrap_or(0),
            ..Outcome::new(self.status.unwrap_or(status), output)
        };
        (self.tool_call_id, outcome)
    }
}

/// Decision on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// Run the call once.
    Allow,
    /// Run this call and similar ones for the rest of the session.
    AllowSession,
    /// Run the call, and write the rule in the request's `always`, so that it runs without approval from now on.
    /// Published and logged as `allow`.
    AllowAlways,
    /// Do not run the call.
    Reject,
}

/// Source of a direct call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DirectOrigin {
    /// Typed by a user exactly as it runs; typing counts as approval.
    Typed,
    /// From a routine; subject to approval like a model's call.
    #[default]
    Routine,
    /// Proposed by the model while the session was read-only; subject to approval like a model's call.
    Plan,
}

/// A user's reply to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionReply {
    /// The text of the answer.
    Given(Secret),
    /// The prompt is not for a secret.
    NoSecret,
    /// The user refuses to answer.
    Refused,
}

/// Error: the text is not a valid message. `Display` is one sentence to send back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid message: {0}")]
pub struct MessageError(String);

/// A session grant to revoke, as in `covers` of `approval.request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RevokedGrant {
    /// Exactly this command.
    Exact {
        /// The full command line.
        command: String,
    },
    /// Simple calls of a program.
    Program {
        /// Program name, as in `git`.
        program: String,
        /// Its subcommand, if the grant names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subcommand: Option<String>,
    },
    /// Calls of a tool.
    Tool {
        /// Name of the tool.
        name: String,
    },
}

impl From<Grant> for RevokedGrant {
    fn from(grant: Grant) -> Self {
        match grant {
            Grant::Exact { command } => Self::Exact { command },
            Grant::Program { program, subcommand } => Self::Program { program, subcommand },
            Grant::Tool { name } => Self::Tool { name },
        }
    }
}

impl From<RevokedGrant> for Grant {
    fn from(grant: RevokedGrant) -> Self {
        match grant {
            RevokedGrant::Exact { command } => Self::Exact { command },
            RevokedGrant::Program { program, subcommand } => Self::Program { program, subcommand },
            RevokedGrant::Tool { name } => Self::Tool { name },
        }
    }
}

impl ClientMessage {
    /// Returns true if the message can start a turn.
    pub fn starts_turn(&self) -> bool {
        matches!(self, Self::UserMessage { .. } | Self::Direct { .. } | Self::Retry { .. })
    }

    /// Returns the message for a configuration change; the message is empty if only the server can make that change.
    fn configure(envelope: Envelope, change: &ConfigChange) -> Self {
        let (mut model, mut approve, mut bounds, mut mode, mut effort) = (None, None, None, None, None);
        let mut revoke = Vec::new();
        match change {
            ConfigChange::Model(new) => model = Some(new.clone()),
            ConfigChange::Approve(new) => approve = Some(*new),
            ConfigChange::Auto(new) => (approve, bounds) = (Some(ApprovalMode::Auto), Some(new.to_string())),
            ConfigChange::Mode(new) => mode = Some(*new),
            ConfigChange::Effort(new) => effort = Some(*new),
            ConfigChange::Revoke(grants) => revoke.extend(grants.iter().cloned().map(RevokedGrant::from)),
            ConfigChange::Budget(_) | ConfigChange::Rules { .. } | ConfigChange::ClientTools(_) => {}
        }
        Self::Configure { envelope, model, approve, bounds, mode, effort, revoke }
    }

    /// Parses one message. Fails if the text is not a valid message, or if its fields contradict each other.
    /// The error never repeats an answer or keys.
    pub fn parse(text: &str) -> Result<Self, MessageError> {
        let message: Self = serde_json::from_str(text).map_err(|error| MessageError(error.to_string()))?;
        match message.contradiction() {
            Some(why) => Err(MessageError(why.to_owned())),
            None => Ok(message),
        }
    }

    /// Returns a description of the contradiction between fields that are valid by themselves, if any.
    fn contradiction(&self) -> Option<&'static str> {
        if let Self::QuestionAnswer { answer, refuse, no_secret, .. } = self
            && [answer.is_some(), *refuse, *no_secret].iter().filter(|given| **given).count() != 1
        {
            return Some("set exactly one of `answer`, `refuse` and `noSecret`");
        }
        if let Self::Direct { command, tool, arguments, .. } = self
            && (command.is_some() == tool.is_some() || (command.is_some() && !arguments.is_empty()))
        {
            return Some("set either `command`, or `tool` with its `arguments`");
        }
        if let Self::ApprovalDecision { decision: DecisionKind::AllowAlways, command: Some(_), .. } = self {
            return Some("`allow_always` applies to the proposed command; omit `command`");
        }
        if let Self::Configure { approve, bounds: Some(bounds), .. } = self
            && (*approve != Some(ApprovalMode::Auto) || bounds.parse::<AutoBounds>().is_err())
        {
            return Some(
                "`bounds` needs `approve` to be `auto`, and bounds such as `20 commands, 30m, $0.50, @lab`",
            );
        }
        None
    }

    /// Converts an input to a message. Returns `None` for an input that only the session's own process sends,
    /// and for client tools, which are offered with `hello`. The message omits `by`, because the server knows
    /// the connected user.
    #[expect(clippy::wildcard_enum_match_arm, reason = "clients send no other input")]
    pub fn from_input(input: &Input) -> Option<Self> {
        let envelope = Envelope::default();
        Some(match input {
            Input::Prompt { text, images, .. } => {
                let images = images.iter().map(PromptImage::from).collect();
                Self::UserMessage { envelope, content: text.clone(), images }
            }
            Input::Direct { tool, arguments, origin, .. } => {
                let origin = match origin {
                    Origin::User => DirectOrigin::Typed,
                    Origin::Plan => DirectOrigin::Plan,
                    Origin::Routine | Origin::McpClient | Origin::Model => DirectOrigin::Routine,
                };
                let (tool, arguments) = (Some(tool.clone()), arguments.clone());
                Self::Direct { envelope, command: None, tool, arguments, origin }
            }
            Input::Decision { call, decision, .. } => {
                let (decision, command, reason) = DecisionKind::from_decision(decision.clone());
                let tool_call_id = call.clone();
                Self::ApprovalDecision { envelope, tool_call_id, decision, command, reason }
            }
            Input::PreviewCommand { call, command } => {
                Self::ApprovalPreview { envelope, tool_call_id: call.clone(), command: command.clone() }
            }
            Input::Cancel => Self::Cancel { envelope },
            Input::WithdrawPrompt { text, .. } => Self::WithdrawPrompt { envelope, content: text.clone() },
            Input::Pause => Self::Pause { envelope },
            Input::Resume => Self::Resume { envelope },
            Input::Retry => Self::Retry { envelope },
            Input::Clear => Self::Clear { envelope },
            Input::Compact { focus } => Self::Compact { envelope, focus: focus.clone() },
            Input::Background => Self::Background { envelope },
            Input::StopJob { job } => Self::StopJob { envelope, job_id: *job },
            Input::Configure {
                change:
                    change @ (ConfigChange::Model(_)
                    | ConfigChange::Approve(_)
                    | ConfigChange::Auto(_)
                    | ConfigChange::Mode(_)
                    | ConfigChange::Effort(_)
                    | ConfigChange::Revoke(_)),
            } => Self::configure(envelope, change),
            _ => return None,
        })
    }

    /// Returns the common fields; `None` for a heartbeat.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Hello(Hello { envelope, .. })
            | Self::ToolResult(ToolResult { envelope, .. })
            | Self::UserMessage { envelope, .. }
            | Self::ToolOutput { envelope, .. }
            | Self::WithdrawPrompt { envelope, .. }
            | Self::Cancel { envelope }
            | Self::ApprovalDecision { envelope, .. }
            | Self::ApprovalPreview { envelope, .. }
            | Self::QuestionAnswer { envelope, .. }
            | Self::Direct { envelope, .. }
            | Self::Configure { envelope, .. }
            | Self::Pause { envelope }
            | Self::Resume { envelope }
            | Self::Retry { envelope }
            | Self::Clear { envelope }
            | Self::Compact { envelope, .. }
            | Self::Background { envelope }
            | Self::StopJob { envelope, .. }
            | Self::TerminalAttach { envelope, .. }
            | Self::TerminalDetach { envelope }
            | Self::TerminalInput { envelope, .. }
            | Self::TerminalResize { envelope, .. }
            | Self::TerminalRelease { envelope } => Some(envelope),
            Self::Heartbeat {} => None,
        }
    }

    /// Returns the session that the message names, if any.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.envelope()?.session_id.as_ref()
    }

    /// Converts the message to inputs for the session, in order. Returns no inputs for a message that
    /// concerns only the connection, its tool host, its terminal or a question. Use [`Hello::client_tools`]
    /// to convert the tools offered by `hello`. `by` is the sender's name for the log.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other messages concern only the connection")]
    pub fn inputs(&self, by: &str) -> Vec<Input> {
        match self {
            Self::UserMessage { content, images, .. } => {
                let images = images.iter().cloned().map(Into::into).collect();
                vec![Input::Prompt { text: content.clone(), images, by: Some(by.to_owned()) }]
            }
            Self::ApprovalDecision { tool_call_id, decision, command, reason, .. } => {
                let decision = decision.into_decision(command.clone(), reason.clone().unwrap_or_default());
                vec![Input::Decision {
                    call: tool_call_id.clone(),
                    decision,
                    by: by.to_owned(),
                    person: None,
                }]
            }
            Self::Direct { command, tool, arguments, origin, .. } => {
                vec![direct(command.as_deref(), tool.as_deref(), arguments, *origin, by)]
            }
            Self::Configure { model, approve, bounds, mode, effort, revoke, .. } => {
                let revoke = (!revoke.is_empty())
                    .then(|| ConfigChange::Revoke(revoke.iter().cloned().map(Grant::from).collect()));
                let bounds = bounds.as_ref().and_then(|bounds| bounds.parse().ok());
                let approve = bounds.map(ConfigChange::Auto).or(approve.map(ConfigChange::Approve));
                let changes = model.clone().map(ConfigChange::Model).into_iter().chain(approve);
                let changes =
                    changes.chain(mode.map(ConfigChange::Mode)).chain(effort.map(ConfigChange::Effort));
                changes.chain(revoke).map(|change| Input::Configure { change }).collect()
            }
            Self::ApprovalPreview { tool_call_id, command, .. } => {
                vec![Input::PreviewCommand { call: tool_call_id.clone(), command: command.clone() }]
            }
            Self::Cancel { .. } => vec![Input::Cancel],
            Self::WithdrawPrompt { content, .. } => {
                vec![Input::WithdrawPrompt { text: content.clone(), by: Some(by.to_owned()) }]
            }
            Self::Pause { .. } => vec![Input::Pause],
            Self::Resume { .. } => vec![Input::Resume],
            Self::Retry { .. } => vec![Input::Retry],
            Self::Clear { .. } => vec![Input::Clear],
            Self::Compact { focus, .. } => vec![Input::Compact { focus: focus.clone() }],
            Self::Background { .. } => vec![Input::Background],
            Self::StopJob { job_id, .. } => vec![Input::StopJob { job: *job_id }],
            _ => Vec::new(),
        }
    }

    /// Returns the question and the reply; `None` for any other message.
    pub fn answer(&self) -> Option<(QuestionId, QuestionReply)> {
        let Self::QuestionAnswer { id, answer, no_secret, .. } = self else { return None };
        let reply = match answer {
            Some(answer) => QuestionReply::Given(answer.clone()),
            None if *no_secret => QuestionReply::NoSecret,
            None => QuestionReply::Refused,
        };
        Some((*id, reply))
    }

    /// Creates the message that answers a question.
    pub fn question_answer(id: QuestionId, reply: QuestionReply) -> Self {
        let (refuse, no_secret) = (reply == QuestionReply::Refused, reply == QuestionReply::NoSecret);
        let answer = match reply {
            QuestionReply::Given(answer) => Some(answer),
            QuestionReply::NoSecret | QuestionReply::Refused => None,
        };
        Self::QuestionAnswer { envelope: Envelope::default(), id, answer, refuse, no_secret }
    }
}

fn direct(
    command: Option<&str>,
    tool: Option<&str>,
    arguments: &Map<String, Value>,
    origin: DirectOrigin,
    by: &str,
) -> Input {
    let origin = match origin {
        DirectOrigin::Typed => Origin::User,
        DirectOrigin::Routine => Origin::Routine,
        DirectOrigin::Plan => Origin::Plan,
    };
    let mut arguments = arguments.clone();
    if let Some(command) = command {
        arguments.insert("command".to_owned(), command.into());
    }
    let tool = tool.unwrap_or(COMMAND_TOOL).to_owned();
    Input::Direct { tool, arguments, origin, by: Some(by.to_owned()) }
}

impl DecisionKind {
    /// Converts the decision to the form that the core uses.
    pub(crate) fn into_decision(self, command: Option<String>, reason: String) -> Decision {
        match self {
            Self::Allow | Self::AllowAlways => Decision::Allow { command },
            Self::AllowSession => Decision::AllowSession { command },
            Self::Reject => Decision::Reject { reason },
        }
    }

    /// Splits a decision into its kind, the edited command, and the reason for a rejection, unless the reason is empty.
    pub(crate) fn from_decision(decision: Decision) -> (Self, Option<String>, Option<String>) {
        match decision {
            Decision::Allow { command } => (Self::Allow, command, None),
            Decision::AllowSession { command } => (Self::AllowSession, command, None),
            Decision::Reject { reason } => (Self::Reject, None, Some(reason).filter(|why| !why.is_empty())),
        }
    }
}

#[cfg(test)]
mod tests;
