//! Responses to rejected requests, the headers of every response, and the page's cookie.
//!
//! A rejection says what is wrong with the URL, which the user can fix, and nothing about tokens.

use std::borrow::Cow;

use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::origin::{Authority, Scheme};
use crate::Scope;

/// Content security policy: only the page's own scripts. The page's terminal needs inline styles.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' \
     data:; connect-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
);

/// Default headers of every response; a handler may override them.
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

/// `Strict-Transport-Security` value: a max-age of one year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the default headers without overriding existing ones.
pub(super) fn add_response_headers(headers: &mut HeaderMap, scheme: Scheme) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(value);
    }
    if scheme == Scheme::Https {
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(STRICT_TRANSPORT);
    }
}

/// Maximum length of a host that a rejection names: a domain name and a port.
const HOST_BYTES_MAX: usize = 259;

/// Reason for rejecting a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AuthError {
    /// The server does not answer to this host; `None` if the request names none, or not in a valid form.
    Host(Option<Authority>),
    /// Cross-origin request, or a request with the page's cookie but without proof of its origin.
    Origin,
    Token,
    /// Like `Token`, but the client is a browser: answered with the login form.
    TokenInBrowser(SignIn),
    Scope(Scope),
    ContentType,
    /// Limit exceeded; contains the seconds until a retry can succeed.
    RateLimited(u64),
    /// The token store cannot be read.
    Unavailable,
}

impl AuthError {
    pub(super) fn describe(&self) -> (StatusCode, &'static str, Cow<'static, str>) {
        let (status, code, text) = match self {
            Self::Host(host) => {
                return (StatusCode::FORBIDDEN, "forbidden_host", host_refusal(host.as_ref()));
            }
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "forbidden_origin",
                "pages from that origin may not call this server; start it with --allow-origin ORIGIN to allow them",
            ),
            Self::Token | Self::TokenInBrowser(_) => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "authentication required; send `Authorization: Bearer TOKEN`",
            ),
            Self::Scope(Scope::Answer) => (
                StatusCode::FORBIDDEN,
                "forbidden_scope",
                "this token is read-only; answering needs the scope `decide`, or `operate` in a session that it opened",
            ),
            Self::Scope(Scope::Public | Scope::Read | Scope::Operate) => {
                (StatusCode::FORBIDDEN, "forbidden_scope", "this token lacks the scope `operate`")
            }
            Self::ContentType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "send JSON with `Content-Type: application/json`",
            ),
            Self::RateLimited(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many", "too many requests; try again later")
            }
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the server cannot check tokens right now")
            }
        };
        (status, code, Cow::Borrowed(text))
    }
}

fn host_refusal(host: Option<&Authority>) -> Cow<'static, str> {
    match host.map(Authority::to_string).filter(|host| host.len() <= HOST_BYTES_MAX) {
        Some(host) => format!(
            "this server does not accept requests for {host}; start it with --allow-host {host} to allow them"
        )
        .into(),
        None => {
            "this server does not accept that host name; start it with --allow-host NAME to allow it".into()
        }
    }
}

impl IntoResponse for AuthError {
    fn into_response(self) -> Response {
        let (status, code, error) = self.describe();
        if let Self::TokenInBrowser(why) = self {
            return log_in_page(status, why);
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

/// Cause for showing the login form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignIn {
    /// The request has no valid cookie.
    Required,
    /// The token in the URL was used before, was revoked, or has expired.
    UrlRejected,
    /// The token in the form is unknown, was revoked, or has expired.
    TokenRejected,
}

impl SignIn {
    fn describe(self) -> &'static str {
        match self {
            Self::Required => "<p>This browser is not signed in to this server.</p>",
            Self::UrlRejected => {
                "<p role=\"alert\">This link has been used or has expired. Sign in with a token.</p>"
            }
            Self::TokenRejected => {
                "<p role=\"alert\">This token is not valid. It may be mistyped, revoked or expired.</p>"
            }
        }
    }
}

fn log_in_page(status: StatusCode, why: SignIn) -> Response {
    const PAGE: &str = include_str!("log_in.html");
    let page = PAGE.replace("<!-- why -->", why.describe());
    let mut response = (status, axum::response::Html(page)).into_response();
    // Under `no-referrer`, browsers send the form with `Origin: null`, and its origin could not be checked.
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Redirects a browser to the page, which removes the token from its address bar, and sets the cookie.
pub(super) fn redirect_to_page(cookie: Option<String>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Reads and writes the page's cookie. Browsers send a cookie to every port of a host, so the port is part of the
/// cookie's name: two servers on one machine do not overwrite each other's login.
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

    pub(super) fn set(&self, token: &SecretString) -> String {
        // Max-Age is the lifetime of a page's token: 30 days.
        self.line(token.expose_secret(), 2_592_000)
    }

    pub(super) fn clear(&self) -> String {
        self.line("", 0)
    }

    fn line(&self, value: &str, max_age_s: u32) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age_s}{secure}", self.name)
    }

    pub(super) fn read(&self, headers: &HeaderMap) -> Option<SecretString> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, value)| value.into())
    }
}
