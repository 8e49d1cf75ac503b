//! Accepts plain and TLS connections, caps unauthenticated ones per peer, and drops idle ones.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::lingering_close::{Linger, LingerMode, LingeringClose};
use super::peer_slots::{ConnectionSlot, PeerSlots};
use super::write_timeout::WriteTimeout;
use crate::Peer;
use crate::auth::Proxies;
use crate::tls::Tls;

/// Maximum time to receive the head of a request, and maximum idle time between requests.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// Maximum time until the first byte arrives.
const FIRST_BYTE_WAIT: Duration = Duration::from_secs(5);
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_LINES_MAX: usize = 100;
/// Delay before accepting again when the system is out of resources, such as file descriptors.
const NO_ROOM_WAIT: Duration = Duration::from_millis(100);
/// The same delay, after an idle connection has been dropped to free resources.
const ROOM_MADE_WAIT: Duration = Duration::from_millis(10);

/// Listening socket with TLS, connection limits and trusted proxies.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    tls: Option<Tls>,
    slots: Arc<PeerSlots>,
    proxies: Proxies,
}

impl Listener {
    /// Creates a listener that allows each peer `unauthenticated` simultaneous connections without a valid token.
    pub fn new(listener: TcpListener, tls: Option<Tls>, unauthenticated: usize) -> Self {
        let slots = Arc::new(PeerSlots::new(unauthenticated));
        Self { listener, tls, slots, proxies: Proxies::default() }
    }

    /// Trusts these proxies, so that a request counts for the client address that they forward.
    #[must_use]
    pub fn behind(self, proxies: Proxies) -> Self {
        Self { proxies, ..self }
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the router until `stop` is canceled. Then accepts no more connections, and returns when the
    /// existing ones have closed. Drops a peer that accepts no bytes for longer than `write_timeout`.
    pub async fn serve(self, router: Router, stop: CancellationToken, write_timeout: Duration) {
        let connections = TaskTracker::new();
        while let Some((stream, peer)) = self.accept(&stop).await {
            let connection = Connection {
                peer: Peer(peer),
                slot: self.slots.open(peer.ip().into()),
                proxies: self.proxies.clone(),
                router: router.clone(),
                stop: stop.clone(),
                write_timeout,
            };
            connections.spawn(connection.run(stream, self.tls.clone()));
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
                    tracing::error!(%error, "cannot accept connections");
                    let wait = if self.slots.make_room() { ROOM_MADE_WAIT } else { NO_ROOM_WAIT };
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// Returns true if the error concerns only the accepted connection: its peer has already disconnected.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

struct Connection {
    peer: Peer,
    slot: ConnectionSlot,
    proxies: Proxies,
    router: Router,
    stop: CancellationToken,
    /// Maximum time that a write waits while the peer accepts no data.
    write_timeout: Duration,
}

impl Connection {
    /// Serves a connection until it ends or its slot is taken for another one.
    async fn run(self, stream: TcpStream, tls: Option<Tls>) {
        let dropped = self.slot.dropped();
        tokio::select! {
            () = self.begin(stream, tls) => {}
            () = dropped.cancelled() => {}
        }
    }

    async fn begin(self, stream: TcpStream, tls: Option<Tls>) {
        // Sends deltas without delay. A failure only makes them slower.
        let _ = stream.set_nodelay(true);
        let stop = self.stop.clone();
        tokio::select! {
            speaks = first_byte(&stream) => if !speaks { return },
            () = stop.cancelled() => return,
        }
        let linger = Linger::default();
        let stream = LingeringClose::new(WriteTimeout::new(stream, self.write_timeout), linger.clone());
        let Some(tls) = tls else { return self.serve(stream, linger).await };
        // A failed or late handshake closes the connection without a response.
        tokio::select! {
            begun = tokio::time::timeout(HANDSHAKE_WAIT, tls.acceptor().accept(stream)) => {
                if let Ok(Ok(stream)) = begun {
                    self.serve(stream, linger).await;
                }
            }
            () = stop.cancelled() => {}
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, linger: Linger) {
        let Self { peer, slot, proxies, router, stop, write_timeout: _ } = self;
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(slot.unauthenticated().clone());
            let has_body = !request.body().is_end_stream();
            let far = proxies.client_address(peer.0, request.headers()).address;
            slot.unauthenticated().count_for(far.into());
            let (slot, linger, router) = (slot.unauthenticated().clone(), linger.clone(), router.clone());
            async move {
                let answered = router.oneshot(request).await?;
                slot.count_for(peer.0.ip().into());
                // The body of a refused request may be unread.
                let refused = answered.status().is_client_error() || answered.status().is_server_error();
                linger.set(if has_body && refused { LingerMode::UntilRead } else { LingerMode::Off });
                Ok::<_, Infallible>(answered)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_LINES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        // Errors of a connection are ignored: there is nobody left to report them to.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        linger.set(LingerMode::Off);
        let _ = connection.await;
    }
}

/// Waits for the first byte and leaves it unread. Returns false if the peer closes or takes longer than
/// [`FIRST_BYTE_WAIT`].
async fn first_byte(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(tokio::time::timeout(FIRST_BYTE_WAIT, stream.peek(&mut first)).await, Ok(Ok(1..)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::http::StatusCode;
    use axum::routing::{get, post};
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::{FIRST_BYTE_WAIT, Listener, Peer, Proxies};
    use crate::limits::UnauthenticatedSlot;
    use crate::tls::{Tls, TlsError};

    struct TestServer {
        address: std::net::SocketAddr,
        stop: CancellationToken,
        ended: tokio::task::JoinHandle<()>,
    }

    async fn serve(tls: Option<Tls>, unauthenticated: usize) -> TestServer {
        serve_behind(Proxies::default(), tls, unauthenticated).await
    }

    async fn serve_behind(proxies: Proxies, tls: Option<Tls>, unauthenticated: usize) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let router = Router::new()
            .route("/", get(|ConnectInfo(peer): ConnectInfo<Peer>| async move { peer.0.ip().to_string() }))
            .route(
                "/prove",
                get(|request: axum::extract::Request| async move {
                    request.extensions().get::<UnauthenticatedSlot>().unwrap().mark_authenticated();
                }),
            )
            .route("/read", post(|body: axum::body::Bytes| async move { body.len().to_string() }))
            .route("/refuse", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "too large") }));
        let listener = Listener::new(listener, tls, unauthenticated).behind(proxies);
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let ended = tokio::spawn(listener.serve(router, stop.clone(), Duration::from_secs(30)));
        TestServer { address, stop, ended }
    }

    /// Sends a request and reads its response; returns an empty string if the connection is closed instead.
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
    async fn connections_of_a_peer_without_a_token_are_limited() {
        let served = serve(None, 2).await;
        let connect = async || TcpStream::connect(served.address).await.unwrap();
        let (mut first, mut second) = (connect().await, connect().await);
        assert!(ask(&mut first, "/").await.ends_with("127.0.0.1"));
        assert!(ask(&mut second, "/").await.starts_with("HTTP/1.1 200"));
        assert!(ask(&mut first, "/prove").await.starts_with("HTTP/1.1 200"));
        let mut third = connect().await;
        assert!(ask(&mut third, "/").await.starts_with("HTTP/1.1 200"));
        let mut fourth = connect().await;
        assert!(ask(&mut fourth, "/").await.starts_with("HTTP/1.1 200"));
        assert_eq!(ask(&mut second, "/").await, "", "the longest idle connection is dropped");
        assert!(
            ask(&mut connect().await, "/").await.starts_with("HTTP/1.1 200"),
            "an authenticated connection no longer counts"
        );
        assert!(ask(&mut first, "/").await.starts_with("HTTP/1.1 200"));
        served.stop.cancel();
        tokio::time::timeout(Duration::from_secs(30), served.ended).await.unwrap().unwrap();
        assert!(TcpStream::connect(served.address).await.is_err());
    }

    /// Waits until the server closes a connection without sending anything.
    async fn closed(stream: &mut TcpStream) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(120), stream.read_to_end(&mut rest)).await;
        let read = read.expect("the server closes the connection");
        assert!(rest.is_empty(), "{read:?} {}", String::from_utf8_lossy(&rest));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_dropped() {
        let served = serve(None, 10).await;
        let began = tokio::time::Instant::now();
        closed(&mut TcpStream::connect(served.address).await.unwrap()).await;
        let waited = began.elapsed();
        assert!(waited >= FIRST_BYTE_WAIT && waited < FIRST_BYTE_WAIT * 2, "{waited:?}");
        let mut slow = TcpStream::connect(served.address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(120), slow.read_to_end(&mut rest)).await;
        assert!(ended.is_ok());
    }

    #[tokio::test]
    async fn connections_with_incomplete_requests_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = certify(folder.path());
        let tls = Tls::load(&folder.path().join("cert.pem"), &folder.path().join("key.pem")).unwrap();
        let login = "POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n123";
        let dribbled = "GET / HTTP/1.1\r\nhost: a\r\nx: ";
        let hello = "\x16\x03\x01\x02\x00\x01\x00";
        for (tls, said) in
            [(None, ""), (None, dribbled), (None, login), (Some(tls.clone()), ""), (Some(tls), hello)]
        {
            let served = serve(tls.clone(), 3).await;
            let mut silent = Vec::new();
            for _ in 0..5 {
                let mut stream = TcpStream::connect(served.address).await.unwrap();
                stream.write_all(said.as_bytes()).await.unwrap();
                silent.push(stream);
            }
            for stream in &mut silent[..2] {
                closed(stream).await;
            }
            let answer = match &tls {
                Some(_) => ask_by_tls(served.address, &trusted).await.unwrap(),
                None => ask(&mut TcpStream::connect(served.address).await.unwrap(), "/").await,
            };
            assert!(answer.starts_with("HTTP/1.1 200"), "{said:?}: {answer}");
            closed(&mut silent[2]).await;
        }
    }

    #[tokio::test]
    async fn behind_a_proxy_each_address_has_its_own_limit() {
        let served = serve_behind(Proxies::here(), None, 2).await;
        let connect = async |far: &str, said: &str| {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let head =
                format!("POST /read HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {far}\r\ncontent-length: 2\r\n");
            // `100 Continue` shows that the server has read the head.
            let head = format!("{head}expect: 100-continue\r\n\r\n{said}");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 25];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream
        };
        let mut other = connect("192.0.2.1", "").await;
        let mut crowd = Vec::new();
        for _ in 0..4 {
            crowd.push(connect("192.0.2.2", "").await);
        }
        for stream in &mut crowd[..2] {
            closed(stream).await;
        }
        other.write_all(b"ab").await.unwrap();
        let mut answer = [0; 12];
        other.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }

    /// Sends a complete request with a large body before reading; returns the response, read to its end.
    async fn refused(address: std::net::SocketAddr, lines: &str, pieces: usize) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /refuse HTTP/1.1\r\nhost: a\r\n{lines}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let piece = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        for _ in 0..pieces {
            stream.write_all(&piece).await.expect("the server takes what it throws away");
        }
        let mut answer = String::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut answer)).await;
        read.expect("it ends").expect("it is not reset");
        answer
    }

    #[tokio::test]
    async fn a_client_that_is_still_sending_reads_its_rejection() {
        let served = serve(None, 10).await;
        for lines in ["content-length: 99999999", "transfer-encoding: chunked"] {
            let answer = refused(served.address, lines, 200).await;
            assert!(answer.starts_with("HTTP/1.1 413") && answer.ends_with("too large"), "{lines}: {answer}");
        }
    }

    #[tokio::test]
    async fn other_protocols_are_rejected() {
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

    /// Writes a certificate for `localhost` and its key to a directory.
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
        assert!(!ask(&mut plain, "/").await.starts_with("HTTP"), "plain HTTP gets no response");

        let second = certify(folder.path());
        assert!(
            ask_by_tls(served.address, &first).await.is_ok(),
            "the old certificate is used until the reload"
        );
        tls.reload().unwrap();
        assert!(ask_by_tls(served.address, &first).await.is_err());
        assert!(ask_by_tls(served.address, &second).await.unwrap().starts_with("HTTP/1.1 200"));

        std::fs::write(&key, "nothing").unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::File { .. })));
        assert!(ask_by_tls(served.address, &second).await.is_ok(), "unusable files change nothing");
    }

    #[test]
    fn unusable_tls_files_are_reported() {
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
