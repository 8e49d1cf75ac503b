//! The sessions that are open here, and what the server keeps beside each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sysop_core::id::SessionId;
use sysop_driver::port::Host;
use sysop_wire::ClientMessage;

use crate::backend::{BackendError, CreateSession, HostDecorator, OpenedSession, SessionBackend};
use crate::client_tools::{ClientToolBroker, ClientToolHost, ClientToolSettings};
use crate::metrics::Metrics;
use crate::session_feed::Follower;
use crate::trace::TraceParent;

/// How many messages with names of their own are remembered.
const DELIVERED_IDS_MAX: usize = 16_384;

/// The most bytes of the name of a session; ours have 36.
const ID_BYTES_MAX: usize = 256;

/// All rooms.
pub(crate) struct SessionRegistry {
    pub(crate) backend: Arc<dyn SessionBackend>,
    client_tools: ClientToolSettings,
    metrics: Arc<Metrics>,
    states: Mutex<HashMap<SessionId, Weak<SessionContext>>>,
    /// The messages with names of their own that were acted on.
    delivered: Mutex<DeliveredIds>,
}

/// The newest messages that were acted on, by session, caller and name.
#[derive(Default)]
struct DeliveredIds {
    names: HashSet<blake3::Hash>,
    order: VecDeque<blake3::Hash>,
}

impl DeliveredIds {
    fn name(session: &SessionId, key: &str, name: &str) -> blake3::Hash {
        blake3::hash(format!("{session}\n{key}\n{name}").as_bytes())
    }
}

/// What the server keeps of a session for as long as its host lives or somebody is connected to it.
pub(crate) struct SessionContext {
    pub(crate) id: SessionId,
    pub(crate) tool_broker: Arc<ClientToolBroker>,
    pub(crate) metrics: Arc<Metrics>,
    /// The file that rules are written to, for people; `None` where none can be written.
    pub(crate) rules_file: Option<String>,
    /// What the log came to when somebody last looked.
    pub(crate) followed: tokio::sync::Mutex<Option<Follower>>,
    /// The trace of the last message that had one.
    trace: Mutex<Option<TraceParent>>,
    /// Who offered tools without a socket: a stream of theirs takes the seat.
    offered: Mutex<Option<String>>,
}

/// An open session.
#[derive(Clone)]
pub(crate) struct SessionRef {
    pub(crate) opened: OpenedSession,
    pub(crate) state: Arc<SessionContext>,
}

impl SessionRegistry {
    pub(crate) fn new(
        backend: Arc<dyn SessionBackend>,
        client_tools: ClientToolSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { backend, client_tools, metrics, states: Mutex::default(), delivered: Mutex::default() }
    }

    /// Opens a new session.
    pub(crate) async fn create(
        &self,
        id: SessionId,
        request: CreateSession,
    ) -> Result<SessionRef, BackendError> {
        let state = self.state_of(&id);
        let opened = self.backend.create(id, request, decorate(&state)).await?;
        self.metrics.session_created();
        tracing::info!(session = %state.id, "session created");
        Ok(SessionRef { opened, state })
    }

    /// Opens an earlier session, or hands out one that is live.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionRef, BackendError> {
        if id.as_str().len() > ID_BYTES_MAX {
            return Err(BackendError::NotFound(SessionId::new("of so long a name")));
        }
        let state = self.state_of(id);
        match self.backend.open(id, decorate(&state)).await {
            Ok(opened) => Ok(SessionRef { opened, state }),
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
    pub(crate) fn find_open(&self, id: &SessionId) -> Option<SessionRef> {
        let opened = self.backend.find_open(id)?;
        Some(SessionRef { opened, state: self.state_of(id) })
    }

    /// Whether a message comes for the first time: who does not know whether it arrived may send it again by the same
    /// name, and it is acted on once.
    pub(crate) fn first_delivery(&self, session: &SessionId, key: &str, name: &str) -> bool {
        let name = DeliveredIds::name(session, key, name);
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        if !delivered.names.insert(name) {
            return false;
        }
        delivered.order.push_back(name);
        if delivered.order.len() > DELIVERED_IDS_MAX
            && let Some(oldest) = delivered.order.pop_front()
        {
            delivered.names.remove(&oldest);
        }
        true
    }

    /// A message was not acted on: it counts as never heard.
    pub(crate) fn forget_delivery(&self, session: &SessionId, key: &str, name: &str) {
        let name = DeliveredIds::name(session, key, name);
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        delivered.names.remove(&name);
        delivered.order.retain(|other| *other != name); // it is seldom
    }

    /// Lets go of what nobody needs.
    pub(crate) fn evict_idle(&self, idle: std::time::Duration) {
        self.backend.evict_idle(idle);
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|_, state| state.strong_count() > 0);
        if states.capacity() > 4 * states.len().max(64) {
            states.shrink_to_fit();
        }
    }

    /// The state of a session. It is the one that the host of the live session has, as long as that lives.
    fn state_of(&self, id: &SessionId) -> Arc<SessionContext> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get(id).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::new(SessionContext {
            id: id.clone(),
            tool_broker: Arc::new(ClientToolBroker::new(self.client_tools.clone())),
            metrics: Arc::clone(&self.metrics),
            rules_file: self.backend.rules_file(),
            followed: tokio::sync::Mutex::default(),
            trace: Mutex::default(),
            offered: Mutex::default(),
        });
        states.insert(id.clone(), Arc::downgrade(&state));
        state
    }
}

fn decorate(state: &Arc<SessionContext>) -> HostDecorator {
    let state = Arc::clone(state);
    Arc::new(move |own| -> Arc<dyn Host> { Arc::new(ClientToolHost::new(own, Arc::clone(&state))) })
}

impl SessionContext {
    /// Notes the trace that what happens next belongs to. What a person says begins another, if it names none.
    pub(crate) fn begin_trace(&self, message: &ClientMessage, named: Option<TraceParent>) {
        if let Some(trace) = named.or_else(|| message.starts_turn().then(TraceParent::new)) {
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
