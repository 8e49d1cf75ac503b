//! Registry of the sessions in use on this server, and the server's own state per session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sysop_core::id::SessionId;
use sysop_driver::port::Host;
use sysop_wire::ClientMessage;

use crate::backend::{BackendError, CreateSession, HostDecorator, OpenedSession, SessionBackend};
use crate::client_tools::{ClientToolBroker, ClientToolHost, ClientToolSettings};
use crate::metrics::Metrics;
use crate::session_feed::Follower;
use crate::trace::TraceParent;

const DELIVERED_IDS_MAX: usize = 16_384;

/// Maximum length of a session id, in bytes. Ids that sysop creates have 36 bytes.
const ID_BYTES_MAX: usize = 256;

pub(crate) struct SessionRegistry {
    pub(crate) backend: Arc<dyn SessionBackend>,
    client_tools: ClientToolSettings,
    metrics: Arc<Metrics>,
    states: Mutex<HashMap<SessionId, Weak<SessionContext>>>,
    /// Ids of messages that were already handled, to detect duplicates.
    delivered: Mutex<DeliveredIds>,
}

/// The messages that were handled most recently, each as a hash of its session, caller and message id.
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

/// The server's state of a session. It exists as long as the session's host or a connection uses it.
pub(crate) struct SessionContext {
    pub(crate) id: SessionId,
    pub(crate) tool_broker: Arc<ClientToolBroker>,
    pub(crate) metrics: Arc<Metrics>,
    /// The user's rules file, for display; `None` if rules cannot be written.
    pub(crate) rules_file: Option<String>,
    /// State folded from the log when the log was last read.
    pub(crate) followed: tokio::sync::Mutex<Option<Follower>>,
    /// Trace context of the last message that had one.
    trace: Mutex<Option<TraceParent>>,
    /// Key of the caller that offered tools when it created the session over HTTP. An event stream of this caller runs
    /// the tools.
    offered: Mutex<Option<String>>,
}

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

    /// Opens a session; reuses the one in memory if there is one.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionRef, BackendError> {
        if id.as_str().len() > ID_BYTES_MAX {
            return Err(BackendError::NotFound(SessionId::new("with an overlong id")));
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

    /// Removes the state of a session that could not be opened, because clients can invent any number of ids.
    fn forget(&self, id: &SessionId) {
        let mut states = self.states.lock();
        if states.get(id).is_some_and(|state| state.strong_count() == 0) {
            states.remove(id);
        }
    }

    /// Returns the session if it is in memory. Never loads a session.
    pub(crate) fn find_open(&self, id: &SessionId) -> Option<SessionRef> {
        let opened = self.backend.find_open(id)?;
        Some(SessionRef { opened, state: self.state_of(id) })
    }

    /// Returns true if the message is handled for the first time. Clients may resend a message with the same id if they
    /// do not know whether it arrived.
    pub(crate) fn first_delivery(&self, session: &SessionId, key: &str, name: &str) -> bool {
        let name = DeliveredIds::name(session, key, name);
        let mut delivered = self.delivered.lock();
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

    /// Forgets a message that could not be handled, so that it can be sent again.
    pub(crate) fn forget_delivery(&self, session: &SessionId, key: &str, name: &str) {
        let name = DeliveredIds::name(session, key, name);
        let mut delivered = self.delivered.lock();
        delivered.names.remove(&name);
        delivered.order.retain(|other| *other != name); // rare, so a linear scan is fine
    }

    /// Evicts idle sessions and drops state that nobody uses.
    pub(crate) fn evict_idle(&self, idle: std::time::Duration) {
        self.backend.evict_idle(idle);
        let mut states = self.states.lock();
        states.retain(|_, state| state.strong_count() > 0);
        if states.capacity() > 4 * states.len().max(64) {
            states.shrink_to_fit();
        }
    }

    /// Returns the state of a session. While the session is in memory, its host shares this state.
    fn state_of(&self, id: &SessionId) -> Arc<SessionContext> {
        let mut states = self.states.lock();
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
    /// Sets the trace context of further events. A prompt without a trace context starts a new trace.
    pub(crate) fn begin_trace(&self, message: &ClientMessage, named: Option<TraceParent>) {
        if let Some(trace) = named.or_else(|| message.starts_turn().then(TraceParent::new)) {
            *self.trace.lock() = Some(trace);
        }
    }

    pub(crate) fn trace(&self) -> Option<TraceParent> {
        self.trace.lock().clone()
    }

    /// Trace id for the log; empty if there is none.
    pub(crate) fn trace_id(&self) -> String {
        self.trace().map(|trace| trace.trace_id().to_owned()).unwrap_or_default()
    }

    /// Records that the caller with this key offered tools over HTTP.
    pub(crate) fn offered_by(&self, key: &str) {
        *self.offered.lock() = Some(key.to_owned());
    }

    /// Returns true if this caller offered tools over HTTP.
    pub(crate) fn is_offered_by(&self, key: &str) -> bool {
        self.offered.lock().as_deref() == Some(key)
    }
}
