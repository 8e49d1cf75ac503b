//! Queue for PTY output between the reading and the parsing thread.
//!
//! Linux returns at most 4 KiB per read, and the printing program waits for each read. Therefore the reader only reads,
//! and the parser is woken for a large batch, or when output pauses.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

const READ_BYTES: usize = 64 * 1024;
/// Size of the batch, in bytes, that the parser waits for during a flood.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Maximum bytes queued for the parser. While more are queued, the program that prints them is blocked.
const WAITING_BYTES_MAX: usize = 512 * 1024;
/// Batch size, in bytes, from which more output is expected at once: about the size of one read on Linux.
const FLOOD_BYTES: usize = 2 * 1024;
/// Maximum time to wait for a larger batch during a flood.
const FLOOD_WAIT: Duration = Duration::from_millis(2);

/// Bytes read but not yet parsed.
#[derive(Debug, Default)]
pub(super) struct PtyReader {
    waiting: Mutex<PtyReaderState>,
    /// Signaled when as many bytes are queued as the parser wants.
    arrived: Condvar,
    /// Signaled when the queue has room again.
    space_freed: Condvar,
}

#[derive(Debug, Default)]
struct PtyReaderState {
    bytes: Vec<u8>,
    ended: bool,
    /// True after the stop guard was dropped.
    stopped: bool,
    /// Number of bytes that the parser waits for; `None` if it is not waiting.
    bytes_wanted: Option<usize>,
}

#[derive(Debug)]
pub(super) struct StopGuard {
    intake: Arc<PtyReader>,
    /// Write end of the stop pipe: closing it wakes a reader that polls.
    _stop: io::PipeWriter,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.intake.waiting.lock().stopped = true;
        self.intake.space_freed.notify_one();
    }
}

impl PtyReader {
    /// Returns the guard that stops the reader, and the pipe end that the reader must poll.
    pub(super) fn stop_guard(self: &Arc<Self>) -> io::Result<(StopGuard, io::PipeReader)> {
        let (stop, stopper) = io::pipe()?;
        Ok((StopGuard { intake: Arc::clone(self), _stop: stopper }, stop))
    }

    /// Reads a nonblocking terminal until its end, or until the stop guard is dropped.
    pub(super) fn read(&self, master: &OwnedFd, stop: &io::PipeReader) {
        let mut buffer = vec![0; READ_BYTES];
        // Linux returns EIO if the other side is closed.
        while let Ok(bytes @ 1..) = read_some(master, stop, &mut buffer) {
            let mut waiting = self.waiting.lock();
            while waiting.bytes.len() > WAITING_BYTES_MAX && !waiting.stopped {
                self.space_freed.wait(&mut waiting);
            }
            if waiting.stopped {
                break;
            }
            waiting.bytes.extend_from_slice(&buffer[..bytes]);
            let enough = waiting.bytes_wanted.is_some_and(|bytes_wanted| waiting.bytes.len() >= bytes_wanted);
            if enough {
                waiting.bytes_wanted = None;
                drop(waiting);
                self.arrived.notify_one();
            }
        }
        self.waiting.lock().ended = true;
        self.arrived.notify_one();
    }

    /// Replaces the contents of `batch` with the queued bytes, and waits if there are none. If the previous batch was
    /// large, waits for `BATCH_BYTES` bytes, but at most for `FLOOD_WAIT`; the batch is then empty if nothing arrives
    /// in that time. Returns `None` at the end of output.
    pub(super) fn next(&self, batch: &mut Vec<u8>) -> Option<()> {
        let flood = batch.len() >= FLOOD_BYTES;
        batch.clear();
        let bytes_wanted = if flood { BATCH_BYTES } else { 1 };
        let mut waiting = self.waiting.lock();
        let lacks = |waiting: &mut PtyReaderState| {
            let lacks = waiting.bytes.len() < bytes_wanted && !waiting.ended;
            waiting.bytes_wanted = lacks.then_some(bytes_wanted);
            lacks
        };
        if flood {
            self.arrived.wait_while_for(&mut waiting, lacks, FLOOD_WAIT);
            waiting.bytes_wanted = None;
        } else {
            self.arrived.wait_while(&mut waiting, lacks);
        }
        if waiting.ended && waiting.bytes.is_empty() {
            return None;
        }
        let held_up = waiting.bytes.len() > WAITING_BYTES_MAX;
        std::mem::swap(batch, &mut waiting.bytes);
        drop(waiting);
        if held_up {
            self.space_freed.notify_one();
        }
        Some(())
    }
}

/// Reads available bytes, and waits if there are none. Returns 0 if the reader is stopped.
fn read_some(master: &OwnedFd, stop: &io::PipeReader, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(master, &mut *buffer) {
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            done => return done,
        }
        let mut both = [
            PollFd::from_borrowed_fd(master.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut both, None) {
            Ok(_) if !both[1].revents().is_empty() => return Ok(0),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Write};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::{PtyReader, WAITING_BYTES_MAX};

    fn not_blocking(reader: PipeReader) -> OwnedFd {
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        reader.into()
    }

    #[test]
    fn all_output_arrives_in_order() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (reader, intake) = (not_blocking(reader), Arc::new(PtyReader::default()));
        let (_reading, stop) = intake.stop_guard().unwrap();
        let sent: Vec<u8> = (0..=250).cycle().take(4 * WAITING_BYTES_MAX).collect();
        let mut arrived = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| intake.read(&reader, &stop));
            scope.spawn(|| {
                writer.write_all(&sent).unwrap();
                drop(writer);
            });
            let mut batch = Vec::new();
            while intake.next(&mut batch).is_some() {
                assert!(batch.len() <= 2 * WAITING_BYTES_MAX, "{} bytes", batch.len());
                arrived.extend_from_slice(&batch);
            }
        });
        assert!(arrived == sent, "{} bytes arrived of {}", arrived.len(), sent.len());
    }

    #[test]
    fn a_silent_terminal_is_read_until_it_is_stopped() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (reader, intake) = (not_blocking(reader), Arc::new(PtyReader::default()));
        let (reading, stop) = intake.stop_guard().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| intake.read(&reader, &stop));
            drop(reading);
            assert_eq!(intake.next(&mut Vec::new()), None);
        });
    }

    #[test]
    fn an_unread_flood_can_be_stopped() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (reader, intake) = (not_blocking(reader), Arc::new(PtyReader::default()));
        let (reading, stop) = intake.stop_guard().unwrap();
        std::thread::scope(|scope| {
            let stopped = &intake;
            scope.spawn(move || {
                stopped.read(&reader, &stop);
                // Closing the terminal is what ends the flood.
                drop(reader);
            });
            let flood = vec![b'x'; WAITING_BYTES_MAX];
            writer.write_all(&flood).unwrap();
            drop(reading);
            let refused = (0..).find_map(|_| writer.write_all(&flood).err()).expect("it ends");
            assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
        });
    }
}
