//! Output that is dropped on its way to another node leaves a line.

use std::task::{Context, Wake, Waker};

use async_trait::async_trait;
use futures::FutureExt;
use sysop_core::event::{Event, Logged, Origin, StopReason};
use sysop_core::id::{CallId, Timestamp, TurnId};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;

use super::*;
use crate::cluster::{AcquireOutcome, ClusterEvent, ForwardedInput, WatchSnapshot};
use crate::port::SessionSummary;

/// A log with these events, and a cluster without other nodes.
#[derive(Default)]
struct Log(Mutex<Vec<Event>>);

fn prompt() -> Event {
    Event::PromptQueued { text: "go".to_owned(), images: Vec::new(), by: None }
}

fn started(call: &str) -> Event {
    let arguments = Arguments::Object(serde_json::Map::new());
    let call = ToolCall { id: CallId::new(call), wire_id: None, name: "bash".to_owned(), arguments };
    Event::ToolStarted { call, origin: Origin::Model }
}

fn finished(call: &str) -> Event {
    Event::ToolFinished { call: CallId::new(call), outcome: Outcome::ok("") }
}

fn turn_ended() -> Event {
    Event::TurnEnded { turn: TurnId(1), reason: StopReason::EndTurn, error: None, active_ms: 0 }
}

#[async_trait]
impl Store for Log {
    async fn append(&self, _: &SessionId, _: Seq, _: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        Err(StoreError::Unavailable("it is only read".to_owned()))
    }

    async fn load(&self, _: &SessionId, after: Seq, _: usize) -> Result<Vec<Logged>, StoreError> {
        let events = (1..).zip(self.0.lock().clone());
        let logged = events.map(|(seq, event)| Logged { seq: Seq(seq), at: Timestamp(0), event });
        Ok(logged.filter(|logged| logged.seq > after).collect())
    }

    async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(Vec::new())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::NotFound(id.clone()))
    }
}

#[async_trait]
impl Cluster for Log {
    fn new_lease(&self, _: &SessionId) -> Arc<dyn Lease> {
        unreachable!("a follower owns nothing")
    }

    async fn acquire(&self, _: &SessionId) -> Result<AcquireOutcome, StoreError> {
        Ok(AcquireOutcome::OwnedBy("b".to_owned()))
    }

    async fn enqueue(&self, _: &SessionId, _: &ForwardedInput) -> Result<(), StoreError> {
        Ok(())
    }

    async fn watch(&self, _: &SessionId) -> Result<WatchSnapshot, StoreError> {
        Ok(WatchSnapshot { last: Seq(0), owner: None })
    }

    async fn unwatch(&self, _: &SessionId) {}

    async fn next_event(&self) -> ClusterEvent {
        std::future::pending().await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn output(call: &str, text: &str) -> Delta {
    Delta::Output { call: CallId::new(call), text: text.to_owned() }
}

fn texts(deltas: impl IntoIterator<Item = Delta>) -> Vec<String> {
    let text = |delta| {
        let Delta::Output { text, .. } = delta else { panic!("{delta:?}") };
        text
    };
    deltas.into_iter().map(text).collect()
}

fn subscribed(hub: &Hub) -> Updates {
    hub.subscribe(Arc::new(Log::default()), SessionId::new("s"), Seq(0), Seq(0))
}

#[test]
fn a_line_stands_for_output_that_is_too_much_for_other_nodes() {
    let hub = Hub::default();
    let mut updates = subscribed(&hub);
    let (mut after, mut omitted) = (Seq(0), HashSet::new());
    let mut gathered = |deltas: &[Delta]| {
        deltas.iter().for_each(|delta| hub.delta(delta));
        let Some(Update::Delta(first)) = updates.try_next() else { panic!("no delta") };
        texts(gather(first, &mut updates, &mut after, &mut omitted))
    };
    let long = "x".repeat(RELAY_BYTES_MAX);
    assert_eq!(gathered(&[output("b", "1\n"), output("a", &long), output("b", "2\n")]), ["1\n"]);
    let resumed = ["3\n", "4\n"].map(|text| format!("{OMITTED_OUTPUT}{text}"));
    assert_eq!(gathered(&[output("a", "3\n"), output("b", "4\n")]), resumed);
    assert_eq!(gathered(&[output("a", "6\n")]), ["6\n"]);
}

#[test]
fn a_line_stands_for_output_before_an_event_of_a_call_that_still_runs() {
    let hub = Hub::default();
    let mut updates = subscribed(&hub);
    let (mut after, mut omitted) = (Seq(0), HashSet::new());
    hub.delta(&output("a", "1\n"));
    hub.delta(&output("b", "2\n"));
    hub.publish(&[Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event: finished("b") })]);
    hub.delta(&output("a", "3\n"));
    let Some(Update::Delta(first)) = updates.try_next() else { panic!("no delta") };
    let gathered = gather(first, &mut updates, &mut after, &mut omitted);
    assert_eq!((texts(gathered), after), (vec![format!("{OMITTED_OUTPUT}3\n")], Seq(1)));
    assert!(omitted.is_empty(), "{omitted:?}");
}

/// A follower of a log, with one front end.
struct Follower {
    log: Arc<Log>,
    follower: Arc<SessionFollower>,
    updates: Updates,
}

impl Follower {
    fn new() -> Self {
        let log = Arc::new(Log::default());
        let ports = Ports { store: Arc::clone(&log) as Arc<dyn Store>, clock: crate::system_clock() };
        let cluster = Arc::clone(&log) as Arc<dyn Cluster>;
        let follower = SessionFollower::new(SessionId::new("s"), "b".to_owned(), Seq(0), cluster, &ports);
        let updates = follower.subscribe(Seq(0));
        Self { log, follower, updates }
    }

    /// Adds events to the log and reads them.
    async fn reads(&self, events: impl IntoIterator<Item = Event>) {
        self.log.0.lock().extend(events);
        while self.follower.read_page().await {}
    }

    /// Returns the output that has reached the front end since the last call.
    fn shown(&mut self) -> Vec<String> {
        let updates = std::iter::from_fn(|| self.updates.next().now_or_never().flatten());
        texts(updates.filter_map(|update| match update {
            Update::Delta(delta) => Some(delta),
            Update::Logged(_) => None,
        }))
    }
}

#[tokio::test]
async fn a_line_stands_for_output_that_reaches_a_follower_too_late() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    // The follower has read event 1 before the deltas arrive.
    follower.on_deltas(Seq(0), vec![output("a", "1\n")]);
    world.reads([prompt()]).await;
    follower.on_deltas(Seq(0), vec![output("a", "2\n")]);
    follower.on_deltas(Seq(1), vec![output("a", "3\n")]);
    assert_eq!(world.shown(), ["1\n".to_owned(), format!("{OMITTED_OUTPUT}3\n")]);
    // More deltas wait for event 2 than are kept; deltas after event 3 arrive when event 4 has been read.
    for _ in 0..=PENDING_DELTAS_MAX {
        follower.on_deltas(Seq(2), vec![output("a", "4\n")]);
    }
    world.reads([prompt()]).await;
    assert_eq!(world.shown(), [format!("{OMITTED_OUTPUT}{}", "4\n".repeat(PENDING_DELTAS_MAX))]);
    follower.on_deltas(Seq(3), vec![output("a", "5\n")]);
    world.reads([prompt(), prompt()]).await;
    follower.on_deltas(Seq(4), vec![output("a", "6\n")]);
    assert_eq!(world.shown(), [format!("{OMITTED_OUTPUT}6\n")]);
    // Cluster events were lost.
    follower.on_lagged();
    follower.on_deltas(Seq(4), vec![output("a", "7\n")]);
    assert_eq!(world.shown(), [format!("{OMITTED_OUTPUT}7\n")]);
}

#[tokio::test]
async fn a_line_stands_for_the_first_output_of_a_call_if_it_is_lost() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    // The call had started before cluster events were lost.
    world.reads([started("a")]).await;
    follower.on_lagged();
    world.reads([]).await;
    follower.on_deltas(Seq(1), vec![output("a", "1\n")]);
    // The call started before cluster events were lost, but the log shows it only afterwards.
    follower.on_lagged();
    world.reads([started("b")]).await;
    follower.on_deltas(Seq(2), vec![output("b", "2\n")]);
    // Nothing was lost, or only before the call started.
    world.reads([started("c")]).await;
    follower.on_deltas(Seq(3), vec![output("c", "3\n")]);
    // The first output is late.
    world.reads([started("d"), prompt()]).await;
    follower.on_deltas(Seq(4), vec![output("d", "4\n")]);
    follower.on_deltas(Seq(5), vec![output("d", "5\n")]);
    let omitted = |text: &str| format!("{OMITTED_OUTPUT}{text}");
    assert_eq!(world.shown(), [omitted("1\n"), omitted("2\n"), "3\n".to_owned(), omitted("5\n")]);
}

#[tokio::test]
async fn late_output_of_a_call_that_has_ended_leaves_no_line_in_a_later_call_with_the_same_id() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    world.reads([started("a"), finished("a")]).await;
    follower.on_deltas(Seq(1), vec![output("a", "1\n")]);
    follower.on_deltas(Seq(3), vec![output("a", "2\n")]);
    world.reads([prompt(), prompt()]).await;
    world.reads([started("a")]).await;
    follower.on_deltas(Seq(5), vec![output("a", "3\n")]);
    assert_eq!(world.shown(), ["3\n"]);
}

#[tokio::test]
async fn a_line_stands_for_lost_output_although_earlier_output_waits_for_the_log() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    world.reads([started("a")]).await;
    follower.on_deltas(Seq(2), vec![output("a", "1\n")]);
    follower.on_lagged();
    follower.on_deltas(Seq(2), vec![output("a", "3\n")]);
    world.reads([prompt()]).await;
    assert_eq!(world.shown(), [format!("{OMITTED_OUTPUT}3\n")]);
}

#[tokio::test]
async fn a_line_stands_for_dropped_output_of_a_call_that_starts_after_the_end_of_a_turn() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    world.reads([started("a")]).await;
    for _ in 0..=PENDING_DELTAS_MAX {
        follower.on_deltas(Seq(3), vec![output("b", "1\n")]);
    }
    world.reads([turn_ended(), started("b")]).await;
    assert_eq!(world.shown(), [format!("{OMITTED_OUTPUT}{}", "1\n".repeat(PENDING_DELTAS_MAX))]);
    // The output of b and c is dropped; then c ends.
    follower.on_deltas(Seq(5), vec![output("b", "2\n"), output("c", "3\n")]);
    for _ in 0..PENDING_DELTAS_MAX {
        follower.on_deltas(Seq(6), vec![output("d", "4\n")]);
    }
    world.reads([started("c")]).await;
    world.reads([started("d"), finished("c")]).await;
    follower.on_deltas(Seq(6), vec![output("b", "5\n"), output("c", "6\n")]);
    let expected = ["4\n".repeat(PENDING_DELTAS_MAX), format!("{OMITTED_OUTPUT}5\n"), "6\n".to_owned()];
    assert_eq!(world.shown(), expected);
}

/// Notes each wake of a front end, with true if the follower's state is locked.
struct LockProbe {
    follower: Arc<SessionFollower>,
    wakes: Mutex<Vec<bool>>,
}

impl Wake for LockProbe {
    fn wake(self: Arc<Self>) {
        self.wakes.lock().push(self.follower.state.is_locked());
    }
}

#[tokio::test]
async fn a_follower_publishes_under_the_lock_of_its_state_so_that_newer_output_comes_later() {
    let mut world = Follower::new();
    let follower = Arc::clone(&world.follower);
    let probe = Arc::new(LockProbe { follower: Arc::clone(&follower), wakes: Mutex::default() });
    let waker = Waker::from(Arc::clone(&probe));
    let mut context = Context::from_waker(&waker);
    for step in 0..5 {
        world.shown();
        let mut next = std::pin::pin!(world.updates.next());
        assert!(next.as_mut().poll(&mut context).is_pending());
        match step {
            0 => {
                world.log.0.lock().extend([started("a"), prompt()]);
                while follower.read_page().await {}
            }
            1 => follower.on_deltas(Seq(2), vec![output("a", "1\n")]),
            2 => follower.on_deltas(Seq(1), vec![output("a", "late\n")]),
            3 => follower.on_lagged(),
            _ => {
                follower.on_deltas(Seq(3), vec![output("a", "2\n")]);
                world.log.0.lock().push(prompt());
                while follower.read_page().await {}
            }
        }
    }
    assert_eq!(*probe.wakes.lock(), [true; 5]);
}
