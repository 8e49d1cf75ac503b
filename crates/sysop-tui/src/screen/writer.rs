//! Writes to the person's terminal from a thread of its own: a terminal that takes nothing (a stopped one, a line that
//! is down) holds up this thread and nobody else.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Bytes that wait for the terminal, beyond which more are dropped: frames are drawn only when none is on its way.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The way to the terminal.
pub(super) struct ScreenWriter {
    queue: Arc<WriterQueue>,
}

struct WriterQueue {
    state: Mutex<State>,
    /// Something is to be written, or all is over.
    work_available: Condvar,
    /// Something was written, or cannot be.
    written: Condvar,
    /// The same for those that wait in a task.
    idle: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    writing: bool,
    closed: bool,
    /// The terminal is gone.
    lost: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lost || (self.waiting.is_empty() && !self.writing)
    }
}

impl WriterQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenWriter {
    /// Starts the thread.
    pub(super) fn start(out: OwnedFd) -> std::io::Result<Self> {
        let queue = Arc::new(WriterQueue {
            state: Mutex::default(),
            work_available: Condvar::new(),
            written: Condvar::new(),
            idle: Notify::new(),
        });
        let its = Arc::clone(&queue);
        std::thread::Builder::new().name("screen".to_owned()).spawn(move || run(&its, &out))?;
        Ok(Self { queue })
    }

    /// Writes as soon as the terminal takes it.
    pub(super) fn send(&self, bytes: &[u8]) {
        let mut state = self.queue.state();
        if !bytes.is_empty() && !state.lost && state.waiting.len() + bytes.len() <= WAITING_BYTES_MAX {
            state.waiting.extend_from_slice(bytes);
            drop(state);
            self.queue.work_available.notify_one();
        }
    }

    /// Whether all was written.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.state().is_idle()
    }

    /// Whether the terminal is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.queue.state().lost
    }

    /// Waits until all was written; for as long as the terminal takes nothing, if need be.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.queue.idle.notified();
            if self.is_idle() {
                return;
            }
            notified.await;
        }
    }

    /// Waits so long at most until all was written.
    pub(super) fn settle(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let mut state = self.queue.state();
        while !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.queue.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for ScreenWriter {
    fn drop(&mut self) {
        self.queue.state().closed = true;
        // It is not waited for: it may never come back from a terminal that takes nothing.
        self.queue.work_available.notify_one();
    }
}

fn run(queue: &WriterQueue, out: &OwnedFd) {
    let mut bytes = Vec::new();
    loop {
        let mut state = queue.state();
        while state.waiting.is_empty() && !state.closed {
            state = queue.work_available.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.is_empty() {
            return;
        }
        std::mem::swap(&mut bytes, &mut state.waiting);
        state.writing = true;
        drop(state);
        let done = write_all(out, &bytes);
        bytes.clear();
        let mut state = queue.state();
        state.writing = false;
        if done.is_err() {
            state.lost = true;
            state.waiting = Vec::new();
        }
        drop(state);
        queue.written.notify_all();
        queue.idle.notify_waiters();
    }
}

fn write_all(out: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(out, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Somebody else may have made it so.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(out, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
