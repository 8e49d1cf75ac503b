//! State changes of a session: `apply` handles one event at a time, live and in replay alike.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use super::state::{
    CHANGED_FILES_MAX, CurrentCall, FailedCommand, PendingApproval, Phase, QueuedPrompt, RepeatedCall,
    SameFailures, TurnChanges, UNDO_TURNS_MAX,
};
use super::step::{EMPTY_NUDGE, EMPTY_REPLIES_MAX};
use super::{Session, compact, hints};
use crate::auto_bounds::AutoProgress;
use crate::budget::Spending;
use crate::catalog::JOBS_TOOL;
use crate::compaction::Compaction;
use crate::event::{ConfigChange, Decision, Event, Origin, PauseReason, StopReason};
use crate::guard::ArmedGuard;
use crate::id::{CallId, StepId, TurnId};
use crate::job::Job;
use crate::ledger::Ledger;
use crate::message::{CallEnd, FailureKind, Message, Reply, ToolCall, ToolProtocol, ToolResult};
use crate::model_limits::CONTEXT_WINDOW_MIN;
use crate::outcome::{ChangeKind, Outcome, Status};
use crate::policy::{ApprovalMode, Grant, ScopedGrant};
use crate::preview;
use crate::tool::{CLIENT_MACHINE, ToolEffect};
use crate::undo::UNDO_TOOL;

/// Text appended to the result of a repeated call. It ends most loops of small models.
const AGAIN: &str = "\n[you just made the same call: do not repeat it; do something else, or answer now]";

/// Text appended to the result of a repeated call that failed.
const FAILED_AGAIN: &str =
    "\n[the same call failed again: do not repeat it; find out why it failed, or try another way]";

/// Text appended to the result of a different call that failed in the same way.
const FAILED_ALIKE: &str =
    "\n[this failed in the same way as before: look at what is there, then take another approach]";

/// Number of consecutive failures with the same output from which the model is told so.
const SAME_FAILURES_HINT: u32 = 2;

impl Session {
    /// Applies one event to the state. The event is taken by value, so that replaying a long log copies nothing.
    pub(super) fn apply(&mut self, event: Event) {
        let state = &mut self.state;
        match event {
            Event::SessionOpened { spec, opened_by } => {
                self.tools = OnceLock::new();
                self.listed = OnceLock::new();
                *state = super::State { opened_by, ..super::State::new(spec) };
            }
            Event::Configured { change, .. } => self.apply_configured(change),
            Event::PromptQueued { text, images, by } => {
                state.queue.push_back(QueuedPrompt { text, images, by });
            }
            Event::PromptWithdrawn { text, by } => state.withdraw(&text, by.as_deref()),
            Event::TurnStarted { turn, prompt, origin, images, by } => {
                self.apply_turn_started(turn, QueuedPrompt { text: prompt, images, by }, origin);
            }
            Event::StepStarted { step } => self.apply_step_started(step),
            Event::Replied { reply, .. } => self.apply_replied(reply),
            Event::ModelFailed { failure, .. } => self.apply_model_failed(failure.kind),
            Event::Compacted { keep } => (state.keep, state.phase) = (keep, Phase::BetweenSteps),
            Event::ApprovalAsked { call, risk, covers, scope, guarded, terms, preview, .. } => {
                let is_effect_pending = preview == [preview::STILL_CHECKING];
                let asked = PendingApproval { risk, covers, scope, guarded, terms, is_effect_pending };
                self.begin(CurrentCall::AwaitingApproval { call, asked });
            }
            Event::ApprovalGiven { call, by, person, .. } => state.add_approver(&call, by, person),
            Event::Decided { decision, by, .. } => self.apply_decided(decision, &by),
            Event::ToolStarted { call, origin } => self.apply_tool_started(call, origin),
            Event::ToolFinished { call, outcome } => self.apply_tool_finished(&call, outcome),
            Event::CancelAsked { then } => {
                state.cancel_requested = Some(then);
                state.queue.clear(); // canceling a turn also drops the prompts behind it
            }
            Event::Paused { reason, active_ms, .. } => {
                state.paused = Some(reason);
                if reason == PauseReason::Loop {
                    state.repeated = None;
                    state.same_failures = SameFailures::default();
                }
                self.spend_time(active_ms);
            }
            Event::Resumed => {
                if state.paused.take() == Some(PauseReason::Budget) {
                    (state.spent_turn, state.spent_session) = Default::default();
                }
            }
            Event::ContextCompacted { compaction } => self.apply_compacted(compaction),
            Event::TodoChanged { items } => state.set_todo(items),
            Event::InstructionsLoaded { instructions } => {
                state.history.set_instructions(instructions.prompt().as_deref());
                state.instructions = instructions;
                state.counted_tokens = None;
                self.tools = OnceLock::new(); // `skill` is on offer if there are skills
            }
            Event::PromptExpanded { text, commands } => state.expand_prompt(&text, commands),
            Event::JobStarted { job, call, command, host } => {
                state.last_job = job;
                state.jobs.start(job, Job { call, command, host });
                self.tools = OnceLock::new(); // `jobs` is on offer from now on
            }
            Event::JobFinished { job: id, status, exit_code, output } => {
                state.end_job(id, status, exit_code, output.text);
            }
            Event::GuardArmed { call, host, seconds } => state.arm_guard(ArmedGuard { call, host, seconds }),
            Event::GuardEnded { call, host, .. } => state.end_guard(&call, &host),
            // A preview has no influence on the decision.
            Event::ApprovalPreviewed { call, .. } => state.end_preview(&call),
            // For users and the log only: typed keys show up on the terminal, and an undo is reported by the
            // outcome of its own call.
            Event::TerminalInput { .. } | Event::Undone { .. } => {}
            Event::HistoryCleared => self.apply_history_cleared(),
            Event::TurnEnded { reason, active_ms, .. } => self.apply_turn_ended(reason, active_ms),
        }
    }

    fn apply_step_started(&mut self, step: StepId) {
        let state = &mut self.state;
        if let Some(request) = state.evidence_due.take() {
            state.history.push(Message::user(request.text));
            state.evidence_made.push(request.kind);
        }
        state.step = step;
        state.phase = Phase::Thinking { step };
    }

    fn apply_history_cleared(&mut self) {
        let state = &mut self.state;
        state.history.clear();
        state.keep = state.spec.max_history_messages;
        state.repeated = None;
        state.compaction = None;
        state.compacted_at = None;
        state.counted_tokens = None;
        state.ledger = Ledger::default();
        state.todo.clear();
        self.tools = OnceLock::new();
    }

    fn apply_compacted(&mut self, compaction: Compaction) {
        self.spend(compaction.usage);
        let state = &mut self.state;
        if compaction.images_elided {
            state.history.omit_images();
        }
        state.history.omit_outputs(&compaction.elided);
        if compaction.replaced > 0 {
            let summary = compact::summary_message(&compaction, &state.todo, &state.jobs);
            state.history.compact(&summary, compaction.keep);
            state.compacted_at = Some(state.step);
        }
        state.counted_tokens = None;
        state.compaction = Some(compaction);
        self.tools = OnceLock::new(); // `read_output` is on offer from now on
    }

    fn apply_model_failed(&mut self, kind: FailureKind) {
        self.apply_overflow(kind);
        self.state.phase = Phase::BetweenSteps;
    }

    /// Learns from a rejected prompt that the model's window is smaller than assumed.
    fn apply_overflow(&mut self, kind: FailureKind) {
        if kind != FailureKind::ContextOverflow {
            return;
        }
        // Servers count the prompt plus the longest reply that the request allows.
        let reply = self.max_output_tokens().or(self.sampling_defaults().output_tokens).unwrap_or_default();
        let requested = self.prompt_tokens() + u64::from(reply);
        let fits = u32::try_from(requested * 3 / 4).unwrap_or(u32::MAX).max(CONTEXT_WINDOW_MIN);
        let window = fits.min(self.context_window());
        self.state.window_cap = Some((self.state.spec.model.clone(), window));
    }

    fn apply_turn_ended(&mut self, reason: StopReason, active_ms: u64) {
        self.spend_time(active_ms);
        let state = &mut self.state;
        state.phase = Phase::Idle;
        state.paused = None;
        state.cancel_requested = None;
        if matches!(reason, StopReason::Cancelled | StopReason::Paused) {
            state.queue.clear(); // canceling a turn also drops the prompts behind it
        }
    }

    fn apply_configured(&mut self, change: ConfigChange) {
        match change {
            ConfigChange::ClientTools(client_tools) => {
                self.state.client_tools = client_tools;
                self.state.grants.clear(); // grants are valid only where the tools ran
                self.tools = OnceLock::new();
            }
            ConfigChange::Model(model) => {
                self.state.spec_mut().model = model;
                self.listed = OnceLock::new();
                // The model decides if `view_image` is offered; its window decides if external tools are
                // deferred.
                self.tools = OnceLock::new();
            }
            ConfigChange::Approve(mode) => {
                self.state.spec_mut().approve = mode;
                self.state.auto = None;
            }
            ConfigChange::Auto(bounds) => {
                self.state.spec_mut().approve = ApprovalMode::Auto;
                self.state.auto = Some(AutoProgress::new(bounds));
            }
            ConfigChange::Mode(mode) => self.state.mode = mode,
            ConfigChange::Effort(effort) => self.state.spec_mut().effort = Some(effort),
            ConfigChange::Budget(limits) => {
                let spec = self.state.spec_mut();
                spec.budget = spec.budget.updated(limits);
            }
            ConfigChange::Revoke(grants) => {
                self.state.grants.retain(|granted| !grants.contains(&granted.grant));
            }
            ConfigChange::Rules { dangerous, deny, options, rules } => {
                let spec = self.state.spec_mut();
                if let Some(options) = options {
                    spec.policy = options;
                }
                for rule in rules {
                    if !spec.policy.rules.contains(&rule) {
                        spec.policy.rules.push(rule);
                    }
                }
                add_missing(&mut spec.dangerous_patterns, &dangerous);
                add_missing(&mut spec.deny, &deny);
                self.policy = Arc::default();
            }
        }
    }

    fn apply_turn_started(&mut self, turn: TurnId, prompt: QueuedPrompt, origin: Origin) {
        let state = &mut self.state;
        if state.queue.front().is_some_and(|queued| *queued == prompt) {
            state.queue.pop_front();
        }
        let QueuedPrompt { text: prompt, images, by } = prompt;
        state.turn = turn;
        state.turn_mode = state.mode;
        state.step = StepId { turn, step: 0 };
        state.origin = origin;
        state.asked_by.clone_from(&by);
        state.direct = prompt.is_empty();
        state.completed = false;
        state.expansion = None;
        state.empty_replies = 0;
        state.ran_tool = false;
        state.evidence_due = None;
        state.evidence_made.clear();
        state.changed_files.clear();
        state.empty_file = None;
        state.returned_unclosed = false;
        state.repeated = None;
        state.same_failures = SameFailures::default();
        state.failed_command = None;
        state.spent_turn = Spending::default();
        if state.direct {
            state.phase =
                Phase::Acting { pending: VecDeque::new(), results: Vec::new(), work: CurrentCall::Idle };
        } else {
            let notes = std::mem::take(&mut state.job_notes);
            let text = [notes.as_slice(), std::slice::from_ref(&prompt)].concat().join("\n\n");
            state.history.push_prompt(&text, images.clone(), state.keep);
            state.ledger.add_prompt(&prompt);
            state.last_prompt = Some(prompt);
            (state.last_images, state.last_sender) = (images, by);
            state.phase = Phase::BetweenSteps;
        }
    }

    fn apply_replied(&mut self, reply: Reply) {
        self.spend(reply.usage);
        let request = self.evidence_request(&reply);
        let state = &mut self.state;
        if request.is_some() {
            state.repeated = None; // the model needs its tools for the evidence
        }
        state.evidence_due = request;
        state.expansion.iter_mut().for_each(Vec::clear);
        if reply.text.trim().is_empty() && reply.calls.is_empty() {
            state.empty_replies += 1;
            if state.empty_replies < EMPTY_REPLIES_MAX {
                state.history.push(Message::user(EMPTY_NUDGE));
            }
            state.phase = Phase::BetweenSteps;
            return; // no provider accepts an empty message
        }
        state.empty_replies = 0;
        for call in &reply.calls {
            state.used_ids.insert(call.id.as_str().to_owned());
        }
        state.phase = if reply.calls.is_empty() {
            Phase::BetweenSteps
        } else {
            let pending = reply.calls.iter().cloned().collect();
            Phase::Acting { pending, results: Vec::new(), work: CurrentCall::Idle }
        };
        if let Some(window) = reply.context_window {
            state.context_window = Some((state.spec.model.clone(), window));
        }
        if let Some(vision) = reply.vision {
            let told = Some((state.spec.model.clone(), vision));
            if told != state.vision {
                state.vision = told;
                self.tools = OnceLock::new(); // `view_image` is on offer if the model sees images
            }
        }
        let tokens = reply.usage.input_tokens + reply.usage.output_tokens;
        state.history.push(Message::Assistant { reply });
        state.counted_tokens = (tokens > 0).then_some((state.history.len(), tokens));
    }

    /// Makes `next` the current call and removes it from the pending ones.
    fn begin(&mut self, next: CurrentCall) {
        let id = match &next {
            CurrentCall::AwaitingApproval { call, .. } | CurrentCall::Running { call, .. } => call.id.clone(),
            CurrentCall::Idle => return,
        };
        self.state.used_ids.insert(id.as_str().to_owned());
        self.state.approvers.clear();
        self.state.approver_people.clear();
        if let Phase::Acting { pending, work, .. } = &mut self.state.phase {
            pending.retain(|call| call.id != id);
            *work = next;
        }
    }

    fn apply_decided(&mut self, decision: Decision, by: &str) {
        let Phase::Acting { work: CurrentCall::AwaitingApproval { call, asked }, .. } = &self.state.phase
        else {
            return;
        };
        if let Decision::Reject { reason } = &decision
            && by != Decision::BY_SYSOP
        {
            self.state.ledger.add_refusal(call, reason);
        }
        let Decision::AllowSession { command } = decision else { return };
        let Some(scope) = asked.scope.clone().filter(|_| !asked.risk.class.always_asks()) else { return };
        let grant = match command {
            Some(edited) => Grant::Exact { command: edited },
            None => asked.covers.clone(),
        };
        let granted = ScopedGrant { grant, scope };
        if !self.state.grants.contains(&granted) {
            self.state.grants.push(granted);
        }
    }

    fn apply_tool_started(&mut self, call: ToolCall, origin: Origin) {
        self.state.ran_tool = true;
        if let Some(auto) = self.state.auto.as_mut().filter(|_| origin != Origin::User) {
            auto.commands += 1;
        }
        let edited = match &self.state.phase {
            Phase::Acting { work: CurrentCall::AwaitingApproval { call: asked, .. }, .. }
                if asked.arguments != call.arguments =>
            {
                call.text_argument("command").map(str::to_owned)
            }
            Phase::Acting { .. } | Phase::Idle | Phase::BetweenSteps | Phase::Thinking { .. } => None,
        };
        self.begin(CurrentCall::Running { call, edited });
    }

    fn apply_tool_finished(&mut self, id: &CallId, outcome: Outcome) {
        let bytes_max = self.result_bytes_max();
        let Phase::Acting { pending, results, work } = &mut self.state.phase else { return };
        let (call, edited) = match std::mem::replace(work, CurrentCall::Idle) {
            CurrentCall::Running { call, edited } if call.id == *id => (Some(call), edited),
            CurrentCall::AwaitingApproval { call, .. } if call.id == *id => (Some(call), None),
            other @ (CurrentCall::Running { .. }
            | CurrentCall::AwaitingApproval { .. }
            | CurrentCall::Idle) => {
                *work = other;
                let position = pending.iter().position(|call| call.id == *id);
                (position.and_then(|position| pending.remove(position)), None)
            }
        };
        let Some(call) = call else { return };
        if !self.state.direct {
            let reply = self.state.history.last_reply();
            let is_text = reply.is_some_and(|reply| reply.protocol == ToolProtocol::Text);
            let again = self.state.repeated.as_ref().is_some_and(|last| last.is_call(&call));
            self.state.same_failures.record(&outcome);
            let names = outcome.changed.iter().filter(|change| change.kind == ChangeKind::File);
            let room = CHANGED_FILES_MAX.saturating_sub(self.state.changed_files.len());
            self.state.changed_files.extend(names.take(room).map(|change| change.name.clone()));
            let failed = &mut self.state.failed_command;
            let wrote_nothing = hints::wrote_nothing(&call, &outcome);
            let spec = &self.state.spec;
            let system = spec.text_system.as_ref().unwrap_or(&spec.system);
            let unclosed = call.text_argument("command").and_then(hints::unclosed);
            self.state.returned_unclosed |= unclosed.is_some_and(|error| error == outcome.output);
            let prompt = self.state.last_prompt.as_deref().unwrap_or_default();
            hints::track_empty_file(&mut self.state.empty_file, &outcome, wrote_nothing.is_some(), prompt);
            let advice = hints::changed_nothing(&call, &outcome)
                .or(wrote_nothing)
                .or_else(|| hints::no_repository(&call, &outcome, system));
            let corrected = hints::corrected(&call, &outcome).filter(|_| is_text && advice.is_none());
            let (line, right) = corrected.map(|right| (right.line, right.command)).unzip();
            let advice = advice.or(line);
            let idiom = hints::wrong_idiom(&call, &outcome).filter(|_| is_text && advice.is_none());
            let end = match advice.as_deref().filter(|_| is_text) {
                Some(advice) if hints::names_command(advice) => CallEnd::Advised,
                Some(_) => CallEnd::Failed,
                None => hints::end_of(&outcome),
            };
            let prepared = FailedCommand::record(failed, &call, &outcome, end, right).filter(|_| is_text);
            let failures = self.state.same_failures.times;
            // The next command replaces this one, so there is nothing to repeat.
            let end = if idiom.is_some() { CallEnd::Advised } else { end };
            let mut result = result_of(&call, edited, &outcome, end, again, failures);
            for line in advice.or(idiom).into_iter().chain(prepared.as_deref().map(hints::not_repeated)) {
                result.output = format!("{}\n{line}", result.output.trim_end());
            }
            if let Some(shortened) = compact::shorten_output(&result, bytes_max) {
                self.state.history.keep_omitted(&result.call, &result.output);
                result.output = shortened;
                self.tools = OnceLock::new(); // `read_output` is on offer from now on
            }
            results.push(result);
        }
        let done = pending.is_empty() && *work == CurrentCall::Idle && !self.state.direct;
        if let Some(last) = results.last_mut().filter(|_| done) {
            for note in std::mem::take(&mut self.state.job_notes) {
                last.output.push_str(&format!("\n{note}"));
            }
        }
        let results = done.then(|| std::mem::take(results));
        self.remember(call, outcome);
        if let Some(results) = results {
            self.state.history.push(Message::ToolResults { results });
            self.state.phase = Phase::BetweenSteps;
        }
    }

    /// Adds a call to the ledger if it ran for a model.
    fn add_to_ledger(&mut self, call: &ToolCall, outcome: &Outcome) {
        let client = self.state.client_tools.named(&call.name).is_some();
        let ran = outcome.status != Status::Rejected
            && self
                .offered_tools()
                .named(&call.name)
                .is_some_and(|spec| !matches!(spec.effect, ToolEffect::Completes | ToolEffect::Session));
        if self.state.direct || !ran {
            return;
        }
        let host = if client { CLIENT_MACHINE } else { &self.state.spec.host };
        self.state.ledger.add_outcome(host, call, outcome);
    }

    /// Records a finished call for the loop guard, undo and task completion.
    fn remember(&mut self, call: ToolCall, mut outcome: Outcome) {
        if self.offered_tools().completes(&call.name) && outcome.status == Status::Ok {
            self.state.completed = true;
        }
        self.add_to_ledger(&call, &outcome);
        self.remember_undo_step(&call, &outcome);
        let turn = self.state.turn;
        let changes = &mut self.state.changes;
        if call.name == UNDO_TOOL && self.state.direct {
            if outcome.status == Status::Ok && call.text_argument("call").is_none() {
                changes.pop();
            }
        } else if !outcome.changes.is_empty() {
            match changes.last_mut() {
                Some(last) if last.turn == turn => last.files.append(&mut outcome.changes),
                Some(_) | None => {
                    changes.push(TurnChanges { turn, files: std::mem::take(&mut outcome.changes) })
                }
            }
            if changes.len() > UNDO_TURNS_MAX {
                changes.remove(0);
            }
        }
        if self.state.direct || call.name == JOBS_TOOL {
            return; // reading a job's output again is not a loop: the job may have continued
        }
        match &mut self.state.repeated {
            Some(last) if last.is(&call, &outcome) => last.times += 1,
            other => *other = Some(RepeatedCall::new(call, outcome)),
        }
    }
}

fn add_missing(rules: &mut Vec<String>, more: &[String]) {
    for rule in more {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
}

/// Builds the tool result for the model. `again` is true if the previous call was the same. `failures` is the number of
/// consecutive calls, including this one, that failed with the same output.
fn result_of(
    call: &ToolCall,
    edited: Option<String>,
    outcome: &Outcome,
    end: CallEnd,
    again: bool,
    failures: u32,
) -> ToolResult {
    let mut output = match edited {
        Some(command) => {
            format!("[the user changed the command before it ran, to: {command}]\n{}", outcome.output)
        }
        None => outcome.output.clone(),
    };
    if again {
        output.push_str(if outcome.status == Status::Ok { AGAIN } else { FAILED_AGAIN });
    } else if failures >= SAME_FAILURES_HINT {
        output.push_str(FAILED_ALIKE);
    }
    if let Some(usage) = hints::usage(call, outcome) {
        output = format!("{}\n{usage}", output.trim_end());
    }
    let is_error = match outcome.status {
        Status::Ok => false,
        Status::Failed => outcome.exit_code.is_none(),
        Status::Timeout | Status::Cancelled | Status::Interrupted | Status::Unknown | Status::Rejected => {
            true
        }
    };
    ToolResult {
        call: call.id.clone(),
        wire_id: call.wire_id.clone(),
        name: call.name.clone(),
        output,
        is_error,
        end,
        images: outcome.images.clone(),
    }
}
