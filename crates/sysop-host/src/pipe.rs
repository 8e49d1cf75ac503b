//! Pipes that this process reads.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use tokio::net::unix::pipe::Receiver;

use crate::platform::grow_pipe;

/// Creates a pipe with close-on-exec. Returns the read end and the write end; both block. A system may set the flag
/// after it has created the pipe; a program that another thread starts in between, except by `spawn`, then inherits the
/// pipe.
pub(crate) fn blocking_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((read.into(), write.into()))
}

/// Creates a pipe with a capacity of about `bytes`. Returns the read end and the write end.
pub(crate) fn sized_pipe(bytes: usize) -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = default_pipe()?;
    grow(&read, bytes);
    Ok((read, write))
}

/// Creates a pipe with the system's default capacity: 64 KiB on Linux.
pub(crate) fn default_pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = blocking_pipe()?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((Receiver::from_owned_fd_unchecked(read)?, write))
}

/// Sets the capacity of a pipe to about `bytes`. Errors are ignored: a smaller pipe is only slower.
pub(crate) fn grow(pipe: &Receiver, bytes: usize) {
    grow_pipe(pipe, bytes);
}

/// Waits for bytes and reads them. Returns their number, which is 0 at the end.
pub(crate) async fn read(pipe: &Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// Reads to the end and discards the data.
pub(crate) async fn discard_output(pipe: &Receiver) {
    let mut buffer = vec![0; 8 * 1024];
    while matches!(read(pipe, &mut buffer).await, Ok(1..)) {}
}
