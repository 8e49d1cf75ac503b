//! Inputs that users give on one node for a session of another one.
//!
//! The node that owns a session drains its queue in order. An input counts as consumed in the same step that appends the
//! events it caused, so it is handled once, whoever owns the session by then.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sysop_core::event::Input;
use sysop_core::id::SessionId;
use uuid::Uuid;

use super::{Cluster, FAILURE_PAUSE, ForwardedInput, Lease, QUEUE_BATCH_MAX, QueuePosition};
use crate::live::LiveSession;
use crate::port::{Clock, StoreError};

/// The queue of a session that this node owns.
#[derive(Default)]
pub(crate) struct InputQueue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    drain: DrainState,
    /// Inputs that were read and are not consumed yet.
    in_flight: HashSet<QueuePosition>,
    /// Inputs that were consumed while the queue is being read: what is read may be older.
    consumed: Vec<QueuePosition>,
}

/// State of the task that drains the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DrainState {
    #[default]
    Idle,
    Running,
    /// More inputs came since the task began to read.
    Rerun,
}

impl State {
    fn forget_consumed(&mut self) {
        for position in self.consumed.drain(..) {
            self.in_flight.remove(&position);
        }
    }
}

impl InputQueue {
    /// Returns true if the caller has to drain the queue; else the task that does so reads it again.
    pub(crate) fn request_drain(&self) -> bool {
        let mut state = self.state();
        let idle = state.drain == DrainState::Idle;
        state.drain = if idle { DrainState::Running } else { DrainState::Rerun };
        idle
    }

    /// Gives the inputs that wait to the session, in their order.
    pub(crate) async fn drain(&self, lease: &dyn Lease, live: &Arc<LiveSession>) {
        while self.drain_batch(lease, live).await {}
    }

    /// Reads one batch; returns true if there may be more.
    async fn drain_batch(&self, lease: &dyn Lease, live: &Arc<LiveSession>) -> bool {
        let queued = match lease.queued_inputs().await {
            Ok(queued) => queued,
            Err(error) => {
                // The event that the database is back leads here again.
                tracing::warn!(session = %live.id(), %error, "queued inputs stay where they are for now");
                let mut state = self.state();
                state.drain = DrainState::Idle;
                state.forget_consumed();
                return false;
            }
        };
        let full = queued.len() >= QUEUE_BATCH_MAX;
        let new: Vec<_> = {
            let mut state = self.state();
            let new = queued.into_iter().filter(|queued| state.in_flight.insert(queued.number));
            let new = new.map(|queued| (queued.input, queued.number)).collect();
            state.forget_consumed();
            new
        };
        let more = full && !new.is_empty();
        let closed = live.send_forwarded(new).is_err();
        let mut state = self.state();
        let again = !closed && (more || state.drain == DrainState::Rerun);
        state.drain = if again { DrainState::Running } else { DrainState::Idle };
        again
    }

    /// Forgets inputs whose effects are durable.
    pub(crate) fn mark_consumed(&self, consumed: &[QueuePosition]) {
        let mut state = self.state();
        state.consumed.extend(consumed);
        if state.drain == DrainState::Idle {
            state.forget_consumed();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives an input an id of its own, so that it is enqueued once however often it is sent.
pub(crate) fn forwarded_input(input: Input) -> ForwardedInput {
    ForwardedInput { id: Uuid::new_v4().to_string(), input }
}

/// Enqueues inputs for whichever node owns the session next, until the store takes them.
pub(crate) async fn enqueue_all(
    cluster: &dyn Cluster,
    id: &SessionId,
    clock: &dyn Clock,
    inputs: Vec<Input>,
) {
    for input in inputs.into_iter().map(forwarded_input) {
        while let Err(error) = cluster.enqueue(id, &input).await {
            if !matches!(error, StoreError::Unavailable(_)) {
                return; // there is no such session any more
            }
            clock.sleep(FAILURE_PAUSE).await;
        }
    }
}
