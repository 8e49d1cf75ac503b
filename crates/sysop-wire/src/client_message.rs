//! What a client tells its server.
//!
//! Names and fields are those of the JolliAgent design; the messages and fields that it does not have are additions
//! of ours. `sessionId` may be left out everywhere: a socket belongs to one session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sysop_core::event::{ConfigChange, Decision, Input, Origin};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::message::ModelRef;
use sysop_core::mode::Mode;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::ApprovalMode;
use sysop_core::question::QuestionId;

use crate::secret::Secret;

/// The tool that runs a command which is given alone.
const COMMAND_TOOL: &str = "bash";

/// What any message of a client may say beside what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Envelope {
    /// Which session; needed only where the address does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// A name of the client's own for this message: an `error` that answers it has it as `replyTo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Which trace it belongs to, as W3C Trace Context writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// One message from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ClientMessage {
    /// The first message of a client: its identity and the tools that it lends.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// A prompt of a user. During a turn it is queued. If 32 prompts are queued, one more is refused with `too_many`.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// The prompt.
        content: String,
    },
    /// The outcome of a `tool.call` that this client ran.
    #[serde(rename = "tool.result")]
    ToolResult(ToolResult),
    /// More output of a tool that this client runs, for live display.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the call.
        tool_call_id: CallId,
        /// The new text.
        content: String,
    },
    /// Stops the turn.
    #[serde(rename = "cancel")]
    Cancel {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// A user answers an `approval.request`.
    #[serde(rename = "approval.decision")]
    ApprovalDecision {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the call.
        tool_call_id: CallId,
        /// The answer.
        decision: DecisionKind,
        /// Edited command to run instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Reason for the model, with a rejection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A user answers a `question`, with exactly one of `answer`, `refuse` and `noSecret`.
    #[serde(rename = "question.answer")]
    QuestionAnswer {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Id of the question.
        id: QuestionId,
        /// The answer, without a line ending. The answer to a question for a secret is never logged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Secret>,
        /// Set if nobody will answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refuse: bool,
        /// Set if the prompt is not for a secret: the user answers it in the terminal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_secret: bool,
    },
    /// A user runs one call without a model.
    #[serde(rename = "direct")]
    Direct {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// A shell command; short for the tool `bash` with this command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// The tool, if there is no `command`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Arguments of the tool.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        arguments: Map<String, Value>,
        /// Origin of the call: typed, or from a routine.
        #[serde(default)]
        origin: DirectOrigin,
    },
    /// Changes settings of the session.
    #[serde(rename = "configure")]
    Configure {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Model of the next step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// Approval mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approve: Option<ApprovalMode>,
        /// With tools (`agent`) or without (`chat`), from the next turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
    },
    /// Pauses the turn after the current step.
    #[serde(rename = "pause")]
    Pause {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Resumes a paused turn.
    #[serde(rename = "resume")]
    Resume {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Runs the last prompt again with an empty history.
    #[serde(rename = "retry")]
    Retry {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Clears the history.
    #[serde(rename = "clear")]
    Clear {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Subscribes to the live terminal, and opens it if needed. `terminal.output` starts with a picture of the screen.
    #[serde(rename = "terminal.attach")]
    TerminalAttach {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Columns of the client's screen. Without `cols` and `rows` the size stays the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cols: Option<u16>,
        /// Number of rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u16>,
        /// Number of rows above the screen that the picture includes, for a client with a scrollback; they replace the
        /// client's scrollback. Absent: none. The server sends at most about 500 KB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scrollback: Option<u16>,
    },
    /// Unsubscribes from the live terminal.
    #[serde(rename = "terminal.detach")]
    TerminalDetach {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Keys for the live terminal. The agent waits from the first key on.
    #[serde(rename = "terminal.input")]
    TerminalInput {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Text that the keys send.
        data: Secret,
    },
    /// Resizes the live terminal.
    #[serde(rename = "terminal.resize")]
    TerminalResize {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Gives the live terminal back to the agent.
    #[serde(rename = "terminal.release")]
    TerminalRelease {
        /// Which session and message.
        #[serde(flatten)]
        envelope: Envelope,
    },
    /// Keeps the connection alive.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}

/// Who a client is, and which tools it lends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Hello {
    /// Which session and message.
    #[serde(flatten)]
    pub envelope: Envelope,
    /// Name and version of the client, for display.
    pub client_version: String,
    /// The tools that run on the client.
    pub tool_manifest: Vec<ManifestTool>,
    /// Root of its file tools.
    pub workspace_root: String,
    /// The last event that the client has. The server resends all later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<Seq>,
}

/// One tool that a client lends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManifestTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments; `inputSchema` in some clients.
    #[serde(alias = "inputSchema")]
    pub parameters: Value,
}

/// What came of a call that a client ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Which session and message.
    #[serde(flatten)]
    pub envelope: Envelope,
    /// Id of the call.
    pub tool_call_id: CallId,
    /// Output of the tool.
    pub output: String,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it ended. If absent, `error` decides between `ok` and `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Exit code of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether `output` is truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl ToolResult {
    /// The result of a call as its host reported it. Artifacts and changes stay with the host, which alone can undo them.
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

    /// The call and what came of it. An `error` stands before the output; without a `status` it is a failure.
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

/// The words for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// Run it once.
    Allow,
    /// Run it, and all calls that the grant covers, for the rest of the session.
    AllowSession,
    /// Run it, and write the rule in `always` of the request: from now on it runs without asking. The decision that is
    /// published and logged is `allow`.
    AllowAlways,
    /// Do not run it.
    Reject,
}

/// Origin of a direct call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DirectOrigin {
    /// A user typed exactly this; typing it is the approval.
    Typed,
    /// From a routine. It is judged like a model's call.
    #[default]
    Routine,
}

/// What a person says to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionReply {
    /// This is the answer.
    Given(Secret),
    /// It is no prompt for a secret.
    NoSecret,
    /// Nobody will answer.
    Refused,
}

/// A text that is no message of a client. `Display` is one sentence to send back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this message cannot be used: {0}")]
pub struct MessageError(String);

impl ClientMessage {
    /// Whether it is a wish that another turn begins with.
    pub fn starts_turn(&self) -> bool {
        matches!(self, Self::UserMessage { .. } | Self::Direct { .. } | Self::Retry { .. })
    }

    /// Reads one message.
    ///
    /// # Errors
    /// When the text is no message, or one that contradicts itself. The error repeats no answer and no keys.
    pub fn parse(text: &str) -> Result<Self, MessageError> {
        let message: Self = serde_json::from_str(text).map_err(|error| MessageError(error.to_string()))?;
        match message.contradiction() {
            Some(why) => Err(MessageError(why.to_owned())),
            None => Ok(message),
        }
    }

    /// What is wrong with a message whose fields can each be read.
    fn contradiction(&self) -> Option<&'static str> {
        if let Self::QuestionAnswer { answer, refuse, no_secret, .. } = self
            && [answer.is_some(), *refuse, *no_secret].iter().filter(|given| **given).count() != 1
        {
            return Some("give exactly one of `answer`, `refuse` and `noSecret`");
        }
        if let Self::Direct { command, tool, arguments, .. } = self
            && (command.is_some() == tool.is_some() || (command.is_some() && !arguments.is_empty()))
        {
            return Some("give either `command` or `tool` with its `arguments`");
        }
        if let Self::ApprovalDecision { decision: DecisionKind::AllowAlways, command: Some(_), .. } = self {
            return Some("`allow_always` is for the command as it was proposed; leave out `command`");
        }
        None
    }

    /// The message that tells a session this; none for what only its own process tells it, nor for tools that are
    /// lent: `hello` lends them.
    ///
    /// `by` in an input is left to the server, which knows who is connected.
    pub fn from_input(input: &Input) -> Option<Self> {
        let envelope = Envelope::default();
        Some(match input {
            Input::Prompt { text } => Self::UserMessage { envelope, content: text.clone() },
            Input::Direct { tool, arguments, origin } => {
                let origin = match origin {
                    Origin::User => DirectOrigin::Typed,
                    Origin::Routine | Origin::Model => DirectOrigin::Routine,
                };
                let (tool, arguments) = (Some(tool.clone()), arguments.clone());
                Self::Direct { envelope, command: None, tool, arguments, origin }
            }
            Input::Decision { call, decision, .. } => {
                let (decision, command, reason) = DecisionKind::from_decision(decision.clone());
                let tool_call_id = call.clone();
                Self::ApprovalDecision { envelope, tool_call_id, decision, command, reason }
            }
            Input::Cancel => Self::Cancel { envelope },
            Input::Pause => Self::Pause { envelope },
            Input::Resume => Self::Resume { envelope },
            Input::Retry => Self::Retry { envelope },
            Input::Clear => Self::Clear { envelope },
            Input::Configure { change: ConfigChange::Model(model) } => {
                Self::Configure { envelope, model: Some(model.clone()), approve: None, mode: None }
            }
            Input::Configure { change: ConfigChange::Approve(approve) } => {
                Self::Configure { envelope, model: None, approve: Some(*approve), mode: None }
            }
            Input::Configure { change: ConfigChange::Mode(mode) } => {
                Self::Configure { envelope, model: None, approve: None, mode: Some(*mode) }
            }
            Input::Configure { change: ConfigChange::Rules { .. } | ConfigChange::ClientTools(_) }
            | Input::Reply { .. }
            | Input::Surveyed { .. }
            | Input::Outcome { .. }
            | Input::Timer { .. }
            | Input::TerminalInput { .. }
            | Input::Recovered => return None,
        })
    }

    /// What it says beside what it is about; none for a heartbeat.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Hello(Hello { envelope, .. })
            | Self::ToolResult(ToolResult { envelope, .. })
            | Self::UserMessage { envelope, .. }
            | Self::ToolOutput { envelope, .. }
            | Self::Cancel { envelope }
            | Self::ApprovalDecision { envelope, .. }
            | Self::QuestionAnswer { envelope, .. }
            | Self::Direct { envelope, .. }
            | Self::Configure { envelope, .. }
            | Self::Pause { envelope }
            | Self::Resume { envelope }
            | Self::Retry { envelope }
            | Self::Clear { envelope }
            | Self::TerminalAttach { envelope, .. }
            | Self::TerminalDetach { envelope }
            | Self::TerminalInput { envelope, .. }
            | Self::TerminalResize { envelope, .. }
            | Self::TerminalRelease { envelope } => Some(envelope),
            Self::Heartbeat {} => None,
        }
    }

    /// Which session it is for, where it says so.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.envelope()?.session_id.as_ref()
    }

    /// What it tells the session, in order; nothing where it is for the connection, its tool host, its terminal or
    /// for whoever asks a question. Tools that `hello` lends become a change by [`Hello::client_tools`].
    ///
    /// `by` names whoever sent it, for the log.
    pub fn inputs(&self, by: &str) -> Vec<Input> {
        match self {
            Self::UserMessage { content, .. } => vec![Input::Prompt { text: content.clone() }],
            Self::ApprovalDecision { tool_call_id, decision, command, reason, .. } => {
                let decision = decision.into_decision(command.clone(), reason.clone().unwrap_or_default());
                vec![Input::Decision { call: tool_call_id.clone(), decision, by: by.to_owned() }]
            }
            Self::Direct { command, tool, arguments, origin, .. } => {
                vec![direct(command.as_deref(), tool.as_deref(), arguments, *origin)]
            }
            Self::Configure { model, approve, mode, .. } => {
                let changes = model
                    .clone()
                    .map(ConfigChange::Model)
                    .into_iter()
                    .chain(approve.map(ConfigChange::Approve));
                let changes = changes.chain(mode.map(ConfigChange::Mode));
                changes.map(|change| Input::Configure { change }).collect()
            }
            Self::Cancel { .. } => vec![Input::Cancel],
            Self::Pause { .. } => vec![Input::Pause],
            Self::Resume { .. } => vec![Input::Resume],
            Self::Retry { .. } => vec![Input::Retry],
            Self::Clear { .. } => vec![Input::Clear],
            Self::Hello(_)
            | Self::ToolResult(_)
            | Self::ToolOutput { .. }
            | Self::QuestionAnswer { .. }
            | Self::TerminalAttach { .. }
            | Self::TerminalDetach { .. }
            | Self::TerminalInput { .. }
            | Self::TerminalResize { .. }
            | Self::TerminalRelease { .. }
            | Self::Heartbeat {} => Vec::new(),
        }
    }

    /// Which question it answers, and what it says; none for any other message.
    pub fn answer(&self) -> Option<(QuestionId, QuestionReply)> {
        let Self::QuestionAnswer { id, answer, no_secret, .. } = self else { return None };
        let reply = match answer {
            Some(answer) => QuestionReply::Given(answer.clone()),
            None if *no_secret => QuestionReply::NoSecret,
            None => QuestionReply::Refused,
        };
        Some((*id, reply))
    }

    /// The message that answers a question.
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
) -> Input {
    let origin = match origin {
        DirectOrigin::Typed => Origin::User,
        DirectOrigin::Routine => Origin::Routine,
    };
    let mut arguments = arguments.clone();
    if let Some(command) = command {
        arguments.insert("command".to_owned(), command.into());
    }
    Input::Direct { tool: tool.unwrap_or(COMMAND_TOOL).to_owned(), arguments, origin }
}

impl DecisionKind {
    /// The decision of this word.
    pub(crate) fn into_decision(self, command: Option<String>, reason: String) -> Decision {
        match self {
            Self::Allow | Self::AllowAlways => Decision::Allow { command },
            Self::AllowSession => Decision::AllowSession { command },
            Self::Reject => Decision::Reject { reason },
        }
    }

    /// The word of a decision, the edited command, and the reason of a rejection that has one.
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
