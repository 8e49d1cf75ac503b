//! Keeps a key from answering what was not on the screen long enough to be read.

use std::time::Duration;

/// For how long after it was drawn a question takes no key.
pub const KEY_DEBOUNCE: Duration = Duration::from_millis(300);
/// For how long the keys have to rest where the person was writing something else.
pub(super) const TYPING_DEBOUNCE: Duration = Duration::from_millis(700);

/// When a question begins to take keys.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyDebounce {
    /// Whether it is part of the newest frame, which need not have reached the terminal yet.
    painted: bool,
    until: Option<Duration>,
}

impl KeyDebounce {
    /// A frame with the question was made.
    pub(super) fn note_rendered(&mut self) {
        self.painted = true;
    }

    /// The newest frame is on the screen.
    pub(super) fn note_displayed(&mut self, now: Duration) {
        if self.painted {
            self.until.get_or_insert(now + KEY_DEBOUNCE);
        }
    }

    /// Whether a key that comes now counts; one that comes too early begins the guard anew.
    pub(super) fn accepts(&mut self, now: Duration) -> bool {
        match self.until {
            Some(until) if now >= until => true,
            Some(until) => {
                self.until = Some(until.max(now + KEY_DEBOUNCE));
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
    pub(super) fn note_typing(&mut self, now: Duration) {
        self.until = self.until.map(|until| until.max(now + TYPING_DEBOUNCE));
    }

    /// When it will take keys, where it does not yet.
    pub(super) fn blocked_until(&self, now: Duration) -> Option<Duration> {
        self.until.filter(|until| *until > now)
    }
}
