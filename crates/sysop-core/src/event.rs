//! The four words between a session and the world: `Input`, `Event`, `Effect`, `Output`; and what front ends receive.
//!
//! Events are the log: what is stored is these, as JSON, and must stay readable by later versions.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::StreamDeserializer;
use serde_json::de::StrRead;

use crate::compaction::Compaction;
use crate::guard::{GuardEnd, GuardTimeout};
use crate::id::{CallId, JobId, Seq, StepId, Timestamp, TurnId};
use crate::message::{ModelFailure, ModelRef, ModelRequest, Reply, ToolCall};
use crate::mode::Mode;
use crate::outcome::{Outcome, Reversibility, Status};
use crate::policy::{self, ApprovalMode, Fence, Grant, GrantScope, PolicyOptions, Risk, Rule, Survey};
use crate::question::{Question, QuestionId};
use crate::spec::SessionSpec;
use crate::tagged::{self, InternallyTagged};
use crate::todo::TodoItem;
use crate::tool::ClientTools;

/// What the world tells a session. Nodes that share a store hand it on as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A person says what they want. While a turn runs it waits for the end of that turn.
    Prompt {
        /// The prompt.
        text: String,
    },
    /// A person wants one tool call made without a model: a typed command, a routine, an undo.
    Direct {
        /// The tool's name.
        tool: String,
        /// Arguments of the tool.
        arguments: serde_json::Map<String, serde_json::Value>,
        /// Whose wish it is; decides whether it is asked about first.
        origin: Origin,
    },
    /// A person answers an approval.
    Decision {
        /// The call that was asked about.
        call: CallId,
        /// The answer.
        decision: Decision,
        /// Who answered, for the other front ends and the log.
        by: String,
    },
    /// Stop at once: model request, running tool and pause.
    Cancel,
    /// Pauses the turn after the current step.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Runs the last prompt again with an empty history.
    Retry,
    /// Clears the history.
    Clear,
    /// Change how the session works from now on.
    Configure {
        /// What to change.
        change: ConfigChange,
    },
    /// The answer to `Effect::CallModel`.
    Reply {
        /// The step that asked.
        step: StepId,
        /// What came.
        result: Result<Reply, ModelFailure>,
    },
    /// The answer to `Effect::Survey`.
    Surveyed {
        /// The call.
        call: CallId,
        /// The number that the effect had.
        attempt: u32,
        /// What the host told.
        survey: Box<Survey>,
    },
    /// The answer to `Effect::RunTool`.
    Outcome {
        /// The call that ran.
        call: CallId,
        /// What came of it.
        outcome: Outcome,
    },
    /// The answer to `Effect::SetTimer`.
    Timer {
        /// The call whose stop was given this long.
        call: CallId,
    },
    /// A person typed into the session's terminal.
    TerminalInput {
        /// The user.
        by: String,
        /// What.
        typed: TypedInput,
    },
    /// The process that held the session is gone; this one has just replayed the log.
    Recovered,
}

/// What a person typed into a terminal, as far as the log may know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TypedInput {
    /// That somebody typed for themselves. What they typed is nobody's business.
    Activity {
        /// How many keys, without those of secrets.
        keys: u64,
        /// From the first key to the last, in seconds.
        seconds: u64,
    },
    /// Text and keys, as they are named: `ls -la Enter`, `Ctrl+C`. Only in logs of 0.1.0.
    Keys {
        /// All of one pause-free stretch.
        text: String,
    },
    /// A secret that a program asked for. The log never has its bytes, nor how many there were.
    Secret {
        /// What the program asked, as it was written.
        prompt: String,
    },
    /// What a program asked for and everybody may see: that a host key is right.
    Answer {
        /// What the program asked, as it was written.
        prompt: String,
        /// The answer.
        text: String,
    },
}

/// What a front end may change in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigChange {
    /// Model of the next step.
    Model(ModelRef),
    /// The approval mode.
    Approve(#[serde(with = "policy::logged_mode")] ApprovalMode),
    /// With tools or without, from the next turn on: the turn that runs ends as it began.
    Mode(Mode),
    /// More rules; those that were there stay.
    Rules {
        /// Regular expressions of dangerous commands.
        dangerous: Vec<String>,
        /// Regular expressions of commands that never run.
        deny: Vec<String>,
        /// The rest of the policy, in place of what it was; `None` leaves it as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<PolicyOptions>,
        /// More rules of the user.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// The tools that run on a client, in place of those that were lent before; none takes them back.
    #[serde(rename = "lent")]
    ClientTools(ClientTools),
}

impl ConfigChange {
    /// One more rule of the user; all else stays.
    pub fn added_rule(rule: Rule) -> Self {
        Self::Rules { dangerous: Vec::new(), deny: Vec::new(), options: None, rules: vec![rule] }
    }
}

/// Origin of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The model proposed it.
    #[default]
    Model,
    /// A user typed exactly this; typing it is the approval.
    #[serde(rename = "typed")]
    User,
    /// A routine from the config. It is judged like a model's command.
    Routine,
}

/// A person's answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run it once.
    Allow {
        /// The command to run instead, where the person edited it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// Run it, and whatever the approval's `covers` covers, for the rest of the session.
    AllowSession {
        /// The command to run instead, where the person edited it; then exactly that is covered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// Do not run it.
    Reject {
        /// A word to the model; `stop` also ends the turn.
        #[serde(default)]
        reason: String,
    },
}

/// What happened. Logged, published, replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")] // with its `type` first, see `tagged`
pub enum Event {
    /// The session began.
    SessionOpened {
        /// How it works.
        spec: SessionSpec,
        /// The person who opened it; `None` in logs of 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
    },
    /// How the session works was changed.
    Configured {
        /// What was changed.
        change: ConfigChange,
    },
    /// A prompt came while a turn ran and waits for its end.
    PromptQueued {
        /// The prompt.
        text: String,
    },
    /// A turn began.
    TurnStarted {
        /// Its number.
        turn: TurnId,
        /// The words; empty for a turn that makes one call without a model.
        prompt: String,
        /// Origin of the turn.
        #[serde(default)]
        origin: Origin,
    },
    /// A model was asked.
    StepStarted {
        /// Which step.
        step: StepId,
    },
    /// A model answered.
    Replied {
        /// Which step.
        step: StepId,
        /// The answer; its calls have ids that are unique in the session.
        reply: Reply,
    },
    /// A model call failed and the step is given up.
    ModelFailed {
        /// Which step.
        step: StepId,
        /// Why.
        failure: ModelFailure,
    },
    /// A tool call waits for approval.
    ApprovalAsked {
        /// The call, with exactly what would run.
        call: ToolCall,
        /// What to show: the command, or a short form of the call.
        command: String,
        /// Reason that the model gave.
        reason: String,
        /// What is known of its risk.
        risk: Risk,
        /// What "for this session" would cover.
        covers: Grant,
        /// Effects that a dry run found, one a line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        preview: Vec<String>,
        /// Set if the call would run under a guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarded: Option<GuardTimeout>,
        /// Where "for this session" would hold; `None`: nowhere, as in logs of 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<GrantScope>,
    },
    /// One of several required users allowed a call.
    ApprovalGiven {
        /// The call.
        call: CallId,
        /// The user.
        by: String,
        /// Number of different users who must allow it.
        needed: u32,
    },
    /// A person answered an approval; or nobody can any more (the turn ended).
    Decided {
        /// The call.
        call: CallId,
        /// The answer.
        decision: Decision,
        /// The user.
        by: String,
    },
    /// A tool call began.
    ToolStarted {
        /// The call, exactly as it runs.
        call: ToolCall,
        /// Origin of the call.
        #[serde(default)]
        origin: Origin,
    },
    /// A tool call ended; each call of a reply gets exactly one of these.
    ToolFinished {
        /// The call.
        call: CallId,
        /// What came of it.
        outcome: Outcome,
    },
    /// A person wants the turn to stop; it ends when the running tool has.
    CancelAsked {
        /// What comes after the end.
        #[serde(default)]
        then: CancelFollowUp,
    },
    /// The turn waits for `Resume` before its next step.
    Paused {
        /// Why.
        reason: PauseReason,
    },
    /// The turn continues.
    Resumed,
    /// A person typed into the session's terminal.
    TerminalInput {
        /// The user.
        by: String,
        /// What.
        typed: TypedInput,
    },
    /// Older messages are no longer sent to the model. Written by 0.1.0, and where a window turned out to be small.
    Compacted {
        /// How many newest messages are sent from now on.
        keep: usize,
    },
    /// Older messages were replaced by a shorter text.
    ContextCompacted {
        /// The compaction.
        compaction: Compaction,
    },
    /// The agent changed its todo list.
    TodoChanged {
        /// The complete list.
        items: Vec<TodoItem>,
    },
    /// A command continues in the background.
    JobStarted {
        /// The job.
        job: JobId,
        /// The call that started it.
        call: CallId,
        /// The command.
        command: String,
        /// The host that it runs on.
        host: String,
    },
    /// A background job ended, or was lost with its process (status `unknown`).
    JobFinished {
        /// The job.
        job: JobId,
        /// How it ended.
        status: Status,
        /// The exit code of a command that ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// A guard was armed on a host before a risky change.
    GuardArmed {
        /// The guarded call.
        call: CallId,
        /// The host.
        host: String,
        /// Seconds until the change is rolled back.
        seconds: u32,
    },
    /// A guard was confirmed, fired, or could no longer be observed.
    GuardEnded {
        /// The guarded call.
        call: CallId,
        /// The host.
        host: String,
        /// How it ended.
        how: GuardEnd,
    },
    /// The changes of a call were undone.
    Undone {
        /// The call.
        call: CallId,
        /// The user who asked for it.
        by: String,
        /// How much was undone.
        how: Reversibility,
    },
    /// The history was cleared.
    HistoryCleared,
    /// A turn ended.
    TurnEnded {
        /// Which.
        turn: TurnId,
        /// Why.
        reason: StopReason,
        /// One sentence for the person, where something went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl Event {
    /// The `type` of every event that this version knows.
    pub fn kinds() -> &'static [&'static str] {
        tagged::variant_names::<Self>()
    }

    /// The names of the files that are kept beside the log for it.
    pub fn artifact_names(&self) -> impl Iterator<Item = &str> {
        let outcome = if let Self::ToolFinished { outcome, .. } = self { Some(outcome) } else { None };
        outcome.into_iter().flat_map(Outcome::artifact_names)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        tagged::serialize(self, serializer)
    }
}

impl From<&Event> for Event {
    fn from(event: &Event) -> Self {
        event.clone()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}

impl<'de> InternallyTagged<'de> for Event {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }

    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Reads events that stand one behind another as JSON. That is faster than one by one: the memory in which their texts are
/// unescaped is asked for once.
pub struct EventReader<'a> {
    texts: &'a str,
    stream: StreamDeserializer<'a, StrRead<'a>, Event>,
    /// Where the next one begins; nowhere behind a text that is none.
    from: usize,
}

impl<'a> EventReader<'a> {
    /// Begins with the first one of `texts`.
    pub fn new(texts: &'a str) -> Self {
        Self { texts, stream: serde_json::Deserializer::from_str(texts).into_iter(), from: 0 }
    }

    /// The next one, which has all of the text up to `end`, in bytes from the beginning of the texts; none where that
    /// text is no event, and from there on.
    pub fn next_up_to(&mut self, end: usize) -> Option<Event> {
        let begin = std::mem::replace(&mut self.from, usize::MAX);
        let event = self.stream.next()?.ok()?;
        let read = self.stream.byte_offset();
        // A text that holds less or more than one event is none.
        if begin >= read || !self.texts.get(read..end)?.trim_ascii().is_empty() {
            return None;
        }
        self.from = end;
        Some(event)
    }
}

/// What follows a turn that is being stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelFollowUp {
    /// Nothing.
    #[default]
    Nothing,
    /// The same prompt again, with a fresh history.
    Retry,
    /// A fresh history.
    Clear,
}

/// Why a turn waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A user asked for it.
    Asked,
    /// The same call had the same result too often in a row.
    Loop,
    /// The process died during the turn.
    Interrupted,
    /// A budget of cost, tokens or minutes is spent.
    Budget,
}

/// Why a turn ended. `assistant.done` uses these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The limit of model calls per turn was reached.
    MaxIterations,
    /// A user stopped it.
    Cancelled,
    /// A model error, or a direct call that failed.
    Failed,
    /// It was given up while it was paused.
    Paused,
}

impl StopReason {
    /// The word for the log, messages and people.
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

/// What the driver must do. Never stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the model; answer with `Input::Reply`.
    CallModel {
        /// Which step asks.
        step: StepId,
        /// What to send.
        request: ModelRequest,
    },
    /// Drop the model call; nothing more is to come of it.
    CancelModel {
        /// Which step.
        step: StepId,
    },
    /// Ask the host about the circumstances of a call; answer with `Input::Surveyed`.
    Survey {
        /// The call.
        call: ToolCall,
        /// Where it would run.
        place: ToolLocation,
        /// The fence of the shell that `run_command` would use there.
        shell: Fence,
        /// Tells the answers to two such effects apart.
        attempt: u32,
    },
    /// Run a tool; answer with `Input::Outcome`.
    RunTool {
        /// Exactly what to run.
        call: ToolCall,
        /// Where, as it was decided on.
        place: ToolLocation,
        /// What the kernel is to hold it to. A host that cannot fence the call does not run it.
        fence: Fence,
    },
    /// Stop a tool; its `Input::Outcome` still comes, with what was captured.
    CancelTool {
        /// Id of the call.
        call: CallId,
    },
    /// Answer with `Input::Timer` after a while.
    SetTimer {
        /// The call that it is about.
        call: CallId,
        /// How long.
        after: Duration,
    },
}

/// Where a call runs. It is decided with the call, so that what was allowed for one place never runs in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolLocation {
    /// On the session's own host.
    Host,
    /// On the client that lends the tool.
    Client,
}

/// What `Session::handle` returns: append the events, publish them, then perform the effects.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "events must be appended and effects performed, in this order"]
pub struct Output {
    /// What happened.
    pub events: Vec<Event>,
    /// What to do.
    pub effects: Vec<Effect>,
}

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// Its position; also the SSE id and the socket's resume point.
    pub seq: Seq,
    /// When it was appended.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

/// Text or output for live display. Never logged, never seen by the core. Nodes that share a store hand it on as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// More of the model's text.
    Text {
        /// Which step.
        step: StepId,
        /// The new text.
        text: String,
    },
    /// More of the model's reasoning.
    Reasoning {
        /// Which step.
        step: StepId,
        /// The new text.
        text: String,
    },
    /// More of a tool's output.
    Output {
        /// Id of the call.
        call: CallId,
        /// The piece, decoded lossily; control sequences are still in it.
        text: String,
    },
    /// The text and reasoning of this step so far are void: the request is made again.
    Restarted {
        /// Which step.
        step: StepId,
    },
    /// Something worth knowing now: a retry, a model that is loading.
    Notice {
        /// One line.
        text: String,
    },
    /// A program waits for something that only a person may give; the first answer counts.
    Question {
        /// The question.
        question: Question,
    },
    /// A question has its answer, or nobody waits for one any more.
    QuestionClosed {
        /// Which.
        id: QuestionId,
        /// The user who answered. Absent if the question was withdrawn.
        by: Option<String>,
    },
    /// The control of the terminal changed hands.
    Control {
        /// The person who types now, while the agent waits; none where the agent may type.
        holder: Option<String>,
    },
}

/// What a front end receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// From the log.
    Logged(std::sync::Arc<Logged>),
    /// For the moment.
    Delta(Delta),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these texts are read, one behind another.
    fn read(texts: &[&str]) -> usize {
        let glued = texts.concat();
        let mut reader = EventReader::new(&glued);
        let mut end = 0;
        let mut next = |text: &&str| {
            end += text.len();
            reader.next_up_to(end)
        };
        let events: Vec<_> = texts.iter().map(&mut next).collect();
        let read = events.iter().take_while(|event| event.is_some()).count();
        assert!(events[read..].iter().all(Option::is_none), "{texts:?}");
        for (event, text) in events.iter().flatten().zip(texts) {
            assert_eq!(*event, serde_json::from_str(text).unwrap());
        }
        read
    }

    #[test]
    fn events_are_read_one_behind_another_and_each_from_its_own_text() {
        const TURN: &str = r#"{"type":"turn_started","turn":2,"prompt":"a\nb"}"#;
        const RESUMED: &str = r#"{"type":"resumed"}"#;
        const QUEUED: &str = "{\"type\":\"prompt_queued\",\"text\":\"\\u00e9\"} \n";
        assert_eq!(read(&[]), 0);
        assert_eq!(read(&[TURN, RESUMED, QUEUED, RESUMED]), 4);
        let halves = RESUMED.split_at(9);
        for bad in [
            &[""][..],
            &["{}"],
            &["nonsense"],
            &[r#"{"type":"other"}"#],
            &[TURN, ""],
            &["", TURN],
            &[halves.0, halves.1],
        ] {
            assert_eq!(
                read(&[&[RESUMED], bad, &[RESUMED]].concat()),
                1 + usize::from(bad[0] == TURN),
                "{bad:?}"
            );
        }
        let two = [RESUMED, RESUMED].concat();
        assert_eq!(read(&[TURN, &two, RESUMED, RESUMED]), 1);
    }
}
