//! The items of a transcript: what there is to read, each with a name that stays.

use std::fmt;

use crate::event::{Origin, StopReason};
use crate::guard::GuardTimeout;
use crate::id::{CallId, Seq, StepId, TurnId};
use crate::message::{ToolCall, Usage};
use crate::outcome::Outcome;
use crate::policy::{Grant, Risk, Rule};
use crate::transcript::SessionInfo;

/// Names an item for as long as the session exists, live and replayed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemId {
    /// What a person said.
    Prompt(TurnId),
    /// A model's visible reasoning.
    Reasoning(StepId),
    /// A model's text.
    Answer(StepId),
    /// A tool call.
    Proposal(CallId),
    /// What came of a tool call.
    ToolOutput(CallId),
    /// The summary with which a call ended the turn.
    Summary(CallId),
    /// Something logged that is worth a line.
    Notice(Seq),
    /// Something worth a line that is not logged.
    LiveNotice(u64),
    /// The end of a turn.
    End(TurnId),
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prompt(turn) => write!(f, "prompt-{turn}"),
            Self::Reasoning(step) => write!(f, "reasoning-{step}"),
            Self::Answer(step) => write!(f, "answer-{step}"),
            Self::Proposal(call) => write!(f, "plan-{call}"),
            Self::ToolOutput(call) => write!(f, "output-{call}"),
            Self::Summary(call) => write!(f, "summary-{call}"),
            Self::Notice(seq) => write!(f, "notice-{seq}"),
            Self::LiveNotice(number) => write!(f, "live-{number}"),
            Self::End(turn) => write!(f, "end-{turn}"),
        }
    }
}

/// One thing to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name.
    pub id: ItemId,
    /// Grows with each change, so that a front end can keep a layout by id and revision.
    pub revision: u32,
    /// Whether the log does not hold it: a notice of the moment, or text of a reply that never became whole.
    pub live_only: bool,
    /// The last event that changed it; of one that the log does not hold, the event before it.
    pub seq: Seq,
    /// How much of it is here.
    pub retention: Retention,
    /// What there is to read.
    pub body: ItemBody,
}

/// How much of an item is here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retention {
    /// All of it.
    #[default]
    Whole,
    /// Only the beginnings of its texts: it is old, and there is much after it. A [`Backfill`](super::Backfill) brings
    /// the rest.
    Truncated,
    /// All of it, brought back to be read.
    Backfilled,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemBody {
    /// A person's words.
    Prompt(String),
    /// A model's visible reasoning.
    Reasoning(StreamedText),
    /// A model's text, or the summary with which it ended the turn.
    Answer(StreamedText),
    /// A tool call.
    Proposal(Box<Proposal>),
    /// What came of a tool call.
    ToolOutput(Box<ToolOutput>),
    /// A line for the person.
    Notice(Notice),
    /// The end of a turn.
    End(TurnEnd),
}

/// A model's text and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedText {
    /// The text.
    pub text: String,
    /// How far it has come.
    pub state: TextState,
}

/// How far a text has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextState {
    /// More is to come.
    Streaming,
    /// All of it, from the log.
    Whole,
    /// The reply was given up; this is what had come.
    Broken,
}

/// A tool call and what was decided about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The call, as it is asked about or runs.
    pub call: ToolCall,
    /// Origin of the call.
    pub origin: Origin,
    /// What to show: the command that runs, or a short form of the call.
    pub command: String,
    /// The command as it was proposed, where a person changed it.
    pub edited_from: Option<String>,
    /// Reason that the model gave.
    pub reason: String,
    /// What is known of its risk; nothing for a call that was not asked about.
    pub risk: Risk,
    /// What "for this session" covers; none for a call that was not asked about.
    pub covers: Option<Grant>,
    /// Effects that a dry run found, one a line.
    pub preview: Vec<String>,
    /// Set if the call would run under a guard.
    pub guarded: Option<GuardTimeout>,
    /// What was decided.
    pub state: ProposalState,
}

impl Proposal {
    /// What "for this session" would cover; `None` if the call can be allowed only once.
    pub fn session_grant(&self) -> Option<&Grant> {
        self.covers.as_ref().filter(|_| !self.risk.class.always_asks())
    }

    /// The rule that the answer "always" would write, or `None` if there is none: the call is no plain command, always
    /// asks, was not asked about, or runs on a client, whose rules are its own.
    pub fn always_rule(&self, info: &SessionInfo) -> Option<Rule> {
        self.session_grant()?;
        if info.client_tools.contains(&self.call.name) {
            return None;
        }
        Rule::for_approval(&info.host, &self.call, &self.command, &self.risk)
    }
}

/// What was decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalState {
    /// A person is asked.
    Waiting,
    /// It may run.
    Allowed {
        /// By whom.
        by: Decider,
        /// For how long.
        scope: ApprovalScope,
    },
    /// It does not run.
    Rejected {
        /// By whom.
        by: Decider,
        /// The word to the model; may be empty.
        reason: String,
    },
}

/// Who decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// The approval mode, an earlier grant, or a typed command that needs no asking.
    Policy,
    /// Whoever answered.
    Person(String),
}

/// For how long a call was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalScope {
    /// This once.
    Once,
    /// For the rest of the session.
    Session,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The call.
    pub call: CallId,
    /// The tool's name; empty where the log begins after the call.
    pub tool: String,
    /// The newest output while it runs; empty afterwards.
    pub tail: String,
    /// How many bytes came before `tail`.
    pub skipped_bytes: u64,
    /// How it ended; none while it runs.
    pub outcome: Option<Outcome>,
}

/// A line for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The line.
    pub text: String,
    /// How much it matters.
    pub weight: Severity,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Something is to be done, or went wrong.
    Warning,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Which.
    pub turn: TurnId,
    /// Why.
    pub reason: StopReason,
    /// One sentence, where something went wrong.
    pub error: Option<String>,
    /// The turn's tokens.
    pub usage: Usage,
    /// How many times a model was asked.
    pub iterations: u32,
}
