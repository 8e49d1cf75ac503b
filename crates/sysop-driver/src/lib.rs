//! Runs sessions: appends what the core decides, publishes it, and performs it.
//!
//! An event is durable before anybody sees it, and seen before anything is done about it. This crate knows no vendor:
//! models, machines, stores and clocks come through the traits in [`port`]. A session with nothing to do is an entry in a
//! map; a task exists only while inputs are worked off. Nodes that share a store ([`cluster`]) each run the sessions that they
//! own and follow the others.
//!
//! Start reading at `driver.rs` (creating, opening and finding sessions) and `live.rs` (one session at work).
#![warn(missing_docs)]

mod clock;
pub mod cluster;
mod driver;
mod eviction;
pub mod frontend;
mod hub;
mod lease;
mod live;
pub mod port;
pub mod prompter;
mod questions;
mod queue_limits;
mod replay;
mod speculate;
mod stream_batch;
pub mod tokens;

use std::sync::Arc;

use sysop_core::id::{SessionId, TurnId};

pub use self::clock::system_clock;
pub use self::cluster::RuntimeFactory;
pub use self::driver::{Driver, Handle};
pub use self::eviction::IDLE_SESSIONS_MAX;
pub use self::hub::Updates;
use self::port::{Clock, Host, Provider, Store, StoreError};
pub use self::queue_limits::QUEUE_IS_FULL;
pub use self::replay::replay;

/// Events read from the store at a time.
const LOAD_EVENTS_MAX: usize = 8192;

/// What all sessions of a driver share.
#[derive(Clone)]
pub struct Ports {
    /// Keeps logs.
    pub store: Arc<dyn Store>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// What one session runs on: both belong to its host, since models may run there too.
#[derive(Clone)]
pub struct Runtime {
    /// Runs the session's tools.
    pub host: Arc<dyn Host>,
    /// Asks the session's models.
    pub provider: Arc<dyn Provider>,
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
    /// The session takes no more of this for now; the text says why.
    #[error("{0}")]
    QueueFull(String),
    /// The log has no such turn.
    #[error("session {0} has no turn {1}")]
    NoTurn(SessionId, TurnId),
    /// Another node that lives has it.
    #[error("session {0} is owned by node {1}")]
    OwnedByOtherNode(SessionId, String),
    /// The log cannot be replayed.
    #[error("cannot read the log of session {0}: {1}")]
    BadLog(SessionId, String),
}
