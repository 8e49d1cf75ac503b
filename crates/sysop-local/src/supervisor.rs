//! The process that owns this user's server on this machine.
//!
//! # Problem
//!
//! Several processes use one model at the same time, and each may exit or crash at any moment. There must be
//! only one server; it must not stop while anyone is using it, and must not keep running when nobody is.
//!
//! # Design
//!
//! The supervisor listens on a Unix socket in a private directory. A process that may need a model keeps a connection
//! open (`hold`), and opens another one for each request (`use NAME`). The kernel closes the connections of a process
//! that exits for whatever reason, so counting them is enough. The supervisor stops the server and itself when the last
//! connection closes, or when no request has been made for [`IDLE_MAX`]. One model is loaded at a time: a request for
//! another one waits until the current one is not in use.
//!
//! Clients send a name and no path or option, because a process in a sandbox may reach the socket and must not gain the
//! supervisor's privileges. A file lock, held for the lifetime of the supervisor, ensures that there is only one.
//!
//! # Invariants
//!
//! - Two supervisors never serve one directory.
//! - A server stops with its supervisor, even if the supervisor is killed (`launcher`).
//! - Only processes of the same user are answered.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::folder::{InstalledServer, ModelFolder};
use crate::machine::{Machine, context_for};
use crate::server::{RunningServer, ServerSpec};

/// Time without a request after which the server is stopped.
pub const IDLE_MAX: Duration = Duration::from_secs(600);
/// Time that the first client has to connect.
const FIRST_CLIENT_MAX: Duration = Duration::from_secs(30);
const REQUEST_BYTES_MAX: u64 = 4096;
/// Length in bytes of the longest socket path that every system accepts.
const SOCKET_PATH_BYTES_MAX: usize = 100;
const SOCKET: &str = "model.sock";
const LOCK: &str = "model.lock";

/// First line of a connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Keeps the supervisor alive.
    Hold,
    /// Uses a model until the connection closes.
    Use(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    Ready { base_url: String, key: String, context: u32 },
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Another supervisor already serves this directory. Callers treat this as success.
    #[error("another process already runs the model server")]
    Running,
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("the path {} is too long for a socket; set XDG_RUNTIME_DIR to a shorter one", .0.display())]
    PathTooLong(PathBuf),
}

/// Supervisor of this user's model server, and its settings.
#[derive(Debug)]
pub struct Supervisor {
    /// Private directory for the socket.
    pub runtime_folder: PathBuf,
    pub catalog: Catalog,
    pub folder: ModelFolder,
    /// Value of PATH, to find a server there.
    pub path: Option<String>,
    /// Executable whose `main` calls `run_as_launcher`; `None` starts the server directly.
    pub launcher: Option<PathBuf>,
    /// Time without a request after which the server is stopped; [`IDLE_MAX`] outside of tests.
    pub idle: Duration,
}

pub(crate) fn socket_path(runtime_folder: &Path) -> Result<PathBuf, SupervisorError> {
    let path = runtime_folder.join(SOCKET);
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        Err(SupervisorError::PathTooLong(path))
    } else {
        Ok(path)
    }
}

impl Supervisor {
    /// Serves until the last client leaves, the server is idle for too long, or `stop` completes. Fails if
    /// another supervisor is running, or the socket cannot be created.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), SupervisorError> {
        let (lock, listener) = self.listen()?;
        let state = Arc::new(SupervisorState {
            spec: self,
            server: Mutex::default(),
            users: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            changed: Notify::new(),
            last_use: parking_lot::Mutex::new(Instant::now()),
        });
        tokio::pin!(stop);
        let accepting = Arc::clone(&state);
        let accept = async move {
            loop {
                // A failed accept concerns only one client, or is due to a temporary excess of open files.
                match listener.accept().await {
                    Ok((stream, _)) => accepting.welcome(stream),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        tokio::select! {
            () = accept => {}
            () = state.wait_for_end() => {}
            () = &mut stop => {}
        }
        // New clients find no socket and start the next supervisor, which waits for the lock.
        let _ = std::fs::remove_file(state.spec.runtime_folder.join(SOCKET)); // it was just there
        // A server that is still loading is killed with this process.
        let server = tokio::time::timeout(Duration::from_secs(1), state.server.lock()).await;
        if let Some(server) = server.ok().and_then(|mut slot| slot.take()) {
            server.stop().await;
        }
        drop(lock);
        Ok(())
    }

    fn listen(&self) -> Result<(File, UnixListener), SupervisorError> {
        let path = socket_path(&self.runtime_folder)?;
        let lock_path = self.runtime_folder.join(LOCK);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| SupervisorError::Io { path, error }
        };
        let mut options = OpenOptions::new();
        let lock =
            options.create(true).append(true).mode(0o600).open(&lock_path).map_err(failed(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SupervisorError::Running),
            Err(error) => return Err(failed(&lock_path)(error.into())),
        }
        let _ = std::fs::remove_file(&path); // left by a supervisor that was killed
        let listener = UnixListener::bind(&path).map_err(failed(&path))?;
        Ok((lock, listener))
    }

    fn server_spec(&self, name: &str) -> Result<ServerSpec, String> {
        let model = self.catalog.model(name).ok_or_else(|| {
            format!("unknown local model {name:?}; run `sysop model list` to see the available ones")
        })?;
        let model_file = self
            .folder
            .installed(model)
            .ok_or_else(|| format!("the model {name} is not downloaded; run `sysop model get {name}`"))?;
        let build = self.catalog.server(std::env::consts::OS, std::env::consts::ARCH);
        let InstalledServer { program, .. } = self
            .folder
            .server(build, self.path.as_deref())
            .ok_or_else(|| "llama-server is not installed; run `sysop model get llama-server`".to_owned())?;
        let machine = Machine::examine();
        Ok(ServerSpec {
            program,
            launcher: self.launcher.clone(),
            model_file,
            name: name.to_owned(),
            context: context_for(model, &machine),
            threads: machine.cores,
            extra: model.arguments.clone(),
        })
    }
}

struct SupervisorState {
    spec: Supervisor,
    server: Mutex<Option<RunningServer>>,
    /// Connections that use the current server. Changed only while `server` is locked, except for decrements.
    users: AtomicUsize,
    connections: AtomicUsize,
    /// Notified when a connection closes.
    changed: Notify,
    last_use: parking_lot::Mutex<Instant>,
}

impl SupervisorState {
    fn welcome(self: &Arc<Self>, stream: UnixStream) {
        let own = rustix::process::geteuid().as_raw();
        if !stream.peer_cred().is_ok_and(|peer| peer.uid() == own) {
            return;
        }
        let state = Arc::clone(self);
        state.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            state.serve(stream).await;
            state.connections.fetch_sub(1, Ordering::SeqCst);
            state.changed.notify_waiters();
        });
    }

    async fn serve(&self, stream: UnixStream) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        let read = (&mut stream).take(REQUEST_BYTES_MAX).read_line(&mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        match serde_json::from_str(&line) {
            Ok(Request::Hold) => until_closed(&mut stream).await,
            Ok(Request::Use(name)) => self.serve_use(&name, &mut stream).await,
            Err(_) => {}
        }
    }

    async fn serve_use(&self, name: &str, stream: &mut BufReader<UnixStream>) {
        let acquired = self.acquire(name).await;
        let is_user = acquired.is_ok();
        let response = acquired.unwrap_or_else(Response::Failed);
        let mut line = serde_json::to_vec(&response).expect("a response is valid JSON");
        line.push(b'\n');
        if stream.get_mut().write_all(&line).await.is_ok() {
            until_closed(stream).await;
        }
        if is_user {
            *self.last_use.lock() = Instant::now();
            self.users.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Adds a user of the model's server, after starting the server if necessary.
    async fn acquire(&self, name: &str) -> Result<Response, String> {
        loop {
            let freed = self.changed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let mut slot = self.server.lock().await;
            let ready = slot.as_mut().is_some_and(|server| server.is_alive() && server.name == name);
            let in_use = self.users.load(Ordering::SeqCst) > 0;
            let is_other = slot.as_mut().is_some_and(|server| server.is_alive() && server.name != name);
            if is_other && in_use {
                drop(slot);
                freed.await;
                continue;
            }
            if !ready {
                if let Some(old) = slot.take() {
                    old.stop().await;
                }
                let spec = self.spec.server_spec(name)?;
                *slot = Some(RunningServer::start(&spec).await.map_err(|error| error.to_string())?);
            }
            let server = slot.as_ref().expect("the server is running or was just started");
            self.users.fetch_add(1, Ordering::SeqCst);
            *self.last_use.lock() = Instant::now();
            let (base_url, context) = (server.base_url.clone(), server.context);
            let key = server.key.expose_secret().to_owned();
            return Ok(Response::Ready { base_url, key, context });
        }
    }

    /// Waits until nobody needs the server anymore.
    async fn wait_for_end(&self) {
        let start = Instant::now();
        let mut had_clients = false;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            had_clients |= self.connections.load(Ordering::SeqCst) > 0;
            let nobody = self.connections.load(Ordering::SeqCst) == 0;
            if nobody && (had_clients || start.elapsed() >= FIRST_CLIENT_MAX) {
                return;
            }
            let since = *self.last_use.lock();
            let idle = self.users.load(Ordering::SeqCst) == 0 && had_clients;
            if idle && since.elapsed() >= self.spec.idle {
                return;
            }
            let next = if nobody { FIRST_CLIENT_MAX } else { self.spec.idle.saturating_sub(since.elapsed()) };
            // The first connection does not notify; the next check notices it.
            let look = next.clamp(Duration::from_millis(20), Duration::from_secs(1));
            let _ = tokio::time::timeout(look, changed).await; // both outcomes lead to another check
        }
    }
}

/// Reads until the client closes the connection.
async fn until_closed(stream: &mut BufReader<UnixStream>) {
    let mut ignored = [0; 64];
    while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
}
