//! Items of a transcript, each with a stable id.

use std::fmt;

use crate::approval::ApprovalTerms;
use crate::event::{Origin, StopReason};
use crate::guard::GuardTimeout;
use crate::id::{CallId, Seq, StepId, TurnId};
use crate::message::{ToolCall, Usage};
use crate::outcome::{Outcome, Status};
use crate::policy::{Grant, Risk, Rule, is_grantable};
use crate::transcript::SessionInfo;

/// Id of an item for the lifetime of the session. It is the same in a live transcript and in a replay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemId {
    Prompt(TurnId),
    /// Visible reasoning of a model.
    Reasoning(StepId),
    Answer(StepId),
    Proposal(CallId),
    ToolOutput(CallId),
    /// Summary given by a call that ended the turn.
    Summary(CallId),
    /// A notice about a logged event.
    Notice(Seq),
    LiveNotice(u64),
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

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub id: ItemId,
    /// Incremented with each change; a front end may cache layout by id and revision.
    pub revision: u32,
    /// True if the log does not contain the item: a transient notice, or text of a reply that never completed.
    pub live_only: bool,
    /// Position of the last event that changed the item. For a live-only item, position of the last event before it.
    pub seq: Seq,
    /// Extent to which the item's text is in memory.
    pub retention: Retention,
    pub body: ItemBody,
}

/// State of an item's text in memory: complete, truncated or restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retention {
    #[default]
    Whole,
    /// Only the beginning of the item's text is in memory. A [`Backfill`](super::Backfill) restores the rest.
    Truncated,
    /// The complete text is in memory again, restored by a backfill.
    Backfilled,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ItemBody {
    Prompt(UserPrompt),
    /// Visible reasoning of a model.
    Reasoning(StreamedText),
    /// Text of a model, or the summary with which it ended the turn.
    Answer(StreamedText),
    Proposal(Box<Proposal>),
    ToolOutput(Box<ToolOutput>),
    Notice(Notice),
    End(TurnEnd),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPrompt {
    pub text: String,
    /// The user who sent the prompt to a server; `None` for the local user.
    pub by: Option<String>,
    /// True if several people take part in the session, so that the sender is shown.
    pub is_named: bool,
}

impl UserPrompt {
    /// Returns the name to show with the prompt, if any.
    pub fn sender(&self) -> Option<&str> {
        self.by.as_deref().filter(|_| self.is_named)
    }
}

/// Text of a model, with its state: still arriving, complete, or abandoned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedText {
    pub text: String,
    pub state: TextState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextState {
    /// More text follows.
    Streaming,
    /// The text is complete and comes from the log.
    Whole,
    /// The reply was abandoned; this is the part received.
    Broken,
}

/// Reason for offering no rule if the front end or the server writes none.
pub const NO_RULES_HERE: &str = "no rule possible: this session accepts none";

/// A tool call and the decision on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub call: ToolCall,
    pub origin: Origin,
    /// The user who sent a call that no model proposed to a server; `None` for the local user, and in older logs.
    pub asked_by: Option<String>,
    /// Text to show to users: the command that runs, or a short form of the call.
    pub command: String,
    /// Directory of the shell of the session's terminal, if the call awaits approval and would run there; `None` for
    /// the root, or if the host did not tell it. Safe to display.
    pub folder: Option<String>,
    /// The proposed command, if a user edited it.
    pub edited_from: Option<String>,
    /// The model's reason; may be empty.
    pub reason: String,
    /// Assessment of the call; empty if no approval was requested.
    pub risk: Risk,
    /// Calls that the answer "allow for this session" would cover; `None` if no approval was requested, or if the
    /// call can be allowed only once.
    pub covers: Option<Grant>,
    /// Effects that a dry run found; each element is one line.
    pub preview: Vec<String>,
    /// The edited command that `preview` describes, and its risk; `None` for the proposed command.
    pub previewed_edit: Option<(String, Risk)>,
    /// Time limit of the guard under which the call would run; `None` if it would run without a guard.
    pub guarded: Option<GuardTimeout>,
    /// Expiry of the approval, and the number of people who must allow the call.
    pub terms: ApprovalTerms,
    /// Users who have allowed the call so far, while others must allow it, too.
    pub given: Vec<String>,
    pub state: ProposalState,
}

impl Proposal {
    /// Returns the command that `preview` describes.
    pub fn previewed_command(&self) -> &str {
        self.previewed_edit.as_ref().map_or(&self.command, |(command, _)| command)
    }

    /// Returns the proposal with its command replaced by the one that `preview` describes. An edited command can only
    /// be allowed once. A survey just before the run finds out if it can be guarded.
    pub fn as_previewed(&self) -> Self {
        let Some((command, risk)) = self.previewed_edit.clone() else { return self.clone() };
        let call = self.call.clone().with_command(command.clone());
        Self { call, command, risk, covers: None, guarded: None, ..self.clone() }
    }

    /// Returns true if the viewer asked for the call: a user's command, routine or step of a plan, for which `asked_by`
    /// names nobody else. `viewer` is the name that a server gives the viewer, if known.
    pub fn is_own(&self, viewer: Option<&str>) -> bool {
        match self.origin {
            Origin::User | Origin::Routine | Origin::Plan => {
                self.asked_by.as_deref().is_none_or(|by| viewer == Some(by))
            }
            Origin::Model | Origin::McpClient => false,
        }
    }

    /// Returns true if a call with this status was denied. A call that no model proposed is in the log as started,
    /// because no reply has it.
    pub(super) fn is_denied(&self, status: Status) -> bool {
        let needs_no_consent = matches!(self.state, ProposalState::Allowed { by: Decider::Policy, .. });
        status == Status::Rejected && self.origin != Origin::Model && needs_no_consent
    }

    /// Returns the grant that the answer "allow for this session" would give; `None` if the call can be allowed only
    /// once.
    pub fn session_grant(&self) -> Option<&Grant> {
        let can_repeat = is_grantable(&self.call.name, self.risk.class, self.terms.people);
        self.covers.as_ref().filter(|_| can_repeat)
    }

    /// Returns the rule that the answer "always" would write. `None` if the call is not a plain command, always needs
    /// approval, never waited for approval, or runs on a client, which has its own rules.
    pub fn always_rule(&self, info: &SessionInfo) -> Option<Rule> {
        self.session_grant()?;
        if info.client_tools.contains(&self.call.name) {
            return None;
        }
        Rule::for_approval(&info.host, &self.call, &self.command, &self.risk)
    }

    /// Returns a sentence that says why the answer "always" is not offered.
    pub fn no_rule_reason(&self, info: &SessionInfo) -> &'static str {
        if info.client_tools.contains(&self.call.name) {
            "no rule possible: the call runs on a client, which has its own rules"
        } else if self.call.text_argument("command") != Some(self.command.as_str()) {
            "no rule possible: only commands can have one"
        } else if self.risk.class.always_asks() {
            "no rule possible: the command is dangerous, may lock you out or reads secrets"
        } else if self.terms.people > 1 {
            "no rule possible: several people must allow the command each time"
        } else if self.always_rule(info).is_some() {
            NO_RULES_HERE
        } else if Rule::lacks_analysis_of_file(&self.command) {
            "no rule possible: the file that the command runs is not analyzed; allow it for this session"
        } else {
            "no rule possible: rules cover one plain command without sudo, pipes, variables or redirection"
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalState {
    Waiting,
    Allowed {
        by: Decider,
        /// Duration of the permission.
        scope: ApprovalScope,
    },
    /// The call does not run.
    Rejected {
        by: Decider,
        /// Message to the model; may be empty.
        reason: String,
    },
    /// The call ended before it could run, and nobody rejected it: its arguments are invalid, its host cannot be
    /// reached, or its turn was stopped. The outcome has the reason.
    NotRun,
}

impl ItemBody {
    pub(super) fn tool_output(&self) -> Option<&ToolOutput> {
        match self {
            Self::ToolOutput(output) => Some(output),
            Self::Prompt(_)
            | Self::Answer(_)
            | Self::Reasoning(_)
            | Self::Proposal(_)
            | Self::Notice(_)
            | Self::End(_) => None,
        }
    }
}

impl ProposalState {
    /// Returns the state of a call that has ended with this status and never started. The session itself answers a call
    /// that succeeds without a start.
    pub(super) fn of_unstarted(status: Status) -> Self {
        match status {
            Status::Ok => Self::Allowed { by: Decider::Policy, scope: ApprovalScope::Once },
            Status::Rejected => Self::Rejected { by: Decider::Policy, reason: String::new() },
            Status::Failed | Status::Timeout | Status::Cancelled | Status::Interrupted | Status::Unknown => {
                Self::NotRun
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// The approval mode, an earlier grant (with the scope `Session`), or a typed command that needs no approval.
    Policy,
    Person(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalScope {
    Once,
    Session,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    pub call: CallId,
    /// Number of the call in the session, from 1, as in `/undo`; 0 until the call has ended.
    pub number: u32,
    /// Name of the tool; empty if the log begins after the call.
    pub tool: String,
    /// Newest output while the tool runs; empty afterwards.
    pub tail: String,
    /// Number of bytes dropped before `tail`.
    pub skipped_bytes: u64,
    /// Final outcome; `None` while the tool runs.
    pub outcome: Option<Outcome>,
    /// True if the call ended before it could run; see [`ProposalState::NotRun`].
    pub never_ran: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub weight: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Note,
    /// Needs attention, or reports a failure.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    pub turn: TurnId,
    pub reason: StopReason,
    /// One sentence for the user if something failed.
    pub error: Option<String>,
    /// True if the turn was one call that no model proposed, and the call's own outcome says that it failed.
    pub is_told_by_call: bool,
    pub usage: Usage,
    pub iterations: u32,
}
