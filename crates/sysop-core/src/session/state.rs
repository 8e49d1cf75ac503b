//! What a session remembers. Plain data: it changes in `apply` only.

use std::collections::{HashSet, VecDeque};

use crate::compaction::Compaction;
use crate::event::{CancelFollowUp, Origin, PauseReason};
use crate::guard::{ArmedGuard, GUARDS_MAX};
use crate::history::History;
use crate::id::{CallId, StepId, TurnId};
use crate::job::RunningJobs;
use crate::message::{Arguments, ToolCall, ToolResult};
use crate::mode::Mode;
use crate::outcome::{FileChange, Outcome};
use crate::policy::{Grant, GrantScope, Risk, ScopedGrant};
use crate::spec::SessionSpec;
use crate::todo::{LIST_ITEMS_MAX, TodoItem};
use crate::tool::ClientTools;

/// How many turns can be undone, newest first.
pub(super) const UNDO_TURNS_MAX: usize = 64;
/// The most people who are remembered to have allowed one call.
const APPROVERS_MAX: usize = 16;

/// All that a session remembers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) spec: SessionSpec,
    /// The tools that run on a client.
    pub(super) client_tools: ClientTools,
    /// With tools (`agent`) or without (`chat`), from the next turn on.
    pub(super) mode: Mode,
    /// That of the current turn, or of the last one.
    pub(super) turn_mode: Mode,
    pub(super) history: History,
    /// How many newest messages are sent; shrinks where a model's window turned out to be small.
    pub(super) keep: usize,
    pub(super) phase: Phase,
    /// The current turn, or the last one.
    pub(super) turn: TurnId,
    /// The current step, or the last one.
    pub(super) step: StepId,
    /// Whether the turn makes one call without a model.
    pub(super) direct: bool,
    /// Whose wish the turn is.
    pub(super) origin: Origin,
    /// A closed gate: the next step waits for `Resume`.
    pub(super) paused: Option<PauseReason>,
    /// Set while a running tool is being stopped.
    pub(super) cancel_requested: Option<CancelFollowUp>,
    /// Set when the model said that the task is complete.
    pub(super) completed: bool,
    pub(super) last_prompt: Option<String>,
    pub(super) queue: VecDeque<String>,
    pub(super) grants: Vec<ScopedGrant>,
    pub(super) used_ids: HashSet<String>,
    /// The last call with its result, and how often it came in a row.
    pub(super) repeated: Option<RepeatedCall>,
    /// Replies in a row that held nothing.
    pub(super) empty_replies: u32,
    /// Whether a tool ran in this turn.
    pub(super) ran_tool: bool,
    /// Turns that changed files, oldest first.
    pub(super) changes: Vec<TurnChanges>,
    /// The person who opened the session; `None` in logs of 0.1.0.
    pub(super) opened_by: Option<String>,
    /// The last compaction of this history.
    pub(super) compaction: Option<Compaction>,
    /// The todo list, at most `LIST_ITEMS_MAX` items.
    pub(super) todo: Vec<TodoItem>,
    pub(super) jobs: RunningJobs,
    /// Guards that have not ended, the oldest first; at most `GUARDS_MAX`.
    pub(super) guards: Vec<ArmedGuard>,
    /// Different people who allowed the call that waits; at most `APPROVERS_MAX`.
    pub(super) approvers: Vec<String>,
}

/// The files that one turn changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnChanges {
    pub(super) turn: TurnId,
    pub(super) files: Vec<FileChange>,
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

    /// Whether this call had this result too.
    pub(super) fn is(&self, call: &ToolCall, outcome: &Outcome) -> bool {
        self.is_call(call) && self.output == outcome.output
    }

    /// Whether this is the same call, whatever came of it.
    pub(super) fn is_call(&self, call: &ToolCall) -> bool {
        self.name == call.name && self.arguments == call.arguments
    }
}

/// Where the turn is.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a session has one, and it is never moved in bulk")]
pub(super) enum Phase {
    /// No turn.
    Idle,
    /// Between steps; at rest only behind a closed gate.
    BetweenSteps,
    /// A model call runs.
    Thinking { step: StepId },
    /// The calls of a reply are worked through, or one direct call.
    Acting {
        /// Calls that have not begun.
        pending: VecDeque<ToolCall>,
        /// Results so far.
        results: Vec<ToolResult>,
        work: CurrentCall,
    },
}

/// What a user is shown of a call that waits for them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingApproval {
    pub(super) risk: Risk,
    pub(super) covers: Grant,
    /// Where a grant of it would hold.
    pub(super) scope: Option<GrantScope>,
}

/// What becomes of the current call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CurrentCall {
    /// None is current.
    Idle,
    /// A person is asked; `risk` is what they are shown, `covers` what "for this session" would grant.
    AwaitingApproval { call: ToolCall, asked: PendingApproval },
    /// It runs; `edited` holds the command that a person put in place of the model's.
    Running { call: ToolCall, edited: Option<String> },
}

impl State {
    pub(super) fn new(spec: SessionSpec) -> Self {
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
            queue: VecDeque::new(),
            grants: Vec::new(),
            used_ids: HashSet::new(),
            repeated: None,
            empty_replies: 0,
            ran_tool: false,
            changes: Vec::new(),
            opened_by: None,
            compaction: None,
            todo: Vec::new(),
            jobs: RunningJobs::default(),
            guards: Vec::new(),
            approvers: Vec::new(),
        }
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

    /// Ignores people who allowed the call before, and calls that do not wait.
    pub(super) fn add_approver(&mut self, call: &CallId, by: String) {
        let waits = self.waiting_call(call).is_some();
        if waits && !self.approvers.contains(&by) && self.approvers.len() < APPROVERS_MAX {
            self.approvers.push(by);
        }
    }

    /// The call that a person is asked about, if it is this one.
    pub(super) fn waiting_call(&self, id: &CallId) -> Option<(&ToolCall, &PendingApproval, Origin)> {
        match &self.phase {
            Phase::Acting { work: CurrentCall::AwaitingApproval { call, asked }, .. } if call.id == *id => {
                Some((call, asked, self.origin))
            }
            Phase::Acting { .. } | Phase::Idle | Phase::BetweenSteps | Phase::Thinking { .. } => None,
        }
    }

    /// The call that runs.
    pub(super) fn running_call(&self) -> Option<&ToolCall> {
        match &self.phase {
            Phase::Acting { work: CurrentCall::Running { call, .. }, .. } => Some(call),
            Phase::Acting { .. } | Phase::Idle | Phase::BetweenSteps | Phase::Thinking { .. } => None,
        }
    }

    /// The calls that have no end yet and do not run; `true` where a person is asked about it.
    pub(super) fn open_calls(&self) -> Vec<(CallId, bool)> {
        let Phase::Acting { pending, work, .. } = &self.phase else { return Vec::new() };
        let asked = match work {
            CurrentCall::AwaitingApproval { call, .. } => Some((call.id.clone(), true)),
            CurrentCall::Idle | CurrentCall::Running { .. } => None,
        };
        asked.into_iter().chain(pending.iter().map(|call| (call.id.clone(), false))).collect()
    }

    /// An id that no call of this session has had: `wanted`, or that with a number.
    pub(super) fn unique_id(&self, wanted: &str) -> CallId {
        self.unique_id_among(wanted, &[])
    }

    /// Like `unique_id`, and none of `taken`.
    pub(super) fn unique_id_among(&self, wanted: &str, taken: &[ToolCall]) -> CallId {
        let used = |id: &str| self.used_ids.contains(id) || taken.iter().any(|call| call.id.as_str() == id);
        if !used(wanted) {
            return CallId::new(wanted);
        }
        let numbered = (2_u32..).map(|n| format!("{wanted}_{n}")).find(|id| !used(id));
        CallId::new(numbered.expect("numbers do not run out"))
    }
}
