//! A session's updates as the messages of one client: what it missed, once and in order, then what comes.
//!
//! A client that lends is also told which calls to run, and which to stop. Nothing piles up here: the driver keeps
//! what waits, and bounds it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::event::{Change, Event, Logged, Update};
use sysop_core::id::{CallId, Seq};
use sysop_core::tool::Lent;
use sysop_wire::{Encoder, Place, ServerMessage};
use tokio::time::Instant;

use crate::house::Room;
use crate::lent::{Seat, Standing};
use crate::rooms::Rooms;

/// The most bytes of text in one message of a delta: what waited for a slow client was joined, and many a client takes no
/// message of any size.
const DELTA_BYTES_MAX: usize = 64 * 1024;
/// How long a call may be on its way from the log to its host, before its message is sent without it.
const UNKNOWN_MAX: Duration = Duration::from_secs(2);

/// What the log comes to, up to an event.
#[derive(Clone)]
pub(crate) struct Follower {
    encoder: Encoder,
    seq: Seq,
    /// The tools that are lent at this point of the log.
    lent: Lent,
    /// Calls of lent tools that have begun and not ended, each with its message.
    running: HashMap<CallId, ServerMessage>,
    /// The approval that is open.
    asked: Option<ServerMessage>,
}

impl Follower {
    fn new(room: &Room) -> Self {
        Self {
            encoder: Encoder::new(room.state.id.clone()),
            seq: Seq(0),
            lent: Lent::default(),
            running: HashMap::new(),
            asked: None,
        }
    }

    /// Reads the log to its end as it was when the room was opened. What was read before is not read again.
    pub(crate) async fn caught_up(room: &Room) -> Self {
        let mut kept = room.state.followed.lock().await;
        let mut follower = kept.take().unwrap_or_else(|| Self::new(room));
        let last = room.opened.last;
        if follower.seq < last {
            let mut updates = room.opened.session.subscribe(follower.seq);
            while follower.seq < last
                && let Some(update) = updates.next().await
            {
                if let Update::Logged(logged) = update {
                    follower.logged(&logged);
                }
            }
        }
        *kept = Some(follower.clone());
        follower
    }

    /// The last event that it knows of.
    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// The call that a person is asked about.
    pub(crate) fn asked_about(&self) -> Option<&CallId> {
        match &self.asked {
            Some(ServerMessage::ApprovalRequest { tool_call_id, .. }) => Some(tool_call_id),
            Some(_) | None => None,
        }
    }

    /// How the session works now; none where its log cannot be read.
    pub(crate) fn created(&self) -> Option<ServerMessage> {
        self.encoder.created()
    }

    /// What the session does now.
    pub(crate) fn now(&self) -> &sysop_wire::State {
        self.encoder.now()
    }

    /// The tools that are lent.
    pub(crate) fn lent(&self) -> &Lent {
        &self.lent
    }

    fn logged(&mut self, logged: &Logged) -> Vec<ServerMessage> {
        self.seq = logged.seq;
        let messages = self.encoder.logged(logged);
        self.fold(&logged.event, &messages);
        messages
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "it follows these, whatever else there is")]
    fn fold(&mut self, event: &Event, messages: &[ServerMessage]) {
        match event {
            Event::Configured { change: Change::Lent(lent) } => self.lent = lent.clone(),
            Event::ToolStarted { call, .. } if self.lent.named(&call.name).is_some() => {
                let began = |message: &&ServerMessage| matches!(message, ServerMessage::ToolCall { .. });
                if let Some(message) = messages.iter().find(began) {
                    self.running.insert(call.id.clone(), message.clone());
                }
            }
            Event::ToolFinished { call, .. } => {
                self.running.remove(call);
            }
            Event::ApprovalAsked { .. } => {
                let asked =
                    |message: &&ServerMessage| matches!(message, ServerMessage::ApprovalRequest { .. });
                self.asked = messages.iter().find(asked).cloned();
            }
            Event::Decided { .. } => self.asked = None,
            _ => {}
        }
    }

    /// What a client is told that joins here: how the session works, what it does, and what it waits for.
    fn joining(&self, room: &Room) -> VecDeque<ServerMessage> {
        let state = ServerMessage::State {
            session_id: room.state.id.clone(),
            place: Place { seq: self.seq, more: false },
            now: self.encoder.now().clone(),
            event: None,
        };
        let mut messages: VecDeque<_> = self.encoder.created().into_iter().collect();
        messages.push_back(state);
        messages.extend(self.asked.clone());
        messages
    }
}

/// The messages of one client.
pub(crate) struct Feed {
    follower: Follower,
    updates: BoxStream<'static, Update>,
    ready: VecDeque<ServerMessage>,
    /// Events up to here are known to the client.
    known: Seq,
    /// The place of a client that lends.
    seat: Option<Seat>,
    /// Calls that this client was told to run, and calls that it was told to stop.
    told: HashSet<CallId>,
    stopped: HashSet<CallId>,
    /// Messages that wait until it is known whether their call is to be run.
    held: Option<Held>,
    room: Room,
}

struct Held {
    messages: Vec<ServerMessage>,
    call: CallId,
    since: Instant,
}

/// Where a client begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what comes now.
    Now,
    /// After an event that it has.
    After(Seq),
}

impl Feed {
    /// Follows a session. `greet`: the first message tells how the session works now.
    pub(crate) async fn new(room: Room, rooms: &dyn Rooms, start: Start, greet: bool) -> Self {
        let now = Follower::caught_up(&room).await;
        let (mut ready, known, follower) = match start {
            Start::Now => (now.joining(&room), now.seq, now),
            Start::After(seq) => {
                let greeting = now.encoder.created().into_iter().collect();
                if seq < now.seq {
                    // Who missed something gets it from the log's start on.
                    (greeting, seq, Follower::new(&room))
                } else if seq == now.seq || rooms.is_logged(&room.state.id, seq).await {
                    // Who has all begins here. Of several servers another one may have told more than this one knows.
                    (greeting, seq, now)
                } else {
                    (greeting, now.seq, now) // nobody ever told that
                }
            }
        };
        if !greet {
            ready.clear();
        }
        let updates = room.opened.session.subscribe(follower.seq);
        Self {
            follower,
            updates,
            ready,
            known,
            seat: None,
            told: HashSet::new(),
            stopped: HashSet::new(),
            held: None,
            room,
        }
    }

    /// From now on this client lends, or no longer does.
    pub(crate) fn sit(&mut self, seat: Option<Seat>) {
        self.seat = seat;
        self.look_at_calls();
    }

    /// The next message; none once the session is gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<ServerMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if self.ready.is_empty() {
                    self.ready = VecDeque::new(); // many wait for long, and the first words are the most
                }
                return Some(message);
            }
            let held_until = self.held.as_ref().map(|held| held.since + UNKNOWN_MAX);
            let changed = async {
                match &mut self.seat {
                    Some(seat) => seat.changed().await,
                    None => std::future::pending().await,
                }
            };
            if let Some(until) = held_until {
                tokio::select! {
                    () = changed => self.look_at_held(),
                    () = tokio::time::sleep_until(until) => self.release_held(false),
                }
            } else {
                tokio::select! {
                    biased;
                    update = self.updates.next() => self.take(&update?),
                    () = changed => self.look_at_calls(),
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only calls are more than messages")]
    fn take(&mut self, update: &Update) {
        let logged = match update {
            Update::Delta(delta) => {
                self.ready.extend(in_pieces(self.follower.encoder.delta(delta)));
                return;
            }
            Update::Logged(logged) => logged,
        };
        let messages = self.follower.logged(logged);
        match &logged.event {
            Event::ToolFinished { call, .. } => {
                self.told.remove(call);
                self.stopped.remove(call);
            }
            Event::ToolStarted { call, .. } if self.follower.running.contains_key(&call.id) => {
                if logged.seq > self.known {
                    let held = Held { messages, call: call.id.clone(), since: Instant::now() };
                    self.held = Some(held);
                    self.look_at_held();
                } else {
                    self.look_at_calls();
                }
                return;
            }
            _ => {}
        }
        if logged.seq > self.known {
            self.ready.extend(messages);
        }
    }

    /// Sends what is held, as soon as it is known what becomes of its call.
    fn look_at_held(&mut self) {
        let Some(held) = &self.held else { return };
        let history = self.follower.seq <= self.room.opened.last;
        match self.seat.as_ref().map(|seat| seat.standing(&held.call)) {
            Some(Standing::Wanted) => self.release_held(true),
            // Of history it is told later, if it is still to be run.
            Some(Standing::Unknown) if !history => {}
            Some(Standing::Unknown | Standing::Settled) | None => self.release_held(false),
        }
    }

    fn release_held(&mut self, run: bool) {
        let Some(held) = self.held.take() else { return };
        for message in held.messages {
            let wanted = run && matches!(message, ServerMessage::ToolCall { .. });
            self.ready.push_back(if wanted { self.to_be_run(message) } else { message });
        }
        if run {
            self.told.insert(held.call);
        }
        self.look_at_calls(); // what came of other calls meanwhile
    }

    /// Tells of calls that are to be run and that this client does not know of, or is to stop.
    fn look_at_calls(&mut self) {
        let Some(seat) = &self.seat else { return };
        let held = self.held.as_ref().map(|held| &held.call);
        let running = self.follower.running.keys().filter(|call| Some(*call) != held);
        let due: Vec<CallId> = running
            .clone()
            .filter(|call| !self.told.contains(*call) && seat.standing(call) == Standing::Wanted)
            .cloned()
            .collect();
        let stopping: Vec<CallId> =
            running.filter(|call| !self.stopped.contains(*call) && seat.is_stopping(call)).cloned().collect();
        for call in due {
            let message = self.follower.running[&call].clone();
            let message = self.to_be_run(message);
            self.ready.push_back(message);
            self.told.insert(call);
        }
        for call in stopping {
            let session_id = self.room.state.id.clone();
            self.ready.push_back(ServerMessage::ToolCancel { session_id, tool_call_id: call.clone() });
            self.stopped.insert(call);
        }
    }

    fn to_be_run(&self, mut message: ServerMessage) -> ServerMessage {
        if let ServerMessage::ToolCall { run, traceparent, .. } = &mut message {
            *run = true;
            *traceparent = self.room.state.trace().map(|trace| trace.to_string());
        }
        message
    }
}

/// A delta as messages that are not too long.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these hold text that was joined")]
fn in_pieces(message: ServerMessage) -> Vec<ServerMessage> {
    match message {
        ServerMessage::AssistantDelta { session_id, content } => pieces(&content)
            .map(|content| ServerMessage::AssistantDelta { session_id: session_id.clone(), content })
            .collect(),
        ServerMessage::AssistantReasoning { session_id, content } => pieces(&content)
            .map(|content| ServerMessage::AssistantReasoning { session_id: session_id.clone(), content })
            .collect(),
        ServerMessage::ToolOutput { session_id, tool_call_id, content } => pieces(&content)
            .map(|content| ServerMessage::ToolOutput {
                session_id: session_id.clone(),
                tool_call_id: tool_call_id.clone(),
                content,
            })
            .collect(),
        other => vec![other],
    }
}

fn pieces(mut text: &str) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(DELTA_BYTES_MAX));
        text = rest;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use sysop_core::event::Input;
    use sysop_core::id::{SessionId, Timestamp};
    use sysop_core::message::{ModelRef, ModelRequest};
    use sysop_core::question::QuestionId;
    use sysop_driver::face::Session;
    use sysop_driver::people::{Answer, Terminal};
    use sysop_driver::port::{ModelEvent, SessionSummary};

    use super::*;
    use crate::house::House;
    use crate::lent::LentSettings;
    use crate::metrics::Metrics;
    use crate::rooms::{Artefact, Found, RoomError, Wish, Wrap};

    /// A session of which this server knows two events so far, and hears of three more that another one told of.
    struct Behind(SessionId);

    fn event(seq: u64) -> Update {
        Update::Logged(Arc::new(Logged {
            seq: Seq(seq),
            at: Timestamp(0),
            event: Event::PromptQueued { text: format!("prompt {seq}") },
        }))
    }

    impl Session for Behind {
        fn id(&self) -> &SessionId {
            &self.0
        }

        fn send(&self, _: Input) -> Result<(), String> {
            Ok(())
        }

        fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
            futures::stream::iter((after.0 + 1..=5).map(event)).chain(futures::stream::pending()).boxed()
        }

        fn answer(&self, _: QuestionId, _: Answer) -> bool {
            false
        }

        fn terminal(&self) -> Option<Arc<dyn Terminal>> {
            None
        }

        fn last_error(&self) -> Option<String> {
            None
        }
    }

    struct OneRoom;

    #[async_trait]
    impl Rooms for OneRoom {
        async fn create(&self, id: SessionId, _: Wish, _: Wrap) -> Result<Found, RoomError> {
            Ok(Found { session: Arc::new(Behind(id)), last: Seq(2) })
        }

        async fn open(&self, id: &SessionId, _: Wrap) -> Result<Found, RoomError> {
            Err(RoomError::NotFound(id.clone()))
        }

        async fn is_logged(&self, _: &SessionId, seq: Seq) -> bool {
            seq <= Seq(5)
        }

        async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, RoomError> {
            Ok(Vec::new())
        }

        async fn delete(&self, _: &SessionId) -> Result<(), RoomError> {
            Ok(())
        }

        async fn artefact(&self, id: &SessionId, _: &str) -> Result<Artefact, RoomError> {
            Err(RoomError::NotFound(id.clone()))
        }

        fn permits(&self, _: &Change) -> Result<(), String> {
            Ok(())
        }

        fn acts(&self, _: &SessionId, _: &str, _: Option<&str>) {}

        fn model(&self, _: Option<&str>) -> ModelRef {
            ModelRef::new("demo", "demo")
        }

        fn ask(&self, _: ModelRequest) -> BoxStream<'static, ModelEvent> {
            futures::stream::empty().boxed()
        }

        async fn trouble(&self) -> Option<String> {
            None
        }

        fn live_count(&self) -> usize {
            1
        }

        fn rest(&self, _: Duration) {}

        async fn leave(&self) {}
    }

    /// The seqs that a client is told which has everything up to `had`.
    async fn told_after(had: u64) -> Vec<u64> {
        let house = House::new(Arc::new(OneRoom), LentSettings::default(), Arc::new(Metrics::new()));
        let room = house.create(SessionId::new("s"), Wish::default()).await.unwrap();
        let mut feed = Feed::new(room, house.rooms.as_ref(), Start::After(Seq(had)), false).await;
        let mut told = Vec::new();
        while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(1), feed.next()).await {
            told.extend(message.place().map(|place| place.seq.0));
        }
        told.dedup();
        told
    }

    #[tokio::test(start_paused = true)]
    async fn who_knows_more_than_this_server_is_told_nothing_twice() {
        assert_eq!(told_after(0).await, [1, 2, 3, 4, 5]);
        assert_eq!(told_after(2).await, [3, 4, 5]);
        assert_eq!(told_after(4).await, [5], "another server has told it of 3 and 4");
        assert_eq!(told_after(99).await, [3, 4, 5], "nobody has ever told it of 99");
    }

    #[test]
    fn a_long_delta_is_told_in_pieces_of_whole_characters() {
        let text = "é".repeat(DELTA_BYTES_MAX);
        let told: Vec<String> = pieces(&text).collect();
        assert!(told.iter().all(|piece| piece.len() <= DELTA_BYTES_MAX));
        assert_eq!((told.len(), told.concat()), (2, text));
        assert_eq!(pieces("").count(), 0);
    }
}
