//! Sessions: made, listed, looked at, deleted; and what a client without a socket says to them.

use std::path::PathBuf;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::event::{Change, Input};
use sysop_core::id::SessionId;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::neutralise_line;
use sysop_driver::port::SessionSummary;
use sysop_wire::{ClientMessage, ErrorCode, Hello, ManifestTool};

use super::body::Object;
use super::{Shared, problem};
use crate::act::{Acted, act, refused, unsent};
use crate::follow::Follower;
use crate::guard::Caller;
use crate::rooms::{Artefact, Wish};
use crate::trace::TraceParent;

/// The most sessions of one list.
const LIST_MAX: usize = 1000;
/// How many sessions are listed where nobody says how many.
const LIST_USUAL: usize = 100;
/// The most characters of a text in a wish.
const WISH_CHARS_MAX: usize = 4096;

/// What a new session is to be like. Only what is known is taken: a slip must not make another session than was meant.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct NewSession {
    host: Option<String>,
    model: Option<ModelRef>,
    approve: Option<ApprovalMode>,
    profile: Option<String>,
    root: Option<PathBuf>,
    client_version: String,
    tool_manifest: Vec<ManifestTool>,
    workspace_root: String,
}

/// `POST /api/agent/sessions`.
pub(super) async fn create(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Object,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let new = match body.read::<NewSession>() {
        Ok(new) => new,
        Err(response) => return *response,
    };
    let texts =
        [new.host.as_deref(), new.profile.as_deref(), new.root.as_deref().and_then(|root| root.to_str())];
    if texts
        .into_iter()
        .flatten()
        .any(|text| text.chars().count() > WISH_CHARS_MAX || text.contains(char::is_control))
    {
        return problem::bad("`host`, `profile` and `root` are short and of one line");
    }
    let hello = Hello {
        client_version: new.client_version,
        tool_manifest: new.tool_manifest,
        workspace_root: new.workspace_root,
        ..Hello::default()
    };
    let lent = match hello.lent() {
        Ok(lent) => lent,
        Err(bad) => return problem::refused(&refused(ErrorCode::BadManifest, bad.to_string())),
    };
    let wish =
        Wish { host: new.host, model: new.model, approve: new.approve, profile: new.profile, root: new.root };
    if let Err(refused) = shared.guard.may_open(&caller) {
        return *refused;
    }
    let id = SessionId::new(uuid::Uuid::now_v7().to_string());
    let room = match shared.house.create(id, wish).await {
        Ok(room) => room,
        Err(error) => return problem::room(&error),
    };
    if !lent.tools.is_empty() {
        room.state.offered_by(&caller.key);
        if let Err(why) = room.opened.session.send(Input::Configure { change: Change::Lent(lent) }) {
            return problem::refused(&unsent(&room, why));
        }
    }
    let place = format!("/api/agent/sessions/{}", room.state.id);
    let made = json!({ "sessionId": room.state.id });
    (StatusCode::CREATED, [(header::LOCATION, place)], Json(made)).into_response()
}

/// Which sessions are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Page {
    limit: Option<usize>,
    search: String,
}

/// `GET /api/agent/sessions`.
pub(super) async fn list(
    State(shared): State<Shared>,
    page: Result<Query<Page>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(Page { limit, search })) = page else {
        return problem::bad("`limit` is a number, and `search` a text");
    };
    let limit = limit.unwrap_or(LIST_USUAL);
    if !(1..=LIST_MAX).contains(&limit) {
        return problem::bad(&format!("`limit` is a number from 1 to {LIST_MAX}"));
    }
    if search.chars().count() > WISH_CHARS_MAX {
        return problem::bad(&format!("`search` has {WISH_CHARS_MAX} characters at most"));
    }
    let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
    let looked_at = if words.is_empty() { limit } else { LIST_MAX };
    let sessions = match shared.house.rooms.list(looked_at).await {
        Ok(sessions) => sessions,
        Err(error) => return problem::room(&error),
    };
    let mut rows = Vec::new();
    for session in sessions.iter().filter(|session| holds(session, &words)).take(limit) {
        let mut row = json!({
            "sessionId": session.id,
            "title": neutralise_line(&session.title),
            "created": session.created,
            "changed": session.changed,
            "lastSeq": session.last_seq,
            "host": session.host,
            "root": session.root,
        });
        if let Some(room) = shared.house.if_open(&session.id) {
            row["state"] = json!(Follower::caught_up(&room).await.now().state);
        }
        rows.push(row);
    }
    Json(json!({ "sessions": rows })).into_response()
}

/// Whether all these words, in lower case, are somewhere in what a list tells of a session.
fn holds(session: &SessionSummary, words: &[String]) -> bool {
    let told = [session.id.as_str(), &session.title, &session.host, &session.root].map(str::to_lowercase);
    words.iter().all(|word| told.iter().any(|text| text.contains(word)))
}

/// `GET /api/agent/sessions/{id}`.
pub(super) async fn show(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    let room = match shared.house.open(&SessionId::new(id)).await {
        Ok(room) => room,
        Err(error) => return problem::room(&error),
    };
    let follower = Follower::caught_up(&room).await;
    let Some(created) = follower.created() else {
        return problem::refused(&refused(ErrorCode::Closed, "the log of this session cannot be read"));
    };
    let mut shown = match serde_json::to_value(created) {
        Ok(Value::Object(shown)) => shown,
        Ok(_) | Err(_) => {
            return problem::refused(&refused(ErrorCode::Internal, "this session cannot be shown"));
        }
    };
    shown.remove("type");
    shown.insert("state".to_owned(), json!(follower.now()));
    Json(Value::Object(shown)).into_response()
}

/// `DELETE /api/agent/sessions/{id}`.
pub(super) async fn delete(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    match shared.house.rooms.delete(&SessionId::new(id)).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem::room(&error),
    }
}

/// `GET /api/agent/sessions/{id}/artefacts/{name}`.
pub(super) async fn artefact(
    State(shared): State<Shared>,
    Path((id, name)): Path<(String, String)>,
) -> Response {
    match shared.house.rooms.artefact(&SessionId::new(id), &name).await {
        // Whatever a command printed: a browser must not take it for a page.
        Ok(Artefact { bytes, pieces }) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_LENGTH, bytes.to_string()),
            ];
            (headers, Body::from_stream(pieces)).into_response()
        }
        Err(error) => problem::room(&error),
    }
}

/// Makes the handler of a message: the body is the message without its `type`.
macro_rules! says {
    ($name:ident, $kind:literal) => {
        pub(super) async fn $name(
            State(shared): State<Shared>,
            Path(id): Path<String>,
            Extension(caller): Extension<Caller>,
            headers: HeaderMap,
            body: Object,
        ) -> Response {
            say(&shared, id, &caller, &headers, body, $kind).await
        }
    };
}

says!(message, "user.message");
says!(tool_result, "tool.result");
says!(tool_output, "tool.output");
says!(decision, "approval.decision");
says!(question, "question.answer");
says!(direct, "direct");
says!(configure, "configure");
says!(cancel, "cancel");
says!(pause, "pause");
says!(resume, "resume");
says!(retry, "retry");
says!(clear, "clear");
says!(terminal_input, "terminal.input");
says!(terminal_resize, "terminal.resize");
says!(terminal_release, "terminal.release");

async fn say(
    shared: &Shared,
    id: String,
    caller: &Caller,
    headers: &HeaderMap,
    Object(mut body): Object,
    kind: &'static str,
) -> Response {
    let id = SessionId::new(id);
    body.insert("type".to_owned(), kind.into());
    let message = match ClientMessage::parse(&Value::Object(body).to_string()) {
        Ok(message) => message,
        Err(bad) => return problem::bad(&bad.to_string()),
    };
    if message.session_id().is_some_and(|other| *other != id) {
        return problem::bad("`sessionId` is another one than that of the address");
    }
    let room = match shared.house.open(&id).await {
        Ok(room) => room,
        Err(error) => return problem::room(&error),
    };
    let named = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let named = named.or_else(|| message.envelope()?.traceparent.as_deref());
    room.state.begins(&message, named.and_then(TraceParent::parse));
    match act(shared, &room, caller, message).await {
        Ok(Acted::Done) => (StatusCode::ACCEPTED, Json(json!({ "status": "accepted" }))).into_response(),
        Ok(Acted::Ignored) => (StatusCode::ACCEPTED, Json(json!({ "status": "ignored" }))).into_response(),
        Err(refusal) => problem::refused(&refusal),
    }
}
