//! Who may enter, and what they may do there: the port that authentication implements.

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

/// What a route asks of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Nothing: everybody may call it, but not from everywhere (`Host` and `Origin` are still looked at).
    Public,
    /// To look at sessions.
    Read,
    /// To say something to a session that exists. What it is decides what it needs: see `dispatch`.
    Answer,
    /// To make sessions do something.
    Operate,
}

impl Scope {
    /// Whether a token of these scopes has enough to come in.
    pub fn is_met_by(self, scopes: Scopes) -> bool {
        match self {
            Self::Public | Self::Read => true,
            Self::Answer => scopes.operate || scopes.decide,
            Self::Operate => scopes.operate,
        }
    }
}

/// How the token of a caller came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenOrigin {
    /// When it was made.
    pub created: Timestamp,
    /// Whether a process of unknown origin made it, which a command of a session may have left behind.
    pub unattended: bool,
}

/// Who calls.
#[derive(Clone)]
pub struct Caller {
    /// The name for the log and for other people.
    pub name: String,
    /// What tells this caller from others, and stays the same from call to call.
    pub key: String,
    /// What they may do.
    pub scopes: Scopes,
    /// How their token came to be; `None` where there are no tokens.
    pub token: Option<TokenOrigin>,
    /// Cancelled when they may no longer do it: their sockets and streams must end then, within a second.
    pub ended: CancellationToken,
    /// Kept for as long as the request, the socket or the stream lives.
    pub hold: Option<Arc<dyn Any + Send + Sync>>,
}

/// Decides who may enter.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Lets a request for a route with this scope in, or answers it in the server's place.
    async fn admit(&self, request: &Parts, peer: Peer, scope: Scope) -> Result<Caller, Box<Response>>;

    /// Whether a path that is no route, or a route that needs nothing, is answered at all.
    fn admit_public(&self, request: &Parts, peer: Peer) -> Result<(), Box<Response>>;

    /// Whether a caller may open another session, after those that they opened already.
    fn check_session_quota(&self, caller: &Caller) -> Result<(), Box<Response>>;

    /// How long a caller has to wait before their next message on a socket is heard; it counts as a request.
    fn message_delay(&self, caller: &Caller) -> Option<Duration>;

    /// Answers the form of the page where a person types a token.
    async fn log_in(&self, request: &Parts, peer: Peer, token: SecretString) -> Response;

    /// Adds what every response has, whoever it is for; `origin` is that of the request.
    fn add_response_headers(&self, origin: Option<&HeaderValue>, response: &mut Response);
}

/// Lets everybody in who reaches the server: for tests, and for a server that only its own process can reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Authenticator for AllowAll {
    async fn admit(&self, _: &Parts, _: Peer, _: Scope) -> Result<Caller, Box<Response>> {
        Ok(Caller {
            name: "anyone".to_owned(),
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
