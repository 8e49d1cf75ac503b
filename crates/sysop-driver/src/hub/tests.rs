//! Guarantees of the hub that only its internals can show.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use sysop_core::event::Event;
use sysop_core::id::{CallId, StepId, Timestamp, TurnId};

use super::*;
use crate::port::{SessionSummary, StoreError};

fn event(seq: u64) -> Arc<Logged> {
    let event = Event::PromptQueued { text: seq.to_string(), images: Vec::new(), by: None };
    Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event })
}

/// A log that grows by one event with each load, and that fails to answer once.
struct Busy {
    hub: Arc<Hub>,
    log: Mutex<Vec<Arc<Logged>>>,
    loads: AtomicUsize,
    silent_load: usize,
}

impl Busy {
    fn grow(&self) {
        let mut log = self.log.lock();
        let next = event(log.len() as u64 + 1);
        log.push(Arc::clone(&next));
        self.hub.publish(&[next]);
    }
}

#[async_trait]
impl Store for Busy {
    async fn append(&self, _: &SessionId, _: Seq, _: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        Err(StoreError::Unavailable("it is only read".to_owned()))
    }

    async fn load(&self, _: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        let page = self
            .log
            .lock()
            .iter()
            .filter(|logged| logged.seq > after)
            .take(limit)
            .map(|logged| Logged::clone(logged))
            .collect();
        self.grow();
        if self.loads.fetch_add(1, Ordering::SeqCst) + 1 == self.silent_load {
            std::future::pending::<()>().await;
        }
        Ok(page)
    }

    async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(Vec::new())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::NotFound(id.clone()))
    }
}

fn busy(events: u64, silent_load: usize) -> Arc<Busy> {
    let log = Mutex::new((1..=events).map(event).collect());
    Arc::new(Busy { hub: Arc::default(), log, loads: AtomicUsize::new(0), silent_load })
}

/// Returns the updates available now; a load that does not answer is canceled, as `select!` would.
fn taken(updates: &mut Updates) -> Vec<Update> {
    std::iter::from_fn(|| updates.next().now_or_never().flatten()).collect()
}

fn seqs(updates: &[Update]) -> Vec<u64> {
    let seq = |update: &Update| match update {
        Update::Logged(logged) => Some(logged.seq.0),
        Update::Delta(_) => None,
    };
    updates.iter().filter_map(seq).collect()
}

#[test]
fn canceling_a_wait_at_any_moment_loses_nothing() {
    for silent_load in 1..=3 {
        let store = busy(5, silent_load);
        let id = SessionId::new("s");
        let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(5));
        let mut seen = taken(&mut updates);
        store.grow();
        seen.extend(taken(&mut updates));
        store.grow();
        seen.extend(taken(&mut updates));
        let last = store.log.lock().len() as u64;
        assert_eq!(seqs(&seen), (1..=last).collect::<Vec<_>>(), "load {silent_load} did not answer");
    }
}

#[test]
fn a_subscriber_that_joins_during_a_flood_misses_no_event() {
    let store = busy(0, 0);
    let stale = Seq(1);
    for _ in 0..=RECENT_EVENTS_MAX + 1 {
        store.grow();
    }
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, stale, stale);
    let seen = seqs(&taken(&mut updates));
    assert_eq!(seen, (2..=store.log.lock().len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_delta_older_than_a_logged_event_is_dropped() {
    struct Late(Arc<Busy>);
    #[async_trait]
    impl Store for Late {
        async fn append(
            &self,
            id: &SessionId,
            after: Seq,
            events: &[Arc<Logged>],
        ) -> Result<Seq, StoreError> {
            self.0.append(id, after, events).await
        }

        async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
            let step = StepId { turn: TurnId(1), step: 1 };
            self.0.hub.delta(&Delta::Text { step, text: "old".to_owned() });
            self.0.grow();
            self.0.hub.delta(&Delta::Output { call: CallId::new("c"), text: "new".to_owned() });
            self.0.load(id, after, limit).await
        }

        async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
            self.0.list(limit).await
        }

        async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
            self.0.delete(id).await
        }
    }
    let inner = busy(2, 0);
    let store = Arc::new(Late(Arc::clone(&inner)));
    let mut updates = inner.hub.subscribe(store, SessionId::new("s"), Seq(0), Seq(2));
    let seen = taken(&mut updates);
    assert_eq!(seqs(&seen), (1..=inner.log.lock().len() as u64).collect::<Vec<_>>());
    let old = seen.iter().any(|update| matches!(update, Update::Delta(Delta::Text { .. })));
    assert!(!old, "{seen:?}");
}

/// Concatenates the text and output waiting for a front end.
fn waiting_text(updates: &mut Updates) -> String {
    let text = |update: Update| match update {
        Update::Delta(Delta::Text { text, .. } | Delta::Output { text, .. }) => Some(text),
        Update::Delta(_) | Update::Logged(_) => None,
    };
    taken(updates).into_iter().filter_map(text).collect()
}

#[test]
fn waiting_step_text_is_bounded_and_has_no_gaps() {
    let store = busy(0, 0);
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(0));
    let step = |step| StepId { turn: TurnId(1), step };
    let say = |number: u32, text: String| store.hub.delta(&Delta::Text { step: step(number), text });
    let piece = |number: usize| format!("{number:0>1000};");
    (0..10_000).for_each(|number| say(1, piece(number)));
    let told = waiting_text(&mut updates);
    assert!((PENDING_DELTA_BYTES_MAX..2 * PENDING_DELTA_BYTES_MAX).contains(&told.len()), "{}", told.len());
    let whole: String = (0..told.len() / piece(0).len()).map(piece).collect();
    assert_eq!(told, whole, "the deltas are the beginning of the text, without a gap");
    say(1, "later".to_owned());
    assert_eq!(
        waiting_text(&mut updates),
        "",
        "text that would appear in the wrong place is left to the log"
    );
    store.hub.delta(&Delta::Restarted { step: step(1) });
    say(1, "anew".to_owned());
    say(2, " and on".to_owned());
    assert_eq!(waiting_text(&mut updates), "anew and on");
}

#[test]
fn unmergeable_deltas_are_bounded() {
    let store = busy(0, 0);
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(0));
    for number in 0..1000 {
        let call = CallId::new(["a", "b"][number % 2]);
        store.hub.delta(&Delta::Output { call, text: "x".repeat(100_000) });
    }
    let told = waiting_text(&mut updates).len();
    assert!(told <= PENDING_DELTA_BYTES_MAX + 100_000 + 2 * PENDING_OUTPUT_BYTES_MAX, "{told}");
    assert_eq!(updates.mailbox.state.lock().delta_bytes, 0);
}

#[test]
fn a_line_stands_for_output_that_was_dropped() {
    let store = busy(0, 0);
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(0));
    for _ in 0..1000 {
        store.hub.delta(&Delta::Output { call: CallId::new("a"), text: "x".repeat(10_000) });
    }
    let told = waiting_text(&mut updates);
    assert!(told.starts_with("\n… [earlier output omitted] …\nxxx"), "{}", &told[..80]);
    assert!(told.len() <= 2 * PENDING_OUTPUT_BYTES_MAX + 10_000);
}

fn output(call: &str, text: &str) -> Delta {
    Delta::Output { call: CallId::new(call), text: text.to_owned() }
}

#[test]
fn a_subscriber_that_joins_a_printing_call_is_told_that_output_is_missing() {
    let store = busy(0, 0);
    let subscribe =
        || store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, SessionId::new("s"), Seq(0), Seq(0));
    let mut before = subscribe();
    store.hub.delta(&output("a", "1\n"));
    let mut after = subscribe();
    store.hub.delta(&output("a", "2\n"));
    store.hub.delta(&output("b", "3\n"));
    assert_eq!(waiting_text(&mut before), "1\n2\n3\n");
    assert_eq!(waiting_text(&mut after), format!("{OMITTED_OUTPUT}2\n3\n"));
    store.hub.delta(&output("a", "4\n"));
    assert_eq!(waiting_text(&mut after), "4\n", "one line stands for one gap");
    let outcome = sysop_core::outcome::Outcome::ok("");
    let finished = Event::ToolFinished { call: CallId::new("a"), outcome };
    store.hub.publish(&[Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event: finished })]);
    assert!(!store.hub.state.lock().printing.contains(&CallId::new("a")));
}

#[test]
fn a_line_stands_for_output_that_did_not_fit() {
    let store = busy(0, 0);
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(0));
    let step = StepId { turn: TurnId(1), step: 1 };
    let text = "x".repeat(PENDING_DELTA_BYTES_MAX);
    store.hub.delta(&Delta::Text { step, text });
    store.hub.delta(&output("a", "-----BEGIN PRIVATE KEY-----\n"));
    taken(&mut updates);
    store.hub.delta(&output("a", "MIIE\n"));
    store.hub.delta(&output("a", "next\n"));
    assert_eq!(waiting_text(&mut updates), format!("{OMITTED_OUTPUT}MIIE\nnext\n"));
}

#[test]
fn a_line_stands_for_output_of_a_mailbox_that_overflowed() {
    let store = busy(0, 0);
    let id = SessionId::new("s");
    let mut updates = store.hub.subscribe(Arc::clone(&store) as Arc<dyn Store>, id, Seq(0), Seq(0));
    store.hub.delta(&output("a", "1\n"));
    for _ in 0..=MAILBOX_UPDATES_MAX {
        store.grow();
    }
    store.hub.delta(&output("b", "2\n"));
    store.hub.delta(&output("c", "3\n"));
    taken(&mut updates);
    store.hub.delta(&output("a", "4\n"));
    store.hub.delta(&output("b", "5\n"));
    store.hub.delta(&output("d", "6\n"));
    assert_eq!(waiting_text(&mut updates), format!("{OMITTED_OUTPUT}4\n{OMITTED_OUTPUT}5\n6\n"));
}

#[test]
fn a_line_stands_for_output_that_was_older_than_a_loaded_event() {
    let mut state = MailboxState::default();
    for (call, text) in [("a", "1\n"), ("b", "2\n")] {
        state.push_delta(&output(call, text));
    }
    state.push(Update::Logged(event(1)));
    state.push_delta(&output("b", "3\n"));
    state.drop_oldest_updates(3);
    state.push_delta(&output("a", "4\n"));
    let text = |update: Update| {
        let Update::Delta(Delta::Output { text, .. }) = update else { panic!("{update:?}") };
        text
    };
    let left: Vec<String> = std::iter::from_fn(|| state.pop()).map(text).collect();
    assert_eq!(left, [format!("{OMITTED_OUTPUT}3\n"), format!("{OMITTED_OUTPUT}4\n")]);
    assert_eq!(state.delta_bytes, 0);
}
