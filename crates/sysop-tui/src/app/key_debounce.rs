//! Prevents keys from answering a question that has not been displayed long enough to be read.

use std::time::Duration;

use crossterm::event::KeyEvent;

use super::review::is_plain;

/// Duration for which a question ignores keys after being displayed.
pub const KEY_DEBOUNCE: Duration = Duration::from_millis(300);
/// Duration for which a question ignores keys after the user last typed into something else.
pub(super) const TYPING_DEBOUNCE: Duration = Duration::from_millis(700);

/// Time for which a letter that answered a proposal is ignored if it is pressed again.
const REPEAT_DEBOUNCE: Duration = Duration::from_secs(1);

/// Time from which a question accepts keys, unknown until the question has been displayed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyDebounce {
    /// True if the newest rendered frame contains the question; that frame may not be on the terminal yet.
    painted: bool,
    until: Option<Duration>,
}

impl KeyDebounce {
    pub(super) fn note_rendered(&mut self) {
        self.painted = true;
    }

    /// Records that the newest frame has reached the terminal.
    pub(super) fn note_displayed(&mut self, now: Duration) {
        if self.painted {
            self.until.get_or_insert(now + KEY_DEBOUNCE);
        }
    }

    /// Returns true if a key now counts as an answer. A key that comes too early restarts the delay.
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

    /// Returns true if a key now counts as an answer. Unlike [`Self::accepts`], does not restart the delay.
    pub(super) fn is_over(self, now: Duration) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Returns a delay that is over, for a question that the user has read.
    pub(super) fn over() -> Self {
        Self { painted: true, until: Some(Duration::ZERO) }
    }

    /// Extends the delay, unless it is over, because the user is typing something else.
    pub(super) fn note_typing(&mut self, now: Duration) {
        if let Some(until) = self.until.as_mut().filter(|until| **until > now) {
            *until = (*until).max(now + TYPING_DEBOUNCE);
        }
    }

    /// Returns the time until which keys are ignored, or `None` if it is unknown or has passed.
    pub(super) fn blocked_until(&self, now: Duration) -> Option<Duration> {
        self.until.filter(|until| *until > now)
    }
}

/// Repeats of the letter that answered a proposal. A user who presses it again because the first press seems to have no
/// effect, as over a slow connection, does not begin a message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnswerRepeats {
    last: Option<char>,
    /// Letter that is ignored until the given time.
    ignored: Option<(char, Duration)>,
}

impl AnswerRepeats {
    pub(super) fn note_key(&mut self, key: KeyEvent) {
        self.last = key.code.as_char().filter(|_| is_plain(key));
        self.ignored = self.ignored.filter(|(letter, _)| self.last == Some(*letter));
    }

    /// Records that the last key has answered a proposal.
    pub(super) fn note_answer(&mut self, now: Duration) {
        self.ignored = self.last.map(|letter| (letter, now + REPEAT_DEBOUNCE));
    }

    /// Returns true if the last key only repeats an answer. It then extends the time, as a key may be held down.
    pub(super) fn is_repeat(&mut self, now: Duration) -> bool {
        self.ignored = self.ignored.filter(|(_, until)| now < *until);
        self.ignored.as_mut().is_some_and(|(_, until)| {
            *until = (*until).max(now + KEY_DEBOUNCE);
            true
        })
    }
}
