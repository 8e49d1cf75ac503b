//! A session's messages as server-sent events: the same as those of the socket, for clients that have none.

use std::convert::Infallible;

use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use serde::Deserialize;
use sysop_core::id::{Seq, SessionId};
use sysop_wire::{ErrorCode, ServerMessage, to_line};

use crate::act::DRAINING;
use crate::follow::{Feed, Follower, Start};
use crate::guard::{Caller, Scope};
use crate::http::{Shared, problem};

const LAST_EVENT_ID: &str = "last-event-id";

/// What an address may say of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    /// The last event that the client has, where it cannot send the header.
    resume_from: Option<u64>,
    /// Whether the client runs the tools that were lent with its token.
    #[serde(default)]
    lend: bool,
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
        return problem::bad("`resumeFrom` is a number, and `lend` is true or false");
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
    let state = std::sync::Arc::clone(&room.state);
    let mut feed = Feed::new(room, shared.house.rooms.as_ref(), start, false).await;
    if let Some(lent) = lent.filter(|lent| !lent.tools.is_empty()) {
        feed.sit(Some(state.lending.sit(&caller.key, lent)));
    }
    let stream = stream(shared, feed, state.id.clone(), caller);
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

fn stream(
    shared: Shared,
    feed: Feed,
    session_id: SessionId,
    caller: Caller,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let present = shared.metrics.stream();
    let state = (shared, feed, session_id, (caller, present));
    futures::stream::unfold(Some(state), |state| async {
        let (shared, mut feed, session_id, held) = state?;
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
        let event = event(&message);
        Some((event, goes_on.then_some((shared, feed, session_id, held))))
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
