//! A session's messages as server-sent events: the same messages as on a WebSocket, for clients without one.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;
use sysop_core::id::{Seq, SessionId};
use sysop_wire::{ErrorCode, ServerMessage, to_json_line};
use tokio::time::Instant;

use crate::authenticator::Caller;
use crate::dispatch::watch;
use crate::http::{SharedServer, problem};
use crate::session_feed::{Follower, SessionFeed, StartPosition};
use crate::socket::{TerminalFeed, next_terminal_message};

const LAST_EVENT_ID: &str = "last-event-id";
const TOO_SLOW: &str = "this client reads too slowly; reconnect with `Last-Event-ID` to continue";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsQuery {
    /// Last event that the client has; for clients that cannot send `Last-Event-ID`.
    resume_from: Option<u64>,
    /// True if the client runs the tools that were offered with its token.
    #[serde(default)]
    lend: bool,
    /// True to include terminal output; opens the terminal if necessary.
    #[serde(default)]
    terminal: bool,
    /// Columns of the client's screen.
    cols: Option<u16>,
    /// Rows of the client's screen.
    rows: Option<u16>,
    /// Number of scrollback rows to start with.
    scrollback: Option<u16>,
}

/// `GET /api/agent/sessions/{id}/events`.
pub(crate) async fn events(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    query: Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let Ok(Query(query)) = query else {
        let why = "`resumeFrom`, `cols`, `rows` and `scrollback` must be numbers; `lend` and `terminal` must be true or \
                   false";
        return problem::bad(why);
    };
    let Ok(start) = start(&headers, &query) else {
        return problem::bad("`Last-Event-ID` must be the numeric `id` of an event");
    };
    let session_ref = match shared.registry.open(&SessionId::new(id)).await {
        Ok(session_ref) => session_ref,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let lends = query.lend || session_ref.state.is_offered_by(&caller.key);
    let lends = lends && caller.scopes.operate && !session_ref.state.tool_broker.is_registered();
    let client_tools =
        if lends { Some(Follower::caught_up(&session_ref).await.client_tools().clone()) } else { None };
    let state = Arc::clone(&session_ref.state);
    let terminal = match query.terminal {
        true => {
            let scrollback_rows = usize::from(query.scrollback.unwrap_or(0));
            Some(watch(&session_ref, &caller, query.cols.zip(query.rows), scrollback_rows).await)
        }
        false => None,
    };
    let feed = SessionFeed::new(session_ref, shared.registry.backend.as_ref(), start, false).await;
    let mut feed = feed.for_caller(&caller);
    if let Some(client_tools) = client_tools.filter(|client_tools| !client_tools.tools.is_empty()) {
        feed.register(Some(state.tool_broker.register(&caller.key, client_tools)));
    }
    let (terminal, first) = match terminal {
        Some(Ok(view)) => {
            let (watching, picture) = TerminalFeed::new(state.id.clone(), view);
            (Some(watching), Some(picture))
        }
        Some(Err(refused)) => {
            let why = shared.registry.backend.without_folders(refused.why);
            (None, Some(closed(&state.id, refused.code, &why)))
        }
        None => (None, None),
    };
    let followed = SseFeed { feed, terminal, first };
    let stream = stream(SseReader::new(shared, state.id.clone()), followed, caller);
    Sse::new(stream).keep_alive(KeepAlive::new()).into_response()
}

/// Returns the starting position. The header has precedence over the query, so that a browser's automatic reconnect
/// continues where it stopped.
fn start(headers: &HeaderMap, query: &EventsQuery) -> Result<StartPosition, ()> {
    let seq = match headers.get(LAST_EVENT_ID) {
        Some(value) => value.to_str().map_err(|_| ())?.trim().parse().map_err(|_| ())?,
        None => query.resume_from.unwrap_or(0),
    };
    Ok(StartPosition::After(Seq(seq)))
}

struct SseFeed {
    feed: SessionFeed,
    terminal: Option<TerminalFeed>,
    /// Message to send before all others.
    first: Option<ServerMessage>,
}

impl SseFeed {
    /// Returns the next message, or `None` once the session is gone. Cancel safe.
    async fn next(&mut self) -> Option<ServerMessage> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        tokio::select! {
            biased;
            message = self.feed.next() => message,
            message = next_terminal_message(&mut self.terminal) => Some(message),
        }
    }
}

/// Tracks whether the reader of a stream keeps up.
struct SseReader {
    shared: SharedServer,
    session_id: SessionId,
    /// Time at which the last message was returned; `None` while the next one is being polled.
    last_sent: Option<Instant>,
}

impl SseReader {
    fn new(shared: SharedServer, session_id: SessionId) -> Self {
        Self { shared, session_id, last_sent: None }
    }

    /// Returns true if the reader has not made room for another message for too long.
    fn is_slow(&self) -> bool {
        self.last_sent.is_some_and(|last_sent| last_sent.elapsed() > self.shared.settings.socket.write)
    }
}

impl Drop for SseReader {
    fn drop(&mut self) {
        if self.is_slow() {
            self.shared.metrics.stream_dropped("too_slow");
            tracing::info!(session = %self.session_id, reason = "too_slow", "stream closed");
        }
    }
}

fn stream(reader: SseReader, feed: SseFeed, caller: Caller) -> impl Stream<Item = Result<Event, Infallible>> {
    let present = reader.shared.metrics.stream();
    let state = (reader, feed, (caller, present));
    futures::stream::unfold(Some(state), |state| async {
        let (mut reader, mut feed, held) = state?;
        let (shared, session_id) = (Arc::clone(&reader.shared), reader.session_id.clone());
        // Polled only when there is room for the next message.
        if reader.is_slow() {
            shared.metrics.message_out();
            return Some((event(&closed(&session_id, ErrorCode::TooSlow, TOO_SLOW)), None));
        }
        reader.last_sent = None;
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
            None => {
                let (code, why) = shared.end_reason();
                (closed(&session_id, code, why), false)
            }
        };
        reader.last_sent = goes_on.then(Instant::now);
        Some((event(&message), goes_on.then_some((reader, feed, held))))
    })
    .map(Ok)
}

fn closed(session_id: &SessionId, code: ErrorCode, why: &str) -> ServerMessage {
    let (session_id, message) = (session_id.clone(), why.to_owned());
    ServerMessage::Error { session_id, position: None, message, code: Some(code), reply_to: None }
}

fn event(message: &ServerMessage) -> Event {
    let event = Event::default().data(to_json_line(message));
    match message.resume_point() {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    }
}
