//! Sessions over HTTP: the WebSocket, SSE with POST, who may do what, and the door for tools that clients lend.
//!
//! It knows no model and no machine: sessions come through the port [`Rooms`], and who may enter is decided by a
//! [`Guard`]. It decides nothing about a session either: what clients say becomes inputs, what happens becomes
//! messages.
#![warn(missing_docs)]

pub mod audit;
pub mod auth;
mod door;
mod guard;
mod house;
mod http;
pub mod limits;
mod rooms;
pub mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::door::Peer;
pub use self::guard::{Anyone, Caller, Guard, Scope};
pub use self::rooms::{RoomError, Rooms, Wish, Wrap};

use self::house::House;
use self::limits::Doors;

/// How long requests, sockets and streams may take to come to their end once the server is asked to end.
const DRAIN: Duration = Duration::from_secs(5);

/// How a server works.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The most bytes of a request's body.
    pub body_bytes_max: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self { body_bytes_max: 1024 * 1024 }
    }
}

/// A server. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) house: House,
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) settings: ServerSettings,
    /// No new work: the server is about to end.
    draining: AtomicBool,
    /// Sockets and streams come to their end.
    pub(crate) closing: CancellationToken,
    /// Sockets, which nobody else waits for.
    pub(crate) sockets: TaskTracker,
}

impl Server {
    /// Puts a server together; it opens nothing yet.
    pub fn new(rooms: Arc<dyn Rooms>, guard: Arc<dyn Guard>, settings: ServerSettings) -> Self {
        let inner = Inner {
            house: House::new(rooms),
            guard,
            settings,
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            sockets: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// All routes.
    pub fn router(&self) -> Router {
        http::router(&self.inner)
    }

    /// Serves until `stop`; then takes nothing new, ends what is under way, and returns within some seconds.
    pub async fn serve(&self, doors: Doors, stop: CancellationToken) {
        let inner = Arc::clone(&self.inner);
        let drain = async {
            stop.cancelled().await;
            inner.drain();
            tokio::time::sleep(DRAIN).await;
        };
        let served = async {
            doors.serve(self.router(), inner.closing.clone()).await;
            inner.sockets.wait().await;
        };
        tokio::select! {
            () = served => {}
            () = drain => {}
        }
    }
}

impl Inner {
    /// Whether new work is taken.
    pub(crate) fn is_open(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.sockets.close();
        self.closing.cancel();
    }
}
