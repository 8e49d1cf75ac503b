//! A remote machine for tests: forwards through real sockets and runs real commands in its own folder.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use sysop_provider::{ForwardedPort, RemoteError, RemoteEvent, RemoteMachine};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Replacement of the `ollama` program; it reads its responses from the files beside it.
const OLLAMA: &str = r#"#!/bin/sh
here=${0%/*}
echo "$1" >>"$here/calls"
fail() { echo "$1" >&2; exit 1; }
[ -e "$here/down" ] && fail "Error: could not connect to ollama server, run 'ollama serve' to start it"
case $1 in
list) cat "$here/list" ;;
show) grep -q "^$3:" "$here/list" || fail "Error: model '$3' not found" ;;
run)
    [ "$2" = --help ] && { cat "$here/help"; exit; }
    shift
    for argument in "$@"; do echo "$argument"; done >"$here/arguments"
    cat >"$here/prompt"
    . "$here/run"
    ;;
esac
"#;

/// Help text of a current version, with its flags.
const HELP: &str = "Run a model\n\nFlags:\n      --format string       Response format (e.g. json)\n  -h, --help  help\n      \
    --hidethinking        Hide thinking output (if provided)\n      --insecure            Use an insecure registry\n      \
    --keepalive string    Duration to keep a model loaded (e.g. 5m)\n      --nowordwrap          Don't wrap words\n      \
    --think string[=\"true\"]   Enable thinking mode\n      --verbose             Show timings for response\n";

const LIST: &str = "NAME           ID              SIZE      MODIFIED\n\
    phi3:latest    4f2222927938    2.2 GB    5 weeks ago\nqwen3:8b       500a1f067a9f    5.2 GB    2 days ago\n";

/// Message for an unreachable machine.
pub(crate) const AWAY: &str = "web1 does not answer; check the network";

/// Forwarding policy of the remote sshd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Policy {
    Allows,
    /// Denies the request to forward.
    Refuses,
    /// Opens a tunnel, then closes every connection through it, like sshd with `AllowTcpForwarding no`.
    Closes,
    /// The machine is unreachable.
    Fails,
}

pub(crate) struct FakeRemote {
    folder: tempfile::TempDir,
    host: Option<String>,
    policy: Mutex<Policy>,
    /// Destination of all tunnels; `None` means the requested one.
    leads: Option<String>,
    forwards: Mutex<Vec<String>>,
    tunnels: Mutex<Vec<AbortHandle>>,
    /// Number of commands to break before they finish.
    breaks: Mutex<usize>,
}

impl FakeRemote {
    /// Creates a machine whose Ollama listens at `url`, according to its own `OLLAMA_HOST`.
    pub(crate) fn with_ollama_at(url: &str) -> Self {
        Self::with_host(Some(url.trim_start_matches("http://")), None)
    }

    /// Creates a machine with this `OLLAMA_HOST`, whose tunnels all lead to the server at `leads`.
    pub(crate) fn with_host(host: Option<&str>, leads: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let remote = Self {
            host: host.map(str::to_owned),
            policy: Mutex::new(Policy::Allows),
            leads: leads.map(|url| url.trim_start_matches("http://").to_owned()),
            forwards: Mutex::default(),
            tunnels: Mutex::default(),
            breaks: Mutex::default(),
            folder,
        };
        remote.write("ollama", OLLAMA);
        std::fs::set_permissions(remote.path("ollama"), std::fs::Permissions::from_mode(0o755)).unwrap();
        remote.write("help", HELP);
        remote.write("list", LIST);
        remote.write("run", "exit 9");
        remote
    }

    /// Creates a machine that forbids forwarding, and whose `ollama run` is this shell code.
    pub(crate) fn with_run(run: &str) -> Self {
        let remote = Self::with_host(None, None);
        remote.set(Policy::Refuses);
        remote.write("run", run);
        remote
    }

    pub(crate) fn set(&self, policy: Policy) {
        *self.policy.lock().unwrap() = policy;
    }

    /// Breaks the next `count` commands when they print.
    pub(crate) fn break_commands(&self, count: usize) {
        *self.breaks.lock().unwrap() = count;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the requested targets of tunnels, in order.
    pub(crate) fn forwards(&self) -> Vec<String> {
        self.forwards.lock().unwrap().clone()
    }

    /// Breaks every tunnel with all its connections, like a dropped link.
    pub(crate) fn break_tunnels(&self) {
        self.tunnels.lock().unwrap().drain(..).for_each(|tunnel| tunnel.abort());
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
        self.forwards.lock().unwrap().push(to.to_owned());
        let policy = self.policy.lock().unwrap().clone();
        match policy {
            Policy::Refuses => {
                return Err(RemoteError::Forbidden("the sshd of web1 does not allow forwarding".to_owned()));
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
        self.tunnels.lock().unwrap().push(task.abort_handle());
        Ok(ForwardedPort::new(address, Guard(task.abort_handle())))
    }

    fn pipe(&self, command: &str, input: Vec<u8>) -> BoxStream<'static, RemoteEvent> {
        if *self.policy.lock().unwrap() == Policy::Fails {
            let broken = RemoteEvent::Disconnected(AWAY.to_owned());
            return futures::stream::once(async move { broken }).boxed();
        }
        let breaks = {
            let mut breaks = self.breaks.lock().unwrap();
            let broken = *breaks > 0;
            *breaks = breaks.saturating_sub(1);
            broken
        };
        let process = start(command, self.folder.path());
        let events = futures::stream::once(async move { running(process, input) }).flatten();
        if !breaks {
            return events.boxed();
        }
        let broken = RemoteEvent::Disconnected("the connection to web1 broke".to_owned());
        events.take(1).chain(futures::stream::once(async move { broken })).boxed()
    }

    async fn ollama_host(&self) -> Result<Option<String>, RemoteError> {
        Ok(self.host.clone())
    }
}

/// A process group, killed on drop.
struct Process(tokio::process::Child);

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(id) = self.0.id() {
            let group = format!("-{id}");
            std::process::Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
        }
    }
}

fn start(command: &str, folder: &Path) -> impl FnOnce() -> Process + Send + 'static {
    let mut process = tokio::process::Command::new("sh");
    process
        .args(["-c", command])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    move || Process(process.spawn().unwrap())
}

fn running(
    start: impl FnOnce() -> Process + Send + 'static,
    input: Vec<u8>,
) -> BoxStream<'static, RemoteEvent> {
    async_stream::stream! {
        let mut process = start();
        let mut stdin = process.0.stdin.take().unwrap();
        let writing = tokio::spawn(async move { stdin.write_all(&input).await });
        let writing = Guard(writing.abort_handle());
        let output = pieces(process.0.stdout.take().unwrap(), RemoteEvent::Stdout);
        let errors = pieces(process.0.stderr.take().unwrap(), RemoteEvent::Stderr);
        let mut both = futures::stream::select(output, errors);
        while let Some(event) = both.next().await {
            yield event;
        }
        let status = process.0.wait().await.unwrap();
        drop(writing);
        yield RemoteEvent::Exited(status.code());
    }
    .boxed()
}

fn pieces(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    event: fn(Bytes) -> RemoteEvent,
) -> BoxStream<'static, RemoteEvent> {
    async_stream::stream! {
        let mut bytes = vec![0; 64];
        while let Ok(count @ 1..) = pipe.read(&mut bytes).await {
            yield event(Bytes::copy_from_slice(&bytes[..count]));
        }
    }
    .boxed()
}

/// Returns the machine in the type of the settings.
pub(crate) fn shared(remote: &Arc<FakeRemote>) -> Option<Arc<dyn RemoteMachine>> {
    Some(Arc::clone(remote) as Arc<dyn RemoteMachine>)
}
