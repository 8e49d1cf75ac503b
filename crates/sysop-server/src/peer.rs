//! Where a request comes from.

use std::net::SocketAddr;

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);
