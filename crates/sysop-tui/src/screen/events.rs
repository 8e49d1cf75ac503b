//! Events from the user's terminal and the system: keys, clicks, resizing and signals.
//!
//! There are no ticks: nothing runs unless there is an event. Unread input stays in the kernel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use crossterm::event::{KeyEvent, MouseEvent};
use futures::FutureExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::decode::InputDecoder;

const READ_BYTES: usize = 4096;
/// Maximum number of consecutive reads before yielding to other tasks.
const READS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    Key(KeyEvent),
    /// Text was pasted; newlines are `\n`. It may contain any characters.
    Paste(String),
    Mouse(MouseEvent),
    /// The terminal gained (true) or lost the focus.
    Focused(bool),
    /// The terminal's reply to the background color query.
    Background {
        /// True if the background is light rather than dark.
        is_light: bool,
    },
    Resized,
    /// A signal from the system or another program.
    Signal(ProcessSignal),
    /// The terminal is gone; no more input will arrive.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGINT: interrupt. Sent by another program, because Ctrl+C arrives as a key.
    Interrupt,
    /// SIGQUIT: exit.
    Quit,
    /// SIGTERM: exit.
    Terminate,
    /// SIGHUP: exit, because the terminal was closed.
    Hangup,
    /// SIGTSTP: suspend until continued.
    Suspend,
    /// SIGCONT: this process was stopped by another one and has been continued.
    Continued,
}

pub struct TerminalEvents {
    input: Option<AsyncFd<OwnedFd>>,
    decoder: InputDecoder,
    /// Time at which the decoder stops waiting for the rest of a sequence.
    sequence_deadline: Option<Instant>,
    waiting: VecDeque<TerminalEvent>,
    resized: Signal,
    asked: SignalStreams,
}

struct SignalStreams {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
    suspend: Signal,
    continued: Signal,
}

impl SignalStreams {
    fn new() -> io::Result<Self> {
        let of = |kind: rustix::process::Signal| signal(SignalKind::from_raw(kind.as_raw()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            suspend: of(rustix::process::Signal::TSTP)?,
            continued: of(rustix::process::Signal::CONT)?,
        })
    }

    async fn next(&mut self) -> ProcessSignal {
        tokio::select! {
            Some(()) = self.hangup.recv() => ProcessSignal::Hangup,
            Some(()) = self.terminate.recv() => ProcessSignal::Terminate,
            Some(()) = self.quit.recv() => ProcessSignal::Quit,
            Some(()) = self.interrupt.recv() => ProcessSignal::Interrupt,
            Some(()) = self.suspend.recv() => ProcessSignal::Suspend,
            Some(()) = self.continued.recv() => ProcessSignal::Continued,
            else => std::future::pending().await,
        }
    }
}

impl TerminalEvents {
    /// Starts listening for input and signals. From now on, the signals in [`ProcessSignal`] do not terminate
    /// or stop the process. Fails if standard input cannot be polled, or outside a tokio runtime.
    pub fn new() -> io::Result<Self> {
        let input = listen(io::stdin().as_fd().try_clone_to_owned()?)?;
        Ok(Self {
            input: Some(input),
            decoder: InputDecoder::default(),
            sequence_deadline: None,
            waiting: VecDeque::new(),
            resized: signal(SignalKind::window_change())?,
            asked: SignalStreams::new()?,
        })
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> TerminalEvent {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            let sequence_deadline = self.sequence_deadline;
            let lapse = async {
                match sequence_deadline {
                    Some(sequence_deadline) => sleep_until(sequence_deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                request = self.asked.next() => return TerminalEvent::Signal(request),
                Some(()) = self.resized.recv() => return TerminalEvent::Resized,
                came = read(&self.input) => self.take(came),
                () = lapse => {
                    self.sequence_deadline = None;
                    self.decoder.flush_incomplete(&mut self.waiting);
                }
            }
        }
    }

    /// Returns the next event if it is already available.
    pub fn try_next(&mut self) -> Option<TerminalEvent> {
        self.next().now_or_never()
    }

    /// Waits for the next signal. Used while another program has the terminal and its input.
    pub(crate) async fn next_signal(&mut self) -> ProcessSignal {
        self.asked.next().await
    }

    /// Queues a signal again, so that the main loop handles it.
    pub(crate) fn put_back(&mut self, request: ProcessSignal) {
        self.waiting.push_back(TerminalEvent::Signal(request));
    }

    pub(super) async fn continued(&mut self) {
        self.asked.continued.recv().await;
    }

    /// Discards pending continue signals.
    pub(super) fn forget_continued(&mut self) {
        while self.asked.continued.recv().now_or_never().flatten().is_some() {}
    }

    fn take(&mut self, came: io::Result<Vec<u8>>) {
        match came {
            Ok(bytes) => {
                let was_in_reply = self.decoder.is_in_reply();
                self.decoder.push(&bytes, &mut self.waiting);
                // Keys that are taken for the rest of a reply do not prolong the wait for its end.
                if !(was_in_reply && self.decoder.is_in_reply()) {
                    self.sequence_deadline =
                        self.decoder.sequence_timeout().map(|patience| Instant::now() + patience);
                }
            }
            Err(_) => {
                self.input = None;
                self.sequence_deadline = None;
                self.decoder.flush_incomplete(&mut self.waiting);
                self.waiting.push_back(TerminalEvent::Lost);
            }
        }
    }
}

#[expect(unsafe_code, reason = "registering a descriptor requires that it stays open")]
fn listen(input: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped, and `AsyncFd` drops it only after
    // deregistering it.
    Ok(unsafe { AsyncFd::register_with_interest(input, Interest::READABLE) }?)
}

async fn read(input: &Option<AsyncFd<OwnedFd>>) -> io::Result<Vec<u8>> {
    let Some(input) = input else { return std::future::pending().await };
    let mut all = Vec::new();
    loop {
        // No await after a successful read: canceling the future would lose the input.
        let mut ready = input.readable().await?;
        for _ in 0..READS_MAX {
            // Poll first: the terminal stays in blocking mode, because other programs share it, so a read could block.
            let mut polled = [PollFd::new(input, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec::default())) {
                Ok(0) => {
                    ready.clear_ready();
                    break;
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; READ_BYTES];
            match rustix::io::read(input, &mut bytes) {
                Ok(0) if all.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Ok(all),
                Ok(count) => all.extend_from_slice(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) if all.is_empty() => return Err(error.into()),
                // The next read reports the error again.
                Err(_) => return Ok(all),
            }
        }
        if !all.is_empty() {
            return Ok(all);
        }
    }
}
