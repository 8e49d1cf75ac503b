//! Error responses: one sentence for people and a code for programs.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use sysop_wire::ErrorCode;

use crate::ServerInner;
use crate::backend::BackendError;
use crate::dispatch::{DRAINING, MessageRejection};

/// Body of every error.
#[derive(Serialize, JsonSchema)]
pub(super) struct Problem {
    /// One sentence for display.
    error: String,
    /// Code for programs, as in the `error` message.
    #[schemars(with = "String")]
    code: ErrorCode,
}

pub(crate) fn of(status: StatusCode, code: ErrorCode, why: &str) -> Response {
    (status, Json(Problem { error: why.to_owned(), code })).into_response()
}

/// 400: the request is malformed.
pub(crate) fn bad(why: &str) -> Response {
    of(StatusCode::BAD_REQUEST, ErrorCode::BadMessage, why)
}

/// 503: the server is shutting down.
pub(crate) fn draining() -> Response {
    of(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Draining, DRAINING)
}

/// The session does not exist or cannot be opened.
pub(crate) fn backend_error(shared: &ServerInner, error: &BackendError) -> Response {
    let (status, code) = match error {
        BackendError::NotFound(_) => (StatusCode::NOT_FOUND, ErrorCode::NoSession),
        BackendError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::BadMessage),
        BackendError::InUse(_) => (StatusCode::CONFLICT, ErrorCode::Busy),
        BackendError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal),
    };
    if status.is_server_error() {
        tracing::error!(%error, "cannot open a session");
    }
    of(status, code, &shared.registry.backend.without_folders(error.to_string()))
}

pub(crate) fn rejection(shared: &ServerInner, refused: &MessageRejection) -> Response {
    let status = match refused.code {
        ErrorCode::BadMessage => StatusCode::BAD_REQUEST,
        ErrorCode::BadManifest => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::TooMany => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NoSession => StatusCode::NOT_FOUND,
        ErrorCode::Stale | ErrorCode::Busy | ErrorCode::Closed | ErrorCode::NoTerminal => {
            StatusCode::CONFLICT
        }
        ErrorCode::TooSlow | ErrorCode::Draining => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    of(status, refused.code, &shared.registry.backend.without_folders(refused.why.clone()))
}
