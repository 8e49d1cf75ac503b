//! What a server tells its clients.
//!
//! Names and fields are those of the JolliAgent design; `seq` and the messages that it does not have are
//! additions of ours.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sysop_core::event::{Origin, PauseReason, StopReason, Typed};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::outcome::{HostOutcome, Status};
use sysop_core::policy::{ApprovalMode, Class, Finding, Grant};
use sysop_core::question::{Question, QuestionId};

use crate::client::DecisionWord;

/// Where a logged message comes from. One event may give several messages; they share its `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The event.
    pub seq: Seq,
    /// Whether another message of the same event follows: `seq` is a point to resume from only where this is
    /// false, and then it is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// One message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ServerMessage {
    /// The session is there; also the answer to `hello`.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        place: Place,
        /// The model that is asked.
        model: ModelRef,
        /// How much runs without a person.
        approve: ApprovalMode,
        /// Where its tools run.
        host: String,
        /// The root of its file tools.
        root: String,
        /// The name of its tool profile.
        profile: String,
    },
    /// A person said something, and a turn began.
    #[serde(rename = "user.message")]
    UserMessage {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        place: Place,
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
        place: Place,
        /// The text.
        content: String,
        /// The visible reasoning, where there was any.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
    },
    /// A turn ended; each turn has exactly one of these.
    #[serde(rename = "assistant.done")]
    AssistantDone {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        place: Place,
        /// How it ended and what it took.
        metadata: Done,
    },
    /// A tool call began, on the client that has the tool or on the session's own host.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        place: Place,
        /// Which call; a tool host runs an id once.
        tool_call_id: CallId,
        /// The tool.
        name: String,
        /// The arguments: an object; a string where the model wrote none.
        arguments: Value,
        /// Whose wish it is.
        #[serde(default)]
        origin: Origin,
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
        place: Place,
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
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Name of the artefact with the whole output, where it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        artefact: Option<String>,
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
        place: Place,
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
        risk: Class,
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
        place: Place,
        /// Which call.
        tool_call_id: CallId,
        /// The answer.
        decision: DecisionWord,
        /// Who answered.
        by: String,
        /// What runs instead, where it was edited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// The word to the model, where it was rejected with one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// What a live terminal printed. Not logged.
    #[serde(rename = "terminal.output")]
    TerminalOutput {
        /// Which session.
        session_id: SessionId,
        /// The text, control sequences in it.
        data: String,
    },
    /// What the session does now; sent whenever any of it changed.
    #[serde(rename = "state")]
    State {
        /// Which session.
        session_id: SessionId,
        /// Its event.
        #[serde(flatten)]
        place: Place,
        /// What it does.
        #[serde(flatten)]
        now: State,
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
        place: Place,
        /// Who.
        by: String,
        /// What, as far as it may be known.
        typed: Typed,
    },
    /// Something went wrong.
    #[serde(rename = "error")]
    Error {
        /// Which session.
        session_id: SessionId,
        /// Its event, where it is the end of a turn; none where it answers a message.
        #[serde(flatten)]
        place: Option<Place>,
        /// One sentence.
        message: String,
    },
    /// The connection lives.
    #[serde(rename = "heartbeat")]
    Heartbeat {},
}

impl ServerMessage {
    /// Where it comes from; none for what is not logged.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::SessionCreated { place, .. }
            | Self::UserMessage { place, .. }
            | Self::AssistantMessage { place, .. }
            | Self::AssistantDone { place, .. }
            | Self::ToolCall { place, .. }
            | Self::ToolFinished { place, .. }
            | Self::ApprovalRequest { place, .. }
            | Self::ApprovalClosed { place, .. }
            | Self::TerminalTyped { place, .. }
            | Self::State { place, .. } => Some(*place),
            Self::Error { place, .. } => *place,
            Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
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
        self.place().filter(|place| !place.more).map(|place| place.seq)
    }

    /// Says that another message of the same event follows.
    pub(crate) fn set_more(&mut self) {
        match self {
            Self::SessionCreated { place, .. }
            | Self::UserMessage { place, .. }
            | Self::AssistantMessage { place, .. }
            | Self::AssistantDone { place, .. }
            | Self::ToolCall { place, .. }
            | Self::ToolFinished { place, .. }
            | Self::ApprovalRequest { place, .. }
            | Self::ApprovalClosed { place, .. }
            | Self::TerminalTyped { place, .. }
            | Self::State { place, .. }
            | Self::Error { place: Some(place), .. } => place.more = true,
            Self::Error { place: None, .. }
            | Self::AssistantDelta { .. }
            | Self::AssistantReasoning { .. }
            | Self::AssistantRestarted { .. }
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

/// How a turn ended and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Which turn.
    pub turn: TurnId,
    /// The tokens of all its model calls.
    pub usage: Tokens,
    /// How many model calls it made.
    pub iterations: u32,
}

/// Tokens as the models' servers counted them; zero where they did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens that came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

/// What a session does now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
