//! Messages between a session and the world: `Input`, `Event`, `Effect`, `Output`, and the `Update`s that front ends
//! get.
//!
//! Events are stored as JSON: every later version must be able to read them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::ApprovalTerms;
use crate::auto_bounds::AutoBounds;
use crate::budget::Budget;
use crate::compaction::Compaction;
use crate::effort::Effort;
use crate::guard::{GuardEnd, GuardReport, GuardTimeout};
use crate::hook::HookAnswer;
use crate::id::{CallId, JobId, Seq, StepId, Timestamp, TurnId};
use crate::image::ImageRef;
use crate::instructions::{FoundInstructions, Instructions};
use crate::job::JobOutput;
use crate::message::{ModelFailure, ModelRef, Reply, ToolCall};
use crate::mode::Mode;
use crate::model_progress::ModelProgress;
use crate::outcome::{Outcome, Reversibility, Status};
use crate::policy::{self, ApprovalMode, Grant, GrantScope, PolicyOptions, Risk, Rule, Survey};
use crate::question::{Question, QuestionId};
use crate::spec::SessionSpec;
use crate::todo::TodoItem;
use crate::tool::ClientTools;

mod effect;

pub use self::effect::{Effect, ToolLocation};

/// Input to a session. Nodes that share a store forward inputs as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A user's prompt. While a turn runs, the prompt is queued behind it.
    Prompt {
        text: String,
        /// Images in the prompt, at most `PROMPT_IMAGES_MAX`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageRef>,
        /// Name of the sender, as a server knows it; `None` for the local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Take the newest queued prompt with this text and sender out of the queue. Ignored if its turn has begun.
    WithdrawPrompt {
        text: String,
        /// Name of the sender, as a server knows it; `None` for the local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Run one tool call without asking the model: a typed command, a routine, or an undo.
    Direct {
        tool: String,
        /// Arguments of the call, as in the tool's schema.
        arguments: serde_json::Map<String, serde_json::Value>,
        /// Source of the call; decides if approval is needed.
        origin: Origin,
        /// Name of the user who asked for the call, as a server knows it; `None` for the local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A user's decision on an approval.
    Decision {
        call: CallId,
        decision: Decision,
        /// Name of the user, for the log and the other front ends.
        by: String,
        /// System user to whom the decision is attributed, such as the owner of a token; `None` for `by`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person: Option<String>,
    },
    /// Stop at once: cancel the model request, stop the running tool, or end the pause.
    Cancel,
    /// Pause after the current step.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Run the last prompt again with an empty history.
    Retry,
    /// Drop the history.
    Clear,
    /// Replace older messages with a summary now.
    Compact {
        /// Topic that the summary must keep.
        focus: Option<String>,
    },
    /// Change the configuration from now on.
    Configure { change: ConfigChange },
    /// Answer to `Effect::CallModel`.
    Reply {
        step: StepId,
        /// The reply, or the failure of the model call.
        result: Result<Reply, ModelFailure>,
    },
    /// Answer to `Effect::Summarize`.
    Summarized {
        /// The `attempt` of the effect that this input answers. Answers to older attempts are ignored.
        attempt: u32,
        result: Result<Reply, ModelFailure>,
    },
    /// Answer to `Effect::ReadInstructions`.
    InstructionsRead {
        /// The `attempt` of the effect that this input answers. Answers to older attempts are ignored.
        attempt: u32,
        instructions: FoundInstructions,
    },
    /// Read the instructions again before the next step.
    ReloadInstructions,
    /// Answer to `Effect::Survey`.
    Surveyed {
        call: CallId,
        /// The `attempt` of the effect that this input answers. Answers to older attempts are ignored.
        attempt: u32,
        /// Facts reported by the host.
        survey: Box<Survey>,
    },
    /// Answer to `Effect::Preview`.
    Previewed {
        /// The `attempt` of the effect that this input answers. Answers to older attempts are ignored.
        attempt: u32,
        /// Lines to show.
        lines: Vec<String>,
    },
    /// The answer to `Effect::Preview` is taking too long: ask for approval without it.
    PreviewLate { attempt: u32 },
    /// Compute the preview of the pending approval for another command, because a user edits the command.
    PreviewCommand { call: CallId, command: String },
    /// Answer to `Effect::AskHooks`.
    HooksAnswered {
        call: CallId,
        /// The `attempt` of the effect that this input answers. Answers to older attempts are ignored.
        attempt: u32,
        answer: HookAnswer,
    },
    /// Answer to `Effect::AskPromptHooks`.
    PromptHooksAnswered { turn: TurnId, answer: HookAnswer },
    /// Answer to `Effect::SetApprovalTimer`.
    ApprovalTimer {
        /// The call that is waiting for approval.
        call: CallId,
    },
    /// Answer to `Effect::RunTool`.
    Outcome { call: CallId, outcome: Outcome },
    /// Move the running command to the background.
    Background,
    /// Stop a background job.
    StopJob { job: JobId },
    /// Answer to `Effect::SetBackgroundTimer`.
    BackgroundTimer {
        call: CallId,
        /// Last part of the output so far.
        output: String,
    },
    /// Answer to `Effect::ReadJob`.
    JobRead {
        /// The call to the tool `jobs` that reads the output.
        call: CallId,
        /// Last part of the output so far; empty if the job has ended.
        output: String,
    },
    /// Answer to `Effect::SetTimer`.
    Timer {
        /// The call that is being stopped.
        call: CallId,
    },
    /// Answer to `Effect::SetTurnTimer`.
    TurnTimer { turn: TurnId },
    /// A user typed into the session's terminal.
    TerminalInput {
        by: String,
        /// A summary of the typed keys.
        typed: TypedInput,
    },
    /// A host armed the guard of a call, or the guard ended.
    Guard { call: CallId, host: String, report: GuardReport },
    /// The log was replayed because the process that ran the session had exited.
    Recovered,
}

impl Input {
    /// Returns a prompt without images.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt { text: text.into(), images: Vec::new(), by: None }
    }

    /// Returns true if the event can begin the turn of this prompt or call. A turn of another process may look the
    /// same: ask the session for the process that appended the event.
    pub fn begins(&self, event: &Event) -> bool {
        let Event::TurnStarted { prompt, origin, by: sender, .. } = event else { return false };
        if let Self::Prompt { text, by, .. } = self {
            return prompt == text && by == sender;
        }
        matches!(self, Self::Direct { origin: sent, by, .. } if prompt.is_empty() && origin == sent && by == sender)
    }
}

/// Record of keys typed into a terminal, limited to what the log may contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TypedInput {
    /// Private typing: only its amount is recorded.
    Activity {
        /// Number of keys, excluding those of secrets.
        keys: u64,
        /// Seconds from the first key to the last.
        seconds: u64,
    },
    /// Text and named keys: `ls -la Enter`, `Ctrl+C`. Only in logs written by 0.1.0.
    Keys {
        /// The keys that were typed without a pause between them.
        text: String,
    },
    /// A secret that a program asked for. Neither its bytes nor its length are logged.
    Secret {
        /// The program's prompt, verbatim.
        prompt: String,
    },
    /// A non-secret answer to a program, such as the confirmation of a host key.
    Answer {
        /// The program's prompt, verbatim.
        prompt: String,
        /// The text of the answer.
        text: String,
    },
}

/// Configuration that a front end may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigChange {
    /// Model of the next step.
    Model(ModelRef),
    Approve(#[serde(with = "policy::logged_mode")] ApprovalMode),
    /// Mode `auto` until one of the bounds is reached.
    Auto(AutoBounds),
    /// Mode of the next turn; the current turn keeps its own.
    Mode(Mode),
    /// Reasoning effort of the next step.
    Effort(Effort),
    /// Sets these limits; the others stay. Only the process that runs the session may do this.
    Budget(Budget),
    /// Revokes these grants, which a user gave for the session.
    Revoke(Vec<Grant>),
    /// Adds rules to the existing ones, and optionally replaces the policy options.
    Rules {
        /// Regular expressions that match dangerous commands.
        dangerous: Vec<String>,
        /// Regular expressions that match commands that are always denied.
        deny: Vec<String>,
        /// New policy options, which replace the current ones; `None` keeps the current ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<PolicyOptions>,
        /// User rules to add to those in the policy options.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// Replaces the tools that run on a client; an empty set withdraws them.
    #[serde(rename = "lent")]
    ClientTools(ClientTools),
}

impl ConfigChange {
    /// Returns the change that adds one user rule and nothing else.
    pub fn added_rule(rule: Rule) -> Self {
        Self::Rules { dangerous: Vec::new(), deny: Vec::new(), options: None, rules: vec![rule] }
    }
}

/// Source of a tool call; decides if approval is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Proposed by the model.
    #[default]
    Model,
    /// Typed by a user exactly as it runs; typing counts as approval.
    #[serde(rename = "typed")]
    User,
    /// A routine from the config; subject to approval like a model's command.
    Routine,
    /// A call that a model proposed in a read-only session, picked by a user; subject to approval like a model's
    /// command.
    Plan,
    /// Another agent, through `sysop mcp serve`; subject to approval like a model's command.
    McpClient,
}

/// Decision of a user on an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run the call once.
    Allow {
        /// Command to run instead, if the user edited it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// Run the call. For the rest of the session, also allow the calls that `ApprovalAsked::covers` describes.
    AllowSession {
        /// Command to run instead, if the user edited it. The grant then covers exactly this command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// Do not run the call.
    Reject {
        /// Message to the model. The word `stop` as the message also ends the turn.
        #[serde(default)]
        reason: String,
    },
}

impl Decision {
    /// Value of `Event::Decided::by` if sysop itself closes an approval that can no longer be answered.
    pub const BY_SYSOP: &'static str = "sysop";
    /// Value of `Event::Decided::by` if a hook rejects an approval.
    pub const BY_HOOK: &'static str = "a hook";
}

/// A fact about the session. Events are logged, published to front ends, and replayed to rebuild the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// First event of every log.
    SessionOpened {
        /// Settings of the session, such as its model, limits and policy. The session shares them until they change.
        spec: Arc<SessionSpec>,
        /// The user who opened the session; `None` in logs written by 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
    },
    Configured {
        change: ConfigChange,
        /// Bound of `auto` that was reached, such as `20 commands`, if sysop itself changed the mode for that reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reached: Option<String>,
    },
    /// A prompt was queued behind the current turn.
    PromptQueued {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageRef>,
        /// The user who sent the prompt to a server; `None` for the local user, and in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The newest queued prompt with this text and sender left the queue without a turn, because its sender took it
    /// back.
    PromptWithdrawn {
        text: String,
        /// The user who had sent it to a server; `None` for the local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    TurnStarted {
        /// Number of the turn, counted from 1.
        turn: TurnId,
        /// The prompt; empty for a turn that runs one call without a model.
        prompt: String,
        #[serde(default)]
        origin: Origin,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageRef>,
        /// The user who sent the prompt, or the call of a turn without a prompt, to a server; `None` for the local
        /// user, and in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    StepStarted {
        step: StepId,
    },
    Replied {
        step: StepId,
        /// The reply, with call ids that are unique within the session.
        reply: Reply,
    },
    /// A model call failed; the step is abandoned.
    ModelFailed {
        step: StepId,
        failure: ModelFailure,
    },
    /// A tool call is waiting for approval.
    ApprovalAsked {
        /// The call, exactly as it would run.
        call: ToolCall,
        /// Text to show to users: the command, or a short form of the call.
        command: String,
        /// The model's reason; may be empty.
        reason: String,
        risk: Risk,
        /// Calls that the answer "allow for this session" would cover.
        covers: Grant,
        /// Effects that a dry run found; each element is one line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preview: Vec<String>,
        /// Time limit of the guard under which the call would run; `None` if it would run without a guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarded: Option<GuardTimeout>,
        /// Tool, directory, host and user to which the answer "allow for this session" would apply; `None` in logs
        /// written by 0.1.0, or if nothing can be granted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<GrantScope>,
        /// Expiry of the approval, and the number of people who must allow the call.
        #[serde(default, skip_serializing_if = "ApprovalTerms::is_default")]
        terms: ApprovalTerms,
    },
    /// The preview of a pending approval was computed after the approval was asked for, or for an edited command.
    ApprovalPreviewed {
        call: CallId,
        /// The edited command that the preview describes; `None` for the command of the approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Risk of the edited command; `None` for the command of the approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        risk: Option<Risk>,
        /// Effects that the probe found; each element is one line.
        preview: Vec<String>,
    },
    /// A user allowed a call that needs the consent of several users.
    ApprovalGiven {
        call: CallId,
        by: String,
        /// System user to whom the consent is attributed; `None` for `by`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person: Option<String>,
        /// Total number of distinct users who must allow the call.
        needed: u32,
    },
    /// An approval was answered by a user, or closed by sysop, for example because the turn ended.
    Decided {
        call: CallId,
        decision: Decision,
        /// The user, or `sysop` if sysop closed the approval.
        by: String,
    },
    /// A tool call began; or, directly before its end, a call that no model proposed was refused, which no other event
    /// names.
    ToolStarted {
        /// The call, exactly as it runs.
        call: ToolCall,
        #[serde(default)]
        origin: Origin,
    },
    /// A tool call ended. Each call of a reply gets exactly one of these events.
    ToolFinished {
        call: CallId,
        outcome: Outcome,
    },
    /// A user canceled the turn. The turn ends once the running tool has stopped.
    CancelAsked {
        /// Action after the turn has ended.
        #[serde(default)]
        then: CancelFollowUp,
    },
    /// The turn waits for `Resume` before its next step.
    Paused {
        reason: PauseReason,
        /// The limit that was reached, with its numbers, if the reason is a budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// Milliseconds since the turn started or was resumed; 0 in logs written by 0.1.0.
        #[serde(default, skip_serializing_if = "is_zero")]
        active_ms: u64,
    },
    Resumed,
    /// A user typed into the session's terminal.
    TerminalInput {
        by: String,
        /// A summary of the typed keys.
        typed: TypedInput,
    },
    /// Older messages are no longer sent to the model. Written by 0.1.0, and after a context overflow.
    Compacted {
        /// Number of newest messages to send from now on.
        keep: usize,
    },
    /// Older messages were replaced with a summary.
    ContextCompacted {
        compaction: Compaction,
    },
    /// The instructions of the workspace and the user were read. The model gets them in this form from now on.
    InstructionsLoaded {
        instructions: Instructions,
    },
    /// The prompt of the turn named a skill or a custom command and was expanded.
    PromptExpanded {
        /// Text that the model gets instead of the prompt.
        text: String,
        /// Commands to run before the model is called. The policy treats them like the model's commands.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<String>,
    },
    TodoChanged {
        /// The complete new list.
        items: Vec<TodoItem>,
    },
    /// A command continues in the background.
    JobStarted {
        job: JobId,
        call: CallId,
        command: String,
        host: String,
    },
    /// A background job ended. The status is `unknown` if sysop exited, or lost the connection, while the job ran.
    JobFinished {
        job: JobId,
        status: Status,
        /// Exit code of the command; `None` if it was killed, or if its result is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "JobOutput::is_empty")]
        output: JobOutput,
    },
    /// A guard was armed on a host before a risky change.
    GuardArmed {
        call: CallId,
        host: String,
        /// Seconds until the change is rolled back.
        seconds: u32,
    },
    /// A guard ended: the change was confirmed or rolled back, or the host became unreachable.
    GuardEnded {
        call: CallId,
        host: String,
        how: GuardEnd,
    },
    /// The changes made by a call were undone.
    Undone {
        call: CallId,
        /// Number of the call in the session, counted from 1; `None` in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
        /// The user who requested the undo or, if the log does not name that user, the one who allowed it.
        by: String,
        how: Reversibility,
    },
    HistoryCleared,
    TurnEnded {
        turn: TurnId,
        reason: StopReason,
        /// One sentence for the user if something failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Milliseconds since the turn started or was resumed; 0 in logs written by 0.1.0.
        #[serde(default, skip_serializing_if = "is_zero")]
        active_ms: u64,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(milliseconds: &u64) -> bool {
    *milliseconds == 0
}

impl Event {
    /// Returns the event of a change that no bound of `auto` caused.
    pub fn configured(change: ConfigChange) -> Self {
        Self::Configured { change, reached: None }
    }

    /// Returns true if this version knows events of this `type`.
    pub fn is_known_kind(kind: &str) -> bool {
        // The missing fields do not matter: the tag is checked first.
        let tag = serde_json::json!({ "type": kind });
        let read = serde_json::from_value::<Self>(tag);
        !read.is_err_and(|error| error.to_string().starts_with("unknown variant"))
    }

    pub fn artifact_names(&self) -> impl Iterator<Item = &str> {
        let outcome = if let Self::ToolFinished { outcome, .. } = self { Some(outcome) } else { None };
        let job = if let Self::JobFinished { output, .. } = self { output.artifact.as_deref() } else { None };
        let images: &[ImageRef] =
            if let Self::TurnStarted { images, .. } | Self::PromptQueued { images, .. } = self {
                images
            } else {
                &[]
            };
        let images = images.iter().map(|image| image.artifact.as_str());
        outcome.into_iter().flat_map(Outcome::artifact_names).chain(job).chain(images)
    }
}

impl From<&Event> for Event {
    fn from(event: &Event) -> Self {
        event.clone()
    }
}

/// Action after a turn is canceled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelFollowUp {
    /// No action.
    #[default]
    Nothing,
    /// Run the same prompt again with a fresh history.
    Retry,
    /// Drop the history.
    Clear,
}

/// Reason for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Requested by a user.
    Asked,
    /// The same call had the same result too many times in a row.
    Loop,
    /// The process died during the turn.
    Interrupted,
    /// A budget of cost, tokens or minutes is spent.
    Budget,
}

/// Reason for the end of a turn, in the terms of `assistant.done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The limit of model calls per turn was reached.
    MaxIterations,
    /// Canceled by a user.
    Cancelled,
    /// A model error, or a direct call that failed.
    Failed,
    /// Abandoned while paused.
    Paused,
}

impl StopReason {
    /// Returns the name used in the log, in messages and for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxIterations => "max_iterations",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Paused => "paused",
        }
    }
}

/// Result of `Session::handle`. The driver must append the events, publish them, then perform the effects.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "append the events, then perform the effects"]
pub struct Output {
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Effects, in order.
    pub effects: Vec<Effect>,
}

/// An event with its position in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// Position in the log, counted from 1. It is also the id of an SSE event and the resume point of a socket.
    pub seq: Seq,
    pub at: Timestamp,
    pub event: Event,
}

/// Text or output for live display. Deltas are never logged, and the core never sees them. Nodes that share a
/// store forward them as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    Text {
        step: StepId,
        text: String,
    },
    Reasoning {
        step: StepId,
        text: String,
    },
    Output {
        call: CallId,
        /// The chunk, decoded lossily; control sequences are not neutralized.
        text: String,
    },
    /// Text and reasoning of this step so far are void: the request is being retried.
    Restarted {
        step: StepId,
    },
    /// Transient information, such as a retry or a model that is loading.
    Notice {
        /// One line.
        text: String,
    },
    /// Progress of the model call of this step. A newer one replaces it.
    Progress {
        step: StepId,
        progress: ModelProgress,
    },
    /// A program is waiting for input that only a user may provide, such as a password. The first answer counts.
    Question {
        question: Question,
    },
    /// A question was answered, or its program no longer waits.
    QuestionClosed {
        id: QuestionId,
        /// The user who answered; `None` if the program stopped waiting.
        by: Option<String>,
    },
    Control {
        /// The user who types while the agent waits; `None` if the agent may type.
        holder: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    Logged(std::sync::Arc<Logged>),
    Delta(Delta),
}

#[cfg(test)]
mod tests;
