//! The `Authenticator` trait: decides who is admitted to which route, and with which scopes.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use secrecy::SecretString;
use sysop_core::id::Timestamp;
use sysop_driver::tokens::Scopes;
use tokio_util::sync::CancellationToken;

use crate::Peer;

/// Scope that a route requires of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// No token needed; `Host` and `Origin` are still checked.
    Public,
    Read,
    /// Send messages to an existing session. `dispatch` then checks the scope that the message itself needs.
    Answer,
    Operate,
}

impl Scope {
    /// Returns true if a token with these scopes is admitted to the route.
    pub fn is_met_by(self, scopes: Scopes) -> bool {
        match self {
            Self::Public | Self::Read => true,
            Self::Answer => scopes.operate || scopes.decide,
            Self::Operate => scopes.operate,
        }
    }
}

/// Provenance of a caller's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenOrigin {
    pub created: Timestamp,
    /// True if a process of unknown origin created the token, for example one that a session's command left running.
    pub unattended: bool,
}

#[derive(Clone)]
pub struct Caller {
    /// Display name, for the log and for other users.
    pub name: String,
    /// System user to whom the caller's decisions are attributed: the owner of the token.
    pub person: String,
    /// Stable identity across requests: the id of the token, or of the token that the page was opened with.
    pub key: String,
    pub scopes: Scopes,
    /// Provenance of the token; `None` if the authenticator uses no tokens.
    pub token: Option<TokenOrigin>,
    /// Canceled when the token is revoked or expires. The caller's sockets and streams must end within a second.
    pub ended: CancellationToken,
    /// Permit of the connection limit, held as long as the request, the socket or the stream lasts.
    pub hold: Option<Arc<dyn Any + Send + Sync>>,
}

/// A link that opens the page once in another browser.
#[derive(Debug)]
pub struct PageLink {
    pub token: SecretString,
    /// Time until which the link must be opened.
    pub expires: Timestamp,
}

/// Authenticates requests and enforces the callers' limits.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Admits a request for a route with this scope, or returns the response to send instead.
    async fn admit(&self, request: &Parts, peer: Peer, scope: Scope) -> Result<Caller, Box<Response>>;

    /// Checks a request that needs no token (a public route or an unknown path), or returns the response to send
    /// instead.
    fn admit_public(&self, request: &Parts, peer: Peer) -> Result<(), Box<Response>>;

    /// Counts one more opened session, or returns the response to send if the caller's quota is used up.
    fn check_session_quota(&self, caller: &Caller) -> Result<(), Box<Response>>;

    /// Counts one message on a socket as a request. Returns the time to wait before reading the message, or `None` if
    /// the caller is within its limits.
    fn message_delay(&self, caller: &Caller) -> Option<Duration>;

    /// Answers the login form, where a user types a token.
    async fn log_in(&self, request: &Parts, peer: Peer, token: SecretString) -> Response;

    /// Logs out the browser that sent the request: its cookie is cleared and works no longer. Without log-ins, there is
    /// nothing to do.
    async fn log_out(&self, request: &Parts, peer: Peer) -> Response {
        let _ = (request, peer);
        axum::http::StatusCode::NO_CONTENT.into_response()
    }

    /// Creates a link that opens the page once in another browser, with the caller's scopes or only with `read`. If
    /// that is not possible, returns the response to send instead.
    async fn link(&self, caller: &Caller, scopes: Scopes) -> Result<PageLink, Box<Response>> {
        let _ = (caller, scopes);
        Err(Box::new(axum::http::StatusCode::NOT_FOUND.into_response()))
    }

    /// Adds the headers that every response needs. `origin` is the request's `Origin` header.
    fn add_response_headers(&self, origin: Option<&HeaderValue>, response: &mut Response);
}

/// Admits every request. For tests, and for a server that only its own process can reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Authenticator for AllowAll {
    async fn admit(&self, _: &Parts, _: Peer, _: Scope) -> Result<Caller, Box<Response>> {
        Ok(Caller {
            name: "anyone".to_owned(),
            person: "anyone".to_owned(),
            key: "anyone".to_owned(),
            scopes: Scopes::ALL,
            token: None,
            ended: CancellationToken::new(),
            hold: None,
        })
    }

    fn admit_public(&self, _: &Parts, _: Peer) -> Result<(), Box<Response>> {
        Ok(())
    }

    fn check_session_quota(&self, _: &Caller) -> Result<(), Box<Response>> {
        Ok(())
    }

    fn message_delay(&self, _: &Caller) -> Option<Duration> {
        None
    }

    async fn log_in(&self, _: &Parts, _: Peer, _: SecretString) -> Response {
        axum::http::StatusCode::NOT_FOUND.into_response()
    }

    fn add_response_headers(&self, _: Option<&HeaderValue>, _: &mut Response) {}
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
