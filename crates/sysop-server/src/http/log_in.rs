//! The login form, where a user types a token into the page, and the end of the login.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, header};
use axum::response::Response;
use schemars::JsonSchema;

use super::{SharedServer, body, problem};
use crate::Peer;

/// Maximum size of the form, in bytes. The sender is not authenticated, so no more than this is read.
const FORM_BYTES_MAX: usize = 1024;

/// Body of the login form, for the API description.
#[derive(JsonSchema)]
pub(super) struct LogInForm {
    #[expect(dead_code, reason = "`log_in` reads the form without a decoder")]
    token: String,
}

/// Checks the token and sets the page's cookie.
pub(super) async fn log_in(
    State(shared): State<SharedServer>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let (parts, form) = request.into_parts();
    let form = match body::read(form, &shared, FORM_BYTES_MAX).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let mut pairs =
        std::str::from_utf8(&form).unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    // The alphabet of tokens needs no percent encoding.
    let Some((_, token)) = pairs.find(|(name, _)| *name == "token") else {
        return problem::bad("the form has no `token`");
    };
    shared.authenticator.log_in(&parts, peer, token.into()).await
}

/// `GET /login.js`: the script of the login form.
pub(super) async fn script() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../auth/log_in.js"))
}

/// `POST /api/logout`.
pub(super) async fn log_out(
    State(shared): State<SharedServer>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    shared.authenticator.log_out(&parts, peer).await
}
