//! Delivery of updates to the front ends of one session. Each front end gets every event once and in order, even if the
//! connection breaks and is restored.
//!
//! Memory stays bounded even if a front end does not read. Beyond one limit, its deltas are dropped. Beyond a second
//! limit, its events are dropped as well, and they are sent again when the front end continues to read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::event::{Delta, Update};
use sysop_core::id::Seq;
use sysop_core::question::{Question, QuestionId};
use tokio::sync::Notify;

/// Maximum pending updates per front end. If there are more, its events are dropped and later sent again from the log.
const WAITING_MAX: usize = 16_384;
/// Maximum number of deltas with text or output among the pending updates of a front end.
const PIECES_MAX: usize = 4_096;

/// The front ends of one session, each with a queue of pending updates.
pub(crate) struct UpdateFanout {
    state: Mutex<State>,
    /// Notified when a front end lacks events, so that the log must be requested from the server again.
    pub(crate) rewind: Notify,
}

#[derive(Default)]
struct State {
    subscribers: Vec<Weak<Subscriber>>,
    questions: BTreeMap<QuestionId, Question>,
    /// Line for the first front end, once it has the log up to this event.
    first_notice: Option<(String, Seq)>,
    rewind_requested: bool,
    ended: bool,
}

struct Subscriber {
    state: Mutex<SubscriberQueue>,
    changed: Notify,
}

struct SubscriberQueue {
    queue: VecDeque<Update>,
    pieces: usize,
    last: Seq,
    /// Line to show after the event with this number.
    notice: Option<(String, Seq)>,
    /// True while events are ignored, because the log will be sent again.
    awaiting_replay: bool,
    ended: bool,
}

impl UpdateFanout {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), rewind: Notify::new() }
    }

    /// Adds a front end that has all events up to `after`.
    pub(crate) fn subscribe(self: &Arc<Self>, after: Seq) -> BoxStream<'static, Update> {
        let mut state = self.state.lock();
        let questions =
            state.questions.values().map(|question| Delta::Question { question: question.clone() });
        let queue = questions.map(Update::Delta).collect();
        let notice = state.first_notice.take();
        let ended = state.ended;
        let mut waiting =
            SubscriberQueue { queue, pieces: 0, last: after, notice, awaiting_replay: true, ended };
        waiting.show_notice();
        let subscriber = Arc::new(Subscriber { state: Mutex::new(waiting), changed: Notify::new() });
        state.subscribers.push(Arc::downgrade(&subscriber));
        state.rewind_requested = true;
        drop(state);
        self.rewind.notify_one();
        let fanout = Arc::clone(self);
        futures::stream::unfold((subscriber, fanout), |(subscriber, fanout)| async {
            let update = subscriber.next(&fanout).await?;
            Some((update, (subscriber, fanout)))
        })
        .boxed()
    }

    /// Returns true if a front end needs the log again, and clears that request.
    pub(crate) fn take_rewind_request(&self) -> bool {
        std::mem::take(&mut self.state.lock().rewind_requested)
    }

    /// Starts a replay of the whole log, from which each front end takes the events that it lacks.
    pub(crate) fn begin_replay(&self) {
        self.each(|subscriber| subscriber.state.lock().awaiting_replay = false);
    }

    /// Sends an update to every front end.
    pub(crate) fn publish(&self, update: &Update) {
        self.each(|subscriber| subscriber.take(update));
    }

    /// Shows a line to the user of the first front end, which may not have subscribed yet, once it has the log up to
    /// `after`. A front end ignores lines while it reads the log.
    pub(crate) fn set_first_notice(&self, text: String, after: Seq) {
        self.state.lock().first_notice = Some((text, after));
    }

    /// Shows a line to the users.
    pub(crate) fn notice(&self, text: impl Into<String>) {
        self.publish(&Update::Delta(Delta::Notice { text: text.into() }));
    }

    pub(crate) fn ask(&self, question: Question) {
        self.state.lock().questions.insert(question.id, question.clone());
        self.publish(&Update::Delta(Delta::Question { question }));
    }

    pub(crate) fn close_question(&self, id: QuestionId, by: Option<&str>) {
        if self.state.lock().questions.remove(&id).is_some() {
            let by = by.map(str::to_owned);
            self.publish(&Update::Delta(Delta::QuestionClosed { id, by }));
        }
    }

    /// Ends all subscriptions, because the session is gone.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.each(|subscriber| subscriber.state.lock().ended = true);
    }

    fn each(&self, act: impl Fn(&Subscriber)) {
        let subscribers: Vec<Arc<Subscriber>> = {
            let mut state = self.state.lock();
            state.subscribers.retain(|subscriber| subscriber.strong_count() > 0);
            state.subscribers.iter().filter_map(Weak::upgrade).collect()
        };
        for subscriber in subscribers {
            act(&subscriber);
            subscriber.changed.notify_one();
        }
    }
}

impl SubscriberQueue {
    /// Adds the notice to the queue if the events before it are there.
    fn show_notice(&mut self) {
        let last = self.last;
        if let Some((text, _)) = self.notice.take_if(|(_, after)| last >= *after) {
            self.queue.push_back(Update::Delta(Delta::Notice { text }));
        }
    }
}

impl Subscriber {
    fn take(&self, update: &Update) {
        let mut state = self.state.lock();
        match update {
            Update::Logged(logged) => {
                if state.awaiting_replay || logged.seq <= state.last {
                    return;
                }
                if state.queue.len() >= WAITING_MAX {
                    state.awaiting_replay = true;
                    return;
                }
                state.last = logged.seq;
            }
            Update::Delta(Delta::Text { .. } | Delta::Reasoning { .. } | Delta::Output { .. }) => {
                if state.awaiting_replay || state.pieces >= PIECES_MAX {
                    return; // the event contains the whole text
                }
                state.pieces += 1;
            }
            Update::Delta(
                Delta::Restarted { .. }
                | Delta::Progress { .. }
                | Delta::Notice { .. }
                | Delta::Question { .. }
                | Delta::QuestionClosed { .. }
                | Delta::Control { .. },
            ) => {
                if state.queue.len() >= 2 * WAITING_MAX {
                    return;
                }
            }
        }
        state.queue.push_back(update.clone());
        state.show_notice();
    }

    async fn next(&self, fanout: &UpdateFanout) -> Option<Update> {
        loop {
            let changed = self.changed.notified();
            let behind = {
                let mut state = self.state.lock();
                if let Some(update) = state.queue.pop_front() {
                    if matches!(
                        update,
                        Update::Delta(Delta::Text { .. } | Delta::Reasoning { .. } | Delta::Output { .. })
                    ) {
                        state.pieces -= 1;
                    }
                    return Some(update);
                }
                if state.ended {
                    return None;
                }
                state.awaiting_replay
            };
            if behind {
                fanout.state.lock().rewind_requested = true;
                fanout.rewind.notify_one();
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sysop_core::event::{Event, Logged};
    use sysop_core::id::{StepId, Timestamp};

    use super::*;

    fn event(seq: u64) -> Update {
        Update::Logged(Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event: Event::Resumed }))
    }

    fn seqs(stream: &mut BoxStream<'static, Update>) -> Vec<u64> {
        let mut seqs = Vec::new();
        while let Some(Some(update)) = stream.next().now_or_never() {
            if let Update::Logged(logged) = update {
                seqs.push(logged.seq.0);
            }
        }
        seqs
    }

    #[test]
    fn every_subscriber_gets_each_event_once_despite_replays() {
        let fanout = Arc::new(UpdateFanout::new());
        let mut early = fanout.subscribe(Seq(0));
        fanout.begin_replay();
        (1..=3).for_each(|seq| fanout.publish(&event(seq)));
        let mut late = fanout.subscribe(Seq(1));
        assert!(fanout.take_rewind_request() && !fanout.take_rewind_request());
        fanout.publish(&event(4)); // a gap for the late front end
        fanout.begin_replay();
        (1..=5).for_each(|seq| fanout.publish(&event(seq)));
        assert_eq!(seqs(&mut early), [1, 2, 3, 4, 5]);
        assert_eq!(seqs(&mut late), [2, 3, 4, 5]);
    }

    #[test]
    fn the_first_notice_follows_the_replay_of_the_first_subscriber() {
        let fanout = Arc::new(UpdateFanout::new());
        fanout.set_first_notice("opened another one".to_owned(), Seq(2));
        let (mut first, mut second) = (fanout.subscribe(Seq(0)), fanout.subscribe(Seq(0)));
        fanout.begin_replay();
        (1..=3).for_each(|seq| fanout.publish(&event(seq)));
        let kinds = |stream: &mut BoxStream<'static, Update>| {
            let updates = std::iter::from_fn(|| stream.next().now_or_never().flatten());
            updates.map(|update| matches!(update, Update::Delta(Delta::Notice { .. }))).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&mut first), [false, false, true, false]);
        assert_eq!(kinds(&mut second), [false, false, false]);
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_bounded_and_catches_up() {
        let fanout = Arc::new(UpdateFanout::new());
        let mut subscriber = fanout.subscribe(Seq(0));
        fanout.begin_replay();
        let many = WAITING_MAX as u64 + 100;
        (1..=many).for_each(|seq| fanout.publish(&event(seq)));
        let piece = Update::Delta(Delta::Text { step: StepId::default(), text: "x".into() });
        (0..PIECES_MAX + 10).for_each(|_| fanout.publish(&piece));
        assert!(fanout.take_rewind_request());
        assert_eq!(seqs(&mut subscriber).len(), WAITING_MAX);
        assert!(fanout.take_rewind_request(), "a front end that lags behind requests the log");
        fanout.begin_replay();
        (1..=many).for_each(|seq| fanout.publish(&event(seq)));
        assert_eq!(seqs(&mut subscriber), (WAITING_MAX as u64 + 1..=many).collect::<Vec<_>>());
        fanout.end();
        assert!(subscriber.next().now_or_never().unwrap().is_none());
    }
}
