//! Liveness, readiness and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::SharedServer;

#[derive(Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum OkStatus {
    Ok,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum Readiness {
    Ready,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum Unreadiness {
    NotReady { missing: String },
}

/// Liveness: always 200.
pub(super) async fn alive() -> Json<OkStatus> {
    Json(OkStatus::Ok)
}

/// Readiness: 200, or 503 with the reason.
pub(super) async fn ready(State(shared): State<SharedServer>) -> Response {
    let missing = if shared.is_open() {
        let backend = &shared.registry.backend;
        backend.readiness_error().await.map(|missing| backend.without_folders(missing))
    } else {
        Some("the server is shutting down".to_owned())
    };
    match missing {
        None => Json(Readiness::Ready).into_response(),
        Some(missing) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(Unreadiness::NotReady { missing })).into_response()
        }
    }
}

/// Metrics in the OpenMetrics text format.
pub(super) async fn metrics(State(shared): State<SharedServer>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(axum::http::header::CONTENT_TYPE, kind)],
        shared.metrics.text(shared.registry.backend.live_session_count()),
    )
        .into_response()
}
