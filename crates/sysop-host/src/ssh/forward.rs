//! Forwards a local port to a port that the remote host can reach, for as long as the [`PortForward`] exists.
//!
//! sysop listens on the local port itself, and opens a channel of the shared connection for each client. With `ssh -L`,
//! sysop would have to find a free port number first, and could not report why a single channel was refused. If the
//! server forbids forwarding, a program on the host makes each connection instead (`relay`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::{ConnectionInner, SshConnection};
use super::error::{SshError, last_line};
use super::mux::{MuxChannel, MuxError, open_forward};
use super::relay::RelayProgram;
use super::session::SILENT;
use crate::pipe::{blocking_pipe, sized_pipe};

/// Maximum concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// Maximum time for the remote host to connect to the target.
const OPEN_MAX: Duration = Duration::from_secs(20);
const PIPE_BYTES: usize = 256 * 1024;

/// A forwarded port. Dropping it closes the port and all connections through it.
#[derive(Debug)]
pub struct PortForward {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl PortForward {
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// `host:port` as sent to the remote host.
#[derive(Debug, Clone)]
pub(super) struct ForwardTarget {
    pub(super) host: String,
    pub(super) port: u16,
}

impl ForwardTarget {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let odd = host.is_empty() || host.chars().any(|c| c.is_control() || c.is_whitespace());
        (!odd).then_some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl SshConnection {
    /// Opens a local port that leads to `far`, a `host:port` as seen from the remote host. Fails with
    /// [`SshError::ForwardRefused`] if the remote host neither forwards nor has a program that connects, and
    /// with [`SshError::ForwardNobody`] if nothing listens at that address now. If `nc` is used to connect,
    /// there is no `ForwardNobody`; connections then close without a response.
    pub async fn forward(&self, far: &str) -> Result<PortForward, SshError> {
        let here = |why: &dyn std::fmt::Display| SshError::here(self.destination(), why);
        let to = ForwardTarget::parse(far).ok_or_else(|| here(&"the forward target must be HOST:PORT"))?;
        // The first channel is only a test and is closed at once.
        let relay = match ForwardChannel::open(&self.0, &to).await {
            Ok(_) => None,
            Err(refused @ SshError::ForwardRefused { .. }) => {
                Some(RelayProgram::find(&self.0, &to, refused).await?)
            }
            Err(error) => return Err(error),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| here(&error))?;
        let address = listener.local_addr().map_err(|error| here(&error))?;
        let serving = tokio::spawn(serve(Arc::clone(&self.0), listener, to, relay));
        Ok(PortForward { address, serving })
    }
}

async fn serve(
    inner: Arc<ConnectionInner>,
    listener: TcpListener,
    to: ForwardTarget,
    relay: Option<RelayProgram>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropping the set ends all connections.
    let mut open = tokio::task::JoinSet::new();
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("the semaphore is never closed");
        let Ok((stream, _)) = listener.accept().await else { continue };
        while open.try_join_next().is_some() {}
        let (inner, to) = (Arc::clone(&inner), to.clone());
        open.spawn(async move {
            let carried = match relay {
                Some(program) => program.carry(&inner, &to, stream).await,
                None => ForwardChannel::carry(&inner, &to, stream).await,
            };
            if let Err(error) = carried {
                tracing::debug!(%error, "a forwarded connection was refused");
            }
            drop(permit);
        });
    }
}

/// One connection opened by the remote host.
struct ForwardChannel {
    opened: MuxChannel,
    to_remote: Sender,
    from_remote: Receiver,
}

impl ForwardChannel {
    async fn open(inner: &ConnectionInner, to: &ForwardTarget) -> Result<Self, SshError> {
        let here = |error: io::Error| SshError::here(inner.name(), error);
        if inner.settings().container().is_some() {
            // A program in the container carries the bytes instead.
            return Err(refused(inner, to, "port forwarding is prohibited in containers".to_owned()));
        }
        for _ in 0..2 {
            let master = inner.master().await?;
            let (from_remote, from_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
            let (to_end, to_remote) = writing().map_err(here)?;
            let printed = master.printed_bytes();
            let ends = [to_end.as_fd(), from_end.as_fd()];
            let opening = open_forward(master.socket(), &to.host, to.port, ends);
            match timeout(OPEN_MAX, opening).await {
                Ok(Ok(opened)) => return Ok(Self { opened, to_remote, from_remote }),
                Ok(Err(MuxError::Refused(why))) => {
                    let said = last_line(&master.printed_after(printed));
                    return Err(refused(inner, to, if said.is_empty() { why } else { said }));
                }
                Ok(Err(MuxError::Gone)) => inner.discard_master(&master).await,
                Ok(Err(MuxError::Broken(error))) => {
                    return Err(inner.connection_lost(&master, &error.to_string()));
                }
                Err(_) => return Err(inner.connection_lost(&master, SILENT)),
            }
        }
        Err(SshError::Dropped { destination: inner.name().to_owned(), why: "ssh exited at once".to_owned() })
    }

    /// Copies bytes until both sides have closed.
    async fn carry(
        inner: &ConnectionInner,
        to: &ForwardTarget,
        mut stream: TcpStream,
    ) -> Result<(), SshError> {
        let Self { opened, mut to_remote, mut from_remote } = Self::open(inner, to).await?;
        let (mut read, mut write) = stream.split();
        let forth = async {
            // The end of one side, or its error, ends that direction.
            let _ = copy(&mut read, &mut to_remote).await;
            drop(to_remote);
        };
        let back = async {
            let _ = copy(&mut from_remote, &mut write).await;
            let _ = write.shutdown().await;
        };
        tokio::join!(forth, back);
        drop(opened);
        Ok(())
    }
}

fn refused(inner: &ConnectionInner, to: &ForwardTarget, why: String) -> SshError {
    let destination = inner.name().to_owned();
    if why.contains("prohibited") {
        return SshError::ForwardRefused { destination, why };
    }
    SshError::ForwardNobody { destination, far: format!("{}:{}", to.host, to.port), why }
}

/// Creates a pipe that this process writes to. Returns the read end and the write end.
fn writing() -> io::Result<(OwnedFd, Sender)> {
    let (read, write) = blocking_pipe()?;
    fcntl_setfl(&write, OFlags::NONBLOCK)?;
    Ok((read, Sender::from_owned_fd_unchecked(write)?))
}

#[cfg(test)]
mod tests {
    use super::ForwardTarget;

    #[test]
    fn a_forward_target_has_a_host_and_a_port() {
        let far = |text: &str| ForwardTarget::parse(text).map(|far| (far.host, far.port));
        assert_eq!(far("127.0.0.1:11434"), Some(("127.0.0.1".to_owned(), 11434)));
        assert_eq!(far("[::1]:80"), Some(("::1".to_owned(), 80)));
        for odd in ["", "11434", ":80", "a:", "a:70000", "a b:80", "a\n:80"] {
            assert_eq!(far(odd), None, "{odd:?}");
        }
    }
}
