//! Pipes whose reading ends are ours.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::unix::pipe::Receiver;

/// A pipe that holds about `bytes`; the second end is for whoever writes.
pub(crate) fn sized_pipe(bytes: usize) -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = default_pipe()?;
    grow(&read, bytes);
    Ok((read, write))
}

/// A pipe that holds what the system gives it: 64 KiB on Linux.
pub(crate) fn default_pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((Receiver::from_owned_fd_unchecked(read)?, write))
}

/// Lets a pipe hold about `bytes`. A smaller one is only slower.
pub(crate) fn grow(pipe: &Receiver, bytes: usize) {
    let _ = fcntl_setpipe_size(pipe, bytes);
}

/// Reads what there is; 0 is the end.
pub(crate) async fn read(pipe: &Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// Reads to the end, to nowhere.
pub(crate) async fn discard_output(pipe: &Receiver) {
    let mut buffer = vec![0; 8 * 1024];
    while matches!(read(pipe, &mut buffer).await, Ok(1..)) {}
}
