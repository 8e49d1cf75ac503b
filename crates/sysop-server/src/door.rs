//! Where connections come in.

use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener, ListenerExt};
use tokio::net::TcpListener;

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// A listener for connections without TLS. Nothing waits in them for more to come: a delta is sent at once.
pub fn plain(listener: TcpListener) -> impl Listener<Addr = SocketAddr> {
    listener.tap_io(|stream| {
        // Without it, it is only slower.
        let _ = stream.set_nodelay(true);
    })
}

/// Tells handlers who is at the other end, whatever the listener.
pub(crate) struct Door<L>(pub(crate) L);

impl<L> Listener for Door<L>
where
    L: Listener<Addr = SocketAddr>,
{
    type Io = L::Io;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        self.0.accept().await
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

impl<L> Connected<IncomingStream<'_, Door<L>>> for Peer
where
    L: Listener<Addr = SocketAddr>,
{
    fn connect_info(stream: IncomingStream<'_, Door<L>>) -> Self {
        Self(*stream.remote_addr())
    }
}
