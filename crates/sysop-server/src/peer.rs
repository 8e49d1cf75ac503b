//! Address of the connection that a request came over.

use std::net::SocketAddr;

/// Address of the peer; behind a proxy, the proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);
