//! The web chat API of lsimons-agent: `POST /chat` streams a reply, `POST /clear` clears the history. Each client has
//! one session, identified by a cookie or by its token.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::event::{Delta, Event, Input, Logged, Update};
use sysop_core::id::{SessionId, StepId, TurnId};

use super::body::Object;
use super::health::OkStatus;
use super::{SharedServer, problem};
use crate::authenticator::Caller;
use crate::backend::{BackendError, CreateSession};
use crate::dispatch::send_error;
use crate::registry::SessionRef;

/// Name of the cookie that contains the session id.
const COOKIE: &str = "sysop_chat";
/// Maximum number of remembered callers without a cookie; the oldest is forgotten first.
const CALLERS_MAX: usize = 10_000;

/// Sessions of callers that keep no cookies.
#[derive(Default)]
pub(crate) struct Chats {
    state: Mutex<(HashMap<String, SessionId>, VecDeque<String>)>,
}

impl Chats {
    fn of(&self, key: &str) -> Option<SessionId> {
        self.state.lock().0.get(key).cloned()
    }

    fn keep(&self, key: &str, id: &SessionId) {
        let mut state = self.state.lock();
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

#[derive(Deserialize, JsonSchema)]
pub(super) struct WebChatRequest {
    #[schemars(regex(pattern = r"\S"))]
    message: String,
}

/// `POST /chat`.
pub(super) async fn chat(
    State(shared): State<SharedServer>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Object,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let message = match body.read::<WebChatRequest>() {
        Ok(message) if message.message.trim().is_empty() => return problem::bad("the message is empty"),
        Ok(message) => message.message,
        Err(response) => return *response,
    };
    let session_ref = match find_session(&shared, &caller, &headers).await {
        Ok(Some(session_ref)) => session_ref,
        Ok(None) => {
            if let Err(refused) = shared.authenticator.check_session_quota(&caller) {
                return *refused;
            }
            let id = SessionId::new(uuid::Uuid::now_v7().to_string());
            let request = CreateSession { opened_by: Some(caller.name.clone()), ..CreateSession::default() };
            match shared.registry.create(id, request).await {
                Ok(session_ref) => session_ref,
                Err(error) => return problem::backend_error(&shared, &error),
            }
        }
        Err(error) => return problem::backend_error(&shared, &error),
    };
    if cookie(&headers).is_none() {
        shared.chats.keep(&caller.key, &session_ref.state.id);
    }
    let updates = session_ref.opened.session.subscribe(session_ref.opened.last);
    let by = Some(caller.name.clone());
    let prompt = Input::Prompt { text: message.clone(), images: Vec::new(), by };
    if let Err(why) = session_ref.opened.session.send(prompt) {
        return problem::rejection(&shared, &send_error(&session_ref, why));
    }
    let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", session_ref.state.id);
    let answer = WebChatResponse::new(session_ref, message);
    let stream = Sse::new(lines(shared, answer, updates, caller)).keep_alive(KeepAlive::new());
    let mut response = stream.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `POST /clear`.
pub(super) async fn clear(
    State(shared): State<SharedServer>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    match find_session(&shared, &caller, &headers).await {
        Ok(Some(session_ref)) => {
            if let Err(why) = session_ref.opened.session.send(Input::Clear) {
                return problem::rejection(&shared, &send_error(&session_ref, why));
            }
        }
        Ok(None) => {} // no session yet
        Err(error) => return problem::backend_error(&shared, &error),
    }
    Json(OkStatus::Ok).into_response()
}

async fn find_session(
    shared: &SharedServer,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Option<SessionRef>, BackendError> {
    for id in cookie(headers).into_iter().chain(shared.chats.of(&caller.key)) {
        match shared.registry.open(&id).await {
            Ok(session_ref) => return Ok(Some(session_ref)),
            Err(BackendError::NotFound(_)) => {} // deleted since
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

/// A reply while it is streamed.
struct WebChatResponse {
    session_ref: SessionRef,
    prompt: String,
    turn: Option<TurnId>,
    /// The current step, and its text that was sent so far.
    streamed: (Option<StepId>, String),
    ready: VecDeque<SseEvent>,
    over: bool,
}

fn lines(
    shared: SharedServer,
    answer: WebChatResponse,
    updates: BoxStream<'static, Update>,
    caller: Caller,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
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
                None => answer.broken(&shared),
            }
        }
    })
}

impl WebChatResponse {
    fn new(session_ref: SessionRef, prompt: String) -> Self {
        Self {
            session_ref,
            prompt,
            turn: None,
            streamed: (None, String::new()),
            ready: VecDeque::new(),
            over: false,
        }
    }

    fn push_event(&mut self, event: &str, data: &Value) {
        self.ready.push_back(SseEvent::default().event(event).data(data.to_string()));
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push_event("text", &json!({ "content": text }));
        }
    }

    fn broken(&mut self, shared: &SharedServer) {
        let why = self.session_ref.opened.session.last_error();
        let why = why.map(|why| shared.registry.backend.without_folders(why));
        let why = why.unwrap_or_else(|| crate::dispatch::DRAINING.to_owned());
        self.push_event("error", &json!({ "message": why }));
        self.end();
    }

    fn end(&mut self) {
        self.push_event("done", &json!({}));
        self.over = true;
    }

    fn take(&mut self, update: &Update) {
        match update {
            Update::Delta(Delta::Text { step, text }) if Some(step.turn) == self.turn => {
                if self.streamed.0 != Some(*step) {
                    self.streamed = (Some(*step), String::new());
                }
                self.streamed.1.push_str(text);
                self.text(text);
            }
            Update::Logged(logged) => self.logged(logged),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the web chat reports only these events")]
    fn logged(&mut self, logged: &Logged) {
        match &logged.event {
            Event::TurnStarted { turn, prompt, .. } if self.turn.is_none() && *prompt == self.prompt => {
                self.turn = Some(*turn);
            }
            _ if self.turn.is_none() => {} // earlier turn
            Event::Replied { step, reply } => self.replied(*step, &reply.text),
            Event::ToolStarted { call, .. } => {
                let data = json!({ "name": call.name, "input": call.arguments.to_value() });
                self.push_event("tool", &data);
            }
            Event::ApprovalAsked { call, command, reason, .. } => {
                let data = json!({
                    "sessionId": self.session_ref.state.id, "toolCallId": call.id, "command": command, "reason": reason,
                });
                self.push_event("approval", &data);
                self.text(&format!("\n[waiting for approval of: {command}]\n"));
            }
            Event::TurnEnded { turn, error, .. } if Some(*turn) == self.turn => {
                if let Some(error) = error {
                    self.push_event("error", &json!({ "message": error }));
                }
                self.end();
            }
            _ => {}
        }
    }

    /// Sends the part of a step's text that was not streamed.
    fn replied(&mut self, step: StepId, text: &str) {
        let streamed = if self.streamed.0 == Some(step) { self.streamed.1.as_str() } else { "" };
        match text.strip_prefix(streamed) {
            Some(rest) => {
                let rest = rest.to_owned();
                self.text(&rest);
            }
            None => self.text(&format!("\n{text}")), // the model restarted its reply
        }
        self.streamed = (None, String::new());
    }
}
