//! A live session: processes its inputs in batches. The steps of a batch are always the same: handle, append,
//! publish, perform.
//!
//! This order is essential. The core decides the meaning of an input and returns events and effects. The
//! events are appended to the log first, because nothing may become visible that a crash could undo. They are
//! published next, and only then are the effects performed, so that every call that runs has a durable start.
//! An idle session is an entry in the driver's map; a task exists only while inputs are queued.
//!
//! One task at a time holds the `Worker`, the mutable half of a session. The worker is parked in the inbox while the
//! inbox is empty; the sender of the first input takes it out and spawns the task. Results of effects come back as
//! inputs, too.
//!
//! Invariants:
//! - An event is durable before anyone sees it, and published before its effects are performed. The one exception is
//!   behind [`EarlyCall`]: a model may be called early, because a model call has no side effects.
//! - Nothing is done that cannot be made durable: if an append fails, the session closes with the store's error
//!   message. The exception is a session that another process continued while it was idle here: `live/reload.rs`.
//! - Nothing runs once the lease is invalid. Inputs that users gave here by then are forwarded to the next owner.
//!
//! A lock around the whole session was tried and rejected: a slow store would have blocked every front end that only
//! wants to add an input.

mod calls;
mod jobs;
mod previews;
mod reload;
mod review;
mod summary;
mod time;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use sysop_core::event::{Delta, Effect, Event, Input, Logged, ToolLocation};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp};
use sysop_core::instructions::FoundInstructions;
use sysop_core::job::RunningJobs;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply};
use sysop_core::question::QuestionId;
use sysop_core::session::{Activity, Session};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::call_output::CallOutput;
use crate::cluster::QueuePosition;
use crate::hub::{Hub, Updates};
use crate::lease::SessionLease;
use crate::port::{CancellationToken, Host, ModelEvent, StoreError};
use crate::prompter::{PromptReply, Terminal};
use crate::questions::{self, Questions, SessionPrompter};
use crate::queue_limits::{QUEUE_IS_FULL, check_queue_room, is_user_input};
use crate::speculate::EarlyCall;
use crate::stream_batch::StreamBatch;
use crate::{DriverError, Ports, Runtime};

/// Minimum idle time before a session with a shell in its terminal is evicted.
const SHELL_IDLE_MIN: Duration = Duration::from_secs(60 * 60);

/// Maximum number of model events merged into one batch if they are ready at the same time.
const READY_EVENTS_MAX: usize = 256;

/// Notice shown if a user takes back a prompt whose turn has begun, or that another user sent.
const NOT_QUEUED: &str = "that message is no longer queued";

/// Notice shown if a user requests a compaction that would not make the prompt smaller.
const NOTHING_TO_COMPACT: &str = "nothing to compact: the context is short already";

const SURVEY_TIME_MAX: Duration = Duration::from_secs(10);

pub(crate) struct LiveSession {
    id: SessionId,
    ports: Ports,
    runtime: Runtime,
    lease: Arc<dyn SessionLease>,
    pub(crate) hub: Hub,
    pub(crate) questions: Questions,
    inbox: Mutex<Inbox>,
    /// Cancels everything that runs for the session.
    end: CancellationToken,
    /// Tasks that process inputs; a leaving node waits for them.
    workers: TaskTracker,
    /// Tokio runtime of the `workers`, so that inputs can also be sent from other threads.
    executor: tokio::runtime::Handle,
    /// Notified when the inbox has become empty, and when the session has ended.
    settled: Notify,
}

/// Queued inputs, each with its position in the cluster's queue if another node forwarded it.
type Inputs = VecDeque<(Input, Option<QueuePosition>)>;

struct Inbox {
    inputs: Inputs,
    /// User inputs that are being processed and are not durable yet.
    unflushed_inputs: Vec<Input>,
    /// Number of prompts queued behind the turn as of the last append.
    queued: usize,
    /// Background jobs as of the last append.
    jobs: RunningJobs,
    /// Present while no task processes inputs.
    parked: Option<Worker>,
    /// Position of the last durable event.
    seq: Seq,
    /// Positions of the events by another process that the last reload brought; empty if there are none.
    reloaded: Range<Seq>,
    /// Time when the inbox last became empty, or when the session was opened in this process.
    active: Timestamp,
    /// Reason for the end, once the session has ended for good in this process.
    closed: Option<CloseReason>,
}

/// Reason why a session ended for good in this process.
#[derive(Debug, Clone)]
pub(crate) struct CloseReason {
    pub(crate) why: String,
    /// True if another node continues the session.
    pub(crate) elsewhere: bool,
}

/// The mutable part of a session, held by one task at a time.
struct Worker {
    session: Session,
    seq: Seq,
    /// Events that the core decided and that are not durable yet.
    pending: Vec<Event>,
    /// Positions of forwarded inputs that were handled. They are marked as consumed with the next append.
    consumed: Vec<QueuePosition>,
    model: Option<(StepId, CancellationToken)>,
    /// Attempt number and cancellation token of the pending request for a summary, if any.
    summary: Option<(u32, CancellationToken)>,
    /// Attempt number and cancellation token of the running probe of a preview, if any.
    preview: Option<(u32, CancellationToken)>,
    /// Running calls, including those in the background.
    tools: HashMap<CallId, RunningCall>,
    /// Time up to which the current turn's active time has been reported to the provider.
    time_counted: Option<Timestamp>,
}

struct RunningCall {
    cancel: CancellationToken,
    output: Arc<CallOutput>,
}

pub(crate) struct SessionStart {
    pub(crate) session: Session,
    /// Position of the last durable event.
    pub(crate) seq: Seq,
    pub(crate) pending: Vec<Event>,
}

impl LiveSession {
    pub(crate) fn new(
        id: SessionId,
        ports: Ports,
        workers: TaskTracker,
        lease: Arc<dyn SessionLease>,
        runtime: Runtime,
        at: SessionStart,
    ) -> Arc<Self> {
        let SessionStart { session, seq, pending } = at;
        let worker = Worker {
            session,
            seq,
            pending,
            consumed: Vec::new(),
            model: None,
            summary: None,
            preview: None,
            tools: HashMap::new(),
            time_counted: None,
        };
        let inbox = Inbox {
            inputs: VecDeque::new(),
            unflushed_inputs: Vec::new(),
            queued: worker.session.queued(),
            jobs: worker.session.jobs().clone(),
            parked: Some(worker),
            seq,
            reloaded: Seq(0)..Seq(0),
            active: ports.clock.now(),
            closed: None,
        };
        let live = Arc::new(Self {
            id,
            ports,
            runtime,
            lease,
            hub: Hub::default(),
            questions: Questions::default(),
            inbox: Mutex::new(inbox),
            end: CancellationToken::new(),
            workers,
            executor: tokio::runtime::Handle::current(),
            settled: Notify::new(),
        });
        live.host().set_prompter(Arc::new(SessionPrompter(Arc::downgrade(&live))));
        live
    }

    fn host(&self) -> &Arc<dyn Host> {
        &self.runtime.host
    }

    pub(crate) fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.host().terminal()
    }

    /// Passes an answer to the program that asked, and logs the part of the answer that is not secret. Returns false if
    /// the question is not open.
    pub(crate) fn answer_question(self: &Arc<Self>, id: QuestionId, answer: PromptReply) -> bool {
        let Some((question, sender)) = self.questions.take(id) else { return false };
        let logged = questions::loggable_input(&question, &answer);
        let by = logged.as_ref().map(|(by, _)| by.clone());
        if sender.send(answer).is_ok()
            && let Some((by, typed)) = logged
        {
            self.deliver(Input::TerminalInput { by, typed });
        }
        self.hub.close_question(id, by);
        true
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.inbox.lock().closed.as_ref().map(|closed| closed.why.clone())
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.inbox.lock().closed.clone()
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.inbox.lock().seq
    }

    /// Waits until no input is queued or being handled, or the session has ended.
    pub(crate) async fn settle(&self) {
        let is_settled = || {
            let inbox = self.inbox.lock();
            inbox.closed.is_some() || (inbox.parked.is_some() && inbox.inputs.is_empty())
        };
        loop {
            let mut changed = pin!(self.settled.notified());
            changed.as_mut().enable();
            if is_settled() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn subscribe(&self, after: Seq) -> Updates {
        let last = self.inbox.lock().seq;
        self.hub.subscribe(Arc::clone(&self.ports.store), self.id.clone(), after, last)
    }

    /// Makes pending events durable and publishes them.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<(), DriverError> {
        let Some(mut worker) = self.inbox.lock().parked.take() else { return Ok(()) };
        let result = self.append_and_publish(&mut worker).await;
        match result {
            Ok(()) => {
                self.park_or_spawn(worker);
                Ok(())
            }
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    pub(crate) fn send(self: &Arc<Self>, input: Input) -> Result<(), DriverError> {
        let inbox = self.inbox.lock();
        if inbox.closed.is_none() {
            let waiting = inbox.inputs.iter().map(|(input, _)| input);
            check_queue_room(&input, waiting, &inbox.unflushed_inputs, inbox.queued)?;
        }
        self.enqueue_all(inbox, [(input, None)])
    }

    /// Adds inputs forwarded by other nodes, which already enforced the limits.
    pub(crate) fn send_forwarded(
        self: &Arc<Self>,
        inputs: Vec<(Input, QueuePosition)>,
    ) -> Result<(), DriverError> {
        let inputs = inputs.into_iter().map(|(input, position)| (input, Some(position)));
        self.enqueue_all(self.inbox.lock(), inputs)
    }

    fn enqueue_all(
        self: &Arc<Self>,
        mut inbox: MutexGuard<'_, Inbox>,
        inputs: impl IntoIterator<Item = (Input, Option<QueuePosition>)>,
    ) -> Result<(), DriverError> {
        let worker = {
            if let Some(closed) = &inbox.closed {
                return Err(DriverError::Closed(closed.why.clone()));
            }
            inbox.inputs.extend(inputs);
            if inbox.inputs.is_empty() { None } else { inbox.parked.take() }
        };
        drop(inbox);
        if let Some(worker) = worker {
            self.spawn(worker);
        }
        Ok(())
    }

    fn park_or_spawn(self: &Arc<Self>, worker: Worker) {
        let mut inbox = self.inbox.lock();
        if inbox.closed.is_some() {
            return;
        }
        if inbox.inputs.is_empty() {
            inbox.parked = Some(worker);
            self.settled.notify_waiters();
        } else {
            drop(inbox);
            self.spawn(worker);
        }
    }

    fn spawn(self: &Arc<Self>, worker: Worker) {
        let live = Arc::clone(self);
        let work = async move {
            let worked = AssertUnwindSafe(live.work(worker)).catch_unwind().await;
            if worked.is_err() {
                let why = "internal error: the session was closed, and its log is intact";
                live.close(CloseReason { why: why.to_owned(), elsewhere: false });
            }
            live.forward_pending();
        };
        self.workers.spawn_on(work, &self.executor);
    }

    /// Processes inputs until none are left, then parks the worker.
    async fn work(self: &Arc<Self>, mut worker: Worker) {
        while let Some((taken, inputs)) = self.take_inputs(worker) {
            worker = taken;
            let (effects, mut early) = match self.handle_and_append(&mut worker, inputs).await {
                Ok(handled) => handled,
                Err(error) => {
                    drop(worker); // cancels its running calls
                    return self.fail(&error);
                }
            };
            {
                let mut inbox = self.inbox.lock();
                inbox.unflushed_inputs.clear();
                inbox.queued = worker.session.queued();
                if inbox.jobs != *worker.session.jobs() {
                    inbox.jobs = worker.session.jobs().clone();
                }
            }
            if !self.lease.is_valid() {
                self.lose_lease();
            }
            if self.closed().is_some() {
                return; // the effects now belong to another node
            }
            for effect in effects {
                self.perform(&mut worker, effect, &mut early);
            }
        }
    }

    /// Takes the queued inputs, or parks the worker if there are none. Returns `None` then, or if closed.
    fn take_inputs(&self, worker: Worker) -> Option<(Worker, Inputs)> {
        let mut inbox = self.inbox.lock();
        if inbox.closed.is_some() {
            return None;
        }
        if inbox.inputs.is_empty() {
            inbox.active = self.ports.clock.now();
            inbox.parked = Some(worker);
            self.settled.notify_waiters();
            return None;
        }
        let inputs = std::mem::take(&mut inbox.inputs);
        let from_users = inputs.iter().filter(|(input, position)| position.is_none() && is_user_input(input));
        inbox.unflushed_inputs = from_users.map(|(input, _)| input.clone()).collect();
        Some((worker, inputs))
    }

    /// Passes each input to the core. Returns the effects.
    fn handle_all(&self, worker: &mut Worker, inputs: Inputs) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (input, position) in inputs {
            worker.consumed.extend(position);
            let unheeded = unheeded_notice(&input, worker.session.activity());
            let before = (worker.pending.len(), effects.len());
            worker.handle(input, self.ports.clock.now(), &mut effects);
            if let Some(text) = unheeded.filter(|_| (worker.pending.len(), effects.len()) == before) {
                self.hub.delta(&Delta::Notice { text: text.to_owned() });
            }
        }
        effects
    }

    /// Appends pending events, then publishes them.
    async fn append_and_publish(self: &Arc<Self>, worker: &mut Worker) -> Result<(), DriverError> {
        if worker.pending.is_empty() && worker.consumed.is_empty() {
            return Ok(());
        }
        let at = self.ports.clock.now();
        let mut seq = worker.seq;
        let logged: Vec<_> = std::mem::take(&mut worker.pending)
            .into_iter()
            .map(|event| {
                seq = seq.next();
                Arc::new(Logged { seq, at, event })
            })
            .collect();
        let on_stall = |why: &str| {
            self.hub.delta(&Delta::Notice { text: format!("the session is blocked: {why}") });
        };
        let has_work = worker.session.has_work();
        if has_work {
            self.lease.claim().await?;
        }
        worker.seq = self.lease.append(worker.seq, &logged, &worker.consumed, &on_stall).await?;
        if !has_work {
            self.lease.end_claim();
        }
        worker.consumed.clear();
        self.count_time(worker, at);
        self.inbox.lock().seq = worker.seq;
        self.hub.publish(&logged);
        if let Some(hooks) = &self.runtime.hooks {
            hooks.report(&self.id, &logged);
            self.start_approval_hooks(hooks, &logged);
        }
        Ok(())
    }

    /// Forwards user inputs that did not become durable here, if the session continues on another node.
    fn forward_pending(&self) {
        let pending: Vec<_> = {
            let mut inbox = self.inbox.lock();
            if inbox.closed.is_none() {
                return;
            }
            let unflushed = std::mem::take(&mut inbox.unflushed_inputs);
            let waiting = std::mem::take(&mut inbox.inputs).into_iter();
            let waiting = waiting.filter(|(input, position)| position.is_none() && is_user_input(input));
            unflushed.into_iter().chain(waiting.map(|(input, _)| input)).collect()
        };
        if !pending.is_empty() {
            self.lease.forward(pending);
        }
    }

    fn fail(&self, error: &DriverError) {
        let elsewhere = matches!(
            error,
            DriverError::Store(
                StoreError::LeaseLost { .. } | StoreError::Conflict { .. } | StoreError::InUse { .. }
            )
        );
        self.close(CloseReason { why: error.to_string(), elsewhere });
    }

    /// Closes the session because this node's lease ended; another node may own it already.
    pub(crate) fn lose_lease(&self) {
        let why = format!("session {} moved to another node; reopen it", self.id);
        self.close(CloseReason { why, elsewhere: true });
    }

    /// Ends the session for good. Running calls are canceled, and no more effects are performed or updates published.
    pub(crate) fn end(&self, why: &str) {
        self.close(CloseReason { why: why.to_owned(), elsewhere: false });
    }

    fn close(&self, closed: CloseReason) {
        let parked = {
            let mut inbox = self.inbox.lock();
            if inbox.closed.is_none() {
                if closed.elsewhere {
                    tracing::warn!(session = %self.id, why = closed.why, "session released");
                } else {
                    tracing::error!(session = %self.id, why = closed.why, "session closed");
                }
                inbox.closed = Some(closed);
            }
            let parked = inbox.parked.take();
            if parked.is_some() || inbox.closed.as_ref().is_some_and(|closed| !closed.elsewhere) {
                inbox.inputs.clear();
                inbox.unflushed_inputs.clear();
            } // otherwise the task that holds the worker forwards them
            parked
        };
        drop(parked);
        self.settled.notify_waiters();
        self.lease.end_claim();
        self.end.cancel();
        self.questions.clear();
        self.hub.close();
    }

    /// Returns true if the session can be dropped and later opened from its log without loss. `subscribers` is the
    /// number of subscriptions that do not belong to users.
    pub(crate) fn is_idle(&self, now: Timestamp, idle: Duration, subscribers: usize) -> bool {
        let shell = self.host().terminal().is_some_and(|terminal| terminal.is_open());
        let idle = if shell { idle.max(SHELL_IDLE_MIN) } else { idle };
        let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let inbox = self.inbox.lock();
        let quiet = inbox.parked.as_ref().is_some_and(Worker::is_quiet);
        let since = now.0.saturating_sub(inbox.active.0);
        (inbox.closed.is_some() || (quiet && since >= idle)) && self.hub.subscriber_count() <= subscribers
    }

    fn perform(self: &Arc<Self>, worker: &mut Worker, effect: Effect, early: &mut Option<EarlyCall>) {
        match effect {
            Effect::CallModel { step, request } => {
                let early = early.take_if(|early| early.step() == step);
                self.start_model_call(worker, step, request, early);
            }
            Effect::CancelModel { step } => {
                if let Some((asked, cancel)) = worker.model.take_if(|(asked, _)| *asked == step) {
                    tracing::debug!(session = %self.id, step = %asked, "model call canceled");
                    cancel.cancel();
                }
            }
            Effect::Summarize { attempt, request } => self.start_summary(worker, attempt, *request),
            Effect::CancelSummary { attempt } => {
                if let Some((_, cancel)) = worker.summary.take_if(|(asked, _)| *asked == attempt) {
                    cancel.cancel();
                }
            }
            Effect::Preview { attempt, plan } => self.start_preview(worker, attempt, plan),
            Effect::CancelPreview { attempt } => worker.cancel_preview(attempt),
            Effect::ReadInstructions { attempt } => self.start_reading_instructions(attempt),
            Effect::Survey { call, place, shell, attempt } => {
                let on_client = match place {
                    ToolLocation::Host => None,
                    ToolLocation::Client => Some(review::survey_of_client(worker.session.client_tools())),
                };
                self.start_survey(call, on_client, shell, attempt);
            }
            Effect::AskHooks { question, attempt } => self.start_hooks(*question, attempt),
            Effect::AskPromptHooks { turn, prompt } => self.start_prompt_hooks(turn, prompt),
            Effect::SetApprovalTimer { call, after } => self.start_approval_timer(call, after),
            Effect::RunTool { call, place, fence, guard } => {
                self.start_tool_call(worker, call, place, (fence, guard));
            }
            Effect::CancelTool { call } => {
                if let Some(running) = worker.tools.get(&call) {
                    running.cancel.cancel();
                }
            }
            Effect::SetBackgroundTimer { call, after } => self.start_background_timer(worker, call, after),
            Effect::Background { call } => {
                self.host().lift_time_limit(&call);
                if let Some(running) = worker.tools.get(&call) {
                    running.output.hide();
                }
            }
            Effect::ReadJob { call, job, wait } => self.start_reading_job(worker, call, &job, wait),
            Effect::Notify { text } => self.hub.delta(&Delta::Notice { text }),
            Effect::SetTurnTimer { turn, after } => self.start_timer(Input::TurnTimer { turn }, after),
            Effect::SetTimer { call, after } => self.start_timer(Input::Timer { call }, after),
        }
    }

    /// Adds the result of an effect as an input. The input is dropped if the session has ended for good.
    pub(crate) fn deliver(self: &Arc<Self>, input: Input) {
        if let Err(error) = self.send(input) {
            tracing::debug!(session = %self.id, %error, "a response arrived too late");
        }
    }

    fn start_model_call(
        self: &Arc<Self>,
        worker: &mut Worker,
        step: StepId,
        request: ModelRequest,
        early: Option<EarlyCall>,
    ) {
        let cancel = self.end.child_token();
        worker.model = Some((step, cancel.clone()));
        let live = Arc::clone(self);
        tokio::spawn(async move {
            if !live.lease.is_valid() {
                return live.lose_lease();
            }
            let reading = async {
                let events = match early {
                    Some(early) => early.into_stream(),
                    None => live.runtime.provider.stream(request),
                };
                live.read_reply(step, events).await
            };
            let reading = AssertUnwindSafe(reading).catch_unwind();
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => return, // the session has continued without this reply
                result = reading => result.unwrap_or_else(|_| Err(bug("asking the model"))),
            };
            live.deliver(Input::Reply { step, result });
        });
    }

    /// Publishes the events of a model call as they arrive. Returns the result of the call.
    async fn read_reply(
        &self,
        step: StepId,
        events: BoxStream<'static, ModelEvent>,
    ) -> Result<Reply, ModelFailure> {
        let mut batches = events.ready_chunks(READY_EVENTS_MAX).map(|events| StreamBatch::of(step, events));
        while let Some(StreamBatch { deltas, result }) = batches.next().await {
            deltas.iter().for_each(|delta| self.hub.delta(delta));
            if let Some(result) = result {
                return result;
            }
        }
        Err(unexpected_end())
    }

    fn start_reading_instructions(self: &Arc<Self>, attempt: u32) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let reading = async {
                match &live.runtime.instructions {
                    Some(reader) => reader.read().await,
                    None => FoundInstructions { complete: true, ..FoundInstructions::default() },
                }
            };
            let read = tokio::select! {
                biased;
                () = live.end.cancelled() => return,
                result = AssertUnwindSafe(reading).catch_unwind() => result.ok(),
                () = live.survey_overdue() => None,
            };
            live.deliver(Input::InstructionsRead { attempt, instructions: read.unwrap_or_default() });
        });
    }

    /// Waits until a survey has timed out. If a question is open at that time, such as for a passphrase, the timeout
    /// starts over.
    async fn survey_overdue(&self) {
        loop {
            self.ports.clock.sleep(SURVEY_TIME_MAX).await;
            if !self.questions.has_open() {
                return;
            }
        }
    }
}

impl Worker {
    /// Returns true if nothing is in progress and every event is durable.
    fn is_quiet(&self) -> bool {
        let waits = match self.session.activity() {
            Activity::Idle => true,
            Activity::AwaitingApproval => !self.session.has_expiring_approval(),
            Activity::Thinking | Activity::Running | Activity::Paused => false,
        };
        waits
            && self.pending.is_empty()
            && self.model.is_none()
            && self.summary.is_none()
            && self.preview.is_none()
            && self.tools.is_empty()
    }

    /// Returns the entry of a call that is running or about to run; creates the entry if necessary. `end` cancels the
    /// call when the session ends.
    fn running(&mut self, call: &CallId, end: &CancellationToken) -> &RunningCall {
        self.tools
            .entry(call.clone())
            .or_insert_with(|| RunningCall { cancel: end.child_token(), output: Arc::default() })
    }

    /// Passes an input to the core, and collects the events and effects that it returns.
    fn handle(&mut self, input: Input, now: Timestamp, effects: &mut Vec<Effect>) {
        self.forget(&input);
        let output = self.session.handle_at(now, input);
        self.pending.extend(output.events);
        effects.extend(output.effects);
    }

    /// If `input` is the result of a tool call, model call, probe or summary, drops the entry of that work.
    fn forget(&mut self, input: &Input) {
        if let Input::Outcome { call, .. } | Input::JobRead { call, .. } = input
            && let Some(ended) = self.tools.remove(call)
        {
            ended.output.ended.cancel();
        }
        if let Input::Reply { step, .. } = input {
            self.model.take_if(|(asked, _)| asked == step);
        }
        if let Input::Previewed { attempt, .. } = input {
            self.preview.take_if(|(asked, _)| asked == attempt);
        }
        if let Input::Summarized { attempt, .. } = input {
            self.summary.take_if(|(asked, _)| asked == attempt);
        }
    }
}

/// Cancels running calls when a session ends by an error or a panic.
impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((_, cancel)) = self.model.take() {
            cancel.cancel();
        }
        for (_, cancel) in self.summary.take().into_iter().chain(self.preview.take()) {
            cancel.cancel();
        }
        for running in self.tools.values() {
            running.cancel.cancel();
        }
    }
}

/// Returns the notice to show if the core ignores a user's input.
fn unheeded_notice(input: &Input, activity: Activity) -> Option<&'static str> {
    // The prompt was forwarded by a node that could not see the length of this queue.
    let prompt =
        matches!(input, Input::Prompt { text, images, .. } if !text.trim().is_empty() || !images.is_empty());
    let compact = matches!(input, Input::Compact { .. }) && activity == Activity::Idle;
    let notices = [
        (prompt, QUEUE_IS_FULL),
        (compact, NOTHING_TO_COMPACT),
        (matches!(input, Input::WithdrawPrompt { .. }), NOT_QUEUED),
        (matches!(input, Input::StopJob { .. }), jobs::NO_SUCH_JOB),
        (matches!(input, Input::Background), jobs::NO_COMMAND),
    ];
    notices.into_iter().find_map(|(fits, text)| fits.then_some(text))
}

fn unexpected_end() -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Protocol,
        message: "the model's response ended unexpectedly; try again".to_owned(),
    }
}

fn bug(doing: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Protocol,
        message: format!("internal error while {doing}; the session is intact, try again"),
    }
}
