//! Runs sessions: append, publish, perform. Knows no vendor: models, machines, stores and clocks come through ports.
//!
//! The order is the point of this crate: an event is durable before anybody sees it, and seen before anything is
//! done about it; for a later step of a turn the model is asked meanwhile, and what it says waits. A session with
//! nothing to do is an entry in a map; a task exists only while inputs are worked off.
#![warn(missing_docs)]

mod clock;
pub mod face;
mod hub;
mod live;
pub mod people;
pub mod port;
mod questions;
pub mod tokens;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sysop_core::event::{Event, Input, Logged};
use sysop_core::id::{Seq, SessionId, TurnId};
use sysop_core::question::QuestionId;
use sysop_core::session::{Session, SessionSpec};

pub use self::clock::system_clock;
pub use self::hub::Updates;
use self::live::Live;
use self::people::{Answer, Terminal};
use self::port::{Clock, Host, Provider, Store, StoreError};

/// How many events are read from the store at a time.
const LOAD_EVENTS_MAX: usize = 4096;

/// What the driver needs of the world.
#[derive(Clone)]
pub struct Ports {
    /// Asks models.
    pub provider: Arc<dyn Provider>,
    /// Keeps logs.
    pub store: Arc<dyn Store>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Why the driver did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The store did not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session ended for good; the text says why.
    #[error("{0}")]
    Closed(String),
    /// The log has no such turn.
    #[error("session {0} has no turn {1}")]
    NoTurn(SessionId, TurnId),
    /// The log cannot be replayed.
    #[error("the log of session {0} cannot be read: {1}")]
    BadLog(SessionId, String),
}

/// Runs sessions. Cheap to clone; clones share the sessions.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    sessions: Mutex<HashMap<SessionId, Arc<Live>>>,
}

impl Driver {
    /// Starts with no session.
    pub fn new(ports: Ports) -> Self {
        Self { inner: Arc::new(Inner { ports, sessions: Mutex::default() }) }
    }

    /// Opens a new session; it is durable on return.
    ///
    /// # Errors
    /// When the store cannot keep it, or already has one of that id.
    pub async fn create(
        &self,
        id: SessionId,
        spec: SessionSpec,
        host: Arc<dyn Host>,
    ) -> Result<Handle, DriverError> {
        match self.keep(self.opening(id, spec, host), None) {
            Kept::New(live) => {
                live.flush().await?;
                Ok(Handle { live })
            }
            Kept::Running(live) => {
                let (id, found) = (live.id().clone(), live.last_seq());
                Err(StoreError::Conflict { id, expected: Seq(0), found }.into())
            }
        }
    }

    /// Opens a new session that becomes durable with its first input: one that is never used leaves no trace.
    pub fn begin(&self, id: SessionId, spec: SessionSpec, host: Arc<dyn Host>) -> Handle {
        match self.keep(self.opening(id, spec, host), None) {
            Kept::New(live) | Kept::Running(live) => Handle { live },
        }
    }

    fn opening(&self, id: SessionId, spec: SessionSpec, host: Arc<dyn Host>) -> Arc<Live> {
        let (session, out) = Session::open(spec);
        Live::new(id, self.inner.ports.clone(), host, session, Seq(0), out.events)
    }

    /// Opens a session from its log. What was running when its process ended is marked as interrupted.
    /// A session that this driver already runs is just handed out.
    ///
    /// # Errors
    /// When there is no such session, or its log cannot be read.
    pub async fn resume(&self, id: &SessionId, host: Arc<dyn Host>) -> Result<Handle, DriverError> {
        if let Some(live) = self.running(id) {
            return Ok(Handle { live });
        }
        let (session, seq) = replay(self.inner.ports.store.as_ref(), id).await?;
        let live = Live::new(id.clone(), self.inner.ports.clone(), host, session, seq, Vec::new());
        match self.keep(live, Some(Input::Recovered)) {
            // Where somebody resumed it meanwhile, what it does now is not interrupted.
            Kept::New(live) | Kept::Running(live) => Ok(Handle { live }),
        }
    }

    /// Gives a new session the log of another one up to the prompt of a turn, which is left out.
    ///
    /// # Errors
    /// When there is no such session or turn, or the store cannot keep the new one.
    pub async fn fork(&self, from: &SessionId, before: TurnId, id: &SessionId) -> Result<(), DriverError> {
        let store = &self.inner.ports.store;
        let mut taken: Vec<Arc<Logged>> = Vec::new();
        loop {
            let seen = taken.last().map_or(Seq(0), |last| last.seq);
            let page = store.load(from, seen, LOAD_EVENTS_MAX).await?;
            if page.is_empty() {
                return Err(DriverError::NoTurn(from.clone(), before));
            }
            for logged in page {
                if matches!(&logged.event, Event::TurnStarted { turn, .. } if *turn == before) {
                    store.append(id, Seq(0), &taken).await?;
                    return Ok(());
                }
                taken.push(Arc::new(logged));
            }
        }
    }

    /// Lets go of sessions that nobody holds or watches and that have had nothing to do for so long: they are opened
    /// from their logs when they are next wanted.
    pub fn rest(&self, idle: Duration) {
        let now = self.inner.ports.clock.now();
        let resting: Vec<_> = {
            let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.extract_if(|_, live| Arc::strong_count(live) == 1 && live.rests(now, idle)).collect()
        };
        drop(resting); // their hosts may have something to end, and need no lock for it
    }

    /// Ends a session here for good, whatever it does: nothing more is told or logged.
    pub fn end(&self, id: &SessionId, why: &str) {
        let live = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(live) = live {
            live.end(why);
        }
    }

    /// A session that runs here already.
    pub fn live(&self, id: &SessionId) -> Option<Handle> {
        self.running(id).map(|live| Handle { live })
    }

    /// How many sessions are held in memory.
    pub fn live_sessions(&self) -> usize {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn running(&self, id: &SessionId) -> Option<Arc<Live>> {
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.get(id).is_some_and(|live| live.last_error().is_some()) {
            sessions.remove(id);
        }
        sessions.get(id).cloned()
    }

    /// Keeps a session, unless one of its id runs already. Nobody else can tell it anything before `first`.
    fn keep(&self, live: Arc<Live>, first: Option<Input>) -> Kept {
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.get(live.id()) {
            Some(running) if running.last_error().is_none() => Kept::Running(Arc::clone(running)),
            Some(_) | None => {
                if let Some(first) = first {
                    live.send(first).expect("a session that nobody has seen is open");
                }
                sessions.insert(live.id().clone(), Arc::clone(&live));
                Kept::New(live)
            }
        }
    }
}

enum Kept {
    New(Arc<Live>),
    Running(Arc<Live>),
}

async fn replay(store: &dyn Store, id: &SessionId) -> Result<(Session, Seq), DriverError> {
    let mut events: Vec<Event> = Vec::new();
    let mut seq = Seq(0);
    loop {
        let page = store.load(id, seq, LOAD_EVENTS_MAX).await?;
        let Some(last) = page.last() else { break };
        seq = last.seq;
        events.extend(page.into_iter().map(|logged| logged.event));
    }
    if events.is_empty() {
        return Err(StoreError::NotFound(id.clone()).into());
    }
    let session =
        Session::replay(&events).map_err(|error| DriverError::BadLog(id.clone(), error.to_string()))?;
    Ok((session, seq))
}

/// All that a face holds of a session. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    live: Arc<Live>,
}

impl Handle {
    /// Which session.
    pub fn id(&self) -> &SessionId {
        self.live.id()
    }

    /// Tells the session something. Never blocks; what came of it arrives as updates.
    ///
    /// # Errors
    /// When the session ended for good.
    pub fn send(&self, input: Input) -> Result<(), DriverError> {
        self.live.send(input)
    }

    /// Everything logged after `after`, once and in order, then whatever comes; deltas only as they happen.
    pub fn subscribe(&self, after: Seq) -> Updates {
        self.live.subscribe(after)
    }

    /// Answers a question; says whether it was still open. A secret goes to the program that asked and nowhere
    /// else: the log has only that it was given.
    pub fn answer(&self, id: QuestionId, answer: Answer) -> bool {
        self.live.answer_question(id, answer)
    }

    /// The session's terminal, where its host has one.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.live.terminal()
    }

    /// The last event that is durable.
    pub fn last_seq(&self) -> Seq {
        self.live.last_seq()
    }

    /// Why the session ended for good, if it did.
    pub fn last_error(&self) -> Option<String> {
        self.live.last_error()
    }
}
