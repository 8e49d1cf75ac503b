//! One window per user: the first process holds a lock and listens; later ones ask it to raise its window.
//!
//! The lock is released when the process exits for any reason. The lock alone decides which process is first: an
//! earlier process's socket is replaced. Both files are in a directory that only the user can access.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::arguments::is_valid_session_id;

/// Maximum time to wait for another window: to respond, if it is starting, or to disappear, if it is closing.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: u64 = 4096;
/// Response to a valid request.
const ANSWER: &[u8] = b"raised\n";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RaiseRequest {
    pub(crate) session: Option<String>,
    /// Activation token that a compositor requires before it raises a window.
    pub(crate) activation: Option<String>,
}

#[derive(Debug)]
pub(crate) enum LockOutcome {
    Acquired(InstanceLock),
    /// Another process has a window and has been asked to raise it.
    AlreadyRunning,
}

/// The lock and the socket of the only instance; released on drop.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _lock: File,
    listener: UnixListener,
    socket: PathBuf,
}

/// Becomes the only instance, or asks the running one to raise its window. Fails if the directory is
/// unusable, or the running instance does not respond.
pub(crate) fn take(folder: &Path, session: Option<&str>) -> Result<LockOutcome> {
    let (lock, socket) = (folder.join("desktop.lock"), folder.join("desktop.sock"));
    let activation = ["XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID"].into_iter();
    let activation = activation.filter_map(|name| std::env::var(name).ok()).find(|token| !token.is_empty());
    let raise = RaiseRequest { session: session.map(str::to_owned), activation };
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&lock)
        .with_context(|| format!("cannot open {}", lock.display()))?;
    let until = Instant::now() + HANDOVER_TIMEOUT;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return InstanceLock::new(lock, socket).map(LockOutcome::Acquired),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error).context("cannot lock the window's lock file"),
        }
        // The other process locks before it listens, and stops listening while its server is shutting down.
        if let Ok(stream) = UnixStream::connect(&socket)
            && request_raise(stream, &raise).is_ok()
        {
            return Ok(LockOutcome::AlreadyRunning);
        }
        if Instant::now() > until {
            bail!("a sysop window is open but does not respond; kill its process and try again");
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn request_raise(mut stream: UnixStream, raise: &RaiseRequest) -> Result<()> {
    stream.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    stream.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    stream.write_all(format!("{}\n", serde_json::to_string(raise)?).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER.len() as u64).read_to_end(&mut answer)?;
    anyhow::ensure!(answer == ANSWER, "the open window did not respond");
    Ok(())
}

impl InstanceLock {
    fn new(lock: File, socket: PathBuf) -> Result<Self> {
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", socket.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&socket);
        let listener = listener.with_context(|| format!("cannot listen on {}", socket.display()))?;
        Ok(Self { _lock: lock, listener, socket })
    }

    /// Starts serving requests on a thread that runs until exit. Fails if the thread cannot be started.
    pub(crate) fn listen(&self, on_raise: impl Fn(RaiseRequest) + Send + 'static) -> Result<()> {
        let listener = self.listener.try_clone().context("cannot listen on the window's socket")?;
        let hear = move || {
            for stream in listener.incoming() {
                // A broken connection is ignored; another may follow.
                if let Ok(raise) = stream.map_err(Into::into).and_then(|stream| serve_request(&stream)) {
                    on_raise(raise);
                }
            }
        };
        std::thread::Builder::new().name("second starts".to_owned()).spawn(hear)?;
        Ok(())
    }

    /// Stops listening, so that a process started from now on waits for the lock.
    pub(crate) fn close(&self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn serve_request(stream: &UnixStream) -> Result<RaiseRequest> {
    stream.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    stream.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let mut raise: RaiseRequest = serde_json::from_str(&line)?;
    raise.session = raise.session.filter(|session| is_valid_session_id(session));
    let mut stream = stream;
    stream.write_all(ANSWER)?;
    Ok(raise)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{LockOutcome, RaiseRequest, take};

    #[test]
    fn a_second_instance_reaches_the_first_and_a_later_one_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let LockOutcome::Acquired(only) = take(folder.path(), None).unwrap() else {
            panic!("nobody else is there")
        };
        let (heard, hears) = channel();
        only.listen(move |raise| heard.send(raise).unwrap()).unwrap();
        assert!(matches!(take(folder.path(), Some("s-1")).unwrap(), LockOutcome::AlreadyRunning));
        let raise: RaiseRequest = hears.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(raise.session.as_deref(), Some("s-1"));
        assert!(matches!(take(folder.path(), Some("a/../b")).unwrap(), LockOutcome::AlreadyRunning));
        assert_eq!(
            hears.recv_timeout(Duration::from_secs(10)).unwrap().session,
            None,
            "the request names no session"
        );
        only.close();
        let path = folder.path().to_owned();
        let next = std::thread::spawn(move || matches!(take(&path, None).unwrap(), LockOutcome::Acquired(_)));
        drop(only);
        assert!(next.join().unwrap(), "the second process waited for the lock");
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(std::os::unix::net::UnixListener::bind(folder.path().join("desktop.sock")).unwrap());
        assert!(matches!(take(folder.path(), None).unwrap(), LockOutcome::Acquired(_)));
    }
}
