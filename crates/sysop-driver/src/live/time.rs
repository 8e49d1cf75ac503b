//! Timers of a session, and the time of its turns.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::Input;
use sysop_core::id::{CallId, Timestamp};

use super::{LiveSession, Worker};

impl LiveSession {
    /// Adds `input` after a delay, unless the session ends first.
    pub(super) fn start_timer(self: &Arc<Self>, input: Input, after: Duration) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = live.end.cancelled() => {}
                () = live.ports.clock.sleep(after) => live.deliver(input),
            }
        });
    }

    /// Adds the expiry of an approval after a delay. The timer does not keep the session in memory.
    pub(super) fn start_approval_timer(self: &Arc<Self>, call: CallId, after: Duration) {
        let (live, clock, end) = (Arc::downgrade(self), Arc::clone(&self.ports.clock), self.end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = clock.sleep(after) => {
                    if let Some(live) = live.upgrade() {
                        live.deliver(Input::ApprovalTimer { call });
                    }
                }
            }
        });
    }

    /// Reports to the provider the turn's active time since the last append. Called after each append.
    pub(super) fn count_time(&self, worker: &mut Worker, now: Timestamp) {
        let since = worker.time_counted.take();
        worker.time_counted = worker.session.is_time_counted().then_some(now);
        let spent = since.map_or(0, |since| now.0.saturating_sub(since.0));
        if let Ok(spent) = u64::try_from(spent)
            && spent > 0
        {
            self.runtime.provider.time_spent(Duration::from_millis(spent));
        }
    }
}
