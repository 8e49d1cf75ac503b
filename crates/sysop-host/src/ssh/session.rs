//! One session on the remote machine: a command line that its login shell runs, and the pipes to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::ConnectionInner;
use super::error::SshError;
use super::master::{Master, reap, start};
use super::mux::{MuxChannel, MuxError, open_session};
use super::running_script::RunError;
use super::script::EncodedScript;
use crate::pipe::sized_pipe;

/// How long an answer to the request for a session is waited for; the network may be gone without a word.
const OPEN_MAX: Duration = Duration::from_secs(15);
/// Said where it is not.
pub(super) const SILENT: &str = "the host does not respond";
/// What a pipe takes at once.
const PIPE_BYTES: usize = 64 * 1024;
/// What a pipe holds, where the system allows it: a program that prints a lot rarely waits for us.
const PIPE_BYTES_LARGE: usize = 1024 * 1024;

/// A session that was opened. Dropped, it is closed; what it started may live on.
#[derive(Debug)]
pub(super) struct SshSession {
    pub(super) output: Receiver,
    pub(super) errors: Receiver,
    _transport: SessionTransport,
    writing: Option<JoinHandle<()>>,
    /// Kept as long as the session counts for the server.
    _permit: OwnedSemaphorePermit,
}

/// What keeps it open.
#[derive(Debug)]
enum SessionTransport {
    /// By the shared connection.
    Multiplexed { _opened: MuxChannel },
    /// By a connection of its own, for servers that allow one session on each.
    Dedicated(Pid),
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        match self {
            Self::Multiplexed { .. } => {}
            Self::Dedicated(pid) => {
                // It may have ended already.
                let _ = kill_process_group(*pid, Signal::TERM);
                reap(*pid);
            }
        }
    }
}

impl Drop for SshSession {
    fn drop(&mut self) {
        if let Some(writing) = self.writing.take() {
            writing.abort();
        }
    }
}

/// The ends of a session's pipes.
struct PipeEnds {
    input: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
}

impl SshSession {
    /// Opens one; connects first where there is no connection. Dropped while `asked` says nothing, nothing was
    /// started.
    pub(super) async fn open(
        inner: &ConnectionInner,
        sent: EncodedScript,
        asked: &PendingOpen,
    ) -> Result<Self, RunError> {
        let permit = inner.permit().await;
        let here = |error: io::Error| RunError::not_run(SshError::here(inner.name(), error));
        let (output, output_end) = sized_pipe(PIPE_BYTES_LARGE).map_err(here)?;
        let (errors, errors_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (input, writing) = input(sent.input, sent.stream).map_err(here)?;
        let ends = PipeEnds { input, output: output_end, errors: errors_end };
        let held = match open_multiplexed(inner, &sent.line, &ends, asked).await {
            Ok(opened) => SessionTransport::Multiplexed { _opened: opened },
            Err(SessionOpenError::Refused(why)) => {
                tracing::debug!(
                    why,
                    "the shared connection allows no more sessions; opening another connection"
                );
                SessionTransport::Dedicated(
                    open_dedicated(inner, sent.line, &ends).map_err(RunError::not_run)?,
                )
            }
            Err(SessionOpenError::Failed(error)) => {
                if let Some(writing) = writing {
                    writing.abort();
                }
                return Err(error);
            }
        };
        Ok(Self { output, errors, _transport: held, writing, _permit: permit })
    }

    /// Opens one on a connection that is there, with a spare permit: for what must not wait for other work.
    pub(super) async fn open_spare(
        inner: &ConnectionInner,
        master: &Master,
        permit: OwnedSemaphorePermit,
        sent: EncodedScript,
    ) -> Result<Self, SshError> {
        let here = |error: io::Error| SshError::here(inner.name(), error);
        let (output, output_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (errors, errors_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (input, writing) = input(sent.input, sent.stream).map_err(here)?;
        let ends = PipeEnds { input, output: output_end, errors: errors_end };
        let opening = open_session(master.socket(), &sent.line, ends.borrowed());
        let held = match timeout(OPEN_MAX, opening).await {
            Ok(Ok(opened)) => SessionTransport::Multiplexed { _opened: opened },
            Ok(Err(MuxError::Refused(_))) => {
                SessionTransport::Dedicated(open_dedicated(inner, sent.line, &ends)?)
            }
            Ok(Err(MuxError::Gone)) => return Err(inner.connection_lost(master, "it ended")),
            Ok(Err(MuxError::Broken(error))) => return Err(inner.connection_lost(master, &error.to_string())),
            Err(_) => return Err(inner.connection_lost(master, SILENT)),
        };
        Ok(Self { output, errors, _transport: held, writing, _permit: permit })
    }

    /// Whether it runs on a connection of its own.
    pub(super) fn is_dedicated(&self) -> bool {
        matches!(self._transport, SessionTransport::Dedicated(_))
    }
}

/// The connection that was asked for a session and has not answered; as long as there is one, the session may
/// have been opened.
#[derive(Debug, Default)]
pub(super) struct PendingOpen(Mutex<Option<Arc<Master>>>);

impl PendingOpen {
    /// The connection; none where nothing was asked.
    pub(super) fn take(&self) -> Option<Arc<Master>> {
        self.set(None)
    }

    fn set(&self, master: Option<Arc<Master>>) -> Option<Arc<Master>> {
        std::mem::replace(&mut *self.0.lock(), master)
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }
}

enum SessionOpenError {
    Refused(String),
    Failed(RunError),
}

async fn open_multiplexed(
    inner: &ConnectionInner,
    line: &str,
    ends: &PipeEnds,
    asked: &PendingOpen,
) -> Result<MuxChannel, SessionOpenError> {
    // A connection that ended since it was used last is found out here, and then made anew, once.
    for _ in 0..2 {
        let master =
            inner.master().await.map_err(|error| SessionOpenError::Failed(RunError::not_run(error)))?;
        asked.set(Some(Arc::clone(&master)));
        let answer = timeout(OPEN_MAX, open_session(master.socket(), line, ends.borrowed())).await;
        asked.set(None);
        let why = match answer {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(MuxError::Refused(why))) => return Err(SessionOpenError::Refused(why)),
            Ok(Err(MuxError::Gone)) => {
                inner.discard_master(&master).await;
                continue;
            }
            // It was asked, and nobody knows what it did.
            Ok(Err(MuxError::Broken(error))) => error.to_string(),
            Err(_) => SILENT.to_owned(),
        };
        inner.discard_master(&master).await;
        return Err(SessionOpenError::Failed(RunError::unknown(inner.connection_lost(&master, &why))));
    }
    Err(SessionOpenError::Failed(RunError::not_run(SshError::Dropped {
        destination: inner.name().to_owned(),
        why: "the session ended as soon as it was opened".to_owned(),
    })))
}

/// Starts an `ssh` for this session alone.
fn open_dedicated(inner: &ConnectionInner, line: String, ends: &PipeEnds) -> Result<Pid, SshError> {
    let settings = inner.settings();
    let mut arguments = settings.arguments();
    arguments.extend(["-oControlMaster=no", "-oControlPath=none", "-oRequestTTY=no"].map(Into::into));
    arguments.extend(settings.target());
    arguments.push(line.into());
    start(settings, arguments, ends.borrowed())
}

impl PipeEnds {
    fn borrowed(&self) -> [std::os::fd::BorrowedFd<'_>; 3] {
        [self.input.as_fd(), self.output.as_fd(), self.errors.as_fd()]
    }
}

/// What the remote side reads, and what writes it where it does not fit into a pipe.
fn input(bytes: Vec<u8>, stream: Option<OwnedReadHalf>) -> io::Result<(OwnedFd, Option<JoinHandle<()>>)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&write, OFlags::NONBLOCK)?;
    let is_written = bytes.len() <= PIPE_BYTES / 2 && rustix::io::write(&write, &bytes)? == bytes.len();
    if is_written && stream.is_none() {
        return Ok((read, None));
    }
    let mut sender = Sender::from_owned_fd_unchecked(write)?;
    let writing = tokio::spawn(async move {
        // A remote side that stops reading says why by its status.
        if (is_written || sender.write_all(&bytes).await.is_ok())
            && let Some(mut stream) = stream
        {
            let _ = copy(&mut stream, &mut sender).await;
        }
    });
    Ok((read, Some(writing)))
}
