//! Gives a process access to this machine's server: starts the supervisor if there is none, and holds leases.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::server::START_MAX;
use crate::supervisor::{Request, Response, socket_path};

/// Maximum time until a new supervisor is listening.
const SUPERVISOR_START_MAX: Duration = Duration::from_secs(20);
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum attempts if the supervisor exits between the connection and its answer.
const ATTEMPTS_MAX: u32 = 3;

/// Command line that starts a supervisor. The process must call `setsid` itself.
#[derive(Debug, Clone)]
pub struct SupervisorCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// Access to this user's servers on this machine.
#[derive(Debug)]
pub struct LocalServers {
    runtime_folder: PathBuf,
    command: SupervisorCommand,
    /// Connection that keeps the supervisor alive between requests; `None` before the first request.
    hold: Mutex<Option<UnixStream>>,
}

/// A running server, usable until dropped.
#[derive(Debug)]
pub struct LocalLease {
    /// Base URL of the OpenAI-compatible API, ending with `/v1`.
    pub base_url: String,
    pub key: SecretString,
    /// Context window in tokens.
    pub context: u32,
    _connection: UnixStream,
}

impl LocalServers {
    /// Stores the settings; does no I/O. The supervisor's socket is in `runtime_folder`, which is created on demand.
    pub fn new(runtime_folder: impl Into<PathBuf>, command: SupervisorCommand) -> Self {
        Self { runtime_folder: runtime_folder.into(), command, hold: Mutex::default() }
    }

    /// Returns a lease on a model's server. Starts the server if necessary, which takes seconds. The error is
    /// one sentence, with a hint after `; ` if there is one.
    pub async fn lease(&self, model: &str) -> Result<LocalLease, String> {
        let mut failure = String::new();
        for _ in 0..ATTEMPTS_MAX {
            self.hold().await?;
            match self.request(model).await {
                Ok((Response::Ready { base_url, key, context }, connection)) => {
                    return Ok(LocalLease { base_url, key: key.into(), context, _connection: connection });
                }
                Ok((Response::Failed(why), _)) => return Err(why),
                Err(error) => {
                    failure = format!("the supervisor of the model server ended ({error}); try again");
                    *self.hold.lock().await = None;
                }
            }
        }
        Err(failure)
    }

    async fn request(&self, model: &str) -> io::Result<(Response, UnixStream)> {
        let path = socket_path(&self.runtime_folder).map_err(io::Error::other)?;
        let mut stream = BufReader::new(UnixStream::connect(path).await?);
        send(stream.get_mut(), &Request::Use(model.to_owned())).await?;
        let mut line = String::new();
        let answer = async { (&mut stream).take(RESPONSE_BYTES_MAX).read_line(&mut line).await };
        // A request for another model waits for the current one, which has no deadline of its own.
        if tokio::time::timeout(START_MAX * 2, answer).await.map_err(io::Error::other)?? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let response = serde_json::from_str(&line).map_err(io::Error::other)?;
        Ok((response, stream.into_inner()))
    }

    /// Connects to the supervisor, and starts one if there is none.
    async fn hold(&self) -> Result<(), String> {
        let mut hold = self.hold.lock().await;
        if hold.as_ref().is_some_and(is_open) {
            return Ok(());
        }
        let path = socket_path(&self.runtime_folder).map_err(|error| error.to_string())?;
        let failed = |error: io::Error| {
            format!("cannot use {} ({error}); check its permissions", self.runtime_folder.display())
        };
        create_private(&self.runtime_folder).map_err(failed)?;
        let deadline = Instant::now() + SUPERVISOR_START_MAX;
        let mut spawned = None;
        loop {
            if let Ok(mut stream) = UnixStream::connect(&path).await
                && send(&mut stream, &Request::Hold).await.is_ok()
            {
                *hold = Some(stream);
                return Ok(());
            }
            // A supervisor that is about to exit still holds the lock; the next one starts after that.
            let runs = spawned
                .as_mut()
                .is_some_and(|child: &mut tokio::process::Child| matches!(child.try_wait(), Ok(None)));
            if !runs {
                spawned = Some(self.spawn()?);
            }
            if Instant::now() > deadline {
                return Err("the supervisor of the model server did not start; run `sysop doctor`".to_owned());
            }
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
    }

    fn spawn(&self) -> Result<tokio::process::Child, String> {
        let mut command = tokio::process::Command::new(&self.command.program);
        command
            .args(&self.command.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // The first client's working directory may be on a disk that will be unmounted.
        command.current_dir("/");
        command.spawn().map_err(|error| format!("cannot start {} ({error})", self.command.program.display()))
    }
}

async fn send(stream: &mut UnixStream, request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request).expect("a request is valid JSON");
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Returns false if the other end has closed the connection. The supervisor sends nothing on it.
fn is_open(stream: &UnixStream) -> bool {
    let mut byte = [0; 1];
    matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn create_private(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = std::fs::metadata(folder)?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if own && metadata.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users can write to it"))
    }
}
