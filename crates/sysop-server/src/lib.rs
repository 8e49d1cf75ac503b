//! Sessions over HTTP: WebSocket, SSE with POST, authentication, limits, and tools that run on clients.
//!
//! The server calls no model and runs no tool itself. Sessions come from a [`SessionBackend`], and callers are
//! admitted by an [`Authenticator`]. The server makes no decision about a session either: it turns client
//! messages into inputs, and events into messages.

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
use sysop_wire::ErrorCode;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::authenticator::{AllowAll, Authenticator, Caller, PageLink, Scope, TokenOrigin};
pub use self::backend::{
    Artifact, BackendError, CreateSession, HostDecorator, OpenedSession, ServerFacts, SessionBackend,
};
pub use self::client_tools::ClientToolSettings;
pub use self::http::has_page;
pub use self::peer::Peer;
pub use self::socket::SocketSettings;

use self::http::Chats;
use self::limits::Listener;
use self::metrics::Metrics;
use self::registry::SessionRegistry;

/// Maximum time that requests, sockets and streams get to finish once shutdown begins.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub body_bytes_max: usize,
    pub body_wait: Duration,
    pub socket: SocketSettings,
    pub client_tools: ClientToolSettings,
    /// Time after which an idle session without connected clients is evicted from memory.
    pub idle: Duration,
    /// Recorder of OpenTelemetry spans, if enabled.
    pub spans: Option<Arc<spans::SpanRecorder>>,
    /// Time from the moment when `/readyz` reports the shutdown until the server closes connections, so that a load
    /// balancer notices the shutdown.
    pub notice: Duration,
    /// Reason that sockets and streams get when a server ends that does not come back. Without a reason, the end is
    /// announced as a restart, and clients reconnect.
    pub final_message: Option<String>,
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
            final_message: None,
        }
    }
}

/// An HTTP server for sessions. Clones are cheap and share the same server.
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
    /// Random id of this process. Clients that reconnect compare it to detect a restart.
    pub(crate) instance: String,
    /// True once shutdown has begun: new work is refused.
    draining: AtomicBool,
    /// Canceled when open sockets and streams must end.
    pub(crate) closing: CancellationToken,
    /// Tasks of upgraded sockets, which the HTTP connection no longer waits for.
    pub(crate) sockets: TaskTracker,
}

impl Server {
    /// Creates a server; nothing listens yet.
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

    pub fn router(&self) -> Router {
        http::router(&self.inner)
    }

    /// Serves until `stop` is canceled, then refuses new work and ends connections. Returns a few seconds later.
    pub async fn serve(&self, listener: Listener, stop: CancellationToken) {
        let inner = Arc::clone(&self.inner);
        let drain = async {
            stop.cancelled().await;
            inner.drain().await;
            tokio::time::sleep(DRAIN).await;
        };
        let served = async {
            // Longer than the timeouts of sockets and streams, which therefore detect a stalled client first.
            let write_timeout = inner.settings.socket.write + 2 * inner.settings.socket.close_timeout;
            listener.serve(self.router(), inner.closing.clone(), write_timeout).await;
            inner.sockets.wait().await;
        };
        tokio::select! {
            () = self.inner.run_eviction() => {}
            () = served => {}
            () = drain => {}
        }
        // Needed if the last socket closed before `drain` got this far.
        self.inner.registry.backend.leave().await;
    }
}

impl ServerInner {
    /// Returns true until shutdown begins.
    pub(crate) fn is_open(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    /// Returns the reason that sockets and streams get when this server ends.
    pub(crate) fn end_reason(&self) -> (ErrorCode, &str) {
        match &self.settings.final_message {
            Some(why) => (ErrorCode::NoSession, why),
            None => (ErrorCode::Draining, dispatch::DRAINING),
        }
    }

    /// Evicts idle sessions periodically; never returns.
    async fn run_eviction(&self) {
        let idle = self.settings.idle;
        let mut look =
            tokio::time::interval((idle / 4).clamp(Duration::from_millis(100), Duration::from_secs(30)));
        loop {
            look.tick().await;
            self.registry.evict_idle(idle);
        }
    }

    /// Reports the shutdown first, so that a load balancer sends no more requests. Then closes sockets and streams, and
    /// stops the sessions.
    async fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        tokio::time::sleep(self.settings.notice).await;
        self.sockets.close();
        self.closing.cancel();
        self.registry.backend.leave().await;
    }
}
