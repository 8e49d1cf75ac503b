//! Session endpoints: create, list, show, delete, and messages from clients without a WebSocket.

use std::collections::HashMap;
use std::path::PathBuf;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sysop_core::event::{ConfigChange, Input};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::image::IMAGE_BYTES_MAX;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::neutralize_line;
use sysop_driver::port::{Annotation, SessionSummary};
use sysop_wire::{
    ClientMessage, ErrorCode, Hello, ManifestTool, PromptImage, ServerMessage, SessionState,
    State as SessionStatus,
};

use super::body::Object;
use super::redacted_artifact::redacted_pieces;
use super::{SharedServer, approvals, body, openapi, problem};
use crate::authenticator::Caller;
use crate::backend::{Artifact, BackendError, CreateSession};
use crate::dispatch::{MessageOutcome, handle_message, rejection, send_error};
use crate::session_feed::Follower;
use crate::trace::TraceParent;

const LIST_MAX: usize = 1000;
/// Number of sessions in a list if the request has no `limit`.
const LIST_DEFAULT: usize = 100;
const SEARCH_WORDS_MAX: usize = 32;
/// Maximum length of the text in a request, in characters.
const WISH_CHARS_MAX: usize = 4096;
/// Maximum length of a title that a user gives, in characters.
const TITLE_CHARS_MAX: usize = 80;
/// Pattern of the text without control characters.
const ONE_LINE: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// Body of a request to create a session. Unknown fields are refused, so a typo cannot create a session with other
/// properties than intended.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct NewSession {
    /// Host on which its tools run; `none` leaves only the tools that clients offer.
    #[schemars(length(max = WISH_CHARS_MAX), regex(pattern = ONE_LINE))]
    host: Option<String>,
    model: Option<ModelRef>,
    approve: Option<ApprovalMode>,
    #[schemars(length(max = WISH_CHARS_MAX), regex(pattern = ONE_LINE))]
    profile: Option<String>,
    /// Root of the session's file tools.
    #[schemars(length(max = WISH_CHARS_MAX), regex(pattern = ONE_LINE))]
    root: Option<PathBuf>,
    client_version: String,
    /// Tools that run on the client, which receives the calls on its event stream.
    tool_manifest: Vec<ManifestTool>,
    workspace_root: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Created {
    pub(super) session_id: SessionId,
}

/// `POST /api/agent/sessions`.
pub(super) async fn create(
    State(shared): State<SharedServer>,
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
        return problem::bad(&format!(
            "`host`, `profile` and `root` must each be a single line of at most {WISH_CHARS_MAX} characters"
        ));
    }
    let hello = Hello {
        client_version: new.client_version,
        tool_manifest: new.tool_manifest,
        workspace_root: new.workspace_root,
        ..Hello::default()
    };
    let lent = match hello.client_tools() {
        Ok(lent) => lent,
        Err(bad) => return problem::rejection(&shared, &rejection(ErrorCode::BadManifest, bad.to_string())),
    };
    let request = CreateSession {
        host: new.host,
        model: new.model,
        approve: new.approve,
        profile: new.profile,
        root: new.root,
        opened_by: Some(caller.name.clone()),
    };
    if let Err(refused) = shared.authenticator.check_session_quota(&caller) {
        return *refused;
    }
    let id = SessionId::new(uuid::Uuid::now_v7().to_string());
    let session_ref = match shared.registry.create(id, request).await {
        Ok(session_ref) => session_ref,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    if !lent.tools.is_empty() {
        session_ref.state.offered_by(&caller.key);
        if let Err(why) =
            session_ref.opened.session.send(Input::Configure { change: ConfigChange::ClientTools(lent) })
        {
            return problem::rejection(&shared, &send_error(&session_ref, why));
        }
    }
    let place = format!("/api/agent/sessions/{}", session_ref.state.id);
    let created = Json(Created { session_id: session_ref.state.id.clone() });
    (StatusCode::CREATED, [(header::LOCATION, place)], created).into_response()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ListQuery {
    /// Maximum number of sessions; 100 if omitted.
    #[schemars(range(min = 1, max = LIST_MAX))]
    limit: Option<usize>,
    /// Words to find. A session matches if a single prompt, answer, command or output contains all words, or if the
    /// session is among the newest 1000 and each word occurs in its title, host, root or id.
    #[schemars(length(max = WISH_CHARS_MAX))]
    search: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SessionList {
    sessions: Vec<SessionRow>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionRow {
    session_id: SessionId,
    /// Beginning of the first prompt, or the name that a user gave.
    title: String,
    created: Timestamp,
    changed: Timestamp,
    last_seq: Seq,
    host: String,
    root: String,
    /// True if a user wants the session at the top of lists.
    pinned: bool,
    /// Text around the first word of the search; omitted if only the title, host, root or id match.
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<String>,
    /// Omitted for a session that is not in this server's memory, unless it is waiting for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<SessionState>,
}

/// `GET /api/agent/sessions`.
pub(super) async fn list(
    State(shared): State<SharedServer>,
    page: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(ListQuery { limit, search })) = page else {
        return problem::bad("`limit` must be a number and `search` a string");
    };
    let limit = limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        return problem::bad(&format!("`limit` must be a number from 1 to {LIST_MAX}"));
    }
    if search.chars().count() > WISH_CHARS_MAX {
        return problem::bad(&format!("`search` may have at most {WISH_CHARS_MAX} characters"));
    }
    let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
    if words.len() > SEARCH_WORDS_MAX {
        return problem::bad(&format!("`search` may have at most {SEARCH_WORDS_MAX} words"));
    }
    let looked_at = if words.is_empty() { limit } else { LIST_MAX };
    let sessions = match shared.registry.backend.list(looked_at).await {
        Ok(sessions) => sessions,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let hits = match find_in_logs(&shared, &words).await {
        Ok(hits) => hits,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let found = |session: &&SessionSummary| matches_search(session, &words) || hits.contains_key(&session.id);
    let now = sysop_driver::system_clock().now();
    let mut rows = Vec::new();
    for session in sessions.iter().filter(found).take(limit) {
        let state = match shared.registry.find_open(&session.id) {
            Some(session_ref) => Some(Follower::caught_up(&session_ref).await.now().state),
            None => {
                let open = approvals::find_open(&*shared.registry.backend, session, now).await;
                open.map(|_| SessionState::Waiting)
            }
        };
        rows.push(SessionRow {
            session_id: session.id.clone(),
            title: neutralize_line(&session.title).into_owned(),
            created: session.created,
            changed: session.changed,
            last_seq: session.last_seq,
            host: session.host.clone(),
            root: session.root.clone(),
            pinned: session.pinned,
            excerpt: hits.get(&session.id).cloned(),
            state,
        });
    }
    Json(SessionList { sessions: rows }).into_response()
}

/// Returns the excerpts of the sessions whose logs contain all words.
async fn find_in_logs(
    shared: &SharedServer,
    words: &[String],
) -> Result<HashMap<SessionId, String>, BackendError> {
    if words.is_empty() {
        return Ok(HashMap::new());
    }
    let hits = shared.registry.backend.search(words, LIST_MAX).await?;
    Ok(hits.into_iter().map(|hit| (hit.id, hit.excerpt)).collect())
}

/// Returns true if every word, which must be lowercase, occurs in the id, title, host or root.
fn matches_search(session: &SessionSummary, words: &[String]) -> bool {
    let told = [session.id.as_str(), &session.title, &session.host, &session.root].map(str::to_lowercase);
    words.iter().all(|word| told.iter().any(|text| text.contains(word)))
}

/// The message `session.created` without its `type`, and the state.
pub(super) struct SessionDetails;

impl JsonSchema for SessionDetails {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SessionDetails".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = openapi::message::<ServerMessage>(generator, "session.created");
        schema["properties"]["state"] = generator.subschema_for::<SessionStatus>().to_value();
        if let Some(names) = schema["required"].as_array_mut() {
            names.extend(["lastSeq".into(), "state".into()]);
        }
        schema.try_into().unwrap_or_default()
    }
}

/// `GET /api/agent/sessions/{id}`.
pub(super) async fn show(State(shared): State<SharedServer>, Path(id): Path<String>) -> Response {
    let session_ref = match shared.registry.open(&SessionId::new(id)).await {
        Ok(session_ref) => session_ref,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let follower = Follower::caught_up(&session_ref).await;
    let Some(created) = follower.hello_reply() else {
        return problem::rejection(
            &shared,
            &rejection(ErrorCode::Closed, "cannot read the log of this session"),
        );
    };
    let mut shown = match serde_json::to_value(created) {
        Ok(Value::Object(shown)) => shown,
        Ok(_) | Err(_) => {
            return problem::rejection(&shared, &rejection(ErrorCode::Internal, "cannot show this session"));
        }
    };
    shown.remove("type");
    shown.insert("state".to_owned(), json!(follower.now()));
    Json(Value::Object(shown)).into_response()
}

/// Body of a request to rename or pin a session; omitted fields stay unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
    #[schemars(length(min = 1, max = TITLE_CHARS_MAX), regex(pattern = ONE_LINE))]
    title: Option<String>,
    pinned: Option<bool>,
}

/// `POST /api/agent/sessions/{id}/label`.
pub(super) async fn label(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    body: Object,
) -> Response {
    let Label { title, pinned } = match body.read() {
        Ok(label) => label,
        Err(response) => return *response,
    };
    let title = title.map(|title| title.trim().to_owned());
    if title.as_ref().is_some_and(|title| {
        title.is_empty() || title.chars().count() > TITLE_CHARS_MAX || title.contains(char::is_control)
    }) {
        return problem::bad(&format!("`title` must be a single line of 1 to {TITLE_CHARS_MAX} characters"));
    }
    match shared.registry.backend.annotate(&SessionId::new(id), &Annotation { title, pinned }).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

/// `DELETE /api/agent/sessions/{id}`.
pub(super) async fn delete(State(shared): State<SharedServer>, Path(id): Path<String>) -> Response {
    match shared.registry.backend.delete(&SessionId::new(id)).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

/// `GET /api/agent/sessions/{id}/artifacts/{name}`.
pub(super) async fn artifact(
    State(shared): State<SharedServer>,
    Path((id, name)): Path<(String, String)>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let backend = &shared.registry.backend;
    // Text may begin like an image; an image has a size, too.
    let is_redacted = !caller.scopes.operate && backend.image_header(&name).await.is_err();
    match backend.artifact(&SessionId::new(id), &name).await {
        Ok(artifact) if is_redacted => {
            let headers = [(header::CONTENT_TYPE, "application/octet-stream")];
            (headers, Body::from_stream(redacted_pieces(artifact.pieces))).into_response()
        }
        // Any bytes that a command printed: a browser must not interpret them as a page.
        Ok(Artifact { bytes, pieces }) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_LENGTH, bytes.to_string()),
            ];
            (headers, Body::from_stream(pieces)).into_response()
        }
        Err(error) => problem::backend_error(&shared, &error),
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ImageQuery {
    /// Name of the file, for display.
    #[schemars(length(max = WISH_CHARS_MAX))]
    name: String,
}

/// `POST /api/agent/sessions/{id}/images`. An image content type is required, because a cross-origin page cannot
/// send one without a preflight.
pub(super) async fn store_image(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    Query(ImageQuery { name }): Query<ImageQuery>,
    request: Request,
) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("image/")) {
        let why = "send the bytes of an image with its `Content-Type`, such as `image/png`";
        return problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::BadMessage, why);
    }
    let image = match body::read(request.into_body(), &shared, IMAGE_BYTES_MAX).await {
        Ok(image) => image,
        Err(response) => return response,
    };
    match shared.registry.backend.store_image(&SessionId::new(id), image, name).await {
        Ok(image) => (StatusCode::CREATED, Json(PromptImage::from(&image))).into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum Receipt {
    Accepted,
    /// No longer relevant, or a duplicate.
    Ignored,
}

/// A tool call to undo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    /// Number of the tool call in the session, from 1. If omitted, the last call that can be undone.
    #[serde(default)]
    step: Option<u64>,
}

/// Requests the undo of a tool call, like the message `direct` with the tool `undo`.
pub(super) async fn undo(
    shared: State<SharedServer>,
    id: Path<String>,
    caller: Extension<Caller>,
    headers: HeaderMap,
    body: Object,
) -> Response {
    let UndoRequest { step } = match body.read() {
        Ok(request) => request,
        Err(response) => return *response,
    };
    let arguments = step.map(|step| ("step".to_owned(), step.into())).into_iter().collect();
    let body = [
        ("tool".to_owned(), "undo".into()),
        ("arguments".to_owned(), Value::Object(arguments)),
        ("origin".to_owned(), "typed".into()),
    ];
    post_message(shared, id, caller, headers, Object(body.into_iter().collect()), "direct").await
}

/// Handles a message; the body is the message without its `type` field.
pub(super) async fn post_message(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
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
        return problem::bad("`sessionId` does not match the URL");
    }
    let session_ref = match shared.registry.open(&id).await {
        Ok(session_ref) => session_ref,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let named = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let named = named.or_else(|| message.envelope()?.traceparent.as_deref());
    session_ref.state.begin_trace(&message, named.and_then(TraceParent::parse));
    let receipt = match handle_message(&shared, &session_ref, &caller, message).await {
        Ok(MessageOutcome::Accepted) => Receipt::Accepted,
        Ok(MessageOutcome::Ignored) => Receipt::Ignored,
        Err(refusal) => return problem::rejection(&shared, &refusal),
    };
    (StatusCode::ACCEPTED, Json(receipt)).into_response()
}
