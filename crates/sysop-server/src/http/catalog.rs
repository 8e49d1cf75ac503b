//! Queries of front ends beside a session: hosts, models, path completion, and forking a session.

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

/// Maximum number of paths in a response.
const PATHS_MAX: usize = 1000;
/// Number of paths if the request has no `limit`.
const PATHS_DEFAULT: usize = 100;
/// Maximum length of the word to complete, in characters.
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
        return problem::bad("`word` must be text and `limit` a number");
    };
    let limit = limit.unwrap_or(PATHS_DEFAULT);
    if !(1..=PATHS_MAX).contains(&limit) {
        return problem::bad(&format!("`limit` must be a number from 1 to {PATHS_MAX}"));
    }
    if word.chars().count() > WORD_CHARS_MAX {
        return problem::bad(&format!("`word` must have at most {WORD_CHARS_MAX} characters"));
    }
    match shared.registry.backend.paths(&SessionId::new(id), &word, limit).await {
        Ok(paths) => Json(json!({ "paths": paths })).into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

/// Body of a fork request: the turn before which the new session branches off.
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
