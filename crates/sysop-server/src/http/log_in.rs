//! The login form, where a user types a token into the page, and the end of the login.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, StatusCode, header};
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
    let Some((_, typed)) = pairs.find(|(name, _)| *name == "token") else {
        return problem::bad("the form has no `token`");
    };
    shared.authenticator.log_in(&parts, peer, token_in(typed).into()).await
}

/// Returns the token in the form's field, which may contain the whole URL that the server printed.
fn token_in(typed: &str) -> &str {
    let behind = |mark| typed.rsplit_once(mark).map(|(_, token)| token);
    let token = behind("token%3D").or_else(|| behind("token=")).unwrap_or(typed);
    let token = token.trim_start_matches('+'); // a space
    // The alphabet of tokens needs no percent encoding.
    let end = token.find(|sign: char| !(sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-')));
    &token[..end.unwrap_or(token.len())]
}

/// `GET /login`: the address of a form with a wrong token, opened again.
pub(super) async fn to_page() -> (StatusCode, [(HeaderName, &'static str); 1]) {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")])
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

#[cfg(test)]
mod tests {
    use super::token_in;

    #[test]
    fn the_field_accepts_a_token_and_the_printed_url() {
        for typed in [
            "sysop_aB-9_",
            "+sysop_aB-9_+",
            "https%3A%2F%2F127.0.0.1%3A8732%2F%3Ftoken%3Dsysop_aB-9_",
            "https%3A%2F%2F127.0.0.1%3A8732%2F%3Ftoken%3Dsysop_aB-9_%23%2Fsession%2F7",
            "https://127.0.0.1:8732/?token=sysop_aB-9_#x",
            "%3Ftoken%3Dsysop_aB-9_+",
        ] {
            assert_eq!(token_in(typed), "sysop_aB-9_", "{typed}");
        }
        assert_eq!(token_in("https%3A%2F%2Fexample.org%2F"), "https", "no token, which no server accepts");
        assert_eq!(token_in(""), "");
    }
}
