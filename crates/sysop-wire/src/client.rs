//! What a client tells its server.
//!
//! `sessionId` may be left out everywhere: a socket belongs to one session.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{Decision, Input};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::outcome::{Outcome, Status};

/// One message from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ClientMessage {
    /// The first message: who it is, and which tools it lends.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// A person says what they want.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        /// Their words.
        content: String,
    },
    /// What came of a `tool.call` that this client ran.
    #[serde(rename = "tool.result")]
    ToolResult(ToolResult),
    /// Stop the turn.
    #[serde(rename = "cancel")]
    Cancel {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
    /// A person answers an `approval.request`.
    #[serde(rename = "approval.decision")]
    ApprovalDecision {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        /// Which call.
        tool_call_id: CallId,
        /// The answer.
        decision: DecisionWord,
        /// What to run instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// A word to the model, where it is rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Stop after the current step.
    #[serde(rename = "pause")]
    Pause {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
    /// Go on.
    #[serde(rename = "resume")]
    Resume {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
    /// Run the last prompt again with a fresh history.
    #[serde(rename = "retry")]
    Retry {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
    /// Forget the history.
    #[serde(rename = "clear")]
    Clear {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
    },
    /// Keys for the live terminal.
    #[serde(rename = "terminal.input")]
    TerminalInput {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        /// What the keys send.
        data: String,
    },
    /// The live terminal has another size.
    #[serde(rename = "terminal.resize")]
    TerminalResize {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The connection lives.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}

/// Who a client is, and which tools it lends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hello {
    /// Which session, where the address does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The client's name and version, for people.
    pub client_version: String,
    /// The tools that run on the client.
    pub tool_manifest: Vec<ManifestTool>,
    /// The root of its file tools.
    pub workspace_root: String,
    /// The last event that it has; what came after is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<Seq>,
}

/// One tool that a client lends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Which call.
    pub tool_call_id: CallId,
    /// What it printed or found.
    pub output: String,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it ended; where it is left out, `error` decides between `ok` and `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The exit code, where a command ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether `output` leaves out a part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl ToolResult {
    /// The result of a call as its host reported it. Artefacts and changes stay with the host.
    pub fn new(call: CallId, outcome: Outcome) -> Self {
        Self {
            session_id: None,
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
#[serde(rename_all = "snake_case")]
pub enum DecisionWord {
    /// Run it this once.
    Allow,
    /// Run it and its like for the rest of the session.
    AllowSession,
    /// Do not run it.
    Reject,
}

/// A text that is no message of a client. `Display` is one sentence to send back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this message cannot be used: {0}")]
pub struct BadMessage(String);

impl ClientMessage {
    /// Reads one message.
    pub fn parse(text: &str) -> Result<Self, BadMessage> {
        serde_json::from_str(text).map_err(|error| BadMessage(error.to_string()))
    }

    /// Which session it is for, where it says so.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Hello(Hello { session_id, .. })
            | Self::ToolResult(ToolResult { session_id, .. })
            | Self::UserMessage { session_id, .. }
            | Self::Cancel { session_id }
            | Self::ApprovalDecision { session_id, .. }
            | Self::Pause { session_id }
            | Self::Resume { session_id }
            | Self::Retry { session_id }
            | Self::Clear { session_id }
            | Self::TerminalInput { session_id, .. }
            | Self::TerminalResize { session_id, .. } => session_id.as_ref(),
            Self::Heartbeat {} => None,
        }
    }

    /// What it tells the session; none where it is for the connection, its tool host or its terminal.
    ///
    /// `by` names whoever sent it, for the log.
    pub fn input(&self, by: &str) -> Option<Input> {
        match self {
            Self::UserMessage { content, .. } => Some(Input::Prompt { text: content.clone() }),
            Self::ApprovalDecision { tool_call_id, decision, command, reason, .. } => {
                let command = command.clone();
                let decision = match decision {
                    DecisionWord::Allow => Decision::Allow { command },
                    DecisionWord::AllowSession => Decision::AllowSession { command },
                    DecisionWord::Reject => Decision::Reject { reason: reason.clone().unwrap_or_default() },
                };
                Some(Input::Decision { call: tool_call_id.clone(), decision, by: by.to_owned() })
            }
            Self::Cancel { .. } => Some(Input::Cancel),
            Self::Pause { .. } => Some(Input::Pause),
            Self::Resume { .. } => Some(Input::Resume),
            Self::Retry { .. } => Some(Input::Retry),
            Self::Clear { .. } => Some(Input::Clear),
            Self::Hello(_)
            | Self::ToolResult(_)
            | Self::TerminalInput { .. }
            | Self::TerminalResize { .. }
            | Self::Heartbeat {} => None,
        }
    }
}

#[cfg(test)]
mod tests;
