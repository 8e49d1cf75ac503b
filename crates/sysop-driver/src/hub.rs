//! Publishes the updates of one session to any number of front ends.
//!
//! # Problem
//!
//! Front ends read at different speeds: a terminal over a slow link, a browser tab in the background, a
//! script that has stopped reading. None of them may delay the session, and none may make it use more memory.
//! At the same time every front end must see every event exactly once and in order, whenever it subscribes.
//!
//! # Design
//!
//! Events and deltas are treated differently. Events are durable, so a front end can always be sent back to the log;
//! deltas exist only in memory, so the hub may join or drop them. Each subscription has a bounded mailbox, in which
//! adjacent deltas of the same step or call are joined. When a mailbox overflows, its contents are dropped and it is
//! marked as `behind`: the reader then loads the log from its last seen event, and afterwards continues from the
//! mailbox. A new subscriber starts the same way, except that the newest events are kept in memory
//! (`RECENT_EVENTS_MAX`), so a reconnect after a short break does not touch the store. Questions are held apart: they
//! are neither joined nor dropped.
//!
//! # Rejected
//!
//! - `tokio::sync::broadcast`: a lagging receiver loses events and cannot get them back, and deltas cannot be joined.
//! - Unbounded channels: one stopped reader would hold the output of a whole session.
//! - Waiting for slow readers: a single slow reader would slow the session down for all others.
//!
//! # Invariants
//!
//! - Publishing never waits for a front end.
//! - A front end receives each event once, in order, without a gap, and none before the session has published it.
//! - If some text of a step does not fit, the rest of that step's text is skipped, because the front end would show the
//!   text with a gap. The logged reply contains the whole text.
//! - If output of a call does not reach a front end, a line says so before the next output of the call. A reader that
//!   redacts secrets relies on it: the beginning of a secret may be missing.
//! - `Updates::next` is cancel safe: an update is removed only when it is returned.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sysop_core::event::{Delta, Event, Logged, Update};
use sysop_core::id::{CallId, Seq, SessionId, StepId};
use sysop_core::question::{Question, QuestionId};
use tokio::sync::Notify;

use crate::LOAD_EVENTS_MAX;
use crate::port::Store;

/// Number of newest events kept for new subscribers.
const RECENT_EVENTS_MAX: usize = 64;
/// Maximum updates in one mailbox before the front end is sent back to the log.
const MAILBOX_UPDATES_MAX: usize = 4096;
/// Maximum bytes of joined output of one call in one mailbox; the oldest bytes are dropped.
const PENDING_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Line in place of dropped output. It begins on a line of its own, like the one in output that arrives too fast.
pub(crate) const OMITTED_OUTPUT: &str = "\n… [earlier output omitted] …\n";
/// Maximum bytes of deltas in one mailbox; further deltas are dropped.
const PENDING_DELTA_BYTES_MAX: usize = 1024 * 1024;

/// Publishes the updates of one session to its subscriptions. [`Updates`] is the receiving side.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    mailboxes: Vec<Weak<Mailbox>>,
    recent: VecDeque<Arc<Logged>>,
    questions: Vec<Question>,
    /// Calls that have started and not ended.
    running: HashSet<CallId>,
    /// Running calls that have printed something. The output of background jobs is not shown live.
    printing: HashSet<CallId>,
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
    /// Position of the newest event that was published, or was in the log before. Later ones may be by another process.
    newest: Seq,
    /// Questions that were asked or closed. They are delivered before other updates and never dropped.
    questions: VecDeque<Delta>,
    delta_bytes: usize,
    /// Step whose text was partly dropped. The rest of its text is skipped, because it would not be
    /// contiguous. The reply in the log contains the whole text.
    missed: Option<StepId>,
    /// Running calls of which output was dropped after the last one in `waiting`.
    omitted: HashSet<CallId>,
    /// True if updates were dropped, so that the log must be read.
    behind: bool,
    closed: bool,
}

impl Hub {
    /// Adds a subscription for a front end that has seen every event up to `after`. `last` is the position of the last
    /// event of the log, as far as the caller knows.
    pub(crate) fn subscribe(&self, store: Arc<dyn Store>, id: SessionId, after: Seq, last: Seq) -> Updates {
        let mailbox = Arc::new(Mailbox::default());
        let mut state = self.state.lock();
        let from_recent = state.recent.front().is_some_and(|oldest| oldest.seq <= after.next());
        // `last` was read earlier; later events are known only here.
        let last = state.recent.back().map_or(last, |newest| newest.seq.max(last));
        let catching_up = !from_recent && after < last;
        {
            let mut box_state = mailbox.state.lock();
            if from_recent {
                let missed = state.recent.iter().filter(|logged| logged.seq > after);
                box_state.waiting.extend(missed.map(|logged| Update::Logged(Arc::clone(logged))));
            }
            let open = state.questions.iter().cloned();
            box_state.questions.extend(open.map(|question| Delta::Question { question }));
            box_state.omitted.clone_from(&state.printing);
            box_state.newest = last.max(after);
            box_state.behind = catching_up;
            box_state.closed = state.closed;
        }
        state.mailboxes.push(Arc::downgrade(&mailbox));
        Updates { mailbox, store, id, seen: after, reading: false, page: VecDeque::new() }
    }

    pub(crate) fn publish(&self, events: &[Arc<Logged>]) {
        let mut state = self.state.lock();
        for logged in events {
            if state.recent.len() == RECENT_EVENTS_MAX {
                state.recent.pop_front();
            }
            state.recent.push_back(Arc::clone(logged));
            if let Event::ToolStarted { call, .. } = &logged.event {
                state.running.insert(call.id.clone());
            }
            forget_ended(&mut state.running, &logged.event);
            forget_ended(&mut state.printing, &logged.event);
        }
        state.for_each_mailbox(|mailbox| {
            for logged in events {
                mailbox.push(Update::Logged(Arc::clone(logged)));
            }
        });
    }

    pub(crate) fn delta(&self, delta: &Delta) {
        let mut state = self.state.lock();
        if let Delta::Output { call, .. } = delta {
            state.printing.insert(call.clone());
        }
        state.for_each_mailbox(|mailbox| mailbox.push_delta(delta));
    }

    /// Notes that output of calls does not reach any front end. A line before the next output of each says so.
    pub(crate) fn omit_output(&self, calls: &HashSet<CallId>) {
        if calls.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.printing.extend(calls.iter().cloned());
        state.for_each_mailbox(|mailbox| mailbox.omitted.extend(calls.iter().cloned()));
    }

    /// Like [`Self::omit_output`], for those of the calls that have not ended.
    pub(crate) fn omit_late_output(&self, mut calls: HashSet<CallId>) {
        let unended = self.unended();
        calls.retain(|call| unended.contains(call));
        self.omit_output(&calls);
    }

    /// Like [`Self::omit_output`], for all calls that have not ended.
    pub(crate) fn omit_output_of_all(&self) {
        self.omit_output(&self.unended());
    }

    fn unended(&self) -> HashSet<CallId> {
        let state = self.state.lock();
        state.running.union(&state.printing).cloned().collect()
    }

    /// Publishes a question, also to front ends that subscribe while it is open.
    pub(crate) fn ask(&self, question: &Question) {
        let mut state = self.state.lock();
        state.questions.push(question.clone());
        state.for_each_mailbox(|mailbox| {
            mailbox.questions.push_back(Delta::Question { question: question.clone() })
        });
    }

    /// Publishes that a question was answered or withdrawn.
    pub(crate) fn close_question(&self, id: QuestionId, by: Option<String>) {
        let mut state = self.state.lock();
        state.questions.retain(|question| question.id != id);
        state.for_each_mailbox(|mailbox| {
            mailbox.questions.push_back(Delta::QuestionClosed { id, by: by.clone() })
        });
    }

    /// Returns the number of subscriptions that have not been dropped.
    pub(crate) fn subscriber_count(&self) -> usize {
        self.state.lock().mailboxes.iter().filter(|mailbox| mailbox.strong_count() > 0).count()
    }

    /// Ends all subscriptions, each after its pending updates.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.for_each_mailbox(|mailbox| mailbox.closed = true);
    }
}

/// Ends all subscriptions, because no further updates can arrive.
impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

impl HubState {
    fn for_each_mailbox(&mut self, mut tell: impl FnMut(&mut MailboxState)) {
        self.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            tell(&mut mailbox.state.lock());
            mailbox.arrived.notify_one();
            true
        });
    }
}

impl MailboxState {
    fn push(&mut self, update: Update) {
        if let Update::Logged(logged) = &update {
            self.newest = logged.seq;
            forget_ended(&mut self.omitted, &logged.event);
        }
        if !self.behind && self.waiting.len() >= MAILBOX_UPDATES_MAX {
            self.omitted.extend(self.waiting.iter().filter_map(printing_call).cloned());
            self.waiting.clear();
            self.delta_bytes = 0;
            self.behind = true;
        }
        if self.behind {
            self.omitted.extend(printing_call(&update).cloned());
            return; // the reader will load the log
        }
        self.delta_bytes += text_bytes(&update);
        self.waiting.push_back(update);
    }

    fn pop(&mut self) -> Option<Update> {
        let update = self.waiting.pop_front()?;
        self.delta_bytes -= text_bytes(&update);
        Some(update)
    }

    /// Drops the oldest `count` updates. A line in the next output of a call says so.
    fn drop_oldest_updates(&mut self, count: usize) {
        let dropped: Vec<Update> = (0..count).map_while(|_| self.pop()).collect();
        for call in dropped.iter().filter_map(printing_call).collect::<HashSet<_>>() {
            let next = self.waiting.iter_mut().find_map(|update| match update {
                Update::Delta(Delta::Output { call: printing, text }) if printing == call => Some(text),
                Update::Delta(_) | Update::Logged(_) => None,
            });
            match next {
                Some(text) => {
                    text.insert_str(0, OMITTED_OUTPUT);
                    self.delta_bytes += OMITTED_OUTPUT.len();
                }
                None => {
                    self.omitted.insert(call.clone());
                }
            }
        }
    }

    /// Returns false for a delta that exceeds the limit, or whose step lost earlier deltas.
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
                self.missed.take_if(|missed| missed == step); // the text received so far is void
                true
            }
            // The newest output matters most; joining needs no extra room.
            Delta::Output { call, .. } => {
                room || matches!(self.waiting.back(), Some(Update::Delta(Delta::Output { call: last, .. })) if last == call)
            }
            Delta::Notice { .. } | Delta::Progress { .. } => room,
            Delta::Control { .. } | Delta::Question { .. } | Delta::QuestionClosed { .. } => true,
        }
    }

    fn push_delta(&mut self, delta: &Delta) {
        if !self.accepts(delta) {
            if let Delta::Output { call, .. } = delta {
                self.omitted.insert(call.clone());
            }
            return;
        }
        let mut resumed = None;
        if let Delta::Output { call, text } = delta
            && !self.behind
            && self.omitted.remove(call)
        {
            resumed = Some(Delta::Output { call: call.clone(), text: format!("{OMITTED_OUTPUT}{text}") });
        }
        let delta = resumed.as_ref().unwrap_or(delta);
        let before = self.waiting.back().map_or(0, text_bytes);
        let joined = match (self.waiting.back_mut(), delta) {
            (Some(Update::Delta(waiting @ Delta::Progress { .. })), Delta::Progress { .. }) => {
                waiting.clone_from(delta);
                true
            }
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

/// Returns the call whose output this is.
fn printing_call(update: &Update) -> Option<&CallId> {
    match update {
        Update::Delta(Delta::Output { call, .. }) => Some(call),
        Update::Delta(_) | Update::Logged(_) => None,
    }
}

/// Removes the calls that end with an event.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events end no call")]
pub(crate) fn forget_ended(calls: &mut HashSet<CallId>, event: &Event) {
    match event {
        Event::ToolFinished { call, .. } => {
            calls.remove(call);
        }
        Event::TurnEnded { .. } => calls.clear(),
        _ => {}
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
            | Delta::Progress { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. }
            | Delta::Control { .. },
        )
        | Update::Logged(_) => 0,
    }
}

/// Removes the older half of text that is longer than twice `PENDING_OUTPUT_BYTES_MAX`, and says so in a line. Removing
/// half at once keeps the cost per byte constant.
fn drop_oldest(text: &mut String) {
    if text.len() > 2 * PENDING_OUTPUT_BYTES_MAX {
        let cut = text.ceil_char_boundary(text.len() - PENDING_OUTPUT_BYTES_MAX);
        text.replace_range(..cut, OMITTED_OUTPUT);
    }
}

/// A front end's subscription to the updates of one session.
pub struct Updates {
    mailbox: Arc<Mailbox>,
    store: Arc<dyn Store>,
    id: SessionId,
    seen: Seq,
    /// True if the log must be read from `seen` to its end before the mailbox is read.
    reading: bool,
    /// Events loaded from the log and not yet delivered.
    page: VecDeque<Logged>,
}

impl Updates {
    /// Returns the next update, or `None` if the session ended for good or its log cannot be read.
    ///
    /// Cancel safe: an update is removed only when it is returned.
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

    /// Returns an update that is already available, or `None`. Does not wait.
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
        if let Some(delta) = self.mailbox.state.lock().questions.pop_front() {
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
        let mut state = self.mailbox.state.lock();
        match state.pop() {
            Some(Update::Logged(logged)) if logged.seq <= self.seen => MailboxPoll::Duplicate,
            Some(update) => {
                if let Update::Logged(logged) = &update {
                    self.seen = logged.seq;
                }
                MailboxPoll::Update(update)
            }
            None if state.behind => {
                // From now on new events stay in the mailbox; all earlier ones are durable and in the log.
                state.behind = false;
                self.reading = true;
                MailboxPoll::Behind
            }
            None if state.closed => MailboxPoll::Closed,
            None => MailboxPoll::Empty,
        }
    }

    /// Loads the next page of the log, or returns `None` if the store fails. Changes nothing before the page is
    /// complete, so that it can be canceled and restarted.
    async fn read_log(&mut self) -> Option<()> {
        let mut page = self.store.load(&self.id, self.seen, LOAD_EVENTS_MAX).await.ok()?;
        let mut state = self.mailbox.state.lock();
        page.retain(|logged| logged.seq <= state.newest);
        self.reading = page.len() == LOAD_EVENTS_MAX;
        if let Some(last) = page.last() {
            // Pending updates from before the end of the page are either in the page or were transient.
            let old = |update: &Update| matches!(update, Update::Logged(logged) if logged.seq <= last.seq);
            let covered = state.waiting.iter().rposition(old).map_or(0, |newest| newest + 1);
            state.drop_oldest_updates(covered);
        }
        drop(state);
        self.page.extend(page);
        Some(())
    }
}

enum MailboxPoll {
    Update(Update),
    /// The event was already delivered.
    Duplicate,
    Behind,
    Closed,
    Empty,
}

#[cfg(test)]
mod tests;
