//! Writes to the terminal from a separate thread, so that a terminal that accepts no output (suspended, or a broken
//! connection) blocks only this thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Maximum number of bytes waiting to be written; excess output is dropped. Frames wait for an empty queue.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Queue to the writer thread.
pub(super) struct ScreenWriter {
    queue: Arc<WriterQueue>,
}

struct WriterQueue {
    state: Mutex<State>,
    /// Notified when there is output to write, or the queue is closed.
    work_available: Condvar,
    /// Notified when output has been written or cannot be written.
    written: Condvar,
    /// Like `written`, for async tasks.
    idle: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    writing: bool,
    closed: bool,
    lost: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lost || (self.waiting.is_empty() && !self.writing)
    }
}

impl WriterQueue {}

impl ScreenWriter {
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

    pub(super) fn send(&self, bytes: &[u8]) {
        let mut state = self.queue.state.lock();
        if !bytes.is_empty() && !state.lost && state.waiting.len() + bytes.len() <= WAITING_BYTES_MAX {
            state.waiting.extend_from_slice(bytes);
            drop(state);
            self.queue.work_available.notify_one();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.state.lock().is_idle()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.queue.state.lock().lost
    }

    /// Waits until all output has been written, without a time limit.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.queue.idle.notified();
            if self.is_idle() {
                return;
            }
            notified.await;
        }
    }

    /// Waits at most `longest` for all output to be written.
    pub(super) fn settle(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let mut state = self.queue.state.lock();
        while !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.queue.written.wait_for(&mut state, left);
        }
    }
}

impl Drop for ScreenWriter {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        // Does not join the thread, which may be blocked by the terminal forever.
        self.queue.work_available.notify_one();
    }
}

fn run(queue: &WriterQueue, out: &OwnedFd) {
    let mut bytes = Vec::new();
    loop {
        let mut state = queue.state.lock();
        while state.waiting.is_empty() && !state.closed {
            queue.work_available.wait(&mut state);
        }
        if state.waiting.is_empty() {
            return;
        }
        std::mem::swap(&mut bytes, &mut state.waiting);
        state.writing = true;
        drop(state);
        let done = write_all(out, &bytes);
        bytes.clear();
        let mut state = queue.state.lock();
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
            // Another process may have made the descriptor nonblocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(out, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
