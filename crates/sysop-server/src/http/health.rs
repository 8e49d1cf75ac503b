//! Liveness, readiness and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::SharedServer;

/// Liveness: always 200.
pub(super) async fn alive() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
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
        None => Json(json!({ "status": "ready" })).into_response(),
        Some(missing) => {
            let said = Json(json!({ "status": "not_ready", "missing": missing }));
            (StatusCode::SERVICE_UNAVAILABLE, said).into_response()
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
