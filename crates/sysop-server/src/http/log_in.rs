//! The form where a person types a token into the page.

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::request::Parts;
use axum::response::Response;

use super::{Shared, problem};
use crate::Peer;

/// The longest form, in bytes.
const FORM_BYTES_MAX: usize = 1024;

/// Gives a browser its cookie.
pub(super) async fn log_in(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    parts: Parts,
    form: Bytes,
) -> Response {
    let form = std::str::from_utf8(&form).ok().filter(|form| form.len() <= FORM_BYTES_MAX);
    let mut pairs = form.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    // Tokens need no percent encoding.
    let Some((_, token)) = pairs.find(|(name, _)| *name == "token") else {
        return problem::bad("the form has no `token`");
    };
    shared.guard.log_in(&parts, peer, token.into()).await
}
