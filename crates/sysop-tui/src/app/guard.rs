//! Keeps a key from answering what was not on the screen long enough to be read.

use std::time::Duration;

/// For how long after it was drawn a question takes no key.
pub const GUARD: Duration = Duration::from_millis(300);
/// For how long the keys have to rest where the person was writing something else.
pub(super) const WRITING_GUARD: Duration = Duration::from_millis(700);

/// When a question begins to take keys.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Guard {
    until: Option<Duration>,
}

impl Guard {
    /// The question is on the screen.
    pub(super) fn drawn(&mut self, now: Duration) {
        self.until.get_or_insert(now + GUARD);
    }

    /// Whether a key that comes now counts; one that comes too early begins the guard anew.
    pub(super) fn takes(&mut self, now: Duration) -> bool {
        match self.until {
            Some(until) if now >= until => true,
            Some(until) => {
                self.until = Some(until.max(now + GUARD));
                false
            }
            None => false,
        }
    }

    /// Whether a key that comes now counts.
    pub(super) fn is_over(self, now: Duration) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// The person writes something else.
    pub(super) fn writing(&mut self, now: Duration) {
        self.until = self.until.map(|until| until.max(now + WRITING_GUARD));
    }

    /// When it will take keys, where it does not yet.
    pub(super) fn waits_until(&self, now: Duration) -> Option<Duration> {
        self.until.filter(|until| *until > now)
    }
}
