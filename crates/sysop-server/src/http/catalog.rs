//! Endpoints for front ends besides the messages of a session: hosts, models, path completion, and forking a session.

use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysop_core::id::{SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::skill::Skill;

use super::body::Object;
use super::sessions::Created;
use super::{SharedServer, problem};
use crate::authenticator::Caller;

const PATHS_MAX: usize = 1000;
/// Number of paths if the request has no `limit`.
const PATHS_DEFAULT: usize = 100;
const WORD_CHARS_MAX: usize = 4096;

#[derive(Serialize, JsonSchema)]
pub(super) struct HostList {
    hosts: Vec<HostRow>,
}

#[derive(Serialize, JsonSchema)]
struct HostRow {
    name: String,
    description: String,
    /// Approval mode of a session on this host for which none is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    approve: Option<ApprovalMode>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ModelList {
    models: Vec<ModelRef>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PathList {
    paths: Vec<String>,
}

/// `GET /api/hosts`.
pub(super) async fn hosts(State(shared): State<SharedServer>) -> Json<HostList> {
    let backend = &shared.registry.backend;
    let hosts = backend.hosts().into_iter().map(|host| {
        let approve = backend.default_approval(&host.name);
        HostRow { name: host.name, description: host.description, approve }
    });
    Json(HostList { hosts: hosts.collect() })
}

/// `GET /api/models`.
pub(super) async fn models(State(shared): State<SharedServer>) -> Json<ModelList> {
    Json(ModelList { models: shared.registry.backend.models().await })
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SkillList {
    skills: Vec<Skill>,
}

/// `GET /api/agent/sessions/{id}/skills`.
pub(super) async fn skills(State(shared): State<SharedServer>, Path(id): Path<String>) -> Response {
    match shared.registry.backend.skills(&SessionId::new(id)).await {
        Ok(skills) => Json(SkillList { skills }).into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct PathsQuery {
    /// Text that the paths contain.
    #[serde(default)]
    #[schemars(length(max = WORD_CHARS_MAX))]
    word: String,
    /// Maximum number of paths; 100 if omitted.
    #[schemars(range(min = 1, max = PATHS_MAX))]
    limit: Option<usize>,
}

/// `GET /api/agent/sessions/{id}/paths`.
pub(super) async fn paths(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    query: Result<Query<PathsQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(PathsQuery { word, limit })) = query else {
        return problem::bad("`word` must be a string and `limit` a number");
    };
    let limit = limit.unwrap_or(PATHS_DEFAULT);
    if !(1..=PATHS_MAX).contains(&limit) {
        return problem::bad(&format!("`limit` must be a number from 1 to {PATHS_MAX}"));
    }
    if word.chars().count() > WORD_CHARS_MAX {
        return problem::bad(&format!("`word` must have at most {WORD_CHARS_MAX} characters"));
    }
    match shared.registry.backend.paths(&SessionId::new(id), &word, limit).await {
        Ok(paths) => Json(PathList { paths }).into_response(),
        Err(error) => problem::backend_error(&shared, &error),
    }
}

/// Body of a fork request: the turn before which the new session branches off.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
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
            let created = Json(Created { session_id: made });
            (StatusCode::CREATED, [(header::LOCATION, place)], created).into_response()
        }
        Err(error) => problem::backend_error(&shared, &error),
    }
}
