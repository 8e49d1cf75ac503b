//! A remote machine for tests that forwards through real sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_provider::{ForwardedPort, RemoteError, RemoteMachine};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Message for an unreachable machine.
pub(crate) const AWAY: &str = "web1 does not answer; check the network";

/// Forwarding policy of the remote sshd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Policy {
    Allows,
    /// Knows that nothing listens at the target.
    NotListening,
    /// Opens a tunnel, then closes every connection through it, as a relay by `nc` does if nothing listens.
    Closes,
    /// The machine is unreachable.
    Fails,
}

pub(crate) struct FakeRemote {
    host: Option<String>,
    policy: Mutex<Policy>,
    /// Destination of all tunnels; `None` means the requested one.
    leads: Option<String>,
    forwards: Mutex<Vec<String>>,
    tunnels: Mutex<Vec<AbortHandle>>,
}

impl FakeRemote {
    /// Creates a machine whose Ollama listens at `url`, according to its own `OLLAMA_HOST`.
    pub(crate) fn with_ollama_at(url: &str) -> Self {
        Self::with_host(Some(url.trim_start_matches("http://")), None)
    }

    /// Creates a machine with this `OLLAMA_HOST`, whose tunnels all lead to the server at `leads`.
    pub(crate) fn with_host(host: Option<&str>, leads: Option<&str>) -> Self {
        Self {
            host: host.map(str::to_owned),
            policy: Mutex::new(Policy::Allows),
            leads: leads.map(|url| url.trim_start_matches("http://").to_owned()),
            forwards: Mutex::default(),
            tunnels: Mutex::default(),
        }
    }

    pub(crate) fn set(&self, policy: Policy) {
        *self.policy.lock() = policy;
    }

    /// Returns the requested targets of tunnels, in order.
    pub(crate) fn forwards(&self) -> Vec<String> {
        self.forwards.lock().clone()
    }

    /// Breaks every tunnel with all its connections, like a dropped link.
    pub(crate) fn break_tunnels(&self) {
        self.tunnels.lock().drain(..).for_each(|tunnel| tunnel.abort());
    }
}

/// Aborts a task on drop.
struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl RemoteMachine for FakeRemote {
    async fn forward(&self, to: &str) -> Result<ForwardedPort, RemoteError> {
        self.forwards.lock().push(to.to_owned());
        let policy = self.policy.lock().clone();
        match policy {
            Policy::NotListening => {
                return Err(RemoteError::NotListening);
            }
            Policy::Fails => {
                return Err(RemoteError::Failed(AWAY.to_owned()));
            }
            Policy::Allows | Policy::Closes => {}
        }
        let to = self.leads.clone().unwrap_or_else(|| to.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            // Dropped with this task, and with it every connection.
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let to = to.clone();
                let closes = policy == Policy::Closes;
                connections.spawn(async move {
                    if closes {
                        return;
                    }
                    if let Ok(mut remote) = TcpStream::connect(to).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut remote).await;
                    }
                });
            }
        });
        self.tunnels.lock().push(task.abort_handle());
        Ok(ForwardedPort::new(address, Guard(task.abort_handle())))
    }

    async fn ollama_host(&self) -> Result<Option<String>, RemoteError> {
        Ok(self.host.clone())
    }
}

/// Returns the machine in the type of the settings.
pub(crate) fn shared(remote: &Arc<FakeRemote>) -> Option<Arc<dyn RemoteMachine>> {
    Some(Arc::clone(remote) as Arc<dyn RemoteMachine>)
}
