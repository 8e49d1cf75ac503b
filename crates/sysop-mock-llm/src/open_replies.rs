//! Number of chat requests that are being answered, for tests that wait for a reply to begin or end.

use tokio::sync::watch;

/// Counts the chat requests that are being answered.
#[derive(Debug, Default)]
pub(crate) struct OpenReplies(watch::Sender<usize>);

impl OpenReplies {
    /// Counts one more request until the guard is dropped.
    pub(crate) fn begin(&self) -> OpenReplyGuard {
        self.0.send_modify(|count| *count += 1);
        OpenReplyGuard(self.0.clone())
    }

    pub(crate) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until exactly `count` requests are being answered.
    pub(crate) async fn wait_for(&self, count: usize) {
        let mut open = self.0.subscribe();
        open.wait_for(|now| *now == count).await.expect("the sender lives in self");
    }
}

/// Guard that counts one chat request as being answered until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenReplyGuard(watch::Sender<usize>);

impl Drop for OpenReplyGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
