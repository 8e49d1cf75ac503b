//! Shutdown of the server, as its replies see it.
//!
//! A server holds a [`RunningServer`]; everything that waits on its behalf holds a [`ShutdownSignal`] and stops waiting
//! when the server is dropped.

use std::time::Duration;

use tokio::sync::watch;

/// Guard that a server holds while it runs. Dropping the guard triggers the [`ShutdownSignal`].
#[derive(Debug)]
pub(crate) struct RunningServer {
    _end: watch::Sender<()>,
}

#[derive(Debug, Clone)]
pub(crate) struct ShutdownSignal(watch::Receiver<()>);

pub(crate) fn channel() -> (RunningServer, ShutdownSignal) {
    let (end, signal) = watch::channel(());
    (RunningServer { _end: end }, ShutdownSignal(signal))
}

impl ShutdownSignal {
    pub(crate) fn is_running(&self) -> bool {
        self.0.has_changed().is_ok()
    }

    /// Sleeps for `wait`. Returns false if the server stopped before then.
    pub(crate) async fn sleep(&mut self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.stopped() => false,
        }
    }

    /// Returns when the server is dropped.
    pub(crate) async fn stopped(&mut self) {
        // No value is ever sent: the channel only closes.
        while self.0.changed().await.is_ok() {}
    }
}
