//! Lingering close: delays closing a connection until the peer could read the last response.
//!
//! A request may be answered before its body was read completely: it is too large, or has no valid token. Closing the
//! connection at once would make the kernel send a reset, because unread bytes are pending, and a peer that is still
//! sending would often lose the response. So the write side is shut down first, and incoming bytes are discarded for a
//! while.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time for which incoming bytes are discarded.
const LINGER_WAIT: Duration = Duration::from_secs(5);
/// Bytes read at once.
const PIECE_BYTES: usize = 16 * 1024;
/// Maximum number of reads before the task yields.
const PIECES_MAX: usize = 16;

/// Flag that the HTTP service sets for its connection: while it is set, closing the connection is delayed.
#[derive(Debug, Clone, Default)]
pub(super) struct Linger(Arc<AtomicBool>);

impl Linger {
    pub(super) fn set(&self, lingers: LingerMode) {
        self.0.store(lingers == LingerMode::UntilRead, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LingerMode {
    Off,
    /// The connection is closed when the peer has closed its side, or after [`LINGER_WAIT`].
    UntilRead,
}

pub(super) struct LingeringClose<S> {
    inner: S,
    linger: Linger,
    /// Timer, running since the write side was shut down.
    closing: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringClose<S> {
    pub(super) fn new(inner: S, linger: Linger) -> Self {
        Self { inner, linger, closing: None }
    }
}

impl<S: AsyncRead + Unpin> LingeringClose<S> {
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut piece = [0; PIECE_BYTES];
        for _ in 0..PIECES_MAX {
            let mut buffer = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()), // the peer closed the connection
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        }
        if !self.linger.0.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let closing = self.closing.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_WAIT)));
        if closing.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_discard(context).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::{LINGER_WAIT, Linger, LingerMode, LingeringClose};

    #[tokio::test(start_paused = true)]
    async fn later_input_is_discarded_for_a_while() {
        let linger = Linger::default();
        linger.set(LingerMode::UntilRead);
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = LingeringClose::new(near, linger.clone());
        let sends = tokio::spawn(async move {
            let mut second = tokio::time::interval(Duration::from_secs(1));
            while far.write_all(b"more than fits").await.is_ok() {
                second.tick().await;
            }
        });
        let began = Instant::now();
        near.shutdown().await.unwrap();
        assert_eq!(began.elapsed(), LINGER_WAIT);
        drop(near);
        sends.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_peer_is_not_waited_for() {
        for lingers in [LingerMode::Off, LingerMode::UntilRead] {
            let linger = Linger::default();
            linger.set(lingers);
            let (near, mut far) = tokio::io::duplex(8);
            let mut near = LingeringClose::new(near, linger);
            let began = Instant::now();
            let reads = tokio::spawn(async move {
                let mut rest = Vec::new();
                far.read_to_end(&mut rest).await.unwrap(); // and closes
            });
            near.shutdown().await.unwrap();
            assert_eq!(began.elapsed(), Duration::ZERO);
            reads.await.unwrap();
        }
    }
}
