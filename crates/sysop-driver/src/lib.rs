//! Runs sessions: appends the events that the core decides, publishes them, and performs its effects.
//!
//! An event is durable before anyone sees it, and published before its effects are performed. This crate knows no
//! vendor: models, machines, stores and clocks are reached through the traits in [`port`]. An idle session is an entry
//! in a map; a task exists only while inputs are processed. Each of the nodes that share a store ([`cluster`]) runs the
//! sessions that it owns, and follows sessions of the other nodes.
//!
//! Start reading at `driver.rs` (creating, opening and finding sessions) and `live.rs` (one session at work).

mod call_output;
mod clock;
pub mod cluster;
mod driver;
mod eviction;
pub mod frontend;
pub mod hooks;
mod hub;
mod lease;
mod live;
pub mod port;
pub mod prompter;
mod questions;
mod queue_limits;
mod replay;
pub mod search;
mod speculate;
mod stream_batch;
pub mod tokens;

use std::sync::Arc;

use sysop_core::id::{SessionId, TurnId};

pub use self::clock::system_clock;
pub use self::cluster::RuntimeFactory;
pub use self::driver::{Driver, Handle};
pub use self::eviction::IDLE_SESSIONS_MAX;
use self::hooks::SessionHooks;
pub use self::hub::Updates;
use self::port::{Clock, Host, InstructionReader, Provider, Store, StoreError};
pub use self::queue_limits::QUEUE_IS_FULL;
pub use self::replay::replay;

/// Maximum events per page read from the store.
const LOAD_EVENTS_MAX: usize = 8192;

/// Ports shared by all sessions of a driver.
#[derive(Clone)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
}

/// Ports of one session. They belong together, because a session's models may run on its host.
#[derive(Clone)]
pub struct Runtime {
    pub host: Arc<dyn Host>,
    pub provider: Arc<dyn Provider>,
    /// Reads instructions for the model; `None` if there are none.
    pub instructions: Option<Arc<dyn InstructionReader>>,
    /// Asks and informs the user's hooks; `None` if there are none.
    pub hooks: Option<Arc<dyn SessionHooks>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session has ended for good; the text is the reason.
    #[error("{0}")]
    Closed(String),
    /// The session accepts no more inputs of this kind for now; the text is the reason.
    #[error("{0}")]
    QueueFull(String),
    #[error("session {0} has no turn {1}")]
    NoTurn(SessionId, TurnId),
    #[error("session {0} is owned by node {1}")]
    OwnedByOtherNode(SessionId, String),
    #[error("cannot read the log of session {0}: {1}")]
    BadLog(SessionId, String),
}
