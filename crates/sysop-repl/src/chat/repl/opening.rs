//! Opening of a session: its updates from the beginning of the log, and the header.

use std::collections::VecDeque;
use std::io;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use sysop_core::event::{Event, Update};
use sysop_core::id::Seq;
use sysop_driver::frontend::SessionHandle;

use super::Repl;

/// Updates of a session, of which some may have been looked at before their turn.
pub(super) struct SessionUpdates {
    stream: BoxStream<'static, Update>,
    /// Updates that were taken from the stream and are still to be handled.
    seen: VecDeque<Update>,
}

impl SessionUpdates {
    pub(super) fn of(session: &dyn SessionHandle) -> Self {
        Self::new(session.subscribe(Seq(0)))
    }

    fn new(stream: BoxStream<'static, Update>) -> Self {
        // The end of the stream may be seen before its turn, and then once more.
        Self { stream: stream.fuse().boxed(), seen: VecDeque::new() }
    }

    /// Returns the next update, or `None` once the session takes no more inputs.
    pub(super) async fn next(&mut self) -> Option<Update> {
        match self.seen.pop_front() {
            Some(update) => Some(update),
            None => self.stream.next().await,
        }
    }

    /// Returns true if updates that were looked at are still to be handled.
    pub(super) fn has_seen(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Returns the updates that have already arrived, without handling them.
    fn look_ahead(&mut self) -> impl Iterator<Item = &Update> {
        while let Some(Some(update)) = self.stream.next().now_or_never() {
            self.seen.push_back(update);
        }
        self.seen.iter()
    }
}

impl Repl {
    /// Describes the session and its last turn, once, as soon as both are known.
    pub(super) fn introduce(&mut self) -> io::Result<()> {
        if self.introduced || self.transcript.session_info().is_none() {
            return Ok(());
        }
        self.introduced = true;
        // Opening a session changes its settings, for example to the configured approval mode.
        let mut current = self.transcript.clone();
        for update in self.updates.look_ahead() {
            if let Update::Logged(logged) = update
                && let Event::Configured { .. } = logged.event
            {
                current.apply(update);
            }
        }
        self.view.header(&current, &mut self.screen)?;
        if self.transcript.turn().0 > 0 && self.replay_until > Seq(1) {
            self.view.recap(&self.transcript, &mut self.screen)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::event::Delta;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_updates_can_be_seen_ahead() {
        let notice = |text: &str| Update::Delta(Delta::Notice { text: text.to_owned() });
        let texts = ["one", "two"].map(notice).into_iter();
        let stream = futures::stream::unfold(texts, async |mut texts| Some((texts.next()?, texts)));
        let mut updates = SessionUpdates::new(stream.boxed());
        assert_eq!(updates.look_ahead().count(), 2);
        assert_eq!(updates.next().await, Some(notice("one")));
        assert_eq!(updates.next().await, Some(notice("two")));
        assert_eq!(updates.next().await, None);
    }
}
