//! Inputs given on one node for a session that another node owns.
//!
//! The owner of a session drains its queue in order. An input is marked as consumed in the same step that appends its
//! events, so it is handled once, whichever node owns the session by then.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use sysop_core::event::Input;
use sysop_core::id::SessionId;
use uuid::Uuid;

use super::{Cluster, FAILURE_PAUSE, ForwardedInput, Lease, QUEUE_BATCH_MAX, QueuePosition};
use crate::live::LiveSession;
use crate::port::{Clock, StoreError};

#[derive(Default)]
pub(crate) struct InputQueue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    drain: DrainState,
    /// Inputs that were read from the queue and have not been consumed yet.
    in_flight: HashSet<QueuePosition>,
    /// Inputs consumed while the queue is being read. Cleared when the read ends, because its result may still contain
    /// them.
    consumed: Vec<QueuePosition>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DrainState {
    #[default]
    Idle,
    Running,
    /// More inputs arrived while the task was reading.
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
    /// Requests that the queue be drained. Returns true if the caller must drain it. Otherwise a task is
    /// already draining it, and will read the queue once more.
    pub(crate) fn request_drain(&self) -> bool {
        let mut state = self.state.lock();
        let idle = state.drain == DrainState::Idle;
        state.drain = if idle { DrainState::Running } else { DrainState::Rerun };
        idle
    }

    /// Passes pending inputs to the session, in order.
    pub(crate) async fn drain(&self, lease: &dyn Lease, live: &Arc<LiveSession>) {
        while self.drain_batch(lease, live).await {}
    }

    /// Passes one batch of inputs to the session. Returns true if there may be more inputs.
    async fn drain_batch(&self, lease: &dyn Lease, live: &Arc<LiveSession>) -> bool {
        let queued = match lease.queued_inputs().await {
            Ok(queued) => queued,
            Err(error) => {
                // The event that reports that the database is available again leads back here.
                tracing::warn!(session = %live.id(), %error, "cannot read the queued inputs; waiting for the database");
                let mut state = self.state.lock();
                state.drain = DrainState::Idle;
                state.forget_consumed();
                return false;
            }
        };
        let full = queued.len() >= QUEUE_BATCH_MAX;
        let new: Vec<_> = {
            let mut state = self.state.lock();
            let new = queued.into_iter().filter(|queued| state.in_flight.insert(queued.number));
            let new = new.map(|queued| (queued.input, queued.number)).collect();
            state.forget_consumed();
            new
        };
        let more = full && !new.is_empty();
        let closed = live.send_forwarded(new).is_err();
        let mut state = self.state.lock();
        let again = !closed && (more || state.drain == DrainState::Rerun);
        state.drain = if again { DrainState::Running } else { DrainState::Idle };
        again
    }

    /// Forgets inputs that have been marked as consumed in the store.
    pub(crate) fn mark_consumed(&self, consumed: &[QueuePosition]) {
        let mut state = self.state.lock();
        state.consumed.extend(consumed);
        if state.drain == DrainState::Idle {
            state.forget_consumed();
        }
    }
}

/// Wraps an input with a unique id, so that repeated sends enqueue it once.
pub(crate) fn forwarded_input(input: Input) -> ForwardedInput {
    ForwardedInput { id: Uuid::new_v4().to_string(), input }
}

/// Enqueues inputs for the session's next owner, retrying while the store is unavailable. Any other error ends the
/// attempt, because the session no longer exists.
pub(crate) async fn enqueue_all(
    cluster: &dyn Cluster,
    id: &SessionId,
    clock: &dyn Clock,
    inputs: Vec<Input>,
) {
    for input in inputs.into_iter().map(forwarded_input) {
        while let Err(error) = cluster.enqueue(id, &input).await {
            if !matches!(error, StoreError::Unavailable(_)) {
                return; // the session no longer exists
            }
            clock.sleep(FAILURE_PAUSE).await;
        }
    }
}
