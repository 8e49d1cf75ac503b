//! One live session: works off its inputs, one batch at a time: handle, append, publish, perform.
//!
//! Where several nodes share the store, it works under a lease: a node that does not hold it any more appends nothing,
//! does nothing, and stops what runs. Inputs that were posted on other nodes come out of the session's letters.
//!
//! What does nothing that could be done twice need not wait for its append: see [`ahead`].

mod speculate;

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use sysop_core::event::{Delta, Effect, Event, Input, Logged, ToolLocation};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp};
use sysop_core::message::{FailureKind, ModelFailure, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::question::QuestionId;
use sysop_core::session::{Activity, Session};
use tokio::sync::oneshot;

use self::speculate::{EarlyModelCall, ModelCallChannels};
use crate::cluster::{ClusterContext, Lease, QUEUE_BATCH_MAX, QueuePosition};
use crate::cluster_session::{ClusterSession, FAILURE_PAUSE, forwarded_input, is_forwardable};
use crate::follow::RelayState;
use crate::hub::{Hub, Updates};
use crate::port::{CancellationToken, Clock, DeltaSink, Host, StoreError};
use crate::prompter::{PromptReply, Terminal};
use crate::questions::{self, Questions, SessionPrompter};
use crate::queue_limits::{QUEUE_IS_FULL, check_queue_room};
use crate::{DriverError, Ports, Runtime};

/// How long a session with a shell in its terminal is kept, at least, when nobody watches it.
const SHELL_IDLE_MIN: Duration = Duration::from_secs(60 * 60);

/// How long an append may take before people are told why it waits.
const SLOW_APPEND: Duration = Duration::from_secs(3);

/// One live session.
pub(crate) struct LiveSession {
    id: SessionId,
    ports: Ports,
    /// The other nodes, where there are any.
    nodes: Option<ClusterContext>,
    lease: Arc<dyn Lease>,
    runtime: Runtime,
    pub(crate) hub: Hub,
    pub(crate) questions: Questions,
    inbox: Mutex<Inbox>,
    /// Ends whatever runs for the session.
    end: CancellationToken,
    pub(crate) relay_state: RelayState,
    /// Who passes on what was said here and not done, where the session goes on elsewhere.
    successor: Mutex<Weak<ClusterSession>>,
    /// Where it works, whichever thread an input comes from.
    tasks: tokio::runtime::Handle,
}

struct Inbox {
    inputs: VecDeque<(Input, Option<QueuePosition>)>,
    /// What people said here and is being worked off, until it is durable.
    unflushed_inputs: Vec<Input>,
    /// How many prompts waited for the end of the turn when the log was last written.
    queued: usize,
    /// Here while no task works on the inputs.
    parked: Option<Worker>,
    /// The last durable event.
    seq: Seq,
    /// When it last had something to do.
    active: Timestamp,
    /// Why the session ended for good.
    closed: Option<CloseReason>,
    /// Letters that were taken out and whose end is not durable yet.
    in_flight_inputs: HashSet<QueuePosition>,
    /// Those of them that ended while letters are being read: what is read may be older.
    finished_inputs: Vec<QueuePosition>,
    queued_inputs: DrainState,
}

impl Inbox {
    fn forget_finished(&mut self) {
        for forwarded_input in self.finished_inputs.drain(..) {
            self.in_flight_inputs.remove(&forwarded_input);
        }
    }
}

/// How a session ended for good.
#[derive(Debug, Clone)]
pub(crate) struct CloseReason {
    pub(crate) why: String,
    /// It goes on in other hands.
    pub(crate) elsewhere: bool,
}

/// Whether somebody takes letters out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainState {
    Idle,
    Running,
    /// More came since that began.
    Rerun,
}

/// The part of a session that one task at a time works with.
struct Worker {
    session: Session,
    seq: Seq,
    /// Events that are decided but not durable.
    pending: Vec<Event>,
    /// What is told after so many of them.
    early_deltas: Option<(usize, Vec<Delta>)>,
    /// Letters that were handled, to be marked as taken with the next append.
    queued_inputs: Vec<QueuePosition>,
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
        nodes: Option<ClusterContext>,
        lease: Arc<dyn Lease>,
        runtime: Runtime,
        at: SessionStart,
    ) -> Arc<Self> {
        let SessionStart { session, seq, pending } = at;
        let worker = Worker {
            session,
            seq,
            pending,
            early_deltas: None,
            queued_inputs: Vec::new(),
            model: None,
            tools: HashMap::new(),
        };
        let inbox = Inbox {
            inputs: VecDeque::new(),
            unflushed_inputs: Vec::new(),
            queued: worker.session.queued(),
            parked: Some(worker),
            seq,
            active: ports.clock.now(),
            closed: None,
            in_flight_inputs: HashSet::new(),
            finished_inputs: Vec::new(),
            queued_inputs: DrainState::Idle,
        };
        let live = Arc::new(Self {
            id,
            ports,
            nodes,
            lease,
            runtime,
            hub: Hub::default(),
            questions: Questions::default(),
            inbox: Mutex::new(inbox),
            end: CancellationToken::new(),
            relay_state: RelayState::default(),
            successor: Mutex::default(),
            tasks: tokio::runtime::Handle::current(),
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

    pub(crate) fn lease(&self) -> &Arc<dyn Lease> {
        &self.lease
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    pub(crate) fn tasks(&self) -> &tokio::runtime::Handle {
        &self.tasks
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

    /// Takes out the letters that wait, in their order; one task at a time.
    pub(crate) fn drain_queue(self: &Arc<Self>) {
        {
            let mut inbox = self.inbox();
            if inbox.closed.is_some() {
                return;
            }
            if inbox.queued_inputs != DrainState::Idle {
                inbox.queued_inputs = DrainState::Rerun;
                return;
            }
            inbox.queued_inputs = DrainState::Running;
        }
        let live = Arc::clone(self);
        self.tasks.spawn(async move { while live.read_queue().await {} });
    }

    /// Takes out what waits; says whether there may be more.
    async fn read_queue(self: &Arc<Self>) -> bool {
        let queued_inputs = match self.lease.queued_inputs().await {
            Ok(queued_inputs) => queued_inputs,
            Err(error) => {
                // The word that the database is back leads here again.
                tracing::warn!(session = %self.id, %error, "letters stay where they are for now");
                let mut inbox = self.inbox();
                inbox.queued_inputs = DrainState::Idle;
                inbox.forget_finished();
                return false;
            }
        };
        let full = queued_inputs.len() >= QUEUE_BATCH_MAX;
        let new: Vec<_> = {
            let mut inbox = self.inbox();
            let new = queued_inputs
                .into_iter()
                .filter(|forwarded_input| inbox.in_flight_inputs.insert(forwarded_input.number))
                .map(|forwarded_input| (forwarded_input.input, Some(forwarded_input.number)))
                .collect();
            inbox.forget_finished();
            new
        };
        let more = full && !new.is_empty();
        if self.enqueue_all(self.inbox(), new).is_err() {
            return false;
        }
        let mut inbox = self.inbox();
        let again =
            std::mem::replace(&mut inbox.queued_inputs, DrainState::Idle) == DrainState::Rerun || more;
        if again {
            inbox.queued_inputs = DrainState::Running;
        }
        again
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
        self.run(async move {
            let worked = AssertUnwindSafe(live.work(worker)).catch_unwind().await;
            if worked.is_err() {
                let why = "sysop hit a bug in this session and closed it; what was logged is kept";
                live.close(CloseReason { why: why.to_owned(), elsewhere: false });
            }
            live.forward_pending();
        });
    }

    /// Runs what a node that leaves waits for.
    fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.nodes {
            Some(nodes) => nodes.background_tasks.spawn_on(work, &self.tasks),
            None => self.tasks.spawn(work),
        };
    }

    /// Works until there is no input left, then parks the worker.
    async fn work(self: &Arc<Self>, mut worker: Worker) {
        loop {
            let inputs = {
                let mut inbox = self.inbox();
                if inbox.closed.is_some() {
                    return;
                }
                if inbox.inputs.is_empty() {
                    inbox.active = self.ports.clock.now();
                    inbox.parked = Some(worker);
                    return;
                }
                let inputs = std::mem::take(&mut inbox.inputs);
                let unflushed_inputs = inputs
                    .iter()
                    .filter(|(input, forwarded_input)| forwarded_input.is_none() && is_forwardable(input));
                inbox.unflushed_inputs = unflushed_inputs.map(|(input, _)| input.clone()).collect();
                inputs
            };
            let mut effects = Vec::new();
            for (input, forwarded_input) in inputs {
                worker.queued_inputs.extend(forwarded_input);
                let prompt = matches!(&input, Input::Prompt { text } if !text.trim().is_empty());
                let before = worker.pending.len();
                worker.handle(input, &mut effects);
                if prompt && worker.pending.len() == before {
                    // It was posted elsewhere, where nobody could know.
                    self.hub.delta(&Delta::Notice { text: QUEUE_IS_FULL.to_owned() });
                }
            }
            let mut published = None;
            if let Some(EarlyModelCall { step, publish, early_batch }) =
                self.start_model_early(&mut worker, &mut effects)
            {
                match self.early_reply(early_batch).await {
                    Some((told, result)) => {
                        worker.early_deltas = Some((worker.pending.len(), told));
                        worker.handle(Input::Reply { step, result }, &mut effects);
                    }
                    None => published = Some(publish),
                }
            }
            let early_tool_call = self.start_read_only_early(&mut worker, &mut effects).await;
            if let Err(error) = self.append_and_publish(&mut worker).await {
                drop(worker); // and with it what was asked, and what looks
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
                return; // what was to be done is no longer this node's to do
            }
            if let Some(published) = published {
                // Nobody listens where the call has ended already.
                published.send(()).ok();
            }
            if let Some(early_tool_call) = early_tool_call {
                early_tool_call.publish_output();
            }
            for effect in effects {
                self.perform(&mut worker, effect);
            }
        }
    }

    /// Appends what is pending, then publishes it.
    async fn append_and_publish(&self, worker: &mut Worker) -> Result<(), DriverError> {
        if worker.pending.is_empty() && worker.queued_inputs.is_empty() {
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
        let append = self.lease.append(worker.seq, &logged, &worker.queued_inputs);
        worker.seq = self.await_append(append).await?;
        {
            let mut inbox = self.inbox();
            inbox.seq = worker.seq;
            inbox.finished_inputs.append(&mut worker.queued_inputs);
            if inbox.queued_inputs == DrainState::Idle {
                inbox.forget_finished();
            }
        }
        let (before, told) = worker.early_deltas.take().unwrap_or_default();
        let (before, after) = logged.split_at(before);
        self.hub.publish(before);
        told.iter().for_each(|delta| self.hub.delta(delta));
        self.hub.publish(after);
        Ok(())
    }

    /// Waits for the store of several nodes, which may be away for a while; says why to who looks on.
    async fn await_append<T>(&self, append: impl Future<Output = T>) -> T {
        if self.nodes.is_none() {
            return append.await;
        }
        let mut append = std::pin::pin!(append);
        let mut told = None;
        loop {
            tokio::select! {
                biased;
                done = &mut append => return done,
                () = self.ports.clock.sleep(SLOW_APPEND) => {}
            }
            let why = self.lease.stall_reason().filter(|why| told.as_ref() != Some(why));
            if let Some(why) = why {
                self.hub.delta(&Delta::Notice { text: format!("the session waits: {why}") });
                told = Some(why);
            }
        }
    }

    /// Who gets what was said here and not done, if the session goes on elsewhere.
    pub(crate) fn set_successor(&self, successor: Weak<ClusterSession>) {
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) = successor;
    }

    fn forward_pending(&self) {
        let left: Vec<_> = {
            let mut inbox = self.inbox();
            if inbox.closed.is_none() {
                return;
            }
            let unflushed_inputs = std::mem::take(&mut inbox.unflushed_inputs);
            let waiting = std::mem::take(&mut inbox.inputs).into_iter();
            let waiting =
                waiting.filter(|(input, forwarded_input)| forwarded_input.is_none() && is_forwardable(input));
            unflushed_inputs.into_iter().chain(waiting.map(|(input, _)| input)).collect()
        };
        if left.is_empty() {
            return;
        }
        let successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match (successor, &self.nodes) {
            (Some(successor), _) => successor.accept_pending(left),
            (None, Some(nodes)) => {
                let (nodes, id, clock) = (nodes.clone(), self.id.clone(), Arc::clone(&self.ports.clock));
                self.run(async move { deliver_all(&nodes, &id, clock.as_ref(), left).await });
            }
            (None, None) => {}
        }
    }

    fn fail(&self, error: &DriverError) {
        let elsewhere =
            matches!(error, DriverError::Store(StoreError::LeaseLost { .. } | StoreError::Conflict { .. }));
        self.close(CloseReason { why: error.to_string(), elsewhere });
    }

    /// This node has to let go of the session; another one may have it already.
    pub(crate) fn lose_lease(&self) {
        let why = format!("this node let go of session {}, which goes on elsewhere; open it again", self.id);
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

    /// Whether nothing is lost if it is opened from its log when it is next wanted.
    pub(crate) fn is_idle(&self, now: Timestamp, idle: Duration) -> bool {
        let shell = self.host().terminal().is_some_and(|terminal| terminal.is_open());
        let idle = if shell { idle.max(SHELL_IDLE_MIN) } else { idle };
        let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let inbox = self.inbox();
        let quiet = inbox.parked.as_ref().is_some_and(Worker::is_quiet) && inbox.in_flight_inputs.is_empty();
        let since = now.0.saturating_sub(inbox.active.0);
        (inbox.closed.is_some() || (quiet && since >= idle))
            // Who follows it elsewhere goes on there.
            && self.hub.subscriber_count() <= usize::from(self.relay_state.is_running())
    }

    fn perform(self: &Arc<Self>, worker: &mut Worker, effect: Effect) {
        match effect {
            Effect::CallModel { step, request } => {
                let (publish, published) = oneshot::channel();
                publish.send(()).ok(); // the receiver is here
                let (early_batch, _) = oneshot::channel();
                self.start_model_call(worker, step, request, ModelCallChannels { published, early_batch });
            }
            Effect::CancelModel { step } => {
                if let Some((asked, cancel)) = worker.model.take_if(|(asked, _)| *asked == step) {
                    tracing::debug!(session = %self.id, step = %asked, "model call cancelled");
                    cancel.cancel();
                }
            }
            Effect::RunTool { call, place, .. } => {
                let sink = self.output_sink(&call.id);
                self.start_tool_call(worker, call, place, sink);
            }
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

    fn start_tool_call(
        self: &Arc<Self>,
        worker: &mut Worker,
        call: ToolCall,
        place: ToolLocation,
        sink: DeltaSink,
    ) {
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
                    ToolLocation::Host => live.host().run(call, sink, cancel).await,
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

/// Posts what was said where nobody looks on any more, for whoever works on the session next.
async fn deliver_all(nodes: &ClusterContext, id: &SessionId, clock: &dyn Clock, inputs: Vec<Input>) {
    for forwarded_input in inputs.into_iter().map(forwarded_input) {
        while let Err(error) = nodes.cluster.enqueue(id, &forwarded_input).await {
            if !matches!(error, StoreError::Unavailable(_)) {
                return; // there is no such session any more
            }
            clock.sleep(FAILURE_PAUSE).await;
        }
    }
}

fn bug(doing: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Protocol,
        message: format!("sysop hit a bug while {doing}; the session is kept, try again"),
    }
}
