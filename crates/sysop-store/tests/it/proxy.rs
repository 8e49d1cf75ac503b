//! A proxy to a server that can be closed at the worst moment.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Treatment of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    Open,
    /// Drops the server's next answer and its connection, then opens again.
    DropNextAnswer,
    /// Closes all connections, existing and new.
    Closed,
}

/// A proxy between a socket of its own and the socket of a server.
pub(crate) struct Proxy {
    folder: tempfile::TempDir,
    mode: watch::Sender<ProxyMode>,
    /// Number of connections so far.
    pub(crate) connections: Arc<AtomicUsize>,
}

const SOCKET: &str = ".s.PGSQL.5432";

impl Proxy {
    pub(crate) fn to(server: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (mode, _) = watch::channel(ProxyMode::Open);
        let (modes, server) = (mode.clone(), server.join(SOCKET));
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                if *modes.borrow() == ProxyMode::Closed {
                    continue;
                }
                let Ok(upstream) = UnixStream::connect(&server).await else { continue };
                tokio::spawn(relay(client, upstream, modes.clone()));
            }
        });
        Self { folder, mode, connections }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the answer was dropped.
    pub(crate) async fn wait_for_drop(&self) {
        let mut modes = self.mode.subscribe();
        modes.wait_for(|mode| *mode != ProxyMode::DropNextAnswer).await.expect("the door is here");
    }

    pub(crate) fn set(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
    }
}

async fn relay(client: UnixStream, server: UnixStream, mode: watch::Sender<ProxyMode>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut modes = mode.subscribe();
    tokio::select! {
        // Data that arrives after closing is not forwarded, even if the copy task has not noticed the change.
        () = copy(from_client, to_server, |_| *mode.borrow() != ProxyMode::Closed) => {}
        () = copy(from_server, to_client, |_| !mode.send_if_modified(|now| {
            let dropping = *now == ProxyMode::DropNextAnswer;
            if dropping {
                *now = ProxyMode::Open;
            }
            dropping
        })) => {}
        _ = modes.wait_for(|now| *now == ProxyMode::Closed) => {}
    }
}

/// Copies until the end, or until a chunk must not pass.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, may_pass: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = from.read(&mut buffer).await
        && length > 0
        && may_pass(&buffer[..length])
        && to.write_all(&buffer[..length]).await.is_ok()
    {}
}
