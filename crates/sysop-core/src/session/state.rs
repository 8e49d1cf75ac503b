//! State of a session: plain data that changes in `apply` only.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::approval::ApprovalTerms;
use crate::auto_bounds::AutoProgress;
use crate::budget::Spending;
use crate::compaction::Compaction;
use crate::event::{CancelFollowUp, Event, Origin, PauseReason};
use crate::guard::{ArmedGuard, GUARDS_MAX, GuardTimeout};
use crate::history::History;
use crate::id::{CallId, JobId, StepId, TurnId};
use crate::image::ImageRef;
use crate::instructions::Instructions;
use crate::job::{ENDED_JOBS_MAX, EndedJob, RunningJobs};
use crate::ledger::Ledger;
use crate::message::{Arguments, CallEnd, ModelRef, ToolCall, ToolResult, has_error_message};
use crate::mode::Mode;
use crate::outcome::{FileChange, Outcome, Reversibility, Status};
use crate::policy::{Grant, GrantScope, Risk, ScopedGrant};
use crate::spec::SessionSpec;
use crate::todo::{LIST_ITEMS_MAX, TodoItem};
use crate::tool::ClientTools;
use crate::undo::UndoRecord;

/// Maximum number of turns that can be undone; the newest are kept.
pub(super) const UNDO_TURNS_MAX: usize = 64;
/// Maximum number of users recorded as having allowed one call.
const APPROVERS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) spec: Arc<SessionSpec>,
    pub(super) client_tools: ClientTools,
    pub(super) mode: Mode,
    /// Mode of the current turn, or of the last one.
    pub(super) turn_mode: Mode,
    pub(super) history: History,
    /// Number of newest messages to send, 0 for all; halved when a model's context overflows and no compaction helps.
    pub(super) keep: usize,
    pub(super) phase: Phase,
    /// The current turn, or the last one.
    pub(super) turn: TurnId,
    /// The current step, or the last one.
    pub(super) step: StepId,
    /// True if the turn runs one call without a model.
    pub(super) direct: bool,
    pub(super) origin: Origin,
    /// The user who sent the turn's prompt or call to a server.
    pub(super) asked_by: Option<String>,
    /// If set, the next step waits for `Resume`.
    pub(super) paused: Option<PauseReason>,
    /// Action to take once the running tool has stopped; `None` if the turn was not canceled.
    pub(super) cancel_requested: Option<CancelFollowUp>,
    /// True if the model reported the task as complete.
    pub(super) completed: bool,
    pub(super) last_prompt: Option<String>,
    /// Images of `last_prompt`.
    pub(super) last_images: Vec<ImageRef>,
    /// Sender of `last_prompt`.
    pub(super) last_sender: Option<String>,
    pub(super) queue: VecDeque<QueuedPrompt>,
    pub(super) grants: Vec<ScopedGrant>,
    pub(super) used_ids: HashSet<String>,
    /// The last call and its result, with the number of times in a row that both were the same.
    pub(super) repeated: Option<RepeatedCall>,
    /// Number of consecutive empty replies from the model.
    pub(super) empty_replies: u32,
    /// True if a tool has run in this turn.
    pub(super) ran_tool: bool,
    /// The request for evidence that is sent with the next request to the model.
    pub(super) evidence_due: Option<EvidenceRequest>,
    /// Requests for evidence that this turn has made.
    pub(super) evidence_made: Vec<EvidenceKind>,
    /// Paths of files that commands of this turn changed, as the host reported them; at most `CHANGED_FILES_MAX`.
    pub(super) changed_files: Vec<String>,
    /// Path of a file that a command of this turn was to fill, but left empty.
    pub(super) empty_file: Option<String>,
    /// True if a command of this turn was returned to the model because its quotes or document are not closed.
    pub(super) returned_unclosed: bool,
    /// Number of consecutive calls of this turn that failed with the same output, with any arguments.
    pub(super) same_failures: SameFailures,
    /// The last command of this turn that failed, until another one makes up for it.
    pub(super) failed_command: Option<FailedCommand>,
    /// Turns that changed files, oldest first; at most `UNDO_TURNS_MAX`.
    pub(super) changes: Vec<TurnChanges>,
    /// Number of tool calls that have ended; the source of `UndoStep::number`.
    pub(super) tool_calls: u32,
    /// Calls that can be undone, oldest first; at most `UNDO_STEPS_MAX`.
    pub(super) undo_steps: Vec<UndoStep>,
    /// Number of the last call that changed something, and why it has no undo; `None` if it has one, or if its host
    /// said nothing.
    pub(super) unsaved_change: Option<(u32, String)>,
    /// The user who opened the session; `None` in logs written by 0.1.0.
    pub(super) opened_by: Option<String>,
    pub(super) compaction: Option<Compaction>,
    /// The last step before the latest compaction that replaced messages.
    pub(super) compacted_at: Option<StepId>,
    /// Facts extracted from the events in the current history.
    pub(super) ledger: Ledger,
    /// Amounts spent by the current turn, or the last one, since it started or since its budget was granted again.
    pub(super) spent_turn: Spending,
    /// Amounts spent since the session was opened or since its budget was granted again.
    pub(super) spent_session: Spending,
    /// Context window of a model in tokens, as its server reported it.
    pub(super) context_window: Option<(ModelRef, u32)>,
    /// True if a model accepts images, according to its server.
    pub(super) vision: Option<(ModelRef, bool)>,
    /// Upper bound of a model's window in tokens, learned from a rejected prompt.
    pub(super) window_cap: Option<(ModelRef, u32)>,
    /// Number of messages in the newest request and reply, and their tokens as counted by the server.
    pub(super) counted_tokens: Option<(usize, u64)>,
    pub(super) instructions: Instructions,
    /// Commands of the expanded prompt that have not been proposed yet; `None` if the turn's prompt was not expanded.
    pub(super) expansion: Option<Vec<String>>,
    /// The todo list, at most `LIST_ITEMS_MAX` items.
    pub(super) todo: Vec<TodoItem>,
    pub(super) jobs: RunningJobs,
    /// Jobs that have ended, oldest first; at most `ENDED_JOBS_MAX`.
    pub(super) ended_jobs: VecDeque<EndedJob>,
    /// Id of the newest job; 0 if no job has been started yet.
    pub(super) last_job: JobId,
    /// Lines about jobs that ended. The model gets them with the next prompt or tool result.
    pub(super) job_notes: Vec<String>,
    /// Guards that have not ended, oldest first; at most `GUARDS_MAX`.
    pub(super) guards: Vec<ArmedGuard>,
    /// Distinct users who allowed the pending call; at most `APPROVERS_MAX`.
    pub(super) approvers: Vec<String>,
    /// People to whom the consents of `approvers` are attributed, in the same order.
    pub(super) approver_people: Vec<String>,
    /// Bounds of `auto` mode that are in effect.
    pub(super) auto: Option<AutoProgress>,
}

/// A prompt that is queued behind the current turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct QueuedPrompt {
    pub(super) text: String,
    pub(super) images: Vec<ImageRef>,
    /// The user who sent the prompt to a server.
    pub(super) by: Option<String>,
}

impl From<QueuedPrompt> for Event {
    fn from(QueuedPrompt { text, images, by }: QueuedPrompt) -> Self {
        Self::PromptQueued { text, images, by }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnChanges {
    pub(super) turn: TurnId,
    pub(super) files: Vec<FileChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct UndoStep {
    /// Number of the call in the session, from 1.
    pub(super) number: u32,
    pub(super) turn: TurnId,
    pub(super) call: CallId,
    /// The command of the call, or of the call that it undid; empty for file tools.
    pub(super) command: String,
    /// Records on the hosts; empty if only `files` can be restored.
    pub(super) records: Vec<UndoRecord>,
    /// Changes made by file tools.
    pub(super) files: Vec<FileChange>,
    pub(super) how: Reversibility,
    /// True if the call was itself an undo.
    pub(super) is_undo: bool,
    /// The call whose changes this call undid.
    pub(super) undid: Option<CallId>,
    pub(super) is_undone: bool,
}

/// A call and its result, for the loop guard.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RepeatedCall {
    name: String,
    arguments: Arguments,
    output: String,
    pub(super) times: u32,
}

impl RepeatedCall {
    pub(super) fn new(call: ToolCall, outcome: Outcome) -> Self {
        Self { name: call.name, arguments: call.arguments, output: outcome.output, times: 1 }
    }

    /// Returns true if both the call and its result are the same as the recorded ones.
    pub(super) fn is(&self, call: &ToolCall, outcome: &Outcome) -> bool {
        self.is_call(call) && self.output == outcome.output
    }

    /// Returns true if the call is the same as the recorded one, whatever its result.
    pub(super) fn is_call(&self, call: &ToolCall) -> bool {
        self.name == call.name && self.arguments == call.arguments
    }
}

/// Consecutive calls that failed alike, such as five ways to write the same wrong path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SameFailures {
    output: String,
    pub(super) times: u32,
}

impl SameFailures {
    /// Records an outcome. A success starts the count over, and so does a failure without an error message, because a
    /// search that finds nothing fails in this way. A host that is not reached counts, although its [`CallEnd`] is no
    /// failure: asking for it again and again is what the count is there to notice.
    pub(super) fn record(&mut self, outcome: &Outcome) {
        let failed = outcome.status == Status::Failed && has_error_message(&outcome.output);
        if !failed {
            *self = Self::default();
        } else if self.output == outcome.output {
            self.times += 1;
        } else {
            *self = Self { output: outcome.output.clone(), times: 1 };
        }
    }
}

/// Returns the program that a command runs first, without `cd`, assignments, and wrappers with their options. A guess
/// from the words, which can take the value of a wrapper's option for the program; nothing depends on it but help for
/// small models.
fn first_program(command: &str) -> Option<&str> {
    let mut rest = command.trim_start();
    while rest.starts_with("cd ")
        && let Some(at) = rest.find(['&', ';', '\n'])
    {
        rest = rest[at..].trim_start_matches(['&', ';', '\n', ' ']);
    }
    let is_wrapper = |word: &str| ["sudo", "env", "nice", "nohup", "time"].contains(&word);
    rest.split_whitespace().find(|word| !is_wrapper(word) && !word.contains('=') && !word.starts_with('-'))
}

/// Maximum number of changed files that a turn remembers.
pub(super) const CHANGED_FILES_MAX: usize = 100;

/// Number of commands that follow a failed one before a model that gets its tools as text may answer. Small models tend
/// to describe the repair instead of making it.
const RETRIES: u32 = 2;

/// A command that failed and that no later command has made up for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedCommand {
    command: String,
    /// Number of commands that a model that gets its tools as text must still try before it may answer.
    pub(super) retries: u32,
}

impl FailedCommand {
    /// Records a call's outcome in `failed`. Returns the failed command if this call looks like a preparation for it:
    /// it succeeded without output, and ran another program. `right` is the command to run instead, if that is known.
    pub(super) fn record(
        failed: &mut Option<Self>,
        call: &ToolCall,
        outcome: &Outcome,
        end: CallEnd,
        right: Option<String>,
    ) -> Option<String> {
        let Some(command) = call.text_argument("command") else {
            *failed = None;
            return None;
        };
        if matches!(end, CallEnd::Failed | CallEnd::Advised) {
            let retries = failed.as_ref().map_or(RETRIES, |failed| failed.retries.saturating_sub(1));
            *failed = Some(Self { command: right.unwrap_or_else(|| command.to_owned()), retries });
            return None;
        }
        let program = first_program(&failed.as_ref()?.command);
        if end != CallEnd::Done || command.split_whitespace().any(|word| Some(word) == program) {
            *failed = None;
            return None;
        }
        let failed = failed.as_mut()?;
        failed.retries = failed.retries.saturating_sub(1);
        let is_silent = outcome.status == Status::Ok && !has_error_message(&outcome.output);
        is_silent.then(|| failed.command.clone())
    }
}

/// A request for evidence, made when a reply could otherwise end the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EvidenceRequest {
    pub(super) kind: EvidenceKind,
    /// Text for the model.
    pub(super) text: String,
}

/// Reasons to ask for evidence. A turn asks at most once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvidenceKind {
    /// The reply claims actions, but no tool ran.
    Claim,
    /// A command was to fill a file that is empty.
    EmptyFile,
    /// The prompt names a file, not in the list of files, that no call has named or changed.
    UnwrittenFile,
    /// The reply has a number that no output showed.
    UnshownNumber,
}

/// Position within the turn.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a session has one phase, which is rarely moved")]
pub(super) enum Phase {
    Idle,
    /// Between two steps. The session stays in this phase only while it is paused or waits for hooks, instructions or a
    /// summary.
    BetweenSteps,
    /// A model request is in flight.
    Thinking {
        step: StepId,
    },
    /// The calls of a reply, or one direct call, are being processed one after the other.
    Acting {
        pending: VecDeque<ToolCall>,
        results: Vec<ToolResult>,
        work: CurrentCall,
    },
}

/// An approval as shown to the user.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingApproval {
    pub(super) risk: Risk,
    pub(super) covers: Grant,
    pub(super) scope: Option<GrantScope>,
    /// Guard under which the call would run.
    pub(super) guarded: Option<GuardTimeout>,
    pub(super) terms: ApprovalTerms,
    /// True while the preview of the call is being computed.
    pub(super) is_effect_pending: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CurrentCall {
    Idle,
    /// The call is waiting for a decision. `asked` holds the risk shown and the grant offered.
    AwaitingApproval {
        call: ToolCall,
        asked: PendingApproval,
    },
    /// The call is running. `edited` holds the user's command if it replaced the model's command.
    Running {
        call: ToolCall,
        edited: Option<String>,
    },
}

impl State {
    /// Returns the index in the queue of the newest prompt with this text and sender.
    pub(super) fn queued_at(&self, text: &str, by: Option<&str>) -> Option<usize> {
        self.queue.iter().rposition(|queued| queued.text == text && queued.by.as_deref() == by)
    }

    pub(super) fn withdraw(&mut self, text: &str, by: Option<&str>) {
        if let Some(at) = self.queued_at(text, by) {
            self.queue.remove(at);
        }
    }

    pub(super) fn new(spec: Arc<SessionSpec>) -> Self {
        Self {
            keep: spec.max_history_messages,
            spec,
            client_tools: ClientTools::default(),
            mode: Mode::default(),
            turn_mode: Mode::default(),
            history: History::default(),
            phase: Phase::Idle,
            turn: TurnId::default(),
            step: StepId::default(),
            direct: false,
            origin: Origin::default(),
            paused: None,
            cancel_requested: None,
            completed: false,
            last_prompt: None,
            last_images: Vec::new(),
            last_sender: None,
            asked_by: None,
            queue: VecDeque::new(),
            grants: Vec::new(),
            used_ids: HashSet::new(),
            repeated: None,
            empty_replies: 0,
            ran_tool: false,
            evidence_due: None,
            evidence_made: Vec::new(),
            changed_files: Vec::new(),
            empty_file: None,
            returned_unclosed: false,
            same_failures: SameFailures::default(),
            failed_command: None,
            changes: Vec::new(),
            tool_calls: 0,
            undo_steps: Vec::new(),
            unsaved_change: None,
            opened_by: None,
            compaction: None,
            compacted_at: None,
            ledger: Ledger::default(),
            spent_turn: Spending::default(),
            spent_session: Spending::default(),
            context_window: None,
            vision: None,
            window_cap: None,
            counted_tokens: None,
            instructions: Instructions::default(),
            expansion: None,
            todo: Vec::new(),
            jobs: RunningJobs::default(),
            ended_jobs: VecDeque::new(),
            last_job: JobId(0),
            job_notes: Vec::new(),
            guards: Vec::new(),
            approvers: Vec::new(),
            approver_people: Vec::new(),
            auto: None,
        }
    }

    /// Returns the settings for a change, and copies them first if the session's first event still shares them.
    pub(super) fn spec_mut(&mut self) -> &mut SessionSpec {
        Arc::make_mut(&mut self.spec)
    }

    pub(super) fn set_todo(&mut self, mut items: Vec<TodoItem>) {
        items.truncate(LIST_ITEMS_MAX);
        self.todo = items;
    }

    pub(super) fn arm_guard(&mut self, guard: ArmedGuard) {
        self.end_guard(&guard.call, &guard.host);
        self.guards.push(guard);
        if self.guards.len() > GUARDS_MAX {
            self.guards.remove(0);
        }
    }

    pub(super) fn end_guard(&mut self, call: &CallId, host: &str) {
        self.guards.retain(|guard| guard.call != *call || guard.host != host);
    }

    /// Records that `by` allowed the call. Ignores a person's second consent and calls that do not wait for approval.
    pub(super) fn add_approver(&mut self, call: &CallId, by: String, person: Option<String>) {
        let waits = self.waiting_call(call).is_some();
        let person = person.unwrap_or_else(|| by.clone());
        if waits && !self.approver_people.contains(&person) && self.approvers.len() < APPROVERS_MAX {
            self.approvers.push(by);
            self.approver_people.push(person);
        }
    }

    /// Returns the pending approval if it is for call `id`.
    pub(super) fn waiting_call(&self, id: &CallId) -> Option<(&ToolCall, &PendingApproval, Origin)> {
        match &self.phase {
            Phase::Acting { work: CurrentCall::AwaitingApproval { call, asked }, .. } if call.id == *id => {
                Some((call, asked, self.origin))
            }
            Phase::Acting { .. } | Phase::Idle | Phase::BetweenSteps | Phase::Thinking { .. } => None,
        }
    }

    /// Records that the preview of the pending approval has been computed.
    pub(super) fn end_preview(&mut self, id: &CallId) {
        if let Phase::Acting { work: CurrentCall::AwaitingApproval { call, asked }, .. } = &mut self.phase
            && call.id == *id
        {
            asked.is_effect_pending = false;
        }
    }

    /// Replaces the turn's prompt with its expansion.
    pub(super) fn expand_prompt(&mut self, text: &str, commands: Vec<String>) {
        let typed = self.last_prompt.as_deref().unwrap_or_default();
        self.history.replace_prompt(typed, text);
        self.expansion = Some(commands);
    }

    pub(super) fn end_job(&mut self, id: JobId, status: Status, exit_code: Option<i32>, output: String) {
        let Some(job) = self.jobs.finish(id) else { return };
        let ended = EndedJob { id, job, status, exit_code, output };
        self.job_notes.push(format!(
            "[background job {} ended, {}: {}]",
            ended.id,
            ended.result(),
            ended.job.command
        ));
        self.ended_jobs.push_back(ended);
        if self.ended_jobs.len() > ENDED_JOBS_MAX {
            self.ended_jobs.pop_front();
        }
    }

    pub(super) fn running_call(&self) -> Option<&ToolCall> {
        match &self.phase {
            Phase::Acting { work: CurrentCall::Running { call, .. }, .. } => Some(call),
            Phase::Acting { .. } | Phase::Idle | Phase::BetweenSteps | Phase::Thinking { .. } => None,
        }
    }

    /// Returns the calls that have not started yet; `true` marks the call that awaits approval.
    pub(super) fn open_calls(&self) -> Vec<(CallId, bool)> {
        let Phase::Acting { pending, work, .. } = &self.phase else { return Vec::new() };
        let asked = match work {
            CurrentCall::AwaitingApproval { call, .. } => Some((call.id.clone(), true)),
            CurrentCall::Idle | CurrentCall::Running { .. } => None,
        };
        asked.into_iter().chain(pending.iter().map(|call| (call.id.clone(), false))).collect()
    }

    /// Returns an id unused in this session: `wanted`, or `wanted` with a numeric suffix.
    pub(super) fn unique_id(&self, wanted: &str) -> CallId {
        self.unique_id_among(wanted, &[])
    }

    /// Like `unique_id`, but the id also differs from the ids in `taken`.
    pub(super) fn unique_id_among(&self, wanted: &str, taken: &[ToolCall]) -> CallId {
        let used = |id: &str| self.used_ids.contains(id) || taken.iter().any(|call| call.id.as_str() == id);
        if !used(wanted) {
            return CallId::new(wanted);
        }
        let numbered = (2_u32..).map(|n| format!("{wanted}_{n}")).find(|id| !used(id));
        CallId::new(numbered.expect("there are more numbers than calls"))
    }
}
