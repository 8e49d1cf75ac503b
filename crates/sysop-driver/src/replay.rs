//! Rebuilds sessions from their logs.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use sysop_core::event::Logged;
use sysop_core::id::{Seq, SessionId};
use sysop_core::session::{MissingSessionOpened, Session};

use crate::DriverError;
use crate::port::{Store, StoreError};

/// Rebuilds a session from its log. Returns the session and the position of its last event. The log is never held
/// whole: events are dropped as they are replayed.
///
/// # Errors
/// If the store fails, or the log is not that of a session.
pub async fn replay(store: &dyn Store, id: &SessionId) -> Result<(Session, Seq), DriverError> {
    let replay = Arc::new(Mutex::new(Replay::Nothing));
    let wanted = Arc::downgrade(&replay);
    let take = move |events| match wanted.upgrade() {
        Some(replay) => replay.lock().unwrap_or_else(PoisonError::into_inner).take(events),
        None => ControlFlow::Break(()), // the caller was dropped
    };
    store.read(id, Box::new(take)).await?;
    let mut replay = replay.lock().unwrap_or_else(PoisonError::into_inner);
    match std::mem::replace(&mut *replay, Replay::Nothing) {
        Replay::Nothing => Err(StoreError::NotFound(id.clone()).into()),
        Replay::Session(session, last) => Ok((*session, last)),
        Replay::Bad(error) => Err(DriverError::BadLog(id.clone(), error.to_string())),
    }
}

/// Progress of a replay.
enum Replay {
    Nothing,
    /// A session, and the position of its last event.
    Session(Box<Session>, Seq),
    Bad(MissingSessionOpened),
}

impl Replay {
    fn take(&mut self, events: Vec<Logged>) -> ControlFlow<()> {
        let Some(end) = events.last().map(|last| last.seq) else { return ControlFlow::Continue(()) };
        let events = events.into_iter().map(|logged| logged.event);
        match self {
            Self::Session(session, last) => {
                session.replay_on(events);
                *last = end;
            }
            Self::Nothing => match Session::replay(events) {
                Ok(session) => *self = Self::Session(Box::new(session), end),
                Err(error) => *self = Self::Bad(error),
            },
            Self::Bad(_) => {}
        }
        if matches!(self, Self::Bad(_)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
