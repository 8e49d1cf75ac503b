//! Sessions over HTTP: the WebSocket, SSE with POST, who may do what, and the door for tools that clients lend.
//!
//! It knows no model and no machine: sessions come through the port [`Rooms`], and who may enter is decided by a
//! [`Guard`]. It decides nothing about a session either: what clients say becomes inputs, what happens becomes
//! messages.
#![warn(missing_docs)]

mod act;
pub mod audit;
pub mod auth;
mod door;
mod follow;
mod guard;
mod house;
mod http;
mod lent;
pub mod limits;
mod metrics;
mod rooms;
mod socket;
pub mod spans;
mod sse;
pub mod tls;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::door::Peer;
pub use self::guard::{Anyone, Caller, Guard, Scope};
pub use self::lent::LentSettings;
pub use self::rooms::{Artefact, Found, RoomError, Rooms, Wish, Wrap};
pub use self::socket::SocketSettings;

use self::house::House;
use self::http::Chats;
use self::limits::Doors;
use self::metrics::Metrics;

/// How long requests, sockets and streams may take to come to their end once the server is asked to end.
const DRAIN: Duration = Duration::from_secs(5);

/// How a server works.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The most bytes of a request's body.
    pub body_bytes_max: usize,
    /// How long the body of a request may be on its way.
    pub body_wait: Duration,
    /// Times of sockets.
    pub socket: SocketSettings,
    /// Bounds of what clients lend.
    pub lent: LentSettings,
    /// How long a session that nobody is connected to is kept in memory when it has nothing to do.
    pub idle: Duration,
    /// Who makes spans of what sessions do, where somebody wants them.
    pub spans: Option<Arc<spans::Spans>>,
    /// How long `/readyz` says no before anything is ended.
    pub notice: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            body_wait: Duration::from_secs(30),
            socket: SocketSettings::default(),
            lent: LentSettings::default(),
            idle: Duration::from_secs(60),
            spans: None,
            notice: Duration::from_millis(500),
        }
    }
}

/// A server. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) house: House,
    pub(crate) chats: Chats,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) settings: ServerSettings,
    /// Which process this is, for clients that come back.
    pub(crate) instance: String,
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
        let metrics = Arc::new(Metrics::new());
        let inner = Inner {
            house: House::new(rooms, settings.lent.clone(), Arc::clone(&metrics)),
            chats: Chats::default(),
            metrics,
            guard,
            settings,
            instance: uuid::Uuid::new_v4().to_string(),
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
            inner.drain().await;
            tokio::time::sleep(DRAIN).await;
        };
        let served = async {
            // Sockets and streams see to it themselves before.
            let patience = inner.settings.socket.write + 2 * inner.settings.socket.last_words;
            doors.serve(self.router(), inner.closing.clone(), patience).await;
            inner.sockets.wait().await;
        };
        tokio::select! {
            () = self.inner.keep_house() => {}
            () = served => {}
            () = drain => {}
        }
        // Where the last socket ended first.
        self.inner.house.rooms.leave().await;
    }
}

impl Inner {
    /// Whether new work is taken.
    pub(crate) fn is_open(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    /// Lets go of idle sessions now and then; never returns.
    async fn keep_house(&self) {
        let idle = self.settings.idle;
        let mut look =
            tokio::time::interval((idle / 4).clamp(Duration::from_millis(100), Duration::from_secs(30)));
        loop {
            look.tick().await;
            self.house.rest(idle);
        }
    }

    /// Says first that no more work is taken, so that a balancer sends none, then ends what is open.
    async fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        tokio::time::sleep(self.settings.notice).await;
        self.sockets.close();
        self.closing.cancel();
        self.house.rooms.leave().await;
    }
}
