//! What those hear who are not let in, and the headers that every answer has.
//!
//! Says what is wrong with the address, which a browser's person can mend, and nothing about tokens.

use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::origin::Scheme;
use crate::Scope;

/// What the page may do: its own scripts only. Styles that scripts make are what a terminal on the page needs.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' \
     data:; connect-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
);

/// What every answer says to browsers, unless its handler says otherwise.
const ALWAYS: [(HeaderName, HeaderValue); 8] = [
    (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ),
];

/// How long a browser is to insist on TLS once it saw it.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds what every answer has.
pub(super) fn add_response_headers(headers: &mut HeaderMap, scheme: Scheme) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(value);
    }
    if scheme == Scheme::Https {
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(STRICT_TRANSPORT);
    }
}

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AuthError {
    /// The server does not answer to that name.
    Host,
    /// A page from elsewhere calls, or the page's cookie comes without a word of where from.
    Origin,
    /// No token, or none that opens anything.
    Token,
    /// As `Token`, and a person with a browser is there, who can type one.
    TokenInBrowser,
    /// The token may not do what this scope allows.
    Scope(Scope),
    /// A body that is not JSON.
    ContentType,
    /// Too much of something; after so many seconds it is not.
    RateLimited(u64),
    /// The tokens cannot be read.
    Unavailable,
}

impl AuthError {
    fn describe(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Host => (
                StatusCode::FORBIDDEN,
                "forbidden_host",
                "this server does not answer to that name; start it with --allow-host NAME if it should",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "forbidden_origin",
                "pages from there may not call this server; start it with --allow-origin ORIGIN if they should",
            ),
            Self::Token | Self::TokenInBrowser => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "a token is needed: Authorization: Bearer TOKEN")
            }
            Self::Scope(Scope::Answer) => (
                StatusCode::FORBIDDEN,
                "forbidden_scope",
                "this token may only look; the scope `decide` is needed, or `operate` in a session of its own",
            ),
            Self::Scope(Scope::Public | Scope::Read | Scope::Operate) => (
                StatusCode::FORBIDDEN,
                "forbidden_scope",
                "this token may not do that; the scope `operate` is needed",
            ),
            Self::ContentType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "send JSON as application/json",
            ),
            Self::RateLimited(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many", "too many requests; wait a little")
            }
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the server cannot look at tokens just now")
            }
        }
    }
}

impl IntoResponse for AuthError {
    fn into_response(self) -> Response {
        let (status, code, error) = self.describe();
        if self == Self::TokenInBrowser {
            return log_in_page(status);
        }
        let mut response = (status, axum::Json(json!({ "error": error, "code": code }))).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::RateLimited(seconds) = self {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Where a person can type a token.
fn log_in_page(status: StatusCode) -> Response {
    const PAGE: &str = include_str!("log_in.html");
    let mut response = (status, axum::response::Html(PAGE)).into_response();
    // A form of a page without referrers says `Origin: null`, and then nobody knows whose form it was.
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Sends a browser to the page with its cookie, and the token out of its address bar.
pub(super) fn redirect_to_page(cookie: Option<String>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Reads and writes the page's cookie. Browsers send cookies to every port of a name, so the port is in its name: two
/// servers on one machine do not log each other out.
#[derive(Debug, Clone)]
pub(super) struct Cookie {
    name: String,
    secure: bool,
}

impl Cookie {
    pub(super) fn new(scheme: Scheme, port: u16) -> Self {
        match scheme {
            Scheme::Http => Self { name: format!("sysop-{port}"), secure: false },
            Scheme::Https => Self { name: format!("__Host-sysop-{port}"), secure: true },
        }
    }

    /// What the browser is told to keep.
    pub(super) fn set(&self, token: &SecretString) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        // As long as the token at its other end may live.
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000{secure}",
            self.name,
            token.expose_secret()
        )
    }

    /// What the browser kept.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<SecretString> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, value)| value.into())
    }
}
