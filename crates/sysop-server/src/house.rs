//! The sessions that are open here, and what the server keeps beside each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sysop_core::id::SessionId;
use sysop_driver::port::Host;
use sysop_wire::ClientMessage;

use crate::follow::Follower;
use crate::lent::{Lending, LentSettings, RoomHost};
use crate::metrics::Metrics;
use crate::rooms::{Found, RoomError, Rooms, Wish, Wrap};
use crate::trace::TraceParent;

/// All rooms.
pub(crate) struct House {
    pub(crate) rooms: Arc<dyn Rooms>,
    lent: LentSettings,
    metrics: Arc<Metrics>,
    states: Mutex<HashMap<SessionId, Weak<RoomState>>>,
}

/// What the server keeps of a session for as long as its host lives or somebody is connected to it.
pub(crate) struct RoomState {
    pub(crate) id: SessionId,
    pub(crate) lending: Arc<Lending>,
    pub(crate) metrics: Arc<Metrics>,
    /// What the log came to when somebody last looked.
    pub(crate) followed: tokio::sync::Mutex<Option<Follower>>,
    /// The trace of the last message that had one.
    trace: Mutex<Option<TraceParent>>,
    /// Who offered tools without a socket: a stream of theirs takes the seat.
    offered: Mutex<Option<String>>,
}

/// An open session.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) opened: Found,
    pub(crate) state: Arc<RoomState>,
}

impl House {
    pub(crate) fn new(rooms: Arc<dyn Rooms>, lent: LentSettings, metrics: Arc<Metrics>) -> Self {
        Self { rooms, lent, metrics, states: Mutex::default() }
    }

    /// Opens a new session.
    pub(crate) async fn create(&self, id: SessionId, wish: Wish) -> Result<Room, RoomError> {
        let state = self.state_of(&id);
        let opened = self.rooms.create(id, wish, wrap(&state)).await?;
        self.metrics.session_created();
        tracing::info!(session = %state.id, "session created");
        Ok(Room { opened, state })
    }

    /// Opens an earlier session, or hands out one that is live.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<Room, RoomError> {
        let state = self.state_of(id);
        let opened = self.rooms.open(id, wrap(&state)).await?;
        Ok(Room { opened, state })
    }

    /// Lets go of what nobody needs.
    pub(crate) fn rest(&self, idle: std::time::Duration) {
        self.rooms.rest(idle);
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|_, state| state.strong_count() > 0);
        if states.capacity() > 4 * states.len().max(64) {
            states.shrink_to_fit();
        }
    }

    /// The state of a session. It is the one that the host of the live session has, as long as that lives.
    fn state_of(&self, id: &SessionId) -> Arc<RoomState> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get(id).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::new(RoomState {
            id: id.clone(),
            lending: Arc::new(Lending::new(self.lent.clone())),
            metrics: Arc::clone(&self.metrics),
            followed: tokio::sync::Mutex::default(),
            trace: Mutex::default(),
            offered: Mutex::default(),
        });
        states.insert(id.clone(), Arc::downgrade(&state));
        state
    }
}

fn wrap(state: &Arc<RoomState>) -> Wrap {
    let state = Arc::clone(state);
    Arc::new(move |own| -> Arc<dyn Host> { Arc::new(RoomHost::new(own, Arc::clone(&state))) })
}

impl RoomState {
    /// Notes the trace that what happens next belongs to. What a person says begins another, if it names none.
    pub(crate) fn begins(&self, message: &ClientMessage, named: Option<TraceParent>) {
        let new = matches!(
            message,
            ClientMessage::UserMessage { .. } | ClientMessage::Direct { .. } | ClientMessage::Retry { .. }
        );
        if let Some(trace) = named.or_else(|| new.then(TraceParent::new)) {
            *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace);
        }
    }

    /// The trace that what happens now belongs to.
    pub(crate) fn trace(&self) -> Option<TraceParent> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The trace's id, for the log.
    pub(crate) fn trace_id(&self) -> String {
        self.trace().map(|trace| trace.trace_id().to_owned()).unwrap_or_default()
    }

    /// Notes who offered tools without a socket.
    pub(crate) fn offered_by(&self, key: &str) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.to_owned());
    }

    /// Whether this caller offered tools without a socket.
    pub(crate) fn is_offered_by(&self, key: &str) -> bool {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(key)
    }
}
