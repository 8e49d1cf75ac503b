//! Publishes a session's updates to any number of front ends.
//!
//! No front end can slow the session or grow its memory: live deltas that nobody has taken yet are joined, and a front end
//! that falls far behind is sent back to the log, from which it misses nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sysop_core::event::{Delta, Logged, Update};
use sysop_core::id::{Seq, SessionId, StepId};
use sysop_core::question::{Question, QuestionId};
use tokio::sync::Notify;

use crate::LOAD_EVENTS_MAX;
use crate::port::Store;

/// How many of the newest events are kept for those who subscribe.
const RECENT_EVENTS_MAX: usize = 64;
/// How many updates may wait for one front end before it is sent back to the log.
const MAILBOX_UPDATES_MAX: usize = 4096;
/// How much joined output of one call may wait for one front end; the oldest goes first.
const PENDING_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// How many bytes of deltas may wait for one front end; one more is not told to it.
const PENDING_DELTA_BYTES_MAX: usize = 1024 * 1024;

/// The publishing end.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    mailboxes: Vec<Weak<Mailbox>>,
    recent: VecDeque<Arc<Logged>>,
    questions: Vec<Question>,
    closed: bool,
}

#[derive(Default)]
struct Mailbox {
    state: Mutex<MailboxState>,
    arrived: Notify,
}

#[derive(Default)]
struct MailboxState {
    waiting: VecDeque<Update>,
    /// Questions and their ends: handed out first, and never thrown away.
    questions: VecDeque<Delta>,
    /// How many bytes of text the deltas that wait have.
    delta_bytes: usize,
    /// The step of whose text this front end has missed some: it is told no more of it, for what followed would not be what
    /// comes next. The reply in the log has the whole.
    missed: Option<StepId>,
    /// Updates were thrown away: the log has what was missed.
    behind: bool,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Adds a front end that has seen everything up to `after`.
    pub(crate) fn subscribe(&self, store: Arc<dyn Store>, id: SessionId, after: Seq, last: Seq) -> Updates {
        let mailbox = Arc::new(Mailbox::default());
        let mut state = lock(&self.state);
        let from_recent = state.recent.front().is_some_and(|oldest| oldest.seq <= after.next());
        // `last` was read before; what was published since then is known here only.
        let last = state.recent.back().map_or(last, |newest| newest.seq.max(last));
        let catching_up = !from_recent && after < last;
        {
            let mut box_state = lock(&mailbox.state);
            if from_recent {
                let missed = state.recent.iter().filter(|logged| logged.seq > after);
                box_state.waiting.extend(missed.map(|logged| Update::Logged(Arc::clone(logged))));
            }
            let open = state.questions.iter().cloned();
            box_state.questions.extend(open.map(|question| Delta::Question { question }));
            box_state.behind = catching_up;
            box_state.closed = state.closed;
        }
        state.mailboxes.push(Arc::downgrade(&mailbox));
        Updates { mailbox, store, id, seen: after, reading: false, page: VecDeque::new() }
    }

    /// Publishes events that are durable.
    pub(crate) fn publish(&self, events: &[Arc<Logged>]) {
        let mut state = lock(&self.state);
        for logged in events {
            if state.recent.len() == RECENT_EVENTS_MAX {
                state.recent.pop_front();
            }
            state.recent.push_back(Arc::clone(logged));
        }
        state.for_each_mailbox(|mailbox| {
            for logged in events {
                mailbox.push(Update::Logged(Arc::clone(logged)));
            }
        });
    }

    /// Publishes something for the moment.
    pub(crate) fn delta(&self, delta: &Delta) {
        lock(&self.state).for_each_mailbox(|mailbox| mailbox.push_delta(delta));
    }

    /// Publishes a question, also to who subscribes while it is open.
    pub(crate) fn ask(&self, question: &Question) {
        let mut state = lock(&self.state);
        state.questions.push(question.clone());
        state.for_each_mailbox(|mailbox| {
            mailbox.questions.push_back(Delta::Question { question: question.clone() })
        });
    }

    /// A question has its answer, or nobody waits for one any more.
    pub(crate) fn close_question(&self, id: QuestionId, by: Option<String>) {
        let mut state = lock(&self.state);
        state.questions.retain(|question| question.id != id);
        state.for_each_mailbox(|mailbox| {
            mailbox.questions.push_back(Delta::QuestionClosed { id, by: by.clone() })
        });
    }

    /// How many front ends still read.
    pub(crate) fn subscriber_count(&self) -> usize {
        lock(&self.state).mailboxes.iter().filter(|mailbox| mailbox.strong_count() > 0).count()
    }

    /// Ends all subscriptions, once what waits is taken.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.for_each_mailbox(|mailbox| mailbox.closed = true);
    }
}

/// Nothing more can come.
impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

impl HubState {
    fn for_each_mailbox(&mut self, mut tell: impl FnMut(&mut MailboxState)) {
        self.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            tell(&mut lock(&mailbox.state));
            mailbox.arrived.notify_one();
            true
        });
    }
}

impl MailboxState {
    fn push(&mut self, update: Update) {
        if self.behind {
            return; // the log will tell
        }
        if self.waiting.len() >= MAILBOX_UPDATES_MAX {
            self.waiting.clear();
            self.delta_bytes = 0;
            self.behind = true;
            return;
        }
        self.delta_bytes += text_bytes(&update);
        self.waiting.push_back(update);
    }

    fn pop(&mut self) -> Option<Update> {
        let update = self.waiting.pop_front()?;
        self.delta_bytes -= text_bytes(&update);
        Some(update)
    }

    /// Whether a front end that has missed something can make use of this.
    fn accepts(&mut self, delta: &Delta) -> bool {
        let room = self.delta_bytes < PENDING_DELTA_BYTES_MAX;
        match delta {
            Delta::Text { step, .. } | Delta::Reasoning { step, .. } => {
                if !room {
                    self.missed = Some(*step);
                }
                self.missed != Some(*step)
            }
            Delta::Restarted { step } => {
                self.missed.take_if(|missed| missed == step); // what was told of it is void
                true
            }
            // Of output the newest counts, and it is joined where it can be.
            Delta::Output { call, .. } => {
                room || matches!(self.waiting.back(), Some(Update::Delta(Delta::Output { call: last, .. })) if last == call)
            }
            Delta::Notice { .. } => room,
            Delta::Control { .. } | Delta::Question { .. } | Delta::QuestionClosed { .. } => true,
        }
    }

    fn push_delta(&mut self, delta: &Delta) {
        if !self.accepts(delta) {
            return;
        }
        let before = self.waiting.back().map_or(0, text_bytes);
        let joined = match (self.waiting.back_mut(), delta) {
            (Some(Update::Delta(Delta::Text { step: a, text: waiting })), Delta::Text { step: b, text })
            | (
                Some(Update::Delta(Delta::Reasoning { step: a, text: waiting })),
                Delta::Reasoning { step: b, text },
            ) if a == b => {
                waiting.push_str(text);
                true
            }
            (
                Some(Update::Delta(Delta::Output { call: a, text: waiting })),
                Delta::Output { call: b, text },
            ) if a == b => {
                waiting.push_str(text);
                drop_oldest(waiting);
                true
            }
            _ => false,
        };
        if joined {
            let after = self.waiting.back().map_or(0, text_bytes);
            self.delta_bytes = self.delta_bytes + after - before;
        } else {
            self.push(Update::Delta(delta.clone()));
        }
    }
}

fn text_bytes(update: &Update) -> usize {
    match update {
        Update::Delta(
            Delta::Text { text, .. }
            | Delta::Reasoning { text, .. }
            | Delta::Output { text, .. }
            | Delta::Notice { text },
        ) => text.len(),
        Update::Delta(
            Delta::Restarted { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. }
            | Delta::Control { .. },
        )
        | Update::Logged(_) => 0,
    }
}

/// Keeps the newest `PENDING_OUTPUT_BYTES_MAX` bytes; cuts in halves, so that the work per byte stays constant.
fn drop_oldest(text: &mut String) {
    if text.len() > 2 * PENDING_OUTPUT_BYTES_MAX {
        let cut = text.ceil_char_boundary(text.len() - PENDING_OUTPUT_BYTES_MAX);
        text.drain(..cut);
    }
}

/// The receiving end: what a front end reads.
pub struct Updates {
    mailbox: Arc<Mailbox>,
    store: Arc<dyn Store>,
    id: SessionId,
    seen: Seq,
    /// The log is to be read from `seen` to its end before anything is taken from the mailbox.
    reading: bool,
    /// Events read from the log that are still to be handed out.
    page: VecDeque<Logged>,
}

impl Updates {
    /// The next update; none once the session ended for good.
    ///
    /// Cancel safe: an update is lost only if it was returned.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            match self.poll_mailbox() {
                MailboxPoll::Update(update) => return Some(update),
                MailboxPoll::Duplicate => {}
                MailboxPoll::Behind => self.read_log().await?,
                MailboxPoll::Closed => return None,
                MailboxPoll::Empty => self.mailbox.arrived.notified().await,
            }
        }
    }

    /// What has arrived already, without waiting.
    pub fn try_next(&mut self) -> Option<Update> {
        loop {
            match self.poll_mailbox() {
                MailboxPoll::Update(update) => return Some(update),
                MailboxPoll::Duplicate => {}
                MailboxPoll::Behind | MailboxPoll::Closed | MailboxPoll::Empty => return None,
            }
        }
    }

    fn poll_mailbox(&mut self) -> MailboxPoll {
        if let Some(delta) = lock(&self.mailbox.state).questions.pop_front() {
            return MailboxPoll::Update(Update::Delta(delta));
        }
        if let Some(logged) = self.page.pop_front() {
            if logged.seq <= self.seen {
                return MailboxPoll::Duplicate;
            }
            self.seen = logged.seq;
            return MailboxPoll::Update(Update::Logged(Arc::new(logged)));
        }
        if self.reading {
            return MailboxPoll::Behind;
        }
        let mut state = lock(&self.mailbox.state);
        match state.pop() {
            Some(Update::Logged(logged)) if logged.seq <= self.seen => MailboxPoll::Duplicate,
            Some(update) => {
                if let Update::Logged(logged) = &update {
                    self.seen = logged.seq;
                }
                MailboxPoll::Update(update)
            }
            None if state.behind => {
                // From here on new events wait in the mailbox; what came before is durable, so the log has it.
                state.behind = false;
                self.reading = true;
                MailboxPoll::Behind
            }
            None if state.closed => MailboxPoll::Closed,
            None => MailboxPoll::Empty,
        }
    }

    /// Reads on in the log. Changes nothing before it has the page, so that it can be given up and begun again.
    async fn read_log(&mut self) -> Option<()> {
        let page = self.store.load(&self.id, self.seen, LOAD_EVENTS_MAX).await.ok()?;
        self.reading = page.len() == LOAD_EVENTS_MAX;
        if let Some(last) = page.last() {
            // What waits from before the page's end is in the page, or was for that moment only.
            let mut state = lock(&self.mailbox.state);
            let old = |update: &Update| matches!(update, Update::Logged(logged) if logged.seq <= last.seq);
            let covered = state.waiting.iter().rposition(old).map_or(0, |newest| newest + 1);
            for _ in 0..covered {
                state.pop();
            }
        }
        self.page.extend(page);
        Some(())
    }
}

enum MailboxPoll {
    Update(Update),
    /// It was already handed out.
    Duplicate,
    Behind,
    Closed,
    Empty,
}

#[cfg(test)]
mod tests;
