//! Ollama on the remote machine: models named `ollama+ssh/NAME`, reached over the connection of the session's host.
//!
//! Declares the connection as a trait ([`RemoteMachine`]); knows no ssh, starts no process and reads no environment.
//! Two transports are tried, and the first that works is used for the life of the connection:
//!
//! 1. A forwarded port ([`ollama`]): the same API as a local Ollama, with all its features.
//! 2. If the remote machine forbids forwarding, `ollama run` on that machine ([`ollama_run`]): the conversation as one
//!    prompt on standard input ([`prompt`]), tools by the text protocol, and the output cleaned of terminal noise
//!    ([`ollama_run_output`]).

use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

mod commands;
pub(crate) mod ollama;
pub(crate) mod ollama_run;
mod ollama_run_output;
mod prompt;

/// Error text for a remote model in a session without a remote machine.
pub const NO_REMOTE_MACHINE: &str = "ollama+ssh needs a host: --host DEST or [connection] in the config";

/// Machine that runs `ollama+ssh` models, reached over the connection of the session's host.
///
/// One value stands for one connection: what was learned about the connection (such as forwarding being forbidden)
/// lives as long as the value. The next call reconnects a broken connection.
#[async_trait]
pub trait RemoteMachine: Send + Sync {
    /// Returns a local loopback address that leads to `to` (`host:port`, IPv6 in brackets) as seen from the remote
    /// machine.
    ///
    /// # Errors
    /// [`RemoteError::Forbidden`] if the remote machine forbids forwarding, else [`RemoteError::Failed`].
    async fn forward(&self, to: &str) -> Result<ForwardedPort, RemoteError>;

    /// Runs a command on the remote machine with `input` as its whole standard input. The stream yields output as it
    /// arrives, then exactly one [`RemoteEvent::Exited`] or [`RemoteEvent::Disconnected`].
    ///
    /// `command` is one line for a POSIX `sh`, whatever the login shell. Nothing runs before the first poll; dropping
    /// the stream kills the command and its children.
    fn pipe(&self, command: &str, input: Vec<u8>) -> BoxStream<'static, RemoteEvent>;

    /// Returns `OLLAMA_HOST` of the remote machine, or `None` if unset there.
    ///
    /// # Errors
    /// The remote machine cannot be asked.
    async fn ollama_host(&self) -> Result<Option<String>, RemoteError>;
}

impl std::fmt::Debug for dyn RemoteMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FarMachine")
    }
}

/// Event of a command on the remote machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEvent {
    /// Bytes of standard output.
    Stdout(Bytes),
    /// Bytes of standard error.
    Stderr(Bytes),
    /// Exit code, or `None` if a signal killed the command. The last event.
    Exited(Option<i32>),
    /// The connection broke or was never made, so the progress of the command is unknown. Holds one sentence. The last
    /// event. As the only event it is shown to the user; after output, a command that is safe to repeat is run again.
    Disconnected(String),
}

/// Failure of the remote machine; one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Denied by policy; retrying is useless.
    #[error("{0}")]
    Forbidden(String),
    /// Failed; may succeed later.
    #[error("{0}")]
    Failed(String),
}

/// A forwarded port, open until dropped.
pub struct ForwardedPort {
    address: SocketAddr,
    _tunnel: Box<dyn Send + Sync>,
}

impl ForwardedPort {
    /// Takes the local address and a guard that keeps the port open.
    pub fn new(address: SocketAddr, tunnel: impl Send + Sync + 'static) -> Self {
        Self { address, _tunnel: Box::new(tunnel) }
    }

    /// Local address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for ForwardedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Forwarded").field(&self.address).finish()
    }
}
