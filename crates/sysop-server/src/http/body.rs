//! Reading request bodies.

use axum::body::{Body, HttpBody};
use axum::extract::FromRequest;
use axum::http::{StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sysop_wire::ErrorCode;

use super::{SharedServer, problem};

/// Reads a body of at most `bytes_max` bytes; fails if it takes longer than `body_wait`.
pub(super) async fn read(body: Body, shared: &SharedServer, bytes_max: usize) -> Result<Bytes, Response> {
    let wait = shared.settings.body_wait;
    if let Ok(read) = tokio::time::timeout(wait, collect(body, bytes_max)).await {
        return read;
    }
    let why = format!("the request body did not arrive within {} s", wait.as_secs());
    Err(problem::of(StatusCode::REQUEST_TIMEOUT, ErrorCode::BadMessage, &why))
}

async fn collect(body: Body, bytes_max: usize) -> Result<Bytes, Response> {
    let too_large = || {
        let why = format!("the request body is too large; the limit is {bytes_max} bytes");
        problem::of(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge, &why)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large()); // according to `Content-Length`
    }
    let mut whole = BytesMut::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| problem::bad("cannot read the request body"))?;
        if whole.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// A JSON object body. Other content types are refused, because cross-origin pages can send them without a preflight.
pub(super) struct Object(pub(super) Map<String, Value>);

impl FromRequest<SharedServer> for Object {
    type Rejection = Response;

    async fn from_request(request: axum::extract::Request, shared: &SharedServer) -> Result<Self, Response> {
        let is_json =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(|kind| {
                let kind = kind.split(';').next().unwrap_or_default().trim();
                kind.eq_ignore_ascii_case("application/json")
            });
        let bytes = read(request.into_body(), shared, shared.settings.body_bytes_max).await?;
        if bytes.is_empty() && is_json != Some(false) {
            return Ok(Self(Map::new()));
        }
        if is_json != Some(true) {
            let why = "send JSON with `Content-Type: application/json`";
            return Err(problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::BadMessage, why));
        }
        match serde_json::from_slice(&bytes) {
            Ok(object) => Ok(Self(object)),
            Err(error) => Err(problem::bad(&format!("the request body is not a JSON object: {error}"))),
        }
    }
}

impl Object {
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Box<Response>> {
        serde_json::from_value(Value::Object(self.0))
            .map_err(|error| Box::new(problem::bad(&format!("invalid request body: {error}"))))
    }
}
