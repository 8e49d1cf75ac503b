//! Ollama on the remote machine: models named `ollama+ssh/NAME`, reached over the connection of the session's host.
//!
//! Declares the connection as a trait ([`RemoteMachine`]). Does not know ssh, starts no process and reads no
//! environment. A local port is forwarded to the remote server, so that the ordinary Ollama client can do everything
//! else ([`ollama`]).

use std::net::SocketAddr;

use async_trait::async_trait;

pub(crate) mod ollama;

/// Error message if a session without a remote machine uses a remote model.
pub const NO_REMOTE_MACHINE: &str = "ollama+ssh needs a host: --host DEST or [connection] in the config";

/// Machine that runs `ollama+ssh` models, reached over the connection of the session's host.
///
/// If the connection is broken, the next call reconnects it.
#[async_trait]
pub trait RemoteMachine: Send + Sync {
    /// Returns a local loopback address that leads to `to` (`host:port`, IPv6 in brackets) as seen from the
    /// remote machine. Fails with [`RemoteError::NotListening`] if it is known that nothing listens at that
    /// address, otherwise with [`RemoteError::Failed`].
    async fn forward(&self, to: &str) -> Result<ForwardedPort, RemoteError>;

    /// Returns the value of `OLLAMA_HOST` on the remote machine, or `None` if it is not set there. Fails if
    /// the remote machine cannot be queried.
    async fn ollama_host(&self) -> Result<Option<String>, RemoteError>;
}

impl std::fmt::Debug for dyn RemoteMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FarMachine")
    }
}

/// Failure of the remote machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Nothing listens at the requested address.
    #[error("nothing listens at that address")]
    NotListening,
    /// The machine cannot be reached, or the address cannot be reached from it. One sentence that says what to do next.
    #[error("{0}")]
    Failed(String),
}

/// A forwarded port, open until dropped.
pub struct ForwardedPort {
    address: SocketAddr,
    _tunnel: Box<dyn Send + Sync>,
}

impl ForwardedPort {
    /// Takes the local address and a guard, `tunnel`, that keeps the port open until it is dropped.
    pub fn new(address: SocketAddr, tunnel: impl Send + Sync + 'static) -> Self {
        Self { address, _tunnel: Box::new(tunnel) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for ForwardedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Forwarded").field(&self.address).finish()
    }
}
