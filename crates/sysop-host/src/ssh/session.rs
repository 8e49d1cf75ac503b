//! One session on the remote host: a command line that the login shell runs, with its pipes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::ConnectionInner;
use super::container::SessionTerminal;
use super::error::SshError;
use super::master::{Master, reap, start};
use super::mux::{MuxChannel, MuxError, open_session};
use super::running_script::RunError;
use super::script::EncodedScript;
use super::settings::SshSettings;
use crate::pipe::{blocking_pipe, sized_pipe};

/// Timeout of a session request. It is needed because the network may fail silently.
const OPEN_MAX: Duration = Duration::from_secs(15);
/// Error text for a missing response.
pub(super) const SILENT: &str = "the host is not responding";
/// Default size of a pipe buffer, in bytes.
const PIPE_BYTES: usize = 64 * 1024;
/// Size of an enlarged pipe buffer in bytes, if the system allows it. A program with much output then rarely waits.
const PIPE_BYTES_LARGE: usize = 1024 * 1024;

/// An open session. Dropping this closes the session, but its processes may survive.
#[derive(Debug)]
pub(super) struct SshSession {
    pub(super) output: Receiver,
    pub(super) errors: Receiver,
    _transport: SessionTransport,
    writing: Option<JoinHandle<()>>,
    /// Permit held as long as the server counts the session.
    _permit: OwnedSemaphorePermit,
}

/// Resource that keeps the session open.
#[derive(Debug)]
enum SessionTransport {
    /// A channel of the shared connection.
    Multiplexed { _opened: MuxChannel },
    /// A separate `ssh` connection, which is needed if the server allows no more sessions on the shared connection.
    Dedicated(Pid),
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        match self {
            Self::Multiplexed { .. } => {}
            Self::Dedicated(pid) => {
                // The process may already have exited.
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

/// Ends of a session's pipes that are passed to `ssh`.
struct PipeEnds {
    input: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
}

impl SshSession {
    /// Opens a session, connecting if necessary. If dropped while `asked` is empty, nothing has started.
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
        let multiplexed = match inner.settings().container() {
            Some(_) => Err(SessionOpenError::Refused("a container has no shared connection".to_owned())),
            None => open_multiplexed(inner, &sent.line, &ends, asked).await,
        };
        let held = match multiplexed {
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

    /// Opens a session with a spare permit, for urgent requests: on an existing connection, or in a container.
    pub(super) async fn open_spare(
        inner: &ConnectionInner,
        master: Option<&Master>,
        permit: OwnedSemaphorePermit,
        sent: EncodedScript,
    ) -> Result<Self, SshError> {
        let here = |error: io::Error| SshError::here(inner.name(), error);
        let (output, output_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (errors, errors_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (input, writing) = input(sent.input, sent.stream).map_err(here)?;
        let ends = PipeEnds { input, output: output_end, errors: errors_end };
        let Some(master) = master else {
            let held = SessionTransport::Dedicated(open_dedicated(inner, sent.line, &ends)?);
            return Ok(Self { output, errors, _transport: held, writing, _permit: permit });
        };
        let opening = open_session(master.socket(), &sent.line, ends.borrowed());
        let held = match timeout(OPEN_MAX, opening).await {
            Ok(Ok(opened)) => SessionTransport::Multiplexed { _opened: opened },
            Ok(Err(MuxError::Refused(_))) => {
                SessionTransport::Dedicated(open_dedicated(inner, sent.line, &ends)?)
            }
            Ok(Err(MuxError::Gone)) => return Err(inner.connection_lost(master, "ssh ended")),
            Ok(Err(MuxError::Broken(error))) => return Err(inner.connection_lost(master, &error.to_string())),
            Err(_) => return Err(inner.connection_lost(master, SILENT)),
        };
        Ok(Self { output, errors, _transport: held, writing, _permit: permit })
    }

    /// Opens a session on a new connection with its own login, which may prompt users if `may_ask` is true.
    pub(super) async fn open_fresh(
        inner: &ConnectionInner,
        sent: EncodedScript,
        connect_max: Duration,
        may_ask: bool,
    ) -> Result<Self, SshError> {
        let permit = inner.permit().await;
        let here = |error: io::Error| SshError::here(inner.name(), error);
        let (output, output_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (errors, errors_end) = sized_pipe(PIPE_BYTES).map_err(here)?;
        let (input, writing) = input(sent.input, sent.stream).map_err(here)?;
        let ends = PipeEnds { input, output: output_end, errors: errors_end };
        let (settings, _) = inner.login_settings()?;
        let mut settings = settings.into_owned();
        if !may_ask {
            settings.askpass = None;
        }
        settings.connect_timeout = settings.connect_timeout.min(connect_max);
        let pid = start_dedicated(&settings, sent.line, &ends)?;
        Ok(Self { output, errors, _transport: SessionTransport::Dedicated(pid), writing, _permit: permit })
    }

    pub(super) fn is_dedicated(&self) -> bool {
        matches!(self._transport, SessionTransport::Dedicated(_))
    }
}

/// Connection with an unanswered session request. While it is set, the requested session may exist.
#[derive(Debug, Default)]
pub(super) struct PendingOpen(Mutex<Option<Arc<Master>>>);

impl PendingOpen {
    /// Takes the connection. Returns `None` if no request is unanswered.
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
    // A connection that broke since its last use is detected here and reopened once.
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
            // The request was sent; its effect is unknown.
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

/// Starts a separate `ssh`, or the `exec` of a container, for this session.
fn open_dedicated(inner: &ConnectionInner, line: String, ends: &PipeEnds) -> Result<Pid, SshError> {
    start_dedicated(inner.settings(), line, ends)
}

fn start_dedicated(settings: &SshSettings, line: String, ends: &PipeEnds) -> Result<Pid, SshError> {
    if let Some(container) = settings.container() {
        return start(settings, container.arguments(&line, SessionTerminal::None), ends.borrowed());
    }
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

/// Returns the read end of a pipe that carries the input to the remote side, and, if not all input is in the pipe yet,
/// a task that writes the rest.
fn input(bytes: Vec<u8>, stream: Option<OwnedReadHalf>) -> io::Result<(OwnedFd, Option<JoinHandle<()>>)> {
    let (read, write) = blocking_pipe()?;
    fcntl_setfl(&write, OFlags::NONBLOCK)?;
    let is_written = bytes.len() <= PIPE_BYTES / 2 && rustix::io::write(&write, &bytes)? == bytes.len();
    if is_written && stream.is_none() {
        return Ok((read, None));
    }
    let mut sender = Sender::from_owned_fd_unchecked(write)?;
    let writing = tokio::spawn(async move {
        // A remote side that stops reading reports the reason by its status.
        if (is_written || sender.write_all(&bytes).await.is_ok())
            && let Some(mut stream) = stream
        {
            let _ = copy(&mut stream, &mut sender).await;
        }
    });
    Ok((read, Some(writing)))
}
