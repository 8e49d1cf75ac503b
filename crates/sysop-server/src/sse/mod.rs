//! A session's messages as server-sent events: the same as those of the socket, for clients that have none.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use serde::Deserialize;
use sysop_core::id::{Seq, SessionId};
use sysop_wire::{ErrorCode, ServerMessage, to_line};
use tokio::time::Instant;

use crate::act::{DRAINING, watch};
use crate::follow::{Feed, Follower, Start};
use crate::guard::{Caller, Scope};
use crate::http::{Shared, problem};
use crate::socket::{Watching, next_of};

const LAST_EVENT_ID: &str = "last-event-id";
const TOO_SLOW: &str = "this client does not read fast enough; connect again with `Last-Event-ID` to go on";

/// What an address may say of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    /// The last event that the client has, where it cannot send the header.
    resume_from: Option<u64>,
    /// Whether the client runs the tools that were lent with its token.
    #[serde(default)]
    lend: bool,
    /// Whether the client watches the terminal, which is opened if it is not.
    #[serde(default)]
    terminal: bool,
    /// The size of its own screen.
    cols: Option<u16>,
    rows: Option<u16>,
    /// How many rows above the screen it begins with.
    scrollback: Option<u16>,
}

/// `GET /api/agent/sessions/{id}/events`.
pub(crate) async fn events(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let Ok(Query(wanted)) = wanted else {
        let why = "`resumeFrom`, `cols`, `rows` and `scrollback` are numbers, `lend` and `terminal` are true or false";
        return problem::bad(why);
    };
    let Ok(start) = start(&headers, &wanted) else {
        return problem::bad("`Last-Event-ID` is the `id` of an event: a number");
    };
    let room = match shared.house.open(&SessionId::new(id)).await {
        Ok(room) => room,
        Err(error) => return problem::room(&error),
    };
    let lends = wanted.lend || room.state.is_offered_by(&caller.key);
    let lends = lends && caller.scope >= Scope::Operate && !room.state.lending.is_taken();
    let lent = if lends { Some(Follower::caught_up(&room).await.lent().clone()) } else { None };
    let state = Arc::clone(&room.state);
    let terminal = match wanted.terminal {
        true => {
            let scrollback_rows = usize::from(wanted.scrollback.unwrap_or(0));
            Some(watch(&room, &caller, wanted.cols.zip(wanted.rows), scrollback_rows).await)
        }
        false => None,
    };
    let mut feed = Feed::new(room, shared.house.rooms.as_ref(), start, false).await;
    if let Some(lent) = lent.filter(|lent| !lent.tools.is_empty()) {
        feed.sit(Some(state.lending.sit(&caller.key, lent)));
    }
    let (terminal, first) = match terminal {
        Some(Ok(view)) => {
            let (watching, picture) = Watching::new(state.id.clone(), view);
            (Some(watching), Some(picture))
        }
        Some(Err(refused)) => (None, Some(closed(&state.id, refused.code, &refused.why))),
        None => (None, None),
    };
    let followed = Followed { feed, terminal, first };
    let stream = stream(Reader::new(shared, state.id.clone()), followed, caller);
    Sse::new(stream).keep_alive(KeepAlive::new()).into_response()
}

/// The beginning: what the header says counts before what the address says, so that a client which connects again by
/// itself goes on where it was.
fn start(headers: &HeaderMap, wanted: &Wanted) -> Result<Start, ()> {
    let seq = match headers.get(LAST_EVENT_ID) {
        Some(value) => value.to_str().map_err(|_| ())?.trim().parse().map_err(|_| ())?,
        None => wanted.resume_from.unwrap_or(0),
    };
    Ok(Start::After(Seq(seq)))
}

/// What a stream tells of.
struct Followed {
    feed: Feed,
    terminal: Option<Watching>,
    /// Comes before all else.
    first: Option<ServerMessage>,
}

impl Followed {
    /// The next message; none once the session is gone. Cancel safe.
    async fn next(&mut self) -> Option<ServerMessage> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        tokio::select! {
            biased;
            message = self.feed.next() => message,
            message = next_of(&mut self.terminal) => Some(message),
        }
    }
}

/// Who reads a stream, and whether they do.
struct Reader {
    shared: Shared,
    session_id: SessionId,
    /// When there was a message for them that nobody has asked for more after.
    told: Option<Instant>,
}

impl Reader {
    fn new(shared: Shared, session_id: SessionId) -> Self {
        Self { shared, session_id, told: None }
    }

    /// Whether they have not made room for another message for too long.
    fn is_slow(&self) -> bool {
        self.told.is_some_and(|told| told.elapsed() > self.shared.settings.socket.write)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_slow() {
            self.shared.metrics.stream_dropped("too_slow");
            tracing::info!(session = %self.session_id, reason = "too_slow", "stream closed");
        }
    }
}

fn stream(reader: Reader, feed: Followed, caller: Caller) -> impl Stream<Item = Result<Event, Infallible>> {
    let present = reader.shared.metrics.stream();
    let state = (reader, feed, (caller, present));
    futures::stream::unfold(Some(state), |state| async {
        let (mut reader, mut feed, held) = state?;
        let (shared, session_id) = (Arc::clone(&reader.shared), reader.session_id.clone());
        // It is asked for the next message when there is room for it, and not before.
        if reader.is_slow() {
            shared.metrics.message_out();
            return Some((event(&closed(&session_id, ErrorCode::TooSlow, TOO_SLOW)), None));
        }
        reader.told = None;
        let message = tokio::select! {
            biased;
            () = shared.closing.cancelled() => None,
            () = held.0.ended.cancelled() => return None,
            message = feed.next() => Some(message),
        };
        shared.metrics.message_out();
        let (message, goes_on) = match message {
            Some(Some(message)) => (message, true),
            Some(None) => (closed(&session_id, ErrorCode::Closed, "the session ended here"), false),
            None => (closed(&session_id, ErrorCode::Draining, DRAINING), false),
        };
        reader.told = goes_on.then(Instant::now);
        Some((event(&message), goes_on.then_some((reader, feed, held))))
    })
    .map(Ok)
}

fn closed(session_id: &SessionId, code: ErrorCode, why: &str) -> ServerMessage {
    let (session_id, message) = (session_id.clone(), why.to_owned());
    ServerMessage::Error { session_id, place: None, message, code: Some(code), reply_to: None }
}

fn event(message: &ServerMessage) -> Event {
    let event = Event::default().data(to_line(message));
    match message.resume_point() {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    }
}
