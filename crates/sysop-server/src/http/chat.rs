//! The web chat of lsimons-agent: `POST /chat` streams an answer, `POST /clear` forgets. One session for each client,
//! known by a cookie or by its token.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::event::{Delta, Event, Input, Logged, Update};
use sysop_core::id::{SessionId, StepId, TurnId};

use super::body::Object;
use super::{Shared, problem};
use crate::act::unsent;
use crate::guard::Caller;
use crate::house::Room;
use crate::rooms::{RoomError, Wish};

/// The cookie that names the session.
const COOKIE: &str = "sysop_chat";
/// How many callers without a cookie are remembered; the one that came first goes first.
const CALLERS_MAX: usize = 10_000;

/// The sessions of callers that keep no cookie.
#[derive(Default)]
pub(crate) struct Chats {
    state: Mutex<(HashMap<String, SessionId>, VecDeque<String>)>,
}

impl Chats {
    fn of(&self, key: &str) -> Option<SessionId> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0.get(key).cloned()
    }

    fn keep(&self, key: &str, id: &SessionId) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (sessions, order) = &mut *state;
        if sessions.insert(key.to_owned(), id.clone()).is_none() {
            order.push_back(key.to_owned());
        }
        if order.len() > CALLERS_MAX
            && let Some(first) = order.pop_front()
        {
            sessions.remove(&first);
        }
    }
}

#[derive(Deserialize)]
struct Said {
    message: String,
}

/// `POST /chat`.
pub(super) async fn chat(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Object,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let said = match body.read::<Said>() {
        Ok(said) if said.message.trim().is_empty() => return problem::bad("the message is empty"),
        Ok(said) => said.message,
        Err(response) => return *response,
    };
    let room = match earlier(&shared, &caller, &headers).await {
        Ok(Some(room)) => room,
        Ok(None) => {
            if let Err(refused) = shared.guard.may_open(&caller) {
                return *refused;
            }
            match shared.house.create(SessionId::new(uuid::Uuid::now_v7().to_string()), Wish::default()).await
            {
                Ok(room) => room,
                Err(error) => return problem::room(&error),
            }
        }
        Err(error) => return problem::room(&error),
    };
    if cookie(&headers).is_none() {
        shared.chats.keep(&caller.key, &room.state.id);
    }
    let updates = room.opened.session.subscribe(room.opened.last);
    if let Err(why) = room.opened.session.send(Input::Prompt { text: said.clone() }) {
        return problem::refused(&unsent(&room, why));
    }
    let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", room.state.id);
    let answer = Answer::new(room, said);
    let stream = Sse::new(lines(shared, answer, updates, caller)).keep_alive(KeepAlive::new());
    let mut response = stream.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `POST /clear`.
pub(super) async fn clear(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    match earlier(&shared, &caller, &headers).await {
        Ok(Some(room)) => {
            if let Err(why) = room.opened.session.send(Input::Clear) {
                return problem::refused(&unsent(&room, why));
            }
        }
        Ok(None) => {} // nothing was said
        Err(error) => return problem::room(&error),
    }
    Json(json!({ "status": "ok" })).into_response()
}

/// The caller's session, where there is one.
async fn earlier(shared: &Shared, caller: &Caller, headers: &HeaderMap) -> Result<Option<Room>, RoomError> {
    for id in cookie(headers).into_iter().chain(shared.chats.of(&caller.key)) {
        match shared.house.open(&id).await {
            Ok(room) => return Ok(Some(room)),
            Err(RoomError::NotFound(_)) => {} // it was deleted
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn cookie(headers: &HeaderMap) -> Option<SessionId> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let named = cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    });
    named.map(SessionId::new)
}

/// One answer, as it is told.
struct Answer {
    room: Room,
    prompt: String,
    turn: Option<TurnId>,
    /// What of a step's text was told.
    told: (Option<StepId>, String),
    ready: VecDeque<Line>,
    over: bool,
}

fn lines(
    shared: Shared,
    answer: Answer,
    updates: BoxStream<'static, Update>,
    caller: Caller,
) -> impl Stream<Item = Result<Line, Infallible>> {
    let present = shared.metrics.stream();
    let state = (shared, answer, updates, (caller, present));
    futures::stream::unfold(state, |(shared, mut answer, mut updates, held)| async {
        loop {
            if let Some(line) = answer.ready.pop_front() {
                return Some((Ok(line), (shared, answer, updates, held)));
            }
            if answer.over {
                return None;
            }
            let update = tokio::select! {
                () = shared.closing.cancelled() => None,
                () = held.0.ended.cancelled() => return None,
                update = updates.next() => update,
            };
            match update {
                Some(update) => answer.take(&update),
                None => answer.broken(),
            }
        }
    })
}

impl Answer {
    fn new(room: Room, prompt: String) -> Self {
        Self { room, prompt, turn: None, told: (None, String::new()), ready: VecDeque::new(), over: false }
    }

    fn say(&mut self, event: &str, data: &Value) {
        self.ready.push_back(Line::default().event(event).data(data.to_string()));
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.say("text", &json!({ "content": text }));
        }
    }

    fn broken(&mut self) {
        let why = self.room.opened.session.last_error();
        let why = why.unwrap_or_else(|| crate::act::DRAINING.to_owned());
        self.say("error", &json!({ "message": why }));
        self.end();
    }

    fn end(&mut self) {
        self.say("done", &json!({}));
        self.over = true;
    }

    fn take(&mut self, update: &Update) {
        match update {
            Update::Delta(Delta::Text { step, text }) if Some(step.turn) == self.turn => {
                if self.told.0 != Some(*step) {
                    self.told = (Some(*step), String::new());
                }
                self.told.1.push_str(text);
                self.text(text);
            }
            Update::Logged(logged) => self.logged(logged),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the web chat tells of these")]
    fn logged(&mut self, logged: &Logged) {
        match &logged.event {
            Event::TurnStarted { turn, prompt, .. } if self.turn.is_none() && *prompt == self.prompt => {
                self.turn = Some(*turn);
            }
            _ if self.turn.is_none() => {} // an earlier turn
            Event::Replied { step, reply } => self.replied(*step, &reply.text),
            Event::ToolStarted { call, .. } => {
                let data = json!({ "name": call.name, "input": call.arguments.to_value() });
                self.say("tool", &data);
            }
            Event::ApprovalAsked { call, command, reason, .. } => {
                let data = json!({
                    "sessionId": self.room.state.id, "toolCallId": call.id, "command": command, "reason": reason,
                });
                self.say("approval", &data);
                self.text(&format!("\n[waiting for somebody to allow: {command}]\n"));
            }
            Event::TurnEnded { turn, error, .. } if Some(*turn) == self.turn => {
                if let Some(error) = error {
                    self.say("error", &json!({ "message": error }));
                }
                self.end();
            }
            _ => {}
        }
    }

    /// Tells what of a step's text was not told yet.
    fn replied(&mut self, step: StepId, text: &str) {
        let told = if self.told.0 == Some(step) { self.told.1.as_str() } else { "" };
        match text.strip_prefix(told) {
            Some(rest) => {
                let rest = rest.to_owned();
                self.text(&rest);
            }
            None => self.text(&format!("\n{text}")), // the model began again meanwhile
        }
        self.told = (None, String::new());
    }
}
