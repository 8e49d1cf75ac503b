//! Evicts idle sessions from memory.
//!
//! An unused session stays in memory for a while before it is evicted, because the next request for it is likely. At
//! most [`IDLE_SESSIONS_MAX`] idle sessions opened from logs are in memory, whatever clients request.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::id::{SessionId, Timestamp};

use crate::driver::{Driver, DriverInner, Handle};
use crate::live::LiveSession;

/// Maximum idle sessions opened from logs that stay in memory.
pub const IDLE_SESSIONS_MAX: usize = 64;
/// Maximum eviction candidates checked per insertion. Candidates that are still in use are skipped.
const EVICTION_CHECKS_MAX: usize = 8;

impl Driver {
    /// Evicts sessions that are unused and have been idle for at least `idle`. They are opened from their
    /// logs again when needed. In a cluster, idle sessions are evicted and released at once, so that they can
    /// move to the node that uses them.
    pub fn evict_idle(&self, idle: Duration) {
        let now = self.inner.ports.clock.now();
        let idle = if self.inner.membership.is_some() { Duration::ZERO } else { idle };
        let evicted: Vec<_> = {
            let mut sessions = self.inner.sessions.lock();
            let is_idle = |_: &SessionId, handle: &mut Handle| {
                Arc::strong_count(&handle.live) == 1 && handle.is_idle(now, idle)
            };
            sessions.extract_if(is_idle).collect()
        };
        for (_, handle) in evicted {
            self.inner.release(&handle); // the session's host may have cleanup to do, which needs no lock
        }
    }
}

impl DriverInner {
    /// Registers `newest` as opened from its log. If there are now more than [`IDLE_SESSIONS_MAX`] such sessions,
    /// evicts the oldest idle ones.
    pub(crate) fn enforce_idle_limit(&self, newest: &Arc<LiveSession>) {
        let now = self.ports.clock.now();
        let mut evicted = Vec::new();
        let mut from_logs = self.from_logs.lock();
        from_logs.push_back(Arc::downgrade(newest));
        for _ in 0..EVICTION_CHECKS_MAX {
            if from_logs.len() <= IDLE_SESSIONS_MAX {
                break;
            }
            let Some(live) = from_logs.pop_front().and_then(|oldest| oldest.upgrade()) else { continue };
            let mut sessions = self.sessions.lock();
            let known = sessions.get(live.id()).filter(|handle| Arc::ptr_eq(&handle.live, &live));
            // Two references: the map's and this one.
            match known {
                Some(handle) if Arc::strong_count(&live) == 2 && handle.is_idle(now, Duration::ZERO) => {
                    evicted.extend(sessions.remove(live.id()));
                }
                Some(_) => from_logs.push_back(Arc::downgrade(&live)),
                None => {}
            }
        }
        drop(from_logs);
        for handle in evicted {
            self.release(&handle);
        }
    }

    /// Evicts a session if it is unused here and idle. Returns true if the session is no longer in memory.
    pub(crate) fn evict_if_idle(&self, id: &SessionId) -> bool {
        let now = self.ports.clock.now();
        let evicted = {
            let mut sessions = self.sessions.lock();
            match sessions.get(id) {
                None => return true,
                Some(handle)
                    if Arc::strong_count(&handle.live) > 1 || !handle.is_idle(now, Duration::ZERO) =>
                {
                    return false;
                }
                Some(_) => sessions.remove(id),
            }
        };
        if let Some(handle) = evicted {
            self.release(&handle);
        }
        true
    }

    /// Releases an evicted session to the other nodes, because this node no longer handles its inputs.
    fn release(&self, handle: &Handle) {
        let Some(lease) = &handle.lease else { return };
        if handle.live.closed().is_none() {
            handle.live.hub.close(); // also ends the relay
            lease.release();
        }
    }
}

impl Handle {
    fn is_idle(&self, now: Timestamp, idle: Duration) -> bool {
        let relays = self.lease.as_ref().map_or(0, |lease| lease.relays());
        self.live.is_idle(now, idle, relays)
    }
}
