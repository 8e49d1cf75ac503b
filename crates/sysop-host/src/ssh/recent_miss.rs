//! Memory of the last attempt that did not reach the host, so that not every call waits for a host that is down.
//!
//! It shortens the wait only: each call still starts an attempt, and the first one that succeeds ends the memory.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::SshError;

/// Time after a miss during which a connection has less time.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum time to wait for a connection shortly after a miss. The attempt continues after that.
const WAIT_AFTER_MISS_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct RecentMiss(Mutex<Option<(Instant, SshError)>>);

impl RecentMiss {
    /// Returns the maximum time to wait for a connection; `usual` if none was missed a short time ago.
    pub(super) fn wait_max(&self, usual: Duration) -> Duration {
        match self.recent() {
            Some(_) => usual.min(WAIT_AFTER_MISS_MAX),
            None => usual,
        }
    }

    /// Records the result of an attempt. Returns the error of the attempt, or of an earlier one if there is no result
    /// in time (`None`). `destination` names the host.
    pub(super) fn note(
        &self,
        result: Option<Result<(), SshError>>,
        destination: &str,
    ) -> Result<(), SshError> {
        let result = result.unwrap_or_else(|| {
            Err(self.recent().unwrap_or_else(|| SshError::Timeout(destination.to_owned())))
        });
        let missed = match &result {
            Err(error @ (SshError::Timeout(_) | SshError::Unreachable { .. })) => Some(error.clone()),
            // An error that the host or the user causes comes soon, and may end at any time.
            Ok(()) | Err(_) => None,
        };
        *self.0.lock() = missed.map(|error| (Instant::now(), error));
        result
    }

    fn recent(&self) -> Option<SshError> {
        let last = self.0.lock();
        let recent = last.as_ref().filter(|(missed_at, _)| missed_at.elapsed() < REMEMBERED);
        recent.map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::ssh::master::LoginPrompts;

    const USUAL: Duration = Duration::from_secs(9);

    /// Waits for a connection. Returns the result, and the time that it took.
    async fn connect(
        missed: &RecentMiss,
        attempt: impl Future<Output = Result<(), SshError>>,
    ) -> (Result<(), SshError>, Duration) {
        let started = Instant::now();
        let result = LoginPrompts::Never.wait(missed.wait_max(USUAL), attempt).await;
        (missed.note(result, "web1"), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_was_missed_has_less_time_until_it_is_reached() {
        let missed = RecentMiss::default();
        let silent = || Err(SshError::Timeout("web1".to_owned()));
        assert_eq!(connect(&missed, pending()).await, (silent(), USUAL));
        for _ in 0..3 {
            assert_eq!(connect(&missed, pending()).await, (silent(), WAIT_AFTER_MISS_MAX));
        }
        assert_eq!(connect(&missed, ready(Ok(()))).await.0, Ok(()));
        assert_eq!(connect(&missed, pending()).await, (silent(), USUAL));
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(connect(&missed, pending()).await, (silent(), USUAL));
    }

    #[tokio::test(start_paused = true)]
    async fn the_reason_of_a_miss_is_repeated_until_there_is_another_one() {
        let missed = RecentMiss::default();
        let no_route =
            || Err(SshError::Unreachable { destination: "web1".to_owned(), why: "no route".to_owned() });
        assert_eq!(connect(&missed, ready(no_route())).await.0, no_route());
        assert_eq!(connect(&missed, pending()).await, (no_route(), WAIT_AFTER_MISS_MAX));
        let rejected = || Err(SshError::Auth("web1".to_owned()));
        assert_eq!(connect(&missed, ready(rejected())).await.0, rejected());
        assert_eq!(connect(&missed, pending()).await.1, USUAL);
    }
}
