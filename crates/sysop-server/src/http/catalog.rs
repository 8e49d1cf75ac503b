//! What a front end offers beside a session: hosts, models, paths to complete, and another session from a point of one.

use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use sysop_core::id::{SessionId, TurnId};

use super::body::Object;
use super::{SharedServer, problem};
use crate::authenticator::Caller;

/// The most paths of one answer.
const PATHS_MAX: usize = 1000;
/// How many there are where nobody says how many.
const PATHS_DEFAULT: usize = 100;
/// The most characters of a word that is completed.
const WORD_CHARS_MAX: usize = 4096;

/// `GET /api/hosts`.
pub(super) async fn hosts(State(shared): State<SharedServer>) -> Response {
    let hosts = shared.registry.backend.hosts();
    let rows = hosts.into_iter().map(|host| json!({ "name": host.name, "description": host.description }));
    Json(json!({ "hosts": rows.collect::<Vec<_>>() })).into_response()
}

/// `GET /api/models`.
pub(super) async fn models(State(shared): State<SharedServer>) -> Response {
    Json(json!({ "models": shared.registry.backend.models().await })).into_response()
}

/// Which paths are wanted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PathsQuery {
    #[serde(default)]
    word: String,
    limit: Option<usize>,
}

/// `GET /api/agent/sessions/{id}/paths`.
pub(super) async fn paths(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    query: Result<Query<PathsQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(PathsQuery { word, limit })) = query else {
        return problem::bad("`word` is a text and `limit` a number");
    };
    let limit = limit.unwrap_or(PATHS_DEFAULT);
    if !(1..=PATHS_MAX).contains(&limit) {
        return problem::bad(&format!("`limit` is a number from 1 to {PATHS_MAX}"));
    }
    if word.chars().count() > WORD_CHARS_MAX {
        return problem::bad(&format!("`word` has {WORD_CHARS_MAX} characters at most"));
    }
    match shared.registry.backend.paths(&SessionId::new(id), &word, limit).await {
        Ok(paths) => Json(json!({ "paths": paths })).into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

/// Where the new session leaves the old one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkRequest {
    before: TurnId,
}

/// `POST /api/agent/sessions/{id}/fork`.
pub(super) async fn fork(
    State(shared): State<SharedServer>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Object,
) -> Response {
    if !shared.is_open() {
        return problem::draining();
    }
    let ForkRequest { before } = match body.read() {
        Ok(point) => point,
        Err(response) => return *response,
    };
    let made = SessionId::new(uuid::Uuid::now_v7().to_string());
    match shared.registry.backend.fork(&SessionId::new(id), before, &made, &caller.name).await {
        Ok(()) => {
            let place = format!("/api/agent/sessions/{made}");
            let said = Json(json!({ "sessionId": made }));
            (StatusCode::CREATED, [(header::LOCATION, place)], said).into_response()
        }
        Err(error) => problem::backend_error(&shared, &error),
    }
}
