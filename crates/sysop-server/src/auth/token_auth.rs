//! Checks every request before its handler: host, origin, token, scope, content type, limits.
//!
//! The order matters: a request with a wrong host or origin is refused whatever token it presents, and a request
//! without a token costs at most one hash and a bounded number of store reads.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use secrecy::SecretString;
use sysop_driver::tokens::{Scopes, TokenId};

use super::origin::{HostPolicy, Scheme, check_origin};
use super::proxy::{ClientAddress, Proxies};
use super::responses::{AuthError, Cookie, SignIn, add_response_headers, redirect_to_page};
use super::tokens::{Bearer, CredentialKind, Tokens};
use crate::limits::{ConcurrencyLimiter, Limits, PeerKey, RateLimiter, RetryAfter, UnauthenticatedSlot};
use crate::{Authenticator, Caller, PageLink, Peer, Scope, TokenOrigin};

const QUERY_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone)]
pub struct TokenAuthSettings {
    pub host_policy: HostPolicy,
    /// True if the server itself speaks TLS.
    pub tls: bool,
    /// Proxies whose forwarded headers are trusted.
    pub proxies: Proxies,
    pub limits: Limits,
}

/// Authenticates requests by token. The module documentation gives the order of the checks.
#[derive(Debug)]
pub struct TokenAuth {
    tokens: Arc<Tokens>,
    settings: TokenAuthSettings,
    failures: RateLimiter<PeerKey>,
    requests: RateLimiter<TokenId>,
    sessions: RateLimiter<TokenId>,
    connections: ConcurrencyLimiter<TokenId>,
}

/// Facts about a request that are known before its token is read.
struct RequestOrigin {
    address: IpAddr,
    scheme: Scheme,
    port: u16,
    /// True if one of the server's own pages made the request.
    is_same_origin: bool,
    has_origin_header: bool,
}

impl TokenAuth {
    pub fn new(tokens: Arc<Tokens>, settings: TokenAuthSettings) -> Self {
        let limits = &settings.limits;
        Self {
            tokens,
            failures: RateLimiter::new(limits.failures),
            requests: RateLimiter::new(limits.requests),
            sessions: RateLimiter::new(limits.sessions),
            connections: ConcurrencyLimiter::new(limits.connections),
            settings,
        }
    }

    /// Checks `Host` and `Origin`; also used for routes without a token.
    fn check_origin(&self, request: &Parts, peer: Peer) -> Result<RequestOrigin, AuthError> {
        let ClientAddress { address, scheme } =
            self.settings.proxies.client_address(peer.0, &request.headers);
        let scheme = if self.settings.tls { Scheme::Https } else { scheme.unwrap_or(Scheme::Http) };
        let page = check_origin(&self.settings.host_policy, scheme, request)?;
        Ok(RequestOrigin {
            address,
            scheme,
            port: page.host.port_or_usual(scheme),
            is_same_origin: page.is_same_origin,
            has_origin_header: page.has_origin_header,
        })
    }

    async fn authenticate(&self, request: &Parts, peer: Peer, scope: Scope) -> Result<Caller, Box<Response>> {
        let request_origin = self.check_origin(request, peer).map_err(refuse)?;
        if request.method == Method::OPTIONS {
            return Err(Box::new(preflight(&request.headers)));
        }
        let cookie = Cookie::new(request_origin.scheme, request_origin.port);
        let shown = credential_of(request, &cookie)
            .map_err(|refusal| refuse(self.count_failure(&request_origin, refusal)))?;
        let bearer = match &shown {
            Some((token, how)) => {
                self.tokens.bearer(token, *how).await.map_err(|error| refuse(unavailable(&error)))?
            }
            None => None,
        };
        if let Some(token) = token_from_query(request) {
            let known = bearer.is_some();
            return Err(Box::new(self.visit(&request_origin, &cookie, &token, known).await));
        }
        let Some(bearer) = bearer else {
            let refusal = if wants_page(request) {
                AuthError::TokenInBrowser(SignIn::Required)
            } else {
                AuthError::Token
            };
            return Err(refuse(self.count_failure(&request_origin, refusal)));
        };
        if let Some(connection) = request.extensions.get::<UnauthenticatedSlot>() {
            connection.mark_authenticated();
        }
        let by_cookie = shown.is_some_and(|(_, how)| how == CredentialKind::Cookie);
        check(request, &request_origin, by_cookie, &bearer, scope).map_err(refuse)?;
        self.requests
            .try_acquire(&bearer.id)
            .map_err(|wait| refuse(AuthError::RateLimited(wait.seconds())))?;
        let permit = self.connections.take(&bearer.id).ok_or_else(|| refuse(AuthError::RateLimited(1)))?;
        Ok(Caller {
            name: bearer.name,
            person: bearer.owner,
            key: bearer.id.as_str().to_owned(),
            scopes: bearer.scopes,
            token: Some(TokenOrigin { created: bearer.created, unattended: bearer.unattended }),
            ended: bearer.ended,
            hold: Some(Arc::new(permit)),
        })
    }

    /// Handles a browser that presents a token in the page's URL: sets a cookie and redirects to the page.
    async fn visit(
        &self,
        request_origin: &RequestOrigin,
        cookie: &Cookie,
        token: &SecretString,
        known: bool,
    ) -> Response {
        if known {
            return redirect_to_page(None); // already logged in; no visit is spent
        }
        match self.tokens.visit(token).await {
            Ok(Some(page)) => redirect_to_page(Some(cookie.set(&page))),
            Ok(None) => self
                .count_failure(request_origin, AuthError::TokenInBrowser(SignIn::UrlRejected))
                .into_response(),
            Err(error) => unavailable(&error).into_response(),
        }
    }

    /// Counts a failure for the client's address. Returns `RateLimited` instead of the refusal if there were too many.
    fn count_failure(&self, request_origin: &RequestOrigin, refusal: AuthError) -> AuthError {
        match self.failures.try_acquire(&request_origin.address.into()) {
            Ok(()) => refusal,
            Err(wait) => AuthError::RateLimited(wait.seconds()),
        }
    }
}

#[async_trait]
impl Authenticator for TokenAuth {
    async fn admit(&self, request: &Parts, peer: Peer, scope: Scope) -> Result<Caller, Box<Response>> {
        self.authenticate(request, peer, scope).await
    }

    fn admit_public(&self, request: &Parts, peer: Peer) -> Result<(), Box<Response>> {
        self.check_origin(request, peer).map(drop).map_err(refuse)
    }

    fn check_session_quota(&self, caller: &Caller) -> Result<(), Box<Response>> {
        let booked = self.sessions.try_acquire(&TokenId::new(caller.key.as_str()));
        booked.map_err(|wait| refuse(AuthError::RateLimited(wait.seconds())))
    }

    fn message_delay(&self, caller: &Caller) -> Option<Duration> {
        self.requests.try_acquire(&TokenId::new(caller.key.as_str())).err().map(|RetryAfter(wait)| wait)
    }

    async fn log_in(&self, request: &Parts, peer: Peer, token: SecretString) -> Response {
        let request_origin = match self.check_origin(request, peer) {
            Ok(request_origin) => request_origin,
            Err(refusal) => return refusal.into_response(),
        };
        if !request_origin.is_same_origin {
            return AuthError::Origin.into_response();
        }
        let logged_in = match self.tokens.log_in(&token).await {
            Ok(None) => self.tokens.visit(&token).await, // the token of a link, whose URL was pasted
            logged_in => logged_in,
        };
        match logged_in {
            Ok(Some(page)) => {
                let cookie = Cookie::new(request_origin.scheme, request_origin.port);
                redirect_to_page(Some(cookie.set(&page)))
            }
            Ok(None) => {
                let refusal = AuthError::TokenInBrowser(SignIn::TokenRejected);
                self.count_failure(&request_origin, refusal).into_response()
            }
            Err(error) => unavailable(&error).into_response(),
        }
    }

    async fn log_out(&self, request: &Parts, peer: Peer) -> Response {
        let request_origin = match self.check_origin(request, peer) {
            Ok(request_origin) => request_origin,
            Err(refusal) => return refusal.into_response(),
        };
        if !request_origin.is_same_origin {
            return AuthError::Origin.into_response();
        }
        let cookie = Cookie::new(request_origin.scheme, request_origin.port);
        let is_logged_out = match cookie.read(&request.headers) {
            Some(token) => self.tokens.log_out(&token).await,
            None => Ok(false),
        };
        match is_logged_out {
            Ok(true) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie.clear())]).into_response(),
            Ok(false) => self.count_failure(&request_origin, AuthError::Token).into_response(),
            Err(error) => unavailable(&error).into_response(),
        }
    }

    async fn link(&self, caller: &Caller, scopes: Scopes) -> Result<PageLink, Box<Response>> {
        let asked = Scopes {
            operate: scopes.operate && caller.scopes.operate,
            decide: scopes.decide && caller.scopes.decide,
        };
        let of = TokenId::new(caller.key.as_str());
        match self.tokens.link(&of, asked).await {
            Ok(Some((token, expires))) => Ok(PageLink { token, expires }),
            Ok(None) => Err(refuse(AuthError::Token)),
            Err(error) => Err(refuse(unavailable(&error))),
        }
    }

    fn add_response_headers(&self, origin: Option<&HeaderValue>, response: &mut Response) {
        let scheme = if self.settings.tls { Scheme::Https } else { Scheme::Http };
        let headers = response.headers_mut();
        add_response_headers(headers, scheme);
        let parsed = origin.and_then(|origin| origin.to_str().ok()?.parse().ok());
        if let (Some(origin), Some(parsed)) = (origin, parsed)
            && self.settings.host_policy.allows_origin(&parsed)
        {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
            headers.insert(
                HeaderName::from_static("cross-origin-resource-policy"),
                HeaderValue::from_static("cross-origin"),
            );
        }
    }
}

fn refuse(refusal: AuthError) -> Box<Response> {
    Box::new(refusal.into_response())
}

fn unavailable(error: &sysop_driver::port::StoreError) -> AuthError {
    tracing::error!(%error, "cannot read the tokens; rejecting all requests");
    AuthError::Unavailable
}

/// Returns the token that a request presents, and its kind.
fn credential_of(
    request: &Parts,
    cookie: &Cookie,
) -> Result<Option<(SecretString, CredentialKind)>, AuthError> {
    let mut lines = request.headers.get_all(header::AUTHORIZATION).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => {
            let line = line.to_str().map_err(|_| AuthError::Token)?;
            let (scheme, token) = line.split_once(' ').ok_or(AuthError::Token)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(AuthError::Token);
            }
            Ok(Some((token.trim().into(), CredentialKind::Explicit)))
        }
        (Some(_), Some(_)) => Err(AuthError::Token),
        (None, _) => Ok(cookie.read(&request.headers).map(|token| (token, CredentialKind::Cookie))),
    }
}

fn token_from_query(request: &Parts) -> Option<SecretString> {
    if request.method != Method::GET || request.uri.path() != "/" {
        return None;
    }
    let query = request.uri.query().filter(|query| query.len() <= QUERY_BYTES_MAX)?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    // The alphabet of tokens needs no percent encoding.
    pairs.find(|(name, _)| *name == "token").map(|(_, token)| token.into())
}

fn wants_page(request: &Parts) -> bool {
    let accept = request.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    request.method == Method::GET && accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Checks a request that has a valid token: its origin if the token came by cookie, its scope, and its content type.
fn check(
    request: &Parts,
    request_origin: &RequestOrigin,
    by_cookie: bool,
    bearer: &Bearer,
    scope: Scope,
) -> Result<(), AuthError> {
    let read_only = matches!(request.method, Method::GET | Method::HEAD);
    let upgrades = request.headers.contains_key(header::UPGRADE);
    if by_cookie {
        // Browsers attach the cookie by themselves, so the request must prove that our own page made it.
        let proven = if upgrades {
            request_origin.has_origin_header && request_origin.is_same_origin
        } else {
            request_origin.is_same_origin
        };
        if (upgrades || !read_only) && !proven {
            return Err(AuthError::Origin);
        }
    }
    // Safeguard for a route that declares too low a scope: a method that writes always needs at least `Operate`.
    let needed = match scope {
        Scope::Public | Scope::Read if !read_only => Scope::Operate,
        Scope::Public | Scope::Read | Scope::Answer | Scope::Operate => scope,
    };
    if !needed.is_met_by(bearer.scopes) {
        return Err(AuthError::Scope(needed));
    }
    if !read_only && has_body(&request.headers) && !needs_preflight(&request.headers) {
        return Err(AuthError::ContentType);
    }
    Ok(())
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).map(HeaderValue::as_bytes);
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.contains_key(header::CONTENT_TYPE)
        || length.is_some_and(|length| length != b"0")
}

/// Returns true if the body is JSON or an image: a cross-origin page cannot send either without a preflight.
fn needs_preflight(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else { return false };
    let Ok(kind) = kind.to_str() else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(kind.as_str(), "application/json" | "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Answers a CORS preflight request. `add_response_headers` adds the allowed origin.
fn preflight(headers: &HeaderMap) -> Response {
    if !headers.contains_key(header::ORIGIN) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, last-event-id, traceparent"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, allowed).into_response()
}
