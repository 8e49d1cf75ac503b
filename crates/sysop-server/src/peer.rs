//! Address of the connection that a request came over.

use std::net::SocketAddr;

/// Address of the peer. Behind a proxy, this is the address of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);
