//! Bodies of requests.

use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::rejection::BytesRejection;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sysop_wire::ErrorCode;

use super::{SharedServer, problem};

/// Reads a body; who sends it drop by drop is let go of.
pub(super) async fn read(request: axum::extract::Request, shared: &SharedServer) -> Result<Bytes, Response> {
    let wait = shared.settings.body_wait;
    match tokio::time::timeout(wait, Bytes::from_request(request, shared)).await {
        Ok(read) => read.map_err(|rejection| unread(&rejection)),
        Err(_) => {
            let why = format!("the body did not come within {} s", wait.as_secs());
            Err(problem::of(StatusCode::REQUEST_TIMEOUT, ErrorCode::BadMessage, &why))
        }
    }
}

/// A JSON object, and nothing but one: a form or a text of another origin's page is no message.
pub(super) struct Object(pub(super) Map<String, Value>);

impl FromRequest<SharedServer> for Object {
    type Rejection = Response;

    async fn from_request(request: axum::extract::Request, shared: &SharedServer) -> Result<Self, Response> {
        let is_json =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(|kind| {
                let kind = kind.split(';').next().unwrap_or_default().trim();
                kind.eq_ignore_ascii_case("application/json")
            });
        let bytes = read(request, shared).await?;
        if bytes.is_empty() && is_json != Some(false) {
            return Ok(Self(Map::new()));
        }
        if is_json != Some(true) {
            let why = "send JSON with `Content-Type: application/json`";
            return Err(problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::BadMessage, why));
        }
        match serde_json::from_slice(&bytes) {
            Ok(object) => Ok(Self(object)),
            Err(error) => Err(problem::bad(&format!("the body is no JSON object: {error}"))),
        }
    }
}

impl Object {
    /// The object as what it stands for.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Box<Response>> {
        serde_json::from_value(Value::Object(self.0))
            .map_err(|error| Box::new(problem::bad(&format!("the body cannot be used: {error}"))))
    }
}

fn unread(rejection: &BytesRejection) -> Response {
    let status = rejection.status();
    let (code, why) = if status == StatusCode::PAYLOAD_TOO_LARGE {
        (ErrorCode::TooLarge, "the body is too large")
    } else {
        (ErrorCode::BadMessage, "the body cannot be read")
    };
    problem::of(status, code, why)
}
