//! Sessions over HTTP: the WebSocket, SSE with POST, who may do what, and the door for tools that clients lend.
//!
//! It knows no model and no machine: sessions come through the port [`SessionBackend`], and who may enter is decided by a
//! [`Authenticator`]. It decides nothing about a session either: what clients say becomes inputs, what happens becomes
//! messages.
#![warn(missing_docs)]

pub mod audit;
pub mod auth;
mod authenticator;
mod backend;
mod client_tools;
mod dispatch;
mod http;
pub mod limits;
mod metrics;
mod peer;
mod registry;
mod session_feed;
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

pub use self::authenticator::{AllowAll, Authenticator, Caller, Scope, TokenOrigin};
pub use self::backend::{
    Artifact, BackendError, CreateSession, HostDecorator, OpenedSession, SessionBackend,
};
pub use self::client_tools::ClientToolSettings;
pub use self::peer::Peer;
pub use self::socket::SocketSettings;

use self::http::Chats;
use self::limits::Listener;
use self::metrics::Metrics;
use self::registry::SessionRegistry;

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
    pub client_tools: ClientToolSettings,
    /// How long a session that nobody is connected to is kept in memory when it has nothing to do.
    pub idle: Duration,
    /// Who makes spans of what sessions do, where somebody wants them.
    pub spans: Option<Arc<spans::SpanRecorder>>,
    /// How long `/readyz` says no before anything is ended.
    pub notice: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            body_wait: Duration::from_secs(30),
            socket: SocketSettings::default(),
            client_tools: ClientToolSettings::default(),
            idle: Duration::from_secs(60),
            spans: None,
            notice: Duration::from_millis(500),
        }
    }
}

/// A server. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<ServerInner>,
}

pub(crate) struct ServerInner {
    pub(crate) registry: SessionRegistry,
    pub(crate) chats: Chats,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
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
    pub fn new(
        backend: Arc<dyn SessionBackend>,
        authenticator: Arc<dyn Authenticator>,
        settings: ServerSettings,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let inner = ServerInner {
            registry: SessionRegistry::new(backend, settings.client_tools.clone(), Arc::clone(&metrics)),
            chats: Chats::default(),
            metrics,
            authenticator,
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
    pub async fn serve(&self, listener: Listener, stop: CancellationToken) {
        let inner = Arc::clone(&self.inner);
        let drain = async {
            stop.cancelled().await;
            inner.drain().await;
            tokio::time::sleep(DRAIN).await;
        };
        let served = async {
            // Sockets and streams see to it themselves before.
            let write_timeout = inner.settings.socket.write + 2 * inner.settings.socket.close_timeout;
            listener.serve(self.router(), inner.closing.clone(), write_timeout).await;
            inner.sockets.wait().await;
        };
        tokio::select! {
            () = self.inner.run_eviction() => {}
            () = served => {}
            () = drain => {}
        }
        // Where the last socket ended first.
        self.inner.registry.backend.leave().await;
    }
}

impl ServerInner {
    /// Whether new work is taken.
    pub(crate) fn is_open(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    /// Lets go of idle sessions now and then; never returns.
    async fn run_eviction(&self) {
        let idle = self.settings.idle;
        let mut look =
            tokio::time::interval((idle / 4).clamp(Duration::from_millis(100), Duration::from_secs(30)));
        loop {
            look.tick().await;
            self.registry.evict_idle(idle);
        }
    }

    /// Says first that no more work is taken, so that a balancer sends none, then ends what is open.
    async fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        tokio::time::sleep(self.settings.notice).await;
        self.sockets.close();
        self.closing.cancel();
        self.registry.backend.leave().await;
    }
}
