//! One live session: works off its inputs in batches, each in the same order: handle, append, publish, perform.
//!
//! The order is the point. The core decides what an input means and returns events and effects. The events are appended
//! to the log first, because nothing may be seen that a crash could take back. They are published next, and only then are
//! the effects performed, so that every call that runs has a durable start. A session with nothing to do is an entry in
//! the driver's map; a task exists only while inputs wait.
//!
//! One task at a time holds the `Worker`, the mutable half of a session. It is parked in the inbox while there is no input, and
//! whoever adds the first input takes it out and spawns the task. Results of effects come back as inputs, too.
//!
//! Invariants:
//! - An event is durable before anybody sees it, and seen before anything is done about it. The one exception is behind
//!   [`EarlyCall`]: a model may be asked early, because asking changes nothing.
//! - What cannot be made durable is not done: the session closes with the store's own sentence.
//! - Nothing runs once the lease is not valid any more. What users said here by then is forwarded to the next owner.
//!
//! A lock around the whole session was tried and rejected: a slow store would have blocked every front end that only wants
//! to add an input.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use sysop_core::event::{Delta, Effect, Event, Input, Logged, ToolLocation};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{CommandContext, Fence, Survey};
use sysop_core::question::QuestionId;
use sysop_core::session::{Activity, Session};
use sysop_core::tool::ClientTools;
use tokio_util::task::TaskTracker;

use crate::cluster::QueuePosition;
use crate::hub::{Hub, Updates};
use crate::lease::SessionLease;
use crate::port::{CancellationToken, DeltaSink, Host, ModelEvent, StoreError};
use crate::prompter::{PromptReply, Terminal};
use crate::questions::{self, Questions, SessionPrompter};
use crate::queue_limits::{QUEUE_IS_FULL, check_queue_room, is_user_input};
use crate::speculate::EarlyCall;
use crate::stream_batch::StreamBatch;
use crate::{DriverError, Ports, Runtime};

/// How long a session with a shell in its terminal is kept, at least, when nobody watches it.
const SHELL_IDLE_MIN: Duration = Duration::from_secs(60 * 60);

/// Model events that are ready at once and are published together.
const READY_EVENTS_MAX: usize = 256;

/// How long a host may take to tell the circumstances of a call.
const SURVEY_TIME_MAX: Duration = Duration::from_secs(10);

/// One live session.
pub(crate) struct LiveSession {
    id: SessionId,
    ports: Ports,
    runtime: Runtime,
    lease: Arc<dyn SessionLease>,
    pub(crate) hub: Hub,
    pub(crate) questions: Questions,
    inbox: Mutex<Inbox>,
    /// Ends whatever runs for the session.
    end: CancellationToken,
    /// Tasks that work off inputs; a node that leaves waits for them.
    workers: TaskTracker,
    /// Runs those tasks, whichever thread an input comes from.
    executor: tokio::runtime::Handle,
}

/// Inputs that wait, each with its place in the session's queue if another node forwarded it.
type Inputs = VecDeque<(Input, Option<QueuePosition>)>;

struct Inbox {
    inputs: Inputs,
    /// Inputs of users that are being worked off, until they are durable.
    unflushed_inputs: Vec<Input>,
    /// Prompts that waited for the end of the turn when the log was last written.
    queued: usize,
    /// Here while no task works on the inputs.
    parked: Option<Worker>,
    /// The last durable event.
    seq: Seq,
    /// When the session last had something to do.
    active: Timestamp,
    /// Why the session ended for good.
    closed: Option<CloseReason>,
}

/// How a session ended for good.
#[derive(Debug, Clone)]
pub(crate) struct CloseReason {
    pub(crate) why: String,
    /// It goes on in other hands.
    pub(crate) elsewhere: bool,
}

/// The part of a session that one task at a time works with.
struct Worker {
    session: Session,
    seq: Seq,
    /// Events that are decided but not durable.
    pending: Vec<Event>,
    /// Queued inputs that were handled, to be marked as consumed with the next append.
    consumed: Vec<QueuePosition>,
    model: Option<(StepId, CancellationToken)>,
    tools: HashMap<CallId, CancellationToken>,
}

/// Where a session starts to live.
pub(crate) struct SessionStart {
    pub(crate) session: Session,
    /// The last durable event.
    pub(crate) seq: Seq,
    /// Events that are not durable yet.
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
        let worker =
            Worker { session, seq, pending, consumed: Vec::new(), model: None, tools: HashMap::new() };
        let inbox = Inbox {
            inputs: VecDeque::new(),
            unflushed_inputs: Vec::new(),
            queued: worker.session.queued(),
            parked: Some(worker),
            seq,
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

    /// Passes an answer on to who asked, and logs as much of it as may be known.
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
        self.inbox().closed.as_ref().map(|closed| closed.why.clone())
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.inbox().closed.clone()
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.inbox().seq
    }

    pub(crate) fn subscribe(&self, after: Seq) -> Updates {
        let last = self.inbox().seq;
        self.hub.subscribe(Arc::clone(&self.ports.store), self.id.clone(), after, last)
    }

    /// Makes what is pending durable.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<(), DriverError> {
        let Some(mut worker) = self.inbox().parked.take() else { return Ok(()) };
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
        let inbox = self.inbox();
        if inbox.closed.is_none() {
            let waiting = inbox.inputs.iter().map(|(input, _)| input);
            check_queue_room(&input, waiting, &inbox.unflushed_inputs, inbox.queued)?;
        }
        self.enqueue_all(inbox, [(input, None)])
    }

    /// Adds inputs that other nodes forwarded; they were bounded there.
    pub(crate) fn send_forwarded(
        self: &Arc<Self>,
        inputs: Vec<(Input, QueuePosition)>,
    ) -> Result<(), DriverError> {
        let inputs = inputs.into_iter().map(|(input, position)| (input, Some(position)));
        self.enqueue_all(self.inbox(), inputs)
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

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn park_or_spawn(self: &Arc<Self>, worker: Worker) {
        let mut inbox = self.inbox();
        if inbox.closed.is_some() {
            return;
        }
        if inbox.inputs.is_empty() {
            inbox.parked = Some(worker);
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

    /// Works until there is no input left, then parks the worker.
    async fn work(self: &Arc<Self>, mut worker: Worker) {
        while let Some((taken, inputs)) = self.take_inputs(worker) {
            worker = taken;
            let effects = self.handle_all(&mut worker, inputs);
            let end = self.end.child_token();
            let mut early = EarlyCall::start(&self.runtime.provider, &self.lease, end, &effects);
            if let Err(error) = self.append_and_publish(&mut worker).await {
                drop(worker); // cancels what runs
                return self.fail(&error);
            }
            {
                let mut inbox = self.inbox();
                inbox.unflushed_inputs.clear();
                inbox.queued = worker.session.queued();
            }
            if !self.lease.is_valid() {
                self.lose_lease();
            }
            if self.closed().is_some() {
                return; // the effects are no longer this node's to perform
            }
            for effect in effects {
                self.perform(&mut worker, effect, &mut early);
            }
        }
    }

    /// Takes the inputs that wait, or parks the worker. `None` if there are none or the session is closed.
    fn take_inputs(&self, worker: Worker) -> Option<(Worker, Inputs)> {
        let mut inbox = self.inbox();
        if inbox.closed.is_some() {
            return None;
        }
        if inbox.inputs.is_empty() {
            inbox.active = self.ports.clock.now();
            inbox.parked = Some(worker);
            return None;
        }
        let inputs = std::mem::take(&mut inbox.inputs);
        let from_users = inputs.iter().filter(|(input, position)| position.is_none() && is_user_input(input));
        inbox.unflushed_inputs = from_users.map(|(input, _)| input.clone()).collect();
        Some((worker, inputs))
    }

    /// Lets the session decide about each input; returns the effects.
    fn handle_all(&self, worker: &mut Worker, inputs: Inputs) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (input, position) in inputs {
            worker.consumed.extend(position);
            let prompt = matches!(&input, Input::Prompt { text } if !text.trim().is_empty());
            let before = worker.pending.len();
            worker.handle(input, &mut effects);
            if prompt && worker.pending.len() == before {
                // It was forwarded by a node that could not know how many prompts wait here.
                self.hub.delta(&Delta::Notice { text: QUEUE_IS_FULL.to_owned() });
            }
        }
        effects
    }

    /// Appends what is pending, then publishes it.
    async fn append_and_publish(&self, worker: &mut Worker) -> Result<(), DriverError> {
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
        worker.seq = self.lease.append(worker.seq, &logged, &worker.consumed, &on_stall).await?;
        worker.consumed.clear();
        self.inbox().seq = worker.seq;
        self.hub.publish(&logged);
        Ok(())
    }

    /// Forwards what users said here and did not become durable, if the session goes on elsewhere.
    fn forward_pending(&self) {
        let pending: Vec<_> = {
            let mut inbox = self.inbox();
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
        let elsewhere =
            matches!(error, DriverError::Store(StoreError::LeaseLost { .. } | StoreError::Conflict { .. }));
        self.close(CloseReason { why: error.to_string(), elsewhere });
    }

    /// This node has to let go of the session; another one may have it already.
    pub(crate) fn lose_lease(&self) {
        let why = format!("session {} moved to another node; reopen it", self.id);
        self.close(CloseReason { why, elsewhere: true });
    }

    /// Ends for good: nothing more is done or told, and what runs is stopped.
    pub(crate) fn end(&self, why: &str) {
        self.close(CloseReason { why: why.to_owned(), elsewhere: false });
    }

    fn close(&self, closed: CloseReason) {
        let parked = {
            let mut inbox = self.inbox();
            if inbox.closed.is_none() {
                if closed.elsewhere {
                    tracing::warn!(session = %self.id, why = closed.why, "session let go");
                } else {
                    tracing::error!(session = %self.id, why = closed.why, "session closed");
                }
                inbox.closed = Some(closed);
            }
            let parked = inbox.parked.take();
            if parked.is_some() || inbox.closed.as_ref().is_some_and(|closed| !closed.elsewhere) {
                inbox.inputs.clear();
                inbox.unflushed_inputs.clear();
            } // else the one who works on them hands them over
            parked
        };
        drop(parked);
        self.end.cancel();
        self.questions.clear();
        self.hub.close();
    }

    /// Returns true if nothing is lost when the session is dropped and later opened from its log. `subscribers` are those
    /// that do not count as users.
    pub(crate) fn is_idle(&self, now: Timestamp, idle: Duration, subscribers: usize) -> bool {
        let shell = self.host().terminal().is_some_and(|terminal| terminal.is_open());
        let idle = if shell { idle.max(SHELL_IDLE_MIN) } else { idle };
        let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let inbox = self.inbox();
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
                    tracing::debug!(session = %self.id, step = %asked, "model call cancelled");
                    cancel.cancel();
                }
            }
            Effect::Survey { call, place, shell, attempt } => {
                let on_client = match place {
                    ToolLocation::Host => None,
                    ToolLocation::Client => Some(survey_of_client(worker.session.client_tools())),
                };
                self.start_survey(call, on_client, shell, attempt);
            }
            Effect::RunTool { call, place, fence } => self.start_tool_call(worker, call, place, fence),
            Effect::CancelTool { call } => {
                if let Some(cancel) = worker.tools.get(&call) {
                    cancel.cancel();
                }
            }
            Effect::SetTimer { call, after } => {
                let live = Arc::clone(self);
                tokio::spawn(async move {
                    live.ports.clock.sleep(after).await;
                    live.deliver(Input::Timer { call });
                });
            }
        }
    }

    /// Passes an answer on; a session that ended for good has no use for it.
    pub(crate) fn deliver(self: &Arc<Self>, input: Input) {
        if let Err(error) = self.send(input) {
            tracing::debug!(session = %self.id, %error, "an answer came too late");
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
                () = cancel.cancelled() => return, // the session has gone on without it
                result = reading => result.unwrap_or_else(|_| Err(bug("asking the model"))),
            };
            live.deliver(Input::Reply { step, result });
        });
    }

    /// Publishes a model's events as they come, and returns what it ends with.
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
        Err(ModelFailure {
            kind: FailureKind::Protocol,
            message: "the model's response ended unexpectedly; try again".to_owned(),
        })
    }

    /// Asks the host about a call, unless what can be said of it is known.
    fn start_survey(self: &Arc<Self>, call: ToolCall, known: Option<Survey>, shell: Fence, attempt: u32) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let surveying = async {
                match known {
                    Some(survey) => survey,
                    None if shell == Fence::Off => live.host().survey(&call).await,
                    None => live.host().survey_fenced(&call, &shell).await,
                }
            };
            let survey = tokio::select! {
                biased;
                () = live.end.cancelled() => return,
                result = AssertUnwindSafe(surveying).catch_unwind() => result.ok(),
                () = live.survey_overdue() => None,
            };
            let survey = survey.unwrap_or_default(); // nothing is known, so that the call is opaque
            live.deliver(Input::Surveyed { call: call.id, attempt, survey: Box::new(survey) });
        });
    }

    /// Returns when a host has had its time for a survey; it does not pass while people are asked something, such as the
    /// passphrase of a key.
    async fn survey_overdue(&self) {
        loop {
            self.ports.clock.sleep(SURVEY_TIME_MAX).await;
            if !self.questions.has_open() {
                return;
            }
        }
    }

    fn start_tool_call(
        self: &Arc<Self>,
        worker: &mut Worker,
        call: ToolCall,
        place: ToolLocation,
        fence: Fence,
    ) {
        let sink = self.output_sink(&call.id);
        let cancel = self.end.child_token();
        worker.tools.insert(call.id.clone(), cancel.clone());
        let live = Arc::clone(self);
        tokio::spawn(async move {
            // Once more, as late as can be: this may have waited for its turn.
            if !live.lease.is_valid() {
                return live.lose_lease();
            }
            let id = call.id.clone();
            let running = async {
                match place {
                    ToolLocation::Host if fence == Fence::Off => live.host().run(call, sink, cancel).await,
                    ToolLocation::Host => live.host().run_fenced(call, fence, sink, cancel).await,
                    ToolLocation::Client => live.host().run_client_tool(call, sink, cancel).await,
                }
            };
            let outcome = AssertUnwindSafe(running).catch_unwind().await;
            let outcome =
                outcome.unwrap_or_else(|_| Outcome::new(Status::Unknown, bug("running the tool").message));
            live.deliver(Input::Outcome { call: id, outcome });
        });
    }

    /// Shows what a call puts out.
    fn output_sink(self: &Arc<Self>, call: &CallId) -> DeltaSink {
        let (live, id) = (Arc::clone(self), call.clone());
        DeltaSink::new(move |text| {
            live.hub.delta(&Delta::Output { call: id.clone(), text: text.to_owned() });
        })
    }
}

impl Worker {
    /// Whether nothing is under way, and all that happened is durable.
    fn is_quiet(&self) -> bool {
        let waits = matches!(self.session.activity(), Activity::Idle | Activity::AwaitingApproval);
        waits && self.pending.is_empty() && self.model.is_none() && self.tools.is_empty()
    }

    /// Lets the session decide; what it wants to be done joins `effects`.
    fn handle(&mut self, input: Input, effects: &mut Vec<Effect>) {
        self.forget(&input);
        let output = self.session.handle(input);
        self.pending.extend(output.events);
        effects.extend(output.effects);
    }

    /// Drops the means to cancel what has just ended.
    fn forget(&mut self, input: &Input) {
        if let Input::Outcome { call, .. } = input {
            self.tools.remove(call);
        }
        if let Input::Reply { step, .. } = input {
            self.model.take_if(|(asked, _)| asked == step);
        }
    }
}

/// The survey of a call that runs on a client, which judges it by a survey of its own.
fn survey_of_client(client_tools: &ClientTools) -> Survey {
    let root = Some(client_tools.root.clone()).filter(|root| root.starts_with('/'));
    Survey::elsewhere(CommandContext { folder: root.clone(), root, ..CommandContext::bash() })
}

/// A session that ends for good, by an error or a panic, leaves nothing running.
impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((_, cancel)) = self.model.take() {
            cancel.cancel();
        }
        for cancel in self.tools.values() {
            cancel.cancel();
        }
    }
}

fn bug(doing: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Protocol,
        message: format!("internal error while {doing}; the session is intact, try again"),
    }
}
