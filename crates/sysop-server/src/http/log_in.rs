//! The form where a person types a token into the page.

use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;

use super::{SharedServer, body, problem};
use crate::Peer;

/// The longest form, in bytes. Nobody knows yet who sends it: that is all that is read.
const FORM_BYTES_MAX: usize = 1024;

/// Gives a browser its cookie.
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
    // Tokens need no percent encoding.
    let Some((_, token)) = pairs.find(|(name, _)| *name == "token") else {
        return problem::bad("the form has no `token`");
    };
    shared.authenticator.log_in(&parts, peer, token.into()).await
}
