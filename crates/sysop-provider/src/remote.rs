//! Ollama on the remote machine: models named `ollama+ssh/NAME`, reached over the connection of the session's host.
//!
//! Declares what it needs of that connection ([`RemoteMachine`]); knows no ssh, starts no process and reads no
//! environment of its own. Two ways lead to the models, and the first that works is kept for the connection:
//!
//! 1. A forwarded port ([`ollama`]): the same API as that of an Ollama on this machine, with all that it can do.
//! 2. Where the remote machine forwards nothing, `ollama run` there ([`ollama_run`]): the conversation as one prompt on its
//!    standard input ([`prompt`]), tools by the text protocol, and its output without the terminal noise
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

/// What there is to say where a model of the remote machine is asked for and there is no remote machine.
pub const NO_REMOTE_MACHINE: &str = "ollama+ssh needs a host: --host DEST or [connection] in the config";

/// The machine that `ollama+ssh` models run on, as the connection of the session's host offers it.
///
/// One value is one connection: what was learnt of it (whether it forwards) is kept as long as it lives. A
/// connection that broke is made again by the next call.
#[async_trait]
pub trait RemoteMachine: Send + Sync {
    /// A loopback address here that leads to `to` (`host:port`, an IPv6 address in brackets) as seen from there.
    ///
    /// # Errors
    /// [`RemoteError::Forbidden`] where the remote machine does not allow forwarding, [`RemoteError::Failed`] for all else.
    async fn forward(&self, to: &str) -> Result<ForwardedPort, RemoteError>;

    /// Runs a command there with these bytes as its standard input, which then ends. The stream gives what it
    /// prints as it comes, then exactly one [`RemoteEvent::Exited`] or [`RemoteEvent::Disconnected`].
    ///
    /// `command` is one line for a POSIX `sh`, whatever the login shell is. Nothing runs before the first poll;
    /// dropping the stream ends the command with all that it started.
    fn pipe(&self, command: &str, input: Vec<u8>) -> BoxStream<'static, RemoteEvent>;

    /// The remote machine's `OLLAMA_HOST`, if it is set there.
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

/// What a command on the remote machine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEvent {
    /// It wrote to its standard output.
    Stdout(Bytes),
    /// It wrote to its standard error.
    Stderr(Bytes),
    /// It ended by itself, with its exit code; none where a signal killed it. The last event.
    Exited(Option<i32>),
    /// The connection broke, or was never made; nobody knows how far the command came. One sentence; the last
    /// event. As the first event it is told to the person; behind others, a command that may be run again is.
    Disconnected(String),
}

/// Why the remote machine did not do it; one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Its policy forbids it; asking again is no use.
    #[error("{0}")]
    Forbidden(String),
    /// It could not; it may the next time.
    #[error("{0}")]
    Failed(String),
}

/// A way through to a port on the remote machine; open until it is dropped.
pub struct ForwardedPort {
    address: SocketAddr,
    _tunnel: Box<dyn Send + Sync>,
}

impl ForwardedPort {
    /// Takes the address here, and what keeps the way open.
    pub fn new(address: SocketAddr, tunnel: impl Send + Sync + 'static) -> Self {
        Self { address, _tunnel: Box::new(tunnel) }
    }

    /// The address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for ForwardedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Forwarded").field(&self.address).finish()
    }
}
