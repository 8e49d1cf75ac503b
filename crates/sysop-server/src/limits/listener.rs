//! Where connections come in: with TLS or without, so many of one peer that has shown no token, and none that says nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::write_timeout::WriteTimeout;
use super::{ConcurrencyLimiter, ConcurrencyPermit, PeerKey};
use crate::Peer;
use crate::tls::Tls;

/// How long a peer may take for the head of a request, and to say nothing between two.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// How long a peer may take to begin TLS.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many lines it may have.
const HEAD_LINES_MAX: usize = 100;
/// How long to wait where the system has no room for another connection.
const NO_ROOM_WAIT: Duration = Duration::from_millis(100);

/// A listener and what it asks of who connects.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    tls: Option<Tls>,
    unauthenticated: ConcurrencyLimiter<PeerKey>,
}

/// A connection whose peer has shown no token yet; it counts against the peer until it does.
#[derive(Debug, Clone)]
pub(crate) struct UnauthenticatedSlot(Arc<Mutex<Option<ConcurrencyPermit<PeerKey>>>>);

impl UnauthenticatedSlot {
    /// A good token was shown.
    pub(crate) fn mark_authenticated(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Listener {
    /// Lets `unauthenticated` connections of one peer be there at a time that have shown no token.
    pub fn new(listener: TcpListener, tls: Option<Tls>, unauthenticated: usize) -> Self {
        Self { listener, tls, unauthenticated: ConcurrencyLimiter::new(unauthenticated) }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Hands requests to the router until `stop`; then takes no more connections, and returns when what is under way has
    /// ended. A peer that takes nothing of what it is sent for longer than `write_timeout` is let go of.
    pub async fn serve(self, router: Router, stop: CancellationToken, write_timeout: Duration) {
        let connections = TaskTracker::new();
        while let Some((stream, peer)) = self.accept(&stop).await {
            let address: IpAddr = peer.ip();
            let Some(permit) = self.unauthenticated.take(&address.into()) else { continue };
            let connection = Connection {
                peer: Peer(peer),
                unauthenticated: UnauthenticatedSlot(Arc::new(Mutex::new(Some(permit)))),
                router: router.clone(),
                stop: stop.clone(),
                write_timeout,
            };
            connections.spawn(connection.begin(stream, self.tls.clone()));
        }
        connections.close();
        connections.wait().await;
    }

    async fn accept(&self, stop: &CancellationToken) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => return None,
            };
            match accepted {
                Ok(accepted) => return Some(accepted),
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be taken");
                    tokio::time::sleep(NO_ROOM_WAIT).await;
                }
            }
        }
    }
}

/// Whether the peer had gone before its turn came.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

struct Connection {
    peer: Peer,
    unauthenticated: UnauthenticatedSlot,
    router: Router,
    stop: CancellationToken,
    /// How long the peer may take nothing of what it is sent.
    write_timeout: Duration,
}

impl Connection {
    async fn begin(self, stream: TcpStream, tls: Option<Tls>) {
        // A delta is sent at once; without it, it is only slower.
        let _ = stream.set_nodelay(true);
        let stream = WriteTimeout::new(stream, self.write_timeout);
        let Some(tls) = tls else { return self.serve(stream).await };
        // Who speaks no TLS, or never begins, is let go of without a word.
        if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WAIT, tls.acceptor().accept(stream)).await {
            self.serve(stream).await;
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { peer, unauthenticated, router, stop, write_timeout: _ } = self;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(unauthenticated.clone());
            router.clone().oneshot(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_LINES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        // How a connection ends, its peer has seen.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::{Listener, Peer, UnauthenticatedSlot};
    use crate::tls::{Tls, TlsError};

    struct TestServer {
        address: std::net::SocketAddr,
        stop: CancellationToken,
        ended: tokio::task::JoinHandle<()>,
    }

    async fn serve(tls: Option<Tls>, unauthenticated: usize) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let router = Router::new()
            .route("/", get(|ConnectInfo(peer): ConnectInfo<Peer>| async move { peer.0.ip().to_string() }))
            .route(
                "/prove",
                get(|request: axum::extract::Request| async move {
                    request.extensions().get::<UnauthenticatedSlot>().unwrap().mark_authenticated();
                }),
            );
        let listener = Listener::new(listener, tls, unauthenticated);
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let ended = tokio::spawn(listener.serve(router, stop.clone(), Duration::from_secs(30)));
        TestServer { address, stop, ended }
    }

    /// Sends a request and reads its answer; nothing where the connection ends instead.
    async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        let mut answer = vec![0; 4096];
        if stream.write_all(request.as_bytes()).await.is_err() {
            return String::new();
        }
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut answer)).await.unwrap();
        answer.truncate(read.unwrap_or(0));
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_peer_without_a_token_has_so_many_connections() {
        let served = serve(None, 2).await;
        let connect = async || TcpStream::connect(served.address).await.unwrap();
        let (mut first, mut second) = (connect().await, connect().await);
        assert!(ask(&mut first, "/").await.ends_with("127.0.0.1"));
        assert!(ask(&mut second, "/").await.starts_with("HTTP/1.1 200"));
        assert_eq!(ask(&mut connect().await, "/").await, "", "the third is closed");
        assert!(ask(&mut first, "/prove").await.starts_with("HTTP/1.1 200"));
        assert!(
            ask(&mut connect().await, "/").await.starts_with("HTTP/1.1 200"),
            "who shows a token counts no more"
        );
        assert!(ask(&mut first, "/").await.starts_with("HTTP/1.1 200"));
        served.stop.cancel();
        tokio::time::timeout(Duration::from_secs(30), served.ended).await.unwrap().unwrap();
        assert!(TcpStream::connect(served.address).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_let_go_of() {
        let served = serve(None, 10).await;
        for said in ["", "GET / HTTP/1.1\r\nx: "] {
            let mut slow = TcpStream::connect(served.address).await.unwrap();
            slow.write_all(said.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(120), slow.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{said:?}");
        }
    }

    #[tokio::test]
    async fn another_protocol_is_no_request() {
        let served = serve(None, 10).await;
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        for said in [preface, "hello\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            let read = tokio::time::timeout(Duration::from_secs(30), read).await.expect("it ends");
            let answer = String::from_utf8_lossy(&answer);
            assert!(read.is_err() || answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
        }
    }

    /// Writes a certificate for `localhost` and its key into a folder.
    fn certify(folder: &Path) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    async fn ask_by_tls(
        address: std::net::SocketAddr,
        trusted: &CertificateDer<'static>,
    ) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
        Ok(ask(&mut stream, "/").await)
    }

    #[tokio::test]
    async fn a_certificate_is_replaced_while_the_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let first = certify(folder.path());
        let tls = Tls::load(&certificate, &key).unwrap();
        let served = serve(Some(tls.clone()), 10).await;
        assert!(ask_by_tls(served.address, &first).await.unwrap().starts_with("HTTP/1.1 200"));
        let mut plain = TcpStream::connect(served.address).await.unwrap();
        assert!(!ask(&mut plain, "/").await.starts_with("HTTP"), "who speaks no TLS is not answered");

        let second = certify(folder.path());
        assert!(ask_by_tls(served.address, &first).await.is_ok(), "not before it is told to");
        tls.reload().unwrap();
        assert!(ask_by_tls(served.address, &first).await.is_err());
        assert!(ask_by_tls(served.address, &second).await.unwrap().starts_with("HTTP/1.1 200"));

        std::fs::write(&key, "nothing").unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::File { .. })));
        assert!(ask_by_tls(served.address, &second).await.is_ok(), "what cannot be used changes nothing");
    }

    #[test]
    fn what_is_wrong_with_the_files_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let error = Tls::load(&path("cert.pem"), &path("key.pem")).unwrap_err();
        assert!(error.to_string().contains("cert.pem"), "{error}");
        certify(folder.path());
        std::fs::rename(path("key.pem"), path("old.pem")).unwrap();
        certify(folder.path());
        let error = Tls::load(&path("cert.pem"), &path("old.pem")).unwrap_err();
        assert!(matches!(error, TlsError::Pair { .. }), "{error}");
        let error = Tls::load(&path("key.pem"), &path("old.pem")).unwrap_err();
        assert!(error.to_string().contains("a certificate"), "{error}");
    }
}
