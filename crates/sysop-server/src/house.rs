//! The sessions that are open here, and what the server keeps beside each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sysop_core::id::SessionId;
use sysop_driver::port::Host;
use sysop_wire::ClientMessage;

use crate::follow::Follower;
use crate::lent::{Lending, LentSettings, RoomHost};
use crate::metrics::Metrics;
use crate::rooms::{Found, RoomError, Rooms, Wish, Wrap};
use crate::trace::TraceParent;

/// How many messages with names of their own are remembered.
const HEARD_MAX: usize = 16_384;

/// The most bytes of the name of a session; ours have 36.
const ID_BYTES_MAX: usize = 256;

/// All rooms.
pub(crate) struct House {
    pub(crate) rooms: Arc<dyn Rooms>,
    lent: LentSettings,
    metrics: Arc<Metrics>,
    states: Mutex<HashMap<SessionId, Weak<RoomState>>>,
    /// The messages with names of their own that were acted on.
    heard: Mutex<Heard>,
}

/// The newest messages that were acted on, by session, caller and name.
#[derive(Default)]
struct Heard {
    names: HashSet<blake3::Hash>,
    order: VecDeque<blake3::Hash>,
}

impl Heard {
    fn name(session: &SessionId, key: &str, name: &str) -> blake3::Hash {
        blake3::hash(format!("{session}\n{key}\n{name}").as_bytes())
    }
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
        Self { rooms, lent, metrics, states: Mutex::default(), heard: Mutex::default() }
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
        if id.as_str().len() > ID_BYTES_MAX {
            return Err(RoomError::NotFound(SessionId::new("of so long a name")));
        }
        let state = self.state_of(id);
        match self.rooms.open(id, wrap(&state)).await {
            Ok(opened) => Ok(Room { opened, state }),
            Err(error) => {
                drop(state);
                self.forget(id);
                Err(error)
            }
        }
    }

    /// Leaves nothing of a session that is none: names of such can be made up without end.
    fn forget(&self, id: &SessionId) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.get(id).is_some_and(|state| state.strong_count() == 0) {
            states.remove(id);
        }
    }

    /// A session that is open already.
    pub(crate) fn if_open(&self, id: &SessionId) -> Option<Room> {
        let opened = self.rooms.if_open(id)?;
        Some(Room { opened, state: self.state_of(id) })
    }

    /// Whether a message comes for the first time: who does not know whether it arrived may send it again by the same
    /// name, and it is acted on once.
    pub(crate) fn is_news(&self, session: &SessionId, key: &str, name: &str) -> bool {
        let name = Heard::name(session, key, name);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if !heard.names.insert(name) {
            return false;
        }
        heard.order.push_back(name);
        if heard.order.len() > HEARD_MAX
            && let Some(oldest) = heard.order.pop_front()
        {
            heard.names.remove(&oldest);
        }
        true
    }

    /// A message was not acted on: it counts as never heard.
    pub(crate) fn is_no_news(&self, session: &SessionId, key: &str, name: &str) {
        let name = Heard::name(session, key, name);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.names.remove(&name);
        heard.order.retain(|other| *other != name); // it is seldom
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
        if let Some(trace) = named.or_else(|| message.begins_a_turn().then(TraceParent::new)) {
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
