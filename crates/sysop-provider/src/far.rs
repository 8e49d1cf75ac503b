//! Ollama on the far machine: models named `ollama+ssh/NAME`, reached over the connection of the session's host.
//!
//! Declares what it needs of that connection ([`FarMachine`]); knows no ssh, starts no process and reads no
//! environment of its own. Two ways lead to the models, and the first that works is kept for the connection:
//!
//! 1. A forwarded port ([`link`]): the same API as that of an Ollama on this machine, with all that it can do.
//! 2. Where the far machine forwards nothing, `ollama run` there ([`pipe`]): the conversation as one prompt on its
//!    standard input ([`prompt`]), tools by the text protocol, and its output without the terminal noise
//!    ([`noise`]).

use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

pub(crate) mod link;
mod noise;
pub(crate) mod pipe;
mod prompt;
mod script;

/// What there is to say where a model of the far machine is asked for and there is no far machine.
pub const NO_FAR_MACHINE: &str = "ollama+ssh needs a host: --host DEST or [connection] in the config";

/// The machine that `ollama+ssh` models run on, as the connection of the session's host offers it.
///
/// One value is one connection: what was learnt of it (whether it forwards) is kept as long as it lives. A
/// connection that broke is made again by the next call.
#[async_trait]
pub trait FarMachine: Send + Sync {
    /// A loopback address here that leads to `to` (`host:port`, an IPv6 address in brackets) as seen from there.
    ///
    /// # Errors
    /// [`FarError::Refused`] where the far machine does not allow forwarding, [`FarError::Failed`] for all else.
    async fn forward(&self, to: &str) -> Result<Forwarded, FarError>;

    /// Runs a command there with these bytes as its standard input, which then ends. The stream gives what it
    /// prints as it comes, then exactly one [`FarEvent::Ended`] or [`FarEvent::Broken`].
    ///
    /// `command` is one line for a POSIX `sh`, whatever the login shell is. Nothing runs before the first poll;
    /// dropping the stream ends the command with all that it started.
    fn pipe(&self, command: &str, input: Vec<u8>) -> BoxStream<'static, FarEvent>;

    /// The far machine's `OLLAMA_HOST`, if it is set there.
    ///
    /// # Errors
    /// The far machine cannot be asked.
    async fn ollama_host(&self) -> Result<Option<String>, FarError>;
}

impl std::fmt::Debug for dyn FarMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FarMachine")
    }
}

/// What a command on the far machine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FarEvent {
    /// It wrote to its standard output.
    Output(Bytes),
    /// It wrote to its standard error.
    Errors(Bytes),
    /// It ended by itself, with its exit code; none where a signal killed it. The last event.
    Ended(Option<i32>),
    /// The connection broke, or was never made; nobody knows how far the command came. One sentence; the last
    /// event. As the first event it is told to the person; behind others, a command that may be run again is.
    Broken(String),
}

/// Why the far machine did not do it; one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FarError {
    /// Its policy forbids it; asking again is no use.
    #[error("{0}")]
    Refused(String),
    /// It could not; it may the next time.
    #[error("{0}")]
    Failed(String),
}

/// A way through to a port on the far machine; open until it is dropped.
pub struct Forwarded {
    address: SocketAddr,
    _tunnel: Box<dyn Send + Sync>,
}

impl Forwarded {
    /// Takes the address here, and what keeps the way open.
    pub fn new(address: SocketAddr, tunnel: impl Send + Sync + 'static) -> Self {
        Self { address, _tunnel: Box::new(tunnel) }
    }

    /// The address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Forwarded").field(&self.address).finish()
    }
}
