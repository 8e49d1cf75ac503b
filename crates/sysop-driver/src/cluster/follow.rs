//! Follows a session that another node owns, and publishes the deltas of a session that this node owns.
//!
//! A follower publishes only events that it read from the log; cluster events just tell it when to read. If a cluster
//! event is lost or late, updates are delayed until the next cluster event, but no update is published twice.
//!
//! Deltas may be dropped on the way. If output of a call was dropped, a line says so before the next output of the
//! call, as in [`crate::hub`]. Therefore a follower publishes everything under the lock of its state: in order, and
//! with that line.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::event::{Delta, Event, Logged, Update};
use sysop_core::id::{CallId, Seq, SessionId};

use super::{Cluster, FAILURE_PAUSE, Lease};
use crate::hub::{Hub, OMITTED_OUTPUT, Updates, forget_ended};
use crate::live::LiveSession;
use crate::port::{Clock, Store, StoreError};
use crate::{LOAD_EVENTS_MAX, Ports};

/// Maximum delta batches that wait for the log to reach their position; the oldest is dropped first.
const PENDING_DELTAS_MAX: usize = 64;
/// Period for which deltas are collected before they are published to other nodes.
const RELAY_PERIOD: Duration = Duration::from_millis(50);
/// Maximum bytes of text published to other nodes per period. Live viewers on those nodes miss any text beyond that.
const RELAY_BYTES_MAX: usize = 32 * 1024;

pub(crate) struct SessionFollower {
    id: SessionId,
    owner: String,
    cluster: Arc<dyn Cluster>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    hub: Hub,
    state: Mutex<State>,
}

struct State {
    /// Position of the last event that this follower published.
    seen: Seq,
    catch_up_state: CatchUpState,
    /// Deltas that come after events that have not been read yet, each batch with the position of the event before it.
    pending: VecDeque<(Seq, Vec<Delta>)>,
    /// Calls with output that was dropped from `pending`, each with the position of the event before its last dropped
    /// output.
    omitted: HashMap<CallId, Seq>,
    /// True if cluster events were lost after which the log has not been read to its end.
    lagged: bool,
    closed: bool,
}

/// State of the task that reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatchUpState {
    Idle,
    Running,
    /// New events arrived while the task was reading.
    Rerun,
}

impl SessionFollower {
    /// Creates a follower that starts after `last`, the last event known when the watch began.
    pub(crate) fn new(
        id: SessionId,
        owner: String,
        last: Seq,
        cluster: Arc<dyn Cluster>,
        ports: &Ports,
    ) -> Arc<Self> {
        let (store, clock) = (Arc::clone(&ports.store), Arc::clone(&ports.clock));
        let state = State {
            seen: last,
            catch_up_state: CatchUpState::Idle,
            pending: VecDeque::new(),
            omitted: HashMap::new(),
            lagged: false,
            closed: false,
        };
        Arc::new(Self { id, owner, cluster, store, clock, hub: Hub::default(), state: Mutex::new(state) })
    }

    pub(crate) fn subscribe(&self, after: Seq) -> Updates {
        let seen = self.state.lock().seen;
        self.hub.subscribe(Arc::clone(&self.store), self.id.clone(), after, seen)
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.state.lock().seen
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Ends the follower and its subscriptions. The session's owner must then be determined again.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.hub.close();
    }

    pub(crate) fn notice(&self, text: &str) {
        self.hub.delta(&Delta::Notice { text: text.to_owned() });
    }

    /// Reads the log if it has grown to `seq` and that event has not been read yet.
    pub(crate) fn on_appended(self: &Arc<Self>, seq: Seq) {
        if seq > self.state.lock().seen {
            self.catch_up();
        }
    }

    /// Publishes deltas once the event before them has been read from the log.
    pub(crate) fn on_deltas(self: &Arc<Self>, after: Seq, deltas: Vec<Delta>) {
        let mut state = self.state.lock();
        if after < state.seen {
            return self.hub.omit_late_output(printing_calls(&deltas)); // the log contains the result
        }
        if after == state.seen && state.pending.is_empty() {
            return self.publish_live(deltas);
        }
        if state.pending.len() == PENDING_DELTAS_MAX {
            state.drop_oldest_pending();
        }
        state.pending.push_back((after, deltas));
        drop(state);
        self.catch_up();
    }

    /// Reads the log after cluster events were lost, perhaps with deltas.
    pub(crate) fn on_lagged(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            state.lagged = true;
            if state.catch_up_state == CatchUpState::Running {
                state.catch_up_state = CatchUpState::Rerun; // its page may be older
            }
            // Before these deltas, the line about the lost output would be too early.
            while state.drop_oldest_pending() {}
            self.hub.omit_output_of_all();
        }
        self.catch_up();
    }

    /// Reads and publishes unread events in a separate task. If one is already running, it reads once more.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            if state.catch_up_state != CatchUpState::Idle {
                state.catch_up_state = CatchUpState::Rerun;
                return;
            }
            state.catch_up_state = CatchUpState::Running;
        }
        let follow = Arc::clone(self);
        tokio::spawn(async move { while follow.read_page().await {} });
    }

    /// Reads and publishes one page of events. Returns true if there may be more events.
    async fn read_page(&self) -> bool {
        let (seen, closed) = {
            let state = self.state.lock();
            (state.seen, state.closed)
        };
        if closed {
            return false;
        }
        let page = match self.store.load(&self.id, seen, LOAD_EVENTS_MAX).await {
            Ok(page) => page,
            Err(StoreError::NotFound(_)) => {
                self.close();
                return false;
            }
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "cannot follow the session; retrying");
                self.clock.sleep(FAILURE_PAUSE).await;
                return true;
            }
        };
        let page: Vec<_> = page.into_iter().map(Arc::new).collect();
        self.publish_page(&page)
    }

    /// Publishes a page of events, and the deltas that waited for it. Returns true if there may be more events.
    fn publish_page(&self, page: &[Arc<Logged>]) -> bool {
        let mut state = self.state.lock();
        self.hub.publish(page);
        if let Some(last) = page.last() {
            state.seen = last.seq;
        }
        let more = page.len() == LOAD_EVENTS_MAX || state.catch_up_state == CatchUpState::Rerun;
        state.catch_up_state = if more { CatchUpState::Running } else { CatchUpState::Idle };
        let mut late = if state.lagged { started_calls(page) } else { HashSet::new() };
        state.lagged &= more;
        let mut ready = Vec::new();
        while state.pending.front().is_some_and(|(after, _)| *after <= state.seen) {
            let (after, deltas) = state.pending.pop_front().expect("the queue is not empty");
            match after == state.seen {
                true => ready.extend(deltas),
                false => late.extend(printing_calls(&deltas)),
            }
        }
        late.extend(state.publish_omitted(&self.hub));
        self.hub.omit_late_output(late);
        self.publish_live(ready);
        more
    }

    fn publish_live(&self, deltas: Vec<Delta>) {
        for delta in deltas {
            match delta {
                // Questions can be answered only on the owning node: a secret must not pass through the store.
                Delta::Question { question } => {
                    let (from, owner) = (question.from, &self.owner);
                    let text = format!("{from} requests input that can only be entered on node {owner}");
                    self.hub.delta(&Delta::Notice { text });
                }
                Delta::QuestionClosed { .. } => {}
                Delta::Text { .. }
                | Delta::Reasoning { .. }
                | Delta::Output { .. }
                | Delta::Restarted { .. }
                | Delta::Progress { .. }
                | Delta::Notice { .. }
                | Delta::Control { .. } => self.hub.delta(&delta),
            }
        }
    }
}

impl State {
    /// Drops the oldest deltas of `pending`. Returns false if there are none.
    fn drop_oldest_pending(&mut self) -> bool {
        let Some((after, deltas)) = self.pending.pop_front() else { return false };
        self.omitted.extend(printing_calls(&deltas).into_iter().map(|call| (call, after)));
        true
    }

    /// Notes in `hub` the dropped output that follows the last published event. Returns the calls whose dropped output
    /// came before it. The other calls remain in `omitted`.
    fn publish_omitted(&mut self, hub: &Hub) -> HashSet<CallId> {
        let (mut late, mut current) = (HashSet::new(), HashSet::new());
        let seen = self.seen;
        self.omitted.retain(|call, after| {
            if *after <= seen {
                let calls = if *after == seen { &mut current } else { &mut late };
                calls.insert(call.clone());
            }
            *after > seen
        });
        hub.omit_output(&current);
        late
    }
}

/// Ends the watch on the session.
impl Drop for SessionFollower {
    fn drop(&mut self) {
        let (cluster, id) = (Arc::clone(&self.cluster), self.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { cluster.unwatch(&id).await });
        }
    }
}

/// State of the task that publishes a session's deltas to other nodes.
#[derive(Debug, Default)]
pub(crate) struct RelayState(AtomicU8);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
/// A node began to follow after the last check for followers.
const REQUESTED: u8 = 2;

impl RelayState {
    /// Requests a relay. Returns true if no relay is running, so that the caller must start one.
    fn request(&self) -> bool {
        let next = |now| Some(if now == IDLE { RUNNING } else { REQUESTED });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(IDLE)
    }

    /// Returns true if a relay is running. A running relay is a subscriber of the session.
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::SeqCst) != IDLE
    }

    fn acknowledge(&self) {
        self.0.store(RUNNING, Ordering::SeqCst);
    }

    /// Sets the state to idle and returns true, so that the relay ends. Returns false and changes nothing if
    /// a node has begun to follow in the meantime.
    fn may_end(&self) -> bool {
        self.0.compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Publishes a session's deltas to its followers, as long as there are any. Does nothing if a relay is already running.
pub(crate) fn start_relay(
    relay: &Arc<RelayState>,
    live: &Arc<LiveSession>,
    lease: &Arc<dyn Lease>,
    clock: &Arc<dyn Clock>,
) {
    if !relay.request() {
        return;
    }
    let mut updates = live.subscribe(live.last_seq());
    let mut after = live.last_seq();
    let (relay, lease, clock) = (Arc::clone(relay), Arc::clone(lease), Arc::clone(clock));
    let live = Arc::downgrade(live);
    let mut omitted = HashSet::new();
    tokio::spawn(async move {
        while let Some(first) = updates.next().await {
            let first = match first {
                Update::Logged(logged) => {
                    after = after.max(logged.seq);
                    forget_ended(&mut omitted, &logged.event);
                    continue;
                }
                Update::Delta(delta) => delta,
            };
            clock.sleep(RELAY_PERIOD).await; // deltas that arrive in the meantime are joined in the mailbox
            let deltas = gather(first, &mut updates, &mut after, &mut omitted);
            if live.strong_count() == 0 {
                return;
            }
            relay.acknowledge();
            match lease.publish_deltas(after, &deltas).await {
                Ok(true) => continue,
                Ok(false) if relay.may_end() => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "deltas did not reach the other nodes"),
            }
            omitted.extend(printing_calls(&deltas));
        }
    });
}

/// Collects the deltas to publish now, which follow the same event. Sets `after` to that event's position, and
/// `omitted` to the running calls whose last output is not published.
fn gather(first: Delta, updates: &mut Updates, after: &mut Seq, omitted: &mut HashSet<CallId>) -> Vec<Delta> {
    let (mut deltas, mut bytes) = (Vec::new(), 0);
    let mut next = Some(Update::Delta(first));
    while let Some(update) = next {
        match update {
            Update::Logged(logged) => {
                *after = logged.seq.max(*after);
                omitted.extend(printing_calls(&deltas));
                forget_ended(omitted, &logged.event);
                deltas.clear(); // the log contains their result
                bytes = 0;
            }
            Update::Delta(mut delta) => {
                bytes += length(&delta);
                if bytes > RELAY_BYTES_MAX {
                    omitted.extend(printing_calls(&[delta]));
                } else {
                    if let Delta::Output { call, text } = &mut delta
                        && omitted.remove(call)
                    {
                        text.insert_str(0, OMITTED_OUTPUT);
                    }
                    deltas.push(delta);
                }
            }
        }
        next = updates.try_next();
    }
    deltas
}

/// Returns the calls with output among the deltas.
#[expect(clippy::wildcard_enum_match_arm, reason = "other deltas are no output")]
fn printing_calls(deltas: &[Delta]) -> HashSet<CallId> {
    let call = |delta: &Delta| match delta {
        Delta::Output { call, .. } => Some(call.clone()),
        _ => None,
    };
    deltas.iter().filter_map(call).collect()
}

/// Returns the calls that start with the events.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events start no call")]
fn started_calls(events: &[Arc<Logged>]) -> HashSet<CallId> {
    let started = |logged: &Arc<Logged>| match &logged.event {
        Event::ToolStarted { call, .. } => Some(call.id.clone()),
        _ => None,
    };
    events.iter().filter_map(started).collect()
}

fn length(delta: &Delta) -> usize {
    match delta {
        Delta::Text { text, .. }
        | Delta::Reasoning { text, .. }
        | Delta::Output { text, .. }
        | Delta::Notice { text } => text.len(),
        Delta::Restarted { .. }
        | Delta::Progress { .. }
        | Delta::Question { .. }
        | Delta::QuestionClosed { .. }
        | Delta::Control { .. } => 64,
    }
}

#[cfg(test)]
mod tests;
